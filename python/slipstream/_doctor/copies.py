"""Copies data sets and samplers, so that the doctor does not use those of the user."""

from __future__ import annotations

import copy
import inspect
import io
import itertools
import threading
import types
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from .. import _native, _trees
from .._held_objects import own_dict, walk
from .._plain_state import PLAIN

_LONG = 256  # a container with more elements counts as data; walk() searches only this number of them
_MOST_DEPTH = 5  # data sets that wrap each other
_LOCKS = (type(threading.Lock()), type(threading.RLock()))
_METHODS = ("__getitem__", "__getitems__", "__iter__", "__call__")


class Copier:
    """Copies objects as copy.deepcopy() does. All copies use one memo, so that they refer to each other as the
    originals do. If an object cannot be copied, its parts are copied one by one, and parts that cannot be copied are
    shared with the original.

    shared: objects that are not copied.
    most_bytes: limit for all copied tensors and arrays together, by default a quarter of the free memory. Larger ones,
        and those that are read-only or mapped from a file, are not copied.
    not_copied: names and objects that are shared with the originals and might change.
    """

    def __init__(self, shared: Iterable[Any] = (), most_bytes: int | None = None) -> None:
        self.not_copied: list[tuple[str, Any]] = []
        self._memo: dict[int, Any] = {id(each): each for each in shared}
        # deepcopy() stores a list in the memo under the id of the memo itself. All memos are kept, because the id of a
        # freed one could be that of a later object, which would then seem to be copied already.
        self._memos: list[Any] = []
        self._shared = set(self._memo)
        self._most_bytes = _native.free_memory_bytes() // 4 if most_bytes is None else most_bytes
        self._roots: list[tuple[Any, Any]] = []

    def copied(self, name: str, root: Any) -> Any:
        arrays = (torch.Tensor, *_trees.array_kinds())
        for held in walk([(name, root)], arrays, lambda each: id(each) not in self._memo):
            self._keep_data(held.name, held.content)
        made = self._copied(name, root)
        self._roots.append((root, made))
        return made

    def common(self) -> list[tuple[str, Any]]:
        """Returns objects that both the copies and the user's objects refer to: functions, what these refer to, and
        objects that were not copied. The doctor must restore their state."""
        found = []
        for root, made in self._roots:
            theirs = {id(each) for _, each in self._reached(root)}
            ours = self._reached(made)
            found += [(name, each) for name, each in ours if id(each) in theirs]
            methods = [inspect.getattr_static(type(each), name, None) for _, each in ours for name in _METHODS]
            found += [("", each) for each in dict.fromkeys(filter(_is_function, methods))]
        return found

    def _reached(self, root: Any) -> list[tuple[str, Any]]:
        found = walk([("", root)], (torch.Tensor, *_trees.array_kinds()), lambda each: id(each) not in self._shared)
        reached = [("", root), *((each.name, each.content) for each in found)]
        return [(name, each) for name, each in reached if id(each) not in self._shared]

    def _keep_data(self, name: str, each: Any) -> None:
        if id(each) in self._memo:
            return
        if _is_immutable(each):
            self._memo[id(each)] = each
        elif type(each) is list and len(each) > _LONG and all(map(_is_flat, each)):
            self._memo[id(each)] = list(each)
        elif isinstance(each, (torch.Tensor, list, tuple, dict, *_trees.array_kinds())):
            size = _data_size(each)
            if size > self._most_bytes or _is_mapped(each):
                self._stays(name, each)
            else:
                self._most_bytes -= size

    def _copied(self, name: str, each: Any) -> Any:
        if id(each) in self._memo:
            return self._memo[id(each)]
        memo = dict(self._memo)
        try:
            made = copy.deepcopy(each, memo)
        except Exception:
            return self._copied_in_parts(name, each)
        self._memo = memo  # not after a failed copy, whose memo contains objects without their content
        self._memos.append(memo)
        return made

    def _copied_in_parts(self, name: str, each: Any) -> Any:
        if type(each) in (list, tuple):
            parts = [self._copied(f"{name}[{i}]", part) for i, part in enumerate(each)]
            made: Any = type(each)(parts)
        elif type(each) is dict:
            made = {key: self._copied(f"{name}[{key!r}]", part) for key, part in each.items()}
        elif own_dict(each) is None or isinstance(each, types.FunctionType):
            return self._stays(name, each)
        else:
            try:
                made = copy.copy(each)
            except Exception:
                return self._stays(name, each)
            self._memo[id(each)] = made
            held = own_dict(made) or {}
            held.update({key: self._copied(f"{name}.{key}", part) for key, part in held.items()})
        self._memo[id(each)] = made
        return made

    def _stays(self, name: str, each: Any) -> Any:
        self._memo[id(each)] = each
        self.not_copied.append((name, each))
        return each


def _is_flat(each: Any) -> bool:
    return type(each) in PLAIN or (type(each) is tuple and all(type(part) in PLAIN for part in each))


def _is_function(each: Any) -> bool:
    return isinstance(each, types.FunctionType)


def _is_immutable(each: Any) -> bool:
    """Returns true for read-only arrays and for objects of Arrow, which may be mapped from a file: a copy would load
    them into memory."""
    is_read_only = not getattr(getattr(each, "flags", None), "writeable", True)
    return is_read_only or type(each).__module__.partition(".")[0] == "pyarrow"


def _data_size(each: Any) -> int:
    """Returns the bytes of a tensor or an array, or the approximate bytes of the elements of a long container,
    estimated from the first ones."""
    if isinstance(each, (torch.Tensor, *_trees.array_kinds())):
        return _trees.byte_size(each)
    if len(each) <= _LONG:
        return 0
    first = list(itertools.islice(each.values() if isinstance(each, dict) else each, _LONG))
    return _trees.byte_size(first) * len(each) // len(first)


def _is_mapped(each: Any) -> bool:
    """Returns true for a NumPy array that is mapped from a file, or a view of one."""
    while each is not None:
        if type(each).__name__ == "memmap":
            return True
        each = getattr(each, "base", None)
    return False


def datasets_in(dataset: Any) -> list[Any]:
    """Returns the data set and the data sets inside it, which a Subset or a wrapper has in its attribute `dataset`."""
    found = [dataset]
    while (inner := getattr(found[-1], "__dict__", {}).get("dataset")) is not None and len(found) < _MOST_DEPTH:
        found.append(inner)
    return found


def shared_tensors(dataset: Any) -> list[tuple[str, Any]]:
    """Returns tensors in shared memory. If a worker process writes to one, the user's tensor changes, too."""
    held = [each for each in walk([("dataset", dataset)], (torch.Tensor,)) if isinstance(each.content, torch.Tensor)]
    return [(each.name, each.content) for each in held if each.content.is_shared() and not each.content.is_cuda]


def refuse_iterators(not_copied: Sequence[tuple[str, Any]]) -> None:
    for name, each in not_copied:
        if hasattr(type(each), "__next__") and not isinstance(each, io.IOBase):
            raise _native.Refused(
                f"the loader's {name}, {type(each).__name__}, cannot be copied, and the doctor must not consume it: "
                "give an object whose __iter__() starts again with each call"
            )


def is_harmless(each: Any) -> bool:
    """Returns true for objects that may be shared with the originals: locks, and files, whose position is restored."""
    return isinstance(each, _LOCKS) or (isinstance(each, io.IOBase) and not each.writable())
