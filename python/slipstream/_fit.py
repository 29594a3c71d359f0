"""The course of slipstream.Trainer.fit()."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import sys
import traceback
import warnings
from typing import Any, NoReturn

from ._runs import wait_for_closed


@dataclasses.dataclass(frozen=True)
class TrainingStep:
    """What on_step is told: a step that the device has finished."""

    step: int  #: steps trained, of all runs
    loss: float
    lr: float | None  #: of parameters without an lr of their own; None: the training has none
    seconds: float  #: of training since the trainer was made or a checkpoint restored, without evaluations
    input_wait_share: float  #: of the time, in which the device waited for input


@dataclasses.dataclass(frozen=True)
class TrainingEpoch:
    """What on_epoch is told: the end of an epoch, and its evaluation on `val`."""

    step: int  #: steps trained, of all runs
    epoch: float  #: the same in epochs
    loss: float  #: mean over the steps of the epoch so far, with those before a resumed checkpoint
    scores: dict[str, float]  #: of `val`; empty without
    is_best: bool


@dataclasses.dataclass(frozen=True)
class TrainingResult:
    """What fit() did."""

    steps: int  #: trained by this call
    position: int  #: steps trained, of all runs
    losses: list[float]  #: of each step of this call
    epochs: list[TrainingEpoch]
    seconds: float
    steps_per_second: float | None  #: without warming up, of the last epoch with enough steps; None: too few steps
    digest: str  #: of all losses, weights, buffers and the optimizer's state
    ended: str  #: why it ended before its last step; "": it did not
    is_saved: bool  #: whether there is a checkpoint of the last step

    @property
    def loss(self) -> float:
        """That of the last step; NaN where none was trained."""
        return self.losses[-1] if self.losses else math.nan

    @property
    def scores(self) -> dict[str, float]:
        """Of the last evaluation."""
        return self.epochs[-1].scores if self.epochs else {}


def end_forked(error: BaseException | None) -> NoReturn:
    """Ends a process that was forked in the midst of a run, of whose threads it has none."""
    code = error.code if isinstance(error, SystemExit) else 1
    status = code if isinstance(code, int) else int(code is not None)
    try:
        with contextlib.suppress(BaseException):
            if error is None:
                text = "a process forked inside a run cannot go on in it: end it there, os._exit(0)\n"
            elif not isinstance(error, SystemExit):
                text = "".join(traceback.format_exception(error))
            else:
                text = "" if code is None or isinstance(code, int) else f"{code}\n"
            sys.stderr.write(text)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(BaseException):
                stream.flush()
    finally:
        os._exit(status & 0xFF)


class FitCalls:
    """Functions for the native loop over epochs, which calls them on the thread of fit(), end_step() on any."""

    def __init__(self, trainer: Any) -> None:
        """trainer: a slipstream.Trainer."""
        self._trainer = trainer
        self.epochs: list[TrainingEpoch] = []

    def wait_for_closed(self) -> None:
        wait_for_closed()

    def evaluate(self) -> list[tuple[str, float]] | None:
        """Returns None if it was interrupted."""
        scores = self._trainer._scores(self._trainer._val)
        return None if scores is None else list(scores.items())

    def warn_of_skipped(self) -> None:
        self._trainer._loader._warn_of_skipped()

    def warn(self, problem: str) -> None:
        warnings.warn(problem, stacklevel=3)

    def end_step(self, *values: Any) -> None:
        self._trainer._on_step(TrainingStep(*values))

    def end_epoch(
        self, step: int, epoch: float, loss: float, scores: list[tuple[str, float]], is_best: bool
    ) -> None:
        self.epochs.append(TrainingEpoch(step, epoch, loss, dict(scores), is_best))
        if self._trainer._on_epoch is not None:
            self._trainer._on_epoch(self.epochs[-1])
