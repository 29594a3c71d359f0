"""What slipstream.Pipeline refuses, and the effects of errors in stages, loop bodies and loaders."""

import gc
import sys
import threading
import weakref
from contextlib import nullcontext

import interpreters
from loops import BATCHES, Numbers, batches, encoder
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


@pytest.mark.parametrize("serial", [False, True])
@pytest.mark.parametrize("error", [ValueError("no rate"), TypeError("no such currency"), KeyboardInterrupt()])
def test_error_in_custom_to_method_names_the_method(device, error, serial):
    class Money:
        def to(self, currency):
            raise error

    with pytest.raises(type(error)) as caught:
        list(ss.Pipeline([(torch.ones(1), Money())], (), device, serial=serial))
    if sys.version_info >= (3, 11):
        is_signal = isinstance(error, KeyboardInterrupt)
        assert caught.value is error and f"in Money.to('{device}" in error.__notes__[-1]
        assert error.__notes__[-1].startswith("raised by a signal handler") == is_signal


def test_loader_error_is_raised(device):
    def loader():
        yield from batches(3)
        raise OSError("gone")

    seen = 0
    with pytest.raises(OSError, match="gone"):
        for _ in ss.Pipeline(loader(), (), device):
            seen += 1
    assert seen <= 3


class Broken(Numbers):
    def __getitem__(self, index):
        if index == 20:
            raise ValueError("no such image")
        return super().__getitem__(index)


@pytest.mark.parametrize("workers", [0, 1])
def test_torch_loader_error_is_raised_and_iteration_can_continue(device, workers):
    pipe = ss.Pipeline(torch.utils.data.DataLoader(Broken(), 4, num_workers=workers), (), device)
    seen, loop = [], iter(pipe)
    with pytest.raises(ValueError, match="no such image"):
        for _, labels in loop:
            seen += labels.tolist()
    assert seen == list(range(20))
    assert [label for _, labels in loop for label in labels.tolist()] == list(range(24, 40)) and list(loop) == []


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


def test_loader_that_refills_its_memory_raises(device):
    memory = torch.zeros(4, device=device)

    def refills():
        for i in range(6):
            yield memory.fill_(i)

    with pytest.raises(ss.Error, match=r"the loader returned the same memory.*clone"):
        list(ss.Pipeline(refills(), (), device))
    same = torch.ones(4, device=device)
    assert len(list(ss.Pipeline([same] * 5, (), device))) == 5


@pytest.mark.parametrize("serial", [False, True])
def test_stop_iteration_in_stage_raises_runtime_error(device, serial):
    def stops(x):
        raise StopIteration

    with pytest.raises(RuntimeError, match="stage 'stops' raised StopIteration"):
        list(ss.Pipeline(batches(), [("stops", stops)], device, serial=serial))


@pytest.mark.parametrize("serial", [False, True])
def test_stop_iteration_in_custom_to_method_raises_runtime_error(device, serial):
    class Stops:
        def to(self, device):
            raise StopIteration

    with pytest.raises(RuntimeError, match=r"Stops.to\('.*'\) raised StopIteration"):
        list(ss.Pipeline([(torch.ones(1), Stops())], (), device, serial=serial))


class Every:
    """A loader that raises in place of some batches, and can be iterated further after an error."""

    def __init__(self, bad, count=9, error=ValueError):
        self.bad, self.error, self.numbers = bad, error, iter(range(count))

    def __iter__(self):
        return self

    def __next__(self):
        number = next(self.numbers)
        if number in self.bad:
            raise self.error(f"number {number}")
        return torch.tensor([number])


def collect_results(loop):
    """Returns the result or the error of each next(), until the end."""
    results, loop = [], iter(loop)
    while True:
        try:
            results.append(int(next(loop)[0]))
        except StopIteration:
            return results
        except Exception as error:
            results.append(type(error).__name__ + " " + str(error).split("\n")[0])


@pytest.mark.parametrize("serial", [False, True])
@pytest.mark.parametrize("bad", [{0}, {3}, {2, 3, 4}, {8}, set(range(9))])
def test_error_replaces_only_its_own_batch(device, bad, serial):
    expected = [f"ValueError number {i}" if i in bad else i for i in range(9)]

    def stage(x):
        if int(x[0]) in bad:
            raise ValueError(f"number {int(x[0])}")
        return x

    stages = [("a", lambda x: x), ("b", stage), ("c", lambda x: x)]
    assert collect_results(ss.Pipeline(Every(bad), (), device, serial=serial)) == expected
    assert collect_results(ss.Pipeline(Every(()), stages, device, serial=serial)) == expected


def test_error_in_c_function_replaces_only_its_own_batch(device):
    values = [[0.0], [1.0], [2.0], ["no number"], [4.0]]
    plain = collect_results(map(torch.tensor, values))
    assert collect_results(ss.Pipeline(map(torch.tensor, values), (), device)) == plain
    assert plain[3].startswith("ValueError") and plain[4] == 4


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


