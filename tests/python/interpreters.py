"""Runs programs like `python -c`, but in forks of an interpreter that has already imported PyTorch, because the
import takes most of their time. Each fork ends like an interpreter."""

import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading

import torch

from processes import ForkServer

LIMIT_S = 300
SERVER = """
import json, os, socket, sys, warnings
import torch, torch._dynamo, slipstream

connection = socket.socket(fileno=int(sys.argv[1]))
process = None
while process != 0:
    request, outputs, *_ = socket.recv_fds(connection, 1 << 20, 2)
    if not request:
        break
    process = os.fork()
    if process != 0:
        for each in outputs:
            os.close(each)
        connection.send(process.to_bytes(4, sys.byteorder))
        connection.send(os.waitpid(process, 0)[1].to_bytes(4, sys.byteorder))
if request:
    connection.close()
    for number, each in enumerate(outputs, 1):
        os.dup2(each, number)
        os.close(each)
    request = json.loads(request)
    os.environ.update(request["environment"])
    torch.set_num_threads(request["threads"])
    sys.argv = ["-c", *request["arguments"]]
    code = compile(request["program"], "<string>", "exec")
    if request["ignores_warnings"]:
        warnings.simplefilter("ignore")
    del connection, process, outputs, each, number, request
    exec(code)
"""


@functools.cache
def server():
    """Returns such an interpreter. If this process uses CUDA, that one still does not."""
    return ForkServer([sys.executable, "-c", SERVER],
                      env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})


def run(program, *arguments, threads=None, ignores_warnings=False, **environment):
    """Runs a program to its end; returns its exit code and output. It is killed after five minutes.

    threads: number of threads of PyTorch's operations; the default is that of this process.
    """
    request = {"program": program, "arguments": [*map(str, arguments)], "environment": environment,
               "threads": threads or torch.get_num_threads(), "ignores_warnings": ignores_warnings}
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as errors:
        process = server().begin(json.dumps(request).encode(), [said.fileno(), errors.fileno()])
        limit = threading.Timer(LIMIT_S, os.kill, [process, signal.SIGKILL])
        limit.start()
        code = server().exit_code()
        limit.cancel()
        for file in (said, errors):
            file.seek(0)
        return subprocess.CompletedProcess(program, code, said.read(), errors.read())
