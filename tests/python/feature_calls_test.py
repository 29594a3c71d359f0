"""Other parts of the package with a pipeline that has a feature cache: the doctor, the watch, and the trainer."""

import pytest
from features import encoder, epochs, pipeline, tensors, torch_loader
from torch import nn

import slipstream as ss


def test_doctor_measures_the_stage_without_its_cache(device):
    pipe = pipeline(torch_loader(tensors()), encoder(device), "auto", device)
    report = ss.doctor(pipe, lambda batch: batch[0].sum(), budget=4)
    assert "encode" in str(report)
    assert pipe.stages[0].cache.report()["misses"] == 0


def test_watch_counts_the_steps_of_cached_epochs(device):
    watch = ss.watch(pipeline(torch_loader(tensors(), num_workers=1), encoder(device), "auto", device))
    assert len(epochs(watch, 3)) == 3
    assert watch.report().steps == 21


def test_trainer_refuses_a_stage_with_a_cache(photos):
    data = ss.ImageFolder(photos, ss.transforms.CenterCrop(32))
    stage = ss.Stage("encode", nn.Identity().eval(), cache="auto")
    pipe = ss.Pipeline(ss.DataLoader(data, 5), [stage])
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 3))
    with pytest.raises(ss.Refused, match="'encode' has a feature cache, which slipstream.Trainer does not use"):
        ss.Trainer(pipe, model, steps=3)
