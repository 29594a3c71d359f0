"""Loads the samples that are not cached, with a second loader over the data set of the user's loader."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import torch
from torch.utils.data import get_worker_info

from . import _native
from ._blocks import contextmanager
from ._feature_checks import CheckedCollate
from ._fetching import fetched, fetches_batches, item
from ._iteration import RUN_AHEAD
from ._loader_iteration import LoaderIteration
from ._order import Run
from ._python_loading import InitWorker
from ._random_states import host_states, random_states, seed_all, set_host_states
from ._sources import _length, make_source
from .data import DataLoader

_CHECKED_READS = 4  # samples in each process whose reading must not use a random generator


class VersionedDataset(torch.utils.data.Dataset[Any]):
    """Reads samples of the user's data set for a version of the cache. The default random generators are seeded before
    each sample, so that a version of a sample is the same in each process and at each time.

    allows_random: whether reading may use the random generators."""

    def __init__(self, dataset: Any, seed: int, allows_random: bool) -> None:
        self.dataset, self._seed = dataset, seed
        self._unchecked = 0 if allows_random else _CHECKED_READS

    def __getitem__(self, key: tuple[int, int]) -> Any:
        with _seeds_of_caller():
            return self._read([key])[0]

    def __getitems__(self, keys: Sequence[tuple[int, int]]) -> Any:
        with _seeds_of_caller():
            if fetches_batches(self.dataset):
                return self._read(keys)
            return [self._read([key])[0] for key in keys]

    def _read(self, keys: Sequence[tuple[int, int]]) -> Any:
        index, version = keys[0]
        seed_all(_native.python_seed(self._seed, version, index if index >= 0 else 0, 0))
        before = random_states() if self._unchecked > 0 else None
        if fetches_batches(self.dataset):
            samples = fetched(self.dataset, [index for index, _ in keys])
        else:
            samples = [item(self.dataset, index)]
        if before is not None:
            self._unchecked -= 1
            if random_states() != before:
                raise _native.Refused(RANDOM.format(what="reading a sample uses a random generator"))
        return samples


RANDOM = (
    "{what}, but the feature cache keeps one version of each sample, so all epochs would use the same random numbers. "
    "Remedy: ss.FeatureCache(versions=4) keeps 4 versions of each sample; or leave random transforms out, or apply "
    "them in a stage after the cached one"
)


@contextmanager
def _seeds_of_caller() -> Iterator[None]:
    """Restores the generators that are seeded, if samples are read in the process of the training loop."""
    states = host_states() if get_worker_info() is None else None
    try:
        yield
    finally:
        if states is not None:
            set_host_states(states)


class _Listing:
    """The batch sampler of the loader that loads missing samples: gives the batches of the iteration that begins."""

    def __init__(self, batch_size: int) -> None:
        self.batch_size = batch_size
        self.batches: Iterator[Any] = iter(())

    def __iter__(self) -> Iterator[Any]:
        return self.batches


class Batches(Protocol):
    """Batches of missing samples."""

    def __next__(self) -> Any: ...
    def ready(self) -> bool: ...
    def close(self) -> None: ...


class Loading(Protocol):
    """Lists and loads samples of the user's loader."""

    def release_loader(self) -> None:
        """Called when all samples are cached: releases the workers that have loaded them."""
        ...

    def list_epoch(self, epoch: int) -> tuple[Iterator[list[Any]], int]:
        """Begins an epoch of the user's loader, with the random numbers that a plain loop uses. Returns the indices of
        each batch, and the epoch, which is `epoch` unless the loader counts epochs itself."""
        ...

    # Whether a plain loop lists batches when its iterator is created, so that its sampler samples a seed then.
    lists_at_once: bool

    def length(self) -> int | None:
        """Returns the number of batches that are left of the epoch, or None if it is not known."""
        ...

    def load(self, batches: Iterator[list[int]], version: int) -> Batches:
        """Returns the batches with these samples."""
        ...


class TorchBatches:
    """Batches of missing samples from a torch.utils.data.DataLoader."""

    def __init__(self, loader: torch.utils.data.DataLoader[Any], release: Callable[[], None]) -> None:
        self._batches, self._ready = make_source(loader, None)
        self._release = release

    def __next__(self) -> Any:
        return next(self._batches)

    def ready(self) -> bool:
        return self._ready is None or self._ready()

    def close(self) -> None:
        self._batches = iter(())
        self._release()


