"""The steps of a chain of transforms: operations of the file of transforms, and functions in Python."""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import _native
from ._torchvision import is_of_torchvision, parts_of

Function = Callable[[torch.Tensor], torch.Tensor]
Step = dict[str, Any] | Function


def checked_function(given: Any) -> Function:
    """Refuses what is no function of an image."""
    kind = type(given).__name__
    if isinstance(given, type):
        raise _native.Refused(f"{given.__name__} is a class, not a transform: give {given.__name__}()")
    if not callable(given):
        chain = "slipstream.transforms.Compose of it, " if isinstance(given, list | tuple) else ""
        raise _native.Refused(
            f"{kind} is no transform: give {chain}one of slipstream.transforms, or a function of an image"
        )
    for each in parts_of(given):
        name = type(each).__name__
        makes_tensors = name in ("ToTensor", "PILToTensor") or (name == "ToImage" and each is given)
        if makes_tensors and is_of_torchvision(each):
            raise _native.Refused(
                f"torchvision's {name} makes tensors of images, but here they are tensors already, of uint8: "
                "leave it out. slipstream.transforms.ToDtype(torch.float32, scale=True) makes floats from 0 "
                "to 1 of them"
            )
    return given  # type: ignore[no-any-return]


def plain(key: str, value: Any) -> Any:
    """As JSON holds it: tensors, arrays and enumerations (of torchvision's interpolations) become what is
    in them."""
    if isinstance(value, list | tuple):
        return [plain(key, each) for each in value]
    if isinstance(value, enum.Enum):
        return value.value
    if hasattr(value, "tolist"):
        return plain(key, value.tolist())
    if isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise _native.Refused(
        f"{key} is {value!r}, a {type(value).__name__}: give finite numbers, or lists, tensors or arrays of "
        "them"
    )


def json_of(steps: Sequence[dict[str, Any]]) -> str:
    """The file of transforms that holds them."""
    numbered = [{"name": f"{step['op']}_{index}"} | step for index, step in enumerate(steps)]
    return json.dumps({"version": 1, "transforms": numbered})
