"""Finds the line of the user's program that calls an operation."""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
import tempfile
from types import FrameType, TracebackType

import torch
from torch.utils import _python_dispatch

_STDLIB = sysconfig.get_path("stdlib") + os.sep
_TORCH = os.path.dirname(str(torch.__file__)) + os.sep
_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep


def is_of_stdlib(file: str) -> bool:
    return file.startswith(_STDLIB) and "-packages" not in file


def source_of_thread(ident: int) -> str:
    """Returns the line that another thread of the program runs."""
    return _source_line(_frames(sys._current_frames().get(ident)))


def source_of_caller() -> str:
    """Returns the line that the current thread runs."""
    return _source_line(_frames(sys._getframe()))


def source_of_error(traceback: TracebackType | None) -> str:
    """Returns the innermost line of the program in a traceback."""
    frames = []
    while traceback is not None:
        frames.append((traceback.tb_frame, traceback.tb_lineno))
        traceback = traceback.tb_next
    return _source_line(frames[::-1])


def _frames(frame: FrameType | None) -> list[tuple[FrameType, int]]:
    found = []
    while frame is not None:
        found.append((frame, frame.f_lineno))
        frame = frame.f_back
    return found


def _source_line(frames: list[tuple[FrameType, int]]) -> str:
    watching = (os.path.dirname(__file__) + os.sep, str(_python_dispatch.__file__))
    files = [(frame.f_code.co_filename, frame, line) for frame, line in frames]
    outside = [each for each in files if not each[0].startswith(watching)]
    of_program = [each for each in outside if _is_of_program(each[0])]
    for file, frame, line in of_program or outside:
        return f"{file}:{line} in {frame.f_code.co_name}"
    return "not known"


@functools.cache
def _is_of_program(file: str) -> bool:
    compiled = os.environ.get("TORCHINDUCTOR_CACHE_DIR") or f"{tempfile.gettempdir()}/torchinductor_"
    if file.startswith(("<frozen", "<eval_with_key>", compiled, _TORCH, _PACKAGE)):
        return False
    return not is_of_stdlib(file)
