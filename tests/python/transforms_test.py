"""The arguments of slipstream.transforms equal those of torchvision, and are written to files of transforms."""

import enum
import inspect
import json
import re

import numpy
import pytest
import torch
from torchvision.transforms import v2

import slipstream as ss
from slipstream import _native

T = ss.transforms
CLASSES = {name: each for name, each in vars(T).items()
           if isinstance(each, type) and issubclass(each, T.Transform) and each is not T.Transform}
BILINEAR = v2.InterpolationMode.BILINEAR

INVERT = {"name": "random_invert", "op": "random_invert", "p": 0.1}
EQUALIZE = {"name": "random_equalize", "op": "random_equalize", "p": 1.0}

KEYS = [
    (T.Resize(9), {"op": "resize", "size": 9, "interpolation": "bilinear", "antialias": True}),
    (T.Resize((9, 7), "bicubic", None, False),
     {"op": "resize", "size": [9, 7], "interpolation": "bicubic", "antialias": False}),
    (T.Resize(9, v2.InterpolationMode.NEAREST_EXACT, 10),
     {"op": "resize", "size": 9, "max_size": 10, "interpolation": "nearest-exact", "antialias": True}),
    (T.Resize(None, 0, 10), {"op": "resize", "max_size": 10, "interpolation": "nearest", "antialias": True}),
    (T.CenterCrop((9, 7)), {"op": "center_crop", "size": [9, 7]}),
    (T.RandomCrop((9, 7)), {"op": "random_crop", "size": [9, 7], "padding": 0, "pad_if_needed": False, "fill": 0,
                            "padding_mode": "constant"}),
    (T.RandomCrop((9, 7), (2, 3), True, (4, 5, 6), "edge"),
     {"op": "random_crop", "size": [9, 7], "padding": [2, 3, 2, 3], "pad_if_needed": True, "fill": [4, 5, 6],
      "padding_mode": "edge"}),
    (T.Pad((1, 2, 3, 4), 5, "reflect"), {"op": "pad", "padding": [1, 2, 3, 4], "fill": 5, "padding_mode": "reflect"}),
    (T.RandomResizedCrop((9, 7), (0.2, 0.3), (0.5, 1.5), "bicubic", False),
     {"op": "random_resized_crop", "size": [9, 7], "scale": [0.2, 0.3], "ratio": [0.5, 1.5],
      "interpolation": "bicubic", "antialias": False}),
    (T.RandomHorizontalFlip(0.2), {"op": "random_horizontal_flip", "p": 0.2}),
    (T.RandomVerticalFlip(0.2), {"op": "random_vertical_flip", "p": 0.2}),
    (T.RandomRotation((3, 4), "bilinear", fill=5),
     {"op": "random_rotation", "degrees": [3, 4], "interpolation": "bilinear", "fill": 5}),
    (T.RandomAffine((3, 4), (0.1, 0.2), (0.8, 1.5), (1, 2, 5, 6), "bilinear", 7),
     {"op": "random_affine", "degrees": [3, 4], "translate": [0.1, 0.2], "scale": [0.8, 1.5], "shear": [1, 2, 5, 6],
      "interpolation": "bilinear", "fill": 7}),
    (T.GaussianBlur((5, 5), (0.2, 0.3)), {"op": "gaussian_blur", "kernel_size": 5, "sigma": [0.2, 0.3]}),
    (T.ColorJitter((0.1, 0.2), (0.3, 0.4), (0.5, 0.6), (-0.2, 0.3)),
     {"op": "color_jitter", "brightness": [0.1, 0.2], "contrast": [0.3, 0.4], "saturation": [0.5, 0.6],
      "hue": [-0.2, 0.3]}),
    (T.Grayscale(3), {"op": "grayscale", "num_output_channels": 3}),
    (T.RandomGrayscale(0.2), {"op": "random_grayscale", "p": 0.2}),
    (T.RandomInvert(0.2), {"op": "random_invert", "p": 0.2}),
    (T.RandomPosterize(3, 0.2), {"op": "random_posterize", "bits": 3, "p": 0.2}),
    (T.RandomSolarize(9, 0.2), {"op": "random_solarize", "threshold": 9, "p": 0.2}),
    (T.RandomAdjustSharpness(1.5, 0.2), {"op": "random_adjust_sharpness", "sharpness_factor": 1.5, "p": 0.2}),
    (T.RandomAutocontrast(0.2), {"op": "random_autocontrast", "p": 0.2}),
    (T.RandomEqualize(0.2), {"op": "random_equalize", "p": 0.2}),
    (T.RandomApply([T.RandomInvert(0.1), T.Compose([T.RandomEqualize(1)])], 0.2),
     {"op": "random_apply", "transforms": [INVERT, EQUALIZE], "p": 0.2}),
    (T.RandomChoice([T.Compose([T.RandomInvert(0.1), T.RandomEqualize(1)]), T.RandomEqualize(1)], (0.2, 3)),
     {"op": "random_choice", "transforms": [
         {"name": "random_apply", "op": "random_apply", "transforms": [INVERT, EQUALIZE], "p": 1.0}, EQUALIZE],
      "p": [0.2, 3.0]}),
    (T.RandomChoice([T.RandomInvert(0.1)]), {"op": "random_choice", "transforms": [INVERT]}),
    (T.RandAugment(3, 5, 10, "bilinear", 7),
     {"op": "rand_augment", "num_ops": 3, "magnitude": 5, "num_magnitude_bins": 10, "interpolation": "bilinear",
      "fill": 7.0}),
    (T.TrivialAugmentWide(9, BILINEAR, 7),
     {"op": "trivial_augment_wide", "num_magnitude_bins": 9, "interpolation": "bilinear", "fill": 7.0}),
    (T.AutoAugment(v2.AutoAugmentPolicy.CIFAR10, "bilinear"),
     {"op": "auto_augment", "policy": "cifar10", "interpolation": "bilinear", "fill": 0.0}),
    (T.RandomErasing(0.2, (0.1, 0.3), (0.4, 0.5), 6),
     {"op": "random_erasing", "p": 0.2, "scale": [0.1, 0.3], "ratio": [0.4, 0.5], "value": 6}),
    (T.RandomMask(0.5, dilate=False), {"op": "random_mask", "p": 0.5, "dilate": False}),
    (T.ConvertColor([[1, 2, 3], [4, 5, 6], [7, 8, 9]], (1, 2, 3)),
     {"op": "convert_color", "matrix": [1, 2, 3, 4, 5, 6, 7, 8, 9], "offset": [1, 2, 3]}),
    (T.Divide(4), {"op": "divide", "divisor": 4}),
    (T.Normalize((0.1, 0.2, 0.3), (0.4, 0.5, 0.6)),
     {"op": "normalize", "mean": [0.1, 0.2, 0.3], "std": [0.4, 0.5, 0.6]}),
    (T.ToDtype(torch.float32, scale=True), {"op": "to_dtype", "dtype": "float32", "scale": True}),
    (T.ToDtype(), {"op": "to_dtype", "dtype": "float32", "scale": False}),
    (T.ToTensor(), {"op": "to_dtype", "dtype": "float32", "scale": True}),
    (T.MixUp(alpha=0.2, num_classes=9), {"op": "mixup", "alpha": 0.2}),
    (T.CutMix(alpha=0.3), {"op": "cutmix", "alpha": 0.3}),
    (T.OneHot(label_smoothing=0.1), {"op": "one_hot", "label_smoothing": 0.1}),
]


