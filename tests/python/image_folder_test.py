"""ss.ImageFolder compared with torchvision.datasets.ImageFolder."""

import copy
import os
import pickle
import warnings

import pytest
import slipstream as ss
import torch
from PIL import Image
from slipstream import transforms as T

theirs = pytest.importorskip("torchvision.datasets")
folder = pytest.importorskip("torchvision.datasets.folder")


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(skipped|one class|outside of the class)")
        yield


def write_image(path, color=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (9, 7), (color, 2 * color, 255 - color)).save(path, "PNG")


@pytest.fixture
def tree(tmp_path):
    """Nested folders, names that sort differently with and without their folder, extensions in mixed case, and links."""
    root = tmp_path / "root"
    names = ["b/10.png", "b/9.PNG", "b/x/1.Jpg", "b/x-1/2.jpeg", "b/x/y/z/3.webp", "b/x.tif", "b/\u00e4.png", "b/\u732b.bmp",
             "B/1.TIFF", "B/0.png", "a/2.pgm", "a/skipped.txt", "a/archive.png.gz", "a/no_extension", "a/two.parts.png", "a/.dir.png/4.png"]
    for number, name in enumerate(names):
        write_image(root / name, number)
    write_image(tmp_path / "elsewhere" / "deep" / "5.png", 50)
    (root / "b" / "link").symlink_to(root / "a", target_is_directory=True)
    (root / "b" / "twin").symlink_to(root / "a", target_is_directory=True)
    (root / "c").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (root / "c" / "6.png").symlink_to(root / "b" / "10.png")
    write_image(root / "top.png")
    return root


def numbered(image):
    """The number that write_image() was called with."""
    return int(image[0, 0, 0])


def test_samples_and_order_equal_torchvisions(tree):
    ours, other = ss.ImageFolder(tree), theirs.ImageFolder(tree, is_valid_file=lambda path: (
        folder.is_image_file(path) and "/." not in path))
    assert ours.samples == other.samples and ours.targets == other.targets and ours.imgs == other.imgs
    assert ours.classes == other.classes and ours.class_to_idx == other.class_to_idx


def test_given_extensions_select_the_files_that_torchvision_selects(tree):
    for ends in (".png", (".png", ".tif"), ("parts.png", "10.png", ".jpg", ".pgm", "f", ".gz"), ["png"]):
        other = theirs.DatasetFolder(tree, folder.default_loader, ends if isinstance(ends, str) else tuple(ends),
                                     allow_empty=True)
        ours = ss.ImageFolder(tree, extensions=ends, allow_empty=True)
        assert ours.samples == [each for each in other.samples if "/." not in each[0]]


def test_is_valid_file_gets_and_selects_the_files_of_torchvision(tree):
    def calls(kind):
        called = []
        data = kind(tree, is_valid_file=lambda path: called.append(path) or (path.endswith(("g", "F")) and path))
        return called, data.samples

    assert calls(ss.ImageFolder) == calls(theirs.ImageFolder)


def test_classes_without_images_are_accepted_if_allowed(tree):
    (tree / "empty").mkdir()
    with pytest.raises(ss.Error, match="1 class without images: 'empty'"):
        ss.ImageFolder(tree)
    other = theirs.ImageFolder(tree, allow_empty=True)
    ours = ss.ImageFolder(tree, allow_empty=True)
    assert ours.classes == other.classes == ["B", "a", "b", "c", "empty"] and len(ours) < len(other) + 1
    for name in ours.classes:
        assert (ours.targets.count(ours.class_to_idx[name]) == 0) == (name == "empty")


def test_loader_and_target_transform_are_called_per_sample_as_in_torchvision(tree):
    def samples(kind, functions):
        called = []

        def loader(path):
            called.append(path)
            return Image.open(path).convert("RGB")

        def target_transform(number):
            called.append(number)
            return number * 10 + len(called)

        data = kind(tree, is_valid_file=lambda path: path.lower().endswith("png"), **{
            name: function for name, function in (("loader", loader), ("target_transform", target_transform))
            if name in functions})
        targets = [data[index][1] for index in range(len(data))]
        return targets, called

    for functions in (["loader"], ["target_transform"], ["loader", "target_transform"]):
        assert samples(ss.ImageFolder, functions) == samples(theirs.ImageFolder, functions)


def open_as_gray(path):
    return Image.open(path).convert("L")


def as_text(number):
    return f"class {number}"


def is_png(path):
    return path.endswith(".png")


def test_images_of_loader_get_the_transform(tree):
    data = ss.ImageFolder(tree, T.CenterCrop(4), loader=open_as_gray, extensions=".png")
    image, label = data[0]
    assert image.shape == (1, 4, 4) and label == data.label(0) == 0


@pytest.mark.parametrize("context", ["fork", "spawn"])
@pytest.mark.parametrize("options", [{"loader": open_as_gray}, {"target_transform": as_text},
                                     {"loader": open_as_gray, "target_transform": as_text, "is_valid_file": is_png}])
