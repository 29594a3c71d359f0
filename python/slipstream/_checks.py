"""Checks of what functions are given."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable
from typing import Any, Protocol

import torch

from ._native import Refused

EPOCHS = 1 << 32  # that can be told apart
SEEDS = 1 << 64
_MOST = (1 << 63) - 1


class Array(Protocol):
    """A tensor, or an array of NumPy."""

    def tolist(self) -> Any: ...


Indices = Iterable[int] | Array


def check(problems: Iterable[str] = (), **numbers: tuple[Any, int] | tuple[Any, int, int]) -> None:
    """Raises Refused with all `problems`, and those of `numbers`: by name, what must be a whole number,
    its least value and its largest, if another than 2**63 - 1."""
    found = []
    for name, (value, least, *given) in numbers.items():
        most = given[0] if given else _MOST
        number = to_index(value)
        if number is None or number < least:
            found.append(f"{name} is {shortened(value)}: give a whole number, at least {least}")
        elif number > most:
            found.append(f"{name} is {shortened(value)}: give a whole number, at most {most}")
    found += problems
    if found:
        raise Refused("\n".join(found))


def to_index(value: Any, otherwise: Any = None) -> Any:
    """A whole number, of Python, NumPy or PyTorch, as Python's; None, or another, of what is none."""
    try:
        return otherwise if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return otherwise


def choose(**given: tuple[Any, Iterable[Any]]) -> list[str]:
    """The problems of what must be one of a few values: by name, what was given and these."""
    return [
        f"{name} is {shortened(value)}: give {' or '.join(map(repr, choices))}"
        for name, (value, choices) in given.items()
        if not any(type(_plain(value)) is type(each) and _plain(value) == each for each in choices)
    ]


def _plain(value: Any) -> Any:
    """Booleans of NumPy as Python's."""
    return bool(value) if type(value).__name__ in ("bool", "bool_") and hasattr(value, "dtype") else value


def whole_numbers(name: str, given: Any) -> list[int]:
    """A list, tensor or array of whole numbers, at least 0, as a list of them."""
    try:
        all_of_them = given.tolist() if hasattr(given, "tolist") else list(given)
        numbers = [to_index(each, -1) for each in all_of_them]
    except TypeError:
        numbers = [-1]
    if numbers and not 0 <= min(numbers) <= max(numbers) <= _MOST:
        raise Refused(f"{name} is {shortened(given)}: give whole numbers, counted from 0")
    return numbers


def check_path(name: str, given: Any) -> str:
    """A path of files, with "~" as the home folder."""
    try:
        path = os.path.expanduser(os.fsdecode(given))
        if "\0" in path:
            raise TypeError
        return path
    except TypeError:
        raise Refused(f"{name} is {shortened(given)}: give a path, a string or pathlib.Path") from None


def device_named(given: Any) -> str:
    """As the native side names it: "cpu", or "cuda:N"."""
    try:
        if isinstance(given, bool | None):
            raise TypeError
        device = torch.device(given)
    except (RuntimeError, TypeError, ValueError):
        device = torch.device("meta")
    if device.type == "cpu":
        return "cpu"
    if device.type != "cuda":
        raise Refused(f"device is {shortened(given)}: give 'cpu', 'cuda' or 'cuda:N'")
    if not torch.cuda.is_available():
        raise Refused(
            f"device is {shortened(given)}, but torch.cuda.is_available() says that there is no GPU here: "
            "give device='cpu'"
        )
    index = torch.cuda.current_device() if device.index is None else device.index
    if index >= torch.cuda.device_count():
        raise Refused(f"device is {shortened(given)}, but there are {torch.cuda.device_count()} GPUs")
    return f"cuda:{index}"


def is_device(given: str | torch.device, named: str) -> bool:
    """Whether it is the one that device_named() named so."""
    device = torch.device(given)
    return device.type == torch.device(named).type and (named == "cpu" or device_named(device) == named)


def shortened(value: Any) -> str:
    """Its repr(), as far as a message has room for it."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
