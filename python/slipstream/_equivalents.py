"""Finds the native transform that is equivalent to one of torchvision or albumentations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from . import _native
from . import transforms as _T
from ._steps import tensor_conversion
from ._torchvision import is_of_torchvision
from ._transform_parts import split_transform

# The equivalent of transforms that convert images to uint8 tensors. The native loader needs none, because its images
# are uint8 tensors already.
NOTHING = _T.ToImage()
# The equivalents of numbers of OpenCV.
_BORDER_MODES = {0: "constant", 1: "edge", 2: "symmetric", 4: "reflect"}
_ROTATIONS = {0: "nearest", 1: "bilinear"}
_INTERPOLATIONS = {0: "nearest", 1: "bilinear", 2: "bicubic", 5: "bilinear", 6: "nearest-exact"}

_Result = TypeVar("_Result")
# Each function raises TypeError if the native transform cannot have the arguments of the other one. Transforms that
# only convert images to tensors are in _steps.tensor_conversion().
_Forms = dict[str, Callable[[Any], _T.Transform]]
_OF_TORCHVISION: _Forms = {
    "ConvertImageDtype": lambda t: _dtype_conversion(t.dtype, scale=True),
    "ToDtype": lambda t: _dtype_conversion(t.dtype, t.scale),
    "Resize": lambda t: _T.Resize(_target_size(t), max_size=t.max_size, **_resizing(t)),
    "CenterCrop": lambda t: _T.CenterCrop(_target_size(t)),
    "RandomCrop": lambda t: _T.RandomCrop(
        _target_size(t), _crop_padding(t), t.pad_if_needed, t.fill, t.padding_mode
    ),
    "Pad": lambda t: _T.Pad(t.padding, t.fill, t.padding_mode),
    "RandomResizedCrop": lambda t: _T.RandomResizedCrop(_target_size(t), t.scale, t.ratio, **_resizing(t)),
    "RandomHorizontalFlip": lambda t: _T.RandomHorizontalFlip(t.p),
    "RandomVerticalFlip": lambda t: _T.RandomVerticalFlip(t.p),
    "RandomRotation": lambda t: _T.RandomRotation(list(t.degrees), **_warping(t, expand=False, center=None)),
    "RandomAffine": lambda t: _T.RandomAffine(
        list(t.degrees), t.translate, t.scale, t.shear, **_warping(t, center=None)
    ),
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
    "RandomApply": lambda t: _T.RandomApply(_contained(t), t.p),
    "RandomChoice": lambda t: _T.RandomChoice(_contained(t), t.p),
    "RandAugment": lambda t: _T.RandAugment(
        t.num_ops, t.magnitude, t.num_magnitude_bins, t.interpolation, t.fill
    ),
    "TrivialAugmentWide": lambda t: _T.TrivialAugmentWide(
        t.num_magnitude_bins, t.interpolation, t.fill
    ),
    "AutoAugment": lambda t: _T.AutoAugment(t.policy, t.interpolation, t.fill),
    "RandomErasing": lambda t: _T.RandomErasing(t.p, t.scale, t.ratio, _erased_value(t)),
    "Normalize": lambda t: _T.Normalize(list(t.mean), list(t.std)),
}
# The transforms of albumentations whose native form has a probability, and those that are always applied.
_RANDOM_OF_ALBUMENTATIONS: _Forms = {
    "HorizontalFlip": lambda t: _T.RandomHorizontalFlip(t.p),
    "VerticalFlip": lambda t: _T.RandomVerticalFlip(t.p),
    "ToGray": lambda t: _only(t, _T.RandomGrayscale(t.p), num_output_channels=3, method="weighted_average"),
}
_OF_ALBUMENTATIONS: _Forms = {
    "CenterCrop": lambda t: _only(t, _T.CenterCrop([t.height, t.width]), pad_if_needed=False),
    "ColorJitter": lambda t: _T.ColorJitter(t.brightness, t.contrast, t.saturation, t.hue),
    "Normalize": lambda t: _only(
        t, _T.Normalize(list(t.mean), list(t.std)), max_pixel_value=255, normalization="standard"
    ),
    "Pad": lambda t: _T.Pad(t.padding, t.fill, _listed(_BORDER_MODES, t.border_mode)),
    "RandomCrop": lambda t: _only(t, _T.RandomCrop([t.height, t.width]), pad_if_needed=False),
    "RandomResizedCrop": lambda t: _T.RandomResizedCrop(t.size, t.scale, t.ratio, **_resizing_of_cv2(t)),
    "Resize": lambda t: _T.Resize([t.height, t.width], **_resizing_of_cv2(t)),
    "Rotate": lambda t: _only(
        t,
        _T.RandomRotation(list(t.limit), _listed(_ROTATIONS, t.interpolation), fill=t.fill),
        border_mode=0,
        crop_border=False,
    ),
    "ToTensorV2": lambda t: NOTHING,
}


def from_torchvision(transform: Any) -> _T.Compose:
    """Returns a Compose with the native equivalent of each part of a transform.

    Arguments:
        transform: a transform of torchvision or albumentations, a Compose of them, or a function of an image. Parts
            without a native equivalent are kept, and run as functions in Python on a tensor of channels x height x
            width (docs/migration.md lists them). Parts that only convert PIL images to tensors are left out, because
            native images are uint8 tensors already.

    The result has the parameters of `transform`, but uses other random numbers (docs/transforms.md). Raises Refused if
    a part cannot be used at its place in a Compose, and for a part of albumentations without a native equivalent, which
    cannot be called with a tensor.

    >>> from torchvision.transforms import v2
    >>> ss.from_torchvision(v2.Compose([v2.RandomHorizontalFlip(0.3), v2.ToImage()]))
    Compose({"op": "random_horizontal_flip", "p": 0.3})
    """

    return equivalent_chain([] if transform is None else split_transform(transform))


def equivalent_chain(parts: Sequence[Any]) -> _T.Compose:
    """Returns the native equivalent of each part that has one, and the other parts unchanged. Raises Refused if a
    part cannot be used at its place."""
    chain: list[Any] = []
    is_uint8 = True
    for part in parts:
        form = native_form(part)
        if not is_uint8 and getattr(part, "dtype", None) is torch.uint8:
            form = None  # only images that are uint8 already need no conversion
        if form is None and _is_of_albumentations(part):
            raise _native.Refused(
                f"albumentations' {type(part).__name__} has no native equivalent with these arguments, and cannot be "
                "called with a tensor: give a function of an image, channels x height x width, that calls it"
            )
        is_uint8 = is_uint8 and form is not None and not isinstance(form, _CONVERT_TO_FLOAT)
        chain.append(form or part)
    return _T.Compose(chain)


_CONVERT_TO_FLOAT = (_T.ToDtype, _T.ToTensor, _T.Normalize)
# Native transforms that change the size of images, or whose equivalence depends on the dtype of images.
_NOT_IN_CONTAINERS = (
    *_CONVERT_TO_FLOAT,
    _T.ToImage,
    _T.Resize,
    _T.CenterCrop,
    _T.RandomCrop,
    _T.Pad,
    _T.RandomResizedCrop,
)


def native_form(part: Any) -> _T.Transform | None:
    """Returns the native transform that is equivalent to `part`, a transform of torchvision or albumentations. Returns
    None if there is none, or if it cannot have the arguments of `part`."""
    steps = tensor_conversion(part)
    if steps is not None:
        return _T.ToTensor() if steps else NOTHING
    name, forms = type(part).__name__, {}
    if is_of_torchvision(part):
        forms = _OF_TORCHVISION
    elif _is_of_albumentations(part):
        forms = _RANDOM_OF_ALBUMENTATIONS | (_OF_ALBUMENTATIONS if part.p == 1 else {})
    try:
        return forms[name](part) if name in forms else None
    except (AttributeError, TypeError, ValueError, _native.Error):
        return None


def _is_of_albumentations(part: Any) -> bool:
    return type(part).__module__.startswith("albumentations.")


def _only(part: Any, result: _Result, **needed: Any) -> _Result:
    """Returns `result`. Raises TypeError if an attribute of `part` has another value than `needed`, for which there is
    no native equivalent. A version of a library without such an attribute behaves as with this value."""
    for name, value in needed.items():
        if getattr(part, name, value) != value:
            raise TypeError(f"{name} has no native equivalent")
    return result


def _listed(equivalents: dict[int, str], number: int) -> str:
    if number not in equivalents:
        raise TypeError(f"{number} has no native equivalent")
    return equivalents[number]


def _dtype_conversion(dtype: Any, scale: bool) -> _T.Transform:
    if dtype is torch.uint8:
        return NOTHING
    if dtype is not torch.float32:
        raise TypeError("images can be converted only to float32")
    return _T.ToDtype(scale=scale)


def _contained(container: Any) -> list[_T.Compose]:
    """Returns the native equivalents of the transforms in a RandomApply or RandomChoice. Raises TypeError if one has
    none, or changes the size or the dtype of images: the native containers refuse that, torchvision's do not."""
    chains = []
    for each in container.transforms:
        found = [native_form(part) for part in split_transform(each)]
        forms = [form for form in found if form is not None and not isinstance(form, _NOT_IN_CONTAINERS)]
        if len(forms) < len(found):
            raise TypeError("a transform in it has no native equivalent inside of a container")
        chains.append(_T.Compose(forms))
    return chains


