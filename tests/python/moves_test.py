"""Transforms are refused if they would move an image, but not the mask or boxes that belong to it."""

import os
import subprocess
from pathlib import Path

import numpy
import pytest
import torch
from PIL import Image

import slipstream as ss

T = ss.transforms
v1 = pytest.importorskip("torchvision.transforms")
v2 = pytest.importorskip("torchvision.transforms.v2")


@pytest.fixture(scope="module")
def shapes(tmp_path_factory):
    """Creates a folder of images/ and masks/."""
    folder = tmp_path_factory.mktemp("data") / "shapes"
    program = os.environ.get("SLIPSTREAM", Path(__file__).parents[2] / "build" / "slipstream")
    subprocess.run([program, "make-data", "segmentation", "--out", folder, "--samples", "6", "--size", "32"],
                   check=True, capture_output=True)
    return folder


def identity(image):
    return image


def refusal(data):
    with pytest.raises(ss.Refused) as raised:
        ss.DataLoader(data, 2, num_workers=1)
    return str(raised.value)


FLIPS = [v2.RandomHorizontalFlip(1.0), v1.RandomHorizontalFlip(1.0),
         v2.Compose([v2.RandomInvert(), v2.RandomApply([v2.RandomHorizontalFlip()])]),
         v1.Compose([v1.RandomApply(torch.nn.ModuleList([v1.RandomHorizontalFlip()]))]),
         torch.nn.Sequential(v1.RandomHorizontalFlip())]


@pytest.mark.parametrize("flip", FLIPS, ids=["v2", "v1", "in v2", "in v1", "in a module"])
def test_torchvision_flip_of_image_with_mask_is_refused(shapes, photos, flip):
    data = ss.open_dataset(shapes, T.Compose([T.CenterCrop(16), flip]))
    message = refusal(data)
    assert ("torchvision's RandomHorizontalFlip would change only the image, and the mask 'label' would no longer "
            "match it") in message
    assert "use slipstream.transforms.RandomHorizontalFlip instead" in message and "leave out" not in message
    assert "the mask 'label'" in refusal(ss.Subset(ss.ConcatDataset([data, data]), [1, 3]))
    assert len(list(ss.DataLoader(ss.ImageFolder(photos, T.Compose([T.CenterCrop(16), flip])), 50, num_workers=1))) == 1


def test_advice_is_to_leave_out_transform_without_our_equivalent(shapes):
    for function in (v2.RandAugment(), v1.RandAugment()):
        message = refusal(ss.open_dataset(shapes, function))
        assert "leave out RandAugment, or move both in __getitem__" in message and " instead" not in message
    both = v2.Compose([v2.RandomCrop(8), v2.ElasticTransform(), v2.RandomCrop(8)])
    assert "torchvision's RandomCrop and ElasticTransform would" in refusal(ss.open_dataset(shapes, both))


def test_color_transforms_and_custom_functions_are_allowed_with_masks(shapes):
    chain = T.Compose([T.CenterCrop(16), v2.ColorJitter(0.4), identity, v1.RandomInvert(), T.RandomVerticalFlip()])
    batches = list(ss.DataLoader(ss.open_dataset(shapes, chain), 3, num_workers=1))
    assert [(images.shape[2:], masks.shape[-2:]) for images, masks in batches] == [((16, 16), (16, 16))] * 2


@pytest.mark.parametrize("container", [T.RandomApply, T.RandomChoice])
def test_containers_move_masks_like_images_in_workers_and_on_the_device(shapes, container, device):
    moves = [T.RandomHorizontalFlip(1), T.RandomVerticalFlip(1), T.ColorJitter(0.4), T.RandomRotation(90)]
    chain = T.Compose([T.CenterCrop(16), container(moves)])
    on_device = {"device": device, "transforms_device": "cuda"} if device == "cuda" else {}
    expected = list(ss.DataLoader(ss.open_dataset(shapes, chain), 3, seed=2, num_workers=1))
    batches = list(ss.DataLoader(ss.open_dataset(shapes, chain), 3, seed=2, num_workers=2, **on_device))
    for theirs, ours in zip(expected, batches, strict=True):
        assert all(torch.equal(a, b.cpu()) for a, b in zip(theirs, ours, strict=True))
    plain = list(ss.DataLoader(ss.open_dataset(shapes, T.CenterCrop(16)), 3, seed=2, num_workers=1))
    assert any(not torch.equal(a[1], b[1]) for a, b in zip(plain, expected, strict=True))


