"""Saves the position inside a sampler, so that a training can resume in the middle of an epoch."""

from __future__ import annotations

import collections
import copy
import itertools
import json
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

from . import _native
from ._checks import to_index
from ._random_states import (
    generator_state,
    host_states,
    is_generator,
    preserved_random_states,
    set_generator_state,
    set_host_states,
)
from ._sources import has_state


ListedBatch = tuple[list[Any], list[int]]  # samples, and for each how often the epoch has used it before


class SamplerStates:
    """Lists the batches of a sampler and remembers how to list the rest of them again.

    If the sampler has state_dict() and load_state_dict(), they are used. Otherwise the sampler is iterated again with
    the random generators in the states that they had at the beginning of the epoch, and the first batches are left
    out. A checksum of these shows whether the sampler repeated them."""

    def __init__(self, batch_sampler: Any) -> None:
        inner = getattr(batch_sampler, "sampler", None)
        self._stateful = next((each for each in (batch_sampler, inner) if has_state(each)), None)
        self._generators = _generators(batch_sampler)
        self._begun: dict[str, Any] = {}  # states of the generators at the beginning of the epoch
        self._uses: collections.Counter[Any] = collections.Counter()  # in the batches that were listed
        self._listed: collections.deque[tuple[list[Any], int, Any]] = collections.deque()  # not given yet
        self._given = 0
        self._now: dict[str, Any] = {}

    def begin(self, batch_sampler: Iterable[Any], state: Mapping[str, Any] | None) -> Iterator[ListedBatch]:
        """Begins an epoch, in the middle if `state` is given, and returns its batches."""
        self._listed.clear()
        self._uses = collections.Counter()
        self._given = 0
        if state is not None and self._stateful is not None:
            self._stateful.load_state_dict(copy.deepcopy(state["state"]))
            self._uses.update(dict(zip(*(part.tolist() for part in state["uses"]), strict=True)))
            return self._batches(iter(batch_sampler), state["checksum"], state["count"])
        if state is not None and state["count"] > 0:
            return self._batches(self._repeated(batch_sampler, state), state["checksum"], state["count"])
        if state is not None:
            _restore(self._generators, state["generators"], is_boundary=True)
        self._begun = _states(self._generators)
        return self._batches(iter(batch_sampler), 0, 0)

    def _repeated(self, batch_sampler: Iterable[Any], state: Mapping[str, Any]) -> Iterator[Any]:
        # The default generators are needed only until the sampler has given its first batches: PyTorch's samplers
        # use them when an iteration begins. Afterwards the program has its own states back.
        with preserved_random_states():
            _restore(self._generators, state["generators"], is_boundary=False)
            self._begun = _states(self._generators)
            batches = iter(batch_sampler)
            checksum = 0
            for batch in itertools.islice(batches, state["count"]):
                samples = _samples(batch)
                checksum = _checksum(checksum, samples)
                self._uses.update(map(_countable, samples))
        if checksum != state["checksum"]:
            raise _native.Refused(
                "the sampler lists other samples than before the state was saved, so the epoch cannot be continued: "
                "give the sampler state_dict() and load_state_dict(), or a `generator` from which all its random "
                "numbers come"
            )
        return batches

    def _batches(self, batches: Iterator[Any], checksum: int, count: int) -> Iterator[ListedBatch]:
        self._now = {"count": count, "checksum": checksum, "state": self._saved()}
        return self._list(batches, checksum)

    def _list(self, batches: Iterator[Any], checksum: int) -> Iterator[ListedBatch]:
        for batch in batches:
            samples = _samples(batch)
            checksum = _checksum(checksum, samples)
            uses = []
            for sample in map(_countable, samples):
                uses.append(self._uses[sample])
                self._uses[sample] += 1
            self._listed.append((samples, checksum, self._saved()))
            yield samples, uses

    def _saved(self) -> Any:
        return None if self._stateful is None else copy.deepcopy(self._stateful.state_dict())

    def give(self, count: int) -> None:
        """Moves to the state after the first `count` batches of this iteration."""
        for _ in range(self._given, count):
            if self._listed:
                _, checksum, state = self._listed.popleft()
                self._now = {"count": self._now["count"] + 1, "checksum": checksum, "state": state}
        self._given = count

    def inside(self) -> dict[str, Any]:
        """Returns the state after the batches that were given."""
        state = copy.deepcopy(self._now)
        if self._stateful is None:
            return state | {"generators": _pack(self._begun), "uses": None}
        # The sampler will not list the batches before the state again, so how often they used each sample is saved.
        uses = self._uses.copy()
        for samples, _, _ in self._listed:
            uses.subtract(map(_countable, samples))
        used = {sample: number for sample, number in uses.items() if number > 0 and isinstance(sample, int)}
        return state | {"generators": "", "uses": (torch.tensor([*used]).long(), torch.tensor([*used.values()]).long())}

    def at_boundary(self) -> dict[str, Any]:
        """Returns the state between two epochs."""
        generators = "" if self._stateful is not None else _pack(_states(self._generators))
        nothing = torch.zeros(0, dtype=torch.long)
        return {"count": 0, "checksum": 0, "state": self._saved(), "generators": generators, "uses": (nothing, nothing)}

    def check(self, state: Any) -> None:
        needed = {"count", "checksum", "state", "generators", "uses"}
        if not isinstance(state, Mapping) or not needed <= state.keys():
            raise _native.Refused("the state of the sampler is incomplete: give the result of state_dict()")
        if (state["state"] is not None) != (self._stateful is not None):
            kind = "without" if self._stateful is None else "with"
            raise _native.Refused(
                f"the state belongs to another kind of sampler: this one is {kind} state_dict(), so give the sampler "
                "with which the state was saved"
            )


