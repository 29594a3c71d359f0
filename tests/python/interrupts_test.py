"""Ctrl-C while folders are scanned, and exceptions that signal handlers raise during library calls."""

import functools
import os
import signal
import sys

import interpreters
import pytest
import slipstream as ss
import torch
from trained import Net, make_trainer

PROGRAM = """
import os, signal, sys, threading
import slipstream as ss

def is_listed():
    for number in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{number}").endswith("many"):
                return True
        except OSError:
            pass

def interrupt():
    while not is_listed():
        pass
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
try:
    getattr(ss, sys.argv[1])(sys.argv[2])
except BaseException as error:
    print(type(error).__name__, "after", type(error.__context__).__name__)
print(len(ss.ImageFolder(sys.argv[3])))
"""


@pytest.mark.parametrize("opens", ["ImageFolder", "open_dataset"])
def test_ctrl_c_interrupts_folder_scan(opens, tmp_path):
    (tmp_path / "many").mkdir()
    for number in range(2000):
        (tmp_path / "many" / f"{number}.jpg").touch()
    classes = tmp_path / "classes"
    classes.mkdir()
    for number in range(2000):
        (classes / f"class{number}").symlink_to(tmp_path / "many")
    (classes / "empty").mkdir()  # a complete scan would report this empty class
    small = tmp_path / "small"
    (small / "class").mkdir(parents=True)
    (small / "class" / "image.jpg").touch()
    ended = interpreters.run(PROGRAM, opens, classes, small)
    assert ended.stdout == "KeyboardInterrupt after NoneType\n1\n", ended.stderr


class Late(Exception):
    pass


def late(*_):
    raise Late


class Handler:
    def __call__(self, *_):
        late()

    def method(self, *_):
        late()


def signaled():
    os.kill(os.getpid(), signal.SIGUSR1)
    sum(range(1000))


class Signaled(Net):
    def forward(self, images):
        signaled()
        return super().forward(images)


def stage(batch):
    signaled()
    return batch


def trained(photos, device):
    make_trainer(photos, device, Signaled(), plan="serial").fit()


def iterated(photos, device):
    list(ss.Pipeline([torch.ones(2)] * 3, [("same", stage)], device))


RUNS = {"trainer": (trained, "stage 'model'"), "pipeline": (iterated, "stage 'same'")}


def notes_in(run, photos, device, handler):
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises((Late, KeyboardInterrupt)) as caught:
            run(photos, device)
    finally:
        signal.signal(signal.SIGUSR1, before)
    return caught.value.__notes__


@pytest.mark.skipif(sys.version_info < (3, 11), reason="errors have no notes")
@pytest.mark.parametrize("name", RUNS)
def test_error_of_signal_handler_is_not_attributed_to_a_stage(photos, device, name):
    run, where = RUNS[name]
    for handler in (late, Handler(), Handler().method, functools.partial(late, 1), signal.default_int_handler):
        (note,) = notes_in(run, photos, device, handler)
        assert note.startswith("raised by a signal handler, which happened to run here: ") and where in note


def raising(*_):
    raise Late


@pytest.mark.skipif(sys.version_info < (3, 11), reason="errors have no notes")
def test_error_of_stage_is_attributed_to_it(device):
    with pytest.raises(Late) as caught:
        list(ss.Pipeline([torch.ones(2)] * 3, [("raises", raising)], device))
    assert caught.value.__notes__ == ["in stage 'raises' of a slipstream.Pipeline"]
