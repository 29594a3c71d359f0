"""Training a PyTorch module with the whole run native."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from . import _native
from ._checks import check, choose
from ._fit import FitCalls, TrainingEpoch, TrainingResult, TrainingStep
from ._runs import Outputs, interrupts, running, wait_for_closed
from ._training import (
    as_arguments,
    check_callable,
    require_loader,
    optional_path,
    refuse_several_processes,
    make_settings,
)
from .data import DataLoader
from .datasets import Path
from .pipeline import Pipeline


class Trainer:
    """Trains `model` on the batches of `loader` natively: loader, copies, frozen stages, optimizer,
    schedule, evaluation and checkpoints run as in `slipstream train`. Python is called for the model and
    the loss alone, on the training lane's stream, and holds its lock only while it enqueues.

    loader: a slipstream.DataLoader, or a slipstream.Pipeline around one, whose stages run ahead on streams of
        their own. Its data set, transforms, order, seed, workers and device are the training's; it is not
        iterated itself. A short last batch stays short, as in a loop over it.
    model: moved to the loader's device, and trained in place; its 4-dimensional parameters become
        channels-last in memory with `channels_last`. model(*input) gives a tensor, or something with
        `output` in it. Modules in it keep their modes; model.train() is called where it is in evaluation
        mode, and afterwards all modes are as they were.
    loss: "cross_entropy", or a function(output, *target) that gives a scalar. What the model gives other than
        a tensor goes to the function as it is.
    input, target: names of the batch's fields (loader.dataset.fields); by default "image" and "label".
    output: key or index of the tensor in what the model gives, for losses and metrics by name.
    steps, epochs: how long to train in all, with what is resumed; one of them.
    metrics: of `val` and of evaluate(loader), by name ("top1", "top5", "class_accuracy", "mean_iou"), or a
        mapping to a name or a function(output, *target) that gives a score for each sample. Larger is
        better. By default those that fit the target. num_classes: for those that need it, where the data set does not say.
    param_groups: as torch.optim's: mappings of params, and lr, weight_decay or both.
    plan: "pipelined", "serial", or "auto", which measures both. All give the same bits on a CPU, and on a GPU
        with deterministic=True.
    transforms_device: "cpu" (the loader's workers) or "cuda" (the GPU, with plan="pipelined" in a stream of
        their own); by default as the loader's.
    val: a slipstream.DataLoader on which the model is evaluated after each epoch, without random transforms,
        but with functions in Python. Its images have the dtype and the shape of those in training, and values of
        about the same range (0 to 255 next to 0 to 1 is refused). Bad samples are left out with its
        on_bad_sample="skip".
    val_may_differ: True lets images of `val` have another shape or range on purpose.
    resume: "auto" goes on from the latest checkpoint in `checkpoint`, if there is one; a path from that one.
    progress: shows a live line on standard error; by default on a terminal.
    on_step: called with a TrainingStep, a few steps behind the device; on a CPU by another thread.
    on_epoch: called with a TrainingEpoch between two epochs.

    All others are the options of `slipstream train`, with underscores (docs/training.md). Raises Refused for
    what makes no sense, before anything is read.

    >>> resize, to_float = ss.transforms.Resize([16, 16]), ss.transforms.ToDtype(torch.float32, scale=True)
    >>> data = ss.ImageFolder("photos", ss.transforms.Compose([resize, to_float]))
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 16 * 16, len(data.classes)))
    >>> trainer = ss.Trainer(ss.DataLoader(data, batch_size=25, shuffle=True), model, epochs=2, lr=0.01)
    >>> trainer.fit().steps
    4
    """

    def __init__(
        self,
        loader: DataLoader | Pipeline,
        model: torch.nn.Module,
        *,
        loss: str | Callable[..., torch.Tensor] = "cross_entropy",
        input: str | Sequence[str] | None = None,
        target: str | Sequence[str] | None = None,
        output: str | int | None = None,
        steps: int | None = None,
        epochs: int | None = None,
        optimizer: str = "sgd",
        lr: float = 1e-3,
        momentum: float | None = None,
        nesterov: bool = False,
        weight_decay: float | None = None,
        betas: tuple[float, float] | None = None,
        eps: float | None = None,
        no_weight_decay_on: str | Sequence[str] = (),
        param_groups: Sequence[Mapping[str, Any]] = (),
        schedule: str = "constant",
        warmup_epochs: float | None = None,
        warmup_steps: int | None = None,
        lr_step_size: float | None = None,
        lr_gamma: float | None = None,
        lr_min: float | None = None,
        accumulate: int = 1,
        clip_grad: float = 0.0,
        ema: float = 0.0,
        on_nan: str = "stop",
        label_smoothing: float = 0.0,
        precision: str = "tf32",
        deterministic: bool = False,
        channels_last: bool = True,
        plan: str = "pipelined",
        transforms_device: str | None = None,
        val: DataLoader | None = None,
        val_may_differ: bool = False,
        metrics: Sequence[str] | Mapping[str, Any] | None = None,
        num_classes: int | None = None,
        keep_best: str | None = None,
        early_stop: int | None = None,
        checkpoint: Path | None = None,
        save_every: int | None = None,
        keep: int = 3,
        resume: Path | None = None,
        log_dir: Path | None = None,
        log_every: int = 50,
        progress: bool | None = None,
        on_step: Callable[[TrainingStep], Any] | None = None,
        on_epoch: Callable[[TrainingEpoch], Any] | None = None,
    ) -> None:
        options = dict(locals())
        others = ("self", "loader", "model", "val", "val_may_differ", "keep_best", "early_stop", "resume",
                  "on_step", "on_epoch")  # fmt: skip
        for name in others:
            del options[name]
        self.model, self._fits = model, False
        check_callable(on_step=on_step, on_epoch=on_epoch)
        self._on_step, self._on_epoch = on_step, on_epoch
        self._begin(make_settings(loader, model, options), require_loader(loader))
        check(choose(val_may_differ=(val_may_differ, (True, False))))
        self._take_val(val, bool(val_may_differ), keep_best, early_stop)
        self._open(optional_path("resume", resume))

    def _begin(self, settings: _native.TrainerSettings, loader: DataLoader) -> None:
        self._loader = loader
        try:
            self._native = _native.NativeTrainer(loader._native, settings)
        except _native.Refused as refused:
            raise as_arguments(refused) from None
        self._native.kept = settings.kept

    def _take_val(
        self, val: DataLoader | None, may_differ: bool, keep_best: str | None, early_stop: int | None
    ) -> None:
        if val is None and (keep_best is not None or early_stop is not None):
            raise _native.Refused("keep_best and early_stop need val, a loader to evaluate on")
        self._native.select_criterion(None if keep_best is None else str(keep_best))
        if early_stop is not None:
            check(early_stop=(early_stop, 1))
        self._early_stop = early_stop
        self._val = None if val is None else self._evaluator(val, "val", may_differ)

    def _open(self, resume: str) -> None:
        try:
            passed_over = self._native.open(resume)
        except _native.Refused as refused:
            raise as_arguments(refused) from None
        for damaged in passed_over:
            warnings.warn(f"passed over a damaged checkpoint: {damaged}", stacklevel=3)

    @property
    def position(self) -> int:
        """Steps trained so far, of all runs: the number of the next one."""
        return self._native.position()

    def fit(self) -> TrainingResult:
        """Trains up to the last step, and saves. Waits until the device is done.

        The first Ctrl-C ends it behind the steps in flight, saves, and raises KeyboardInterrupt. So does a
        signal whose handler raises, with what that raised. What the model, the loss or a callback raises
        comes out with its traceback, and a note of the step. Where the weights are those of a step then,
        they are saved before. Calls from on_step and the model may not come back to the trainer, but for
        stop()."""
        refuse_several_processes(self._loader)
        wait_for_closed()
        self._loader._revive_workers()
        with interrupts(), running(self.stop):
            calls = FitCalls(self)
            self._native.begin()
            was_fitting, self._fits = self._fits, True
            try:
                has_epochs = self._val is not None or self._on_epoch is not None
                done = self._native.fit(
                    calls, self._on_step is not None, has_epochs, self._val is not None, self._early_stop
                )
            finally:
                self._fits = was_fitting
                self._native.end()
                if problem := self._native.finish():
                    warnings.warn(problem, stacklevel=2)
            if _native.interrupted():
                raise KeyboardInterrupt
            losses = done.losses
            return TrainingResult(
                steps=len(losses),
                position=self.position,
                losses=losses,
                epochs=calls.epochs,
                seconds=done.seconds,
                steps_per_second=done.steps_per_second,
                digest=self.digest(),
                ended=done.ended,
                is_saved=done.is_saved,
            )

    def stop(self) -> None:
        """Lets fit() end behind the steps in flight. Any thread may call it, and any callback."""
        self._native.stop()

    def restore(self, path: Path) -> int:
        """Goes to a checkpoint and its best score, and returns its step. Raises Refused for one of another
        training, with log_dir, whose rows do not go back, and in on_epoch."""
        if self._fits:
            raise _native.Refused(
                "fit() is at work: restore a checkpoint before or after it. trainer.stop() ends it"
            )
        wait_for_closed()
        self._native.restore(os.fspath(path))
        return self.position

    def digest(self) -> str:
        """Of all losses, weights, buffers and the optimizer's state. Waits for the device."""
        wait_for_closed()
        return f"{self._native.digest():016x}"

    def averages(self) -> dict[str, torch.Tensor]:
        """With `ema`: copies of the averages, by their names in the model's state_dict()."""
        wait_for_closed()
        return dict(self._native.averages())

    def evaluate(self, loader: DataLoader | None = None, may_differ: bool = False) -> dict[str, float]:
        """Returns the scores of `loader`, by default `val`: each sample counts once, without random transforms, but
        with functions in Python, and with the averages of the weights where there are any. Waits until it is
        done.

        Bad samples of a loader with on_bad_sample="skip" are left out: loader.skipped has them, and a warning names
        new ones. may_differ: for `loader`, what val_may_differ is for `val`."""
        refuse_several_processes(self._loader)
        check(choose(may_differ=(may_differ, (True, False))))
        evaluator = self._val if loader is None else self._evaluator(loader, "the loader", bool(may_differ))
        if evaluator is None:
            raise _native.Refused("there is nothing to evaluate on: give a loader, or the trainer val")
        with interrupts(), running(evaluator.stop):
            scores = self._scores(evaluator)
            if scores is None or _native.interrupted():
                raise KeyboardInterrupt
        return scores

    def predict(self, loader: DataLoader) -> Iterator[torch.Tensor]:
        """What the model makes of the samples of `loader`, in the order of its data set, batch by batch, in
        host memory; as evaluate() does. Another thread computes a few batches ahead until the iterator
        ends or is closed, which wait for it, and has the device meanwhile. An iterator that is let go of
        ends it too, without waiting."""
        return Outputs(self._evaluator(loader, "the loader", counts_scores=False), self._loader.device)

    def _evaluator(
        self, loader: Any, what: str, may_differ: bool = False, counts_scores: bool = True
    ) -> _native.NativeEvaluator:
        if isinstance(loader, Pipeline):
            raise _native.Refused(
                f"{what} is a slipstream.Pipeline: give its loader. The stages are those of the training"
            )
        ours, theirs = self._loader.dataset.classes, require_loader(loader, what).dataset.classes
        if ours and theirs and ours != theirs:
            other = sorted({*ours} ^ {*theirs})
            raise _native.Refused(
                f"{what} has other classes than the training's data"
                + (f" ({other[0]!r} is not in both)" if other else ", or in another order")
                + ": open both with the same classes=[...]"
            )
        loader._revive_workers()
        evaluator = _native.NativeEvaluator(self._native, loader._native, counts_scores, may_differ)
        evaluator.trainer, evaluator.loader = self._native, loader
        return evaluator

    @staticmethod
    def _scores(evaluator: _native.NativeEvaluator) -> dict[str, float] | None:
        wait_for_closed()
        evaluator.loader._revive_workers()
        is_interrupted, _, scores = evaluator.evaluate()
        evaluator.loader._warn_of_skipped()
        return None if is_interrupted else dict(scores)
