"""Starts of worker processes during forks, inside other processes, and during Ctrl-C."""

import collections
import ctypes
import gc
import logging
import multiprocessing
from multiprocessing.process import BaseProcess
import operator
import os
import signal
import subprocess
import sys
import threading

import interpreters
from processes import is_there, wait_until
import pytest
import torch

import slipstream as ss
from slipstream import _workers


def run_program(tmp_path, program, *arguments):
    (tmp_path / "program.py").write_text(program)
    run = subprocess.run([sys.executable, "-W", "ignore", tmp_path / "program.py", *arguments], text=True,
                         capture_output=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
                         check=False, timeout=200)
    return run.stdout + run.stderr


class Nested:
    """A data set that creates a loader for each sample: of a data set in Python, or of a folder of images."""

    def __init__(self, data, method=None):
        self.data, self.method = data, method

    def __len__(self):
        return 2

    def __getitem__(self, i):
        data = self.data
        if not isinstance(data, torch.Tensor):
            data = ss.ImageFolder(data, ss.transforms.CenterCrop(8))
        return next(iter(ss.DataLoader(data, 3, multiprocessing_context=self.method, num_workers=1)))[0]


@pytest.mark.parametrize(("outer", "inner"), [("fork", "fork"), ("fork", "spawn"), ("spawn", "fork")])
def test_python_loader_inside_a_worker_is_refused_native_one_works(photos, outer, inner):
    data = Nested(torch.arange(9), inner)
    with pytest.raises(ss.Error, match=r"sample 0: .*inside a worker process \('slipstream worker 0'\): create it in"):
        ss.DataLoader(data, 2, multiprocessing_context=outer, num_workers=1)
    assert [x.shape for x in ss.DataLoader(Nested(photos), 2, multiprocessing_context=outer, num_workers=1)] == [(2, 3, 3, 8, 8)]


def test_python_loader_inside_a_torch_worker_is_refused(monkeypatch):
    # seconds that PyTorch gives a worker to end
    monkeypatch.setattr(torch.utils.data._utils, "MP_STATUS_CHECK_INTERVAL", 0.2)
    with pytest.raises(ss.Error, match="inside a worker process"):
        list(torch.utils.data.DataLoader(Nested(torch.arange(9)), 2, num_workers=1, multiprocessing_context="fork"))
    gc.collect()


FORK_BESIDE_A_START = """
import os, threading
import slipstream as ss

begun, proceed = threading.Event(), threading.Event()

class HeldObject(list):
    def __reduce__(self):
        begun.set()
        proceed.wait()
        return list, ([len(ss.DataLoader([1, 2], num_workers=1))],)

def start():
    print([x.item() for x in ss.DataLoader(HeldObject([1]), multiprocessing_context="spawn", num_workers=1)], flush=True)

if __name__ == "__main__":
    starting = threading.Thread(target=start)
    starting.start()
    begun.wait()
    process = os.fork()
    if process == 0:
        print([x.item() for x in ss.DataLoader([3, 4], num_workers=1)], flush=True)
        os._exit(0)
    os.waitpid(process, 0)
    proceed.set()
    starting.join()
"""


def test_fork_during_start_of_workers_does_not_deadlock(tmp_path):
    assert run_program(tmp_path, FORK_BESIDE_A_START) == "[3, 4]\n[2]\n"


def interrupt(*_):
    """Interrupts the process like Ctrl-C, at a time that the test chooses."""
    os.kill(os.getpid(), signal.SIGINT)


def workers_left():
    return [each for each in multiprocessing.active_children() if each.name.startswith("slipstream")]


def run_on():
    """Runs bytecode, so that Python raises a pending KeyboardInterrupt."""
    for _ in range(1000):
        pass


@pytest.mark.skipif(not hasattr(logging, "_at_fork_reinit_lock_weakset"), reason="no lock is taken for a fork")
@pytest.mark.parametrize("workers", [1, 3])
def test_ctrl_c_during_fork_of_workers_is_raised(monkeypatch, capfd, workers):
    started = []

    class Lock:
        def acquire(self):
            started.append(interrupt())

        def release(self):
            pass

        _at_fork_reinit = release

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(logging, "_lock", Lock())
    with pytest.raises(KeyboardInterrupt):
        ss.DataLoader(range(4), num_workers=workers, multiprocessing_context="fork")
    monkeypatch.undo()
    assert len(started) == 1 and signal.getsignal(signal.SIGINT) is before
    assert workers_left() == [] and "ignored" not in capfd.readouterr().err
    assert len(ss.DataLoader(range(4), num_workers=workers, multiprocessing_context="fork")) == 4


@pytest.mark.parametrize("drops", [True, False])
def test_ctrl_c_while_processes_end_is_raised(monkeypatch, capfd, drops):
    loader = ss.DataLoader(range(4), num_workers=2)
    join = BaseProcess.join
    joined = []

    def interrupted_join(process, timeout=None):
        if not joined:
            interrupt()
        joined.append(process.pid)
        join(process, timeout)

    monkeypatch.setattr(BaseProcess, "join", interrupted_join)
    with pytest.raises(KeyboardInterrupt):
        if drops:
            del loader
        else:
            loader._loading._workers.close()
        run_on()
    assert len(set(joined)) == 2
    assert workers_left() == [] and "ignored" not in capfd.readouterr().err


def test_ctrl_c_just_before_a_loader_is_dropped_is_raised(capfd):
    loaders = [ss.DataLoader(range(4), num_workers=2)]
    calls = map(operator.methodcaller("__call__"), [ctypes.pythonapi.PyErr_SetInterrupt, loaders.clear])
    with pytest.raises(KeyboardInterrupt):
        collections.deque(calls, 0)  # no Python code runs between the two calls
        run_on()
    assert workers_left() == [] and "ignored" not in capfd.readouterr().err


