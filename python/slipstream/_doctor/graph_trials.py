"""Advises CUDA graphs for a loop whose GPU waits for launches, and measures the loop with them."""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .. import _native
from .._blocks import contextmanager
from .._state_guard import StateGuard
from ..capture import CapturedStep, capture
from ..pipeline import Pipeline
from .changes import best_gain
from .graphs import STEP, GraphChange, explain, graph_changes
from .measurements import LevelMeasurements
from .rates import TrainingRate, iterating
from .routes import PipelineRoute, PlainRoute, Route
from .trials import Names

_REASON = "the host needs as long to enqueue a step as the device to execute it"  # the clause of the native reason
_LEAST_TURN_S = 0.5
_MOST_WARM_UP = 24  # batches until a loop with graphs is in its steady state
_REPLAYS = 4  # replays in this state: the first ones are compared with the step itself


@dataclasses.dataclass
class _Trial:
    change: GraphChange
    rate: _native.Measured | None = None
    failure: str = ""


def advise(
    measurements: LevelMeasurements,
    diagnosis: _native.Diagnosis,
    names: Names,
    budget_s: float,
    guard: Callable[[], StateGuard],
) -> tuple[list[_native.Change], list[_native.Change]]:
    """Returns changes to CUDA graphs if the GPU waits for launches, and those of them that cannot be made.

    budget_s, guard: see try_out(). Without a budget the changes are predicted only."""
    times = measurements.times
    if times is None or not measurements.waits_for_launches() or diagnosis.verdict == "not_enough_evidence":
        return [], []
    copies_first = isinstance(measurements.route, PlainRoute) and not measurements.route.copies_ahead
    found = graph_changes(times, diagnosis.rate, copies_first)
    if diagnosis.verdict == "launch_overhead":
        diagnosis.reason = diagnosis.reason.replace(_REASON, explain(times))
    return try_out(measurements, found, names, budget_s, guard) if found else ([], [])


def try_out(
    measurements: LevelMeasurements,
    changes: Sequence[GraphChange],
    names: Names,
    budget_s: float,
    guard: Callable[[], StateGuard],
) -> tuple[list[_native.Change], list[_native.Change]]:
    """Measures loops with graphs for about `budget_s`. Returns the changes with the measured rates and code, without
    those that do not gain, and changes whose graphs cannot be recorded, with the reason in their description.

    guard: saves the state that the loop changes. Each loop with graphs begins with this state, and it is restored
        afterwards: a captured step changes settings of the optimizers, which the unchanged loop must not have."""
    most = int(budget_s / _LEAST_TURN_S) - 2
    if most < 1:
        return [each.change for each in changes], []
    trials = [_Trial(each) for each in changes[:most]]
    turn_s = budget_s / (len(trials) + 2)
    unchanged = measurements.whole_rate()
    try:
        _native.measure_alternately([unchanged], turn_s, turn_s)
        for trial in trials:
            known = [each.failure for each in trials if each.failure and {*each.change.captured} <= {*trial.change.captured}]
            trial.failure = known[0] if known else ""
            if not known:
                _measure(trial, measurements, turn_s, guard)
        _native.measure_alternately([unchanged], turn_s, turn_s)
    except Exception as error:  # of the unchanged loop, because a trial keeps its exceptions
        measurements.warnings.append(f"no CUDA graph was tried out: {type(error).__name__}: {error}")
        return [each.change for each in changes], []
    for trial in trials:
        _note(trial, unchanged.rate(), code_for(trial.change.captured, measurements.route, names), measurements.warnings)
    failed = [trial.change.change for trial in trials if trial.failure]
    others = [trial.change.change for trial in trials if not trial.failure]
    kept = [change for change in others if best_gain(change) >= _native.LEAST_GAIN]
    return [*kept, *(each.change for each in changes[most:])], failed


