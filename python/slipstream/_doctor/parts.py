"""Takes a PyTorch data set apart into its own code and the transforms that it holds.

The user's objects are not changed: data sets are copied shallowly, because they may hold much data, and transforms
deeply.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader, Sampler
from torch.utils.data import Dataset as TorchDataset

from .. import _trees
from .._blocks import contextmanager
from .._random_states import is_generator
from .._remedies import add_remedy
from .._signals import add_note
from .._transform_parts import display_name, split_transform
from ..datasets import Dataset
from .clock import Clock
from .known_calls import TRANSFORMS, TimedFunction

ATTRIBUTES = ("transform", "transforms", "target_transform")
DATA_SET = "data set"
COLLATE = "collate"
TRANSFER = "transfer"  # of samples from the worker processes of a slipstream.DataLoader
_MOST_DEPTH = 5  # data sets that wrap each other
_MOST_ELEMENTS = 32  # elements of a list of transforms


@dataclasses.dataclass
class Call:
    """One call of a transform by the data set, with the result of the parts that have been applied so far."""

    number: int
    hook: int  # index of the transform
    style: str  # how a part receives the value: as "one", "several" or "named" arguments
    value: Any
    follows: bool = False  # whether `value` contains Slots for results of earlier calls

    @classmethod
    def of(cls, number: int, hook: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        if args and kwargs:
            raise TypeError("a transform that takes positional and named arguments")
        if kwargs:
            return cls(number, hook, "named", kwargs)
        return (
            cls(number, hook, "one", args[0])
            if len(args) == 1
            else cls(number, hook, "several", args)
        )

    def with_slots(self) -> Call:
        """Returns the call with Slots in place of the TransformSites in its value."""
        sites = [leaf for leaf in _trees.leaves(self.value) if isinstance(leaf, TransformSite)]
        if any(site.call.hook >= self.hook for site in sites):
            raise TypeError("transforms that are not applied in the order of their sites")
        return dataclasses.replace(self, value=_trees.mapped(self.value, _slot_for), follows=True) if sites else self

    def filled(self, made: Mapping[int, Any]) -> Call:
        """Returns the call with results of earlier calls in place of Slots."""
        if not self.follows:
            return self
        return dataclasses.replace(self, value=filled(self.value, made), follows=False)

    def after(self, parts: Sequence[Callable[..., Any]]) -> Call:
        """Returns the call after these parts were applied to its value."""
        value = self.value
        for part in parts:
            value = applied(part, value, self.style)
        return dataclasses.replace(self, value=value)


def applied(part: Callable[..., Any], value: Any, style: str) -> Any:
    if style == "named":
        return part(**value)
    return part(*value) if style == "several" else part(value)


class TransformSite:
    """A placeholder in a sample for the result of a transform that has not been applied yet, or for an element of the
    result."""

    __iter__ = None  # with __getitem__ alone, Python would treat it as an endless sequence

    def __init__(self, call: Call, keys: tuple[Any, ...] = ()) -> None:
        self.call = call
        self.keys = keys

    def __getitem__(self, key: Any) -> TransformSite:
        return TransformSite(self.call, (*self.keys, key))


class Slot:
    """A placeholder in the template of a cached sample. Unlike a TransformSite it does not refer to the call, so that
    the template does not keep the call's input in memory."""

    def __init__(self, call: int, keys: tuple[Any, ...]) -> None:
        self.call = call
        self.keys = keys

    def filled(self, made: Mapping[int, Any]) -> Any:
        return functools.reduce(lambda value, key: value[key], self.keys, made[self.call])


def _slot_for(leaf: Any) -> Any:
    return Slot(leaf.call.number, leaf.keys) if isinstance(leaf, TransformSite) else leaf


def filled(tree: Any, made: Mapping[int, Any]) -> Any:
    """Returns a tree with results of calls, by their numbers, in place of Slots."""
    return _trees.mapped(tree, lambda x: x.filled(made) if isinstance(x, Slot) else x)


