"""Native transforms compute the values of torchvision's transforms of the same names."""

import pytest
import torch
from torchvision.transforms import v2

import slipstream as ss

T = ss.transforms


def photographs(count: int = 4, side: int = 96) -> torch.Tensor:
    """Returns uint8 images that resemble photographs: smooth areas, edges, noise, and levels that are not used."""
    generator = torch.Generator().manual_seed(3)
    coarse = torch.rand(count, 3, 6, 6, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, (side, side), mode="bicubic")
    smooth[:, :, side // 3 :, : side // 2] *= 0.6
    noise = torch.randn(count, 3, side, side, generator=generator)
    return (20 + 200 * smooth + 4 * noise).clamp(0, 255).to(torch.uint8)


SAME = {
    "invert": (T.RandomInvert(1), v2.RandomInvert(1)),
    "posterize": (T.RandomPosterize(3, 1), v2.RandomPosterize(3, 1)),
    "posterize to 0 bits": (T.RandomPosterize(0, 1), v2.RandomPosterize(0, 1)),
    "solarize": (T.RandomSolarize(0.4, 1), v2.RandomSolarize(0.4, 1)),
    "blur": (T.RandomAdjustSharpness(0, 1), v2.RandomAdjustSharpness(0, 1)),
    "sharpen": (T.RandomAdjustSharpness(2.7, 1), v2.RandomAdjustSharpness(2.7, 1)),
    "autocontrast": (T.RandomAutocontrast(1), v2.RandomAutocontrast(1)),
    "equalize": (T.RandomEqualize(1), v2.RandomEqualize(1)),
}


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", SAME)
def test_adjustments_of_uint8_images_have_torchvisions_bits(name, channels):
    ours, theirs = SAME[name]
    images = photographs()[:, :channels]
    assert torch.equal(ours(images), theirs(images))


@pytest.mark.parametrize("name", [name for name in SAME if name != "equalize"])
def test_adjustments_of_float_images_match_torchvision(name):
    ours, theirs = SAME[name]
    images = photographs().float() / 255
    assert torch.allclose(ours(images), theirs(images), rtol=0, atol=1e-6)


def test_random_apply_applies_all_transforms_or_none():
    images = photographs(64, side=16)
    made = T.RandomApply([T.RandomInvert(1), T.RandomHorizontalFlip(1)], p=0.3)(images, sample_ids=range(64))
    applied = v2.RandomApply([v2.RandomInvert(1), v2.RandomHorizontalFlip(1)], p=1)(images)
    count = sum(int(torch.equal(*pair)) for pair in zip(made, applied, strict=True))
    assert count + sum(int(torch.equal(*pair)) for pair in zip(made, images, strict=True)) == 64
    assert 8 <= count <= 32


def test_random_choice_applies_one_transform():
    images = photographs(64, side=16)
    made = T.RandomChoice([T.RandomInvert(1), T.RandomEqualize(1)], p=[1, 3])(images, sample_ids=range(64))
    inverted, equalized = v2.RandomInvert(1)(images), v2.RandomEqualize(1)(images)
    count = sum(int(torch.equal(*pair)) for pair in zip(made, inverted, strict=True))
    assert count + sum(int(torch.equal(*pair)) for pair in zip(made, equalized, strict=True)) == 64
    assert 6 <= count <= 28


@pytest.mark.parametrize("container", [T.RandomApply, T.RandomChoice])
def test_containers_refuse_other_functions(container):
    for given in (torch.neg, v2.RandomInvert(), T.RandomInvert, T.Compose([T.RandomInvert(), torch.neg])):
        with pytest.raises(ss.Refused, match="can contain only transforms of slipstream.transforms, not"):
            container([given])
    with pytest.raises(ss.Refused, match="there are 0 transforms"):
        container([])
    with pytest.raises(ss.Refused, match="works on whole batches, so it cannot be in a container"):
        container([T.MixUp()])