BESIDE_A_LOOP = """
import threading, torch, slipstream as ss

ss._workers._BEGINS_WITHIN_S = [60]
loop, ends = ss.Pipeline(LOOP), threading.Event()


def iterate():
    while not ends.is_set():
        list(loop)


thread = threading.Thread(target=iterate)
thread.start()
for _ in range(40):
    ss.DataLoader(list(range(12)), 3, num_workers=1)
ends.set()
thread.join()
print("ended")
"""


@pytest.mark.parametrize("loop", ["[torch.zeros(3)] * 4", "ss.DataLoader([1, 2, 3], 1, num_workers=1)"])
def test_workers_start_while_another_thread_iterates(loop):
    """The other thread is sometimes inside PyTorch's random generator or the choice of kernels, whose locks a forked
    process would wait for."""
    run = interpreters.run(BESIDE_A_LOOP.replace("LOOP", loop), ignores_warnings=True)
    assert (run.stdout, run.stderr) == ("ended\n", "")


NUMBERS_BESIDE = """
import threading, numpy as np, slipstream as ss

ss._workers._BEGINS_WITHIN_S = [60]
ends = threading.Event()


def draw():
    while not ends.is_set():
        np.random.rand(1 << 20)


thread = threading.Thread(target=draw)
thread.start()
for _ in range(10):
    ss.DataLoader([1, 2, 3], num_workers=1)
ends.set()
thread.join()
print("ended")
"""


def test_workers_start_while_another_thread_uses_numpy_random():
    run = interpreters.run(NUMBERS_BESIDE, ignores_warnings=True)
    assert (run.stdout, run.stderr) == ("ended\n", "")


FORKS = {"done": 0, "stuck": [], "dead": []}


def count_fork():
    FORKS["done"] += 1


def begin_badly():
    if FORKS["done"] in FORKS["stuck"]:
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()
    if FORKS["done"] in FORKS["dead"]:
        os._exit(3)


os.register_at_fork(before=count_fork, after_in_child=begin_badly)


@pytest.fixture
def forks(monkeypatch):
    """Selects which of the next processes fail to begin. Tests wait only briefly for those."""
    has_word = _workers._has_word

    def has_word_soon(connection, patience):
        return has_word(connection, 0.1 if FORKS["done"] in FORKS["stuck"] else 60)

    monkeypatch.setattr(_workers, "_has_word", has_word_soon)
    FORKS.update(done=0, stuck=[], dead=[])
    yield FORKS
    FORKS.update(stuck=[], dead=[])


@pytest.mark.parametrize("workers", [1, 3])
def test_worker_that_does_not_begin_is_restarted(forks, workers):
    """For example, a worker may wait for a lock that another thread held during the fork."""
    forks["stuck"] = [workers, workers + 1]
    loader = ss.DataLoader(range(4), num_workers=workers)
    assert forks["done"] == workers + 2 and len(workers_left()) == workers
    assert torch.cat(list(loader)).tolist() == [0, 1, 2, 3]


def test_workers_that_never_begin_raise(forks):
    forks["stuck"] = [2, 3, 4]
    with pytest.raises(ss.Error, match=r"worker process 1 did not start within 40 s: .*'spawn'"):
        ss.DataLoader(range(4), num_workers=2)
    assert workers_left() == [] and len(ss.DataLoader(range(4), num_workers=2)) == 4


def test_worker_that_exits_before_it_begins_raises(forks):
    forks["dead"] = [1]
    with pytest.raises(ss.Error, match="exited with code 3"):
        ss.DataLoader(range(4), num_workers=1)
    assert workers_left() == []


def test_ctrl_c_while_a_worker_begins_is_raised(monkeypatch, forks):
    forks["stuck"] = [2]

    def has_word(connection, _):
        if forks["done"] == 2:
            threading.Timer(0.1, interrupt).start()
            connection.recv(1)  # the message never arrives
        return True

    monkeypatch.setattr(_workers, "_has_word", has_word)
    with pytest.raises(KeyboardInterrupt):
        ss.DataLoader(range(4), num_workers=2)
    assert workers_left() == []


def test_replacement_worker_that_does_not_begin_is_restarted(forks):
    loader = ss.DataLoader(range(4), num_workers=1)
    os.kill(workers_left()[0].pid, signal.SIGKILL)
    with pytest.raises(ss.Error, match="signal 9"):
        list(loader)
    forks["stuck"] = [2]
    assert torch.cat(list(loader)).tolist() == [0, 1, 2, 3] and forks["done"] == 3


@pytest.mark.parametrize("module", ["import numpy", "sys.modules['numpy'] = None"])
def test_largest_seed_works_with_several_workers(tmp_path, module):
    """Worker seeds are consecutive, and the one after the largest is 0. This must also work without numpy."""
    program = f"import sys\n{module}\nimport slipstream as ss\n" \
        "print([each.item() for each in ss.DataLoader(range(40), num_workers=3, seed=2**64 - 1)] == list(range(40)))"
    assert run_program(tmp_path, program) == "True\n"  # runs in an interpreter that has imported nothing yet


def test_no_worker_outlives_a_program_killed_during_start(tmp_path):
    (tmp_path / "program.py").write_text("""
import os, time, slipstream as ss


def begin(number):
    print(os.getpid(), flush=True)
    time.sleep(1000)


ss.DataLoader([1, 2], worker_init_fn=begin, num_workers=1)
""")
    program = subprocess.Popen([sys.executable, tmp_path / "program.py"], text=True, stdout=subprocess.PIPE,
                               env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    worker = int(program.stdout.readline())
    program.kill()
    program.wait(100)
    wait_until(lambda: not is_there(worker))
    program.stdout.close()