@dataclasses.dataclass
class RawSample:
    """A sample of which no transforms or only the first ones have been applied: a template with slots, and the calls
    whose results fill them."""

    template: Any
    calls: list[Call]

    @classmethod
    def of(cls, sample: Any) -> RawSample:
        """Creates a RawSample from a sample that has TransformSites, the placeholders for results of transforms."""
        calls: dict[int, Call] = {}
        trees = [sample]
        while trees:
            for leaf in _trees.leaves(trees.pop()):
                if isinstance(leaf, TransformSite) and leaf.call.number not in calls:
                    calls[leaf.call.number] = leaf.call
                    trees.append(leaf.call.value)  # the result of one transform may be the input of another
        return cls(_trees.mapped(sample, _slot_for), [calls[number].with_slots() for number in sorted(calls)])

    def copied(self) -> RawSample:
        """Returns a sample with copies of the values, for parts that write into their input."""
        return RawSample(self.template, copy.deepcopy(self.calls))

    def after(self, hook: int, part: Callable[..., Any]) -> RawSample:
        made = {call.number: call.value for call in self.calls}
        calls = [call.filled(made).after([part]) if call.hook == hook else call for call in self.calls]
        return RawSample(self.template, calls)

    def finished(self, rest: Sequence[Sequence[Callable[..., Any]]]) -> Any:
        """Returns the finished sample. rest: for each hook, the parts that have not been applied yet."""
        made: dict[int, Any] = {}
        for call in self.calls:
            made[call.number] = call.filled(made).after(rest[call.hook]).value
        return filled(self.template, made)


class Hook:
    """Replaces a transform of the data set. Has the attributes of the transform, which the data set may read."""

    def __init__(self, transform: Any) -> None:
        self.transform = transform

    def __getattr__(self, name: str) -> Any:
        if name == "transform" or name.startswith("__"):  # not set yet, while an object is copied
            raise AttributeError(name)
        return getattr(self.transform, name)


class WatchingHook(Hook):
    """Applies the transform, and adds the call to a list (Parts.watched)."""

    def __init__(self, transform: Any, number: int, calls: list[tuple[int, bool]]) -> None:
        super().__init__(transform)
        self.number, self.calls = number, calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        names = (str, bytes, os.PathLike, int, float, type(None))
        self.calls.append((self.number, any(not isinstance(each, names) for each in (*args, *kwargs.values()))))
        return self.transform(*args, **kwargs)


class TimingHook(Hook):
    """Applies the parts of the transform and measures their time.

    first: number of the first part. loads: see Parts."""

    def __init__(
        self, transform: Any, clock: Clock, first: int, parts: list[Callable[..., Any]], loads: bool
    ) -> None:
        super().__init__(transform)
        self.clock, self.first, self.parts, self.loads = clock, first, parts, loads

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.loads:
            _load_images(args, kwargs)
        return self.clock.uncounted(lambda: self._apply(Call.of(0, 0, args, kwargs)))

    def _apply(self, call: Call) -> Any:
        value = call.value
        self.clock.add_input(value)
        for number, part in enumerate(self.parts, self.first):
            value = self.clock.timed(number, functools.partial(applied, part, value, call.style))
        return value


class CuttingHook(Hook):
    """Returns placeholders instead of applying the transform."""

    def __init__(self, transform: Any, hook: int, numbers: Iterator[int], loads: bool) -> None:
        super().__init__(transform)
        self.hook, self.numbers, self.loads = hook, numbers, loads

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.loads:
            _load_images(args, kwargs)
        call = Call.of(next(self.numbers), self.hook, args, kwargs)
        if call.style == "several":
            return tuple(TransformSite(call, (i,)) for i in range(len(args)))
        return TransformSite(call)


