"""slipstream.doctor with unusual samplers and data sets."""

import collections
import dataclasses
import functools
import itertools
import random
import secrets

import numpy as np
from pipelines import Compose, Images, double, names, read_samples, stated_time  # noqa: F401, a fixture
import pytest
import torch
from torch.utils.data import BatchSampler, ConcatDataset, DataLoader, Dataset, RandomSampler, Sampler

import slipstream as ss
from slipstream._doctor.measurements import LevelMeasurements
from slipstream._doctor.routes import PlainRoute
from slipstream._doctor.loaders import Counted, EndlessBatches, Loaders, generators_of_loader
from slipstream._doctor.clock import Clock
from slipstream._random_states import find_generators


def run_doctor(loader, step=lambda batch: None, device="cpu", budget=0.3):
    return ss.doctor(loader, step, device=device, budget=budget)


# Samplers


class Lists:
    """A batch sampler that yields the same lists of indices in each epoch."""

    def __init__(self, *sizes):
        ends = itertools.accumulate(sizes)
        self.lists = [list(range(end - size, end)) for size, end in zip(sizes, ends)]

    def __iter__(self):
        return iter(self.lists)


def test_endless_batches_repeat_batches_of_any_size():
    lists = [[0, 1, 2], [3], [4, 5], [6, 7, 8, 9], [10]]
    assert list(itertools.islice(EndlessBatches(lists), 8)) == 2 * lists[:4]
    assert list(itertools.islice(EndlessBatches([[0]]), 2)) == [[0], [0]]
    assert list(itertools.islice(Counted([2, 1]), 4)) == [[0, 1], [2], [0, 1], [2]]
    assert list(itertools.islice(Counted([2]), 2)) == [[0, 1], [2, 3]]
    assert list(itertools.islice(Counted(), 2)) == [0, 1]


def test_loader_with_several_batch_sizes_is_measured_with_them(stated_time):
    sizes = []

    def step(batch):
        sizes.append(len(batch[0]))

    report = run_doctor(DataLoader(Images(), batch_sampler=Lists(7, 3, 2, 8)), step, budget=6)
    assert "batches have 2 to 8 samples: results are for 5" in report.text()
    assert {2, 3, 7, 8} == set(sizes)


def test_single_short_batch_is_measured():
    loaders = Loaders(DataLoader(Images(count=3), 8), on_gpu=False)
    assert (loaders.sizes, loaders.batch_size) == ([3], 3)
    sizes = set()
    run_doctor(DataLoader(Images(count=3), 8), lambda batch: sizes.add(len(batch[0])))
    assert sizes == {3}


class Numbered(RandomSampler):
    """A sampler that seeds each epoch with its number, and counts epochs."""

    passes = 0

    def __iter__(self):
        self.generator = torch.Generator().manual_seed(self.passes)
        yield from super().__iter__()
        self.passes += 1


class Shuffling(Sampler):
    """A sampler of data that must not be copied; it shares an object with the loader, which uses it as collate_fn."""

    def __init__(self, data, collate):
        self.data_source, self.collate, self.order = data, collate, list(range(64))

    def __iter__(self):
        self.collate.passes += 1
        random.shuffle(self.order)
        return iter(self.order)


class Collate:
    passes = 0
    calls = []

    def __call__(self, samples):
        self.calls.append(self.passes)
        return torch.stack([image for image, _ in samples])


class NeverCopied(Images):
    def __deepcopy__(self, memo):
        raise AssertionError


class Drawing(Sampler):
    def __init__(self):
        self.held = {"own": [np.random.default_rng(0), random.Random(0), torch.Generator(), np.random.RandomState(3)]}

    def __iter__(self):
        numpy, python, torchs, legacy = self.held["own"]
        legacy.rand(), torch.rand(1, generator=torchs), python.random()
        return iter(numpy.permutation(64).tolist())

    def __len__(self):
        return 64


