"""Captures functions as CUDA graphs, and restores PyTorch's state after a capture that failed."""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch.utils import _python_dispatch

from ._graph_memory import Events, PoolMemory, available_bytes, record_allocations

# In this mode the calls of other threads, such as the allocations of a loader, do not invalidate a capture.
_MODE = "thread_local"
_LIBRARIES = (os.path.dirname(torch.__file__), os.path.dirname(__file__))


class Graphs(Protocol):
    """Captures functions. All captured functions share memory, so their replays must not overlap.

    memory: the memory that they share."""

    memory: PoolMemory

    def capture(self, function: Callable[[], Any]) -> Callable[[], None]:
        """Calls `function` and records its work instead of running it. Returns a function that runs the work. If
        `function` raises an exception, this exception is raised, and nothing is recorded."""
        ...

    def measure(self, function: Callable[[], Any]) -> tuple[Any, Events | None]:
        """Calls a function that may be captured later. Returns its result, and its allocations, if they are known."""
        ...

    def available_bytes(self) -> int:
        """Returns how much memory graphs can still reserve."""
        ...

    def order(self) -> None:
        """Lets the current stream wait for earlier calls on another stream. Called before each replay."""
        ...


def make_graphs(
    device: torch.device, generators: Sequence[torch.Generator], uses_default_generator: bool = True
) -> Graphs | None:
    """Returns an object that captures graphs on a device, or None if the device has no graphs.

    generators: those that captured functions use, in addition to the default one.
    uses_default_generator: must be False if the graphs are replayed at the same time as others. PyTorch writes the
        state of the default generator to the same memory for each replay of each graph that was captured with it."""
    return CudaGraphs(device, generators, uses_default_generator) if device.type == "cuda" else None


def may_be_used() -> bool:
    """Returns false if a dispatch mode must see each operation. The mode of slipstream.verify sees replays."""
    modes = _python_dispatch._get_current_dispatch_mode_stack()
    return all(getattr(mode, "observes_graphs", False) for mode in modes)


def unobserved() -> contextlib.AbstractContextManager[Any]:
    """Hides the operations of the block from dispatch modes, because they are not part of the user's program."""
    if torch._C._len_torch_dispatch_stack() == 0:
        return contextlib.nullcontext()
    return _python_dispatch._disable_current_modes()


def are_possible() -> bool:
    return torch.cuda.is_available()


class CudaGraphs:
    """Captures CUDA graphs on one device. One thread may use it."""

    def __init__(
        self, device: torch.device, generators: Sequence[torch.Generator], uses_default_generator: bool = True
    ) -> None:
        self._device, self._generators = device, generators
        self.memory = PoolMemory()
        self._default = None if uses_default_generator else torch.cuda.default_generators[device.index]
        self._state = None if self._default is None else self._default.clone_state()
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()
        self._element = torch.zeros(1, device=device)  # after a failed capture, there may be no memory for it
        self._last: torch.cuda.Stream | None = None  # the stream of the last call

    def capture(self, function: Callable[[], Any]) -> Callable[[], None]:
        if self._default is None or self._state is None:
            return self._capture(function)
        state = self._default.graphsafe_get_state()
        self._default.graphsafe_set_state(self._state)
        try:
            return self._capture(function)
        finally:
            self._default.graphsafe_set_state(state)

    def _capture(self, function: Callable[[], Any]) -> Callable[[], None]:
        with torch.cuda.device(self._device):
            before = torch.cuda.current_stream()
            # cuBLAS then allocates its workspace in the graph's pool. A workspace outside the pool could be freed by
            # other code while graphs still use its address.
            torch._C._cuda_clearCublasWorkspaces()
            failures: list[BaseException] = []
            try:
                return self._captured(function, failures)
            except BaseException as error:
                torch.cuda.set_stream(before)  # some versions of PyTorch do not restore it
                for each in (error, *failures):
                    traceback.clear_frames(each.__traceback__)  # frees the tensors of the step before memory is needed
                self._recover()
                # If the function raised an exception, the end of the capture may raise another one, which only says
                # that the capture is invalid.
                first = failures.pop() if failures else error
                try:
                    raise first from None
                finally:
                    del first  # its traceback refers to this frame, which would keep the memory of the capture

    def _captured(self, function: Callable[[], Any], failures: list[BaseException]) -> Callable[[], None]:
        graph = self._new_graph()
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode=_MODE):
            try:
                function()
            except BaseException as error:
                failures.append(error)
                raise
        return graph.replay

    def _new_graph(self) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        for generator in self._generators:
            graph.register_generator_state(generator)
        return graph

    def _recover(self) -> None:
        """Ends what PyTorch leaves open if a capture fails: the allocations from the pool, and the generators' mode in
        which they refuse to generate numbers outside a capture."""
        index = torch.cuda.current_device()
        with contextlib.suppress(RuntimeError):  # raised if PyTorch has ended them
            torch._C._cuda_endAllocateToPool(index, self._pool)
            torch._C._cuda_releasePool(index, self._pool)
        self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        graph = self._new_graph()
        with torch.cuda.graph(graph, stream=self._stream, capture_error_mode=_MODE):
            self._element.zero_()  # the end of a capture that succeeds resets the generators

    def measure(self, function: Callable[[], Any]) -> tuple[Any, Events | None]:
        return record_allocations(function, self._device)

    def available_bytes(self) -> int:
        return available_bytes(self._device)

    def order(self) -> None:
        stream = torch.cuda.current_stream(self._device)
        if stream != self._last:
            if self._last is not None:
                stream.wait_stream(self._last)
            self._last = stream


def calling_line() -> str:
    """Returns the path, number and text of the user's line that is running; "" if there is none."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_LIBRARIES):
        if frame.f_back is None:
            return ""
        frame = frame.f_back
    return _line(frame.f_code.co_filename, frame.f_lineno)


def _line(path: str, number: int) -> str:
    return f"{path}:{number}: {linecache.getline(path, number).strip()}"


def describe_failure(error: BaseException) -> str:
    """Returns a sentence about an exception that a function raised while it was captured: the operation, the line of
    the user's code, and the message."""
    frames = list(traceback.walk_tb(error.__traceback__))
    own = [each for each in frames if not each[0].f_code.co_filename.startswith(_LIBRARIES)]
    message = str(error).strip().partition("\n")[0] or type(error).__name__
    # PyTorch adds up a parameter's gradients on the stream where an object for it was created. Tensors with autograd
    # graphs of earlier steps keep that object.
    if "legacy stream" in message:
        message += (
            ". A tensor of an earlier step may still have its autograd graph. Remedy: keep detached tensors only, such "
            "as self.last = loss.detach()"
        )
    if not own:
        return message
    frame, line = own[-1]
    inner = frames[-1][0].f_code
    called = "" if inner is frame.f_code else f", in {inner.co_name}()"
    return f"{_line(frame.f_code.co_filename, line)}{called}: {message}"
