"""Loads batches that need Python for each batch, with torch.utils.data.DataLoader: custom collate functions, iterable-style
data sets, and Python code with num_workers=0."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import get_worker_info

from . import _native
from ._blocks import contextmanager
from ._fetching import fetched, fetches_batches, item
from ._one_sample import keyed_native_sample, keyed_python_sample
from ._order import Run, SampleKey
from ._random_states import host_states, seed_all, set_host_states
from ._samples import Sample, Unfit, make_template
from ._sources import make_source
from .datasets import Dataset, PythonSource
from .transforms import Compose

_SEED_BITS = 63


class KeyedDataset(torch.utils.data.Dataset[Any]):
    """Reads samples by their keys. Before each sample, the generators of torch, numpy and random are seeded, so that a
    sample does not depend on the process that reads it.

    dataset: the user's data set, or a slipstream data set, whose transforms are applied.
    marks_images: whether to return pairs of a sample and, for each of its tensors, whether the transforms were applied
        to it. Otherwise samples are returned alone."""

    def __init__(self, dataset: Any, marks_images: bool) -> None:
        self.dataset, self._marks_images = dataset, marks_images
        is_ours = isinstance(dataset, Dataset)
        self._chain = Compose._wrap(dataset.transform if is_ours else None)
        self._native = dataset._native if is_ours else PythonSource(dataset)
        source = self._native.source if isinstance(self._native, PythonSource) else None
        self._fetches_batches = source is not None and not self._chain._steps and fetches_batches(source)

    def __getitem__(self, key: SampleKey) -> Any:
        with _seeds_of_caller():
            return self._read(key)

    def __getitems__(self, keys: Sequence[SampleKey]) -> Any:
        with _seeds_of_caller():
            if not self._fetches_batches or self._marks_images:
                return [self._read(key) for key in keys]
            assert isinstance(self._native, PythonSource)
            if keys:
                seed_all(_seed(keys[0]))
            return fetched(self._native.source, [key.sample for key in keys])

    def _read(self, key: SampleKey) -> Any:
        if not isinstance(self._native, PythonSource):
            return self._marked(keyed_native_sample(self._native, self._chain, key), self._native.are_images())
        seed_all(_seed(key))
        if not self._chain._steps:
            return self._marked(item(self._native.source, key.sample), [])
        return self._marked(*keyed_python_sample(self._native.source, self._chain, key))

    def _marked(self, sample: Any, are_images: list[bool]) -> Any:
        return (sample, are_images) if self._marks_images else sample


def _seed(key: SampleKey) -> int:
    # Keys of custom data sets may be of any type. They share one seed for each occurrence.
    sample = key.sample if isinstance(key.sample, int) and key.sample >= 0 else 0
    return _native.python_seed(key.seed, key.epoch, sample, key.occurrence)


@contextmanager
def _seeds_of_caller() -> Iterator[None]:
    """Restores the generators that seed_all() seeds, if samples are read in the process of the training loop."""
    states = host_states() if get_worker_info() is None else None
    try:
        yield
    finally:
        if states is not None:
            set_host_states(states)


def collate_samples(marked: Sequence[tuple[Any, list[bool]]]) -> Any:
    """Makes the same batch as the native loader. marked: results of a KeyedDataset with marks_images."""
    samples = [Sample(value, False) for value, _ in marked]
    (value, are_images), first = marked[0], samples[0]
    for sample in samples:
        if sample.form != first.form:
            raise Unfit(
                f"a sample is {sample.form}, but the first one of its batch is {first.form}: give all samples the "
                "same structure, types and shapes, or give the loader a collate_fn"
            )
    tensors = [torch.stack(field) for field in zip(*(sample.tensors for sample in samples), strict=True)]
    for i, leaf in enumerate(first.leaves):
        if leaf.is_image:
            tensors[i] = tensors[i].permute(0, 3, 1, 2)
        elif are_images and are_images[i]:
            tensors[i] = tensors[i].contiguous(memory_format=torch.channels_last)
    packed = []
    if any(first.is_text):
        packed = [sample.packed_texts().numpy().tobytes() for sample in samples]
    return make_template(value, first).build(tuple(tensors), packed)


class InitOnCpus:
    """Moves a worker process to `cpus`, and then calls the user's worker_init_fn."""

    def __init__(self, cpus: Sequence[int], function: Callable[[int], None] | None) -> None:
        self._cpus, self._function = cpus, function

    def __call__(self, number: int) -> None:
        os.sched_setaffinity(0, self._cpus)
        if self._function is not None:
            self._function(number)


