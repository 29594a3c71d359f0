"""slipstream.watch: reports, during a training, how long its loop waits for input and what it waits for."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from . import _native
from ._checks import check, shortened
from ._showing import show
from ._watch_logs import make_logs
from ._watch_sources import find_source

__all__ = ["Watch", "WatchReport", "watch"]


@dataclasses.dataclass(frozen=True)
class WatchReport:
    """How long a loop has waited for input, and for what.

    Attributes:
        steps (int): number of batches that the loop got.
        seconds (float): time in iterations over the loader. Time between two epochs is not included.
        steps_per_second (float): `steps` divided by `seconds`; 0 if there are none.
        input_wait_share (float): share of `seconds` in which the device waited for input, 0 to 1.
        waits (dict): maps each reason for waiting, such as "worker_cpu", to its share of `seconds`, largest first.
            The values sum up to `input_wait_share`. docs/python-watch.md lists the keys.
        batches_ready (float or None): number of ready batches when the loop requested one, mean over all steps. None
            if it is not known.
        state (str): "warming_up", "fed" (input keeps up) or "starving" (the device waits for input), after the last
            complete window of at least one second (docs/watch.md).
        starvations (int): how often the state became "starving".
        starved_seconds (float): how long the state was "starving".
    """

    steps: int
    seconds: float
    steps_per_second: float
    input_wait_share: float
    waits: dict[str, float]
    batches_ready: float | None
    state: str
    starvations: int
    starved_seconds: float
    _text: str = dataclasses.field(repr=False, compare=False)

    def text(self) -> str:
        """Returns the report as plain text, in several lines."""
        return self._text

    def show(self) -> None:
        """Prints text()."""
        show(self)


def watch(loader: Iterable[Any], *, every: float = 10, log: Any = print, name: str = "watch") -> Watch:
    """Reports how long a training loop waits for its loader, and what it waits for, while it trains.

    Arguments:
        loader (iterable): gives the batches: a torch.utils.data.DataLoader, a slipstream.DataLoader, a
            slipstream.Pipeline, or another iterable. If there are several around each other, give the outermost one.
        every (float, default 10): number of seconds, more than 0, after which a line and values are written. They are
            also written at the end of an epoch. A line is written at once when the loop starts to starve, and when it
            recovers (docs/watch.md).
        log (default print): where to write: a function that takes a line; a folder or a SummaryWriter for TensorBoard;
            a run of Weights & Biases, or "wandb" for the current one; a list of these; or None. TensorBoard and
            Weights & Biases get values, the function gets lines.
        name (str, default "watch"): begins each line and the name of each value.

    Returns a Watch, an iterable over the batches of `loader`.

    Neither the loader nor the loop is changed: batches, random numbers and errors are the same. On a GPU, events are
    recorded on the current stream when the loop requests a batch and when it gets it. Nothing waits for the device.
    Watching takes 2 to 25 us per step (bench/results/cpu/README.md).

    Raises Refused for invalid arguments, and if TensorBoard or Weights & Biases is selected but not installed. If
    writing fails during the training, a RuntimeWarning says so, and the training continues without that log.

    >>> batches = torch.utils.data.DataLoader(torch.ones(40, 3), batch_size=10)
    >>> watched = ss.watch(batches, log=None)
    >>> for batch in watched:
    ...     pass
    >>> report = watched.report()
    >>> report.steps, 0 <= report.input_wait_share <= 1
    (4, True)
    """
    problems = []
    if not (hasattr(loader, "__iter__") or hasattr(loader, "__getitem__")):
        problems.append(f"slipstream.watch needs a loader or another iterable of batches, not {type(loader).__name__}")
    if isinstance(every, bool) or not isinstance(every, int | float) or not every > 0:
        problems.append(f"every is {shortened(every)}: give a number of seconds, more than 0")
    if not isinstance(name, str) or not name:
        problems.append(f"name is {shortened(name)}: give a string that is not empty")
    check(problems)
    return Watch(loader, float(every), log, name)


class Watch:
    """An iterable over the batches of a loader that measures the loop around it. watch() creates it.

    It has the len() and the attributes and methods of the loader, such as `sampler`, `set_epoch()` and
    `state_dict()`. Each iteration is one epoch. If an iteration starts before an earlier one has ended, only the new
    one is measured.

    Attributes:
        loader: the loader that was given to watch().
    """

    def __init__(self, loader: Iterable[Any], every: float, log: Any, name: str) -> None:
        self.loader = loader
        self._name = name
        self._logs = make_logs(log)
        self._meter = _native.LoopMeter(name, every)
        self._measured = 0  # number of the iteration that is measured
        self._has_gpu = False
        self._parts: dict[str, float] = {}  # all names of parts so far

    def __iter__(self) -> Iterator[Any]:
        begin = time.perf_counter()
        batches = iter(self.loader)
        return _WatchedIteration(self, batches, time.perf_counter() - begin)

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        return bool(self.loader)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "loader" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.loader, name)

    def __repr__(self) -> str:
        return f"Watch({self.loader!r})"

    def report(self) -> WatchReport:
        """Returns what was measured so far, over all epochs."""
        meter, totals = self._meter, self._meter.totals()
        return WatchReport(
            totals.steps,
            totals.seconds,
            totals.steps_per_second(),
            totals.input_wait_share(),
            totals.waits(),
            totals.batches_ready(),
            meter.state(),
            meter.starvations(),
            meter.starved_s(),
            totals.text(self._name),
        )

    def _begin(self, created_s: float) -> int:
        """Begins to measure an iteration, and returns its number."""
        self._measured += 1
        self._find_gpu()
        self._meter.begin_epoch(created_s)
        return self._measured

    def _set_source(self, batches: Iterator[Any]) -> None:
        """Finds the workers and counters of the iterator after its first batch."""
        self._find_gpu()  # a loop may use the GPU for the first time when it has its first batch
        source = find_source(batches)
        self._meter.set_source(source.processes, source.loader, source.queue, source.loader_times)

    def _find_gpu(self) -> None:
        """Measures the GPU once the program has used one."""
        # Only then, because watching must not be what creates a CUDA context.
        if self._has_gpu or not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            return
        self._has_gpu = True
        device = torch.device(getattr(self.loader, "device", None) or "cuda")
        if device.type == "cuda":
            self._meter.measure_gpu(torch.cuda.current_device() if device.index is None else device.index)

    def _write(self) -> None:
        for line in self._meter.take_lines():
            self._logs.line(line)
        totals = self._meter.take_totals()
        if totals is None:
            return
        # A part that is not in this interval has the value 0. Otherwise its last value would seem to last.
        self._parts = dict.fromkeys(self._parts, 0.0) | totals.waits()
        values = {"input_wait_share": totals.input_wait_share(), "steps_per_second": totals.steps_per_second()}
        if (ready := totals.batches_ready()) is not None:
            values["batches_ready"] = ready
        values |= {f"waits/{part}": share for part, share in self._parts.items()}
        self._logs.values({f"{self._name}/{key}": value for key, value in values.items()}, self._meter.totals().steps)


class _WatchedIteration(Iterator[Any]):
    """An iterator that measures how long the iterator of a loader takes.

    created_s: how long it took to create the iterator of the loader."""

    def __init__(self, owner: Watch, batches: Iterator[Any], created_s: float) -> None:
        self._owner, self._batches, self._created_s = owner, batches, created_s
        self._next, self._write = owner._meter.next, owner._write
        self._number = 0  # 0 before the first batch is requested
        self._has_source = False

    def __next__(self) -> Any:
        if self._number != self._owner._measured or self._number == 0:
            if self._number != 0:
                return next(self._batches)
            self._number = self._owner._begin(self._created_s)
        try:
            batch = self._next(self._batches, self._write)
        except StopIteration:
            self.close()
            raise
        if not self._has_source:
            self._has_source = True
            self._owner._set_source(self._batches)
        return batch

    def close(self) -> None:
        """Ends the measurement of this epoch, and writes its line and values."""
        if self._number != 0 and self._number == self._owner._measured:
            self._owner._measured += 1
            self._owner._meter.end_epoch()
            self._write()

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self.close()
