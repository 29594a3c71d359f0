"""Data sets that slipstream.DataLoader reads: native ones, and wrappers for data sets written in Python."""

from __future__ import annotations

import inspect
import operator
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from . import _native
from ._checks import Indices, check, check_path, shortened, whole_numbers
from ._fetching import item
from ._one_sample import native_sample, python_sample
from ._samples import field_names
from ._steps import Function
from .transforms import Compose, Transform

Path = str | os.PathLike[str]


class PythonSource:
    """Gives a map-style data set in Python the methods that a native data set has."""

    def __init__(self, source: Any) -> None:
        self.source = source

    def __len__(self) -> int:
        return len(self.source)

    def name(self, index: int) -> str:
        return f"sample {index}"

    def class_names(self) -> list[str]:
        return [str(name) for name in getattr(self.source, "classes", [])]

    def field_names(self) -> list[str]:
        return field_names(item(self.source, 0))

    def label(self, index: int) -> int:
        raise _native.Refused(
            "the class of a sample is not known without reading it, because the data set is written in Python: read it "
            "with data[index]"
        )

    def remarks(self) -> list[str]:
        return []

    def subset(self, indices: list[int]) -> PythonSource:
        return PythonSource(torch.utils.data.Subset(self.source, indices))


def warn_of(remarks: list[str], stacklevel: int) -> None:
    for remark in remarks:
        warnings.warn(remark, stacklevel=stacklevel)


class Dataset:
    """Base class of all data sets: samples in files that are read without Python, or a PythonDataset.

    A pickled or copied data set opens its files again. `len(data)` is the number of samples. Because of `data[index]`,
    a torch.utils.data.DataLoader accepts these data sets, too.

    Attributes:
        transform: the transform of slipstream.transforms, or function of an image, that is applied to each sample;
            None if there is none."""

    def __init__(
        self,
        make: Callable[..., _native.Dataset | PythonSource],
        arguments: tuple[Any, ...],
        transform: Transform | Function | None = None,
    ) -> None:
        self._make, self._arguments = make, arguments
        self._native = make(*arguments)
        self.transform = transform

    def _warn_of_remarks(self) -> None:
        """Warns of files that are skipped. Called only when the user opens the data set, so that copies of it in
        worker processes do not warn again."""
        warn_of(self._native.remarks(), stacklevel=4)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_native"} | {"_len": len(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        length = state.pop("_len")
        vars(self).update(state)
        self._native = self._make(*self._arguments)
        if len(self) != length:
            raise _native.Refused(
                f"the data set had {length} samples when it was copied or pickled, and has {len(self)} now: do not "
                "change its files in between"
            )

    def _take_attributes(self) -> None:
        """Copies attributes that the caller changed after a loader was created from this data set. Only
        PythonDataset needs it."""

    def __len__(self) -> int:
        return len(self._native)

    def __getitem__(self, index: int) -> Any:
        """Returns one sample after the transforms, in host memory.

        The sample is a tuple with an element for each of `fields`, or for PythonDataset an object with the structure
        that its data set returns. Images are tensors of channels x height x width, uint8 unless a transform converts
        them; masks are int64, height x width; a class is an int.

        Arguments:
            index (int): index of the sample; a negative index counts from the end.

        Random transforms give another result each time, as in torchvision. Native ones are seeded from PyTorch's
        default generator in this process, and functions in Python use their own generators. In a
        slipstream.DataLoader, random numbers depend on its seed, the epoch and the sample instead.

        Raises IndexError if there is no such sample, Error if it cannot be read or does not fit a transform, and
        Refused for transforms that mix batches or change none of the fields.
        """
        try:
            place = operator.index(index)
        except TypeError:
            raise TypeError(
                f"index is {shortened(index)}: give a whole number; slipstream.Subset takes several"
            ) from None
        if not -len(self) <= place < len(self):
            raise IndexError(f"sample {place} does not exist: the data set has {len(self)} samples")
        native, chain = self._native, Compose._wrap(self.transform)
        if isinstance(native, PythonSource):
            return python_sample(native.source, chain, place % len(self))
        return native_sample(native, chain, place % len(self))

    @property
    def classes(self) -> list[str]:
        """Names of the classes, indexed by class number; empty if they are not known."""
        return self._native.class_names()

    @property
    def fields(self) -> list[str]:
        """Names of the fields of a sample, in the order that they have in a batch, such as ["image", "label"].
        PythonDataset reads its first sample to find them."""
        return self._native.field_names()

    def name(self, index: int) -> str:
        """Returns the name of a sample in messages, for example its file.

        Arguments:
            index (int): index of the sample, counted from 0.

        Raises IndexError if there is no such sample."""
        return self._native.name(*whole_numbers("index", [index]))

    def label(self, index: int) -> int:
        """Returns the class number of a sample.

        Arguments:
            index (int): index of the sample, counted from 0.

        Raises Refused if samples have no class, and IndexError if there is no such sample."""
        return self._native.label(*whole_numbers("index", [index]))

    def __repr__(self) -> str:
        if isinstance(self._native, PythonSource):  # finding its fields would read a sample
            return f"{type(self).__name__}({len(self)} samples)"
        return f"{type(self).__name__}({len(self)} samples, fields={self.fields})"


