"""Data sets that slipstream.DataLoader reads: native ones, and wrappers for data sets written in Python."""

from __future__ import annotations

import functools
import inspect
import operator
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from . import _native
from ._checks import Indices, check, check_path, choose, shortened, whole_numbers
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


def _warn_of(remarks: list[str], stacklevel: int) -> None:
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
        _warn_of(self._native.remarks(), stacklevel=4)

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


class ImageFolder(Dataset):
    """The images in a folder that has one subfolder per class, in torchvision's order.

    Files are `ROOT/CLASS/**/*.jpg`, .jpeg, .jpe, .jfif, .png, .ppm, .pgm, .bmp, .gif, .tif, .tiff or .webp, in upper or
    lower case. If a file has several frames or pages, the first one is read. Files that are skipped are counted in a warning. A
    batch is (images, labels): uint8, batch x 3 x height x width, channels-last; int64, batch.

    Arguments:
        root (path): the folder that contains the class folders.
        transform (default None): a transform of slipstream.transforms, or a function of an image.
        target_transform (callable, default None): called with the class number of each sample. Its result takes the
            place of the number in the sample.
        loader (callable, default None): called with the path of each file, returns its image, as a PIL image, a
            tensor or an array. None: files are decoded natively.
        is_valid_file (callable, default None): called with the path of each file in a class folder, also of hidden
            ones; returns whether it is a sample. It is called once per file, in this process, when the data set is
            opened. Not with `extensions`.
        extensions (str or sequence of str, default None): the ends of the names of the files that are samples, such as
            (".png", ".webp"), in upper or lower case. None: all formats that are decoded natively.
        allow_empty (bool, default False): True: class folders without a file that is a sample are accepted.
        classes (sequence of str, default ()): the classes in the order of their numbers. () means all folders,
            sorted by name.

    With `target_transform` or `loader`, samples are read in the worker processes of a slipstream.DataLoader, as those
    of a PythonDataset. Files are then not decoded by the GPU, and MixUp, CutMix and OneHot are refused.

    Raises Refused if there is no such folder or if its folders differ from `classes`, Error if a class folder has
    no image, and TypeError for arguments of another type.

    >>> data = ss.ImageFolder("photos", ss.transforms.CenterCrop(32))
    >>> len(data), data.classes, data.fields
    (50, ['class0', 'class1', 'class2'], ['image', 'label'])
    >>> image, label = data[0]
    >>> image.shape, image.dtype, label
    (torch.Size([3, 32, 32]), torch.uint8, 0)
    >>> ss.ImageFolder("photos", target_transform=lambda number: number % 2)[49][1]
    0
    """

    def __init__(
        self,
        root: Path,
        transform: Transform | Function | None = None,
        target_transform: Callable[[int], Any] | None = None,
        loader: Callable[[str], Any] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        extensions: str | Sequence[str] | None = None,
        allow_empty: bool = False,
        classes: Sequence[str] = (),
    ) -> None:
        _check_callables(target_transform=target_transform, loader=loader, is_valid_file=is_valid_file)
        check(choose(allow_empty=(allow_empty, (False, True))))
        self.root = check_path("root", root)
        names, ends = _check_class_names(classes), _check_extensions(extensions)
        functions = (loader, target_transform)
        if is_valid_file is None:
            super().__init__(_folder, (_image_folder, (self.root, names, ends, allow_empty), *functions), transform)
            self._warn_of_remarks()
            return
        # A copy of the data set gets the list of files, so that the function is not called again.
        found = _image_folder(self.root, names, ends, allow_empty, is_valid_file)
        files = [(found.name(index), found.label(index)) for index in range(len(found))]
        super().__init__(_folder, (_labeled_images, (found.class_names(), files), *functions), transform)
        _warn_of(found.remarks(), stacklevel=3)

    @property
    def class_to_idx(self) -> dict[str, int]:
        """Maps the name of each class to its number."""
        return {name: number for number, name in enumerate(self.classes)}

    @functools.cached_property
    def targets(self) -> list[int]:
        """The class number of each sample, before `target_transform`."""
        return [self._native.label(index) for index in range(len(self))]

    @functools.cached_property
    def samples(self) -> list[tuple[str, int]]:
        """The file and the class number of each sample."""
        return [(self._native.name(index), label) for index, label in enumerate(self.targets)]

    @property
    def imgs(self) -> list[tuple[str, int]]:
        """The same as `samples`, as in torchvision."""
        return self.samples


