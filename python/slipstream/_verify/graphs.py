"""Observes CUDA graphs: finds the tensors that a graph reads and writes, so that each replay counts as one operation."""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .._blocks import contextmanager
from .operations import COPIES, base_name, has_bytes, is_overwriting, is_reading, tensors_in, written_by
from .sources import source_of_caller
from .values import describe_tensor

GRAPHS: tuple[type, ...] = (torch.cuda.CUDAGraph,)
"""The classes of graphs that are observed."""

_COMPILER = os.path.join("torch", "_inductor", "cudagraph_trees.py")


@dataclasses.dataclass(frozen=True)
class Replay:
    """Describes the replay of a graph in the way in which torch._ops.OpOverload describes an operation."""

    name: str

    @property
    def _schema(self) -> Any:
        return _schema()

    def __str__(self) -> str:
        return self.name


@functools.cache
def _schema() -> Any:
    return torch._C.parse_schema("slipstream::replay(Tensor[] reads, *, Tensor(a!)[] writes) -> ()")


class _View(NamedTuple):
    """A tensor, without its memory."""

    storage: int  # identifies the storage, as long as a StorageWeakRef of it exists
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    text: str


class GraphContents:
    """The tensors that the work in a graph reads and writes. Holds only weak references, because a graph does not keep
    the memory of these tensors either."""

    def __init__(self, source: str, is_on_device: bool) -> None:
        self.function = Replay(f"CUDA graph [captured at {source.partition(' in ')[0].rpartition(os.sep)[2]}]")
        self.operations = 0
        self._is_on_device = is_on_device
        self._storages: dict[int, StorageWeakRef] = {}
        self._made: dict[int, _View] = {}  # by storage, those that the graph itself creates
        self._reads: dict[_View, None] = {}
        self._writes: dict[_View, None] = {}

    def add(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> None:
        """Adds an operation that was called during the capture."""
        self.operations += 1
        written = written_by(function)
        for key, value in (*enumerate(args), *kwargs.items()):
            is_overwritten = key in written and (is_overwriting(function) or isinstance(key, str))
            for tensor in tensors_in(value):
                if not self._is_accessed(tensor, function):
                    continue
                view = self._view(tensor)
                if view.storage in self._made:
                    continue
                if is_reading(function) and not is_overwritten and (view in self._reads or view not in self._writes):
                    self._reads[view] = None
                if key in written:
                    self._writes[view] = None
        given = [each for each in tensors_in((args, tuple(kwargs.values()))) if has_bytes(each)]
        known = {*self._storages, *(each.untyped_storage()._cdata for each in given)}
        for tensor in tensors_in(result):
            if has_bytes(tensor) and tensor.untyped_storage()._cdata not in known:
                view = self._view(tensor)
                self._made[view.storage] = view

    def _is_accessed(self, tensor: torch.Tensor, function: Any) -> bool:
        """Returns true if the replays access this tensor. Numbers on the host are read only during the capture, except
        in copies of page-locked memory."""
        is_there = tensor.is_cuda or not self._is_on_device or base_name(function) in COPIES
        return is_there and has_bytes(tensor) and tensor.numel() > 0

    def _view(self, tensor: torch.Tensor) -> _View:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._storages:
            self._storages[storage._cdata] = StorageWeakRef(storage)  # type: ignore[no-untyped-call]
        offset, shape, stride = int(tensor.storage_offset()), tuple(tensor.shape), tensor.stride()
        return _View(storage._cdata, offset, shape, stride, tensor.dtype, tensor.device, describe_tensor(tensor))

    def made(self) -> dict[int, StorageWeakRef]:
        """Returns the storages that the graph itself creates. They are in its memory pool."""
        return {storage: self._storages[storage] for storage in self._made}

    def reads(self) -> list[torch.Tensor]:
        return self._tensors(self._reads)

    def writes(self) -> list[torch.Tensor]:
        """Returns the tensors that a replay writes: those that existed before, and outputs that are still in use."""
        return self._tensors((*self._writes, *self._made.values()))

    def freed(self, pools: Mapping[int, StorageWeakRef]) -> list[str]:
        """Returns descriptions of the tensors whose memory was freed after the capture.

        pools: storages in the memory pools of graphs. The memory of these remains reserved for graphs."""
        views = dict.fromkeys((*self._reads, *self._writes))
        return [view.text for view in views if view.storage not in pools and self._is_freed(view)]

    def _is_freed(self, view: _View) -> bool:
        return bool(self._storages[view.storage].expired())  # type: ignore[no-untyped-call]

    def _tensors(self, views: Any) -> list[torch.Tensor]:
        found = []
        with torch.no_grad():
            for view in views:
                storage = torch.UntypedStorage._new_with_weak_ptr(self._storages[view.storage].cdata)
                if storage is not None:
                    empty = torch.empty(0, dtype=view.dtype, device=view.device)
                    found.append(empty.set_(storage, view.offset, view.shape, view.stride))
        return found


class Observer(Protocol):
    """What observed_graphs() calls. Its thread objects have the attributes of slipstream._verify.watch.Thread."""

    def observed_thread(self) -> Any:
        """Returns the object for the current thread, or None if its operations are not observed."""
        ...

    def add_graph(self, contents: GraphContents) -> None: ...
    def replay(self, thread: Any, contents: GraphContents, run: Callable[[], None]) -> None: ...


@contextmanager
def observed_graphs(observer: Observer) -> Iterator[None]:
    """Lets the observer see captures and replays of graphs in the block. Replaces methods of the class
    torch.cuda.CUDAGraph meanwhile.

    Graphs that torch.compile captures are left out: it frees and reuses their memory by its own rules."""
    contents: weakref.WeakKeyDictionary[Any, GraphContents] = weakref.WeakKeyDictionary()
    kept = [(kind, {name: vars(kind).get(name) for name in _REPLACED}) for kind in GRAPHS]
    for kind, _ in kept:
        _replace_methods(kind, observer, contents)
    try:
        yield
    finally:
        for kind, methods in kept:
            for name, method in methods.items():
                setattr(kind, name, method) if method is not None else delattr(kind, name)


_REPLACED = ("capture_begin", "capture_end", "replay")


def _replace_methods(kind: Any, observer: Observer, known: weakref.WeakKeyDictionary[Any, GraphContents]) -> None:
    begin, end, replay = (getattr(kind, name) for name in _REPLACED)

    def capture_begin(graph: Any, *args: Any, **kwargs: Any) -> None:
        thread = observer.observed_thread()
        if thread is None or _is_called_by_compiler():
            begin(graph, *args, **kwargs)
            return
        with thread.unobserved():
            begin(graph, *args, **kwargs)
        thread.capture = GraphContents(source_of_caller(), isinstance(graph, torch.cuda.CUDAGraph))

    def capture_end(graph: Any) -> None:
        thread = observer.observed_thread()
        if thread is None or thread.capture is None:
            end(graph)
            return
        contents, thread.capture = thread.capture, None
        with thread.unobserved():
            end(graph)
        known[graph] = contents
        observer.add_graph(contents)

    def replay_observed(graph: Any) -> None:
        thread, contents = observer.observed_thread(), known.get(graph)
        if thread is None or contents is None or thread.capture is not None:
            replay(graph)
        else:
            observer.replay(thread, contents, functools.partial(replay, graph))

    for name, method in zip(_REPLACED, (capture_begin, capture_end, replay_observed), strict=True):
        setattr(kind, name, functools.wraps(getattr(kind, name))(method))


def _is_called_by_compiler() -> bool:
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename.endswith(_COMPILER):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
