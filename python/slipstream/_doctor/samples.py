"""Caches samples of a data set, and finds out with them what its parts do."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import itertools
import math
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from .. import _trees
from .._fetching import fetched, fetches_batches
from .._held_objects import reachable_from
from .._native import Refused
from .._random_states import find_generators, generator_kinds, generator_state, random_states, seed_all
from .loaders import METHODS, Cached, Loaders
from .clock import Clock
from .orders import is_sequential
from .parts import Call, Parts, RawSample, Site, Slot, Step, applied, filled

_CHECKED = 2  # number of samples with which it is checked whether transforms can be applied later
_LOOKED_AT = 32  # largest number of samples with which it is determined what parts do
_LOOKING_SHARE = 0.03  # share of the budget for loading these samples once
_POOL, _POOL_S = 4096, 0.2  # limits for the indices from which these samples are chosen: number, and seconds
_READS = 48  # 1 - 0.9 ** 48 > 0.99: a part that changes one sample of ten is found with this probability
_REPEATING_S = 0.5  # approximate seconds for these reads, for the data set's own code and for all transforms together


@dataclasses.dataclass
class _Findings:
    """How a data set is taken apart, and what its parts do. Can be pickled, because a worker process may create it."""

    how: dict[str, Any]  # arguments of Parts
    steps: list[Step]
    why_not: str
    warnings: list[str]
    size: int | None

    def parts(self, dataset: Any) -> Parts:
        parts = Parts(dataset, **self.how)
        parts.steps = self.steps
        return parts


class Samples:
    """The data set of a loader, taken apart into as many parts as possible without changing the samples. Samples are
    created in the process in which the loader creates them (Loaders.run).

    parts: the parts of the data set.
    why_not: why samples cannot be cached before their transforms; "" if they can.
    warnings: sentences about reasons why results are less certain.
    size: number of samples in the data set; None if it is not known.
    seconds: time for creating one sample, measured when samples were last cached.
    """

    def __init__(self, loaders: Loaders, budget_s: float = 60) -> None:
        self._loaders = loaders
        self._behind: dict[int, list[RawSample]] = {}
        chosen = None if loaders.is_stream else self._choose_indices()
        crosses_processes = loaders.loader.num_workers > 0
        work = functools.partial(
            _findings, loaders.dataset, chosen, loaders.is_single, crosses_processes, loaders.named, budget_s
        )
        self._findings: _Findings = loaders.run(work)
        self.parts = self._findings.parts(loaders.dataset)
        self.why_not: str = self._findings.why_not
        self.size: int | None = self._findings.size
        self.warnings: list[str] = self._findings.warnings
        self.seconds = 0.0

    def fill(self, count: int) -> int:
        """Caches the results of every step for `count` samples, or only finished samples if they cannot be cached
        before their transforms. Returns the number of samples, which is smaller if an iterable-style data set ends."""
        indices = None if self._loaders.is_stream else self._indices(count)
        size = 0 if self._loaders.is_single else self._loaders.batch_size
        work = functools.partial(_filled, self._loaders.dataset, self._findings, indices, count, size)
        self._behind, self._findings.steps, self.seconds = self._loaders.run(work)
        self.parts.steps = self._findings.steps
        return len(self._behind[len(self.parts.steps) - 1])

    def batches(self, sizes: Sequence[int]) -> list[Any]:
        """Returns batches of these sizes of cached samples. With size 0 a sample is a whole batch."""
        samples = self.finished(sum(size or 1 for size in sizes))
        return self._loaders.run(functools.partial(_collated, self._loaders.collate_fn, samples, sizes))  # type: ignore[no-any-return]

    def behind(self, step: int) -> Cached:
        """Returns a data set of the samples, for which the results of step `step` are cached."""
        rest = [] if self.why_not else self.parts.rest(step)
        writes = any(each.writes for each in self.parts.steps[step + 1 :])
        return Cached(self._behind[step], rest, writes)

    def finished(self, count: int) -> list[Any]:
        """Returns `count` finished samples; cached ones are repeated if there are fewer."""
        cached = self.behind(len(self.parts.steps) - 1)
        return [cached[index] for index in range(count)]

    def _indices(self, count: int) -> list[Any]:
        batches = iter(self._loaders.index_batches())
        indices = batches if self._loaders.is_single else itertools.chain.from_iterable(batches)
        return list(itertools.islice(indices, count))

    def _choose_indices(self) -> list[Any]:
        """Returns indices of samples that are unlike each other: of different classes, and from all of the data set if
        the loader lists it in order, otherwise from the first indices that the sampler lists."""
        loader: Any = self._loaders.loader
        dataset: Any = self._loaders.dataset
        if is_sequential(loader.sampler if self._loaders.is_single else loader.batch_sampler, dataset):
            every = max(1, math.ceil(len(dataset) / _POOL))
            return spread(range(0, len(dataset), every), find_labels(dataset), _LOOKED_AT)
        batches = iter(self._loaders.index_batches())
        indices = batches if self._loaders.is_single else itertools.chain.from_iterable(batches)
        end = time.perf_counter() + _POOL_S
        pool: list[Any] = []
        for index in itertools.islice(indices, _POOL):
            pool.append(index)
            if len(pool) >= _LOOKED_AT and time.perf_counter() > end:
                break
        return spread(pool, find_labels(dataset), _LOOKED_AT)

    def last_fixed_step(self) -> str:
        """Returns the name of the last step before the first random one; "" if there is none, or if it is not known."""
        if self.why_not:
            return ""
        fixed = itertools.takewhile(lambda step: not step.is_random, self.parts.steps)
        return str(["", *(step.name for step in fixed)][-1])


def find_labels(dataset: Any) -> Any:
    """Returns the labels of all samples, if a data set of torchvision or a similar one holds them, otherwise None. Those
    of a Subset are chosen by its indices."""
    inner, indices = getattr(dataset, "dataset", None), getattr(dataset, "indices", None)
    if inner is not None and indices is not None:
        labels = find_labels(inner)
        return None if labels is None else _Chosen(labels, indices)
    labels = getattr(dataset, "targets", None)
    if labels is None:
        labels = getattr(dataset, "labels", None)
    return labels if hasattr(labels, "__getitem__") else None


class _Chosen:
    """The labels of a subset."""

    def __init__(self, labels: Any, indices: Any) -> None:
        self.labels, self.indices = labels, indices

    def __getitem__(self, index: Any) -> Any:
        return self.labels[self.indices[index]]


def spread(pool: Sequence[Any], labels: Any, count: int) -> list[Any]:
    """Chooses up to `count` different indices: of as many classes as possible, and in each class at equal distances.

    labels: the label of each index; None if they are not known."""
    classes: dict[Any, list[Any]] = {}
    for index in _distinct(pool):
        classes.setdefault(_label(labels, index), []).append(index)
    each = math.ceil(count / max(1, len(classes)))
    chosen = [indices[:: max(1, len(indices) // each)] for indices in classes.values()]
    turns = itertools.chain.from_iterable(itertools.zip_longest(*chosen, fillvalue=_NOTHING))
    found = list(itertools.islice((index for index in turns if index is not _NOTHING), count))
    return found or list(pool[:count])


_NOTHING = object()


def _distinct(pool: Sequence[Any]) -> list[Any]:
    try:
        return list(dict.fromkeys(pool))
    except TypeError:  # an index that cannot be hashed, such as a list
        return list(pool)


def _label(labels: Any, index: Any) -> Any:
    try:
        label = labels[index]
        return label.item() if hasattr(label, "item") else hash(label) and label
    except Exception:  # there are no labels, or not one for each index
        return None


class _Examination:
    """Finds out from some samples how a data set can be taken apart, and what its parts do.

    indices: indices of the samples or, if is_single, of whole batches; None for an iterable-style data set, of which the
        first samples are read.
    named: see Parts. looking_s: approximate time for reading samples once.
    """

    def __init__(
        self, dataset: Any, indices: list[Any] | None, is_single: bool, named: Sequence[str], looking_s: float
    ) -> None:
        self._first, self._is_single, self._named, self._looking_s = indices, is_single, named, looking_s
        self._count = _CHECKED  # number of samples that are read
        self.warnings: list[str] = []
        self.parts = Parts(dataset, named=named)

    def findings(self, crosses_processes: bool) -> _Findings:
        dataset, size = self.parts.dataset, None
        if self._first is not None and not self._is_single and fetches_batches(dataset):
            self._refuse_whole_batches()
        with contextlib.suppress(Exception):  # the data set may have no len()
            size = len(dataset)
        why_not = self._check()
        if crosses_processes and not why_not:
            why_not = self._lost_between_processes()
        if len(self.parts.steps) == 1 or why_not:
            self._judge(self.parts.steps[0], self.parts.plain(), _unchanged)
        if len(self.parts.steps) == 1:
            self.warnings.append(
                "the data set's own code is one part, because none of its attributes is a transform: to measure parts of "
                "it separately, write 'with slipstream.part(NAME):' in it"
            )
        elif not why_not:
            self._examine_parts()
        return _Findings(self.parts.how, self.parts.steps, why_not, self.warnings, size)

    def _checked(self, dataset: Any, finish: Callable[[Any], Any]) -> list[Any]:
        seed_all(1)
        return [finish(sample) for sample in self._some(dataset, _CHECKED)]

    def _some(self, dataset: Any, count: int) -> Iterator[Any]:
        return _some(dataset, self._first, count, 0 if self._is_single else 1)

    def _check(self) -> str:
        """Selects a way to take the data set apart with which it gives the same samples. Returns the reason why samples
        cannot be cached before their transforms, or "".

        The same seed is set before each reading, so that samples with random transforms can be compared."""
        start = time.perf_counter()
        wanted = self._checked(self.parts.plain(), _unchanged)
        if not wanted:
            raise Refused("the loader gives no batch: its data set or its sampler is empty")
        each_s = (time.perf_counter() - start) / len(wanted)
        self._count = max(_CHECKED, min(_LOOKED_AT, int(self._looking_s / max(each_s, 1e-9))))
        self.parts = self._made(self._applied_sites())
        if not self.parts.hooks:
            return ""
        if not _trees.same(wanted, self._checked(self.parts.plain(), _unchanged)):
            self.parts = self._made(self.parts.sites, whole=True)
            return (
                "samples differ each time they are read, so it cannot be checked whether transforms can be applied "
                "later"
            )
        if not self._can_time(wanted):  # the data set uses a transform in another way than by calling it
            self.parts = self._made([site for site in self.parts.sites if site.is_standard()])
        loads, whole = self._gives_timed(wanted), False
        if not loads:  # a transform may call Image.draft(), which works only for images that are not decoded yet
            self.parts = self._made(self.parts.sites, loads=False)
            whole = not self._gives_timed(wanted)
        if whole:
            self.warnings.append(
                "the transforms are measured as one part, because applied one by one they return other samples"
            )
        return self._choose_cut(wanted, whole, loads)

    def _choose_cut(self, wanted: list[Any], whole: bool, loads: bool) -> str:
        """Selects the transforms that can be applied later. Returns the reason why there are none, or ""."""
        used = self.parts.sites
        for sites in selections_to_cut(used):
            inside = [site for site in used if site not in sites]
            parts = self._made(sites, whole, loads, inside)
            if self._can_cut(wanted, parts):
                self.parts = parts
                if names := [site.attribute for site in inside if site.attribute != "target_transform"]:
                    self.warnings.append(
                        f"samples cannot be cached before {', '.join(names)}, because the data set processes the results"
                    )
                return ""
        self.parts = self._made(used, whole, loads)
        return "the data set processes the results of its transforms, so the transforms cannot be applied later"

    def _made(
        self, sites: Sequence[Site], whole: bool = False, loads: bool = True, inside: Sequence[Site] = ()
    ) -> Parts:
        return Parts(self.parts.dataset, sites, whole, loads, inside, self._named)

    def _applied_sites(self) -> list[Site]:
        """Returns the sites of the transforms that the data set applies to values of the first samples, in the order in
        which it does. Standard attributes that it does not use for these samples are included."""
        sites = self.parts.sites
        calls: list[tuple[int, bool]] = []
        try:
            self._checked(self.parts.watched(calls), _unchanged)
        except Exception:  # the data set does more with one of the objects than calling it
            return [site for site in sites if site.is_standard()]
        readers = {number for number, is_value in calls if not is_value and not sites[number].is_standard()}
        used = dict.fromkeys(number for number, _ in calls if number not in readers)
        rest = [number for number, site in enumerate(sites) if site.is_standard() and number not in used]
        return [sites[number] for number in [*used, *rest]]

    def _can_time(self, wanted: list[Any]) -> bool:
        loads = self._gives_timed(wanted)
        return loads or self._gives(
            wanted, self._made(self.parts.sites, whole=True, loads=False).timed(Clock()), _unchanged
        )

    def _gives_timed(self, wanted: list[Any]) -> bool:
        return self._gives(wanted, self.parts.timed(Clock()), _unchanged)

    def _can_cut(self, wanted: list[Any], parts: Parts) -> bool:
        finish = functools.partial(_finished, rest=parts.rest(0))
        return bool(parts.hooks) and self._gives(wanted, parts.cutting(), finish)

    def _gives(self, wanted: list[Any], dataset: Any, finish: Callable[[Any], Any]) -> bool:
        try:
            return _trees.same(wanted, self._checked(dataset, finish))
        except Exception:  # the data set's code cannot work with a placeholder, or a part needs more than its input
            return False

    def _lost_between_processes(self) -> str:
        """Returns why samples before their transforms cannot be sent between processes, or "". Examples are PIL images
        that are not decoded yet, and objects that cannot be pickled."""
        rest = self.parts.rest(0)
        wanted = self._checked(self.parts.cutting(), functools.partial(_finished, rest=rest))
        try:
            finish = functools.partial(_finished, rest=rest, is_pickled=True)
            if _trees.same(wanted, self._checked(self.parts.cutting(), finish)):
                return ""
        except Exception as error:
            return f"samples before their transforms cannot be sent by worker processes: {error}"
        return "samples before their transforms change when worker processes send them"

    def _refuse_whole_batches(self) -> None:
        assert self._first is not None
        fetched = self.parts.plain().__getitems__(self._first[:1])
        if not isinstance(fetched, list | tuple) or len(fetched) != 1:
            raise Refused(
                f"{type(self.parts.dataset).__name__}.__getitems__() returns a whole batch instead of a list of "
                "samples: give the doctor a data set whose __getitem__() takes a list of indices, with batch_size=None "
                "and sampler=torch.utils.data.BatchSampler(...)"
            )

    def _judge(self, step: Step, dataset: Any, compared: Callable[[Any], Any]) -> None:
        """Finds out whether a step is random: whether reading uses a random generator, or gives other samples with
        another seed."""
        end = time.perf_counter() + _REPEATING_S
        first: list[Any] = []
        for seed in itertools.count(1):
            seed_all(seed)
            draws = _Draws(dataset)
            made = [compared(sample) for sample in self._some(dataset, self._count)]
            step.reads += len(made)
            step.is_random = draws.seen() or not _trees.same(first or made, made)
            first = first or made
            if step.is_random or (seed > 1 and (step.reads >= _READS or time.perf_counter() > end)):
                return

    def _examine_parts(self) -> None:
        """Finds out which parts are random, which write into their input, and the size of their input image."""
        self._judge(self.parts.steps[0], self.parts.cutting(), _without_slots)
        seed_all(2)
        # Copying and comparing large samples takes longer than reading them, which decided their number.
        end = time.perf_counter() + _REPEATING_S + self._looking_s
        for number, sample in enumerate(self._some(self.parts.cutting(), self._count), 1):
            self._examine_calls(RawSample.of(sample).calls)
            if number >= _CHECKED and time.perf_counter() > end:
                break

    def _examine_calls(self, calls: list[Call]) -> None:
        made = {call.number: call.value for call in calls}
        for step in self.parts.steps[1:]:
            part = self.parts.hooks[step.hook][step.part]
            for call in calls:
                if call.hook != step.hook:
                    continue
                value = filled(made[call.number], made) if call.follows else made[call.number]
                kept = copy.deepcopy(value)
                step.takes = step.takes or _image_in(kept)
                draws = _Draws(part)
                made[call.number] = applied(part, value, call.style)
                step.writes |= not _trees.same(kept, value)
                again = functools.partial(_applied_to_copy, part, kept, call.style)
                is_same = self._repeat(step, again, made[call.number])
                step.is_random |= not is_same or draws.seen() or can_draw(part)

    def _repeat(self, step: Step, call: Callable[[], Any], wanted: Any) -> bool:
        """Repeats a call, and returns true if all results are equal to `wanted`."""
        end = time.perf_counter() + _REPEATING_S / (self._count * len(self.parts.steps))
        step.reads += 1
        for _ in range(max(1, math.ceil(_READS / self._count) - 1)):
            step.reads += 1
            if step.is_random or not _trees.same(wanted, call()):
                return False
            if time.perf_counter() > end:
                break
        return True


def selections_to_cut(sites: list[Site]) -> Iterator[list[Site]]:
    """Yields selections of transforms that a data set may apply last, so that its code does not process their results.
    A data set often processes a label after target_transform."""
    without_target = [site for site in sites if site.attribute != "target_transform"]
    standard = [site for site in without_target if site.is_standard()]
    last = [without_target[first:] for first in range(1, len(without_target))]
    tried: list[list[Site]] = []
    for each in [sites, without_target, standard, *last]:
        if each and each not in tried:
            tried.append(each)
            yield each


def _applied_to_copy(part: Callable[..., Any], value: Any, style: str) -> Any:
    return applied(part, copy.deepcopy(value), style)


def can_draw(part: Any) -> bool:
    """Returns true if a transform has a probability or refers to a random generator. Equal results of a few calls then
    do not show that it is not random."""
    probability = getattr(part, "p", None)
    if isinstance(probability, float) and 0 < probability < 1:
        return True
    methods = [getattr(type(part), name, None) for name in ("__call__", "forward")]
    return bool(reachable_from([part, methods], generator_kinds()))


class _Draws:
    """Detects uses of the default generators of torch, numpy and random, and of generators that `holder` refers to, by
    comparing their states."""

    def __init__(self, holder: Any) -> None:
        methods = [getattr(type(holder), name, None) for name in METHODS]
        self._generators = find_generators([holder, methods])
        self._before = self._states()

    def seen(self) -> bool:
        return bool(self._before != self._states())

    def _states(self) -> Any:
        own = (generator_state(generator) for generator in self._generators)
        return random_states(), [repr(state.tolist() if hasattr(state, "tolist") else state) for state in own]


def _findings(
    dataset: Any,
    indices: list[Any] | None,
    is_single: bool,
    crosses_processes: bool,
    named: Sequence[str],
    budget_s: float,
) -> _Findings:
    looking_s = _LOOKING_SHARE * budget_s
    return _Examination(dataset, indices, is_single, named, looking_s).findings(crosses_processes)


def _filled(
    dataset: Any, findings: _Findings, indices: list[Any] | None, count: int, size: int
) -> tuple[dict[int, list[RawSample]], list[Step], float]:
    """Returns samples after each step, the steps, and the seconds for one sample. A step that uses a random generator
    for any of these samples is marked as random."""
    start = time.perf_counter()
    parts = findings.parts(dataset)
    source = parts.plain() if findings.why_not else parts.cutting()
    draws = _Draws(source)
    samples = list(_some(source, indices, count, size))
    if not samples:
        raise Refused(
            "the data set returned no sample in a second iteration, so nothing can be measured: its __iter__() must "
            "start again with each call"
        )
    parts.steps[0].is_random |= draws.seen()
    if findings.why_not:
        behind = {len(parts.steps) - 1: [RawSample(sample, []) for sample in samples]}
    else:
        behind = {0: [RawSample.of(sample) for sample in samples]}
        for number, step in enumerate(parts.steps[1:], 1):
            part = parts.hooks[step.hook][step.part]
            before = behind[number - 1]
            given = [item.copied() for item in before] if step.writes else before
            draws = _Draws(part)
            behind[number] = [item.after(step.hook, part) for item in given]
            # The few samples of the examination may not have shown it, for example with a small probability.
            step.is_random |= draws.seen()
    for step in parts.steps:
        step.reads += len(samples)
    return behind, parts.steps, (time.perf_counter() - start) / len(samples)


def _collated(collate: Callable[[Any], Any], samples: list[Any], sizes: Sequence[int]) -> list[Any]:
    rest = iter(samples)
    return [collate(list(itertools.islice(rest, size)) if size else next(rest)) for size in sizes]


def _some(dataset: Any, indices: list[Any] | None, count: int, size: int) -> Iterator[Any]:
    """Yields the first samples, read in the way in which the loader reads them.

    size: samples in a batch; 0 if an index gives a whole batch."""
    if indices is None:
        return itertools.islice(iter(dataset), count)
    if size == 0:
        return (dataset[index] for index in indices[:count])
    batches = (indices[start : min(start + size, count)] for start in range(0, min(count, len(indices)), size))
    return itertools.chain.from_iterable(fetched(dataset, batch) for batch in batches)


def _image_in(value: Any) -> tuple[int, int, bool] | None:
    """Returns height and width of the first image in `value`, and whether it is floating-point. Returns None if there
    is no image."""
    found = (_find_image_size(leaf) for leaf in _trees.leaves(value))
    return next((each for each in found if each is not None), None)


def _find_image_size(leaf: Any) -> tuple[int, int, bool] | None:
    if hasattr(leaf, "getbands"):
        return leaf.height, leaf.width, False
    shape = tuple(getattr(leaf, "shape", ()))
    if isinstance(leaf, torch.Tensor) and len(shape) == 3:
        return shape[1], shape[2], leaf.is_floating_point()
    if len(shape) == 3 and hasattr(leaf, "dtype"):
        return shape[0], shape[1], leaf.dtype.kind == "f"
    return None


def _without_slots(sample: Any) -> Any:
    """Returns the values that the data set's own code creates: the parts of the sample that no transform changes, and
    the inputs of its transforms."""
    raw = RawSample.of(sample)
    return _trees.mapped((raw.template, [call.value for call in raw.calls]), lambda x: x.keys if isinstance(x, Slot) else x)


def _finished(template: Any, rest: Any, is_pickled: bool = False) -> Any:
    raw = RawSample.of(template)
    return (pickle.loads(pickle.dumps(raw)) if is_pickled else raw).finished(rest)


def _unchanged(sample: Any) -> Any:
    return sample
