"""Measures the cache levels of a slipstream.DataLoader whose worker processes run a data set or transforms in Python."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader

from .. import _native, _trees, data, datasets
from .._fetching import item
from .._steps import Function
from .._transform_parts import display_name
from ..datasets import PythonSource
from ..pipeline import Pipeline
from ..transforms import Compose
from .clock import Clock, Costs
from .known_calls import KnownCalls
from .levels import CacheLevel, mean, page_locked
from .loaders import Cached, Loaders, WorkerStart, classes_of_loader
from .measurements import again, make_costs
from .native import NativeLevelMeasurements, NativeLoaders, listed_samples
from .parts import COLLATE, TRANSFER, Parts
from .rates import KEPT, TrainingRate
from .routes import PlainRoute, Route
from .samples import Samples
from .views import with_transform

_WRITE_S = 0.05  # seconds between writes of costs


class CostFile:
    """A file to which worker processes write the costs of samples, as lines of JSON. Costs that a process cannot write,
    because it is ended or the disk is full, are lost."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lines: list[bytes] = []
        self._written_s = 0.0

    def add(self, costs: Any) -> None:
        self._lines.append(json.dumps(costs).encode())
        now_s = time.perf_counter()
        if now_s - self._written_s < _WRITE_S:
            return
        text = b"\n".join([*self._lines, b""])
        self._lines, self._written_s = [], now_s
        with contextlib.suppress(OSError):
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(descriptor, text)  # processes that append at the same time do not mix their lines
            finally:
                os.close(descriptor)

    def read(self) -> list[Any]:
        if not os.path.exists(self._path):
            return []
        costs = []
        with open(self._path, encoding="utf-8") as file:
            for line in file:
                with contextlib.suppress(json.JSONDecodeError):  # a line of which only a part was written
                    costs.append(json.loads(line))
        return costs


class TimedSource(torch.utils.data.Dataset[Any]):
    """A data set that writes the costs of each sample to a file."""

    def __init__(self, parts: Parts, calls: KnownCalls, file: CostFile) -> None:
        self._clock, self._calls, self._file = Clock(), calls, file
        self.dataset = parts.timed(self._clock)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        self._calls.update()  # not undone, because the worker process ends soon
        made = self._clock.during(lambda: item(self.dataset, index))
        self._file.add([[step, part, *cost] for (step, part), cost in self._clock.costs.items()])
        return made


class TimedFunction:
    """A function of an image that writes its wall time and CPU time to a file."""

    def __init__(self, function: Function, file: CostFile) -> None:
        self.__name__ = display_name(function)
        self._function, self._file = function, file

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        wall_s, cpu_s = time.perf_counter(), time.thread_time()
        made = self._function(image)
        self._file.add([time.perf_counter() - wall_s, time.thread_time() - cpu_s])
        return made


class Repeated(torch.utils.data.Dataset[Any]):
    """A map-style data set of cached samples."""

    def __init__(self, samples: Sequence[Any] | Cached, count: int) -> None:
        self._samples, self._count = samples, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Any:
        return self._samples[index % len(self._samples) if isinstance(self._samples, Sequence) else index]


@dataclasses.dataclass
class _Timing:
    """A measurement of a loader that writes the costs of its code in Python to files.

    steps: for each run of functions in the chain, the name of its step and the file of each of its functions."""

    drain: _native.LoaderDrain
    samples: CostFile
    steps: list[tuple[str, list[CostFile]]]

    def costs(self) -> list[Costs]:
        """Returns the costs of the data set's code for the latest samples."""
        lines = self.samples.read()[-KEPT:]
        return [{(step, part): [wall, cpu, made] for step, part, wall, cpu, made in line} for line in lines]

    def shares(self) -> dict[str, float]:
        """Returns the share of time in which the functions of each step in Python only wait."""
        shares = {}
        for name, files in self.steps:
            lines = [line for file in files for line in file.read()]
            wall_s, cpu_s = (sum(line[i] for line in lines) for i in (0, 1))
            shares[name] = max(0.0, wall_s - cpu_s) / wall_s if wall_s > 0 else 0.0
        return shares


