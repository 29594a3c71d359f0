"""Data sets and the native loader."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from . import _native
from .transforms import Compose, Transform

if TYPE_CHECKING:
    from .pipeline import Stage

Path = str | os.PathLike[str]


class Dataset:
    """A native data set: samples in files, which the native loader reads without Python."""

    def __init__(self, native: _native.Dataset, transform: Transform | None = None) -> None:
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
        self, root: Path, transform: Transform | None = None, classes: Sequence[str] = ()
    ) -> None:
        super().__init__(_native.image_folder(os.fspath(root), list(classes)), transform)


class Subset(Dataset):
    """The samples `indices` of a data set, in that order, with its transform.

    >>> data = ss.ImageFolder("photos")
    >>> [ss.Subset(data, [49, 0]).label(i) for i in range(2)] == [data.label(49), data.label(0)]
    True
    """

    def __init__(self, dataset: Dataset, indices: Sequence[int]) -> None:
        super().__init__(_native.subset(dataset._native, list(indices)), dataset.transform)


class ConcatDataset(Dataset):
    """The samples of several data sets, one after the other, with the first one's transform.

    >>> data = ss.ImageFolder("photos")
    >>> len(ss.ConcatDataset([data, ss.Subset(data, [0, 1])]))
    52
    """

    def __init__(self, datasets: Sequence[Dataset]) -> None:
        native = _native.concat([each._native for each in datasets])
        super().__init__(native, datasets[0].transform)


def open_dataset(
    path: Path,
    transform: Transform | None = None,
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
    return Dataset(_native.open_dataset(os.fspath(path), num_classes, list(classes)), transform)


class DataLoader:
    """The native loader: threads read, decode and transform samples straight into page-locked
    batches, without Python. Arguments mean what they do in torch.utils.data.DataLoader.

    dataset: a slipstream data set, whose transform is done here, sample by sample.
    device: where batches are: "cpu", or "cuda" or "cuda:N", to which they are copied ahead of the
        loop, on a stream of their own; they may be kept for any time.
    num_workers: threads, at least 1.
    prefetch_factor: batches that each worker fills ahead.
    seed: of the order and of all random transforms: what a batch holds depends on it, the epoch and
        the batch's number alone, not on the number of workers.
    on_bad_sample: "stop", or "skip": the next good sample takes the place of a bad one.
    transforms_device: "cpu": the workers do the transforms; "cuda": the device does those that it
        can, from one of them to the last, in the stream of the copies, with the same bits.
    wire: how fields travel to a GPU, such as {"image": "jpeg"}: as files, which its JPEG engines
        decode, crop and resize (docs/plan.md has the other forms).
    rank, world_size: loads the share of one process, its batch of each step; by default those of
        torch.distributed where it is initialized. batch_size is that of each process. Without
        drop_last the last batches are filled up from the epoch's beginning, as DistributedSampler
        fills up.

    Each pass is the next epoch. set_epoch() goes to another one; state_dict() and load_state_dict()
    go on in the middle of one.

    >>> data = ss.ImageFolder("photos", ss.transforms.RandomResizedCrop(32))
    >>> loader = ss.DataLoader(data, batch_size=8, shuffle=True, drop_last=True, num_workers=2)
    >>> len(loader)
    6
    >>> for images, labels in loader:
    ...     pass
    >>> images.shape, images.dtype, labels.shape, labels.dtype
    (torch.Size([8, 3, 32, 32]), torch.uint8, torch.Size([8]), torch.int64)
    >>> loader.epoch
    1
    """

    def __init__(
        self,
        dataset: Dataset,
        batch_size: int = 1,
        shuffle: bool = False,
        *,
        num_workers: int = 1,
        drop_last: bool = False,
        prefetch_factor: int = 2,
        seed: int = 0,
        device: str | torch.device = "cpu",
        on_bad_sample: str = "stop",
        transforms_device: str = "cpu",
        wire: Mapping[str, str] | None = None,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        if not isinstance(dataset, Dataset):
            raise _native.Refused(
                f"slipstream.DataLoader reads slipstream's data sets, not {type(dataset).__name__}: "
                "open it by slipstream.ImageFolder or open_dataset, or keep PyTorch's DataLoader "
                "and put slipstream.Pipeline around it"
            )
        if on_bad_sample not in ("stop", "skip"):
            raise _native.Refused(f"on_bad_sample is '{on_bad_sample}': give 'stop' or 'skip'")
        if transforms_device not in ("cpu", "cuda"):
            raise _native.Refused(f"transforms_device is '{transforms_device}': give 'cpu' or 'cuda'")
        if torch.device(device).type == "cpu" and (wire or transforms_device == "cuda"):
            raise _native.Refused(
                f"wire and transforms_device are for batches on a GPU, but device is '{device}'"
            )
        _require(batch_size=(batch_size, 1), num_workers=(num_workers, 1))
        _require(prefetch_factor=(prefetch_factor, 1), seed=(seed, 0))
        self.dataset = dataset
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.device = _with_index(torch.device(device))
        self._position = 0  # of the batch behind the last one given, through all epochs
        self._resumes = False
        self._pass_number = 0
        settings = _native.LoaderSettings()
        settings.device = self.device
        settings.transforms = Compose.of(dataset.transform).to_json()
        settings.batch_size = batch_size
        settings.prefetch_batches = prefetch_factor * num_workers
        settings.num_workers = num_workers
        settings.shuffle = shuffle
        settings.drop_last = drop_last
        settings.skips_bad_samples = on_bad_sample == "skip"
        settings.seed = seed
        settings.rank, settings.ranks = _ranks(rank, world_size)
        settings.wire = dict(wire or {})
        settings.transforms_on_device = transforms_device == "cuda"
        self._native = _native.Loader(dataset._native, settings)

    def __len__(self) -> int:
        return self._native.batches_per_epoch()

    def __repr__(self) -> str:
        return f"DataLoader({self.dataset!r}, batch_size={self.batch_size}, device={self.device})"

    def __iter__(self) -> Iterator[Any]:
        return self._pass((), 2)

    @property
    def epoch(self) -> int:
        """That of the next pass, from 0."""
        whole, rest = divmod(self._position, len(self))
        return whole if rest == 0 or self._resumes else whole + 1

    def set_epoch(self, epoch: int) -> None:
        """The next pass is that of `epoch`."""
        _require(epoch=(epoch, 0))
        self._go_to(epoch * len(self), False)

    def state_dict(self) -> dict[str, int]:
        """Where the loop is: behind the last batch that it was given, also after it was left.

        >>> data = ss.ImageFolder("photos", ss.transforms.CenterCrop(32))
        >>> loader = ss.DataLoader(data, batch_size=10)
        >>> for number, batch in enumerate(loader):
        ...     if number == 2:
        ...         break
        >>> loader.state_dict()
        {'position': 3, 'batches_per_epoch': 5}
        """
        return {"position": self._position, "batches_per_epoch": len(self)}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """The next pass goes on there, without reading the batches before. Raises Refused for the
        state of a loader whose epochs have another number of batches.

        >>> data = ss.ImageFolder("photos", ss.transforms.CenterCrop(32))
        >>> loader = ss.DataLoader(data, batch_size=10)
        >>> loader.load_state_dict({"position": 3, "batches_per_epoch": 5})
        >>> len(list(loader))
        2
        """
        if state["batches_per_epoch"] != len(self):
            raise _native.Refused(
                f"this state is of epochs of {state['batches_per_epoch']} batches, but here they have "
                f"{len(self)}: give the same data, and the same batch size of all processes together"
            )
        _require(position=(state["position"], 0))
        self._go_to(state["position"], True)

    def _go_to(self, position: int, resumes: bool) -> None:
        self._position, self._resumes = position, resumes
        self._pass_number += 1

    def _first_number(self) -> int:
        """By which a stage's draws are keyed in the first batch of the next pass."""
        return (self.epoch << 32) + (self._position % len(self) if self._resumes else 0)

    def _pass(self, stages: Sequence[Stage], run_ahead: int) -> Iterator[Any]:
        from .pipeline import _Pass

        first = self._first_number()
        self._go_to(self._position if self._resumes else self.epoch * len(self), False)
        number = self._pass_number
        self._native.go_to(self._position)
        batches = _Pass(self._native, stages, self.device, run_ahead, first)
        try:
            while True:
                if number != self._pass_number:
                    raise _native.Error(
                        "the loader was sent elsewhere since this pass began, by another pass, "
                        "set_epoch() or load_state_dict(): finish one first, or make a loader for each"
                    )
                try:
                    batch = next(batches)
                except StopIteration:
                    return
                self._position += 1
                yield batch
        finally:
            batches.close()


def _with_index(device: torch.device) -> str:
    """As the native side names it: "cpu", or "cuda:N"."""
    if device.type == "cuda" and device.index is None:
        return f"cuda:{torch.cuda.current_device()}"
    return "cpu" if device.type == "cpu" else str(device)


def _ranks(rank: int | None, world_size: int | None) -> tuple[int, int]:
    if (rank is None) != (world_size is None):
        raise _native.Refused("rank and world_size belong together: give both, or none")
    if rank is None or world_size is None:
        if not torch.distributed.is_available() or not torch.distributed.is_initialized():
            return 0, 1
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    _require(rank=(rank, 0), world_size=(world_size, 1))
    return rank, world_size


def _require(**numbers: tuple[Any, int]) -> None:
    for name, (value, least) in numbers.items():
        if not isinstance(value, int) or value < least:
            raise _native.Refused(f"{name} is {value!r}: give a whole number, at least {least}")