def test_state_of_samplers_is_restored():
    numbered = Numbered(range(64))
    run_doctor(DataLoader(Images(), 4, sampler=numbered))
    assert numbered.passes == 0 and numbered.generator is None
    drawing, untouched = Drawing(), Drawing()
    run_doctor(DataLoader(Images(), 4, sampler=drawing))
    assert list(drawing) == list(untouched) and list(drawing) == list(untouched)
    assert len(generators_of_loader(DataLoader(Images(), 4, sampler=drawing))) == 4
    collate = Collate()
    shuffling = Shuffling(NeverCopied(), collate)
    run_doctor(DataLoader(shuffling.data_source, 4, sampler=shuffling, collate_fn=collate))
    assert shuffling.order == list(range(64)) and collate.passes == 0
    assert max(collate.calls) > 0  # the copies of the sampler and of collate_fn share one copy of the object
    batches = BatchSampler(Numbered(range(64)), 4, False)
    run_doctor(DataLoader(Images(), batch_sampler=batches))
    assert batches.sampler.passes == 0


class Tensors(Sampler):
    def __iter__(self):
        return iter(torch.randperm(64))


def test_sampler_indices_of_any_type_are_measured():
    assert run_doctor(DataLoader(Images(), batch_size=None, sampler=Tensors())).rate.n > 0
    assert list(itertools.islice(EndlessBatches(["abc", "d"]), 3)) == ["abc", "d", "abc"]


def test_number_of_cached_batch_sizes_is_limited():
    batches = Lists(*range(1, 60))
    loaders = Loaders(DataLoader(Images(count=2000), batch_sampler=batches), on_gpu=False)
    assert loaders.sizes == [*range(1, 60), *range(1, 6)] and loaders.batch_size == 28
    measurements = LevelMeasurements(loaders, lambda batch: None, "cpu", 1.0, PlainRoute("cpu"))
    for kept, sizes in ((2, [28]), (3, [1, 2]), (8, [1, 2, 3]), (10_000, list(range(1, 17)))):
        measurements._kept = kept
        assert measurements._sizes() == sizes


def test_sampler_that_is_a_generator_is_refused():
    with pytest.raises(ss.Refused, match=r"sampler, generator, cannot be copied"):
        run_doctor(DataLoader(Images(), batch_sampler=(each for each in [[0, 1]])))


# Data sets


class Own:
    """Has a generator that is found only by a search of its attributes."""

    def __init__(self):
        self.inner = {"rng": np.random.default_rng(0)}

    def __call__(self, x):
        return x if self.inner["rng"].random() < 0.5 else -x


def flips(x):
    return x if torch.rand(()) < 0.5 else -x


def flips_by(x, rng):
    return x if rng.random() < 0.5 else -x


OUTSIDE = np.random.default_rng(0)


def draws_outside(x):
    return x + float(OUTSIDE.random())


class Drawn(Images):
    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        return image + torch.rand(1), label


class Worked(Images):
    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        return image / 2, label


class WithGenerator(Images):
    def __init__(self, transform):
        super().__init__(transform)
        self.rng = np.random.default_rng(0)

    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        return image, label + self.rng.integers(4)


class Later(Images):
    """A data set whose samples differ in each read, without a random generator."""

    count_of_readings = 0

    def __getitem__(self, index):
        self.count_of_readings += 1
        return torch.full((1,), float(self.count_of_readings)), 0


@pytest.mark.parametrize(("dataset", "last"), [
    (Images(Compose([double, flips])), "double"),
    (ConcatDataset([Images(flips), Images(flips)]), ""),
    (ConcatDataset([Images(double), Images(double)]), "data set"),
    (Drawn(), ""),
    (Drawn(double), ""),
    (Later(), ""),
    (Worked(flips), ""),
    (Worked(double), ""),  # samples cannot be cut after any step, so no step is known to be fixed
    (Images(functools.partial(flips_by, rng=np.random.default_rng(0))), "data set"),
    (Images(Own()), "data set"),
    (Images(draws_outside), ""),
    (WithGenerator(double), ""),
])
def test_last_fixed_step_is_before_random_transforms(dataset, last):
    assert read_samples(dataset).last_fixed_step() == last


def change_one_image(number, make):
    """Returns a transform that treats one image differently, which it recognizes by its value."""
    def unlike(x):
        return make(x) if float(x.flatten()[0]) == number else x

    return unlike


def shifted(x):
    return x + secrets.randbelow(1 << 40)


@pytest.mark.parametrize(("number", "make"), [(4, shifted), (20, lambda x: x + torch.rand(1)), (20, flips)])
def test_transform_random_for_one_later_sample_is_not_fixed(number, make):
    samples = read_samples(Images(Compose([double, change_one_image(2 * number, make)])))
    samples.fill(32)
    assert samples.last_fixed_step() == "double"