class _FolderSamples:
    """The samples of image files, if functions in Python read the files or convert the class numbers."""

    def __init__(
        self, files: Dataset, loader: Callable[[str], Any] | None, target_transform: Callable[[int], Any] | None
    ) -> None:
        self.files, self.loader, self.target_transform = files, loader, target_transform

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        if self.loader is None:
            image, target = self.files[index]
        else:
            image, target = self.loader(self.files.name(index)), self.files.label(index)
        return image, target if self.target_transform is None else self.target_transform(target)


class _FolderSource(PythonSource):
    """Gives _FolderSamples what is known of their files without reading them."""

    source: _FolderSamples

    def name(self, index: int) -> str:
        return self.source.files.name(index)

    def class_names(self) -> list[str]:
        return self.source.files.classes

    def label(self, index: int) -> int:
        return self.source.files.label(index)

    def remarks(self) -> list[str]:
        return self.source.files._native.remarks()

    def subset(self, indices: list[int]) -> PythonSource:
        whole = self.source
        return _FolderSource(_FolderSamples(Subset(whole.files, indices), whole.loader, whole.target_transform))


def _folder(
    make: Callable[..., _native.Dataset],
    arguments: tuple[Any, ...],
    loader: Callable[[str], Any] | None,
    target_transform: Callable[[int], Any] | None,
) -> _native.Dataset | PythonSource:
    if loader is None and target_transform is None:
        return make(*arguments)
    return _FolderSource(_FolderSamples(Dataset(make, arguments), loader, target_transform))


def _image_folder(
    path: str,
    classes: list[str],
    extensions: list[str],
    allow_empty: bool,
    is_valid_file: Callable[[str], bool] | None = None,
) -> _native.Dataset:
    return _native.image_folder(os.fsencode(path), _encoded(classes), _encoded(extensions), is_valid_file, allow_empty)


def _labeled_images(classes: list[str], files: list[tuple[str, int]]) -> _native.Dataset:
    return _native.labeled_images(_encoded(classes), _encoded(path for path, _ in files), [label for _, label in files])


def _encoded(names: Iterable[str]) -> list[bytes]:
    return [os.fsencode(name) for name in names]


def _check_class_names(classes: Sequence[str]) -> list[str]:
    if isinstance(classes, str):
        raise _native.Refused(f"classes is {shortened(classes)}: give a list of names")
    return list(classes)


def _check_extensions(extensions: str | Sequence[str] | None) -> list[str]:
    if extensions is None:
        return []
    ends = [extensions] if isinstance(extensions, str) else list(extensions)
    if not all(isinstance(end, str) for end in ends):
        raise TypeError(f"extensions is {shortened(extensions)}: give strings, such as ('.png', '.webp')")
    if not ends:
        raise _native.Refused("extensions is empty: give at least one, or None for all supported formats")
    return ends


def _check_callables(**given: Any) -> None:
    for name, value in given.items():
        if value is not None and not callable(value):
            raise TypeError(f"{name} is {shortened(value)}: give a function, or None")


def _opened(path: str, num_classes: int, classes: list[str]) -> _native.Dataset:
    return _native.open_dataset(os.fsencode(path), num_classes, _encoded(classes))


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
    could be the image. It also refuses transforms that move pixels if another field has the height x width of the
    image, because that field would not be moved.
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
    arguments = (check_path("path", path), num_classes, _check_class_names(classes))
    opened = Dataset(_opened, arguments, transform)
    opened._warn_of_remarks()
    return opened
