"""Creates loaders with the settings of the user's loader that use a cache, measure time, or never end."""

from __future__ import annotations

import copy
import dataclasses
import functools
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    get_worker_info,
)

from .._checks import check
from .._fetching import fetches_batches, item
from .._native import Refused
from .._random_states import find_generators
from .._transform_parts import display_name
from .copies import Copier, datasets_in, is_harmless, refuse_iterators, shared_tensors
from .clock import COLLATING, Clock, Costs
from .known_calls import KnownCalls, is_replaceable
from .parts import Parts, RawSample, find_holder
from .rates import iterating
from .sending import pack, unpack

METHODS = ("__getitem__", "__getitems__", "__iter__")
_SIZES_SEEN, _SIZES_S = 64, 0.5  # limits for reading batches of a custom sampler: their number, and seconds


class Cached(Dataset[Any]):
    """An endless data set that repeats cached samples. The transforms `rest` finish each sample.

    copies: whether the cached value is copied first, because a transform writes into it."""

    def __init__(self, items: Sequence[RawSample], rest: Any, copies: bool) -> None:
        self.items, self.rest, self.copies = items, rest, copies

    def __getitem__(self, index: int) -> Any:
        item = self.items[index % len(self.items)]
        return (item.copied() if self.copies else item).finished(self.rest)


class CachedStream(IterableDataset[Any]):
    """Cached samples as an iterable-style data set; each worker iterates over all of them."""

    def __init__(self, samples: Cached) -> None:
        self.samples = samples

    def __iter__(self) -> Iterator[Any]:
        return (self.samples[index] for index in itertools.count())


class Whole:
    """An endless data set that repeats cached, collated batches."""

    def __init__(self, batches: Sequence[Any]) -> None:
        self.batches = batches

    def __getitem__(self, index: int) -> Any:
        return self.batches[index % len(self.batches)]


class Repeated(IterableDataset[Any]):
    """An iterable-style data set that starts again when it ends."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __iter__(self) -> Iterator[Any]:
        while True:
            count = 0
            for count, sample in enumerate(self.dataset, 1):
                yield sample
            if count == 0:
                return


class _Timed:
    """Gives (sample, costs of its steps and their parts). Without workers, the caller replaces the functions of
    `calls`; in a worker process, which ends soon, they stay replaced."""

    def __init__(self, parts: Parts, calls: KnownCalls) -> None:
        self.clock, self.calls = Clock(), calls
        self.dataset = parts.timed(self.clock)

    def timed(self, make: Callable[[], Any], count: int = 1) -> tuple[Any, Costs]:
        """Calls `make`. Returns its result and the costs, divided by `count`, the number of samples."""
        if self.calls.is_active or get_worker_info() is not None:
            self.calls.update()
        made = self.clock.during(make, count)
        return made, _divided(self.clock.costs, count)


def _divided(costs: Costs, count: int) -> Costs:
    return {key: [each / count for each in cost] for key, cost in costs.items()}


class Timed(_Timed, Dataset[Any]):
    """A map-style data set that returns the costs with each sample."""

    def __getitem__(self, index: Any) -> tuple[Any, Costs]:
        return self.timed(lambda: self.dataset[index])

    def __getitems__(self, indices: list[Any]) -> list[tuple[Any, Costs]]:
        if not fetches_batches(self.dataset):
            return [self.timed(functools.partial(item, self.dataset, index)) for index in indices]
        samples, costs = self.timed(lambda: self.dataset.__getitems__(indices), len(indices))
        return [(sample, costs) for sample in samples]


class TimedStream(_Timed, IterableDataset[Any]):
    """An iterable-style data set that yields the costs with each sample, and starts again when it ends."""

    def __iter__(self) -> Iterator[tuple[Any, Costs]]:
        samples = iter(Repeated(self.dataset))
        end = object()
        while True:
            sample, costs = self.timed(lambda: next(samples, end))
            if sample is end:
                return
            yield sample, costs


class TimedCollate:
    """Collates samples that have costs. Returns (batch, (costs of each sample, mean costs of collating one sample))."""

    def __init__(self, collate: Callable[[Any], Any], is_single: bool) -> None:
        self.collate, self.is_single = collate, is_single
        self.clock = Clock(COLLATING)

    def __call__(self, timed: Any) -> Any:
        timed = [timed] if self.is_single else timed
        samples, costs = zip(*timed, strict=True)
        given = samples[0] if self.is_single else list(samples)
        batch = self.clock.during(lambda: self.collate(given))
        return batch, (list(costs), _divided(self.clock.costs, len(samples)))


class WorkerStart:
    """Calls the user's worker_init_fn. In it, get_worker_info().dataset is the user's data set, as in the user's
    loader, and not the wrapper that the doctor's loader reads."""

    def __init__(self, dataset: Any, function: Callable[[int], None] | None) -> None:
        self.dataset, self.function = dataset, function

    def __call__(self, worker: int) -> None:
        info = get_worker_info()
        if info is not None:
            object.__setattr__(info, "dataset", self.dataset)  # its class refuses assignments
        if self.function is not None:
            self.function(worker)


