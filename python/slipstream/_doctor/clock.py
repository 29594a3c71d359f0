"""Measures the time of the parts of a data set's code, and of the code that collates.

A sample is made in steps: the data set's own code, each transform, and collating. A part of a step is named by `part`,
or is a call of a function that the doctor knows (known_calls). The time of a part is not contained in the time of the
step, or of the part, that it is in.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from .. import _trees
from .._native import Refused

COLLATING = -1  # the step that makes a batch of samples
Key = tuple[int, str]  # the number of a step, and the name of a part of it or ""
Costs = dict[Key, list[float]]  # wall time in s, CPU time in s and bytes of the result

_COUNTED = 4  # bytes are counted for one of this number of samples, because counting takes time


class _Running(threading.local):
    """The clock of the sample that this thread makes."""

    clock: Clock | None = None


_running = _Running()


def running_clock() -> Clock | None:
    """Returns the clock that measures the sample being loaded on this thread; None if the doctor is not measuring."""
    return _running.clock


class part:
    """Names a part of a data set's code, so that slipstream.doctor measures it separately.

    Use it in `__getitem__`, `__iter__` or `collate_fn`, and in functions that these call on the same thread. Without a
    running doctor it has no effect. Worker processes may use it. An exception leaves the block unchanged.

    The report lists each part with its wall time and CPU time. The names "read", "decode", "transforms" and "collate"
    count as these bottlenecks; a part with another name is a bottleneck by its own name. Parts may be nested: the time
    of the inner part is not contained in that of the outer one.

    Arguments:
        name (str): name of the part.

    Raises Refused if the name is not a string, or is empty.

    >>> class Numbers(torch.utils.data.Dataset):
    ...     def __len__(self):
    ...         return 8
    ...     def __getitem__(self, index):
    ...         with ss.part("decode"):
    ...             return torch.tensor(float(index))
    >>> Numbers()[3]
    tensor(3.)
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise Refused(f"slipstream.part: the name is {name!r}: give a string that is not empty")
        self.name = name

    def __enter__(self) -> None:
        clock = _running.clock
        if clock is not None:
            clock.enter(self.name, is_users=True)

    def __exit__(self, *error: object) -> None:
        clock = _running.clock
        if clock is not None:
            clock.leave(self.name)


class _Frame:
    """A step or part that is running. key: None for work of the doctor itself. inner: time of the parts in it."""

    __slots__ = ("key", "is_users", "wall", "cpu", "inner_wall", "inner_cpu")

    def __init__(self, key: Key | None, is_users: bool) -> None:
        self.key, self.is_users = key, is_users
        self.inner_wall = self.inner_cpu = 0.0
        self.wall, self.cpu = time.perf_counter(), time.thread_time()


class Clock:
    """Measures the costs of the steps and parts of one sample, or of collating one batch, on one thread.

    first: the step that runs outside of all others.
    costs: the costs of the steps and parts that have ended, in the order in which they ended.
    samples: number of samples that were measured.
    """

    def __init__(self, first: int = 0) -> None:
        self.samples = 0
        self.costs: Costs = {}
        self._first = first
        self._frames: list[_Frame] = []

    def during(self, function: Callable[[], Any], count: int = 1) -> Any:
        """Measures a call that makes `count` samples, and returns its result."""
        self.costs, self._frames = {}, [_Frame((self._first, ""), False)]
        _running.clock = self
        try:
            result = function()
        finally:
            _running.clock = None
            # A generator of an iterable-style data set may yield a sample inside of a part, which has not ended then.
            while self._frames:
                self._end()
        if self.counts() and all(step == self._first for step, _ in self.costs):
            self.costs[self._first, ""][2] = _trees.byte_size(result)
        self.samples += count
        return result

    def counts(self) -> bool:
        """Returns true if the bytes of this sample are counted. Bytes of batches are known without counting."""
        return self._first != COLLATING and self.samples % _COUNTED == 0

    def add_input(self, value: Any) -> None:
        """Counts the bytes of the input of a transform, which is a result of the first step."""
        if self.counts():
            self._cost((self._first, ""))[2] += _trees.byte_size(value)

    def timed(self, step: int, function: Callable[[], Any]) -> Any:
        """Measures a call as a step, and returns its result."""
        frame = self._begin((step, ""))
        try:
            result = function()
        finally:
            self._end_at(frame)
        if self.counts():
            self._cost((step, ""))[2] += _trees.byte_size(result)
        return result

    def uncounted(self, function: Callable[[], Any]) -> Any:
        """Leaves out the time of a call, except for steps and parts in it, and returns its result."""
        frame = self._begin(None)
        try:
            return function()
        finally:
            self._end_at(frame)

    def enter(self, name: str, is_users: bool = False) -> None:
        """Begins a part of the step that is running. is_users: whether the user gave it this name."""
        self._begin((self.step(), name), is_users)

    def leave(self, name: str) -> tuple[float, float]:
        """Ends the part that began last, if it has this name. Returns its wall time and CPU time."""
        if not self.is_innermost(name):  # the block began with an earlier sample
            return 0.0, 0.0
        return self._end()

    def is_innermost(self, name: str) -> bool:
        """Returns true if the part that began last has this name and has not ended."""
        key = self._frames[-1].key if self._frames else None
        return key is not None and key[1] == name

    def is_named(self) -> bool:
        """Returns true inside of a part that the user named."""
        return any(frame.is_users for frame in self._frames)

    def step(self) -> int:
        """Returns the number of the step that is running."""
        keys = (frame.key for frame in reversed(self._frames))
        return next((key[0] for key in keys if key is not None), self._first)

    def move_waiting(self, source: str, target: str, wall_s: float, cpu_s: float) -> None:
        """Moves the time that a part waited, of `wall_s` and `cpu_s`, from part `source` to part `target`."""
        step, waited_s = self.step(), max(0.0, wall_s - cpu_s)
        self._cost((step, source))[0] -= waited_s
        self._cost((step, target))[0] += waited_s

    def _begin(self, key: Key | None, is_users: bool = False) -> _Frame:
        frame = _Frame(key, is_users)
        self._frames.append(frame)
        return frame

    def _end_at(self, frame: _Frame) -> None:
        """Ends a step, and parts in it that an exception may have left open."""
        while frame in self._frames:
            self._end()

    def _end(self) -> tuple[float, float]:
        wall, cpu = time.perf_counter(), time.thread_time()
        frame = self._frames.pop()
        wall, cpu = wall - frame.wall, cpu - frame.cpu
        if self._frames:
            self._frames[-1].inner_wall += wall
            self._frames[-1].inner_cpu += cpu
        wall, cpu = max(0.0, wall - frame.inner_wall), max(0.0, cpu - frame.inner_cpu)
        if frame.key is not None:
            cost = self._cost(frame.key)
            cost[0] += wall
            cost[1] += cpu
        return wall, cpu

    def _cost(self, key: Key) -> list[float]:
        return self.costs.setdefault(key, [0.0, 0.0, 0.0])


def in_order(keys: Iterable[Key], steps: int) -> list[Key]:
    """Returns all steps and parts in the order of the model: the parts of a step come before the step, because no cache
    can contain the results of a part without those of its step. Collating is last.

    steps: number of steps of the data set."""
    ordered = []
    for step in [*range(steps), COLLATING]:
        ordered += [key for key in keys if key[0] == step and key[1]]
        ordered.append((step, ""))
    return ordered
