"""What slipstream.Pipeline refuses, and the effects of errors in stages and loop bodies."""

import gc
import sys
import threading
import weakref

from loops import BATCHES, batches, collect_results, encoder
import pytest
from tensors import all_equal
import torch
from torch import nn

import slipstream as ss


class Unnotable(Exception):
    def add_note(self, note):
        raise TypeError("no notes")


@pytest.mark.parametrize("serial", [False, True])
def test_exception_that_refuses_notes_is_raised(device, serial):
    def fails(x):
        raise Unnotable("broken")

    class Unmovable:
        def to(self, device):
            raise Unnotable("broken")

    with pytest.raises(Unnotable, match="broken"):
        list(ss.Pipeline(batches(), [("bad", fails)], device, serial=serial))
    with pytest.raises(Unnotable, match="broken"):
        list(ss.Pipeline([Unmovable()], (), device, serial=serial))


@pytest.mark.parametrize("serial", [False, True])
def test_stage_error_keeps_traceback_and_names_the_stage(device, serial):
    def fails(x):
        raise ValueError("no such image")

    with pytest.raises(ValueError, match="no such image") as caught:
        list(ss.Pipeline(batches(), [("good", lambda x: x), ("bad", fails)], device, serial=serial))
    if sys.version_info >= (3, 11):  # exceptions have no notes in earlier versions
        assert "stage 'bad'" in caught.value.__notes__[0]
    assert any(entry.name == "fails" for entry in caught.traceback)


def test_trainable_stage_duplicate_name_and_zero_run_ahead_are_refused(device):
    trained_module = nn.Linear(2, 2)
    with pytest.raises(ss.Refused, match=r"'encode' has parameters that require gradients.*weight"):
        ss.Pipeline([], [("encode", trained_module.eval())], device)
    with pytest.raises(ss.Refused, match="training mode"):
        ss.Pipeline([], [("encode", nn.Linear(2, 2).requires_grad_(False))], device)
    with pytest.raises(ss.Refused, match="two stages are called 'a'"):
        ss.Pipeline([], [("a", abs), ("a", abs)], device)
    with pytest.raises(ss.Refused, match="run_ahead is 0"):
        ss.Pipeline([], [("a", abs)], device, run_ahead=0)


def test_changing_stage_weights_in_the_loop_raises(device):
    encode = encoder(device)
    with pytest.raises(ss.Error, match="has been written"):
        for _ in ss.Pipeline(batches(), [("encode", encode)], device):
            encode[0].weight.mul_(0.9)  # as an update of a running average would


def test_stage_returning_the_same_memory_twice_raises(device):
    buffer = torch.empty(8, 3, 8, 8, device=device)
    with pytest.raises(ss.Error, match=r"same memory for two batches.*clone"):
        list(ss.Pipeline(batches(), [("static", lambda x: buffer.copy_(x))], device))


def test_random_numbers_in_stage_and_loop_raise_without_a_seed(device):
    data = batches()

    def noise(x):
        return x + torch.randn_like(x)

    with pytest.raises(ss.Error, match=r"both draw random numbers.*seed=1"):
        for x, *_ in ss.Pipeline(data, [("noise", noise)], device):
            torch.rand_like(x)
    results = []
    for serial in (False, True):
        torch.manual_seed(5)
        pipe = ss.Pipeline(data, [ss.Stage("noise", noise, seed=1)], device, serial=serial)
        results.append([(x.clone(), torch.rand_like(x)) for _ in range(2) for x, *_ in pipe])
    for (a, b), (c, d) in zip(*results, strict=True):
        assert torch.equal(a, c) and torch.equal(b, d)
    assert not torch.equal(results[0][0][0], results[0][BATCHES][0])  # the second epoch has other numbers


def test_random_stage_alone_gives_numbers_of_plain_loop(device):
    data = batches()
    torch.manual_seed(6)
    plain = [x.to(device) + torch.randn(x.shape, device=device) for x, *_ in data]
    torch.manual_seed(6)
    stage = ss.Stage("noise", lambda x: x + torch.randn(x.shape, device=device))
    ours = [x.clone() for x, *_ in ss.Pipeline(data, [stage], device)]
    assert all_equal(ours, plain)


def test_missing_stage_input_raises_with_advice(device):
    with pytest.raises(ss.Error, match=r"reads 'image', which a batch of type tuple does not have.*input="):
        list(ss.Pipeline(batches(2), [ss.Stage("encode", abs, input="image")], device))


def test_objects_of_failed_iteration_are_freed(device):
    class HeldObject:
        pass

    def run(where):
        held = HeldObject()

        def fails(x):
            if where == "stage":
                raise ValueError(held)
            return x

        def loader():
            yield from batches(3)
            raise ValueError(held)

        with pytest.raises(ValueError):
            for _ in ss.Pipeline(loader(), [("stage", fails)], device):
                if where == "body":
                    raise ValueError(held)
        return weakref.ref(held)

    for where in ("stage", "loader", "body"):
        held = run(where)
        gc.collect()
        assert held() is None, where


