"""Creates a slipstream.DataLoader that is equivalent to a torch.utils.data.DataLoader, and the code for it."""

from __future__ import annotations

import dataclasses
import functools
import os
import warnings
from collections.abc import Sequence
from typing import Any

from torch.utils.data import DataLoader, default_collate

from .. import _native, data, datasets, image_folder
from .._equivalents import equivalent_chain, from_torchvision
from .._native import Error, Refused
from .._transform_parts import Compose
from .loaders import Loaders
from .native import NativeLoaders
from .orders import is_sequential, is_shuffled
from .parts import Parts


_SMALLER = 0.5  # share of a sample's bytes below which the transforms up to there may stay in the worker processes
_DRAIN_S = 0.3  # seconds for measuring how long a native loader takes for a sample


class Ports:
    """The native loaders that may replace the user's loader: worker processes apply none of the transforms, or those
    that make samples much smaller. An image folder is read without worker processes.

    costs: costs of the steps of the data set and of collating, without those of parts."""

    def __init__(self, loaders: Loaders, parts: Parts, costs: Sequence[_native.HostStepCost]) -> None:
        self._loader, self._parts, self._steps = loaders.loader, parts, parts.steps
        self._names, self._sizes = [cost.name for cost in costs], [cost.bytes for cost in costs[:-1]]
        self._is_possible = not _why_no_native_batches(loaders)

    def kept(self) -> list[int]:
        """Returns numbers of the first transforms that worker processes apply, the most promising one first."""
        return self._kept

    @functools.cached_property
    def _kept(self) -> list[int]:
        sizes = self._sizes
        smallest = min(range(len(sizes)), key=lambda index: sizes[index])
        shrinks = sizes[smallest] < _SMALLER * sizes[0]
        return [smallest, 0] if shrinks and self._folder is None and is_flat(self._parts) else [0]

    @functools.cached_property
    def _folder(self) -> image_folder.ImageFolder | None:
        """The image folder in a form that is read natively; None if there is none. Lists all of its files."""
        try:
            return _native_folder(self._loader.dataset) if self._is_possible else None
        except Error:  # no transform, for example
            return None

    def predicted(
        self, observed: _native.Observations, diagnosis: _native.Diagnosis, seconds: dict[str, float]
    ) -> _native.Change:
        """Predicts the rate if these transforms run natively and take these times. Chooses the more promising loader."""
        if not self._is_possible:
            return _native.what_if(observed, diagnosis, seconds)
        is_whole = set(seconds) == {step.name for step in self._steps[1:]}
        if self._folder is not None and is_whole:
            times = dict.fromkeys(self._names, 0.0) | {self._names[0]: self._sample_s()}
            return _native.port_to_native(observed, diagnosis, times, False)
        changes = {}
        for kept in self._kept:
            own = {step.name for step in self._steps[1 : kept + 1]}
            moved = {name: time for name, time in seconds.items() if name not in own}
            changes[kept] = _native.port_to_native(observed, diagnosis, moved, True)
        best = max(changes, key=lambda kept: changes[kept].predicted.value)
        if is_whole:
            self._kept = sorted(self._kept, key=lambda kept: kept != best)
        return changes[best]

    def _sample_s(self) -> float:
        """Measures how long one thread of a native loader takes for a sample of the image folder."""
        dataset: Any = self._folder
        size = self._loader.batch_size or 1
        loader = data.DataLoader(dataset, min(size, len(dataset)), shuffle=True, num_workers=1, seed=0)
        drain = _native.LoaderDrain(NativeLoaders(loader).made(workers=1))
        _native.measure_alternately([drain], _DRAIN_S, _DRAIN_S)
        return 1 / drain.rate().value


@dataclasses.dataclass(frozen=True)
class Port:
    """An equivalent slipstream.DataLoader.

    code: creates it from the user's loader. described: how it reads the data set, as a clause.
    is_sequential: whether it and the user's loader list the samples in the order of the data set."""

    loader: data.DataLoader
    code: str
    described: str
    is_sequential: bool


def port(loaders: Loaders, parts: Parts, name: str, device: str, workers: int, kept: int = 0) -> Port:
    """Returns a slipstream.DataLoader that gives the same batches as the user's loader, and code that creates it.

    name: the user's variable for the loader, used in the code.
    kept: the first `kept` transforms stay in the data set and run in worker processes. The others run natively.

    Raises Refused with the reason if there is no equivalent loader."""
    loader: Any = loaders.loader
    _refuse(loaders, parts)
    dataset: Any = _native_folder(loader.dataset) if kept == 0 else None
    if dataset is not None:
        source = (
            f"data = ss.ImageFolder({name}.dataset.root, "
            f"ss.from_torchvision({name}.dataset.transform))"
        )
        described = "which reads the image folder without Python"
    else:
        if kept > 0 and not is_flat(parts):
            raise Refused("the transform of the data set is not a Compose of single transforms")
        dataset, source = _python_dataset(parts, name, kept)
        described = "whose worker processes read the data set"
        if kept > 0:
            described += f" and apply '{parts.steps[kept].name}'"
    settings, code = _settings(loaders, name, workers, device)
    arguments = ", ".join(f"{key}={value}" for key, value in code.items())
    lines = f"import slipstream as ss\n{source}\n{name} = ss.DataLoader(data, {arguments})"
    in_order = is_sequential(loader.batch_sampler, loader.dataset)
    return Port(data.DataLoader(dataset, **settings), lines, described, in_order)


