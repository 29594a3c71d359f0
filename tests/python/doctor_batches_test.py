"""slipstream.doctor with unusual batches and training steps."""

import collections

from pipelines import Images
import pytest
import torch
from torch.utils.data import DataLoader

import slipstream as ss
from slipstream import _native, _trees
from slipstream._doctor.levels import fresh, page_locked


def run_doctor(loader, step=lambda batch: None, device="cpu"):
    return ss.doctor(loader, step, device=device, budget=0.3)


class Encoding(collections.UserDict):
    """A batch whose to() changes it in place, as in the library transformers."""

    def to(self, device, *, non_blocking=False):
        self.data = {key: each.to(device, non_blocking=non_blocking) for key, each in self.data.items()}
        return self


class Graph:
    def __init__(self, x):
        self.x = x

    def to(self, device, **options):
        self.x = self.x.to(device, **options)
        return self


class Stores:
    """A batch that holds tensors in a mapping, which to() changes in place."""

    def __init__(self, held):
        self.held = held

    @property
    def x(self):
        return self.held["x"]

    def to(self, device, **options):
        self.held["x"] = self.held["x"].to(device, **options)
        return self


class NotCopied(Graph):
    def __copy__(self):
        raise TypeError


def test_fresh_copies_containers_but_not_tensors():
    batch = ({"a": [torch.ones(2), {"b": 1}]}, list(range(100)), "text", 3)
    made = fresh(batch)
    assert _trees.same(made, batch) and made[0]["a"][0] is batch[0]["a"][0]
    assert made[0]["a"][1] is not batch[0]["a"][1] and made[1] is not batch[1] and type(made) is tuple


def encoded(samples):
    return Encoding(image=torch.stack([image for image, _ in samples]))


def make_graph(samples):
    return Graph(torch.stack([image for image, _ in samples]))


def test_moving_a_batch_in_place_keeps_the_cached_batch():
    tensors = {"x": torch.ones(2)}
    for batch in (Encoding(x=torch.ones(2)), (Graph(torch.ones(2)), [3]), Stores(tensors), NotCopied(torch.ones(2))):
        moved = _native.moved(fresh(batch), "meta")
        on_host, on_device = ([getattr(each, "x", each) for each in _trees.leaves(tree)] for tree in (batch, moved))
        assert on_device[0].device.type == "meta"
        assert isinstance(batch, NotCopied) or on_host[0].device.type == "cpu"
        assert page_locked(moved) is not None  # page_locked() must also accept tensors that are not on the host


@pytest.mark.parametrize("collate", [encoded, make_graph])
def test_batches_that_move_themselves_are_measured(device, collate):
    seen = set()

    def step(batch):
        seen.add(str((batch["image"] if collate is encoded else batch.x).device.type))

    report = run_doctor(DataLoader(Images(), 4, collate_fn=collate, pin_memory=device == "cuda"), step, device)
    assert seen == {device} and report.rate.n > 0


def test_batches_already_on_the_device_are_measured(device):
    data = torch.utils.data.TensorDataset(torch.ones(64, 4, device=device))
    assert run_doctor(DataLoader(data, 4), device=device).rate.n > 0


@pytest.mark.parametrize("workers", [0, 1])
def test_step_that_removes_batch_items_is_measured(workers):
    data = [{"x": torch.ones(8), "label": i % 2} for i in range(64)]

    def step(batch):
        batch["x"] = batch["x"] * batch.pop("label").view(-1, 1)
        assert batch["x"].shape == (4, 8)

    report = run_doctor(DataLoader(data, 4, num_workers=workers), step)
    assert report.rate.n > 0 and "writes to its batch" not in report.text()


def rows(samples):
    return torch.stack(samples).to_sparse()


def first_as_csr(samples):
    return samples[0].to_sparse_csr()


def nested(samples):
    return torch.nested.nested_tensor([each[: i + 1] for i, each in enumerate(samples)])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("collate", [rows, first_as_csr, nested])
def test_sparse_and_nested_batches_are_measured(collate):
    report = run_doctor(DataLoader([torch.eye(4)] * 64, 4, collate_fn=collate))
    assert report.rate.n > 0 and "writes to its batch" not in report.text()
    batch = collate([torch.eye(4)] * 4)
    other = collate([2 * torch.eye(4)] * 4)
    assert _trees.same(batch, batch.clone()) and not _trees.same(batch, other) and _trees.byte_size(batch) > 0


class OwnIteration(DataLoader):
    def __iter__(self):
        return iter([])


def test_custom_loader_iter_is_reported_as_not_measured():
    report = run_doctor(OwnIteration(Images(), 4))
    assert "not measured: the code of OwnIteration.__iter__()" in report.text()
