"""Context managers that do not change the exceptions that propagate through them."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Generic, ParamSpec, TypeVar

_Given = TypeVar("_Given", covariant=True)
_Arguments = ParamSpec("_Arguments")


class _Block(contextlib.AbstractContextManager[_Given], Generic[_Given]):
    def __init__(self, steps: Iterator[_Given]) -> None:
        self._steps = steps

    def __enter__(self) -> _Given:
        return next(self._steps)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            next(self._steps, None)  # runs the function to its end
            return
        try:
            self._steps.throw(error)  # type: ignore[attr-defined]
        except BaseException as raised:
            # A generator cannot raise StopIteration: Python raises a RuntimeError from it instead.
            is_converted = isinstance(error, StopIteration) and raised.__cause__ is error
            if raised is not error and not is_converted:
                raise
        # Removes the frames of the generator that throw() added, without an assignment, which the class may refuse.
        BaseException.with_traceback(error, trace)


def contextmanager(
    function: Callable[_Arguments, Iterator[_Given]],
) -> Callable[_Arguments, contextlib.AbstractContextManager[_Given]]:
    """A decorator like contextlib.contextmanager, for functions that do not catch exceptions. contextlib's version
    assigns to `__traceback__` of the exception, so an exception whose `__setattr__` raises would be lost."""

    @functools.wraps(function)
    def made(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Block[_Given]:
        return _Block(function(*args, **kwargs))

    return made
