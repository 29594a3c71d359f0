"""slipstream.doctor takes PyTorch's pipelines apart, changes nothing, and names what is slow."""

import dataclasses
import functools
import json
import multiprocessing
import random
import re
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Subset, get_worker_info

import slipstream as ss
from slipstream._doctor import values
from slipstream._doctor.advice import native_form
from slipstream._doctor.loaders import Loaders
from slipstream._doctor.parts import Clock, Parts, name_of, parts_of
from slipstream._doctor.samples import Samples

torch.set_num_threads(1)


class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, *args):
        for transform in self.transforms:
            result = transform(*args)
            args = result if len(args) > 1 else (result,)
        return args if len(args) > 1 else args[0]


class NamedCompose:
    """As albumentations' calls it."""

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
    """Tensors of 3 x 8 x 8 full of their index, and labels."""

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
    """The same, each worker its own part."""

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


def samples_of(dataset, **options):
    with values.kept_random_states():
        return Samples(Loaders(DataLoader(dataset, 4, **options), on_gpu=False))


def names(samples):
    return [step.name for step in samples.parts.steps]


def sleep(x, seconds):
    time.sleep(seconds)
    return x


def slow(seconds):
    return functools.partial(sleep, seconds=seconds)


# Taking apart


def test_compose_sequential_and_nesting_are_taken_apart():
    pool = nn.Sequential(nn.AvgPool2d(2), nn.Sequential(nn.ReLU(), nn.Flatten()))
    parts = parts_of(Compose([double, Compose([noise, pool]), lambda x: x, functools.partial(sleep, seconds=0)]))
    assert [name_of(part) for part in parts] == ["double", "noise", "AvgPool2d", "ReLU", "Flatten", "<lambda>", "sleep"]


def test_what_is_no_sequence_stays_whole():
    other = NamedCompose([double])
    other.p = 0.5
    assert parts_of(other) == [other]

    class OneOf:
        transforms = (double, noise)

    one_of = OneOf()
    assert parts_of(one_of) == [one_of]


@pytest.mark.parametrize("stream", [False, True])
def test_cut_samples_end_as_whole_ones(stream):
    images = Images(Compose([double, noise, in_place, double]))
    samples = samples_of(Stream(images) if stream else images)
    assert samples.why_not == ""
    assert names(samples) == ["data set", "double", "noise", "in_place", "double (2)"]
    assert [step.is_random for step in samples.parts.steps] == [False, False, True, False, False]
    assert [step.writes for step in samples.parts.steps] == [False, False, False, True, False]
    assert samples.last_fixed_step() == "double"
    samples.fill(3)
    for behind in range(5):
        cached = samples.behind(behind)
        for _ in range(2):  # in_place must not reach what is cached
            image, label = cached[4]
            assert label == 1 and image.shape == (3, 8, 8)
            assert image.min() >= 2 * 3 * 2 * 1 and image.max() <= (2 + 1) * 3 * 2
    assert not torch.equal(samples.behind(1)[1][0], samples.behind(1)[1][0])  # behind the cut it draws anew
    assert torch.equal(samples.behind(2)[1][0], samples.behind(2)[1][0])


def test_subsets_target_transforms_and_several_calls():
    class Two(Images):
        def __getitem__(self, index):
            image, label = torch.full((3, 8, 8), float(index)), index % 4
            return {"views": [self.transform(image), self.transform(image)], "label": self.target_transform(label)}

    samples = samples_of(Subset(Two(Compose([noise, double]), target_transform=lambda y: y + 10), range(5, 9)))
    assert samples.why_not == "" and names(samples) == ["data set", "noise", "double", "target_transform"]
    samples.fill(2)
    for behind in range(4):
        sample = samples.behind(behind)[1]
        assert sample["label"] == 12 and not torch.equal(*sample["views"])


def test_joint_and_named_transforms():
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
        samples = samples_of(dataset)
        assert samples.why_not == "" and len(samples.parts.steps) == 3
        samples.fill(2)
        for behind in range(3):
            image, mask = samples.behind(behind)[0]
            assert image.tolist() == [1, 1] and mask.tolist() == [2, 2]


def test_a_label_that_is_worked_on_does_not_keep_images_from_being_cut():
    class Worked(Images):
        def __getitem__(self, index):
            image, label = super().__getitem__(index)
            return image, label + 1

    samples = samples_of(Worked(double, target_transform=double))
    assert samples.why_not == "" and names(samples) == ["data set", "double"]


def test_what_cannot_be_cut_says_so_and_still_ends_right():
    class Worked(Images):
        def __getitem__(self, index):
            image, label = super().__getitem__(index)
            return image / 2, label

    samples = samples_of(Worked(Compose([double, double])))
    assert "works on what its transforms make" in samples.why_not
    samples.fill(2)
    assert samples.behind(2)[1][0].eq(2).all()


def test_a_compose_that_does_more_is_one_part():
    class Compose:
        def __init__(self):
            self.transforms = [double, double]

        def __call__(self, x):
            return [each(x) for each in self.transforms][0]

    samples = samples_of(Images(Compose()))
    assert names(samples) == ["data set", "Compose"] and samples.why_not == ""
    assert any("taken apart" in warning for warning in samples.warnings)


