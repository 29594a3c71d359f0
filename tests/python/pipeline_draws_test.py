"""Random numbers in a slipstream.Pipeline: an error is raised if a plain loop would use them in another order."""

import random
import threading

import numpy as np
import pytest
import torch

import slipstream as ss

COUNT = 20


def draw_torch(device):
    torch.rand(1)


def draw_device(device):
    torch.rand(1, device=device)


def draw_normal(device):
    torch.normal(0.0, 1.0, (1,))


def draw_numpy(device):
    np.random.rand()


def draw_python(device):
    random.random()


DRAWS = [draw_torch, draw_device, draw_normal, draw_numpy, draw_python]


def run(device, draw, loader_at=(), stage_at=(), body_at=(), seed=None):
    """Runs a loop whose parts use random numbers for these batches."""
    def loader():
        for i in range(COUNT):
            if i in loader_at:
                draw(device)
            yield torch.tensor([i])

    def stage(x):
        if int(x) in stage_at:
            draw(device)
        return x

    for x in ss.Pipeline(loader(), [ss.Stage("stage", stage, seed=seed)], device):
        if int(x) in body_at:
            draw(device)


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("parts", [{"stage_at": range(COUNT), "body_at": [7]}, {"stage_at": [9], "body_at": [8]},
                                   {"loader_at": [9], "body_at": range(COUNT)}])
def test_random_draws_in_another_order_than_plain_loop_raise(device, draw, parts):
    with pytest.raises(ss.Error, match="both draw random numbers from"):
        run(device, draw, **parts)


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("parts", [{"stage_at": range(COUNT)}, {"loader_at": range(COUNT)}, {"body_at": range(COUNT)},
                                   {"loader_at": [0], "stage_at": [0], "body_at": range(COUNT)},
                                   {"stage_at": [3], "body_at": [15]}])
def test_random_draws_in_order_of_plain_loop_are_allowed(device, draw, parts):
    run(device, draw, **parts)


@pytest.mark.parametrize(("draw", "remedy"), [(draw_numpy, "default_rng"), (draw_python, r"random\.Random")])
def test_stage_seed_covers_only_pytorch_generators(device, draw, remedy):
    run(device, draw_torch, stage_at=range(COUNT), body_at=range(COUNT), seed=1)
    with pytest.raises(ss.Error, match=remedy):
        run(device, draw, stage_at=range(COUNT), body_at=range(COUNT), seed=1)


@pytest.mark.parametrize("draw", [draw_torch, draw_numpy, draw_python])
def test_random_draws_of_another_thread_are_ignored(draw):
    """Each part waits until another thread has used random numbers during its call."""
    wanted, drawn, ends = threading.Event(), threading.Event(), False

    def draws():
        while wanted.wait() and not ends:
            wanted.clear()
            draw("cpu")
            drawn.set()

    def wait_for_draw(x=None):
        drawn.clear()
        wanted.set()
        assert drawn.wait(100)
        return x

    thread = threading.Thread(target=draws)
    thread.start()
    try:
        for _ in ss.Pipeline([torch.ones(1)] * COUNT, [("stage", wait_for_draw)], "cpu"):
            wait_for_draw()
    finally:
        ends = True
        wanted.set()
        thread.join()


def test_idle_thread_does_not_hide_random_draws():
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    try:
        with pytest.raises(ss.Error, match="both draw random numbers from"):
            run("cpu", draw_torch, stage_at=range(COUNT), body_at=[11])
    finally:
        end.set()
        thread.join()
