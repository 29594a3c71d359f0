"""Helpers for tests that use other processes."""

import atexit
import os
import socket
import subprocess
import sys
import time
from pathlib import Path


def is_there(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition did not become true"
        time.sleep(0.005)


class ForkServer:
    """A process that runs programs in forks of itself, so that each run saves the time of loading PyTorch.

    Starts `command` with the number of a socket as its last argument; `options` are those of subprocess.Popen.

    For each request on the socket the process sends two numbers of four bytes: the process id of the fork when it
    starts, and its wait status when it ends.
    """

    def __init__(self, command, **options):
        self.socket, other_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other_end:
            self.process = subprocess.Popen([*command, str(other_end.fileno())], pass_fds=[other_end.fileno()],
                                            **options)
        atexit.register(self.end)

    def end(self):
        self.socket.close()
        self.process.wait()

    def begin(self, request, outputs):
        """Starts a fork that writes to these two descriptors; returns its process id."""
        socket.send_fds(self.socket, [request], outputs)
        return self.number()

    def exit_code(self):
        """Waits until the fork that was started last ends."""
        return os.waitstatus_to_exitcode(self.number())

    def number(self):
        return int.from_bytes(self.socket.recv(4), sys.byteorder)
