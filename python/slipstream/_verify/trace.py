"""What each operation of a run read and gave, as digests that are made on its stream."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import os
import sys
import sysconfig
import threading
from types import FrameType, TracebackType
from typing import Any

import torch
from torch.utils import _python_dispatch

from .watch import Operation, base_name, tensors_in

Digest = int | str | None
"""None: not known."""

_OVERWRITES = {
    "bernoulli_", "cauchy_", "copy_", "exponential_", "fill_", "geometric_", "log_normal_", "normal_",
    "random_", "resize_", "resize_as_", "set_", "uniform_", "zero_", "_foreach_copy_", "_foreach_zero_",
}  # fmt: skip
_WITHOUT_CONTENT = ("empty", "new_empty", "resize_", "resize_as_", "set_", "_resize_output_")
_UNWRITTEN = -(1 << 62) - 1


@dataclasses.dataclass(slots=True)
class Step:
    """An operation. source: file, line and function. node: of autograd, in a backward pass."""

    thread: str
    number: int
    order: int
    name: str
    arguments: str
    stream: str
    source: str
    node: str
    inputs: list[Any]
    outputs: list[Any]


class Trace:
    """Digests of a run. They are made by one reduction each, on the stream of the operation. With room
    for so many of a device the host waits for none: they travel to page-locked memory, which outlives a
    failed device. Without, it waits for each."""

    def __init__(self, room: int | None = None) -> None:
        self.steps: list[Step] = []
        self.on_device = 0
        self._is_finished = False
        self._lock = threading.Lock()
        self._room = room
        self._slots: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        if room and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            self._slots_of(torch.cuda.current_device(), room)

    def before(self, operation: Operation) -> Step:
        written = _writes(operation.function)
        is_overwritten = base_name(operation.function) in _OVERWRITES
        read = [
            value
            for key, value in (*enumerate(operation.args), *operation.kwargs.items())
            if not (key in written and (is_overwritten or isinstance(key, str)))
        ]
        inputs = self._digests(read) if _reads(operation.function) else []
        node = torch._C._current_autograd_node()
        step = Step(
            thread=operation.place.thread,
            number=operation.place.number,
            order=operation.order,
            name=sys.intern(operation.name()),
            arguments=sys.intern(_forms(operation)),
            stream=operation.stream,
            source=sys.intern(source_of(operation)),
            node=node.name() if node else "",
            inputs=inputs,
            outputs=[],
        )
        with self._lock:
            if not self._is_finished:
                self.steps.append(step)
        return step

    def after(self, step: Step, operation: Operation, result: Any) -> None:
        function = operation.function
        if not _reads(function) or base_name(function).startswith(_WITHOUT_CONTENT):
            return
        written = _writes(function)
        places = (*enumerate(operation.args), *operation.kwargs.items())
        given = [result, *(value for key, value in places if key in written)]
        outputs = self._digests(given, skips_host=operation.device is not None)
        with self._lock:
            if not self._is_finished:
                step.outputs = outputs

    def finish(self, has_lost_device: bool) -> None:
        """Reads the digests. The device has finished, or failed."""
        with self._lock:
            self._is_finished = True
        host = {device: slots[1].tolist() for device, slots in self._slots.items()}
        for step in self.steps:
            step.inputs = [_read(each, host) for each in step.inputs]
            step.outputs = [_read(each, host) for each in step.outputs]
        self.steps.sort(key=lambda step: step.order)
        if has_lost_device:
            keep_forever(self._slots)
        self._slots = {}

    def _digests(self, values: list[Any], skips_host: bool = False) -> list[Any]:
        numbers = [repr(each) for each in values if isinstance(each, bool | int | float)]
        found = dict.fromkeys(tensors_in(values))
        return [*numbers, *(self._digest(each, skips_host) for each in found)]

    def _digest(self, tensor: torch.Tensor, skips_host: bool) -> Any:
        if not _has_bytes(tensor) or (skips_host and not tensor.is_cuda):
            return None
        if tensor.numel() == 0:
            return "empty"
        if not tensor.is_cuda:
            return int(_words(tensor).sum())
        with torch.cuda.device(tensor.device):
            if torch.cuda.is_current_stream_capturing():
                return None
            with self._lock:
                index = self.on_device
                self.on_device += 1
            if self._room is None:
                return int(_words(tensor).sum())
            if index >= self._room:
                return None
            on_device, on_host = self._slots_of(tensor.get_device(), self._room)
            torch.sum(_words(tensor), dim=0, out=on_device[index])
            on_host[index].copy_(on_device[index], non_blocking=True)
        return (tensor.get_device(), index)

    def _slots_of(self, device: int, room: int) -> tuple[torch.Tensor, torch.Tensor]:
        with self._lock:
            if device not in self._slots:
                on_device = torch.zeros(room, dtype=torch.int64, device=f"cuda:{device}")
                on_host = torch.full([room], _UNWRITTEN, dtype=torch.int64, device="cpu").pin_memory()
                torch.cuda.synchronize(device)
                self._slots[device] = (on_device, on_host)
        return self._slots[device]


def keep_forever(holder: object) -> None:
    """To free memory of a lost device, or page-locked memory, can end the process."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(holder))


