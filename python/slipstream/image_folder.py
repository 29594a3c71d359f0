"""slipstream.ImageFolder: images in a folder that has one subfolder per class."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

from . import _native
from ._checks import check, check_path, choose, shortened
from ._steps import Function
from .datasets import Dataset, Path, PythonSource, Subset, check_class_names, encoded, warn_of
from .transforms import Transform


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
        names, ends = check_class_names(classes), _check_extensions(extensions)
        functions = (loader, target_transform)
        if is_valid_file is None:
            super().__init__(_folder, (_image_folder, (self.root, names, ends, allow_empty), *functions), transform)
            self._warn_of_remarks()
            return
        # A copy of the data set gets the list of files, so that the function is not called again.
        found = _image_folder(self.root, names, ends, allow_empty, is_valid_file)
        files = [(found.name(index), found.label(index)) for index in range(len(found))]
        super().__init__(_folder, (_labeled_images, (found.class_names(), files), *functions), transform)
        warn_of(found.remarks(), stacklevel=3)

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
    return _native.image_folder(os.fsencode(path), encoded(classes), encoded(extensions), is_valid_file, allow_empty)


def _labeled_images(classes: list[str], files: list[tuple[str, int]]) -> _native.Dataset:
    return _native.labeled_images(encoded(classes), encoded(path for path, _ in files), [label for _, label in files])


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
