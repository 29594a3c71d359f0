"""Converts the results of a run to a flat list of named values, which are compared byte by byte."""

from __future__ import annotations

import collections
import dataclasses
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.amp.grad_scaler import GradScaler

from .. import _native
from .._held_objects import STATEFUL, HeldObject, reachable_from
from .._trees import view_bytes

_MOST_NESTED = 50
_COMPARED = (torch.nn.Module, torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler, GradScaler)


@dataclasses.dataclass
class Value:
    """A named value. content: a tensor, or an object that is compared with ==."""

    name: str
    content: Any

    def on_host(self) -> Value:
        if isinstance(self.content, torch.Tensor) and self.content.device.type != "meta":
            return Value(self.name, self.content.to("cpu", copy=True))
        return self


def collect_values(tree: Any, name: str, is_copied: bool) -> list[Value]:
    """Returns the values in a tree. Raises Refused for objects that cannot be compared.

    is_copied: clones tensors on the current stream, without waiting, because the loop may overwrite them."""
    return list(_values(tree, name, is_copied, True, 0))


def find_holders(run: Callable[..., Any]) -> list[HeldObject]:
    """Returns the modules, optimizers, schedulers and gradient scalers that a function refers to.

    Modules that belong to another object are included only if they have parameters that require gradients. Other
    modules may belong to a loader that runs ahead, so their state at the end depends on timing."""
    found = [each for each in reachable_from(run, STATEFUL) if isinstance(each.content, _COMPARED)]
    return [each for each in found if each.depth == 0 or _is_trained(each.content)]


def _is_trained(each: Any) -> bool:
    return not isinstance(each, torch.nn.Module) or any(p.requires_grad for p in each.parameters())


def first_difference(expected: list[Value], seen: list[Value]) -> tuple[str, str, int] | None:
    """Returns the name of the first value that differs, how it differs, and the number of values that differ. Returns
    None if all are equal."""
    ours, theirs = _by_place(expected), _by_place(seen)
    places = [*ours, *(place for place in theirs if place not in ours)]
    first, count = None, 0
    for place in places:
        if place not in theirs:
            how = "missing"
        elif place not in ours:
            how = "missing in the reference"
        else:
            how = _difference(ours[place], theirs[place])
        if how:
            count += 1
            first = first or (place[0], how)
    return (*first, count) if first else None


def _by_place(values: list[Value]) -> dict[tuple[str, int], Any]:
    """Returns contents by name and a counter for equal names, because different keys of a mapping may have the same
    repr()."""
    counts: collections.Counter[str] = collections.Counter()
    found = {}
    for each in values:
        found[each.name, counts[each.name]] = each.content
        counts[each.name] += 1
    return found


def _values(tree: Any, name: str, is_copied: bool, is_own: bool, depth: int) -> Iterator[Value]:
    if depth > _MOST_NESTED:
        raise _native.Refused(f"{name} is nested more than {_MOST_NESTED} levels deep, or contains itself")
    if isinstance(tree, torch.Tensor) and tree.is_nested:
        yield from _values(tree.unbind(), name, is_copied, is_own, depth + 1)
    elif isinstance(tree, torch.Tensor):
        if not torch.nn.parameter.is_lazy(tree):
            yield Value(name, _plain(tree, is_copied))
    elif isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _values(value, f"{name}[{key!r}]", is_copied, is_own, depth + 1)
    elif isinstance(tree, list | tuple) and not isinstance(tree, torch.Size):
        fields = getattr(tree, "_fields", None)
        for i, value in enumerate(tree):
            place = f"{name}.{fields[i]}" if fields else f"{name}[{i}]"
            yield from _values(value, place, is_copied, is_own, depth + 1)
    elif hasattr(tree, "state_dict") and not isinstance(tree, type):
        state = tree.state_dict()
        yield from _values(state, f"{name}.state_dict()", is_copied, False, depth + 1)
    elif dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        for field in dataclasses.fields(tree):
            value = getattr(tree, field.name)
            yield from _values(value, f"{name}.{field.name}", is_copied, is_own, depth + 1)
    elif (parts := _parts_of_array(tree)) is not None:
        yield from _values(parts, name, is_copied, is_own, depth + 1)
    elif (content := _comparable(tree)) is not None:
        yield Value(name, content)
    elif is_own:
        raise _native.Refused(
            f"{name} is of type {type(tree).__name__}, which cannot be compared: give tensors, numbers, "
            "arrays, modules, optimizers, and containers of them"
        )


def _plain(tensor: torch.Tensor, is_copied: bool) -> torch.Tensor:
    tensor = tensor.detach()
    if tensor.layout != torch.strided:
        return tensor.to_dense()
    return tensor.clone() if is_copied and tensor.device.type != "meta" else tensor


def _parts_of_array(tree: Any) -> Any:
    """Returns the parts of a NumPy array whose bytes cannot be compared, because they contain pointers or padding.
    Returns None for other objects."""
    dtype = getattr(tree, "dtype", None)
    if getattr(dtype, "names", None):
        return {name: tree[name] for name in dtype.names}  # type: ignore[union-attr]
    return tree.tolist() if getattr(dtype, "hasobject", False) else None


def _comparable(leaf: Any) -> Any:
    if leaf is None or isinstance(leaf, bool | int | str | bytes):
        return (type(leaf).__name__, leaf)
    if isinstance(leaf, float):
        return ("float", struct.pack("d", leaf))
    if isinstance(leaf, complex | torch.dtype | torch.device | torch.Size):
        return (type(leaf).__name__, repr(leaf))
    if all(hasattr(leaf, name) for name in ("tobytes", "dtype", "shape")):  # an array or number of NumPy
        return (str(leaf.dtype), tuple(leaf.shape), leaf.tobytes())
    return None


def _difference(a: Any, b: Any) -> str:
    """Returns how two contents differ; "" if they are equal."""
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return "" if type(a) is type(b) and not isinstance(a, torch.Tensor) and a == b else "a different value"
    if a.dtype != b.dtype or a.shape != b.shape:
        return f"{describe_tensor(b)} instead of {describe_tensor(a)}"
    if a.device.type == "meta" or a.numel() == 0:
        return ""
    rows = [view_bytes(each).view(a.numel(), -1) for each in (a, b)]
    count = int((rows[0] != rows[1]).any(dim=1).sum())
    return f"{count} of {a.numel()} elements differ" if count else ""


def describe_tensor(tensor: torch.Tensor) -> str:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return f"nested {dtype}" if tensor.is_nested else f"{dtype}{list(tensor.shape)}"
