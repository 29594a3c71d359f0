"""Finds the objects that an object refers to (docs/verify.md): attributes, elements, arguments of partials, the bound
`self` of methods, and for functions their closure variables, default arguments and the globals that they name."""

from __future__ import annotations

import collections
import dis
import functools
import inspect
import itertools
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch

_MOST_DEEP = 6
_MOST_OBJECTS = 10_000
MOST_ELEMENTS = 256  # elements of a container that are searched; longer containers usually hold data, not state
_MOST_TENSORS = 4096  # the same for a container of tensors, such as averages of all weights
_HOLD_NOTHING = (torch.Tensor, str, bytes, bytearray, int, float, complex, type(None), type, types.ModuleType)
_SEQUENCES = (list, tuple, set, frozenset, collections.deque)
# Globals of these libraries are not searched, because they are not state of the user's program.
_LIBRARIES = {"torch", "torchvision", "numpy", "slipstream", *sys.stdlib_module_names}
OF_MODULES = tuple(vars(torch.nn.Module()))  # attributes that every module has, such as _parameters
_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
_NAME_GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL")


@runtime_checkable
class Stateful(Protocol):
    """Any object with these two methods, such as a module, optimizer, learning rate scheduler or gradient scaler."""

    def state_dict(self) -> Any: ...
    def load_state_dict(self, state: Any, /) -> Any: ...


STATEFUL: tuple[type, ...] = (torch.nn.Module, torch.optim.Optimizer, Stateful)


class Wrapper:
    """An object of this package that calls a function of the user, such as a captured step. Only what held() returns is
    searched, because the attributes of the object itself are not state of the user's program."""

    def held(self) -> list[tuple[str, Any]]:
        """Returns the function, whose name is empty, and named objects that it may use."""
        raise NotImplementedError

    def reset(self) -> None:
        """Frees what depends on the state of the objects."""


class HeldObject(NamedTuple):
    name: str  # how to reach it from the root, such as models[0] or trainer.model
    content: Any
    depth: int  # number of objects between the root and this one


def reachable_from(root: Any, kinds: tuple[type, ...]) -> list[HeldObject]:
    """Returns the objects of these classes that `root` refers to, directly or through a few other objects, each once,
    nearest first.

    An object of these classes is searched further only if it has a state. In modules, parameters, buffers and
    submodules are not listed. No method of the objects is called, because that could have side effects; this is also
    why the functions below use type(each) and unbound methods instead of isinstance() and attribute access."""
    found = [HeldObject("run", root, 0)] if issubclass(type(root), kinds) else []
    if not found or issubclass(type(root), STATEFUL):
        found += [each for each in walk([("", root)], kinds) if issubclass(type(each.content), kinds)]
    return found


def walk(
    roots: Sequence[tuple[str, Any]],
    leaves: tuple[type, ...],
    is_searched: Callable[[Any], bool] = lambda each: True,
) -> Iterator[HeldObject]:
    """Yields the objects that named roots refer to, in the order of reachable_from(). Objects that cannot refer to
    others, such as tensors and numbers, are yielded only if they are of the classes `leaves`.

    is_searched: decides whether the objects that an object refers to are yielded, too."""
    seen, level = {id(root) for _, root in roots}, list(roots)
    for depth in range(_MOST_DEEP):
        deeper: list[tuple[str, Any]] = []
        for name, holder in level:
            for place, each in _named(holder, name, leaves):
                is_leaf = issubclass(type(each), leaves)
                if id(each) in seen or len(seen) > _MOST_OBJECTS:
                    continue
                if not is_leaf and issubclass(type(each), _HOLD_NOTHING):
                    continue
                seen.add(id(each))
                yield HeldObject(place, each, depth)
                if issubclass(type(each), torch.nn.Module):
                    seen.update(id(module) for module in modules_in(each))
                holds_more = not is_leaf or issubclass(type(each), STATEFUL)
                if holds_more and not issubclass(type(each), torch.optim.Optimizer) and is_searched(each):
                    deeper.append((place, each))
        level = deeper


