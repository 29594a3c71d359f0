"""Subsets and concatenations of data sets, with the same arguments as in PyTorch."""

import copy
import multiprocessing
import pathlib
import pickle
import shutil

import numpy
import pytest
import torch
from torch.utils.data import ConcatDataset, random_split
from torch.utils.data import Subset as TorchSubset

import slipstream as ss

T = ss.transforms


@pytest.fixture
def data(photos):
    return ss.ImageFolder(photos, T.CenterCrop(16))


def read_labels(data):
    return torch.cat([labels for _, labels in ss.DataLoader(data, 1, num_workers=1)]).tolist()


def test_torch_subsets_of_slipstream_data_sets_become_native(data):
    indices = [49, 3, 20, 7]
    expected = [data.label(i) for i in indices]
    loader = ss.DataLoader(TorchSubset(data, indices), 2, num_workers=1)
    assert read_labels(TorchSubset(data, indices)) == expected and type(loader._readable) is ss.Subset
    assert read_labels(TorchSubset(TorchSubset(data, indices), [3, 0])) == [expected[3], expected[0]]
    assert read_labels(TorchSubset(ss.Subset(data, indices), torch.tensor([1, 2]))) == expected[1:3]
    both = ConcatDataset([TorchSubset(data, indices), data])
    assert read_labels(both) == expected + read_labels(data)
    assert read_labels(TorchSubset(both, [4 + 49])) == [data.label(49)]
    assert len(ss.ConcatDataset([TorchSubset(data, indices), data])) == 54
    parts = random_split(data, [0.8, 0.2], torch.Generator().manual_seed(1))
    assert sorted(sum(map(read_labels, parts), [])) == read_labels(data)
    behind = ss.PythonDataset([(torch.zeros(3, 20, 20), i) for i in range(4)], T.CenterCrop(8))
    assert read_labels(TorchSubset(behind, [2, 1])) == [2, 1]


def test_subsets_with_python_getitem_are_read_in_python(data):
    class Doubled(TorchSubset):
        def __getitem__(self, i):
            return torch.zeros(1), 2 * self.indices[i]

        __getitems__ = None

    assert read_labels(Doubled(data, [3, 4])) == [6, 8]
    assert read_labels(TorchSubset([(torch.zeros(1), i) for i in range(5)], [4, 2])) == [4, 2]


def test_mismatched_concat_and_wrapped_data_sets_are_refused(data, photos):
    other = ss.ImageFolder(photos, T.CenterCrop(15))
    with pytest.raises(ss.Refused, match="have different transforms, but a loader applies only one"):
        ss.DataLoader(ConcatDataset([data, other]), 2, num_workers=1)
    with pytest.raises(ss.Refused, match="cannot be combined"):
        ss.DataLoader(ConcatDataset([ss.ImageFolder(photos), [1, 2]]), 2, num_workers=1)
    for each in (data, TorchSubset(data, [1])):
        with pytest.raises(ss.Refused, match="is a slipstream data set, or a part of one: give it to the loader"):
            ss.PythonDataset(each, T.CenterCrop(8))


@pytest.mark.parametrize("in_python", [False, True])
def test_subset_indices_must_be_non_negative_integers(data, in_python):
    whole = list(range(50)) if in_python else data
    for indices in ([-1], [1.5], [True] * 50, ["1"], 3, None, [[1]], [2**70], torch.tensor([-1]), numpy.array([0.5])):
        with pytest.raises(ss.Refused, match=r"indices is .*: give whole numbers, counted from 0"):
            ss.Subset(whole, indices)
    for indices in ((2, 3), range(2, 4), torch.tensor([2, 3]), numpy.array([2, 3]), [numpy.int32(2), torch.tensor(3)]):
        some = ss.Subset(whole, indices)
        assert [some.name(i) for i in range(2)] == ([some.name(0), some.name(1)] if in_python else
                                                    [data.name(2), data.name(3)])
    with pytest.raises(ss.Refused, match="index is"):
        data.label(-1)
    with pytest.raises(ss.Refused, match="index is"):
        data.name("1")


class Plain:
    def __len__(self):
        return 5

    def __getitem__(self, i):
        return torch.zeros(3, 16, 16), i


def all_kinds(photos, data):
    return {"folder": data, "opened": ss.open_dataset(photos, T.CenterCrop(8)), "subset": ss.Subset(data, [9, 2]),
            "concat": ss.ConcatDataset([ss.Subset(data, [1]), data]), "python": ss.PythonDataset(Plain(), T.CenterCrop(8)),
            "parts": ss.ConcatDataset([ss.Subset(Plain(), [3]), Plain()]),
            "classes": ss.ImageFolder(photos, T.CenterCrop(8), classes=["class2", "class1", "class0"])}


@pytest.mark.parametrize("copied", [lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy, copy.copy],
                         ids=["pickle", "deepcopy", "copy"])
def test_pickled_and_copied_data_sets_give_same_batches(photos, data, copied):
    for name, whole in all_kinds(photos, data).items():
        again = copied(whole)
        assert type(again) is type(whole) and len(again) == len(whole), name
        assert (again.classes, again.fields) == (whole.classes, whole.fields)
        ours, theirs = (list(ss.DataLoader(each, 1, num_workers=1)) for each in (again, whole))
        assert all(torch.equal(x, y) for a, b in zip(ours, theirs, strict=True) for x, y in zip(a, b, strict=True))


def report(data, file):
    file.write_text(str(read_labels(data)))


def test_data_set_sent_to_another_process_reads_same_labels(data, tmp_path):
    some = ss.Subset(data, [40, 3])
    process = multiprocessing.get_context("spawn").Process(target=report, args=(some, tmp_path / "labels"))
    process.start()
    process.join()
    assert (tmp_path / "labels").read_text() == str(read_labels(some))


def test_unpickling_refuses_folder_with_other_sample_count(photos, tmp_path):
    shutil.copytree(photos, tmp_path / "photos")
    pickled = pickle.dumps(ss.ImageFolder(tmp_path / "photos"))
    (tmp_path / "photos" / "class0" / "000000.jpg").unlink()
    with pytest.raises(ss.Refused, match="had 50 samples when it was copied or pickled, and has 49 now"):
        pickle.loads(pickled)


@pytest.mark.parametrize("copied", [pickle.dumps, copy.deepcopy, copy.copy])
def test_pickling_or_copying_a_loader_raises_type_error(data, copied):
    with pytest.raises(TypeError, match="pickle its data set, loader.dataset"):
        copied(ss.DataLoader(data, 2, num_workers=1))


def test_image_folder_has_attributes_of_torchvisions(photos, data):
    theirs = pytest.importorskip("torchvision.datasets").ImageFolder(photos)
    assert data.class_to_idx == theirs.class_to_idx and data.targets == theirs.targets
    assert data.samples == theirs.samples


def test_home_folder_in_path_is_expanded_and_non_path_refused(photos, monkeypatch):
    monkeypatch.setenv("HOME", str(photos.parent))
    for path in ("~/photos", b"~/photos", pathlib.Path("~") / "photos"):
        assert len(ss.ImageFolder(path)) == len(ss.open_dataset(path)) == 50
    for path in (None, 3, [photos]):
        with pytest.raises(ss.Refused, match="root is .*: give a path"):
            ss.ImageFolder(path)
        with pytest.raises(ss.Refused, match="path is .*: give a path"):
            ss.open_dataset(path)
