"""At the start of each iteration, a loader reads its rank from torch.distributed."""

import contextlib

import pytest
import torch
from torch import distributed
from torch.testing._internal.distributed.fake_pg import FakeStore

import slipstream as ss

T = ss.transforms


class Numbers:
    def __len__(self):
        return 40

    def __getitem__(self, index):
        return torch.tensor(index)


@contextlib.contextmanager
def process_group(rank, world_size):
    distributed.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world_size)
    try:
        yield
    finally:
        distributed.destroy_process_group()


def read_epoch(loader):
    return [batch.tolist() for batch in loader]


@pytest.mark.parametrize("wrap", [lambda loader: loader, lambda loader: ss.Pipeline(loader, device="cpu"),
                                  lambda loader: ss.Pipeline(loader, device="cpu", serial=True)])
def test_a_loader_made_before_the_process_group_loads_its_share(wrap):
    expected = read_epoch(ss.DataLoader(Numbers(), 4, shuffle=True, rank=1, world_size=2, seed=0))
    loader = ss.DataLoader(Numbers(), 4, shuffle=True, seed=0)
    with process_group(1, 2):
        assert len(loader) == 5 and loader.state_dict()["global_batch_size"] == 8
        assert read_epoch(wrap(loader)) == expected
    for rank in range(2):
        loader = ss.DataLoader(Numbers(), 4, shuffle=True, seed=0)
        whole = read_epoch(loader)
        with process_group(rank, 2):
            second = read_epoch(wrap(loader))
        given = ss.DataLoader(Numbers(), 4, shuffle=True, rank=rank, world_size=2, seed=0)
        given.set_epoch(1)
        assert len(whole) == 10 and second == read_epoch(given)


def test_explicit_ranks_override_the_process_group():
    loader = ss.DataLoader(Numbers(), 4, rank=0, world_size=1)
    with process_group(1, 2):
        assert len(loader) == 10 and len(read_epoch(loader)) == 10


def test_state_read_after_process_group_ends_resumes():
    with process_group(1, 2):
        loader = ss.DataLoader(Numbers(), 4, seed=0)
        it = iter(loader)
        first = [next(it).tolist() for _ in range(3)]
        it.close()
    state = loader.state_dict()
    assert (state["position"], state["batches_per_epoch"], state["global_batch_size"]) == (3, 5, 8)
    with process_group(1, 2):
        rest = ss.DataLoader(Numbers(), 4, seed=0)
        rest.load_state_dict(state)
        assert first + read_epoch(rest) == read_epoch(ss.DataLoader(Numbers(), 4, seed=0))


def test_mid_epoch_position_of_other_rank_count_is_refused():
    loader = ss.DataLoader(Numbers(), 4, seed=0)
    loader.load_state_dict({"position": 3, "batches_per_epoch": 10})
    with process_group(0, 2):
        with pytest.raises(ss.Refused, match=r"load_state_dict\(\) after init_process_group\(\)"):
            next(iter(loader))
        loader.load_state_dict({"position": 3, "batches_per_epoch": 5})
        assert len(read_epoch(loader)) == 2


def test_more_ranks_than_the_data_has_batches_are_refused():
    loader = ss.DataLoader(Numbers(), 30, drop_last=True, seed=0)
    with process_group(0, 2), pytest.raises(ss.Refused, match="2 ranks with batch size 30 need more"):
        next(iter(loader))
    assert len(read_epoch(loader)) == 1


def test_ranks_share_a_single_incomplete_step():
    """A step of both ranks would need 60 of the 40 samples."""
    loader = ss.DataLoader(Numbers(), 30, seed=0)
    with process_group(1, 2):
        assert [len(batch) for batch in loader] == [20]


def test_trainer_refuses_process_group_created_later(photos):
    to_float = T.ToDtype(torch.float32, scale=True)
    loader = ss.DataLoader(ss.ImageFolder(photos, T.Compose([T.CenterCrop(8), to_float])), 8)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 8 * 8, 3))
    trainer = ss.Trainer(loader, model, steps=1, progress=False)
    with process_group(1, 2):
        with pytest.raises(ss.Refused, match="trains in one process, but torch.distributed has been initialized"):
            trainer.fit()
        with pytest.raises(ss.Refused, match="trains in one process"):
            ss.Trainer(loader, model, steps=1)
        with pytest.raises(ss.Refused, match="trains in one process"):
            trainer.evaluate(loader)
    assert trainer.fit().steps == 1
