"""The native loader."""

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
    """The native loader: threads read, decode and transform samples straight into page-locked
    batches, without Python. What is written in Python, a data set or a transform, runs in worker
    processes, of which each thread has one. Arguments mean what they do in
    torch.utils.data.DataLoader.

    dataset: a slipstream data set, whose transform is done here, sample by sample, with MixUp, CutMix and
        OneHot in its end, to the whole batch; or any map-style data set (PythonDataset).
    device: where tensors of batches are: "cpu", or "cuda" or "cuda:N", to which they are copied ahead
        of the loop, on a stream of their own; they may be kept for any time.
    num_workers: threads, at least 1, and as many processes where something is in Python.
    prefetch_factor: batches that each worker fills ahead.
    seed: of the order and of all random transforms: what a batch holds depends on it, the epoch and
        the batch's number alone, not on the number of workers.
    on_bad_sample: "stop", or "skip": the next good sample takes the place of a bad one. In the order of an
        evaluation, without shuffle and drop_last in one process, bad samples are left out instead, so that each
        good one is counted once, and batches are smaller. A warning after an epoch names new ones; `skipped` has all.
    decode: "tolerant": damage that libjpeg-turbo or libpng reads past with a warning, such as bytes before
        a JPEG's end marker, gives the pixels that they give. "strict": such a file is a bad sample.
    transforms_device: "cpu": the workers do the transforms; "cuda": the device does those that it
        can, from one of them to the last, in the stream of the copies, with the same bits.
    wire: how fields travel to a GPU, such as {"image": "jpeg"}: as files, which its JPEG engines
        decode, crop and resize (docs/plan.md has the other forms).
    rank, world_size: loads the share of one process, its batch of each step; by default those of
        torch.distributed, if it is initialized when an iteration starts. batch_size is that of each process. Without
        drop_last they share what is left for the last step, in batches that are smaller and equally
        large: less than world_size samples come a second time, as with DistributedSampler.
    multiprocessing_context: how processes are started: "fork", "forkserver", "spawn" or a context;
        None: as multiprocessing does by default. They start with the loader and live as long.
    worker_init_fn: called with its number in each process. Before each sample, the generators of
        `random`, NumPy and PyTorch there are seeded by `seed`, the epoch and the sample.

    Before the first pass nothing is read but, where something is in Python, the first sample. Each pass is
    the next epoch, also after a `break`; but an epoch of which only the first batch was taken, as by
    next(iter(loader)), begins again. set_epoch() goes to another one; state_dict() and load_state_dict() go on in
    the middle of one.

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
        self._position = 0  # of the batch behind the last one given, through all epochs
        self._resumes, self._pass_number = False, 0
        # Where an iteration began of which only the first batch was taken, and whether it resumed there.
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
        """The native data set of `dataset`; starts processes where something is in Python."""
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
            "a slipstream.DataLoader has threads and memory of this process, so it cannot be pickled or "
            "copied: pickle its data set, loader.dataset, and make a loader of it where it is used"
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
        """Index of the next epoch, from 0. It advances with the second batch that is asked for in an epoch: a look
        at one batch, next(iter(loader)), costs none, and a loop that is left by `break` later does."""
        self._take_ranks_between_epochs()
        return self._next_epoch()

    def _next_epoch(self) -> int:
        position, resumes = self._peeked or (self._position, self._resumes)
        whole, rest = divmod(position, self._native.batches_per_epoch())
        return whole if rest == 0 or resumes else whole + 1

    @property
    def skipped(self) -> dict[str, str]:
        """With on_bad_sample="skip": the bad samples met so far by name, and what is wrong with each."""
        return dict(self._native.skipped()) if self._skips else {}

    def _warn_of_skipped(self) -> None:
        """Names the bad samples that no earlier warning counted."""
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
        """The next pass is that of `epoch`, from its beginning; but where load_state_dict() has gone to
        a place in that epoch, it stays there. set_epoch() of a data set in Python is called with it."""
        check(epoch=(epoch, 0, EPOCHS - 1))
        self._take_ranks()
        self._forget_peek()
        if not (self._resumes and epoch == self.epoch):
            self._seek(operator.index(epoch) * len(self), False)
        native = self.dataset._native
        for each in datasets_with_epochs(native.source) if isinstance(native, PythonSource) else ():
            each.set_epoch(operator.index(epoch))

    def state_dict(self) -> dict[str, int]:
        """Where the loop is: behind the last batch that it was given, also after it was left. All else
        says which samples come, with the batch size of all processes together.

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
        """The next pass goes on there, without reading the batches before, also behind a set_epoch() of
        the epoch that it is in. Raises Refused for the state of a loader that gives other samples, and
        for what is no state. Position and batches_per_epoch suffice.

        >>> data = ss.ImageFolder("photos", ss.transforms.CenterCrop(32))
        >>> loader = ss.DataLoader(data, batch_size=10)
        >>> loader.load_state_dict({"position": 3, "batches_per_epoch": 5})
        >>> len(list(loader))
        2
        """
        needed = ("position", "batches_per_epoch")
        if not isinstance(state, Mapping) or any(name not in state for name in needed):
            raise _native.Refused(
                f"{shortened(state)} is no state of a loader: give what its state_dict() returned, a mapping "
                "with at least 'position' and 'batches_per_epoch'"
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
        """Goes back to where an iteration began of which only the first batch was taken."""
        if self._peeked is not None:
            self._seek(*self._peeked)

    def _revive_workers(self) -> None:
        if self._workers is not None:
            self.dataset._take_attributes()
            self._workers.revive(self._native.halt)

    def _take_ranks_between_epochs(self) -> None:
        """Follows torch.distributed once it is initialized. Within an epoch the position counts batches of the
        ranks that the iteration started with."""
        if _is_distributed() and self._position % self._native.batches_per_epoch() == 0:
            self._take_ranks()

    def _take_ranks(self, resumes: bool = True) -> None:
        """Loads the share that this process has by now. The next iteration stays in its epoch."""
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
        """By which a stage's draws are keyed in the first batch of the next pass."""
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
                    "the loader was sent elsewhere since this pass began, by another pass, "
                    "set_epoch() or load_state_dict(): finish one first, or make a loader for each"
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
            f"{type(loader).__name__} has an __iter__ of its own, which {what} goes around: do what it does in a "
            "stage (slipstream.Stage) or in the loop's body, and give a slipstream.DataLoader"
        )


def _find_problems(wire: Any, transforms_device: Any, device: str, init: Any) -> list[str]:
    problems = []
    if wire is not None and not isinstance(wire, Mapping):
        problems.append(f"wire is {shortened(wire)}: give forms by field, such as {{'image': 'jpeg'}}")
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
