"""Detects exceptions that signal handlers raise. Python calls a handler between any two instructions, so its exception
may appear to come from unrelated code."""

from __future__ import annotations

import contextlib
import functools
import signal
import traceback
from types import TracebackType
from typing import Any


def describe_place(error: BaseException, trace: TracebackType | None, place: str) -> str:
    """Returns a description of where the error was raised. If a signal handler raised it, the description says that
    this place is not its cause."""
    is_for_a_signal = isinstance(error, KeyboardInterrupt) or is_of_handler(error, trace)
    return f"raised by a signal handler, which happened to run here: {place}" if is_for_a_signal else place


def add_note(error: BaseException, note: str) -> None:
    """Adds a note to an exception. Does nothing before Python 3.11, or if the class of the exception refuses it."""
    add = getattr(BaseException, "add_note", None)
    if add is not None:
        with contextlib.suppress(Exception):
            add(error, note)


def is_of_handler(error: BaseException, trace: TracebackType | None) -> bool:
    """Returns true if a signal handler raised the exception, so that its traceback contains a frame of the handler."""
    handlers = {_handler_code(signal.getsignal(each)) for each in signal.valid_signals()} - {None}
    return any(frame.f_code in handlers for frame, _ in traceback.walk_tb(trace))


def _handler_code(handler: Any) -> Any:
    while isinstance(handler, functools.partial):
        handler = handler.func
    if not callable(handler):  # SIG_DFL, SIG_IGN or None
        return None
    call = handler if hasattr(handler, "__code__") else getattr(type(handler), "__call__", None)
    return getattr(call, "__code__", None)
