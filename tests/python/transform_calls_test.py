"""Messages of transforms that are called with unsuitable objects."""

import functools

import numpy
import pytest
import torch
from PIL import Image

import slipstream as ss

T = ss.transforms
IMAGES = torch.zeros(4, 3, 8, 8, dtype=torch.uint8)


def error_message(call, *args, **kwargs):
    with pytest.raises(ss.Refused) as raised:
        call(*args, **kwargs)
    return str(raised.value)


def test_transform_class_instead_of_object_is_refused(photos):
    message = "RandomHorizontalFlip is a class, not a transform: give RandomHorizontalFlip()"
    assert error_message(T.Compose, [T.CenterCrop(4), T.RandomHorizontalFlip]) == message
    assert error_message(ss.DataLoader, ss.ImageFolder(photos, T.RandomHorizontalFlip), 2) == message


def test_invalid_transform_lists_are_refused():
    assert "Compose takes a list of transforms, not CenterCrop(" in error_message(T.Compose, T.CenterCrop(4))
    message = error_message(ss.DataLoader, ss.PythonDataset([1], [T.CenterCrop(4)]))
    assert "give a slipstream.transforms.Compose of it, one of" in message
    assert error_message(T.Compose, [3]) == ("int is not a transform: give one of slipstream.transforms, or a function "
                                          "of an image")


def test_partial_is_named_after_its_function():
    assert repr(T.Compose([functools.partial(torch.clamp, min=0), torch.nn.ReLU()])) == "Compose(clamp, ReLU)"


def test_torchvision_tensor_conversions_are_replaced(photos):
    v1, v2 = pytest.importorskip("torchvision.transforms"), pytest.importorskip("torchvision.transforms.v2")
    for theirs, own in ((v1.ToTensor(), T.ToTensor()), (v1.PILToTensor(), T.PILToTensor()),
                        (v2.PILToTensor(), T.PILToTensor()), (v2.ToImage(), T.ToImage())):
        assert T.Compose([theirs, T.CenterCrop(4)])._steps == T.Compose([own, T.CenterCrop(4)])._steps
    images, _ = next(iter(ss.DataLoader(ss.ImageFolder(photos, T.Compose([T.CenterCrop(16), v1.ToTensor()])), 2)))
    assert images.dtype == torch.float32 and 0 <= images.min() < images.max() <= 1


def test_torchvision_conversions_inside_of_torchvision_containers_are_refused(photos):
    v1, v2 = pytest.importorskip("torchvision.transforms"), pytest.importorskip("torchvision.transforms.v2")
    inside = v1.Compose([v1.CenterCrop(16), v1.ToTensor()])
    message = error_message(ss.DataLoader, ss.ImageFolder(photos, inside), 2)
    assert "torchvision's ToTensor does not accept tensors, but inside of Compose it would get one" in message
    assert "give the transforms in Compose to slipstream.transforms.Compose instead" in message
    images, _ = next(iter(ss.DataLoader(ss.ImageFolder(photos, v2.Compose([v2.ToImage(), v2.CenterCrop(16)])), 2, num_workers=1)))
    assert images.shape == (2, 3, 16, 16) and images.dtype == torch.uint8


@pytest.mark.parametrize("given", [numpy.zeros((4, 8, 8, 3)), None, [IMAGES[0]], (IMAGES[0],), {"image": IMAGES[0]}, "a",
                                   torch.tensor(1), IMAGES[0][0], IMAGES[0].double()],
                         ids=["numpy", "None", "list", "tuple", "mapping", "text", "number", "plane", "float64"])
@pytest.mark.parametrize("transform", [T.CenterCrop(4), T.RandomHorizontalFlip()])
def test_call_without_images_is_refused(given, transform):
    message = error_message(transform, given)
    assert f"{type(transform).__name__} was called with " in message
    assert "takes a batch (a tensor of batch x channels x height x width) or, without sample_ids, one image" in message
    assert "slipstream.PythonDataset(" in message


def test_one_image_with_sample_ids_is_refused():
    assert "or, without sample_ids, one image" in error_message(T.RandomHorizontalFlip(1), IMAGES[0], [7])
    transform = T.RandomHorizontalFlip(1)
    image = torch.arange(3 * 8 * 8, dtype=torch.uint8).view(3, 8, 8)
    assert torch.equal(transform(image[None], sample_ids=[7], epoch=2)[0], image.flip(2))


def test_epoch_and_seed_of_one_image_are_refused():
    for number in ({"epoch": 1}, {"seed": 5}):
        assert "only together with sample_ids" in error_message(T.RandomHorizontalFlip(1), IMAGES[0], **number)


def test_one_image_may_be_a_tensor_an_array_or_a_pil_image():
    image = torch.randint(0, 256, (3, 9, 7), dtype=torch.uint8)
    array = image.permute(1, 2, 0).numpy()
    for given in (image, array, Image.fromarray(array)):
        assert torch.equal(T.CenterCrop(4)(given), image[:, 2:6, 2:6])
        assert torch.equal(T.ToImage()(given), image) and torch.equal(T.PILToTensor()(given), image)
        assert torch.equal(T.ToTensor()(given), image / 255)
    gray = T.Compose([T.Pad(1), lambda image: 255 - image])(Image.new("L", (2, 3), 9))
    assert gray.shape == (1, 5, 4) and gray.unique().tolist() == [246, 255]
    assert T.ToImage()(image / 255).dtype == torch.float32


