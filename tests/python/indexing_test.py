"""Samples of data sets by index, and PyTorch's DataLoader around data sets."""

import numpy
import pytest
import torch
from PIL import Image
from torchvision.transforms import v2

import slipstream as ss

T = ss.transforms
CHAIN = T.Compose([T.Resize((20, 24)), T.CenterCrop(16), T.Normalize([0.5], [0.25])])


def darker(image):
    return image // 2


class Mixed:
    """A data set with a PIL image among other values."""

    def __len__(self):
        return 3

    def __getitem__(self, i):
        return {"image": Image.new("RGB", (30, 20 + i), (i, 2, 3)), "number": i, "name": f"n{i}",
                "more": [torch.full((2,), i), numpy.float32(i)]}


@pytest.fixture
def arrays(tmp_path):
    """Creates images with masks, labels and boxes."""
    generator = numpy.random.default_rng(1)
    numpy.save(tmp_path / "image.npy", generator.integers(0, 256, (4, 30, 40, 3), numpy.uint8))
    numpy.save(tmp_path / "mask.npy", generator.integers(0, 5, (4, 30, 40), numpy.uint8))
    numpy.save(tmp_path / "label.npy", numpy.arange(4))
    numpy.save(tmp_path / "boxes.npy", numpy.tile(numpy.float32([[3, 4, 20, 25]]), (4, 2, 1)))
    return tmp_path


def equal(ours, theirs):
    return ours.dtype == theirs.dtype and torch.equal(ours, theirs)


def samples_equal_loaded_ones(data):
    """Returns whether each sample equals the one from a loader."""
    batches = list(ss.DataLoader(data, 1, num_workers=1))
    samples = [torch.utils.data.default_collate([data[i]]) for i in range(len(data))]
    return len(batches) == len(samples) and all(
        len(batch) == len(sample) and all(map(equal, batch, sample))
        for batch, sample in zip(batches, samples, strict=True))


def test_indexed_sample_equals_sample_of_the_loader(photos, arrays):
    data = ss.ImageFolder(photos, CHAIN)
    for each in (data, ss.Subset(data, [49, 3, 3]), ss.ConcatDataset([ss.Subset(data, [7]), data]),
                 ss.open_dataset(photos, CHAIN), ss.open_dataset(arrays, T.CenterCrop((16, 20))),
                 ss.ImageFolder(photos, T.Compose([darker, T.CenterCrop(16)])),
                 ss.PythonDataset([(torch.arange(1200, dtype=torch.uint8).view(3, 20, 20), 1.5)], CHAIN)):
        assert samples_equal_loaded_ones(each), each


def test_indexed_sample_has_transformed_fields(photos, arrays):
    image, label = ss.ImageFolder(photos)[20]
    assert (image.shape, image.dtype, image.is_contiguous()) == ((3, 40, 40), torch.uint8, True)
    assert type(label) is int and label == ss.ImageFolder(photos).label(20)
    opened = ss.open_dataset(arrays, T.RandomHorizontalFlip(1))
    by_name = dict(zip(opened.fields, opened[1], strict=True))
    mask = torch.from_numpy(numpy.load(arrays / "mask.npy")[1])
    assert equal(by_name["mask"], mask.flip(1).long()) and by_name["label"] == 1
    assert by_name["boxes"].tolist() == [[20, 4, 37, 25]] * 2


def test_python_sample_keeps_its_structure():
    data = ss.PythonDataset(Mixed(), T.Compose([T.CenterCrop(8), darker]))
    for sample in (data[1], ss.Subset(data, [2, 1])[1], ss.ConcatDataset([data, data])[4]):
        assert equal(sample["image"], torch.tensor([0, 1, 1], dtype=torch.uint8).view(3, 1, 1).expand(3, 8, 8))
        assert (sample["number"], sample["name"], sample["more"][1]) == (1, "n1", 1)
        assert equal(sample["more"][0], torch.tensor([1, 1])) and list(sample) == list(Mixed()[1])
    assert ss.PythonDataset(Mixed())[2]["image"].shape == (3, 22, 30)


def test_negative_index_works_and_bad_index_raises(photos):
    for data in (ss.ImageFolder(photos), ss.PythonDataset([(torch.ones(1), i) for i in range(50)])):
        last = data[49][1]
        assert data[-1][1] == last and data[torch.tensor(-1)][1] == data[numpy.int64(49)][1] == last
        assert len(list(data)) == 50 and data[-50][1] == data[0][1]
        for outside in (50, -51, 1 << 70):
            with pytest.raises(IndexError, match=f"sample {outside} does not exist: the data set has 50 samples"):
                data[outside]
        for wrong in (slice(2), "1", 1.0, None, [1]):
            with pytest.raises(TypeError, match="index is .*: give a whole number; slipstream.Subset takes several"):
                data[wrong]


