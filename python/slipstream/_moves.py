"""Refuses transforms that would move the pixels of an image, but not those of its mask or another field of its size."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from . import _native, transforms
from ._samples import Leaf
from ._torchvision import movers_in

# Transforms that exist in slipstream.transforms but are refused for masks and boxes there, too.
_MOVE_IMAGES_ONLY = ("AutoAugment", "RandAugment", "TrivialAugmentWide")


def refuse_moving_images_alone(fields: list[str], functions: Iterable[Callable[..., Any]]) -> None:
    """Raises Refused if a torchvision transform changes the positions of pixels, and other fields must match them.

    fields: descriptions of the fields of a native data set that native transforms move together with its images."""
    theirs = movers_in(functions)
    if not fields or not theirs:
        return
    known = [name for name in theirs if hasattr(transforms, name) and name not in _MOVE_IMAGES_ONLY]
    others = [name for name in theirs if name not in known]
    advice = []
    if known:
        ours = " and ".join(f"slipstream.transforms.{name}" for name in known)
        advice.append(f"use {ours} instead, in slipstream.transforms.Compose, which moves both in the same way")
    if others:
        advice.append(
            f"leave out {' and '.join(others)}, or move both in __getitem__ of a custom data set"
        )
    raise _native.Refused(
        f"torchvision's {' and '.join(theirs)} would change only the image, and {fields[0]} would no longer match it: "
        f"{'; '.join(advice)}"
    )


_Fitting = list[tuple[Leaf, tuple[int, int], str]]


def fitting(leaves: list[Leaf]) -> _Fitting:
    """Returns the fields of a sample made in Python that have the height x width of an image in it: the field, the size
    and the name of the image. Such a field may be a mask."""
    sizes = {leaf.shape[:2]: leaf.name for leaf in leaves if leaf.is_image}
    found = []
    for leaf in leaves:
        pairs = zip(leaf.shape, leaf.shape[1:], strict=False)
        size = next((pair for pair in pairs if pair in sizes), None)
        if not leaf.is_image and size is not None:
            found.append((leaf, size, sizes[size]))
    return found


def refuse_moving_with(
    beside: _Fitting, chain: _native.TransformChain, functions: Iterable[Callable[..., Any]]
) -> None:
    """Raises Refused if `chain` or `functions` move the pixels of an image but not those of another field of its size.

    beside: the fields that have the size of an image, a result of fitting()."""
    movers = [each.title().replace("_", "") for each in chain.moving_ops()]
    movers += movers_in(functions)
    for leaf, size, image in beside if movers else ():
        shape = " x ".join(map(str, leaf.shape))
        raise _native.Refused(
            f"{movers[0]} changes the positions of pixels, and would be applied to field '{image}' only. Field "
            f"'{leaf.name}' of {shape} has the same height x width, {size[0]} x {size[1]}, and would no longer match "
            f"'{image}'. Apply {movers[0]} to both fields in __getitem__ of the data set. If '{leaf.name}' is a "
            "picture and not a mask, return both fields as PIL images instead: all transforms are then applied to "
            f"both in the same way. If '{leaf.name}' need not match, return it flattened"
        )
