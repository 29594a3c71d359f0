"""Finds the operation that causes a difference between runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TypeVar

from .trace import Digest, Step, Trace

T = TypeVar("T")

_CHECKS_WHAT_IT_READS = ("nll_loss", "index", "gather", "scatter", "embedding", "take", "put", "multinomial")


@dataclasses.dataclass(frozen=True)
class Difference:
    """The first operation that differs from the reference.

    kind: "read": its input differs; "gave": its output differs, with the same input; "called": the reference calls
        another operation there; "delayed": a delay of this operation causes the difference; "running": it ran when
        the device failed.
    """

    step: Step
    kind: str


class Expected:
    """The common part of all reference runs: for each thread the operations that all of them call, and the digests that
    are equal in all of them. Digests that differ are unknown, because they depend on more than timing."""

    def __init__(self, references: Sequence[Trace]) -> None:
        by_thread = [_by_thread(each) for each in references]
        self._steps = {
            thread: _common([each.get(thread, []) for each in by_thread])
            for thread in (by_thread[0] if by_thread else ())
        }

    def first_difference(self, seen: Trace) -> Difference | None:
        """Returns the first difference, in the order in which the host called the operations. An operation whose output
        is unchanged although its input differs is returned only if there is no other difference."""
        read_only = None
        for step in seen.steps:
            kind = self._difference(step)
            if kind in ("read", "gave", "called"):
                return Difference(step, kind)
            if kind == "read only":
                read_only = read_only or Difference(step, "read")
        return read_only

    def running(self, seen: Trace) -> list[Step]:
        """Returns for each stream the operation that had read its input, but had not finished when the device failed.
        Operations with assertions about their input, such as indexing, are first, because an assertion is a likely
        cause of the failure."""
        found: dict[str, Step] = {}
        for step in seen.steps:
            expected = self._steps.get(step.thread, [])[step.number : step.number + 1]
            has_read = any(type(each) is int for each in step.inputs)
            if expected and has_read and _are_missing(expected[0].outputs, step.outputs):
                found.setdefault(step.stream, step)
        return sorted(
            found.values(), key=lambda step: not any(each in step.name for each in _CHECKS_WHAT_IT_READS)
        )

    def _difference(self, step: Step) -> str:
        steps = self._steps.get(step.thread, [])
        if step.number >= len(steps):
            return ""
        expected = steps[step.number]
        if expected.name != step.name or expected.arguments != step.arguments:
            return "called"
        has_read = _differ(expected.inputs, step.inputs)
        if _differ(expected.outputs, step.outputs):
            return "read" if has_read else "gave"
        return "read only" if has_read else ""


def call_the_same(*traces: Trace) -> bool:
    """Returns true if each thread calls the same operations in all of these runs."""
    calls = [
        {
            thread: [(step.name, step.arguments) for step in steps]
            for thread, steps in _by_thread(each).items()
        }
        for each in traces
    ]
    return all(each == calls[0] for each in calls)


def narrowed(all_of_them: list[T], fails: Callable[[list[T]], bool], most_runs: int) -> list[T]:
    """Returns a small part of a list that still fails, one element if possible, by delta debugging. Each call of
    `fails` is a run of the loop, so there are at most `most_runs`."""
    left, parts, runs = all_of_them, 2, 0
    while len(left) > 1 and runs < most_runs:
        size = -(-len(left) // parts)
        chunks = [left[i : i + size] for i in range(0, len(left), size)]
        others = [[each for each in left if each not in chunk] for chunk in chunks]
        for tried in [*chunks, *(others if parts > 2 else [])]:
            runs += 1
            if fails(tried):
                left, parts = tried, 2 if tried in chunks else max(parts - 1, 2)
                break
            if runs >= most_runs:
                break
        else:
            if parts >= len(left):
                break
            parts = min(2 * parts, len(left))
    return left


def _by_thread(trace: Trace) -> dict[str, list[Step]]:
    found: dict[str, list[Step]] = {}
    for step in trace.steps:
        found.setdefault(step.thread, []).append(step)
    for steps in found.values():
        steps.sort(key=lambda step: step.number)
    return found


def _common(columns: list[list[Step]]) -> list[Step]:
    found = []
    for steps in zip(*columns, strict=False):
        if len({(step.name, step.arguments) for step in steps}) > 1:
            break
        inputs = _agreed([step.inputs for step in steps])
        outputs = _agreed([step.outputs for step in steps])
        found.append(dataclasses.replace(steps[0], inputs=inputs, outputs=outputs))
    return found


def _agreed(rows: list[list[Digest]]) -> list[Digest]:
    if len({len(row) for row in rows}) > 1:
        return []
    return [each[0] if len(set(each)) == 1 else None for each in zip(*rows, strict=True)]


def _are_missing(expected: list[Digest], seen: list[Digest]) -> bool:
    known = [i for i, each in enumerate(expected) if type(each) is int]
    return bool(known) and all(i >= len(seen) or seen[i] is None for i in known)


def _differ(expected: list[Digest], seen: list[Digest]) -> bool:
    pairs = zip(expected, seen, strict=False)
    return any(a is not None and b is not None and a != b for a, b in pairs)
