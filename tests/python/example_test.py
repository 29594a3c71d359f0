"""examples/python/train.py: alone, under torchrun with 2 and 4 processes, and after a process was killed."""

import os
import re
import signal
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


def children_of(pid):
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout
    return [int(each) for each in found.split()]


def test_torchrun_goes_on_after_a_process_was_killed(photos, tmp_path):
    whole = run(2, photos, 200, "--checkpoint", tmp_path / "whole.pt", "--save-every", 5)
    words = [*command(2), photos, "--steps", 200, "--batch-size", 8, "--num-workers", 1, "--checkpoint",
             tmp_path / "run.pt", "--save-every", 5]
    running = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=os.environ | ALONE)
    until = time.monotonic() + 120
    while not (tmp_path / "run.pt").exists():
        assert running.poll() is None and time.monotonic() < until
        time.sleep(0.005)
    os.kill(children_of(running.pid)[-1], signal.SIGKILL)
    output, errors = running.communicate(timeout=300)
    assert running.returncode == 0, errors
    assert "exitcode: -9" in errors, errors
    assert loss_of(output) == whole
