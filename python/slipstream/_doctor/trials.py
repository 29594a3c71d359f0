"""Applies the best changes to copies of the user's objects, and measures them in alternation with the unchanged
loop."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from .. import _native, _trees
from .._transform_parts import Compose
from ..pipeline import Pipeline
from .measurements import LevelMeasurements
from .parts import Step
from .port import Port, is_flat, port
from .rates import TrainingRate
from .routes import PipelineRoute

_MOST = 5  # changes that are tried
_STEPS_PER_TURN = 8  # steps in a turn that give a useful rate
_SHORTEST_S = 0.5  # shortest turn: worker processes start in it
_ROUNDING = 0.02  # mean difference of images by rounding, as a share of the range of their values


@dataclasses.dataclass
class Trial:
    """A loop with a change.

    make: creates the iterable that the loop has. code: makes the change where the user's loader is.
    workers: number of workers, whose batches may arrive together. described: the loader, if it is another one.
    failure: why it could not be measured, "" if it could."""

    change: _native.Change
    make: Callable[[], Iterable[Any]]
    code: str
    workers: int = 1
    described: str = ""
    training: TrainingRate | None = None
    failure: str = ""

    def measure(self, time: _native.TurnTime) -> None:
        assert self.training is not None
        if self.failure:
            return
        try:
            self.training.measure(time)
        except Exception as error:  # a change that does not work for this loop is not advised
            self.failure = f"{type(error).__name__}: {error}"

    def rate(self) -> _native.Measured:
        return _native.Measured() if self.failure or self.training is None else self.training.rate()


@dataclasses.dataclass(frozen=True)
class Names:
    """The variables of the user, for the code of changes.

    loop: what the loop iterates over, a loader or a slipstream.Pipeline. loader: the loader; for that of a pipeline
    that no variable holds, a new one. comment: says what `loop` is if no variable holds it, otherwise "". step: the
    training step; "" if no variable holds it."""

    loop: str
    loader: str
    is_new: bool = False
    comment: str = ""
    step: str = ""


def try_out(
    measurements: LevelMeasurements,
    diagnosis: _native.Diagnosis,
    names: Names,
    budget_s: float,
    kept: Sequence[int] = (0,),
) -> None:
    """Measures the changes with the largest gain for about `budget_s`. Adds the measured rates to them, and removes
    changes that fail or do not gain.

    kept: numbers of the first transforms that worker processes apply before native ones, in the order of trying."""
    step_s = 1 / diagnosis.rate.value if diagnosis.rate.value > 0 else 0.0
    turn_s = max(_SHORTEST_S, _STEPS_PER_TURN * step_s)
    most = min(_MOST, int(budget_s / turn_s) - 1)
    if most <= 0:
        return
    trials = _Trials(measurements, names, kept).possible(diagnosis.changes, most)
    if not trials:
        return
    unchanged = measurements.whole_rate()
    try:
        _native.measure_alternately([unchanged, *trials], budget_s, turn_s)
    except Exception as error:  # of the unchanged loop, because a Trial keeps its exceptions
        measurements.warnings.append(f"no change was tried out: {type(error).__name__}: {error}")
        return
    for trial in trials:
        trial.code = names.comment + trial.code
        _note(trial, unchanged.rate(), measurements.warnings)
    failed = {id(trial.change) for trial in trials if trial.failure}
    diagnosis.changes = [change for change in diagnosis.changes if id(change) not in failed]
    _native.rank_changes(diagnosis)


def _note(trial: Trial, unchanged: _native.Measured, warnings: list[str]) -> None:
    if trial.failure:
        warnings.append(f"tried without success: {trial.change.description} ({trial.failure})")
        return
    change, measured = trial.change, trial.rate()
    if measured.n == 0 or unchanged.n == 0 or measured.high - measured.low > measured.value:
        warnings.append(f"not measured in time: {change.description}")
        return
    change.measured = measured
    change.measured_gain = _native.ratio(measured, unchanged)
    change.code = trial.code
    if trial.described:
        change.description += f", in a slipstream.DataLoader {trial.described}"
    if change.measured_gain.value < _native.LEAST_GAIN:
        gain = change.measured_gain
        warnings.append(
            f"tried without a gain: {change.description}: {gain.value:.2f} [{gain.low:.2f}, {gain.high:.2f}] times as "
            "fast"
        )


class _Trials:
    """Creates the trials of changes. A change for which there is none is left as predicted."""

    def __init__(self, measurements: LevelMeasurements, names: Names, kept: Sequence[int] = (0,)) -> None:
        self._measurements, self._names, self._name = measurements, names, names.loader
        self._kept = kept
        self._loaders, self._parts, self._route = measurements.loaders, measurements.samples.parts, measurements.route

    def possible(self, changes: list[_native.Change], most: int) -> list[Trial]:
        """Returns the trials of the first changes that can be tried out, at most `most`."""
        trials: list[Trial] = []
        has_native = False
        for change in changes:
            if len(trials) == most:
                break
            if change.id == "native_transforms" and has_native:
                continue  # the first one, with the largest gain, replaces all transforms
            has_native |= change.id == "native_transforms"
            make = getattr(self, f"_{change.id}", None)
            trial = make(change) if make is not None else None
            if trial is not None:
                trial.training = self._measurements.make_rate(trial.make, max(1, trial.workers))
                trials.append(trial)
        return trials

    def _num_workers(self, change: _native.Change) -> Trial:
        return self._with_settings(change, num_workers=change.number, persistent_workers=True)

    def _prefetch_batches(self, change: _native.Change) -> Trial | None:
        workers = self._measurements.workers
        if workers == 0:
            return None
        return self._with_settings(change, prefetch_factor=-(-change.number // workers))

    def _pinning(self, change: _native.Change) -> Trial:
        return self._with_settings(change, pin_memory=True)

    def _with_settings(self, change: _native.Change, **changed: Any) -> Trial:
        measured = {key: value for key, value in changed.items() if key != "persistent_workers"}
        return Trial(
            change,
            lambda: self._route.through(self._loaders.whole(self._parts, **measured)),
            self._in_loop(rebuilt(self._loaders.loader, self._name, changed)),
            changed.get("num_workers", self._measurements.workers),
        )

    def _in_loop(self, code: str) -> str:
        """Returns code that changes the loader and, if the loop is over a pipeline, creates the pipeline again."""
        if not isinstance(self._route, PipelineRoute):
            return code
        first = [f"{self._name} = {self._names.loop}.loader"] if self._names.is_new else []
        pipeline = self._route.code(self._names.loop, self._name)
        lines = [line for line in pipeline.splitlines() if line not in code.splitlines()]
        return "\n".join([*first, code, *lines])

    def _pipelining(self, change: _native.Change) -> Trial:
        route, device = self._route, self._measurements.device
        if isinstance(route, PipelineRoute):
            pipelined = route.pipelined()
            code = route.code(self._names.loop, f"{self._names.loop}.loader", "pipelined")
            workers = self._measurements.workers
            return Trial(change, lambda: pipelined.through(self._loaders.whole(self._parts)), code, workers)
        return Trial(
            change,
            lambda: Pipeline(self._loaders.whole(self._parts), device=device),
            f"import slipstream as ss\n{self._name} = ss.Pipeline({self._name}, device={device!r})",
            self._measurements.workers,
        )

    def _crop_first(self, change: _native.Change) -> Trial | None:
        late = self._measurements.crop
        sites = [(site.attribute, site.key) for site in self._parts.sites]
        if late is None or sites != [("transform", None)] or not is_flat(self._parts):
            return None
        names = [step.name for step in self._parts.steps[1:]]
        crop, first = (names.index(each) for each in late)

        def reordered() -> Any:
            parts = self._parts.own_parts()[0]
            parts.insert(first, parts.pop(crop))
            return self._route.through(self._loaders.reading(self._parts.with_transform(Compose(parts))))

        loader = f"{self._names.loop}.loader" if self._names.is_new else self._name
        holder = f"{loader}.dataset{'.dataset' * self._parts.sites[0].depth}.transform.transforms"
        code = f"{holder}.insert({first}, {holder}.pop({crop}))"
        return Trial(change, reordered, code, self._measurements.workers)

    def _native_transforms(self, change: _native.Change) -> Trial | None:
        """Tries the most promising native loader that works."""
        problems = []
        for kept in self._kept:
            try:
                made = self._port(kept)
                loop = self._route.through(made.loader)
                return Trial(change, lambda: _Endless(loop), self._in_loop(made.code), described=made.described)
            except Exception as error:  # a port that does not work for this loop is not advised
                problems.append(f"{error}")
        self._measurements.warnings.append(f"not tried: {change.description}: {problems[0]}")
        return None

    def _port(self, kept: int) -> Port:
        loaders = self._loaders
        made = port(loaders, self._parts, self._name, self._measurements.device, max(1, loaders.workers), kept)
        first, wanted = next(iter(made.loader)), self._measurements.first_batch()
        if not _has_layout_of(first, wanted):
            raise _native.Refused("its batches would have another structure, shape or dtype")
        if made.is_sequential and not _has_values_of(first, wanted, self._parts.steps):
            raise _native.Refused("its batches would have other values")
        return made


class _Endless:
    """Iterates over all epochs of a loader or pipeline."""

    def __init__(self, loop: Iterable[Any]) -> None:
        self.loop = loop

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield from self.loop


def rebuilt(loader: Any, name: str, changed: dict[str, Any]) -> str:
    """Returns Python code that creates a DataLoader like `loader`, with the arguments in `changed` replaced.

    name: the user's variable for the loader, used in the code."""
    arguments: dict[str, str] = {}
    is_stream = isinstance(loader.dataset, torch.utils.data.IterableDataset)
    if loader.batch_size is not None:  # with a batch_sampler, it is None
        arguments["batch_size"] = f"{name}.batch_size"
        if loader.drop_last:
            arguments["drop_last"] = "True"
    elif loader.batch_sampler is None:
        arguments["batch_size"] = "None"
    else:
        arguments["batch_sampler"] = f"{name}.batch_sampler"
    if "batch_sampler" not in arguments and not is_stream:
        arguments["sampler"] = f"{name}.sampler"
    if loader.collate_fn not in (torch.utils.data.default_collate, torch.utils.data.default_convert):
        arguments["collate_fn"] = f"{name}.collate_fn"
    plain: dict[str, Any] = {"num_workers": 0, "prefetch_factor": None, "pin_memory": False, "pin_memory_device": ""}
    plain |= {"timeout": 0, "worker_init_fn": None, "multiprocessing_context": None, "generator": None}
    plain |= {"persistent_workers": False, "in_order": True}
    for key, default in plain.items():
        if key in changed:
            arguments[key] = repr(changed[key])
        elif getattr(loader, key) != default:
            arguments[key] = f"{name}.{key}"
    given = ", ".join(f"{key}={value}" for key, value in arguments.items())
    return f"import torch\n{name} = torch.utils.data.DataLoader({name}.dataset, {given})"


