"""Describes changes in terms of Python, and predicts the gain of native transforms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

from .. import _native, transforms
from .._equivalents import NOTHING, native_form
from .._steps import over_batch, steps_to_json
from .parts import TRANSFER, Parts, Step

_NATIVE_S = 0.03  # seconds for measuring a native transform


class Predicts(Protocol):
    """Predicts the rate of a loop if some of its transforms run natively and take these times."""

    def __call__(
        self, observed: _native.Observations, diagnosis: _native.Diagnosis, seconds: dict[str, float], /
    ) -> _native.Change: ...


def rewrite(
    observed: _native.Observations,
    diagnosis: _native.Diagnosis,
    parts: Parts,
    is_pipeline: bool,
    predicted: Predicts,
) -> None:
    """Describes the changes that are possible for a PyTorch loader in terms of Python, removes the others, and adds
    native transforms if the loader is the bottleneck.

    is_pipeline: whether the loop is over a slipstream.Pipeline."""
    workers = max(1, observed.workers)
    changes = [change for change in diagnosis.changes if _in_python(change, workers, parts.steps, is_pipeline)]
    if diagnosis.bottlenecks:
        changes += _native_changes(observed, diagnosis, parts, predicted)
    diagnosis.changes = changes
    _native.rank_changes(diagnosis)


def rewrite_native(observed: _native.Observations, diagnosis: _native.Diagnosis, reads_natively: bool) -> None:
    """Describes the changes that are possible for a slipstream.DataLoader in terms of Python, and removes the others.
    Its transforms are native already, and its copies run in advance.

    reads_natively: whether it reads the data set without Python, so that it can cache samples and read in advance."""
    workers, changes = max(1, observed.workers), []
    for change in diagnosis.changes:
        words = _native_words(change, workers) | (_reading_words(change) if reads_natively else {})
        if _put(change, words):
            changes.append(change)
    diagnosis.changes = changes


def _reading_words(change: _native.Change) -> dict[str, tuple[str, str]]:
    cached = change.action.removeprefix("--cache ")
    return {
        "cache": ("", f"slipstream.DataLoader(..., cache={cached!r})"),
        "read_ahead": ("", f"slipstream.DataLoader(..., read_ahead={change.number})"),
    }


def _native_words(change: _native.Change, workers: int) -> dict[str, tuple[str, str]]:
    convert = (
        "python -m slipstream convert --data DIR --to {} --resize N --out NEW; slipstream.open_dataset(NEW)"
    )
    ahead = math.ceil(change.number / workers)
    return {
        "num_workers": ("", f"slipstream.DataLoader(..., num_workers={change.number})"),
        "prefetch_batches": ("", f"slipstream.DataLoader(..., prefetch_factor={ahead})"),
        "smaller_samples": ("", convert.format("shards")),
        "convert": ("", convert.format("npy")),
        "crop_first": ("", "in the order of slipstream.transforms.Compose"),
        "cheaper_transform": (
            f"do less in '{change.step}', or leave it out",
            "in slipstream.transforms.Compose",
        ),
        "cheaper_collate": (
            "send less from the worker processes: smaller samples, or fewer fields"
            if change.step == TRANSFER
            else "",
            "in the code of the data set, or in the arguments of slipstream.DataLoader",
        ),
        "device_transforms": ("", 'slipstream.DataLoader(..., transforms_device="cuda")'),
    }


def _put(change: _native.Change, own: dict[str, tuple[str, str]]) -> bool:
    """Replaces description and action of a change. Returns false if there is no text for it.

    own: texts for this kind of loader by the id of the change; an empty description keeps the native one."""
    words = own | {
        "lock_contention": ("", change.action),
        "memory_bandwidth": ("", change.action),
        "cores": (
            "",
            f"use another machine, or run fewer processes on this one; then num_workers={change.number}",
        ),
    }
    if change.id not in words:
        return False
    description, change.action = words[change.id]
    change.description = description or change.description
    return True


def _looked_fixed(name: str, steps: Sequence[Step]) -> str:
    """Returns the evidence that no step up to the one of this name is random, as a clause."""
    names = [step.name for step in steps]
    reads = min(step.reads for step in steps[: names.index(name) + 1]) if name in names else 0
    return f"no random generator was used up to this step, and {reads} of {reads} readings gave no sign of randomness"


def _in_python(change: _native.Change, workers: int, steps: Sequence[Step], is_pipeline: bool) -> bool:
    """Describes a change for a PyTorch loader. Returns false if such a loader cannot make it."""
    words: dict[str, tuple[str, str]] = {
        "num_workers": (
            "",
            f"DataLoader(..., num_workers={change.number}, persistent_workers=True)",
        ),
        "prefetch_batches": (
            "",
            f"DataLoader(..., prefetch_factor={math.ceil(change.number / workers)})",
        ),
        "cache": (
            f"store the results of '{change.step}' once, and read them from then on: "
            f"{_looked_fixed(change.step, steps)}",
            "numpy.lib.format.open_memmap() writes one array that all workers share",
        ),
        "smaller_samples": (
            "make reading cheaper: smaller samples, larger files that are read sequentially, or a faster decoder",
            "python -m slipstream convert --data DIR --to shards --resize N --out NEW",
        ),
        "crop_first": ("", "in the order of the Compose"),
        "cheaper_transform": (
            "",
            f"in the code of '{change.step}', or with a faster library",
        ),
        "cheaper_collate": ("", "in the collate_fn, for example with torch.stack()"),
        "cheaper_part": ("", f"in the code of '{change.step}'"),
        "convert": (
            "decode once: store the decoded samples as arrays, or store smaller images",
            "python -m slipstream convert --data DIR --to npy --resize N --out NEW",
        ),
        "pinning": ("", "DataLoader(..., pin_memory=True), and .to(device, non_blocking=True)"),
        "pipelining": (
            "copy batches in advance, on a separate stream",
            "for batch in slipstream.Pipeline(loader): step(batch)",
        ),
    }
    if is_pipeline:  # it copies batches itself
        words["pinning"] = ("", "DataLoader(..., pin_memory=True)")
        words["pipelining"] = (words["pipelining"][0], 'slipstream.Pipeline(..., plan="pipelined")')
    # These two are options of a plan, but not of a PyTorch loader.
    change.effort = {"cache": "data", "pipelining": "code"}.get(change.id, change.effort)
    return _put(change, words)


def late_crop(parts: Parts, costs: Sequence[_native.HostStepCost]) -> tuple[str, str] | None:
    """Finds a crop that gives the same images if it is applied earlier. Returns the names of the crop and of the
    transform before which it can be applied, or None. A crop is never moved before a transform that the library does
    not know."""
    for hook in range(len(parts.hooks)):
        numbers = [number for number, step in enumerate(parts.steps) if step.hook == hook]
        if not numbers:
            continue
        chain = [_native_chain(parts.hooks[hook][parts.steps[number].part]) for number in numbers]
        sizes = [costs[number].bytes for number in [numbers[0] - 1, *numbers]]
        if late := _native.find_late_crop(chain, sizes):
            crop, first = (costs[numbers[index]].name for index in late)
            return crop, first
    return None


def late_native_crop(transform: Any, costs: Sequence[_native.HostStepCost]) -> tuple[str, str] | None:
    """Finds a crop in the transforms of a native loader that gives the same images if it is applied earlier. Returns
    the names of the crop and of the transform before which it can be applied, or None.

    costs: costs of the steps of the loader: read, decode, each transform and collate."""
    steps = transforms.Compose._wrap(transform)._steps
    chain = [
        _native.TransformChain(steps_to_json([step])) if isinstance(step, dict) and not over_batch([step]) else None
        for step in steps
    ]
    late = _native.find_late_crop(chain, [cost.bytes for cost in costs[1:-1]])
    return None if late is None else (costs[late[0] + 2].name, costs[late[1] + 2].name)


def _native_chain(part: Any) -> _native.TransformChain | None:
    """Returns the chain that is equivalent to `part`, or None if the library has none."""
    form = native_form(part)
    if form is None:
        return None
    return (transforms.ToDtype() if form is NOTHING else form)._native_chain()


def _native_changes(
    observed: _native.Observations, diagnosis: _native.Diagnosis, parts: Parts, predicted: Predicts
) -> list[_native.Change]:
    """Returns a change for each transform that has a native version, and one for all of them together."""
    seconds: dict[str, float] = {}
    changes = []
    for step in parts.steps[1:]:
        form = native_form(parts.hooks[step.hook][step.part])
        cost = None if form is None else native_seconds(form, step)
        if form is None or cost is None:
            continue
        seconds[step.name] = cost
        change = predicted(observed, diagnosis, {step.name: cost})
        change.description = (
            f"run '{step.name}' natively: slipstream.transforms.{type(form).__name__} takes "
        )
        change.description += f"{1e3 * cost:.3g} ms per sample"
        if form is NOTHING:
            change.description = f"leave out '{step.name}', which images of the native loader do not need"
        changes.append(change)
    if len(seconds) > 1:
        change = predicted(observed, diagnosis, seconds)
        change.description = f"run all of these natively: {', '.join(seconds)}"
        changes.append(change)
    for change in changes:
        change.id, change.effort = "native_transforms", "code"
        change.action = "slipstream.DataLoader(slipstream.ImageFolder(DIR, slipstream.transforms.Compose([...])), ...)"
    return changes


def native_seconds(form: transforms.Transform, step: Step) -> float | None:
    """Returns the seconds that a native transform takes for one input of the step, in one thread. Returns None if the
    input is not an image that the transform accepts."""
    if step.takes is None:
        return None
    if form is NOTHING:
        return 0.0
    try:
        return float(_native.native_seconds(form._native_chain(), *step.takes, _NATIVE_S))
    except _native.Error:
        return None
