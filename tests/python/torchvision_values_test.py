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
