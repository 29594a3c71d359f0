"""The effects of errors in loaders and batches that slipstream.Pipeline iterates over."""

import sys
import threading
from contextlib import nullcontext

import interpreters
from loops import Numbers, batches, collect_results
import pytest
import torch

import slipstream as ss


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


@pytest.mark.parametrize("serial", [False, True])
@pytest.mark.parametrize("bad", [{0}, {3}, {2, 3, 4}, {8}, set(range(9))])
def test_loader_error_replaces_only_its_own_batch(device, bad, serial):
    expected = [f"ValueError number {i}" if i in bad else i for i in range(9)]
    assert collect_results(ss.Pipeline(Every(bad), (), device, serial=serial)) == expected


def test_error_in_c_function_replaces_only_its_own_batch(device):
    values = [[0.0], [1.0], [2.0], ["no number"], [4.0]]
    plain = collect_results(map(torch.tensor, values))
    assert collect_results(ss.Pipeline(map(torch.tensor, values), (), device)) == plain
    assert plain[3].startswith("ValueError") and plain[4] == 4


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


def test_views_of_one_tensor_may_be_modified_in_the_loop(device):
    for _ in range(2):
        seen = []
        for part in ss.Pipeline(torch.ones(8, 3, device=device).split(2), (), device):
            part.mul_(2)
            seen.append(part.tolist())
        assert seen == [[[2] * 3] * 2] * 4


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
