"""Detects which Python values a function changes: numbers and tensors in variables, attributes and elements, and the
states of random generators."""

from __future__ import annotations

import collections
import enum
import operator
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from . import _trees
from ._held_objects import OF_MODULES, STATEFUL, Wrapper, callees, modules_in, own_dict, walk
from ._plain_state import PLAIN
from ._random_states import generator_kinds, generator_state, with_state
from ._state_guard import is_same, is_searched, variables
from ._variables import names_used

_MISSING = object()
_READ_ONLY = (Wrapper, Dataset, DataLoader, torch.amp.GradScaler)  # the first three are not state of the step


class Replaced:
    """A variable, attribute or element that refers to another tensor, or to another tree with tensors, than before."""

    def __init__(self, part: _Part, key: Any, old: Any, new: Any) -> None:
        self.name, self.key, self.old, self.new = part.full_name(key), key, old, new
        self._part = part
        self.is_state = isinstance(part, _OfOptimizer) and old is not _MISSING  # replaces state of an optimizer

    def assign(self, value: Any) -> None:
        self._part.put(self.key, value)


class HeldValues:
    """The values that a step and other named objects refer to when this object is created. Tensors are compared by
    identity. Nothing is copied but the references.

    generators: those that a graph repeats."""

    def __init__(self, roots: Sequence[tuple[str, Any]], generators: Sequence[Any] = ()) -> None:
        leaves = (torch.nn.Module, torch.optim.Optimizer, *generator_kinds())
        roots = [("", roots[0][1]), *roots[1:]]  # the name of the step is not part of other names
        found = [*roots, *((each.name, each.content) for each in walk(roots, leaves, _leads_to_others))]
        held = list({id(each): (name, each) for name, each in reversed(found)}.values())[::-1]
        random = with_state([each for _, each in held if issubclass(type(each), generator_kinds())])
        unknown = [each for each in random if not any(each is known for known in generators)]
        self._generators = [(each, repr(generator_state(each))) for each in unknown]
        self._parts = [part for name, each in held for part in _parts(name, each)]
        used = names_used([part for _, each in held for part in _with_submodules(each)])
        for part in self._parts:
            part.used = used

    def changes(self) -> list[str]:
        """Returns the names and types of numbers, strings, containers, modules, optimizers and random generators that
        were changed."""
        found = [change for part in self._parts for change in part.changes()]
        changed = [type(each) for each, state in self._generators if repr(generator_state(each)) != state]
        found += [f"a random generator ({kind.__module__}.{kind.__name__})" for kind in changed]
        return list(dict.fromkeys(found))

    def replaced(self) -> list[Replaced]:
        """Returns the tensors that were replaced by others."""
        return [each for part in self._parts for each in part.replaced()]

    def restore(self) -> None:
        """Lets variables, attributes and elements refer to the same values again."""
        for part in self._parts:
            part.restore()


class _Part:
    """The attributes of an object."""

    used: set[str] | None = None  # names of attributes in the code; others are ignored

    def __init__(self, name: str, holder: Any) -> None:
        self._name, self._holder = name, holder
        self._before = self.read()

    def read(self) -> dict[Any, Any]:
        return dict(self._holder)

    def put(self, key: Any, value: Any) -> None:
        if value is not _MISSING:
            self._holder[key] = value
        elif key in self._holder:
            del self._holder[key]

    def full_name(self, key: Any) -> str:
        return f"{self._name}.{key}" if self._name else str(key)

    def pairs(self) -> Iterator[tuple[Any, Any, Any]]:
        """Yields the key, the old and the new value of each value that is another object than before."""
        before, now = self._before, self.read()
        for key in [*before, *(key for key in now if key not in before)]:
            old, new = before.get(key, _MISSING), now.get(key, _MISSING)
            if old is not new and self._is_used(key):
                yield key, old, new

    def _is_used(self, key: Any) -> bool:
        return self.used is None or key in self.used

    def changes(self) -> Iterator[str]:
        for key, old, new in self.pairs():
            if _is_change(old, new):
                yield f"'{self.full_name(key)}' ({type(old if new is _MISSING else new).__name__})"

    def restore(self) -> None:
        for key, old, _ in list(self.pairs()):
            self.put(key, old)

    def replaced(self) -> Iterator[Replaced]:
        for key, old, new in self.pairs():
            if tensors_in_tree(new):
                yield Replaced(self, key, old, new)


class _OfModule(_Part):
    """The attributes of a module. PyTorch reads some of them, so their names need not be in the code."""

    def read(self) -> dict[Any, Any]:
        return {key: value for key, value in self._holder.items() if key not in OF_MODULES}

    def _is_used(self, key: Any) -> bool:
        return True


