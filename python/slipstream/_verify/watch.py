"""Calls a function before and after each operation of a run, also in the threads that the run starts."""

from __future__ import annotations

import dataclasses
import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import Any, Protocol

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import _python_dispatch

from .._blocks import contextmanager
from .graphs import GraphContents, observed_graphs
from .operations import COPIES, base_name, tensors_in
from .schedule import OperationSite, Size
from .sources import is_of_stdlib, source_of_caller

_TORCH = os.path.dirname(str(torch.__file__)) + os.sep
_FOR_A_DEVICE = ("is_pinned", "pin_memory", "_pin_memory")


class Thread:
    """A thread of the host and its counters.

    A thread of autograd's engine that works for another thread has a separate object, whose `caller` is that thread.

    name: does not depend on timing: "main", "main/1" for its first child.
    rank: position in the order in which threads were started.
    """

    def __init__(self, name: str, rank: int, caller: Thread | None = None) -> None:
        self.name = name
        self.rank = rank
        self.ident: int = caller.ident if caller else threading.get_ident()
        self.native_id: int = caller.native_id if caller else threading.get_native_id()
        self.caller = caller
        self.streams: dict[tuple[int, int], int] = caller.streams if caller else {}
        self.children = 0
        self.operations = 0
        self.calls = 0
        self.in_operation = 0
        self.has_ended = False
        self.capture: GraphContents | None = None  # of the graph that the thread captures now
        self._unobserved = 0

    @contextmanager
    def unobserved(self) -> Iterator[None]:
        """Ignores the operations of this thread in the block."""
        self._unobserved += 1
        try:
            yield
        finally:
            self._unobserved -= 1

    def is_unobserved(self) -> bool:
        return self._unobserved > 0


@dataclasses.dataclass
class Operation:
    """One call of an operation of PyTorch.

    order: index among all operations of the run.
    device: index of the CUDA device on which it works, or None.
    """

    thread: Thread
    place: OperationSite
    order: int
    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    device: int | None
    stream: str
    step: Any = None
    delays: Any = None

    def name(self) -> str:
        return str(self.function)


@dataclasses.dataclass(frozen=True)
class StaleReplay:
    """A replay of a graph that uses memory that was freed after the capture.

    graph: name of the operation. tensor: description of the tensor that was freed. source: line that replayed it."""

    graph: str
    tensor: str
    source: str


class Treatment(Protocol):
    """Code that runs before and after each operation, on the thread that calls the operation."""

    def before(self, operation: Operation) -> None: ...
    def after(self, operation: Operation, result: Any) -> None: ...
    def captured(self, contents: GraphContents, device: int | None) -> None:
        """Called before an operation that is captured as part of a graph."""
        ...


