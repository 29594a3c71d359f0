"""Records digests of the inputs and outputs of each operation. They are computed on the stream of the operation."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import itertools
import sys
import threading
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import torch

from .operations import base_name, has_bytes, is_overwriting, is_reading, tensors_in, written_by
from .sources import source_of_caller, source_of_thread
from .values import describe_tensor
from .watch import Operation

Digest = int | str | None
"""A sum, the text of a number, or None if it is not known."""

_WITHOUT_CONTENT = ("empty", "new_empty", "resize_", "resize_as_", "set_", "_resize_output_")
_UNWRITTEN = -(1 << 62) - 1
_BLOCK = 1 << 17
_ODD = 0x1E3779B97F4A7C15


@dataclasses.dataclass(slots=True)
class Step:
    """An operation in a trace.

    source: file, line and function that called it.
    node: name of the autograd node in a backward pass, otherwise "".
    inputs, outputs: digests.
    """

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
    """The digests of one run. The digest of a tensor is the sum of its 64-bit words, each multiplied by a weight that
    depends on its position. It is computed on the stream of the operation, so that it sees the data that the operation
    sees.

    room: number of digests for which memory is allocated. The host then waits for none of them: they are copied
        asynchronously to page-locked memory, which can be read even after the device failed. None: the host waits for
        each digest.
    devices: CUDA devices on which the memory is allocated at the beginning, because a later allocation would wait for
        the device and change the timing of the run.
    is_light: digests of tensors on a device cover only the first block, which takes less time.

    Any thread may call before() and after().
    """

    def __init__(
        self, room: int | None = None, devices: Collection[int] = (), is_light: bool = False
    ) -> None:
        self.steps: list[Step] = []
        self.on_device = 0
        self._is_finished = False
        self._lock = threading.Lock()
        self._room = room
        self._most_blocks = 1 if is_light else None
        self._slots: dict[int, _Slots] = {}
        _weights()  # created here, because a mode that is active in the loop would see the operations
        for device in devices:
            self._device_slots(device)

    def before(self, operation: Operation) -> Step:
        written = written_by(operation.function)
        is_overwritten = is_overwriting(operation.function)
        read = [
            value
            for key, value in (*enumerate(operation.args), *operation.kwargs.items())
            if not (key in written and (is_overwritten or isinstance(key, str)))
        ]
        inputs = self._digests(read) if is_reading(operation.function) else []
        node = torch._C._current_autograd_node()
        step = Step(
            thread=operation.place.thread,
            number=operation.place.number,
            order=operation.order,
            name=sys.intern(operation.name()),
            arguments=sys.intern(_forms(operation)),
            stream=operation.stream,
            source=sys.intern(find_source(operation)),
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
        if not is_reading(function) or base_name(function).startswith(_WITHOUT_CONTENT):
            return
        written = written_by(function)
        places = (*enumerate(operation.args), *operation.kwargs.items())
        given = [result, *(value for key, value in places if key in written)]
        outputs = self._digests(given, skips_host=operation.device is not None)
        with self._lock:
            if not self._is_finished:
                step.outputs = outputs

    def finish(self, has_lost_device: bool) -> None:
        """Converts the digests to numbers. Called when the device has finished or failed."""
        with self._lock:
            self._is_finished = True
        host = {device: slots.on_host.tolist() for device, slots in self._slots.items()}
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
        if not has_bytes(tensor) or (skips_host and not tensor.is_cuda):
            return None
        if tensor.numel() == 0:
            return "empty"
        if not tensor.is_cuda:
            return compute_digest(tensor)
        with torch.cuda.device(tensor.device):
            if torch.cuda.is_current_stream_capturing():
                return None
            with self._lock:
                index = self.on_device
                self.on_device += 1
            slots = self._device_slots(tensor.get_device())
            if self._room is None:
                sum_ = torch.zeros((), dtype=torch.int64, device=tensor.device)
                _add_up(tensor, slots.weights, sum_, self._most_blocks)
                return int(sum_)
            if index >= self._room:
                return None
            _add_up(tensor, slots.weights, slots.on_device[index], self._most_blocks)
            slots.on_host[index].copy_(slots.on_device[index], non_blocking=True)
        return (tensor.get_device(), index)

    def _device_slots(self, device: int) -> _Slots:
        with self._lock:
            if device not in self._slots:
                weights = _weights().to(f"cuda:{device}")
                on_device = torch.zeros(self._room or 1, dtype=torch.int64, device=f"cuda:{device}")
                on_host = torch.full([self._room or 1], _UNWRITTEN, dtype=torch.int64, device="cpu")
                on_host = on_host.pin_memory()
                torch.cuda.synchronize(device)
                self._slots[device] = _Slots(weights, on_device, on_host)
        return self._slots[device]


class _Slots(NamedTuple):
    """The memory of a trace for one device: the weights of the words of a block, and the digests on the device and on
    the host."""

    weights: torch.Tensor
    on_device: torch.Tensor
    on_host: torch.Tensor


def compute_digest(tensor: torch.Tensor) -> int:
    """Returns the digest of a tensor on the host. It changes if a byte changes or is moved."""
    sum_ = torch.zeros((), dtype=torch.int64, device="cpu")
    _add_up(tensor, _weights(), sum_)
    return int(sum_)


def keep_forever(holder: object) -> None:
    """Prevents an object from ever being freed. Freeing memory of a lost device, or page-locked memory after it was
    lost, can end the process."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(holder))


