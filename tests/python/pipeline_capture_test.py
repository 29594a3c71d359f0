"""Stages of slipstream.Pipeline with graphs=True. On a CPU, tests/support/recorded_graphs.py takes the place of CUDA
graphs."""

import itertools
import warnings

import pytest
import recorded_graphs
import torch
from recorded_graphs import make_recorded_graphs
from torch import nn

import slipstream as ss
from slipstream import _cuda_graphs

WARMUP = 3


@pytest.fixture
def graphs(device, monkeypatch):
    if device == "cpu":
        monkeypatch.setattr(_cuda_graphs, "make_graphs", make_recorded_graphs)
        monkeypatch.setattr(_cuda_graphs, "_LIBRARIES", (*_cuda_graphs._LIBRARIES, recorded_graphs.__file__))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "slipstream")
        yield


def make_encoder(device):
    torch.manual_seed(1)
    layers = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 5)
    return nn.Sequential(*layers).eval().requires_grad_(False).to(device)


def data(count=10, last=4):
    made = torch.Generator().manual_seed(2)
    sizes = [4] * (count - 1) + [last]
    return [(torch.rand(size, 3, 8, 8, generator=made), torch.arange(size)) for size in sizes]


def outputs(stages, device, batches=None, **options):
    return [[each.cpu() for each in batch] for batch in
            list(ss.Pipeline(data() if batches is None else batches, stages, device, **options))]


def assert_same(found, expected):
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert all(map(torch.equal, ours, theirs))


def count_graphs(pipe):
    return [stage.function.graphs for stage in pipe.stages]


@pytest.mark.parametrize("plan", ["pipelined", "serial", "auto"])
def test_batches_are_those_of_a_pipeline_without_graphs(device, graphs, plan):
    encode = make_encoder(device)
    stages = [("encode", encode), ("scale", lambda x: (x * 2).tanh())]
    pipe = ss.Pipeline(data(), stages, device, plan=plan, graphs=True)
    expected = outputs(stages, device)
    for _ in range(2):
        assert_same([[each.cpu() for each in batch] for batch in list(pipe)], expected)
    assert count_graphs(pipe) == [1, 1]
    assert [stage.function.replays for stage in pipe.stages] == [20 - WARMUP] * 2


def test_smaller_last_batch_runs_without_graph(device, graphs):
    encode = make_encoder(device)
    pipe = ss.Pipeline(data(last=3), [("encode", encode)], device, graphs=True)
    found = [[each.cpu() for each in batch] for batch in pipe]
    assert_same(found, outputs([("encode", encode)], device, data(last=3)))
    assert pipe.stages[0].function.replays == 9 - WARMUP


