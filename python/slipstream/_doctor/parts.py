"""The parts of a PyTorch data set: its own code, and the transforms that it holds.

Nothing of the user's is changed: data sets are copied shallowly and transforms deeply.
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
_COUNTED = 4  # samples of which the bytes of one are counted
_MOST_DEPTH = 5  # of data sets around data sets


@dataclasses.dataclass
class Call:
    """One call of a transform, with the value that its parts have made so far."""

    number: int
    hook: int
    style: str  # how a part takes the value: "one", "several" or "named" arguments
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
        """The call with what these parts make of its value."""
        value = self.value
        for part in parts:
            value = applied(part, value, self.style)
        return dataclasses.replace(self, value=value)


def applied(part: Callable[..., Any], value: Any, style: str) -> Any:
    if style == "named":
        return part(**value)
    return part(*value) if style == "several" else part(value)


class TransformSite:
    """Stands in a sample for what a call of a transform will make, or for an item of that."""

    __iter__ = None  # otherwise __getitem__ would make it iterable, without an end

    def __init__(self, call: Call, keys: tuple[Any, ...] = ()) -> None:
        self.call = call
        self.keys = keys

    def __getitem__(self, key: Any) -> TransformSite:
        return TransformSite(self.call, (*self.keys, key))


class Slot:
    """A Place in a sample that is kept, which must not keep what the call was given."""

    def __init__(self, call: int, keys: tuple[Any, ...]) -> None:
        self.call = call
        self.keys = keys

    def filled(self, made: Mapping[int, Any]) -> Any:
        return functools.reduce(lambda value, key: value[key], self.keys, made[self.call])


@dataclasses.dataclass
class RawSample:
    """A sample ahead of its transforms, or behind the first of them: slots, and what fills them."""

    template: Any
    calls: list[Call]

    @classmethod
    def of(cls, sample: Any) -> RawSample:
        """Of a sample with places."""
        places = [leaf for leaf in _trees.leaves(sample) if isinstance(leaf, TransformSite)]
        calls = {place.call.number: place.call for place in places}
        template = _trees.mapped(
            sample, lambda x: Slot(x.call.number, x.keys) if isinstance(x, TransformSite) else x
        )
        return cls(template, [calls[number] for number in sorted(calls)])

    def copied(self) -> RawSample:
        """With values of its own for parts to write into."""
        return RawSample(self.template, copy.deepcopy(self.calls))

    def after(self, hook: int, part: Callable[..., Any]) -> RawSample:
        calls = [call.after([part]) if call.hook == hook else call for call in self.calls]
        return RawSample(self.template, calls)

    def finished(self, rest: Sequence[Sequence[Callable[..., Any]]]) -> Any:
        """The sample, by the parts `rest` of each hook."""
        made = {call.number: call.after(rest[call.hook]).value for call in self.calls}
        return _trees.mapped(self.template, lambda x: x.filled(made) if isinstance(x, Slot) else x)


class Clock:
    """What the parts of one sample cost: wall time, CPU time of the thread (s) and bytes made."""

    def __init__(self, steps: int) -> None:
        self.samples = 0
        self._steps = steps
        self.begin()

    def begin(self) -> None:
        """Begins with a sample."""
        self.inside = [0.0, 0.0]  # hooks, with what counting takes
        self.costs = [[0.0, 0.0, 0.0] for _ in range(self._steps)]

    def counts(self) -> bool:
        """Whether the bytes of this sample are counted, which takes time itself."""
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
    """Stands where a transform stood, and times its parts. `first`: the number of the first one."""

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
    """Stands where a transform stood, and puts off its work."""

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
    """Lets PIL decode, which it otherwise does in the first transform: it is reading, as in data sets that do so."""
    for given in (*args, *kwargs.values()):
        if hasattr(given, "getbands") and hasattr(given, "load"):
            given.load()


def split_transform(transform: Callable[..., Any]) -> list[Callable[..., Any]]:
    """The transforms that a Compose, of whatever library, or an nn.Sequential does in turn."""
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
    """The name of a function, a method, what a partial calls, or a class."""
    while isinstance(part, functools.partial):
        part = part.func
    name = getattr(part, "__name__", None)
    return name if isinstance(name, str) else type(part).__name__


@dataclasses.dataclass
class Step:
    """A part of a data set, in order. Step 0 is the data set's own code, with hook -1."""

    name: str
    hook: int = -1
    part: int = 0
    is_random: bool = False
    reads: int = 0  # of samples, by which it was judged whether it is random
    writes: bool = False  # into what it is given
    takes: tuple[int, int, bool] | None = None  # height, width, whether of float, of the images that it is given


