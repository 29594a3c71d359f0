"""Checks that the rows of a batch depend only on their own samples, because a feature cache combines them with others."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import _native
from ._feature_rows import are_objects, named_leaves
from ._random_states import random_states
from ._trees import mapped

_CHECKED_CALLS = 4  # first calls of collate_fn in each process that are checked
# Largest relative difference of two rows of a stage that is explained by rounding, also in types such as bfloat16.
_ROUNDING = 0.05
_CHANGED_INTEGERS = 0.1  # largest share of a tensor's integers that rounding may change, such as indices of a codebook
_VALUES = (str, bytes, int, float, bool, type(None))


class CheckedCollate:
    """Calls the user's collate_fn. Raises Refused if one of the first calls uses a random generator, or returns rows
    that depend on other samples of the batch."""

    def __init__(self, function: Callable[[list[Any]], Any]) -> None:
        self._function, self._unchecked = function, _CHECKED_CALLS

    def __call__(self, samples: list[Any]) -> Any:
        if self._unchecked == 0:
            return self._function(samples)
        self._unchecked -= 1
        others = _copies(samples)
        before = random_states()
        batch = self._function(samples)
        if random_states() != before:
            raise _native.Refused(
                "collate_fn uses a random generator, so its result depends on the whole batch and cannot be cached for "
                "each sample: mix samples in a stage after the one with the cache"
            )
        if others is not None:
            self._check(batch, others, len(samples))
        return batch

    def _check(self, batch: Any, others: list[Any], count: int) -> None:
        """Compares a batch with that of the last samples in reversed order."""
        try:
            made = self._function(others)
        except Exception:  # some functions need batches of one size
            return
        found = dict(named_leaves(made, count - 1))
        for name, leaf in named_leaves(batch, count):
            if not has_rows(leaf, count):
                continue
            if name not in found or not has_rows(found[name], count - 1) or not _is_reversed(leaf, found[name]):
                raise _native.Refused(
                    f"the value '{name}' that collate_fn returns is not a function of single samples: it changes in "
                    "another way than the samples of the batch, so it cannot be cached for each sample. Leave it out "
                    "of the batch, and compute it in the training loop or in a stage after the one with the cache"
                )


def has_rows(leaf: Any, count: int) -> bool:
    """Returns true if the feature cache takes a leaf of a batch for one with a part for each of `count` samples."""
    if isinstance(leaf, torch.Tensor):
        is_dense = leaf.layout == torch.strided and not leaf.is_nested and not leaf.is_quantized
        return is_dense and leaf.dim() > 0 and leaf.shape[0] == count
    return are_objects(leaf, count)


def _copies(samples: list[Any]) -> list[Any] | None:
    """Returns copies of all samples but the first, in reversed order, because collate_fn may change its samples. Returns
    None if this is not possible."""
    if not isinstance(samples, list) or len(samples) < 2:
        return None
    try:
        return [copy.deepcopy(each) for each in reversed(samples[1:])]
    except Exception:
        return None


def _is_reversed(leaf: Any, other: Any) -> bool:
    if not isinstance(leaf, torch.Tensor):
        return all(map(_may_be_equal, reversed(leaf[1:]), other))
    if not isinstance(other, torch.Tensor) or leaf.dtype != other.dtype:
        return False
    if leaf.shape[1:] != other.shape[1:]:
        return True  # such as the length to which collate_fn pads
    return are_close(_plain(leaf)[1:].flip(0), _plain(other))


def _may_be_equal(one: Any, other: Any) -> bool:
    """Compares plain values. Other objects may be equal."""
    return one == other or one != one if type(one) in _VALUES and type(other) in _VALUES else True


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().as_subclass(torch.Tensor)


def are_close(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    """Returns true if the differences of the rows of two tensors of one shape are explained by rounding. Waits for the
    device."""
    if ours.numel() == 0:
        return True
    if not ours.is_floating_point() and not ours.is_complex():
        return float((ours != theirs).double().mean()) <= _CHANGED_INTEGERS
    wide = torch.promote_types(torch.float32, ours.dtype)
    one, other = (each.to(wide).flatten(1) if each.dim() > 1 else each.to(wide)[:, None] for each in (ours, theirs))
    norms = torch.maximum(one.norm(dim=1), other.norm(dim=1))
    limits = _ROUNDING * norms + 1e-3 * norms.nan_to_num(posinf=0.0).max()
    return not bool(((one - other).norm(dim=1) > limits).any())


class BatchCheck:
    """Compares the result of a stage with that for a batch that contains a half of the samples in another order."""

    def __init__(self, batch: Any, size: int) -> None:
        self._size, self._kept = size, size - size // 2
        rows = list(range(size - 1, size - 1 - self._kept, -1))
        # Before the stage is called, because it may change its batch.
        self.other = mapped(
            batch,
            lambda leaf: _selected(leaf, rows + rows[:1] * (size - self._kept), size),
            lambda tree: are_objects(tree, size),
        )

    def passes(self, made: Any, other: Any) -> bool:
        """made: result for the batch. other: result for self.other."""
        found = dict(named_leaves(other, self._size))
        for name, leaf in named_leaves(made, self._size):
            if not isinstance(leaf, torch.Tensor) or leaf.is_meta or not has_rows(leaf, self._size):
                continue
            same = found.get(name)
            if not isinstance(same, torch.Tensor) or same.shape != leaf.shape or same.dtype != leaf.dtype:
                return False
            if not are_close(_plain(leaf).flip(0)[: self._kept], _plain(same)[: self._kept]):
                return False
        return True


def _selected(leaf: Any, rows: Sequence[int], size: int) -> Any:
    if isinstance(leaf, torch.Tensor):
        if not has_rows(leaf, size):
            return leaf
        made = torch.empty_like(leaf)  # with the same memory format
        return made.copy_(leaf.index_select(0, torch.tensor(rows, device=leaf.device)))
    return type(leaf)([leaf[row] for row in rows]) if are_objects(leaf, size) else leaf
