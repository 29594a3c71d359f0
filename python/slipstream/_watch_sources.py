"""Finds the workers and counters of a loader by its iterator, for slipstream.watch()."""

from __future__ import annotations

import dataclasses
import multiprocessing.queues
from collections.abc import Callable
from queue import Queue
from typing import Any

from . import _feature_loading, _feature_source, _native, _progress, _sources
from ._iteration import Iteration

_TORCH_WORKERS = {"_data_queue", "_rcvd_idx", "_task_info", "_tasks_outstanding", "_workers"}
# The iterators that a pipeline puts around that of its loader, with the attribute that is the inner one.
_AROUND: dict[type[Any], str] = {
    _sources._Workers: "_iterator",
    _sources._UntilLength: "_batches",
    _sources._ObservedIterator: "_batches",
    _feature_source.FeatureSource: "_batches",
    _feature_loading.TorchBatches: "_batches",
    _progress.Progress: "_source",
    _progress._Watched: "_source",
}


@dataclasses.dataclass(frozen=True)
class Source:
    """What can be observed of an iterator without changing it.

    processes: identifiers of its worker processes.
    loader: the native loader that it reads, or None.
    queue: the batches that its workers have finished, or None.
    loader_times: for a loop with stages: returns the wall time and the CPU time that it has spent in its loader since
        the first call.
    """

    processes: list[int] = dataclasses.field(default_factory=list)
    loader: _native.Loader | None = None
    queue: _native.TorchQueue | None = None
    loader_times: Callable[[], tuple[float, float]] | None = None


def find_source(batches: Any) -> Source:
    """Returns what can be observed of an iterator that has given its first batch."""
    if not isinstance(batches, Iteration):
        return _torch_source(batches)
    loop, source = batches.loop, batches.source
    if loop is None:
        return Source()
    times = loop.loader_times
    if isinstance(source, _native.Loader):
        return Source(loader=source, loader_times=times)
    # A pipeline takes batches in advance, so the batches that are ready in its loader do not show whether the loop
    # will wait.
    while type(source) in _AROUND:
        source = getattr(source, _AROUND[type(source)])
    return Source(processes=_torch_source(source).processes, loader_times=times)


def _torch_source(iterator: Any) -> Source:
    """Returns the source of an iterator of torch.utils.data.DataLoader with workers, and an unknown one for others."""
    # getattr() could return attributes of a wrapped iterator.
    if not getattr(iterator, "__dict__", {}).keys() >= _TORCH_WORKERS:
        return Source()
    processes = [each.pid for each in iterator._workers if each.pid is not None]
    return Source(processes=processes, queue=_torch_queue(iterator))


def _torch_queue(iterator: Any) -> _native.TorchQueue | None:
    queue = iterator._data_queue
    if isinstance(queue, multiprocessing.queues.Queue):  # its size is not stored
        own: Any = queue
        return _native.TorchQueue(iterator, None, own._sem._semlock._get_value, own._maxsize)
    # With pin_memory, a thread fills this queue.
    return _native.TorchQueue(iterator, queue.queue, None, 0) if isinstance(queue, Queue) else None