IMAGE = torch.arange(3 * 6 * 8, dtype=torch.uint8).view(3, 6, 8)


@pytest.mark.parametrize("mask", [torch.zeros(6, 8), torch.zeros(2, 6, 8), torch.zeros(6, 8, 1), torch.zeros(1, 1, 6, 8)])
@pytest.mark.parametrize("mover", [T.RandomHorizontalFlip(1), T.Compose([T.ColorJitter(0.1), T.RandomCrop(4)]),
                                   v2.RandomHorizontalFlip(), T.Resize((3, 4))])
def test_geometric_transform_with_field_of_image_size_is_refused(mask, mover):
    samples = [{"image": IMAGE, "mask": mask, "label": i} for i in range(4)]
    message = refusal(ss.PythonDataset(samples, mover))
    shape = " x ".join(map(str, mask.shape))
    assert ("changes the positions of pixels, and would be applied to field 'image' only. "
            f"Field 'mask' of {shape} has the same height x width, 6 x 8, and would no longer match") in message
    assert "to both fields in __getitem__" in message
    flat = [{"image": IMAGE, "mask": mask.flatten()}] * 2
    assert len(next(iter(ss.DataLoader(ss.PythonDataset(flat, mover), 2, num_workers=1)))["mask"]) == 2


def test_refusal_names_the_geometric_transform():
    assert refusal(ss.PythonDataset([(IMAGE, torch.zeros(6, 8))] * 2, T.Compose([T.Grayscale(3), T.RandomCrop(2)]))
                   ).startswith("RandomCrop changes the positions of pixels, and would be applied to field '0' only. "
                                "Field '1' of 6 x 8")


def test_color_transforms_are_allowed_with_fields_of_image_size():
    chain = T.Compose([T.ColorJitter(0.1), T.GaussianBlur(3), T.RandomErasing(), v2.RandomInvert(), identity,
                       T.Normalize([0.5], [0.5])])
    image, mask = next(iter(ss.DataLoader(ss.PythonDataset([(IMAGE, torch.ones(6, 8))] * 2, chain), 2, num_workers=1)))
    assert image.shape == (2, 3, 6, 8) and mask.eq(1).all()


def test_two_pil_images_get_the_same_crop_and_flips():
    image = Image.fromarray(IMAGE.permute(1, 2, 0).contiguous().numpy())
    chain = T.Compose([T.RandomHorizontalFlip(), T.RandomVerticalFlip(), T.RandomCrop(4)])
    for seed in range(5):
        loader = ss.DataLoader(ss.PythonDataset([(image, image.convert("L"))] * 4, chain), 4, seed=seed, num_workers=1)
        colored, gray = next(iter(loader))
        for i in range(4):
            assert torch.equal(torch.from_numpy(numpy_gray(colored[i])), gray[i, 0])


def test_palette_mask_next_to_pil_image_raises():
    image = Image.fromarray(IMAGE.permute(1, 2, 0).contiguous().numpy())
    pair = {"image": image, "mask": image.convert("P")}
    for chain in (None, T.Resize((6, 6))):
        with pytest.raises(ss.Error, match=r"field 'mask' is a PIL image with a palette .*numpy.array\(mask\)"):
            list(ss.DataLoader(ss.PythonDataset([pair] * 2, chain), 2, num_workers=1))


def test_palette_mask_next_to_tensor_raises():
    palette, tensor = Image.new("P", (8, 6)), torch.zeros(3, 6, 8)
    for sample in ((tensor, palette), {"image": palette, "other": tensor}):
        with pytest.raises(ss.Error, match="is a PIL image with a palette"):
            ss.DataLoader([sample] * 2, 2, num_workers=1)
    assert next(iter(ss.DataLoader([(palette, tensor)] * 2, 2, num_workers=1)))[0].shape == (2, 3, 6, 8)


