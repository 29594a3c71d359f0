"""An exception whose class refuses attributes is raised unchanged, wherever the library passes it on."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

import slipstream as ss
from trained import Failing, make_trainer


class Sealed(RuntimeError):
    """Refuses assignments to attributes, including notes and tracebacks."""

    def __setattr__(self, name, value):
        raise AttributeError(f"'{name}' cannot be set")


def fails(*arguments):
    raise Sealed("broken")


class FailingData:
    def __len__(self):
        return 8

    __getitem__ = fails


class FailingLater(FailingData):
    def __getitem__(self, index):
        return torch.zeros(3) if index < 4 else fails()


class Unmovable:
    def to(self, device):
        fails()


BATCHES = [torch.zeros(2, 3)]
TENSORS = DataLoader(list(torch.zeros(8, 3)), batch_size=2)


def verified():
    ss.verify(lambda: fails, schedules=1)


RAISING = {
    "a stage": lambda: list(ss.Pipeline(BATCHES, [("bad", fails)], "cpu")),
    "a stage in serial order": lambda: list(ss.Pipeline(BATCHES, [("bad", fails)], "cpu", serial=True)),
    "a stage with autocast": lambda: list(
        ss.Pipeline(BATCHES, [ss.Stage("bad", fails, autocast=torch.bfloat16)], "cpu")),
    "what a batch holds": lambda: list(ss.Pipeline([Unmovable()], (), "cpu")),
    "the doctor's step": lambda: ss.doctor(TENSORS, fails, device="cpu", budget=0.3),
    "the doctor's data set": lambda: ss.doctor(DataLoader(FailingData()), print, device="cpu", budget=0.3),
    "a run that is verified": verified,
    "what makes a run": lambda: ss.verify(fails, schedules=1),
    "a loader's data set": lambda: list(ss.DataLoader(FailingLater(), 2)),
}


@pytest.mark.parametrize("what", RAISING)
def test_exception_refusing_attributes_is_raised(what):
    with pytest.raises(Sealed, match="broken"):
        RAISING[what]()


def test_exception_refusing_attributes_is_raised_by_trainer(photos, device):
    for trainer in (
        make_trainer(photos, device, Failing(2, Sealed("broken"))),
        make_trainer(photos, device, on_step=fails),
        make_trainer(photos, device, on_epoch=fails),
        make_trainer(photos, device, loss=fails),
    ):
        with pytest.raises(Sealed, match="broken"):
            trainer.fit()


def test_exception_refusing_attributes_is_raised_by_predict(photos, device):
    trainer = make_trainer(photos, device, Failing(1, Sealed("broken")))
    with pytest.raises(Sealed, match="broken"):
        list(trainer.predict(trainer._loader))


def test_exception_refusing_attributes_is_in_verify_report():
    def make_run():
        weight = nn.Parameter(torch.ones(2))
        runs.append(None)

        def run():
            if len(runs) > 3:
                fails()
            return weight * 2

        return run

    runs = []
    report = ss.verify(make_run, schedules=3)
    assert report.verdict == "race" and isinstance(report.error, Sealed)
