"""The results of slipstream.Trainer.fit(), and the functions that its native loop calls."""

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
    """Argument of on_step: a step that the device has finished.

    Attributes:
        step (int): number of steps trained, including those before a resume.
        loss (float): loss of this step.
        lr (float or None): learning rate of parameters without a separate one; None if the training has no such rate.
        seconds (float): time spent training since the trainer was created or a checkpoint restored, without
            evaluations.
        input_wait_share (float): share of the time in which the device waited for input, from 0 to 1.
    """

    step: int
    loss: float
    lr: float | None
    seconds: float
    input_wait_share: float


@dataclasses.dataclass(frozen=True)
class TrainingEpoch:
    """Argument of on_epoch: the end of an epoch, or of the training, and its evaluation on `val`.

    Attributes:
        step (int): number of steps trained, including those before a resume.
        epoch (float): number of epochs trained, including those before a resume.
        loss (float): mean over the steps of this epoch so far, including those before a resume.
        scores (dict from str to float): scores of `val` by name; empty without `val`.
        is_best (bool): whether this evaluation has the best score so far.
    """

    step: int
    epoch: float
    loss: float
    scores: dict[str, float]
    is_best: bool


@dataclasses.dataclass(frozen=True)
class TrainingResult:
    """Result of fit().

    Attributes:
        steps (int): number of steps that this call trained.
        position (int): number of steps trained, including those before a resume.
        losses (list of float): loss of each step of this call.
        epochs (list of TrainingEpoch): one entry for each end of an epoch; empty without `val` and on_epoch.
        seconds (float): duration of the training.
        steps_per_second (float or None): steady rate in the last epoch with enough steps; None if there is none.
        digest (str): hash of all losses, the weights, the buffers and the optimizer's state.
        ended (str): why the training ended before its last step; "" if it did not.
        is_saved (bool): whether there is a checkpoint of the last step.
    """

    steps: int
    position: int
    losses: list[float]
    epochs: list[TrainingEpoch]
    seconds: float
    steps_per_second: float | None
    digest: str
    ended: str
    is_saved: bool

    @property
    def loss(self) -> float:
        """Loss of the last step that fit() trained; NaN if it trained none."""
        return self.losses[-1] if self.losses else math.nan

    @property
    def scores(self) -> dict[str, float]:
        """Scores of the last evaluation; empty if there was none."""
        return self.epochs[-1].scores if self.epochs else {}


def end_forked(error: BaseException | None) -> NoReturn:
    """Ends a forked process whose code returns into a running fit(). The threads of the run exist only in the parent,
    so the run cannot continue here. Uses os._exit(), because exit handlers would wait for these threads."""
    code = error.code if isinstance(error, SystemExit) else 1
    status = code if isinstance(code, int) else int(code is not None)
    try:
        with contextlib.suppress(BaseException):
            if error is None:
                text = "a process that was forked inside a run cannot continue the run: end it with os._exit(0)\n"
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
    """The functions that the native loop over epochs calls: end_step() on any thread, the others on that of fit()."""

    def __init__(self, trainer: Any) -> None:
        """trainer: a slipstream.Trainer."""
        self._trainer = trainer
        self.epochs: list[TrainingEpoch] = []

    def wait_for_closed(self) -> None:
        wait_for_closed()

    def evaluate(self) -> list[tuple[str, float]] | None:
        """Evaluates on `val` and returns the scores, or None if the evaluation was interrupted."""
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
