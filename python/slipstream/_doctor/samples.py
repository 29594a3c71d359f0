"""Samples of a data set in a cache, and what can be found out about their parts with them."""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from .. import _trees
from .._native import Refused
from .._random_states import generators_of, random_states, seed_all, state_of
from .loaders import Cached, Loaders, fetches_batches
from .parts import ATTRIBUTES, Clock, Parts, RawSample, Slot, applied

_CHECKED = 2  # samples, by which cuts are checked


class Samples:
    """The data set of a loader, taken apart as far as that gives the same samples.

    parts: of the data set.
    why_not: why samples cannot be cached ahead of transforms; "" where they can.
    warnings: what makes figures less sure, in sentences.
    """

    def __init__(self, loaders: Loaders) -> None:
        self._loaders = loaders
        self._behind: dict[int, list[RawSample]] = {}
        self._first = None if loaders.is_stream else self._indices(_CHECKED)
        self.warnings: list[str] = []
        self.parts = Parts(loaders.loader.dataset)
        self._refuse_whole_batches()
        self.why_not = self._check()
        if len(self.parts.steps) == 1 or self.why_not:
            self.parts.steps[0].is_random = self._is_random(self.parts.plain(), _unchanged)
        if len(self.parts.steps) == 1:
            self.warnings.append(
                "the data set's own code is one part: transforms are told from reading where it "
                "holds them as .transform, .transforms or .target_transform"
            )
        elif not self.why_not:
            self._look_at_parts()

    def fill(self, count: int) -> None:
        """Caches `count` samples behind every step, or finished ones where there are no cuts."""
        steps = self.parts.steps
        indices = None if self._loaders.is_stream else self._indices(count)
        if self.why_not:
            made = self._some(self.parts.plain(), indices, count)
            self._behind = {len(steps) - 1: [RawSample(sample, []) for sample in made]}
            return
        made = self._some(self.parts.cutting(), indices, count)
        self._behind = {0: [RawSample.of(sample) for sample in made]}
        for number, step in enumerate(steps[1:], 1):
            part = self.parts.hooks[step.hook][step.part]
            before = self._behind[number - 1]
            given = [item.copied() for item in before] if step.writes else before
            self._behind[number] = [item.after(step.hook, part) for item in given]

    def behind(self, step: int) -> Cached:
        """Those samples, cached behind step `step`."""
        rest = [] if self.why_not else self.parts.rest(step)
        writes = any(each.writes for each in self.parts.steps[step + 1 :])
        return Cached(self._behind[step], rest, writes)

    def finished(self, count: int) -> list[Any]:
        """`count` samples as the data set gives them, the cached ones in turn."""
        cached = self.behind(len(self.parts.steps) - 1)
        return [cached[index] for index in range(count)]

    def _indices(self, count: int) -> list[Any]:
        batches = iter(self._loaders.index_batches())
        indices = batches if self._loaders.is_single else itertools.chain.from_iterable(batches)
        return list(itertools.islice(indices, count))

    def _some(self, dataset: Any, indices: list[Any] | None, count: int) -> Iterator[Any]:
        if indices is None:
            return itertools.islice(iter(dataset), count)
        return (dataset[index] for index in indices[:count])

    def _checked(self, dataset: Any, finish: Callable[[Any], Any]) -> list[Any]:
        seed_all(1)
        return [finish(sample) for sample in self._some(dataset, self._first, _CHECKED)]

    def _check(self) -> str:
        """Finds parts and cuts that give what the data set gives; why there are no cuts, or ""."""
        wanted = self._checked(self.parts.plain(), _unchanged)
        if not wanted:
            raise Refused("the loader gives no batch: its data set or its sampler is empty")
        if not self.parts.hooks:
            return ""
        if not _trees.same(wanted, self._checked(self.parts.plain(), _unchanged)):
            self.parts = Parts(self.parts.dataset, whole=True)
            return "samples differ from one reading to the next, so that no cut can be checked"
        loads, whole = self._gives_timed(wanted), False
        if not loads:  # as with Image.draft(), which is for images that are not decoded yet
            self.parts = Parts(self.parts.dataset, loads=False)
            whole = not self._gives_timed(wanted)
        if whole:
            self.warnings.append("the transforms are one part: taken apart they give other samples")
        for attributes in (ATTRIBUTES, ATTRIBUTES[:2]):  # a label is often worked on behind its own
            parts = Parts(self.parts.dataset, attributes, whole, loads)
            if self._can_cut(wanted, parts):
                self.parts = parts
                return ""
        self.parts = Parts(self.parts.dataset, whole=whole, loads=loads)
        return "the data set works on what its transforms make, so that they cannot be put off"

    def _gives_timed(self, wanted: list[Any]) -> bool:
        return self._gives(wanted, self.parts.timed(Clock(len(self.parts.steps))), _unchanged)

    def _can_cut(self, wanted: list[Any], parts: Parts) -> bool:
        finish = functools.partial(_finished, rest=parts.rest(0))
        return bool(parts.hooks) and self._gives(wanted, parts.cutting(), finish)

    def _gives(self, wanted: list[Any], dataset: Any, finish: Callable[[Any], Any]) -> bool:
        try:
            return _trees.same(wanted, self._checked(dataset, finish))
        except Exception:  # of code that meets a Place, or a part that wants more than the sample
            return False

    def _refuse_whole_batches(self) -> None:
        dataset = self._loaders.loader.dataset
        if self._first is None or self._loaders.is_single or not fetches_batches(dataset):
            return
        fetched = self.parts.plain().__getitems__(self._first[:1])
        if not isinstance(fetched, list | tuple) or len(fetched) != 1:
            raise Refused(
                f"{type(dataset).__name__}.__getitems__() gives a whole batch in place of a list of samples: "
                "give the doctor a data set whose __getitem__() takes a list of indices, with batch_size=None "
                "and sampler=torch.utils.data.BatchSampler(...)"
            )

    def _is_random(self, dataset: Any, compared: Callable[[Any], Any]) -> bool:
        """Whether it draws random numbers, or gives other samples the second time."""
        readings = []
        for seed in (1, 2):
            seed_all(seed)
            before = _states(dataset)
            made = self._some(dataset, self._first, _CHECKED)
            readings.append([compared(sample) for sample in made])
            if before != _states(dataset):
                return True
        return not _trees.same(*readings)

    def _look_at_parts(self) -> None:
        """Of one sample: which parts draw random numbers, write into their input, take what."""
        steps = self.parts.steps
        steps[0].is_random = self._is_random(self.parts.cutting(), _without_slots)
        seed_all(2)
        sample = next(self._some(self.parts.cutting(), self._first, 1))
        made = {call.number: call.value for call in RawSample.of(sample).calls}
        for step in steps[1:]:
            part = self.parts.hooks[step.hook][step.part]
            for call in RawSample.of(sample).calls:
                if call.hook != step.hook:
                    continue
                value = made[call.number]
                step.takes = kept = copy.deepcopy(value)
                before = _states(part)
                made[call.number] = applied(part, value, call.style)
                again = applied(part, copy.deepcopy(kept), call.style)
                step.is_random |= before != _states(part) or not _trees.same(made[call.number], again)
                step.writes |= not _trees.same(kept, value)

    def last_fixed_step(self) -> str:
        """The last step ahead of the first one that draws random numbers; "" for none, or where it cannot be told."""
        if self.why_not:
            return ""
        fixed = itertools.takewhile(lambda step: not step.is_random, self.parts.steps)
        return ([""] + [step.name for step in fixed])[-1]


def _states(holder: Any) -> Any:
    own = (state_of(generator) for generator in generators_of(holder))
    return random_states(), [repr(state.tolist() if hasattr(state, "tolist") else state) for state in own]


def _without_slots(sample: Any) -> Any:
    """What a data set makes of its own, and gives to transforms."""
    raw = RawSample.of(sample)
    template = _trees.mapped(raw.template, lambda x: x.keys if isinstance(x, Slot) else x)
    return template, [call.value for call in raw.calls]


def _finished(template: Any, rest: Any) -> Any:
    return RawSample.of(template).finished(rest)


def _unchanged(sample: Any) -> Any:
    return sample
