"""The stages of a pipeline up to one with a feature cache: they process only samples that are not cached."""

from __future__ import annotations

from typing import Any

import torch

from . import _native
from ._feature_checks import BatchCheck
from ._feature_entries import Entries, Work
from ._feature_rows import BatchForm, Rows, pad
from ._random_states import random_states
from ._stages import Stage
from ._trees import leaves, mapped

_CHECKED_CALLS = 4  # first calls of a stage, which must not use a random generator
# Replaces a batch in the lanes: the batches with samples that have to be computed, the positions of the others in
# memory (Entries.index()), the records that were read from disk, and the work.
Item = tuple[list[Any], torch.Tensor | None, torch.Tensor | None, "CachedWork"]


class CachedWork(Work):
    """Work with the entries that it belongs to.

    is_loaded: whether samples are loaded for this batch."""

    __slots__ = ("is_loaded", "owner")

    def __init__(self, owner: FeatureRun, entries: list[int]) -> None:
        super().__init__(entries)
        self.owner, self.is_loaded = owner, False


class FeatureRun:
    """The entries and settings of one iteration.

    size: number of samples in each batch that is computed.
    dtype: dtype in which features are stored; None: unchanged.
    modes: autocast with which entries are computed, as current_modes() returned it."""

    def __init__(self, entries: Entries, size: int, dtype: torch.dtype | None, modes: tuple[Any, ...]) -> None:
        self.entries, self.size, self.dtype, self.modes = entries, size, dtype, modes


def current_modes(device: str) -> tuple[Any, ...]:
    """Returns whether autocast is active on the device, and its dtype."""
    kind = torch.device(device).type
    is_enabled = torch.is_autocast_enabled(kind)
    return is_enabled, str(torch.get_autocast_dtype(kind)) if is_enabled else ""


class _PartialStage(Stage):
    """Applies a stage to the batches of an item."""

    def __init__(self, stage: Stage, device: str, is_first: bool) -> None:
        # Without Stage.__init__(), which would check the arguments again.
        self.__dict__.update(vars(stage))
        self._inner, self._device, self._is_first = stage, device, is_first
        self._unchecked, self._is_compared = _CHECKED_CALLS, False

    def __call__(self, item: Any) -> Any:
        batches, *rest = item
        run: FeatureRun = rest[-1].owner
        batches = self._split(batches, rest[-1], run)
        return [self._apply(batch, run, len(batches) == 1) for batch in batches], *rest

    def _split(self, batches: list[Any], work: CachedWork, run: FeatureRun) -> list[Any]:
        """Returns batches of one size. The first stage pads, so that the same kernels run for all of them."""
        if not self._is_first:
            return batches
        made = []
        for batch, count in zip(batches, work.parts, strict=True):
            for begin in range(0, count, run.size):
                made.append(pad(batch, begin, min(begin + run.size, count), count, run.size))
        return made

    def _generator_states(self) -> tuple[Any, ...]:
        is_cuda = self._device.startswith("cuda")
        return random_states(), torch.cuda.get_rng_state(self._device).numpy().tobytes() if is_cuda else b""

    def _apply(self, batch: Any, run: FeatureRun, is_single: bool) -> Any:
        if self._inner.autocast is None and current_modes(self._device) != run.modes:
            raise _native.Error(
                f"stage '{self.name}' has a feature cache, but torch.autocast was entered or left after the iteration "
                "began: enter it around the loop, or give the stage autocast=..."
            )
        before = self._generator_states() if self._unchecked > 0 else None
        check = None if self._is_compared or run.size == 1 else BatchCheck(batch, run.size)
        made = self._inner._run(batch, 0)
        if before is not None:
            self._unchecked -= 1
            if before != self._generator_states():
                raise _native.Refused(
                    f"stage '{self.name}' uses a random generator, so its result cannot be cached: make this a "
                    "separate stage after the cached one"
                )
        if check is not None:
            self._is_compared, made = True, _with_new_memory(made, batch)
            self._compare(check, made)
        # The next call may overwrite the result, if it is the output of a CUDA graph.
        return made if is_single else _with_new_memory(made, batch)

    def _compare(self, check: BatchCheck, made: Any) -> None:
        """Refuses the stage if a row of its result depends on the other rows of the batch."""
        if not check.passes(made, self._inner._run(check.other, 0)):
            raise _native.Refused(
                f"stage '{self.name}' has a cache, but a row of its result depends on the other samples of the batch, "
                "or on its position: cached rows are combined with others. Make the part that needs the whole batch a "
                "separate stage after the cached one. The first dimension of each tensor must be the batch"
            )


def _with_new_memory(made: Any, batch: Any) -> Any:
    """Returns a result with copies of its tensors, except for those of the stage's input."""
    known = {id(each) for each in leaves(batch)}
    return mapped(made, lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) and id(leaf) not in known else leaf)


class _CachedStage(_PartialStage):
    """Applies the stage to what is missing, stores the result, and returns the whole batch."""

    def __call__(self, item: Any) -> Any:
        batches, index, records, work = item
        run: FeatureRun = work.owner
        entries = run.entries
        if index is not None:
            return entries.gather(work, index)
        batches = self._split(batches, work, run)
        computed: list[list[Rows]] = []
        counts = [
            min(run.size, count - begin) for count in work.parts for begin in range(0, count, run.size)
        ]
        for batch, count in zip(batches, counts, strict=True):
            made = self._apply(batch, run, len(batches) == 1)
            if entries.form is None:
                entries.form = BatchForm(self.name, made, run.size, leaves(batch), run.dtype, self._device)
            computed.append([rows[:count] for rows in entries.form.rows(made, run.size)])
        return entries.finish(work, computed, records)


def make_stages(stages: list[Stage], cached: int, device: str) -> list[Stage]:
    """Returns the stages for the lanes. cached: index of the stage whose result is cached."""
    made: list[Stage] = []
    for number, stage in enumerate(stages):
        if number < cached:
            made.append(_PartialStage(stage, device, number == 0))
        elif number == cached:
            made.append(_CachedStage(stage, device, number == 0))
        else:
            made.append(stage)
    return made
