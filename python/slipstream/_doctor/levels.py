"""The cache levels that the doctor measures, and helpers for their measurements."""

from __future__ import annotations

import dataclasses
import linecache
import os
import re
import sys
import types
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from .. import _native, _trees
from .._blocks import contextmanager
from .clock import COLLATING, Costs, Key, in_order
from .rates import LoaderAlone, TrainingRate

# Calls that wait for the device if the tensor is there
_WAITS = re.compile(r"\.(?:item|cpu|numpy|tolist|nonzero)\(\)|\bprint\(|\b(?:float|int|bool)\(")
_LONGEST_LINE = 60  # characters of a line of code in the report
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

    The rest of the data set's own code, outside of named parts and known functions, counts as reading. If one of its
    parts is reading or decoding, the rest counts as transforms, unless it mostly waits.

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
def finding_waits(on_gpu: bool) -> Iterator[list[str]]:
    """Collects where calls in the block wait for the device, as PyTorch reports them, in a list of places such as
    "train.py:41 (.item())". Each place is in it once."""
    places: list[str] = []
    if not on_gpu:
        yield places
        return
    mode = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(), _noting_waits(places):
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield places
        finally:
            torch.cuda.set_sync_debug_mode(mode)


@contextmanager
def _noting_waits(places: list[str]) -> Iterator[None]:
    """Adds the place of each warning about a synchronizing call to `places`. Replaces warnings.showwarning() for the
    block, inside of warnings.catch_warnings(), which restores it."""
    show = warnings.showwarning

    def note(message: Any, *rest: Any) -> None:
        if "called a synchronizing" not in str(message):
            show(message, *rest)
        elif (place := _place_of_call(sys._getframe(1))) not in places:
            places.append(place)

    # set_sync_debug_mode() itself warns that it is a prototype.
    warnings.filterwarnings("ignore", message="Synchronization debug mode is a prototype")
    warnings.filterwarnings("always", message=".*called a synchronizing")
    warnings.showwarning = note  # type: ignore[assignment]
    yield


def _place_of_call(frame: types.FrameType | None) -> str:
    """Returns file and line of the innermost call that is not in PyTorch, with the part of the line that waits."""
    skipped = (os.path.dirname(torch.__file__) + os.sep, warnings.__file__, __file__)
    while frame is not None and frame.f_code.co_filename.startswith(skipped):
        frame = frame.f_back
    if frame is None:
        return "PyTorch"
    file, number = frame.f_code.co_filename, frame.f_lineno
    line = linecache.getline(file, number).strip()
    found = _WAITS.search(line)
    words = found.group() if found else line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + "..."
    return f"{os.path.basename(file)}:{number}" + (f" ({words})" if words else "")
