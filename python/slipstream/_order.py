"""The order in which slipstream.DataLoader gives samples: computed from a seed, or listed by a sampler."""

from __future__ import annotations

import copy
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import torch

from . import _native
from ._checks import EPOCHS, check, shortened
from ._sampler_states import ListedBatch, SamplerStates
from ._seeds import Seed, is_distributed

Ranks = tuple[int, int]  # rank and world size


def _ranks_of_group() -> Ranks:
    return (torch.distributed.get_rank(), torch.distributed.get_world_size()) if is_distributed() else (0, 1)


class SampleKey(NamedTuple):
    """Identifies one use of a sample. All random numbers for it follow from these values."""

    seed: int
    epoch: int
    sample: Any  # index in the data set
    occurrence: int  # distinguishes several uses of a sample in one epoch


class Run(Protocol):
    """One iteration over an order."""

    @property
    def first_number(self) -> int:
        """Number of the first batch, which selects the random numbers of stages. The epoch is in the upper 32 bits."""
        ...

    def batches(self) -> Iterator[list[SampleKey]]:
        """Yields the batches that are left of the epoch."""
        ...

    def given(self, count: int) -> None:
        """Called with the number of batches that the loop has taken so far."""
        ...

    def end(self, is_complete: bool) -> None:
        """Called when the iteration ends. is_complete: whether the loop took all batches."""
        ...


