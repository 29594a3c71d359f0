"""Converts the arguments of a captured step to a key that selects its graph."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from . import _trees
from ._held_objects import contents_of, globals_named, is_of_library_class, own_dict
from ._plain_state import PLAIN

_CONSTANTS = (*PLAIN, torch.dtype, torch.device, torch.Size, torch.memory_format)
_KNOWN_KINDS = (torch.nn.Module, torch.optim.Optimizer, torch.Generator)


class Unsupported(Exception):
    """An argument that cannot be part of a graph's key. The message says why, and names a remedy."""


class Identity:
    """An object that equals only itself. Holds it, so that no other object gets its id."""

    def __init__(self, content: Any) -> None:
        self.content = content

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and self.content is other.content

    def __hash__(self) -> int:
        return id(self.content)


class Arguments:
    """The arguments of one call.

    structure: everything but the tensors, as an object that can be compared and hashed.
    tensors: the tensors, in order.
    objects: modules, optimizers and generators among the arguments, and such objects and tensors in the variables of
        functions among the arguments, with their names. A graph is correct only as long as they are not replaced.

    Raises Unsupported for objects that may change without notice."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.objects: list[tuple[str, Any]] = []
        if not kwargs and all([type(each) is torch.Tensor for each in args]):  # the usual case
            self.structure: Any = len(args)
            self.tensors = list(args)
            return
        self.tensors = []
        self._functions: set[int] = set()
        self.structure = self._part((args, kwargs))

    def _part(self, tree: Any) -> Any:
        kind = type(tree)
        if isinstance(tree, torch.Tensor):
            self.tensors.append(tree)
            return torch.Tensor
        if isinstance(tree, _CONSTANTS):
            return kind, tree
        parts = _trees.parts(tree)
        if parts is not None:
            keys = tuple(tree) if isinstance(tree, Mapping) else ()
            return (kind, keys, *[self._part(part) for part in parts], *self._attributes(tree))
        if isinstance(tree, _KNOWN_KINDS):
            self.objects.append(("", tree))
            return kind, Identity(tree)
        if callable(tree):
            return self._function(tree)
        raise Unsupported(
            f"one of its arguments is of type {kind.__name__}, which may change without notice. Remedy: give tensors, "
            "numbers and strings"
        )

    def _attributes(self, tree: Any) -> Iterator[Any]:
        """Yields the numbers and strings in the attributes of a container of the user's class."""
        if type(tree) in (dict, list, tuple):
            return
        for name, each in (own_dict(tree) or {}).items():
            if isinstance(each, _CONSTANTS):
                yield name, type(each), each
            elif isinstance(each, torch.Tensor) and not any(each is known for known in self.tensors):
                raise Unsupported(
                    f"an argument of type {type(tree).__name__} has a tensor in its attribute '{name}'. Remedy: give the "
                    "tensor as an argument"
                )

    def _function(self, function: Callable[..., Any]) -> Any:
        """Returns a function with the variables that it reads, so that new values of these select another graph."""
        if id(function) in self._functions:  # a function that refers to itself
            return Identity(function)
        self._functions.add(id(function))
        return (type(function), _code(function), *[self._variable(name, each) for name, each in _variables(function)])

    def _variable(self, name: str, content: Any) -> Any:
        if isinstance(content, _CONSTANTS):
            return type(content), content
        if isinstance(content, torch.Tensor | torch.nn.Module | torch.optim.Optimizer | torch.Generator):
            self.objects.append((name, content))
            return Identity(content)
        if callable(content):
            return self._function(content)
        raise Unsupported(
            f"a function among its arguments uses '{name}' of type {type(content).__name__}, which may change without "
            "notice. Remedy: let it use numbers, strings, modules and functions, or give what it needs as arguments"
        )


def _code(function: Any) -> Any:
    """Returns the part of a function that its variables do not contain. Functions that are defined in the loop body,
    partials and methods may be new objects in each iteration, with equal parts."""
    if isinstance(function, functools.partial):
        return tuple(function.keywords)
    if isinstance(function, types.MethodType):
        return None
    return function.__code__ if isinstance(function, types.FunctionType) else Identity(function)


def _variables(function: Any) -> Iterator[tuple[str, Any]]:
    """Yields the variables of a closure, default arguments, arguments of a functools.partial, and the object of a
    method; of the globals that the code names only modules, optimizers, tensors and generators. Other globals keep the
    values that they had when the graph was recorded, like those that the step itself reads."""
    if isinstance(function, functools.partial):
        yield "func", function.func
        yield from [(f"argument {i}", each) for i, each in enumerate(function.args)]
        yield from function.keywords.items()
    elif isinstance(function, types.MethodType):
        yield "__self__", function.__self__
        yield "__func__", function.__func__
    elif isinstance(function, types.FunctionType):
        yield from contents_of(function)
        for holder, name in globals_named(function):
            if isinstance(each := holder.get(name), torch.Tensor | torch.nn.Module | torch.optim.Optimizer):
                yield name, each
    elif not isinstance(function, type | types.BuiltinFunctionType) and not is_of_library_class(function):
        raise Unsupported(
            f"one of its arguments is of type {type(function).__name__}, which may change without notice. Remedy: give "
            "a function, or make it a torch.nn.Module and name it in slipstream.capture(step, modules=[...])"
        )


def with_tensors(tree: Any, tensors: list[torch.Tensor]) -> Any:
    """Returns a copy of a tree with other tensors."""
    rest = iter(tensors)
    return _trees.mapped(tree, lambda leaf: next(rest) if isinstance(leaf, torch.Tensor) else leaf)
