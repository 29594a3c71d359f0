"""Saves, compares and restores states of the random generators of torch, numpy and random."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

from ._blocks import contextmanager
from ._held_objects import reachable_from


def random_states() -> tuple[Any, ...]:
    """Returns the states of the default generators of torch (on the CPU), numpy and random, for comparison."""
    numpy = sys.modules.get("numpy")
    return (
        torch.get_rng_state().numpy().tobytes(),
        random.getstate(),
        _plain(numpy.random.get_state()) if numpy else None,
    )


def _plain(state: Any) -> tuple[Any, ...]:
    return tuple(each.tobytes() if hasattr(each, "tobytes") else each for each in state)


def host_states() -> dict[str, Any]:
    """Returns the states of the default generators of torch (on the CPU), numpy and random, by name."""
    numpy = sys.modules.get("numpy")
    return {
        "torch": torch.get_rng_state(),
        "numpy": numpy.random.get_state() if numpy else None,
        "random": random.getstate(),
    }


def set_host_states(states: Mapping[str, Any]) -> None:
    """Restores states that host_states() returned."""
    random.setstate(states["random"])
    torch.set_rng_state(states["torch"])
    if states["numpy"] is not None and "numpy" in sys.modules:
        sys.modules["numpy"].random.set_state(states["numpy"])


class RandomStates:
    """Saves the states of the default generators of torch (on all devices), numpy and random, and of `generators`."""

    def __init__(self, generators: Iterable[Any] = ()) -> None:
        self._own = [(each, generator_state(each)) for each in generators]
        self._host = host_states()
        is_cuda = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        self._cuda = torch.cuda.get_rng_state_all() if is_cuda else []

    def restore(self) -> None:
        set_host_states(self._host)
        if self._cuda:
            torch.cuda.set_rng_state_all(self._cuda)
        for generator, state in self._own:
            set_generator_state(generator, state)


@contextmanager
def preserved_random_states(generators: Iterable[Any] = ()) -> Iterator[None]:
    """Restores the default generators of torch (on all devices), numpy and random, and `generators`, at the end of the
    block."""
    states = RandomStates(generators)
    try:
        yield
    finally:
        states.restore()


def seed_all(seed: int) -> None:
    """Seeds the default generators of torch, numpy and random on the host."""
    random.seed(seed)
    # torch.manual_seed() would also seed the generators of GPUs.
    torch.default_generator.manual_seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        # numpy.random.seed() accepts only 32 bits.
        numpy.random.seed(seed & 0xFFFFFFFF)


def free_numpy() -> None:
    """Replaces numpy's default generator in a forked process if its lock is held. A thread that held the lock at the
    fork does not exist in this process, so the lock would never be released."""
    random = sys.modules.get("numpy.random")
    generator = getattr(sys.modules.get("numpy.random.mtrand"), "_rand", None)
    if generator is None or not hasattr(random, "set_bit_generator"):
        return
    kind, lock = type(generator._bit_generator), generator._bit_generator.lock
    if lock.acquire(blocking=False):
        lock.release()
    else:
        random.set_bit_generator(kind())  # type: ignore[union-attr]


def find_generators(holder: Any) -> list[Any]:
    """Returns the generators of torch, numpy and random that an object refers to. Generators without a state, such as
    random.SystemRandom, are left out."""
    return with_state(each.content for each in reachable_from(holder, generator_kinds()))


def with_state(generators: Iterable[Any]) -> list[Any]:
    return [each for each in generators if not isinstance(each, random.SystemRandom)]


def is_generator(each: Any) -> bool:
    return issubclass(type(each), generator_kinds())


def generator_kinds() -> tuple[type, ...]:
    numpy = sys.modules.get("numpy")
    of_numpy = (numpy.random.Generator, numpy.random.RandomState) if numpy else ()
    return (random.Random, torch.Generator, *of_numpy)


def generator_state(generator: Any) -> Any:
    """Returns the state of a generator of torch, numpy or random."""
    if hasattr(generator, "bit_generator"):
        return generator.bit_generator.state
    return generator.getstate() if isinstance(generator, random.Random) else generator.get_state()


def set_generator_state(generator: Any, state: Any) -> None:
    if hasattr(generator, "bit_generator"):
        generator.bit_generator.state = state
    elif isinstance(generator, random.Random):
        generator.setstate(state)
    else:
        generator.set_state(state)


_OF_LIBRARIES = ("multiprocessing.queues", "torch.utils.data._utils.pin_memory", "tqdm._monitor")


def other_threads() -> list[int]:
    """Returns the native ids of Python's other threads, except for threads of libraries that use no random numbers."""
    own = threading.get_ident()
    others = [each for each in list(threading._active.values()) if each.ident != own]  # type: ignore[attr-defined]
    return [each.native_id for each in others if each.native_id and _runs_in(each) not in _OF_LIBRARIES]


def _runs_in(thread: threading.Thread) -> str | None:
    """Returns the name of the module whose function or class a thread runs."""
    target = getattr(thread, "_target", None)
    return getattr(target, "__module__", None) if type(thread) is threading.Thread else type(thread).__module__
