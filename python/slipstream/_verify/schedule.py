"""Computes the delays of one run from a seed."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Collection
from typing import NamedTuple

_LEAST_BUDGET_S = 0.25
_BUDGET_S_PER_OPERATION = 1e-4
_MEAN_S = 0.003


@dataclasses.dataclass(frozen=True)
class Size:
    """Size of a run: number of all operations, of operations on devices, of copies on devices, and of threads that call
    operations.

    replays: number of replays of graphs. Each is one operation.
    replayed: number of operations inside these replays.
    """

    operations: int
    on_device: int
    copies: int
    threads: int
    replays: int = 0
    replayed: int = 0


@dataclasses.dataclass(frozen=True)
class OperationSite:
    """Identifies an operation of a run in a way that does not depend on timing.

    thread: name of the thread that called it. number: its index among the operations of this thread.
    stream: index of its stream, in the order in which the thread first used its streams; None on a CPU.
    """

    thread: str
    number: int
    stream: int | None
    is_copy: bool


class Delays(NamedTuple):
    """Delays in seconds: of the calling thread before and after the operation, and of its stream before and after it,
    by a kernel that only waits."""

    host_before: float = 0
    host_after: float = 0
    stream_before: float = 0
    stream_after: float = 0


class Schedule:
    """The delays of one run. They depend only on the seed, the thread, the operation's index in the thread and the size
    of the run, so the same seed repeats them.

    only: if given, restricts the delays to these pairs of thread and number.
    """

    def __init__(
        self, seed: int, size: Size, only: Collection[tuple[str, int]] | None = None
    ) -> None:
        self.seed = seed
        self._only = None if only is None else frozenset(only)
        kinds = ["streams", "copies", "operations", "everything"] if size.on_device else []
        if size.threads > 1 or not kinds:
            kinds.append("threads")
        self.kind = kinds[seed % len(kinds)]
        self._variant = seed // len(kinds) % 3
        self._size = size
        self._stream_s = _between(self._random("stream"), 5e-5, 5e-3)

    def delays(self, place: OperationSite) -> Delays:
        if self._only is not None and (place.thread, place.number) not in self._only:
            return Delays()
        part = 1 / 3 if self.kind == "everything" else 1
        delays = Delays()
        if self.kind in ("threads", "everything") and self._is_slow(place.thread == "main", place.thread):
            delays = self._of_host(place, part)
        if place.stream is None:
            return delays
        if self.kind == "streams":
            owner = place.thread.partition(" ")[0]  # for a backward pass, the thread that called backward()
            is_first = owner == "main" and place.stream == 0
            return self._of_stream(place) if self._is_slow(is_first, f"{owner} {place.stream}") else delays
        if self.kind in ("copies", "everything") and place.is_copy:
            return self._of_copy(place, part, delays)
        if self.kind in ("operations", "everything"):
            return self._of_operation(place, part, delays)
        return delays

    def delay_in_graph(self, graph: str, number: int) -> float:
        """Returns the seconds by which the operation with this number is delayed in each replay of a graph."""
        if self._only is not None and (graph, number) not in self._only:
            return 0
        part = {"operations": 1.0, "everything": 1 / 3}.get(self.kind, 0.0)
        place = OperationSite(graph, number, None, False)
        if self._draw(place, "in graph") >= part * _share(0.5, self._size.replayed, _MEAN_S):
            return 0
        return _between(self._draw(place, "in graph seconds"), 3e-5, 2e-2)

    def _is_slow(self, is_first: bool, name: str) -> bool:
        if self._variant == 2:
            return self._random(name) < 0.5
        return is_first == (self._variant == 0)

    def _of_host(self, place: OperationSite, part: float) -> Delays:
        if self._draw(place, "host") >= part * _share(0.5, self._size.operations, _MEAN_S):
            return Delays()
        seconds = _between(self._draw(place, "host seconds"), 5e-5, 2e-2)
        if self._draw(place, "host side") < 0.5:
            return Delays(host_before=seconds)
        return Delays(host_after=seconds)

    def _of_stream(self, place: OperationSite) -> Delays:
        window = dataclasses.replace(place, number=place.number // 16)
        if self._draw(window, "window") < _share(1, self._size.on_device, self._stream_s):
            return Delays(stream_before=self._stream_s)
        return Delays()

    def _of_copy(self, place: OperationSite, part: float, others: Delays) -> Delays:
        if self._draw(place, "copy") >= part * _share(0.8, self._size.copies, 2 * _MEAN_S):
            return others
        seconds = _between(self._draw(place, "copy seconds"), 1e-3, 2e-2)
        return others._replace(stream_before=seconds)

    def _of_operation(self, place: OperationSite, part: float, others: Delays) -> Delays:
        if self._draw(place, "operation") >= part * _share(0.5, self._size.on_device, _MEAN_S):
            return others
        seconds = _between(self._draw(place, "operation seconds"), 3e-5, 2e-2)
        if self._draw(place, "operation side") < 0.7:
            return others._replace(stream_before=seconds)
        return others._replace(stream_after=seconds)

    def _draw(self, place: OperationSite, what: str) -> float:
        return self._random(f"{place.thread}/{place.number}/{what}")

    def _random(self, key: str) -> float:
        digest = hashlib.blake2b(f"{self.seed}/{key}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little") / 2**64


def _between(draw: float, least: float, most: float) -> float:
    return least * math.exp(draw * math.log(most / least))


def _share(most: float, count: int, seconds: float) -> float:
    """Returns the share of `count` operations that may be delayed by `seconds` each within the budget of a run; at most
    `most`."""
    budget_s = max(_LEAST_BUDGET_S, _BUDGET_S_PER_OPERATION * count)
    return min(most, budget_s / (max(count, 1) * seconds))
