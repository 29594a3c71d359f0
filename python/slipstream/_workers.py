"""Starts and ends the worker processes of slipstream.DataLoader, which run data sets and transforms in Python."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import gc
import importlib
import multiprocessing
import os
import pickle
import socket
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import Any

from . import _native
from ._plain_state import change, plain_state
from ._samples import Template
from ._worker_process import Job, main

_TRIES = 100
_PATIENCE_S = 0.3
_BEGINS_WITHIN_S = [10, 20, 40]  # for each attempt to start a process; a busy machine may need longer than the first

# Reentrant, because pickling a data set may run code that makes another loader.
_starting = threading.RLock()
_running: dict[_native.WorkerPool, tuple[dict[int, BaseProcess], int]] = {}  # processes, and the pid of their parent


def _unlock() -> None:
    """Replaces the lock in a forked process. If a thread of the parent holds it, the copy is never released, because
    that thread does not exist in the forked process."""
    global _starting
    _starting = threading.RLock()


os.register_at_fork(after_in_child=_unlock)


class Workers:
    """The worker processes of one loader. They end with the loader."""

    def __init__(self, job: Job, context: BaseContext) -> None:
        process = multiprocessing.current_process()
        if process.daemon:
            raise _native.Refused(
                "a loader for a data set or transform in Python starts worker processes, which is not possible inside "
                f"a worker process ('{process.name}'): create it in the main process, or use native data sets and "
                "transforms here, or PyTorch's DataLoader with num_workers=0"
            )
        if sys.modules.get("numpy") is not None:
            # Imported here because a forked process would wait forever for the import lock if another thread is
            # importing the module at the fork.
            importlib.import_module("numpy.random")
        self.pool = _native.WorkerPool()
        self._job, self._context = job, context
        self._is_fork = context.get_start_method() == "fork"
        self._processes: dict[int, BaseProcess] = {}
        self._lost: set[int] = set()
        self._end = _native.LastCall(functools.partial(_end, self.pool))
        _running[self.pool] = self._processes, os.getpid()
        self._state = self._read_state()
        try:
            for number in range(job.workers):
                self._start(number)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends the processes. May be called several times."""
        self._end()

    def revive(self, halt: Callable[[], None]) -> None:
        """Replaces processes that have ended. Replaces all processes if an attribute of the data set or of a transform
        changed, because they have copies of the old value.

        halt: cancels the current requests. It may end processes that still work on one; these are replaced, too."""
        if _running.get(self.pool, (None, 0))[1] != os.getpid():
            return
        state = self._read_state()
        unwanted = list(self._processes)
        if not change(self._state, state):
            unwanted = [number for number, process in self._processes.items() if not process.is_alive()]
        self._lost.update(self.pool.take_lost(False, []))
        if not unwanted and not self._lost:
            return
        halt()
        self._state = state
        self._lost.update(self.pool.take_lost(True, unwanted))
        for number in sorted(self._lost):
            self._processes[number].kill()
            self._processes[number].join()
            self._start(number)
            self._lost.remove(number)

    def _read_state(self) -> dict[tuple[Any, ...], Any]:
        return plain_state(self._job.dataset, self._job.steps)

    def describe(self, samples: int, skips: bool) -> tuple[str, Template]:
        """Loads the first good sample. Returns its structure as text, and as a template from which the parent process
        rebuilds samples."""
        for index in range(samples):
            try:
                form, _, template = self.pool.describe(index, self._job.seed).partition(b"\0")
                return form.decode(), pickle.loads(template)
            except _native.UnfitSample as error:
                if skips and index + 1 < min(samples, _TRIES):
                    continue
                raise _native.Error(f"step 'read' of sample {index}: {error}") from None
            except _native.Error as error:
                if self._is_fork:
                    raise
                raise _native.Error(f"{error}. {_advice_for_unforked()}") from None
        raise _native.Refused("the data set is empty")

    def _start(self, number: int) -> None:
        """Starts a process. If a forked one does not begin in time, probably because another thread held a lock at the
        fork, it is ended and another one is forked, with more patience each time."""
        if any(self._has_started(number, patience) for patience in _BEGINS_WITHIN_S):
            return
        raise _native.Error(
            f"worker process {number} did not start within {_BEGINS_WITHIN_S[-1]} s: either the machine is too busy, "
            "or each time the process was forked, another thread of the program held a lock that the process waits "
            "for. Remedy: create the loader before such threads start, or give multiprocessing_context='forkserver' or "
            "'spawn'"
        )

    def _has_started(self, number: int, patience: float) -> bool:
        ours, theirs = socket.socketpair()
        memory = os.memfd_create("slipstream sample", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        # The loader maps this memory. If the worker's code could shrink it, reading it would end the program with
        # SIGBUS.
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        is_added = False
        try:
            # A process that another thread forks meanwhile would inherit `theirs`, and keep the connection open when
            # this worker ends.
            with _starting, theirs:
                with self._uncut():
                    # Sent over the connection, because only a forked process inherits descriptors.
                    socket.send_fds(ours, [b"m"], [memory])
                    process = self._launched(theirs, number, [ours.fileno(), memory])
                    self._processes[number] = process
                # While this process has a copy of `theirs`, _has_word() would not notice that the worker has ended.
                theirs.close()
                if self._is_fork and not _has_word(ours, patience):
                    process.kill()
                    process.join()
                    return False
                # Ctrl-C between these lines would leave open who has to close the descriptors.
                with _native.LateInterrupts():
                    self.pool.add(ours.detach(), memory, number, process.pid or 0)
                    is_added = True
        finally:
            if not is_added:
                ours.close()
                os.close(memory)
        return True

    def _uncut(self) -> contextlib.AbstractContextManager[None]:
        """Delays Ctrl-C during a fork. A fork calls functions, for example of logging, in which an exception would be
        lost. Other start methods pickle the data set, which may take long, so Ctrl-C must work meanwhile."""
        return _native.LateInterrupts() if self._is_fork else contextlib.nullcontext()

    def _launched(self, connection: socket.socket, number: int, own: list[int]) -> BaseProcess:
        method = self._context.get_start_method()
        unwanted: list[int] = []
        if self._is_fork:
            unwanted = own + [each for pool in list(_running) for each in pool.descriptors()]
        arguments = (connection, self._job, number, unwanted, self._is_fork)
        process: Any = self._context.Process(  # type: ignore[attr-defined]
            target=main, args=arguments, name=f"slipstream worker {number}", daemon=True
        )
        collects = gc.isenabled()
        try:
            gc.disable()  # the forked process must not run finalizers of the parent's objects; it calls gc.freeze()
            process.start()
        except OSError as error:
            raise _native.Error(f"no worker process could be started: {error}") from error
        except Exception as error:
            raise _native.Refused(
                f"worker processes cannot be started with '{method}': {error}. Data sets, transforms and "
                "worker_init_fn are pickled for this, so define them at the top level of a module (no lambdas, no "
                "nested functions), or give multiprocessing_context='fork'"
            ) from error
        finally:
            if collects:
                gc.enable()
        return process  # type: ignore[no-any-return]


def _has_word(connection: socket.socket, patience: float) -> bool:
    """Waits until a process has sent its first byte or has ended. Returns false if it did neither in this time."""
    connection.settimeout(patience)
    try:
        connection.recv(1)
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    finally:
        connection.setblocking(True)
    return True


def _advice_for_unforked() -> str:
    file = getattr(sys.modules["__main__"], "__file__", None)
    if file is not None and os.path.exists(file):
        return (
            "Worker processes that are not forked import the program again: put its statements under if __name__ == "
            "'__main__':"
        )
    return (
        "Worker processes that are not forked import the data set and the functions, but this program is not a file "
        "(python -c, standard input or a notebook): define data sets, transforms and worker_init_fn in a module, or "
        "give multiprocessing_context='fork'"
    )


def parse_context(given: str | BaseContext | None) -> BaseContext:
    """Returns the context for the argument multiprocessing_context, or raises Refused."""
    if given is None or isinstance(given, str):
        methods = multiprocessing.get_all_start_methods()
        if given is not None and given not in methods:
            raise _native.Refused(f"multiprocessing_context is '{given}': give one of {', '.join(methods)}")
        return multiprocessing.get_context(given)
    if not isinstance(given, BaseContext):
        raise _native.Refused(
            f"multiprocessing_context is of type {type(given).__name__}: give 'fork', 'forkserver', 'spawn' or the "
            "result of multiprocessing.get_context()"
        )
    return given


def _end(pool: _native.WorkerPool) -> None:
    processes, owner = _running.pop(pool, ({}, 0))
    if os.getpid() != owner:
        return
    # A worker ends by itself when its connection is closed. Only those that do not are terminated below.
    pool.close()
    end = time.monotonic() + _PATIENCE_S
    for process in processes.values():
        process.join(max(0.0, end - time.monotonic()))
        with contextlib.suppress(Exception):
            process.terminate()
    end = time.monotonic() + 1
    for process in processes.values():
        process.join(max(0.0, end - time.monotonic()))
        if process.is_alive():
            process.kill()
            process.join(1)
    processes.clear()


def _end_all() -> None:
    for pool in list(_running):
        _end(pool)


atexit.register(_end_all)
