"""Measures a loader and a step for the doctor, and collects the results in `_native.Observations`."""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader

from .. import _native, _trees
from .._graph_trees import isolate
from .._stage_graphs import StageGraphs
from ..capture import CapturedStep
from .advice import late_crop
from .clock import COLLATING, Costs, in_order
from .graphs import LAUNCHING, STEP, LoopTimes, Work
from .launches import Gpu, measure_launches
from .levels import CacheLevel, by_step, device_cost, find_groups, finding_waits, fresh, mean, page_locked
from .parts import COLLATE, Step, noted, unique_name
from .ranks import refusing_exchange
from .rates import LoaderAlone, LoaderRate, TrainingRate
from .routes import PlainRoute, Route
from .samples import Samples

_MOST_SIZES = 16  # number of cached batches if their sizes differ
_LAUNCHES_SHARE = 0.02  # share of the budget for measuring the launches of each stage and of the step


class LevelMeasurements:
    """Runs a loader and a step. The native examine_loop() calls the methods of this class and decides what is measured
    and for how long. An object can be used once, on one thread.

    loaders: loaders.Loaders, or an object with the same attributes.
    route: how batches get from the loader to the step.
    budget_share: `budget_s` divided by the budget that the user gave.
    """

    budget_share = 1.0

    _one: Any  # rate of the loader with one worker
    _all: Any  # rate of the loader with all workers

    def __init__(
        self, loaders: Any, step: Callable[[Any], Any], device: str, budget_s: float, route: Route
    ) -> None:
        self._start = time.perf_counter()
        self.loaders, self.device, self.budget_s, self.route = loaders, device, budget_s, route
        self.workers: int = loaders.workers
        self.batch_size: int = loaders.batch_size
        self.user_step = step
        self._on_gpu = torch.device(device).type == "cuda"
        self.warnings: list[str] = []
        self._prepare()
        self._usage = _native.DeviceUsage(device) if self._on_gpu else None
        self._levels: list[CacheLevel] = []
        self._copy: TrainingRate | None = None
        self._stages: list[tuple[str, TrainingRate]] = []  # each stage alone, and then the step alone
        self.times: LoopTimes | None = None  # only on a GPU
        self.device_costs: list[_native.DeviceCost] = []
        self._step_waits = False
        self.crop: tuple[str, str] | None = None  # a crop that can be applied earlier, and before which transform

    def _prepare(self) -> None:
        self.samples = Samples(self.loaders, self.budget_s)
        self.warnings += self.samples.warnings + self.loaders.warnings()
        sizes, loader = self.loaders.sizes, self.loaders.loader
        if len(sizes) > 1:
            self.warnings.append(
                f"batches have {min(sizes)} to {max(sizes)} samples: results are for {self.batch_size} samples, the "
                "mean of the first batches, and are less certain"
            )
        if type(loader).__iter__ is not DataLoader.__iter__:
            self.warnings.append(f"not measured: the code of {type(loader).__name__}.__iter__()")

    def measured(self) -> _native.Observations:
        """Makes all measurements. Exceptions of the step and of the data set are raised unchanged."""
        try:
            return _native.examine_loop(self, self.budget_s, self.budget_share)
        except _native.Error as error:
            ceiling = self._levels[0].training if self._levels else None
            if ceiling is not None and ceiling.failure is not None:
                raise error from ceiling.failure
            raise

    # Methods that examine_loop() calls

    def seconds(self) -> float:
        """Returns the seconds since this object was created."""
        return time.perf_counter() - self._start

    def capacity(self, cores: int) -> _native.MachineCapacity:
        return _native.measure_capacity(cores)

    def describe(self) -> _native.Observations:
        """Returns the observations that need no measurement."""
        observed = _native.Observations()
        observed.batch_size = self.batch_size
        observed.workers = self.workers
        observed.slabs_per_worker = self.loaders.prefetch or 2
        observed.slabs = self.workers * observed.slabs_per_worker + 1
        observed.set_cores(_native.usable_cores())
        observed.set_free_memory_bytes(_native.free_memory_bytes())
        self._note_situation(observed)
        return observed

    def loader_alone(self, count: str) -> LoaderAlone:
        """Returns the measurement of the loader with nothing cached.

        count: number of workers of the loader: "one", "all" or "half". These measurements are made in this order."""
        alone: LoaderAlone
        if count == "half":
            alone = self._timed(self.workers // 2)
        elif count == "one":
            alone = self._one = self._timed(min(1, self.workers))
        else:
            alone = self._all = self._timed(self.workers) if self.workers > 1 else self._one
        return alone

    def _timed(self, workers: int) -> Any:
        size = self._counted_size
        make = functools.partial(self.loaders.timed, self.samples.parts, workers, size)
        return LoaderRate(make, workers, size, self.loaders.calls)

    @functools.cached_property
    def _counted_size(self) -> int:
        """Batch size with which a loader is measured alone. If samples take long, it is smaller than that of the user,
        so that enough batches end within the budget."""
        self.samples.fill(2)
        return _native.counted_batch_size(self.batch_size, self.samples.seconds)

    def sample_costs(self) -> _native.SampleCosts:
        costs = by_step(self._one.costs)
        steps = [costs.get(key, ([], [], [])) for key in in_order({}, len(self.samples.parts.steps))]
        made = [mean([size for size in sizes if size > 0]) for _, _, sizes in steps]
        return _native.SampleCosts([sum(cost[0] for cost in each.values()) for each in self._one.costs], made)

    def make_levels(self, sizes: _native.CacheSizes) -> list[CacheLevel]:
        """Returns all cache levels, from batches on the device to nothing cached. Exceptions of the step are raised
        unchanged."""
        self._fill_caches(sizes)
        self._try_step()
        self._note_stages()
        self._levels = list(self._declare(sizes))
        return self._levels

    def other_rates(self) -> list[tuple[str, TrainingRate]]:
        alone = [(f"stage '{name}' alone", rate) for name, rate in self._stages[:-1]]
        alone += [("step alone", rate) for _, rate in self._stages[-1:]]
        return alone if self._copy is None else [("copy alone", self._copy), *alone]

    def add_findings(self, observed: _native.Observations) -> None:
        """Adds everything to the observations except for the rates of cache levels and of the loader."""
        observed.host = self.host_costs()
        self._note_device(observed)
        self._note_crop(observed)
        observed.utilization = self._utilization(observed)
        observed.warnings += self.warnings

    # Further measurements of the same loop

    def whole_rate(self, route: Route | None = None, step: Callable[[Any], Any] | None = None) -> TrainingRate:
        """Returns a new measurement of the loop with nothing cached.

        route, step: others than those of the loop."""
        through, run = route or self.route, step or self.user_step
        make = functools.partial(self._whole_batches, through)
        return TrainingRate(make, lambda batch: run(through.arrived(batch)), self.device, self.workers)

    def _whole_batches(self, route: Route) -> Iterable[Any]:
        return route.through(self.loaders.whole(self.samples.parts))

    def waits_for_launches(self) -> bool | None:
        """Returns true if the GPU waits until the host has launched its work; None if that was not measured."""
        ceiling = self._levels[0].training if self._levels else None
        if self.times is None or ceiling is None or ceiling.rate().n == 0:
            return None
        return self.times.is_limited_by_launches(ceiling.rate())

    def batch_for_step(self) -> Any:
        """Returns a cached batch as the step gets it."""
        return self._as_stages_give(self._batches[0])

    def step_alone_rate(self) -> _native.Measured | None:
        """Returns the rate of the step without the stages; None if there are none."""
        return self._stages[-1][1].rate() if self._stages else None

    def number_of_samples(self) -> int | None:
        return self.samples.size

    def first_batch(self) -> Any:
        return self._batches[0]

    # Caches

    def _fill_caches(self, sizes: _native.CacheSizes) -> None:
        """Fills the caches with enough samples to determine their mean cost, and with a few batches of them."""
        self._kept = self.samples.fill(sizes.samples_after(0))
        of_batches = [0] if self.loaders.is_single else self._sizes()
        self._batches = self.samples.batches(of_batches if len(of_batches) > 1 else of_batches * sizes.batches())
        self._bytes_of_batch = sum(map(_trees.byte_size, self._batches)) // len(self._batches)

    def _sizes(self) -> list[int]:
        """Returns the sizes of cached batches: with several sizes, those of the first batches whose samples all fit
        into the cache."""
        ends = itertools.accumulate(self.loaders.sizes[:_MOST_SIZES])
        whole = [size for size, end in zip(self.loaders.sizes, ends, strict=False) if end <= self._kept]
        return whole if len(whole) > 1 else [self.batch_size]

    def _try_step(self) -> None:
        """Runs the step twice and finds out whether it writes to its batch and whether it waits for the device. Its
        exceptions are raised with a note."""
        on_device = self._as_stages_give(self._batches[0])
        kept = _trees.mapped(on_device, lambda x: x.clone() if isinstance(x, torch.Tensor) else x)
        with noted("in the step given to slipstream.doctor, on a batch of the loader", on_device):
            self.user_step(fresh(on_device))
            is_written = not _trees.same(kept, on_device)
            # Waits are searched for in the second step, because the first one initializes libraries, which may wait.
            # DistributedDataParallel may communicate once in the first step, to arrange its buckets.
            with finding_waits(self._on_gpu) as waits, refusing_exchange():
                self.user_step(fresh(on_device))
        self._step_waits = bool(waits)
        if is_written:
            self.warnings.append(
                "the step writes to its batch, so cached batches change from step to step"
            )
        if self._step_waits:
            self.warnings.append(f"the step waits for the device in {' and in '.join(waits)}, so the host cannot run ahead")

    def _train_step(self, batch: Any) -> None:
        self.user_step(self.route.arrived(batch))

    def _as_stages_give(self, batch: Any) -> Any:
        """Returns a batch of the loader as the step gets it: on the device, and after the stages."""
        arrived: Any = next(iter(self.route.through([self._moved(fresh(batch))])))
        return arrived

    def _note_stages(self) -> None:
        """Prepares the measurement of each stage alone, on batches that are on the device, and of the step alone."""
        batches = [self._moved(fresh(batch)) for batch in self._batches] if self.route.stages else []
        for stage in self.route.stages:
            run = functools.partial(_run_stage, isolate(stage, self.device))
            self._stages.append((stage.name, TrainingRate(functools.partial(again, batches), run, self.device)))
            kept = _trees.mapped(batches[0], lambda x: x.clone() if isinstance(x, torch.Tensor) else x)
            staged = [run(batch) for batch in batches]
            if not _trees.same(kept, batches[0]):
                self.warnings.append(
                    f"stage '{stage.name}' writes to its batch, so cached batches change from step to step"
                )
            batches = staged
        if self.route.stages:
            step = TrainingRate(functools.partial(again, batches), self.user_step, self.device)
            self._stages.append(("step", step))

    def _moved(self, batch: Any) -> Any:
        return _native.moved(batch, self.device)

    # Levels

    def _declare(self, sizes: _native.CacheSizes) -> Iterator[CacheLevel]:
        """Yields the cache levels, from batches on the device to nothing cached."""
        batches, count = self._batches, len(self._batches)
        on_device = [self._moved(fresh(batch)) for batch in batches]
        yield CacheLevel(
            _native.DEVICE_LEVEL,
            "copy" if self._on_gpu else COLLATE,
            count,
            self.training(lambda: again(on_device)),
            is_essential=True,
        )
        if self._on_gpu:
            yield from self._declare_host_batches(batches)
        user_dataset = self.samples.parts.plain()
        if self.workers > 0:
            collated = self.training(lambda: self.loaders.collated(batches, user_dataset), self.workers)
            yield CacheLevel(_native.COLLATED_LEVEL, COLLATE, count, collated)
        steps = [*(step.name for step in self.samples.parts.steps), COLLATE]
        for name, after, number in _native.sample_levels(steps, False, False):
            if self.samples.why_not and number < len(steps) - 2:
                yield CacheLevel(name, after, self._kept, error=self.samples.why_not)
                continue
            make = functools.partial(self._cached, number, user_dataset)
            training = self.training(functools.partial(make, self._sizes()), self.workers)
            counted = self._counted_size
            alone = LoaderRate(functools.partial(make, [counted]), self.workers, counted)
            yield CacheLevel(name, after, self._kept, training, alone)
        whole = self.training(lambda: self.loaders.whole(self.samples.parts), self.workers, self._usage)
        yield CacheLevel(_native.WHOLE_LEVEL, "", 0, whole, is_essential=True)

    def _declare_host_batches(self, batches: list[Any]) -> Iterator[CacheLevel]:
        pinned = [page_locked(batch) for batch in batches]
        is_pinned = self.loaders.pin_memory
        for name, cached, is_used in (
            (_native.PINNED_LEVEL, pinned, is_pinned),
            (_native.PAGEABLE_LEVEL, batches, not is_pinned),
        ):
            training = self.training(functools.partial(again, cached))
            yield CacheLevel(name, COLLATE, len(cached), training, is_essential=is_used)
        used = pinned if is_pinned else batches
        self._copy = TrainingRate(functools.partial(again, used), self._moved, self.device)

    def training(
        self, make: Callable[[], Any], workers: int = 1, usage: _native.DeviceUsage | None = None
    ) -> TrainingRate:
        """Returns the rate of training on the batches of a loader. make: creates the loader."""
        return self.make_rate(lambda: self.route.through(make()), workers, usage)

    def make_rate(
        self, make: Callable[[], Iterable[Any]], workers: int = 1, usage: _native.DeviceUsage | None = None
    ) -> TrainingRate:
        """Returns the rate of training on batches. make: creates the iterable that the loop has."""
        return TrainingRate(make, self._train_step, self.device, workers, usage)

    def _cached(self, number: int, user_dataset: Any, sizes: list[int]) -> Any:
        return self.loaders.cached(self.samples.behind(number), user_dataset, sizes)

    # Findings

    def _note_situation(self, observed: _native.Observations) -> None:
        if self.samples.size is not None:
            observed.set_samples(self.samples.size)
        observed.set_plan(self._on_gpu, self.loaders.pin_memory, observed.slabs - 1, self.route.copies_ahead)
        observed.set_has_worker_processes(self.workers > 0)
        observed.set_last_fixed_step(self.samples.last_fixed_step())

    def _note_crop(self, observed: _native.Observations) -> None:
        self.crop = late_crop(self.samples.parts, [cost for cost in observed.host if not cost.is_inside])
        if self.crop is not None:
            observed.set_late_crop(*self.crop)

    def host_costs(self) -> list[_native.HostStepCost]:
        """Returns the costs of the data set's own code, each transform, collating, and the parts of each of these."""
        costs = make_costs(self.samples.parts.steps, self._one.costs, self._all.costs)
        # Bytes of collating were not counted with the samples. A collated batch has the same number for each sample.
        costs[-1].bytes = self._bytes_of_batch / self.batch_size
        return costs

    def _note_device(self, observed: _native.Observations) -> None:
        ceiling, device = self._levels[0].training, []
        assert ceiling is not None
        step = self._stages[-1][1] if self._stages else ceiling
        launching_s = self._note_launches(observed)
        if self._copy is not None and self._copy.rate().n > 0:
            device.append(device_cost("copy", self._copy, self._copy.enqueue_s, self._bytes_of_batch))
        for name, stage in self._stages[:-1]:
            if stage.rate().n > 0:
                device.append(device_cost(f"stage {name}", stage, launching_s.get(name, stage.enqueue_s), 0))
        if step.rate().n > 0:
            # If the step waits for the device, the time of the call is not that of launching its work.
            enqueue_s = 0.0 if self._step_waits else launching_s.get(STEP, step.enqueue_s)
            device.append(device_cost("step", step, enqueue_s, 0))
            note = step.finding(len(self._batches))
            self.warnings += [note] if note else []
        self.device_costs = observed.device = device
        observed.line_cpu_s = ceiling.cpu_s

    def _note_launches(self, observed: _native.Observations) -> dict[str, float]:
        """Measures the launches of each stage and of the step. Returns the times that the host needs for them."""
        if not self._on_gpu or not self._may_wait_for_launches():
            return {}
        gpu, works, budget_s = Gpu(self.device), [], _LAUNCHES_SHARE * self.budget_s
        try:
            batches = [self._moved(fresh(batch)) for batch in self._batches[:2]]
            for stage in self.route.stages:
                run = functools.partial(_run_stage, isolate(stage, self.device))
                launches = measure_launches(run, batches, gpu, budget_s)
                is_graph = isinstance(stage.function, StageGraphs) or stage._takes_number()
                works.append(Work(stage.name, launches, is_graph))
                batches = [run(fresh(batch)) for batch in batches]
            launches = measure_launches(self.user_step, batches, gpu, budget_s)
            works.append(Work(STEP, launches, isinstance(self.user_step, CapturedStep)))
        except Exception as error:  # such as missing memory; the verdict then follows from the times of the loop
            self.warnings.append(f"not measured: launches of kernels: {type(error).__name__}: {error}")
            return {}
        self.times = self._loop_times(observed, works)
        return {each.name: each.launches.host_s for each in works}

    def _may_wait_for_launches(self) -> bool:
        """Returns false if the calls of stages and step take so little of a step's time that the host is far ahead of
        the GPU. If they take long, the host may as well wait in them: for the device, or in a full queue."""
        ceiling = self._levels[0].training
        assert ceiling is not None
        calls = [rate for _, rate in self._stages] or [ceiling]
        if any(each.rate().n == 0 for each in (ceiling, *calls)):
            return True
        return sum(each.enqueue_s for each in calls) > LAUNCHING / ceiling.rate().value

    def _loop_times(self, observed: _native.Observations, works: list[Work]) -> LoopTimes:
        whole, copy, loader = self._levels[-1].training, self._copy, observed.rate_of_all_workers
        assert whole is not None
        copy_s = 0.0 if copy is None or copy.rate().n == 0 else 1 / copy.rate().value
        other_s = 0.0 if whole.rate().n == 0 else 1 / whole.rate().value - whole.enqueue_s
        is_plain = isinstance(self.route, PlainRoute) and not self.route.copies_ahead
        if is_plain and copy is not None:  # the copy is part of the step's time
            other_s += copy.enqueue_s
        other_s -= sum(each.launches.host_s for each in works[:-1])
        loading_s = self.batch_size / loader.value if self.workers > 0 and loader.n > 0 else 0.0
        # A plain loop gets a slipstream.Pipeline together with its graph.
        return LoopTimes(works, loading_s, copy_s, max(0.0, other_s), is_plain or self.route.copies_ahead)

    def _utilization(self, observed: _native.Observations) -> _native.Utilization:
        use = _native.Utilization() if self._usage is None else self._usage.utilization()
        if self._usage is not None and self._usage.shared():
            self.warnings.append(self._usage.shared())
        whole = self._levels[-1].training
        assert whole is not None
        of_workers = sum(cost.cpu_of_all_s for cost in observed.host) * self.batch_size
        cpu_s = of_workers + observed.line_cpu_s
        use.cpu_share = min(1.0, whole.rate().value * cpu_s / _native.usable_cores())
        return use


def make_costs(steps: Sequence[Step], one: list[Costs], all: list[Costs]) -> list[_native.HostStepCost]:
    """Returns the costs of the steps of a data set, of collating, and of the parts of each of these.

    one, all: costs of samples that were measured with one worker, and with all workers."""
    alone, together = by_step(one), by_step(all)
    groups = find_groups(alone, len(steps))
    costs: list[_native.HostStepCost] = []
    for key in in_order(dict.fromkeys([*alone, *together]), len(steps)):
        number, part = key
        cost = _native.HostStepCost()
        step = COLLATE if number == COLLATING else steps[number].name
        cost.name = unique_name(part, {each.name for each in costs} | {each.name for each in steps}) if part else step
        cost.group = groups.get(key, "transforms")
        cost.is_random, cost.is_inside = number != COLLATING and steps[number].is_random, bool(part)
        cost.wall_s, cost.cpu_s, made = alone.get(key, ([0.0], [0.0], [0.0]))
        cost.bytes = mean([each for each in made if each > 0])
        if together:  # empty if no batch was measured with all workers
            wall_s, cpu_s, _ = together.get(key, ([], [], []))
            cost.wall_of_all_s, cost.cpu_of_all_s = mean(wall_s), mean(cpu_s)
            cost.waiting_of_all_s = [max(0.0, a - b) for a, b in zip(wall_s, cpu_s, strict=True)]
        costs.append(cost)
    return costs


def _run_stage(stage: Any, batch: Any) -> Any:
    """Runs a stage on a batch, with the random numbers of the first batch."""
    with torch.no_grad():
        return stage._run(batch, 0)


def again(batches: list[Any]) -> Iterator[Any]:
    """Repeats cached batches endlessly."""
    return map(fresh, itertools.cycle(batches))
