"""slipstream.DataLoader: the loader whose threads read, decode and transform samples without Python."""

from __future__ import annotations

import dataclasses
import functools
import operator
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from multiprocessing.context import BaseContext
from typing import Any

import torch
from torch.utils.data import BatchSampler, IterableDataset, RandomSampler, SequentialSampler

from . import _native
from ._checks import EPOCHS, check, shortened
from ._frameworks import refuse_rebuilding
from ._iteration import RUN_AHEAD
from ._loader_arguments import LoaderArguments
from ._loader_iteration import LoaderIteration, Reading
from ._native_loading import NativeLoading
from ._order import ComputedOrder, ListedOrder, Order, Run, StreamOrder, StreamRun
from ._plan_choice import PlanChoice
from ._progress import LoopFlags, has_accelerator
from ._python_loading import PythonLoading
from ._seeds import Seed, is_distributed
from ._sources import parts_with_epochs
from ._stages import Stage
from ._steps import find_num_classes, refuse_samples_in_python
from ._workers import parse_context
from .datasets import Dataset, PythonSource, wrap_dataset
from .transforms import Compose

_WORKERS_OF_A_CORE = 4
_MOST_NAMES = 5
_FIXED = ("dataset", "batch_size", "sampler", "batch_sampler", "drop_last", "persistent_workers")
_NO_STATE = (
    "a slipstream.DataLoader over an iterable-style data set has no state_dict(), because the position inside the data "
    "set is not known: use torchdata's StatefulDataLoader with slipstream.Pipeline around it, if the data set has "
    "state_dict() and load_state_dict()"
)


