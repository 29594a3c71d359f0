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


def loss_of(output):
    return float(re.search(r"step \d+: loss ([\d.]+)", output).group(1))


def run(ranks, data, steps, *options):
    words = [*command(ranks), data, "--steps", steps, "--batch-size", 8, "--num-workers", 1, *options]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, env=os.environ | ALONE,
                          timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return loss_of(done.stdout)


@pytest.fixture(scope="module")
def alone(photos):
    return run(1, photos, 14)


@pytest.mark.parametrize("ranks", [2, 4])
def test_any_number_of_processes_trains_on_the_same_samples(photos, alone, ranks):
    assert run(ranks, photos, 14) == pytest.approx(alone, rel=1e-4)


def test_another_number_of_processes_goes_on(photos, alone, tmp_path):
    checkpoint = ["--checkpoint", tmp_path / "run.pt", "--save-every", 3]
    run(2, photos, 9, *checkpoint)
    state = torch.load(tmp_path / "run.pt")
    assert (state["step"], state["loader"]["position"]) == (9, 9)
    assert all(name.startswith("module.") for name in state["model"])
    assert run(4, photos, 14, *checkpoint) == pytest.approx(alone, rel=1e-4)


def start(rank, data, checkpoint, port):
    words = [sys.executable, SCRIPT, data, "--steps", "100000", "--batch-size", "8", "--num-workers", "1", "--timeout",
             "20", "--checkpoint", checkpoint, "--save-every", "5"]
    peers = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                            env=os.environ | ALONE | peers)


def test_the_rest_goes_on_after_a_process_was_killed(photos, tmp_path):
    steps = 60
    whole = run(2, photos, steps, "--checkpoint", tmp_path / "whole.pt", "--save-every", 5)
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
    assert run(2, photos, steps, "--checkpoint", checkpoint, "--save-every", 5) == whole
