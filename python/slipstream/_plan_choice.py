"""Measures whether running ahead pays in a loop over a slipstream.Pipeline (`plan="auto"`)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from . import _native
from ._iteration import ALL, LoopOwner, Pass, SerialLoop

_COUNTED_BATCHES = 30  # most batches of a turn that count
_FEWEST_BATCHES = 16  # fewest batches of each plan for a choice
_COUNTED_TURNS = 4  # two of each plan
_MOST_TURNS = 40


class PlanChoice:
    """The measurements of all iterations over a pipeline, and the plan that they lead to.

    The loop runs in turns, blocks of batches that alternate between both plans. The first turn is not counted, because
    the first batches of a program take longer. Nor are the first batches of each turn, which fill the stages.

    plan: "auto" until both plans have been measured, then "serial" or "pipelined".
    reason: why it was chosen; "" before.
    fill: number of batches at the beginning of a turn that do not count."""

    def __init__(self, fill: int) -> None:
        self.plan, self.reason = "auto", ""
        self._fill = fill
        self._turns = 0
        self._seconds: dict[str, list[float]] = {"serial": [], "pipelined": []}

    def next_turn(self) -> tuple[str, int]:
        """Returns the plan of the next turn and its number of batches."""
        if self.plan != "auto":
            return self.plan, ALL
        return ("serial" if self._turns % 2 == 0 else "pipelined"), self._fill + _COUNTED_BATCHES

    def add(self, plan: str, seconds: list[float]) -> None:
        """Adds a turn. seconds: the time of each step."""
        if self.plan != "auto":
            return
        if self._turns > 0:
            self._seconds[plan] += seconds[self._fill :]
        self._turns += 1
        if self._turns > _COUNTED_TURNS and min(map(len, self._seconds.values())) >= _FEWEST_BATCHES:
            self.plan, self.reason = _native.choose_plan(self._seconds["serial"], self._seconds["pipelined"])
        elif self._turns >= _MOST_TURNS:
            self.plan, self.reason = "serial", "the epochs have too few batches to measure both plans"


class _Clock:
    """Measures the time between marks: on a GPU the time of the current stream, because the host only enqueues."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._marks: list[Any] = []

    def mark(self) -> None:
        if self._device == "cpu":
            self._marks.append(time.perf_counter())
            return
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        self._marks.append(event)

    def seconds(self) -> list[float]:
        """Returns the seconds between successive marks. Waits for the last one."""
        marks = self._marks
        if self._device == "cpu":
            return [end - begin for begin, end in zip(marks, marks[1:], strict=False)]
        if marks:
            marks[-1].synchronize()
        return [begin.elapsed_time(end) / 1e3 for begin, end in zip(marks, marks[1:], strict=False)]


class AutoLoop:
    """Iterator over the batches of one iteration, in turns that alternate between both plans until one is chosen.

    make: returns the loop of a turn. Its arguments are the plan, the number of batches that this iteration has returned
        before, and the number of batches of the turn."""

    def __init__(
        self, make: Callable[[str, int, int], Pass | SerialLoop], choice: PlanChoice, device: str
    ) -> None:
        self._make, self._choice, self._device = make, choice, device
        self._given = 0
        self._wall_s = self._cpu_s = 0.0  # of the loader, in the turns before this one
        self._begin_turn()

    def _begin_turn(self) -> None:
        self._plan, self._limit = self._choice.next_turn()
        self._owner = self._make(self._plan, self._given, self._limit)
        self._clock: _Clock | None = None if self._limit == ALL else _Clock(self._device)

    def _end_turn(self) -> None:
        clock, self._clock = self._clock, None
        if clock is not None:
            self._choice.add(self._plan, clock.seconds())

    def __next__(self) -> Any:
        while True:
            try:
                batch = next(self._owner.loop)
            except StopIteration:
                self._end_turn()
                given = self._owner.loop.given()
                if given < self._limit:
                    raise
                self._wall_s, self._cpu_s = self.loader_times()
                self._owner.loop.close()
                self._given += given
                self._begin_turn()
                continue
            if self._clock is not None:
                self._clock.mark()
            return batch

    @property
    def loop(self) -> AutoLoop:
        return self

    @property
    def source(self) -> Any:
        return self._owner.source

    def loader_times(self) -> tuple[float, float]:
        """Returns the wall time and the CPU time, in seconds, that next() has spent in the loader so far."""
        wall_s, cpu_s = self._owner.loop.loader_times()
        return self._wall_s + wall_s, self._cpu_s + cpu_s

    def failed(self) -> str:
        return self._owner.loop.failed()

    def given(self) -> int:
        return self._given + self._owner.loop.given()

    def lost(self) -> int:
        """Returns the number of batches that were read from the loader in advance and that next() has not returned."""
        return self._owner.loop.lost()

    def close(self) -> None:
        self._clock = None  # the last step of a turn that is left has no end
        self._owner.loop.close()


def begin_loop(
    choice: PlanChoice | str, make: Callable[[str, int, int], Pass | SerialLoop], device: str
) -> LoopOwner:
    """Returns the loop of an iteration. choice: a plan, or the measurements that select it. make: as in AutoLoop."""
    return make(choice, 0, ALL) if isinstance(choice, str) else AutoLoop(make, choice, device)
