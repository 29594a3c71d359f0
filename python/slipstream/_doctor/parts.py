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
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from .. import _trees
from .._blocks import contextmanager
from .._random_states import is_generator
from .._remedies import add_remedy
from .._signals import add_note
from ..datasets import Dataset

ATTRIBUTES = ("transform", "transforms", "target_transform")
DATA_SET = "data set"
COLLATE = "collate"
_COUNTED = 4  # bytes are counted for one of this number of samples, because counting takes time
_MOST_DEPTH = 5  # data sets that wrap each other


@dataclasses.dataclass
class Call:
    """One call of a transform by the data set, with the result of the parts that have been applied so far."""

    number: int
    hook: int  # index of the transform
    style: str  # how a part receives the value: as "one", "several" or "named" arguments
    value: Any

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


@dataclasses.dataclass
class RawSample:
    """A sample of which no transforms or only the first ones have been applied: a template with slots, and the calls
    whose results fill them."""

    template: Any
    calls: list[Call]

    @classmethod
    def of(cls, sample: Any) -> RawSample:
        """Creates a RawSample from a sample that has TransformSites, the placeholders for results of transforms."""
        places = [leaf for leaf in _trees.leaves(sample) if isinstance(leaf, TransformSite)]
        calls = {place.call.number: place.call for place in places}
        template = _trees.mapped(
            sample, lambda x: Slot(x.call.number, x.keys) if isinstance(x, TransformSite) else x
        )
        return cls(template, [calls[number] for number in sorted(calls)])

    def copied(self) -> RawSample:
        """Returns a sample with copies of the values, for parts that write into their input."""
        return RawSample(self.template, copy.deepcopy(self.calls))

    def after(self, hook: int, part: Callable[..., Any]) -> RawSample:
        calls = [call.after([part]) if call.hook == hook else call for call in self.calls]
        return RawSample(self.template, calls)

    def finished(self, rest: Sequence[Sequence[Callable[..., Any]]]) -> Any:
        """Returns the finished sample. rest: for each hook, the parts that have not been applied yet."""
        made = {call.number: call.after(rest[call.hook]).value for call in self.calls}
        return _trees.mapped(self.template, lambda x: x.filled(made) if isinstance(x, Slot) else x)


class Clock:
    """Measures the costs of the parts of one sample: wall time and CPU time of the thread in s, and bytes of the
    result."""

    def __init__(self, steps: int) -> None:
        self.samples = 0
        self._steps = steps
        self.begin()

    def begin(self) -> None:
        """Starts a new sample."""
        self.inside = [0.0, 0.0]  # wall time and CPU time inside of transforms, including that of counting bytes
        self.costs = [[0.0, 0.0, 0.0] for _ in range(self._steps)]

    def counts(self) -> bool:
        """Returns true if the bytes of this sample are counted."""
        return self.samples % _COUNTED == 0

    def timed(self, step: int, function: Callable[[], Any]) -> Any:
        wall, cpu = time.perf_counter(), time.thread_time()
        result = function()
        cost = self.costs[step]
        cost[0] += time.perf_counter() - wall
        cost[1] += time.thread_time() - cpu
        if self.counts():
            cost[2] += _trees.byte_size(result)
        return result


class TimingHook:
    """Replaces a transform of the data set, applies its parts and measures their time.

    first: number of the first part. loads: see Parts."""

    def __init__(self, clock: Clock, first: int, parts: list[Callable[..., Any]], loads: bool) -> None:
        self.clock, self.first, self.parts, self.loads = clock, first, parts, loads

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.loads:
            _load_images(args, kwargs)
        wall, cpu = time.perf_counter(), time.thread_time()
        call = Call.of(0, 0, args, kwargs)
        value = call.value
        if self.clock.counts():
            self.clock.costs[0][2] += _trees.byte_size(value)
        for number, part in enumerate(self.parts, self.first):
            value = self.clock.timed(number, functools.partial(applied, part, value, call.style))
        self.clock.inside[0] += time.perf_counter() - wall
        self.clock.inside[1] += time.thread_time() - cpu
        return value


class CuttingHook:
    """Replaces a transform of the data set, and returns placeholders instead of applying it."""

    def __init__(self, hook: int, numbers: Iterator[int], loads: bool) -> None:
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


def split_transform(transform: Callable[..., Any]) -> list[Callable[..., Any]]:
    """Returns the transforms that a Compose of any library, or an nn.Sequential, applies one after the other. Any other
    transform is returned as a whole."""
    is_compose = any(each.__name__ == "Compose" for each in type(transform).__mro__)
    if isinstance(transform, torch.nn.Sequential):
        children = list(transform)
    elif (
        is_compose
        and getattr(transform, "p", 1) == 1
        and not getattr(transform, "processors", None)
    ):
        children = list(transform.transforms)  # type: ignore[attr-defined]
    else:
        return [transform]
    return [part for child in children for part in split_transform(child)]