@pytest.mark.parametrize("chain", [[T.RandomResizedCrop(16)], [T.RandomCrop(30), darker, T.RandomResizedCrop(16)]])
def test_random_transforms_use_pytorchs_generator(photos, chain):
    data = ss.ImageFolder(photos, T.Compose(chain))
    torch.manual_seed(3)
    one, two = data[5][0], data[5][0]
    assert not torch.equal(one, two)
    torch.manual_seed(3)
    assert equal(one, data[5][0]) and equal(two, data[5][0])
    torch.manual_seed(3)
    batches = list(ss.DataLoader(data, 1, seed=int(torch.randint(1 << 62, ())), num_workers=1))
    assert equal(one, batches[5][0][0])


def test_fixed_transforms_leave_pytorchs_generator_unchanged(photos):
    before = torch.get_rng_state()
    ss.ImageFolder(photos, CHAIN)[0]
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_torch_loader_and_pipeline_give_batches_of_our_loader(photos, context):
    data = ss.Subset(ss.ImageFolder(photos, T.Compose([CHAIN, darker])), range(10))
    loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=1, multiprocessing_context=context)
    ours = list(ss.DataLoader(data, 4, num_workers=1))
    for batches in (list(loader), list(ss.Pipeline(loader, device="cpu"))):
        assert all(equal(x, y) for a, b in zip(batches, ours, strict=True) for x, y in zip(a, b, strict=True))


def test_doctor_measures_torch_loader_around_image_folder(photos):
    data = ss.ImageFolder(photos, CHAIN)
    module = torch.nn.Linear(16, 2)
    loader = torch.utils.data.DataLoader(torch.utils.data.Subset(data, range(10)), batch_size=4)
    report = ss.doctor(loader, lambda batch: module(batch[0]).sum().backward(), device="cpu", budget=1)
    assert "data set" in report.text()


def test_torch_workers_transform_differently_each_epoch(photos):
    data = ss.Subset(ss.ImageFolder(photos, T.RandomResizedCrop(16)), [1, 1])
    for persistent in (False, True):
        loader = torch.utils.data.DataLoader(data, batch_size=2, num_workers=1, persistent_workers=persistent)
        one, two = (next(iter(loader))[0] for _ in range(2))
        assert not torch.equal(one, two) and not torch.equal(one[0], one[1])


class Numbered(ss.ImageFolder):
    def __getitem__(self, index):
        return *super().__getitem__(index), index


def test_image_folder_subclass_may_extend_getitem(photos):
    data = Numbered(photos, T.RandomHorizontalFlip(1))
    image, label, number = data[4]
    plain = ss.ImageFolder(photos)[4]
    assert equal(image, plain[0].flip(2)) and (label, number) == (plain[1], 4)
    batch = list(ss.DataLoader(data, 1, num_workers=1))[4]
    assert equal(batch[0][0], image) and batch[2].tolist() == [4]
    assert data.transform is not None and equal(ss.PythonDataset(data, T.RandomHorizontalFlip(1))[4][0], plain[0])


class Slotted(ss.ImageFolder):
    __slots__ = ("extra",)

    def __getitem__(self, index):
        return *super().__getitem__(index), self.extra


def test_slots_of_image_folder_subclass_are_available(photos):
    data = Slotted(photos, T.CenterCrop(8))
    data.extra = 5
    assert next(iter(ss.DataLoader(data, 2, num_workers=1)))[2].tolist() == [5, 5]


def test_error_of_indexed_sample_names_the_sample(photos, arrays, tmp_path):
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "1.jpg").write_bytes(b"none")
    with pytest.raises(ss.Error, match=r"step 'decode' of sample 0 \(.*1.jpg\)"):
        ss.ImageFolder(tmp_path)[0]
    with pytest.raises(ss.Error, match=r"step 'random_crop_0' of sample 1 \(.*jpg\)"):
        ss.ImageFolder(photos, T.RandomCrop(41))[1]
    for data in (ss.ImageFolder(photos, torch.sum), ss.PythonDataset(Mixed(), torch.sum)):
        with pytest.raises(ss.Error, match="sample 1.*: sum returned a tensor of one value.*must return an image"):
            data[1]
    with pytest.raises(ZeroDivisionError):
        ss.ImageFolder(photos, lambda image: 1 // 0)[0]
    with pytest.raises(ss.Error, match="sample 0: field 'sample' is of type object"):
        ss.PythonDataset([object()])[0]


def test_indexing_refuses_what_a_loader_refuses(photos, arrays):
    with pytest.raises(ss.Refused, match="would change only the image"):
        ss.open_dataset(arrays, v2.RandomHorizontalFlip())[0]
    beside = [(torch.zeros(3, 20, 20, dtype=torch.uint8), torch.zeros(20, 20))]
    with pytest.raises(ss.Refused, match="would be applied to field '0' only"):
        ss.PythonDataset(beside, T.CenterCrop(8))[0]
    with pytest.raises(ss.Refused, match="MixUp works on whole batches, so it cannot be applied to a single sample"):
        ss.ImageFolder(photos, T.Compose([T.CenterCrop(8), T.MixUp()]))[0]
    with pytest.raises(ss.Refused, match="leave MixUp out of its transform"):
        ss.PythonDataset(Mixed(), T.MixUp())[0]
    with pytest.raises(ss.Refused, match="needs a loader or another iterable of batches"):
        ss.Pipeline(ss.ImageFolder(photos))
