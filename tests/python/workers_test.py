"""Python data sets and transforms in the native loader's worker processes."""

import collections
import gc
import os
import random
import warnings

import numpy
import pytest
import torch
from PIL import Image
from torch.utils.data import default_collate, get_worker_info

import slipstream as ss
from slipstream import _worker_process

T = ss.transforms
Pair = collections.namedtuple("Pair", "a b")


class Numbers:
    """Samples with numbers of all random generators."""

    def __len__(self):
        return 23

    def __getitem__(self, i):
        return i, torch.rand(2), numpy.random.rand(), random.random()


class Nested(Numbers):
    def __getitem__(self, i):
        return {"x": torch.full((2, 3), float(i)), "of": [i, i / 2, i % 2 == 0],
                "pair": Pair(numpy.arange(3) + i, {"deep": numpy.float32(i), "same": (numpy.int16(i),)}),
                "half": torch.ones(2, dtype=torch.bfloat16) * i, "complex": torch.tensor([1j * i, 2]),
                "five": torch.zeros(1, 2, 1, 2, 1) + i, "none": torch.zeros(0)}


class Photos:
    """Images of different sizes."""

    def __init__(self, kind="pil"):
        self.kind = kind

    def __len__(self):
        return 10

    def __getitem__(self, i):
        size = (i + 20, 24) if self.kind != "same" else (20, 24)
        array = numpy.random.RandomState(i).randint(0, 256, (*size, 3), dtype=numpy.uint8)
        if self.kind == "chw":
            return torch.from_numpy(array).permute(2, 0, 1), i
        return (array if self.kind == "hwc" else Image.fromarray(array)), i


def identity(image):
    assert image.dim() == 3 and image.shape[0] == 3 and image.is_contiguous()
    return image


def noisy(image):
    return image.float() + torch.rand(1) + random.random()