class InitWorker:
    """Calls the user's worker_init_fn. In it, get_worker_info().dataset is the user's data set."""

    def __init__(self, function: Callable[[int], None] | None) -> None:
        self._function = function

    def __call__(self, number: int) -> None:
        info: Any = get_worker_info()
        if isinstance(info.dataset, KeyedDataset):
            native = info.dataset._native
            dataset = native.source if isinstance(native, PythonSource) else info.dataset.dataset
            object.__setattr__(info, "dataset", dataset)  # its class refuses assignments
        if self._function is not None:
            self._function(number)


class _BatchSampler:
    """Gives torch.utils.data.DataLoader the batches of the iteration that begins."""

    def __init__(self, gives_single: bool) -> None:
        self._gives_single = gives_single
        self.run: Run | None = None

    def __iter__(self) -> Iterator[Any]:
        assert self.run is not None
        batches = self.run.batches()
        return (batch[0] for batch in batches) if self._gives_single else iter(batches)


class PythonReading:
    """The batches of one iteration."""

    def __init__(self, loader: torch.utils.data.DataLoader[Any], release: Callable[[], None]) -> None:
        self.source, self.ready = make_source(loader, None)
        self._release = release

    def refill(self, given: int) -> None:
        """Called before each batch. PyTorch's loader takes indices from the sampler itself."""

    def close(self) -> None:
        self._release()


class PythonLoading:
    """Creates the PyTorch loaders that a slipstream.DataLoader uses.

    options: arguments for torch.utils.data.DataLoader.
    is_batched: whether samples are collated; otherwise each sample is a batch."""

    def __init__(self, dataset: Any, options: dict[str, Any], is_batched: bool) -> None:
        self._is_stream = isinstance(dataset, torch.utils.data.IterableDataset)
        marks_images = options["collate_fn"] is collate_samples
        self._dataset = dataset if self._is_stream else KeyedDataset(dataset, marks_images)
        self._options, self._is_batched = options, is_batched
        self._generator = torch.Generator()
        self._sampler = _BatchSampler(gives_single=not is_batched)
        self._loader = self._make()
        self._is_used = False

    def _make(self) -> torch.utils.data.DataLoader[Any]:
        options = dict(self._options)
        if not self._is_stream:
            for name in ("batch_size", "drop_last"):
                options.pop(name)
            options |= (
                {"batch_sampler": self._sampler}
                if self._is_batched
                else {"batch_size": None, "sampler": self._sampler}
            )
        return torch.utils.data.DataLoader(self._dataset, generator=self._generator, **options)

    def length(self) -> int:
        """Returns the number of batches of an iterable-style data set. Raises TypeError if it has no len()."""
        return len(self._loader)

    def begin(self, run: Run, seed: int) -> PythonReading:
        # A PyTorch loader with persistent workers serves one iteration at a time. The flag is read and written without a
        # call in between, because another thread may begin an iteration at the same time.
        was_used, self._is_used = self._is_used, True
        loader = self._make() if was_used else self._loader
        if isinstance(self._dataset, KeyedDataset) and isinstance(self._dataset.dataset, Dataset):
            self._dataset.dataset._take_attributes()
        self._sampler.run = run
        # PyTorch samples the seed of its worker processes from this generator, not from the one of the program.
        self._generator.manual_seed(_native.python_seed(seed, run.first_number >> 32, 0, 0) >> (64 - _SEED_BITS))
        try:
            return PythonReading(loader, lambda: self._release(loader))
        except BaseException:
            self._release(loader)
            raise

    def _release(self, loader: torch.utils.data.DataLoader[Any]) -> None:
        if loader is self._loader:
            self._is_used = False