def _generators(sampler: Any) -> list[Any]:
    """Returns the random generators that a sampler, or a sampler inside it, has as attributes."""
    found: list[Any] = []
    while sampler is not None:
        found += [each for each in getattr(sampler, "__dict__", {}).values() if is_generator(each)]
        sampler = getattr(sampler, "sampler", None)
    return list({id(each): each for each in found}.values())


def _samples(batch: Any) -> list[Any]:
    """Returns the samples of one batch of a batch sampler. With batch_size=None, the batch is a single sample."""
    return list(batch) if isinstance(batch, list | tuple | torch.Tensor) else [batch]


def _countable(sample: Any) -> Any:
    return to_index(sample, repr(sample))


def _checksum(before: int, samples: list[Any]) -> int:
    return zlib.crc32(repr([_countable(sample) for sample in samples]).encode(), before)


def _states(generators: Iterable[Any]) -> dict[str, Any]:
    return {"own": [generator_state(each) for each in generators], "defaults": host_states()}


def _pack(value: Any) -> str:
    """Returns the states as JSON, which torch.load() reads with weights_only=True."""
    return json.dumps(value, default=lambda each: each.tolist())


def _restore(generators: list[Any], packed: str, is_boundary: bool) -> None:
    """Restores the states of the sampler's own generators and, inside an epoch, of the default generators.

    is_boundary: whether the state was saved between two epochs. The default generators then belong to the program,
        which saves and restores them itself if it needs to."""
    states = json.loads(packed)
    if len(states["own"]) != len(generators):
        raise _native.Refused(
            f"the sampler has {len(generators)} random generators, but had {len(states['own'])} when the state was "
            "saved: give the same sampler"
        )
    for generator, state in zip(generators, states["own"], strict=True):
        set_generator_state(generator, _unpacked(generator, state))
    if not is_boundary:
        defaults = states["defaults"]
        numpy = None if defaults["numpy"] is None else _numpy_state(defaults["numpy"])
        set_host_states({"torch": _bytes(defaults["torch"]), "numpy": numpy, "random": _tuples(defaults["random"])})


def _unpacked(generator: Any, state: Any) -> Any:
    """Converts the state of a generator of torch, numpy or random back from JSON."""
    if isinstance(generator, torch.Generator):
        return _bytes(state)
    if hasattr(generator, "bit_generator"):
        return _arrays(state)
    return _tuples(state) if hasattr(generator, "getstate") else _numpy_state(state)


def _bytes(values: list[int]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.uint8)


def _arrays(state: Any) -> Any:
    """Converts lists in the state of a NumPy bit generator back to arrays."""
    if isinstance(state, dict):
        return {name: _arrays(value) for name, value in state.items()}
    if isinstance(state, list):
        numpy = sys.modules["numpy"]
        return numpy.array(state, dtype=numpy.uint64 if max(state, default=0) >= 1 << 32 else numpy.uint32)
    return state


def _numpy_state(state: list[Any]) -> tuple[Any, ...]:
    numpy = sys.modules["numpy"]
    return (state[0], numpy.array(state[1], dtype=numpy.uint32), *state[2:])


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