def display_name(part: Any) -> str:
    """Returns the name of a function or method, of the function that a partial calls, or of an object's class."""
    while isinstance(part, functools.partial):
        part = part.func
    name = getattr(part, "__name__", None)
    return name if isinstance(name, str) else type(part).__name__


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


class Parts:
    """A data set, with its transforms taken apart into parts.

    attributes: names of the attributes of the data set that may contain transforms.
    whole: keeps each transform as one part.
    loads: makes PIL decode images before transforms are applied.

    path, names, transforms: the attributes that lead to the data set that has the transforms, the names of the
        attributes that contain them, and the transforms.
    """

    def __init__(
        self,
        dataset: Any,
        attributes: Sequence[str] = ATTRIBUTES,
        whole: bool = False,
        loads: bool = True,
    ) -> None:
        self.dataset, self._loads = dataset, loads
        self.how = {"attributes": attributes, "whole": whole, "loads": loads}
        self.path, found = _find_transforms(dataset, attributes)
        self.names = list(found)
        self.transforms = list(found.values())
        self._whole = whole
        self.hooks = self.own_parts()
        self.steps = [Step(DATA_SET)]
        for hook, parts in enumerate(self.hooks):
            for number, part in enumerate(parts):
                name = (
                    self.names[hook] if self.names[hook] == "target_transform" else display_name(part)
                )
                self.steps.append(Step(self._unique(name), hook, number))

    def own_parts(self) -> list[list[Callable[..., Any]]]:
        """Returns copies of all parts: a list for each hook."""
        own = [_copied_deeply(transform) for transform in self.transforms]
        return [[each] if self._whole else split_transform(each) for each in own]

    def timed(self, clock: Clock) -> Any:
        """Returns a copy of the data set that measures the time of its parts."""
        hooks: list[Any] = []
        first = 1
        for parts in self.own_parts():
            hooks.append(TimingHook(clock, first, parts, self._loads))
            first += len(parts)
        return self._with(hooks)

    def cutting(self) -> Any:
        """Returns a copy of the data set whose samples contain TransformSites in place of transformed values."""
        numbers = itertools.count()
        hooks = [CuttingHook(hook, numbers, self._loads) for hook in range(len(self.hooks))]
        return self._with(hooks)

    def plain(self) -> Any:
        """Returns a copy of the data set with the same behavior."""
        return self._with([_copied_deeply(transform) for transform in self.transforms])

    def with_transform(self, transform: Callable[..., Any]) -> Any:
        """Returns a copy of the data set with `transform` in place of its only transform."""
        (_,) = self.hooks
        return self._with([transform])

    def rest(self, after: int) -> list[list[Callable[..., Any]]]:
        """Returns the parts that follow step `after`: a list for each hook."""
        done = [0] * len(self.hooks)
        for step in self.steps[1 : after + 1]:
            done[step.hook] += 1
        return [parts[skipped:] for parts, skipped in zip(self.hooks, done, strict=True)]

    def _unique(self, name: str) -> str:
        taken = {step.name for step in self.steps} | {COLLATE, "copy", "step"}
        numbered = (name if i == 1 else f"{name} ({i})" for i in itertools.count(1))
        return next(each for each in numbered if each not in taken)

    def _with(self, hooks: Sequence[Any]) -> Any:
        copied = _copied_dataset(self.dataset)
        holder = copied
        for name in self.path:
            inner = _copied_dataset(getattr(holder, name))
            _put(holder, name, inner)
            holder = inner
        put = dict(zip(self.names, hooks, strict=True))
        for name, hook in put.items():
            _put(holder, name, hook)
        standard = vars(holder).get("transforms") if put else None
        if _is_standard(standard):
            holder.transforms = copy.copy(standard)
            for name, hook in put.items():
                setattr(holder.transforms, name, hook)
        return copied


def _find_transforms(
    dataset: Any, attributes: Sequence[str]
) -> tuple[list[str], dict[str, Callable[..., Any]]]:
    """Returns the attributes that lead to the data set that contains transforms, and these transforms by name."""
    path: list[str] = []
    for _ in range(_MOST_DEPTH):
        if isinstance(dataset, Dataset):
            break  # a slipstream data set and its transforms are one native part
        held = getattr(dataset, "__dict__", {})
        found = {name: held[name] for name in attributes if callable(held.get(name))}
        if _is_standard(found.get("transforms")):
            del found["transforms"]  # a StandardTransform only calls `transform` and `target_transform`, found as well
        if found:
            return path, found
        if "dataset" not in held:
            break
        dataset = held["dataset"]
        path.append("dataset")
    return [], {}


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
