"""Makes the best changes for real, on copies of the user's objects, and measures them beside the unchanged loop."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from .. import _native, _trees
from ..pipeline import Pipeline
from .measurements import LevelMeasurements
from .port import Chain, Port, is_flat, port
from .rates import TrainingRate

_MOST = 5  # changes that are tried
_TELLING = 8  # steps in a turn that give a useful rate
_SHORTEST_S = 0.5  # shortest turn: worker processes start in it
_CHEAPER = 0.5  # share of a sample's bytes below which the transforms up to there stay in the worker processes


@dataclasses.dataclass
class Trial:
    """A loop with a change.

    make: creates the iterable of its batches. code: makes the change where the user's loader is.
    failure: why it could not be measured, "" if it could."""

    change: _native.Change
    make: Callable[[], Iterable[Any]]
    code: str
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


def try_out(measurements: LevelMeasurements, diagnosis: _native.Diagnosis, name: str, budget_s: float) -> None:
    """Measures the changes with the largest gain for about `budget_s`. Adds the measured rates to them, and removes
    changes that fail or do not gain.

    name: the variable that holds the user's loader."""
    step_s = 1 / diagnosis.rate.value if diagnosis.rate.value > 0 else 0.0
    turn_s = max(_SHORTEST_S, _TELLING * step_s)
    most = min(_MOST, int(budget_s / turn_s) - 1)
    trials = _Trials(measurements, name).possible(diagnosis.changes)[: max(0, most)]
    if not trials:
        return
    unchanged = measurements.whole_rate()
    _native.measure_alternately([unchanged, *trials], budget_s, turn_s)
    for trial in trials:
        _note(trial, unchanged.rate(), measurements.warnings)
    failed = {id(trial.change) for trial in trials if trial.failure}
    diagnosis.changes = [change for change in diagnosis.changes if id(change) not in failed]
    _native.rank_changes(diagnosis)


def _note(trial: Trial, unchanged: _native.Measured, warnings: list[str]) -> None:
    if trial.failure:
        warnings.append(f"tried without success: {trial.change.description} ({trial.failure})")
        return
    change = trial.change
    change.measured = trial.rate()
    change.measured_gain = _native.ratio(trial.rate(), unchanged)
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

    def __init__(self, measurements: LevelMeasurements, name: str) -> None:
        self._measurements, self._name = measurements, name
        self._loaders, self._parts = measurements.loaders, measurements.samples.parts

    def possible(self, changes: list[_native.Change]) -> list[Trial]:
        trials: list[Trial] = []
        has_native = False
        for change in changes:
            if change.id == "native_transforms" and has_native:
                continue  # the first one, with the largest gain, replaces all transforms
            has_native |= change.id == "native_transforms"
            make = getattr(self, f"_{change.id}", None)
            trial = make(change) if make is not None else None
            if trial is not None:
                workers = self._measurements.workers if trial.described == "" else 1
                trial.training = self._measurements.training(trial.make, max(1, workers))
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
            lambda: self._loaders.whole(self._parts, **measured),
            rebuilt(self._loaders.loader, self._name, changed),
        )

    def _pipelining(self, change: _native.Change) -> Trial:
        device = self._measurements.device
        return Trial(
            change,
            lambda: Pipeline(self._loaders.whole(self._parts), device=device),
            f"import slipstream as ss\n{self._name} = ss.Pipeline({self._name}, device={device!r})",
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
            return self._loaders.reading(self._parts.with_transform(Chain(parts)))

        holder = f"{self._name}.dataset{'.dataset' * self._parts.sites[0].depth}.transform.transforms"
        return Trial(change, reordered, f"{holder}.insert({first}, {holder}.pop({crop}))")

    def _native_transforms(self, change: _native.Change) -> Trial | None:
        """Tries the ported loader that moves the fewest bytes between processes."""
        problems = []
        for kept in dict.fromkeys((self._kept(), 0)):
            try:
                made = self._port(kept)
                return Trial(change, lambda: _Endless(made.loader), made.code, made.described)
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
        return made

    def _kept(self) -> int:
        """Returns the number of transforms that make samples much smaller, and therefore belong into the worker
        processes, which send their results to the loader."""
        sizes = [cost.bytes for cost in self._measurements.host_costs()[:-1] if not cost.is_inside]
        smallest = min(range(len(sizes)), key=lambda index: sizes[index])
        return smallest if sizes[smallest] < _CHEAPER * sizes[0] else 0


class _Endless:
    """Iterates over all epochs of a loader."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield from self.loader


def rebuilt(loader: Any, name: str, changed: dict[str, Any]) -> str:
    """Returns code that creates a DataLoader with the settings of the user's loader and these changes."""
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
    plain = {"num_workers": 0, "prefetch_factor": None, "pin_memory": False, "timeout": 0, "worker_init_fn": None}
    plain |= {"multiprocessing_context": None, "generator": None, "persistent_workers": False}
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
