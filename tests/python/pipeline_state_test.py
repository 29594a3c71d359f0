"""Positions of a Pipeline around a loader that has a state, like StatefulDataLoader of TorchData."""

import json

from loops import Numbers
import pytest
import torch
from torch.utils.data import DataLoader

import slipstream as ss

BATCHES = 10


class Stateful(DataLoader):
    """A loader whose state is a dict that changes, with the number of batches that were taken."""

    def __init__(self, **options):
        super().__init__(Numbers(), 4, **options)
        self.state, self.begins_with = {"taken": 0}, 0

    def __iter__(self):
        first, self.begins_with = self.begins_with, 0
        for number, batch in enumerate(super().__iter__()):
            if number >= first:
                self.state["taken"] = number + 1
                yield batch
        self.state["taken"] = 0

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state, self.begins_with = dict(state), state["taken"]


def make_pipe(device, serial, workers):
    noise = ss.Stage("noise", lambda x: x + torch.rand_like(x), seed=1)
    return ss.Pipeline(Stateful(num_workers=workers), [noise], device, serial=serial)


def given(pipe):
    return [(x.tolist(), labels.tolist()) for x, labels in pipe]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("serial", [False, True])
@pytest.mark.parametrize("count", [1, 5, BATCHES])
def test_restored_pipeline_continues_after_the_saved_batch(device, serial, workers, count):
    whole = make_pipe(device, serial, workers)
    first, second = given(whole), given(whole)
    assert len(first) == BATCHES and first != second
    pipe = make_pipe(device, serial, workers)
    assert given(pipe) == first
    for number, _ in enumerate(pipe, 1):
        if number == count:
            state = json.loads(json.dumps(pipe.state_dict()))
            break
    assert pipe.state_dict() == state == {"loader": {"taken": count}, "epoch": 1, "batch": count}
    other = make_pipe(device, serial, workers)
    other.load_state_dict(state)
    assert other.state_dict() == state
    other.set_epoch(1)  # the current epoch
    assert given(other) == second[count:]
    assert other.state_dict() == {"loader": {"taken": 0}, "epoch": 2, "batch": 0}


def test_invalid_state_is_refused():
    pipe = make_pipe("cpu", False, 0)
    for state in (None, {}, {"taken": 1}, {"loader": {"taken": 1}, "epoch": 0}):
        with pytest.raises(ss.Refused, match="is not a state of a slipstream.Pipeline around Stateful"):
            pipe.load_state_dict(state)
    with pytest.raises(ss.Refused, match="batch is -1"):
        pipe.load_state_dict({"loader": {}, "epoch": 0, "batch": -1})
    assert len(given(pipe)) == BATCHES


@pytest.mark.parametrize("serial", [False, True])
def test_failing_state_dict_of_loader_does_not_end_the_loop(device, serial):
    class Stateless(Stateful):
        def state_dict(self):
            raise NotImplementedError("not here")

    pipe = ss.Pipeline(Stateless(), (), device, serial=serial)
    count = 0
    for _ in pipe:
        count += 1
        with pytest.raises(NotImplementedError, match="not here"):
            pipe.state_dict()
    assert count == BATCHES


def test_pipeline_around_stateless_loader_has_no_state_dict():
    pipe = ss.Pipeline(DataLoader(Numbers(), 4), (), "cpu")
    assert not hasattr(pipe, "state_dict") and not hasattr(pipe, "load_state_dict")


def test_set_epoch_after_a_break_starts_at_the_first_batch(device):
    pipe = make_pipe(device, False, 0)
    for number, _ in enumerate(pipe, 1):
        if number == 3:
            break
    left = pipe.state_dict()
    left["loader"]["taken"] = 77
    assert pipe.state_dict()["loader"] == {"taken": 3}
    pipe.set_epoch(1)
    assert (pipe.state_dict()["epoch"], pipe.state_dict()["batch"]) == (1, 0)
    pipe.load_state_dict({"loader": {"taken": 3}, "epoch": 1, "batch": 3})
    pipe.set_epoch(1)  # loops over epochs do this after load_state_dict()
    assert pipe.state_dict() == {"loader": {"taken": 3}, "epoch": 1, "batch": 3}


class ThreeNumbers:
    def __len__(self):
        return 3

    def __getitem__(self, index):
        return torch.tensor([float(index)])


def nested(device):
    inner = ss.Pipeline(ss.DataLoader(ThreeNumbers(), 1, device=device), [("double", lambda x: x * 2)])
    return ss.Pipeline(inner, [ss.Stage("noise", lambda x: x + torch.rand_like(x), seed=4)], device)


@pytest.mark.parametrize("count", [1, 3, 4, 6])
def test_nested_pipelines_resume_after_the_saved_batch(device, count):
    pipe, whole, state = nested(device), [], None
    for _ in range(4):
        for batch in pipe:
            whole.append(batch[0].item())
            if len(whole) == count:
                state = json.loads(json.dumps(pipe.state_dict()))
    other, rest = nested(device), []
    other.load_state_dict(state)
    while len(rest) < 12 - count:
        rest += [batch[0].item() for batch in other]
    assert rest == whole[count:]
