"""Iterators over the batches of slipstream.Pipeline and slipstream.DataLoader."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import torch

from . import _native
from ._graph_trees import IsolatedStage, isolate
from ._remedies import add_remedy
from ._signals import add_note, describe_place
from ._stages import Stage, first_module
from ._worker_errors import with_type


ALL = (1 << 64) - 1  # a limit that no iteration reaches
RUN_AHEAD = 2  # number of batches that the host may enqueue by default; slipstream.Pipeline describes it


class Loop(Protocol):
    """Gives batches. After an error, the next call gives the batch that follows the failed one."""

    def __next__(self) -> Any: ...
    def failed(self) -> str:
        """Returns the name of the stage that raised the last error; "" if no stage did."""
        ...

    def given(self) -> int:
        """Returns the number of batches that next() has returned or raised an error for."""
        ...

    def loader_times(self) -> tuple[float, float]:
        """Returns the wall time and the CPU time, in seconds, that next() has spent in the loader since the first
        call."""
        ...

    def lost(self) -> int:
        """Returns the number of batches that were read from the loader in advance and that next() has not returned."""
        ...

    def close(self) -> None: ...


class SerialLoop:
    """Runs copies and stages on the caller's stream, in the order of a plain loop (`plan="serial"`)."""

    def __init__(
        self, source: Iterator[Any], stages: Sequence[Stage], device: str, first: int, limit: int = ALL
    ) -> None:
        self.source, self._stages, self._device, self._first = source, stages, device, first
        self._isolated = [isolate(stage, device) for stage in stages]
        self._limit = limit
        self._given, self._failed = 0, ""
        self._counts_loader = False  # reading the CPU time is a system call
        self._wall_s = self._cpu_s = 0.0
        self._autocast = _native.AutocastWatch()

    def __next__(self) -> Any:
        self._failed = ""
        if differs := self._autocast.end_body():
            raise _native.Error(differs)
        if self._given >= self._limit:
            raise StopIteration
        try:
            item = self._counted_next() if self._counts_loader else next(self.source)
        except StopIteration:
            raise
        except BaseException:
            self._given += 1
            raise
        number = self._first + self._given
        self._given += 1
        batch = _native.moved(item, self._device)
        for stage, isolated in zip(self._stages, self._isolated, strict=True):
            batch = self._staged(stage, isolated, batch, number)
        self._autocast.begin_body()
        return batch

    def _counted_next(self) -> Any:
        wall_s, cpu_s = time.perf_counter(), time.thread_time()
        try:
            return next(self.source)
        finally:
            self._wall_s += time.perf_counter() - wall_s
            self._cpu_s += time.thread_time() - cpu_s

    def _staged(self, stage: Stage, isolated: Stage | IsolatedStage, batch: Any, number: int) -> Any:
        try:
            with torch.no_grad(), _native.KeyedDraws(self._device, stage._draw_seed(), number):
                is_watched = stage.autocast is None and self._autocast.is_on()
                if is_watched:
                    self._autocast.begin_stage()
                batch = isolated._run(batch, number)
                if is_watched:
                    self._autocast.end_stage(stage.name)
                return batch
        except StopIteration as error:  # would silently end the caller's loop
            self._failed = stage.name
            raise RuntimeError(f"stage '{stage.name}' raised StopIteration") from error
        except BaseException as error:
            self._failed = stage.name
            add_remedy(error, batch)
            raise

    @property
    def loop(self) -> SerialLoop:
        return self

    def failed(self) -> str:
        return self._failed

    def given(self) -> int:
        return self._given

    def loader_times(self) -> tuple[float, float]:
        self._counts_loader = True
        return self._wall_s, self._cpu_s

    def lost(self) -> int:
        return 0

    def close(self) -> None:
        self.source, self._stages, self._isolated = iter(()), (), []
        self._autocast.end_body()


