"""Data sets: native ones, and such in Python."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch

from . import _native
from ._samples import field_names
from .transforms import Function, Transform

Path = str | os.PathLike[str]


class InPython:
    """A map-style data set in Python, as a native one answers."""

    def __init__(self, source: Any) -> None:
        self.source = source

    def __len__(self) -> int:
        return len(self.source)

    def name(self, index: int) -> str:
        return f"sample {index}"

    def class_names(self) -> list[str]:
        return [str(name) for name in getattr(self.source, "classes", [])]

    def field_names(self) -> list[str]:
        return field_names(self.source[0])

    def label(self, index: int) -> int:
        raise _native.Refused("of a data set in Python no class is known without reading the sample")


class Dataset:
    """A native data set: samples in files, which the native loader reads without Python."""

    def __init__(
        self, native: _native.Dataset | InPython, transform: Transform | Function | None = None
    ) -> None:
        self._native = native
        self.transform = transform

    def __len__(self) -> int:
        return len(self._native)

    @property
    def classes(self) -> list[str]:
        """The names of the classes by number; empty where they are unknown."""
        return self._native.class_names()

    @property
    def fields(self) -> list[str]:
        """What each sample has, such as ["image", "label"]: the order in a batch."""
        return self._native.field_names()

    def name(self, index: int) -> str:
        """The name of a sample in messages, for example its file."""
        return self._native.name(index)

    def label(self, index: int) -> int:
        """The class of a sample. Raises Refused where samples have none."""
        return self._native.label(index)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} samples, fields={self.fields})"


class ImageFolder(Dataset):
    """The images in a folder of class folders, ROOT/CLASS/**/*.jpg, .jpeg or .png, sorted by class
    and path. A batch is (images, labels): uint8, batch x 3 x height x width, channels-last; int64.

    transform: from slipstream.transforms.
    classes: the classes in the order of their numbers; by default every folder, sorted.

    >>> data = ss.ImageFolder("photos", ss.transforms.CenterCrop(32))
    >>> len(data), data.classes, data.fields
    (50, ['class0', 'class1', 'class2'], ['image', 'label'])
    """

    def __init__(
        self,
        root: Path,
        transform: Transform | Function | None = None,
        classes: Sequence[str] = (),
    ) -> None:
        super().__init__(_native.image_folder(os.fsencode(root), list(map(os.fsencode, classes))), transform)


class PythonDataset(Dataset):
    """A map-style data set that is written in Python (`__getitem__` and `__len__`), with transforms
    behind it. slipstream.DataLoader reads it in worker processes.

    A sample is a tensor, number, str, bytes, NumPy array or PIL image, or a tuple, list, mapping or
    named tuple of such, nested; a batch has the same form, with tensors, and lists or tuples of
    strings, as torch.utils.data.default_collate makes them. PIL images become uint8, batch x channels
    x height x width, channels-last. Strings have any length and stay in host memory. All samples
    have the form of the first; images may differ in size where a transform gives them one.

    transform: from slipstream.transforms, or functions in Python; done to the PIL images of a
        sample, or else to its first tensor of channels x height x width, or array of height x width
        x channels, of uint8 or float32 with 1 to 4 channels. Nothing else is moved with it, so a
        loader refuses those that move pixels where another field has the image's height x width.
    """

    def __init__(self, dataset: Any, transform: Transform | Function | None = None) -> None:
        has_items = hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
        if isinstance(dataset, torch.utils.data.IterableDataset | str | bytes) or not has_items:
            raise _native.Refused(
                f"slipstream.DataLoader reads data sets that have __getitem__ and __len__, not "
                f"{type(dataset).__name__}: keep PyTorch's DataLoader and put slipstream.Pipeline around it"
            )
        super().__init__(InPython(dataset), transform)


class Subset(Dataset):
    """The samples `indices` of a data set, in that order, with its transform.

    >>> data = ss.ImageFolder("photos")
    >>> [ss.Subset(data, [49, 0]).label(i) for i in range(2)] == [data.label(49), data.label(0)]
    True
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        dataset = dataset_of(dataset)
        native = dataset._native
        if not isinstance(native, InPython):
            super().__init__(_native.subset(native, list(indices)), dataset.transform)
            return
        outside = [index for index in indices if not 0 <= index < len(native)]
        if outside:
            raise _native.Refused(
                f"a subset takes sample {outside[0]}, but the data set has {len(native)}, counted from 0"
            )
        source = torch.utils.data.Subset(native.source, indices)
        super().__init__(InPython(source), dataset.transform)


class ConcatDataset(Dataset):
    """The samples of several data sets, one after the other, with the first one's transform.

    >>> data = ss.ImageFolder("photos")
    >>> len(ss.ConcatDataset([data, ss.Subset(data, [0, 1])]))
    52
    """

    def __init__(self, datasets: Sequence[Any]) -> None:
        all_of_them = [dataset_of(each) for each in datasets]
        native = [each._native for each in all_of_them if isinstance(each._native, _native.Dataset)]
        sources = [each._native.source for each in all_of_them if isinstance(each._native, InPython)]
        if native and sources:
            raise _native.Refused(
                "native data sets and such in Python do not make one data set: their samples differ in form"
            )
        joined: Any = torch.utils.data.ConcatDataset(sources) if sources else None
        super().__init__(InPython(joined) if joined else _native.concat(native), all_of_them[0].transform)


def dataset_of(dataset: Any) -> Dataset:
    if not isinstance(dataset, Dataset):
        return PythonDataset(dataset)
    if hasattr(dataset, "__getitem__"):  # of a class of the caller's
        return PythonDataset(dataset, dataset.transform)
    if type(dataset).__len__ is not Dataset.__len__:
        raise _native.Refused(
            f"{type(dataset).__name__} has a __len__ of its own, but no __getitem__, so all its samples would "
            "be read natively: take slipstream.Subset(data, range(n)) of them"
        )
    return dataset


def open_dataset(
    path: Path,
    transform: Transform | Function | None = None,
    num_classes: int = 0,
    classes: Sequence[str] = (),
) -> Dataset:
    """Opens what `path` looks like: a folder of class folders, of images/ and masks/, or of arrays,
    a .tar shard or a folder of shards, a .csv or .jsonl list, a .npy file.

    num_classes: for shards and arrays that do not say it; 0: unknown.
    classes: the names of the classes in the order of their numbers.

    >>> ss.open_dataset("photos")
    Dataset(50 samples, fields=['image', 'label'])
    """
    names = [os.fsencode(name) for name in classes]
    return Dataset(_native.open_dataset(os.fsencode(path), num_classes, names), transform)
