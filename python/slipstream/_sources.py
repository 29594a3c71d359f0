"""Where the batches of a loop come from."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import queue
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from . import _native

_PATIENCE_S = 10.0  # with a loader whose batch is late, when Python ends
_STEP_S = 0.1


class _Inline:
    """An iterable that makes its batches on the caller's thread."""

    def __init__(self, iterable: Iterable[Any]) -> None:
        self._iterator = iter(iterable)

    def ready(self) -> bool:
        return True

    def take(self) -> Any:
        return next(self._iterator)


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

    def __init__(self, loader: torch.utils.data.DataLoader[Any]) -> None:
        before = self._latest[loader]() if loader in self._latest else None
        if before is not None and loader.persistent_workers:
            before._give_way()
        self._iterator: Any = iter(loader)
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


def source_of(loader: Iterable[Any]) -> Any:
    if isinstance(loader, torch.utils.data.DataLoader) and loader.num_workers > 0:
        return _Ahead(loader)
    return _Inline(loader)


def close(source: Any) -> None:
    """Ends what a source does beside the loop."""
    if isinstance(source, _Ahead):
        source.close()
