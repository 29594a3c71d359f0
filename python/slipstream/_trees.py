"""Functions for nested tuples, lists, mappings and data classes, such as samples and batches. Everything else in such a
tree is a leaf."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, MutableMapping, MutableSequence
from typing import Any

import torch

Key = int | str
_PLAIN = (torch.Tensor, int, float, str, type(None), torch.Size)  # tested first, because most leaves have one of these types


def mapped(tree: Any, function: Callable[[Any], Any], is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """Returns a tree with the same structure, in which each leaf is replaced by the result of `function`.

    is_leaf: returns true for a container that is a leaf as a whole."""
    if isinstance(tree, _PLAIN) or (is_leaf is not None and is_leaf(tree)):
        return function(tree)
    if isinstance(tree, Mapping):
        return mapping_with(tree, {key: mapped(value, function, is_leaf) for key, value in tree.items()})
    if isinstance(tree, tuple):
        return tuple_like(tree, [mapped(value, function, is_leaf) for value in tree])
    if isinstance(tree, list):
        # A copy, because the constructor of a derived class may have other parameters.
        elements = copy.copy(tree)
        elements[:] = [mapped(value, function, is_leaf) for value in tree]
        return elements
    if _is_data_class(tree):
        changed: Any = copy.copy(tree)
        for name in _names(tree):
            # Also sets the fields of a frozen data class, whose own __setattr__() raises an error.
            object.__setattr__(changed, name, mapped(getattr(tree, name), function, is_leaf))
        return changed
    return function(tree)


def tuple_like(tree: tuple[Any, ...], elements: list[Any]) -> Any:
    """Returns a tuple of the type of `tree`."""
    if type(tree) is tuple or hasattr(tree, "n_sequence_fields"):  # such as torch.return_types.max
        return type(tree)(elements)
    return tuple.__new__(type(tree), elements)  # the constructor of a derived class may have other parameters


def mapping_with(tree: Mapping[Any, Any], items: Mapping[Any, Any]) -> Any:
    """Returns a copy of `tree` with `items` in it. `tree` itself is not changed.

    The copy has the type of `tree` if the class can be copied. Some classes share their content with their copies: then
    writing to the copy changes `tree`, which is detected and undone, and the result is a dict."""
    before = dict(tree.items())
    if type(tree) is dict or not hasattr(tree, "__setitem__"):
        return before | dict(items)
    # Some classes return new objects each time they are read. Only values that are the same object in two reads can
    # show afterwards whether writing to the copy changed `tree`.
    again = dict(tree.items())
    kept = {key for key in items if key in before and again[key] is before[key]}
    changed = None
    try:
        changed = copied(tree)
        for key, value in items.items():
            changed[key] = value
            if _is_data_class(changed) and key in _names(changed):
                object.__setattr__(changed, key, value)
    except (AttributeError, TypeError):
        changed = None
    now = dict(tree.items())
    replaced = [key for key in kept if now[key] is not before[key]]
    added = now.keys() - before.keys()
    for key in replaced:
        tree[key] = before[key]
    for key in added:
        del tree[key]  # type: ignore[attr-defined]
    return before | dict(items) if changed is None or replaced or added else changed


def copied(tree: Any) -> Any:
    """Returns a shallow copy of an object. Its dict and list attributes are copied, too, unless its class defines
    `__copy__()`."""
    changed = copy.copy(tree)
    if isinstance(tree, dict) or hasattr(tree, "__copy__"):
        return changed
    of_classes = [vars(each).items() for each in type(tree).__mro__]
    slots = [name for members in of_classes for name, each in members if inspect.ismemberdescriptor(each)]
    for name in [*getattr(tree, "__dict__", ()), *slots]:
        member = getattr(changed, name, None)
        if isinstance(member, MutableMapping | MutableSequence):
            object.__setattr__(changed, name, copy.copy(member))
    return changed


def value_at(tree: Any, key: Key) -> Any:
    """Returns the element, value or attribute of a batch at `key`."""
    if isinstance(key, str) and not isinstance(tree, Mapping):
        return getattr(tree, key)
    return tree[key]


def with_values(tree: Any, keys: list[Key], values: list[Any]) -> Any:
    """Returns a copy of a batch with `values` at `keys`."""
    pairs: list[tuple[Any, Any]] = list(zip(keys, values, strict=True))
    if type(tree) is list:
        elements = tree[:]
        for key, value in pairs:
            elements[key] = value
        return elements
    if isinstance(tree, tuple):
        if hasattr(tree, "_replace"):
            fields: tuple[str, ...] = tree._fields  # type: ignore[attr-defined]
            names = {fields[key] if isinstance(key, int) else key: value for key, value in pairs}
            return tree._replace(**names)
        elements = list(tree)
        for key, value in pairs:
            elements[key] = value
        return tuple_like(tree, elements)
    if isinstance(tree, MutableMapping):
        return mapping_with(tree, dict(pairs))
    changed = copy.copy(tree)
    for key, value in pairs:
        if isinstance(tree, list):
            changed[key] = value
        elif isinstance(key, str) and hasattr(tree, key):
            object.__setattr__(changed, key, value)
        else:
            raise KeyError(key)
    return changed


def leaves(tree: Any) -> list[Any]:
    """Returns all leaves of a tree, in order."""
    found: list[Any] = []
    _add_leaves(tree, found)
    return found


def _add_leaves(tree: Any, found: list[Any]) -> None:
    inner = parts(tree)
    if inner is None:
        found.append(tree)
        return
    for part in inner:
        _add_leaves(part, found)


def parts(tree: Any) -> Iterable[Any] | None:
    """Returns the direct parts of a tree; None for a leaf."""
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
    """Returns the number of bytes of the tensors, arrays, images and strings in a tree."""
    return sum(_leaf_size(leaf) for leaf in leaves(tree))


def _leaf_size(leaf: Any) -> int:
    if isinstance(leaf, str | bytes | bytearray):
        return len(leaf)
    if isinstance(leaf, torch.Tensor) and leaf.is_sparse:
        return _leaf_size(leaf._indices()) + _leaf_size(leaf._values())
    try:
        size = getattr(leaf, "nbytes", None)
    except RuntimeError:  # raised for tensors of some layouts
        size = None
    if isinstance(size, int):
        return size
    if hasattr(leaf, "getbands"):  # a PIL image
        return int(leaf.width * leaf.height * len(leaf.getbands()))
    return 8


def same(a: Any, b: Any) -> bool:
    """Returns true if two trees have the same values. Returns false if that cannot be determined."""
    ours, theirs = leaves(a), leaves(b)
    return type(a) is type(b) and len(ours) == len(theirs) and all(map(_same_leaf, ours, theirs))


def _same_leaf(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    try:
        if isinstance(a, torch.Tensor):
            return _same_tensor(a, b)
        if hasattr(a, "getbands"):
            return bool(a.mode == b.mode and a.size == b.size and a.tobytes() == b.tobytes())
        if hasattr(a, "tobytes"):
            return bool(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())
        return a is b or bool(a == b)
    except Exception:
        return False


def _same_tensor(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.dtype != b.dtype or a.layout != b.layout:
        return False
    if a.is_nested:
        return same(list(a.unbind()), list(b.unbind()))
    if a.layout != torch.strided:
        a, b = a.to_dense(), b.to_dense()
    # NaN is not equal to itself, so two of them are compared by that.
    return a.shape == b.shape and bool(torch.all((a == b) | ((a != a) & (b != b))))


def array_kinds() -> tuple[type, ...]:
    """Returns the class of NumPy's arrays in a tuple, or () if NumPy is not imported."""
    numpy = sys.modules.get("numpy")
    return (numpy.ndarray,) if numpy else ()


def same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Returns true if two tensors of the same shape and dtype have the same bytes. They may be on different devices."""
    if a.device.type == "meta" or a.numel() == 0:
        return True
    if a.is_nested or a.layout != torch.strided:
        return _same_tensor(a, b.to(a.device))
    return torch.equal(view_bytes(a), view_bytes(b).to(a.device))


def view_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the bytes of a dense tensor's elements as a one-dimensional uint8 tensor."""
    # Conjugation and negation may be pending: then they are only flags, and the memory has the values without them.
    tensor = tensor.resolve_conj().resolve_neg()
    if tensor.is_quantized:
        tensor = tensor.int_repr()
    return tensor.contiguous().reshape(-1).view(torch.uint8)