class EndlessBatches:
    """Repeats the batches of a sampler (lists of indices, or indices) endlessly. The last batch of an epoch is
    left out if it is smaller than the one before."""

    def __init__(self, sampler: Any) -> None:
        self.sampler = copy.copy(sampler)

    def __iter__(self) -> Iterator[Any]:
        while True:
            count, size, last = 0, 0, None
            for count, batch in enumerate(self.sampler, 1):
                if count > 1:
                    yield last
                    size = _length(last)
                last = batch
            if count == 0:
                return
            if _length(last) >= size:
                yield last


def _length(batch: Any) -> int:
    try:
        return 0 if isinstance(batch, str | bytes) else len(batch)
    except TypeError:  # an index has no length
        return 0


class SmallBatches:
    """The indices of a sampler in the same order, in batches of `size`."""

    def __init__(self, sampler: Any, size: int) -> None:
        self.batches, self.size = EndlessBatches(sampler), size

    def __iter__(self) -> Iterator[list[Any]]:
        indices = itertools.chain.from_iterable(self.batches)
        return iter(lambda: list(itertools.islice(indices, self.size)), [])


class Counted:
    """Endless batches of the indices 0, 1, 2, ...

    sizes: sizes of the batches. With several sizes, the indices start again at 0 after the last size. Without sizes,
        the indices are given one by one."""

    def __init__(self, sizes: Sequence[int] = ()) -> None:
        self.sizes = sizes

    def __iter__(self) -> Iterator[Any]:
        if not self.sizes:
            return itertools.count()
        if len(self.sizes) == 1:
            size = self.sizes[0]
            return (list(range(i * size, (i + 1) * size)) for i in itertools.count())
        ends = itertools.accumulate(self.sizes)
        lists = [list(range(end - size, end)) for size, end in zip(self.sizes, ends, strict=True)]
        return itertools.cycle(lists)


