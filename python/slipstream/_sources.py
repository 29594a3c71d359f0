"""Where the batches of a loop come from."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import queue
import threading
import weakref
from collections.abc import Iterable
from typing import Any

import torch


_PATIENCE_S = 10.0  # with a loader whose batch is late, when Python ends


class _Inline:
    """An iterable that makes its batches on the caller's thread."""

    def __init__(self, iterable: Iterable[Any]) -> None:
        self._iterator = iter(iterable)

    def ready(self) -> bool:
        return True

    def take(self) -> Any:
        return next(self._iterator)


class _Ahead:
    """A loader with workers of its own: a thread takes what they have made, so that a late batch
    holds up no batch that is there. It runs nobody's code but the loader's."""

    _END = object()
    _threads: weakref.WeakKeyDictionary[Any, threading.Thread] = weakref.WeakKeyDictionary()
    _at_work: weakref.WeakSet[_Ahead] = weakref.WeakSet()

    def __init__(self, loader: Iterable[Any]) -> None:
        before = self._threads.get(loader)
        while before is not None and before.is_alive():  # it may use the same workers
            before.join(0.05)
        self._iterator = iter(loader)
        self._queue: queue.Queue[Any] = queue.Queue(maxsize=1)
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name="slipstream input", daemon=True)
        self._threads[loader] = self._thread
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
        """The thread ends behind the batch that it waits for."""
        self._is_closed = True
        with contextlib.suppress(queue.Empty):
            self._queue.get_nowait()

    @classmethod
    def end_all(cls) -> None:
        """A thread that lets go of a tensor while Python ends would abort the process."""
        ending = list(cls._at_work)
        for each in ending:
            each.close()
        for each in ending:
            each._thread.join(_PATIENCE_S)

    def _work(self) -> None:
        try:
            for item in self._iterator:
                self._queue.put(item)
                if self._is_closed:
                    return
            self._queue.put(self._END)
        except BaseException as error:
            self._queue.put(_Raised(error))


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