def find_source(operation: Operation) -> str:
    """Returns the line of the program that calls an operation. An operation of a backward pass runs on a thread of
    autograd's engine; then it is the line that called backward()."""
    if threading.get_ident() == operation.thread.ident:
        return source_of_caller()
    return source_of_thread(operation.thread.ident)


@functools.cache
def _weights() -> torch.Tensor:
    """Returns the weight of each word of a block. Weights are odd: modulo 2**64, multiplication by an odd number can be
    inverted, so different words always give different products."""
    generator = torch.Generator(device="cpu").manual_seed(0)
    some = torch.randint(-(1 << 62), 1 << 62, [_BLOCK], generator=generator, dtype=torch.int64, device="cpu")
    return 2 * some + 1


def _add_up(
    tensor: torch.Tensor, weights: torch.Tensor, sum_: torch.Tensor, most_blocks: int | None = None
) -> None:
    """Adds the weighted words of a tensor to `sum_`, modulo 2**64. Integer addition gives the same result in any order,
    so the parallel sum on a GPU is exact."""
    for block in itertools.islice(_blocks(tensor), most_blocks):
        # Blocks share their weights. The multiplication makes the digest depend on the order of the blocks.
        sum_.mul_(_ODD).add_((block * weights[: block.numel()]).sum())


def _blocks(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yields the bytes of a tensor in blocks of int64, and the rest as uint8. Most tensors are not copied."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    # Along a dimension with stride 0, as after expand(), all elements are the same memory, so one of them is enough.
    # Copying such a tensor with contiguous() could need far more memory than it has.
    for dimension in reversed(range(tensor.dim())):
        if tensor.stride(dimension) == 0:
            tensor = tensor.select(dimension, 0)
    if not torch.ops.aten.is_non_overlapping_and_dense(tensor):
        tensor = tensor.contiguous()
    flat = torch.as_strided(tensor, (tensor.numel(),), (1,), tensor.storage_offset()).view(torch.uint8)
    is_aligned = flat.storage_offset() % 8 == 0 and flat.data_ptr() % 8 == 0
    words_end = flat.numel() // 8 * 8
    for start in range(0, words_end, 8 * _BLOCK):
        block = flat[start : min(start + 8 * _BLOCK, words_end)]
        yield (block if is_aligned else block.clone()).view(torch.int64)
    if words_end < flat.numel():
        yield flat[words_end:]


def _read(digest: Any, host: dict[int, list[int]]) -> Digest:
    if not isinstance(digest, tuple):
        return digest  # type: ignore[no-any-return]
    value = host[digest[0]][digest[1]]
    return None if value == _UNWRITTEN else value


def _forms(operation: Operation) -> str:
    tensors = tensors_in((*operation.args, *operation.kwargs.values()))
    forms = [describe_tensor(each) for each in tensors]
    more = f", and {len(forms) - 4} more" if len(forms) > 4 else ""
    return ", ".join(forms[:4]) + more
