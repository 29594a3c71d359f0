"""Native transforms compute the values of torchvision's transforms of the same names."""

import itertools

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


SIGNED = ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color", "Contrast", "Sharpness")
COLORS = ("Brightness", "Color", "Contrast", "Sharpness", "Posterize", "Solarize", "AutoContrast", "Equalize")


def augmentations(transform, bins, indices, sides, kinds=None):
    """Returns the augmentations that torchvision's transform may choose: names and magnitudes."""
    found = []
    for kind in kinds or transform._AUGMENTATION_SPACE:
        magnitudes = transform._AUGMENTATION_SPACE[kind][0](bins, *sides)
        for magnitude in {0.0} if magnitudes is None else {float(magnitudes[index]) for index in indices}:
            found += [(kind, sign * magnitude) for sign in ((1, -1) if kind in SIGNED and magnitude else (1,))]
    return found


def find_augmentations(transform, images, made, sequences):
    """Returns for each image the sequence of augmentations with which torchvision converts it to `made`, and the share
    of values that differ by more than one level and by any number of levels."""
    found = [((), 1.0, 1.0)] * len(images)
    results = {(): images}
    for sequence in sequences:
        if sequence not in results:
            *first, (kind, magnitude) = sequence
            results[sequence] = transform._apply_image_or_video_transform(
                results[tuple(first)], kind, magnitude, transform.interpolation, transform._fill
            )
        apart = (made.int() - results[sequence].int()).abs().flatten(1)
        shares = (apart > 1).float().mean(1).tolist(), (apart > 0).float().mean(1).tolist()
        found = [min(old, (sequence, *new), key=lambda each: each[1:])
                 for old, new in zip(found, zip(*shares, strict=True), strict=True)]
    return found


def prefixes(sequences):
    """Returns the sequences and their beginnings, short ones first."""
    return sorted({each[:count] for each in sequences for count in range(len(each) + 1)}, key=len)


def test_trivial_augment_applies_torchvisions_augmentations():
    theirs = v2.TrivialAugmentWide(num_magnitude_bins=4, fill=9)
    images = photographs(200, side=40)
    made = T.TrivialAugmentWide(num_magnitude_bins=4, fill=9)(images, sample_ids=range(200))
    sequences = [(each,) for each in augmentations(theirs, 4, range(4), (40, 40))]
    kinds, shares = set(), []
    for ((kind, _),), share, _ in find_augmentations(theirs, images, made, sequences):
        kinds.add(kind)
        # A position that is nearly halfway between two pixels may be rounded to either.
        assert share <= (0.01 if kind in ("ShearX", "ShearY", "Rotate") else 0), kind
        shares.append(share)
    assert kinds == {*theirs._AUGMENTATION_SPACE}
    assert sum(shares) / len(shares) < 0.001


def test_rand_augment_applies_torchvisions_sequences():
    theirs = v2.RandAugment(2, 5, 8)
    images = photographs(24, side=40)
    made = T.RandAugment(2, 5, 8)(images, sample_ids=range(24))
    sequences = prefixes(itertools.product(augmentations(theirs, 8, [5], (40, 40)), repeat=2))
    for sequence, share, _ in find_augmentations(theirs, images, made, sequences):
        assert share < 0.05, sequence


@pytest.mark.parametrize("policy", list(v2.AutoAugmentPolicy))
def test_auto_augment_applies_torchvisions_policies(policy):
    theirs = v2.AutoAugment(policy)
    images = photographs(24, side=40)
    made = T.AutoAugment(policy)(images, sample_ids=range(24))
    sequences = set()
    for pair in theirs._policies:
        steps = [[None, *augmentations(theirs, 10, [index or 0], (40, 40), [kind])] for kind, _, index in pair]
        sequences |= {tuple(filter(None, each)) for each in itertools.product(*steps)}
    for sequence, share, _ in find_augmentations(theirs, images, made, prefixes(sequences)):
        # A shear by 0.2 moves a fifth of the rows or columns by half a pixel more than a whole number of pixels, which
        # may be rounded to either side.
        assert share < (0.2 if any(kind.startswith("Shear") for kind, _ in sequence) else 0.05), sequence


@pytest.mark.parametrize("channels", [1, 3])
def test_augmentations_of_colors_have_torchvisions_bits_in_almost_all_values(channels):
    theirs = v2.TrivialAugmentWide(31)
    images = photographs(100, side=48)[:, :channels]
    made = T.TrivialAugmentWide(31)(images, sample_ids=range(100))
    sequences = [(each,) for each in augmentations(theirs, 31, range(31), (48, 48), COLORS)]
    found = find_augmentations(theirs, images, made, sequences)
    others = [other for _, share, other in found if share == 0]
    assert len(others) > 40
    assert max(others) < 0.01
