"""examples/python/train.py: alone, under torchrun with 2 and 4 processes, and after a process was killed."""

import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "examples" / "python" / "train.py"
ALONE = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}


def command(ranks):
    """Gloo does not always find its peers on a busy machine: torchrun then begins again."""
    if ranks == 1:
        return [sys.executable, SCRIPT]
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}",
            "--max-restarts=6", SCRIPT, "--timeout", "20"]


def run(ranks, data, steps, checkpoint):
    """The state that it saves after the last step."""
    words = [*command(ranks), data, "--steps", steps, "--batch-size", 8, "--num-workers", 1, "--checkpoint", checkpoint,
             "--save-every", 3]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, env=os.environ | ALONE,
                          timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(rf"step {steps}: loss [\d.]+", done.stdout)
    state = torch.load(checkpoint)
    assert (state["step"], state["loader"]["position"]) == (steps, steps)
    return state["model"]


def assert_close(model, expected):
    """Gradients of more processes are summed in another order."""
    torch.testing.assert_close(model, expected, rtol=1e-4, atol=1e-6)


@pytest.fixture(scope="module")
def alone(photos, tmp_path_factory):
    return run(1, photos, 15, tmp_path_factory.mktemp("alone") / "run.pt")


@pytest.mark.parametrize("ranks", [2, 4])
def test_any_number_of_processes_trains_on_the_same_samples(photos, alone, ranks, tmp_path):
    assert_close(run(ranks, photos, 15, tmp_path / "run.pt"), alone)


@pytest.mark.parametrize("ranks", [1, 4])
def test_another_number_of_processes_goes_on(photos, alone, ranks, tmp_path):
    run(2, photos, 9, tmp_path / "run.pt")
    assert_close(run(ranks, photos, 15, tmp_path / "run.pt"), alone)


def start(rank, data, checkpoint, port):
    words = [sys.executable, SCRIPT, data, "--steps", "100000", "--batch-size", "8", "--num-workers", "1", "--timeout",
             "20", "--checkpoint", checkpoint, "--save-every", "3"]
    peers = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                            env=os.environ | ALONE | peers)


def test_the_rest_goes_on_after_a_process_was_killed(photos, tmp_path):
    steps = 60
    whole = run(2, photos, steps, tmp_path / "whole.pt")
    checkpoint = tmp_path / "run.pt"
    until = time.monotonic() + 200
    while not checkpoint.exists():
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        both = [start(rank, photos, checkpoint, port) for rank in range(2)]
        while not checkpoint.exists() and all(each.poll() is None for each in both):
            assert time.monotonic() < until
            time.sleep(0.005)
        both[1].kill()
        both[0].terminate()
        for each in both:
            each.wait(60)
    assert torch.load(checkpoint)["step"] < steps
    torch.testing.assert_close(run(2, photos, steps, checkpoint), whole, rtol=0, atol=0)
