"""slipstream.verify: finds race conditions in a training loop, whose results must not depend on timing."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import html
import json
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from . import _native
from ._blocks import contextmanager
from ._checks import check
from ._random_states import preserved_random_states
from ._showing import show
from ._verify.execution import RunTimedOut
from ._verify.verification import Finding, Verification

__all__ = ["VerifyReport", "verify"]

_RUNS = threading.Lock()
_LONGEST_TIMEOUT_S = 1e9
_SENTENCES = {
    "equal": "no difference",
    "race": "the results of this loop depend on timing",
    "not_repeatable": "this loop gives different results each time, even without overlap",
    "hang": "this loop did not end",
    "stale_graph": "a CUDA graph uses memory that was freed",
}


@dataclasses.dataclass(frozen=True)
class VerifyReport:
    """The result of verify().

    Attributes:
        verdict (str): "equal"; "race"; "hang" (a delayed run did not end within `timeout`); "not_repeatable" (two
            runs without overlap differ, so that race conditions cannot be detected); or "stale_graph" (a CUDA graph was
            replayed although a tensor that it uses had been freed).
        schedules (int): number of delayed runs that were compared.
        seed (int or None): seed of the delayed run that differs. verify(make_run, seed=seed, schedules=1) repeats it.
        value (str or None): name of the first value that differs, such as "yielded[3]['loss']".
        operation (str or None): the first operation whose input or output differs from the reference.
        source (str or None): file, line and function that called this operation. If the operation belongs to a backward
            pass, those that called backward().
        reason (str): how the values differ.
        error (exception or None): the exception that a delayed run or one of its threads raised. The frames of its
            traceback do not hold values, except after the device was lost.
        notes (tuple of str): further information, as sentences.
        operations, streams, threads (int): numbers of them in the reference. The replay of a CUDA graph is one operation.
        replays (int): number of replays of CUDA graphs in the reference.
        values (int): number of values that were compared, each a tensor, number, string or array.
    """

    verdict: str
    schedules: int
    seed: int | None
    value: str | None
    operation: str | None
    source: str | None
    reason: str
    error: BaseException | None
    notes: tuple[str, ...]
    operations: int
    streams: int
    threads: int
    values: int
    replays: int = 0

    @property
    def passed(self) -> bool:
        """True if no delayed run differed, so that the verdict is "equal"."""
        return self.verdict == "equal"

    def text(self) -> str:
        """Returns the verdict and all details as plain text."""
        counts = {"schedule": self.schedules, "operation": self.operations}
        counts |= {"stream": self.streams, "thread": self.threads}
        counts |= {"graph replay": self.replays} if self.replays else {}
        size = ", ".join(f"{n} {what}{'s' * (n != 1)}" for what, n in counts.items())
        compared = f" in {self.values} value{'s' * (self.values != 1)}" if self.passed else ""
        lines = [f"verify: {_SENTENCES[self.verdict]}{compared} ({size})"]
        lines += [f"  {line}" for line in self.reason.splitlines()]
        if self.source:
            lines.append(f"  at {self.source}")
        lines += [f"  note: {note}" for note in self.notes]
        if self.seed is not None:
            limit = f", timeout={self.error.seconds:g}" if isinstance(self.error, RunTimedOut) else ""
            lines.append(f"  again: slipstream.verify(make_run, seed={self.seed}, schedules=1{limit})")
        return "\n".join(lines)

    def show(self) -> None:
        """Prints text(); in a notebook, displays it."""
        show(self)

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Writes the fields of the report as JSON, schema slipstream.verify, version 1, with the error as text.

        Arguments:
            path (path): the file. An existing file is replaced only when the whole report has been written.

        Raises Error if it cannot be written."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        fields["error"] = None if self.error is None else repr(self.error)
        report = {"schema": "slipstream.verify", "version": 1, "passed": self.passed, **fields}
        _native.write_file_atomically(path, json.dumps(report, indent=2) + "\n")

    def raise_if_failed(self) -> None:
        """Raises Error with text() if a difference was found. The exception in `error` becomes its cause."""
        if not self.passed:
            raise _native.Error(self.text()) from self.error

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.text())}</pre>"


def verify(
    make_run: Callable[[], Callable[[], Any]],
    *,
    schedules: int = 20,
    seed: int = 0,
    timeout: float | None = None,
) -> VerifyReport:
    """Finds race conditions in a training loop. It runs the loop several times, each time with other operations, copies
    and threads delayed, and compares all results, byte by byte, with a run in which nothing overlaps.

    Arguments:
        make_run (callable): creates seeds, data, model and optimizer anew and returns a function without arguments,
            `run`. `run` trains some steps and returns or yields the values to compare: tensors, numbers, arrays,
            modules, optimizers, other objects with state_dict(), and containers of these. Yielded values are copied
            at once, on the current stream; returned values are read after the device has finished. Modules,
            optimizers, schedulers and gradient scalers that `run` refers to are also compared at the end
            (docs/verify.md).
        schedules (int, default 20): maximum number of delayed runs. The first difference ends the verification.
        seed (int, default 0): seed of the first delayed run. The next ones use the numbers that follow. The seed of a
            report, together with schedules=1, repeats the run that differed.
        timeout (float, default None): seconds that one run may take; only on the main thread. None means no limit.
            The exception that ends the run is raised again each second until it has ended, because the run may catch
            it.

    Two reference runs come first. In them the host waits for the device after each operation, and a thread works only
    while all threads that were started before it wait. If the first of them calls other operations than the second,
    for example because it compiles, a third run replaces it. A delayed run spends about 0.25 s on delays, or 0.1 ms
    per operation if that is longer. Without a GPU, only threads of the host are delayed.

    The call returns after the last run. The random generators of torch, numpy and random are restored. If there is a
    GPU, CUDA is initialized. One call at a time is possible in a process.

    Raises Refused for invalid arguments and for values that cannot be compared. Exceptions of make_run, exceptions of
    `run` in a reference run, and KeyboardInterrupt are raised unchanged.
    """
    _refuse(make_run, schedules, seed, timeout)
    verification = Verification(make_run, timeout)
    if not _RUNS.acquire(blocking=False):
        raise _native.Refused("verify is running already, in this or another thread: wait until it ends")
    try:
        if torch.cuda.is_available():
            # The generators of CUDA can be saved and restored only if CUDA is initialized. In a forked process
            # initializing it raises RuntimeError.
            with contextlib.suppress(RuntimeError):
                torch.cuda.init()  # type: ignore[no-untyped-call]
        with preserved_random_states(), _cheap_collections():
            if verification.reference():
                for each in range(seed, seed + schedules):
                    if not verification.schedule(each, traced_first=schedules == 1):
                        break
    except RuntimeError:  # the random state of a lost device cannot be restored
        if verification.has_lost_device and verification.error_of_reference is not None:
            raise verification.error_of_reference from None
        if not verification.has_found_on_lost_device():
            raise
    finally:
        _RUNS.release()
    return _report(verification.finish())


@contextmanager
def _cheap_collections() -> Iterator[None]:
    """Excludes all existing objects from garbage collection. The collector runs after each run, and this way it has to
    search only the objects that the runs create."""
    if gc.get_freeze_count() > 0:  # the program has frozen objects itself, which gc.unfreeze() would unfreeze
        yield
        return
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _report(finding: Finding) -> VerifyReport:
    return VerifyReport(
        verdict=finding.verdict,
        schedules=finding.schedules,
        seed=finding.seed,
        value=finding.value,
        operation=finding.operation,
        source=finding.source,
        reason=finding.reason,
        error=finding.error,
        notes=tuple(finding.notes),
        operations=finding.size.operations,
        streams=finding.streams,
        threads=finding.size.threads,
        values=finding.values,
        replays=finding.size.replays,
    )


def _refuse(make_run: Any, schedules: Any, seed: Any, timeout: Any) -> None:
    problems = []
    if not callable(make_run):
        problems.append(
            "make_run cannot be called: give a function that creates a new data set, model and optimizer, and returns "
            "a function that trains"
        )
    if timeout is not None:
        is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
        if not is_number or not 0 < timeout <= _LONGEST_TIMEOUT_S:
            problems.append(f"timeout is {timeout!r}: give more than 0 seconds, at most 1e9, or None")
        elif threading.current_thread() is not threading.main_thread():
            problems.append("timeout works only in the main thread: leave it out")
    check(problems, schedules=(schedules, 1), seed=(seed, 0))
