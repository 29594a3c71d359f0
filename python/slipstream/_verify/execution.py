"""Executes one run of a loop, with delays or as a reference, and collects the values that it returned."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from types import FrameType, FunctionType, TracebackType
from typing import Any, cast

import torch

from .. import _native
from .._blocks import contextmanager
from .._held_objects import HeldObject
from .schedule import Size
from .trace import keep_forever
from .treatment import Delayed, Reference
from .values import Value, collect_values, find_holders
from .watch import StaleReplay, Watch

_JOIN_S = 1.0
_AGAIN_S = 1.0
_LEAST_S = 1e-3


@dataclasses.dataclass
class Outcome:
    """The result of one run.

    values: the values that it returned and yielded, and those of objects that it refers to.
    error: the exception that it raised, or None.
    hung: whether the run did not end in time.
    failed: exceptions of its threads.
    has_lost_device: whether CUDA cannot be used in this process any more.
    notes: sentences about threads that raised an exception or continue after the run.
    devices: CUDA devices that it used.
    stale: replays of CUDA graphs that used memory which had been freed.
    """

    values: list[Value]
    error: BaseException | None
    hung: bool
    failed: list[BaseException]
    has_lost_device: bool
    notes: list[str]
    size: Size
    streams: int
    devices: set[int]
    stale: list[StaleReplay]


class RunTimedOut(BaseException):
    """A run took longer than the time limit."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the run did not end within {seconds:g} s")
        self.seconds = seconds


def execute(
    make_run: Callable[[], Any], treatment: Reference | Delayed, timeout: float | None
) -> Outcome:
    """Calls make_run and executes the run that it returns. Exceptions of the run are part of the outcome, exceptions of
    make_run are raised."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    watch = Watch(treatment)
    treatment.watch = watch
    values: list[Value] = []
    error: BaseException | None = None
    late: list[RunTimedOut] = []
    try:
        with watch.watching(), _time_limit(timeout, late):
            with watch.paused():
                run = _made(make_run)
                _synchronize(watch.devices())
            try:
                values = _values_of_run(run, watch)
            except (Exception, SystemExit) as raised:
                error = raised
            del run
    except RunTimedOut:
        pass
    finally:
        watch.end()
    error = late[0] if late else error
    has_lost_device = error is not None and _has_lost_device(watch.devices())
    if has_lost_device:
        keep_forever(error)
    if treatment.trace and not late:
        treatment.trace.finish(has_lost_device)
    # Threads of loaders end when their iterator is freed, which may be part of a reference cycle.
    if any(thread.is_alive() for thread in watch.started) and not has_lost_device:
        gc.collect()
    alive = _still_alive(watch)
    failed = list(watch.failed)
    notes = [f"thread '{name}' raised {type(each).__name__}: {each}" for name, each in failed]
    return Outcome(
        values, error, bool(late), [each for _, each in failed], has_lost_device, [*notes, *alive],
        watch.size(), watch.number_of_streams(), watch.devices(), watch.stale,
    )  # fmt: skip


def free_frames(error: BaseException | None) -> None:
    """Replaces the frames in the traceback of an error by empty ones. The variables of the original frames would keep
    models and batches in memory during the following runs."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        rest: TracebackType | None = None
        for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
            file, name = frame.f_code.co_filename, frame.f_code.co_name
            code = _nothing.__code__.replace(co_filename=file, co_name=name)
            empty = FunctionType(code, {})().gi_frame  # the frame of a generator that was not started has no caller
            rest = TracebackType(rest, empty, -1, line)
        BaseException.with_traceback(error, rest)  # not an assignment, which the class of the error may refuse
        error = error.__cause__ or error.__context__


def _nothing() -> Iterator[None]:
    yield


def _made(make_run: Callable[[], Any]) -> Callable[[], Any]:
    run: Any = make_run()
    if not callable(run) or isinstance(run, torch.nn.Module | type):
        raise _native.Refused(
            f"make_run() returned {type(run).__name__}: it must create a new data set, model and optimizer, and return "
            "a function without arguments that trains some steps and returns what to compare"
        )
    return cast(Callable[[], Any], run)


def _values_of_run(run: Callable[[], Any], watch: Watch) -> list[Value]:
    found: list[Value] = []
    held = find_holders(run)
    returned = run()
    if hasattr(returned, "__next__"):
        with contextlib.closing(_as_generator(returned)) as yielded:
            returned = _taken(yielded, found, watch)
    with watch.paused():
        _synchronize(watch.devices())
        named = {id(part) for part in _top_level(returned)}
        if returned is not None:
            found += collect_values(returned, "returned", False)
        for each in held:
            if id(each.content) not in named:
                found += _values_held(each)
        return [value.on_host() for value in found]


def _values_held(held: HeldObject) -> list[Value]:
    try:
        return collect_values(held.content, held.name, False)
    except Exception as error:  # the user did not ask for this object, so its broken state_dict() is ignored
        if held.depth > 0 and not isinstance(error, RunTimedOut | torch.AcceleratorError):
            return []
        raise


def _as_generator(values: Any) -> Any:
    return values if hasattr(values, "close") else (each for each in values)


def _taken(yielded: Any, found: list[Value], watch: Watch) -> Any:
    """Collects the values that a generator yields, and returns its return value."""
    number = 0
    while True:
        try:
            value = next(yielded)
        except StopIteration as end:
            return end.value
        with watch.paused():
            found += collect_values(value, f"yielded[{number}]", True)
        del value
        number += 1


def _top_level(returned: Any) -> list[Any]:
    if isinstance(returned, dict):
        return list(returned.values())
    return list(returned) if isinstance(returned, list | tuple) else [returned]


def _synchronize(devices: set[int]) -> None:
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        for device in devices | {torch.cuda.current_device()}:
            torch.cuda.synchronize(device)


def _has_lost_device(devices: set[int]) -> bool:
    try:
        _synchronize(devices)
    except RuntimeError:
        return True
    return False


def _still_alive(watch: Watch) -> list[str]:
    """Waits up to a second for the threads of the run, and returns a sentence about each that is still alive."""
    end = time.monotonic() + _JOIN_S
    threads = [each for each in watch.started if each not in watch.of_torch]
    for thread in threads:
        if thread is not threading.current_thread() and thread.ident is not None:
            thread.join(max(0.0, end - time.monotonic()))
    names = sorted({thread.name for thread in threads if thread.is_alive()})
    return [f"thread '{name}' was still alive a second after a run" for name in names]


@contextmanager
def _time_limit(seconds: float | None, late: list[RunTimedOut]) -> Iterator[None]:
    """Raises RunTimedOut in the block after this number of seconds, and then once a second, because the block may catch
    the exception and continue, or wait for something else.

    late: list to which all raised exceptions are appended."""
    if seconds is None:
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        late.append(RunTimedOut(seconds))
        raise late[-1]

    rest, interval = signal.setitimer(signal.ITIMER_REAL, 0)  # the program's own timer, which is restored at the end
    before, start = signal.signal(signal.SIGALRM, interrupt), time.monotonic()
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_S)
        yield
    finally:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0)
        finally:  # once more, because RunTimedOut may have been raised before the timer was stopped
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            if rest > 0:
                left_s = max(rest - (time.monotonic() - start), _LEAST_S)
                signal.setitimer(signal.ITIMER_REAL, left_s, interval)
