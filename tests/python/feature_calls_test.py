"""Other parts of the package with a pipeline that has a feature cache: the doctor, the watch, and the trainer."""

import pytest
import torch
from features import encoder, epochs, pipeline, tensors, torch_loader
from torch import nn

import slipstream as ss


def test_doctor_measures_the_stage_without_its_cache(device):
    pipe = pipeline(torch_loader(tensors()), encoder(device), "auto", device)
    report = ss.doctor(pipe, lambda batch: batch[0].sum(), budget=4)
    assert "encode" in str(report)
    assert pipe.stages[0].cache.report()["misses"] == 0


@pytest.mark.usefixtures("deterministic")
def test_verify_finds_no_race_between_filling_gathering_and_training(device):
    def make_run():
        torch.manual_seed(0)
        limits = {"device_memory": 10 * 264, "pinned_memory": 15 * 264}
        pipe = pipeline(torch_loader(tensors()), encoder(device), ss.FeatureCache(**limits), device)
        head = nn.Sequential(nn.Flatten(), nn.Linear(64, 3)).to(device)
        optimizer = torch.optim.SGD(head.parameters(), lr=1e-5)

        def run():
            for _ in range(2):
                for features, _ in pipe:
                    head(features).square().mean().backward()
                    optimizer.step()
                    optimizer.zero_grad()
            return head.state_dict()

        return run

    report = ss.verify(make_run, schedules=8)
    assert report.passed, report


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
