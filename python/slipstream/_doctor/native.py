"""The ladder of a native loader: it caches samples behind each of its steps itself."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from .. import _native, _trees
from .._steps import over_batch
from ..data import DataLoader
from .._iteration import Pass
from ..transforms import Compose
from .advice import late_native_crop
from .measurements import LevelMeasurements, again
from .parts import COLLATE
from .rates import TrainingRate

_FILL_SHARE = 0.004  # of the budget, in each turn, to make the samples that are cached
_RUN_AHEAD = 2  # as in a pass of the loader


class NativeLoaders:
    """Loaders with the settings of a slipstream.DataLoader, and what a Ladder asks of it."""

    is_stream = is_single = False
    pin_memory = True

    def __init__(self, loader: DataLoader) -> None:
        loader._take_ranks()
        self.loader = loader
        self.batch_size = loader.batch_size
        self.prefetch = loader.prefetch_factor

    def made(self, after: str = "", items: int = 0, workers: int | None = None) -> _native.Loader:
        """With what is ahead of the cut cached; in full batches."""
        return _native.examined(self.loader._native, after, items, workers or self.loader.num_workers)

    def batches(self, after: str = "", items: int = 0) -> Iterator[Any]:
        """Of all epochs, by a loader that is made with the call."""
        return self._endless(self.made(after, items))

    def _endless(self, native: _native.Loader) -> Iterator[Any]:
        for first in itertools.count(0, native.batches_per_epoch()):
            native.seek(first)
            with Pass(native, None, (), self.loader.device, _RUN_AHEAD, 0) as batches:
                yield from batches


class NativeLevelMeasurements(LevelMeasurements):
    """Measures a native loader and a step within a budget. Use it once."""

    loaders: NativeLoaders
    _one: _native.LoaderDrain
    _all: _native.LoaderDrain

    def _prepare(self) -> None:
        self.loaders.made()  # says what cannot be examined

    def measured(self) -> _native.Observations:
        """Measures all; raises what the step or the data set raises."""
        self._one = self._timed(1, 0)
        self._measure(self._one, 0.08)
        self._all = self._timed(self._workers, 0) if self._workers > 1 else self._one
        if self._workers > 1:
            self._measure(self._all, 0.03)
        self._fill_caches()
        self._try_step()
        self._declare(0)
        self._measure_in_turns(0)
        return self._observations()

    def _timed(self, workers: int, size: int) -> _native.LoaderDrain:
        return _native.LoaderDrain(self.loaders.made(workers=workers))

    def _fill_caches(self) -> None:
        costs = self._host_costs()
        self._steps = [cost.name for cost in costs]
        seconds = [sum(parts) for parts in zip(*(cost.wall_s for cost in costs), strict=False)]
        most_s = _FILL_SHARE * self.budget_s * self._workers
        self._kept = self._samples_to_keep(seconds, [cost.bytes for cost in costs], most_s)
        with_batches = self.loaders.batches()
        self._batches = list(itertools.islice(with_batches, self._batches_to_keep()))
        self._bytes_of_batch = _trees.byte_size(self._batches[0])

    def _declare(self, size: int) -> None:
        batches = self._batches
        ceiling = self._add_level("device batch", "copy" if self._on_gpu else COLLATE, essential=True)
        ceiling.items = len(batches)
        ceiling.training = self._training(functools.partial(again, batches))
        name = "host batch, pinned" if self._on_gpu else "collated batch"
        host = self._add_level(name, COLLATE, essential=True)
        host.items = len(batches)
        whole_batches = functools.partial(self.loaders.batches, COLLATE, len(batches))
        host.training = self._training(whole_batches)
        if self._on_gpu:
            self._copy = _training_rate(whole_batches, self.device)
        last = len(self._steps) - 2  # ahead of collating
        travels_as_files = bool(_native.fields_as_files(self.loaders.loader._native))
        for number in reversed(range(last + 1)):
            if travels_as_files and number > 0:
                continue
            step = self._steps[number]
            cache_level = self._add_level(_name_after(number, step, last), step)
            cache_level.items = self._kept
            cache_level.training = self._training(
                functools.partial(self.loaders.batches, step, self._kept), self._workers
            )
            cache_level.alone = _native.LoaderDrain(self.loaders.made(step, self._kept))
        whole = self._add_level("nothing cached", "", essential=True)
        whole.training = self._training(self.loaders.batches, self._workers)
        whole.alone = self._all

    def _host_costs(self) -> list[_native.HostStepCost]:
        return self._one.costs(self._all)

    def _note_size(self, observed: _native.Observations) -> None:
        observed.set_samples(len(self.loaders.loader.dataset))

    def _note_situation(self, observed: _native.Observations) -> None:
        native = self.loaders.loader._native
        observed.set_plan(self._on_gpu, True, observed.slabs - 1, True)
        if crop := late_native_crop(self.loaders.loader.dataset.transform, observed.host):
            observed.set_late_crop(*crop)
        handing_over = "copying" if self._on_gpu else "handing batches over"
        if name := over_batch(Compose._wrap(self.loaders.loader.dataset.transform)._steps):
            self.warnings.append(f"{handing_over} is measured with {name}, which is done behind it")
        if not self._on_gpu:
            return
        observed.set_on_device_from(_native.possible_on_device(native))
        if _native.fields_as_files(native):
            self.warnings.append("not measured: what the device decodes, and decoding it")
        else:
            self.warnings.append("not measured: forms of travel (wire=), such as {'image': 'jpeg'}")
        if self.loaders.loader.transforms_device == "cuda":
            self.warnings.append("copying is measured with the transforms that the device does behind it")


def _training_rate(make: Callable[[], Iterator[Any]], device: str) -> TrainingRate:
    return TrainingRate(make, lambda batch: None, device)


def _name_after(number: int, step: str, last: int) -> str:
    """That of the level, as the command line's doctor calls it."""
    if number == last:
        return "processed sample"
    return ("file bytes", "decoded sample")[number] if number < 2 else f"after {step}"
