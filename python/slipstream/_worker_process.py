"""The main loop of a worker process of slipstream.DataLoader. It answers requests of the native WorkerPool.

Requests and answers are fixed structures of 64-bit words on a socket; samples are in memory that both processes map."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import mmap
import os
import pickle
import select
import signal
import socket
import struct
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ._checks import SEEDS
from ._fetching import item
from ._random_states import free_numpy, seed_all
from ._samples import Sample, Unfit, is_image, make_template
from ._transform_parts import display_name

_REQUEST = struct.Struct("=10Q")  # number, task, sample, step, seed, memory, dtype, height, width, channels
_ANSWER = struct.Struct("=5Q")  # number, status, fields, memory, bytes of text
_FIELD = struct.Struct("=7Q")  # offset, dtype, rank, four dimensions
_DESCRIBE, _READ, _TRANSFORM = range(3)
_DONE, _SAMPLE_FAILED, _PROCESS_FAILED = range(3)
_DTYPES = [torch.uint8, torch.int32, torch.int64, torch.float32]
_ALIGNMENT = 64
_STEP = 64 << 10
_MOST_FIELDS, _MOST_BYTES_OF_TEXT = 4096, 1 << 24  # limits of the loader, which refuses longer answers
_LOOK_FOR_PARENT_MS = 2000
_GRACE_S = 0.5
_OWN_FILES = (__file__, item.__code__.co_filename)


@dataclasses.dataclass
class Job:
    """The data that all worker processes of a loader receive. Pickled unless processes are forked."""

    dataset: Any  # None if only transforms are in Python
    steps: list[list[Callable[[torch.Tensor], torch.Tensor]]]  # runs of functions that follow each other
    wants_image: bool  # whether transforms follow, so that samples must have an image
    init: Callable[[int], None] | None  # worker_init_fn
    workers: int
    seed: int


class _Failed(Exception):
    """Raised if the process cannot answer any request, so that skipping the sample would not help."""


class _Memory:
    """Memory that is shared with the loader. It never shrinks."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.size = 0
        self.bytes = torch.empty(0, dtype=torch.uint8)

    def map(self, size: int) -> None:
        if size > self.size:
            self.bytes = torch.frombuffer(mmap.mmap(self._descriptor, size), dtype=torch.uint8)
            self.size = size

    def reserve(self, size: int) -> None:
        if size <= self.size:
            return
        whole = (max(size, self.size + self.size // 2) + _STEP - 1) // _STEP * _STEP
        try:
            # Reserves the memory now: with ftruncate(), a lack of memory would raise SIGBUS at the first write.
            os.posix_fallocate(self._descriptor, 0, whole)
            self.map(whole)
        except OSError as error:
            raise _Failed(
                f"a sample needs {size} bytes of memory shared with its worker process ({error.strerror}): "
                "use fewer workers or smaller samples, or raise the limit of the container or of file "
                "sizes (ulimit -f)"
            ) from None


class _Worker:
    def __init__(self, job: Job, number: int, memory: _Memory) -> None:
        self._job, self._number, self._memory = job, number, memory
        self._broken: str | None = None
        try:
            self._begin()
        except Exception as error:
            self._broken = self._explained(error)

    def _begin(self) -> None:
        from torch.utils.data._utils import worker

        job = self._job
        seed = (job.seed + self._number) % SEEDS
        info = worker.WorkerInfo(id=self._number, num_workers=job.workers, seed=seed, dataset=job.dataset)
        # This is what torch.utils.data.get_worker_info() returns to data sets.
        worker._worker_info = info
        seed_all(seed)
        if job.init is not None:
            job.init(self._number)

    def answer(self, request: tuple[int, ...]) -> bytes:
        number, task, sample, step, seed, mapped, *image = request
        fields: list[bytes] = []
        status, text = _DONE, ""
        extra = b""
        try:
            if self._broken is not None:
                raise _Failed(self._broken)
            self._memory.map(mapped)
            seed_all(seed)
            if task == _TRANSFORM:
                fields = [self._transform(step, image)]
            else:
                fields, text, extra = self._read(sample, task == _DESCRIBE)
        except _Failed as error:
            status, fields, text = _PROCESS_FAILED, [], str(error)
        except Exception as error:
            status, fields, text = _SAMPLE_FAILED, [], self._explained(error)
        words = text.encode("utf-8", "replace") + extra
        if len(words) > _MOST_BYTES_OF_TEXT and status == _DONE:
            status, fields = _SAMPLE_FAILED, []
            words = (
                f"the description of the sample's structure has {len(words)} bytes, more than {_MOST_BYTES_OF_TEXT}: "
                "use fewer parts and shorter keys"
            ).encode()
        words = words[:_MOST_BYTES_OF_TEXT]
        head = _ANSWER.pack(number, status, len(fields), self._memory.size, len(words))
        return b"".join((head, *fields, words))

    def _read(self, index: int, describes: bool) -> tuple[list[bytes], str, bytes]:
        value = item(self._job.dataset, index)
        sample = Sample(value, self._job.wants_image)
        are_images = [leaf.is_image for leaf in sample.leaves]
        tensors = list(zip(sample.tensors, are_images, strict=True))
        if any(sample.is_text):
            tensors.append((sample.packed_texts(), False))
        if len(tensors) > _MOST_FIELDS:
            raise Unfit(
                f"the sample has {len(tensors)} tensors and numbers, all strings counted as one, more than "
                f"{_MOST_FIELDS}: combine numbers that belong together in one tensor or array"
            )
        offsets = []
        end = 0
        for tensor, _ in tensors:
            offsets.append(end)
            end += -(-tensor.nbytes // _ALIGNMENT) * _ALIGNMENT
        self._memory.reserve(end)
        fields = [self._put(*each, offset) for each, offset in zip(tensors, offsets, strict=True)]
        if not describes:
            return fields, sample.form, b""
        try:
            return fields, sample.form, b"\0" + pickle.dumps(make_template(value, sample))
        except Exception as error:
            raise Unfit(
                f"the sample is {sample.form}, whose type cannot be sent from one process to another ({error}): define "
                "it at the top level of a module"
            ) from None

    def _put(self, tensor: torch.Tensor, is_image: bool, offset: int) -> bytes:
        size = tensor.nbytes
        place = self._memory.bytes[offset : offset + size]
        if is_image:
            place.view(tensor.dtype).view(tensor.shape).copy_(tensor)
            return _FIELD.pack(offset, _DTYPES.index(tensor.dtype), 3, *tensor.shape, 0)
        if size > 0:  # a single element counts as contiguous with any stride, which view() would refuse
            elements = tensor.reshape(-1).as_strided((tensor.numel(),), (1,))
            place.copy_(elements.view(torch.uint8))
        return _FIELD.pack(offset, 0, 1, size, 0, 0, 0)

    def _transform(self, step: int, image: Sequence[int]) -> bytes:
        dtype, shape = _DTYPES[image[0]], image[1:]
        size = dtype.itemsize * shape[0] * shape[1] * shape[2]
        pixels = self._memory.bytes[:size].view(dtype).view(*shape).permute(2, 0, 1)
        # A copy, because the result is written to the same memory.
        value = pixels.clone(memory_format=torch.contiguous_format)
        made = transformed(self._job.steps[step], value).permute(1, 2, 0)
        self._memory.reserve(made.nbytes)
        return self._put(made, True, 0)

    def _explained(self, error: Exception) -> str:
        if isinstance(error, Unfit):
            return str(error)
        # The traceback starts at the user's code. Frames of this package would not help to find the cause.
        first = error.__traceback__
        while first is not None and first.tb_frame.f_code.co_filename in _OWN_FILES:
            first = first.tb_next
        trace = traceback.format_exception(type(error), error, first or error.__traceback__)
        # The first line must be the exception itself, from which the loader reads its type, and not one of its notes.
        alone = traceback.TracebackException(type(error), error, None)
        alone.__notes__ = None
        headline = list(alone.format_exception_only())[-1].strip()
        text = f"{headline}\nin worker process {self._number}:\n{''.join(trace).rstrip()}"
        if "forked subprocess" in text:
            text += (
                "\nRemedy: do not use CUDA in worker processes, because the loader itself copies batches to the GPU "
                "with device='cuda'. If you need it, start the processes with multiprocessing_context='forkserver' or "
                "'spawn'"
            )
        return text


def transformed(
    functions: Sequence[Callable[[torch.Tensor], torch.Tensor]], image: torch.Tensor
) -> torch.Tensor:
    """Applies functions to an image of channels x height x width, one after the other. Raises Unfit if one of them does
    not return an image."""
    for function in functions:
        image = function(image)
        if not is_image(image) or image.device.type != "cpu":
            raise Unfit(
                f"{display_name(function)} returned {_described(image)}, but a transform must return an image: a "
                "tensor of channels x height x width, uint8 or float32, on the CPU, with 1 to 4 channels"
            )
    return image.detach().as_subclass(torch.Tensor)


def _described(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return f"a value of type {type(value).__name__}"
    dtype = str(value.dtype).removeprefix("torch.")
    return f"a tensor of {' x '.join(map(str, value.shape)) or 'one value'}, {dtype}, on {value.device}"


def _end_with(connection: int, parent: int) -> None:
    """Ends this process shortly after the loader has closed the connection or the parent has ended, even if the user's
    code does not return."""
    poll = select.poll()
    poll.register(connection, 0)  # without events, poll() reports only that the connection was closed
    while not poll.poll(_LOOK_FOR_PARENT_MS) and os.getppid() == parent:
        pass
    time.sleep(_GRACE_S)
    # sys.exit() would end only this thread.
    os._exit(1)


def _rehearse(number: int) -> None:
    """Runs all library code of an answer once, without the user's code. If another thread held a lock of a library at
    the fork, the process hangs here, and the loader, which waits for a byte, starts another process."""
    free_numpy()
    image = torch.zeros(1, 2, 2, dtype=torch.uint8, device="cpu")
    job = Job([(image, image[0, 0], 1, 0.5, "text")], [[]], True, None, 1, 0)
    memory = os.memfd_create("slipstream rehearsal", os.MFD_CLOEXEC)
    worker = _Worker(job, number, _Memory(memory))
    worker.answer((0, _DESCRIBE, 0, 0, 0, 0, 0, 0, 0, 0))
    worker.answer((0, _TRANSFORM, 0, 0, 0, 0, 0, 2, 2, 1))
    os.close(memory)


def main(
    connection: socket.socket, job: Job, number: int, unwanted: Sequence[int], is_forked: bool
) -> None:
    """Answers requests until the loader closes its end of the connection.

    unwanted: descriptors of other workers that a fork has copied. They must be closed here; otherwise the connections
        of those workers stay open when the loader ends, and the workers do not notice it.
    is_forked: whether the process was forked. Then it sends a byte after _rehearse(), which shows the loader that it
        does not wait for a lock that another thread held at the fork."""
    for descriptor in unwanted:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    # Ctrl-C reaches all processes of the terminal, but only the loader's process handles it. A handler for SIGTERM that
    # the program has installed must not run here.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.freeze()  # excludes copies of the parent's objects, whose finalizers must run only in the parent
    gc.enable()
    # As in workers of PyTorch's loader: the workers are the parallelism.
    torch.set_num_threads(1)
    memory = _Memory(socket.recv_fds(connection, 1, 1)[1][0])
    threading.Thread(target=_end_with, args=(connection.fileno(), os.getppid()), daemon=True).start()
    with contextlib.suppress(ConnectionError):
        if is_forked:
            _rehearse(number)
            connection.sendall(b"b")
        worker = _Worker(job, number, memory)
        while True:
            words = connection.recv(_REQUEST.size, socket.MSG_WAITALL)
            if len(words) < _REQUEST.size:
                return
            connection.sendall(worker.answer(_REQUEST.unpack(words)))