def transform_keys(transform):
    (step,) = json.loads(T.Compose([transform]).to_json())["transforms"]
    del step["name"]
    return step


@pytest.mark.parametrize(("transform", "keys"), KEYS, ids=lambda each: each["op"] if isinstance(each, dict) else "")
def test_each_transform_argument_is_written_to_json(transform, keys):
    assert transform_keys(transform) == keys


def test_every_transform_has_a_json_case():
    without_steps = {"Compose", "ToImage", "PILToTensor"}
    assert {type(transform).__name__ for transform, _ in KEYS} | without_steps == set(CLASSES)


# : Defaults that differ: torchvision has no default dtype.
OTHERS = {("ToDtype", "dtype"): "float32"}


NOT_IN_TORCHVISION = {"OneHot", "RandomMask", "ConvertColor", "Divide"}


@pytest.mark.parametrize("name", sorted({*CLASSES} - NOT_IN_TORCHVISION))
def test_arguments_and_defaults_match_torchvision(name):
    theirs = list(inspect.signature(getattr(v2, name)).parameters.values())
    defaults = {each.name: each.default for each in theirs}
    for place, own in enumerate(inspect.signature(CLASSES[name]).parameters.values()):
        expected = defaults[own.name]
        expected = expected.value if isinstance(expected, enum.Enum) else expected
        assert own.default == OTHERS.get((name, own.name), expected), own
        if own.kind is not own.KEYWORD_ONLY:
            assert theirs[place].name == own.name


@pytest.mark.parametrize("name", sorted(NOT_IN_TORCHVISION))
def test_defaults_of_other_transforms_are_those_of_files(name):
    (step,) = json.loads(T.Compose([CLASSES[name]()]).to_json())["transforms"]
    (op,) = json.loads(_native.TransformChain(json.dumps(
        {"version": 1, "transforms": [{"op": step["op"]}]})).to_json())["transforms"]
    del step["name"], op["name"]
    assert step == op