def test_data_loader_gives_samples_of_python_functions(tree, context, options):
    data = ss.ImageFolder(tree, T.CenterCrop(4), **{"extensions": ".png"} | options if "is_valid_file" not in options
                          else options)
    loader = ss.DataLoader(data, 4, num_workers=2, multiprocessing_context=context)
    images, targets = zip(*loader, strict=True)
    expected = [data[index] for index in range(len(data))]
    assert torch.equal(torch.cat(images), torch.stack([image for image, _ in expected]))
    assert [target for batch in targets for target in (batch.tolist() if isinstance(batch, torch.Tensor) else batch)] == [
        target for _, target in expected]


def test_default_loader_of_torchvision_gives_the_same_images(tree):
    plain = ss.ImageFolder(tree, extensions=".png")
    through_pil = ss.ImageFolder(tree, loader=folder.default_loader, extensions=".png")
    for index in range(len(plain)):
        (image, label), (other, other_label) = plain[index], through_pil[index]
        assert torch.equal(image, other) and label == other_label


def test_names_and_labels_are_known_without_reading(tree):
    def never(path):
        raise AssertionError(path)

    plain = ss.ImageFolder(tree)
    data = ss.ImageFolder(tree, loader=never, target_transform=never)
    assert data.samples == plain.samples and data.classes == plain.classes and len(data) == len(plain)
    part = ss.Subset(data, [5, 2])
    assert [part.label(0), part.name(1)] == [plain.label(5), plain.name(2)] and part.classes == plain.classes


@pytest.mark.parametrize("copied", [lambda data: pickle.loads(pickle.dumps(data)), copy.copy, copy.deepcopy],
                         ids=["pickle", "copy", "deepcopy"])
def test_is_valid_file_is_not_called_again_for_copies(tree, copied):
    called = []

    def is_valid_file(path):
        called.append(path)
        return path.endswith(".png")

    data = ss.ImageFolder(tree, is_valid_file=is_valid_file)
    count = len(called)
    again = copied(data)
    assert len(called) == count == len(set(called)) and again.samples == data.samples
    assert torch.equal(again[3][0], data[3][0])


def test_changed_folder_is_the_same_for_copies_of_selected_files(tree):
    data = ss.ImageFolder(tree, is_valid_file=is_png)
    write_image(tree / "a" / "0.png")
    assert pickle.loads(pickle.dumps(data)).samples == data.samples


def test_relative_root_gives_relative_names(tree, monkeypatch):
    monkeypatch.chdir(tree.parent)
    for options in ({}, {"is_valid_file": is_png}, {"loader": open_as_gray}):
        ours = ss.ImageFolder("root", **options)
        assert ours.name(0).startswith(f"root{os.sep}") and len(ours[0]) == 2


def test_error_in_is_valid_file_is_raised(tree):
    def fails(path):
        raise KeyError("no such split")

    with pytest.raises(KeyError, match="no such split"):
        ss.ImageFolder(tree, is_valid_file=fails)


def test_wrong_arguments_are_refused(tree):
    for name in ("target_transform", "loader", "is_valid_file"):
        with pytest.raises(TypeError, match=f"{name} is 3: give a function"):
            ss.ImageFolder(tree, **{name: 3})
    with pytest.raises(TypeError, match="extensions is .*: give strings"):
        ss.ImageFolder(tree, extensions=[3])
    with pytest.raises(ss.Refused, match="extensions is empty"):
        ss.ImageFolder(tree, extensions=())
    with pytest.raises(ss.Refused, match="extensions and is_valid_file are both given"):
        ss.ImageFolder(tree, extensions=".png", is_valid_file=is_png)
    with pytest.raises(ss.Refused, match="allow_empty is 'yes'"):
        ss.ImageFolder(tree, allow_empty="yes")


def test_transforms_of_whole_batches_are_refused_with_loader(tree):
    mixed = T.Compose([T.CenterCrop(4), T.ToDtype(torch.float32, scale=True), T.MixUp()])
    with pytest.raises(ss.Refused, match="MixUp"):
        ss.DataLoader(ss.ImageFolder(tree, mixed, loader=open_as_gray), 2)


def test_skipped_files_are_reported_once_with_the_reason(tree):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        write_image(tree / "a" / "7.avif")
        data = ss.ImageFolder(tree, T.CenterCrop(4))
        list(ss.DataLoader(ss.Subset(data, [1]), 1))
        pickle.loads(pickle.dumps(data))
    texts = [str(each.message) for each in caught]
    assert sum("have formats that are not supported (3 .avif)" in text for text in texts) == 1
    (others,) = [text for text in texts if "because of their extension" in text]
    assert "9 files skipped" in others and "the first 'a/archive.png.gz'" in others
    assert all(each.filename == __file__ for each in caught if "skipped" in str(each.message))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ss.ImageFolder(tree, loader=open_as_gray, extensions=".png")
    assert any("skipped" in str(each.message) for each in caught)
