"""Ends runs of slipstream.Trainer when the program ends, and runs predict() on a separate thread."""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from . import _native
from ._blocks import contextmanager


def interrupts() -> contextlib.AbstractContextManager[Any]:
    """Returns the native handler of Ctrl-C. On other threads than the main thread, which cannot set signal handlers,
    returns a context manager without effect."""
    is_main = threading.current_thread() is threading.main_thread()
    return _native.Interrupts() if is_main else contextlib.nullcontext()


_runs: set[tuple[Callable[[], None], threading.Event]] = set()
_ends = threading.Event()  # set when the interpreter begins to exit


@contextmanager
def running(stop: Callable[[], None], is_over: threading.Event | None = None) -> Iterator[None]:
    """Registers a run, so that the interpreter stops it and waits for it before it exits.

    A thread that requests the GIL during the exit is ended by Python in the middle of C++ code. A thread other than the
    main one therefore does not leave this block any more once the exit has begun; it waits here indefinitely.

    stop: makes the run end; called on the main thread.
    is_over: set when the run has ended."""
    run = stop, is_over or threading.Event()
    _runs.add(run)
    try:
        yield
    finally:
        _runs.discard(run)
        run[1].set()
        if _ends.is_set() and threading.current_thread() is not threading.main_thread():
            threading.Event().wait()


@atexit.register
def _end_runs() -> None:
    own = list(_runs)
    _ends.set()
    for stop, _ in own:
        stop()
    for _, is_over in own:
        is_over.wait()


_closed: set[threading.Event] = set()  # ends of computations whose iterator was dropped before they had finished


def wait_for_closed() -> None:
    for is_over in list(_closed):
        is_over.wait(timeout=10)
        _closed.discard(is_over)


def _forget() -> None:
    _runs.clear()
    _closed.clear()


os.register_at_fork(after_in_child=_forget)  # the threads of these runs exist only in the parent process


class Outputs(Iterator[torch.Tensor]):
    """The iterator that predict() returns. Any thread may call next() and close().

    __del__() does not wait for the computing thread, because the garbage collector may call it on that very thread."""

    def __init__(self, evaluator: _native.NativeEvaluator, device: str) -> None:
        self._evaluator, self._device = evaluator, device
        self._ready: queue.Queue[torch.Tensor | BaseException | None] = queue.Queue(maxsize=2)
        self._is_closed, self._is_over = threading.Event(), threading.Event()
        self._has_begun, self._beginning = False, threading.RLock()
        self._process = os.getpid()

    def __next__(self) -> torch.Tensor:
        if self._has_begun and self._process != os.getpid():
            raise _native.Refused(
                "this iterator of predict() belongs to the parent process: create a trainer in this process, and call "
                "its predict()"
            )
        if self._is_closed.is_set():
            raise StopIteration
        try:
            self._begin()
            output = self._ready.get()
        except BaseException:
            self.close()
            raise
        if isinstance(output, torch.Tensor):
            return output
        self.close()
        if isinstance(output, StopIteration):  # would end a loop over the outputs as if it were complete
            raise RuntimeError("the model raised StopIteration") from output
        raise output or StopIteration

    def close(self) -> None:
        """Ends the computation, and waits until the device is free."""
        self._is_closed.set()
        if self._has_begun and self._process == os.getpid():
            self._is_over.wait()
            with contextlib.suppress(queue.Full):
                self._ready.put_nowait(None)  # wakes a thread that waits in next(), which then wakes the next one

    def __del__(self) -> None:
        if self._has_begun and not self._is_closed.is_set() and self._process == os.getpid():
            _closed.add(self._is_over)
        self._is_closed.set()

    def _begin(self) -> None:
        with self._beginning:
            if self._has_begun:
                return
            wait_for_closed()
            work = _make_work(self._evaluator, self._device, self._ready, self._is_closed, self._is_over)
            self._has_begun = True
            try:
                threading.Thread(target=work, name="slipstream predict", daemon=True).start()
            except BaseException:
                self._has_begun = False
                raise


def _make_work(
    evaluator: _native.NativeEvaluator,
    device: str,
    ready: queue.Queue[torch.Tensor | BaseException | None],
    is_closed: threading.Event,
    is_over: threading.Event,
) -> Callable[[], None]:
    is_cuda = torch.device(device).type == "cuda"
    # The thread uses the caller's current stream, so that its work runs after all that the caller has enqueued.
    stream = torch.cuda.current_stream(device) if is_cuda else None

    def take(output: torch.Tensor | BaseException | None) -> bool:
        while not is_closed.is_set():
            with contextlib.suppress(queue.Full):
                # With a timeout, because close() cannot wake a thread that waits for room in the queue.
                ready.put(output, timeout=0.05)
                return True
        return False

    # A list, so that work() can drop its reference to the evaluator, and thereby to the trainer, before is_over is set.
    # Otherwise the trainer might not be freed yet when close() returns.
    held = [evaluator]

    def work() -> None:
        end = None
        try:
            if stream is not None:
                # torch.cuda.stream() restores the previous device at its end, by default device 0, and this would
                # create a CUDA context there.
                torch.cuda.set_device(stream.device)
            with torch.cuda.stream(stream), running(is_closed.set, is_over):
                held.pop().predict(take)
        except BaseException as error:
            end = error
        is_over.set()
        take(end)

    return work