def modules_in(module: torch.nn.Module) -> list[torch.nn.Module]:
    """Returns the module and all its submodules, each once. Does not call module.modules(), which can be overridden."""
    found: dict[int, torch.nn.Module] = {}
    rest = [module]
    while rest:
        each = rest.pop()
        if id(each) not in found and issubclass(type(each), torch.nn.Module):
            found[id(each)] = each
            rest += vars(each).get("_modules", {}).values()
    return list(found.values())


def _named(holder: Any, name: str, kinds: tuple[type, ...]) -> Iterator[tuple[str, Any]]:
    prefix = f"{name}." if name else ""
    if issubclass(type(holder), Wrapper):
        yield from [(prefix + key if key else name, each) for key, each in holder.held()]
        return
    if issubclass(type(holder), torch.nn.Module):
        for each in modules_in(holder):
            own = vars(each).items()
            yield from [(prefix + key, value) for key, value in list(own) if key not in OF_MODULES]
            hooks = [kind for kind in map(vars(each).get, _HOOKS) if isinstance(kind, dict)]
            called = [hook for kind in hooks for hook in kind.values()]
            yield from [(f"{prefix}hook {i}", hook) for i, hook in enumerate(called)]
        return
    if issubclass(type(holder), dict):
        yield from _elements(name, dict.items(holder))
    for sequence in _SEQUENCES:
        if issubclass(type(holder), sequence):
            yield from _elements(name, enumerate(sequence.__iter__(holder)))
    if issubclass(type(holder), functools.partial):
        yield from [(f"{prefix}argument {i}", each) for i, each in enumerate(holder.args)]
        yield from [(prefix + key, each) for key, each in holder.keywords.items()]
        yield from _of_callee(holder.func, name, kinds)
    elif issubclass(type(holder), (types.MethodType, types.BuiltinFunctionType)):
        function = getattr(holder, "__func__", None)
        yield from _of_callee(holder.__self__, name, kinds)
        yield from _of_callee(function, name, kinds)
        yield from [(prefix + key, each) for key, each in _methods_named(function, holder.__self__)]
    elif issubclass(type(holder), types.FunctionType):
        yield from [(prefix + variable, each) for variable, each in _variables(holder)]
    elif isinstance(call := getattr(type(holder), "__call__", None), types.FunctionType):
        yield from _of_callee(call, name, kinds)
        yield from [(prefix + key, each) for key, each in _methods_named(call, holder)]
    yield from [(f"{prefix}{key}", each) for key, each in _attributes(holder)]


def _elements(name: str, pairs: Any) -> Iterator[tuple[str, Any]]:
    are_tensors = True
    for number, (key, each) in enumerate(itertools.islice(pairs, _MOST_TENSORS)):
        are_tensors = are_tensors and issubclass(type(each), torch.Tensor)
        if number >= MOST_ELEMENTS and not are_tensors:
            return
        yield f"{name}[{key!r}]" if type(key) in (int, str) else f"{name}[key {number}]", each


def _of_callee(callee: Any, name: str, kinds: tuple[type, ...]) -> Iterator[tuple[str, Any]]:
    """Yields the objects that `callee` refers to. A partial or a method passes its call on to `callee`, so the names
    are the same as if `callee` were called directly."""
    if issubclass(type(callee), kinds):
        yield (f"{name}." if name else "") + type(callee).__name__, callee
    elif not issubclass(type(callee), _HOLD_NOTHING):
        yield from _named(callee, name, kinds)


def callees(callee: Any) -> Iterator[Any]:
    """Yields a callable, and the functions and objects that it passes its calls to."""
    yield callee
    if issubclass(type(callee), functools.partial):
        yield from callees(callee.func)
    elif issubclass(type(callee), types.MethodType):
        yield from callees(callee.__self__)
        yield from callees(callee.__func__)
    elif isinstance(call := getattr(type(callee), "__call__", None), types.FunctionType):
        yield call


