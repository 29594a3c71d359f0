"""slipstream.capture: steps whose graphs would compute other results than the step, without an error."""

import time

import pytest
import torch
from capture_test import WARMUP, Training, assert_same, batches, graphs  # noqa: F401

import slipstream as ss


class Timer:
    """Has a state that is different each time it is read."""

    def state_dict(self):
        return {"elapsed": time.perf_counter()}

    def load_state_dict(self, state):
        pass


class Meter(Timer):
    def state_dict(self):
        return {"rest": (i for i in range(3))}  # cannot be copied


class Holding(Training):
    def __init__(self, device, held=None):
        super().__init__(device)
        self.held = held


@pytest.mark.parametrize("held", [Timer, Meter])
def test_update_is_not_lost_if_an_object_cannot_be_restored(device, graphs, held):
    training, plain = Holding(device, held()), Holding(device)
    step = ss.capture(training)
    with pytest.warns(UserWarning, match=r"is not compared with its graph: not restored(.|\n)*'held'") as seen:
        assert_same(training, step, batches(device), plain)
    assert len(seen) == 1
    assert step.replays == 12 - WARMUP


class Progress:
    calls = 0


class Watched(Training):
    """Python values change during each replay, as those that another thread writes."""

    def __init__(self, device):
        super().__init__(device)
        self.progress = Progress()


def test_update_is_not_lost_if_another_thread_changes_a_value(device, graphs, monkeypatch):
    training, plain = Watched(device), Watched(device)
    step = ss.capture(training)
    replay = type(step)._replay

    def replay_and_count(self, *arguments):
        training.progress.calls += 1
        return replay(self, *arguments)

    monkeypatch.setattr(type(step), "_replay", replay_and_count)
    assert_same(training, step, batches(device), plain)
    assert training.progress.calls == step.replays == 12 - WARMUP
