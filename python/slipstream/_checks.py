"""Checks of arguments."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable
from typing import Any, Protocol

import torch

from ._native import Refused

EPOCHS = 1 << 32  # number of different epochs: the epoch is the upper half of the 64-bit number of a batch
SEEDS = 1 << 64
_MOST = (1 << 63) - 1


class Array(Protocol):
    """A tensor, or an array of NumPy."""

    def tolist(self) -> Any: ...


Indices = Iterable[int] | Array


def check(problems: Iterable[str] = (), **numbers: tuple[Any, int] | tuple[Any, int, int]) -> None:
    """Raises Refused with all problems in one message, if there are any.

    problems: messages about arguments that the caller has already checked.
    numbers: maps the name of each argument that must be an integer to its value, the smallest allowed value and the
        largest one (by default 2**63 - 1)."""
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
    """Converts an integer of Python, NumPy or PyTorch to int. Returns `otherwise` for anything else, also for bool."""
    try:
        return otherwise if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return otherwise


def choose(**given: tuple[Any, Iterable[Any]]) -> list[str]:
    """Checks arguments that have a fixed set of allowed values. Returns a sentence for each invalid one.

    given: maps the name of each argument to its value and the allowed values."""
    return [
        f"{name} is {shortened(value)}: give {' or '.join(map(repr, choices))}"
        for name, (value, choices) in given.items()
        if not any(type(_plain(value)) is type(each) and _plain(value) == each for each in choices)
    ]


def _plain(value: Any) -> Any:
    """Converts booleans of NumPy to bool."""
    return bool(value) if type(value).__name__ in ("bool", "bool_") and hasattr(value, "dtype") else value


def whole_numbers(name: str, given: Any) -> list[int]:
    """Converts a list, tensor or array of integers to a list of int. Raises Refused for other values and for negative
    numbers."""
    try:
        all_of_them = given.tolist() if hasattr(given, "tolist") else list(given)
        numbers = [to_index(each, -1) for each in all_of_them]
    except TypeError:
        numbers = [-1]
    if numbers and not 0 <= min(numbers) <= max(numbers) <= _MOST:
        raise Refused(f"{name} is {shortened(given)}: give whole numbers, counted from 0")
    return numbers


def check_path(name: str, given: Any) -> str:
    """Returns a path as a string, with "~" replaced by the home folder. Raises Refused if `given` is not a path."""
    try:
        path = os.path.expanduser(os.fsdecode(given))
        if "\0" in path:
            raise TypeError
        return path
    except TypeError:
        raise Refused(f"{name} is {shortened(given)}: give a path, a string or pathlib.Path") from None


def device_named(given: Any) -> str:
    """Returns the device as "cpu" or "cuda:N". Raises Refused for other devices, and for GPUs that do not exist."""
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
    """Returns true if `given` is the same device as `named`, a result of device_named()."""
    device = torch.device(given)
    return device.type == torch.device(named).type and (named == "cpu" or device_named(device) == named)


def shortened(value: Any) -> str:
    """Returns repr(), cut to 80 characters for messages."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
