"""Detects changes of objects by the numbers and strings in their attributes."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

import torch

_MOST_OBJECTS, _MOST_ITEMS, _DEEPEST = 256, 64, 4
PLAIN = (bool, int, float, complex, str, bytes, type(None))
_CLOSED = (type, types.ModuleType, torch.Tensor)


def plain_state(*roots: Any) -> dict[tuple[Any, ...], Any]:
    """Returns the attributes of `roots`, and of objects that they refer to, that are numbers, strings or None. Only the
    beginning of long lists is read, to limit the time, so equal states do not prove that nothing changed."""
    found: dict[tuple[Any, ...], Any] = {}
    seen: set[int] = set()
    waiting: list[tuple[tuple[Any, ...], Any]] = [((number,), root) for number, root in enumerate(roots)]
    while waiting and len(seen) < _MOST_OBJECTS:
        path, value = waiting.pop()
        if id(value) in seen or len(path) > _DEEPEST or isinstance(value, _CLOSED):
            continue
        seen.add(id(value))
        for name, part in _parts(value):
            if isinstance(part, PLAIN):
                found[(*path, name)] = part
            else:
                waiting.append(((*path, name), part))
    return found


def _parts(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, list | tuple):
        yield "len", len(value)
        yield from enumerate(value[:_MOST_ITEMS])
        return
    attributes = value if isinstance(value, dict) else getattr(value, "__dict__", None)
    if isinstance(attributes, dict):
        yield from list(attributes.items())[:_MOST_ITEMS]


def change(before: dict[tuple[Any, ...], Any], after: dict[tuple[Any, ...], Any]) -> bool:
    """Returns true if two states differ. Compares with repr(), so that NaN equals itself."""
    return repr(before) != repr(after)