def _methods_named(function: Any, owner: Any) -> Iterator[tuple[str, types.FunctionType]]:
    """Yields the methods of `owner` whose names appear in the code of `function`."""
    if isinstance(function, types.FunctionType):
        for name in names_in(function):
            method = inspect.getattr_static(type(owner), name, None)
            if isinstance(method, types.FunctionType):
                yield name, method


def _variables(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    yield from contents_of(function)
    for holder, variable in globals_named(function):
        if variable in holder:
            yield variable, holder[variable]


def contents_of(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Yields the variables in the closure of a function, and its default arguments."""
    for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield variable, cell.cell_contents
        except ValueError:  # the variable has no value yet
            continue
    parameters = function.__code__.co_varnames[: function.__code__.co_argcount]
    values = function.__defaults__ or ()
    yield from zip(parameters[len(parameters) - len(values) :], values, strict=True)
    yield from (function.__kwdefaults__ or {}).items()


def globals_named(function: types.FunctionType) -> Iterator[tuple[dict[str, Any], str]]:
    """Yields the globals that the code of a function of the user names, as pairs of the dictionary that holds the
    global and its name. Includes attributes of the user's own modules, as in `settings.model`."""
    if is_of_library(function.__globals__):
        return
    for name in _global_names(function.__code__):
        yield function.__globals__, name
        module = function.__globals__.get(name)
        if type(module) is types.ModuleType and not is_of_library(vars(module)):
            yield from [(vars(module), each) for each in names_in(function) if each in vars(module)]


def is_of_library(module: dict[str, Any]) -> bool:
    """Returns true if the module with these globals is part of a library. Installed packages are assumed to hold no
    state of the user's program."""
    name, file = str(module.get("__name__")), str(module.get("__file__"))
    return name.partition(".")[0] in _LIBRARIES or "site-packages" in file or "dist-packages" in file


def is_of_library_class(each: Any) -> bool:
    """Returns true if the class of an object belongs to PyTorch, NumPy or the standard library."""
    return type(each).__module__.partition(".")[0] in _LIBRARIES


def names_in(function: types.FunctionType) -> list[str]:
    """Returns the names of globals and attributes in the code of a function, also those in strings, for getattr()."""
    codes = list(_codes(function.__code__))
    strings = [each for code in codes for each in code.co_consts if isinstance(each, str) and each.isidentifier()]
    return [*(name for code in codes for name in code.co_names), *strings]


@functools.lru_cache(maxsize=1024)
def _global_names(code: types.CodeType) -> list[str]:
    instructions = itertools.chain.from_iterable(map(dis.get_instructions, _codes(code)))
    return list(dict.fromkeys(each.argval for each in instructions if each.opname in _NAME_GLOBALS))


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yields the code object and those of functions that are defined inside it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _codes(each)


def _attributes(holder: Any) -> Iterator[tuple[str, Any]]:
    """Yields the attributes in `__dict__` and in slots, without calling properties or `__getattr__`."""
    yield from list((own_dict(holder) or {}).items())
    for name, slot in slots(holder):
        try:
            yield name, slot.__get__(holder)
        except AttributeError:  # the slot is empty
            continue


def slots(holder: Any) -> Iterator[tuple[str, types.MemberDescriptorType]]:
    """Yields the names and descriptors of the slots that classes declare with `__slots__`."""
    for each in type(holder).__mro__:
        members = vars(each).items() if "__slots__" in vars(each) else ()
        yield from [(name, slot) for name, slot in members if isinstance(slot, types.MemberDescriptorType)]


def own_dict(holder: Any) -> dict[str, Any] | None:
    """Returns `__dict__`, or None if there is none or if a property computes it."""
    classes = type(holder).__mro__
    own = next((vars(each)["__dict__"] for each in classes if "__dict__" in vars(each)), None)
    # types.SimpleNamespace has a member descriptor.
    kinds = types.GetSetDescriptorType | types.MemberDescriptorType
    found = own.__get__(holder) if isinstance(own, kinds) else None
    return found if type(found) is dict else None
