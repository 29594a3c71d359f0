"""How stages select their input and output, how batches are searched for tensors, and which settings stages take
over from the loop."""

import collections
import contextlib
import copy
import dataclasses

from loops import batches, encoder
import numpy
import pytest
from tensors import all_equal
import torch
from torch import nn

import slipstream as ss


@pytest.mark.parametrize("serial", [False, True])
def test_stages_run_without_gradients(device, serial):
    weight = torch.ones(1, device=device, requires_grad=True)
    seen = []
    for x, *_ in ss.Pipeline(batches(2), [("stage", lambda x: x * weight)], device, serial=serial):
        seen.append((x.requires_grad, torch.is_grad_enabled()))
    assert seen == [(False, True)] * 2


def normed(device):
    return nn.Sequential(nn.BatchNorm2d(3), nn.ReLU()).eval().requires_grad_(False).to(device)


@pytest.mark.parametrize("name", ["running_mean", "running_var"])
def test_changing_a_stage_buffer_in_the_loop_raises(device, name):
    encode = normed(device)
    assert len(list(ss.Pipeline(batches(), [("encode", encode)], device))) == 9
    with pytest.raises(ss.Error, match="has been written"):
        for _ in ss.Pipeline(batches(), [("encode", encode)], device):
            getattr(encode[0], name).mul_(0.9)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 1)

    def encode(self, x):
        return self.conv(x)


def test_module_of_a_bound_method_stage_is_checked(device):
    model = Encoder().to(device)
    with pytest.raises(ss.Refused, match=r"parameters that require gradients \(conv.weight(.|\n)*training mode"):
        ss.Pipeline([], [("encode", model.encode)], device)
    model.requires_grad_(False)
    with pytest.raises(ss.Refused, match="'encode' is in training mode"):
        ss.Pipeline([], [("encode", model.encode)], device)
    model.eval()
    with pytest.raises(ss.Error, match="has been written"):
        for _ in ss.Pipeline(batches(), [("encode", model.encode)], device):
            model.conv.weight.mul_(0.9)


Point = collections.namedtuple("Point", "image label more")


@dataclasses.dataclass
class Record:
    image: torch.Tensor
    label: torch.Tensor


class Images(list):
    pass


def one():
    return torch.ones(2)


FORMS = [
    ((one(), one() * 2, one() * 3), {"input": 1}, {1: 4}),
    ([one(), one() * 2, one() * 3], {"input": 1, "output": 2}, {2: 4}),
    (Point(one(), one() * 2, one() * 3), {"input": 2}, {2: 6}),
    (Point(one(), one() * 2, one() * 3), {"input": "label", "output": 0}, {0: 4}),
    (Images([one(), one() * 2]), {"input": 1}, {1: 4}),
    ({"image": one(), "label": one() * 2}, {"input": "label"}, {"label": 4}),
    (collections.OrderedDict(image=one(), label=one() * 2), {"input": "label", "output": "image"}, {"image": 4}),
    (Record(one(), one() * 2), {"input": "label"}, {"label": 4}),
]


def read_values(batch):
    whole = vars(batch) if isinstance(batch, Record) else batch
    pairs = whole.items() if hasattr(whole, "items") else enumerate(whole)
    return {key: value[0].item() for key, value in pairs}


@pytest.mark.parametrize(("batch", "keys", "changed"), FORMS)
def test_stage_reads_its_input_and_writes_its_output_field(device, batch, keys, changed):
    before = read_values(copy.deepcopy(batch))
    stage = ss.Stage("double", lambda x: x * 2, **keys)
    (through,) = ss.Pipeline([batch], [stage], device)
    for result in (stage(batch), through):
        assert read_values(result) == before | changed and type(result) is type(batch) and result is not batch
        assert read_values(batch) == before


def test_the_first_input_is_the_default_output():
    stage = ss.Stage("sum", lambda a, b: a + b, input=["a", "b"])
    assert read_values(stage({"a": one(), "b": one() * 2})) == {"a": 3, "b": 2}


@pytest.mark.parametrize(("result", "kind"), [
    (lambda x: (x, x, x), "tuple"), (lambda x: x, "Tensor"), (lambda x: None, "NoneType"), (lambda x: [x], "list"),
])
def test_wrong_number_of_stage_outputs_raises(device, result, kind):
    stage = ss.Stage("two", result, "a", ["a", "b"])
    message = f"'two' has 2 outputs, so its function must return a tuple of 2 elements, not {kind}"
    with pytest.raises(ss.Error, match=message):
        list(ss.Pipeline([{"a": one()}], [stage], device))


