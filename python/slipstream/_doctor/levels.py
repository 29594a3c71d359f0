"""The cache levels that the doctor measures, and helpers for their measurements."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from .. import _native, _trees
from .._blocks import contextmanager
from .clock import COLLATING, Costs, Key, in_order
from .rates import LoaderAlone, TrainingRate

_DATA = (int, float, str, bytes, type(None))
_COMPUTES = 0.5  # share of CPU time in the wall time of code that computes more than it waits
_FEW = 16  # a longer list that begins with a number or string is treated as data, without looking at each element


@dataclasses.dataclass
class CacheLevel:
    """A cache level: one measurement, in which a cache replaces all steps up to a certain one.

    after: the last step that is cached.
    items: number of samples or batches in the cache.
    training, alone: the rate with training, and that of the loader alone. The last level has no `alone`, because the
        loader with nothing cached is measured separately.
    is_essential: whether a diagnosis is impossible without this level.
    error: why the level cannot be measured; "" if no reason is known in advance.
    """

    name: str
    after: str
    items: int
    training: TrainingRate | None = None
    alone: LoaderAlone | None = None
    is_essential: bool = False
    error: str = ""


def by_step(costs: list[Costs]) -> dict[Key, tuple[list[float], list[float], list[float]]]:
    """Returns the wall times, CPU times and bytes of each step and part, with 0 for samples that do not have the part.

    costs: the costs of each sample."""
    keys = dict.fromkeys(key for sample in costs for key in sample)
    nothing = [0.0, 0.0, 0.0]
    columns = {key: list(zip(*(sample.get(key, nothing) for sample in costs), strict=True)) for key in keys}
    return {key: (list(wall), list(cpu), list(made)) for key, (wall, cpu, made) in columns.items()}


def find_groups(costs: dict[Key, Any], steps: int) -> dict[Key, str]:
    """Returns the group of each step and part.

    What is left of the data set's own code counts as reading. If its reading or decoding is a part, then the rest is
    something else: it counts as transforms, unless it mostly waits.

    costs: wall times, CPU times and bytes of each step and part. steps: number of steps of the data set."""
    groups = {key: _native.part_group(key[1]) if key[1] else "transforms" for key in in_order(costs, steps)}
    wall_s, cpu_s, _ = costs.get((0, ""), ([], [], []))
    is_known = any((0, part) in costs for part in ("read", "decode"))
    if not is_known or sum(cpu_s) < _COMPUTES * sum(wall_s):
        groups[0, ""] = "read"
    return groups | {(COLLATING, ""): "collate"}


def mean(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0


def device_cost(name: str, rate: TrainingRate, enqueue_s: float, size: int) -> _native.DeviceCost:
    return _native.DeviceCost(name, _native.seconds_per_event(rate.rate()), enqueue_s, size)


def fresh(batch: Any) -> Any:
    """Returns a batch with the same tensors in new containers and objects. A step may remove elements from a container,
    and the to() of some objects changes them in place, which must not affect the cached batch."""
    kind = type(batch)
    if kind is list or kind is tuple:
        is_data = len(batch) > _FEW and isinstance(batch[0], _DATA)
        return kind(batch) if is_data else kind([fresh(each) for each in batch])
    if kind is dict:
        return {key: fresh(value) for key, value in batch.items()}
    if isinstance(batch, (torch.Tensor, *_DATA)):
        return batch
    return _trees.mapped(batch, _own)


def _own(leaf: Any) -> Any:
    if not hasattr(leaf, "to") or isinstance(leaf, torch.Tensor | type):
        return leaf
    try:
        return _trees.copied(leaf)
    except Exception:
        return leaf


def page_locked(batch: Any) -> Any:
    def lock(leaf: Any) -> Any:
        return leaf.pin_memory() if isinstance(leaf, torch.Tensor) and leaf.device.type == "cpu" else leaf

    return _trees.mapped(batch, lock)


@contextmanager
def counting_waits(on_gpu: bool) -> Iterator[list[Any]]:
    """Collects PyTorch's warnings about calls that wait for the device, in a list that is filled at the end of the
    block."""
    if not on_gpu:
        yield []
        return
    mode = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        waits: list[Any] = []
        try:
            yield waits
        finally:
            torch.cuda.set_sync_debug_mode(mode)
            waits += [each for each in caught if "synchroniz" in str(each.message)]