def flat(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [each for part in (value.values() if isinstance(value, dict) else value) for each in flat(part)]


def read_epochs(loader, count=1):
    return [[x.cpu().clone() for x in flat(batch)] for _ in range(count) for batch in loader]


def assert_equal(ours, expected):
    assert len(ours) == len(expected) > 0
    for a, b in zip(ours, expected, strict=True):
        assert len(a) == len(b)
        assert all(x.dtype == y.dtype and torch.equal(x, y) for x, y in zip(a, b, strict=True))


def test_batches_match_default_collate(device):
    batches = list(ss.DataLoader(Nested(), 5, device=device, num_workers=1))
    assert len(batches) == 5
    for number, batch in enumerate(batches):
        samples = [Nested()[i] for i in range(number * 5, min(23, number * 5 + 5))]
        expected = default_collate(samples)
        assert list(batch) == list(expected) and type(batch["pair"]) is Pair and type(batch["of"]) is list
        assert type(batch["pair"].b["same"]) is type(expected["pair"].b["same"])
        for ours, theirs in zip(flat(batch), flat(expected), strict=True):
            assert ours.device.type == device
            assert ours.dtype == theirs.dtype and ours.shape == theirs.shape and torch.equal(ours.cpu(), theirs)
    assert ss.DataLoader([1, 2, 3], 3, num_workers=1).__iter__().__next__().tolist() == [1, 2, 3]


def test_random_numbers_depend_on_seed_epoch_and_sample(device):
    one = ss.DataLoader(Numbers(), 4, shuffle=True, seed=5, num_workers=1)
    three = ss.DataLoader(Numbers(), 4, shuffle=True, seed=5, num_workers=3, device=device)
    expected = read_epochs(one, 2)
    assert_equal(read_epochs(three, 2), expected)
    by_sample = [dict(zip(x[0].tolist(), x[3].tolist(), strict=True)) for x in expected]
    first = {k: v for each in by_sample[:6] for k, v in each.items()}
    second = {k: v for each in by_sample[6:] for k, v in each.items()}
    assert first.keys() == second.keys() and len({*first.values(), *second.values()}) == 46
    assert not torch.equal(read_epochs(ss.DataLoader(Numbers(), 4, seed=6, num_workers=1))[0][1], read_epochs(
        ss.DataLoader(Numbers(), 4, seed=5, num_workers=1))[0][1])
    three.set_epoch(0)
    assert_equal(read_epochs(three), expected[:6])


def test_restored_loader_continues_with_remaining_batches():
    expected = read_epochs(ss.DataLoader(Numbers(), 4, shuffle=True, num_workers=2, seed=0), 2)
    loader = ss.DataLoader(Numbers(), 4, shuffle=True, seed=0, num_workers=1)
    batches = iter(loader)
    for _ in range(2):
        next(batches)
    rest = ss.DataLoader(Numbers(), 4, shuffle=True, num_workers=2, seed=0)
    rest.load_state_dict(loader.state_dict())
    assert_equal(read_epochs(rest, 2), expected[2:])


def test_ranks_split_each_global_batch():
    whole = read_epochs(ss.DataLoader(Numbers(), 6, shuffle=True, drop_last=True, seed=0, num_workers=1))
    parts = [read_epochs(ss.DataLoader(Numbers(), 3, shuffle=True, drop_last=True, rank=rank, world_size=2, seed=0, num_workers=1))
             for rank in range(2)]
    joined = [[torch.cat(pair) for pair in zip(*step, strict=True)] for step in zip(*parts, strict=True)]
    assert_equal(joined, whole)


def test_random_numbers_in_functions_depend_on_seed_and_sample(photos, device):
    data = ss.ImageFolder(photos, T.Compose([T.CenterCrop(16), noisy]))
    expected = read_epochs(ss.DataLoader(data, 8, shuffle=True, seed=3, num_workers=1), 2)
    loader = ss.DataLoader(data, 8, shuffle=True, seed=3, num_workers=3, device=device)
    assert_equal(read_epochs(loader, 2), expected)
    plain = next(iter(ss.DataLoader(ss.ImageFolder(photos, T.CenterCrop(16)), 50, num_workers=1)))[0]
    noise = next(iter(ss.DataLoader(data, 50, seed=3, num_workers=1)))[0] - plain
    assert len(noise[:, 0, 0, 0].unique()) == 50


CHAINS = {"ahead": [T.RandomResizedCrop(16), T.RandomHorizontalFlip(), identity],
          "behind": [identity, T.RandomCrop(16), T.ColorJitter(0.4)],
          "around": [T.RandomCrop(18), identity, T.RandomResizedCrop(16), identity, identity, T.RandomVerticalFlip()]}


@pytest.mark.parametrize("name", CHAINS)
def test_python_functions_do_not_change_native_random_transforms(photos, name, device):
    native = [each for each in CHAINS[name] if each is not identity]
    expected = read_epochs(ss.DataLoader(ss.ImageFolder(photos, T.Compose(native)), 8, shuffle=True, seed=3, num_workers=1), 2)
    mixed = ss.ImageFolder(photos, T.Compose(CHAINS[name]))
    assert_equal(read_epochs(ss.DataLoader(mixed, 8, shuffle=True, seed=3, num_workers=3, device=device), 2), expected)


@pytest.mark.parametrize("kind", ["pil", "hwc", "chw"])
def test_native_and_python_transforms_apply_to_python_data_set(kind):
    """A native transform that only reorders pixels does not change their values."""
    data = ss.PythonDataset(Photos(kind), T.Compose([T.CenterCrop((20, 24)), noisy, T.Normalize((1,) * 3, (2,) * 3)]))
    images, labels = next(iter(ss.DataLoader(data, 10, num_workers=2, seed=0)))
    assert images.shape == (10, 3, 20, 24) and images.dtype == torch.float32 and labels.tolist() == list(range(10))
    assert images.is_contiguous(memory_format=torch.channels_last)
    plain = next(iter(ss.DataLoader(ss.PythonDataset(Photos(kind), T.CenterCrop((20, 24))), 10, num_workers=1)))[0]
    added = images * 2 + 1 - plain
    assert (added.flatten(1).amax(1) - added.flatten(1).amin(1) < 1e-3).all()
    assert len(added[:, 0, 0, 0].unique()) == 10 and 0 < added.min() < added.max() < 2
    again = next(iter(ss.DataLoader(data, 10, num_workers=1, seed=0)))[0]
    assert torch.equal(images, again)


def test_images_of_python_data_set_become_channels_last_tensors():
    images, _ = next(iter(ss.DataLoader(Photos("same"), 4, num_workers=1)))
    assert images.shape == (4, 3, 20, 24) and images.dtype == torch.uint8
    assert images.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(images[2].permute(1, 2, 0), torch.from_numpy(numpy.array(Photos("same")[2][0])))
    gray = next(iter(ss.DataLoader([Image.new("L", (6, 5), 3), Image.new("L", (6, 5), 4)], 2, num_workers=1)))
    assert gray.shape == (2, 1, 5, 6) and gray.amax((1, 2, 3)).tolist() == [3, 4]


def test_subset_and_concat_of_python_data_sets_load():
    some = ss.Subset(ss.PythonDataset(list(range(10)), None), [7, 2, 5])
    both = ss.ConcatDataset([some, list(range(3))])
    assert (len(some), len(both), both.fields, both.classes) == (3, 6, ["sample"], [])
    assert torch.cat(list(ss.DataLoader(both, 2, num_workers=1))).tolist() == [7, 2, 5, 0, 1, 2]
    with pytest.raises(ss.Refused, match="sample 10, but the data set has 10"):
        ss.Subset(list(range(10)), [10])
    with pytest.raises(ss.Refused, match="class of a sample is not known"):
        both.label(0)


def find_worker_number(i):
    info = get_worker_info()
    return torch.tensor([info.id, info.num_workers, info.dataset.marked])


class Marked(Numbers):
    marked = 0

    def __getitem__(self, i):
        return find_worker_number(i)


def mark(number):
    get_worker_info().dataset.marked = 10 + number


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_start_with_given_method_and_init_fn(method):
    count = 2 if method == "fork" else 1  # other methods import PyTorch, which takes long
    loader = ss.DataLoader(Marked(), 23, num_workers=count, multiprocessing_context=method, worker_init_fn=mark)
    told = next(iter(loader)).tolist()
    assert len(told) == 23
    for number, workers, marked in told:
        assert workers == count and marked == 10 + number


class WorkerReports:
    """Samples with the settings and random numbers of the worker process that reads them."""

    def __len__(self):
        return 8

    def __getitem__(self, i):
        info = get_worker_info()
        return torch.tensor([info.id, info.seed, self.drawn, torch.get_num_threads()], dtype=torch.float64)


def draw(number):
    get_worker_info().dataset.drawn = torch.rand(()).item()


def test_each_worker_has_its_own_seed():
    told = [torch.cat(list(ss.DataLoader(WorkerReports(), 1, seed=seed, num_workers=2, worker_init_fn=draw)))
            for seed in (5, 5, 9)]
    draws = []
    for seed, rows in zip((5, 5, 9), told, strict=True):
        assert torch.equal(rows[:, 1], seed + rows[:, 0]) and (rows[:, 3] == 1).all()
        draws.append({int(number): drawn for number, _, drawn, _ in rows.tolist()})
    expected = {seed: torch.rand((), generator=torch.Generator().manual_seed(seed)).item() for seed in (5, 6, 9, 10)}
    assert all(drawn == expected[seed + number] for seed, each in zip((5, 5, 9), draws, strict=True)
               for number, drawn in each.items())


@pytest.mark.parametrize("is_enabled", [True, False])
def test_garbage_collector_setting_is_unchanged(is_enabled):
    try:
        if not is_enabled:
            gc.disable()
        ss.DataLoader([1, 2, 3], 3, multiprocessing_context="fork", num_workers=1)
        assert gc.isenabled() == is_enabled
    finally:
        gc.enable()


def test_pipeline_around_python_data_set_runs_stages(device):
    loader = ss.DataLoader(Nested(), 5, device=device, num_workers=1)
    pipe = ss.Pipeline(loader, [ss.Stage("double", lambda x: x * 2, input="x", output="twice")])
    batches = list(pipe)
    assert len(batches) == 5
    for batch in batches:
        assert torch.equal(batch["twice"], batch["x"] * 2)
    assert len(list(ss.Pipeline(loader, serial=True))) == 5


def test_kept_batches_are_not_overwritten():
    kept = list(ss.DataLoader(list(range(40)), 2, num_workers=2))
    assert torch.cat(kept).tolist() == list(range(40))


def test_memory_of_a_worker_grows_in_few_steps(tmp_path):
    with open(tmp_path / "memory", "w+b") as file:
        memory = _worker_process._Memory(file.fileno())
        sizes = set()
        for pages in range(1, 500):
            memory.reserve(pages * _worker_process._STEP)
            assert memory.bytes.numel() == memory.size >= pages * _worker_process._STEP
            sizes.add(memory.size)
    assert len(sizes) < 25


class Staged(torch.utils.data.Dataset):
    def __init__(self):
        self.epoch = 0

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return index + 100 * self.epoch

    def set_epoch(self, epoch):
        self.epoch = epoch


def read_batches(loop):
    return [batch.tolist() for batch in loop]


@pytest.mark.parametrize("wrap", [lambda data: data, lambda data: torch.utils.data.Subset(data, range(8)),
                                  lambda data: torch.utils.data.ConcatDataset([data])])
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_changed_data_set_reaches_running_workers(wrap, method):
    data = Staged()
    loader = ss.DataLoader(wrap(data), 4, num_workers=2, multiprocessing_context=method)
    assert read_batches(loader) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    data.set_epoch(3)
    assert read_batches(loader) == [[300, 301, 302, 303], [304, 305, 306, 307]]
    loader.set_epoch(7)
    assert data.epoch == 7 and read_batches(loader)[0] == [700, 701, 702, 703]
    ss.Pipeline(loader, device="cpu").set_epoch(2)
    assert read_batches(loader)[0] == [200, 201, 202, 203]


def test_workers_are_kept_while_data_set_is_unchanged():
    class Process(Staged):
        def __getitem__(self, index):
            return os.getpid()

    data = Process()
    loader = ss.DataLoader(data, 4, num_workers=1)
    first = {*sum(read_batches(loader), [])}
    data[0]
    assert {*sum(read_batches(loader), [])} == first
    files = len(os.listdir("/proc/self/fd"))
    for epoch in range(1, 5):
        data.set_epoch(epoch)
        assert not {*sum(read_batches(loader), [])} & first
    assert len(os.listdir("/proc/self/fd")) == files


def test_changed_transform_reaches_running_workers(photos):
    class Fill:
        value = 0

        def __call__(self, image):
            return torch.full_like(image, self.value)

    fill = Fill()
    loader = ss.DataLoader(ss.ImageFolder(photos, T.Compose([T.CenterCrop(4), fill])), 10, num_workers=1)
    for fill.value in (3, 5):
        assert {int(images.unique()) for images, _ in loader} == {fill.value}


class StagedFolder(ss.ImageFolder):
    epoch = 0

    def __getitem__(self, index):
        return index + 100 * self.epoch


def test_changed_image_folder_subclass_reaches_workers(photos):
    data = StagedFolder(photos)
    loader = ss.DataLoader(data, 25, num_workers=1)
    for data.epoch in range(2):
        assert read_batches(loader)[0][0] == 100 * data.epoch


def test_set_epoch_of_a_pipeline_reaches_the_data_set():
    class Stream(torch.utils.data.IterableDataset):
        epoch = 0

        def set_epoch(self, epoch):
            self.epoch = epoch

        def __iter__(self):
            return iter(range(100 * self.epoch, 100 * self.epoch + 4))

    for options in ({}, {"num_workers": 1}):
        loader = torch.utils.data.DataLoader(Stream(), 4, **options)
        pipe = ss.Pipeline(loader, device="cpu")
        for epoch in (0, 3):
            pipe.set_epoch(epoch)
            assert read_batches(pipe) == [list(range(100 * epoch, 100 * epoch + 4))]
    data = torch.utils.data.ConcatDataset([Staged()])
    ss.Pipeline(torch.utils.data.DataLoader(data), device="cpu").set_epoch(4)
    assert data.datasets[0].epoch == 4


def test_set_epoch_unseen_by_persistent_workers_gives_a_warning():
    class Shared(Staged):
        def __init__(self):
            self.epoch = torch.tensor(0).share_memory_()

        def set_epoch(self, epoch):
            self.epoch.fill_(epoch)

    for data in (Staged(), Shared()):
        loader = torch.utils.data.DataLoader(data, 8, num_workers=1, persistent_workers=True)
        pipe = ss.Pipeline(loader, device="cpu")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            pipe.set_epoch(1)
            assert read_batches(pipe) == [list(range(100, 108))]
            if isinstance(data, Shared):
                pipe.set_epoch(2)
                assert read_batches(pipe) == [list(range(200, 208))]
        if not isinstance(data, Shared):
            with pytest.warns(UserWarning, match="leave out persistent_workers"):
                pipe.set_epoch(2)
