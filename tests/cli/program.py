"""Runs the slipstream program under test: SLIPSTREAM_BINARY names it, SLIPSTREAM_SERVER names program_server."""

import concurrent.futures
import contextlib
import functools
import json
import os
import pathlib
import pty
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.append(str(pathlib.Path(__file__).parents[1] / "support"))
from processes import ForkServer, wait_until  # noqa: E402

BINARY = os.environ["SLIPSTREAM_BINARY"]
SERVER = os.environ["SLIPSTREAM_SERVER"]
LIMIT_S = 300
HAS_GPU = os.path.exists("/dev/nvidiactl")
TINY = ["--device", "cpu", "--image-size", "16"]
TINY_CLASSIFIER = ["classification", *TINY, "--model", "encoder"]

DONE, FAILED, REFUSED, NO, UNDECIDED, INTERRUPTED = 0, 1, 2, 3, 4, 130


class Server(ForkServer):
    """Runs the program in forks of one process (program_server.cpp), with the working directory `cwd`."""

    def __init__(self, cwd=None):
        super().__init__([SERVER], cwd=cwd)
        self.socket.settimeout(2 * LIMIT_S)

    def begin(self, command, outputs):
        return super().begin("".join(argument + "\0" for argument in command).encode(), outputs)

    def run(self, command):
        ends = [os.pipe(), os.pipe()]
        with contextlib.ExitStack() as stack:
            outputs = [stack.enter_context(open(reading, encoding="utf-8")) for reading, _ in ends]
            pid = self.begin(command, [writing for _, writing in ends])
            for _, writing in ends:
                os.close(writing)
            with concurrent.futures.ThreadPoolExecutor(2) as readers:
                said = [readers.submit(output.read) for output in outputs]
                try:
                    code = self.exit_code()
                except TimeoutError:
                    os.kill(pid, signal.SIGKILL)
                    raise
            return subprocess.CompletedProcess(command, code, *(each.result() for each in said))


@functools.cache
def server():
    return Server()


def run(*arguments, binary=BINARY, stdout=subprocess.PIPE):
    """Runs the program to its end; fails the test after five minutes. Only one thread may call this at a time."""
    command = [binary, *map(str, arguments)]
    if binary == BINARY and stdout == subprocess.PIPE:
        return server().run(command)
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=LIMIT_S)


class Running:
    """A running program whose messages go to a terminal, so that it shows its progress line.

    With `both`, messages go to standard output as well. Other programs may run at the same time."""

    idle = []  # servers in which no program runs

    def __init__(self, *arguments, both=False):
        self.terminal, other_end = pty.openpty()
        reading, writing = os.pipe()
        self.output = open(reading, encoding="utf-8")
        self.said = ""  # text on standard output; available after the end
        self.server = Running.idle.pop() if Running.idle else Server()
        self.pid = self.server.begin([BINARY, *map(str, arguments)], [writing, writing if both else other_end])
        os.close(writing)
        os.close(other_end)

    def send(self, number):
        with contextlib.suppress(ProcessLookupError):  # the program has ended
            os.kill(self.pid, number)

    def has_ended(self):
        return not os.path.exists(f"/proc/{self.pid}")

    def end(self):
        """Waits for the end of the program, or kills it after five minutes; returns the exit code."""
        limit = threading.Timer(LIMIT_S, self.send, [signal.SIGKILL])
        limit.start()
        try:
            self.said = self.output.read()
            code = self.server.exit_code()
            Running.idle.append(self.server)
            return code
        finally:
            limit.cancel()
            self.output.close()
            os.close(self.terminal)

    def signal_once_under_way(self, *numbers, is_under_way=None):
        """Sends the signals after the first message, or when `is_under_way` returns true; returns the exit code."""
        try:
            if is_under_way is None:
                os.read(self.terminal, 1)
            else:
                wait_until(is_under_way)
            for number in numbers:
                self.send(number)
        except BaseException:
            self.send(signal.SIGKILL)
            self.end()
            raise
        return self.end()

    def shown(self):
        """Returns the exit code and all text that the terminal showed."""
        shown = b""
        try:
            while part := os.read(self.terminal, 4096):
                shown += part
        except OSError:  # the program has closed its end
            pass
        return self.end(), shown.decode()


def read_json(path):
    return json.loads(pathlib.Path(path).read_text())


def page_data(path):
    """Returns the JSON that a page contains and draws."""
    text = pathlib.Path(path).read_text()
    return json.loads(text.split('id="data">')[1].split("</script>")[0])


class ProgramTest(unittest.TestCase):
    """Creates a folder for each test class, and has assertions for the result of a run."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="slipstream-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)

    def expect(self, code, *arguments, says=(), binary=BINARY):
        """Checks that the exit code is right and that the messages contain each of `says`."""
        done = run(*arguments, binary=binary)
        told = f"{arguments}\nstdout: {done.stdout}\nstderr: {done.stderr}"
        self.assertEqual(done.returncode, code, told)
        where = done.stderr if code in (FAILED, REFUSED) else done.stdout + done.stderr
        for words in says:
            self.assertIn(words, where, told)
        return done

    def train(self, name, *arguments, workload="segmentation", binary=BINARY):
        """Trains and returns the report."""
        path = self.folder / f"{name}.json"
        self.expect(DONE, "train", workload, *arguments, "--json", path, binary=binary)
        return read_json(path)

    def plan_on_device(self, report, first):
        """Writes `report`'s pipelined plan to a file, but a lane of the device runs the transforms from `first` to the end.

        With --transforms-device this needs a GPU; a CPU's lanes can run such a plan, too."""
        plan = report["plan"]
        plan["schedule"]["loader"]["on_device"] = first
        lanes = plan["schedule"]["lanes"]
        if lanes[1]["steps"] == ["mix"]:
            lanes[1]["steps"] = ["augment", "mix"]
        else:
            lanes.insert(1, lanes[1] | {"steps": ["augment"]})
            plan["schedule"]["depth"] = max(plan["schedule"]["depth"], len(lanes))
        path = self.folder / "on_device.json"
        path.write_text(json.dumps(plan))
        return path


def make_data(folder, samples=8, size=16):
    made = run("make-data", "segmentation", "--out", folder, "--samples", samples, "--size", size)
    assert made.returncode == DONE, made.stderr
    return folder
