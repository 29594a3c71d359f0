"""Loads one sample in the calling thread, for `data[index]`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch

from . import _native
from ._fetching import item
from ._moves import fitting, refuse_moving_images_alone, refuse_moving_with
from ._random_states import RandomStates
from ._samples import Sample, Unfit
from ._steps import Function, over_batch, refuse_samples_in_python
from ._worker_process import transformed
from .transforms import Compose


def native_sample(dataset: _native.Dataset, chain: Compose, index: int) -> tuple[Any, ...]:
    if name := over_batch(chain._steps):
        raise _native.Refused(
            f"{name} works on whole batches, so it cannot be applied to a single sample: leave it out of the "
            "transform, or read the data set with slipstream.DataLoader"
        )
    moved = dataset.moved_fields()
    refuse_moving_images_alone(moved, [each for _, _, step in chain._runs() for each in step])
    try:
        return _native.make_sample(dataset, _transforms(chain, bool(moved)), index)
    except Unfit as error:
        name = _native.printable_name(os.fsencode(dataset.name(index)))
        raise _native.Error(f"sample {index} ({name}): {error}") from None


def python_sample(source: Any, chain: Compose, index: int) -> Any:
    refuse_samples_in_python(chain._steps)
    value = item(source, index)
    try:
        sample = Sample(value, bool(chain._steps))
        functions = [each for _, _, step in chain._runs() for each in step]
        beside = fitting(sample.leaves)
        refuse_moving_with(beside, chain._native_chain(), functions)
        pairs = zip(sample.tensors, sample.leaves, strict=True)
        images = [tensor for tensor, leaf in pairs if leaf.is_image]
        transforms = _transforms(chain, bool(beside))
        return sample.with_images(value, _native.transformed(images, transforms, index))
    except Unfit as error:
        raise _native.Error(f"sample {index}: {error}") from None


def _transforms(chain: Compose, keeps_sizes: bool) -> _native.Transforms:
    """Returns the transforms of a chain, with a seed from PyTorch's default generator. Without random transforms the
    generator is not used, so that reading a sample does not change later random numbers of the program."""
    native = chain._native_chain()
    seed = int(torch.randint(1 << 62, ())) if native.is_random() else 0
    called = [(place, name, _SameDraws(step)) for place, name, step in chain._runs()]
    return _native.Transforms(native, called, keeps_sizes, seed)


class _SameDraws:
    """Calls functions with the same random numbers for each image of a sample, so that all its images are transformed
    alike. Restores the generators of torch, numpy and random before each image but the first."""

    def __init__(self, functions: Sequence[Function]) -> None:
        self._functions = functions
        self._before: RandomStates | None = None

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        if self._before is None:
            self._before = RandomStates()
        else:
            self._before.restore()
        return transformed(self._functions, image)
