"""What objects hold: attributes, elements, variables that functions close over, defaults, arguments of partials."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

_MOST_DEEP = 6
_MOST_OBJECTS = 10_000
_MOST_ELEMENTS = 256  # of a container, as longer ones hold data
_HOLD_NOTHING = (torch.Tensor, str, bytes, bytearray, int, float, complex, type(None), type, types.ModuleType)


def held_by(root: Any, is_wanted: Callable[[Any], bool]) -> dict[str, Any]:
    """What is wanted among what `root` holds, directly and a few levels deeper, each once, by where it is
    (`models[0]`, `trainer.model`), nearest first. What is wanted is not looked into."""
    found: dict[str, Any] = {}
    seen, level = {id(root)}, [("", root)]
    for _ in range(_MOST_DEEP):
        deeper: list[tuple[str, Any]] = []
        for name, holder in level:
            for place, each in _named(holder, name):
                if id(each) in seen or len(seen) > _MOST_OBJECTS or isinstance(each, _HOLD_NOTHING):
                    continue
                seen.add(id(each))
                if is_wanted(each):
                    found[place] = each
                else:
                    deeper.append((place, each))
        level = deeper
    return found


def _named(holder: Any, name: str) -> Iterator[tuple[str, Any]]:
    prefix = f"{name}." if name else ""
    if isinstance(holder, Mapping | list | tuple):
        if len(holder) <= _MOST_ELEMENTS:
            pairs = holder.items() if isinstance(holder, Mapping) else enumerate(holder)
            yield from [(f"{name}[{key!r}]", each) for key, each in pairs]
    elif isinstance(holder, functools.partial):
        yield from [(f"{prefix}argument {i}", each) for i, each in enumerate(holder.args)]
        yield from [(prefix + key, each) for key, each in holder.keywords.items()]
        yield from _named(holder.func, name)
    elif isinstance(holder, types.MethodType):
        yield from _named(holder.__self__, name)
        yield from _named(holder.__func__, name)
    elif isinstance(holder, types.FunctionType):
        for variable, cell in zip(holder.__code__.co_freevars, holder.__closure__ or (), strict=False):
            try:
                yield prefix + variable, cell.cell_contents
            except ValueError:  # not bound yet
                continue
        parameters = holder.__code__.co_varnames[: holder.__code__.co_argcount]
        values = holder.__defaults__ or ()
        defaults = dict(zip(parameters[len(parameters) - len(values) :], values, strict=True))
        for parameter, each in (defaults | (holder.__kwdefaults__ or {})).items():
            yield prefix + parameter, each
    held = getattr(holder, "__dict__", None)
    if isinstance(held, dict):
        yield from [(prefix + str(key), each) for key, each in list(held.items())]
