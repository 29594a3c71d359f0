"""Measures rates of loaders, alone and with training."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import torch

from .. import _native
from .._blocks import contextmanager
from .clock import Costs
from .known_calls import KnownCalls

KEPT = 4096  # number of the latest samples whose costs are kept
_RUN_AHEAD = 8  # number of steps that the host may run ahead of the device
_WAITED_S = 0.002  # shortest time of next() that shows that the loop waited for a batch


@contextmanager
def iterating(loader: Iterable[Any]) -> Iterator[Iterator[Any]]:
    """Gives an iterator over the loader, and ends its worker processes at the end of the block. Otherwise they would
    run until the garbage collector frees the iterator."""
    iterator = iter(loader)
    try:
        yield iterator
    finally:
        # A slipstream.Pipeline and generators have close(), and PyTorch's loader has _shutdown_workers().
        for name in ("close", "_shutdown_workers"):
            end = getattr(iterator, name, None)
            if end is not None:
                end()


class _Prefetched:
    """Finds the batches that workers made before the loop was in its steady state, so that they are not counted. After
    the first batch of each worker, which PeriodicTurns does not count, these are all batches until the loop waits for
    one, but at most those that the loader prefetches.

    An example are workers that share a lock: one worker may make all of its first batches before the next one gets the
    lock, and the last of these batches then arrive together."""

    def __init__(self, loader: Any, workers: int) -> None:
        self._first = workers
        self._most = workers * (getattr(loader, "prefetch_factor", None) or 1)
        self._batches, self._has_waited = 0, False

    def contains(self, waited_s: float) -> bool:
        """Called with the time that the loop waited for each batch. Returns true if the batch must not be counted."""
        self._batches += 1
        if self._batches <= self._first:
            return False
        self._has_waited = self._has_waited or waited_s > _WAITED_S or self._batches > self._most
        return not self._has_waited


class LoaderAlone(Protocol):
    """Measures samples/s of a loader without training."""

    def measure(self, time: _native.TurnTime, /) -> None: ...

    def rate(self) -> _native.Measured: ...


class LoaderRate:
    """Measures samples/s of a loader whose batches are not used.

    make: creates the loader. workers, batch_size: those of this loader.
    calls: functions that are timed in a loader whose batches contain costs (loaders.TimedCollate), which are then kept;
        None for other loaders.
    """

    def __init__(
        self,
        make: Callable[[], Iterable[Any]],
        workers: int,
        batch_size: int,
        calls: KnownCalls | None = None,
    ) -> None:
        self.make, self._calls, self._workers = make, calls, workers
        self._turns = _native.PeriodicTurns.of_loader(workers, batch_size)
        self.rate = self._turns.rate
        self.costs: list[Costs] = []  # costs of samples

    def measure(self, given: _native.TurnTime) -> None:
        """Reads the loader for one turn, a part of the measurement."""
        ends = [time.perf_counter()]
        self._turns.begin(given, ends[0])
        # Worker processes replace the functions themselves.
        calls = self._calls.replaced() if self._calls and self._workers == 0 else contextlib.nullcontext()
        loader = self.make()
        prefetched = _Prefetched(loader, self._workers)
        with calls, iterating(loader) as batches:
            for batch in batches:
                now = time.perf_counter()
                if self._workers > 0 and prefetched.contains(now - ends[-1]):
                    ends[-1] = now
                    continue
                ends.append(now)
                needs_more = self._turns.add(ends[-1])
                if self._calls and self._turns.counted() > 0:
                    self._keep_costs(batch)
                if not needs_more:
                    break
        if self._turns.counted() == 0:
            raise _native.Error(
                "the loader ended without a batch: a worker's part of the data set is empty"
            )
        self._turns.end(_differences(ends))

    def _keep_costs(self, batch: Any) -> None:
        samples, collating = batch[1]
        self.costs += [sample | collating for sample in samples]
        del self.costs[:-KEPT]


class TrainingRate:
    """Measures steps/s of a training loop over batches.

    make: creates the iterable of batches.
    workers: number of workers, whose batches may arrive together; 1 for cached batches.
    device: "cpu" or "cuda:N". On a GPU, steps are timed with CUDA events, and the host waits only if it is several
        steps ahead of the device.
    usage: measures the utilization of the device at the same time.
    failure: the last exception that was raised.
    """

    def __init__(
        self,
        make: Callable[[], Iterable[Any]],
        step: Callable[[Any], Any],
        device: str,
        workers: int = 1,
        usage: _native.DeviceUsage | None = None,
    ) -> None:
        self.make, self.step, self.usage = make, step, usage
        self.failure: Exception | None = None
        self._workers = workers
        self._device = torch.device(device)
        self._turns = _native.PeriodicTurns.of_training(workers)
        self.rate = self._turns.rate
        self.enqueue_s = self.cpu_s = 0.0  # wall time and CPU time of one step on the training thread

    def restart(self) -> None:
        """Forgets all turns."""
        self._turns.restart()

    def measure(self, given: _native.TurnTime) -> None:
        """Trains for one turn, a part of the measurement."""
        try:
            if self.usage is None:
                self._train(given)
            else:
                self.usage.during(lambda: self._train(given))
        except Exception as error:
            self.failure = error
            raise

    def _train(self, given: _native.TurnTime) -> None:
        self._turns.begin(given, time.perf_counter())
        marks = [self._mark()]
        in_steps, cpu_s = 0.0, time.thread_time()
        loader = self.make()
        prefetched, after = _Prefetched(loader, self._workers), time.perf_counter()
        with iterating(loader) as batches:
            for batch in batches:
                before = time.perf_counter()
                is_counted = not prefetched.contains(before - after)
                self.step(batch)
                after = time.perf_counter()
                if not is_counted:
                    marks[-1], in_steps, cpu_s = self._mark(), 0.0, time.thread_time()
                    continue
                in_steps += after - before
                marks.append(self._mark())
                self._wait_for(marks)
                needs_more = self._turns.add(time.perf_counter())
                if self._turns.counted() == 0:
                    in_steps, cpu_s = 0.0, time.thread_time()
                if not needs_more:
                    break
            if counted := self._turns.counted():
                self.enqueue_s = in_steps / counted
                self.cpu_s = (time.thread_time() - cpu_s) / counted
            self._turns.end(self._seconds(marks))

    def finding(self, items: int) -> str:
        """Returns a sentence if the time of a step depends on which of the `items` cached batches it gets, otherwise
        ""."""
        return _native.depends_on_data(self._turns.by_item(items))

    def _mark(self) -> Any:
        if self._device.type != "cuda":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        return event

    def _wait_for(self, marks: Sequence[Any]) -> None:
        if self._device.type == "cuda" and len(marks) > _RUN_AHEAD:
            marks[-_RUN_AHEAD].synchronize()

    def _seconds(self, marks: Sequence[Any]) -> list[float]:
        """Returns the seconds between consecutive marks. Waits for the last one."""
        if self._device.type != "cuda":
            return _differences(marks)
        marks[-1].synchronize()
        return [
            before.elapsed_time(now) / 1e3 for before, now in itertools.pairwise(marks)
        ]


def _differences(times: Sequence[float]) -> list[float]:
    return [now - before for before, now in itertools.pairwise(times)]
