"""Finds loops whose GPU waits for launches, and predicts what CUDA graphs gain (docs/doctor-method.md)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

from .. import _native
from .._blocks import contextmanager
from .changes import make_change
from .launches import Launches

_BUSY = 0.9  # the GPU is busy if its work takes at least this share of a step's time
LAUNCHING = 0.8  # share of a step's time that the host at least needs for launches if these are the limit
# Share of the shorter one of stages and step that overlaps with the other one if both run as graphs. Measured on an
# H200 with a frozen ViT-B/16 and a decoder: 0.24 at batch size 8, 0.24 at 32, 0.08 at 128.
_OVERLAP = 0.2
_REPLAY_S = 3e-4  # the host's time for a replay and its checks (bench/results/h200/cuda_graphs_8.json)
STEP = "step"


@dataclasses.dataclass(frozen=True)
class Work:
    """A part of the loop that runs for each batch: a stage, or the step.

    name: the name of the stage, or STEP. is_graph: whether it is a CUDA graph already, or cannot become one."""

    name: str
    launches: Launches
    is_graph: bool = False


@dataclasses.dataclass(frozen=True)
class LoopTimes:
    """The times of a loop for one batch.

    works: its stages, and the step as the last one.
    loading_s: seconds in which the workers produce a batch; 0 without workers.
    copy_s: seconds of the copy to the device.
    other_host_s: seconds in which the loop's thread does other things than launching the works.
    overlaps: whether copies and stages overlap with the step."""

    works: Sequence[Work]
    loading_s: float = 0
    copy_s: float = 0
    other_host_s: float = 0
    overlaps: bool = True

    def host_s(self, captured: Sequence[str] = ()) -> float:
        """Returns the seconds of the loop's thread if these works are graphs."""
        return self.other_host_s + sum(_REPLAY_S if each.name in captured else each.launches.host_s for each in self.works)

    def device_s(self) -> _native.Measured:
        """Returns the seconds of the GPU if it does not wait for launches."""
        all_s = [each.launches.device_s for each in self.works]
        stages_s, step_s = sum(each.value for each in all_s[:-1]), all_s[-1].value
        whole = stages_s + step_s
        if self.overlaps:
            whole = max(self.copy_s, whole - _OVERLAP * min(stages_s, step_s))
        else:
            whole += self.copy_s
        half = math.hypot(*((each.high - each.low) / 2 for each in all_s))
        return _native.Measured(whole, max(0.0, whole - half), whole + half, "s", min(each.n for each in all_s))

    def is_limited_by_launches(self, ceiling: _native.Measured) -> bool:
        """Returns true if the host needs longer to launch the works than the GPU to execute them.

        ceiling: the rate of the loop with all batches on the device."""
        launching_s, step_s = sum(each.launches.host_s for each in self.works), 1 / ceiling.value
        return self.device_s().value < _BUSY * step_s and launching_s > LAUNCHING * step_s

    def rate_with(self, captured: Sequence[str]) -> _native.Measured:
        """Predicts the rate if these works are graphs: a step then takes as long as the slowest of the GPU, the loop's
        thread and the loader."""
        device = self.device_s()
        least = max(self.host_s(captured), self.loading_s)
        return _rate(device, least)

    def rate_with_stages(self, share: float) -> _native.Measured:
        """Predicts the rate if this share of the step becomes a stage of a slipstream.Pipeline, and stage and step are
        graphs."""
        device = self.device_s()
        less_s = _OVERLAP * min(share, 1 - share) * device.value
        both = _native.Measured(
            device.value - less_s, device.low - less_s, device.high - less_s, device.unit, device.n
        )
        return _rate(both, max(self.other_host_s + 2 * _REPLAY_S, self.loading_s))


def _rate(seconds: _native.Measured, least: float) -> _native.Measured:
    """Returns the rate of something that takes at least `least` seconds."""
    low, value, high = (max(each, least) for each in (seconds.low, seconds.value, seconds.high))
    return _native.Measured(1 / value, 1 / high, 1 / low, "steps/s", seconds.n)


@contextmanager
def all_launches_count(
    observed: _native.Observations, costs: Sequence[_native.DeviceCost], is_limited: bool | None
) -> Iterator[None]:
    """Makes a diagnosis in the block give the verdict "launch_overhead" exactly if `is_limited`, provided that input
    keeps up. The diagnosis compares the host's time for the device step "step" with the time at the ceiling. It would
    leave out the stages, which the same thread launches, and would count waiting in a full queue as launching.

    costs: those in `observed.device`. is_limited: None if it was not measured. The diagnosis then uses the costs."""
    ceiling = next((each.with_training for each in observed.levels if each.name == _native.DEVICE_LEVEL), None)
    if is_limited is not None and ceiling is not None:
        launching_s = {STEP: 1 / ceiling.value} if is_limited else {}
        observed.device = [
            _native.DeviceCost(cost.name, cost.seconds, launching_s.get(cost.name, 0.0), 0) for cost in costs
        ]
    try:
        yield
    finally:
        observed.device = list(costs)


@dataclasses.dataclass(frozen=True)
class GraphChange:
    """A change that runs works as CUDA graphs. captured: their names."""

    change: _native.Change
    captured: Sequence[str]


def explain(times: LoopTimes) -> str:
    """Returns the reason for the verdict "launch_overhead", as a clause."""
    launching_s = sum(each.launches.host_s for each in times.works)
    device_s = times.device_s().value
    return f"the host needs {1e3 * launching_s:.3g} ms to launch {1e3 * device_s:.3g} ms of the GPU's work"


def graph_changes(times: LoopTimes, rate: _native.Measured, copies_first: bool) -> list[GraphChange]:
    """Returns the changes that run the step, the stages, or both as CUDA graphs and gain at least 5 %, largest gain
    first.

    copies_first: whether the loop must copy batches to the GPU before the step, because its loader does not."""
    stages = [each.name for each in times.works[:-1] if not each.is_graph]
    step = [] if times.works[-1].is_graph else [STEP]
    found: list[GraphChange] = []
    for captured in ([*stages, *step], step, stages):
        if not captured or any(each.captured == captured for each in found):
            continue
        predicted = times.rate_with(captured)
        if rate.n > 0 and predicted.value >= _native.LEAST_GAIN * rate.value:
            change = make_change("graphs", *_words(captured, times, copies_first), rate, predicted)
            found.append(GraphChange(change, captured))
    return sorted(found, key=lambda each: -each.change.gain.value)


def _words(captured: Sequence[str], times: LoopTimes, copies_first: bool) -> tuple[str, str]:
    """Returns description and action of a change."""
    has_step = STEP in captured
    stages = [f"stage '{name}'" for name in captured if name != STEP]
    named = " and ".join([*stages, *(["the training step"] if has_step else [])])
    how = "as a CUDA graph" if len(captured) == 1 else "as one CUDA graph each"
    actions = ["slipstream.Pipeline(..., graphs=True)"] if stages else []
    actions += ["step = slipstream.capture(step)"] if has_step else []
    if has_step and copies_first:
        actions.append("for batch in slipstream.Pipeline(loader): step(batch)")
    if any(each.launches.is_upper_limit for each in times.works):
        how += ", which may gain more than predicted"
    return f"run {named} {how}", ", ".join(actions)