class _OfFunction(_Part):
    """The variables of a function."""

    def __init__(self, name: str, function: types.FunctionType) -> None:
        self._slots = {place: (holder, key) for place, holder, key in variables(name, function)}
        super().__init__(name, function)

    def read(self) -> dict[Any, Any]:
        return {place: holder.get(key, _MISSING) for place, (holder, key) in self._slots.items()}

    def put(self, key: Any, value: Any) -> None:
        holder, key = self._slots[key]
        if value is not _MISSING:
            holder[key] = value
        elif key in holder:
            del holder[key]

    def full_name(self, key: Any) -> str:
        return str(key)

    def _is_used(self, key: Any) -> bool:
        return True


class _Elements(_Part):
    """The elements of a mapping."""

    def read(self) -> dict[Any, Any]:
        return dict(dict.items(self._holder))

    def full_name(self, key: Any) -> str:
        return f"{self._name}[{key!r}]" if isinstance(key, str | int) else self._name

    def _is_used(self, key: Any) -> bool:
        return True


class _OfOptimizer(_Elements):
    """A group or the state of an optimizer."""


class _Sequence(_Elements):
    """The elements of a list, set or deque."""

    def read(self) -> dict[Any, Any]:
        return dict(enumerate(list(self._holder)))

    def changes(self) -> Iterator[str]:
        before, now, kind = list(self._before.values()), list(self._holder), type(self._holder).__name__
        if len(before) != len(now):
            yield f"'{self._name}' ({kind}, {len(before)} to {len(now)} elements)"
        elif any(_is_change(old, new) for old, new in zip(before, now, strict=True)):
            yield f"'{self._name}' ({kind})"

    def restore(self) -> None:
        before = list(self._before.values())
        if len(before) != len(self._holder) or not all(map(operator.is_, before, self._holder)):
            self._holder.clear()
            (self._holder.update if issubclass(type(self._holder), set) else self._holder.extend)(before)


def _leads_to_others(each: Any) -> bool:
    # A gradient scaler replaces its containers in each step.
    is_scaler = issubclass(type(each), torch.amp.GradScaler)
    return not is_scaler and (is_searched(each) or issubclass(type(each), Wrapper))


def _with_submodules(each: Any) -> list[Any]:
    return modules_in(each) if issubclass(type(each), torch.nn.Module) else [each]


def _parts(name: str, each: Any) -> Iterator[_Part]:
    kind = type(each)
    if issubclass(kind, torch.nn.Module):
        yield from [_OfModule(name, vars(module)) for module in modules_in(each)]
    elif issubclass(kind, torch.optim.Optimizer):
        yield from _parts_of_optimizer(name, each)
    elif not issubclass(kind, (*_READ_ONLY, *generator_kinds())) and is_searched(each):
        for callee in callees(each):
            if isinstance(callee, types.FunctionType):
                yield _OfFunction(name, callee)
            elif (own := own_dict(callee)) is not None:
                yield _Part(name, own)
        if issubclass(kind, dict):
            yield _Elements(name, each)
        elif issubclass(kind, (list, set, collections.deque)):
            yield _Sequence(name, each)


def _parts_of_optimizer(name: str, optimizer: torch.optim.Optimizer) -> Iterator[_Part]:
    kind = type(optimizer).__name__
    yield from [_OfOptimizer(f"{kind}.param_groups[{i}]", each) for i, each in enumerate(optimizer.param_groups)]
    yield _OfOptimizer(f"{kind}.state", optimizer.state)
    states = [each for each in optimizer.state.values() if isinstance(each, dict)]
    yield from [_OfOptimizer(f"{kind}.state[...]", each) for each in states]
    if not type(optimizer).__module__.startswith("torch."):
        yield _Part(name, own_dict(optimizer) or {})


def tensors_in_tree(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in _trees.leaves(value) if isinstance(leaf, torch.Tensor)]


def _is_change(old: Any, new: Any) -> bool:
    """Returns true if a value was replaced by another, but a tensor by a tensor."""
    if is_same(old, new):
        return False
    if any(issubclass(type(each), STATEFUL) for each in (old, new)):
        return True
    ours, theirs = (list(filter(is_constant, _trees.leaves(each))) for each in (old, new))
    return not (len(ours) == len(theirs) and all(map(_is_equal, ours, theirs)))


def is_constant(leaf: Any) -> bool:
    """Returns true for numbers, strings and other objects that cannot change."""
    numpy = sys.modules.get("numpy")
    of_numpy = (numpy.generic,) if numpy else ()
    return isinstance(leaf, (*PLAIN, enum.Enum, torch.dtype, torch.device, torch.Size, *of_numpy))


def find_changed(before: Sequence[tuple[str, Any]], after: Sequence[tuple[str, Any]]) -> str:
    """Returns the name of the first constant that is another one in `after`; "" if there is none."""
    if len(before) != len(after):
        return "the results"
    return next((name for (name, a), (_, b) in zip(before, after, strict=True) if not _is_equal(a, b)), "")


def _is_equal(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and bool(a == b or (a != a and b != b)))