def _has_layout_of(batch: Any, wanted: Any) -> bool:
    def layout(value: Any) -> list[Any]:
        return [
            (tuple(leaf.shape[1:]), leaf.dtype) if isinstance(leaf, torch.Tensor) else type(leaf)
            for leaf in _trees.leaves(value)
        ]

    return layout(batch) == layout(wanted)


def _has_values_of(batch: Any, wanted: Any, steps: Sequence[Step]) -> bool:
    """Returns true if two batches of the same samples have the same values, except for differences by rounding in
    images. If the steps of the data set are random, only values that they do not change are compared."""
    if steps[0].is_random:
        return True
    is_random = any(step.is_random for step in steps)
    pairs = zip(_trees.leaves(batch), _trees.leaves(wanted), strict=True)
    return all((is_random and _is_image(theirs)) or _is_close(ours, theirs) for ours, theirs in pairs)


def _is_image(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.dim() == 4


def _is_close(ours: Any, theirs: Any) -> bool:
    if not isinstance(theirs, torch.Tensor):
        return bool(ours == theirs)
    count = min(len(ours), len(theirs))  # the sizes of batches may differ
    ours, theirs = ours[:count].to("cpu", torch.float64), theirs[:count].to("cpu", torch.float64)
    if not _is_image(theirs):
        return torch.allclose(ours, theirs, equal_nan=True)
    most = _ROUNDING * (theirs.max() - theirs.min()) + 1e-5 * theirs.abs().max()
    return bool((ours - theirs).abs().mean() <= most)