@pytest.mark.parametrize("serial", [False, True])
def test_stop_iteration_in_stage_raises_runtime_error(device, serial):
    def stops(x):
        raise StopIteration

    with pytest.raises(RuntimeError, match="stage 'stops' raised StopIteration"):
        list(ss.Pipeline(batches(), [("stops", stops)], device, serial=serial))


@pytest.mark.parametrize("serial", [False, True])
@pytest.mark.parametrize("bad", [{0}, {3}, {2, 3, 4}, {8}, set(range(9))])
def test_stage_error_replaces_only_its_own_batch(device, bad, serial):
    def stage(x):
        if int(x[0]) in bad:
            raise ValueError(f"number {int(x[0])}")
        return x

    numbers = [torch.tensor([i]) for i in range(9)]
    stages = [("a", lambda x: x), ("b", stage), ("c", lambda x: x)]
    expected = [f"ValueError number {i}" if i in bad else i for i in range(9)]
    assert collect_results(ss.Pipeline(numbers, stages, device, serial=serial)) == expected


def test_failed_weight_check_is_raised_by_every_later_next(device):
    encode = encoder(device)
    loop = iter(ss.Pipeline(batches(), [("encode", encode)], device))
    next(loop)
    encode[0].weight.mul_(0.9)
    with pytest.raises(ss.Error, match="has been written"):
        next(loop)
    for _ in range(2):
        with pytest.raises(ss.Error, match=r"already ended with an error .*has been written"):
            next(loop)


CHANGES = {
    "has been written": lambda encode: encode[0].weight.mul_(0.9),
    "mode of a module": lambda encode: encode[1].train(),
    "requires gradients": lambda encode: encode[2].weight.requires_grad_(True),
    "weights, .* replaced": lambda encode: encode.load_state_dict(
        {name: value.clone() for name, value in encode.state_dict().items()}, assign=True),
    "modules .* replaced": lambda encode: setattr(encode, "1", nn.Tanh()),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changing_a_stage_module_in_the_loop_raises(device, change):
    """The error is raised even if the module changes in the last loop body, after all stages: earlier changes would
    be missed otherwise."""
    encode = encoder(device)
    with pytest.raises(ss.Error, match=f"stage 'encode' .*{change}"):
        for i, _ in enumerate(ss.Pipeline(batches(), [("encode", encode)], device)):
            if i == BATCHES - 1:
                CHANGES[change](encode)


def test_module_mode_may_change_and_revert_in_the_loop_body(device):
    encode, count = encoder(device), 0
    for _ in ss.Pipeline(batches(), [("encode", encode)], device):
        encode.train()
        encode.eval()
        count += 1
    assert count == BATCHES


def test_stage_output_that_contains_itself_raises_recursion_error(device):
    def holding_itself(x):
        output = {"x": x}
        output["self"] = output
        return output

    stage = ss.Stage("hold", holding_itself, input="x", output="x")
    with pytest.raises(RecursionError):
        list(ss.Pipeline([{"x": torch.ones(2)}], [stage], device))


def test_iterator_in_reference_cycle_is_garbage_collected(device):
    class Owner:
        def __init__(self):
            self.batches = iter(ss.Pipeline(self.source(), [("same", self.same)], device))

        def source(self):
            yield from batches()
            assert self

        def same(self, x):
            return x

    owner = Owner()
    next(owner.batches)
    seen = weakref.ref(owner)
    del owner
    gc.collect()
    assert seen() is None


def test_invalid_stages_and_run_ahead_are_refused(device):
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU()).eval().requires_grad_(False)
    for stages in (net, [net], ("encode", net), {"encode": net}, [("encode", None)], [(1, net)]):
        with pytest.raises(ss.Refused, match="such as"):
            ss.Pipeline([], stages, device)
    for run_ahead in ("2", 1.5, -1):
        with pytest.raises(ss.Refused, match="run_ahead is"):
            ss.Pipeline([], [("encode", net)], device, run_ahead=run_ahead)
    for keys in ({"output": 5}, {"output": "b"}, {"output": [0, 1]}):
        with pytest.raises(ss.Error, match="stage 'a'"):
            list(ss.Pipeline(batches(2), [ss.Stage("a", lambda x: x, **keys)], device))
    with pytest.raises(ss.Error, match="the batch is a single tensor"):
        list(ss.Pipeline([torch.ones(2)], [ss.Stage("a", lambda x: x, input=0)], device))
    pipe = ss.Pipeline(iter([]), [("encode", net)], device)
    assert pipe and "encode" in repr(pipe)
    net.train()
    with pytest.raises(ss.Refused, match="training mode"):
        iter(pipe)


def test_iterator_used_by_second_thread_raises(device):
    inside, out = threading.Event(), threading.Event()

    def stage(x):
        inside.set()
        assert out.wait(100)
        return x

    loop = iter(ss.Pipeline(batches(2), [("stage", stage)], device))
    other = threading.Thread(target=next, args=(loop,))
    other.start()
    assert inside.wait(100)
    with pytest.raises(ValueError, match="already executing"):
        next(loop)
    out.set()
    other.join()
