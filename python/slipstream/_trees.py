"""Samples, batches and arguments as trees of tuples, lists, mappings and data classes."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

_PLAIN = (torch.Tensor, int, float, str, type(None))  # told first, as most leaves are


def mapped(tree: Any, function: Callable[[Any], Any]) -> Any:
    """A tree of the same form with `function` of each leaf."""
    if isinstance(tree, _PLAIN):
        return function(tree)
    if isinstance(tree, Mapping):
        items = {key: mapped(value, function) for key, value in tree.items()}
        if type(tree) is dict or not hasattr(tree, "update"):
            return items
        copied: Any = copy.copy(tree)
        copied.update(items)
        return copied
    if isinstance(tree, tuple):
        return tuple_like(tree, [mapped(value, function) for value in tree])
    if isinstance(tree, list):
        elements = copy.copy(tree)
        elements[:] = [mapped(value, function) for value in tree]
        return elements
    if _is_data_class(tree):
        changed: Any = copy.copy(tree)
        for name in _names(tree):
            object.__setattr__(changed, name, mapped(getattr(tree, name), function))
        return changed
    return function(tree)


def tuple_like(tree: tuple[Any, ...], elements: list[Any]) -> Any:
    """A tuple of the type of `tree`."""
    if type(tree) is tuple or hasattr(tree, "n_sequence_fields"):  # such as torch.return_types.max
        return type(tree)(elements)
    return tuple.__new__(type(tree), elements)  # whatever its constructor takes


def leaves(tree: Any) -> list[Any]:
    """All leaves, in order."""
    found: list[Any] = []
    _add_leaves(tree, found)
    return found


def _add_leaves(tree: Any, found: list[Any]) -> None:
    parts = _parts(tree)
    if parts is None:
        found.append(tree)
        return
    for part in parts:
        _add_leaves(part, found)


def _parts(tree: Any) -> Iterable[Any] | None:
    """What a tree holds; None of a leaf."""
    if isinstance(tree, _PLAIN):
        return None
    if isinstance(tree, list | tuple):
        return tree
    if isinstance(tree, Mapping):
        return tree.values()
    return [getattr(tree, name) for name in _names(tree)] if _is_data_class(tree) else None


def _is_data_class(tree: Any) -> bool:
    return dataclasses.is_dataclass(tree) and not isinstance(tree, type)


def _names(tree: Any) -> list[str]:
    return [each.name for each in dataclasses.fields(tree) if hasattr(tree, each.name)]


def byte_size(tree: Any) -> int:
    """Bytes of the tensors, arrays, images and strings in a tree."""
    return sum(_leaf_size(leaf) for leaf in leaves(tree))


def _leaf_size(leaf: Any) -> int:
    if isinstance(leaf, str | bytes | bytearray):
        return len(leaf)
    size = getattr(leaf, "nbytes", None)
    if isinstance(size, int):
        return size
    if hasattr(leaf, "getbands"):  # an image of PIL
        return int(leaf.width * leaf.height * len(leaf.getbands()))
    return 8


def same(a: Any, b: Any) -> bool:
    """Whether two trees are known to hold the same values."""
    ours, theirs = leaves(a), leaves(b)
    return type(a) is type(b) and len(ours) == len(theirs) and all(map(_same_leaf, ours, theirs))


def _same_leaf(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        return (
            a.dtype == b.dtype
            and a.shape == b.shape
            and bool(torch.all((a == b) | ((a != a) & (b != b))))
        )
    if hasattr(a, "getbands"):
        return bool(a.mode == b.mode and a.size == b.size and a.tobytes() == b.tobytes())
    try:
        if hasattr(a, "tobytes"):
            return bool(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())
        return a is b or bool(a == b)
    except Exception:
        return False
