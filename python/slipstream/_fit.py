"""The course of slipstream.Trainer.fit()."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

from . import _native
from ._runs import wait_for_closed


@dataclasses.dataclass(frozen=True)
class TrainingStep:
    """What on_step is told: a step that the device has finished."""

    step: int  #: steps trained, of all runs
    loss: float
    lr: float | None  #: of parameters without an lr of their own; None: the training has none
    seconds: float  #: since fit() began
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
    steps_per_second: float | None  #: without warming up; None: too few steps
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


@dataclasses.dataclass
class Best:
    """Of the score that decides what is best."""

    value: float | None = None
    saved: float | None = None
    step: int = 0
    epochs_since: int = 0


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


class Fit:
    """A training in parts: it is evaluated, saved and perhaps ended between two epochs."""

    def __init__(self, trainer: Any) -> None:
        """trainer: a slipstream.Trainer."""
        self._trainer, self._native = trainer, trainer._native
        self._begun_at = self._native.position()
        self._saved_at: int | None = None
        self._losses: list[float] = []
        self._epochs: list[TrainingEpoch] = []
        self._seconds = 0.0
        self._rate: float | None = None
        self._ended = ""
        self.is_interrupted = False

    def train(self) -> None:
        trainer, native = self._trainer, self._native
        position, length = native.position(), native.batches_per_epoch()
        has_parts = trainer._val is not None or trainer._on_epoch is not None
        # An earlier run may have ended between the last step of an epoch and its score.
        if trainer._val is not None and 0 < position != trainer._scored_step and position % length == 0:
            self._end_epoch()
        self._end_early_where_due()
        while native.position() < trainer._steps and not self._ended and not self.is_interrupted:
            end = (native.position() // length + 1) * length if has_parts else trainer._steps
            end = min(end, trainer._steps)
            wait_for_closed()
            part = native.train(end, self._step_callback())
            self._losses += part.losses
            self._seconds += part.seconds
            self._rate = part.steps_per_second or self._rate
            self._report_problem()
            trainer._loader._warn_of_skipped()
            if _native.interrupted():
                self.is_interrupted = True
            elif part.interrupted:
                self._ended = "stopped"
            elif has_parts:
                self._end_epoch()
            self._end_early_where_due()

    def _step_callback(self) -> Callable[..., None] | None:
        tell = self._trainer._on_step
        return None if tell is None else lambda *values: tell(TrainingStep(*values))

    def _end_epoch(self) -> None:
        trainer, native = self._trainer, self._native
        step = native.position()
        epoch = step / native.batches_per_epoch()
        scores: dict[str, float] = {}
        is_best = False
        if trainer._val is not None:
            found = trainer._scores(trainer._val)
            if found is None:
                self.is_interrupted = True
                return
            scores = found
            is_best = self._judge(scores, step)
            native.log(step, epoch, list(scores.items()), trainer._criterion)
        self._epochs.append(TrainingEpoch(step, epoch, native.epoch_loss(), scores, is_best))
        if trainer._on_epoch is not None:
            trainer._on_epoch(self._epochs[-1])

    def _judge(self, scores: dict[str, float], step: int) -> bool:
        name, best = self._trainer._criterion, self._trainer._best
        if name not in scores:
            raise _native.Error(f"keep_best='{name}': this loss does not give it")
        value = scores[name]

        def is_better(than: float | None) -> bool:
            if than is None or not math.isfinite(value):
                return math.isfinite(value)
            return value < than if name == "loss" else value > than

        is_best, saves_best = is_better(best.value), is_better(best.saved)
        best.epochs_since = 0 if is_best else best.epochs_since + 1
        if is_best:
            best.value, best.step = value, step
        # One that could not be saved leaves the place to the next that is better than what was.
        if self._save(name, value, saves_best, best.epochs_since) and saves_best:
            best.saved = value
        self._trainer._scored_step = step
        return is_best

    def _end_early_where_due(self) -> None:
        trainer = self._trainer
        if self._ended or trainer._early_stop is None:
            return
        best = trainer._best
        if best.epochs_since >= trainer._early_stop:
            self._ended = (
                f"ended early: {trainer._criterion} has not improved for {best.epochs_since} epochs "
                f"(best: {best.value} at step {best.step})"
            )

    def save(self) -> bool:
        """Where the weights are those of another step than the last checkpoint."""
        position = self._native.position()
        if position in (self._saved_at, self._begun_at):
            return bool(self._trainer._has_folder)
        return self._save("", 0.0, False, 0)

    def _save(self, metric: str, value: float, is_best: bool, epochs_since: int) -> bool:
        wait_for_closed()
        is_saved = self._native.save(metric, value, is_best, epochs_since)
        if is_saved:
            self._saved_at = self._native.position()
        self._report_problem()
        return bool(is_saved)

    def _report_problem(self) -> None:
        if problem := self._native.problem():
            warnings.warn(problem, stacklevel=5)

    def result(self, is_saved: bool) -> TrainingResult:
        return TrainingResult(
            steps=self._native.position() - self._begun_at,
            position=self._native.position(),
            losses=self._losses,
            epochs=self._epochs,
            seconds=self._seconds,
            steps_per_second=self._rate,
            digest=self._trainer.digest(),
            ended=self._ended,
            is_saved=is_saved,
        )
