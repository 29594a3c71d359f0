"""Shows a slipstream.DataLoader whose batches are made in Python as the PyTorch loader that makes them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import DataLoader, default_collate, get_worker_info

from .._fetching import item
from .._order import StreamOrder
from .._samples import Sample
from .._transform_parts import Compose
from ..data import DataLoader as NativeDataLoader
from ..datasets import Dataset, PythonSource
from ..transforms import Compose as Chain


class _NativeStep:
    """Applies a native step to one image."""

    def __init__(self, step: dict[str, Any], name: str) -> None:
        self.__name__ = name
        self._transform = Chain._of([step])

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        return self._transform(image)


def named_steps(chain: Chain) -> list[Callable[[Any], Any]]:
    """Returns the steps of a chain as functions of an image. Native ones have the names that they have in a loader."""
    steps: list[Callable[[Any], Any]] = []
    numbers = itertools.count()
    for step in chain._steps:
        steps.append(_NativeStep(step, f"{step['op']}_{next(numbers)}") if isinstance(step, dict) else step)
    return steps


class ChainedSamples(torch.utils.data.Dataset[Any]):
    """The samples of a data set in Python, with native transforms of their images, as a slipstream.DataLoader passes
    them to its collate function."""

    def __init__(self, source: Any, chain: Chain) -> None:
        self.dataset, self.transform = source, Compose(named_steps(chain)) if chain._steps else None

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        value = item(self.dataset, index)
        sample = Sample(value, self.transform is not None)
        leaves = zip(sample.tensors, sample.leaves, strict=True)
        images = [tensor.permute(2, 0, 1) for tensor, leaf in leaves if leaf.is_image]
        if self.transform is not None:
            images = [self.transform(image) for image in images]
        return sample.with_images(value, images)


class NativeSamples(torch.utils.data.Dataset[Any]):
    """The samples of a native data set, with its transforms as separate steps."""

    def __init__(self, samples: Dataset, place: int, chain: Chain) -> None:
        self._samples, self._place, self.transform = samples, place, Compose(named_steps(chain))

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: Any) -> Any:
        sample = self._samples[index]
        image = self.transform(sample[self._place])
        return (*sample[: self._place], image, *sample[self._place + 1 :])


class InitSource:
    """Calls the user's worker_init_fn. In it, get_worker_info().dataset is the user's data set."""

    def __init__(self, function: Callable[[int], None]) -> None:
        self._function = function

    def __call__(self, worker: int) -> None:
        info: Any = get_worker_info()
        if isinstance(info.dataset, ChainedSamples):
            object.__setattr__(info, "dataset", info.dataset.dataset)  # its class refuses assignments
        self._function(worker)


def view(loader: NativeDataLoader) -> DataLoader[Any]:
    """Returns a PyTorch loader with the data set, the order and the settings of `loader`."""
    arguments = loader._arguments
    options = arguments.for_pytorch(loader.multiprocessing_context if loader.num_workers > 0 else None)
    options |= {"dataset": _samples(loader), "collate_fn": loader.collate_fn}
    options["worker_init_fn"] = InitSource(options["worker_init_fn"])
    if loader.collate_fn is None and (loader.batch_size is not None or loader.batch_sampler is not None):
        options["collate_fn"] = default_collate
    if isinstance(loader._order, StreamOrder):
        return DataLoader(**options)
    for name in ("batch_size", "drop_last", "shuffle"):
        options.pop(name, None)
    if loader.batch_sampler is None:
        return DataLoader(batch_size=None, sampler=loader.sampler, **options)
    return DataLoader(batch_sampler=loader.batch_sampler, **options)


def _samples(loader: NativeDataLoader) -> Any:
    readable = loader._readable
    if readable is None:
        return loader.dataset
    native, chain = readable._native, Chain._wrap(readable.transform)
    if isinstance(native, PythonSource):
        is_plain = not chain._steps and loader.collate_fn is not None
        return native.source if is_plain else ChainedSamples(native.source, chain)
    images = [place for place, is_image in enumerate(native.are_images()) if is_image]
    if not chain._steps or len(images) != 1 or native.moved_fields():
        return readable
    return NativeSamples(with_transform(readable, None), images[0], chain)


def with_transform(dataset: Dataset, chain: Chain | None) -> Dataset:
    """Returns a copy of a data set with other transforms."""
    copied = object.__new__(type(dataset))
    vars(copied).update(vars(dataset), transform=chain)
    return copied
