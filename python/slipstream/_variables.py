"""The variables, attributes and elements through which a function reaches objects: detects that they were rebound."""

from __future__ import annotations

import collections
import inspect
import operator
import types
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch

from ._graph_keys import Identity
from ._held_objects import MOST_ELEMENTS, Wrapper, callees, globals_named, modules_in, names_in, own_dict, slots, walk
from ._plain_state import PLAIN

_MOST_CONSTANTS = 512
_CHANGING = ("p", "momentum")  # of dropout and batch normalization
_Read = Callable[[], Any]


class Variables:
    """The places in which a function finds objects, and what was there when this object was created.

    function: searched as by reachable_from().
    kinds: classes of the objects."""

    def __init__(self, function: Any, kinds: tuple[type, ...]) -> None:
        reached = [function, *(each.content for each in walk([("", function)], kinds))]
        holders = list({id(each): each for holder in reached for each in callees(holder)}.values())
        found = {id(each) for each in holders if issubclass(type(each), kinds)}
        places = [(holder, list(_places(holder))) for holder in holders]
        used = names_used(holders)
        # A variable counts if it leads to an object of these classes, also through others. Holders that are found later
        # are deeper, so this needs few rounds.
        relevant: set[int] = set()
        while len(relevant) < len(found):
            relevant = set(found)
            found |= {id(holder) for holder, own in places if any(id(read()) in relevant for _, read in own)}
        read_places = _read_places(function, places, used)
        self._places = [each for each in read_places if id(each[2]) in relevant]
        self._unread = {id(read()) for _, own in places for _, read in own} - {id(each[2]) for each in read_places}
        constants = [(name, read) for name, read, content in read_places if isinstance(content, PLAIN)]
        self._read_constants = [read for name, read in constants if not name.startswith("__")][:_MOST_CONSTANTS]
        self._last_constants: list[Any] = []
        self._last_key: tuple[Any, ...] = ()

    def changed(self) -> str:
        """Returns the name of a variable that was rebound; "" if there is none."""
        for name, read, content in self._places:
            if read() is not content:
                return name
        return ""

    def is_unread(self, each: Any) -> bool:
        """Returns true if only variables and attributes that the function does not read refer to this object."""
        return id(each) in self._unread

    def constants(self) -> tuple[Any, ...]:
        """Returns the numbers, strings and None in variables, attributes and elements that the function reads, as an
        object that can be compared and hashed. Later values may be of any type."""
        values = [read() for read in self._read_constants]
        if len(values) != len(self._last_constants) or not all(map(operator.is_, values, self._last_constants)):
            self._last_constants = values
            self._last_key = tuple([_key_of(each) for each in values])
        return self._last_key

    def ignore_changed(self) -> None:
        """Does not report variables that have been rebound until now. Called after the function has run: what it
        assigns itself, such as the last loss, is not what it reads."""
        self._places = [each for each in self._places if each[1]() is each[2]]


def _read_places(
    function: Any, places: list[tuple[Any, list[tuple[str, _Read]]]], used: set[str]
) -> list[tuple[str, _Read, Any]]:
    """Returns the places that the code of the function reads, with their contents: variables and attributes that it
    names, and elements of containers that are in such a place. Loops often assign to others, such as the last loss or
    the best model."""
    found: dict[int, tuple[str, _Read, Any]] = {}  # by id(read): several submodules have attributes of the same name
    every = [(id(holder), name, read) for holder, own in places for name, read in own]
    reached, before = {id(function)}, 0
    while len(reached) != before:
        before = len(reached)
        for holder, name, read in every:
            if name in used or (holder in reached and name.startswith(("[", "__", "func"))):
                found[id(read)] = (name, read, content := read())
                reached.add(id(content))
    return list(found.values())