class _Task(Dataset[Any]):
    """A data set with one sample, the packed result of a function, so that a worker process calls the function.

    The result is packed here, so that an object that cannot be pickled raises a clear error. A Refused is returned as
    a value, because PyTorch would raise it in the parent with the traceback of the worker as its text."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function

    def __getitem__(self, index: int) -> Any:
        try:
            result = self.function()
        except Refused as refused:
            result = _Refusal(str(refused))
        try:
            return pack(result)
        except Exception as error:
            raise TypeError(f"samples cannot be sent from a worker process: {error}") from error


@dataclasses.dataclass
class _Refusal:
    message: str


class Loaders:
    """Creates loaders with the settings of the user's loader. With workers, samples are created only in worker
    processes, otherwise by copies of the data set and of collate_fn, so that the user's objects do not change.

    dataset, collate_fn: the objects that these loaders use.
    sampler: a copy of the loader's batch_sampler; with batch_size=None, of its sampler. None for an iterable-style
        data set.
    common: objects of the user that are used nevertheless (copies.Copier.common).
    is_stream: whether the data set is iterable-style.
    is_single: whether the data set gives whole batches (batch_size=None).
    sizes: number of samples in a batch. A custom sampler may give batches of different sizes; then these are the sizes
        of its first batches. [1] if the data set gives whole batches.
    batch_size: mean of `sizes`.
    calls: functions whose calls are timed when samples are.
    named: names of attributes of the data set that the user wants to be measured as parts (named_parts).
    """

    def __init__(self, loader: DataLoader[Any], on_gpu: bool, parts: Sequence[Any] = ()) -> None:
        self.loader = loader
        self.named, functions = named_parts(loader, parts)
        self.calls = KnownCalls(functions, classes_of_loader(loader))
        self.dataset, self.collate_fn = loader.dataset, loader.collate_fn
        inner = [] if loader.num_workers == 0 else [*datasets_in(loader.dataset), loader.collate_fn]
        copier = Copier(shared=inner)
        if loader.num_workers == 0:
            self.dataset = copier.copied("dataset", loader.dataset)
            self.collate_fn = copier.copied("collate_fn", loader.collate_fn)
        self.is_stream = isinstance(loader.dataset, IterableDataset)
        self.is_single = loader.batch_size is None and (
            self.is_stream or loader.batch_sampler is None
        )
        self.pin_memory = bool(loader.pin_memory and on_gpu)
        self.workers = loader.num_workers
        self.prefetch = loader.prefetch_factor or 0
        self.sampler = None
        if not self.is_stream:
            sampler = loader.sampler if self.is_single else loader.batch_sampler
            self.sampler = copier.copied("sampler", sampler)
        refuse_iterators(copier.not_copied)
        self.not_copied = [(name, each) for name, each in copier.not_copied if not is_harmless(each)]
        self.common = copier.common() + (shared_tensors(loader.dataset) if loader.num_workers > 0 else [])
        self.sizes = self._sizes()
        self.batch_size = max(1, round(sum(self.sizes) / len(self.sizes)))

    def run(self, function: Callable[[], Any]) -> Any:
        """Calls a function that creates samples, and returns its result. With workers, the function is called in a
        worker process that is started like those of the loader, and its result is pickled."""
        if self.loader.num_workers == 0:
            return function()
        settings = self._settings(self.dataset, 1) | {"timeout": 0, "pin_memory": False}
        loader = DataLoader(_Task(function), batch_size=None, sampler=[0], collate_fn=_unchanged, **settings)
        with iterating(loader) as results:
            result = unpack(next(results))
        if isinstance(result, _Refusal):
            raise Refused(result.message)
        return result

    def warnings(self) -> list[str]:
        """Returns a sentence that names the objects that could not be copied; [] if there are none."""
        if not self.not_copied:
            return []
        named = ", ".join(f"'{name}' ({type(each).__name__})" for name, each in self.not_copied)
        return [f"the doctor uses these objects of the loader itself, because they could not be copied: {named}"]

    def whole(self, parts: Parts, **changed: Any) -> DataLoader[Any]:
        """Returns an endless loader with nothing cached.

        changed: arguments of DataLoader that differ from those of the user's loader."""
        return self.reading(parts.plain(), **changed)

    def reading(self, dataset: Any, **changed: Any) -> DataLoader[Any]:
        """Returns an endless loader of a copy of the data set. changed: see whole()."""
        if self.is_stream:
            return self._made(Repeated(dataset), dataset, None, self.batch_size, **changed)
        return self._made(dataset, dataset, self.index_batches(), self.batch_size, **changed)

    def timed(self, parts: Parts, workers: int, size: int) -> DataLoader[Any]:
        """Returns an endless loader with nothing cached and batches of `size`, which contain the costs of their
        samples."""
        collate = TimedCollate(self.collate_fn, self.is_single)
        if self.is_stream:
            stream = TimedStream(parts, self.calls)
            return self._made(stream, stream.dataset, None, size, workers, collate)
        samples = Timed(parts, self.calls)
        sampler = self.index_batches() if self.is_single else SmallBatches(self.sampler, size)
        return self._made(samples, samples.dataset, sampler, size, workers, collate)

    def cached(self, samples: Cached, user_dataset: Any, sizes: Sequence[int]) -> DataLoader[Any]:
        """Returns an endless loader of cached samples, in batches of these sizes.

        user_dataset: the data set that the user's worker_init_fn finds."""
        if self.is_stream:
            return self._made(CachedStream(samples), user_dataset, None, sizes[0])
        counted = Counted(() if self.is_single else sizes)
        return self._made(samples, user_dataset, counted, sizes[0])

    def collated(self, batches: Sequence[Any], user_dataset: Any) -> DataLoader[Any]:
        """Returns an endless loader of cached batches that are sent by worker processes."""
        return DataLoader(
            Whole(batches),  # type: ignore[arg-type]
            batch_size=None,
            sampler=Counted(),
            collate_fn=_unchanged,
            **self._settings(user_dataset, None),
        )

    def index_batches(self) -> EndlessBatches:
        """Returns an endless iterator over the batches of the loader's sampler: lists of indices, or indices."""
        return EndlessBatches(self.sampler)

    def _sizes(self) -> list[int]:
        if self.is_single:
            return [1]
        if self.is_stream:
            return [int(self.loader.batch_size or 1)]
        count = 1 if type(self.loader.batch_sampler) is BatchSampler else _SIZES_SEEN
        sizes: list[int] = []
        start = time.perf_counter()
        for batch in itertools.islice(self.index_batches(), count):
            sizes.append(len(batch))
            if time.perf_counter() - start > _SIZES_S:
                break
        if not any(sizes):
            raise Refused("the loader gives no batch: its sampler is empty")
        return sizes if len(set(sizes)) > 1 else sizes[:1]

    def _made(
        self,
        dataset: Any,
        user_dataset: Any,
        sampler: Any,
        size: int,
        workers: int | None = None,
        collate: Any = None,
        **changed: Any,
    ) -> DataLoader[Any]:
        settings = self._settings(user_dataset, changed.get("num_workers", workers)) | changed
        settings["collate_fn"] = collate or self.collate_fn
        if self.is_single:
            return DataLoader(dataset, batch_size=None, sampler=sampler, **settings)
        if sampler is None:
            return DataLoader(dataset, batch_size=size, **settings)
        return DataLoader(dataset, batch_sampler=sampler, **settings)

    def _settings(self, user_dataset: Any, workers: int | None) -> dict[str, Any]:
        theirs = self.loader
        workers = theirs.num_workers if workers is None else workers
        settings: dict[str, Any] = {"num_workers": workers, "pin_memory": self.pin_memory}
        if workers > 0:
            settings |= {
                "timeout": theirs.timeout,
                "multiprocessing_context": theirs.multiprocessing_context,
                "prefetch_factor": theirs.prefetch_factor,
                "worker_init_fn": WorkerStart(user_dataset, theirs.worker_init_fn),
                "in_order": theirs.in_order,
            }
        return settings