def _measure(trial: _Trial, measurements: LevelMeasurements, turn_s: float, guard: Callable[[], StateGuard]) -> None:
    """Measures the loop with the graphs of a change, and restores the state."""
    with warnings.catch_warnings(), _restored(guard) as graphs:
        warnings.filterwarnings("ignore", "slipstream: ")
        try:
            step = measurements.user_step
            if STEP in trial.change.captured:
                # Without graphs for single addresses, all graphs are recorded before the measurement begins.
                step = capture(step, slots=0)
                graphs.append(step)
            route = _route(trial.change.captured, measurements.route, measurements.device)
            graphs += [each.function for each in route.stages if isinstance(each.function, CapturedStep)]
            rate = measurements.whole_rate(route, step)
            trial.failure = _warm_up(rate, graphs, turn_s)
            if not trial.failure:
                _native.measure_alternately([rate], turn_s, turn_s)
                trial.rate = rate.rate()
        except Exception as error:  # a change that does not work for this loop is not advised
            trial.failure = f"{type(error).__name__}: {error}"


@contextmanager
def _restored(guard: Callable[[], StateGuard]) -> Iterator[list[CapturedStep]]:
    """Restores the state after the block, and frees the graphs in the list that it gives."""
    saved, graphs = guard(), list[CapturedStep]()
    try:
        yield graphs
    finally:
        for each in graphs:
            each.reset()
        saved.restore()


def _route(captured: Sequence[str], route: Route, device: str) -> Route:
    if isinstance(route, PipelineRoute):
        return route.with_graphs() if any(name != STEP for name in captured) else route
    # A captured step needs its batch on the device.
    return route if route.copies_ahead else PipelineRoute(Pipeline([], device=device))


def _warm_up(rate: TrainingRate, graphs: Sequence[CapturedStep], most_s: float) -> str:
    """Runs the loop until all graphs are recorded and compared. Returns why this is not possible, or ""."""
    start = time.perf_counter()
    with iterating(rate.make()) as batches:
        for number, batch in enumerate(batches, 1):
            rate.step(batch)
            if all(each.replays >= _REPLAYS for each in graphs):
                return ""
            # A graph is recorded at once. What takes long is to compile a module again, for which there is time.
            if number >= _MOST_WARM_UP or time.perf_counter() - start > 10 * most_s:
                break
    reasons = [each._reason for each in graphs if each.replays < _REPLAYS]
    return next((each for each in reasons if each), "no CUDA graph was recorded")


def _note(trial: _Trial, unchanged: _native.Measured, code: str, notes: list[str]) -> None:
    change, measured = trial.change.change, trial.rate
    if trial.failure:
        change.description += f": cannot be recorded: {trial.failure}"
        return
    if measured is None or not _is_known(measured, unchanged):
        notes.append(f"not measured in time: {change.description}")
        return
    change.measured, change.code = measured, code
    change.measured_gain = gain = _native.ratio(measured, unchanged)
    if gain.value < _native.LEAST_GAIN:
        notes.append(
            f"tried without a gain: {change.description}: {gain.value:.2f} [{gain.low:.2f}, {gain.high:.2f}] times as "
            "fast"
        )


def _is_known(measured: _native.Measured, unchanged: _native.Measured) -> bool:
    return measured.n > 0 and unchanged.n > 0 and measured.high - measured.low <= measured.value


def code_for(captured: Sequence[str], route: Any, names: Names) -> str:
    """Returns code that makes a change where the loop is."""
    lines = [] if not names.comment else [names.comment.rstrip("\n")]
    if STEP in captured and not names.step:
        lines.append("# step: the function that was given to slipstream.doctor()")
    lines.append("import slipstream as ss")
    if any(name != STEP for name in captured):
        made = route.code(names.loop, f"{names.loop}.loader", graphs=True)
        lines += [line for line in made.splitlines() if line not in lines]
    elif isinstance(route, PlainRoute) and not route.copies_ahead:
        lines.append(f"{names.loop} = ss.Pipeline({names.loop}, device={route.device!r})")
    if STEP in captured:
        name = names.step or "step"
        lines.append(f"{name} = ss.capture({name})")
    return "\n".join(lines)
