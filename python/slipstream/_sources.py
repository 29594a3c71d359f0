"""Takes batches from a user's loader, and follows its workers, its states and its epochs."""

from __future__ import annotations

import collections
import copy
import dataclasses
import queue
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch.utils.data import IterableDataset

from . import _native
from ._checks import EPOCHS, check, shortened
from ._plain_state import change, plain_state
from ._signals import is_of_handler


class _Queue:
    """Replaces the queue from which PyTorch's iterator takes the batches of its workers, (number, batch, ...) in the
    order in which they were finished. It can show its items without removing them, which a queue cannot."""

    def __init__(self, batches: Any) -> None:
        self.passes = 0  # number of iterations over the same persistent workers
        self._batches = batches
        self._seen: collections.deque[Any] = collections.deque()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batches, name)

    def get(self, timeout: float | None = None) -> Any:
        if not self._seen:
            return self._batches.get(timeout=timeout)
        item = self._seen.popleft()
        if isinstance(item, _RaisedError):
            raise item.error
        return item

    def seen(self) -> Iterator[Any]:
        """Yields all items that have arrived, without waiting. They stay in the queue."""
        yield from list(self._seen)
        while True:
            try:
                item = self._batches.get_nowait()
            except queue.Empty:
                return
            except Exception as error:
                if is_of_handler(error, error.__traceback__):
                    raise
                item = _RaisedError(error)
            self._seen.append(item)
            yield item


class _Workers:
    """Iterator over the batches of a PyTorch loader with worker processes. The loop calls ready() before it reads a
    batch in advance, so that a late batch does not delay batches that are already on the device."""

    _iterator: Any

    def __init__(self, loader: torch.utils.data.DataLoader[Any]) -> None:
        self._iterator = iter(loader)
        self._queue: _Queue | None = None
        own = getattr(self._iterator, "__dict__", {})  # getattr() could return attributes of a wrapped iterator
        if own.keys() >= {"_data_queue", "_rcvd_idx", "_send_idx", "_task_info", "_workers_status"}:
            batches = own["_data_queue"]  # with persistent workers, the _Queue of the previous iteration
            self._queue = batches if isinstance(batches, _Queue) else _Queue(batches)
            self._queue.passes += 1
            self._number = self._queue.passes
            self._iterator._data_queue = self._queue

    def ready(self) -> bool:
        """Returns true if next() would not wait for a batch. At the end of the iteration it may still wait for
        workers."""
        if self._queue is None or self._is_stale():
            return True
        is_in_order = getattr(self._iterator, "_in_order", True)
        there: set[int] = set()
        ended: set[int] = set()
        if self._has_next(there, ended):
            return True
        for item in self._queue.seen():
            if isinstance(item, _RaisedError):
                return True
            worker = _ended_worker(item[1])
            if worker is not None:
                ended.add(worker)
            elif is_in_order:
                there.add(item[0])
            else:
                return True
            if self._has_next(there, ended):
                return True
        return False

    def _has_next(self, there: set[int], ended: set[int]) -> bool:
        """Returns true if the next batch in order has arrived. Follows PyTorch's _MultiProcessingDataLoaderIter, which
        skips the batches of workers that have ended.

        there: numbers of the batches in the queue. ended: workers whose end is in the queue."""
        # An entry of _task_info is (worker,) while its batch is not there, and (worker, batch) if the batch arrived
        # before an earlier one.
        it = self._iterator
        for number in range(it._rcvd_idx, it._send_idx):
            info = it._task_info.get(number)
            if info is None or (len(info) == 2 and _ended_worker(info[1]) is not None):
                continue
            if len(info) == 2 or number in there:
                return True
            if it._workers_status[info[0]] and info[0] not in ended:
                return False
        return False

    def _is_stale(self) -> bool:
        return self._queue is not None and self._number != self._queue.passes

    def __iter__(self) -> _Workers:
        return self

    def __next__(self) -> Any:
        if self._is_stale():
            raise _native.Error(
                "another iteration over this loader has begun, but its persistent workers serve only one at a time: "
                "finish one iteration before the next, or leave out persistent_workers"
            )
        return next(self._iterator)


