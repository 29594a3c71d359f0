"""Measures the cache levels of a slipstream.DataLoader, which can cache the results of each of its steps itself."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from .. import _native, _trees
from .._checks import to_index
from .._random_states import find_generators, preserved_random_states
from .._steps import over_batch
from ..data import DataLoader
from ..transforms import Compose
from .advice import late_native_crop
from .copies import Copier
from .levels import CacheLevel
from .measurements import LevelMeasurements, again
from .parts import COLLATE
from .rates import TrainingRate
from .routes import PlainRoute, Route

_MOST_LISTED = 1 << 20


class NativeLoaders:
    """Creates native loaders with the settings of a slipstream.DataLoader. Has the attributes of loaders.Loaders that
    LevelMeasurements reads."""

    is_stream = is_single = False
    pin_memory = reads_natively = True

    def __init__(self, loader: DataLoader) -> None:
        self.loader = loader
        self.batch_size, self.samples = loader.batch_size, len(loader._native_dataset())
        self._listed: _native.Dataset | None = None  # the samples that the sampler lists, if there is one
        if (order := loader._listed_order()) is not None:
            indices, self.batch_size = listed_samples(order.batch_sampler, loader.dataset)
            native = loader._native_dataset()._native
            assert isinstance(native, _native.Dataset)
            self._listed, self.samples = _native.subset(native, indices), len(indices)
        self.workers = max(1, loader.num_workers)
        self.prefetch = loader.prefetch_factor

    def close(self) -> None:
        """Ends what the loaders hold outside of this process: nothing."""

    def made(self, after: str = "", items: int = 0, workers: int | None = None) -> _native.Loader:
        """Returns a native loader with full batches. If `after` names a step, it starts with `items` cached results of
        this step."""
        native, batch_size = self.loader._measured_native(), self.batch_size or 1
        return _native.examined(native, after, items, workers or self.workers, self._listed, batch_size)

    def batches(self, after: str = "", items: int = 0, route: Route | None = None) -> Iterator[Any]:
        """Returns the batches of all epochs. The loader is created at once, not with the first batch.

        route: see LevelMeasurements; None: a plain loop."""
        return self.endless(self.made(after, items), route)

    def endless(self, native: _native.Loader, route: Route | None) -> Iterator[Any]:
        """Yields the batches of all epochs of a native loader."""
        route = route or PlainRoute(self.loader.device)
        for first in itertools.count(0, native.batches_per_epoch()):
            native.seek(first)
            yield from route.native(native)


def listed_samples(batch_sampler: Any, dataset: Any) -> tuple[list[int], int]:
    """Returns the indices that a copy of the batch sampler lists in an epoch, at most _MOST_LISTED, and the size of its
    batches. Raises Refused if there are none, or if another one than the last has another size."""
    copied = Copier([dataset]).copied("sampler", batch_sampler)
    indices: list[int] = []
    sizes: list[int] = []
    with preserved_random_states(find_generators(batch_sampler)):
        for batch in copied:
            samples = [to_index(each, -1) for each in batch]
            indices += samples
            sizes.append(len(samples))
            if len(indices) >= _MOST_LISTED:
                break
    if not indices or min(indices) < 0:
        raise _native.Refused("the sampler lists no indices of samples, counted from 0: there is nothing to measure")
    if any(size != sizes[0] for size in sizes[1:-1]) or sizes[-1] > sizes[0]:
        raise _native.Refused(
            f"the batch sampler lists batches of {min(sizes)} to {max(sizes)} samples, but the doctor measures batches "
            "of one size: for the examination, give a sampler whose batches have the same size"
        )
    return indices, sizes[0]


class NativeLevelMeasurements(LevelMeasurements):
    """Measures a native loader and a step within a budget. An object can be used once."""

    loaders: NativeLoaders
    _one: _native.LoaderDrain
    _all: _native.LoaderDrain

    def _prepare(self) -> None:
        self.loaders.made()  # raises an error now if this loader cannot be examined

    def _timed(self, workers: int) -> _native.LoaderDrain:
        return _native.LoaderDrain(self.loaders.made(workers=workers))

    def sample_costs(self) -> _native.SampleCosts:
        return self._one.sample_costs()

    def _fill_caches(self, sizes: _native.CacheSizes) -> None:
        self._batches = list(itertools.islice(self.loaders.batches(), sizes.batches()))
        self._bytes_of_batch = _trees.byte_size(self._batches[0])

    def _declare(self, sizes: _native.CacheSizes) -> Iterator[CacheLevel]:
        batches, steps = self._batches, [cost.name for cost in self.host_costs()]
        yield CacheLevel(
            _native.DEVICE_LEVEL,
            "copy" if self._on_gpu else COLLATE,
            len(batches),
            self.training(functools.partial(again, batches)),
            is_essential=True,
        )
        batches_of = functools.partial(self.loaders.batches, route=self.route)
        host_level = _native.PINNED_LEVEL if self._on_gpu else _native.COLLATED_LEVEL
        training = self.make_rate(functools.partial(batches_of, COLLATE, len(batches)))
        yield CacheLevel(host_level, COLLATE, len(batches), training, is_essential=True)
        if self._on_gpu:
            copied = functools.partial(self.loaders.batches, COLLATE, len(batches))
            self._copy = TrainingRate(copied, lambda batch: None, self.device)
        travels_as_files = bool(_native.fields_as_files(self.loaders.loader._measured_native()))
        for name, step, number in _native.sample_levels(steps, True, travels_as_files):
            kept = sizes.samples_after(number)
            training = self.make_rate(functools.partial(batches_of, step, kept), self.workers)
            alone = _native.LoaderDrain(self.loaders.made(step, kept))
            yield CacheLevel(name, step, kept, training, alone)
        training = self.make_rate(batches_of, self.workers, self._usage)
        yield CacheLevel(_native.WHOLE_LEVEL, "", 0, training, is_essential=True)

    def number_of_samples(self) -> int | None:
        return self.loaders.samples

    def _whole_batches(self, route: Route) -> Iterator[Any]:
        return self.loaders.batches(route=route)

    def host_costs(self) -> list[_native.HostStepCost]:
        return self._one.costs(self._all)

    def _note_situation(self, observed: _native.Observations) -> None:
        observed.set_samples(self.loaders.samples)
        observed.set_plan(self._on_gpu, True, observed.slabs - 1, self.route.copies_ahead)
        _native.note_loading(observed, self.loaders.loader._measured_native())
        if self._on_gpu:
            observed.set_on_device_from(_native.possible_on_device(self.loaders.loader._measured_native()))

    def _note_crop(self, observed: _native.Observations) -> None:
        if crop := late_native_crop(self.loaders.loader._native_dataset().transform, observed.host):
            observed.set_late_crop(*crop)

    def add_findings(self, observed: _native.Observations) -> None:
        loader = self.loaders.loader
        handing_over = "copying" if self._on_gpu else "returning batches"
        if name := over_batch(Compose._wrap(loader._native_dataset().transform)._steps):
            self.warnings.append(f"{handing_over} is measured together with {name}, which follows it")
        if self._on_gpu:
            if _native.fields_as_files(loader._measured_native()):
                self.warnings.append("not measured: copying and decoding of files that the device decodes")
            else:
                self.warnings.append("not measured: other wire formats (wire=), such as {'image': 'jpeg'}")
            if loader.transforms_device == "cuda":
                self.warnings.append(
                    "copying is measured together with the transforms that the device applies after it"
                )
        super().add_findings(observed)