def test_step_and_stage_with_graphs_train_the_same_weights(device, graphs):
    def train(captured):
        encode = make_encoder(device)
        torch.manual_seed(3)
        decoder = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Dropout(0.25), nn.Linear(8, 4)).to(device)
        optimizer = torch.optim.SGD(decoder.parameters(), 0.1)

        def step(x, y):
            loss = nn.functional.cross_entropy(decoder(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        run = ss.capture(step) if captured else step
        pipe = ss.Pipeline(data(30), [("encode", encode)], device, graphs=captured)
        losses = [run(*batch) for batch in pipe]
        return [each.detach().cpu() for each in [*losses, *decoder.parameters()]]

    assert all(map(torch.equal, train(True), train(False)))


@pytest.mark.parametrize("is_method", [True, False])
def test_moved_stage_gets_new_graphs_in_the_next_epoch(device, graphs, is_method):
    encode = make_encoder(device)
    function = encode.forward if is_method else lambda x: encode(x)
    pipe = ss.Pipeline(data(), [("encode", function)], device, graphs=True)
    list(pipe)
    encode.double().float()
    encode[4] = nn.Linear(4 * 36, 5).to(device).eval().requires_grad_(False)
    expected = outputs([("encode", encode)], device)
    assert_same([[each.cpu() for each in batch] for batch in list(pipe)], expected)
    assert count_graphs(pipe) == [1]


@pytest.mark.parametrize("is_moved", [True, False])
def test_changed_stage_of_a_serial_plan_gets_a_new_graph(device, graphs, is_moved):
    """Without graphs, each batch of a serial plan uses the module as it is then."""
    def run(**options):
        encode, found = make_encoder(device), []
        pipe = ss.Pipeline(data(12), [("encode", encode)], device, plan="serial", **options)
        for number, batch in enumerate(pipe):
            found.append([each.cpu() for each in batch])
            if number == 7:
                encode.double().float() if is_moved else setattr(encode, "4", nn.Linear(4 * 36, 5))
                encode.to(device).eval().requires_grad_(False)
                nn.init.constant_(encode[4].weight, 0.25)
                nn.init.zeros_(encode[4].bias)
        return found

    assert_same(run(graphs=True), run())


def test_changed_stage_of_a_pipelined_plan_is_an_error(device, graphs):
    encode = make_encoder(device)
    pipe = ss.Pipeline(data(12), [("encode", encode)], device, graphs=True)
    with pytest.raises(ss.Error, match="stage 'encode' runs ahead of the loop body, but one of its weights"):
        for number, _ in enumerate(pipe):
            if number == 7:
                encode.double().float()


def test_replaced_variable_of_a_stage_is_used_in_the_next_epoch(device, graphs):
    encode = make_encoder(device)
    pipe = ss.Pipeline(data(), [("encode", lambda x: encode(x))], device, graphs=True)
    list(pipe)
    encode = make_encoder(device)
    with torch.no_grad():
        encode[4].weight.mul_(2)
    assert_same([[each.cpu() for each in batch] for batch in list(pipe)], outputs([("encode", encode)], device))
    assert count_graphs(pipe) == [1]


class Counting:
    def __init__(self, device):
        self.count = torch.zeros((), device=device)

    def __call__(self, x):
        self.count += 1
        return x * self.count


def test_state_of_a_stage_changes_once_for_each_batch(device, graphs):
    counting = Counting(device)
    found = outputs([("count", counting)], device, graphs=True)
    assert_same(found, outputs([("count", Counting(device))], device))
    assert float(counting.count) == 10


def test_frozen_number_of_a_stage_gives_a_warning(device, graphs):
    def make():
        calls = iter(range(1, 100))
        return lambda x: x * next(calls)

    with pytest.warns(UserWarning, match="stage 'scale' runs without CUDA graph: its graph computes another value"):
        found = outputs([("scale", make())], device, graphs=True)
    expected = outputs([("scale", make())], device)
    assert_same(found[:WARMUP], expected[:WARMUP])


def test_loaded_weights_are_used(device, graphs):
    encode, other = make_encoder(device), make_encoder(device)
    with torch.no_grad():
        other[4].weight.mul_(2)
    pipe = ss.Pipeline(data(), [("encode", encode)], device, graphs=True)
    list(pipe)
    encode.load_state_dict(other.state_dict())
    assert_same([[each.cpu() for each in batch] for batch in list(pipe)], outputs([("encode", other)], device))
    assert pipe.stages[0].function.replays == 20 - WARMUP


@pytest.mark.parametrize("seed", [None, 5])
def test_stage_with_random_numbers_runs_without_graph(device, graphs, seed):
    def noisy(x):
        return x + torch.rand_like(x)

    stage = ss.Stage("noise", noisy, seed=seed)
    torch.manual_seed(4)
    expected = outputs([stage], device)
    torch.manual_seed(4)
    with pytest.warns(UserWarning, match="stage 'noise' runs without CUDA graph: it generates random numbers") as seen:
        found = outputs([stage], device, graphs=True)
    assert_same(found, expected)
    assert len(seen) == 1


def test_stage_that_waits_for_the_device_runs_without_graph(device, graphs):
    def peak(x):
        return x / x.max().item()

    with pytest.warns(UserWarning, match=r"stage 'peak' runs without CUDA graph: .*_capture_test.py:\d+: return"):
        found = outputs([("peak", peak)], device, graphs=True)
    assert_same(found, outputs([("peak", peak)], device))


def test_transforms_run_as_before(device, graphs):
    flip = ss.transforms.RandomHorizontalFlip()
    pipe = ss.Pipeline(data(), [ss.Stage("flip", flip, seed=3)], device, graphs=True)
    assert pipe.stages[0].function is flip
    assert_same(outputs(pipe.stages, device, graphs=True), outputs(pipe.stages, device))


def test_error_of_a_stage_is_raised_for_its_batch(device, graphs):
    calls = itertools.count()

    def fails(x):
        if next(calls) in (WARMUP, WARMUP + 1):  # in the capture, and in the call that takes its place
            raise ValueError("bad batch")
        return x + 1

    batches = iter(ss.Pipeline(data(), [("fails", fails)], device, graphs=True))
    made = []
    while len(made) < 10:
        try:
            made.append(next(batches)[0].cpu())
        except ValueError:
            made.append(None)
    for i, (found, (x, _)) in enumerate(zip(made, data(), strict=True)):
        assert found is None if i == WARMUP else torch.equal(found, x + 1)


def test_changes_between_two_epochs_are_used(device, graphs):
    encode, cache, settings = make_encoder(device), {}, {"scale": 1.0}

    def stage(x):
        if len(x) not in cache:
            cache[len(x)] = torch.ones((), device=x.device)
        return encode(x) * cache[len(x)] * settings["scale"]

    pipe = ss.Pipeline(data(), [("encode", stage)], device, graphs=True)

    def replace_table():
        for size in list(cache):
            cache[size] = torch.full((), 3.0, device=device)

    list(pipe)
    for change in (replace_table, lambda: settings.update(scale=0.5),
                   lambda: encode[4].register_forward_hook(lambda module, arguments, made: made * 2)):
        change()
        found = [[each.cpu() for each in batch] for batch in list(pipe)]
        assert_same(found, outputs([("encode", stage)], device))


def test_stage_on_a_cpu_runs_without_graph():
    encode = make_encoder("cpu")
    pipe = ss.Pipeline(data(), [("encode", encode)], "cpu", graphs=True)
    assert_same([list(batch) for batch in pipe], outputs([("encode", encode)], "cpu"))
    assert count_graphs(pipe) == [0]


def test_invalid_value_is_refused():
    with pytest.raises(ss.Refused, match="graphs is 'yes': give True or False"):
        ss.Pipeline([], graphs="yes")
