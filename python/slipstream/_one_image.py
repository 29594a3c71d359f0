"""Applies transforms to one image in the calling thread, with random numbers from PyTorch's default generator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from . import _native
from ._random_states import RandomStates
from ._samples import Sample, Unfit
from ._steps import Function
from ._worker_process import transformed

Runs = Sequence[tuple[int, str, Sequence[Function]]]  # the result of Compose._runs()


def transformed_image(image: Any, chain: _native.TransformChain, runs: Runs) -> torch.Tensor | None:
    """Returns one image after the transforms, channels x height x width, or None if `image` is not an image."""
    if isinstance(image, list | tuple | Mapping):
        return None
    try:
        sample = Sample(image, True)
    except Unfit:
        return None
    try:
        (made,) = _native.transformed(sample.tensors, sampled_transforms(chain, runs, False), 0)
    except Unfit as error:
        raise _native.Error(str(error)) from None
    return made


def sampled_transforms(chain: _native.TransformChain, runs: Runs, keeps_sizes: bool) -> _native.Transforms:
    """Returns the transforms of a chain, with a seed from PyTorch's default generator. Without random transforms the
    generator is not used, so that reading a sample does not change later random numbers of the program."""
    seed = int(torch.randint(1 << 62, ())) if chain.is_random() else 0
    called = [(place, name, _SameDraws(step)) for place, name, step in runs]
    return _native.Transforms(chain, called, keeps_sizes, seed, 0, 0)


class _SameDraws:
    """Calls functions with the same random numbers for each image of a sample, so that all its images are transformed
    alike. Restores the generators of torch, numpy and random before each image but the first."""

    def __init__(self, functions: Sequence[Function]) -> None:
        self._functions = functions
        self._before: RandomStates | None = None

    def __call__(self, image: torch.Tensor, seed: int) -> torch.Tensor:
        if self._before is None:
            self._before = RandomStates()
        else:
            self._before.restore()
        return transformed(self._functions, image)
