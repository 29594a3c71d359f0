"""Code that runs before and after each operation: the reference waits for the device, other runs are delayed."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch

from .graphs import GraphContents
from .schedule import Delays, Schedule
from .trace import Trace
from .watch import Operation, Thread, Watch

_CYCLES_PER_SECOND = 1.7e9  # approximate clock rate of recent GPUs; the length of a delay need not be exact
_CLOCK_OF_THREAD = 6  # CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED of Linux: the CPU time of one thread
_LOOK_S = 0.001
_BACKWARD = torch.autograd.graph._engine_run_backward.__code__
_LONGEST_TURN_S = 0.25
_LONGEST_TURNS_S = 5.0


class Reference:
    """A run without overlap. The host waits for the device after each operation, and a thread works only while all
    threads that were started before it wait."""

    def __init__(self, trace: Trace | None) -> None:
        self.trace = trace
        self.watch: Watch
        self._held_s = 0.0

    def before(self, operation: Operation) -> None:
        thread = operation.thread
        if thread.rank and self._held_s < _LONGEST_TURNS_S:
            self._held_s += self._await_turn(thread)
        if self.trace:
            operation.step = self.trace.before(operation)

    def after(self, operation: Operation, result: Any) -> None:
        if self.trace:
            self.trace.after(operation.step, operation, result)
        for device in self.watch.devices():
            with torch.cuda.device(device):
                # While a stream of another thread captures a graph, waiting for the device would be an error.
                if not torch.cuda.is_current_stream_capturing() and not self.watch.is_capturing():
                    torch.cuda.synchronize()

    def captured(self, contents: GraphContents, device: int | None) -> None:
        pass

    def _await_turn(self, thread: Thread) -> float:
        """Waits until all threads that were started before this one wait. Returns the seconds that were lost if they
        did not.

        The waiting is limited, because an earlier thread may itself be waiting for this one without that being visible:
        it stops if the earlier threads call no operations for a while, and if they call operations for too long."""
        begin = last_call = time.monotonic()
        seen = calls = None
        while (now_s := time.monotonic()) < last_call + _LONGEST_TURN_S:
            if now_s > begin + _LONGEST_TURNS_S:
                return _LONGEST_TURNS_S
            before = [each for each in list(self.watch.threads.values()) if each.rank < thread.rank]
            now = [_rest(each) for each in before if not each.caller]
            if None not in now and now == seen:
                return 0
            called = sum(each.calls for each in before)
            if called != calls or any(each.in_operation for each in before):
                last_call, calls = now_s, called
            seen = now
            time.sleep(_LOOK_S)
        return _LONGEST_TURN_S


class Delayed:
    """A run with delays.

    applied: threads and numbers of the operations that were delayed.
    scale: factor for all delays. With a trace they must be longer, because tracing takes time, in which a late write
        may still arrive.
    """

    def __init__(
        self,
        schedule: Schedule,
        devices: Collection[int] = (),
        trace: Trace | None = None,
        scale: int = 1,
    ) -> None:
        for device in devices:
            _keep_busy(device, 1)  # loads the kernel now, because loading it later would wait for the device
        self.schedule = schedule
        self.trace = trace
        self.scale = scale
        self.watch: Watch
        self.applied: list[tuple[str, int]] = []

    def before(self, operation: Operation) -> None:
        delays = Delays(*(self.scale * each for each in self.schedule.delays(operation.place)))
        if any(delays):
            self.applied.append((operation.place.thread, operation.place.number))
            time.sleep(delays.host_before)
            _delay(operation, delays.stream_before)
        if self.trace:
            operation.step = self.trace.before(operation)
        operation.delays = delays

    def after(self, operation: Operation, result: Any) -> None:
        if self.trace:
            self.trace.after(operation.step, operation, result)
        delays: Delays = operation.delays
        if any(delays):
            _delay(operation, delays.stream_after)
            time.sleep(delays.host_after)


    def captured(self, contents: GraphContents, device: int | None) -> None:
        """Adds a delay to the graph, which each replay repeats, so that graphs on different streams overlap."""
        graph, number = str(contents.function), contents.operations
        seconds = self.scale * self.schedule.delay_in_graph(graph, number)
        if device is not None and seconds > 0:
            with torch.cuda.device(device):
                # Work on another stream, such as the default one on a thread of autograd's engine, would end the capture.
                if torch.cuda.is_current_stream_capturing():
                    self.applied.append((graph, number))
                    torch.cuda._sleep(int(seconds * _CYCLES_PER_SECOND))  # type: ignore[no-untyped-call]


def _delay(operation: Operation, seconds: float) -> None:
    if operation.device is not None and seconds > 0:
        _keep_busy(operation.device, int(seconds * _CYCLES_PER_SECOND))


def _keep_busy(device: int, cycles: int) -> None:
    with torch.cuda.device(device):
        if not torch.cuda.is_current_stream_capturing():
            torch.cuda._sleep(cycles)  # type: ignore[no-untyped-call]


def _rest(thread: Thread) -> Any:
    """Returns what identifies the waiting position of a thread, with its CPU time. If the result stays the same, the
    thread waits. Returns None if the thread, or autograd's engine for it, is working."""
    if thread.has_ended:
        return "ended"
    if thread.in_operation or _is_running(thread.native_id):
        return None
    # In backward() the thread waits for autograd's engine, whose threads work for it.
    frame = sys._current_frames().get(thread.ident)
    if frame and frame.f_code is _BACKWARD:
        return None
    # The CPU clock of another thread, by its native id as Linux defines it. time.pthread_getcpuclockid() would be
    # undefined behavior if the thread has ended meanwhile.
    try:
        computed_ns = time.clock_gettime_ns(~thread.native_id << 3 | _CLOCK_OF_THREAD)
    except OSError:
        return "ended"
    return (thread.calls, id(frame), frame.f_lasti, computed_ns) if frame else "ended"


def _is_running(native_id: int) -> bool:
    try:
        stat = Path(f"/proc/self/task/{native_id}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[:1] == ["R"]
