"""Runs scripts like `python` and `torchrun`, but in forks of a process that has already imported PyTorch, because
the import takes most of a script's time."""

import multiprocessing
import os
import runpy
import socket
import sys
import time
from pathlib import Path

import torch

LIMIT_S = 400
FORKS = multiprocessing.get_context("forkserver")
IMPORTED = ["torch.distributed.run", "torch._dynamo", "slipstream"]
FORKS.set_forkserver_preload(IMPORTED)


def become(script, words, log, environment):
    with open(log, "w", encoding="utf-8") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ.update(environment, CUDA_VISIBLE_DEVICES="")
    torch.set_num_threads(1)
    sys.argv, sys.path[0] = [str(script), *map(str, words)], str(script.parent)
    runpy.run_path(str(script), run_name="__main__")


def start(script, words, log, environment):
    process = FORKS.Process(target=become, args=(script, words, log, environment))
    process.start()
    return process


def start_ranks(script, words, logs, ranks):
    """Starts processes with torchrun's environment; the output of each goes to a file that is named by its rank."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    peers = {"WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks, "GROUP_RANK": 0, "MASTER_ADDR": "127.0.0.1",
             "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "test"}
    return [start(script, words, logs / str(rank),
                  {name: str(value) for name, value in (peers | {"RANK": rank, "LOCAL_RANK": rank}).items()})
            for rank in range(ranks)]


def end(processes):
    """Waits for all processes, and returns whether all have succeeded. When one fails, the others are killed,
    because they may wait for it."""
    until = time.monotonic() + LIMIT_S
    try:
        while all(each.exitcode in (None, 0) for each in processes) and any(each.is_alive() for each in processes):
            assert time.monotonic() < until
            time.sleep(0.01)
    finally:
        for each in processes:
            each.kill()
            each.join()
    return all(each.exitcode == 0 for each in processes)


def run_script(script: Path, words, logs: Path, ranks=0):
    """Runs the script, with `ranks` processes as under torchrun, and returns the output of the first process.

    On a busy machine Gloo does not always find its peers. The processes are then started again, as with torchrun's
    --max-restarts."""
    logs.mkdir()
    for _ in range(7 if ranks > 0 else 1):
        if end(start_ranks(script, words, logs, ranks) if ranks > 0 else [start(script, words, logs / "0", {})]):
            return (logs / "0").read_text(encoding="utf-8")
    raise AssertionError({file.name: file.read_text(encoding="utf-8") for file in logs.iterdir()})
