"""Measures how long the host needs to launch the work of a step, and how long the GPU needs to execute it."""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .. import _native
from .levels import fresh

_FEWEST, _MOST = 2, 20  # measured calls
_HELD = 2  # times of the host for which the GPU is held
_MARGIN_S = 0.002
_CALIBRATION_CYCLES = 4_000_000


class Gpu:
    """A GPU as a clock: it can be held until the host has launched work."""

    def __init__(self, device: str) -> None:
        self._device = torch.device(device)
        self._cycles_per_s = 0.0

    def synchronize(self) -> None:
        torch.cuda.synchronize(self._device)

    def mark(self) -> torch.cuda.Event:
        """Returns a mark that the GPU reaches after all work that was launched before."""
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        return event

    def seconds(self, begin: torch.cuda.Event, end: torch.cuda.Event) -> float:
        """Returns the seconds between two marks. Waits for the second one."""
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3

    def is_done(self, mark: torch.cuda.Event) -> bool:
        return bool(mark.query())  # type: ignore[no-untyped-call]

    def hold(self, seconds: float) -> None:
        """Lets the GPU do nothing for some time. Later work on the current stream waits."""
        if self._cycles_per_s == 0:
            self._sleep(_CALIBRATION_CYCLES)  # the first launch takes longer
            begin = self.mark()
            self._sleep(_CALIBRATION_CYCLES)
            self._cycles_per_s = _CALIBRATION_CYCLES / self.seconds(begin, self.mark())
        self._sleep(int(seconds * self._cycles_per_s))

    def _sleep(self, cycles: int) -> None:
        with torch.cuda.device(self._device):
            torch.cuda._sleep(cycles)  # type: ignore[no-untyped-call]


@dataclasses.dataclass(frozen=True)
class Launches:
    """The times of one call of a step or stage.

    host_s: seconds that the call takes if the GPU is idle before. If it waits for the GPU, this time is included.
    device_s: seconds that the GPU needs if all work has been launched before, so that it never waits for the host.
    is_upper_limit: whether `device_s` may be too long, because the GPU's queue of about a thousand launches was too
        short, or because the call waits for the GPU."""

    host_s: float
    device_s: _native.Measured
    is_upper_limit: bool = False


def measure_launches(run: Callable[[Any], Any], batches: Sequence[Any], gpu: Gpu, budget_s: float) -> Launches:
    """Measures calls of `run` on batches on the device for about `budget_s`.

    To find the time of the GPU alone, the GPU is held until the host has launched everything."""
    host_s: list[float] = []
    device_s: list[float] = []
    early = 0
    start = time.perf_counter()
    for batch in itertools.cycle(batches):
        gpu.synchronize()
        before = time.perf_counter()
        run(fresh(batch))
        host_s.append(time.perf_counter() - before)
        gpu.synchronize()
        gpu.hold(_HELD * statistics.median(host_s) + _MARGIN_S)
        begin = gpu.mark()
        run(fresh(batch))
        early += gpu.is_done(begin)  # the GPU began before everything was launched
        device_s.append(gpu.seconds(begin, gpu.mark()))
        is_over = len(host_s) >= _FEWEST and time.perf_counter() - start > budget_s
        if is_over or len(host_s) == _MOST:
            break
    return Launches(statistics.median(host_s), _median(device_s), 2 * early > len(device_s))


def _median(seconds: Sequence[float]) -> _native.Measured:
    """Returns the median with the interval of the middle half, narrowed by the number of values."""
    value = statistics.median(seconds)
    low, _, high = statistics.quantiles(seconds, n=4)
    by = 2 / math.sqrt(len(seconds))
    return _native.Measured(value, value - by * (value - low), value + by * (high - value), "s", len(seconds))
