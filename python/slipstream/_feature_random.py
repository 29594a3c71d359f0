"""Finds random transforms of a data set, which a feature cache with one version would repeat in each epoch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ._doctor.parts import _held, find_sites
from ._doctor.samples import can_draw
from ._random_states import find_generators
from ._sources import datasets_with_epochs
from ._steps import over_batch
from ._torchvision import is_of_torchvision, iterate_parts
from ._transform_parts import display_name, split_transform
from .datasets import Dataset, PythonSource
from .transforms import Compose

_RANDOM = {
    *("AugMix", "AutoAugment", "ColorJitter", "CutMix", "ElasticTransform", "GaussianNoise", "JPEG", "MixUp"),
    *("RandAugment", "ScaleJitter", "TrivialAugmentWide"),
}


def find_random(dataset: Any) -> str:
    """Returns the name of a random transform of a data set or of a data set in it; "" if none is known."""
    return next((display_name(part) for part in _parts(dataset) if is_random(part)), "")


def find_varying(dataset: Any) -> str:
    """Returns why the samples of a data set may differ in each epoch; "" if there is no sign of it."""
    if epochs := datasets_with_epochs(dataset):
        return (
            f"{type(epochs[0]).__name__} has set_epoch(), so its samples may differ in each epoch, but the feature "
            "cache keeps one version of each sample. Remedy: leave out the cache, or give a data set without set_epoch()"
        )
    if generators := find_generators(dataset):
        return (
            f"the data set refers to a random generator ({type(generators[0]).__name__}), so its samples may differ in "
            "each epoch, but the feature cache keeps one version of each sample. Remedy: remove the generator from the "
            "data set if samples do not use it, or apply random transforms in a stage after the cached one"
        )
    return ""


def find_mixing(dataset: Any) -> str:
    """Returns the name of a transform that mixes the samples of a batch; "" if there is none."""
    if isinstance(dataset, Dataset):
        return over_batch(Compose._wrap(dataset.transform)._steps)
    return ""


def _parts(dataset: Any) -> Iterator[Any]:
    """Yields the transforms of a data set and of those inside it."""
    if isinstance(dataset, Dataset):
        chain = Compose._wrap(dataset.transform)
        if chain._native_chain().is_random():
            yield _first_random(chain)
        for each in chain._steps:
            if not isinstance(each, dict):
                yield from _inner(each)
        source = dataset._native
        if isinstance(source, PythonSource):
            yield from _parts(source.source)
        return
    for site in find_sites(dataset):
        yield from _inner(_held(dataset, site))
    inner = dataset
    while inner is not None and not isinstance(inner, Dataset):
        for each in getattr(inner, "datasets", None) or ():
            yield from _parts(each)
        inner = getattr(inner, "dataset", None)
    if inner is not None:
        yield from _parts(inner)


def _inner(transform: Any) -> Iterator[Any]:
    for part in split_transform(transform):
        yield from iterate_parts(part)


class _NativeStep:
    """A native step that is random, named by its operation."""

    def __init__(self, name: str) -> None:
        self.__name__ = name


def _first_random(chain: Compose) -> _NativeStep:
    for step in chain._steps:
        if isinstance(step, dict) and Compose._of([step])._native_chain().is_random():
            return _NativeStep(str(step["op"]))
    return _NativeStep("a transform")


def is_random(part: Any) -> bool:
    """Returns true if a transform is known to use random numbers."""
    if isinstance(part, _NativeStep):
        return True
    name = type(part).__name__
    if is_of_torchvision(part):
        if name == "GaussianBlur":
            return part.sigma[0] != part.sigma[1]  # type: ignore[no-any-return]
        return name.startswith("Random") or name in _RANDOM
    return can_draw(part)