def encoded(names: Iterable[str]) -> list[bytes]:
    return [os.fsencode(name) for name in names]


def check_class_names(classes: Sequence[str]) -> list[str]:
    if isinstance(classes, str):
        raise _native.Refused(f"classes is {shortened(classes)}: give a list of names")
    return list(classes)


def _opened(path: str, num_classes: int, classes: list[str]) -> _native.Dataset:
    return _native.open_dataset(os.fsencode(path), num_classes, encoded(classes))


class PythonDataset(Dataset):
    """A map-style data set that is written in Python, with transforms applied to its images.

    slipstream.DataLoader reads it in worker processes, sample by sample. A sample is a tensor, number, str, bytes,
    NumPy array or PIL image, or a tuple, list, mapping or named tuple of these, also nested. A batch has the same
    structure, with tensors, and with lists or tuples of strings, as torch.utils.data.default_collate returns them. PIL
    images become uint8, batch x channels x height x width, channels-last. Strings may have any length and stay in host
    memory. All samples must have the structure of the first one. Images may differ in size if a transform gives them
    the same size.

    Arguments:
        dataset: an object with `__len__`, and with `__getitem__` or `__getitems__`. If it has both,
            `__getitems__` is used, as in torch.utils.data.DataLoader.
        transform (default None): a transform of slipstream.transforms, or a function of an image. It is applied to
            the PIL images of a sample. If there are none, it is applied to one tensor of channels x height x width
            or array of height x width x channels, uint8 or float32, with 1 to 4 channels: the one with the key
            "image", or the first one in tuples and lists.

    Raises Refused for other data sets, such as an IterableDataset. A loader refuses a sample in which several fields
    could be the image. It also refuses geometric transforms if another field has the height x width of the
    image, because that field would no longer match it.
    """

    def __init__(self, dataset: Any, transform: Transform | Function | None = None) -> None:
        if _holds_ours(dataset):
            raise _native.Refused(
                f"{type(dataset).__name__} is a slipstream data set, or a part of one: give it to the loader without "
                "PythonDataset, and give the transform to the slipstream data set"
            )
        has_items = hasattr(dataset, "__getitem__") or bool(getattr(dataset, "__getitems__", None))
        is_other = isinstance(dataset, torch.utils.data.IterableDataset | str | bytes)
        if is_other or not has_items or not hasattr(dataset, "__len__"):
            raise _native.Refused(
                f"slipstream.PythonDataset wraps data sets that have __len__, and __getitem__ or __getitems__, not "
                f"{type(dataset).__name__}: give an iterable-style data set to slipstream.DataLoader directly"
            )
        super().__init__(PythonSource, (dataset,), transform)
        self._copied_from: Dataset | None = None

    def _take_attributes(self) -> None:
        # Without the transform, because the loader applies it to what super().__getitem__() returns.
        if self._copied_from is not None:
            assert isinstance(self._native, PythonSource)
            self._native.source.__dict__.update(vars(self._copied_from), transform=None)


class Subset(Dataset):
    """The samples of a data set with the given indices, in this order, with the transform of the data set.

    A loader treats a torch.utils.data.Subset of a slipstream data set, such as a result of random_split(), in the
    same way.

    Arguments:
        dataset: a slipstream data set, or a map-style data set in Python.
        indices: list, tensor or array of integers, counted from 0. An index may appear several times.

    Raises Refused for an index that the data set does not have.

    >>> data = ss.ImageFolder("photos")
    >>> [ss.Subset(data, [49, 0]).label(i) for i in range(2)] == [data.label(49), data.label(0)]
    True
    """

    def __init__(self, dataset: Any, indices: Indices) -> None:
        dataset = wrap_dataset(dataset)
        super().__init__(_subset, (dataset, whole_numbers("indices", indices)), dataset.transform)


def _subset(dataset: Dataset, indices: list[int]) -> _native.Dataset | PythonSource:
    native = dataset._native
    if not isinstance(native, PythonSource):
        return _native.subset(native, indices)
    outside = [index for index in indices if index >= len(native)]
    if outside:
        raise _native.Refused(
            f"a subset takes sample {outside[0]}, but the data set has {len(native)}, counted from 0"
        )
    return native.subset(indices)