class Watch:
    def __init__(self, treatment: Treatment) -> None:
        self._treatment = treatment
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._orders = itertools.count()
        self._streams: dict[tuple[int, int], str] = {}
        self._counts = {"operations": 0, "on_device": 0, "copies": 0, "replays": 0, "replayed": 0}
        self._is_over = False
        self._is_paused = False
        self.main = Thread("main", 0)
        self.threads: dict[str, Thread] = {"main": self.main}
        self.started: list[threading.Thread] = []
        self.of_torch: set[threading.Thread] = set()
        self.failed: list[tuple[str, BaseException]] = []
        self.stale: list[StaleReplay] = []
        self._pools: dict[int, StorageWeakRef] = {}  # storages in the memory pools of graphs

    def size(self) -> Size:
        at_work = [each for each in list(self.threads.values()) if each.operations and not each.caller]
        return Size(**self._counts, threads=len(at_work))

    def number_of_streams(self) -> int:
        return len(self._streams)

    def devices(self) -> set[int]:
        """Returns the indices of the CUDA devices that were used so far."""
        with self._lock:
            return {device for device, _ in self._streams}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watches the operations of this thread and of all threads that are started in the block. Replaces
        threading.Thread.start() meanwhile, so only one Watch may be active."""
        start = threading.Thread.start

        def start_watched(of_thread: threading.Thread) -> None:
            if not self._is_off() and not self._is_by_others():
                self._adopt(of_thread, is_of_torch=_is_called_by_torch())
            start(of_thread)

        threading.Thread.start = start_watched  # type: ignore[assignment,method-assign]
        try:
            with _Mode(self, self.main), observed_graphs(self):
                yield
        finally:
            threading.Thread.start = start  # type: ignore[method-assign]

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Ignores operations of the main thread in the block, because they do not belong to the loop."""
        self._is_paused = True
        try:
            yield
        finally:
            self._is_paused = False

    def end(self) -> None:
        """Ends the watch. Operations of threads that are still alive are then called without further action."""
        self._is_over = True

    def call(self, thread: Thread, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        is_paused = self._is_paused and thread is self.main
        if self._is_off() or thread.is_unobserved() or getattr(function, "namespace", "") == "profiler":
            return function(*args, **kwargs)
        if thread.capture is not None:
            self._treatment.captured(thread.capture, _find_device(function, args, kwargs))
            result = function(*args, **kwargs)
            thread.capture.add(function, args, kwargs, result)
            return result
        if is_paused:
            return function(*args, **kwargs)
        return self._observe(thread, function, args, kwargs, partial(function, *args, **kwargs))

    def _observe(
        self, thread: Thread, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], run: Callable[[], Any]
    ) -> Any:
        thread.in_operation += 1
        try:
            operation = self._operation(thread, function, args, kwargs)
            self._treatment.before(operation)
            result = run()
            self._treatment.after(operation, result)
        finally:
            thread.in_operation -= 1
            thread.calls += 1
        return result

    def observed_thread(self) -> Thread | None:
        """Returns the object for the current thread, or None if its operations are not observed."""
        modes = _python_dispatch._get_current_dispatch_mode_stack()
        found = [each._thread for each in modes if isinstance(each, _Mode) and each._watch is self]
        return found[-1] if found and not self._is_off() and not found[-1].is_unobserved() else None

    def add_graph(self, contents: GraphContents) -> None:
        """Called after a capture."""
        self._pools |= contents.made()

    def replay(self, thread: Thread, contents: GraphContents, run: Callable[[], None]) -> None:
        """Replays a graph, as one operation."""
        with thread.unobserved():
            if self._is_paused and thread is self.main:
                run()
                return
            for text in contents.freed(self._pools)[:1]:
                self.stale.append(StaleReplay(str(contents.function), text, source_of_caller()))
            with self._lock:
                self._counts["replays"] += 1
                self._counts["replayed"] += contents.operations
            tensors = {"writes": contents.writes()}
            self._observe(thread, contents.function, (contents.reads(),), tensors, run)

    def is_capturing(self) -> bool:
        return any(each.capture is not None for each in list(self.threads.values()))

    def _is_off(self) -> bool:
        return self._is_over or os.getpid() != self._pid

    def _by_ident(self) -> dict[int, Thread]:
        return {each.ident: each for each in list(self.threads.values()) if not each.has_ended}

    def _is_by_others(self) -> bool:
        """Returns true on a thread of Python that the run has not started. Threads of C++ code, such as those of
        autograd's engine, appear as dummy threads and count as part of the run."""
        is_of_python = not isinstance(threading.current_thread(), threading._DummyThread)
        return is_of_python and threading.get_ident() not in self._by_ident()

    def _adopt(self, of_thread: threading.Thread, is_of_torch: bool) -> None:
        # Names follow the tree of threads and the order of children in it, so that they are the same in every run.
        parent = self._by_ident().get(threading.get_ident(), self.main)
        parent = parent.caller or parent
        parent.children += 1
        name, run = f"{parent.name}/{parent.children}", of_thread.run
        self.started.append(of_thread)
        if is_of_torch:
            self.of_torch.add(of_thread)
        rank = len(self.started)

        def watched_run() -> None:
            seen = self.threads[name] = Thread(name, rank)
            _python_dispatch._push_mode(_Mode(self, seen))
            try:
                run()
            except Exception as error:
                self.failed.append((of_thread.name, error))
                raise
            finally:
                seen.has_ended = True
                _python_dispatch._pop_mode()
                del of_thread.run

        of_thread.run = watched_run  # type: ignore[method-assign]

    def _operation(
        self, thread: Thread, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Operation:
        device = _find_device(function, args, kwargs)
        with self._lock:
            thread = self._of_engine(thread)
            stream, ordinal = self._stream(thread, device)
            is_copy = device is not None and base_name(function) in COPIES
            self._counts["operations"] += 1
            self._counts["on_device"] += device is not None
            self._counts["copies"] += is_copy
            place = OperationSite(thread.name, thread.operations, ordinal, is_copy)
            thread.operations += 1
            order = next(self._orders)
        return Operation(thread, place, order, function, args, kwargs, device, stream)

    def _of_engine(self, thread: Thread) -> Thread:
        """Returns `thread`, or the object for the current thread of autograd's engine, which works for `thread`."""
        if threading.get_ident() == thread.ident:
            return thread
        name = f"{thread.name} backward"
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            name += f" cuda:{torch.cuda.current_device()}"
        if name not in self.threads:
            self.threads[name] = Thread(name, thread.rank, thread)
        return self.threads[name]

    def _stream(self, thread: Thread, device: int | None) -> tuple[str, int | None]:
        if device is None:
            return "the host", None
        handle = torch.cuda.current_stream(device).cuda_stream
        key = (device, handle)
        if key not in self._streams:
            number = sum(name != "the default stream" for name in self._streams.values()) + 1
            self._streams[key] = f"stream {number}" if handle else "the default stream"
        return self._streams[key], thread.streams.setdefault(key, len(thread.streams))


class _Mode(_python_dispatch.TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The dispatch mode that sees the operations of a thread. Compiled functions of torch.compile stay compiled; the
    operations inside them are not seen.

    observes_graphs: slipstream.capture() uses graphs if this is true for all modes."""

    supports_higher_order_operators = True
    observes_graphs = True

    def __init__(self, watch: Watch, thread: Thread) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._watch = watch
        self._thread = thread

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return self._watch.call(self._thread, func, args, kwargs or {})

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


def _is_called_by_torch() -> bool:
    """Returns true if the first caller outside of the standard library is PyTorch."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and is_of_stdlib(frame.f_code.co_filename):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(_TORCH)


def _find_device(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int | None:
    for tensor in tensors_in((*args, *kwargs.values())):
        if tensor.is_cuda:
            return int(tensor.get_device())
    named = None if base_name(function) in _FOR_A_DEVICE else kwargs.get("device")
    place = torch.device(named) if named is not None else None
    if place is None or place.type != "cuda":
        return None
    return torch.cuda.current_device() if place.index is None else place.index


