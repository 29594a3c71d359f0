"""What slipstream.doctor considers random: steps that use random numbers, might use them, or change only a few
samples."""

import os
import random
import zlib

import pytest
import torch
from pipelines import Compose, StatedTime
from torch.utils.data import DataLoader, Dataset

import slipstream as ss
from slipstream._doctor.loaders import Loaders
from slipstream._doctor.samples import Samples, can_draw


@pytest.fixture(autouse=True)
def stated_time_of_readings(monkeypatch):
    """Simulates time, because on a busy machine the time limit could end before the tenth read."""
    monkeypatch.setattr("slipstream._doctor.samples.time", StatedTime())


class Data(Dataset):
    def __init__(self, *transforms):
        self.transform = Compose(transforms)

    def __len__(self):
        return 32

    def __getitem__(self, index):
        return self.transform(torch.full((4,), float(index)))


def random_steps(dataset):
    samples = Samples(Loaders(DataLoader(dataset, 4), on_gpu=False))
    return {step.name: step.is_random for step in samples.parts.steps}, samples


def is_one_of_ten(calls):
    """Has no period: with one, all reads of a sample would be equal if their distance were a multiple of it."""
    return zlib.crc32(b"%d" % calls) % 10 == 0


class OneOfTen:
    """A transform that changes about one value of ten without a random generator."""

    def __init__(self):
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        return x + is_one_of_ten(self.calls)


def test_a_transform_that_changes_one_value_of_ten_is_random():
    assert random_steps(Data(OneOfTen()))[0]["OneOfTen"]


class OneSampleOfTen(Dataset):
    calls = 0

    def __len__(self):
        return 32

    def __getitem__(self, index):
        self.calls += 1
        return torch.tensor([index, is_one_of_ten(self.calls)])


def test_a_data_set_that_changes_one_sample_of_ten_is_random():
    assert random_steps(OneSampleOfTen())[0]["data set"]


def add_random_byte_of_the_system(x):
    return x + (os.urandom(1)[0] < 26)


def test_random_bytes_of_the_system_are_nearly_always_detected():
    found = sum(any(random_steps(Data(add_random_byte_of_the_system))[0].values()) for _ in range(50))
    assert found >= 47  # a lower number has a probability below 1e-5


class Holding:
    """Uses random numbers only for samples that are longer than usual."""

    def __init__(self):
        self.generator = random.Random(1)

    def __call__(self, x):
        return x + self.generator.random() if len(x) > 4 else x


class WithShare:
    p = 0.1

    def __call__(self, x):
        return x


def fixed(x):
    return x + 1


def test_transform_with_generator_or_probability_is_not_fixed():
    for part in (Holding(), WithShare()):
        assert can_draw(part)
        steps, samples = random_steps(Data(fixed, part))
        assert not steps["fixed"] and steps[type(part).__name__]
        assert samples.last_fixed_step() == "fixed"
    assert not can_draw(fixed) and not can_draw(Data(fixed))


def test_storing_advice_reports_number_of_fixed_readings():
    from slipstream._doctor.advice import _looked_fixed

    samples = random_steps(Data(fixed))[1]
    reads = [step.reads for step in samples.parts.steps]
    assert min(reads) >= 48
    assert _looked_fixed("fixed", samples.parts.steps) == (
        f"no random generator was used up to this step, and {min(reads)} of {min(reads)} readings gave no sign of "
        "randomness")


def test_number_of_readings_is_limited_for_slow_data_sets():
    calls = []

    class Slow(Dataset):
        def __len__(self):
            return 32

        def __getitem__(self, index):
            calls.append(index)
            clock.wall += 1
            return torch.ones(1)

    from slipstream._doctor import samples as module

    clock = StatedTime()
    before, module.time = module.time, clock
    try:
        samples = Samples(Loaders(DataLoader(Slow(), 4, collate_fn=torch.stack), on_gpu=False))
    finally:
        module.time = before
    assert len(calls) <= 8 and samples.parts.steps[0].reads == 4


def test_storing_random_samples_is_not_advised():
    report = ss.doctor(DataLoader(Data(OneOfTen()), 4), lambda batch: None, device="cpu", budget=0.3)
    stored = [each.description for each in report.advice if "store the results" in each.description]
    # Advice to store what the data set reads before the transform may be right: it depends on the measured times.
    assert all("store the results of 'data set' once" in each for each in stored)
