"""Finds the native transform that is equivalent to one of torchvision or albumentations."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

from . import _native
from . import transforms as _T
from ._doctor.parts import display_name, split_transform
from ._torchvision import is_of_torchvision

# The equivalent of transforms that convert images to tensors. The native loader needs none, because its images are
# uint8 tensors already.
NOTHING = _T.ToImage()
_FORMS: dict[str, Callable[[Any], _T.Transform]] = {
    # torchvision
    "PILToTensor": lambda t: NOTHING,
    "ToImage": lambda t: NOTHING,
    "ToTensor": lambda t: _T.ToDtype(scale=True),
    "ConvertImageDtype": lambda t: _T.ToDtype(scale=True),
    "ToDtype": lambda t: _T.ToDtype(scale=t.scale),
    "Resize": lambda t: _T.Resize(
        _target_size(t), max_size=getattr(t, "max_size", None), **_interpolation(t)
    ),
    "CenterCrop": lambda t: _T.CenterCrop(_target_size(t)),
    "RandomCrop": lambda t: _T.RandomCrop(
        _target_size(t), _crop_padding(t), getattr(t, "pad_if_needed", False), **_padding(t)
    ),
    "Pad": lambda t: _T.Pad(t.padding, **_padding(t)),
    "RandomResizedCrop": lambda t: _T.RandomResizedCrop(
        _target_size(t), t.scale, t.ratio, **_interpolation(t)
    ),
    "RandomHorizontalFlip": lambda t: _T.RandomHorizontalFlip(t.p),
    "RandomVerticalFlip": lambda t: _T.RandomVerticalFlip(t.p),
    "RandomRotation": lambda t: _T.RandomRotation(list(t.degrees)),
    "RandomAffine": lambda t: _T.RandomAffine(list(t.degrees), t.translate, t.scale, t.shear),
    "GaussianBlur": lambda t: _T.GaussianBlur(list(_pair(t.kernel_size)), list(t.sigma)),
    "ColorJitter": lambda t: _T.ColorJitter(t.brightness, t.contrast, t.saturation, t.hue),
    "Grayscale": lambda t: _T.Grayscale(t.num_output_channels),
    "RandomGrayscale": lambda t: _T.RandomGrayscale(t.p),
    "RandomInvert": lambda t: _T.RandomInvert(t.p),
    "RandomPosterize": lambda t: _T.RandomPosterize(t.bits, t.p),
    "RandomSolarize": lambda t: _T.RandomSolarize(t.threshold, t.p),
    "RandomAdjustSharpness": lambda t: _T.RandomAdjustSharpness(t.sharpness_factor, t.p),
    "RandomAutocontrast": lambda t: _T.RandomAutocontrast(t.p),
    "RandomEqualize": lambda t: _T.RandomEqualize(t.p),
    "RandAugment": lambda t: _T.RandAugment(
        t.num_ops, t.magnitude, t.num_magnitude_bins, t.interpolation, t.fill
    ),
    "TrivialAugmentWide": lambda t: _T.TrivialAugmentWide(
        t.num_magnitude_bins, t.interpolation, t.fill
    ),
    "AutoAugment": lambda t: _T.AutoAugment(t.policy, t.interpolation, t.fill),
    "RandomErasing": lambda t: _T.RandomErasing(t.p, t.scale, t.ratio),
    "Normalize": lambda t: _T.Normalize(list(t.mean), list(t.std)),
    # albumentations
    "HorizontalFlip": lambda t: _T.RandomHorizontalFlip(t.p),
    "VerticalFlip": lambda t: _T.RandomVerticalFlip(t.p),
    "Rotate": lambda t: _T.RandomRotation(list(t.limit)),
    "ToGray": lambda t: _T.RandomGrayscale(t.p),
    "ToTensorV2": lambda t: NOTHING,
}


def from_torchvision(transform: Any) -> _T.Compose:
    """Returns a Compose with the native equivalent of each part of a transform.

    Arguments:
        transform: a transform of torchvision or albumentations, a Compose of them, or a function of an image. Parts
            that have no native equivalent remain as they are, and run as functions in Python on a tensor of channels
            x height x width. Parts that only convert PIL images to tensors are left out, because native images are
            tensors already.

    The result has the parameters of `transform`, but uses other random numbers (docs/transforms.md). Raises Refused if
    a part cannot be used at its place in a Compose.

    >>> from torchvision.transforms import v2
    >>> ss.from_torchvision(v2.Compose([v2.RandomHorizontalFlip(0.3), v2.ToImage()]))
    Compose({"op": "random_horizontal_flip", "p": 0.3})
    """

    return equivalent_chain([] if transform is None else split_transform(transform))


def equivalent_chain(parts: Sequence[Any]) -> _T.Compose:
    """Returns the native equivalent of each part that has one, and the other parts as they are. Raises Refused if a
    part cannot be used at its place."""
    return _T.Compose([native_form(part) or part for part in parts])


def native_form(part: Any) -> _T.Transform | None:
    """Returns the native transform that is equivalent to `part`, or None if there is none."""
    make = _FORMS.get(display_name(part))
    try:
        return None if make is None else make(part)
    except (AttributeError, TypeError, ValueError, _native.Error):
        return None


def _target_size(part: Any) -> Any:
    if not hasattr(part, "size"):
        return [part.height, part.width]
    size = list(part.size) if isinstance(part.size, list | tuple) else part.size
    return size[0] if isinstance(size, list) and len(size) == 1 else size


def _interpolation(part: Any) -> dict[str, Any]:
    """Returns the arguments of a resize that torchvision's transforms have. Those of albumentations are bilinear by
    default, and number the interpolations differently."""
    mode = getattr(part, "interpolation", None)
    if not isinstance(mode, enum.Enum):
        return {}
    return {"interpolation": mode, "antialias": getattr(part, "antialias", True)}


def _padding(part: Any) -> dict[str, Any]:
    """Returns the arguments of a padding that torchvision's transforms have."""
    if not is_of_torchvision(part):
        return {}
    return {"fill": part.fill, "padding_mode": part.padding_mode}


def _crop_padding(part: Any) -> Any:
    padding = getattr(part, "padding", None)
    if "v2" in type(part).__module__ and padding is not None:
        # The order of torch.nn.functional.pad, in which version 2 keeps its argument.
        left, right, top, bottom = padding
        return [left, top, right, bottom]
    return padding


def _pair(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else (value, value)
