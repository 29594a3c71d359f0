"""The arguments of slipstream.DataLoader: checks, and their form for the native loader and for PyTorch's loader."""

from __future__ import annotations

import dataclasses
import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.utils.data import BatchSampler, IterableDataset, default_collate

from . import _native
from ._checks import SEEDS, check, choose, device_named, shortened, to_index
from ._order import Ranks
from ._python_loading import InitOnCpus, InitWorker, collate_samples
from ._steps import find_num_classes, over_batch
from .datasets import Dataset, PythonSource
from .transforms import Compose

_MOST_WORKERS = 1024
_MOST_PREFETCHED = 1024
_MOST_READS = 1024
_PREFETCHED_IN_TRIAL = 2  # batches of each worker while the number of workers is measured


@dataclasses.dataclass
class LoaderArguments:
    """All arguments as the caller gave them."""

    dataset: Any
    batch_size: Any
    shuffle: Any
    sampler: Any
    batch_sampler: Any
    num_workers: Any
    collate_fn: Any
    pin_memory: Any
    drop_last: Any
    timeout: Any
    worker_init_fn: Callable[[int], None] | None
    multiprocessing_context: Any
    generator: Any
    prefetch_factor: Any
    persistent_workers: Any
    pin_memory_device: Any
    in_order: Any
    seed: Any
    device: Any
    on_bad_sample: Any
    decode: Any
    transforms_device: Any
    wire: Mapping[str, str] | None
    rank: int | None
    world_size: int | None
    cache: Any
    disk_cache: Any
    read_ahead: Any
    cpus: Any
    scaled_decoding: Any
    cpu_numbers: list[int] = dataclasses.field(default_factory=list, init=False)

    def check(self) -> None:
        """Raises Refused with all problems in one message."""
        self.device = device_named(self.device)
        if self.collate_fn is default_collate:
            self.collate_fn = None  # the native collation gives the same batches
        numbers: dict[str, Any] = {"read_ahead": (self.read_ahead, 0, _MOST_READS)}
        if not self.measures_workers:
            numbers["num_workers"] = (self.num_workers, 0, _MOST_WORKERS)
        if self.batch_size is not None:
            numbers["batch_size"] = (self.batch_size, 1)
        if self.prefetch_factor is not None:
            numbers["prefetch_factor"] = (self.prefetch_factor, 1, _MOST_PREFETCHED)
        if self.seed is not None:
            numbers["seed"] = (self.seed, 0, SEEDS - 1)
        if self.rank is not None and self.world_size is not None:
            numbers["world_size"] = (self.world_size, 1)
            numbers["rank"] = (self.rank, 0, max(0, to_index(self.world_size, 1) - 1))
        flags = (True, False)
        choices = choose(
            shuffle=(False if self.shuffle is None else self.shuffle, flags),
            drop_last=(self.drop_last, flags),
            pin_memory=(self.pin_memory, flags),
            persistent_workers=(self.persistent_workers, flags),
            in_order=(self.in_order, flags),
            on_bad_sample=(self.on_bad_sample, ("stop", "skip")),
            decode=(self.decode, ("tolerant", "strict")),
            transforms_device=(self.transforms_device, ("cpu", "cuda")),
            scaled_decoding=(self.scaled_decoding, flags),
        )
        check([*self._problems(), *choices], **numbers)
        self.batch_size = None if self.batch_size is None else operator.index(self.batch_size)
        if not self.measures_workers:
            self.num_workers = operator.index(self.num_workers)
        if self.batch_sampler is not None:
            self.batch_size = None
        self.cpu_numbers = [] if self.cpus is None else _native.loader_cpus(self.cpus, self.device)

    def _problems(self) -> Iterable[str]:
        yield from self._problems_of_order()
        yield from self._problems_of_calls()
        yield from self._problems_of_python()
        yield from self._problems_of_caches()
        if self.wire is not None and not isinstance(self.wire, Mapping):
            yield f"wire is {shortened(self.wire)}: give a mapping from fields to formats, such as {{'image': 'jpeg'}}"
        elif self.device == "cpu" and (self.wire or self.transforms_device == "cuda"):
            yield f"wire and transforms_device are for batches on a GPU, but device is '{self.device}'"

    def _problems_of_order(self) -> Iterable[str]:
        """Yields contradictions between the arguments that select samples."""
        if self.batch_sampler is not None and (
            to_index(self.batch_size) != 1 or self.shuffle or self.sampler is not None or self.drop_last
        ):
            yield "batch_sampler excludes batch_size, shuffle, sampler and drop_last: leave them out"
        if self.sampler is not None and self.shuffle:
            yield "sampler excludes shuffle: leave shuffle out"
        if self.batch_size is None and self.drop_last:
            yield "batch_size=None makes each sample a batch, so leave drop_last out"
        if (self.rank is None) != (self.world_size is None):
            yield "rank and world_size belong together: give both, or none"
        elif self.rank is not None and self.is_listed:
            yield "a sampler decides itself which samples a process loads: leave rank and world_size out"
        if self.seed is not None and self.generator is not None:
            yield "seed and generator both select the random numbers: give one of them"
        if self.is_stream and (self.shuffle or self.is_listed):
            yield "an iterable-style data set has an order itself: leave shuffle, sampler and batch_sampler out"
        if self.is_stream and self.rank is not None:
            yield (
                "an iterable-style data set decides itself what each process loads: leave rank and world_size out, and "
                "give each process its share in the data set"
            )

    def _problems_of_calls(self) -> Iterable[str]:
        """Yields arguments of a wrong type."""
        for name in ("collate_fn", "worker_init_fn"):
            value = getattr(self, name)
            if value is not None and not callable(value):
                whose = "of the worker's number" if name == "worker_init_fn" else "of a list of samples"
                yield f"{name} is {shortened(value)}: give a function {whose}"
        if self.generator is not None and not isinstance(self.generator, torch.Generator):
            yield f"generator is {shortened(self.generator)}: give a torch.Generator"
        for name in ("sampler", "batch_sampler"):
            value = getattr(self, name)
            if value is not None and not hasattr(value, "__iter__") and not hasattr(value, "__getitem__"):
                yield f"{name} is {shortened(value)}: give an iterable"
        is_number = isinstance(self.timeout, int | float) and not isinstance(self.timeout, bool)
        if not is_number or not 0 <= self.timeout < float("inf"):
            yield f"timeout is {shortened(self.timeout)}: give a number of seconds, 0 for no limit"
        if not isinstance(self.pin_memory_device, str):
            yield f"pin_memory_device is {shortened(self.pin_memory_device)}: give '' or a device such as 'cuda:1'"

    def _problems_of_caches(self) -> Iterable[str]:
        """Yields values of `cache`, `disk_cache` and `cpus` that have another form than in the program."""
        for name, form in (("cache", "STEP=SIZE, such as 'decode=8GB'"), ("disk_cache", "DIR=SIZE, such as '/fast=64GB'")):
            value = getattr(self, name)
            if value is None:
                continue
            if not isinstance(value, str):
                yield f"{name} is {shortened(value)}: give a string {form}"
                continue
            try:
                _native.named_size(name, os.fsencode(value))
            except _native.Refused as refused:
                yield str(refused)
        if self.cpus is not None and not isinstance(self.cpus, str):
            yield f"cpus is {shortened(self.cpus)}: give a string such as '0-7,16', or 'gpu'"

    def _problems_of_python(self) -> Iterable[str]:
        """Yields arguments that batches made by Python cannot have."""
        if self.needs_python:
            why = "an iterable-style data set" if self.is_stream else "batch_size=None or a custom collate_fn"
            yield from self._problems_of_python_batches(why)

    def refuse_python_batches(self) -> None:
        """Raises Refused for arguments that a loader without workers cannot have if its samples need Python."""
        check(self._problems_of_python_batches("num_workers=0 with a data set or a transform in Python"))

    def _problems_of_python_batches(self, why: str) -> Iterable[str]:
        if self.wire or self.transforms_device == "cuda":
            yield f"{why} makes batches in Python, without wire and transforms_device: leave them out"
        if self.on_bad_sample == "skip":
            yield f"{why} cannot skip bad samples: handle them in the data set, and leave on_bad_sample out"
        if self.decode == "strict":
            yield f"{why} reads samples one by one with decode='tolerant': leave decode out"
        if names := self._given_for_native():
            yield f"{why} makes batches in Python, without {' and '.join(names)}: leave {_it_or_them(names)} out"
        if self.cpus is not None and self.num_workers == 0:
            yield f"{why} makes batches in the thread of the loop, which cpus does not move: leave cpus out"
        transform = getattr(self.dataset, "transform", None)
        name = over_batch(Compose._wrap(transform)._steps) if isinstance(transform, Compose) else ""
        if name:
            yield f"{why} makes batches in Python, but {name} is applied to batches of the native loader: leave it out"

    def _given_for_native(self) -> list[str]:
        """Returns the names of the given arguments that only native loading has."""
        given = {name: getattr(self, name) for name in ("cache", "disk_cache", "read_ahead", "scaled_decoding")}
        return [*(name for name, value in given.items() if value), *(["num_workers='auto'"] if self.measures_workers else [])]

    def complete(self, dataset: Dataset | None) -> None:
        """Replaces num_workers="auto" by a number. `dataset`: the data set with its transforms, or None if it is
        iterable-style or has no len(). Raises Refused if it is in Python and an argument needs a native one."""
        if dataset is None or isinstance(dataset._native, PythonSource):
            self._refuse_for_samples_in_python()
        elif self.measures_workers:
            self.num_workers = self._measure_workers(dataset._native, Compose._wrap(dataset.transform))

    def _refuse_for_samples_in_python(self) -> None:
        """A cache must not keep samples of a data set in Python, because they may be random."""
        if names := self._given_for_native():
            raise _native.Refused(
                f"{' and '.join(names)} can be given for data sets that are read without Python, such as "
                f"slipstream.ImageFolder, but {type(self.dataset).__name__} is written in Python: leave "
                f"{_it_or_them(names)} out, and keep in the data set itself what is slow and not random"
            )

    def _measure_workers(self, dataset: _native.Dataset, chain: Compose) -> int:
        """Returns the smallest number of workers with which loading is about as fast as with any other number. Reads
        samples."""
        if chain._runs():
            raise _native.Refused(
                "num_workers='auto' measures loading without Python, but a transform is a function in Python: give a "
                "number"
            )
        if len(dataset) == 0:
            return 1
        settings = self.for_native(chain, find_num_classes(chain._steps))
        prefetch = min(self.prefetch, _PREFETCHED_IN_TRIAL)
        return _native.measure_workers(self.with_disk_cache(dataset), settings, prefetch)

    def init_function(self) -> Callable[[int], None] | None:
        """Returns the function that each worker process calls with its number."""
        return InitOnCpus(self.cpu_numbers, self.worker_init_fn) if self.cpu_numbers else self.worker_init_fn

    def with_disk_cache(self, dataset: _native.Dataset) -> _native.Dataset:
        if self.disk_cache is None:
            return dataset
        return _native.disk_cached(dataset, os.fsencode(os.path.expanduser(self.disk_cache)))

    @property
    def measures_workers(self) -> bool:
        return isinstance(self.num_workers, str) and self.num_workers == "auto"

    @property
    def is_stream(self) -> bool:
        return isinstance(self.dataset, IterableDataset)

    @property
    def is_listed(self) -> bool:
        return self.sampler is not None or self.batch_sampler is not None

    @property
    def shuffles(self) -> bool:
        return bool(self.shuffle)

    @property
    def needs_python(self) -> bool:
        """Whether each batch needs Python, whatever the data set is."""
        is_single = self.batch_size is None and self.batch_sampler is None
        return self.is_stream or is_single or self.collate_fn is not None

    @property
    def given_seed(self) -> int | None:
        return None if self.seed is None else operator.index(self.seed)

    @property
    def ranks(self) -> Ranks | None:
        if self.rank is None or self.world_size is None:
            return None
        return operator.index(self.rank), operator.index(self.world_size)

    @property
    def prefetch(self) -> int:
        return 2 if self.prefetch_factor is None else operator.index(self.prefetch_factor)

    def listed(self) -> Iterable[Any]:
        """Returns the batch sampler, or for batch_size=None the sampler."""
        if self.batch_sampler is not None:
            return self.batch_sampler  # type: ignore[no-any-return]
        if self.batch_size is None:
            return self.sampler  # type: ignore[no-any-return]
        return BatchSampler(self.sampler, self.batch_size, bool(self.drop_last))

    def _pinning_device(self) -> str:
        """Returns the GPU for which batches on the CPU are page-locked, or ""."""
        if not self.pin_memory or self.device != "cpu" or not torch.cuda.is_available():
            return ""
        return device_named(self.pin_memory_device or "cuda")

    def for_native(self, chain: Compose, num_classes: int) -> _native.LoaderSettings:
        workers = 1 if self.measures_workers else max(1, self.num_workers)
        settings = _native.LoaderSettings()
        settings.device = self.device
        settings.transforms = chain._native_chain()
        settings.num_classes = num_classes
        settings.num_workers = workers
        settings.prefetch_batches = self.prefetch * workers
        settings.drop_last = bool(self.drop_last)
        settings.shuffle = self.shuffles
        settings.seed = self.given_seed or 0
        settings.skips_bad_samples = self.on_bad_sample == "skip"
        settings.strict_decoding = self.decode == "strict"
        settings.wire = dict(self.wire or {})
        settings.transforms_on_device = self.transforms_device == "cuda"
        settings.lists_batches = self.is_listed
        settings.batch_size = self.batch_size or to_index(getattr(self.batch_sampler, "batch_size", None)) or 1
        settings.pins_for = self._pinning_device()
        settings.timeout_s = float(self.timeout)
        settings.scaled_decoding = bool(self.scaled_decoding)
        settings.read_ahead = operator.index(self.read_ahead)
        settings.cpus = self.cpu_numbers
        if self.cache is not None:
            settings.set_cache(self.cache)
        return settings

    def for_pytorch(self, context: Any) -> dict[str, Any]:
        pins = self.device != "cpu" or bool(self._pinning_device())
        options: dict[str, Any] = {
            "batch_size": self.batch_size,
            "drop_last": bool(self.drop_last),
            "num_workers": self.num_workers,
            "collate_fn": self._collate(),
            "pin_memory": pins,
            "timeout": self.timeout if self.num_workers > 0 else 0,
            "worker_init_fn": InitWorker(self.init_function()),
            "multiprocessing_context": context,
            "persistent_workers": bool(self.persistent_workers) and self.num_workers > 0,
        }
        if self.num_workers > 0:
            options["prefetch_factor"] = self.prefetch
        return options

    def _collate(self) -> Any:
        if self.collate_fn is not None or self.is_stream or (self.batch_size is None and self.batch_sampler is None):
            return self.collate_fn  # None: PyTorch's own function for batches or for single samples
        return collate_samples


def _it_or_them(names: Sequence[str]) -> str:
    return "it" if len(names) == 1 else "them"