def test_loader_error_is_raised_after_earlier_batches(device):
    def loader():
        yield from batches(4)
        raise OSError("gone")

    seen = []
    with pytest.raises(OSError, match="gone"):
        for *_, name in ss.Pipeline(loader(), [("a", lambda x: x), ("b", lambda x: x)], device):
            seen.append(name)
    assert len(seen) == 4


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit])
def test_interrupt_in_loader_is_raised_before_earlier_batches(device, raised):
    def loader():
        yield from batches(4)
        raise raised

    seen = 0
    with pytest.raises(raised):
        for _ in ss.Pipeline(loader(), [("a", lambda x: x), ("b", lambda x: x)], device):
            seen += 1
    assert 0 < seen < 4


def test_batch_that_contains_itself_raises_recursion_error(device):
    batch = {"x": torch.ones(2)}
    batch["self"] = batch
    with pytest.raises(RecursionError):
        list(ss.Pipeline([batch], (), device))


def test_stage_output_that_contains_itself_raises_recursion_error(device):
    def holding_itself(x):
        output = {"x": x}
        output["self"] = output
        return output

    stage = ss.Stage("hold", holding_itself, input="x", output="x")
    with pytest.raises(RecursionError):
        list(ss.Pipeline([{"x": torch.ones(2)}], [stage], device))


def test_views_of_one_tensor_may_be_modified_in_the_loop(device):
    for _ in range(2):
        seen = []
        for part in ss.Pipeline(torch.ones(8, 3, device=device).split(2), (), device):
            part.mul_(2)
            seen.append(part.tolist())
        assert seen == [[[2] * 3] * 2] * 4


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


def test_shuffled_loader_and_random_loop_match_plain_loop(device):
    loader = torch.utils.data.DataLoader(Numbers(), 4, shuffle=True)

    def run(loop):
        torch.manual_seed(4)
        return [(labels.cpu(), torch.rand(1)) for _, labels in loop]

    for (a, b), (c, d) in zip(run(ss.Pipeline(loader, (), device)), run(loader), strict=True):
        assert torch.equal(a, c) and torch.equal(b, d)

    def draws():
        for x, *_ in batches():
            yield x + torch.rand(1)

    with pytest.raises(ss.Error, match=r"the loader.*generator="):
        for _ in ss.Pipeline(draws(), (), device):
            torch.rand(1)


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


ENDING = """
import sys, time, torch, slipstream as ss

class Late(torch.utils.data.Dataset):
    def __len__(self):
        return 50
    def __getitem__(self, i):
        if i >= int(sys.argv[1]):
            time.sleep(1000)
        return torch.ones(2)

torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL = 0.2  # that PyTorch gives a worker to end by itself, in seconds
loader = torch.utils.data.DataLoader(Late(), 2, num_workers=1, persistent_workers=sys.argv[2] == "persistent")
batches = iter(ss.Pipeline(loader, [("add", lambda x: x + 1)], "cpu"))
for _ in range(5):
    next(batches)
if len(sys.argv) > 3:
    batches.close()
"""


@pytest.mark.parametrize("given", [["50", ""], ["10", ""], ["10", "", "close"], ["10", "persistent"]])
def test_interpreter_exits_during_iteration(given):
    done = interpreters.run(ENDING, *given)
    assert done.returncode == 0, done.stderr


SURPRISED = """
import sys, threading, time, torch, slipstream as ss

class Slow:  # the interpreter frees it after it has taken Python's lock from other threads
    def __del__(self, sleep=time.sleep):
        sleep(2)

slow, inside, where = Slow(), threading.Event(), sys.argv[1]

def late(x):
    inside.set()
    time.sleep(0.3)
    return x

class Moved:
    def to(self, device):
        return late(self)

def loop():
    loader = map(late, [torch.ones(1)] * 50) if where == "loader" else [(torch.ones(1), Moved())] * 50
    for _ in ss.Pipeline(loader, [("late", late)] if where == "stage" else [], "cpu"):
        pass

threading.Thread(target=loop, daemon=True).start()
inside.wait()
"""


@pytest.mark.parametrize("where", ["loader", "stage", "to"])
def test_interpreter_exits_while_daemon_thread_iterates(where):
    done = interpreters.run(SURPRISED, where)
    assert done.returncode == 0, done.stderr


def test_persistent_loader_can_be_iterated_after_a_break(device):
    loader = torch.utils.data.DataLoader(Numbers(), 4, num_workers=2, persistent_workers=True)
    labels = [label.tolist() for *_, label in loader]
    for _ in range(10):
        for _ in ss.Pipeline(loader, (), device):
            break
        assert [label.tolist() for *_, label in loader] == labels


def test_two_iterators_at_once_raise_for_persistent_workers(device):
    for is_persistent in (False, True):
        loader = torch.utils.data.DataLoader(Numbers(), 4, num_workers=1, persistent_workers=is_persistent)
        pipe = ss.Pipeline(loader, (), device)
        refused = pytest.raises(ss.Error, match="another iteration over this loader")
        expected = refused if is_persistent else nullcontext()
        with expected:
            pairs = [(a.tolist(), b.tolist()) for (_, a), (_, b) in zip(pipe, pipe, strict=True)]
            assert len(pairs) == 10 and all(a == b for a, b in pairs)