def _ended_worker(made: Any) -> int | None:
    """Returns the number of the worker that reports its end instead of a batch, or None for a batch. TorchData's
    loader wraps the report in a tuple with the worker's state."""
    said = made[0] if type(made) is tuple and made else made
    return said.worker_id if type(said).__name__ == "_IterableDatasetStopIteration" else None


@dataclasses.dataclass
class _RaisedError:
    """An exception that is stored until the value in whose place it was raised is requested."""

    error: BaseException


class States:
    """Saves the state of a loader after each batch or error of an epoch. A pipeline reads batches in advance, so its
    own state is an older state of the loader."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._taken: collections.deque[Any] = collections.deque()
        self._given = 0

    def after_each(self, batches: Iterator[Any]) -> _ObservedIterator:
        return _ObservedIterator(batches, self._remember)

    def _remember(self) -> None:
        try:
            self._taken.append(copy.deepcopy(self._loader.state_dict()))
        except Exception as error:  # raised only if the user requests this state
            if is_of_handler(error, error.__traceback__):
                raise
            self._taken.append(_RaisedError(error))

    def given(self, count: int) -> Any:
        """Returns the state after the first `count` batches, and drops older states. Returns None if the loop has
        received no batch since the previous call."""
        state = None
        for _ in range(self._given, count):
            state = self._taken.popleft()
        self._given = count
        return state


class _ObservedIterator(Iterator[Any]):
    """Gives the same batches and errors as another iterator, and calls a function after each."""

    def __init__(self, batches: Iterator[Any], remember: Callable[[], None]) -> None:
        self._batches, self._remember = batches, remember

    def __next__(self) -> Any:
        try:
            item = next(self._batches)
        except StopIteration:
            raise
        except Exception:
            self._remember()
            raise
        self._remember()
        return item


def has_state(loader: Any) -> bool:
    return all(callable(getattr(loader, name, None)) for name in ("state_dict", "load_state_dict"))


class LoaderPosition:
    """The position of a loop over a loader that is not a slipstream.DataLoader.

    resumes: whether the loader's state after the last batch of an epoch means the start of the next epoch. Otherwise
        the loader first gives an epoch without batches.
    """

    def __init__(self, loader: Any, resumes: bool) -> None:
        self._loader, self._resumes = loader, resumes
        self.epoch = self._batch = 0  # position at which the next iteration starts
        self._now: dict[str, Any] | None = None  # state inside an epoch, also after the loop was left there

    def begin(self) -> tuple[int, int]:
        """Starts an iteration, and returns its epoch and the index of its first batch."""
        epoch, batch = self.epoch, self._batch
        self.epoch, self._batch = epoch + 1, 0
        return epoch, batch

    def seek(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch, self._batch = epoch, 0
        if self._now is not None and (self._now["epoch"] != epoch or self._batch == 0):
            self._now = None

    def given(self, state: Any, epoch: int, batch: int) -> None:
        self._now = {"loader": state, "epoch": epoch, "batch": batch}

    def end(self) -> None:
        self._now = None

    def state_dict(self) -> dict[str, Any]:
        """Returns the state after the last batch that the loop got."""
        if self._now is None:
            return {"loader": self._loader.state_dict(), "epoch": self.epoch, "batch": self._batch}
        if isinstance(self._now["loader"], _RaisedError):
            raise self._now["loader"].error
        return copy.deepcopy(self._now)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next iteration start at the position of `state`."""
        if not isinstance(state, Mapping) or {*state} != {"loader", "epoch", "batch"}:
            raise _native.Refused(
                f"{shortened(state)} is not a state of a slipstream.Pipeline around {type(self._loader).__name__}: "
                "give what its state_dict() returned"
            )
        check(epoch=(state["epoch"], 0, EPOCHS - 1), batch=(state["batch"], 0, EPOCHS - 1))
        self._loader.load_state_dict(copy.deepcopy(state["loader"]))
        self._now = copy.deepcopy(dict(state))
        if self._resumes and state["batch"] == len(self._loader):
            self._now |= {"epoch": state["epoch"] + 1, "batch": 0}
        self.epoch, self._batch = self._now["epoch"], self._now["batch"]


