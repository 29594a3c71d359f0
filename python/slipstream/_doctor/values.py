"""Samples and batches as trees of tuples, lists, mappings and data classes, and random states."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch


def mapped(tree: Any, function: Callable[[Any], Any]) -> Any:
    """A tree of the same form with `function` of each leaf."""
    if isinstance(tree, Mapping):
        items = {key: mapped(value, function) for key, value in tree.items()}
        if type(tree) is dict:
            return items
        copied: Any = copy.copy(tree)
        copied.update(items)
        return copied
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        elements = [mapped(value, function) for value in tree]
        return tuple.__new__(type(tree), elements)  # whatever its constructor takes
    if type(tree) in (list, tuple):
        return type(tree)(mapped(value, function) for value in tree)
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        changed: Any = copy.copy(tree)
        for field in dataclasses.fields(tree):
            if hasattr(tree, field.name):
                value = mapped(getattr(tree, field.name), function)
                object.__setattr__(changed, field.name, value)
        return changed
    return function(tree)


def leaves(tree: Any) -> list[Any]:
    """All leaves, in order."""
    found: list[Any] = []
    mapped(tree, lambda leaf: found.append(leaf) or leaf)  # type: ignore[func-returns-value]
    return found


def byte_size(tree: Any) -> int:
    """Bytes of the tensors, arrays, images and strings in a tree."""
    return sum(_leaf_size(leaf) for leaf in leaves(tree))


def _leaf_size(leaf: Any) -> int:
    if isinstance(leaf, str | bytes | bytearray):
        return len(leaf)
    size = getattr(leaf, "nbytes", None)
    if isinstance(size, int):
        return size
    if hasattr(leaf, "getbands"):  # an image of PIL
        return int(leaf.width * leaf.height * len(leaf.getbands()))
    return 8


def same(a: Any, b: Any) -> bool:
    """Whether two trees are known to hold the same values."""
    ours, theirs = leaves(a), leaves(b)
    return type(a) is type(b) and len(ours) == len(theirs) and all(map(_same_leaf, ours, theirs))


def _same_leaf(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        return (
            a.dtype == b.dtype
            and a.shape == b.shape
            and bool(torch.all((a == b) | ((a != a) & (b != b))))
        )
    if hasattr(a, "getbands"):
        return bool(a.mode == b.mode and a.size == b.size and a.tobytes() == b.tobytes())
    try:
        if hasattr(a, "tobytes"):
            return bool(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())
        return a is b or bool(a == b)
    except Exception:
        return False


def random_states() -> tuple[Any, ...]:
    """Of the generators of torch, numpy and random."""
    numpy = sys.modules.get("numpy")
    return (
        torch.get_rng_state().numpy().tobytes(),
        random.getstate(),
        _plain(numpy.random.get_state()) if numpy else None,
    )


def _plain(state: Any) -> tuple[Any, ...]:
    return tuple(each.tobytes() if hasattr(each, "tobytes") else each for each in state)


@contextlib.contextmanager
def kept_random_states(generators: Iterable[torch.Generator] = ()) -> Iterator[None]:
    """Puts the generators of torch (of all its devices), numpy, random and these back."""
    numpy = sys.modules.get("numpy")
    own = [(each, each.get_state()) for each in generators]
    of_python, of_torch = random.getstate(), torch.get_rng_state()
    of_numpy = numpy.random.get_state() if numpy else None
    is_cuda = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    of_cuda = torch.cuda.get_rng_state_all() if is_cuda else []
    try:
        yield
    finally:
        random.setstate(of_python)
        torch.set_rng_state(of_torch)
        if numpy:
            numpy.random.set_state(of_numpy)
        if is_cuda:
            torch.cuda.set_rng_state_all(of_cuda)
        for generator, state in own:
            generator.set_state(state)


def seed_all(seed: int) -> None:
    """Seeds the generators of torch, numpy and random on the host."""
    random.seed(seed)
    torch.default_generator.manual_seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy:
        numpy.random.seed(seed)


def state_of(generator: Any) -> Any:
    """The state of a generator of torch, numpy or random that an object holds."""
    if hasattr(generator, "bit_generator"):
        return generator.bit_generator.state
    return (
        generator.getstate()
        if isinstance(generator, random.Random)
        else generator.get_state().tolist()
    )
