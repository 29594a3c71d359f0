"""Finds races of a training loop: what it gives must not depend on timing."""

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
    "race": "what this loop gives depends on timing",
    "not_repeatable": "this loop gives something else each time, also without overlap",
    "hang": "this loop did not end",
}


@dataclasses.dataclass(frozen=True)
class VerifyReport:
    """What verify() found.

    verdict: "equal"; "race"; "hang" (a schedule did not end within `timeout`); "not_repeatable" (two
        references differ, so that races cannot be told).
    schedules: how many were compared.
    seed: of the schedule that differs. verify(make_run, seed=seed, schedules=1) runs it again.
    value: name of the first value that differs, such as "yielded[3]['loss']".
    operation: the first one that read or gave something else than in the reference.
    source: file, line and function that called it; in a backward pass, that called that.
    reason: how they differ. error: what a delayed run raised, or a thread of it, with its traceback, whose
        frames hold no values any more, unless the device is lost.
    notes: what else there is to know.
    operations, streams, threads: how many the reference had.
    values: how many were compared: tensors, numbers and what else they are made of.
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

    @property
    def passed(self) -> bool:
        """Whether nothing differed in any schedule: the verdict is "equal"."""
        return self.verdict == "equal"

    def text(self) -> str:
        """The verdict and all that is known about it, as plain text."""
        counts = {"schedule": self.schedules, "operation": self.operations}
        counts |= {"stream": self.streams, "thread": self.threads}
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
        """Prints text(); in a notebook, shows it."""
        show(self)

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Writes the report: its fields, the error as text, schema slipstream.verify, version 1. A file that is there
        is replaced by the whole report, or stays as it was. Raises Error."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        fields["error"] = None if self.error is None else repr(self.error)
        report = {"schema": "slipstream.verify", "version": 1, "passed": self.passed, **fields}
        _native.write_file_atomically(path, json.dumps(report, indent=2) + "\n")

    def raise_if_failed(self) -> None:
        """Raises Error with text(), from `error` if there is one, unless the loop passed."""
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
    """Runs a training loop again and again, with its operations, copies and threads delayed in other
    places each time, and compares all that it gives, byte by byte, with a run without any overlap.

    make_run: builds seeds, data, model and optimizer anew and returns a function without arguments,
        `run`. It trains some steps and returns, or yields, what is to be compared: tensors, numbers,
        arrays, modules, optimizers and what else has state_dict(), and containers of them. What is
        yielded is copied at once, on the current stream; what is returned is read after the device
        has finished. Modules, optimizers, schedulers and gradient scalers that `run` refers to are compared at the
        end, too (docs/verify.md).
    schedules: how many delayed runs there are, at most: the first that differs ends it.
    seed: of the first of them; the next ones have the numbers that follow. A seed of a report, with
        schedules=1, runs what differed again.
    timeout: seconds that one run may take. By default, none: Ctrl-C ends it. Only on the main thread. It
        interrupts what waits in Python, again each second, until the run has ended.

    The reference, which runs twice, waits for the device after each operation, and lets a thread work
    only while those that were started before it wait. Where its first run calls other operations than
    the second, to compile for example, a third takes the place of the first. Each delayed run spends
    about a quarter of a second on delays, or 0.1 ms for each operation if that is more. Without a GPU,
    only threads of the host are delayed.

    The generators of torch, numpy and random are as before afterwards. Where there is a GPU, CUDA is
    initialized. Raises Refused for arguments and values that make no sense, whatever make_run raises, and
    whatever `run` raises in a reference; KeyboardInterrupt always.
    """
    _refuse(make_run, schedules, seed, timeout)
    verification = Verification(make_run, timeout)
    if not _RUNS.acquire(blocking=False):
        raise _native.Refused("verify is running already, in this or another thread: wait until it ends")
    try:
        if torch.cuda.is_available():
            with contextlib.suppress(RuntimeError):  # of a process that was forked
                torch.cuda.init()  # type: ignore[no-untyped-call]  # so that its generators are put back
        with preserved_random_states(), _cheap_collections():
            if verification.reference():
                for each in range(seed, seed + schedules):
                    if not verification.schedule(each, traced_first=schedules == 1):
                        break
    except RuntimeError:  # a lost device takes no random state back
        if verification.has_lost_device and verification.error_of_reference is not None:
            raise verification.error_of_reference from None
        if not verification.has_found_on_lost_device():
            raise
    finally:
        _RUNS.release()
    return _report(verification.finish())


@contextmanager
def _cheap_collections() -> Iterator[None]:
    """Garbage is looked for after each run: only among what is new."""
    if gc.get_freeze_count() > 0:  # by the program, which unfreezes it
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
    )


def _refuse(make_run: Any, schedules: Any, seed: Any, timeout: Any) -> None:
    problems = []
    if not callable(make_run):
        problems.append(
            "make_run cannot be called: give a function that builds everything anew and returns a function "
            "that trains"
        )
    if timeout is not None:
        is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
        if not is_number or not 0 < timeout <= _LONGEST_TIMEOUT_S:
            problems.append(f"timeout is {timeout!r}: give more than 0 seconds, at most 1e9, or None")
        elif threading.current_thread() is not threading.main_thread():
            problems.append("timeout works on the main thread alone: leave it out")
    check(problems, schedules=(schedules, 1), seed=(seed, 0))
