"""Predicts how much memory the pool of CUDA graphs reserves, from the allocations of a call without a graph.

All graphs of one captured step, or of one stage, share a pool. PyTorch's allocator fills the pool in the same way as
the memory of the program: so the size of the pool follows from the sizes and the order of allocations and frees."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

Events = list[tuple[int, int]]
"""Allocations and frees, in order: an address, and the size in bytes of an allocation, or -1 for a free."""

# The constants of c10/cuda/CUDACachingAllocator.
_SMALLEST = 512  # sizes are multiples of it
_MOST_SMALL = 1 << 20  # larger allocations have other segments
_SMALL_SEGMENT = 2 << 20
_LARGE_SEGMENT = 20 << 20  # of allocations up to 10 MiB
_MOST_SHARED = 10 << 20
_ROUND_LARGE = 2 << 20
_MOST_EVENTS = 1 << 20


class PoolMemory:
    """The memory of the pool of graphs on one device.

    bytes: how many bytes the pool is predicted to have reserved, for the graphs that were added."""

    def __init__(self) -> None:
        self.bytes = 0
        self._added: list[Events] = []

    def bytes_with(self, events: Events) -> int:
        """Returns the predicted size of the pool after one more graph with such allocations."""
        return reserved_bytes([*self._added, events])

    def add(self, events: Events) -> None:
        """Called when a graph was recorded."""
        self._added.append(events)
        self.bytes = reserved_bytes(self._added)


def reserved_bytes(calls: Sequence[Events]) -> int:
    """Returns the number of bytes that a new pool reserves for these calls, one after the other. Allocations that a call
    does not free stay; frees of other memory are ignored."""
    pools = _Pool(is_small=True), _Pool(is_small=False)
    # The next call may get the same address again for other memory.
    every = [((call, address), size) for call, events in enumerate(calls) for address, size in events]
    for key, size in every:
        if size < 0:
            for pool in pools:
                pool.free(key)
        else:
            size = max(_SMALLEST, -(-size // _SMALLEST) * _SMALLEST)
            pools[size > _MOST_SMALL].allocate(key, size)
    return sum(pool.reserved for pool in pools)


class _Block:
    """A part of a segment. Its neighbors are the blocks before and after it in the segment."""

    def __init__(self, size: int, before: _Block | None, after: _Block | None) -> None:
        self.size, self.before, self.after, self.is_free = size, before, after, False


class _Pool:
    """The small or the large segments of a pool. An allocation gets the smallest free block that is large enough."""

    def __init__(self, is_small: bool) -> None:
        self._is_small = is_small
        self.reserved = 0
        self._used: dict[Any, _Block] = {}
        self._free: list[tuple[int, int, _Block]] = []  # sorted by size; the second element makes entries different
        self._order = itertools.count()

    def allocate(self, key: Any, size: int) -> None:
        index = bisect.bisect_left(self._free, (size, -1))
        block = self._free.pop(index)[2] if index < len(self._free) else self._new_segment(size)
        block.is_free = False
        rest = block.size - size
        if rest >= _SMALLEST if self._is_small else rest > _MOST_SMALL:
            new = _Block(rest, block, block.after)
            if block.after is not None:
                block.after.before = new
            block.size, block.after = size, new
            self._put(new)
        self._used[key] = block

    def _new_segment(self, size: int) -> _Block:
        shared = _SMALL_SEGMENT if self._is_small else _LARGE_SEGMENT
        is_shared = self._is_small or size < _MOST_SHARED
        segment = _Block(shared if is_shared else -(-size // _ROUND_LARGE) * _ROUND_LARGE, None, None)
        self.reserved += segment.size
        return segment

    def free(self, key: Any) -> None:
        block = self._used.pop(key, None)
        if block is None:
            return
        if block.after is not None and block.after.is_free:
            self._merge(block, block.after)
        if block.before is not None and block.before.is_free:
            block = self._merge(block.before, block)
        self._put(block)

    def _merge(self, first: _Block, second: _Block) -> _Block:
        """Adds a block to the one before it. Free blocks among them are taken out of the list of free blocks."""
        self._free = [each for each in self._free if each[2] is not first and each[2] is not second]
        first.size += second.size
        first.after = second.after
        if second.after is not None:
            second.after.before = first
        return first

    def _put(self, block: _Block) -> None:
        block.is_free = True
        bisect.insort(self._free, (block.size, next(self._order), block))


def record_allocations(function: Callable[[], Any], device: torch.device) -> tuple[Any, Events | None]:
    """Calls a function. Returns its result, and the allocations of the current stream on a GPU in this time, or None if
    the program records the history of the allocator itself."""
    if torch._C._cuda_isHistoryEnabled():
        return function(), None
    stream = torch.cuda.current_stream(device).cuda_stream
    # A graph allocates the workspace of cuBLAS in its pool.
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.memory._record_memory_history("all", context=None, max_entries=_MOST_EVENTS)
    try:
        result = function()
        traces = torch.cuda.memory._snapshot()["device_traces"]
    finally:
        torch.cuda.memory._record_memory_history(None)
    index = torch.cuda.current_device() if device.index is None else device.index
    return result, list(_events(traces[index], stream))


def _events(trace: list[dict[str, Any]], stream: int) -> Iterator[tuple[int, int]]:
    for each in trace:
        if each["action"] == "alloc" and each["stream"] == stream:
            yield each["addr"], each["size"]
        elif each["action"] == "free_completed":
            yield each["addr"], -1


def available_bytes(device: torch.device) -> int:
    """Returns how many bytes a new pool can reserve: the free memory of the GPU, and what PyTorch's allocator has
    reserved and can release."""
    stats = torch.cuda.memory_stats(device)
    kept = stats["allocated_bytes.all.current"] + stats["inactive_split_bytes.all.current"]
    return int(torch.cuda.mem_get_info(device)[0] + stats["reserved_bytes.all.current"] - kept)