@pytest.mark.parametrize("seed", [-1, 1 << 63, 1.5, "a", True])
def test_stage_seed_out_of_range_is_refused(seed):
    with pytest.raises(ss.Refused, match=r"stage 'noise': seed is .*: give a whole number from 0 to 2\*\*63 - 1"):
        ss.Stage("noise", abs, seed=seed)


@pytest.mark.parametrize("keys", [1.5, (), [], True, [None], [0, 1.5], {"image"}])
def test_stage_input_and_output_must_be_index_or_key(keys):
    for option in ("input", "output"):
        with pytest.raises(ss.Refused, match=f"stage 'noise': {option} is .*: give an index or a key of the batch"):
            ss.Stage("noise", abs, **{option: keys})
    assert ss.Stage("noise", abs, input=numpy.int64(1), seed=numpy.int64(3))((0, -1)) == (0, 1)


@pytest.mark.parametrize("serial", [False, True])
def test_stages_with_same_seed_generate_different_numbers(device, serial):
    noise = [ss.Stage(name, torch.rand_like, seed=1, output=i) for i, name in enumerate("ab")]
    ((a, b),) = ss.Pipeline([(one(), one())], noise, device, serial=serial)
    ((_, alone),) = ss.Pipeline([(one(), one())], noise[1:], device)
    assert not torch.equal(a, b) and torch.equal(b, alone)


def test_set_epoch_determines_random_numbers_of_stages(device):
    stage = ss.Stage("noise", lambda x: x + torch.rand_like(x), seed=1)
    pipe = ss.Pipeline([one()] * 3, [stage], device)
    by_pass = [torch.stack(list(pipe)) for _ in range(3)]
    assert len({each.sum().item() for each in by_pass}) == 3
    for epoch in (1, 0, 2):
        pipe.set_epoch(epoch)
        assert torch.equal(torch.stack(list(pipe)), by_pass[epoch])
    pipe.set_epoch(1)
    assert all(torch.equal(torch.stack(list(pipe)), by_pass[epoch]) for epoch in (1, 2))


def test_set_epoch_is_passed_to_the_loader(device):
    class RecordedEpochs(list):
        def set_epoch(self, epoch):
            self.append(torch.tensor(epoch))

    pipe = ss.Pipeline(RecordedEpochs(), (), device)
    pipe.set_epoch(4)
    assert [each.item() for each in pipe] == [4]


def test_set_epoch_is_passed_to_samplers(device):
    from torch.utils.data import BatchSampler, DataLoader, DistributedSampler

    class Batches(list):
        epoch = 0

        def set_epoch(self, epoch):
            self.epoch += epoch

    sampler = DistributedSampler(range(8), num_replicas=2, rank=0)
    for loader in (DataLoader(range(8), sampler=sampler), DataLoader(range(8), batch_sampler=BatchSampler(sampler, 2, False))):
        sampler.set_epoch(0)
        ss.Pipeline(loader, (), device).set_epoch(3)
        assert sampler.epoch == 3
    loader = DataLoader(range(8), batch_sampler=Batches([[1], [2]]))
    ss.Pipeline(loader, (), device).set_epoch(4)
    assert loader.batch_sampler.epoch == 4


@pytest.mark.parametrize("epoch", [-1, 1 << 40, 1.5, "1", None])
def test_invalid_epoch_is_refused(epoch):
    with pytest.raises(ss.Refused, match="epoch is .*: give a whole number"):
        ss.Pipeline([], (), "cpu").set_epoch(epoch)


def test_exported_module_is_accepted_without_eval_mode(device):
    exported = torch.export.export(encoder(device), (torch.ones(8, 3, 8, 8, device=device),)).module()
    exported.requires_grad_(False)
    (features, *_), *_ = ss.Pipeline(batches(2), [("encode", exported)], device)
    torch.testing.assert_close(features, encoder(device)(batches(1)[0][0].to(device)))
    traced = torch.fx.symbolic_trace(encoder(device)).train()
    with pytest.raises(ss.Refused, match="'encode' is in training mode"):
        ss.Pipeline([], [("encode", traced)], device)


@pytest.mark.parametrize("what", ["module", "function"])
def test_compiled_stage_gives_same_values(device, what):
    encode = encoder(device)
    stage = torch.compile(encode if what == "module" else lambda x: encode(x), backend="eager")
    for (x, *_), (image, *_) in zip(ss.Pipeline(batches(3), [("encode", stage)], device), batches(3), strict=True):
        torch.testing.assert_close(x, encode(image.to(device)))
    if what == "module":
        with pytest.raises(ss.Error, match="has been written"):
            for _ in ss.Pipeline(batches(), [("encode", stage)], device):
                encode[0].weight.mul_(0.9)