def test_every_operation_of_a_file_has_a_class():
    with pytest.raises(ss.Refused) as raised:
        T.Transform("no such operation")
    known = str(raised.value)
    for _, keys in KEYS:
        assert keys["op"] in known
    assert {keys["op"] for _, keys in KEYS} == {*re.findall(r"[a-z]+(?:_[a-z]+)*", known.split("known: ")[-1])}


def test_matrix_may_be_nine_numbers_or_three_rows():
    rows = [[0, 0, 1], [0, 1, 0], [1, 0, 0]]
    for matrix in (rows, torch.tensor(rows), numpy.array(rows), sum(rows, [])):
        assert transform_keys(T.ConvertColor(matrix))["matrix"] == [0, 0, 1, 0, 1, 0, 1, 0, 0]
    with pytest.raises(ss.Refused, match="matrix"):
        T.ConvertColor([[1, 2], [3, 4]])


@pytest.mark.parametrize("make, message", [
    (lambda: T.GaussianBlur(65), "GaussianBlur: kernel_size is 65; it must be odd, 1 to 63"),
    (lambda: T.GaussianBlur((3, 5)), "GaussianBlur: kernel_size is 3 and 5; the two must be equal"),
    (lambda: T.RandomRotation(9, "bicubic"), "RandomRotation: the interpolation must be nearest or bilinear"),
    (lambda: T.RandomApply([T.MixUp()]), "RandomApply: 'mixup' works on whole batches"),
])
def test_message_about_an_argument_begins_with_the_name_of_the_class(make, message):
    with pytest.raises(ss.Refused) as raised:
        make()
    assert str(raised.value).startswith(message)


def test_all_problems_of_a_transform_are_reported_with_its_name():
    with pytest.raises(ss.Refused) as raised:
        T.GaussianBlur(0.5, "wide")
    problems = str(raised.value).split("\n")
    assert len(problems) == 2 and all(each.startswith("GaussianBlur: ") for each in problems)


def test_grayscale_to_one_channel_is_refused():
    with pytest.raises(ss.Refused, match="num_output_channels is 1; it must be 3"):
        T.Grayscale()


@pytest.mark.parametrize("form", [tuple, torch.tensor, numpy.array, lambda x: numpy.array(x, dtype=numpy.float32)])
def test_tuples_tensors_and_arrays_are_accepted_as_numbers(form):
    transform = T.Normalize(form([0.5, 0.25, 0.75]), form([0.5, 0.25, 0.125]))
    assert transform_keys(transform) == {"op": "normalize", "mean": [0.5, 0.25, 0.75], "std": [0.5, 0.25, 0.125]}


def test_scalars_of_numpy_and_torch_are_accepted():
    assert transform_keys(T.Resize(torch.tensor([4, 6])))["size"] == [4, 6]
    assert transform_keys(T.Resize(numpy.int64(4)))["size"] == transform_keys(T.Resize(torch.tensor(4)))["size"] == 4
    assert transform_keys(T.RandomRotation(numpy.float64(3), BILINEAR)) == transform_keys(T.RandomRotation(3, "bilinear"))


@pytest.mark.parametrize(("make", "message"), [
    (lambda: T.Normalize({0.5}, [1]), r"mean is \{0.5\}, a set: give finite numbers, or lists, tensors or arrays"),
    (lambda: T.Normalize([0.5], [None]), "std is None, a NoneType"),
    (lambda: T.Normalize([0.5], torch.tensor([float("inf")])), "std is inf"),
    (lambda: T.RandomHorizontalFlip(float("nan")), "p is nan, a float: give finite numbers"),
    (lambda: T.RandomErasing(value=1j), "value is 1j, a complex"),
    (lambda: T.Resize("big"), "size must be"),
    (lambda: T.RandomRotation(3, v2.InterpolationMode.BICUBIC), "must be nearest or bilinear"),
    (lambda: T.Resize(9, "lanczos"), 'must be nearest, nearest-exact, bilinear or bicubic, not "lanczos"'),
    (lambda: T.Resize((9, 8), max_size=9), "max_size is 9; it is for a size of one number"),
    (lambda: T.Resize(None), "size is missing"),
    (lambda: T.ToDtype(torch.float16), 'dtype must be "float32", not "float16"'),
])
def test_invalid_transform_arguments_are_refused(make, message):
    with pytest.raises(ss.Refused, match=message):
        make()


def test_compose_has_only_to_json_as_public_name():
    assert {name for name in dir(T.Compose) if not name.startswith("_")} == {"to_json"}
