"""How slipstream.doctor takes data sets and transforms of PyTorch apart."""

import dataclasses
import functools
import random
import types

import numpy as np
from pipelines import Compose, Images, NamedCompose, Stream, double, in_place, names, noise, read_samples, sleep, slow, stated_time  # noqa: F401, a fixture
import pytest
import torch
from torch import nn
from torch.utils.data import ConcatDataset, Dataset, Subset

from slipstream import _trees
from slipstream._doctor.advice import native_form
from slipstream._doctor.clock import Clock
from slipstream._doctor.parts import Parts
from slipstream._transform_parts import display_name, split_transform


def test_compose_and_sequential_are_split_recursively():
    pool = nn.Sequential(nn.AvgPool2d(2), nn.Sequential(nn.ReLU(), nn.Flatten()))
    parts = split_transform(Compose([double, Compose([noise, pool]), lambda x: x, functools.partial(sleep, seconds=0)]))
    assert [display_name(part) for part in parts] == ["double", "noise", "AvgPool2d", "ReLU", "Flatten", "<lambda>", "sleep"]


def test_transforms_that_are_no_sequence_are_not_split():
    other = NamedCompose([double])
    other.p = 0.5
    assert split_transform(other) == [other]

    class OneOf:
        transforms = (double, noise)

    one_of = OneOf()
    assert split_transform(one_of) == [one_of]


@pytest.mark.parametrize("stream", [False, True])
def test_samples_continued_from_a_cache_equal_whole_ones(stream):
    images = Images(Compose([double, noise, in_place, double]))
    samples = read_samples(Stream(images) if stream else images)
    assert samples.why_not == ""
    assert names(samples) == ["data set", "double", "noise", "in_place", "double (2)"]
    assert [step.is_random for step in samples.parts.steps] == [False, False, True, False, False]
    assert [step.writes for step in samples.parts.steps] == [False, False, False, True, False]
    assert samples.last_fixed_step() == "double"
    samples.fill(3)
    for behind in range(5):
        cached = samples.behind(behind)
        for _ in range(2):  # in_place must not change the cached sample
            image, label = cached[4]
            assert label == 1 and image.shape == (3, 8, 8)
            assert image.min() >= 2 * 3 * 2 * 1 and image.max() <= (2 + 1) * 3 * 2
    assert not torch.equal(samples.behind(1)[1][0], samples.behind(1)[1][0])  # after the cut, noise is sampled again
    assert torch.equal(samples.behind(2)[1][0], samples.behind(2)[1][0])


def test_target_and_repeated_transforms_of_subset_are_split():
    class Two(Images):
        def __getitem__(self, index):
            image, label = torch.full((3, 8, 8), float(index)), index % 4
            return {"views": [self.transform(image), self.transform(image)], "label": self.target_transform(label)}

    samples = read_samples(Subset(Two(Compose([noise, double]), target_transform=lambda y: y + 10), range(5, 9)))
    assert samples.why_not == "" and names(samples) == ["data set", "noise", "double", "target_transform"]
    samples.fill(2)
    for behind in range(4):
        sample = samples.behind(behind)[1]
        assert sample["label"] == 12 and not torch.equal(*sample["views"])


def test_joint_and_named_transforms_are_split():
    class Joint(Dataset):
        def __init__(self):
            self.transforms = Compose([lambda image, mask: (image + 1, mask), lambda image, mask: (image, mask * 2)])

        def __len__(self):
            return 8

        def __getitem__(self, index):
            image, mask = self.transforms(torch.zeros(2), torch.ones(2))
            return image, mask

    class Named(Joint):
        def __init__(self):
            self.transform = NamedCompose([lambda image, mask: {"image": image + 1, "mask": mask},
                                           lambda **data: data | {"mask": data["mask"] * 2}])

        def __getitem__(self, index):
            made = self.transform(image=np.zeros(2), mask=np.ones(2))
            return made["image"], made["mask"]

    for dataset in (Joint(), Named()):
        samples = read_samples(dataset)
        assert samples.why_not == "" and len(samples.parts.steps) == 3
        samples.fill(2)
        for behind in range(3):
            image, mask = samples.behind(behind)[0]
            assert image.tolist() == [1, 1] and mask.tolist() == [2, 2]


