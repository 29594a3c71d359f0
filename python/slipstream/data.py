"""slipstream.DataLoader: the loader whose threads read, decode and transform samples without Python."""

from __future__ import annotations

import operator
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.context import BaseContext
from typing import Any

import torch

from . import _native
from ._checks import EPOCHS, SEEDS, check, choose, device_named, shortened
from ._iteration import Iteration, Pass
from ._moves import fitting, refuse_moving_images_alone, refuse_moving_with
from ._sources import datasets_with_epochs
from ._stages import Stage
from ._steps import find_num_classes, refuse_samples_in_python
from ._worker_process import Job
from ._workers import Workers, parse_context
from .datasets import PythonSource, wrap_dataset
from .transforms import Compose

_MOST_WORKERS = 1024
_WORKERS_OF_A_CORE = 4
_MOST_NAMES = 5
_MOST_PREFETCHED = 1024


class DataLoader:
    """Loads batches of samples with threads that do not use Python. Each iteration over it is one epoch.

    The threads read, decode and transform samples and write them into page-locked batches. A data set or a
    transform that is written in Python runs in worker processes, one for each thread. Arguments that
    torch.utils.data.DataLoader also has mean the same as there.

    Arguments:
        dataset: a slipstream data set, or any map-style data set, which is treated as PythonDataset(dataset). The
            loader applies its transform to each sample. MixUp, CutMix and OneHot, which are last in the transform,
            are applied to the whole batch.
        batch_size (int, default 1): samples in a batch of this process; at most the number of samples.
        shuffle (bool, default False): another order of the samples in each epoch.
        num_workers (int, default 1): number of threads, 1 to 1024; also the number of worker processes, if the data
            set or a transform is written in Python.
        drop_last (bool, default False): drops the last batch of an epoch if it is incomplete.
        prefetch_factor (int, default 2): batches that each worker loads in advance, 1 to 1024.
        seed (int, default 0): seed of the order and of all random transforms, from 0 to 2**64 - 1. The content of a
            batch depends only on the seed, the epoch and the batch's index, not on the number of workers.
            torch.manual_seed() has no effect on it.
        device (str or torch.device, default "cpu"): device of the batches: "cpu", "cuda" or "cuda:N".
        on_bad_sample (str, default "stop"): "stop" raises Error for a sample that cannot be loaded. "skip" uses the
            next good sample instead. An evaluation order (no shuffle, no drop_last, one process) leaves bad samples
            out instead, so that each good one counts once, and some batches are smaller. A warning after an epoch
            names new bad samples, and the attribute `skipped` has all of them.
        decode (str, default "tolerant"): "tolerant" accepts files that libjpeg-turbo or libpng can read with a
            warning, such as one with extra bytes before a JPEG's end marker, with the pixels that these libraries
            return. "strict" treats such a file as a bad sample.
        transforms_device (str, default "cpu"): "cpu": the workers apply the transforms. "cuda": the GPU applies the
            last transforms, as many as it can, on the stream of the copies, with the same bits.
        wire (mapping, default None): format of fields in the copy to the GPU. {"image": "jpeg"} copies the files,
            which the JPEG engines of the GPU decode, crop and resize. docs/plan.md lists the other formats.
        rank, world_size (int, default None): load the share of one process in each step. The default is the rank and
            world size of torch.distributed, if it is initialized when an iteration starts. Without drop_last, the
            processes share the samples of the last step in smaller batches of equal size, for which fewer than
            world_size samples are used twice, as DistributedSampler does.
        multiprocessing_context (str or context, default None): how worker processes are started: "fork",
            "forkserver", "spawn" or a context of multiprocessing. None uses the default of multiprocessing. The
            processes start when the loader is created and end with it.
        worker_init_fn (callable, default None): called in each worker process with the number of the process.
            Before each sample, the generators of `random`, NumPy and PyTorch in the process are seeded by `seed`,
            the epoch and the sample.

    Batches: native data sets give a tuple of tensors, one for each of `dataset.fields`. Images are uint8, or float32
    after Normalize or ToDtype, batch x channels x height x width, channels-last. Labels are int64. A data set in
    Python gives batches with the structure of its samples.

    On a GPU, batches are copied on a separate stream while the loop works on earlier ones. The stream that is current
    when the loop requests a batch waits for its copy. The host waits only for samples that have not been loaded yet,
    and for the device if several batches are enqueued that it has not finished. Tensors of a batch may be kept for any
    time.

    When the loader is created, no sample is read, except for the first one if the data set is written in Python. An
    iteration that ends with a `break` counts as an epoch. If only the first batch was taken, as by
    next(iter(loader)), the next iteration starts the same epoch again. set_epoch() selects the next epoch, and
    load_state_dict() a position inside an epoch.

    Raises Refused for invalid arguments, with all problems in one message. Iterating raises Error for a sample that
    cannot be loaded, and the exception of a data set or transform in Python with its type and the traceback of the
    worker process. The next call of next() then gives the batch that follows.

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
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        shuffle: bool = False,
        *,
        num_workers: int = 1,
        drop_last: bool = False,
        prefetch_factor: int = 2,
        seed: int = 0,
        device: str | torch.device = "cpu",
        on_bad_sample: str = "stop",
        decode: str = "tolerant",
        transforms_device: str = "cpu",
        wire: Mapping[str, str] | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        multiprocessing_context: str | BaseContext | None = None,
        worker_init_fn: Callable[[int], None] | None = None,
    ) -> None:
        place = device_named(device)
        choices = choose(
            shuffle=(shuffle, (True, False)),
            drop_last=(drop_last, (True, False)),
            on_bad_sample=(on_bad_sample, ("stop", "skip")),
            decode=(decode, ("tolerant", "strict")),
            transforms_device=(transforms_device, ("cpu", "cuda")),
        )
        check(
            _find_problems(wire, transforms_device, place, worker_init_fn) + choices,
            batch_size=(batch_size, 1),
            num_workers=(num_workers, 1, _MOST_WORKERS),
            prefetch_factor=(prefetch_factor, 1, _MOST_PREFETCHED),
            seed=(seed, 0, SEEDS - 1),
        )
        context = parse_context(multiprocessing_context)
        self.batch_size, self.num_workers = operator.index(batch_size), operator.index(num_workers)
        self.prefetch_factor, seed = operator.index(prefetch_factor), operator.index(seed)
        _warn_of_many(self.num_workers)
        self.dataset = wrap_dataset(dataset)
        self.drop_last = bool(drop_last)
        self.transforms_device, self.device = transforms_device, place
        self._position = 0  # index of the next batch, counted through all epochs
        self._resumes, self._pass_number = False, 0
        # Set while an iteration has given only its first batch, because looking at one batch must not use up an
        # epoch: the position at which that iteration began, and whether it resumed there.
        self._peeked: tuple[int, bool] | None = None
        chain = Compose._wrap(self.dataset.transform)
        settings = self._settings(chain, wire)
        settings.shuffle = bool(shuffle)
        settings.skips_bad_samples = on_bad_sample == "skip"
        settings.strict_decoding = decode == "strict"
        settings.seed = seed
        self._given_ranks = rank, world_size
        self._ranks = settings.rank = _ranks(rank, world_size)
        self._order = {
            "samples": len(self.dataset),
            "global_batch_size": self.batch_size * self._ranks[1],
            "seed": seed,
            "shuffle": settings.shuffle,
        }
        self._workers: Workers | None = None
        self._skips, self._reported_skipped = settings.skips_bad_samples, 0
        self._native = self._loaded(settings, chain, context, worker_init_fn)

    def _settings(self, chain: Compose, wire: Mapping[str, str] | None) -> _native.LoaderSettings:
        settings = _native.LoaderSettings()
        settings.device = self.device
        settings.transforms = chain._native_chain()
        settings.num_classes = find_num_classes(chain._steps)
        settings.batch_size, settings.num_workers = self.batch_size, self.num_workers
        settings.prefetch_batches = self.prefetch_factor * self.num_workers
        settings.drop_last = self.drop_last
        settings.wire = dict(wire or {})
        settings.transforms_on_device = self.transforms_device == "cuda"
        return settings

    def _loaded(
        self,
        settings: _native.LoaderSettings,
        chain: Compose,
        context: BaseContext,
        init: Callable[[int], None] | None,
    ) -> _native.Loader:
        try:
            return _native.Loader(self._read_by(settings, chain, context, init), settings)
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
        native, runs = self.dataset._native, chain._runs()
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

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(
            "a slipstream.DataLoader has threads and memory of this process, so it cannot be pickled or copied: pickle "
            "its data set, loader.dataset, and create a loader from it in the other process"
        )

    def __len__(self) -> int:
        self._take_ranks_between_epochs()
        return self._native.batches_per_epoch()

    def __repr__(self) -> str:
        return f"DataLoader({self.dataset!r}, batch_size={self.batch_size}, device={self.device})"

    def __iter__(self) -> Iterator[Any]:
        return self._pass((), 2)

    @property
    def epoch(self) -> int:
        """Index of the next epoch, starting at 0.

        The index advances when the second batch of an epoch is requested. Looking at one batch with
        next(iter(loader)) therefore does not use up an epoch, and a loop that is left later with `break` does."""
        self._take_ranks_between_epochs()
        return self._next_epoch()

    def _next_epoch(self) -> int:
        position, resumes = self._peeked or (self._position, self._resumes)
        whole, rest = divmod(position, self._native.batches_per_epoch())
        return whole if rest == 0 or resumes else whole + 1

    @property
    def skipped(self) -> dict[str, str]:
        """With on_bad_sample="skip": a new dict from the name of each bad sample so far to the reason. Otherwise
        empty."""
        return dict(self._native.skipped()) if self._skips else {}

    def _warn_of_skipped(self) -> None:
        """Warns of bad samples if there are new ones since the previous warning."""
        skipped = self.skipped
        if len(skipped) <= self._reported_skipped:
            return
        self._reported_skipped = len(skipped)
        names = ", ".join([*skipped][:_MOST_NAMES]) + (", ..." if len(skipped) > _MOST_NAMES else "")
        warnings.warn(
            f"skipped {len(skipped)} bad of {len(self.dataset)} samples: {names} (loader.skipped has the reasons). "
            f"The first: {next(iter(skipped.values()))}",
            stacklevel=3,
        )

    def set_epoch(self, epoch: int) -> None:
        """Selects the epoch of the next iteration, which starts at its first batch.

        If load_state_dict() has set a position inside this epoch, the position is kept. If a data set in Python has a
        method set_epoch(), it is called with the epoch, too.

        Arguments:
            epoch (int): index of the epoch, 0 to 2**32 - 1.

        Raises Refused for other values."""
        check(epoch=(epoch, 0, EPOCHS - 1))
        self._take_ranks()
        self._forget_peek()
        if not (self._resumes and epoch == self.epoch):
            self._seek(operator.index(epoch) * len(self), False)
        native = self.dataset._native
        for each in datasets_with_epochs(native.source) if isinstance(native, PythonSource) else ():
            each.set_epoch(operator.index(epoch))

    def state_dict(self) -> dict[str, int]:
        """Returns the position of the loop as a dict of integers. It does not wait for the device.

        "position" is the number of batches given so far, through all epochs, also after the loop was left.
        "batches_per_epoch", the number of samples, the total batch size of all processes, the seed and `shuffle`
        describe the order of the samples; load_state_dict() compares them.

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
        length = len(self)
        return {"position": self._position, "batches_per_epoch": length} | self._order

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Makes the next iteration start at the position of `state`, without reading the batches before it. A later
        set_epoch() with the same epoch does not change the position.

        Arguments:
            state (mapping): the result of state_dict(). The keys "position" and "batches_per_epoch" are required.

        Raises Refused if `state` is something else, or the state of a loader that gives other samples.

        >>> data = ss.ImageFolder("photos", ss.transforms.CenterCrop(32))
        >>> loader = ss.DataLoader(data, batch_size=10)
        >>> loader.load_state_dict({"position": 3, "batches_per_epoch": 5})
        >>> len(list(loader))
        2
        """
        needed = ("position", "batches_per_epoch")
        if not isinstance(state, Mapping) or any(name not in state for name in needed):
            raise _native.Refused(
                f"{shortened(state)} is not a state of a loader: give what its state_dict() returned, a mapping with "
                "at least 'position' and 'batches_per_epoch'"
            )
        self._take_ranks(resumes=False)
        ours = self.state_dict()
        others = [name for name in ours if name != "position" and state.get(name, ours[name]) != ours[name]]
        if others:
            theirs = ", ".join(f"{name}={shortened(state[name])}" for name in others)
            raise _native.Refused(
                f"this state is of a loader with {theirs}, but this one has "
                f"{', '.join(f'{name}={ours[name]}' for name in others)}: give the same data, seed, "
                "shuffle and drop_last, and the same batch size of all processes together"
            )
        check(position=(state["position"], 0, EPOCHS * len(self) - 1))
        self._seek(operator.index(state["position"]), True)

    def _seek(self, position: int, resumes: bool) -> None:
        self._position, self._resumes, self._peeked = position, resumes, None
        self._pass_number += 1

    def _forget_peek(self) -> None:
        """Undoes an iteration that gave only its first batch, so that its epoch starts again."""
        if self._peeked is not None:
            self._seek(*self._peeked)

    def _revive_workers(self) -> None:
        if self._workers is not None:
            self.dataset._take_attributes()
            self._workers.revive(self._native.halt)

    def _take_ranks_between_epochs(self) -> None:
        """Takes over the rank and world size of torch.distributed between two epochs. Inside an epoch they must not
        change, because the position counts batches of the world size with which the iteration started."""
        if _is_distributed() and self._position % self._native.batches_per_epoch() == 0:
            self._take_ranks()

    def _take_ranks(self, resumes: bool = True) -> None:
        """Changes to the share of samples that this process has now. The epoch of the next iteration stays the same.

        resumes: whether a position inside an epoch, set by load_state_dict(), must remain valid. Raises Refused if it
        does not."""
        ranks = _ranks(*self._given_ranks)
        if ranks == self._ranks:
            return
        self._forget_peek()
        epoch = self._next_epoch()
        if resumes and self._resumes and self._position % self._native.batches_per_epoch() != 0:
            raise _native.Refused(
                f"load_state_dict() set a position within an epoch for {self._ranks[1]} processes, but now "
                f"torch.distributed has {ranks[1]}: call load_state_dict() after init_process_group()"
            )
        self._native.take_ranks(*ranks)
        self._ranks = ranks
        self._order["global_batch_size"] = self.batch_size * ranks[1]
        self._seek(epoch * self._native.batches_per_epoch(), False)

    def _first_number(self) -> int:
        """Number of the first batch of the next iteration, which selects the random numbers of stages with a seed.
        The epoch is in the upper 32 bits, so that no two epochs share a number."""
        self._take_ranks()
        self._forget_peek()
        return (self.epoch << 32) + (self._position % len(self) if self._resumes else 0)

    def _pass(self, stages: Sequence[Stage], run_ahead: int) -> Iterator[Any]:
        number, start, resumed = 0, 0, False

        def begin() -> Pass:
            nonlocal number, start, resumed
            first, resumed = self._first_number(), self._resumes
            self._seek(self._position if self._resumes else self.epoch * len(self), False)
            number, start = self._pass_number, self._position
            self._revive_workers()
            self._native.seek(start)
            return Pass(self._native, None, stages, self.device, run_ahead, first)

        def check() -> None:
            if number != self._pass_number:
                raise _native.Error(
                    "the position of the loader was changed after this iteration began, by another iteration, "
                    "set_epoch() or load_state_dict(): finish one iteration first, or create a loader for each"
                )
            self._peeked = None

        def passed(given: int) -> None:
            self._position = start + given
            self._peeked = (start, resumed) if given == 1 else None

        return Iteration(
            begin, passed, check, ended=self._warn_of_skipped, left=lambda _: self._warn_of_skipped()
        )


def refuse_own_iteration(loader: DataLoader, what: str) -> None:
    if type(loader).__iter__ is not DataLoader.__iter__:
        raise _native.Refused(
            f"{type(loader).__name__} defines its own __iter__(), which {what} does not call: move its code to a stage "
            "(slipstream.Stage) or the loop body, and give a slipstream.DataLoader"
        )


def _find_problems(wire: Any, transforms_device: Any, device: str, init: Any) -> list[str]:
    problems = []
    if wire is not None and not isinstance(wire, Mapping):
        problems.append(
            f"wire is {shortened(wire)}: give a mapping from fields to formats, such as {{'image': 'jpeg'}}"
        )
    elif device == "cpu" and (wire or transforms_device == "cuda"):
        problems.append(f"wire and transforms_device are for batches on a GPU, but device is '{device}'")
    if init is not None and not callable(init):
        problems.append(f"worker_init_fn is {shortened(init)}: give a function of the worker's number")
    return problems


def _warn_of_many(workers: int) -> None:
    cores = len(os.sched_getaffinity(0))
    if workers > _WORKERS_OF_A_CORE * cores:
        warnings.warn(
            f"num_workers is {workers}, but this process may use {cores} cores: more workers than that "
            "make loading slower rather than faster",
            stacklevel=3,
        )


def _is_distributed() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def _ranks(rank: int | None, world_size: int | None) -> tuple[int, int]:
    if (rank is None) != (world_size is None):
        raise _native.Refused("rank and world_size belong together: give both, or none")
    if rank is None or world_size is None:
        if not _is_distributed():
            return 0, 1
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    check(world_size=(world_size, 1))
    check(rank=(rank, 0, world_size - 1))
    return operator.index(rank), operator.index(world_size)