def with_epochs(loader: Any) -> list[Any]:
    """Returns the loader if it has set_epoch(), otherwise the samplers and data sets in it that do."""
    if hasattr(loader, "set_epoch"):
        return [loader]
    return parts_with_epochs(loader, getattr(loader, "dataset", None))


def parts_with_epochs(loader: Any, dataset: Any) -> list[Any]:
    """Returns the samplers of a loader and the data sets in `dataset` that have set_epoch()."""
    batches = getattr(loader, "batch_sampler", None)
    samplers = [getattr(loader, "sampler", None), batches, getattr(batches, "sampler", None)]
    parts = [*samplers, *datasets_with_epochs(getattr(loader, "dataset", None))]
    return [*{id(each): each for each in parts if hasattr(each, "set_epoch")}.values()]


def datasets_with_epochs(dataset: Any) -> list[Any]:
    """Returns the data set if it has set_epoch(), otherwise the data sets inside it that do."""
    if hasattr(dataset, "set_epoch"):
        return [dataset]
    inner = [getattr(dataset, "dataset", None), *(getattr(dataset, "datasets", None) or ())]
    return [found for each in inner if each is not None for found in datasets_with_epochs(each)]


def set_epochs(loader: Any, epoch: int) -> None:
    """Calls set_epoch() of the loader, or of its samplers and data sets that have it. Warns if persistent workers have
    copies of a data set, which set_epoch() does not change."""
    is_copied = getattr(loader, "persistent_workers", False) and getattr(loader, "_iterator", None) is not None
    copied = {id(each) for each in datasets_with_epochs(loader.dataset)} if is_copied else set()
    for each in with_epochs(loader):
        before = plain_state(each) if id(each) in copied else {}
        each.set_epoch(epoch)
        if id(each) in copied and change(before, plain_state(each)):
            warnings.warn(
                f"set_epoch() of {type(each).__name__} does not reach the loader's worker processes, which have had "
                "copies of it since the first epoch: leave out persistent_workers, or keep the epoch in shared "
                "memory (torch.Tensor.share_memory_())",
                stacklevel=3,
            )


class _UntilLength(Iterator[Any]):
    """Iterates over a loader with a known number of batches. ready() returns false after the last of them, so that the
    end of the iteration is not requested in advance.

    Requesting the end may have an effect. For example, torch.utils.data.RandomSampler then uses its generator once
    more, and a loop of Lightning, which counts batches, never requests it. If there are more batches than the loader
    reported, the loop gets them, too."""

    def __init__(self, batches: Iterator[Any], length: int, ready: Callable[[], bool] | None) -> None:
        self._batches, self._left, self._ready = batches, length, ready

    def __next__(self) -> Any:
        self._left -= 1
        return next(self._batches)

    def ready(self) -> bool:
        return self._left > 0 and (self._ready is None or self._ready())


def _length(loader: Any) -> int | None:
    """Returns the number of batches, or None if it is not known."""
    # PyTorch's loader warns of a wrong len() of an iterable-style data set only after its own len() was called.
    if not hasattr(loader, "__len__") or isinstance(getattr(loader, "dataset", None), IterableDataset):
        return None
    try:
        return len(loader)
    except Exception as error:  # for example, its sampler has no length
        if is_of_handler(error, error.__traceback__):
            raise
        return None


def make_source(
    loader: Iterable[Any], states: States | None
) -> tuple[Iterator[Any], Callable[[], bool] | None]:
    """Returns an iterator over the batches of an epoch, and a function that returns true if the next batch can be taken
    in advance, and without waiting. The function is None if that is not known."""
    workers = None
    if isinstance(loader, torch.utils.data.DataLoader) and loader.num_workers > 0:
        workers = _Workers(loader)
    batches: Iterator[Any] = iter(loader if workers is None else workers)
    ready = None if workers is None else workers.ready
    length = _length(loader)
    if length is not None:
        batches = until_length = _UntilLength(batches, length, ready)
        ready = until_length.ready
    return batches if states is None else states.after_each(batches), ready
