"""Splits a transform of any library into its parts, and names them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch


class Compose:
    """Applies transforms one after the other. split_transform() recognizes the name of the class."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = transforms

    def __call__(self, value: Any) -> Any:
        for transform in self.transforms:
            value = transform(value)
        return value


def split_transform(transform: Callable[..., Any]) -> list[Callable[..., Any]]:
    """Returns the transforms that a Compose of any library, or an nn.Sequential, applies one after the other. Any other
    transform is returned as a whole."""
    is_compose = any(each.__name__ == "Compose" for each in type(transform).__mro__)
    if isinstance(transform, torch.nn.Sequential):
        children = list(transform)
    elif (
        is_compose
        and getattr(transform, "p", 1) == 1
        and not getattr(transform, "processors", None)
    ):
        children = list(transform.transforms)  # type: ignore[attr-defined]
    else:
        return [transform]
    return [part for child in children for part in split_transform(child)]


def display_name(function: Any) -> str:
    """Returns the name of a function or method, of the function that a partial calls, or of an object's class."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__name__", None)
    return name if isinstance(name, str) else type(function).__name__