def test_samples_that_cannot_be_repeated_are_not_cut():
    generator = np.random.default_rng()

    class Fresh(Images):
        def __getitem__(self, index):
            return self.transform(torch.from_numpy(generator.random(3))), 0

    assert "differ from one reading to the next" in samples_of(Fresh(Compose([double]))).why_not


def test_a_data_set_without_transforms_is_one_part():
    samples = samples_of(ConcatDataset([Images(), Images()]))
    assert names(samples) == ["data set"] and samples.why_not == ""
    assert any("one part" in warning for warning in samples.warnings)
    samples.fill(2)
    assert samples.behind(0)[1][0].eq(1).all()


def test_the_clock_tells_parts_from_the_data_set():
    clock = Clock(3)
    parts = Parts(Images(Compose([slow(0.02), double]), sleep_s=0.05))
    dataset = parts.timed(clock)
    clock.begin()
    dataset[1]
    (_, of_sleep, of_double), inside = clock.costs, clock.inside
    assert of_sleep[0] >= 0.02 > of_double[0] and inside[0] >= 0.02 > inside[1]
    assert of_double[2] == 3 * 8 * 8 * 4


def test_trees_are_mapped_and_compared():
    @dataclasses.dataclass
    class Record:
        image: torch.Tensor
        names: list

    tree = {"a": (torch.ones(2), [np.ones(2), "x"]), "b": Record(torch.zeros(3), [None, 2.5])}
    copied = values.mapped(tree, lambda x: x)
    assert values.same(tree, copied) and type(copied["b"]) is Record
    copied["b"].names[1] = 3.0
    assert not values.same(tree, copied)
    assert not values.same(torch.ones(2), torch.ones(3))
    assert values.same(torch.tensor([float("nan")]), torch.tensor([float("nan")]))


def test_native_forms_of_torchvisions_transforms():
    v2 = pytest.importorskip("torchvision.transforms.v2")
    forms = [(v2.Resize(32), "Resize"), (v2.RandomResizedCrop(16), "RandomResizedCrop"), (v2.RandomCrop(8), "RandomCrop"),
             (v2.RandomHorizontalFlip(), "RandomHorizontalFlip"), (v2.Normalize([0.5] * 3, [0.2] * 3), "Normalize"),
             (v2.GaussianBlur(3), "GaussianBlur"), (v2.ColorJitter(0.4), "ColorJitter"), (v2.RandomRotation(10), "RandomRotation"),
             (v2.ToDtype(torch.float32, scale=True), "ToDtype"), (v2.CenterCrop(8), "CenterCrop")]
    for theirs, ours in forms:
        assert type(native_form(theirs)).__name__ == ours
    assert native_form(v2.RandomSolarize(0.5)) is None and native_form(double) is None


# The report


MODEL = nn.Sequential(nn.Flatten(), nn.Linear(192, 4))
OPTIMIZER = torch.optim.SGD(MODEL.parameters(), 0.1, momentum=0.9)


def train(batch, seconds=0.004):
    time.sleep(seconds)
    OPTIMIZER.zero_grad()
    nn.functional.cross_entropy(MODEL(batch[0]), batch[1]).backward()
    OPTIMIZER.step()


def examined(dataset, step=train, workers=2, budget=6.0, batch_size=4, **options):
    """The report; a busy machine may leave too little evidence, which more time makes up for."""
    loader = DataLoader(dataset, batch_size, num_workers=workers, **options)
    for more in (1, 2, 4):
        report = ss.doctor(loader, step, device="cpu", budget=more * budget, state=[MODEL, OPTIMIZER])
        if report.verdict != "not_enough_evidence":
            break
    return report


@pytest.mark.parametrize("workers", [0, 2])
def test_slow_transforms_are_named(workers, tmp_path):
    report = examined(Images(Compose([noise, slow(0.02), double]), sleep_s=0.001), workers=workers, shuffle=True)
    assert report.verdict == "transforms" and report.culprits[0] == "transforms"
    assert report.rate.value < 0.2 * report.ceiling.value
    assert any("'sleep'" in advice.what for advice in report.advice)
    assert any("num_workers=" in advice.how for advice in report.advice)
    assert not any("--" in advice.how and "python -m slipstream" not in advice.how for advice in report.advice)
    report.to_json(tmp_path / "report.json")
    written = json.loads((tmp_path / "report.json").read_text())
    assert (written["schema"], written["verdict"]) == ("slipstream.doctor", "transforms")
    levels = [level["name"] for level in written["levels"]]
    first = ["device batch", "collated batch"][: 1 + (workers > 0)]
    assert levels == [*first, "processed sample", "after sleep", "after noise", "raw sample", "nothing cached"]
    costs = {cost["name"]: cost["wall_ms"]["value"] for cost in written["costs"]}
    assert costs["sleep"] > 4 * costs["data set"] > 0