class ComputedOrder:
    """An order that is a function of seed and epoch. Processes share the samples of each step.

    Its position is the number of batches given so far, counted through all epochs."""

    def __init__(
        self, samples: int, batch_size: int, shuffle: bool, drop_last: bool, seed: Seed, ranks: Ranks | None
    ) -> None:
        if samples == 0:
            raise _native.Refused("the data set is empty")
        self._samples, self._batch_size, self._shuffle, self._drop_last = samples, batch_size, shuffle, drop_last
        self._seed, self._given_ranks = seed, ranks
        self.ranks = self._ranks_now()
        self._position, self._resumes = 0, False
        # Set while an iteration has given only its first batch, because looking at one batch must not use up an
        # epoch: the position at which that iteration began, and whether it resumed there.
        self._peeked: tuple[int, bool] | None = None
        self._run: ComputedRun | None = None
        self._length = self._make(0).batches_per_epoch()
        if self._length == 0:
            raise _native.Refused(
                f"batch_size {batch_size} on {self.ranks[1]} processes is more than the {samples} samples of the data "
                "set, and drop_last=True leaves no batch: give a smaller batch_size, or leave drop_last out"
            )

    def _ranks_now(self) -> Ranks:
        if self._given_ranks is not None:
            return self._given_ranks
        return _ranks_of_group()

    @property
    def batch_size(self) -> int:
        """Samples in a full batch, which is smaller than the given size if one step has all samples."""
        if self._drop_last:
            return self._batch_size
        return min(self._batch_size, -(-self._samples // self.ranks[1]))

    def _make(self, seed: int) -> _native.EpochOrder:
        return _native.EpochOrder(
            self._samples, self.batch_size, self._shuffle, self._drop_last, seed, self.ranks
        )

    @property
    def has_seed(self) -> bool:
        """Whether the caller gave a seed."""
        return self._seed.is_given

    def adopt_seed(self, seed: int) -> None:
        self._seed.adopt(seed)

    def seed(self) -> int:
        world_size = self.ranks[1]
        name = f"{self._samples},{self._batch_size},{self._shuffle},{self._drop_last}"
        # Without shuffling, processes need not agree on a seed.
        return self._seed.value(
            world_size if self._shuffle else 1, self._given_ranks is None and world_size > 1, name
        )

    def computed(self) -> _native.EpochOrder:
        return self._make(self.seed())

    def length(self) -> int:
        self._take_ranks_between_epochs()
        return self._length

    def epoch(self) -> int:
        self._take_ranks_between_epochs()
        return self._next_epoch()

    def _next_epoch(self) -> int:
        position, resumes = self._peeked or (self._position, self._resumes)
        whole, rest = divmod(position, self._length)
        return whole if rest == 0 or resumes else whole + 1

    def set_epoch(self, epoch: int) -> None:
        self.take_ranks()
        self._forget_peek()
        if not (self._resumes and epoch == self._next_epoch()):
            self._seek(epoch * self._length, False)

    def begin(self) -> ComputedRun:
        self.take_ranks()
        # Another iteration that is still in use is not a look at one batch: this one gets the next epoch.
        if self._run is not None and not self._run.has_ended:
            self._peeked = None
        else:
            self._forget_peek()
        first = self._position if self._resumes else self._next_epoch() * self._length
        resumed = self._resumes
        self._seek(first, False)
        self._run = ComputedRun(self, first, resumed, self.seed())
        return self._run

    def move(self, run: ComputedRun, count: int) -> None:
        """Moves to the batch after the first `count` batches of `run`, if no other iteration has begun since."""
        if run is self._run:
            self._position = run.first + count
            # Frameworks that count batches do not request one after the last, so the last batch ends the epoch.
            is_last = self._position % self._length == 0
            self._peeked = (run.first, run.resumed) if count == 1 and not is_last else None

    def state_dict(self) -> dict[str, int]:
        return {
            "position": self._position,
            "batches_per_epoch": self.length(),
            "samples": self._samples,
            "global_batch_size": self._batch_size * self.ranks[1],
            "seed": self.seed(),
            "shuffle": self._shuffle,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        needed = ("position", "batches_per_epoch")
        if not isinstance(state, Mapping) or any(name not in state for name in needed):
            raise _native.Refused(
                f"{shortened(state)} is not the state of a loader: give the result of its state_dict(), a mapping "
                "with at least 'position' and 'batches_per_epoch'"
            )
        self.take_ranks(resumes=False)
        if not self._seed.is_given and "seed" in state:
            self._seed.adopt(operator.index(state["seed"]))
        ours = self.state_dict()
        others = [name for name in ours if name != "position" and state.get(name, ours[name]) != ours[name]]
        if others:
            theirs = ", ".join(f"{name}={shortened(state[name])}" for name in others)
            raise _native.Refused(
                f"this state was saved by a loader with {theirs}, but this one has "
                f"{', '.join(f'{name}={ours[name]}' for name in others)}: create the loader with the same data, seed, "
                "shuffle and drop_last, and the same total batch size"
            )
        check(position=(state["position"], 0, EPOCHS * self._length - 1))
        self._seek(operator.index(state["position"]), True)

    def _seek(self, position: int, resumes: bool) -> None:
        self._position, self._resumes, self._peeked = position, resumes, None
        self._run = None

    def _forget_peek(self) -> None:
        """Undoes an iteration that gave only its first batch, so that its epoch starts again."""
        if self._peeked is not None:
            self._seek(*self._peeked)

    def _take_ranks_between_epochs(self) -> None:
        """Takes over the rank and world size of torch.distributed between two epochs. Inside an epoch they must not
        change, because the position counts batches of the world size with which the iteration started."""
        if self._given_ranks is None and self._position % self._length == 0:
            self.take_ranks()

    def take_ranks(self, resumes: bool = True) -> None:
        """Changes to the share of samples that this process has now. The epoch of the next iteration stays the same.

        resumes: whether a position inside an epoch, set by load_state_dict(), must remain valid. Raises Refused if it
        does not."""
        ranks = self._ranks_now()
        if ranks == self.ranks:
            return
        self._forget_peek()
        epoch = self._next_epoch()
        if resumes and self._resumes and self._position % self._length != 0:
            raise _native.Refused(
                f"load_state_dict() set a position within an epoch for {self.ranks[1]} processes, but now "
                f"torch.distributed has {ranks[1]}: call load_state_dict() after init_process_group()"
            )
        before, self.ranks = self.ranks, ranks
        try:
            self._length = self._make(0).batches_per_epoch()
        except _native.Refused:
            self.ranks = before
            raise
        self._seek(epoch * self._length, False)


class ComputedRun:
    def __init__(self, order: ComputedOrder, first: int, resumed: bool, seed: int) -> None:
        self._order, self.first, self.resumed, self._seed = order, first, resumed, seed
        self._epoch, self._batch = divmod(first, order.length())
        self._length = order.length()
        self.has_ended = False

    @property
    def first_number(self) -> int:
        return (self._epoch << 32) + self._batch

    def batches(self) -> Iterator[list[SampleKey]]:
        order = self._order.computed()
        for number in range(self.first, self.first - self._batch + self._length):
            yield [SampleKey(self._seed, self._epoch, *each) for each in order.batch(number)]

    def given(self, count: int) -> None:
        self._order.move(self, count)

    def end(self, is_complete: bool) -> None:
        self.has_ended = True


class ListedOrder:
    """The batches that a sampler lists for each epoch.

    batch_sampler: an iterable of lists of indices, which is iterated again for each epoch."""

    def __init__(self, batch_sampler: Iterable[Any], seed: Seed) -> None:
        self._batch_sampler, self._seed = batch_sampler, seed
        self._states = SamplerStates(batch_sampler)
        self._epoch = 0
        self._resumes: Mapping[str, Any] | None = None  # a state inside an epoch, from load_state_dict()
        self._run: ListedRun | None = None

    def renewed(self) -> ListedOrder:
        """Returns an order of the same sampler and seed, at its beginning."""
        return ListedOrder(self._batch_sampler, self._seed)

    @property
    def batch_sampler(self) -> Any:
        return self._batch_sampler

    @property
    def ranks(self) -> Ranks:
        """Rank and world size of the processes that train together. The sampler decides what each of them loads."""
        return _ranks_of_group()

    @property
    def has_seed(self) -> bool:
        """Whether the caller gave a seed."""
        return self._seed.is_given

    def adopt_seed(self, seed: int) -> None:
        self._seed.adopt(seed)

    def seed(self) -> int:
        return self._seed.value(1, False, "")

    def length(self) -> int:
        return len(self._batch_sampler)  # type: ignore[arg-type]

    def epoch(self) -> int:
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        if self._resumes is not None and epoch == self._resumes["epoch"]:
            return
        self._epoch, self._resumes, self._run = epoch, None, None

    def begin(self) -> ListedRun:
        state, self._resumes = self._resumes, None
        if state is not None:
            self._epoch = state["epoch"]
        if self._run is not None and not self._run.has_ended and self._run.count > 0:
            self._epoch = max(self._epoch, self._run.epoch + 1)
        first = state["batch"] if state else 0
        batches = self._states.begin(self._batch_sampler, state["sampler"] if state else None)
        if state is not None and first > 0:
            rest = next(batches, None)
            if rest is None:  # the state was saved during the last batch of the epoch
                self._epoch, first = self._epoch + 1, 0
                batches = self._states.begin(self._batch_sampler, None)
            else:
                batches = itertools.chain([rest], batches)
        self._run = ListedRun(self, self._epoch, first, self.seed(), batches)
        return self._run

    def move(self, run: ListedRun, count: int) -> None:
        if run is self._run:
            self._states.give(count)
            if count > 1 or run.first > 0 or self._has_one_batch():
                self._epoch = run.epoch + 1

    def _has_one_batch(self) -> bool:
        try:
            return self.length() == 1
        except TypeError:  # the sampler has no length
            return False

    def complete(self, run: ListedRun) -> None:
        if run is self._run:
            self._epoch, self._run = run.epoch + 1, None

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = {"seed": self.seed()}
        if self._resumes is not None:
            return state | {name: copy.deepcopy(self._resumes[name]) for name in ("epoch", "batch", "sampler")}
        if self._run is None or self._run.count == 0:
            return state | {"epoch": self._epoch, "batch": 0, "sampler": self._states.at_boundary()}
        run = self._run
        return state | {"epoch": run.epoch, "batch": run.first + run.count, "sampler": self._states.inside()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if not isinstance(state, Mapping) or not {"seed", "epoch", "batch", "sampler"} <= state.keys():
            raise _native.Refused(
                f"{shortened(state)} is not the state of a loader with a sampler: give the result of its state_dict()"
            )
        check(epoch=(state["epoch"], 0, EPOCHS - 1), batch=(state["batch"], 0))
        if self._seed.is_given and state["seed"] != self.seed():
            raise _native.Refused(
                f"this state was saved by a loader with seed={state['seed']}, but this one has seed={self.seed()}: "
                "create the loader with the same seed"
            )
        self._states.check(state["sampler"])
        self._seed.adopt(operator.index(state["seed"]))
        self._epoch, self._run = operator.index(state["epoch"]), None
        self._resumes = copy.deepcopy(dict(state))


class ListedRun:
    def __init__(
        self, order: ListedOrder, epoch: int, first: int, seed: int, batches: Iterator[ListedBatch]
    ) -> None:
        self._order, self.epoch, self.first, self._seed, self._batches = order, epoch, first, seed, batches
        self.count, self.has_ended = 0, False

    @property
    def first_number(self) -> int:
        return (self.epoch << 32) + self.first

    def batches(self) -> Iterator[list[SampleKey]]:
        for samples, uses in self._batches:
            yield [
                SampleKey(self._seed, self.epoch, sample, use % (1 << 16))
                for sample, use in zip(samples, uses, strict=True)
            ]

    def given(self, count: int) -> None:
        self.count = count
        self._order.move(self, count)

    def end(self, is_complete: bool) -> None:
        self.has_ended = True
        if is_complete:
            self._order.complete(self)


class StreamOrder:
    """The epochs of an iterable-style data set, which decides about samples and batches itself.

    length: function that returns the number of batches in an epoch, or raises TypeError."""

    def __init__(self, seed: Seed, length: Callable[[], int]) -> None:
        self._seed, self.length = seed, length
        self._epoch = 0

    def seed(self) -> int:
        return self._seed.value(1, False, "")

    def epoch(self) -> int:
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        self._epoch = epoch

    def begin(self) -> StreamRun:
        return StreamRun(self, self._epoch)

    def complete(self, epoch: int) -> None:
        self._epoch = max(self._epoch, epoch + 1)


class StreamRun:
    def __init__(self, order: StreamOrder, epoch: int) -> None:
        self._order, self.epoch = order, epoch

    @property
    def first_number(self) -> int:
        return self.epoch << 32

    def batches(self) -> Iterator[list[SampleKey]]:
        raise NotImplementedError("the data set decides about its batches")

    def given(self, count: int) -> None:
        if count > 1:
            self._order.complete(self.epoch)

    def end(self, is_complete: bool) -> None:
        if is_complete:
            self._order.complete(self.epoch)


Order = ComputedOrder | ListedOrder | StreamOrder

