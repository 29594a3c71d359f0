"""The cache levels that the doctor measures, and helpers for their measurements."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from .. import _native, _trees
from .._blocks import contextmanager
from .rates import LoaderAlone, TrainingRate

_DATA = (int, float, str, bytes, type(None))
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


def by_step(costs: list[list[list[float]]]) -> list[tuple[list[float], list[float], list[float]]]:
    """Returns the wall times, CPU times and bytes of each step.

    costs: for each sample, the costs of each step."""
    by_step = [list(zip(*step, strict=True)) for step in zip(*costs, strict=True)]
    return [(list(wall), list(cpu), list(made)) for wall, cpu, made in by_step]


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
