"""slipstream.Trainer: trains a PyTorch module with a native loop."""

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
    """Trains `model` on the batches of `loader`. The loader, the copies, frozen stages, the optimizer, the schedule,
    evaluation and checkpoints are those of `slipstream train`; Python is called only for the model and the loss.

    The model and the loss are called on the stream of the training lane. The GIL is held only while they enqueue
    their work.

    Arguments for data and model:
        loader: a slipstream.DataLoader, or a slipstream.Pipeline around one, whose stages run in advance on separate
            streams. The training uses its data set, transforms, order, seed, workers and device; the loader itself is
            not iterated. A sampler is iterated once for each epoch, and set_epoch() of it is called before, if it has
            this method. It must have len() and, if it samples random numbers, its own generator. Its state is part of
            checkpoints. If a batch is smaller than the others, it stays smaller.
        model (torch.nn.Module): is moved to the loader's device and trained in place. `model(*input)` returns a tensor,
            or a tuple or mapping that contains it (see `output`). If the model is in evaluation mode, model.train()
            is called; otherwise its modules keep their modes. All modes are restored afterwards.
        loss (str or callable, default "cross_entropy"): "cross_entropy", or a `function(output, *target)` that
            returns a scalar. If the model returns something else than a tensor, the function receives it unchanged.
        input, target (str or sequence of str, default None): names of the fields that the model and the loss receive
            (loader.dataset.fields). The default input is "image", or else the first field; the default target is
            "label", or else "mask", or else the second field.
        output (str or int, default None): key or index of the tensor in the model's output, which losses and metrics
            that are given by name use.
        steps, epochs (int, default None): how long to train in total, including the steps before a resume. Give one of
            the two.
        channels_last (bool, default True): stores four-dimensional parameters channels-last.

    Arguments for updates of the weights:
        optimizer (str, default "sgd"): "sgd" or "adamw", as in torch.optim.
        lr (float, default 1e-3): learning rate.
        momentum (float, default None): only for "sgd". None means 0.
        nesterov (bool, default False): only for "sgd".
        weight_decay (float, default None): as in torch.optim. None means 0 for "sgd" and 0.01 for "adamw".
        betas (pair of floats, default None): only for "adamw". None means (0.9, 0.999).
        eps (float, default None): only for "adamw". None means 1e-8.
        no_weight_decay_on (str or sequence of str, default ()): parameters without weight decay: "norm"
            (one-dimensional parameters other than biases) and "bias" (parameters whose name ends with "bias").
        param_groups (sequence of mappings, default ()): as in torch.optim: `params`, and `lr`, `weight_decay` or both.
        schedule (str, default "constant"): "constant", "step", "cosine", "linear" or "one-cycle".
        warmup_epochs, warmup_steps (float and int, default None): length of a linear warm-up from a hundredth of `lr`
            to `lr`, as one of the two. None means no warm-up.
        lr_step_size (float, default None): for "step": multiplies the learning rate by lr_gamma each time this number
            of epochs has passed.
        lr_gamma (float, default None): for "step": factor of the learning rate. None means 0.1.
        lr_min (float, default None): for "cosine" and "linear": learning rate at the end. None means 0.
        accumulate (int, default 1): averages the gradients of this number of batches for one update.
        clip_grad (float, default 0): clips the norm of all gradients together. 0 means off.
        ema_decay (float, default 0): decay of a moving average of weights and buffers, which evaluations use. 0 means
            off.
        on_nan (str, default "stop"): "stop" ends the run at the first loss that is not finite; "skip" skips each
            update whose loss or gradients are not finite.
        label_smoothing (float, default 0): as in torch.nn.CrossEntropyLoss.
        precision (str, default "tf32"): "tf32", "fp32", "bf16" or "fp16"; the last two use torch.autocast.
        deterministic (bool, default False): uses deterministic algorithms only. Always on if the device is a CPU.

    Arguments for the run:
        plan (str, default "pipelined"): "pipelined", "serial", "graph", or "auto", which measures them. "graph" runs
            stages and training steps as CUDA graphs; on a CPU it is "pipelined". All plans give the same bits on a CPU,
            and on a GPU with deterministic=True.
        transforms_device (str, default None): "cpu" applies transforms in the loader's workers, "cuda" on the GPU,
            with plan="pipelined" on a separate stream. None means that of the loader.
        log_dir (path, default None): folder to which the run writes its scores.
        log_every (int, default 50): steps between two rows of the scores.
        progress (bool, default None): shows a live line on standard error. None means only on a terminal.
        on_step (callable, default None): called with a TrainingStep for each step that the device has finished, which
            is a few steps late. On a CPU another thread calls it.
        on_epoch (callable, default None): called with a TrainingEpoch between two epochs.

    Arguments for evaluation:
        val (slipstream.DataLoader, default None): the model is evaluated on it after each epoch, without random
            transforms, but with Python functions among the transforms. It must not have a sampler. Its images must have
            the dtype and shape of those in training and a similar range of values, so 0 to 255 is refused if the
            training has 0 to 1.
        val_may_differ (bool, default False): accepts images of `val` with another shape or range.
        metrics (sequence of str, or mapping, default None): names of scores ("top1", "top5", "class_accuracy",
            "mean_iou"), or a mapping from a name to one of these or to a `function(output, *target)` that returns a
            score for each sample. Larger is better. The default is the metrics that fit the target.
        num_classes (int, default None): for metrics that need it. None means that of the data set.
        keep_best (str, default None): the score that decides which checkpoint is the best. None means the first one.
        early_stop (int, default None): ends the training when that score has not improved for this number of epochs.

    Arguments for checkpoints:
        checkpoint (path, default None): folder for checkpoints. One is written at the end, on an interrupt and after
            each evaluation.
        save_every (int, default None): also saves each time after this number of steps.
        keep_last (int, default 3): number of latest checkpoints to keep, in addition to the best one.
        resume (str or path, default None): "auto" continues from the latest checkpoint in `checkpoint`, if there is
            one; a path from that checkpoint.

    docs/training.md describes the options in detail. Raises Refused for invalid arguments and combinations, before
    any sample is read. Warns of damaged checkpoints that resume="auto" passes over.

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
        ema_decay: float = 0.0,
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
        keep_last: int = 3,
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
        resumes_from = optional_path("resume", resume)
        require_loader(loader)._adopt_seed(resumes_from, optional_path("checkpoint", checkpoint))
        self._begin(make_settings(loader, model, options), require_loader(loader))
        check(choose(val_may_differ=(val_may_differ, (True, False))))
        self._take_val(val, bool(val_may_differ), keep_best, early_stop)
        self._open(resumes_from)

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
            warnings.warn(f"skipped a damaged checkpoint: {damaged}", stacklevel=3)

    @property
    def position(self) -> int:
        """Number of steps trained so far, including those before a resume; also the index of the next step."""
        return self._native.position()

    def fit(self) -> TrainingResult:
        """Trains up to the last step, saves, and returns a TrainingResult. Waits until the device has finished.

        The first Ctrl-C ends the training after the steps in flight, saves, and raises KeyboardInterrupt. If the
        handler of another signal raises an exception, the same is done and that exception is raised.

        Exceptions of the model, the loss and callbacks are raised with their traceback and a note that names the
        step. If the weights are those of a complete step at that time, they are saved before. on_step and the model
        must not call methods of the trainer other than stop(). Raises Refused if torch.distributed has several
        processes."""
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
        """Makes fit() end after the steps in flight. Returns at once. Any thread and any callback may call it."""
        self._native.stop()

    def restore(self, path: Path) -> int:
        """Loads a checkpoint together with the best score so far, and returns the step of the checkpoint.

        Arguments:
            path (path): the checkpoint, as in `resume`.

        Raises Refused for a checkpoint of another training, during fit() (which includes on_epoch), and with log_dir,
        because rows that were written there cannot be taken back."""
        if self._fits:
            raise _native.Refused(
                "fit() is running: restore a checkpoint before or after it. trainer.stop() ends it"
            )
        wait_for_closed()
        self._native.restore(os.fspath(path))
        return self.position

    def digest(self) -> str:
        """Returns a hash of all losses, the weights, the buffers and the optimizer's state, as 16 hexadecimal digits.
        Waits for the device."""
        wait_for_closed()
        return f"{self._native.digest():016x}"

    def averages(self) -> dict[str, torch.Tensor]:
        """With `ema_decay`: returns copies of the averaged weights and buffers, by their names in the model's
        state_dict()."""
        wait_for_closed()
        return dict(self._native.averages())

    def evaluate(self, loader: DataLoader | None = None, may_differ: bool = False) -> dict[str, float]:
        """Evaluates the model and returns the scores by name. Waits until the evaluation has finished.

        Each sample counts once. Random transforms are left out, Python functions among the transforms are applied.
        With `ema_decay`, the averages are used instead of the weights. If the loader has on_bad_sample="skip", bad
        samples are left out; loader.skipped has the reasons, and a warning names new ones.

        Arguments:
            loader (slipstream.DataLoader, default None): the samples to evaluate. None means `val`.
            may_differ (bool, default False): accepts images of `loader` with another shape or range than in training.

        Raises Refused for a loader that does not fit the training, and KeyboardInterrupt on Ctrl-C."""
        refuse_several_processes(self._loader)
        check(choose(may_differ=(may_differ, (True, False))))
        evaluator = self._val if loader is None else self._evaluator(loader, "the loader", bool(may_differ))
        if evaluator is None:
            raise _native.Refused("there is no data to evaluate on: give a loader to evaluate(), or val to the trainer")
        with interrupts(), running(evaluator.stop):
            scores = self._scores(evaluator)
            if scores is None or _native.interrupted():
                raise KeyboardInterrupt
        return scores

    def predict(self, loader: DataLoader) -> Iterator[torch.Tensor]:
        """Returns an iterator over the outputs of the model: one tensor in host memory for each batch, in the order of
        the data set. As in evaluate(), random transforms are left out, and with `ema_decay` the averaged weights are
        used.

        Arguments:
            loader (slipstream.DataLoader): the samples for which the outputs are computed.

        Another thread computes a few batches in advance and uses the device until the iterator is exhausted or its
        close() is called; in both cases the caller waits until the thread has stopped. Deleting the iterator also stops
        the thread, but does not wait for it."""
        return Outputs(self._evaluator(loader, "the loader", counts_scores=False), self._loader.device)

    def _evaluator(
        self, loader: Any, what: str, may_differ: bool = False, counts_scores: bool = True
    ) -> _native.NativeEvaluator:
        if isinstance(loader, Pipeline):
            raise _native.Refused(
                f"{what} is a slipstream.Pipeline: give its loader, because the stages of the training are used"
            )
        if require_loader(loader, what)._listed_order() is not None:
            raise _native.Refused(
                f"{what} has a sampler, but an evaluation uses each sample of the data set once, in order: leave the "
                "sampler out, and select samples with slipstream.Subset(dataset, indices)"
            )
        ours, theirs = self._loader._native_dataset().classes, require_loader(loader, what)._native_dataset().classes
        if ours and theirs and ours != theirs:
            other = sorted({*ours} ^ {*theirs})
            raise _native.Refused(
                f"{what} has other classes than the training data"
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
