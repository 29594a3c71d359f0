"""Recognizes transforms of torchvision by their names, because torchvision may not be installed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch

_THEIRS = "torchvision.transforms."
_MODULES = (
    f"{_THEIRS}v2._geometry",
    f"{_THEIRS}v2._auto_augment",
    f"{_THEIRS}v2.functional._geometry",
    f"{_THEIRS}autoaugment",
    f"{_THEIRS}_presets",
)
_CLASSES = {
    *("CenterCrop", "ElasticTransform", "FiveCrop", "Pad", "RandomAffine", "RandomCrop"),
    *("RandomHorizontalFlip", "RandomPerspective", "RandomResizedCrop", "RandomRotation"),
    *("RandomVerticalFlip", "Resize", "TenCrop"),
}


def is_of_torchvision(function: Any) -> bool:
    return type(function).__module__.startswith(_THEIRS)


def iterate_parts(function: Any) -> Iterator[Any]:
    """Yields the transform and, if it is a container such as Compose or RandomChoice, all transforms inside it."""
    yield function
    inner: Iterable[Any] = ()
    if isinstance(function, torch.nn.Sequential):
        inner = function
    elif is_of_torchvision(function):
        inner = getattr(function, "transforms", ())
    for each in inner:
        yield from iterate_parts(each)


def movers_in(functions: Iterable[Any]) -> list[str]:
    """Returns the names of torchvision's geometric transforms, among `functions` and inside of containers."""
    parts = (part for each in functions for part in iterate_parts(each))
    return list(dict.fromkeys(name for name in map(_mover, parts) if name))


def _mover(function: Any) -> str:
    for each in (function, *type(function).__mro__):
        module, name = getattr(each, "__module__", ""), getattr(each, "__name__", "")
        if name and (module in _MODULES or (module == f"{_THEIRS}transforms" and name in _CLASSES)):
            return str(name)
    return ""