class Holding(Images):
    """Holds its transforms in attributes of any name."""

    def __init__(self, **held):
        super().__init__()
        for name, each in held.items():
            setattr(self, name, each)

    def make(self, index):
        return torch.full((3, 8, 8), float(index))


class Augmenting(Holding):
    def __getitem__(self, index):
        return self.augment(self.loader(self.make(index), "a name")), index % 4


class Chained(Holding):
    def __getitem__(self, index):
        image = self.augment(image=self.make(index))["image"]
        for each in self.tf:
            image = each(image)
        return self.choice["train"](image), index % 4


class Between(Holding):
    def __getitem__(self, index):
        return self.last(self.first(self.make(index)) / 2), index % 4


def add_to_image(image):
    return {"image": image + torch.rand_like(image)}


def assert_continued_from_a_cache(samples, steps):
    """Checks that a sample that is finished from any cache level has the values of Images without random numbers."""
    assert samples.why_not == "" and names(samples) == ["data set", *steps]
    samples.fill(4)
    for behind in range(len(steps) + 1):
        image, label = samples.behind(behind)[3]
        assert label == 3 and 12 <= image.min() and image.max() <= 16


def test_compose_in_an_attribute_of_any_name_is_split():
    def load(image, name):
        return image

    samples = read_samples(Augmenting(augment=Compose([noise, double, double]), loader=load))
    assert_continued_from_a_cache(samples, ["noise", "double", "double (2)"])


def test_chained_transforms_lists_and_dicts_are_split_in_the_order_of_their_calls():
    held = {"choice": {"train": double, "other": noise}, "tf": [in_place_free, double], "augment": NamedCompose([add_to_image])}
    samples = read_samples(Chained(**held))
    assert_continued_from_a_cache(samples, ["add_to_image", "in_place_free", "double", "double (2)"])
    assert [step.is_random for step in samples.parts.steps] == [False, True, False, False, False]


def in_place_free(x):
    return x * 1


def test_transform_whose_result_is_processed_is_measured_inside_of_the_data_set(stated_time):
    dataset = Between(first=slow(0.02), last=Compose([double, double]))
    samples = read_samples(dataset)
    assert samples.why_not == "" and names(samples) == ["data set", "double", "double (2)"]
    assert any("cannot be cached before first" in warning for warning in samples.warnings)
    clock = Clock()
    timed = samples.parts.timed(clock)
    assert clock.during(lambda: timed[3])[0].eq(6).all()
    assert clock.costs[0, "transforms"][0] == pytest.approx(0.02, abs=1e-3)
    assert dataset.first is not timed.first and isinstance(dataset.last, Compose)


def test_functions_that_read_by_name_are_no_transforms():
    class Reading(Holding):
        def __getitem__(self, index):
            return self.loader(f"file {index}")

    samples = read_samples(Reading(loader=lambda name: torch.ones(3), log=print))
    assert names(samples) == ["data set"]


def test_transforms_of_wrapping_and_wrapped_data_sets_are_split():
    class Wrapping(Dataset):
        def __init__(self, dataset, tf):
            self.dataset, self.tf = dataset, tf

        def __len__(self):
            return len(self.dataset)

        def __getitem__(self, index):
            image, label = self.dataset[index]
            return self.tf(image), label

    samples = read_samples(Wrapping(Images(Compose([noise, double])), double))
    assert_continued_from_a_cache(samples, ["noise", "double", "double (2)"])


def test_label_changed_after_transform_still_allows_split():
    class Worked(Images):
        def __getitem__(self, index):
            image, label = super().__getitem__(index)
            return image, label + 1

    samples = read_samples(Worked(double, target_transform=double))
    assert samples.why_not == "" and names(samples) == ["data set", "double"]


def test_unsplittable_data_set_gives_reason_and_right_samples():
    class Worked(Images):
        def __getitem__(self, index):
            image, label = super().__getitem__(index)
            return image / 2, label

    samples = read_samples(Worked(Compose([double, double])))
    assert "processes the results of its transforms" in samples.why_not
    samples.fill(2)
    assert samples.behind(2)[1][0].eq(2).all()


