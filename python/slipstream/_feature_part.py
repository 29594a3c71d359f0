"""The part of a slipstream.Pipeline up to a stage with a feature cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.data import IterableDataset

from . import _native
from ._checks import to_index
from ._feature_cache import FeatureCache
from ._feature_checks import CheckedCollate
from ._feature_entries import Entries
from ._feature_key import (
    DatasetIdentity,
    NeedsKey,
    changed_parts,
    describe_collate,
    describe_decoding,
    describe_settings,
    describe_stage,
    identify,
    module_digest,
    number_digest,
    to_text,
    weight_versions,
)
from ._feature_loading import RANDOM, Loading, NativeLoading, TorchLoading
from ._feature_owners import refuse_other_data
from ._feature_random import find_mixing, find_random, find_varying
from ._feature_source import FeatureSource
from ._feature_stages import FeatureRun, current_modes, make_stages
from ._order import Run, StreamOrder
from ._stages import Stage, first_module
from .data import DataLoader, refuse_own_iteration

_REPEATED_STATS = 100_000  # files whose sizes and times are read again in each epoch; for more files, only in the first
_LOADERS = (
    "a feature cache needs the indices of samples: give a torch.utils.data.DataLoader over a map-style data set, or a "
    "slipstream.DataLoader"
)


class CachedReading:
    """One iteration over a slipstream.DataLoader with a feature cache. LoaderIteration uses it like a reading."""

    def __init__(self, source: FeatureSource) -> None:
        self._features = source
        self.source, self.ready = source.until_length()

    def refill(self, given: int) -> None:
        """Called before each batch. The source lists samples itself."""

    def close(self) -> None:
        self._features.close()


class CachedPart:
    """Lists the samples of a loader, loads those that are not cached, and computes them.

    stages: those of the pipeline, one of which has a cache.
    lane_stages: the stages that the lanes of the pipeline call in their place."""

    def __init__(self, loader: Any, stages: Sequence[Stage], device: str, cached: int) -> None:
        self._loader, self._device = loader, device
        self._computing = list(stages[: cached + 1])
        cache = stages[cached].cache
        assert isinstance(cache, FeatureCache)
        self.cache = cache
        self._name = stages[cached].name
        _refuse_loader(loader)
        self._refuse_stages()
        self._refuse_random()
        self.lane_stages = make_stages(list(stages), cached, device)
        self._size = _batch_size(loader)
        self._samples = len(loader.dataset)
        self._loading: Loading | None = None
        self._weights: list[tuple[Any, str]] = [((), "")] * len(self._computing)
        self._parts: dict[str, Any] = {}
        self._entries: Entries | None = None
        self._digests: Sequence[int] = ()
        self._identity = self._identify()
        # Rows in memory are found by the positions of samples, so pipelines share them only if all samples are equal.
        self._selection = number_digest(*self._identity.samples)

    def _refuse_stages(self) -> None:
        for stage in self._computing:
            if stage.seed is not None:
                raise _native.Refused(
                    f"stage '{stage.name}' has a seed, so its result differs in each epoch and cannot be cached: give "
                    "the cache to the stage before it, or leave the seed out"
                )
            module = first_module(stage.function)
            for each in module.modules() if module is not None else ():
                if isinstance(each, torch.nn.modules.batchnorm._NormBase) and getattr(each, "training", False):
                    raise _native.Refused(
                        f"stage '{stage.name}' has a {type(each).__name__} in training mode, so a row depends on its "
                        "whole batch and cannot be cached: call eval() on it"
                    )
            function: Any = stage.function
            if stage._takes_number() and function._native_chain().is_random():
                raise _native.Refused(
                    f"stage '{stage.name}' is a random transform, so its result cannot be cached: give it to the data "
                    "set, with ss.FeatureCache(versions=4), or make it a stage after the cached one"
                )

    def _refuse_random(self) -> None:
        if name := find_mixing(self._loader.dataset):
            raise _native.Refused(
                f"{name} mixes the samples of a batch, so a single sample cannot be cached: leave it out of the data "
                "set, and mix in a stage after the cached one"
            )
        if self.cache.versions == 1 and (name := find_random(self._loader.dataset)):
            raise _native.Refused(RANDOM.format(what=f"the data set has the random transform {name}"))
        if self.cache.versions == 1 and (what := find_varying(self._loader.dataset)):
            raise _native.Refused(what)

    def _identify(self) -> DatasetIdentity:
        """Returns the identity of the data set. Raises Refused if the key of the cache cannot be made."""
        key = self.cache.key
        try:
            for stage in self._computing:
                describe_stage(stage, key)
            describe_collate(self._loader.collate_fn, key)
            return identify(self._loader.dataset, key)
        except NeedsKey as reason:
            raise _native.Refused(
                f"the feature cache of stage '{self._name}' needs a key: {reason}. Remedy: "
                f"cache=ss.FeatureCache(key=\"...\"), with a text that you change when the stage or the data change"
            ) from None

    def begin(self, epoch: int) -> FeatureSource:
        """Begins an iteration over an epoch."""
        loading = self._loading = self._loading or self._make_loading()
        entries = self._current_entries()
        entries.begin_epoch(self._digests)
        if entries.stored == entries.count:
            loading.release_loader()
        run = FeatureRun(entries, self._size, self.cache.dtype, current_modes(self._device))
        return FeatureSource(loading, run, epoch, self.cache.versions, self._samples)

    def begin_reading(self, ahead: int) -> tuple[Run, CachedReading]:
        """Begins an iteration over a slipstream.DataLoader."""
        loader: DataLoader = self._loader
        source = self.begin(loader.epoch)
        assert isinstance(self._loading, NativeLoading) and self._loading.run is not None
        return self._loading.run, CachedReading(source)

    def _make_loading(self) -> Loading:
        cache, loader = self.cache, self._loader
        if isinstance(loader, DataLoader):
            return NativeLoading(loader, self._size, self._listing)
        return TorchLoading(loader, self._size, cache.seed, cache.versions > 1)

    def _listing(self, batch_sampler: Any) -> DataLoader:
        loader: DataLoader = self._loader
        collate = loader.collate_fn
        return loader._listing(batch_sampler, self.cache.seed, None if collate is None else CheckedCollate(collate))

    def _current_entries(self) -> Entries:
        """Returns the entries for the present key. Entries of another key that this pipeline used are dropped."""
        if self._identity.files is None or len(self._loader.dataset) <= _REPEATED_STATS:
            self._identity = self._identify()
            self._refuse_random()
        if len(self._identity.samples) != self._samples:
            self._samples, self._digests = len(self._identity.samples), ()
            self._selection = number_digest(*self._identity.samples)
        before, self._parts = self._parts, self._key_parts()
        refuse_other_data(self.cache._owners, self.cache.folder, to_text(self._parts), self._identity.keyed)
        entries = self.cache._entries_for(
            to_text(self._parts), self._selection, self._samples * self.cache.versions, torch.device(self._device)
        )
        if self._entries is not None and self._entries is not entries:
            parts = changed_parts(before, self._parts) or ["number of samples"]
            self.cache._drop(self._entries, f"changed: {', '.join(parts)}")
            self._release_loader()
        self._entries = entries
        self._drop_changed_samples(entries)
        return entries

    def _release_loader(self) -> None:
        """Makes later iterations load samples with the present data set and collate_fn of the user's loader."""
        if self._loading is not None:
            self._loading.release_loader()

    def _key_parts(self) -> dict[str, Any]:
        parts = describe_settings(self._device) | {
            "batch size": self._size,
            "versions": self.cache.versions,
            "seed": self.cache.seed if self.cache.versions > 1 else 0,
            "storage dtype": str(self.cache.dtype),
            "key": self.cache.key,
            "autocast": current_modes(self._device),
            "data set": self._identity.common,
            "decoding": describe_decoding(self._loader) if isinstance(self._loader, DataLoader) else None,
            "collate_fn": describe_collate(self._loader.collate_fn, self.cache.key),
        }
        for number, stage in enumerate(self._computing):
            parts[f"stage '{stage.name}'"] = describe_stage(stage, self.cache.key)
            parts[f"weights of stage '{stage.name}'"] = self._weight_digest(number, stage)
        return parts

    def _weight_digest(self, number: int, stage: Stage) -> str:
        """Returns the digest of a stage's weights. It is computed again only if they may have changed."""
        module = first_module(stage.function)
        versions, known = weight_versions(module), self._weights[number]
        if module is None or (known[1] and known[0] == versions):
            return known[1]
        self._weights[number] = versions, module_digest(module)
        return self._weights[number][1]

    def _drop_changed_samples(self, entries: Entries) -> None:
        """Drops the entries of samples that have changed since their rows were computed."""
        identity = self._identity
        before, self._digests = entries.digests, identity.samples
        changed = [i for i, (old, new) in enumerate(zip(before, self._digests, strict=False)) if old != new]
        if changed:
            entries.forget([i + version * self._samples for i in changed for version in range(self.cache.versions)])
            self._release_loader()
            self.cache._changes.append(f"changed samples of the data set: {len(changed)}")