@pytest.mark.parametrize("serial", [False, True])
def test_stage_autocast_argument_overrides_that_of_the_loop(device, serial):
    data, encode = batches(3), encoder(device)
    with torch.autocast(device, dtype=torch.bfloat16):
        halves = [encode(x.to(device)) for x, *_ in data]
    wholes = [encode(x.to(device)) for x, *_ in data]
    stage = ss.Stage("encode", encode, autocast=torch.bfloat16)
    assert all_equal([x for x, *_ in ss.Pipeline(data, [stage], device, serial=serial)], halves)
    with torch.autocast(device, dtype=torch.bfloat16):
        for autocast, expected in ((None, halves), (False, wholes)):
            stage = ss.Stage("encode", encode, autocast=autocast)
            assert all_equal([x for x, *_ in ss.Pipeline(data, [stage], device, serial=serial)], expected)


@pytest.mark.parametrize("autocast", [True, torch.float32, "bfloat16"])
def test_invalid_stage_autocast_is_refused(autocast):
    with pytest.raises(ss.Refused, match=r"stage 'a': autocast is .*give torch\.bfloat16"):
        ss.Stage("a", abs, autocast=autocast)


def test_autocast_around_the_loop_applies_to_stages(device):
    encode, data = encoder(device), batches(4)
    with torch.autocast(device, torch.bfloat16), torch.no_grad():
        plain = [encode(x.to(device)) for x, *_ in data]
        ours = [x.clone() for x, *_ in ss.Pipeline(data, [("encode", encode)], device)]
    assert ours[0].dtype == torch.bfloat16 and all_equal(ours, plain)
    assert next(iter(ss.Pipeline(data, [("encode", encode)], device)))[0].dtype == torch.float32


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested_tensors_pass_through_stages(device, layout):
    def nested(value):
        return torch.nested.nested_tensor([torch.full((2, 3), value), torch.ones(1, 3)], layout=layout)

    pipe = ss.Pipeline(((nested(float(i)), i) for i in range(4)), [("double", lambda x: x * 2)], device)
    made = list(pipe)
    assert [i for _, i in made] == [0, 1, 2, 3]
    for x, i in made:
        first, second = x.unbind()
        assert first.eq(2 * i).all() and second.eq(2).all() and first.device.type == device
    one = nested(1.0).to(device)
    static = ss.Pipeline([(torch.ones(1),)] * 3, [("static", lambda x: one.mul_(2))], device)
    # The pipeline does not examine the memory of jagged tensors.
    expected = pytest.raises(ss.Error, match=r"same memory for two batches.*clone")
    with expected if layout == torch.strided else contextlib.nullcontext():
        assert len(list(static)) == 3


def test_channels_last_batches_keep_their_layout(device):
    seen = []

    def stage(x):
        seen.append(x.is_contiguous(memory_format=torch.channels_last))
        return x + 1

    data = [torch.rand(2, 3, 5, 7).to(memory_format=torch.channels_last) for _ in range(3)]
    for stages in ((), [("add", stage)]):
        for x, y in zip(ss.Pipeline(data, stages, device), data, strict=True):
            assert x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()
            assert torch.equal(x.cpu(), y + len(stages))
    assert seen == [True] * 3


class Called(ss.Stage):
    def __call__(self, batch):
        return super().__call__(batch)


Pair = collections.namedtuple("Pair", "a b")
ONE, TWO = torch.ones(2), torch.full((2,), 2.0)


@pytest.mark.parametrize(("batch", "keys"), [
    ((ONE, TWO), {}), ((ONE, TWO), {"input": 1}), ([ONE, TWO], {"input": -1}), ([ONE, TWO], {"input": 0, "output": -1}),
    ((ONE, TWO), {"output": 2}), ([ONE], {"input": 1}), ((ONE,), {"input": "a"}), ((ONE,), {"input": 1 << 70}),
    ({"a": ONE, "b": TWO}, {"input": "a"}), ({"a": ONE, "b": TWO}, {"input": "b", "output": "c"}),
    ({"a": ONE}, {"input": "b"}), ({0: ONE, 1: "name"}, {}), (Pair(ONE, TWO), {"input": "b"}), (ONE, {})])
def test_pipeline_gives_same_result_as_calling_the_stage(device, batch, keys):
    """For a plain Stage the pipeline calls the function directly, without __call__."""
    def given(kind):
        try:
            (result,) = ss.Pipeline([batch], [kind("add", lambda x: x + 1, **keys)], device)
        except ss.Error as error:
            return str(error)
        return type(result), str(result)

    assert given(ss.Stage) == given(Called)


def test_replaced_stage_function_takes_effect_during_iteration(device):
    data = [torch.zeros(2)[None]] * 8
    pipe = ss.Pipeline(data, [("add", lambda x: x + 1)], device)
    given = []
    for x, in pipe:
        given.append(x[0].item())
        pipe.stages[0].function = lambda x: x + 5
    assert given[0] == 1 and given[-1] == 5


