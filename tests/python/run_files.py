"""Runs test files with pytest, each in a separate process, and prints the failures.

    run_files.py FILE...

The processes are forks of this one, which has imported PyTorch, because the import takes longer than most files. No
test runs in this process, so files do not share any state. Exits with 1 if a file fails, hangs or has no tests.
"""

import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy  # noqa: F401
import pytest
import torch  # noqa: F401

HANG_S = 1500
PROCESSES = min(6, os.cpu_count())


class Run:
    """The process that runs one file."""

    def __init__(self, file):
        self.file = file
        self.output = tempfile.TemporaryFile()
        self.begin_s = time.monotonic()
        self.pid = os.fork()
        if self.pid == 0:
            os.setpgid(0, 0)
            os.dup2(self.output.fileno(), 1)
            os.dup2(self.output.fileno(), 2)
            # faulthandler prints where a test hangs.
            code = pytest.main(["-q", "-p", "no:cacheprovider", "-o", f"faulthandler_timeout={HANG_S - 300}", file])
            sys.stdout.flush()
            os._exit(code)

    def kill_if_it_hangs(self):
        if time.monotonic() - self.begin_s > HANG_S:
            os.killpg(self.pid, signal.SIGKILL)

    def end(self, status):
        """Returns true if it passed."""
        code = os.waitstatus_to_exitcode(status)
        self.output.seek(0)
        text = self.output.read().decode(errors="replace")
        lines = text.splitlines() or ["no output"]
        print(f"{Path(self.file).name}: {lines[-1] if code == 0 else f'FAILED with exit code {code}'}")
        if code != 0:
            print(text)
        sys.stdout.flush()
        return code == 0


def main():
    sys.dont_write_bytecode = True
    # The largest files start first; otherwise a long one might run alone at the end.
    waiting = sorted(sys.argv[1:], key=os.path.getsize)
    running, failed = {}, 0
    while waiting or running:
        while waiting and len(running) < PROCESSES:
            run = Run(waiting.pop())
            running[run.pid] = run
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid in running:
            failed += not running.pop(pid).end(status)
        elif pid == 0:
            time.sleep(0.05)
            for run in running.values():
                run.kill_if_it_hangs()
    print(f"{len(sys.argv) - 1 - failed} files passed, {failed} failed")
    return 1 if failed or len(sys.argv) == 1 else 0


if __name__ == "__main__":
    sys.exit(main())
