"""What the doctor measures of a loader and a step, as `_native.Observations`."""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader

from .. import _native, _trees
from .advice import late_crop
from .levels import CacheLevel, by_step, counting_waits, device_cost, fresh, mean, page_locked
from .parts import COLLATE, noted
from .rates import LoaderAlone, LoaderRate, TrainingRate
from .samples import Samples

_ONE_SHARE, _ALL_SHARE = 0.08, 0.03  # of the budget, before caches are sized
_FILL_SHARE = 0.02  # of the budget, to make the samples that are cached
_MOST_CACHED_BYTES = 512 << 20  # which worker processes share
_LAST_SHARE = 0.05  # of the budget, for what comes behind the turns
_MOST_SIZES = 16  # batches that are cached where sizes differ
_MANY_WORKERS = 4  # that may get in each other's way
_WHOLE_WEIGHT, _ALONE_WEIGHT = 4.0, 2.0


class LevelMeasurements:
    """Measures a loader and a step within a budget. Use it once.

    loaders: loaders.Loaders, or what takes its place.
    """

    _one: Any  # by one worker, and by all
    _all: Any

    def __init__(
        self, loaders: Any, step: Callable[[Any], Any], device: str, budget_s: float
    ) -> None:
        self._start = time.perf_counter()
        self.loaders, self.device, self.budget_s = loaders, device, budget_s
        self._user_step = step
        self._on_gpu = torch.device(device).type == "cuda"
        self._workers = loaders.loader.num_workers
        self.warnings: list[str] = []
        self._prepare()
        self._usage = _native.DeviceUsage(device) if self._on_gpu else None
        self._levels: list[CacheLevel] = []
        self._copy: TrainingRate | None = None
        self._half: LoaderAlone | None = None
        self._step_waits = False
        self._failures: dict[str, Exception] = {}  # by what was measured

    def _prepare(self) -> None:
        self.samples = Samples(self.loaders)
        self.warnings += self.samples.warnings + self.loaders.warnings()
        sizes, loader = self.loaders.sizes, self.loaders.loader
        if len(sizes) > 1:
            self.warnings.append(
                f"batches have {min(sizes)} to {max(sizes)} samples: figures are for {self.loaders.batch_size}, "
                "the mean of the first ones, and less sure"
            )
        if type(loader).__iter__ is not DataLoader.__iter__:
            self.warnings.append(f"not measured: what {type(loader).__name__}.__iter__() does with batches")

    def seconds(self) -> float:
        """Since it began."""
        return time.perf_counter() - self._start

    def measured(self) -> _native.Observations:
        """Measures all; raises what the step or the data set raises."""
        size = self._size_alone()
        self._one = self._timed(min(1, self._workers), size)
        self._measure(self._one, _ONE_SHARE)
        self._all = self._timed(self._workers, size) if self._workers > 1 else self._one
        if self._workers > 1:
            self._measure(self._all, _ALL_SHARE)
        self._fill_caches()
        self._try_step()
        self._declare(size)
        self._measure_in_turns(size)
        return self._observations()

    def _measure(self, rate: LoaderAlone, share: float) -> None:
        wanted_s = share * self.budget_s
        rate.measure(_native.TurnTime(wanted_s, 2 * wanted_s))

    def _timed(self, workers: int, size: int) -> Any:
        make = functools.partial(self.loaders.timed, self.samples.parts, workers, size)
        return LoaderRate(make, workers, size, is_timed=True)

    def _size_alone(self) -> int:
        """Of batches that are short enough to count often, by the time that samples take here."""
        self.samples.fill(2)
        return _native.counted_batch_size(self.loaders.batch_size, self.samples.seconds)

    def _batch_s(self) -> float:
        rate = self._all.rate().value
        return self.loaders.batch_size / rate if rate > 0 else 0

    def _fill_caches(self) -> None:
        """With samples that tell their mean cost, and a few batches of them."""
        costs = self._one.costs
        made = [mean([size for size in sizes if size > 0]) for _, _, sizes in by_step(costs)]
        totals = [sum(part[0] for part in sample) for sample in costs]
        self._kept = self._samples_to_keep(totals, made, _FILL_SHARE * self.budget_s)
        count = self._batches_to_keep()
        self._kept = self.samples.fill(self._kept)
        sizes = [0] if self.loaders.is_single else self._sizes()
        self._batches = self.samples.batches(sizes if len(sizes) > 1 else sizes * count)
        self._bytes_of_batch = sum(map(_trees.byte_size, self._batches)) // len(self._batches)

    def _sizes(self) -> list[int]:
        """Of cached batches, in turn: whose samples are cached, where there are several."""
        ends = itertools.accumulate(self.loaders.sizes[:_MOST_SIZES])
        whole = [size for size, end in zip(self.loaders.sizes, ends, strict=False) if end <= self._kept]
        return whole if len(whole) > 1 else [self.loaders.batch_size]

    def _samples_to_keep(self, seconds: list[float], made: list[float], most_s: float) -> int:
        """As many as tell their mean cost to within 5 %, and more than the CPU's caches hold, as far
        as time and memory allow. `seconds`: of single samples. `made`: bytes, by step."""
        totals = torch.tensor(seconds, dtype=torch.float64)
        by_variance = (
            float((1.96 * totals.std() / totals.mean() / 0.05) ** 2) if len(seconds) > 1 else 0
        )
        by_cache = 1.5 * _native.last_level_cache_bytes() / max(1.0, *made)
        by_time = most_s / max(float(totals.mean()), 1e-9)
        by_memory = min(_MOST_CACHED_BYTES, _native.free_memory_bytes() / 8) / max(1.0, sum(made))
        wanted = max(by_variance, by_cache)
        return int(max(8, min(wanted, by_time, by_memory, 65536)))

    def _batches_to_keep(self) -> int:
        batch_s = self._batch_s()
        return 1 if batch_s > 0.1 * self.budget_s else 2 if batch_s > 0.02 * self.budget_s else 4

    def _try_step(self) -> None:
        """One step, whose errors the caller sees, and what it does to its batch."""
        on_device = self._moved(fresh(self._batches[0]))
        kept = _trees.mapped(on_device, lambda x: x.clone() if isinstance(x, torch.Tensor) else x)
        with noted("in the step given to slipstream.doctor, on a batch of the loader", on_device):
            self._user_step(fresh(on_device))
            is_written = not _trees.same(kept, on_device)
            with counting_waits(self._on_gpu) as waits:  # not in the first step, which prepares much
                self._user_step(fresh(on_device))
        self._step_waits = bool(waits)
        if is_written:
            self.warnings.append(
                "the step writes into its batch: cached batches change from step to step"
            )
        if self._step_waits:
            self.warnings.append(
                "the step waits for the device (loss.item(), .cpu(), a printed tensor): the host "
                "then cannot run ahead"
            )

    def _train_step(self, batch: Any) -> None:
        self._user_step(self._moved(batch) if self._on_gpu else batch)

    def _moved(self, batch: Any) -> Any:
        return _native.moved(batch, self.device)

    def _declare(self, size: int) -> None:
        """The rungs, from the device batch to nothing cached."""
        steps = self.samples.parts.steps
        batches = self._batches
        ceiling = self._add_level("device batch", "copy" if self._on_gpu else COLLATE, essential=True)
        ceiling.items = len(batches)
        on_device = [self._moved(fresh(batch)) for batch in batches]
        ceiling.training = self._training(lambda: again(on_device))
        if self._on_gpu:
            self._declare_host_batches(batches)
        user_dataset = self.samples.parts.plain()
        if self._workers > 0:
            cache_level = self._add_level("collated batch", COLLATE)
            cache_level.items = len(batches)
            cache_level.training = self._training(
                lambda: self.loaders.collated(batches, user_dataset), self._workers
            )
        for number in reversed(range(len(steps))):
            is_last = number == len(steps) - 1
            name = (
                "processed sample"
                if is_last
                else f"after {steps[number].name}"
                if number
                else "raw sample"
            )
            cache_level = self._add_level(name, steps[number].name)
            cache_level.items = self._kept
            if self.samples.why_not and not is_last:
                cache_level.error = cache_level.alone_error = self.samples.why_not
                continue
            make = functools.partial(self._cached, number, user_dataset)
            cache_level.training = self._training(functools.partial(make, self._sizes()), self._workers)
            cache_level.alone = LoaderRate(functools.partial(make, [size]), self._workers, size)
        whole = self._add_level("nothing cached", "", essential=True)
        whole.training = self._training(
            lambda: self.loaders.whole(self.samples.parts), self._workers
        )
        whole.alone = self._all

    def _declare_host_batches(self, batches: list[Any]) -> None:
        pinned = [page_locked(batch) for batch in batches]
        for name, cached, is_used in (
            ("host batch, pinned", pinned, self.loaders.pin_memory),
            ("host batch, pageable", batches, not self.loaders.pin_memory),
        ):
            cache_level = self._add_level(name, COLLATE, essential=is_used)
            cache_level.items = len(cached)
            cache_level.training = self._training(functools.partial(again, cached))
        used = pinned if self.loaders.pin_memory else batches
        self._copy = TrainingRate(functools.partial(again, used), self._moved, self.device)

    def _add_level(self, name: str, after: str, essential: bool = False) -> CacheLevel:
        self._levels.append(CacheLevel(name, after, essential))
        return self._levels[-1]

    def _training(self, make: Callable[[], Any], workers: int = 1) -> TrainingRate:
        return TrainingRate(make, self._train_step, self.device, workers)

    def _cached(self, number: int, user_dataset: Any, sizes: list[int]) -> Any:
        return self.loaders.cached(self.samples.behind(number), user_dataset, sizes)

    def _measure_in_turns(self, size: int) -> None:
        tasks: list[tuple[_native.Task, Callable[[str], None]]] = []

        def add(
            rate: Any, what: str, keep: Callable[[str], None], essential: bool, weight: float
        ) -> None:
            measure = rate.measure
            if what == "nothing cached, with training" and self._usage is not None:
                measure = functools.partial(self._while_watched, rate)
            measure = functools.partial(self._with_report, what, measure)
            tasks.append((_native.Task(what, measure, rate.rate, essential, weight), keep))

        def missing(what: str, error: str) -> None:
            if error:
                self.warnings.append(f"not measured: {what}: {error}")

        by_need = sorted(self._levels, key=lambda cache_level: not cache_level.is_essential)
        for cache_level in by_need:
            if cache_level.training is not None:
                weight = _WHOLE_WEIGHT if cache_level is self._levels[-1] else 1.0
                what = f"{cache_level.name}, with training"
                add(cache_level.training, what, cache_level.keep_error, cache_level.is_essential, weight)
        for cache_level in by_need:
            if cache_level.alone is not None:
                weight = _ALONE_WEIGHT if cache_level.alone is self._all else 1.0
                add(cache_level.alone, f"{cache_level.name}, loader alone", cache_level.keep_alone_error, False, weight)
        if self._workers >= _MANY_WORKERS:
            self._half = self._timed(self._workers // 2, size)
            add(self._half, "half", functools.partial(missing, "half of the workers"), False, 1.0)
        if self._copy is not None:
            add(self._copy, "copy", functools.partial(missing, "the copy alone"), False, 1.0)
        errors = _native.measure_in_turns([task for task, _ in tasks], self.budget_s, self._left)
        for (_, keep), error in zip(tasks, errors, strict=True):
            keep(error)

    def _with_report(
        self, what: str, measure: Callable[[_native.TurnTime], None], given: _native.TurnTime
    ) -> None:
        try:
            measure(given)
        except Exception as error:
            self._failures[what] = error
            raise

    def _while_watched(self, rate: TrainingRate, given: _native.TurnTime) -> None:
        assert self._usage is not None
        self._usage.during(lambda: rate.measure(given))

    def _left(self) -> float:
        return (1 - _LAST_SHARE) * self.budget_s - self.seconds()

    def _observations(self) -> _native.Observations:
        ceiling, whole = self._levels[0], self._levels[-1]
        if ceiling.error and whole.error:
            raise _native.Error(
                f"neither the ceiling nor the whole loop could be measured: {ceiling.error}"
            ) from self._failures.get(f"{ceiling.name}, with training")
        observed = _native.Observations()
        observed.batch_size = self.loaders.batch_size
        observed.workers = self._workers
        observed.slabs_per_worker = self.loaders.prefetch or 2
        observed.slabs = self._workers * observed.slabs_per_worker + 1
        cores = _native.usable_cores()
        observed.capacity = _native.measure_capacity(cores)
        observed.levels = [cache_level.level(self.loaders.batch_size) for cache_level in self._levels]
        observed.host = self._host_costs()
        observed.rate_of_all_workers = self._all.rate()
        if self._workers > 0:  # whose own time beside the parts is to hand batches over
            observed.rate_of_one_worker = self._one.rate()
        if self._half is not None:
            observed.rate_of_half_of_workers = self._half.rate()
        self._note_device(observed)
        observed.set_cores(cores)
        observed.set_free_memory_bytes(_native.free_memory_bytes())
        self._note_size(observed)
        self._note_situation(observed)
        observed.utilization = self._utilization(observed, cores)
        observed.warnings = self.warnings
        return observed

    def _note_size(self, observed: _native.Observations) -> None:
        if self.samples.size is not None:
            observed.set_samples(self.samples.size)

    def _note_situation(self, observed: _native.Observations) -> None:
        observed.set_plan(self._on_gpu, self.loaders.pin_memory, observed.slabs - 1, False)
        observed.set_last_fixed_step(self.samples.last_fixed_step())
        if crop := late_crop(self.samples.parts, observed.host):
            observed.set_late_crop(*crop)

    def _host_costs(self) -> list[_native.HostStepCost]:
        """Of the data set's own code, each transform, and collating."""
        one, together = by_step(self._one.costs), by_step(self._all.costs)
        steps = [(step.name, step.is_random) for step in self.samples.parts.steps] + [
            (COLLATE, False)
        ]
        costs = []
        for number, (name, is_random) in enumerate(steps):
            cost = _native.HostStepCost()
            cost.name, cost.is_random = name, is_random
            cost.group = "raw_reading" if number == 0 else "transforms"
            cost.wall_s, cost.cpu_s, made = one[number]
            counted = [each for each in made if each > 0]
            cost.bytes = sum(counted) / len(counted) if counted else 0
            cost.wall_of_all_s, cost.cpu_of_all_s = (
                mean(together[number][0]),
                mean(together[number][1]),
            )
            costs.append(cost)
        costs[-1].bytes = self._bytes_of_batch / self.loaders.batch_size
        return costs

    def _note_device(self, observed: _native.Observations) -> None:
        step, device = self._levels[0].training, []
        assert step is not None
        if self._copy is not None and self._copy.rate().n > 0:
            device.append(device_cost("copy", self._copy, self._bytes_of_batch))
        if step.rate().n > 0:
            enqueue_s = 0.0 if self._step_waits else step.enqueue_s
            device.append(device_cost("step", step, 0, enqueue_s))
            note = step.finding(len(self._batches))
            self.warnings += [note] if note else []
        observed.device = device
        observed.line_cpu_s = step.cpu_s

    def _utilization(self, observed: _native.Observations, cores: int) -> _native.Utilization:
        use = _native.Utilization() if self._usage is None else self._usage.utilization()
        if self._usage is not None and self._usage.shared():
            self.warnings.append(self._usage.shared())
        whole = self._levels[-1].training
        assert whole is not None
        of_workers = sum(cost.cpu_of_all_s for cost in observed.host) * self.loaders.batch_size
        use.cpu_share = min(1.0, whole.rate().value * (of_workers + observed.line_cpu_s) / cores)
        return use


def again(batches: list[Any]) -> Iterator[Any]:
    """The cached batches in turn, without an end."""
    return map(fresh, itertools.cycle(batches))
