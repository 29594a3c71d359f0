"""Subsets, names of classes, and the settings that slipstream.DataLoader passes on."""

import numpy
import pytest
import torch

import slipstream as ss
from slipstream import data as data_module

T = ss.transforms
SMALL, SMALLER = T.CenterCrop((8, 6)), T.CenterCrop((4, 2))


def read_shape(data):
    return next(iter(ss.DataLoader(data, 2, num_workers=1)))[0].shape[1:]


class Photos:
    def __len__(self):
        return 6

    def __getitem__(self, i):
        return torch.full((3, 12, 12), i, dtype=torch.uint8), i


@pytest.mark.parametrize("kind", ["native", "python"])
def test_subset_and_concat_keep_the_transform(photos, kind):
    def data(transform):
        return ss.ImageFolder(photos, transform) if kind == "native" else ss.PythonDataset(Photos(), transform)

    some = ss.Subset(data(SMALL), [3, 1])
    assert some.transform is SMALL and read_shape(some) == (3, 8, 6)
    with pytest.raises(ss.Refused, match="have different transforms, but a loader applies only one"):
        ss.ConcatDataset([data(SMALLER), data(SMALL)])
    both = ss.ConcatDataset([data(SMALLER), data(SMALLER)])
    assert both.transform is SMALLER and read_shape(both) == (3, 4, 2)
    assert read_shape(ss.Subset(both, [len(both) - 1, 0])) == (3, 4, 2)


@pytest.mark.parametrize("index", [-1, 6])
def test_subset_index_out_of_range_is_refused(index):
    for data in (Photos(), ss.PythonDataset(Photos())):
        with pytest.raises(ss.Refused, match=str(index)):
            ss.Subset(data, [0, index])


def test_concat_of_native_and_python_data_sets_is_refused(photos):
    with pytest.raises(ss.Refused, match="native data sets and data sets in Python cannot be combined"):
        ss.ConcatDataset([ss.ImageFolder(photos, SMALL), Photos()])


@pytest.mark.parametrize("opened", [ss.ImageFolder, ss.open_dataset])
def test_classes_argument_sets_class_numbers(photos, opened):
    plain, turned = opened(photos, SMALL), opened(photos, SMALL, classes=("class2", "class0", "class1"))
    assert (plain.classes, turned.classes) == (["class0", "class1", "class2"], ["class2", "class0", "class1"])
    for data in (plain, turned):
        for i in range(len(data)):
            assert f"/{data.classes[data.label(i)]}/" in data.name(i)
    assert read_shape(turned) == (3, 8, 6)
    with pytest.raises(ss.Refused, match="class"):
        opened(photos, SMALL, classes=("class0", "nobody"))
    with pytest.raises(ss.Refused, match="classes is 'ant': give a list of names"):
        opened(photos, SMALL, classes="ant")


def test_label_not_below_num_classes_raises(tmp_path):
    numpy.save(tmp_path / "image.npy", numpy.zeros((6, 4, 4, 3), numpy.uint8))
    numpy.save(tmp_path / "label.npy", numpy.arange(6))
    for count in (0, 6):
        ((_, labels),) = ss.DataLoader(ss.open_dataset(tmp_path, num_classes=count), 6, num_workers=1)
        assert labels.tolist() == list(range(6))
    with pytest.raises(ss.Error, match="field 'label' holds class 5, but there are 5 classes"):
        list(ss.DataLoader(ss.open_dataset(tmp_path, num_classes=5), 6, num_workers=1))


def test_loader_arguments_reach_native_settings(photos, monkeypatch):
    class SettingsCaptured(Exception):
        pass

    def loader(native, settings):
        raise SettingsCaptured(settings)

    monkeypatch.setattr(data_module._native, "Loader", loader)
    with pytest.raises(SettingsCaptured) as told:
        ss.DataLoader(ss.ImageFolder(photos, SMALL), 5, True, num_workers=2, prefetch_factor=3, drop_last=True, seed=7,
                      on_bad_sample="skip", rank=1, world_size=4)
    (settings,) = told.value.args
    assert settings.prefetch_batches == 6  # prefetch_factor batches for each worker
    assert (settings.batch_size, settings.num_workers, settings.seed) == (5, 2, 7)
    assert (settings.shuffle, settings.drop_last, settings.skips_bad_samples) == (True, True, True)
    assert (settings.rank, settings.device) == ((1, 4), "cpu")


def test_negative_epoch_and_position_are_refused(photos):
    loader = ss.DataLoader(ss.ImageFolder(photos, SMALL), 8, num_workers=1)
    with pytest.raises(ss.Refused, match="epoch is -1"):
        loader.set_epoch(-1)
    with pytest.raises(ss.Refused, match="position is -1"):
        loader.load_state_dict({"position": -1, "batches_per_epoch": 7})
