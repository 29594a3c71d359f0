"""What handlers of signals raise, wherever Python calls them."""

from __future__ import annotations

import contextlib
import functools
import signal
import traceback
from types import TracebackType
from typing import Any


def describe_place(error: BaseException, trace: TracebackType | None, place: str) -> str:
    """`place`, and that it is not to blame where a handler of a signal raised the error in it."""
    is_for_a_signal = isinstance(error, KeyboardInterrupt) or is_of_handler(error, trace)
    return f"raised for a signal, which came here: {place}" if is_for_a_signal else place


def add_note(error: BaseException, note: str) -> None:
    """Adds a note, from Python 3.11 on. An exception whose class refuses it is raised without one."""
    add = getattr(BaseException, "add_note", None)
    if add is not None:
        with contextlib.suppress(Exception):
            add(error, note)


def is_of_handler(error: BaseException, trace: TracebackType | None) -> bool:
    """Whether a handler of a signal raised it."""
    handlers = {_handler_code(signal.getsignal(each)) for each in signal.valid_signals()} - {None}
    return any(frame.f_code in handlers for frame, _ in traceback.walk_tb(trace))


def _handler_code(handler: Any) -> Any:
    while isinstance(handler, functools.partial):
        handler = handler.func
    if not callable(handler):  # such as SIG_DFL
        return None
    call = handler if hasattr(handler, "__code__") else getattr(type(handler), "__call__", None)
    return getattr(call, "__code__", None)
