"""Executes the reference runs and the delayed runs of a verification, and looks for the cause of a difference."""

from __future__ import annotations

import dataclasses
import gc
import os
from collections.abc import Callable
from typing import Any

import torch

from .. import _native
from .execution import Outcome, execute, free_frames
from .schedule import Schedule, Size
from .search import Difference, Expected, call_the_same, narrowed
from .sources import source_of_error
from .trace import Step, Trace
from .treatment import Delayed, Reference
from .values import first_difference

_TRIES = 3
_LONGER_SCALES = (4, 16)
_MOST_RUNS_TO_NARROW = 24


@dataclasses.dataclass
class Finding:
    """The result of a verification. The fields are those of slipstream.VerifyReport."""

    verdict: str = "equal"
    schedules: int = 0
    seed: int | None = None
    value: str | None = None
    operation: str | None = None
    source: str | None = None
    reason: str = ""
    error: BaseException | None = None
    notes: list[str] = dataclasses.field(default_factory=list)
    size: Size = dataclasses.field(default_factory=lambda: Size(0, 0, 0, 0))
    streams: int = 0
    values: int = 0


class Verification:
    def __init__(self, make_run: Callable[[], Any], timeout: float | None) -> None:
        self._make_run = make_run
        self._timeout = timeout
        self._traces: list[Trace] = []
        self._expected: Outcome
        self._is_frozen = gc.get_freeze_count() > 0
        self._have_threads_failed = False
        self._is_light = False
        self.finding = Finding()
        self.error_of_reference: BaseException | None = None
        self.has_lost_device = False

    def reference(self) -> bool:
        """Executes the reference twice. Returns false if the two runs differ, which the finding then describes. If the
        first run calls other operations, for example because it compiles, a third run replaces it."""
        first = self._reference()
        if self._uses_freed_memory(first, None):
            return False
        self._expects(first)
        if not self._is_frozen:
            gc.collect()
            gc.freeze()  # excludes the modules that the first run imported from later collections
        again = self._reference()
        if again.error is None and not call_the_same(*self._traces):
            del self._traces[0]
            self._expects(again)
            again = self._reference()
        return self._is_repeated_by(again)

    def _expects(self, outcome: Outcome) -> None:
        self.error_of_reference = outcome.error
        _refuse(outcome)
        self._expected = outcome
        self._count(outcome)

    def _count(self, outcome: Outcome) -> None:
        self.finding.size, self.finding.streams = outcome.size, outcome.streams
        self.finding.values = len(outcome.values)

    def _uses_freed_memory(self, outcome: Outcome, seed: int | None) -> bool:
        """Returns true if a graph was replayed with a stale address, which the finding then describes. Other results
        may be equal nevertheless, as long as the freed memory is not used again."""
        if not outcome.stale:
            return False
        finding, stale = self.finding, outcome.stale[0]
        if seed is None:
            self._count(outcome)
        finding.verdict, finding.seed, finding.error = "stale_graph", seed, outcome.error
        finding.operation, finding.source = stale.graph, stale.source
        finding.reason = (
            f"the replay of a {stale.graph} reads or writes {stale.tensor}, whose memory was freed after the capture. "
            "Remedy: keep each tensor that a graph uses, and copy new values to it with copy_()"
        )
        return True

    def _repeats(self, times: int) -> bool:
        """Executes the reference again. Returns false if it differs, which the finding then describes."""
        return all(self._is_repeated_by(self._reference()) for _ in range(times))

    def _is_repeated_by(self, again: Outcome) -> bool:
        differs = first_difference(self._expected.values, again.values)
        if again.error is None and differs is None:
            return True
        finding = self.finding
        finding.verdict, finding.seed, finding.error = "not_repeatable", None, again.error
        finding.value = finding.operation = finding.source = None
        if again.error is not None:
            finding.reason = f"raised {_first_line(again.error)} in one of two runs without any overlap"
        elif differs is not None:
            finding.value = differs[0]
            finding.reason = f"{_described(*differs)} between two runs without any overlap"
        self._blame(Expected(self._traces[:-1]).first_difference(self._traces[-1]))
        finding.notes += _advice_to_repeat()
        return False

    def finish(self) -> Finding:
        finding = self.finding
        if self.has_lost_device:
            more = "" if finding.operation else ": repeat the run below in a new process to find the operation"
            finding.notes.append(f"this process cannot use CUDA any more{more}")
        if os.environ.get("CUDA_LAUNCH_BLOCKING", "0") != "0":
            finding.notes.append("CUDA_LAUNCH_BLOCKING is set, so streams do not overlap")
        return finding

    def has_found_on_lost_device(self) -> bool:
        return self.has_lost_device and self.finding.verdict != "equal"

    def schedule(self, seed: int, traced_first: bool) -> bool:
        """Executes one delayed run. Returns false if it differs from the reference.

        traced_first: records a trace already in the first run. Used when one seed is repeated."""
        self.finding.schedules += 1
        if traced_first and self._differs_when_traced(seed):
            return False
        outcome, _ = self._delayed(seed)
        if self._uses_freed_memory(outcome, seed):
            return False
        if not self._report(seed, outcome):
            return True
        if not outcome.has_lost_device and not outcome.hung:
            self._locate(seed)
        return False

    def _differs_when_traced(self, seed: int) -> bool:
        """Executes a delayed run with a trace. Returns true if it differs.

        Digests of large tensors take time, and a late write may arrive during it, which hides the race. If the run does
        not differ, digests become lighter and delays longer."""
        for scale in (1, *self._longer_scales()):
            if scale > 1 and not self._run_lightly():
                return True
            outcome, treatment = self._delayed(seed, is_traced=True, scale=scale)
            if scale > 1 and outcome.error is not None and not outcome.has_lost_device:
                return False  # the longer delays may have exceeded a time limit in the loop, which is not a race
            if self._report(seed, outcome):
                self._explain(seed, outcome, treatment)
                return True
        return False

    def _run_lightly(self) -> bool:
        """Uses light digests from now on, and repeats the reference with them. Returns false if it differs, which the
        finding then describes."""
        if self._is_light:
            return True
        self._is_light, self._traces = True, []
        return self._repeats(2)

    def _longer_scales(self) -> tuple[int, ...]:
        return _LONGER_SCALES if self.finding.size.on_device else ()

    def _reference(self) -> Outcome:
        trace = Trace(is_light=self._is_light)
        outcome = execute(self._make_run, Reference(trace), self._timeout)
        self.has_lost_device = outcome.has_lost_device
        self._have_threads_failed |= bool(outcome.failed)
        self._note(outcome)
        self._traces.append(trace)
        return outcome

    def _delayed(
        self,
        seed: int,
        is_traced: bool = False,
        only: list[tuple[str, int]] | None = None,
        scale: int = 1,
    ) -> tuple[Outcome, Delayed]:
        room, devices = 64 + 2 * self._traces[0].on_device, self._expected.devices
        trace = Trace(room, devices, self._is_light) if is_traced else None
        treatment = Delayed(Schedule(seed, self._expected.size, only), devices, trace, scale)
        outcome = execute(self._make_run, treatment, self._timeout)
        self.has_lost_device = outcome.has_lost_device
        self._note(outcome)
        if outcome.error is None and outcome.failed and not self._have_threads_failed:
            outcome.error = outcome.failed[0]
        if not outcome.has_lost_device:
            for error in (outcome.error, *outcome.failed):
                free_frames(error)
        return outcome, treatment

    def _report(self, seed: int, outcome: Outcome) -> bool:
        """Returns true if an outcome differs from the reference, which the finding then describes."""
        finding = self.finding
        if outcome.error is not None:
            finding.verdict = "hang" if outcome.hung else "race"
            finding.error, finding.seed = outcome.error, seed
            finding.reason = str(outcome.error) if outcome.hung else f"raised {_first_line(outcome.error)}"
            finding.source = source_of_error(outcome.error.__traceback__)
            return True
        differs = first_difference(self._expected.values, outcome.values)
        if differs is None:
            return False
        finding.verdict, finding.seed, finding.value = "race", seed, differs[0]
        finding.reason = _described(*differs)
        return True

    def _locate(self, seed: int) -> None:
        for scale in (1, *(self._longer_scales() or (1, 1))):
            outcome, treatment = self._delayed(seed, is_traced=True, scale=scale)
            if self._differs(outcome):
                self._explain(seed, outcome, treatment)
                return
            if outcome.has_lost_device:
                return
        self._narrow(seed)

    def _explain(self, seed: int, outcome: Outcome, treatment: Delayed) -> None:
        if outcome.hung or treatment.trace is None:
            return
        found = Expected(self._traces).first_difference(treatment.trace)
        if found is not None and not outcome.has_lost_device:
            # Each new reference can show that a digest differs without delays, too. An operation whose output differs
            # with the same input may simply not be deterministic, so more references are run for it.
            if not self._repeats(_TRIES if found.kind == "gave" else 1):
                return
            found = Expected(self._traces).first_difference(treatment.trace)
        if found is not None:
            self._blame(found)
        elif outcome.has_lost_device:
            self._blame_running(Expected(self._traces).running(treatment.trace))
        else:
            self._narrow(seed)

    def _narrow(self, seed: int) -> None:
        """Finds the delays that cause the difference, for the case that digests show no difference."""
        for _ in range(_TRIES):
            outcome, treatment = self._delayed(seed)
            if self._differs(outcome):
                break
        else:
            self.finding.notes.append(
                f"the difference did not occur again in {_TRIES} more runs with the same delays"
            )
            return
        delays = narrowed(
            treatment.applied,
            lambda some: self._differs(self._delayed(seed, only=some)[0]),
            _MOST_RUNS_TO_NARROW,
        )
        if not delays:
            self.finding.notes.append("no operation was delayed in this schedule, so delays are not the cause")
            return
        thread, number = delays[0]
        steps = [step for step in self._traces[0].steps if (step.thread, step.number) == (thread, number)]
        if steps:
            self._blame(Difference(steps[0], "delayed"))
            if len(delays) > 1:
                self.finding.notes.append(f"the difference also needs the delays of {len(delays) - 1} more operations")

    def _differs(self, outcome: Outcome) -> bool:
        if isinstance(outcome.error, torch.OutOfMemoryError):  # the digests may have used the memory
            return isinstance(self.finding.error, torch.OutOfMemoryError)
        return outcome.error is not None or bool(first_difference(self._expected.values, outcome.values))

    def _blame(self, found: Difference | None) -> None:
        if found is None:
            return
        step, finding = found.step, self.finding
        node = f" of {step.node}" if step.node else ""
        finding.operation = f"{step.name}{node}"
        finding.source = step.source
        what = {
            "read": "read a different input than in the reference",
            "gave": "returned a different result than in the reference, for the same input",
            "called": "is not the operation that the reference calls at this point",
            "running": (
                "was running when the device failed, although its input had been the same as in the reference just "
                "before"
            ),
            "delayed": "causes the difference if it is delayed",
        }[found.kind]
        finding.reason += (
            f"\n{step.name}({step.arguments}){node}, operation {step.number} of thread '{step.thread}', on "
            f"{step.stream}, {what}"
        )
        is_atomic = found.kind == "gave" and not torch.are_deterministic_algorithms_enabled()
        if is_atomic and finding.verdict == "race":
            finding.notes.append(
                "the input of this operation was overwritten while it ran, or the operation is not deterministic: see "
                "torch.use_deterministic_algorithms(True)"
            )

    def _blame_running(self, steps: list[Step]) -> None:
        """Reports the operations that were running when the device failed. Their digests are equal, so the input was
        overwritten after it had been read for the digest."""
        for step in steps[:1]:
            self._blame(Difference(step, "running"))
        for step in steps[1:]:
            self.finding.notes.append(
                f"{step.name} on {step.stream}, at {step.source}, was also running when the device failed"
            )

    def _note(self, outcome: Outcome) -> None:
        self.finding.notes += [each for each in outcome.notes if each not in self.finding.notes]


def _refuse(reference: Outcome) -> None:
    if reference.hung:
        raise _native.Error(f"verify: {reference.error}, without any delay: give a longer timeout")
    if reference.error is not None:
        raise reference.error
    if not reference.values:
        raise _native.Refused(
            "the run returned and yielded nothing that can be compared, and its closure contains no module or "
            "optimizer: return the model, losses, or other values that must not depend on timing"
        )


def _first_line(error: BaseException) -> str:
    first = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}"


def _described(name: str, how: str, count: int) -> str:
    others = f", as do {count - 1} other values" if count > 1 else ""
    return f"{name}: {how}{others}"


def _advice_to_repeat() -> list[str]:
    advice = ["seed everything in make_run(): torch.manual_seed(), random, numpy, samplers and workers"]
    if not torch.are_deterministic_algorithms_enabled():
        advice.append("choose deterministic operations: torch.use_deterministic_algorithms(True)")
    if torch.backends.cudnn.benchmark:
        advice.append("turn off cuDNN's autotuning: torch.backends.cudnn.benchmark = False")
    return advice