@pytest.mark.parametrize("transform", [None, double])
def test_data_set_random_for_one_later_sample_is_not_fixed(transform):
    class Drawing(Images):
        def __getitem__(self, index):
            image, label = super().__getitem__(index)
            return image, label + (random.random() if index == 20 else 0)

    samples = read_samples(Drawing(transform))
    samples.fill(32)
    assert samples.last_fixed_step() == ""


def test_in_place_transform_of_one_sample_keeps_cached_samples():
    samples = read_samples(Images(Compose([double, change_one_image(6, lambda x: x.mul_(3)), double])))
    samples.fill(8)
    for _ in range(2):
        assert samples.behind(1)[3][0].eq(36).all()


def test_generator_of_data_set_is_restored_and_samples_are_split():
    dataset = WithGenerator(double)
    samples = read_samples(dataset)
    assert samples.why_not == "" and names(samples) == ["data set", "double"]
    run_doctor(DataLoader(ConcatDataset([dataset, dataset]), 4))
    assert dataset.rng.bit_generator.state == np.random.default_rng(0).bit_generator.state


class InSlots:
    __slots__ = ("rng",)

    def __init__(self, rng):
        self.rng = rng


def test_find_generators_searches_nested_holders():
    for each in (random.Random(0), np.random.default_rng(0), np.random.RandomState(0), torch.Generator()):
        for holder in (InSlots(each), [(1, {"a": each})], collections.deque([each]), functools.partial(flips_by, rng=each)):
            assert find_generators(holder) == [each]
    own, of_numpy = random.Random(0), np.random.default_rng(0)
    for method in (own.random, own.uniform, of_numpy.normal):
        assert find_generators([method]) in ([own], [of_numpy])
    assert find_generators([random.SystemRandom(), random, np.random]) == []


class Lazy:
    """An image that is decoded when it is first used, as images of PIL are."""

    mode, size, width, height = "L", (2, 2), 2, 2
    is_loaded = False

    def getbands(self):
        return "L"

    def load(self):
        self.is_loaded = True

    def tobytes(self):
        return b"four"


class LazyImages(Images):
    def __getitem__(self, index):
        return self.transform(Lazy()), 0


def test_lazy_image_is_loaded_before_transforms_are_timed():
    seen = []

    def crop(image):
        seen.append(image.is_loaded)
        return torch.ones(2)

    samples = read_samples(LazyImages(crop))
    seen.clear()
    samples.parts.timed(Clock())[0]
    samples.fill(2)
    assert seen == [True] * 3 and samples.behind(0).items[0].calls[0].value.is_loaded


def test_transform_that_needs_undecoded_image_gets_it():
    """For example transforms that call Image.draft(), which must happen before decoding."""
    def drafted(image):
        return torch.zeros(1) if image.is_loaded else torch.ones(1)

    samples = read_samples(LazyImages(Compose([drafted, double])))
    assert names(samples) == ["data set", "drafted", "double"] and samples.why_not == "" and not samples.warnings
    samples.fill(2)
    assert samples.finished(1)[0][0].item() == 2


@dataclasses.dataclass(frozen=True)
class Frozen:
    transform: object

    def __len__(self):
        return 64

    def __getitem__(self, index):
        return self.transform(torch.zeros(3))


class NoLength(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter([torch.ones(2)] * 64)

    def __len__(self):
        raise NotImplementedError("not known")


def test_frozen_data_sets_and_unknown_lengths_are_measured():
    assert names(read_samples(Frozen(double))) == ["data set", "double"]
    assert run_doctor(DataLoader(NoLength(), 4)).rate.n > 0


def unchanged(batch):
    return batch


class Fetching(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.full((4,), float(index))

    def __getitems__(self, indices):
        return torch.stack([self[index] for index in indices])


class FetchingPairs(Fetching):
    def __getitems__(self, indices):
        return super().__getitems__(indices), torch.tensor(indices)


@pytest.mark.parametrize("dataset", [Fetching(), FetchingPairs()])
def test_data_set_whose_getitems_gives_whole_batch_is_refused(dataset):
    with pytest.raises(ss.Refused, match=r"Fetching.*.__getitems__\(\) returns a whole batch"):
        run_doctor(DataLoader(dataset, 4, collate_fn=unchanged))