def _load_images(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Makes PIL decode its images. Otherwise the first transform would trigger the decoding, and its time would count
    as that of the transform instead of reading."""
    for given in (*args, *kwargs.values()):
        if hasattr(given, "getbands") and hasattr(given, "load"):
            given.load()


@dataclasses.dataclass
class Step:
    """A step of a data set. Step 0 is the data set's own code, with hook -1; the others are parts of transforms."""

    name: str
    hook: int = -1
    part: int = 0
    is_random: bool = False
    reads: int = 0  # number of samples from which is_random was determined
    writes: bool = False  # whether it writes into its input
    takes: tuple[int, int, bool] | None = None  # height and width of its input image, and whether it is floating-point


@dataclasses.dataclass(frozen=True)
class Site:
    """Where a data set holds a transform: in an attribute, or in an element of a list, tuple or dict there.

    depth: number of data sets that wrap the one with the attribute."""

    depth: int
    attribute: str
    key: Any = None

    def is_standard(self) -> bool:
        """Returns true for the attributes that contain transforms in the data sets of torchvision."""
        return self.attribute in ATTRIBUTES

    def name(self, transform: Any) -> str:
        return self.attribute if self.attribute == "target_transform" else display_name(transform)


class Parts:
    """A data set, with its transforms taken apart into parts.

    sites: where the data set holds its transforms, in the order in which it applies them; None means everywhere where
        a transform may be.
    whole: keeps each transform as one part.
    loads: makes PIL decode images before transforms are applied.
    inside: where it holds transforms that are measured, but belong to the data set's own code.
    named: names of attributes that the user wants to be measured as parts of the data set's code.
    """

    def __init__(
        self,
        dataset: Any,
        sites: Sequence[Site] | None = None,
        whole: bool = False,
        loads: bool = True,
        inside: Sequence[Site] = (),
        named: Sequence[str] = (),
    ) -> None:
        self.dataset, self._loads, self._whole, self._named = dataset, loads, whole, list(named)
        self._inside = list(inside)
        self.sites = find_sites(dataset) if sites is None else list(sites)
        self.sites = [site for site in self.sites if site.attribute not in named]
        self.how = {"sites": self.sites, "whole": whole, "loads": loads, "inside": self._inside, "named": self._named}
        self.transforms = [_held(dataset, site) for site in self.sites]
        self.hooks = self.own_parts()
        self.steps = [Step(DATA_SET)]
        for hook, parts in enumerate(self.hooks):
            for number, part in enumerate(parts):
                self.steps.append(Step(self._unique(self.sites[hook].name(part)), hook, number))

    def own_parts(self) -> list[list[Callable[..., Any]]]:
        """Returns copies of all parts: a list for each hook."""
        own = [_copied_deeply(transform) for transform in self.transforms]
        return [[each] if self._whole else split_transform(each) for each in own]

    def timed(self, clock: Clock) -> Any:
        """Returns a copy of the data set that measures the time of its parts, except for calls of known functions."""
        hooks: list[tuple[Site, Any]] = []
        first = 1
        for site, transform, parts in zip(self.sites, self.transforms, self.own_parts(), strict=True):
            hooks.append((site, TimingHook(transform, clock, first, parts, self._loads)))
            first += len(parts)
        for site in self._inside:
            hooks.append((site, TimedFunction(TRANSFORMS, _copied_deeply(_held(self.dataset, site)))))
        dataset = self._with(hooks)
        for name in self._named:
            holder = find_holder(dataset, name)[1]
            if holder is not None:
                _put(holder, name, TimedFunction(name, getattr(holder, name), is_users=True))
        return dataset

    def watched(self, calls: list[tuple[int, bool]]) -> Any:
        """Returns a copy of the data set that adds the calls of its transforms to a list: the index of the site, and
        whether the argument may be a value of a sample, but not the name or the index of a sample."""
        hooks = [
            (site, WatchingHook(_copied_deeply(transform), number, calls))
            for number, (site, transform) in enumerate(zip(self.sites, self.transforms, strict=True))
        ]
        return self._with(hooks)

    def cutting(self) -> Any:
        """Returns a copy of the data set whose samples contain TransformSites in place of transformed values."""
        numbers = itertools.count()
        return self._with(
            [
                (site, CuttingHook(transform, hook, numbers, self._loads))
                for hook, (site, transform) in enumerate(zip(self.sites, self.transforms, strict=True))
            ]
        )

    def plain(self) -> Any:
        """Returns a copy of the data set with the same behavior."""
        copies = map(_copied_deeply, self.transforms)
        return self._with(list(zip(self.sites, copies, strict=True)))

    def with_transform(self, transform: Callable[..., Any]) -> Any:
        """Returns a copy of the data set with `transform` in place of its only transform."""
        (site,) = self.sites
        return self._with([(site, transform)])

    def rest(self, after: int) -> list[list[Callable[..., Any]]]:
        """Returns the parts that follow step `after`: a list for each hook."""
        done = [0] * len(self.hooks)
        for step in self.steps[1 : after + 1]:
            done[step.hook] += 1
        return [parts[skipped:] for parts, skipped in zip(self.hooks, done, strict=True)]

    def _unique(self, name: str) -> str:
        return unique_name(name, {step.name for step in self.steps})

    def _with(self, hooks: Sequence[tuple[Site, Any]]) -> Any:
        """Returns a copy of the data set that holds other transforms. Data sets that it wraps are copied, too, as far
        as something in them changes."""
        depths = [site.depth for site, _ in hooks] + [find_holder(self.dataset, name)[0] for name in self._named]
        holders = [_copied_dataset(self.dataset)]
        for _ in range(max(depths, default=0)):
            holders.append(_copied_dataset(holders[-1].dataset))
            _put(holders[-2], "dataset", holders[-1])
        for site, hook in hooks:
            holder = holders[site.depth]
            if site.key is not None:
                hook = _with_element(getattr(holder, site.attribute), site.key, hook)
            _put(holder, site.attribute, hook)
            standard = getattr(holder, "__dict__", {}).get("transforms")
            if _is_standard(standard) and site.is_standard():
                holder.transforms = copy.copy(standard)
                setattr(holder.transforms, site.attribute, hook)
        return holders[0]


def unique_name(name: str, taken: set[str]) -> str:
    """Returns `name`, or a numbered name if it is taken or is the name of another step of a loop."""
    numbered = (name if i == 1 else f"{name} ({i})" for i in itertools.count(1))
    return next(each for each in numbered if each not in taken | {COLLATE, "copy", "step"})


def find_sites(dataset: Any) -> list[Site]:
    """Returns where a data set, and the data sets that it wraps, may hold transforms: all attributes that are callable,
    or that contain only callable elements. Some may be other functions, such as the one that reads a file."""
    sites = []
    for depth in range(_MOST_DEPTH):
        if isinstance(dataset, Dataset):
            break  # a slipstream data set and its transforms are one native part
        held = getattr(dataset, "__dict__", {})
        for name, value in held.items():
            sites += [Site(depth, name, key) for key, each in _elements(value) if _may_transform(name, each)]
        if "dataset" not in held:
            break
        dataset = held["dataset"]
    return sites


def find_holder(dataset: Any, name: str) -> tuple[int, Any]:
    """Returns the data set that has this attribute, which is `dataset` or one that it wraps, and the number of data sets
    that wrap it. The data set is None if none has it."""
    for depth in range(_MOST_DEPTH):
        if hasattr(dataset, name):
            return depth, dataset
        dataset = getattr(dataset, "__dict__", {}).get("dataset")
    return 0, None


def _elements(value: Any) -> list[tuple[Any, Any]]:
    """Returns the keys and elements of a list, tuple or dict of callables; a single callable has the key None."""
    if type(value) in (list, tuple) and len(value) <= _MOST_ELEMENTS and all(map(callable, value)):
        return list(enumerate(value))
    if type(value) is dict and len(value) <= _MOST_ELEMENTS and all(map(callable, value.values())):
        return list(value.items())
    return [(None, value)] if callable(value) else []


def _may_transform(name: str, value: Any) -> bool:
    if _is_standard(value):
        return False  # it only calls `transform` and `target_transform`, which are found as well
    if name in ATTRIBUTES:
        return True
    if isinstance(value, type | TorchDataset | Dataset | Sampler | DataLoader):
        return False
    # A model would be copied again and again.
    return not isinstance(value, torch.nn.Module) or next(value.parameters(), None) is None


def _held(dataset: Any, site: Site) -> Any:
    for _ in range(site.depth):
        dataset = dataset.dataset
    value = getattr(dataset, site.attribute)
    return value if site.key is None else value[site.key]


def _with_element(container: Any, key: Any, value: Any) -> Any:
    if isinstance(container, tuple):
        return (*container[:key], value, *container[key + 1 :])
    changed = copy.copy(container)
    changed[key] = value
    return changed


def _is_standard(transform: Any) -> bool:
    return type(transform).__name__ == "StandardTransform"  # created by torchvision's VisionDataset


def _copied_dataset(dataset: Any) -> Any:
    """Returns a shallow copy. Random generators and iterators are copied as well, if possible, because using them
    changes them."""
    with noted("slipstream.doctor works on a shallow copy of the data set (copy.copy)"):
        copied = copy.copy(dataset)
    held = getattr(copied, "__dict__", {})
    for name, each in held.items():
        if is_generator(each) or hasattr(type(each), "__next__"):
            with contextlib.suppress(TypeError):  # generators of functions, and files, cannot be copied
                held[name] = copy.deepcopy(each)
    return copied


def _put(holder: Any, name: str, value: Any) -> None:
    try:
        setattr(holder, name, value)
    except dataclasses.FrozenInstanceError:
        object.__setattr__(holder, name, value)


def _copied_deeply(transform: Callable[..., Any]) -> Callable[..., Any]:
    if hasattr(transform, "__self__"):  # a bound method, whose object may be the whole data set
        return transform
    try:
        return copy.deepcopy(transform)
    except Exception:
        return transform


@contextmanager
def noted(note: str, values: Any = ()) -> Iterator[None]:
    """Adds a note to an exception that is raised in the block, and a remedy, if there is one for these values."""
    try:
        yield
    except Exception as error:
        add_note(error, note)
        add_remedy(error, values)
        raise
