"""Threads, time limits, errors and memory of the runs that slipstream.verify makes."""

import contextlib
import gc
import os
import sys
import threading
import time
import traceback
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import slipstream as ss
from slipstream._verify import execution, treatment, verification
from slipstream._verify.schedule import Schedule, Size
from slipstream._verify.watch import Thread

torch.set_num_threads(1)


def returning(*results):
    """Returns a make_run whose runs return these results in order, then the last one again."""
    left = list(results)

    def make_run():
        result = left.pop(0) if len(left) > 1 else left[0]
        return result if callable(result) else lambda: result

    return make_run


def fails(error):
    raise error


@pytest.fixture
def stop():
    event = threading.Event()
    yield event
    event.set()


def wait_for(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("is_in_run", [False, True])
def test_threads_are_not_observed_after_a_run_raises(error, is_in_run, stop, monkeypatch):
    seen, done = [], []

    class Reference(treatment.Reference):
        def before(self, operation):
            seen.append(operation)
            super().before(operation)

    monkeypatch.setattr(verification, "Reference", Reference)

    def work():
        while not stop.is_set():
            torch.ones(1)
            done.append(True)

    def ends():
        threading.Thread(target=work, daemon=True).start()
        wait_for(lambda: seen)
        raise error

    with pytest.raises(error):
        ss.verify((lambda: ends) if is_in_run else ends)
    begin = len(done)
    wait_for(lambda: len(done) > begin + 2)
    count = len(seen)
    wait_for(lambda: len(done) > begin + 100)
    assert len(seen) == count


def waits_in_a_pool(stop):
    with ThreadPoolExecutor(1) as pool:
        pool.submit(stop.wait).result()


def catches_all(stop):
    with contextlib.suppress(BaseException):
        stop.wait()
    stop.wait()


def resumes(stop):
    with contextlib.suppress(BaseException):
        stop.wait()
    return 1


@pytest.mark.parametrize("hangs", [waits_in_a_pool, catches_all, resumes])
def test_timeout_is_a_hang_even_if_the_run_catches_it(hangs, stop):
    report = ss.verify(returning(1, 1, lambda: hangs(stop)), timeout=2)
    assert (report.verdict, report.reason) == ("hang", "the run did not end within 2 s")
    assert report.source.endswith(f" in {hangs.__name__}")
    assert report.text().endswith("slipstream.verify(make_run, seed=0, schedules=1, timeout=2)")


def test_computing_thread_is_not_seen_as_resting(monkeypatch):
    # a thread that waits for the GIL is not running either
    monkeypatch.setattr(treatment, "_is_running", lambda native_id: False)
    threads, rounds = [], [0]

    def compute():
        threads.append(Thread("computes", 1))
        while threads:
            rounds[0] += 1

    def rests():
        first, begin = treatment._rest(threads[0]), rounds[0]
        wait_for(lambda: rounds[0] > begin + 1000)
        return treatment._rest(threads[0]) == first

    threading.Thread(target=compute).start()
    wait_for(lambda: threads)
    have_rested = [rests() for _ in range(20)]
    threads.clear()
    assert not any(have_rested)


def test_waiting_thread_is_seen_as_resting(stop):
    threads = []

    def wait():
        threads.append(Thread("waits", 1))
        stop.wait()

    def rests():
        first = treatment._rest(threads[0])
        time.sleep(treatment._LOOK_S)
        return first is not None and treatment._rest(threads[0]) == first

    threading.Thread(target=wait).start()
    wait_for(lambda: threads and rests())


def test_thread_waits_until_earlier_threads_have_finished():
    seen = []

    class Reference(treatment.Reference):
        def after(self, operation, result):
            seen.append(operation.thread.name)

    def run():
        thread = threading.Thread(target=lambda: torch.zeros(1))
        thread.start()
        begin = time.monotonic()
        while time.monotonic() < begin + 2 * treatment._LONGEST_TURN_S:
            torch.zeros(1)
        seen.append("end")
        thread.join()

    execution.execute(lambda: run, Reference(None), None)
    assert seen.index("end") < seen.index("main/1")


def test_scaled_delays_are_multiples_of_unscaled_ones(monkeypatch):
    def slept(scale):
        seconds = []
        monkeypatch.setattr(treatment.time, "sleep", seconds.append)
        schedule = Schedule(0, Size(operations=20, on_device=0, copies=0, threads=1))
        execution.execute(lambda: lambda: [torch.ones(1).sum() for _ in range(20)],
                          treatment.Delayed(schedule, scale=scale), None)
        return seconds

    assert any(slept(1)) and slept(4) == [4 * each for each in slept(1)]


def test_operations_of_only_the_first_run_are_ignored():
    runs = []

    def make_run():
        runs.append(True)

        def run():
            if len(runs) == 1:
                torch.ones(2).cos()
            return torch.zeros(2).sin()

        return run

    report = ss.verify(make_run, schedules=2)
    assert (report.verdict, report.operations, len(runs)) == ("equal", 2, 5)


def with_thread(first_failing):
    runs = []

    def make_run():
        runs.append(True)

        def run():
            target = (lambda: fails(ValueError("in a thread"))) if len(runs) >= first_failing else int
            thread = threading.Thread(target=target, name="fails")
            thread.start()
            thread.join()
            return 1

        return run

    return make_run


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_thread_error_only_in_delayed_run_is_a_race():
    report = ss.verify(with_thread(first_failing=3), schedules=1)
    assert report.verdict == "race" and isinstance(report.error, ValueError)
    assert report.reason == "raised ValueError: in a thread" and report.source.endswith(" in fails")
    report = ss.verify(with_thread(first_failing=1), schedules=1)
    assert report.passed and report.notes == ("thread 'fails' raised ValueError: in a thread",)


class Holder:
    pass


def test_each_run_is_freed_before_the_next():
    held, alive = [], []

    def make_run():
        gc.collect()
        alive.append(sum(each() is not None for each in held))
        holder = Holder()
        holder.itself = holder
        held.append(weakref.ref(holder))

        def run(number=len(held)):
            return holder and (1 if number < 3 else fails(ValueError(number)))

        return run

    report = ss.verify(make_run)
    assert report.verdict == "race" and len(alive) > 4 and max(alive) <= 1
    assert traceback.extract_tb(report.error.__traceback__)[-1].name == "fails"


def test_objects_frozen_with_gc_freeze_stay_frozen():
    gc.freeze()
    try:
        count = gc.get_freeze_count()
        ss.verify(returning(1), schedules=1)
        assert 0 < gc.get_freeze_count() <= count
    finally:
        gc.unfreeze()


def test_out_of_memory_for_digests_does_not_replace_the_error():
    def no_memory():
        raise torch.OutOfMemoryError("no memory")

    report = ss.verify(returning(1, 1, lambda: fails(ValueError("late")), no_memory))
    assert isinstance(report.error, ValueError) and "did not occur again" in report.notes[0]
    assert isinstance(ss.verify(returning(1, 1, no_memory)).error, torch.OutOfMemoryError)


def test_device_error_in_reference_run_is_raised_unchanged(monkeypatch):
    @contextlib.contextmanager
    def lost():
        try:
            yield
        finally:
            raise RuntimeError("generators of a lost device")

    monkeypatch.setattr(sys.modules["slipstream.verify"], "preserved_random_states", lost)
    monkeypatch.setattr(execution, "_has_lost_device", lambda devices: True)
    with pytest.raises(RuntimeError, match="device-side assert"):
        ss.verify(returning(lambda: fails(RuntimeError("device-side assert"))))


def test_system_exit_only_in_delayed_run_is_a_race():
    report = ss.verify(returning(1, 1, lambda: sys.exit(3)))
    assert (report.verdict, report.reason) == ("race", "raised SystemExit: 3")
    assert report.notes == ("no operation was delayed in this schedule, so delays are not the cause",)
    with pytest.raises(SystemExit):
        ss.verify(returning(lambda: sys.exit(3)))


def test_threads_started_by_other_threads_are_not_noted(stop):
    is_needed, is_started = threading.Semaphore(0), threading.Semaphore(0)

    def serve():
        while is_needed.acquire() and not stop.is_set():
            threading.Thread(target=stop.wait, name="of others", daemon=True).start()
            is_started.release()

    threading.Thread(target=serve, daemon=True).start()

    def make_run():
        def run():
            is_needed.release()
            is_started.acquire()
            return torch.ones(1)

        return run

    report = ss.verify(make_run, schedules=1)
    stop.set()
    is_needed.release()
    assert report.passed and report.notes == ()


def test_running_threads_of_torch_are_not_noted(stop):
    file = os.path.join(os.path.dirname(torch.__file__), "some.py")

    def make_run():
        def run():
            thread = threading.Thread(target=stop.wait, daemon=True)
            exec(compile("thread.start()", file, "exec"), {"thread": thread})
            return 1

        return run

    assert ss.verify(make_run, schedules=1).notes == ()