class Parts:
    """A data set and the parts that its transforms are taken apart into.

    attributes: names of those that may hold transforms.
    whole: takes no transform apart.
    loads: lets PIL decode images ahead of transforms.
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
        self._path, found = _find_transforms(dataset, attributes)
        self._names = list(found)
        self._transforms = list(found.values())
        self._whole = whole
        self.hooks = self.own_parts()
        self.steps = [Step(DATA_SET)]
        for hook, parts in enumerate(self.hooks):
            for number, part in enumerate(parts):
                name = (
                    self._names[hook] if self._names[hook] == "target_transform" else display_name(part)
                )
                self.steps.append(Step(self._unique(name), hook, number))

    def own_parts(self) -> list[list[Callable[..., Any]]]:
        """Copies of all parts, by hook."""
        own = [_copied_deeply(transform) for transform in self._transforms]
        return [[each] if self._whole else split_transform(each) for each in own]

    def timed(self, clock: Clock) -> Any:
        """A copy of the data set that times its parts."""
        hooks: list[Any] = []
        first = 1
        for parts in self.own_parts():
            hooks.append(TimingHook(clock, first, parts, self._loads))
            first += len(parts)
        return self._with(hooks)

    def cutting(self) -> Any:
        """A copy of the data set that makes the templates of RawSamples."""
        numbers = itertools.count()
        hooks = [CuttingHook(hook, numbers, self._loads) for hook in range(len(self.hooks))]
        return self._with(hooks)

    def plain(self) -> Any:
        """A copy of the data set that does what the original does."""
        return self._with([_copied_deeply(transform) for transform in self._transforms])

    def rest(self, after: int) -> list[list[Callable[..., Any]]]:
        """The parts behind step `after`, by hook."""
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
        for name in self._path:
            inner = _copied_dataset(getattr(holder, name))
            _put(holder, name, inner)
            holder = inner
        put = dict(zip(self._names, hooks, strict=True))
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
    """The way, by attributes, to the data set that holds transforms, and these."""
    path: list[str] = []
    for _ in range(_MOST_DEPTH):
        if isinstance(dataset, Dataset):
            break  # a slipstream data set and its transforms are one native part
        held = getattr(dataset, "__dict__", {})
        found = {name: held[name] for name in attributes if callable(held.get(name))}
        if _is_standard(found.get("transforms")):
            del found["transforms"]  # it calls the other two
        if found:
            return path, found
        if "dataset" not in held:
            break
        dataset = held["dataset"]
        path.append("dataset")
    return [], {}


def _is_standard(transform: Any) -> bool:
    return type(transform).__name__ == "StandardTransform"  # of torchvision's VisionDataset


def _copied_dataset(dataset: Any) -> Any:
    """A shallow copy, with its own random generators and iterators, as far as these can be copied."""
    with noted("slipstream.doctor works on a shallow copy of the data set (copy.copy)"):
        copied = copy.copy(dataset)
    held = getattr(copied, "__dict__", {})
    for name, each in held.items():
        if is_generator(each) or hasattr(type(each), "__next__"):
            with contextlib.suppress(TypeError):  # of generator functions and files
                held[name] = copy.deepcopy(each)
    return copied


def _put(holder: Any, name: str, value: Any) -> None:
    try:
        setattr(holder, name, value)
    except dataclasses.FrozenInstanceError:
        object.__setattr__(holder, name, value)


def _copied_deeply(transform: Callable[..., Any]) -> Callable[..., Any]:
    if hasattr(transform, "__self__"):  # its object may be the data set
        return transform
    try:
        return copy.deepcopy(transform)
    except Exception:
        return transform


@contextmanager
def noted(note: str, values: Any = ()) -> Iterator[None]:
    """Adds a note to what is raised in the block, and the remedy, if there is one for these values."""
    try:
        yield
    except Exception as error:
        add_note(error, note)
        add_remedy(error, values)
        raise
