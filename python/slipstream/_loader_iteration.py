"""One iteration over a slipstream.DataLoader, with the stages of a pipeline."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from . import _native
from ._iteration import Iteration, LoopOwner, Pass, SerialLoop
from ._order import Run
from ._plan_choice import PlanChoice, begin_loop
from ._progress import LoopFlags
from ._stages import Stage


class Reading(Protocol):
    """The batches of one iteration: NativeReading, PythonReading or CachedReading."""

    @property
    def source(self) -> _native.Loader | Iterator[Any]:
        """A native loader, or an iterator over the batches."""
        ...

    @property
    def ready(self) -> Callable[[], bool] | None:
        """Returns true if the next batch can be taken without waiting; None if that is not known."""
        ...

    def refill(self, given: int) -> None: ...
    def close(self) -> None: ...



class LoaderIteration:
    """Connects the loop of one iteration with the order and the loading of a loader.

    read: begins an iteration. Its argument is the number of batches that the loop may take in advance.
    make_flags: returns the flags of an iteration for Accelerate, or None if the program does not use it.
    ended: called when the iteration ends or is left.
    choice: selects the plan."""

    def __init__(
        self,
        read: Callable[[int], tuple[Run, Reading]],
        make_flags: Callable[[Run], LoopFlags | None],
        ended: Callable[[], None],
        stages: Sequence[Stage],
        device: str,
        run_ahead: int,
        choice: PlanChoice | str,
    ) -> None:
        self._read, self._make_flags, self._ended = read, make_flags, ended
        self._stages, self._device, self._run_ahead, self._choice = stages, device, run_ahead, choice
        self._given = 0

    def iterator(self) -> Iteration:
        """Returns the iterator over the rest of the epoch. The epoch begins when its first batch is requested."""
        end = functools.partial(self._end, True)
        return Iteration(self._begin, self._give, self._refill, ended=end, left=self._leave)

    def _begin(self) -> LoopOwner:
        self._run, self._reading = self._read(self._run_ahead + len(self._stages) + 2)
        try:
            self._reading.refill(0)
            owner = begin_loop(self._choice, self._make_loop, self._device)
        except BaseException:
            self._reading.close()
            raise
        self._flags = self._make_flags(self._run)
        return owner

    def _make_loop(self, plan: str, given: int, limit: int) -> Pass | SerialLoop:
        reading, device, first = self._reading, self._device, self._run.first_number + given
        stages = () if plan == "serial" else self._stages
        self._pass = Pass(reading.source, reading.ready, stages, device, self._run_ahead, first, limit)
        return SerialLoop(self._pass.loop, self._stages, device, first, limit) if plan == "serial" else self._pass

    def _refill(self) -> None:
        self._reading.refill(self._given)

    def _give(self, given: int) -> None:
        self._given = given
        self._run.given(given)
        if self._flags is not None:
            self._flags.give(given)

    def _leave(self, loop: Any) -> None:
        self._end(False)

    def _end(self, is_complete: bool) -> None:
        self._pass.loop.close()
        self._reading.close()
        self._run.end(is_complete)
        if self._flags is not None:
            self._flags.end()
        self._ended()
