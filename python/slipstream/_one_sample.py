"""Loads one sample in the calling thread, for `data[index]`."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import _native
from ._fetching import item
from ._moves import fitting, refuse_moving_images_alone, refuse_moving_with
from ._one_image import sampled_transforms
from ._order import SampleKey
from ._random_states import seed_all
from ._samples import Sample, Unfit
from ._steps import Function, over_batch, refuse_samples_in_python
from ._worker_process import transformed
from .transforms import Compose

_MakeTransforms = Callable[[bool], _native.Transforms]


def native_sample(dataset: _native.Dataset, chain: Compose, index: int) -> tuple[Any, ...]:
    return _native_sample(dataset, chain, index, functools.partial(_transforms, chain))


def keyed_native_sample(dataset: _native.Dataset, chain: Compose, key: SampleKey) -> tuple[Any, ...]:
    """Returns the sample with the random numbers that a slipstream.DataLoader uses for this key."""
    return _native_sample(dataset, chain, key.sample, functools.partial(_keyed_transforms, chain, key))


def _native_sample(
    dataset: _native.Dataset, chain: Compose, index: int, transforms: _MakeTransforms
) -> tuple[Any, ...]:
    if name := over_batch(chain._steps):
        raise _native.Refused(
            f"{name} works on whole batches, so it cannot be applied to a single sample: leave it out of the "
            "transform, or read the data set with slipstream.DataLoader"
        )
    moved = dataset.moved_fields()
    refuse_moving_images_alone(moved, [each for _, _, step in chain._runs() for each in step])
    try:
        return _native.make_sample(dataset, transforms(bool(moved)), index)
    except Unfit as error:
        name = _native.printable_name(os.fsencode(dataset.name(index)))
        raise _native.Error(f"sample {index} ({name}): {error}") from None


def python_sample(source: Any, chain: Compose, index: int) -> Any:
    return _python_sample(source, chain, index, functools.partial(_transforms, chain))[0]


def keyed_python_sample(source: Any, chain: Compose, key: SampleKey) -> tuple[Any, list[bool]]:
    """Returns the sample with the random numbers that a slipstream.DataLoader uses for this key, and for each of its
    tensors whether the transforms were applied to it."""
    return _python_sample(source, chain, key.sample, functools.partial(_keyed_transforms, chain, key))


def _python_sample(
    source: Any, chain: Compose, index: int, make_transforms: _MakeTransforms
) -> tuple[Any, list[bool]]:
    refuse_samples_in_python(chain._steps)
    value = item(source, index)
    try:
        sample = Sample(value, bool(chain._steps))
        functions = [each for _, _, step in chain._runs() for each in step]
        beside = fitting(sample.leaves)
        refuse_moving_with(beside, chain._native_chain(), functions)
        pairs = zip(sample.tensors, sample.leaves, strict=True)
        images = [tensor for tensor, leaf in pairs if leaf.is_image]
        transforms = make_transforms(bool(beside))
        made = sample.with_images(value, _native.transformed(images, transforms, index))
        return made, [leaf.is_image for leaf in sample.leaves]
    except Unfit as error:
        raise _native.Error(f"sample {index}: {error}") from None


def _transforms(chain: Compose, keeps_sizes: bool) -> _native.Transforms:
    return sampled_transforms(chain._native_chain(), chain._runs(), keeps_sizes)


def _keyed_transforms(chain: Compose, key: SampleKey, keeps_sizes: bool) -> _native.Transforms:
    called = [(place, name, _KeyedDraws(step)) for place, name, step in chain._runs()]
    return _native.Transforms(
        chain._native_chain(), called, keeps_sizes, key.seed, key.epoch, key.occurrence
    )


class _KeyedDraws:
    """Calls functions with the random numbers of the given seed, as worker processes do."""

    def __init__(self, functions: Sequence[Function]) -> None:
        self._functions = functions

    def __call__(self, image: torch.Tensor, seed: int) -> torch.Tensor:
        seed_all(seed)
        return transformed(self._functions, image)
