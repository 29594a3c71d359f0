"""Ctrl-C while data are looked for."""

import subprocess
import sys

import pytest

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
    print(type(error).__name__, "behind", type(error.__context__).__name__)
print(len(ss.ImageFolder(sys.argv[3])))
"""


@pytest.mark.parametrize("opens", ["ImageFolder", "open_dataset"])
def test_the_scan_of_a_folder_ends_with_ctrl_c(opens, tmp_path):
    (tmp_path / "many").mkdir()
    for number in range(2000):
        (tmp_path / "many" / f"{number}.jpg").touch()
    classes = tmp_path / "classes"
    classes.mkdir()
    for number in range(2000):
        (classes / f"class{number}").symlink_to(tmp_path / "many")
    (classes / "empty").mkdir()  # of which the whole scan would tell
    small = tmp_path / "small"
    (small / "class").mkdir(parents=True)
    (small / "class" / "image.jpg").touch()
    ended = subprocess.run([sys.executable, "-c", PROGRAM, opens, classes, small], capture_output=True, text=True,
                           timeout=120)
    assert ended.stdout == "KeyboardInterrupt behind NoneType\n1\n", ended.stderr