def _batch_size(loader: Any) -> int:
    """Returns the number of samples in the batches that are computed: the loader's batch size."""
    size = to_index(loader.batch_size) or to_index(getattr(loader.batch_sampler, "batch_size", None))
    if size is None:
        raise _native.Refused(
            "a feature cache computes missing samples in batches of one size, but the loader's batch sampler has no "
            "attribute batch_size: set it to the usual size of a batch"
        )
    return int(size)


def _refuse_loader(loader: Any) -> None:
    if isinstance(loader, DataLoader):
        refuse_own_iteration(loader, "a slipstream.Pipeline")
        if isinstance(loader._order, StreamOrder) or (loader.batch_size is None and loader.batch_sampler is None):
            raise _native.Refused(f"the loader's data set is iterable-style, or batch_size is None, but {_LOADERS}")
        if loader._skips:
            raise _native.Refused(
                "on_bad_sample='skip' replaces samples, which a feature cache keeps by their indices: give "
                "on_bad_sample='stop', and leave bad samples out of the data set"
            )
        return
    is_known = isinstance(loader, torch.utils.data.DataLoader)
    if not is_known or type(loader).__iter__ is not torch.utils.data.DataLoader.__iter__:
        raise _native.Refused(f"the loader is a {type(loader).__name__}, but {_LOADERS}")
    if hasattr(loader, "state_dict"):
        raise _native.Refused(
            f"the loader is a {type(loader).__name__} with a state_dict(), which would not see the iterations of a "
            "feature cache: give an ss.DataLoader, which has a state, or a torch.utils.data.DataLoader"
        )
    if isinstance(loader.dataset, IterableDataset) or not hasattr(loader.dataset, "__len__"):
        raise _native.Refused(f"the loader's data set has no indices of samples, but {_LOADERS}")
    if loader.batch_sampler is None:
        raise _native.Refused("the loader has batch_size=None, but a feature cache needs batches: give a batch_size")


def find_cached(stages: Sequence[Stage]) -> int | None:
    """Returns the index of the stage with a cache, or None. Raises Refused if there are several."""
    cached = [number for number, stage in enumerate(stages) if stage.cache is not None]
    if len(cached) > 1:
        names = " and ".join(f"'{stages[number].name}'" for number in cached)
        raise _native.Refused(
            f"the stages {names} have a cache, but one is sufficient: give it only to the last of them, which also "
            "caches the work of the stages before it"
        )
    return cached[0] if cached else None
