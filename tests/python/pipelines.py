"""PyTorch input pipelines for the tests of slipstream.doctor."""

import functools
import sys
import time

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from slipstream import _native
from slipstream._doctor import clock, loaders, measurements, rates, samples
from slipstream._doctor.loaders import Loaders
from slipstream._doctor.samples import Samples
from slipstream._random_states import preserved_random_states

torch.set_num_threads(1)


class StatedTime:
    """Replaces the module `time` in one process. Time passes only in sleep(), and by 0.1 ms with each reading of the
    clock."""

    def __init__(self):
        self.wall = self.cpu = 0.0

    def perf_counter(self):
        self.wall += 1e-4
        return self.wall

    def thread_time(self):
        self.cpu += 1e-4
        return self.cpu

    def sleep(self, seconds):
        self.wall += seconds


@pytest.fixture
def stated_time(monkeypatch):
    """Lets the doctor measure loaders without workers by the stated times of their parts, on 8 idle cores."""
    stated, capacity = StatedTime(), _native.MachineCapacity()
    capacity.cores = 8
    monkeypatch.setattr(_native, "measure_capacity", lambda cores: capacity)
    for module in (sys.modules[__name__], clock, measurements, loaders, rates, samples):
        monkeypatch.setattr(module, "time", stated)
    return stated


class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, *args):
        for transform in self.transforms:
            result = transform(*args)
            args = result if len(args) > 1 else (result,)
        return args if len(args) > 1 else args[0]


class NamedCompose:
    """Has the interface of albumentations.Compose."""

    p = 1.0

    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, **values):
        for transform in self.transforms:
            values = transform(**values)
        return values


NamedCompose.__name__ = "Compose"


def double(x):
    return x * 2


def noise(x):
    return x + torch.rand_like(x)


def in_place(x):
    return x.mul_(3)


class Images(Dataset):
    """Tensors of 3 x 8 x 8 that are filled with their index, and labels."""

    def __init__(self, transform=None, target_transform=None, sleep_s=0.0, count=64):
        self.transform, self.target_transform = transform, target_transform
        self.sleep_s, self.count = sleep_s, count
        self.read = []

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        time.sleep(self.sleep_s)
        image, label = torch.full((3, 8, 8), float(index)), index % 4
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            label = self.target_transform(label)
        return image, label


class Stream(IterableDataset):
    """Iterates over the same samples; each worker reads a separate part."""

    def __init__(self, images):
        self.images = images
        self.transform = images.transform

    def __iter__(self):
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        for index in range(first, len(self.images), step):
            time.sleep(self.images.sleep_s)
            image = torch.full((3, 8, 8), float(index))
            yield (image if self.transform is None else self.transform(image)), index % 4


def read_samples(dataset, **options):
    with preserved_random_states():
        return Samples(Loaders(DataLoader(dataset, 4, **options), on_gpu=False))


def names(samples):
    return [step.name for step in samples.parts.steps]


def sleep(x, seconds):
    time.sleep(seconds)
    return x


def slow(seconds):
    return functools.partial(sleep, seconds=seconds)

