"""Strings in samples of Python data sets."""

import collections
import enum
import itertools
import os
import signal

import numpy
import pytest
import torch
from torch.utils.data import default_collate

import slipstream as ss

T = ss.transforms
Pair = collections.namedtuple("Pair", "text number")
TEXTS = ["", "plain", "naïve", "日本語", "😀\0😀", "lone \ud800", "a\n" * 5000]


class Color(str, enum.Enum):
    red, blue = "r", "b"


class Captions:
    """Samples with strings of different lengths in all kinds of containers."""

    def __init__(self, length=23):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        text, raw = TEXTS[i % len(TEXTS)], bytes(range(i))
        return {"caption": text, "x": torch.full((2,), float(i)), "pair": Pair(text * 2, i),
                "of": [raw, (i / 2, f"{i}.jpg"), {"deep": numpy.str_(i), "color": list(Color)[i % 2]}], "id": i}


class Named(Captions):
    def __getitem__(self, i):
        return i, f"name {i}"


def expected(data, size, drop_last=False, order=None):
    order = list(range(len(data)) if order is None else order)
    end = len(order) // size * size if drop_last else len(order)
    return [default_collate([data[i] for i in order[at:at + size]]) for at in range(0, end, size)]


def assert_same(ours, theirs, device="cpu"):
    """Compares values and types, except that tuples stay tuples."""
    if isinstance(theirs, torch.Tensor):
        assert ours.device.type == device and ours.dtype == theirs.dtype and torch.equal(ours.cpu(), theirs)
    elif isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        for key in theirs:
            assert_same(ours[key], theirs[key], device)
    elif isinstance(theirs, list | tuple):
        assert len(ours) == len(theirs)
        if isinstance(theirs[0], str | bytes):
            assert type(ours) is type(theirs)
        for a, b in zip(ours, theirs, strict=True):
            assert_same(a, b, device)
    else:
        assert type(ours) is type(theirs) and ours == theirs


@pytest.mark.parametrize("options", [{}, {"num_workers": 3}, {"drop_last": True}])
def test_batches_with_strings_match_default_collate(options, device):
    data = Captions()
    loader = ss.DataLoader(data, 5, device=device, **options)
    for _ in range(3):
        assert_same(list(loader), expected(data, 5, "drop_last" in options), device)
    assert ss.PythonDataset(data).fields == ["caption", "id", "of.0", "of.1.0", "of.1.1", "of.2.color", "of.2.deep",
                                     "pair.0", "pair.1", "x"]


def test_samples_that_are_only_strings_are_collated(device):
    assert list(ss.DataLoader(TEXTS, 3, device=device, num_workers=1)) == [TEXTS[:3], TEXTS[3:6], TEXTS[6:]]
    assert list(ss.DataLoader([b"", b"a\0"], 2, device=device, num_workers=1)) == [[b"", b"a\0"]]
    assert list(ss.DataLoader([("a", "b"), ("c", "")], 2, device=device, num_workers=1)) == [[("a", "c"), ("b", "")]]


def test_long_and_empty_strings_keep_their_length():
    long = [("x" * size, i) for i, size in enumerate((3, 5_000_000, 0, 70_000))]
    seen = []
    for texts, numbers in ss.DataLoader(long, 2, shuffle=True, num_workers=2, seed=0):
        assert [len(each) for each in texts] == [len(long[i][0]) for i in numbers]
        seen += numbers.tolist()
    assert sorted(seen) == [0, 1, 2, 3]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_strings_stay_with_their_shuffled_samples(method):
    workers = 3 if method == "fork" else 1  # other methods import PyTorch, which takes long
    loader = ss.DataLoader(Named(), 4, shuffle=True, num_workers=workers, multiprocessing_context=method, seed=0)
    for _ in range(2):
        seen = []
        for numbers, names in loader:
            assert names == tuple(f"name {i}" for i in numbers)
            seen += names
        assert sorted(seen) == sorted(f"name {i}" for i in range(23))


def test_strings_of_kept_batches_are_right_after_breaks(device):
    loader = ss.DataLoader(Named(60), 2, num_workers=2, device=device)
    for left in (1, 5, 29):
        for at, _ in enumerate(loader):
            if at == left:
                break
    kept = list(loader)
    assert [each for _, names in kept for each in names] == [f"name {i}" for i in range(60)]
    loader.set_epoch(0)
    assert [len(names) for _, names in loader] == [2] * 30


def test_restored_loader_continues_with_remaining_strings(device):
    def make():
        return ss.DataLoader(Named(), 4, shuffle=True, num_workers=2, device=device, seed=0)

    whole, rest = make(), make()
    names = [each for _ in range(2) for _, each in whole]
    rest.load_state_dict({"position": 3, "batches_per_epoch": 6})
    assert [each for _ in range(2) for _, each in rest][:9] == names[3:]


def test_subset_and_concat_give_their_strings(device):
    both = ss.ConcatDataset([ss.Subset(Named(), [7, 2, 5]), Named(3)])
    assert both.fields == ["0", "1"]
    texts = [each for _, names in ss.DataLoader(both, 4, device=device, num_workers=1) for each in names]
    assert texts == [f"name {i}" for i in (7, 2, 5, 0, 1, 2)]


def test_ranks_get_the_strings_of_their_samples():
    parts = [list(ss.DataLoader(Named(), 4, rank=rank, world_size=2, num_workers=1)) for rank in range(2)]
    assert [len(part) for part in parts] == [3, 3]
    for numbers, names in parts[0] + parts[1]:
        assert len(numbers) == 4 and names == tuple(f"name {i}" for i in numbers)


