"""Runs examples/python/train.py alone, as 2 and 4 processes of torchrun, and after a process was killed."""

import re
import time
from pathlib import Path

import pytest
import torch
from forked import run_script, start_ranks

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "python" / "train.py"


def make_words(data, steps, checkpoint):
    return [data, "--steps", steps, "--batch-size", 8, "--num-workers", 1, "--timeout", 20, "--checkpoint", checkpoint,
            "--save-every", 3]


def run(ranks, data, steps, checkpoint):
    """Trains, and returns the state that is saved after the last step."""
    logs = checkpoint.with_name(f"{checkpoint.stem}-to-{steps}")
    assert re.search(rf"step {steps}: loss [\d.]+", run_script(SCRIPT, make_words(data, steps, checkpoint), logs, ranks))
    state = torch.load(checkpoint)
    assert (state["step"], state["loader"]["position"]) == (steps, steps)
    return state["model"]


def assert_close(model, expected):
    """The weights differ slightly, because gradients of several processes are summed in another order."""
    torch.testing.assert_close(model, expected, rtol=1e-4, atol=1e-6)


@pytest.fixture(scope="module")
def alone(photos, tmp_path_factory):
    return run(0, photos, 15, tmp_path_factory.mktemp("alone") / "run.pt")


@pytest.mark.parametrize("ranks", [2, 4])
def test_two_and_four_processes_train_to_same_weights_as_one(photos, alone, ranks, tmp_path):
    assert_close(run(ranks, photos, 15, tmp_path / "run.pt"), alone)


@pytest.mark.parametrize("ranks", [0, 4])
def test_resume_with_other_process_count_gives_same_weights(photos, alone, ranks, tmp_path):
    run(2, photos, 9, tmp_path / "run.pt")
    assert_close(run(ranks, photos, 15, tmp_path / "run.pt"), alone)


def test_resume_after_killed_process_gives_same_weights(photos, tmp_path):
    steps = 60
    whole = run(2, photos, steps, tmp_path / "whole.pt")
    checkpoint = tmp_path / "run.pt"
    until = time.monotonic() + 200
    while not checkpoint.exists():
        both = start_ranks(SCRIPT, make_words(photos, 100000, checkpoint), tmp_path, 2)
        try:
            while not checkpoint.exists() and all(each.is_alive() for each in both):
                assert time.monotonic() < until
                time.sleep(0.005)
        finally:
            both[1].kill()
            both[0].terminate()
            for each in both:
                each.join(60)
    assert torch.load(checkpoint)["step"] < steps
    torch.testing.assert_close(run(2, photos, steps, checkpoint), whole, rtol=0, atol=0)
