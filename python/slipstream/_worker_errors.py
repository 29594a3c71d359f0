"""Restores the types of exceptions that were raised in worker processes."""

from __future__ import annotations

import builtins
import re
import sys
from typing import Any

_HEADLINE = re.compile(r"(?:^|: )([A-Za-z_][\w.]*)(?:: [^\n]*)?\nin worker process \d+:", re.DOTALL)


def with_type(error: BaseException) -> BaseException:
    """Returns an error that also has the type of the exception in the worker process, as in PyTorch's loader. Both
    `except KeyError` and `except slipstream.Error` then catch a KeyError of a worker. If this process does not know the
    type, returns the error unchanged."""
    found = _HEADLINE.search(str(error))
    kind = None if found is None else _exception_named(found[1])
    if kind is None or isinstance(error, kind):
        return error
    try:
        typed: BaseException = kind.__new__(_both(type(error), kind), str(error))
    except Exception:  # the two classes cannot be combined, or the user's class cannot be created from a text
        return error
    BaseException.__init__(typed, str(error))  # sets `args` without an assignment, which the class may refuse
    typed.__dict__.update(error.__dict__)
    return BaseException.with_traceback(typed, error.__traceback__)


def _exception_named(name: str) -> Any:
    module, _, kind = name.rpartition(".")
    owner: Any = sys.modules.get(module) if module else builtins
    value = getattr(owner, kind, None) or getattr(sys.modules.get("__main__"), kind, None)
    if not isinstance(value, type) or not issubclass(value, Exception):
        return None
    return None if issubclass(value, StopIteration) else value  # StopIteration would silently end the user's loop


def _both(error: Any, kind: Any) -> Any:
    def text(self: BaseException) -> str:
        return str(self.args[0])

    return type(kind.__name__, (error, kind), {"__str__": text, "__module__": kind.__module__})