def cropped(image):
    return image[:, :4]


def inverted(image):
    return 255 - image


def arrays(folder, transform, **fields):
    for name, values in fields.items():
        numpy.save(folder / f"{name}.npy", values)
    return ss.open_dataset(folder, transform)


PIXELS = numpy.arange(4 * 8 * 8 * 3, dtype=numpy.uint8).reshape(4, 8, 8, 3)
BESIDE = {"mask": {"label": PIXELS[..., 0].astype("i8")}, "boxes": {"boxes": numpy.float32([[[1, 1, 3, 4]]] * 4)}}


@pytest.mark.parametrize("beside", ["mask", "boxes", "in Python"])
def test_function_resizing_image_with_mask_or_boxes_raises(tmp_path, beside):
    def data(transform):
        if beside != "in Python":
            return arrays(tmp_path, transform, image=PIXELS, **BESIDE[beside])
        return ss.PythonDataset([(torch.from_numpy(each).permute(2, 0, 1), torch.zeros(8, 8)) for each in PIXELS], transform)

    told = "it makes an image of 4 x 8 pixels from 8 x 8, but receives only the image, and another field"
    with pytest.raises(ss.Error, match=told):
        ss.DataLoader(data(cropped), 4, num_workers=1)
    with pytest.raises(ss.Error, match=told):
        data(cropped)[0]
    place = 1 if beside == "boxes" else 0
    images = next(iter(ss.DataLoader(data(inverted), 4, num_workers=1)))[place]
    assert torch.equal(images.permute(0, 2, 3, 1), torch.from_numpy(255 - PIXELS))
    assert torch.equal(data(inverted)[3][place], images[3])


def drawn(image):
    return image * 0 + torch.randint(0, 200, (1,), dtype=torch.uint8)


def test_function_uses_same_random_numbers_for_images_of_a_sample():
    """The images may differ in size and channels."""
    pair = (Image.new("RGB", (8, 6)), Image.new("L", (5, 4)))
    data = ss.PythonDataset([pair] * 8, T.Compose([drawn, v2.RandomInvert()]))
    for one, other in [*ss.DataLoader(data, num_workers=1), *(data[i] for i in range(8))]:
        assert (one.shape[-3:], other.shape[-3:]) == ((3, 6, 8), (1, 4, 5)) and one.unique().tolist() == other.unique().tolist()
    assert len({data[0][0].max().item() for _ in range(9)}) > 1


def test_function_on_data_set_without_images_is_refused(tmp_path):
    data = arrays(tmp_path, inverted, label=numpy.arange(4))
    for use in (lambda: ss.DataLoader(data, 2, num_workers=1), lambda: data[0]):
        with pytest.raises(ss.Refused, match="transforms in Python apply to images, but the data set has none"):
            use()


@pytest.mark.parametrize(("fields", "told"), [
    ({"image": numpy.float32(PIXELS), "label": numpy.arange(4)}, r"'image' \(other\), 'label' \(label\)"),
    ({"image": PIXELS[..., 0]}, r"'image' \(mask\)")], ids=["float32", "gray"])
def test_transform_without_applicable_field_is_refused(tmp_path, fields, told):
    for transform in (T.Normalize([0.5], [0.5]), T.Compose([T.ColorJitter(0.5)])):
        name = "normalize" if isinstance(transform, T.Normalize) else "color_jitter"
        data = arrays(tmp_path, transform, **fields)
        for use in (lambda data: ss.DataLoader(data, 2, num_workers=1), lambda data: data[0]):
            with pytest.raises(ss.Refused, match=f"no field that {name} applies to: its fields are {told}"):
                use(data)


def numpy_gray(image):
    return numpy.array(Image.fromarray(image.permute(1, 2, 0).contiguous().numpy()).convert("L"))
