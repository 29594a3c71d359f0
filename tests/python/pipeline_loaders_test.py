"""Pipelines around PyTorch's loaders."""

import enum
import multiprocessing
import signal
import sys
import threading

import pytest
import torch
from loops import Numbers
from processes import wait_until

import slipstream as ss
from slipstream import _sources


LIMIT_S = 100  # no test needs to wait this long


class Late(Numbers):
    """Reading sample `late` waits for the event `allow_next`."""

    def __init__(self, late):
        self.late, self.allow_next, self.made = late, multiprocessing.Event(), multiprocessing.Event()

    def __getitem__(self, index):
        if index == self.late:
            self.allow_next.wait(LIMIT_S)
            self.made.set()
        return super().__getitem__(index)


@pytest.mark.parametrize("late", [6, 7])
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("is_persistent", [False, True])
def test_late_batch_does_not_delay_available_batches(device, late, workers, is_persistent):
    """With two workers, the batch after the late one is ready."""
    data = Late(late)
    loader = torch.utils.data.DataLoader(data, 1, num_workers=workers, persistent_workers=is_persistent)
    for _ in range(2 if is_persistent else 1):
        data.allow_next.clear()
        data.made.clear()
        for i, (_, label) in enumerate(ss.Pipeline(loader, (), device)):
            assert label.item() == i
            if i == 5:
                assert not data.made.is_set()
                data.allow_next.set()
        assert i == len(data) - 1


@pytest.mark.parametrize("late", [6, 7])
def test_a_break_does_not_wait_for_a_late_loader(device, late, monkeypatch):
    """PyTorch kills a worker that does not end within this time, also in a plain loop."""
    monkeypatch.setattr(torch.utils.data._utils, "MP_STATUS_CHECK_INTERVAL", 0.1)
    data = Late(late)
    loader = torch.utils.data.DataLoader(data, 1, num_workers=1)
    for i, _ in enumerate(ss.Pipeline(loader, (), device)):
        if i == 5:
            break
    assert i == 5 and not data.made.is_set()


@pytest.mark.parametrize("late", [0, 3])
def test_unordered_loader_gives_available_batches_before_late_one(device, late):
    data = Late(late)
    loader = torch.utils.data.DataLoader(data, 1, num_workers=2, in_order=False)
    labels = []
    for _, label in ss.Pipeline(loader, (), device):
        labels.append(label.item())
        if len(labels) == 30:  # all batches except those of the late worker may be ready
            assert not data.made.is_set()
            data.allow_next.set()
    assert sorted(labels) == list(range(40)) and labels.index(late) >= 30


class Streamed(torch.utils.data.IterableDataset):
    """Workers have shares of different sizes and end one by one."""

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        yield from torch.arange(4 * worker.id + 1) + 100 * worker.id


@pytest.mark.parametrize("is_persistent", [False, True])
def test_iterable_data_set_gives_batches_of_plain_loop(device, is_persistent):
    loader = torch.utils.data.DataLoader(Streamed(), 2, num_workers=3, persistent_workers=is_persistent)
    pipe = ss.Pipeline(loader, [("same", lambda x: x.clone())], device)
    expected = [batch.tolist() for batch in loader]
    for _ in range(2):
        assert [batch.tolist() for batch in pipe] == expected


def test_iterator_after_a_break_gives_all_batches(device):
    """Both iterations use the same worker processes."""
    for late in (3, 6):
        data = Late(late)
        loader = torch.utils.data.DataLoader(data, 1, num_workers=2, persistent_workers=True)
        pipe = ss.Pipeline(loader, (), device)
        for x, _ in pipe:
            if x[0, 0] == 2:
                break
        letting = threading.Timer(0.1, data.allow_next.set)
        letting.start()
        assert [labels.item() for _, labels in pipe] == list(range(40))
        letting.join()


class Ending(torch.utils.data.IterableDataset):
    """Each of two workers yields three numbers. One of them yields another one, after it has waited for
    `allow_next`."""

    def __init__(self):
        self.allow_next, self.made = multiprocessing.Event(), multiprocessing.Event()

    def __iter__(self):
        worker = torch.utils.data.get_worker_info().id
        yield from torch.arange(3) + 10 * worker
        if worker == 1:
            self.allow_next.wait(LIMIT_S)
            self.made.set()
            yield torch.tensor(13)


