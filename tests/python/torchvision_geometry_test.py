"""Results of resizing, cropping and padding equal those of torchvision, up to the differences in docs/transforms.md."""

import numpy
import pytest
import torch
from PIL import Image
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F

import slipstream as ss

T = ss.transforms
MODES = {"nearest": v2.InterpolationMode.NEAREST, "nearest-exact": v2.InterpolationMode.NEAREST_EXACT,
         "bilinear": v2.InterpolationMode.BILINEAR, "bicubic": v2.InterpolationMode.BICUBIC}
SIZES = [(37, 53), (64, 91), (150, 211), (97, 40), (300, 333)]


def photographs(count, height, width):
    """Returns a batch of images with the contents of photographs: shading, textures, sharp edges and noise."""
    generator = torch.Generator().manual_seed(1)
    images = torch.zeros(count, 3, height, width)
    for cells, strength in ((2, 120), (7, 60), (25, 30), (80, 15)):
        field = torch.rand(count, 3, cells, cells, generator=generator) - 0.5
        images += strength * torch.nn.functional.interpolate(field, (height, width), mode="bicubic", align_corners=True)
    rows, columns = torch.arange(height)[:, None], torch.arange(width)[None]
    for _ in range(6):
        y, x, radius, level = (torch.rand(4, generator=generator) * torch.tensor([height, width, height / 4, 255])).tolist()
        images[:, :, (rows - y) ** 2 + (columns - x) ** 2 < radius**2] = level - 127
    images += 127 + 3 * torch.randn(images.shape, generator=generator)
    return images.clamp(0, 255).round().to(torch.uint8)


LEVELS = photographs(2, 121, 177)
FLOATS = LEVELS / 255


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_resize_is_within_rounding_of_torchvision(mode, size, antialias):
    own = T.Resize(size, mode, antialias=antialias)
    theirs = v2.Resize(size, MODES[mode], antialias=antialias)
    difference = (own(LEVELS).int() - theirs(LEVELS).int()).abs()
    assert (difference > 1).float().mean() <= (2e-5 if mode == "bicubic" else 0)
    assert difference.max() <= 2
    torch.testing.assert_close(own(FLOATS), theirs(FLOATS), rtol=0, atol=1e-5)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_antialiased_resize_equals_pillow(mode, size):
    """Pillow 13 changes the order of the axes for some sizes, but not for these."""
    own = T.Resize(size, mode)(LEVELS).permute(0, 2, 3, 1)
    images = [Image.fromarray(levels.permute(1, 2, 0).numpy()) for levels in LEVELS]
    for image, result in zip(images, own, strict=True):
        theirs = image.resize(size[::-1], Image.Resampling[mode.upper()])
        assert numpy.array_equal(result.numpy(), numpy.asarray(theirs))


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_nearest_resize_equals_torchvision(mode, size):
    own, theirs = T.Resize(size, MODES[mode]), v2.Resize(size, MODES[mode])
    assert torch.equal(own(LEVELS), theirs(LEVELS))
    assert torch.equal(own(FLOATS), theirs(FLOATS))


@pytest.mark.parametrize(("size", "max_size"), [(60, None), (60, 80), (60, 90), (None, 99), (200, 250)])
@pytest.mark.parametrize("images", [LEVELS, LEVELS.mT], ids=["landscape", "portrait"])
def test_resize_gives_sizes_of_torchvision(images, size, max_size):
    own = T.Resize(size, "nearest", max_size)(images)
    assert torch.equal(own, v2.Resize(size, MODES["nearest"], max_size)(images))


@pytest.mark.parametrize("mode", MODES)
def test_random_resized_crop_resizes_its_part_as_torchvision(mode):
    """The part is found by cropping an image of coordinates."""
    crop = T.RandomResizedCrop((50, 60), interpolation=mode)
    places = torch.stack(torch.meshgrid(torch.arange(121.0), torch.arange(177.0), indexing="ij"))
    for sample in range(6):
        ramp = T.RandomResizedCrop((50, 60), antialias=False)(places[None], [sample])[0]
        (top, left), (step_y, step_x) = ramp[:, 25, 30], ramp[:, 26, 31] - ramp[:, 25, 30]
        height, width = round(50 * step_y.item()), round(60 * step_x.item())
        top, left = round(top.item() - 25.5 * step_y.item() + 0.5), round(left.item() - 30.5 * step_x.item() + 0.5)
        theirs = F.resized_crop(LEVELS[:1], top, left, height, width, [50, 60], MODES[mode], antialias=True)
        assert (crop(LEVELS[:1], [sample]).int() - theirs.int()).abs().max() <= (0 if "nearest" in mode else 1)


PADDING_MODES = ("constant", "edge", "reflect", "symmetric")


@pytest.mark.parametrize("mode", PADDING_MODES)
@pytest.mark.parametrize("padding", [3, [4, 9], [1, 0, 20, 7]], ids=str)
@pytest.mark.parametrize("fill", [0, 9, [1, 2, 3]], ids=str)
def test_pad_equals_torchvision(padding, fill, mode):
    if isinstance(fill, list) and mode != "constant":
        fill = 0  # torchvision accepts a list only in the mode that uses it
    own, theirs = T.Pad(padding, fill, mode), v2.Pad(padding, fill, mode)
    assert torch.equal(own(LEVELS), theirs(LEVELS))
    assert torch.equal(own(FLOATS), theirs(FLOATS))


@pytest.mark.parametrize("size", [(121, 177), (130, 190), (133, 100), (60, 181), (122, 178)], ids=str)
def test_center_crop_equals_torchvision(size):
    assert torch.equal(T.CenterCrop(size)(LEVELS), v2.CenterCrop(size)(LEVELS))


@pytest.mark.parametrize("mode", PADDING_MODES)
@pytest.mark.parametrize("size", [(100, 90), (130, 190), (180, 60)], ids=str)
@pytest.mark.parametrize("padding", [None, (5, 0, 9, 2)], ids=str)
def test_random_crop_is_a_part_of_the_image_that_torchvision_pads(size, padding, mode):
    height, width = 121, 177
    left, top, right, bottom = padding or (0, 0, 0, 0)
    down, across = max(size[0] - height - top - bottom, 0), max(size[1] - width - left - right, 0)
    padded = F.pad(LEVELS[:1], [left + across, top + down, right + across, bottom + down], [7], mode)
    crop = T.RandomCrop(size, padding, pad_if_needed=True, fill=7, padding_mode=mode)
    parts = padded.unfold(2, size[0], 1).unfold(3, size[1], 1)[0].permute(1, 2, 0, 3, 4).flatten(0, 1)
    found = set()
    for sample in range(8):
        matches = (parts == crop(LEVELS[:1], [sample])).flatten(1).all(1).nonzero()
        assert len(matches) >= 1
        found.add(int(matches[0]))
    assert len(found) > 1
