"""Flags of a loader that say where its iteration is, such as those of Accelerate's loaders."""

from __future__ import annotations

import collections
import copy
import sys
from collections.abc import Iterator
from typing import Any

from . import _native

_MISSING = object()


class Progress(Iterator[Any]):
    """Gives the batches of `source`, an iterator over `loader`, and holds back what the loader changes about itself
    while it is asked ahead of the loop body. The change is applied once the loop body gets that batch: Accelerate's
    accumulate(), gather_for_metrics() and save_state() read the loader's attributes there.

    It reports the end after the batch that the loader marks as its last, without asking the loader, which ends its
    iteration in end()."""

    def __init__(self, loader: Any, source: Iterator[Any]) -> None:
        self._values, self._source = vars(loader), source
        self._ahead: dict[str, Any] = {}  # after the last batch taken, where that differs
        self._pending: collections.deque[dict[str, Any]] = collections.deque()
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
        # A state is a dict, which the loader may continue to fill.
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
        """The loop body got the first `count` batches, errors among them."""
        for _ in range(self._given, count):
            self._apply()
        self._given = count

    def _apply(self) -> None:
        self._set(self._pending.popleft())
        if not self._pending:
            self._ahead = {}

    def end(self) -> None:
        """The loop body asked for a batch after the last one."""
        while self._pending:
            self._apply()
        next(self._source, None)


def has_progress(loader: Any) -> bool:
    """Whether the loader marks its last batch, as Accelerate's loaders do."""
    return hasattr(loader, "end_of_dataloader") and hasattr(loader, "__dict__")


def refusing_hidden(source: Iterator[Any]) -> Iterator[Any]:
    """The same batches. Refuses a loader of Accelerate's somewhere inside `source`, whose flags would be ahead of the
    loop body."""
    state = getattr(sys.modules.get("accelerate.state"), "GradientState", None)
    return source if state is None else _Watched(source, state())


class _Watched(Iterator[Any]):
    def __init__(self, source: Iterator[Any], state: Any) -> None:
        self._source, self._state, self._before = source, state, state.active_dataloader

    def __next__(self) -> Any:
        item = next(self._source)
        active = self._state.active_dataloader
        if active is not None and active is not self._before:
            raise _native.Refused(HIDDEN)
        return item


HIDDEN = (
    "the loader that Accelerate prepared is inside another iterable, so accumulate() and gather_for_metrics() would "
    "see the flags of batches that the loop body does not have yet: give what prepare_data_loader() returned to one "
    "slipstream.Pipeline with all stages, or pass serial=True"
)
