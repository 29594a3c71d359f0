"""Which batches of a loader the doctor's rates count."""

import types

import pytest

from slipstream._doctor.rates import TrainingRate, _Prefetched


def counted(workers, prefetch_factor, waits):
    prefetched = _Prefetched(types.SimpleNamespace(prefetch_factor=prefetch_factor), workers)
    return [not prefetched.contains(0.01 if wait else 0.0) for wait in waits]


@pytest.mark.parametrize(("workers", "prefetch", "waits", "expected"), [
    (2, 3, [1, 0, 1, 0, 0], [1, 1, 1, 1, 1]),  # the loop waits for the third batch, so both workers were used up
    (2, 3, [1, 1, 0, 0, 1, 0], [1, 1, 0, 0, 1, 1]),  # prefetched batches arrive together
    (2, 3, [0] * 9, [1, 1, 0, 0, 0, 0, 1, 1, 1]),  # the loop never waits: at most 2 * 3 batches are prefetched
    (0, None, [0] * 3, [1, 1, 1]), (1, None, [0] * 3, [1, 1, 1])])
def test_prefetched_batches_after_the_first_of_each_worker_are_not_counted(workers, prefetch, waits, expected):
    assert counted(workers, prefetch, waits) == [bool(each) for each in expected]


class Batches:
    """Batches of which the first eight are there at once."""

    prefetch_factor = 4

    def __init__(self, times):
        self.times = times

    def __iter__(self):
        for number in range(100):
            self.times.wall += 1.0 if number >= 8 else 0.0
            yield number


def test_rate_of_training_is_that_of_the_steady_state(monkeypatch):
    class Times:
        wall = 0.0

        def perf_counter(self):
            return self.wall

        thread_time = perf_counter

    class Turn:
        """A turn that ends after a number of batches."""

        def __init__(self, workers):
            self.done = 0

        def begin(self, given, now):
            pass

        def add(self, now):
            self.done += 1
            return self.done < 6

        def counted(self):
            return max(0, self.done - 2)

        def end(self, durations):
            self.durations = durations

        def rate(self):
            return None

    from slipstream._doctor import rates

    times = Times()
    monkeypatch.setattr(rates, "time", times)
    monkeypatch.setattr(rates._native, "PeriodicTurns", types.SimpleNamespace(of_training=Turn))

    def step(batch):
        times.wall += 0.1

    rate = TrainingRate(lambda: Batches(times), step, "cpu", 2)
    rate.measure(None)
    assert rate._turns.durations[2:] == pytest.approx([1.1] * 4)
    assert rate.enqueue_s == pytest.approx(0.1)