def _target_size(part: Any) -> Any:
    size = list(part.size) if isinstance(part.size, list | tuple) else part.size
    return size[0] if isinstance(size, list) and len(size) == 1 else size


def _resizing(part: Any) -> dict[str, Any]:
    return {"interpolation": part.interpolation, "antialias": getattr(part, "antialias", True)}


def _resizing_of_cv2(part: Any) -> dict[str, Any]:
    """Returns the arguments of a resize for one of OpenCV, which does not average pixels along an axis that shrinks."""
    if getattr(part, "area_for_downscale", None) is not None:
        raise TypeError("area_for_downscale has no native equivalent")
    return {"interpolation": _listed(_INTERPOLATIONS, part.interpolation), "antialias": False}


def _warping(part: Any, **needed: Any) -> dict[str, Any]:
    """Returns the arguments of a rotation for the pixels. See _only() for `needed`."""
    return _only(part, {"interpolation": part.interpolation, "fill": 0 if part.fill is None else part.fill}, **needed)


def _erased_value(part: Any) -> float:
    """Returns the value for all channels. torchvision's value is None for random values in its version 2, and "random"
    in version 1."""
    values = set(part.value) if isinstance(part.value, list | tuple) else {part.value}
    value = values.pop()
    if values or not isinstance(value, int | float):
        raise TypeError("random values, and a value for each channel, have no native equivalent")
    return value


def _crop_padding(part: Any) -> Any:
    padding = part.padding
    if "v2" in type(part).__module__ and padding is not None:
        # The order of torch.nn.functional.pad, in which version 2 keeps its argument.
        left, right, top, bottom = padding
        return [left, top, right, bottom]
    return padding


def _pair(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else (value, value)
