"""Checks of what functions are given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ._native import Refused


def check(problems: Iterable[str] = (), **numbers: tuple[Any, int]) -> None:
    """Raises Refused with all `problems`, and those of `numbers`: by name, what must be a whole number
    and its least value."""
    found = [
        f"{name} is {value!r}: give a whole number, at least {least}"
        for name, (value, least) in numbers.items()
        if isinstance(value, bool) or not isinstance(value, int) or value < least
    ]
    found += problems
    if found:
        raise Refused("\n".join(found))