def test_replaced_stage_call_method_is_used(device, monkeypatch):
    called = []
    call = ss.Stage.__call__
    monkeypatch.setattr(ss.Stage, "__call__", lambda stage, batch: [called.append(1), call(stage, batch)][1])
    assert len(list(ss.Pipeline([[torch.zeros(2)]] * 3, [("add", lambda x: x + 1)], device))) == len(called) == 3


def autocast_loop(device, stage, serial, around=None, inside=torch.bfloat16, body=None):
    """Trains on the features from the stage. around, inside: dtype of autocast around the loop and in its body;
    None: off."""
    head = torch.nn.Linear(4, 2).to(device)
    with torch.autocast(device, around, enabled=around is not None):
        for features, *_ in ss.Pipeline(batches(4), [stage], device, serial=serial):
            with torch.autocast(device, inside, enabled=inside is not None):
                loss = (body or head)(features.float().flatten(1)[:, :4]).float().square().mean()
            if loss.requires_grad:
                loss.backward()
    return "done"


@pytest.mark.parametrize("serial", [False, True])
@pytest.mark.parametrize(("around", "inside"), [(None, torch.bfloat16), (torch.bfloat16, torch.float16)])
def test_autocast_entered_in_the_loop_body_raises_with_remedies(device, serial, around, inside):
    with pytest.raises(ss.Error) as raised:
        autocast_loop(device, ("encode", encoder(device)), serial, around, inside)
    said = str(raised.value)
    assert f"the loop body enters torch.autocast('{device}', {inside})" in said and "around the loop" in said
    assert f"slipstream.Stage('encode', ..., autocast={inside})" in said and f"autocast={around or False}" in said


@pytest.mark.parametrize("serial", [False, True])
def test_autocast_in_the_loop_body_is_allowed_if_stage_is_unambiguous(device, serial):
    encode = encoder(device)

    def own_autocast(images):
        with torch.autocast(device, torch.bfloat16):
            return encode(images)

    def without_gradients(features):
        with torch.no_grad():
            return features @ torch.ones(4, 2, device=device)

    def both(features):
        with torch.autocast(device, enabled=False):
            other = features @ torch.ones(4, 2, device=device)
        return other + features @ torch.ones(4, 2, device=device)

    for autocast in (torch.bfloat16, False):
        assert autocast_loop(device, ss.Stage("encode", encode, autocast=autocast), serial) == "done"
    for function in (own_autocast, lambda images: images / 2, lambda images: images.sum(0, keepdim=True)):
        assert autocast_loop(device, ("stage", function), serial) == "done"
    stage = ("encode", encode)
    assert autocast_loop(device, stage, serial, torch.bfloat16, None) == "done", "the loop body may leave autocast"
    assert autocast_loop(device, stage, serial, torch.bfloat16) == "done"
    assert autocast_loop(device, stage, serial, body=both) == "done", "the loop body may use both"
    assert autocast_loop(device, stage, serial, body=lambda features: features * 2) == "done"
    with pytest.raises(ss.Error, match=r"stage 'encode' ran without torch\.autocast"):
        autocast_loop(device, stage, serial, body=without_gradients)


@pytest.mark.parametrize("serial", [False, True])
def test_stage_whose_operations_have_the_dtype_of_the_bodys_autocast_is_allowed(device, serial):
    encode, half = encoder(device), encoder(device).bfloat16()

    def own_autocast(images):
        with torch.autocast(device, torch.bfloat16):
            return encode(images)

    def compiled_to(graph, inputs):
        """As other compilers, calls operations with autocast off, because the graph has its casts."""
        def run(*inputs):
            with torch._C._DisableAutocast():
                return graph(*inputs)
        return run

    backend = torch._dynamo.backends.common.aot_autograd(fw_compiler=compiled_to)
    for function in (torch.compile(own_autocast, backend=backend), lambda images: half(images.bfloat16())):
        assert autocast_loop(device, ("encode", function), serial) == "done"
        with pytest.raises(ss.Error, match=r"stage 'encode' ran without torch\.autocast"):
            autocast_loop(device, ("encode", function), serial, inside=torch.float16)


def test_autocast_is_checked_only_in_the_first_iterations(device):
    data, stage = batches(6), ("encode", encoder(device))
    head = torch.nn.Linear(4, 2).to(device)
    for number, (features, *_) in enumerate(ss.Pipeline(data, [stage], device)):
        with torch.autocast(device, torch.bfloat16, enabled=number > 1):
            head(features.flatten(1)[:, :4])
    assert number == 5
