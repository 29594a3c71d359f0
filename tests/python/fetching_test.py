"""Data sets are read as PyTorch's loader reads them: with __getitems__ if they have it."""

import pytest
import torch
from tensors import all_equal
from torch.utils.data import DataLoader, Dataset, Subset, default_collate

import slipstream as ss


class Table:
    """A data set that can only read several rows at once."""

    def __len__(self):
        return 32

    def __getitems__(self, indices):
        return [torch.full((4,), float(index)) for index in indices]


class TableOfTorch(Table, Dataset):
    """Inherits __getitem__ from torch's base class, which raises NotImplementedError."""


class OnlyPart(Subset):
    """A Subset that PyTorch reads sample by sample."""

    __getitems__ = None


class Whole(Dataset):
    """Returns whole batches, for a collate_fn that accepts them."""

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.full((4,), float(index))

    def __getitems__(self, indices):
        return default_collate([self[index] for index in indices])


def read(batch):
    assert batch.shape[1:] == (4,)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("dataset", [Table(), TableOfTorch(), Subset(Table(), [3, 1, 2, 0, 5, 4, 7, 6])])
def test_doctor_reads_data_set_with_getitems_only(dataset, workers):
    loader = DataLoader(dataset, batch_size=4, num_workers=workers)
    assert ss.doctor(loader, read, device="cpu", budget=0.3).rate.value > 0


def test_doctor_reads_subset_without_getitems():
    loader = DataLoader(OnlyPart(Whole(), [3, 1, 2, 0]), batch_size=2)
    assert ss.doctor(loader, read, device="cpu", budget=0.3).rate.value > 0


class Drawing(Table):
    """Uses a generator that is referenced only by the function that reads several rows."""

    def __getitems__(self, indices):
        return [torch.rand(4, generator=GENERATOR) for _ in indices]


GENERATOR = torch.Generator()


def test_doctor_restores_generator_used_in_getitems():
    before = GENERATOR.get_state()
    ss.doctor(DataLoader(Drawing(), batch_size=4), read, device="cpu", budget=0.3)
    assert torch.equal(GENERATOR.get_state(), before)


@pytest.mark.parametrize("dataset", [Table(), TableOfTorch(), Subset(Table(), [3, 1, 2, 0])])
def test_loader_reads_data_set_with_getitems_only(dataset):
    assert all_equal(ss.DataLoader(dataset, 4, num_workers=1), DataLoader(dataset, 4))
    data = ss.PythonDataset(dataset)
    assert torch.equal(data[1], dataset.__getitems__([1])[0]) and data.fields == ["sample"]
    assert all_equal(ss.DataLoader(ss.Subset(dataset, [2, 0]), 2, num_workers=1), DataLoader(Subset(dataset, [2, 0]), 2))


class Both(Table):
    def __getitem__(self, index):
        return torch.full((4,), -1.0)


def test_getitems_is_preferred_as_in_pytorch():
    assert all_equal(ss.DataLoader(Both(), 4, num_workers=1), DataLoader(Both(), 4))


def test_getitems_that_gives_whole_batches_is_not_used():
    assert all_equal(ss.DataLoader(Whole(), 4, num_workers=1), DataLoader(OnlyPart(Whole(), range(8)), 4))


def test_getitems_of_image_folder_subclass_is_used(photos):
    class Negative(ss.ImageFolder):
        def __getitems__(self, indices):
            return [(255 - image, label) for image, label in map(self.__getitem__, indices)]

    crop = ss.transforms.CenterCrop(8)
    plain, negative = (ss.DataLoader(kind(photos, crop), 10, num_workers=1) for kind in (ss.ImageFolder, Negative))
    assert all_equal([255 - images for images, _ in plain], [images for images, _ in negative])


def test_index_error_in_getitems_reports_expected_sample_count():
    class Short(Table):
        def __getitems__(self, indices):
            return [[torch.zeros(4)][index] for index in indices]

    with pytest.raises(ss.Error, match=r"len\(\) is 32, so it must have a sample 1"):
        list(ss.DataLoader(Short(), 4, num_workers=1))
