"""Where stages read and write, what of them is looked at, and what they take over from the loop."""

import collections
import copy
import dataclasses

from loops import batches, encoder
import pytest
import torch
from torch import nn

import slipstream as ss


@pytest.mark.parametrize("serial", [False, True])
def test_stages_run_without_gradients(device, serial):
    weight = torch.ones(1, device=device, requires_grad=True)
    for x, *_ in ss.Pipeline(batches(2), [("stage", lambda x: x * weight)], device, serial=serial):
        assert not x.requires_grad and torch.is_grad_enabled()


def normed(device):
    return nn.Sequential(nn.BatchNorm2d(3), nn.ReLU()).eval().requires_grad_(False).to(device)


@pytest.mark.parametrize("name", ["running_mean", "running_var"])
def test_buffers_of_a_stage_that_change_are_an_error(device, name):
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


def test_methods_of_modules_are_looked_at(device):
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


def values_of(batch):
    whole = vars(batch) if isinstance(batch, Record) else batch
    pairs = whole.items() if hasattr(whole, "items") else enumerate(whole)
    return {key: value[0].item() for key, value in pairs}


@pytest.mark.parametrize(("batch", "keys", "changed"), FORMS)
def test_a_stage_reads_and_writes_where_it_is_told(device, batch, keys, changed):
    before = values_of(copy.deepcopy(batch))
    stage = ss.Stage("double", lambda x: x * 2, **keys)
    (through,) = ss.Pipeline([batch], [stage], device)
    for result in (stage(batch), through):
        assert values_of(result) == before | changed and type(result) is type(batch) and result is not batch
        assert values_of(batch) == before


def test_the_first_input_is_the_default_output():
    stage = ss.Stage("sum", lambda a, b: a + b, input=["a", "b"])
    assert values_of(stage({"a": one(), "b": one() * 2})) == {"a": 3, "b": 2}


@pytest.mark.parametrize(("result", "kind"), [
    (lambda x: (x, x, x), "tuple"), (lambda x: x, "Tensor"), (lambda x: None, "NoneType"), (lambda x: [x], "list"),
])
def test_another_number_of_outputs_is_an_error(device, result, kind):
    stage = ss.Stage("two", result, "a", ["a", "b"])
    with pytest.raises(ss.Error, match=f"'two' has 2 outputs, so its function returns a tuple of as many, not {kind}"):
        list(ss.Pipeline([{"a": one()}], [stage], device))


@pytest.mark.parametrize("seed", [-1, 1 << 63])
def test_seeds_have_limits(seed):
    with pytest.raises(ss.Refused, match=r"stage 'noise': seed -?\d+ is not from 0 to 2\*\*63 - 1"):
        ss.Stage("noise", abs, seed=seed)


def test_set_epoch_keys_the_draws_of_stages(device):
    stage = ss.Stage("noise", lambda x: x + torch.rand_like(x), seed=1)
    pipe = ss.Pipeline([one()] * 3, [stage], device)
    by_pass = [torch.stack(list(pipe)) for _ in range(3)]
    assert len({each.sum().item() for each in by_pass}) == 3
    for epoch in (1, 0, 2):
        pipe.set_epoch(epoch)
        assert torch.equal(torch.stack(list(pipe)), by_pass[epoch])
    pipe.set_epoch(1)
    assert all(torch.equal(torch.stack(list(pipe)), by_pass[epoch]) for epoch in (1, 2))


def test_set_epoch_reaches_the_loader(device):
    class Told(list):
        def set_epoch(self, epoch):
            self.append(torch.tensor(epoch))

    pipe = ss.Pipeline(Told(), (), device)
    pipe.set_epoch(4)
    assert [each.item() for each in pipe] == [4]


@pytest.mark.parametrize("what", ["module", "function"])
def test_compiled_stages_give_the_same(device, what):
    encode = encoder(device)
    stage = torch.compile(encode if what == "module" else lambda x: encode(x), backend="eager")
    for (x, *_), (image, *_) in zip(ss.Pipeline(batches(3), [("encode", stage)], device), batches(3), strict=True):
        torch.testing.assert_close(x, encode(image.to(device)))
    if what == "module":
        with pytest.raises(ss.Error, match="has been written"):
            for _ in ss.Pipeline(batches(), [("encode", stage)], device):
                encode[0].weight.mul_(0.9)


def test_autocast_around_the_loop_is_that_of_its_stages(device):
    encode, data = encoder(device), batches(4)
    with torch.autocast(device, torch.bfloat16), torch.no_grad():
        plain = [encode(x.to(device)) for x, *_ in data]
        ours = [x.clone() for x, *_ in ss.Pipeline(data, [("encode", encode)], device)]
    assert ours[0].dtype == torch.bfloat16 and all(map(torch.equal, ours, plain))
    assert next(iter(ss.Pipeline(data, [("encode", encode)], device)))[0].dtype == torch.float32


def test_channels_last_batches_stay_so(device):
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


def test_draws_that_begin_late_are_seen(device):
    """Later than in the first batches, generators are looked at in every 64th."""
    def run(count):
        calls, bodies = [], 0

        def stage(x):
            calls.append(x)
            return x + torch.rand_like(x) if len(calls) > 10 else x

        for _ in ss.Pipeline([one()] * count, [("noise", stage)], device):
            bodies += 1
            if bodies > 10:
                torch.rand(1, device=device)
        return bodies

    assert run(60) == 60
    with pytest.raises(ss.Error, match="both draw random numbers"):
        run(80)
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested_tensors_pass(device, layout):
    def nested(value):
        return torch.nested.nested_tensor([torch.full((2, 3), value), torch.ones(1, 3)], layout=layout)

    pipe = ss.Pipeline(((nested(float(i)), i) for i in range(4)), [("double", lambda x: x * 2)], device)
    for x, i in pipe:
        first, second = x.unbind()
        assert first.eq(2 * i).all() and second.eq(2).all() and first.device.type == device
    if layout == torch.jagged:  # whose memory is not looked at
        return
    one = nested(1.0).to(device)
    with pytest.raises(ss.Error, match=r"same memory for two batches.*clone"):
        list(ss.Pipeline([(torch.ones(1),)] * 3, [("static", lambda x: one.mul_(2))], device))