class Broken(Named):
    """A data set in which one sample cannot be read; another one has a string to recognize it."""

    def __getitem__(self, i):
        if i == 3:
            raise ValueError("no 3")
        return torch.full((3, 8, 8), i, dtype=torch.uint8), "bad" if i == 5 else f"name {i}"


def picky(image):
    if image[0, 0, 0] == 7:
        raise ValueError("no 7")
    return image


def test_bad_samples_are_skipped_with_their_strings(device):
    data = ss.PythonDataset(Broken(), T.Compose([picky, T.RandomHorizontalFlip()]))
    loader = ss.DataLoader(data, 4, shuffle=True, num_workers=3, on_bad_sample="skip", device=device, seed=0)
    for _ in range(3):
        count = 0
        for images, names in loader:
            numbers = images[:, 0, 0, 0].tolist()
            assert names == tuple("bad" if i == 5 else f"name {i}" for i in numbers) and not {3, 7} & {*numbers}
            count += len(names)
        assert count == 23


def test_transforms_on_device_keep_the_strings(device):
    if device != "cuda":
        pytest.skip("for a GPU")
    data = ss.PythonDataset([(torch.full((3, 8, 8), i, dtype=torch.uint8), str(i)) for i in range(9)],
                            T.RandomCrop(4))
    seen = []
    for images, names in ss.DataLoader(data, 4, device=device, transforms_device="cuda", num_workers=1):
        assert names == tuple(map(str, images[:, 0, 0, 0].tolist()))
        seen += names
    assert seen == [str(i) for i in range(9)]


def test_samples_of_different_structure_raise():
    for samples, text in (([("a", 1), (None, 1)], "field '0' is of type NoneType"),
                          ([("a", 1), (2, 1)], "(int64, int64), but the first one was (str, int64)"),
                          ([("a", 1), (b"a", 1)], "(bytes, int64), but the first one was (str, int64)"),
                          ([("a", 1), (["a"], 1)], "([str], int64), but the first one was (str, int64)")):
        with pytest.raises(ss.Error) as raised:
            list(ss.DataLoader(samples, 1, num_workers=1))
        assert "step 'read' of sample 1" in str(raised.value) and text in str(raised.value)
        assert list(ss.DataLoader(samples, 2, on_bad_sample="skip", num_workers=1))[0][0] == ("a",)


def test_string_of_local_class_raises():
    class Local(str):
        pass

    with pytest.raises(ss.Error, match="step 'read' of sample 0: .*Local"):
        ss.DataLoader([Local("a")], 1, multiprocessing_context="fork", num_workers=1)


def test_similar_field_names_do_not_clash(device):
    """The loader identifies fields by name."""
    data = [{"slipstream.texts": i, "augment": {"parameters": -i}, "a.b": 2 * i, "a": {"b": 3 * i},
             1: 4 * i, "1": str(i)} for i in range(3)]
    loader = ss.DataLoader(data, 3, device=device, num_workers=1)
    assert len(set(ss.PythonDataset(data).fields)) == 6
    (batch,) = loader
    assert batch.pop("1") == ["0", "1", "2"]
    factors = [batch["slipstream.texts"], -batch["augment"]["parameters"], batch["a.b"] / 2,
               batch["a"]["b"] / 3, batch[1] / 4]
    assert [each.tolist() for each in factors] == [[0, 1, 2]] * 5


def test_pipeline_stages_read_and_write_strings(device):
    data = Captions()
    loader = ss.DataLoader(data, 5, num_workers=2, device=device)
    stages = [ss.Stage("double", lambda x: x * 2, input="x", output="twice"),
              ss.Stage("count", lambda texts: list(map(len, texts)), input="caption", output="lengths")]
    for options in ({}, {"serial": True}, {"run_ahead": 3}):
        batches = list(ss.Pipeline(loader, stages, **options))
        for batch, theirs in zip(batches, expected(data, 5), strict=True):
            assert torch.equal(batch.pop("twice").cpu(), theirs["x"] * 2)
            assert batch.pop("lengths") == list(map(len, theirs["caption"]))
            assert_same(batch, theirs, device)


def test_verify_compares_strings():
    def run():
        yield from ss.DataLoader(Named(), 5, num_workers=2)

    report = ss.verify(lambda: run, schedules=2)
    assert report.passed, report.text()
    count = itertools.count()

    def differs():
        word = f"run {next(count)}"
        yield from ss.DataLoader([(i, word) for i in range(6)], 3, multiprocessing_context="fork", num_workers=1)

    report = ss.verify(lambda: differs, schedules=1)
    assert report.verdict == "not_repeatable" and report.value == "yielded[0][1][0]", report.text()


def test_trainer_refuses_python_loader():
    loader = ss.DataLoader(Named(), 5, num_workers=1)
    with pytest.raises(ss.Refused, match="this one is in Python: put slipstream.Pipeline around"):
        ss.Trainer(loader, torch.nn.Linear(1, 1), epochs=1)


def test_iteration_continues_after_killed_worker(tmp_path):
    class Ends(Named):
        def __getitem__(self, i):
            if i == 13 and not (tmp_path / "done").exists():
                (tmp_path / "done").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return super().__getitem__(i)

    loader, seen = ss.DataLoader(Ends(), 4, num_workers=2, multiprocessing_context="fork"), []
    with pytest.raises(ss.Error, match="signal 9"):
        for _, names in loader:
            seen += names
    loader.load_state_dict(loader.state_dict())
    seen += [each for _, names in loader for each in names]
    assert seen == [f"name {i}" for i in range(23)]
