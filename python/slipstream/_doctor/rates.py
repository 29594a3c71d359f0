"""Rates of loaders, alone and with training."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import torch

from .. import _native
from .._blocks import contextmanager

_KEPT = 4096  # samples of which costs are kept
_BLOCKS = 16  # of a turn
_RUN_AHEAD = 8  # steps that the host may be ahead of the device
_WARM_UP = 2  # steps of cached batches that do not count

Sample = list[list[float]]  # (wall s, CPU s, bytes) of each part


@contextmanager
def iterating(loader: Iterable[Any]) -> Iterator[Iterator[Any]]:
    """An iterator whose worker processes end with the block."""
    iterator = iter(loader)
    try:
        yield iterator
    finally:
        shut_down = getattr(iterator, "_shutdown_workers", None)
        if shut_down is not None:
            shut_down()


def _next(batches: Iterator[Any]) -> Any:
    for batch in batches:
        return batch
    raise _native.Error(
        "the loader ended without a batch: a worker's part of the data set is empty"
    )


class LoaderAlone(Protocol):
    """Samples/s of a loader by itself."""

    def measure(self, wanted_s: float, most_s: float, /) -> None: ...

    def rate(self) -> _native.Measured: ...


class LoaderRate:
    """Samples/s of a loader whose batches are thrown away.

    make: makes the loader. workers, batch_size: its own.
    is_timed: its batches come with costs (loaders.TimedCollate), which are kept.
    """

    def __init__(
        self,
        make: Callable[[], Iterable[Any]],
        workers: int,
        batch_size: int,
        is_timed: bool = False,
    ) -> None:
        self.make, self.batch_size, self.is_timed = make, batch_size, is_timed
        self._period = max(1, workers)  # batches that come together
        self._rates: list[float] = []
        self._seconds = self._samples = 0.0
        self.costs: list[Sample] = []  # of samples; collating comes last

    def measure(self, wanted_s: float, most_s: float) -> None:
        """For about `wanted_s`, and longer until each worker has made a batch that counts: those of
        all workers come together, so that fewer say nothing, whatever `most_s` is."""
        start = time.perf_counter()
        with iterating(self.make()) as batches:
            for _ in range(self._period):  # what waits for workers to start
                self._take(_next(batches), counts=False)
            ends = [time.perf_counter()]
            for batch in batches:
                self._take(batch)
                ends.append(time.perf_counter())
                if ends[-1] - start >= wanted_s and len(ends) > self._period:
                    break
        self._keep(ends)

    def rate(self) -> _native.Measured:
        """Samples/s; n = 0 where nothing is measured."""
        if not self._rates or self._seconds <= 0:
            return _native.Measured(unit="samples/s")
        spread = _native.mean_interval(self._rates, "samples/s")
        value = self._samples / self._seconds
        half = (spread.high - spread.value) / spread.value if spread.value > 0 else 0
        return _native.Measured(
            value, value * max(0, 1 - half), value * (1 + half), "samples/s", spread.n
        )

    def _take(self, batch: Any, counts: bool = True) -> None:
        if not (self.is_timed and counts):
            return
        samples, (wall, cpu) = batch[1]
        self.costs += [[*sample, [wall, cpu, 0]] for sample in samples]
        del self.costs[:-_KEPT]

    def _keep(self, ends: Sequence[float]) -> None:
        periods = (len(ends) - 1) // self._period
        ends = ends[:: self._period][: periods + 1]
        self._seconds += ends[-1] - ends[0]
        self._samples += periods * self._period * self.batch_size
        blocks = min(_BLOCKS, periods)
        for block in range(blocks):
            first, last = block * periods // blocks, (block + 1) * periods // blocks
            samples = (last - first) * self._period * self.batch_size
            if ends[last] > ends[first]:
                self._rates.append(samples / (ends[last] - ends[first]))


class TrainingRate:
    """Steps/s of a training loop over batches.

    make: makes the iterable of batches. period: batches that may come together, those of all
    workers; 1 for cached batches.
    device: "cpu" or "cuda:N", by whose events steps are timed: the host waits for it only where it
    is far ahead.
    """

    def __init__(
        self,
        make: Callable[[], Iterable[Any]],
        step: Callable[[Any], Any],
        device: str,
        period: int = 1,
    ) -> None:
        self.make, self.step, self.period = make, step, max(1, period)
        self._device = torch.device(device)
        self._durations: list[float] = []  # mean of each period, s
        self.steps: list[float] = []  # of single ones, in the order of batches; of the last turn
        self.enqueue_s = self.cpu_s = 0.0  # of a step, on the thread that trains

    def measure(self, wanted_s: float, most_s: float) -> None:
        """For about `wanted_s`, and longer until a period has been counted, whatever `most_s` is."""
        start = time.perf_counter()
        marks = [self._mark()]
        counted, in_steps, cpu_s = 0, 0.0, time.thread_time()
        skipped = _WARM_UP if self.period == 1 else self.period
        with iterating(self.make()) as batches:
            for batch in batches:
                before = time.perf_counter()
                self.step(batch)
                in_steps += time.perf_counter() - before
                marks.append(self._mark())
                self._wait_for(marks)
                if len(marks) == skipped + 1:
                    in_steps, cpu_s = 0.0, time.thread_time()
                passed = time.perf_counter() - start
                counted = len(marks) - 1 - skipped
                if counted >= self.period and passed >= wanted_s:
                    break
            if counted > 0:
                self.enqueue_s, self.cpu_s = (
                    in_steps / counted,
                    (time.thread_time() - cpu_s) / counted,
                )
            self._keep(self._seconds(marks)[skipped:])

    def rate(self) -> _native.Measured:
        """Steps/s; n = 0 where nothing is measured."""
        if not any(self._durations):
            return _native.Measured(unit="steps/s")
        return _native.rate_from_durations(self._durations)

    def _keep(self, steps: list[float]) -> None:
        self.steps = steps
        whole = len(steps) // self.period * self.period
        for first in range(0, whole, self.period):
            self._durations.append(sum(steps[first : first + self.period]) / self.period)

    def _mark(self) -> Any:
        if self._device.type != "cuda":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        return event

    def _wait_for(self, marks: Sequence[Any]) -> None:
        if self._device.type == "cuda" and len(marks) > _RUN_AHEAD:
            marks[-_RUN_AHEAD].synchronize()

    def _seconds(self, marks: Sequence[Any]) -> list[float]:
        """Between consecutive marks."""
        if self._device.type != "cuda":
            return [now - before for before, now in zip(marks, marks[1:], strict=False)]
        marks[-1].synchronize()
        return [
            before.elapsed_time(now) / 1e3 for before, now in zip(marks, marks[1:], strict=False)
        ]


def by_item(seconds: Sequence[float], items: int) -> list[list[float]]:
    """Seconds of steps by the cached batch that each took, of `items` in turn."""
    return [list(seconds[item::items]) for item in range(items)]
