"""The steps of a chain of transforms: operations as in a file of transforms, and functions in Python."""

from __future__ import annotations

import enum
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from . import _native
from ._checks import check
from ._torchvision import is_of_torchvision, iterate_parts
from ._transform_parts import display_name

Function = Callable[[torch.Tensor], torch.Tensor]
Step = dict[str, Any] | Function

_OVER_BATCH = {"mixup": "MixUp", "cutmix": "CutMix", "one_hot": "OneHot"}
_OF_ONES_OWN = (
    "For other batches, use torchvision.transforms.v2.MixUp or CutMix in a slipstream.Stage (docs/migration.md)"
)


def checked_function(given: Any) -> Function:
    """Returns `given` if it can be a function of one image, otherwise raises Refused. Detects common mistakes, such as
    a class in place of an object, and transforms of torchvision that mix batches or do not accept tensors."""
    kind = type(given).__name__
    if isinstance(given, type):
        raise _native.Refused(f"{given.__name__} is a class, not a transform: give {given.__name__}()")
    if not callable(given):
        chain = "a slipstream.transforms.Compose of it, " if isinstance(given, list | tuple) else ""
        raise _native.Refused(
            f"{kind} is not a transform: give {chain}one of slipstream.transforms, or a function of an image"
        )
    for each in iterate_parts(given):
        name = type(each).__name__
        if name in _OVER_BATCH.values() and is_of_torchvision(each):
            raise _native.Refused(
                f"torchvision's {name} mixes whole batches, but functions in a Compose get one image: give "
                f"slipstream.transforms.{name}(alpha=...) as the last transform"
            )
        if name in ("ToTensor", "PILToTensor") and is_of_torchvision(each):
            raise _native.Refused(
                f"torchvision's {name} does not accept tensors, but inside of {kind} it would get one: give the "
                f"transforms in {kind} to slipstream.transforms.Compose instead, which accepts {name}"
            )
    return given  # type: ignore[no-any-return]


def tensor_conversion(given: Any) -> list[Step] | None:
    """Returns the steps that are equivalent to a transform of torchvision that converts an image to a tensor, or None
    for anything else. Images are uint8 tensors already."""
    if not is_of_torchvision(given):
        return None
    to_floats: Step = {"op": "to_dtype", "dtype": "float32", "scale": True}
    conversions: dict[str, list[Step]] = {"ToTensor": [to_floats], "PILToTensor": [], "ToImage": []}
    return conversions.get(type(given).__name__)


def flattened(matrix: Any) -> Any:
    """Converts a 3 x 3 matrix to nine numbers, row by row. Returns other values unchanged."""
    rows = matrix.tolist() if hasattr(matrix, "tolist") else matrix
    is_square = isinstance(rows, list | tuple) and len(rows) == 3 and all(isinstance(row, list | tuple) for row in rows)
    return [number for row in rows for number in row] if is_square else matrix


def plain(key: str, value: Any) -> Any:
    """Converts an argument to a type of JSON: tensors and arrays to lists, and enumerations, such as torchvision's
    InterpolationMode, to their values. Raises Refused for other types."""
    if isinstance(value, list | tuple):
        return [plain(key, each) for each in value]
    if isinstance(value, dict):
        return {name: plain(name, each) for name, each in value.items()}
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


def nested_steps(container: str, transforms: Iterable[Any]) -> list[list[dict[str, Any]]]:
    """Returns the steps of each transform in a container. Raises Refused for anything but native transforms."""
    nested = []
    for each in transforms:
        steps = getattr(each, "_steps", None)
        if isinstance(each, type) or steps is None or not all(isinstance(step, dict) for step in steps):
            raise _native.Refused(
                f"{container} can contain only transforms of slipstream.transforms, not {display_name(each)}: with "
                f"other functions, use torchvision's {container} as a function in slipstream.transforms.Compose"
            )
        nested.append(list(steps))
    return nested


def with_class_name(message: str, op: str, name: str) -> str:
    """Returns the message of a refused step with the name of its class in place of its position in a file."""
    _, _, problems = message.partition("cannot be read:\n")
    return re.sub(rf"^ *transforms\[0\](: {op}: |: |\.)", f"{name}: ", problems, flags=re.M) or message


def steps_to_json(steps: Sequence[Mapping[str, Any]]) -> str:
    """Returns the text of a file of transforms with these steps."""
    numbered = [{"name": f"{step['op']}_{index}"} | _written(step) for index, step in enumerate(steps)]
    return json.dumps({"version": 1, "transforms": numbered})


def _written(step: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the keys of a step for a file. Leaves num_classes out, which is not a key of a file: the number of
    classes is that of the data set, and the loader compares the caller's number with it."""
    is_left_out = step["op"] in _OVER_BATCH
    return {key: value for key, value in step.items() if not (is_left_out and key == "num_classes")}


def checked_num_classes(num_classes: int | None) -> int | None:
    if num_classes is not None:
        check(num_classes=(num_classes, 1))
    return num_classes


def find_num_classes(steps: Sequence[Step]) -> int:
    """Returns the number of classes that the caller gave to MixUp, CutMix or OneHot; 0 if none was given. Raises
    Refused if there are several different numbers."""
    given_classes = {step["num_classes"] for step in steps if isinstance(step, dict) and "num_classes" in step}
    if len(given_classes) > 1:
        raise _native.Refused(
            f"num_classes is {' and '.join(map(str, sorted(given_classes)))} in one chain: leave it out, because the "
            "data set provides the number of classes"
        )
    return int(given_classes.pop()) if given_classes else 0


def over_batch(steps: Sequence[Step]) -> str:
    """Returns the name of the first step that works on whole batches; "" if there is none."""
    names = (_OVER_BATCH.get(step["op"], "") for step in steps if isinstance(step, dict))
    return next(filter(None, names), "")


def refuse_over_batch(steps: Sequence[Step]) -> None:
    """Raises Refused if a chain that is called with images also changes labels."""
    if name := over_batch(steps):
        raise _native.Refused(
            f"{name} also changes the labels of a batch, so it cannot be called with images: make it the last "
            f"transform of a data set, slipstream.ImageFolder(root, slipstream.transforms.Compose([..., {name}()])), "
            f"whose loader gives images and labels. {_OF_ONES_OWN}"
        )


def refuse_after_batch(steps: Sequence[Step]) -> None:
    """Raises Refused if a function in Python, which gets single images, follows a step that works on whole batches. The
    C++ library checks the order of native steps."""
    for index, step in enumerate(steps):
        if not isinstance(step, dict) and (name := over_batch(steps[:index])):
            raise _native.Refused(
                f"{display_name(step)} comes after {name}, which is applied to whole batches: put MixUp, CutMix and "
                "OneHot last"
            )


def refuse_samples_in_python(steps: Sequence[Step]) -> None:
    if name := over_batch(steps):
        raise _native.Refused(
            f"{name} needs labels of known classes, but it is not known which number in a sample of a data set in "
            f"Python is the label: leave {name} out of its transform. {_OF_ONES_OWN}"
        )