class ConcatDataset(Dataset):
    """The samples of several data sets, one data set after the other.

    A loader treats a torch.utils.data.ConcatDataset of slipstream data sets in the same way.

    Arguments:
        datasets (sequence): at least one data set; all of them native, or all in Python, with the same transform.

    Raises Refused if their transforms differ, or if native data sets and data sets in Python are combined.

    >>> data = ss.ImageFolder("photos")
    >>> len(ss.ConcatDataset([data, ss.Subset(data, [0, 1])]))
    52
    """

    def __init__(self, datasets: Sequence[Any]) -> None:
        parts = [wrap_dataset(each) for each in datasets]
        if not parts:
            raise _native.Refused("datasets is empty: give at least one")
        super().__init__(_concat, (parts,), parts[0].transform)
        chains = [Compose._wrap(each.transform)._steps for each in parts]
        if any(chain != chains[0] for chain in chains):
            raise _native.Refused(
                "the parts of this ConcatDataset have different transforms, but a loader applies only one: give all "
                "parts the same object"
            )


def _concat(parts: list[Dataset]) -> _native.Dataset | PythonSource:
    native = [each._native for each in parts if isinstance(each._native, _native.Dataset)]
    sources = [each._native.source for each in parts if isinstance(each._native, PythonSource)]
    if native and sources:
        raise _native.Refused(
            "native data sets and data sets in Python cannot be combined, because the structure of their samples "
            "differs"
        )
    return PythonSource(torch.utils.data.ConcatDataset(sources)) if sources else _native.concat(native)


def wrap_dataset(dataset: Any) -> Dataset:
    """Returns the data set that a loader reads for `dataset`. Converts torch.utils.data.Subset and ConcatDataset of
    slipstream data sets to the native classes, and wraps any other data set in a PythonDataset."""
    if isinstance(dataset, Dataset):
        return _as_its_class_reads(dataset)
    if not _holds_ours(dataset):
        return PythonDataset(dataset)
    if isinstance(dataset, torch.utils.data.Subset):
        return Subset(wrap_dataset(dataset.dataset), dataset.indices)
    return ConcatDataset(dataset.datasets)


def _as_its_class_reads(dataset: Dataset) -> Dataset:
    """Returns `dataset`, or a PythonDataset if the caller's class overrides how samples are read.

    The PythonDataset holds a copy without the transform, because super().__getitem__() in the caller's class would
    otherwise apply the transform that the loader applies afterwards."""
    if _reads_itself(dataset):
        plain = object.__new__(type(dataset))
        for each in type(dataset).__mro__:
            for name, member in vars(each).items():
                if inspect.ismemberdescriptor(member) and hasattr(dataset, name):
                    setattr(plain, name, getattr(dataset, name))
        made = PythonDataset(plain, dataset.transform)
        made._copied_from = dataset
        made._take_attributes()
        return made
    if type(dataset).__len__ is not Dataset.__len__:
        raise _native.Refused(
            f"{type(dataset).__name__} defines its own __len__(), but no __getitem__(), so all samples of the native "
            "data set would be read: use slipstream.Subset(data, range(n))"
        )
    return dataset


def _reads_itself(dataset: Dataset) -> bool:
    """Returns true if the caller's class overrides one of the methods by which PyTorch's loader reads samples."""
    is_own = type(dataset).__getitem__ is not Dataset.__getitem__
    return is_own or bool(getattr(dataset, "__getitems__", None))


def _holds_ours(dataset: Any) -> bool:
    if isinstance(dataset, Dataset):
        return not _reads_itself(dataset)
    reads = getattr(type(dataset), "__getitem__", None)
    if isinstance(dataset, torch.utils.data.Subset) and reads is torch.utils.data.Subset.__getitem__:
        return _holds_ours(dataset.dataset)
    if reads is torch.utils.data.ConcatDataset.__getitem__:
        return any(map(_holds_ours, dataset.datasets))
    return False


def open_dataset(
    path: Path,
    transform: Transform | Function | None = None,
    num_classes: int = 0,
    classes: Sequence[str] = (),
) -> Dataset:
    """Opens a data set and detects its kind: a folder with one subfolder per class, with images/ and masks/, or
    with arrays, a .tar shard or a folder of shards, a .csv or .jsonl list, or a .npy file.

    Arguments:
        path (path): the file or folder.
        transform (default None): a transform of slipstream.transforms, or a function of an image.
        num_classes (int, default 0): number of classes, for shards and arrays that do not contain it; 0: not known.
        classes (sequence of str, default ()): names of the classes in the order of their numbers.

    Raises Refused for anything else, and Error for damaged files. Ctrl-C ends the search of a large folder.

    >>> ss.open_dataset("photos")
    Dataset(50 samples, fields=['image', 'label'])
    """
    check(num_classes=(num_classes, 0))
    arguments = (check_path("path", path), num_classes, check_class_names(classes))
    opened = Dataset(_opened, arguments, transform)
    opened._warn_of_remarks()
    return opened
