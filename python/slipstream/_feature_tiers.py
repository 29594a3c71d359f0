"""The memory of a feature cache: rows in device memory, and in page-locked host memory that the GPU addresses."""

from __future__ import annotations

import contextlib
import logging
import mmap
import os
from collections.abc import Sequence
from typing import Any

import torch

from . import _native
from ._checks import shortened, to_index
from ._feature_rows import RowLayout

MARGIN = 0.1  # share of the device's memory that stays free
_COPIED_ROW_BYTES = 64 << 10  # rows of page-locked memory that are at least so long are copied one by one
_SHARE_OF_HOST = 0.25  # share of the free host memory that a cache uses at most by default
_REGISTER_PORTABLE_MAPPED = 3  # cudaHostRegisterPortable | cudaHostRegisterMapped
_log = logging.getLogger("slipstream")


def parse_size(name: str, given: Any) -> int | None:
    """Returns a number of bytes. Accepts numbers, and strings such as "200 GB"; None stays None. Raises Refused for
    other values."""
    if given is None:
        return None
    size = to_index(given)
    if isinstance(given, str):
        try:
            size = _native.named_size(name, f"x={given.replace(' ', '')}".encode())
        except _native.Refused:
            size = None
    if size is None or size < 0:
        raise _native.Refused(
            f"{name} is {shortened(given)}: give a number of bytes, or a string such as '20 GB' (powers of 1024)"
        )
    return int(size)


def free_host_bytes() -> int:
    """Returns how many bytes of host memory can be allocated without swapping, within the limit of a container."""
    return min(_available_bytes(), _left_in_group())


def _available_bytes() -> int:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) << 10
    except OSError:
        pass
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _left_in_group(folder: str = "/sys/fs/cgroup") -> int:
    """Returns the bytes that are left in the control group, or a very large number if it has no limit."""
    try:
        with open(f"{folder}/memory.max") as limit, open(f"{folder}/memory.current") as used:
            most, now = int(limit.read()), int(used.read())
        with open(f"{folder}/memory.stat") as file:
            stats = dict(line.split() for line in file)
    except (OSError, ValueError):  # without a limit, memory.max is "max"
        return 1 << 63
    return max(0, most - max(0, now - int(stats.get("inactive_file", "0"))))


def default_host_bytes() -> int:
    """Returns a share of the free host memory, of which each process on this machine gets the same part."""
    processes = os.environ.get("LOCAL_WORLD_SIZE", "1")  # torchrun sets it
    share = max(1, int(processes)) if processes.isdecimal() else 1
    return int(free_host_bytes() * _SHARE_OF_HOST) // share


def default_device_bytes(device: torch.device) -> int:
    """Returns the size of the device tier: the memory that is free now, after a margin. On a CPU, a share of the free
    host memory."""
    if device.type != "cuda":
        return default_host_bytes()
    free, total = torch.cuda.mem_get_info(device)
    return max(0, int(free - total * MARGIN))


def default_pinned_bytes(device: torch.device) -> int:
    return default_host_bytes() if device.type == "cuda" else 0


class PinnedMemory:
    """Page-locked host memory that kernels read and write directly. It has the interface by which PyTorch creates CUDA
    tensors over memory of other libraries."""

    def __init__(self, count: int) -> None:
        self._process = 0  # in which the memory is registered
        self.host = torch.frombuffer(_map_pages(count), dtype=torch.uint8, count=count)
        code = _runtime().cudaHostRegister(self.host.data_ptr(), count, _REGISTER_PORTABLE_MAPPED)
        if int(code) == 0:
            self._process = os.getpid()
        else:
            _clear_error()
            # PyTorch's allocator rounds the size up to a power of 2.
            self.host = torch.empty(count, dtype=torch.uint8, pin_memory=True)
        # With unified addressing, kernels use the same address as the host.
        self.__cuda_array_interface__ = {
            "shape": (count,), "typestr": "|u1", "data": (self.host.data_ptr(), False), "strides": None, "version": 3
        }

    def __del__(self) -> None:
        # PyTorch releases this object with the last tensor over the memory. Kernels may still use it.
        try:
            if self._process == os.getpid():
                torch.cuda.synchronize()
                _runtime().cudaHostUnregister(self.host.data_ptr())
        except Exception:  # at the end of the process, CUDA or this module may already be gone
            pass