class TorchLoading:
    """Loads the samples of a torch.utils.data.DataLoader with another one, which has the same workers.

    size: number of samples in each batch that is computed.
    seed: seed of the random numbers of all versions."""

    def __init__(self, loader: torch.utils.data.DataLoader[Any], size: int, seed: int, allows_random: bool) -> None:
        self._loader, self._size = loader, size
        self._dataset = VersionedDataset(loader.dataset, seed, allows_random)
        self._own: tuple[torch.utils.data.DataLoader[Any], _Listing] | None = None
        self._is_used = self._has_begun = False
        self.lists_at_once = loader.num_workers > 0

    def release_loader(self) -> None:
        if not self._is_used:
            self._own = None

    def list_epoch(self, epoch: int) -> tuple[Iterator[list[Any]], int]:
        loader = self._loader
        batches = iter(loader._index_sampler)
        # PyTorch's iterator samples the seed of its workers after it creates the sampler's iterator. Persistent workers
        # keep their seed.
        if not (self._has_begun and loader.persistent_workers):
            torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
        self._has_begun = True
        return (list(batch) for batch in batches), epoch

    def length(self) -> int | None:
        return _length(self._loader)

    def load(self, batches: Iterator[list[int]], version: int) -> Batches:
        # A loader with persistent workers serves one iteration at a time.
        was_used, self._is_used = self._is_used, True
        if was_used or self._own is None:
            made = self._make()
            self._own = self._own or made
        loader, listing = made if was_used else self._own
        listing.batches = ([(index, version) for index in batch] for batch in batches)
        return TorchBatches(loader, lambda: self._release(loader))

    def _release(self, loader: Any) -> None:
        if self._own is not None and loader is self._own[0]:
            self._is_used = False

    def _make(self) -> tuple[torch.utils.data.DataLoader[Any], _Listing]:
        loader, listing = self._loader, _Listing(self._size)
        options: dict[str, Any] = {}
        if loader.num_workers > 0:
            options = {
                "prefetch_factor": loader.prefetch_factor,
                "persistent_workers": loader.persistent_workers,
                "multiprocessing_context": loader.multiprocessing_context,
            }
        made = torch.utils.data.DataLoader(
            self._dataset,
            batch_sampler=listing,
            num_workers=loader.num_workers,
            collate_fn=CheckedCollate(loader.collate_fn),
            pin_memory=loader.pin_memory,
            timeout=loader.timeout,
            worker_init_fn=_InitWorker(loader.worker_init_fn),
            generator=torch.Generator(),  # the seed of the workers, which the samples do not use
            **options,
        )
        return made, listing


class _InitWorker(InitWorker):
    """Calls the user's worker_init_fn. In it, get_worker_info().dataset is the user's data set."""

    def __call__(self, number: int) -> None:
        info: Any = get_worker_info()
        object.__setattr__(info, "dataset", info.dataset.dataset)
        super().__call__(number)


class _NativeBatches:
    def __init__(self, iteration: Iterator[Any]) -> None:
        self._iteration: Any = iteration

    def __next__(self) -> Any:
        return next(self._iteration)

    def ready(self) -> bool:
        return True

    def close(self) -> None:
        self._iteration.close()


class NativeLoading:
    """Loads the samples of a slipstream.DataLoader with another one.

    make: creates it for a batch sampler."""

    lists_at_once = False

    def __init__(self, loader: DataLoader, size: int, make: Callable[[Any], DataLoader]) -> None:
        self._loader, self._size, self._make = loader, size, make
        self._own: tuple[DataLoader, _Listing] | None = None
        self.run: Run | None = None

    def release_loader(self) -> None:
        self._own = None

    def list_epoch(self, epoch: int) -> tuple[Iterator[list[Any]], int]:
        self.run = self._loader._order.begin()
        return ([key.sample for key in batch] for batch in self.run.batches()), self.run.first_number >> 32

    def length(self) -> int | None:
        try:
            assert self.run is not None
            return len(self._loader) - self.run.first_number % (1 << 32)
        except (TypeError, NotImplementedError):  # a sampler without a length
            return None

    def load(self, batches: Iterator[list[int]], version: int) -> Batches:
        if self._own is None:
            listing = _Listing(self._size)
            self._own = self._make(listing), listing
        loader, listing = self._own
        listing.batches = batches
        loader._order.set_epoch(version)
        parts = (loader._begin_reading, lambda run: None, lambda: None)
        return _NativeBatches(LoaderIteration(*parts, (), loader.device, RUN_AHEAD, "pipelined").iterator())
