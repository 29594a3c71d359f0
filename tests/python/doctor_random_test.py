"""What slipstream.doctor considers random: steps that use random numbers, might use them, or change only a few
samples."""

import os
import random
import zlib

import pytest
import torch
from pipelines import Compose, StatedTime
from torch.utils.data import DataLoader, Dataset, Subset

import slipstream as ss
from slipstream._doctor.loaders import Loaders
from slipstream._doctor.samples import Samples, can_draw, find_labels, spread


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


class Labeled(Data):
    """Its classes are in order, as in a folder of class folders; samples of the last class are random."""

    def __init__(self):
        super().__init__()
        self.targets = [index // 100 for index in range(400)]

    def __len__(self):
        return 400

    def __getitem__(self, index):
        return torch.full((4,), float(index)) + (os.urandom(1)[0] if index >= 300 else 0)


def test_samples_of_all_classes_are_judged():
    assert random_steps(Labeled())[0]["data set"]
    assert random_steps(Subset(Labeled(), range(100, 400)))[0]["data set"]
    assert not random_steps(Subset(Labeled(), range(300)))[0]["data set"]


def test_judged_samples_are_spread_over_classes_and_data_set():
    labels = torch.tensor([0] * 90 + [1] * 8 + [2] * 2)
    chosen = spread([*range(100), *range(100)], labels, 32)
    assert len(set(chosen)) == len(chosen) and {int(labels[index]) for index in chosen[:3]} == {0, 1, 2}
    assert spread(range(320), None, 32) == list(range(0, 320, 10))
    assert spread(range(5), None, 32) == list(range(5)) and len(spread([[1], [2]], None, 32)) == 2
    labeled = Labeled()
    assert find_labels(Subset(labeled, [399, 0]))[0] == 3 and find_labels(Data()) is None


def test_at_least_32_samples_are_judged():
    read = []

    class Recording(Data):
        def __getitem__(self, index):
            read.append(index)
            return super().__getitem__(index)

        def __len__(self):
            return 1000

    samples = random_steps(Recording(fixed))[1]
    assert len(set(read)) >= 32 and max(read) > 900 and min(step.reads for step in samples.parts.steps) >= 64


def test_judged_samples_of_a_loader_in_order_are_from_all_of_a_large_data_set():
    class Large(Data):
        read = []

        def __getitem__(self, index):
            self.read.append(index)
            return super().__getitem__(index)

        def __len__(self):
            return 1_000_000

    random_steps(Large(fixed))
    assert max(Large.read) > 900_000 and len(set(Large.read)) >= 32
    Large.read.clear()
    sampler = range(500_000, 1_000_000)  # the loader never reads the first half
    Samples(Loaders(DataLoader(Large(fixed), 4, sampler=sampler), on_gpu=False))
    assert min(Large.read) >= 500_000


def test_storing_random_samples_is_not_advised():
    report = ss.doctor(DataLoader(Data(OneOfTen()), 4), lambda batch: None, device="cpu", budget=0.3)
    stored = [each.description for each in report.advice if "store the results" in each.description]
    # Advice to store what the data set reads before the transform may be right: it depends on the measured times.
    assert all("store the results of 'data set' once" in each for each in stored)