def _why_no_native_batches(loaders: Loaders) -> str:
    """Returns why a native loader could not make the batches of the user's loader, or ""."""
    loader = loaders.loader
    if type(loader) is not DataLoader or loaders.is_stream or loaders.is_single:
        return "the loader is a subclass, gives single samples, or reads an iterable-style data set"
    return "" if loader.collate_fn is default_collate else "the loader has its own collate_fn"


def _refuse(loaders: Loaders, parts: Parts) -> None:
    if reason := _why_no_native_batches(loaders):
        raise Refused(reason)
    if [(site.attribute, site.key) for site in parts.sites] != [("transform", None)]:
        raise Refused("the transforms of the data set are not in its attribute .transform alone")


def _native_folder(dataset: Any) -> image_folder.ImageFolder | None:
    """Returns the native equivalent of torchvision's ImageFolder; None if its images would be other ones, or if
    `dataset` is another data set."""
    kind = type(dataset)
    if (
        (kind.__module__, kind.__name__) != ("torchvision.datasets.folder", "ImageFolder")
        or dataset.target_transform is not None
        or getattr(dataset.loader, "__name__", "") != "default_loader"
    ):
        return None
    chain = from_torchvision(dataset.transform)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of files that are skipped: the code of the change warns as well
            native = image_folder.ImageFolder(dataset.root, chain)
    except Error:  # a class folder without an image, for example
        return None
    return native if _files(native.samples) == _files(dataset.samples) else None


def _files(samples: Sequence[Any]) -> list[tuple[str, Any]]:
    return [(os.path.normpath(path), label) for path, label in samples]


def _python_dataset(parts: Parts, name: str, kept: int) -> tuple[Any, str]:
    """Returns the data set with its first `kept` transforms, and the code that creates it."""
    own = parts.own_parts()[0]
    dataset = datasets.PythonDataset(parts.with_transform(Compose(own[:kept])), equivalent_chain(own[kept:]))
    holder, lines = "data", ["import copy", "import torch", f"data = copy.copy({name}.dataset)"]
    for _ in range(parts.sites[0].depth):
        lines.append(f"{holder}.dataset = copy.copy({holder}.dataset)")
        holder += ".dataset"
    lines.append(f"transform = {holder}.transform")
    if kept == 0:
        lines.append(f"{holder}.transform = torch.nn.Identity()")
        rest = "transform"
    else:
        lines.append(f"{holder}.transform = type(transform)(list(transform.transforms)[:{kept}])")
        rest = f"type(transform)(list(transform.transforms)[{kept}:])"
    lines.append(f"data = ss.PythonDataset(data, ss.from_torchvision({rest}))")
    return dataset, "\n".join(lines)


def _settings(loaders: Loaders, name: str, workers: int, device: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns the arguments of the loader, and the same as code. The code uses the sampler of the user's loader, and
    the loader that is measured a copy of it."""
    theirs = loaders.loader
    settings: dict[str, Any] = {"num_workers": workers, "device": device, "seed": 0}
    code = {"num_workers": str(workers)}
    shuffles = is_shuffled(theirs.sampler, theirs.dataset)
    if theirs.batch_size is None or not (shuffles or is_sequential(theirs.sampler, theirs.dataset)):
        settings["batch_sampler"] = loaders.sampler
        code = {"batch_sampler": f"{name}.batch_sampler"} | code
    else:
        settings |= {"batch_size": theirs.batch_size, "shuffle": shuffles, "drop_last": True}
        order = {"batch_size": f"{name}.batch_size"} | ({"shuffle": "True"} if shuffles else {})
        code = order | code | ({"drop_last": "True"} if theirs.drop_last else {})
    if theirs.prefetch_factor not in (None, 2):
        settings["prefetch_factor"] = theirs.prefetch_factor
        code["prefetch_factor"] = f"{name}.prefetch_factor"
    for key in ("worker_init_fn", "multiprocessing_context"):
        if getattr(theirs, key) is not None:
            settings[key], code[key] = getattr(theirs, key), f"{name}.{key}"
    if device != "cpu":
        code["device"] = repr(device)
    return settings, code


def is_flat(parts: Parts) -> bool:
    """Returns true if the transform of the data set is a Compose whose elements are the parts of `parts`."""
    elements = getattr(parts.transforms[0], "transforms", ())
    return [type(each) for each in elements] == [type(each) for each in parts.hooks[0]]
