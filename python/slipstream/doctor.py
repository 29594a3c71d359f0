"""slipstream.doctor: finds the bottleneck of an unmodified PyTorch loop, and predicts the gain of changes."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import html
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader

from . import _native, data
from ._blocks import contextmanager
from ._checks import check, device_named
from ._class_state import ClassStates
from ._doctor.changes import add_changes
from ._doctor.advice import rewrite, rewrite_native
from ._doctor.measurements import LevelMeasurements
from ._doctor.loaders import Loaders, copied_parts, generators_of_loader
from ._doctor import frozen, graph_trials, ranks, trials
from ._doctor.graphs import all_launches_count
from ._doctor.native import NativeLevelMeasurements, NativeLoaders
from ._doctor.port import Ports
from ._doctor.processes import ProcessLevelMeasurements, ProcessLoaders
from ._doctor.routes import PipelineRoute, PlainRoute, Route
from ._doctor.views import view
from ._held_objects import Wrapper, callees
from ._random_states import preserved_random_states
from ._showing import show
from ._stages import first_module
from ._state_guard import StateGuard
from .pipeline import Pipeline

__all__ = ["Advice", "Comparison", "DoctorReport", "doctor"]


@dataclasses.dataclass(frozen=True)
class Advice:
    """A change that would make training faster.

    Attributes:
        description (str): what to change.
        action (str): what to write in Python for it.
        predicted (Measured): the rate in steps/s after the change.
        gain (Measured): `predicted` divided by the measured rate.
        is_upper_bound (bool): whether the change gives at most this gain.
        effort (str): what the change takes: "option" (of the loader), "code", "data" (a converted or stored data set)
            or "hardware".
        measured (Measured or None): the rate in steps/s of a loop with the change; None if it was not tried.
        measured_gain (Measured or None): `measured` divided by the rate of the unchanged loop, which was measured in
            alternation with it.
        code (str): code that makes the change, to be run where doctor() was called; "" if there is none. It assigns
            to the variable that holds the loader.
    """

    description: str
    action: str
    predicted: _native.Measured
    gain: _native.Measured
    is_upper_bound: bool
    effort: str
    measured: _native.Measured | None = None
    measured_gain: _native.Measured | None = None
    code: str = ""

    def __str__(self) -> str:
        most = "at most " if self.is_upper_bound else ""
        gain = f"{most}{self.gain.value:.3g} times as fast" if _native.is_certain(self.gain) else "gain not known"
        if self.measured_gain is not None:
            gain = f"{self.measured_gain.value:.3g} times as fast (measured)"
        return f"{self.description}: {gain}" + (f" ({self.action})" if self.action else "")

    @classmethod
    def _of(cls, change: _native.Change) -> Advice:
        is_measured = change.measured.n > 0
        return cls(
            change.description,
            change.action,
            change.predicted,
            change.gain,
            change.is_upper_bound,
            change.effort,
            change.measured if is_measured else None,
            change.measured_gain if is_measured else None,
            change.code,
        )


class Comparison:
    """A comparison of two reports of slipstream.doctor, from DoctorReport.compare().

    Attributes:
        is_worse (bool): whether a value is worse than in the earlier report: a rate is lower, or a time is longer, by
            more than 2 %, and the intervals of both reports do not overlap.
        worse (list of str): names of these values.
        differences (list of str): differences of machine and options, which may be the reason.

    >>> loader = torch.utils.data.DataLoader([torch.ones(64) for _ in range(100)], batch_size=10)
    >>> report = ss.doctor(loader, lambda batch: batch.sum(), device="cpu", budget=1)
    >>> comparison = report.compare(report)
    >>> comparison.worse, comparison.differences
    ([], [])
    """

    def __init__(self, native: _native.BaselineComparison) -> None:
        self._native = native
        self.worse: list[str] = [row.name for row in native.rows if row.is_worse]
        self.is_worse: bool = bool(self.worse)
        self.differences: list[str] = native.differences

    def text(self) -> str:
        """Returns a table of all values in both reports, and the differences."""
        return self._native.text()

    def __repr__(self) -> str:
        return f"Comparison(worse={self.worse})"

    def __str__(self) -> str:
        return self.text()


class DoctorReport:
    """The result of doctor().

    Attributes:
        verdict (str): the bottleneck: "device" (the device that trains, a GPU or a CPU), "copy", "transforms",
            "collate", "decode", "read" (also the data set's own code that is not known to do something else),
            "launch_overhead", "lock_contention", "memory_bandwidth", "none", "not_enough_evidence", or the name of a
            part (slipstream.part and the argument `parts`).
        reason (str): the verdict as a sentence.
        bottlenecks (list of str): all bottlenecks by these names, largest gain first; empty if training does not wait
            for input.
        ceiling (Measured): steps/s with all batches cached on the device.
        rate (Measured): steps/s with nothing cached.
        share (Measured): `rate` divided by `ceiling`. 1 - share is the part of the time in which the device waits.
        rank, slowest_rank (int or None): with torch.distributed, the rank of this process, and the one with the lowest
            rate. None for a single process.
        advice (list of Advice): what to change, least effort first. But a change that gains less than half of what a
            later one gains, and less than a factor of 2, comes after it. Empty if the device is the limit, if there is
            not enough evidence, and if nothing gains 5 %.

    >>> loader = torch.utils.data.DataLoader([torch.ones(64) for _ in range(100)], batch_size=10)
    >>> report = ss.doctor(loader, lambda batch: batch.sum(), device="cpu", budget=1)
    >>> report.what_if({"collate": 0.5}).description
    "if 'collate' took 0.5 ms a sample"
    >>> report.judge_share(0)
    'passes'
    >>> report.compare(report).is_worse
    False
    """

    def __init__(
        self, observed: _native.Observations, diagnosis: _native.Diagnosis, report: _native.DoctorReport
    ) -> None:
        self._report = report
        self.verdict: str = diagnosis.verdict
        self.reason: str = diagnosis.reason
        self.bottlenecks: list[str] = diagnosis.bottlenecks
        self.ceiling: _native.Measured = diagnosis.ceiling
        self.rate: _native.Measured = diagnosis.rate
        self.share: _native.Measured = diagnosis.share
        self.advice = [Advice._of(each) for each in diagnosis.changes]
        self._observed, self._diagnosis = observed, diagnosis
        self.slowest_rank: int | None = report.slowest_rank()
        self.rank: int | None = None if self.slowest_rank is None else report.rank

    def what_if(self, ms: Mapping[str, float]) -> Advice:
        """Predicts the rate if steps of the data set had other costs. Measures nothing.

        Arguments:
            ms (mapping): for each of these steps, the time in milliseconds for one sample on one worker. The names are
                those in the list of costs in text().

        Returns an Advice with `predicted` and `gain`. `predicted.n` is 0 if the rate was not measured. Raises Refused
        for an unknown step, whose message lists the known ones, and for a time that is below 0 or above an hour.
        """
        return Advice._of(_native.what_if(self._observed, self._diagnosis, {name: t / 1e3 for name, t in ms.items()}))

    def judge_share(self, least: float) -> str:
        """Tests whether the input is fast enough, as `slipstream doctor --min-share` does.

        Arguments:
            least (float): the smallest acceptable share of the ceiling, from 0 to 1, for example 0.95.

        Returns "passes"; "fails" if the whole interval of `share` is below `least`; or "undecided": the interval
        contains `least`, or there is not enough evidence. Raises Refused for other numbers.
        """
        if isinstance(least, bool) or not isinstance(least, int | float) or not 0 <= least <= 1:
            raise _native.Refused(f"least is {least!r}: give a share of the ceiling, from 0 to 1")
        return self._report.judge_share(float(least))

    def compare(self, baseline: str | os.PathLike[str] | DoctorReport) -> Comparison:
        """Compares this report with an earlier one, as `slipstream doctor --baseline` does.

        Arguments:
            baseline (path or DoctorReport): the earlier report, or the file that to_json() has written.

        Raises Refused if the file is not a report of the doctor, or if the data set has another class or batches have
        another size. Raises OSError if the file cannot be read.
        """
        if isinstance(baseline, DoctorReport):
            return Comparison(self._report.compare(baseline._report.json()))
        with open(baseline, encoding="utf-8", errors="replace") as file:
            return Comparison(self._report.compare(file.read()))

    def text(self) -> str:
        """Returns the report as plain text. The first lines are the verdict, what to do first with its predicted gain,
        and the distance from the limit. Then come the reason, all changes, the rate of each cache level and the cost of
        each step."""
        return str(self._report.text())

    def show(self) -> None:
        """Prints text(); in a notebook, shows the page of to_html()."""
        show(self)

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Writes the report as JSON, schema slipstream.doctor, version 1 (docs/doctor-json.md).

        Arguments:
            path (path): the file. An existing file is replaced only when the whole report has been written.

        Raises Error if it cannot be written."""
        _native.write_file_atomically(path, self._report.json())

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Writes the report as an HTML page that loads no other files.

        Arguments:
            path (path): the file. An existing file is replaced only when the whole page has been written.

        Raises Error if it cannot be written."""
        _native.write_file_atomically(path, self._report.html())

    def __repr__(self) -> str:
        """Returns the first lines of text(): the verdict, what to do first, and the distance from the limit."""
        return str(self._report.summary()).rstrip()

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        page = html.escape(self._report.html(), quote=True)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 50em; border: 0"></iframe>'


def doctor(
    loader: DataLoader[Any] | data.DataLoader | Pipeline,
    step: Callable[[Any], Any],
    *,
    device: str | torch.device | None = None,
    budget: float = 60,
    state: Any = (),
    try_out: bool = True,
    parts: Sequence[Callable[..., Any] | str] = (),
) -> DoctorReport:
    """Finds the bottleneck of a training loop. It measures the loop several times, with more and more of the input
    taken from a cache.

    Arguments:
        loader: a torch.utils.data.DataLoader, a slipstream.DataLoader, or a slipstream.Pipeline around one of them. The
            loader itself is not used: loaders with its settings are created. If a slipstream.DataLoader has a sampler,
            a copy of it lists the samples of one epoch, which all measurements repeat. With workers, samples are
            created only in their worker processes; without workers, by deep copies of the data set, the sampler and
            collate_fn.
        step (callable): trains on one batch, `step(batch)`. On a GPU, the tensors of the batch are already on
            `device`, copied as with non_blocking=True on the current stream. With a slipstream.Pipeline, its stages
            have been applied to the batch.
        device (str or torch.device, default None): where the step trains. None means the device of a
            slipstream.DataLoader or slipstream.Pipeline, otherwise "cuda" if there is a GPU and "cpu" if there is none.
        budget (float, default 60): approximate time for the measurements, in seconds. If it is too small for a verdict
            on this loop, Refused is raised after the first samples and steps; the message names a sufficient budget.
        state (default ()): more objects to restore, which the step does not refer to: one object, or a list or mapping
            of them, each with state_dict() and load_state_dict().
        try_out (bool, default True): also applies the best changes to copies of your objects and measures them, with a
            part of the budget: other workers, prefetching and pinning, a crop that is applied earlier,
            slipstream.Pipeline, native transforms in a slipstream.DataLoader, and CUDA graphs if the GPU waits for
            launches. For a slipstream.DataLoader, only CUDA graphs are tried out.
        parts (list, default ()): functions and methods of the data set's code that are measured separately, each a
            function, a method, or the name of an attribute of the data set. They must be called on the thread that
            loads. To name a part of a function, use slipstream.part. Refused for a slipstream.DataLoader
            that reads its data set without Python.

    If torch.distributed is initialized, call this in all processes, with the same budget. Each examines its own input
    and its own step without the exchange of gradients by DistributedDataParallel, and the report names the slowest
    rank. A step that calls torch.distributed itself is refused.

    The step really trains. Afterwards the state that it refers to through its variables, the globals that it names and
    its `self` is restored to the same bits: tensors, modules with gradients and modes, optimizers, schedulers and other
    objects with state_dict() and load_state_dict() (docs/python-doctor.md). The random generators of torch, numpy and
    random are restored, and no worker process remains. A RuntimeWarning names what the step changed and what is not
    restored.

    Returns when all measurements have finished. Raises Refused for invalid arguments and for a budget that is too
    small, and Error if nothing can be measured. Exceptions of the first step and of the first samples are raised unchanged.

    >>> model = torch.nn.Linear(64, 2)
    >>> loader = torch.utils.data.DataLoader([torch.ones(64) for _ in range(100)], batch_size=10)
    >>> def step(batch):
    ...     model(batch).sum().backward()
    >>> report = ss.doctor(loader, step, device="cpu", budget=1)
    >>> print(report)  # doctest: +ELLIPSIS
    Verdict: ...
    """
    states = _parse_states(state)
    _refuse(loader, step, budget, states, parts)
    loop = _open(loader, step, _resolve_device(loader, device), states)
    names = _names(loader, step)
    if not ranks.trains_together():
        return _examined(loop, loader, float(budget), try_out, parts, names)
    with ranks.reporting_failures(loop.device), ranks.without_exchange(loop.functions()):
        return _examined(loop, loader, float(budget), try_out, parts, names)


def _examined(
    loop: _Loop, loader: Any, budget: float, try_out: bool, parts: Sequence[Any], names: trials.Names
) -> DoctorReport:
    options: _Options = [
        ("num_workers", loop.loader.num_workers),
        ("prefetch_factor", loop.loader.prefetch_factor or 0),
    ]
    if isinstance(loader, Pipeline):
        options += [("plan", loop.route.plan), ("stages", ", ".join(stage.name for stage in loop.route.stages))]
    # The only changes that are tried out for a slipstream.DataLoader are CUDA graphs.
    trials_s = _TRIALS_SHARE * budget if try_out and (not loop.is_ours or loop.device.startswith("cuda")) else 0.0
    budgets = budget - trials_s, trials_s
    if not isinstance(loop.loader, data.DataLoader):
        examined = _examine(loop, names, budgets, options, parts)
    elif loop.loader._has_processes():
        make_in_processes = functools.partial(ProcessLoaders, loop.loader, parts)
        examined = _examine_ours(loop, make_in_processes, ProcessLevelMeasurements, names, budgets, options)
    else:
        make = functools.partial(NativeLoaders, loop.loader)
        examined = _examine_ours(loop, make, NativeLevelMeasurements, names, budgets, options)
    measurements, observed, diagnosis = examined
    seconds = measurements.seconds()
    results, failures = ranks.exchange_results(loop.device, diagnosis) if ranks.trains_together() else ([], [])
    observed.warnings += failures
    report = _native.DoctorReport(loop.device, loop.name, options, observed, diagnosis, seconds, budget)
    if results:
        report.set_ranks(torch.distributed.get_rank(), results)
    return DoctorReport(observed, diagnosis, report)


_TRIALS_SHARE = 0.3  # share of the budget for trying changes out

_Options = list[tuple[str, bool | int | float | str]]
_Examined = tuple[LevelMeasurements, _native.Observations, _native.Diagnosis]


@dataclasses.dataclass(frozen=True)
class _Loop:
    """The loop that is examined.

    loader: the loader, which may be inside of a slipstream.Pipeline; for a slipstream.DataLoader whose batches are made
        in Python, the PyTorch loader that makes them. route: how its batches get to the step.
    is_ours: whether the user's loader is a slipstream.DataLoader. name: the class of the data set.
    states: objects that are restored, besides those that the step refers to."""

    loader: Any
    step: Callable[[Any], Any]
    device: str
    route: Any
    is_ours: bool
    name: str
    states: Sequence[Any]

    def functions(self) -> list[Any]:
        """Returns the user's functions that are called for each batch. Modules of stages are frozen, so that they need
        not be restored."""
        stages = [stage.function for stage in self.route.stages if first_module(stage.function) is None]
        return [self.step, *stages]

    def callees(self) -> list[Any]:
        """Returns these functions and the functions that they call."""
        return [callee for function in self.functions() for callee in callees(function)]


def _open(given: Any, step: Any, device: str, states: Sequence[Any]) -> _Loop:
    loader: Any = given.loader if isinstance(given, Pipeline) else given
    is_ours, name = isinstance(loader, data.DataLoader), type(loader.dataset).__name__
    route: Route = PipelineRoute(given) if isinstance(given, Pipeline) else PlainRoute(device, is_ours)
    if is_ours and loader._is_made_in_python():
        if not isinstance(given, Pipeline):  # the loader copies batches in advance, as a pipeline without stages does
            route = PipelineRoute(Pipeline(loader))
        loader = view(loader)
    return _Loop(loader, step, device, route, is_ours, name, states)


def _examine(
    loop: _Loop,
    names: trials.Names,
    budget: tuple[float, float],
    options: _Options,
    parts: Sequence[Any],
) -> _Examined:
    """budget: seconds for the measurements, and for trying changes out."""
    loader, (examined_s, trials_s) = loop.loader, budget
    kept_classes = _kept_classes([*loop.callees(), *copied_parts(loader)])
    with preserved_random_states(generators_of_loader(loader)), kept_classes as changed_classes:
        loaders = Loaders(loader, loop.device.startswith("cuda"), parts)
        with _kept(loop, loaders.common) as not_restored:
            measurements = LevelMeasurements(loaders, loop.step, loop.device, examined_s, loop.route)
            measurements.budget_share = examined_s / (examined_s + trials_s)
            observed = measurements.measured()
            kept: Sequence[int] = ()
            with _launches_count(measurements, observed):
                diagnosis = _native.diagnose(observed)
                if loop.is_ours:
                    rewrite_native(observed, diagnosis, False)
                else:
                    split = measurements.samples.parts
                    ports = Ports(loaders, split, [cost for cost in observed.host if not cost.is_inside])
                    rewrite(observed, diagnosis, split, isinstance(loop.route, PipelineRoute), ports.predicted)
                    if any(change.id == "native_transforms" for change in diagnosis.changes):
                        kept = ports.kept()
            known, guard = len(measurements.warnings), functools.partial(_guard, loop, loaders.common)
            if trials_s > 0 and not loop.is_ours:
                if diagnosis.changes and measurements.waits_for_launches():
                    trials_s /= 2  # one half for these changes, the other one for graphs
                trials.try_out(measurements, diagnosis, names, trials_s, kept)
            graphs, impossible = graph_trials.advise(measurements, diagnosis, names, trials_s, guard)
            add_changes(diagnosis, [*graphs, *frozen.advise(measurements, observed, diagnosis)], impossible)
    observed.warnings += measurements.warnings[known:] + not_restored + changed_classes
    options += [("pin_memory", bool(loader.pin_memory)), ("iterable_style", loaders.is_stream)]
    return measurements, observed, diagnosis


def _examine_ours(
    loop: _Loop,
    make: Callable[[], NativeLoaders],
    kind: type[NativeLevelMeasurements],
    names: trials.Names,
    budget: tuple[float, float],
    options: _Options,
) -> _Examined:
    """Examines a slipstream.DataLoader that makes its batches natively.

    make: creates its loaders, which may use the user's sampler and data set. kind: the class of the measurements.
    budget: seconds for the measurements, and for trying CUDA graphs out."""
    with _kept_classes(loop.callees()) as changed_classes, _kept(loop) as not_restored:
        with contextlib.closing(make()) as loaders:
            measurements = kind(loaders, loop.step, loop.device, budget[0], loop.route)
            measurements.budget_share = budget[0] / sum(budget)
            observed = measurements.measured()
            with _launches_count(measurements, observed):
                diagnosis = _native.diagnose(observed)
            rewrite_native(observed, diagnosis, loaders.reads_natively)
            known, guard = len(measurements.warnings), functools.partial(_guard, loop)
            graphs, impossible = graph_trials.advise(measurements, diagnosis, names, budget[1], guard)
            add_changes(diagnosis, [*graphs, *frozen.advise(measurements, observed, diagnosis)], impossible)
    observed.warnings += measurements.warnings[known:] + not_restored + changed_classes
    options.append(("transforms_device", loop.loader.transforms_device))
    return measurements, observed, diagnosis


def _launches_count(
    measurements: LevelMeasurements, observed: _native.Observations
) -> contextlib.AbstractContextManager[None]:
    return all_launches_count(observed, measurements.device_costs, measurements.waits_for_launches())


def _names(loader: Any, step: Any = None) -> trials.Names:
    """Returns the variables for the code of changes, where doctor() was called."""
    name, of_step = _variable_of(loader), "" if step is None else _variable_of(step)
    if not isinstance(loader, Pipeline):
        comment = "" if name else "# loader: the loader that was given to slipstream.doctor()\n"
        return trials.Names(name or "loader", name or "loader", comment=comment, step=of_step)
    comment = "" if name else "# pipeline: the pipeline that was given to slipstream.doctor()\n"
    inner = _variable_of(loader.loader)
    new = "inner_loader" if name == "loader" else "loader"
    return trials.Names(name or "pipeline", inner or new, not inner, comment, of_step)


def _variable_of(value: Any) -> str:
    """Returns the variable that holds the value where doctor() was called; "" if there is none. Names that begin with
    an underscore, such as the last results of a notebook, do not count."""
    frame = sys._getframe(3)
    for variables in (frame.f_locals, frame.f_globals):
        for name, each in variables.items():
            if each is value and not name.startswith("_"):
                return name
    return ""


def _parse_states(state: Any) -> list[Any]:
    if hasattr(state, "state_dict"):
        return [state]
    if isinstance(state, Mapping):
        return list(state.values())
    return list(state) if isinstance(state, Iterable) else [state]


def _refuse(loader: Any, step: Any, budget: float, state: Sequence[Any], parts: Any) -> None:
    problems = []
    if isinstance(loader, Pipeline):
        loader = loader.loader
        if not isinstance(loader, DataLoader | data.DataLoader):
            problems.append(
                f"the loader of the slipstream.Pipeline is of type {type(loader).__name__}, but the doctor examines a "
                "torch.utils.data.DataLoader or a slipstream.DataLoader: create the pipeline around one of them"
            )
    if isinstance(loader, data.DataLoader):
        data.refuse_own_iteration(loader, "the doctor")
        if parts and loader._reads_natively():
            problems.append(
                "parts= names parts of a data set in Python, but this slipstream.DataLoader reads its data set without "
                "Python and measures each of its steps: leave it out"
            )
    elif not isinstance(loader, DataLoader) and not problems:
        problems.append(
            "slipstream.doctor examines a torch.utils.data.DataLoader, a slipstream.DataLoader or a "
            f"slipstream.Pipeline, not {type(loader).__name__}: give the loader that is inside"
        )
    if not isinstance(parts, list | tuple):
        problems.append(f"parts is {parts!r}: give a list of functions and names of attributes of the data set")
    if not callable(step):
        problems.append("the step cannot be called: give a function that trains on one batch")
    if isinstance(budget, bool) or not isinstance(budget, int | float) or not budget > 0:
        problems.append(f"budget is {budget!r}: give a number of seconds, more than 0")
    problems += [
        f"state contains an object of type {type(each).__name__}, which has no state_dict() and load_state_dict()"
        for each in state
        if not (hasattr(each, "state_dict") and hasattr(each, "load_state_dict"))
    ]
    check(problems)


def _resolve_device(loader: Any, device: str | torch.device | None) -> str:
    """Returns the device on which the step trains. It must be that of a native loader or a pipeline, whose batches are
    already there."""
    if isinstance(loader, data.DataLoader | Pipeline):
        if device is not None and device_named(device) != loader.device:
            raise _native.Refused(
                f"device is '{device}', but the loader gives batches on '{loader.device}': create it with the device on "
                "which the step trains"
            )
        return loader.device
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return device_named(device)


@contextmanager
def _kept_classes(roots: Sequence[Any]) -> Iterator[list[str]]:
    """Restores attributes of the classes of all objects that `roots` refer to, and warns of changes."""
    classes = ClassStates(roots)
    changed: list[str] = []
    try:
        yield changed
    finally:
        changed += classes.restore()
        for each in changed:
            warnings.warn(f"slipstream.doctor: {each}", RuntimeWarning, stacklevel=6)


def _guard(loop: _Loop, common: Sequence[tuple[str, Any]] = ()) -> StateGuard:
    """Saves the state that the step and the stages refer to."""
    given = [(f"state[{i}]", each) for i, each in enumerate(loop.states)]
    called = [("stage" if i else "step", each) for i, each in enumerate(loop.functions())]
    return StateGuard([*called, *given, *common])


@contextmanager
def _kept(loop: _Loop, common: Sequence[tuple[str, Any]] = ()) -> Iterator[list[str]]:
    """Restores the state that the step and the stages refer to and the random generators, and warns of what is not
    restored."""
    not_restored: list[str] = []
    with preserved_random_states():
        guard = _guard(loop, common)
        try:
            yield not_restored
        finally:
            not_restored += guard.restore()
            # Their graphs use states of optimizers that the step has created, and which were removed. Those of stages
            # were recorded on streams and in memory that only the doctor uses.
            stages = [stage.function for stage in loop.route.stages if isinstance(stage.function, Wrapper)]
            for wrapper in [*guard.wrappers, *stages]:
                wrapper.reset()
            for each in not_restored:
                warnings.warn(f"slipstream.doctor: {each}", RuntimeWarning, stacklevel=6)
