"""Restores attributes of classes. Copying an object does not protect them, because the copy has the same class."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from ._held_objects import is_of_library, walk
from ._plain_state import PLAIN

_CONTAINERS = (list, dict, set)
_MOST_ELEMENTS = 256  # longer containers are not copied, so changes of their elements are not seen
_MOST_NAMED = 8  # attributes that one message names
_MISSING = object()


class ClassStates:
    """Saves the attributes of the user's classes of all objects that `roots` refer to.

    restore() restores numbers, strings and tuples of them. Changes of lists, dicts, sets and other objects are only
    reported."""

    def __init__(self, roots: Sequence[Any]) -> None:
        named = [("", root) for root in roots]
        objects = [*roots, *(held.content for held in walk(named, ()))]
        classes = dict.fromkeys(each for held in objects for each in type(held).__mro__ if _is_of_user(each))
        self._kept = {each: _attributes(each) for each in classes}

    def restore(self) -> list[str]:
        """Restores attributes that changed. Returns a sentence that lists the restored attributes, and one that lists
        changed attributes that are not restored; [] if none changed."""
        restored: list[str] = []
        changed: list[str] = []
        for each, before in self._kept.items():
            now = _attributes(each)
            for key in {**before, **now}:
                old, new = before.get(key, _MISSING), now.get(key, _MISSING)
                if _is_same(old, new):
                    continue
                kind = type(new if old is _MISSING else old).__name__
                is_restored = _is_plain(old) and _is_plain(new)
                (restored if is_restored else changed).append(f"'{each.__qualname__}.{key}' ({kind})")
                if is_restored:
                    _put(each, key, old)
        start = "class attributes, which all copies of an object share, were changed by the step or the data set, and "
        return [*_sentence(f"{start}are restored: ", restored), *_sentence(f"{start}are not restored: ", changed)]


def _is_of_user(each: type) -> bool:
    module = sys.modules.get(each.__module__)
    return module is not None and not is_of_library(vars(module))


def _attributes(each: type) -> dict[str, Any]:
    """Returns the attributes of a class, with shallow copies of short containers."""
    own = {key: value for key, value in vars(each).items() if not key.startswith("__")}
    return {key: _copied(value) for key, value in own.items()}


def _copied(value: Any) -> Any:
    is_short = type(value) in _CONTAINERS and len(value) <= _MOST_ELEMENTS
    return value.copy() if is_short else value


def _is_plain(value: Any) -> bool:
    if type(value) is tuple:
        return all(map(_is_plain, value))
    return value is _MISSING or type(value) in PLAIN


def _is_same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if type(a) is dict:
        return a.keys() == b.keys() and all(_is_same(a[key], b[key]) for key in a)
    if type(a) in (list, tuple):
        return len(a) == len(b) and all(map(_is_same, a, b))
    return type(a) in (*PLAIN, set) and bool(a == b or (a != a and b != b))


def _put(each: type, key: str, value: Any) -> None:
    # Methods of `type` are called because a metaclass of the user may override how attributes are set.
    if value is _MISSING:
        type.__delattr__(each, key)
    else:
        type.__setattr__(each, key, value)


def _sentence(start: str, names: list[str]) -> list[str]:
    if not names:
        return []
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return [f"{start}{', '.join(names[:_MOST_NAMED])}{more}"]