class ProcessLoaders(NativeLoaders):
    """Creates loaders with the settings of a slipstream.DataLoader that has worker processes. Must be closed.

    source: the user's data set in Python, or None if only transforms are in Python."""

    def __init__(self, loader: data.DataLoader, parts: Sequence[Any] = ()) -> None:
        self.loader, self.workers = loader, loader.num_workers
        self.prefetch = loader.prefetch_factor
        dataset = loader._native_dataset()
        if (order := loader._listed_order()) is not None:
            indices, self.batch_size = listed_samples(order.batch_sampler, loader.dataset)
            dataset = datasets.Subset(dataset, indices)
        else:
            self.batch_size = loader.batch_size
        self._dataset, self.samples = dataset, len(dataset)
        self.chain = Compose._wrap(dataset.transform)
        native = dataset._native
        self.source = native.source if isinstance(native, PythonSource) else None
        self.reads_natively = self.source is None
        self._folder = tempfile.TemporaryDirectory(prefix="slipstream-doctor-")
        self._made: list[data.DataLoader] = []
        self._names = (f"{self._folder.name}/{i}" for i in itertools.count())
        self.inner: Loaders | None = None
        if self.source is not None:
            self.inner = Loaders(self._read_by_pytorch(), False, parts)

    def _read_by_pytorch(self) -> DataLoader[Any]:
        """Returns a PyTorch loader that reads the user's data set in the same worker processes."""
        theirs = self.loader
        source: Any = self.source
        return DataLoader(
            source,
            batch_size=self.batch_size,
            num_workers=theirs.num_workers,
            multiprocessing_context=theirs.multiprocessing_context,
            worker_init_fn=theirs.worker_init_fn,
        )

    def close(self) -> None:
        """Ends all worker processes and removes the files."""
        for loader in self._made:
            loader._close()
        self._folder.cleanup()

    def reading(self, dataset: datasets.Dataset, workers: int, user_dataset: Any = None) -> data.DataLoader:
        """Returns a loader of another data set, which gives full batches.

        user_dataset: the data set that the user's worker_init_fn finds; None: the user's."""
        arguments = self.loader._arguments
        given = {each.name: getattr(arguments, each.name) for each in dataclasses.fields(arguments) if each.init}
        order = {"shuffle": self._shuffles(), "sampler": None, "batch_sampler": None, "drop_last": True}
        own = self._dataset if self.source is None else self.source
        init = WorkerStart(own if user_dataset is None else user_dataset, self.loader.worker_init_fn)
        given |= order | {"dataset": dataset, "batch_size": self.batch_size, "num_workers": workers}
        given |= {"seed": 0, "generator": None, "worker_init_fn": init}
        made = data.DataLoader(**given)
        self._made.append(made)
        return made

    def _shuffles(self) -> bool:
        return self.loader._listed_order() is None and self.loader._arguments.shuffles

    def whole_loader(self) -> data.DataLoader:
        return self.reading(self._dataset, self.workers)

    def timed(self, parts: Parts | None, calls: KnownCalls | None, workers: int) -> _Timing:
        """Returns a measurement of the loader alone with this number of workers."""
        samples = CostFile(next(self._names))
        chain, steps = self._timed_chain()
        if parts is not None and calls is not None:
            source = TimedSource(parts, calls, samples)
            loader = self.reading(datasets.PythonDataset(source, chain), workers, source.dataset)
        else:
            loader = self.reading(with_transform(self._dataset, chain), workers)
        return _Timing(_native.LoaderDrain(loader._measured_native()), samples, steps)

    def _timed_chain(self) -> tuple[Compose, list[tuple[str, list[CostFile]]]]:
        """Returns the chain with functions that write their costs; and for each run of functions, the name of its step
        and the files."""
        files = {id(function): CostFile(next(self._names)) for _, _, run in self.chain._runs() for function in run}
        timed = [step if isinstance(step, dict) else TimedFunction(step, files[id(step)]) for step in self.chain._steps]
        return Compose._of(timed), [(name, [files[id(each)] for each in run]) for _, name, run in self.chain._runs()]