def test_random_transform_of_one_image_uses_the_generator_of_pytorch(device):
    image = torch.arange(3 * 9 * 9, dtype=torch.uint8, device=device).view(3, 9, 9)
    flip, crop = T.RandomHorizontalFlip(), T.RandomCrop(4)
    torch.manual_seed(3)
    crops = [crop(image) for _ in range(20)]
    assert len({str(each.tolist()) for each in crops}) > 10
    assert all(each.device == image.device for each in crops)
    torch.manual_seed(3)
    assert all(torch.equal(crop(image), each) for each in crops)
    state = torch.get_rng_state()
    T.CenterCrop(4)(image)
    assert torch.equal(torch.get_rng_state(), state)
    flipped = [torch.equal(flip(image), image.flip(2)) for _ in range(40)]
    assert {*flipped} == {True, False}


JITTER = T.ColorJitter(0.4, 0.4, 0.4, 0.1)
SWITCHED = {
    "invert": T.RandomInvert(),
    "posterize": T.RandomPosterize(3),
    "solarize": T.RandomSolarize(0.4),
    "sharpness": T.RandomAdjustSharpness(3),
    "autocontrast": T.RandomAutocontrast(),
    "equalize": T.RandomEqualize(),
    "apply": T.RandomApply([JITTER, T.RandomResizedCrop((33, 40)), T.GaussianBlur(5)]),
    "choice": T.RandomChoice([JITTER, T.RandomRotation(30), T.RandomApply([T.RandomAutocontrast()])]),
    "rand": T.RandAugment(),
    "wide": T.TrivialAugmentWide(),
    "auto": T.AutoAugment(),
}


@pytest.mark.parametrize("name", SWITCHED)
def test_each_image_of_a_batch_has_the_bits_of_a_single_call(name, device):
    """The CPU applies one transform after the other; a GPU applies the steps of all of them in few kernels."""
    transform = T.Compose([T.RandomHorizontalFlip(), SWITCHED[name]])
    images = torch.randint(0, 256, (24, 3, 33, 40), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    batch = transform(images.to(device), sample_ids=range(24), epoch=1, seed=5).cpu()
    for i in range(24):
        assert torch.equal(batch[i], transform(images[i : i + 1], sample_ids=[i], epoch=1, seed=5)[0])
    assert not torch.equal(batch, images)


def test_one_image_that_does_not_fit_raises():
    with pytest.raises(ss.Error, match="random_crop: .* smaller than"):
        T.RandomCrop(9)(IMAGES[0])
    with pytest.raises(ss.Error, match="uint8 or float32, height x width x 3"):
        T.ColorJitter(hue=0.1)(IMAGES[0][:2])


def test_invalid_sample_ids_epoch_and_seed_are_refused():
    flip = T.RandomHorizontalFlip()
    assert "sample_ids=range(len(images))" in error_message(flip, IMAGES)
    for numbers in ([-1] * 4, [0.5] * 4, 4, torch.zeros(4), torch.zeros(4, 1, dtype=torch.int64), [2**70] * 4, "abcd"):
        assert "sample_ids is " in error_message(flip, IMAGES, numbers)
    for epoch in (-1, "1", None, 1.0, 2**32):
        assert "epoch is " in error_message(flip, IMAGES, range(4), epoch=epoch)
    for seed in (-1, "1", None, 2**70):
        assert "seed is " in error_message(flip, IMAGES, range(4), seed=seed)
    for numbers in (range(4), numpy.arange(4), torch.arange(4), (0, 1, 2, 3)):
        assert flip(IMAGES, numbers, 2**32 - 1, 2**64 - 1).shape == IMAGES.shape


def test_torchvision_mixup_works_as_a_stage(photos):
    v2 = pytest.importorskip("torchvision.transforms.v2")
    loader = ss.DataLoader(ss.ImageFolder(photos, T.Compose([T.Resize((8, 8)), T.Normalize([0.5], [0.5])])), 10, num_workers=1)
    stage = ss.Stage("mix", v2.MixUp(num_classes=3).eval(), input=(0, 1), output=(0, 1), seed=1)
    mixed = list(ss.Pipeline(loader, [stage]))
    assert [labels.shape for _, labels in mixed] == [(10, 3)] * 5
    assert any((labels.amax(1) < 1).any() for _, labels in mixed)


def test_images_that_require_gradients_are_refused(device):
    images = torch.ones(1, 1, 4, 4, device=device, requires_grad=True)
    with pytest.raises(ss.Refused, match=r"CenterCrop was called with images that require gradients.*images.detach\(\)"):
        T.CenterCrop(2)(images)
    with torch.no_grad():
        assert T.CenterCrop(2)(images).shape == T.CenterCrop(2)(images.detach()).shape == (1, 1, 2, 2)
