"""Where the batches of a loop come from."""

from __future__ import annotations

import atexit
import collections
import contextlib
import copy
import dataclasses
import queue
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from . import _native
from ._checks import EPOCHS, check, shortened

_PATIENCE_S = 10.0  # with a loader whose batch is late, when Python ends
_STEP_S = 0.1


class _Inline:
    """An iterable that makes its batches on the caller's thread."""

    def __init__(self, iterable: Iterable[Any], states: States) -> None:
        self._iterator = iter(iterable)
        self._states = states

    def ready(self) -> bool:
        return True

    def take(self) -> Any:
        item = next(self._iterator)
        self._states.take()
        return item


class _Closed(BaseException):
    """Nobody wants the batch that is waited for."""


class _InSteps:
    """The queue from which PyTorch's iterator takes batches, at 5 s a time: too long for whoever waits
    for the end of a pass."""

    def __init__(self, batches: Any, is_closed: Callable[[], bool]) -> None:
        self._batches = batches
        self._is_closed = is_closed

    def get(self, timeout: float) -> Any:
        end = time.monotonic() + timeout
        while not self._is_closed():
            left = end - time.monotonic()
            try:
                return self._batches.get(timeout=max(0.0, min(left, _STEP_S)))
            except queue.Empty:
                if left <= _STEP_S:
                    raise
        raise _Closed


class _Ahead:
    """A loader with workers of its own: a thread takes what they have made, so that a late batch
    holds up no batch that is there. It runs nobody's code but the loader's."""

    _END = object()
    _latest: weakref.WeakKeyDictionary[Any, weakref.ref[_Ahead]] = weakref.WeakKeyDictionary()
    _running: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
    _at_work: weakref.WeakSet[_Ahead] = weakref.WeakSet()

    def __init__(self, loader: torch.utils.data.DataLoader[Any], states: States) -> None:
        before = self._latest[loader]() if loader in self._latest else None
        if before is not None and loader.persistent_workers:
            before._give_way()
        self._iterator: Any = iter(loader)
        self._states = states
        self._queue: queue.Queue[Any] = queue.Queue(maxsize=1)
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name="slipstream input", daemon=True)
        self._latest[loader] = weakref.ref(self)
        self._running.add(self._thread)
        self._at_work.add(self)
        self._thread.start()

    def ready(self) -> bool:
        return not self._queue.empty()

    def take(self) -> Any:
        item = self._queue.get()
        if item is self._END:
            self._queue.put(item)
            raise StopIteration
        if isinstance(item, _Raised):
            self._queue.put(self._END)
            raise item.error
        return item

    def close(self) -> None:
        """The thread ends soon, or behind the batch that it waits for where the loader waits in ways
        of its own."""
        self._is_closed = True
        with contextlib.suppress(queue.Empty):
            self._queue.get_nowait()
        if getattr(self._iterator, "_persistent_workers", False):  # the next pass uses them too
            self._thread.join(_PATIENCE_S)

    def _give_way(self) -> None:
        """To another pass over the same workers."""
        was_closed = self._is_closed
        self.close()
        if was_closed:
            return
        with contextlib.suppress(queue.Empty):
            self._queue.get_nowait()
        told = (
            "another pass over this loader began, whose workers are persistent and serve one at a time: finish "
            "a pass first, or leave persistent_workers out"
        )
        self._queue.put(_Raised(_native.Error(told)))

    @classmethod
    def end_all(cls) -> None:
        """A thread that lets go of a tensor while Python ends would abort the process."""
        threads = list(cls._running)
        for source in list(cls._at_work):
            source.close()
        for thread in threads:
            thread.join(_PATIENCE_S)

    def _work(self) -> None:
        batches = None
        is_pytorchs = isinstance(self._iterator, _MultiProcessingDataLoaderIter)
        if is_pytorchs:
            batches = self._iterator._data_queue
            self._iterator._data_queue = _InSteps(batches, lambda: self._is_closed)
        try:
            for item in self._iterator:
                if not self._is_closed:  # the loader's state may be that of another pass
                    self._states.take()
                self._queue.put(item)
                if self._is_closed:
                    return
            self._queue.put(self._END)
        except _Closed:
            pass
        except BaseException as error:
            self._queue.put(_Raised(error))
        finally:
            if is_pytorchs:
                self._iterator._data_queue = batches


atexit.register(_Ahead.end_all)


@dataclasses.dataclass
class _Raised:
    error: BaseException


class States:
    """Of a loader that has state_dict() and load_state_dict(), behind each batch taken in a pass."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader if has_state(loader) else None
        self._taken: collections.deque[Any] = collections.deque()

    def take(self) -> None:
        if self._loader is None:
            return
        try:
            self._taken.append(copy.deepcopy(self._loader.state_dict()))
        except Exception as error:  # told to whoever asks for it
            self._taken.append(_Raised(error))

    def given(self) -> Any:
        """Behind the batch that the loop gets."""
        return self._taken.popleft() if self._loader is not None else None


def has_state(loader: Any) -> bool:
    return all(callable(getattr(loader, name, None)) for name in ("state_dict", "load_state_dict"))


class Place:
    """Where a loop over a loader that is not slipstream's is."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self.epoch = self._batch = 0  # that the next pass begins with
        self._now: dict[str, Any] | None = None  # within a pass, or where it was left

    def begin(self) -> tuple[int, int]:
        """A pass: gives its epoch and first batch."""
        epoch, batch = self.epoch, self._batch
        self.epoch, self._batch = epoch + 1, 0
        return epoch, batch

    def go_to(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch, self._batch = epoch, 0
        if self._now is not None and (self._now["epoch"] != epoch or self._batch == 0):
            self._now = None

    def given(self, state: Any, epoch: int, batch: int) -> None:
        self._now = {"loader": state, "epoch": epoch, "batch": batch}

    def end(self) -> None:
        self._now = None

    def state_dict(self) -> dict[str, Any]:
        """Behind the last batch that the loop was given."""
        if self._now is None:
            return {"loader": self._loader.state_dict(), "epoch": self.epoch, "batch": self._batch}
        if isinstance(self._now["loader"], _Raised):
            raise self._now["loader"].error
        return copy.deepcopy(self._now)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next pass goes on there."""
        if not isinstance(state, Mapping) or {*state} != {"loader", "epoch", "batch"}:
            raise _native.Refused(
                f"{shortened(state)} is no state of a slipstream.Pipeline around "
                f"{type(self._loader).__name__}: give what its state_dict() returned"
            )
        check(epoch=(state["epoch"], 0, EPOCHS - 1), batch=(state["batch"], 0, EPOCHS - 1))
        self._loader.load_state_dict(copy.deepcopy(state["loader"]))
        self.epoch, self._batch, self._now = state["epoch"], state["batch"], copy.deepcopy(dict(state))


def with_epochs(loader: Any) -> list[Any]:
    """What of a loader has set_epoch()."""
    if hasattr(loader, "set_epoch"):
        return [loader]
    batches = getattr(loader, "batch_sampler", None)
    samplers = [getattr(loader, "sampler", None), batches, getattr(batches, "sampler", None)]
    return [*{id(each): each for each in samplers if hasattr(each, "set_epoch")}.values()]


def source_of(loader: Iterable[Any], states: States) -> Any:
    if isinstance(loader, torch.utils.data.DataLoader) and loader.num_workers > 0:
        return _Ahead(loader, states)
    return _Inline(loader, states)


def close(source: Any) -> None:
    """Ends what a source does beside the loop."""
    if isinstance(source, _Ahead):
        source.close()
