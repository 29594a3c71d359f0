"""The batches of a pipeline with a feature cache, as its stages get them: lists the batches of the user's loader, and
takes those samples from the second loader that are not cached."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from . import _native
from ._checks import shortened, to_index
from ._feature_loading import Batches, Loading
from ._feature_stages import CachedWork, FeatureRun, Item
from ._sources import _RaisedError, _UntilLength

_LOOKED_AHEAD = 64  # batches without missing samples that are listed before one sample is loaded in any case
_READ_AHEAD = 8  # batches whose rows are read from disk in advance


class FeatureSource(Iterator[Item]):
    """The batches of one iteration, as the stages get them.

    epoch: the epoch, unless the loader counts epochs itself.
    versions: number of versions of each sample. samples: number of samples of the data set."""

    def __init__(self, loading: Loading, run: FeatureRun, epoch: int, versions: int, samples: int) -> None:
        self._loading, self._run, self._entries = loading, run, run.entries
        self._order, epoch = loading.list_epoch(epoch)
        self._version = epoch % versions
        self._first, self._samples = self._version * samples, samples
        self._works: collections.deque[CachedWork] = collections.deque()
        self._loaded: collections.deque[Any] = collections.deque()
        self._promised: set[int] = set()
        self._batches: Batches | None = None
        self._to_load: collections.deque[list[int]] = collections.deque()
        self._without = 0  # batches without missing samples since the last batch that is loaded
        self._is_listed = False  # whether all batches are listed
        self._sampler_error: Exception | None = None
        self._has_loader = False
        if loading.lists_at_once:
            with contextlib.suppress(StopIteration):
                self._list_next()

    def _list_next(self) -> None:
        """Lists the next batch. If many batches in a row need no sample, one sample is loaded in any case, so that a
        loader that asks for its next batch does not list the whole epoch at once."""
        try:
            samples = self._checked([to_index(sample, -1) for sample in next(self._order)])
        except StopIteration:
            self._is_listed = True
            raise
        except Exception as error:
            # The loop gets the batches before it first. Then the iteration ends, as that of a plain loop.
            self._is_listed, self._sampler_error, self._order = True, error, iter(())
            raise StopIteration from None
        work = CachedWork(self._run, [self._first + sample for sample in samples])
        self._entries.plan(work, self._promised)
        self._without = 0 if work.computed else self._without + 1
        self._works.append(work)
        if work.computed or (self._has_loader and self._without == _LOOKED_AHEAD):
            self._without, work.is_loaded = 0, True
            self._to_load.append([entry - self._first for entry in work.computed or work.entries[:1]])
            if not self._has_loader:
                self._has_loader = True  # before the loader lists batches, which calls this method
                self._batches = self._loading.load(self._list_missing(), self._version)

    def _checked(self, samples: list[int]) -> list[int]:
        """Returns the samples of a batch. Raises Refused if the data set does not have them."""
        if not samples or not 0 <= min(samples) <= max(samples) < self._samples:
            raise _native.Refused(
                f"the sampler gives the batch {shortened(samples)}, but the data set has {self._samples} samples: a "
                "feature cache needs indices of samples, counted from 0"
            )
        return samples

    def _list_missing(self) -> Iterator[list[int]]:
        """Yields the samples to load."""
        while True:
            while not self._to_load:
                try:
                    self._list_next()
                except StopIteration:
                    return
            yield self._to_load.popleft()

    def _list_ahead(self) -> None:
        """Lists batches in advance, so that their rows are read from disk in time."""
        while self._entries.folder is not None and not self._is_listed and len(self._works) < _READ_AHEAD:
            with contextlib.suppress(StopIteration):
                self._list_next()

    def __next__(self) -> Item:
        self._list_ahead()
        if not self._works:
            try:
                self._advance()
            except StopIteration:
                error, self._sampler_error = self._sampler_error, None
                if error is not None:
                    raise error from None
                raise
        work = self._works.popleft()
        batches: list[Any] = []
        if work.is_loaded:
            loaded = self._loaded.popleft() if self._loaded else self._take()
            if isinstance(loaded, _RaisedError):
                self._promised.difference_update(work.computed)
                raise loaded.error
            if work.computed:
                batches, work.parts = [loaded], [len(work.computed)]
        records, damaged = self._entries.finish_reading(work)
        if damaged:
            batches.append(self._load_now(damaged))
            work.computed += damaged
            work.parts.append(len(damaged))
            self._entries.misses += len(damaged)
            self._entries.hits -= len(damaged)
        return batches, self._entries.index(work), records, work

    def _load_now(self, entries: list[int]) -> Any:
        """Loads samples that have to be computed because their records on disk are damaged."""
        batches = self._loading.load(iter([[entry - self._first for entry in entries]]), self._version)
        try:
            return next(batches)
        finally:
            batches.close()

    def _advance(self) -> None:
        """Lists at least one more batch. Raises StopIteration at the end of the epoch."""
        if self._batches is None:
            self._list_next()
            return
        try:
            self._loaded.append(self._take())
        except StopIteration:
            self.close()
            if not self._works:
                raise

    def _take(self) -> Any:
        assert self._batches is not None
        try:
            return next(self._batches)
        except StopIteration:
            raise
        except Exception as error:
            return _RaisedError(error)

    def ready(self) -> bool:
        """Returns true if the next batch can be taken without waiting for a loader."""
        if self._loaded or self._batches is None or (self._works and not self._works[0].is_loaded):
            return True
        return self._batches.ready()

    def until_length(self) -> tuple[Iterator[Item], Callable[[], bool]]:
        """Returns an iterator over the same batches and its ready(), which returns false after the last batch, so that
        the end is not requested in advance."""
        length = self._loading.length()
        if length is None:
            return self, self.ready
        limited = _UntilLength(self, length, self.ready)
        return limited, limited.ready

    def close(self) -> None:
        batches, self._batches = self._batches, None
        if batches is not None:
            batches.close()

    def __del__(self) -> None:
        if "_batches" in self.__dict__:
            self.close()