class Pass:
    """The native loop of one iteration over a source, or over at most `limit` batches of it. As a context manager it
    gives the loop and closes it at the end; batches that were prepared in advance are then dropped."""

    def __init__(
        self,
        source: _native.Loader | Iterator[Any],
        ready: Callable[[], bool] | None,
        stages: Sequence[Stage],
        device: str,
        run_ahead: int,
        first: int,
        limit: int = ALL,
    ) -> None:
        # References of the native loop to Python objects. They are kept here because the garbage collector cannot see
        # references in C++, so cycles through the loop would never be freed.
        self._kept: list[Any] = []
        self.source = source
        native = [
            _native.LoopStage(
                stage.name,
                stage._run if stage._takes_number() else isolate(stage, device),
                first_module(stage.function),
                stage._draw_seed(),
                self._kept,
                stage._script(device),
                stage._arguments,
                stage._placed,
                stage._direct(),
                stage.autocast is not None,
                stage._takes_number(),
            )
            for stage in stages
        ]
        self._loop = _native.Loop(source, ready, native, device, first, limit, run_ahead, self._kept)

    @property
    def loop(self) -> _native.Loop:
        """The native loop. Closing or deleting it drops the batches that were prepared in advance."""
        return self._loop

    def __enter__(self) -> _native.Loop:
        return self._loop

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Closes the loop without waiting for the device."""
        self._loop.close()


class LoopOwner(Protocol):
    """Owns the loop of an iteration."""

    @property
    def loop(self) -> Loop: ...

    @property
    def source(self) -> Any:
        """The iterator from which the loop takes its batches."""


class Iteration(Iterator[Any]):
    """An iterator over the batches of one epoch. An error is raised in place of its batch: the next call of next()
    gives the batch that follows it, as iterators of torch.utils.data.DataLoader do.

    begin: called when the first batch is requested; returns the object that owns the loop.
    passed: called after each batch with the number of batches so far, including those with an error. It is not called
        after an error, so a state that is saved then is the one before the failed batch.
    check: called before each later batch; raises an exception if the iteration is no longer valid.
    ended: called when a batch is requested after the last one.
    left: called with the loop if the iteration is closed before its end.
    """

    def __init__(
        self,
        begin: Callable[[], LoopOwner],
        passed: Callable[[int], None] | None = None,
        check: Callable[[], None] | None = None,
        ended: Callable[[], None] | None = None,
        left: Callable[[Loop], None] | None = None,
    ) -> None:
        self._begin, self._passed, self._check, self._ended, self._left = begin, passed, check, ended, left
        self._owner: LoopOwner | None = None
        self._loop: Loop | None = None
        self._is_closed = False

    @property
    def loop(self) -> Loop | None:
        """The loop, or None before the first batch and after the end."""
        return self._loop

    @property
    def source(self) -> _native.Loader | Iterator[Any] | None:
        """The loader or iterator that gives batches to the loop, or None before the first batch and after the end."""
        return None if self._owner is None else self._owner.source

    def __next__(self) -> Any:
        if self._is_closed:
            raise StopIteration
        loop = self._loop
        if loop is None:
            self._owner = self._begin()
            loop = self._loop = self._owner.loop
        elif self._check is not None:
            self._check()
        try:
            batch = next(loop)
        except StopIteration:
            if self._ended is not None:
                self._ended()
            self._left = None
            self.close()
            raise
        except BaseException as error:
            _note(error, loop.failed())
            if not isinstance(error, _native.Error):
                raise
            # The new exception keeps the cause. Without `from`, the traceback would show `error` as a second exception.
            raise with_type(error) from error.__cause__
        if self._passed is not None:
            self._passed(loop.given())
        return batch

    def close(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        """Ends the iteration and drops batches that were prepared in advance, without waiting for the device."""
        if self._is_closed:
            return
        self._is_closed = True
        loop, self._loop = self._loop, None
        if loop is None:
            return
        loop.close()
        self._owner = None
        if self._left is not None and not is_finalizing():
            self._left(loop)

    def __del__(self) -> None:
        self.close()


def _note(error: BaseException, stage: str) -> None:
    if stage:
        place = f"in stage '{stage}' of a slipstream.Pipeline"
        add_note(error, describe_place(error, error.__traceback__, place))


def warn_of_lost_batches(loop: Any, source: str) -> bool:
    """Warns if a loop over an iterator ended early and batches that were taken in advance are lost, because an iterator
    cannot give them again. Returns true if it warned."""
    lost: int = loop.lost()
    if lost > 0:
        warnings.warn(
            f"the loop over a slipstream.Pipeline ended early, and {lost} further batches that had already been taken "
            f"from the {source} are lost, because it can be iterated only once. Remedy: give the pipeline a loader "
            "that can be iterated again, or keep its iterator, it = iter(pipeline), and continue with it",
            stacklevel=5,
        )
    return lost > 0
