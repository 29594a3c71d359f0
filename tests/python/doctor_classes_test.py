"""Class attributes that change while slipstream.doctor runs."""

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

import slipstream as ss

NOTHING = lambda batch: None  # noqa: E731


class Counted(Dataset):
    reads, last, rate = 0, ("none", 0), 0.5
    log, table = [], {}

    def __len__(self):
        return 16

    def __getitem__(self, index):
        cls = type(self)
        cls.reads += 1
        cls.last = ("sample", index)
        cls.fresh = True
        cls.log.append(index)
        return torch.ones(2)


class Inherited(Counted):
    pass


def run_doctor(loader, step=NOTHING):
    with pytest.warns(RuntimeWarning, match="class attributes"):
        return ss.doctor(loader, step, device="cpu", budget=0.3).text()


def test_class_attributes_of_data_set_are_restored_and_named():
    text = run_doctor(DataLoader(Counted(), 4))
    assert (Counted.reads, Counted.last, Counted.rate) == (0, ("none", 0), 0.5)
    assert not hasattr(Counted, "fresh")
    assert "are restored: 'Counted.reads' (int), 'Counted.last' (tuple), 'Counted.fresh' (bool)" in text
    assert "are not restored: 'Counted.log' (list)" in text and len(Counted.log) > 0


def test_inherited_class_attribute_is_restored_as_inherited():
    Counted.log.clear()
    run_doctor(DataLoader(Inherited(), 4))
    assert "reads" not in vars(Inherited) and Inherited.reads == 0


class Order(Sampler):
    passes = 0

    def __iter__(self):
        Order.passes += 1
        return iter(range(8))


def collate(samples):
    Named.calls += 1
    return torch.stack(samples)


class Named:
    calls = 0

    def __call__(self, samples):
        return collate(samples)


def test_class_attributes_of_sampler_and_collate_fn_are_restored():
    text = run_doctor(DataLoader([torch.ones(1)] * 8, 4, sampler=Order(), collate_fn=Named()))
    assert (Order.passes, Named.calls) == (0, 0) and "'Order.passes' (int)" in text and "'Named.calls' (int)" in text


class Stepper:
    steps = 0

    def step(self, batch):
        Stepper.steps += 1


def test_class_attributes_of_steps_object_are_restored():
    assert "'Stepper.steps' (int)" in run_doctor(DataLoader([torch.ones(1)] * 8, 4), Stepper().step)
    assert Stepper.steps == 0


def test_unchanged_class_attributes_give_no_warning(recwarn):
    ss.doctor(DataLoader([torch.ones(1)] * 8, 4), NOTHING, device="cpu", budget=0.3)
    assert not [each for each in recwarn if "classes" in str(each.message)]