@pytest.mark.parametrize("prefetch_factor", [1, 2, 4])
@pytest.mark.parametrize("is_persistent", [False, True])
def test_worker_with_late_last_batch_delays_no_available_batch(device, prefetch_factor, is_persistent):
    data = Ending()
    loader = torch.utils.data.DataLoader(data, None, num_workers=2, prefetch_factor=prefetch_factor,
                                         persistent_workers=is_persistent)
    for _ in range(2 if is_persistent else 1):
        data.allow_next.clear()
        data.made.clear()
        numbers = []
        for x in ss.Pipeline(loader, (), device):
            numbers.append(x.item())
            if len(numbers) == 6:
                assert not data.made.is_set()
                data.allow_next.set()
        assert numbers == [0, 10, 1, 11, 2, 12, 13]


class Generated(torch.utils.data.DataLoader):
    def __iter__(self):
        yield from super().__iter__()


class Delegating:
    def __init__(self, iterator):
        self.iterator = iterator

    def __getattr__(self, name):
        return getattr(self.iterator, name)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.iterator)


class Wrapped(torch.utils.data.DataLoader):
    def __iter__(self):
        return Delegating(super().__iter__())


@pytest.mark.parametrize("kind", [Generated, Wrapped])
@pytest.mark.parametrize("is_persistent", [False, True])
def test_loader_subclass_with_custom_iterator_gives_its_batches(device, kind, is_persistent):
    loader = kind(Numbers(), 4, num_workers=2, persistent_workers=is_persistent)
    for _ in range(2):
        assert [y.tolist() for _, y in ss.Pipeline(loader, (), device)] == [y.tolist() for _, y in loader]


def test_data_queue_of_loader_keeps_its_methods(device):
    loader = torch.utils.data.DataLoader(Numbers(), 4, num_workers=1, persistent_workers=True)
    assert len(list(ss.Pipeline(loader, (), device))) == 10
    assert iter(loader)._data_queue.qsize() >= 0 and len(list(loader)) == 10


class OneEnds(torch.utils.data.IterableDataset):
    """The first of three workers ends at once, the second yields a number, the third first waits for `allow_next`."""

    def __init__(self):
        self.allow_next = multiprocessing.Event()

    def __iter__(self):
        worker = torch.utils.data.get_worker_info().id
        if worker == 2:
            self.allow_next.wait(LIMIT_S)
        if worker > 0:
            yield torch.tensor(worker)


def test_ready_skips_workers_that_have_ended():
    data = OneEnds()
    workers = _sources._Workers(torch.utils.data.DataLoader(data, None, num_workers=3, prefetch_factor=1))
    wait_until(workers.ready)
    assert next(workers) == 1 and not workers.ready()
    data.allow_next.set()
    assert list(workers) == [2]


class Equal(torch.utils.data.DataLoader):
    def __eq__(self, other):
        return True


def test_unhashable_loader_is_accepted(device):
    assert len(list(ss.Pipeline(Equal(Numbers(), 4, num_workers=1), (), device))) == 10


class Color(enum.Enum):
    RED = 0


class Colored(Numbers):
    def __getitem__(self, index):
        return torch.tensor(Color(index // 6).value)


def test_standard_library_error_is_not_attributed_to_a_signal(device):
    seen = 0
    with pytest.raises(ValueError, match="not a valid Color") as caught:
        for _ in ss.Pipeline(torch.utils.data.DataLoader(Colored(), 1), (), device):
            seen += 1
    assert seen == 6 and not any("signal" in note for note in getattr(caught.value, "__notes__", ()))


class SignaledState:
    def __iter__(self):
        return iter(torch.arange(3))

    def state_dict(self):
        signal.raise_signal(signal.SIGALRM)
        return {}

    def load_state_dict(self, state):
        pass


def test_signal_handler_error_during_state_dict_is_raised(device):
    def handler(*_):
        raise OSError("for a signal")

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with pytest.raises(OSError, match="for a signal"):
            list(ss.Pipeline(SignaledState(), (), device))
    finally:
        signal.signal(signal.SIGALRM, before)


def test_signal_handler_error_is_raised_at_once(device, monkeypatch):
    loader = torch.utils.data.DataLoader(torch.arange(4000), 1, num_workers=2)
    seen = at = 0

    # Python ignores an error of a handler that runs during a __del__, as tensors of worker processes
    # have one. The signal is then sent again.
    monkeypatch.setattr(
        sys, "unraisablehook", lambda _: signal.setitimer(signal.ITIMER_REAL, 0.001)
    )

    def handler(*_):
        nonlocal at
        at = seen
        raise OSError("for a signal")

    before = signal.signal(signal.SIGALRM, handler)
    try:
        for _ in range(6):
            seen = 0
            with pytest.raises(OSError, match="for a signal"):
                for _ in ss.Pipeline(loader, (), device):
                    seen += 1
                    if seen == 5:
                        signal.setitimer(signal.ITIMER_REAL, 0.02)
            assert seen == at
    finally:
        signal.signal(signal.SIGALRM, before)
