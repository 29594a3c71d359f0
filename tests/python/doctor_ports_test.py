"""Which native loader slipstream.doctor predicts and tries, instead of the user's loader."""

import types

import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, default_collate
from torchvision import datasets
from torchvision.transforms import v2

from slipstream import _native
from slipstream._doctor.loaders import Loaders
from slipstream._doctor.parts import Parts, find_sites
from slipstream._doctor.port import Ports

CHAIN = v2.Compose([v2.CenterCrop(8), v2.ToDtype(torch.float32, scale=True)])


class Tensors(torch.utils.data.Dataset):
    def __init__(self, transform=CHAIN):
        self.transform = transform

    def __len__(self):
        return 12

    def __getitem__(self, index):
        return self.transform(torch.full((3, 32, 32), index, dtype=torch.uint8)), index


def collate(samples):
    return default_collate(samples)


def make_ports(loader, sizes):
    """Returns Ports of a loader whose steps give samples of these sizes."""
    loaders = Loaders(loader, False)
    parts = Parts(loaders.dataset, [site for site in find_sites(loaders.dataset) if site.attribute == "transform"])
    names = [*(step.name for step in parts.steps), "collate"]
    costs = [types.SimpleNamespace(name=name, bytes=size) for name, size in zip(names, [*sizes, 1], strict=True)]
    return Ports(loaders, parts, costs)


@pytest.fixture
def asked(monkeypatch):
    """Collects what is predicted. The rate is 10 for each step that runs natively."""
    asked = []

    def predict(observed, diagnosis, seconds, *options):
        asked.append((seconds, *options))
        return types.SimpleNamespace(predicted=types.SimpleNamespace(value=10 * len(seconds)))

    monkeypatch.setattr(_native, "port_to_native", predict)
    monkeypatch.setattr(_native, "what_if", predict)
    return asked


BOTH = {"CenterCrop": 0.002, "ToDtype": 0.001}


@pytest.mark.parametrize(("sizes", "kept"), [((3072, 192, 768), [1, 0]), ((3072, 3072, 768), [2, 0]), ((192, 192, 768), [0])])
def test_transforms_that_make_samples_much_smaller_may_stay_in_worker_processes(sizes, kept):
    assert make_ports(DataLoader(Tensors(), 4), sizes).kept() == kept


def test_loader_with_the_higher_prediction_is_tried_first(asked):
    ports = make_ports(DataLoader(Tensors(), 4), (3072, 192, 768))
    assert ports.predicted(None, None, {"ToDtype": 0.001}).predicted.value == 10
    assert ports.kept() == [1, 0], "one transform alone does not decide"
    assert ports.predicted(None, None, BOTH).predicted.value == 20
    assert asked[2:] == [({"ToDtype": 0.001}, True), (BOTH, True)] and ports.kept() == [0, 1]


@pytest.mark.parametrize("loader", [
    DataLoader(Tensors(), 4, collate_fn=collate),
    DataLoader(Tensors(), None),
])
def test_batches_that_python_makes_keep_their_costs(asked, loader):
    make_ports(loader, (3072, 192, 768)).predicted(None, None, BOTH)
    assert asked == [(BOTH,)]


@pytest.fixture
def folder(tmp_path):
    for number in range(4):
        path = tmp_path / f"class{number % 2}" / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        Image.new("RGB", (32, 32), (number, 0, 0)).save(path)
    return tmp_path


def test_image_folder_is_measured_in_a_native_loader(asked, folder):
    chain = v2.Compose([v2.CenterCrop(8), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
    ports = make_ports(DataLoader(datasets.ImageFolder(folder, chain), 4), (3072, 192, 192, 768))
    assert ports.kept() == [0], "no sample passes from process to process"
    ports.predicted(None, None, {"CenterCrop": 0.002})
    ports.predicted(None, None, {"CenterCrop": 0.002, "ToImage": 0.0, "ToDtype": 0.001})
    (one, has_processes), (whole, has_none) = asked
    assert one == {"CenterCrop": 0.002} and has_processes and not has_none
    first, *others = whole.values()
    assert list(whole) == ["data set", "CenterCrop", "ToImage", "ToDtype", "collate"]
    assert first > 0 and others == [0.0] * 4