class ProcessLevelMeasurements(NativeLevelMeasurements):
    """Measures a loader with worker processes, and a step, within a budget. An object can be used once.

    Whole samples and samples before the native transforms are cached in worker processes, from which the loader gets
    them as it gets samples of the user's data set. Other results are not cached, because they are in the memory of the
    loader's threads."""

    loaders: ProcessLoaders
    _one: Any
    _all: Any

    def _prepare(self) -> None:
        self._source: Samples | None = None
        self._timings: dict[int, _Timing] = {}
        if self.loaders.inner is not None:
            self._source = Samples(self.loaders.inner, self.budget_s)
            self.warnings += self._source.warnings

    def loader_alone(self, count: str) -> Any:
        timing = self._timing({"one": 1, "all": self.workers, "half": self.workers // 2}[count])
        if count == "one":
            self._one = timing
        elif count == "all":
            self._all = timing
        return timing.drain

    def _timing(self, workers: int) -> _Timing:
        if workers not in self._timings:
            inner = self.loaders.inner
            parts = None if self._source is None else self._source.parts
            self._timings[workers] = self.loaders.timed(parts, None if inner is None else inner.calls, workers)
        return self._timings[workers]

    def sample_costs(self) -> _native.SampleCosts:
        costs: _native.SampleCosts = self._one.drain.sample_costs()
        return costs

    def _fill_caches(self, sizes: _native.CacheSizes) -> None:
        self._whole = self.loaders.whole_loader()
        self._batches = list(itertools.islice(self._all_batches(self._whole), sizes.batches()))
        self._bytes_of_batch = _trees.byte_size(self._batches[0])
        self._count = max(self.workers * self.batch_size, sizes.samples_after(0))

    def _whole_batches(self, route: Route) -> Iterator[Any]:
        return self._all_batches(self._whole, route)

    def _all_batches(self, loader: data.DataLoader, route: Route | None = None) -> Iterator[Any]:
        native = loader._native
        try:
            yield from self.loaders.endless(native, route)
        finally:
            native.halt()  # otherwise its threads would load batches while something else is measured

    def _declare(self, sizes: _native.CacheSizes) -> Iterator[CacheLevel]:
        batches = self._batches
        training = self.training(functools.partial(again, batches))
        first = "copy" if self._on_gpu else COLLATE
        yield CacheLevel(_native.DEVICE_LEVEL, first, len(batches), training, is_essential=True)
        if self._on_gpu:
            yield self._declare_host_batches_of(batches)
        names = [cost.name for cost in self.host_costs()]
        yield self._declare_processed(names[-3])
        if self._source is not None and self.loaders.chain._steps and not self._source.why_not:
            yield self._declare_raw()
        whole = self.make_rate(lambda: self._all_batches(self._whole, self.route), self.workers, self._usage)
        yield CacheLevel(_native.WHOLE_LEVEL, "", 0, whole, is_essential=True)

    def _declare_host_batches_of(self, batches: list[Any]) -> CacheLevel:
        pinned = [page_locked(_native.moved(batch, "cpu")) for batch in batches]
        copied: Callable[[], Any] = functools.partial(again, pinned)
        self._copy = TrainingRate(copied, self._moved, self.device)
        if isinstance(self.route, PlainRoute):  # batches are copied in advance without a pipeline, too
            copied = functools.partial(_copied_ahead, pinned, self.device)
        return CacheLevel(_native.PINNED_LEVEL, COLLATE, len(pinned), self.training(copied), is_essential=True)

    def _declare_processed(self, after: str) -> CacheLevel:
        samples = _split(self._batches[0], self.batch_size)
        if samples is None:
            why = "its samples contain other values than tensors"
            return CacheLevel("processed sample", after, 0, error=why)
        cached = datasets.PythonDataset(Repeated(samples, self._count * self.batch_size))
        return self._cached_level("processed sample", after, len(samples), cached)

    def _declare_raw(self) -> CacheLevel:
        assert self._source is not None
        kept = self._source.fill(min(self._count, 256))
        last = len(self._source.parts.steps) - 1
        source = Repeated(self._source.behind(last), self._count * self.batch_size)
        name = "raw sample" if last == 0 else f"after {self._source.parts.steps[last].name}"
        dataset = datasets.PythonDataset(source, self.loaders.chain)
        return self._cached_level(name, self._source.parts.steps[last].name, kept, dataset)

    def _cached_level(self, name: str, after: str, kept: int, dataset: datasets.Dataset) -> CacheLevel:
        loader = self.loaders.reading(dataset, self.workers)
        training = self.make_rate(lambda: self._all_batches(loader, self.route), self.workers)
        return CacheLevel(name, after, kept, training, _native.LoaderDrain(loader._measured_native()))

    def host_costs(self) -> list[_native.HostStepCost]:
        """Returns the costs of the data set's code and the parts of it, of each transform, of the transfer from the
        worker processes, and of collating."""
        costs: list[_native.HostStepCost] = self._one.drain.costs(self._all.drain)
        for name, share in self._one.shares().items():
            cost = next(each for each in costs if each.name == name)
            cost.cpu_s = [(1 - share) * wall for wall in cost.wall_s]
            cost.cpu_of_all_s = (1 - share) * cost.wall_of_all_s
            cost.waiting_of_all_s = [share * cost.wall_of_all_s] * len(cost.waiting_of_all_s)
        if self._source is None:
            return costs
        read, steps = costs[0], self._source.parts.steps
        ours = make_costs(steps, self._one.costs(), self._all.costs())[:-1]
        # The functions of the user's data set run inside of the native step that reads.
        return [*ours, *costs[2:-1], _transfer(read, ours), costs[-1]]

    def _note_situation(self, observed: _native.Observations) -> None:
        super()._note_situation(observed)
        observed.set_has_worker_processes(True)
        if self._source is not None:  # its samples may be random
            observed.set_last_fixed_step("")

    def _note_crop(self, observed: _native.Observations) -> None:
        """The doctor does not advise to move a crop, because its costs are those of another list of steps."""


def _transfer(read: _native.HostStepCost, ours: Sequence[_native.HostStepCost]) -> _native.HostStepCost:
    """Returns the cost of moving a sample from its worker process to the loader: what remains of the native step that
    reads, without the costs `ours` of the user's code. The process needs about as much CPU time for it as the loader's
    thread, which is the one that the native step measures."""
    cost = _native.HostStepCost()
    cost.name, cost.group, cost.bytes = TRANSFER, "collate", read.bytes
    rest = max(0.0, mean(read.wall_s) - sum(mean(each.wall_s) for each in ours))
    cost.wall_s = [rest] * max(1, len(read.wall_s))
    cost.cpu_s = [min(rest, 2 * cpu) for cpu in read.cpu_s] or [rest]
    cost.wall_of_all_s = max(0.0, read.wall_of_all_s - sum(each.wall_of_all_s for each in ours))
    cost.cpu_of_all_s = min(cost.wall_of_all_s, 2 * read.cpu_of_all_s)
    cost.waiting_of_all_s = [cost.wall_of_all_s - cost.cpu_of_all_s] * len(read.waiting_of_all_s)
    return cost


def _copied_ahead(batches: list[Any], device: str) -> Iterator[Any]:
    """Yields cached host batches, which are copied to the device in advance, as a slipstream.DataLoader copies them."""
    while True:
        yield from Pipeline(batches, device=device)


def _split(batch: Any, count: int) -> list[Any] | None:
    """Returns the samples of a batch, or None if it contains something else than tensors of all samples."""
    host = _native.moved(batch, "cpu")
    leaves = _trees.leaves(host)
    if not all(isinstance(leaf, torch.Tensor) and leaf.dim() > 0 and len(leaf) == count for leaf in leaves):
        return None
    return [_trees.mapped(host, functools.partial(_element, index=i)) for i in range(count)]


def _element(tensor: torch.Tensor, index: int) -> torch.Tensor:
    return tensor[index].clone()
