"""What objects hold: attributes, elements, variables that functions close over, defaults, arguments of partials."""

from __future__ import annotations

import collections
import functools
import itertools
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

_MOST_DEEP = 6
_MOST_OBJECTS = 10_000
_MOST_ELEMENTS = 256  # of a container that are looked at, as longer ones hold data
_HOLD_NOTHING = (torch.Tensor, str, bytes, bytearray, int, float, complex, type(None), type, types.ModuleType)
_SEQUENCES = (list, tuple, collections.deque)


class Held(NamedTuple):
    name: str  # where it is: models[0], trainer.model
    content: Any
    depth: int  # how many other objects hold it in turn


def held_by(root: Any, kinds: tuple[type, ...]) -> list[Held]:
    """Objects of these kinds that `root` holds, directly and a few levels deeper, each once, nearest first. They are
    not looked into. No code of the objects is called."""
    if issubclass(type(root), kinds):
        return [Held("run", root, 0)]
    found: list[Held] = []
    seen, level = {id(root)}, [("", root)]
    for depth in range(_MOST_DEEP):
        deeper: list[tuple[str, Any]] = []
        for name, holder in level:
            for place, each in _named(holder, name, kinds):
                if id(each) in seen or len(seen) > _MOST_OBJECTS or issubclass(type(each), _HOLD_NOTHING):
                    continue
                seen.add(id(each))
                if issubclass(type(each), kinds):
                    found.append(Held(place, each, depth))
                else:
                    deeper.append((place, each))
        level = deeper
    return found


def _named(holder: Any, name: str, kinds: tuple[type, ...]) -> Iterator[tuple[str, Any]]:
    prefix = f"{name}." if name else ""
    if issubclass(type(holder), dict):
        yield from _elements(name, dict.items(holder))
    for sequence in _SEQUENCES:
        if issubclass(type(holder), sequence):
            yield from _elements(name, enumerate(sequence.__iter__(holder)))
    if issubclass(type(holder), functools.partial):
        yield from [(f"{prefix}argument {i}", each) for i, each in enumerate(holder.args)]
        yield from [(prefix + key, each) for key, each in holder.keywords.items()]
        yield from _of_callee(holder.func, name, kinds)
    elif issubclass(type(holder), (types.MethodType, types.BuiltinFunctionType)):
        yield from _of_callee(holder.__self__, name, kinds)
        yield from _of_callee(getattr(holder, "__func__", None), name, kinds)
    elif issubclass(type(holder), types.FunctionType):
        yield from [(prefix + variable, each) for variable, each in _variables(holder)]
    yield from [(f"{prefix}{key}", each) for key, each in _attributes(holder)]


def _elements(name: str, pairs: Any) -> Iterator[tuple[str, Any]]:
    for number, (key, each) in enumerate(itertools.islice(pairs, _MOST_ELEMENTS)):
        yield f"{name}[{key!r}]" if type(key) in (int, str) else f"{name}[key {number}]", each


def _of_callee(callee: Any, name: str, kinds: tuple[type, ...]) -> Iterator[tuple[str, Any]]:
    """Of what a call is passed on to, whose parts are named as if it were called itself."""
    if issubclass(type(callee), kinds):
        yield (f"{name}." if name else "") + type(callee).__name__, callee
    elif not issubclass(type(callee), _HOLD_NOTHING):
        yield from _named(callee, name, kinds)


def _variables(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield variable, cell.cell_contents
        except ValueError:  # not bound yet
            continue
    parameters = function.__code__.co_varnames[: function.__code__.co_argcount]
    values = function.__defaults__ or ()
    yield from zip(parameters[len(parameters) - len(values) :], values, strict=True)
    yield from (function.__kwdefaults__ or {}).items()


def _attributes(holder: Any) -> Iterator[tuple[str, Any]]:
    """What stands in its __dict__, unless that is computed, and in its slots."""
    classes = type(holder).__mro__
    own = next((vars(each)["__dict__"] for each in classes if "__dict__" in vars(each)), None)
    if isinstance(own, types.GetSetDescriptorType):
        yield from list(own.__get__(holder).items())
    for each in classes:
        slots = vars(each).items() if "__slots__" in vars(each) else ()
        for name, slot in slots:
            if isinstance(slot, types.MemberDescriptorType):
                try:
                    yield name, slot.__get__(holder)
                except AttributeError:  # nothing in it
                    continue