def source_of(operation: Operation) -> str:
    """Where the program calls an operation; in a backward pass, where it calls that."""
    if threading.get_ident() == operation.thread.ident:
        return _line_of(_frames(sys._getframe()))
    return _line_of(_frames(sys._current_frames().get(operation.thread.ident)))


def source_of_error(traceback: TracebackType | None) -> str:
    """The innermost line of the program that an exception went through."""
    frames = []
    while traceback is not None:
        frames.append((traceback.tb_frame, traceback.tb_lineno))
        traceback = traceback.tb_next
    return _line_of(frames[::-1])


def _frames(frame: FrameType | None) -> list[tuple[FrameType, int]]:
    found = []
    while frame is not None:
        found.append((frame, frame.f_lineno))
        frame = frame.f_back
    return found


def _line_of(frames: list[tuple[FrameType, int]]) -> str:
    watching = (os.path.dirname(__file__) + os.sep, str(_python_dispatch.__file__))
    files = [(frame.f_code.co_filename, frame, line) for frame, line in frames]
    outside = [each for each in files if not each[0].startswith(watching)]
    of_program = [each for each in outside if _is_of_program(each[0])]
    for file, frame, line in of_program or outside:
        return f"{file}:{line} in {frame.f_code.co_name}"
    return "not known"


@functools.cache
def _is_of_program(file: str) -> bool:
    packages = [os.path.dirname(each) + os.sep for each in (str(torch.__file__), os.path.dirname(__file__))]
    if file.startswith(("<frozen", *packages)):
        return False
    return not file.startswith(sysconfig.get_path("stdlib") + os.sep) or "-packages" in file


@functools.cache
def _writes(function: Any) -> frozenset[int | str]:
    """Positions and names of the arguments that an operation writes; names of those given by name."""
    schema = getattr(function, "_schema", None)
    found: set[int | str] = set()
    for position, argument in enumerate(schema.arguments if schema else ()):
        if argument.alias_info is not None and argument.alias_info.is_write:
            found.add(argument.name if argument.kwarg_only else position)
    return frozenset(found)


@functools.cache
def _reads(function: Any) -> bool:
    """Whether it touches memory: not a view, and not one of those that only say something about it."""
    schema = getattr(function, "_schema", None)
    aliases = [each.alias_info for each in schema.returns] if schema else []
    is_view = any(each is not None and not each.is_write for each in aliases)
    return not is_view and base_name(function) not in ("record_stream", "is_pinned")


def _has_bytes(tensor: torch.Tensor) -> bool:
    return (
        tensor.layout == torch.strided
        and tensor.device.type in ("cpu", "cuda")
        and not tensor.is_quantized
        and tensor.dtype.itemsize in (1, 2, 4, 8, 16)
        and not _python_dispatch.is_traceable_wrapper_subclass(tensor)
    )


def _words(tensor: torch.Tensor) -> torch.Tensor:
    """Its bytes as int64, which add up to the same in any order; no copy of most tensors."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if not torch.ops.aten.is_non_overlapping_and_dense(tensor):
        tensor = tensor.contiguous()
    offset = tensor.storage_offset()
    flat = torch.as_strided(tensor, (tensor.numel(),), (1,), offset)
    size = tensor.element_size()
    if flat.numel() * size % 8 == 0 and offset * size % 8 == 0:
        return flat.view(torch.int64)
    return flat.view(torch.uint8).to(torch.int64)


def _read(digest: Any, host: dict[int, list[int]]) -> Digest:
    if not isinstance(digest, tuple):
        return digest  # type: ignore[no-any-return]
    value = host[digest[0]][digest[1]]
    return None if value == _UNWRITTEN else value


def _forms(operation: Operation) -> str:
    tensors = tensors_in((*operation.args, *operation.kwargs.values()))
    forms = [f"{str(each.dtype).removeprefix('torch.')}{list(each.shape)}" for each in tensors]
    more = f", and {len(forms) - 4} more" if len(forms) > 4 else ""
    return ", ".join(forms[:4]) + more