def _map_pages(count: int) -> mmap.mmap:
    """Returns memory that shares no page with other memory, because a page can be registered only once. Forked
    processes do not get it: otherwise a write after a fork could give this process another page than the GPU has."""
    pages = mmap.mmap(-1, count, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages.madvise(mmap.MADV_DONTFORK)
    with contextlib.suppress(OSError):  # a kernel without huge pages
        pages.madvise(mmap.MADV_HUGEPAGE)
    return pages


def _clear_error() -> None:
    """Clears the error that CUDA remembers after a failed call: PyTorch reports it after its next kernel."""
    with contextlib.suppress(RuntimeError):
        torch.zeros(1, device="cuda")


def _runtime() -> Any:
    """Returns PyTorch's bindings of the CUDA runtime."""
    return torch.cuda.cudart()  # type: ignore[no-untyped-call]


class Tier:
    """Rows of all tensors of `capacity` samples, in one kind of memory.

    name: "device" or "pinned". device: where the rows are used."""

    def __init__(self, name: str, layouts: Sequence[RowLayout | None], capacity: int, device: torch.device) -> None:
        self.name, self.capacity = name, capacity
        self.rows: list[torch.Tensor | None] = []
        # Host tensors over the same page-locked memory, of leaves with long rows. The GPU's copy engine moves these
        # rows, which leaves the multiprocessors to training.
        self._host: list[torch.Tensor | None] = []
        for layout in layouts:
            self._host.append(None)
            if layout is None:
                self.rows.append(None)
                continue
            is_pinned = name == "pinned" and device.type == "cuda" and capacity * layout.bytes > 0
            shape = (capacity, layout.words)
            if is_pinned:
                with torch.cuda.device(device):
                    memory: Any = PinnedMemory(capacity * layout.bytes)
                    rows = torch.as_tensor(memory, device=device).view(layout.word).view(shape)
                if layout.bytes >= _COPIED_ROW_BYTES:
                    self._host[-1] = memory.host.view(layout.word).view(shape)
            else:
                rows = torch.empty(shape, dtype=layout.word, device=device)
            self.rows.append(rows)

    @property
    def bytes(self) -> int:
        return sum(rows.numel() * rows.itemsize for rows in self.rows if rows is not None)

    def load(self, leaf: int, index: torch.Tensor, numbers: Sequence[int]) -> torch.Tensor:
        """Returns rows. numbers: the values of `index`, which is on the device."""
        rows, host = self.rows[leaf], self._host[leaf]
        assert rows is not None
        if host is None:
            return rows.index_select(0, index)
        made = torch.empty((len(numbers), rows.shape[1]), dtype=rows.dtype, device=rows.device)
        torch._foreach_copy_(made.unbind(), [host[number] for number in numbers], non_blocking=True)
        return made

    def store(self, leaf: int, index: torch.Tensor, numbers: Sequence[int], values: torch.Tensor) -> None:
        rows, host = self.rows[leaf], self._host[leaf]
        assert rows is not None
        if host is None:
            rows.index_copy_(0, index, values)
        else:
            torch._foreach_copy_([host[number] for number in numbers], values.unbind(), non_blocking=True)

    def tensors(self) -> list[torch.Tensor]:
        return [rows for rows in self.rows if rows is not None]


def allocate(
    layouts: Sequence[RowLayout | None], count: int, device: torch.device, limits: tuple[int | None, int | None]
) -> list[Tier]:
    """Allocates the tiers for `count` samples as far as they fit.

    limits: largest number of bytes in device memory and in page-locked memory; None: the default."""
    row_bytes = sum(layout.bytes for layout in layouts if layout is not None)
    names, tiers, left = ("device", "pinned"), [], count
    defaults = (default_device_bytes, default_pinned_bytes)
    for name, limit, default in zip(names, limits, defaults, strict=True):
        if left == 0:
            break
        budget = default(device) if limit is None else limit
        tier = _allocate_one(name, layouts, min(left, budget // max(row_bytes, 1)), device)
        if tier is not None:
            tiers.append(tier)
            left -= tier.capacity
    what = ", ".join(f"{tier.capacity} samples ({tier.bytes >> 20} MiB) in {tier.name} memory" for tier in tiers)
    _log.info("the feature cache keeps %s, of %d samples with %d bytes each", what or "nothing", count, row_bytes)
    return tiers


def _allocate_one(
    name: str, layouts: Sequence[RowLayout | None], capacity: int, device: torch.device
) -> Tier | None:
    """Allocates a tier. If memory is not sufficient, tries half of it, again and again."""
    while capacity > 0:
        try:
            return Tier(name, layouts, capacity, device)
        except (MemoryError, RuntimeError) as error:  # torch.OutOfMemoryError is a RuntimeError
            _log.info("the feature cache could not allocate %d samples in %s memory: %s", capacity, name, error)
            capacity //= 2
    return None