def test_compose_with_custom_call_is_one_part():
    class Compose:
        def __init__(self):
            self.transforms = [double, double]

        def __call__(self, x):
            return [each(x) for each in self.transforms][0]

    samples = read_samples(Images(Compose()))
    assert names(samples) == ["data set", "Compose"] and samples.why_not == ""
    assert any("applied one by one" in warning for warning in samples.warnings)


def test_samples_that_differ_between_readings_are_not_split():
    generator = np.random.default_rng()

    class Fresh(Images):
        def __getitem__(self, index):
            return self.transform(torch.from_numpy(generator.random(3))), 0

    assert "differ each time they are read" in read_samples(Fresh(Compose([double]))).why_not


def test_a_data_set_without_transforms_is_one_part():
    samples = read_samples(ConcatDataset([Images(), Images()]))
    assert names(samples) == ["data set"] and samples.why_not == ""
    assert any("one part" in warning for warning in samples.warnings)
    samples.fill(2)
    assert samples.behind(0)[1][0].eq(1).all()


def test_clock_measures_transforms_and_data_set_separately(stated_time):
    clock = Clock()
    parts = Parts(Images(Compose([slow(0.02), double]), sleep_s=0.05))
    dataset = parts.timed(clock)
    clock.during(lambda: dataset[1])
    of_data_set, of_sleep, of_double = (clock.costs[step, ""] for step in range(3))
    assert of_sleep[:2] == pytest.approx([0.02, 0], abs=1e-3) and of_double[:2] == pytest.approx([0, 0], abs=1e-3)
    assert of_data_set[:2] == pytest.approx([0.05, 0], abs=2e-3)
    assert of_double[2] == 3 * 8 * 8 * 4


class Words(list):
    pass


class Pair(tuple):
    pass


def test_mapped_tree_keeps_custom_container_types():
    words = Words([torch.ones(1)])
    words.name = "kept"
    tree = (words, Pair((torch.ones(1), "x")), types.MappingProxyType({"a": torch.ones(1)}))
    made = _trees.mapped(tree, lambda x: x + 1 if isinstance(x, torch.Tensor) else x)
    assert [x.item() for x in _trees.leaves(made) if isinstance(x, torch.Tensor)] == [2, 2, 2]
    assert type(made[0]) is Words and made[0].name == "kept" and type(made[1]) is Pair
    assert words[0].item() == 1


def test_trees_are_mapped_and_compared():
    @dataclasses.dataclass
    class Record:
        image: torch.Tensor
        names: list

    tree = {"a": (torch.ones(2), [np.ones(2), "x"]), "b": Record(torch.zeros(3), [None, 2.5])}
    assert _trees.leaves(tree)[2:] == ["x", tree["b"].image, None, 2.5]
    copied = _trees.mapped(tree, lambda x: x)
    assert _trees.same(tree, copied) and type(copied["b"]) is Record
    copied["b"].names[1] = 3.0
    assert not _trees.same(tree, copied)
    assert not _trees.same(torch.ones(2), torch.ones(3))
    assert _trees.same(torch.tensor([float("nan")]), torch.tensor([float("nan")]))


def test_torchvision_transforms_have_native_forms():
    v2 = pytest.importorskip("torchvision.transforms.v2")
    forms = [(v2.Resize(32), "Resize"), (v2.RandomResizedCrop(16), "RandomResizedCrop"), (v2.RandomCrop(8), "RandomCrop"),
             (v2.RandomHorizontalFlip(), "RandomHorizontalFlip"), (v2.Normalize([0.5] * 3, [0.2] * 3), "Normalize"),
             (v2.GaussianBlur(3), "GaussianBlur"), (v2.ColorJitter(0.4), "ColorJitter"), (v2.RandomRotation(10), "RandomRotation"),
             (v2.ToDtype(torch.float32, scale=True), "ToDtype"), (v2.CenterCrop(8), "CenterCrop")]
    for theirs, ours in forms:
        assert type(native_form(theirs)).__name__ == ours
    assert native_form(v2.RandomPhotometricDistort()) is None and native_form(double) is None