class DataLoader:
    """Loads batches of samples with threads that do not use Python. Each iteration over it is one epoch.

    The threads read, decode and transform samples and write them into page-locked batches. A data set or a
    transform that is written in Python runs in worker processes, one for each thread. The arguments of
    torch.utils.data.DataLoader are accepted in the same order and mean the same, except where the text below says how
    they differ.

    Arguments:
        dataset: a slipstream data set, any map-style data set, which is treated as PythonDataset(dataset), or an
            iterable-style data set. The loader applies the transform of a slipstream data set to each sample. MixUp,
            CutMix and OneHot, which are last in the transform, are applied to the whole batch.
        batch_size (int or None, default 1): samples in a batch of this process. None means that each sample of the
            data set is a batch.
        shuffle (bool, default False): another order of the samples in each epoch.
        sampler (iterable, default None): lists the indices of an epoch's samples. It is iterated again for each epoch,
            and decides alone which samples this process loads.
        batch_sampler (iterable, default None): lists the indices of each batch. Batches may differ in size.
        num_workers (int or "auto", default 0): number of threads, at most 1024, and also the number of worker
            processes if the data set or a transform is written in Python. With 0, Python code runs in the process and
            thread of the loop, and one thread loads everything else. "auto" measures native loading for a few seconds
            and uses the smallest number that reaches 97 % of the best rate; the attribute `num_workers` has it.
        collate_fn (callable, default None): makes a batch from a list of samples. It runs in a worker process, or with
            num_workers=0 in the loop's thread. None uses the native collation, which gives the same batches as
            torch.utils.data.default_collate and accepts PIL images.
        pin_memory (bool, default False): page-locked batches if there is a GPU. With device="cuda" they are always
            copied from page-locked memory.
        drop_last (bool, default False): drops the last batch of an epoch if it is incomplete.
        timeout (float, default 0): seconds after which waiting for a batch raises Error; 0: no limit. If a worker
            process ends, the loop raises an error at once.
        worker_init_fn (callable, default None): called in each worker process with the number of the process.
            Before each sample, the generators of `random`, NumPy and PyTorch in the process are seeded by the seed,
            the epoch and the sample.
        multiprocessing_context (str or context, default None): how worker processes are started: "fork",
            "forkserver", "spawn" or a context of multiprocessing. None uses the default of multiprocessing. The
            processes start when the loader is created and end with it.
        generator (torch.Generator, default None): the source of the seed if none is given. None means PyTorch's
            default generator, which torch.manual_seed() seeds.
        prefetch_factor (int, default None): batches that each worker loads in advance, 1 to 1024. None means 2.
        persistent_workers (bool, default False): accepted without an effect, because workers always persist. With a
            custom collate_fn or an iterable-style data set it means the same as in PyTorch.
        pin_memory_device (str, default ""): the GPU for which pin_memory locks pages.
        in_order (bool, default True): accepted; batches are always in order.
        seed (int, default None): seed of the order and of all random transforms, from 0 to 2**64 - 1. The content of
            a batch depends only on the seed, the epoch and the batch's index, not on the number of workers. None
            means that the seed is sampled from `generator` when the first iteration begins, in rank 0 if processes
            share the samples, and is part of state_dict().
        device (str or torch.device, default "cpu"): device of the batches: "cpu", "cuda" or "cuda:N".
        on_bad_sample (str, default "stop"): "stop" raises Error for a sample that cannot be loaded. "skip" uses the
            next good sample instead. With a sampler, and in an evaluation order (no shuffle, no drop_last, one
            process), bad samples are left out instead, so that each good one counts once, and some batches are
            smaller. After an epoch with new bad samples, a warning names up to five of these. The attribute
            `skipped` has all bad samples.
        decode (str, default "tolerant"): "tolerant" accepts files that libjpeg-turbo or libpng can read with a
            warning, such as one with extra bytes before a JPEG's end marker, with the pixels that these libraries
            return. "strict" treats such a file as a bad sample.
        transforms_device (str, default "cpu"): "cpu": the workers apply the transforms. "cuda": the GPU applies the
            last transforms, as many as it can, on the stream of the copies, with the same bits.
        wire (mapping, default None): format of fields in the copy to the GPU. {"image": "jpeg"} copies the files,
            which the JPEG engines of the GPU decode, crop and resize. docs/plan.md lists the other formats.
        rank, world_size (int, default None): load the share of one process in each step. The default is the rank and
            world size of torch.distributed, if it is initialized when an iteration starts. Without drop_last, the
            samples of an incomplete last step are divided equally among the processes. If they cannot be divided
            equally, a few samples (fewer than world_size) are used twice, as by DistributedSampler. A sampler and
            an iterable-style data set decide themselves what each process loads.
        cache (str, default None): "STEP=SIZE", such as "decode=8GB": keeps samples in memory in the state after a step,
            from which later epochs continue. STEP is "read" (bytes of files), "decode" (whole images) or a transform
            that is not random, such as "resize_0", the operation with its index. SIZE is a number of bytes, or of K, M,
            G or T (powers of 1024). When a sample does not fit, nothing is added any more.
        disk_cache (str, default None): "DIR=SIZE": keeps what is read from slow storage in a folder, for this process
            and others. If the folder is full or cannot be written, reading continues without storing, with a warning.
        read_ahead (int, default 0): number of reads in flight in advance of the workers, for slow storage, at most
            1024. 0 means that each worker reads its own files. Not with a sampler.
        cpus (str, default None): CPUs of all threads and worker processes of the loader: a list such as "0-7,16", or
            "gpu" for those near the GPU of `device`. None means those of the calling thread.
        scaled_decoding (bool, default False): decodes JPEG files at 1/2, 1/4 or 1/8 of their size if the first
            transform makes the image smaller. The pixels differ from those of a full decoding.

    Caches, reading ahead and `cpus` do not change a batch: random transforms, which come after the cached step, give
    the same results as without a cache. `cache`, `disk_cache`, `read_ahead`, `scaled_decoding` and num_workers="auto"
    need a data set that is read without Python.

    Batches: native data sets give a list of tensors, one for each of the data set's `fields`. Images are uint8, or
    float32 after Normalize or ToDtype, batch x channels x height x width, channels-last. Labels are int64. A data set
    in Python gives batches with the structure of its samples, as torch.utils.data.default_collate does.

    On a GPU, batches are copied on a separate stream while the loop works on earlier ones. The stream that is current
    when the loop requests a batch waits for its copy. The host waits only for samples that have not been loaded yet,
    and for the device if several batches are enqueued that it has not finished. Tensors of a batch may be kept for any
    time.

    When the loader is created, no sample is read, except with num_workers="auto", and except for the first one if the
    data set is written in Python. An iteration that ends with a `break` counts as an epoch. If only the first of
    several batches was taken, as by next(iter(loader)), the next iteration starts the same epoch again. set_epoch()
    selects the next epoch, and load_state_dict() a position inside an epoch. Several iterators may be used at the same
    time; each of them is an epoch with separate threads and memory.

    Raises Refused, which is a ValueError, for invalid arguments, with all problems in one message. Iterating raises
    Error for a sample that cannot be loaded, and the exception of a data set or transform in Python with its type and
    the traceback of the worker process. The next call of next() then gives the batch that follows.

    >>> data = ss.ImageFolder("photos", ss.transforms.RandomResizedCrop(32))
    >>> loader = ss.DataLoader(data, batch_size=8, shuffle=True, drop_last=True, num_workers=2)
    >>> len(loader)
    6
    >>> for images, labels in loader:
    ...     pass
    >>> images.shape, images.dtype, labels.shape, labels.dtype
    (torch.Size([8, 3, 32, 32]), torch.uint8, torch.Size([8]), torch.int64)
    >>> loader.epoch
    1
    >>> cached = ss.DataLoader(data, batch_size=8, num_workers="auto", cache="decode=64MB")
    >>> for epoch in range(3):
    ...     for images, labels in cached:
    ...         pass
    >>> cached.cache_state["samples"]
    50
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Sequence[Any]] | None = None,
        num_workers: int | str = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: str | BaseContext | None = None,
        generator: torch.Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        seed: int | None = None,
        device: str | torch.device = "cpu",
        on_bad_sample: str = "stop",
        decode: str = "tolerant",
        transforms_device: str = "cpu",
        wire: Mapping[str, str] | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        cache: str | None = None,
        disk_cache: str | None = None,
        read_ahead: int = 0,
        cpus: str | None = None,
        scaled_decoding: bool = False,
    ) -> None:
        given = dict(locals())
        del given["self"]
        arguments = self._arguments = LoaderArguments(**given)
        arguments.check()
        context = parse_context(multiprocessing_context)
        self.dataset, self.collate_fn, self.generator = dataset, arguments.collate_fn, generator
        self.batch_size, self.drop_last = arguments.batch_size, bool(drop_last)
        self.prefetch_factor = arguments.prefetch
        self.pin_memory, self.pin_memory_device = bool(pin_memory), pin_memory_device
        self.timeout, self.in_order, self.worker_init_fn = timeout, in_order, worker_init_fn
        self.multiprocessing_context, self.persistent_workers = multiprocessing_context, bool(persistent_workers)
        self.transforms_device = transforms_device
        self.device: str = arguments.device
        self._readable = _readable(arguments)
        arguments.complete(self._readable)
        self.num_workers: int = arguments.num_workers
        self.sampler, self.batch_sampler = _samplers(arguments)
        _warn_of_many(self.num_workers)
        self._reported_skipped: set[str] = set()
        self._skips = on_bad_sample == "skip"
        self._reported_full = False
        self._order = self._make_order(arguments)
        self._loading = self._make_loading(arguments, context)
        self._is_made = True

    def _make_order(self, arguments: LoaderArguments) -> Order:
        seed = Seed(arguments.given_seed, arguments.generator)
        if isinstance(self.dataset, IterableDataset):
            return StreamOrder(seed, lambda: self._python_loading().length())
        if arguments.is_listed:
            return ListedOrder(arguments.listed(), seed)
        return ComputedOrder(
            len(self.dataset), self.batch_size or 1, arguments.shuffles, self.drop_last, seed, arguments.ranks
        )

    def _make_loading(self, arguments: LoaderArguments, context: BaseContext) -> NativeLoading | PythonLoading:
        readable = self._readable
        chain = Compose._wrap(None if readable is None else readable.transform)
        is_in_python = readable is None or isinstance(readable._native, PythonSource)
        reads_in_loop = self.num_workers == 0 and (is_in_python or bool(chain._runs()))
        if reads_in_loop and not arguments.needs_python:
            if is_in_python:
                refuse_samples_in_python(chain._steps)
            arguments.refuse_python_batches()
        if readable is None or reads_in_loop or arguments.needs_python:
            return PythonLoading(
                self.dataset if readable is None else readable,
                arguments.for_pytorch(context if self.num_workers > 0 else None),
                self.batch_size is not None or self.batch_sampler is not None,
            )
        settings = arguments.for_native(chain, find_num_classes(chain._steps))
        if isinstance(self._order, ComputedOrder):
            settings.batch_size, settings.rank = self._order.batch_size, self._order.ranks
        native = readable._native
        if isinstance(native, _native.Dataset):
            native = arguments.with_disk_cache(native)
        return NativeLoading(readable, native, chain, settings, context, arguments.init_function())

    def _native_parts(self) -> tuple[NativeLoading, ComputedOrder | ListedOrder]:
        """Returns the native loading and the order with the ranks that this process has now. Raises Refused if the
        loader is not native."""
        if not isinstance(self._loading, NativeLoading) or isinstance(self._order, StreamOrder):
            raise _native.Refused(
                "this slipstream.DataLoader makes its batches in Python, but the caller needs one that makes them without "
                "Python: leave out collate_fn and batch_size=None, use a map-style data set, and give num_workers of at least 1 if the data set or a "
                "transform is written in Python"
            )
        if isinstance(self._order, ComputedOrder):
            self._order.take_ranks()
        return self._loading, self._order

    def _listed_order(self) -> ListedOrder | None:
        """Returns the order that a sampler lists, or None if the order is computed."""
        return self._order if isinstance(self._order, ListedOrder) else None

    def _set_epoch_of_sampler(self, epoch: int) -> None:
        for each in parts_with_epochs(self, self._user_dataset()):
            each.set_epoch(epoch)

    def _measured_native(self) -> _native.Loader:
        """Returns the native loader for uses that do not depend on the seed. Does not sample the seed, which would
        change PyTorch's generator. Raises Refused as _native_parts() does."""
        loading, order = self._native_parts()
        loading.configure(order, samples_seed=False)
        return loading.native

    def _world_size(self) -> int:
        """Returns the number of processes that share the samples now. Raises Refused as _native_parts() does."""
        return self._native_parts()[1].ranks[1]

    def _native_dataset(self) -> Dataset:
        """Returns the data set that the native loader reads. Raises Refused as _native_parts() does."""
        return self._native_parts()[0].dataset

    def _adopt_seed(self, resume: str, folder: str) -> None:
        """Uses the seed of the checkpoint from which a trainer resumes, unless a seed was given."""
        order = self._native_parts()[1]
        if resume and not order.has_seed and (seed := _native.seed_of_resumed(folder, resume)) is not None:
            order.adopt_seed(seed)

    def _python_loading(self) -> PythonLoading:
        assert isinstance(self._loading, PythonLoading)
        return self._loading

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and self.__dict__.get("_is_made"):
            raise ValueError(f"{name} of a slipstream.DataLoader cannot be changed: create another loader")
        super().__setattr__(name, value)

    def __getattribute__(self, name: str) -> Any:
        # Without these attributes, frameworks do not try to save a state that does not exist.
        if name in ("state_dict", "load_state_dict") and isinstance(self.__dict__.get("_order"), StreamOrder):
            raise AttributeError(_NO_STATE)
        if name == "dataset":
            refuse_rebuilding("DataLoader")
        return super().__getattribute__(name)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(
            "a slipstream.DataLoader has threads and memory of this process, so it cannot be pickled or copied: pickle "
            "its data set, loader.dataset, and create a loader from it in the other process"
        )

    def __len__(self) -> int:
        return self._order.length()

    def __repr__(self) -> str:
        return f"DataLoader({self.dataset!r}, batch_size={self.batch_size}, device={self.device})"

    def __iter__(self) -> Iterator[Any]:
        return self._pass((), RUN_AHEAD, "pipelined")

    @property
    def epoch(self) -> int:
        """Index of the next epoch, starting at 0.

        The index advances when the loop gets the second batch of an epoch, or the only one. Looking at one batch with
        next(iter(loader)) therefore does not use up an epoch of several batches, and a loop that is left later with
        `break` does."""
        return self._order.epoch()

    @property
    def skipped(self) -> dict[str, str]:
        """With on_bad_sample="skip": a new dict from the name of each bad sample so far to the reason. Otherwise
        empty."""
        return self._loading.skipped() if self._skips and isinstance(self._loading, NativeLoading) else {}

    @property
    def cache_state(self) -> dict[str, Any] | None:
        """What `cache` contains and how often it was used, since the loader was created: a new dict with "samples" and
        "bytes" in the cache, "hits" and "misses", the numbers of samples that were and were not taken from it, and
        "is_filling", which is False if nothing more is added. None without a cache."""
        return self._loading.native.cache() if isinstance(self._loading, NativeLoading) else None

    @property
    def disk_cache_state(self) -> dict[str, Any] | None:
        """How `disk_cache` was used since the loader was created: a new dict with "hits" and "misses", the numbers of
        samples that were and were not read from the folder, "stored", the number of samples that were added, "bytes",
        the size of the folder, and "stop_reason", which says why nothing more is added, or is empty. None without a
        disk cache."""
        return self._loading.native.disk_cache() if isinstance(self._loading, NativeLoading) else None

    def _warn(self, stacklevel: int) -> None:
        """Gives the warnings that are due after an iteration."""
        self._warn_of_skipped(stacklevel)
        state = self.disk_cache_state
        if state is None or self._reported_full or not state["stop_reason"]:
            return
        self._reported_full = True
        warnings.warn(
            f"the disk cache stores no more samples, and the others are read from the data set: {state['stop_reason']}",
            stacklevel=stacklevel - 1,
        )

    def _warn_of_skipped(self, stacklevel: int = 3) -> None:
        """Warns of bad samples if there are new ones since the previous warning.

        stacklevel: as in warnings.warn(), for the line of the loop."""
        skipped = self.skipped
        new = [name for name in skipped if name not in self._reported_skipped]
        if not new:
            return
        share = f", of which {len(new)} are new" if self._reported_skipped else ""
        self._reported_skipped.update(new)
        names = ", ".join(new[:_MOST_NAMES]) + (", ..." if len(new) > _MOST_NAMES else "")
        warnings.warn(
            f"skipped {len(skipped)} bad of {len(self.dataset)} samples{share}: {names} (loader.skipped has the "
            f"reasons). The first: {skipped[new[0]]}",
            stacklevel=stacklevel,
        )

    def set_epoch(self, epoch: int) -> None:
        """Selects the epoch of the next iteration, which starts at its first batch.

        If load_state_dict() has set a position inside this epoch, the position is kept. If the sampler, the batch
        sampler or a data set in Python has a method set_epoch(), it is called with the epoch, too.

        Arguments:
            epoch (int): index of the epoch, 0 to 2**32 - 1.

        Raises Refused for other values."""
        check(epoch=(epoch, 0, EPOCHS - 1))
        number = operator.index(epoch)
        self._order.set_epoch(number)
        self._set_epoch_of_sampler(number)

    def _user_dataset(self) -> Any:
        """The data set in Python that samples come from, or None if they are read natively."""
        if self._readable is None:
            return self.dataset
        native = self._readable._native
        return native.source if isinstance(native, PythonSource) else None

    def state_dict(self) -> dict[str, Any]:
        """Returns the position of the loop. It does not wait for the device.

        Without a sampler, the state is a dict of integers: "position" is the number of batches given so far, through
        all epochs, also after the loop was left. "batches_per_epoch", the number of samples, the total batch size of
        all processes, the seed and `shuffle` describe the order of the samples; load_state_dict() compares them. With
        a sampler, the state has the epoch, the number of batches, and the state of the sampler, or of the random
        generators from which it sampled the epoch. A loader over an iterable-style data set has no state.

        >>> data = ss.ImageFolder("photos", ss.transforms.CenterCrop(32))
        >>> loader = ss.DataLoader(data, batch_size=10)
        >>> for number, batch in enumerate(loader):
        ...     if number == 2:
        ...         break
        >>> state = loader.state_dict()
        >>> state["position"], state["batches_per_epoch"]
        (3, 5)
        >>> list(state)[2:]
        ['samples', 'global_batch_size', 'seed', 'shuffle']
        """
        assert not isinstance(self._order, StreamOrder)
        return self._order.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next iteration start at the position of `state`, without reading the batches before it. A later
        set_epoch() with the same epoch does not change the position.

        A sampler without load_state_dict() is iterated from the beginning of the epoch, with the random generators as
        they were then. If it lists other samples than before, the next iteration raises Refused.

        Arguments:
            state (mapping): the result of state_dict(). The keys "position" and "batches_per_epoch" are required.

        Raises Refused if `state` is something else, or the state of a loader that gives other samples.

        >>> data = ss.ImageFolder("photos", ss.transforms.CenterCrop(32))
        >>> loader = ss.DataLoader(data, batch_size=10)
        >>> loader.load_state_dict({"position": 3, "batches_per_epoch": 5})
        >>> len(list(loader))
        2
        """
        assert not isinstance(self._order, StreamOrder)
        self._order.load_state_dict(state)

    def _is_made_in_python(self) -> bool:
        """Whether a torch.utils.data.DataLoader makes the batches."""
        return isinstance(self._loading, PythonLoading)

    def _has_processes(self) -> bool:
        """Whether the native loader has worker processes, which run a data set or transforms in Python."""
        return isinstance(self._loading, NativeLoading) and self._loading.has_processes

    def _reads_natively(self) -> bool:
        """Whether samples are read without Python."""
        return self._readable is not None and not isinstance(self._readable._native, PythonSource)

    def _close(self) -> None:
        """Ends the threads and the worker processes, which would otherwise end with this object. No iteration may be in
        use."""
        if isinstance(self._loading, NativeLoading):
            self._loading.close()

    def _revive_workers(self) -> None:
        if isinstance(self._loading, NativeLoading):
            self._loading.revive_workers()

    def _pass(
        self,
        stages: Sequence[Stage],
        run_ahead: int,
        choice: PlanChoice | str,
        read: Callable[[int], tuple[Run, Reading]] | None = None,
    ) -> Iterator[Any]:
        """Returns an iterator over the rest of an epoch, with stages. choice: the plan, or what selects it. read: begins
        the iteration in place of _begin_reading()."""
        ended = functools.partial(self._warn, stacklevel=5)
        parts = (read or self._begin_reading, self._make_flags, ended)
        return LoaderIteration(*parts, stages, self.device, run_ahead, choice).iterator()

    def _begin_reading(self, ahead: int) -> tuple[Run, Reading]:
        """Begins an iteration. ahead: number of batches that the loop may take in advance."""
        run = self._order.begin()
        if isinstance(self._loading, NativeLoading):
            assert not isinstance(run, StreamRun)
            return run, self._loading.begin(run, self._order, ahead)
        return run, self._loading.begin(run, self._order.seed())

    def _listing(
        self, batch_sampler: Iterable[Sequence[Any]], seed: int, collate_fn: Callable[[list[Any]], Any] | None
    ) -> DataLoader:
        """Returns a loader of the same samples whose batches a sampler lists."""
        given = {each.name: getattr(self._arguments, each.name) for each in dataclasses.fields(LoaderArguments) if each.init}
        given |= {"batch_size": 1, "shuffle": None, "sampler": None, "drop_last": False, "generator": None}
        given |= {"rank": None, "world_size": None, "read_ahead": 0, "collate_fn": collate_fn}
        return DataLoader(**given | {"batch_sampler": batch_sampler, "seed": seed})

    def _make_flags(self, run: Run) -> LoopFlags | None:
        """Returns the flags of an iteration for Accelerate, or None if the program does not use it."""
        if not has_accelerator():
            return None
        try:
            # len() of an iterable-style data set may be wrong, and PyTorch's loader then warns if it has been called.
            batches = None if isinstance(self._order, StreamOrder) else len(self) - run.first_number % EPOCHS
        except (TypeError, NotImplementedError):  # a sampler without len()
            batches = None
        if batches is None:
            return LoopFlags(None, -1)
        order, world = self._order, torch.distributed.get_world_size() if is_distributed() else 1
        if self.drop_last or self.batch_size is None:
            return LoopFlags(batches, 0 if self.drop_last else -1)
        if isinstance(order, ComputedOrder):
            return LoopFlags(batches, len(self.dataset) % (order.batch_size * order.ranks[1]))
        return LoopFlags(batches, len(self.sampler) % self.batch_size * world if self.sampler is not None else -1)

    @property
    def _native(self) -> Any:
        """The native loader with the seed of the order. Raises Refused as _native_parts() does."""
        loading, order = self._native_parts()
        loading.configure(order)
        return loading.native



def _readable(arguments: LoaderArguments) -> Dataset | None:
    """Returns the data set with its transforms, or None if it is iterable-style or has no len()."""
    dataset = arguments.dataset
    has_no_length = not hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__") and arguments.is_listed
    return None if arguments.is_stream or has_no_length else wrap_dataset(dataset)


def _samplers(arguments: LoaderArguments) -> tuple[Any, Any]:
    """Returns the attributes `sampler` and `batch_sampler` as torch.utils.data.DataLoader has them. Without a given
    sampler, the loader computes the order itself and does not iterate them."""
    dataset, sampler, batch_sampler = arguments.dataset, arguments.sampler, arguments.batch_sampler
    if isinstance(dataset, IterableDataset):
        return None, None
    if batch_sampler is not None:
        return getattr(batch_sampler, "sampler", None), batch_sampler
    if sampler is None:
        kind = RandomSampler if arguments.shuffles else SequentialSampler
        sampler = kind(dataset) if len(dataset) > 0 else SequentialSampler(dataset)
    if arguments.batch_size is None:
        return sampler, None
    return sampler, BatchSampler(sampler, arguments.batch_size, bool(arguments.drop_last))


def refuse_own_iteration(loader: DataLoader, what: str) -> None:
    if type(loader).__iter__ is not DataLoader.__iter__:
        raise _native.Refused(
            f"{type(loader).__name__} defines its own __iter__(), which {what} does not call: move its code to a stage "
            "(slipstream.Stage) or the loop body, and give a slipstream.DataLoader"
        )


def _warn_of_many(workers: int) -> None:
    cores = len(os.sched_getaffinity(0))
    if workers > _WORKERS_OF_A_CORE * cores:
        warnings.warn(
            f"num_workers is {workers}, but this process may use {cores} cores: more workers than that "
            "make loading slower rather than faster",
            stacklevel=3,
        )
