"""Checks of what functions are given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ._native import Refused


EPOCHS = 1 << 32  # that can be told apart
_MOST = (1 << 63) - 1


def check(problems: Iterable[str] = (), **numbers: tuple[Any, int] | tuple[Any, int, int]) -> None:
    """Raises Refused with all `problems`, and those of `numbers`: by name, what must be a whole number,
    its least value and its largest, if another than 2**63 - 1."""
    found = []
    for name, (value, least, *most) in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            found.append(f"{name} is {shortened(value)}: give a whole number, at least {least}")
        elif value > (most or [_MOST])[0]:
            found.append(f"{name} is {shortened(value)}: give a whole number, at most {(most or [_MOST])[0]}")
    found += problems
    if found:
        raise Refused("\n".join(found))


def shortened(value: Any) -> str:
    """Its repr(), as far as a message has room for it."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
