"""Loads the batches of a slipstream.DataLoader with native threads."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from multiprocessing.context import BaseContext
from typing import Any

from . import _native
from ._checks import shortened
from ._moves import fitting, refuse_moving_images_alone, refuse_moving_with
from ._order import ComputedOrder, ComputedRun, ListedRun, Order, SampleKey
from ._steps import refuse_samples_in_python
from ._worker_process import Job
from ._workers import Workers
from .datasets import Dataset, PythonSource
from .transforms import Compose


Indices = list[tuple[int, int]]  # index and occurrence of each sample of a batch


class NativeReading:
    """The batches of one iteration, from a native loader."""

    ready = None

    def __init__(self, source: _native.Loader, release: Callable[[_native.Loader], None]) -> None:
        self.source, self._release = source, release

    def refill(self, given: int) -> None:
        """Called before each batch, so that subclasses can pass further batches to the loader. This class has nothing
        to pass.

        given: number of batches that next() has returned."""

    def close(self) -> None:
        self._release(self.source)


class ListedReading(NativeReading):
    """The batches that a sampler lists. They are passed to the native loader before its threads need them."""

    def __init__(
        self,
        source: _native.Loader,
        release: Callable[[_native.Loader], None],
        run: ListedRun,
        ahead: int,
    ) -> None:
        super().__init__(source, release)
        self._batches, self._first_number = run.batches(), run.first_number
        self._ahead, self._pass = ahead, source.passes()
        self._count = 0
        self._waiting: Indices | None = None  # a batch for which the loader has no memory yet
        self._error: BaseException | None = None
        self._has_ended = False

    def refill(self, given: int) -> None:
        while not self._has_ended and self._count < given + self._ahead:
            if self._waiting is None and not self._list_next():
                break
            assert self._waiting is not None
            if not self.source.add_batch(self._pass, self._first_number + self._count, self._waiting):
                break
            self._waiting = None
            self._count += 1
        if self._error is not None and given >= self._count:
            error, self._error = self._error, None
            raise error

    def _list_next(self) -> bool:
        try:
            self._waiting = to_indices(next(self._batches))
            return True
        except StopIteration:
            pass
        except Exception as error:
            self._error = error  # raised when the loop has the batches before it
        self._has_ended = True
        self.source.end_epoch(self._pass)
        return False


def to_indices(keys: Iterable[SampleKey]) -> Indices:
    """Returns index and occurrence of each sample of a batch. Raises Refused if there is no sample, and for samples
    that are not indices."""
    indices = [(_index(key.sample), key.occurrence) for key in keys]
    if not indices:
        raise _native.Refused("the batch sampler gives a batch without samples")
    return indices


def _index(sample: Any) -> int:
    try:
        index = operator.index(sample)
    except TypeError:
        index = -1
    if index < 0:
        raise _native.Refused(f"the sampler gives {shortened(sample)}: it must give indices of samples, counted from 0")
    return index


def _configuration(order: Order, seed: int | None = None) -> tuple[int, int, int, int]:
    """Returns batch size, rank, world size and seed. A batch size of 0 means that it stays as it is. The default seed
    is that of the order."""
    if seed is None:
        seed = order.seed()
    return (order.batch_size, *order.ranks, seed) if isinstance(order, ComputedOrder) else (0, 0, 1, seed)


class NativeLoading:
    """Creates the native loader of a slipstream.DataLoader, and another one for each further iteration that is in
    use at the same time.

    native: what is read, the native part of `dataset` or a cache of it.
    settings: has everything except what is known from the order, the data set and the transforms."""

    def __init__(
        self,
        dataset: Dataset,
        native: _native.Dataset | PythonSource,
        chain: Compose,
        settings: _native.LoaderSettings,
        context: BaseContext,
        init: Callable[[int], None] | None,
    ) -> None:
        self.dataset, self._source = dataset, native
        self._workers: Workers | None = None
        self._configuration = (settings.batch_size, *settings.rank, settings.seed)
        self._is_used = False
        self._ahead = settings.prefetch_batches
        try:
            self.native = _native.Loader(self._read_by(settings, chain, context, init), settings)
        except BaseException:
            if self._workers is not None:
                self._workers.close()
            raise

    def _read_by(
        self,
        settings: _native.LoaderSettings,
        chain: Compose,
        context: BaseContext,
        init: Callable[[int], None] | None,
    ) -> _native.Dataset:
        """Returns the native data set to read. Starts worker processes if the data set or a transform is in Python."""
        native, runs = self._source, chain._runs()
        source = native.source if isinstance(native, PythonSource) else None
        if source is None and not runs:
            assert isinstance(native, _native.Dataset)
            return native
        if len(native) == 0:
            raise _native.Refused("the data set is empty")
        if source is not None:
            refuse_samples_in_python(chain._steps)
        steps = [functions for _, _, functions in runs]
        functions = [each for step in steps for each in step]
        if isinstance(native, _native.Dataset):
            refuse_moving_images_alone(native.moved_fields(), functions)
        job = Job(source, steps, bool(chain._steps), init, settings.num_workers, settings.seed)
        self._workers = Workers(job, context)
        settings.pool = self._workers.pool
        if isinstance(native, _native.Dataset):
            settings.python_steps = [(place, name, bool(native.moved_fields())) for place, name, _ in runs]
            return native
        form, template = self._workers.describe(len(native), settings.skips_bad_samples)
        beside = fitting(template.leaves)
        refuse_moving_with(beside, settings.transforms, functions)
        settings.python_steps = [(place, name, bool(beside)) for place, name, _ in runs]
        leaves = [(leaf.name, leaf.is_image, leaf.dtype, leaf.shape) for leaf in template.leaves]
        settings.leaves = [None if is_image else (dtype, shape) for _, is_image, dtype, shape in leaves]
        settings.build = template.build
        has_texts = any(template.is_text)
        return _native.process_dataset(self._workers.pool, len(native), form, leaves, has_texts)

    @property
    def has_processes(self) -> bool:
        """Whether worker processes run a data set or transforms in Python."""
        return self._workers is not None

    def close(self) -> None:
        """Ends the threads and the worker processes. The loading cannot be used afterwards."""
        self.native.halt()
        if self._workers is not None:
            self._workers.close()

    def configure(self, order: Order, samples_seed: bool = True) -> None:
        """Applies the ranks and the seed of the order to the native loader, for its next iteration. samples_seed:
        whether to sample the seed if it is not known; otherwise the native loader keeps the one that it has."""
        configuration = _configuration(order, None if samples_seed else self._configuration[-1])
        if configuration != self._configuration:
            self.native.configure(*configuration)
            self._configuration = configuration

    def revive_workers(self) -> None:
        if self._workers is not None:
            self.dataset._take_attributes()
            self._workers.revive(self.native.halt)

    def begin(self, run: ComputedRun | ListedRun, order: Order, ahead: int) -> NativeReading:
        """Begins an iteration. ahead: number of batches that the loop may take in advance."""
        # One statement without a call, so that the interpreter does not switch to another thread that begins an
        # iteration between the read and the write.
        was_used, self._is_used = self._is_used, True
        native = self.native.copy() if was_used else self.native
        try:
            if was_used:
                native.configure(*_configuration(order))
            else:
                self.revive_workers()
                self.configure(order)
            if isinstance(run, ComputedRun):
                native.seek(run.first)
                return NativeReading(native, self._release)
            native.begin_epoch()
            return ListedReading(native, self._release, run, self._ahead + ahead)
        except BaseException:
            self._release(native)
            raise

    def _release(self, native: _native.Loader) -> None:
        if native is self.native:
            self._is_used = False
        else:
            self.native.add_skipped(native)

    def skipped(self) -> dict[str, str]:
        return dict(self.native.skipped())
