"""The targets to which slipstream.watch() writes: lines of text, TensorBoard, Weights & Biases."""

from __future__ import annotations

import importlib
import logging
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from . import _native
from ._checks import shortened

_WANDB = "wandb"


class Log(Protocol):
    """A target of lines, of values, or of both."""

    def line(self, text: str) -> None: ...
    def values(self, values: Mapping[str, float], step: int) -> None: ...


class LineLog:
    """Passes lines to a function, such as print. Lines contain the values."""

    def __init__(self, function: Callable[[str], Any]) -> None:
        self._function = function

    def line(self, text: str) -> None:
        self._function(text)

    def values(self, values: Mapping[str, float], step: int) -> None:
        pass


class TensorBoardLog:
    """Writes values as scalars of TensorBoard.

    is_flushed: whether to flush the writer after each call. The owner of a writer flushes it otherwise."""

    def __init__(self, writer: Any, is_flushed: bool) -> None:
        self._writer, self._is_flushed = writer, is_flushed

    def line(self, text: str) -> None:
        pass

    def values(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        if self._is_flushed:
            self._writer.flush()


class WandbLog:
    """Adds values to the current step of a run of Weights & Biases. The next call of its log() commits them, so that
    the run's own step counter does not advance."""

    def __init__(self, run: Any) -> None:
        self._run = run

    def line(self, text: str) -> None:
        pass

    def values(self, values: Mapping[str, float], step: int) -> None:
        self._run.log(dict(values), commit=False)


class Logs:
    """All targets of a watch. After a target has raised an exception, nothing more is written to it: a full disk must
    not end a training."""

    def __init__(self, logs: Sequence[Log]) -> None:
        self._logs = list(logs)

    def line(self, text: str) -> None:
        self._write(lambda log: log.line(text))

    def values(self, values: Mapping[str, float], step: int) -> None:
        self._write(lambda log: log.values(values, step))

    def _write(self, write: Callable[[Log], None]) -> None:
        for log in list(self._logs):
            try:
                write(log)
            except Exception as error:
                self._logs.remove(log)
                warnings.warn(
                    "slipstream.watch could not write to a log, and continues without this log: "
                    f"{type(error).__name__}: {error}",
                    RuntimeWarning,
                    stacklevel=6,  # the line of the loop
                )


def make_logs(log: Any) -> Logs:
    """Returns the targets that the argument `log` of watch() selects. Raises Refused for anything else."""
    if log is None:
        return Logs(())
    return Logs([_make_log(each) for each in (log if isinstance(log, list | tuple) else [log])])


def _make_log(log: Any) -> Log:
    if isinstance(log, str) and log == _WANDB:
        return WandbLog(_current_run())
    if isinstance(log, str | os.PathLike):
        return TensorBoardLog(_open_writer(os.fspath(log)), is_flushed=True)
    if hasattr(log, "add_scalar"):
        return TensorBoardLog(log, is_flushed=False)
    if isinstance(log, logging.Logger):
        raise _native.Refused(f"log is {log!r}: give a method of the logger, such as logger.info")
    if callable(getattr(log, "log", None)):
        return WandbLog(log)
    if callable(log):
        return LineLog(log)
    raise _native.Refused(
        f"log is {shortened(log)}: give a function that takes a line, a folder or a SummaryWriter for TensorBoard, a "
        "run of Weights & Biases or 'wandb' for the current one, a list of these, or None"
    )


def _imported(module: str, package: str, problem: str) -> Any:
    """Returns a module of a package that may not be installed. problem: the begin of the message if it is not."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise _native.Refused(
            f"{problem} cannot be imported ({error}). Remedy: pip install {package}, or another log"
        ) from error


def _open_writer(folder: str) -> Any:
    problem = f"log is the folder {folder!r}, for which TensorBoard is needed, but it"
    return _imported("torch.utils.tensorboard", "tensorboard", problem).SummaryWriter(folder)


def _current_run() -> Any:
    wandb = _imported(_WANDB, _WANDB, "log is 'wandb', but Weights & Biases")
    if wandb.run is None:
        raise _native.Refused("log is 'wandb', but there is no run: call wandb.init() before slipstream.watch()")
    return wandb.run