def test_a_slow_data_set_is_named():
    report = examined(Images(Compose([double, slow(0.001)]), sleep_s=0.02))
    assert report.verdict == "raw_reading"


def test_a_slow_step_is_named():
    report = examined(Images(Compose([double])), step=functools.partial(train, seconds=0.05))
    assert report.verdict == "gpu" and report.culprits == []
    assert "the CPU" in report.text()


def test_streams_and_data_sets_of_batches():
    report = examined(Stream(Images(Compose([slow(0.02)]), sleep_s=0.001)))
    assert report.verdict == "transforms"

    class Batches(Images):
        def __getitem__(self, index):
            image, label = super().__getitem__(index)
            return image[None], torch.tensor([label])

    report = examined(Batches(sleep_s=0.02), batch_size=None, workers=1, budget=4)
    assert report.verdict == "raw_reading"


def test_console_page_and_notebook(tmp_path, capsys):
    report = examined(Images(slow(0.02)), budget=3)
    report.show()
    shown = capsys.readouterr().out
    assert "Slipstream doctor: Images" in shown and "device batch (the ceiling)" in shown and "--apply" not in shown
    report.to_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>\n"))
    assert report._repr_html_().startswith("<iframe srcdoc=") and "<script" not in report._repr_html_()
    assert report.verdict in repr(report)


def test_what_the_page_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "python-doctor.md").read_text()
    (block,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    space = {"loader": DataLoader(Images(double), 4), "model": MODEL, "optimizer": OPTIMIZER, "device": "cpu"}
    exec(compile(block.replace("budget=60", "budget=2"), "python-doctor.md", "exec"), space)
    assert (tmp_path / "doctor.json").exists() and (tmp_path / "doctor.html").exists()


# Nothing of the user's is changed


def test_everything_is_as_before():
    dataset = Images(Compose([noise, in_place]), sleep_s=0.002)
    generator = torch.Generator().manual_seed(5)
    loader = DataLoader(dataset, 4, shuffle=True, num_workers=2, generator=generator)
    held = dict(vars(dataset))
    weights = [each.clone() for each in MODEL.parameters()]
    state = json.dumps(OPTIMIZER.state_dict(), default=str)
    torch.manual_seed(1), random.seed(1), np.random.seed(1)
    expected = torch.rand(1), random.random(), np.random.rand(), torch.rand(1, generator=generator.clone_state())
    torch.manual_seed(1), random.seed(1), np.random.seed(1)
    ss.doctor(loader, train, device="cpu", budget=3, state=[MODEL, OPTIMIZER])
    assert (torch.rand(1), random.random(), np.random.rand(), torch.rand(1, generator=generator)) == expected
    assert vars(dataset) == held and dataset.transform.transforms == [noise, in_place]
    assert all(map(torch.equal, weights, MODEL.parameters()))
    assert json.dumps(OPTIMIZER.state_dict(), default=str) == state
    assert all(each.grad is None for each in MODEL.parameters()) or OPTIMIZER.state
    assert multiprocessing.active_children() == []


def test_batch_samplers_of_ones_own_keep_their_numbers():
    class Random:
        def __iter__(self):
            return iter([[random.randrange(64) for _ in range(3)] for _ in range(5)])

    random.seed(2)
    expected = random.random()
    random.seed(2)
    loader = DataLoader(Images(slow(0.01)), batch_sampler=Random(), num_workers=1)
    report = ss.doctor(loader, train, device="cpu", budget=2)
    assert random.random() == expected and "batch 3, 1 worker" in report.text()


def test_worker_init_functions_find_the_users_data_set():
    class Needy(Images):
        offset = 0

        def __getitem__(self, index):
            image, label = super().__getitem__(index)
            assert get_worker_info() is None or self.offset == 7
            return image, label

    def start(worker):
        get_worker_info().dataset.offset = 7

    report = examined(Needy(slow(0.01)), worker_init_fn=start, budget=3)
    assert report.rate.n > 0


# Errors


def test_errors_say_what_to_do():
    loader = DataLoader(Images(), 4)
    with pytest.raises(ss.Refused, match=r"a torch.utils.data.DataLoader, not list.*\n.*step cannot be called"):
        ss.doctor([1], None)
    with pytest.raises(ss.Refused, match="budget is 0"):
        ss.doctor(loader, train, budget=0)
    with pytest.raises(ss.Refused, match="state holds int"):
        ss.doctor(loader, train, state=[3])
    with pytest.raises(ss.Refused, match="gives no batch"):
        ss.doctor(DataLoader(Images(count=0), 4), train, device="cpu")


def test_errors_of_the_step_and_the_data_set_come_out():
    def fails(batch):
        raise ValueError("no such thing")

    with pytest.raises(ValueError, match="no such thing") as caught:
        ss.doctor(DataLoader(Images(), 4), fails, device="cpu", budget=1)
    assert "in the step" in caught.value.__notes__[0]

    class Broken(Images):
        def __getitem__(self, index):
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        ss.doctor(DataLoader(Broken(), 4), train, device="cpu", budget=1)