def _places(holder: Any) -> Iterator[tuple[str, _Read]]:
    """Yields the name of each variable of a function, or attribute or element of an object, and a function that reads
    it. Does not call properties."""
    is_module = issubclass(type(holder), torch.nn.Module)
    if issubclass(type(holder), (torch.Tensor, Wrapper)) or (_is_of_torch(holder) and not is_module):
        return
    if is_module:
        for module in modules_in(holder):
            own, is_of_torch = vars(module), _is_of_torch(module)
            # The attributes of PyTorch's modules are many, and few of them are changed after the module was created.
            keys = [key for key in own if not is_of_torch or key in _CHANGING or not isinstance(own[key], PLAIN)]
            yield from [(key, partial(own.get, key)) for key in keys if key != "training"]
        return
    yield "__call__", partial(_called, holder)
    if issubclass(type(holder), types.MethodType):
        yield "__self__", partial(getattr, holder, "__self__")
    if issubclass(type(holder), partial):
        yield "func", partial(getattr, holder, "func")
        yield from [(f"[{i}]", partial(operator.itemgetter(i), holder.args)) for i in range(len(holder.args))]
        yield from [(f"[{key!r}]", partial(_key, holder, key)) for key in holder.keywords]
    if issubclass(type(holder), types.FunctionType):
        cells = zip(holder.__code__.co_freevars, holder.__closure__ or (), strict=False)
        yield from [(name, partial(_content, cell)) for name, cell in cells]
        yield from [(name, partial(values.get, name)) for values, name in globals_named(holder)]
    if issubclass(type(holder), dict):
        yield from [(f"[{key!r}]", partial(dict.get, holder, key)) for key in dict.keys(holder)]
    if type(holder) in (list, collections.deque):
        yield from [(f"[{i}]", partial(_element, holder, i)) for i in range(min(len(holder), MOST_ELEMENTS))]
    own = own_dict(holder) or {}
    yield from [(key, partial(own.get, key)) for key in own]
    yield from [(name, partial(_slot, slot, holder)) for name, slot in slots(holder)]


def names_used(holders: Sequence[Any]) -> set[str]:
    """Returns the names of variables and attributes in the code of functions, and of methods that they name."""
    functions = [each for each in holders if issubclass(type(each), types.FunctionType)]
    functions += [each for each in map(_called, holders) if each is not None]
    classes = {type(part) for each in holders for part in (modules_in(each) if _is_module(each) else [each])}
    classes |= {type(each.__self__) for each in holders if _is_method(each)}
    used: set[str] = set()
    while functions:
        function = functions.pop()
        new = {*names_in(function), *function.__code__.co_freevars} - used
        used |= new
        members = [inspect.getattr_static(kind, name, None) for kind in classes for name in new]
        functions += [each for each in members if isinstance(each, types.FunctionType)]
    return used


def _key_of(value: Any) -> Any:
    return (type(value), value) if isinstance(value, PLAIN) else Identity(value)


def _is_module(holder: Any) -> bool:
    return issubclass(type(holder), torch.nn.Module)


def _is_method(holder: Any) -> bool:
    return issubclass(type(holder), types.MethodType)


def _is_of_torch(holder: Any) -> bool:
    """Optimizers and schedulers assign to their attributes themselves."""
    return type(holder).__module__.partition(".")[0] == "torch"


def _called(holder: Any) -> types.FunctionType | None:
    """Returns the function of a method or of an object that can be called."""
    found = holder.__func__ if _is_method(holder) else getattr(type(holder), "__call__", None)
    return found if isinstance(found, types.FunctionType) else None


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # the variable has no value
        return None


def _element(values: list[Any] | collections.deque[Any], index: int) -> Any:
    return values[index] if index < len(values) else None


def _key(holder: partial[Any], key: str) -> Any:
    return holder.keywords.get(key)


def _slot(slot: types.MemberDescriptorType, holder: Any) -> Any:
    try:
        return slot.__get__(holder)
    except AttributeError:  # the slot is empty
        return None
