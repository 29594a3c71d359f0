"""The flags by which a loader reports the state of its iteration to Accelerate: those of Accelerate's loaders are
delayed until the loop body has their batch, and a slipstream.DataLoader gets its own."""

from __future__ import annotations

import collections
import copy
import sys
from collections.abc import Iterator
from typing import Any

from . import _native

_MISSING = object()


class Progress(Iterator[Any]):
    """Gives the batches of `source`, an iterator over `loader`, and delays changes of the loader's attributes.

    A pipeline requests a batch before the loop body gets it. Attributes that the loader changes meanwhile are restored,
    and changed again when the loop body gets that batch, because Accelerate's accumulate(), gather_for_metrics() and
    save_state() read them in the loop body.

    The iteration ends after the batch that the loader marks as its last one. The loader's own iteration ends only in
    end(), because the loader then resets its flags."""

    def __init__(self, loader: Any, source: Iterator[Any]) -> None:
        self._values, self._source = vars(loader), source
        self._ahead: dict[str, Any] = {}  # changed attributes, with the values that the loader last gave them
        self._pending: collections.deque[dict[str, Any]] = collections.deque()  # changes of each batch not yet given
        self._given = 0
        self._is_at_end = False

    def __next__(self) -> Any:
        if self._is_at_end:
            raise StopIteration
        in_body = {name: self._values.get(name, _MISSING) for name in self._ahead}
        self._set(self._ahead)
        before = dict(self._values)
        try:
            return next(self._source)
        finally:
            self._hold_back(before, in_body)

    def _hold_back(self, before: dict[str, Any], in_body: dict[str, Any]) -> None:
        now = dict(self._values)
        self._is_at_end = bool(now.get("end_of_dataloader"))
        changed = [
            name for name in {**before, **now} if now.get(name, _MISSING) is not before.get(name, _MISSING)
        ]
        self._set({name: before.get(name, _MISSING) for name in changed} | in_body)
        # A dict, such as a state, is copied because the loader may later change it in place.
        made = {name: now.get(name, _MISSING) for name in changed}
        made = {name: copy.deepcopy(each) if isinstance(each, dict) else each for name, each in made.items()}
        self._ahead |= made
        self._pending.append(made)

    def _set(self, values: dict[str, Any]) -> None:
        for name, value in values.items():
            if value is _MISSING:
                self._values.pop(name, None)
            else:
                self._values[name] = value

    def give(self, count: int) -> None:
        """Applies the attribute changes that belong to the first `count` batches. Called when the loop body has
        received these batches, or errors in their place."""
        for _ in range(self._given, count):
            self._apply()
        self._given = count

    def _apply(self) -> None:
        self._set(self._pending.popleft())
        if not self._pending:
            self._ahead = {}

    def end(self) -> None:
        """Applies all changes and ends the loader's iteration. Called when the loop body requests a batch after the
        last one."""
        while self._pending:
            self._apply()
        next(self._source, None)


def has_progress(loader: Any) -> bool:
    """Returns true if the loader marks its last batch, as Accelerate's loaders do."""
    return hasattr(loader, "end_of_dataloader") and hasattr(loader, "__dict__")


class LoopFlags:
    """Reports the position of one loop over a slipstream.DataLoader to Accelerate.

    Accelerate's accumulate() and gather_for_metrics() and Hugging Face's Trainer read both attributes. The loops of
    loaders that prepare() has wrapped have them, too.

    end_of_dataloader: whether the loop body has the last batch of the epoch.
    remainder: number of samples that all processes together have in an incomplete last step; 0 if the last step is
        complete, -1 if that is not known."""

    def __init__(self, batches: int | None, remainder: int) -> None:
        self.end_of_dataloader, self.remainder = False, remainder
        self._batches = batches
        self._state = _gradient_state()
        self._state._add_dataloader(self)

    def give(self, count: int) -> None:
        """Called when the loop body has received the first `count` batches, or errors in their place."""
        self.end_of_dataloader = count == self._batches

    def end(self) -> None:
        """Called when the loop ends or is left."""
        if has_accelerator():  # the program may have reset Accelerate's state
            self._state._remove_dataloader(self)


def has_accelerator() -> bool:
    """Returns whether the program has created an Accelerator."""
    state = getattr(sys.modules.get("accelerate.state"), "GradientState", None)
    return state is not None and bool(state._shared_state)


def _gradient_state() -> Any:
    """Returns Accelerate's state of the loops that are running."""
    return sys.modules["accelerate.state"].GradientState()


def refusing_hidden(source: Iterator[Any]) -> Iterator[Any]:
    """Returns an iterator over the same batches. It raises Refused if `source` iterates over a loader of Accelerate or
    a slipstream.DataLoader, because nothing delays the flags of a loader that is inside another iterable."""
    return _Watched(source, _gradient_state()) if has_accelerator() else source


class _Watched(Iterator[Any]):
    def __init__(self, source: Iterator[Any], state: Any) -> None:
        self._source, self._state, self._has_hidden = source, state, False

    def __next__(self) -> Any:
        before = self._state.active_dataloader
        item = next(self._source)
        active = self._state.active_dataloader
        self._has_hidden |= active is not None and active is not before
        if self._has_hidden:
            raise _native.Refused(HIDDEN)
        return item


HIDDEN = (
    "a slipstream.DataLoader or a loader that Accelerate prepared is inside another iterable, so accumulate() and "
    "gather_for_metrics() would see the flags of batches that the loop body does not have yet: give the loader itself, "
    "or what prepare_data_loader() returned, to one slipstream.Pipeline with all stages, or pass serial=True"
)