def _unchanged(batch: Any) -> Any:
    return batch


def named_parts(loader: DataLoader[Any], parts: Sequence[Any]) -> tuple[list[str], list[tuple[str, Any]]]:
    """Returns the names of attributes of the data set, and the names and functions, that the user wants to be measured
    as parts. Raises Refused if one of them cannot be measured."""
    names: list[str] = []
    functions: list[tuple[str, Any]] = []
    problems = []
    for number, each in enumerate(parts):
        named, problem = _named_part(loader, each)
        if problem:
            problems.append(f"parts[{number}] is {each!r}: {problem}")
        elif isinstance(named, str):
            names.append(named)
        else:
            functions.append((display_name(named), named))
    check(problems)
    return names, functions


def _named_part(loader: DataLoader[Any], given: Any) -> tuple[Any, str]:
    """Returns the name of an attribute of the data set, or a function; and why it cannot be measured, or ""."""
    if isinstance(given, str):
        holder = find_holder(loader.dataset, given)[1]
        if holder is None or not callable(getattr(holder, given)):
            return given, "no data set of the loader has an attribute with this name that can be called"
        return given, ""
    if isinstance(given, type) or not callable(given):
        return given, "give a function, a method, or the name of an attribute of the data set"
    name, owner = getattr(given, "__name__", ""), getattr(given, "__self__", None)
    if owner is not None and owner is find_holder(loader.dataset, name)[1]:
        return name, ""
    function = getattr(given, "__func__", given)
    if is_replaceable(function, classes_of_loader(loader)):
        return function, ""
    return given, (
        "it is neither a global variable of a module nor an attribute of a class: write "
        "'with slipstream.part(NAME):' in its code instead"
    )


def classes_of_loader(loader: DataLoader[Any]) -> list[type]:
    """Returns the classes of the data sets and of collate_fn, except for those of Python itself, such as functions."""
    kinds = [type(each) for each in [*datasets_in(loader.dataset), loader.collate_fn]]
    return [kind for kind in kinds if kind.__module__ != "builtins"]


def copied_parts(loader: DataLoader[Any]) -> list[Any]:
    """Returns the user's objects of which Loaders uses copies in this process."""
    inner = [loader.dataset, loader.collate_fn] if loader.num_workers == 0 else []
    return [*inner, loader.sampler, loader.batch_sampler]


def generators_of_loader(loader: DataLoader[Any]) -> list[Any]:
    """Returns the random generators that an iteration over the loader may use, except for the default ones."""
    methods = [getattr(type(each), name, None) for each in datasets_in(loader.dataset) for name in METHODS]
    holders = [loader.dataset, methods, loader.sampler, loader.batch_sampler, loader.collate_fn, loader.generator]
    return find_generators(holders)
