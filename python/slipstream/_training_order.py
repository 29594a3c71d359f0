"""The order of batches in a slipstream.Trainer whose loader has a sampler."""

from __future__ import annotations

import collections
import io
import pickle
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from . import _native
from ._native_loading import Indices, to_indices
from ._order import ListedOrder, SampleKey

_UNSAVABLE = (
    "the state_dict() of the sampler contains objects that a checkpoint cannot hold: {reason}. Use only numbers, "
    "strings, tensors, lists, tuples and dicts in it"
)


class _Epoch:
    """One iteration over the sampler.

    first, end: numbers of its first batch, and of the batch after its last one, through all epochs.
    state: the state with which it begins.
    order: an order that is only used for this iteration."""

    def __init__(self, first: int, end: int, state: Mapping[str, Any], order: ListedOrder) -> None:
        self.first, self.end, self.state, self._order = first, end, state, order
        self._run = order.begin()
        self.number, self.first_in_epoch = self._run.epoch, self._run.first
        self.batches: Iterator[list[SampleKey]] = self._run.batches()

    def batch_number(self, batch: int) -> int:
        """Returns the number that selects the random numbers of a batch, as in an iteration over the loader."""
        return self._run.first_number + batch - self.first

    def give(self, batch: int) -> None:
        """Forgets the states before `batch`."""
        self._run.given(batch - self.first)

    def state_at(self, batch: int) -> Mapping[str, Any]:
        if batch == self.first:
            return self.state
        self.give(batch)
        return self._order.state_dict()


class TrainingOrder:
    """Lists the batches of a sampler for a native training. Batches are numbered through all epochs. The training
    requests batches before it needs them, also those of the next epoch, so each epoch has a separate order.

    order: the order of the loader. It is not iterated; its position stays the same.
    set_epoch: calls set_epoch() of the sampler, if it has this method."""

    def __init__(self, order: ListedOrder, set_epoch: Callable[[int], None]) -> None:
        self._order, self._set_epoch = order, set_epoch
        self._length = order.length()
        self._epochs: collections.deque[_Epoch] = collections.deque()
        self._restored: tuple[int, Mapping[str, Any] | None] = (0, None)  # position and state
        self._listed: list[tuple[int, Indices]] = []  # batches that take() did not return, because it was interrupted
        self._error: Exception | None = None
        self._is_checked = False

    def take(self, trained: int, needed: int, first: int, end: int) -> list[tuple[int, Indices]]:
        """Returns the batches from `first` to `end`, exclusive. Each has a number that selects its random numbers.

        `first` is the batch after the last one that was returned. If a KeyboardInterrupt is raised, the next call
        returns the batches that the sampler has already listed.

        trained: batches before this one are not needed again. needed: an exception of the sampler is raised when this
            batch is the one that it did not list. Until then, the batches before it are returned."""
        self._forget(trained)
        while self._error is None and first + len(self._listed) < end:
            try:
                self._listed.append(self._next(first + len(self._listed)))
            except Exception as error:
                self._error = error
        if self._error is not None and not self._listed and needed >= first:
            raise self._error
        batches, self._listed = self._listed[: end - first], self._listed[end - first :]
        return batches

    def _forget(self, trained: int) -> None:
        while self._epochs and self._epochs[0].end <= trained:
            self._epochs.popleft()
        if self._epochs and self._epochs[0].first < trained:
            self._epochs[0].give(trained)

    def _next(self, batch: int) -> tuple[int, Indices]:
        if not self._epochs or self._epochs[-1].end == batch:
            self._epochs.append(self._begin(batch))
        epoch = self._epochs[-1]
        keys = next(epoch.batches, None)
        # The sampler must be at its end before the state between two epochs is saved.
        if keys is None or (batch + 1 == epoch.end and next(epoch.batches, None) is not None):
            listed = f"{batch % self._length}" if keys is None else f"more than {self._length}"
            raise _native.Error(
                f"the sampler lists {listed} batches in epoch {epoch.number}, but its length is {self._length} "
                "batches: give a sampler with the same length in each epoch, or keep your own loop"
            )
        return epoch.batch_number(batch), to_indices(keys)

    def _begin(self, batch: int) -> _Epoch:
        number, in_epoch = divmod(batch, self._length)
        self._set_epoch(number)
        order = self._order.renewed()
        position, state = self._restored
        if state is None or position != batch:
            order.set_epoch(number)
            state = order.state_dict()
        else:
            order.load_state_dict(state)
        epoch = _Epoch(batch, (number + 1) * self._length, state, order)
        if (epoch.number, epoch.first_in_epoch) != (number, in_epoch):
            raise _native.Refused(
                f"the state of the sampler is that of batch {epoch.first_in_epoch} of epoch {epoch.number}, but the "
                f"training continues with batch {in_epoch} of epoch {number}: give a sampler with the same number of "
                "batches as when the checkpoint was saved"
            )
        return epoch

    def state(self, position: int) -> bytes:
        """Returns the state with which restore() makes `position` the next batch."""
        saved = io.BytesIO()
        torch.save(self._state_at(position), saved)
        if not self._is_checked:
            _load(saved.getvalue())
            self._is_checked = True
        return saved.getvalue()

    def _state_at(self, position: int) -> Mapping[str, Any]:
        for epoch in self._epochs:
            if epoch.first <= position < epoch.end:
                return epoch.state_at(position)
        restored, state = self._restored
        if position == restored and state is not None:
            return state
        order = self._order.renewed()
        order.set_epoch(position // self._length)
        return order.state_dict()

    def restore(self, position: int, state: bytes) -> None:
        """Makes `position` the next batch. An empty state is only valid for position 0."""
        if not state and position > 0:
            raise _native.Refused("this state has no position of the sampler: it is of a training without a sampler")
        loaded = _load(state) if state else None
        if loaded is not None:
            self._order.renewed().load_state_dict(loaded)  # raises Refused if it is not valid
        self._epochs.clear()
        self._listed.clear()
        self._restored, self._error = (position, loaded), None


def _load(saved: bytes) -> Mapping[str, Any]:
    try:
        state = torch.load(io.BytesIO(saved), weights_only=True)
    except pickle.UnpicklingError as error:
        raise _native.Refused(_UNSAVABLE.format(reason=str(error).split("\n")[0])) from None
    assert isinstance(state, Mapping)
    return state
