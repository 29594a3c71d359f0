"""Restores the state that a function changes: modules, optimizers, schedulers and tensors that it refers to."""

from __future__ import annotations

import collections
import copy
import io
import re
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from . import _native, _trees
from ._held_objects import STATEFUL, Stateful, Wrapper, callees, globals_named, own_dict, walk
from ._plain_state import PLAIN
from ._random_states import RandomStates, generator_kinds, with_state

_CONTAINERS = (dict, list, set, collections.deque)
_DATA = (Dataset, DataLoader)  # not saved, because the doctor uses copies of them
# Modules of these packages keep attributes that describe buffers and handles in C++. These cannot be restored, so the
# attributes must keep the values that the first step gave them, too.
_ATTRIBUTES_STAY = ("torch.distributed", "torch.nn.parallel", "torch._dynamo", "torch.fx", "torch.jit")
_REGISTRIES = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "training")
_NO_STATE = {"logging", "threading", "queue", "multiprocessing", "concurrent", "asyncio", "slipstream", "torchdata"}
_IN_REGISTRIES = re.compile(r"\._(?:modules|parameters|buffers)\[(\w+)\]")
_MISSING = object()
_MOST_NAMED = 8  # names in one message


class StateGuard:
    """Saves the state that named objects refer to, and restores it. Only one thread may use it.

    roots: names and functions, modules or other objects. Restored are tensors, modules, optimizers, schedulers,
        gradient scalers, other objects with state_dict() and load_state_dict(), random generators, and variables and
        attributes that refer to one of these. Other changes are only reported.
    most_bytes: limit for copies of tensors and arrays that belong to no module or optimizer, because these may be a
        whole data set. Without copies, changes of tensors are only reported, and changes of arrays are not detected.
        By default an eighth of the free memory.
    wrappers: the captured steps that were found.
    """

    def __init__(self, roots: Sequence[tuple[str, Any]], most_bytes: int | None = None) -> None:
        self._most_bytes = _native.free_memory_bytes() // 8 if most_bytes is None else most_bytes
        self._kept: dict[tuple[int, str], Any] = {}  # objects that have a record; holding them keeps each id() unique
        self._records: list[_Tensor | _Array | _Position | _Owned | _Loaded | _Observed] = []
        generators: list[Any] = []
        leaves = (torch.Tensor, *_trees.array_kinds(), *generator_kinds(), *STATEFUL, *_DATA)
        self.wrappers: list[Wrapper] = []
        self._beyond: list[tuple[str, Any]] = []  # objects that modules and optimizers refer to, searched afterwards
        for name, root in roots:
            self._take(name, root, generators)
            self._take_all([("", root)], leaves, generators)
        self._take_all(self._beyond, leaves, generators)
        self._generators = RandomStates(generators)

    def restore(self) -> list[str]:
        """Restores all saved state. Waits for the device first, because its work may still change tensors.

        Returns a sentence that names what could not be restored and one that names what changed and is not restored;
        [] if there is neither."""
        failed, changed = self._restore()
        return [*failed, *_sentence("changed by the step or the data set, and not restored: ", changed)]

    def restore_tensors(self) -> list[str]:
        """Restores all saved state after work that ran no Python, such as the replay of a CUDA graph. Other threads may
        have changed Python values meanwhile; these are not reported.

        Returns a sentence that names what could not be restored, or []. If nothing was changed, this writes nothing,
        and the result says whether restore_tensors() will succeed later."""
        return self._restore()[0]

    def _restore(self) -> tuple[list[str], list[str]]:
        failed: list[str] = []
        changed: dict[type, list[str]] = {}
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            _try(torch.cuda.synchronize, "the device", failed)
        for kind in (_Owned, _Observed, _Tensor, _Array, _Position, _Loaded, _Observed):
            # _Observed runs twice, because load_state_dict() in between may change attributes. Only the second result
            # counts.
            seen = changed[kind] = []
            for record in self._records:
                if isinstance(record, kind):
                    _try(lambda record=record: seen.extend(record.restore()), record.name, failed)  # type: ignore[misc]
        _try(self._generators.restore, "random generators", failed)
        return _sentence("not restored, because restoring failed: ", failed), sum(changed.values(), [])

    def _take_all(self, roots: list[tuple[str, Any]], leaves: tuple[type, ...], generators: list[Any]) -> None:
        for held in walk(roots, leaves, lambda each: is_searched(each) or issubclass(type(each), Wrapper)):
            self._take(held.name, held.content, generators)

    def _take(self, name: str, each: Any, generators: list[Any]) -> None:
        if issubclass(type(each), Wrapper):
            self.wrappers.append(each)
        elif issubclass(type(each), generator_kinds()):
            generators += with_state([each])
        elif issubclass(type(each), torch.Tensor):
            self._take_tensor(name, each, is_owned=each.requires_grad)
        elif issubclass(type(each), _trees.array_kinds()):
            self._take_array(name, each)
        elif isinstance(each, io.IOBase):
            if not each.closed and each.seekable() and not each.writable():
                self._add(each, _Position(name, each))
        elif not issubclass(type(each), _DATA) and is_searched(each):
            for callee in callees(each):
                self._observe(name, callee)

    def _own(self, name: str, root: Any) -> None:
        """Saves everything that belongs to a module, an optimizer or another object with a state."""
        rest = [(name, root)]
        while rest:
            name, each = rest.pop()
            if isinstance(each, torch.Tensor):
                self._take_tensor(name, each, is_owned=True)
            elif issubclass(type(each), _trees.array_kinds()):
                self._take_array(name, each)
            elif (id(each), "") not in self._kept and issubclass(type(each), (*STATEFUL, *_CONTAINERS)):
                rest += self._add(each, _Owned(name, each)).parts()
                if not issubclass(type(each), (*_CONTAINERS, torch.nn.Module, torch.optim.Optimizer)):
                    self._add(each, _Loaded(name, each), "state")
            elif type(each) is tuple:
                rest += _parts(name, enumerate(each))
            elif (id(each), "") not in self._kept and own_dict(each) is not None and not callable(each):
                self._observe(name, each)
                self._beyond.append((name, each))

    def _observe(self, name: str, each: Any) -> None:
        if issubclass(type(each), STATEFUL):
            self._own(name, each)
        elif (id(each), "") not in self._kept:
            self._add(each, _Observed(name, each))

    def _take_tensor(self, name: str, tensor: torch.Tensor, is_owned: bool) -> None:
        if (id(tensor), "") in self._kept:
            return
        size = 0 if is_owned else _trees.byte_size(tensor)
        is_copied = size <= self._most_bytes
        self._most_bytes -= size if is_copied else 0
        record = self._add(tensor, _Tensor(name, tensor, is_copied))
        if record.grad is not None:
            self._take_tensor(f"{name}.grad", record.grad, is_owned=True)

    def _take_array(self, name: str, array: Any) -> None:
        if (id(array), "") not in self._kept and array.flags.writeable and array.nbytes <= self._most_bytes:
            self._most_bytes -= array.nbytes
            self._add(array, _Array(name, array))

    def _add(self, each: Any, record: Any, what: str = "") -> Any:
        key = (id(each), what)
        if key not in self._kept:
            self._kept[key] = each
            self._records.append(record)
        return record


class _Tensor:
    """Content, gradient and `requires_grad` of a tensor.

    is_copied: whether the content is copied. Otherwise writes are only reported, by the tensor's version counter."""

    def __init__(self, name: str, tensor: torch.Tensor, is_copied: bool) -> None:
        self.name, self._tensor, self._class = name, tensor, type(tensor)
        self._alias = tensor.data  # still refers to the original memory after the step assigns to tensor.data
        self._version, self._kept = tensor._version, cloned(self._alias) if is_copied else None
        self._requires_grad = tensor.requires_grad
        self.grad = tensor.grad if tensor.is_leaf else None

    def restore(self) -> list[str]:
        tensor = self._tensor
        if self._kept is None:
            return [] if tensor._version == self._version else [f"'{self.name}' (written in place)"]
        if type(tensor) is not self._class:  # the first call of a lazy module turns it into a Parameter
            tensor.data = self._alias
            tensor.__class__ = self._class
        if not _is_same_memory(tensor, self._alias):
            tensor.data = self._alias
        # copy_values() also writes tensors whose elements share memory, such as results of expand(), which copy_()
        # refuses.
        if not _trees.same_bytes(self._alias, self._kept):
            _native.copy_values(self._alias, self._kept)
        if tensor.is_leaf and tensor.requires_grad != self._requires_grad:
            tensor.requires_grad_(self._requires_grad)
        if tensor.is_leaf and tensor.grad is not self.grad:
            tensor.grad = self.grad
        return []


class _Array:
    """The content of a NumPy array."""

    def __init__(self, name: str, array: Any) -> None:
        self.name, self._array, self._kept = name, array, array.copy()

    def restore(self) -> list[str]:
        if self._array.tobytes() != self._kept.tobytes():
            self._array[...] = self._kept
        return []


class _Position:
    """The position of a file that is open for reading."""

    def __init__(self, name: str, file: Any) -> None:
        self.name, self._file, self._position = name, file, file.tell()

    def restore(self) -> list[str]:
        if not self._file.closed:
            self._file.seek(self._position)
        return []


class _Owned:
    """The attributes of a module or optimizer, or the elements of a container that belongs to one."""

    def __init__(self, name: str, each: Any) -> None:
        self.name, self._each, self._class = name, each, type(each)
        self._elements = _elements(each)
        self._held = own_dict(each)
        self._attributes = dict(self._held or {})
        self._is_script = isinstance(each, torch.jit.ScriptModule)
        self._mode = getattr(each, "training", None)

    def parts(self) -> list[tuple[str, Any]]:
        pairs = self._elements.items() if isinstance(self._elements, dict) else enumerate(self._elements)
        found = _parts(self.name, pairs)
        found += [(f"{self.name}.{key}", value) for key, value in self._attributes.items()]
        if self._is_script:
            found += [*self._each.named_parameters(), *self._each.named_buffers()]
        return found

    def restore(self) -> list[str]:
        if type(self._each) is not self._class:
            self._each.__class__ = self._class
        if _is_changed(self._elements, _elements(self._each)):
            self._each.clear()
            (self._each.extend if hasattr(self._each, "extend") else self._each.update)(self._elements)
        if self._is_script and self._each.training != self._mode:
            self._each.train(self._mode)
        if self._held is not None:
            stay = issubclass(self._class, torch.nn.Module) and self._class.__module__.startswith(_ATTRIBUTES_STAY)
            for key in _REGISTRIES if stay else {*self._attributes, *self._held}:
                _put(self._held, key, self._attributes.get(key, _MISSING))
        return []


class _Loaded:
    """The state_dict() of an object, restored with load_state_dict()."""

    def __init__(self, name: str, each: Stateful) -> None:
        self.name, self._each = name, each
        self._error: Exception | None = None
        try:
            self._kept = copy.deepcopy(each.state_dict())
        except Exception as error:
            self._error = error

    def restore(self) -> list[str]:
        if self._error is not None:
            raise self._error
        # The saved state is copied, because the object may keep and later change what it loads.
        if not _trees.same(self._kept, self._each.state_dict()):
            self._each.load_state_dict(copy.deepcopy(self._kept))
            if not _trees.same(self._kept, self._each.state_dict()):
                raise _native.Error("load_state_dict() does not restore what state_dict() returned")
        return []


class _Observed:
    """The variables of a function, or the attributes and elements of an object. Those that refer to state are restored,
    changes of others are only reported."""

    def __init__(self, name: str, each: Any) -> None:
        self.name, self._each = name, each
        self._elements = _elements(each)
        self._slots = [(place, holder, key, holder.get(key, _MISSING)) for place, holder, key in variables(name, each)]
        self._held = own_dict(each)

    def restore(self) -> list[str]:
        changed = []
        before = {key for _, holder, key, _ in self._slots if holder is self._held}
        new = [key for key in self._held or () if key not in before]
        added = [(f"{self.name}.{key}", self._held, key, _MISSING) for key in new]
        for place, holder, key, value in [*self._slots, *added]:
            now = holder.get(key, _MISSING)  # type: ignore[union-attr]
            if is_same(value, now):
                continue
            if _is_state(value) or _is_state(now):
                _put(holder, key, value)
            else:
                changed.append(f"'{place}' ({type(now if value is _MISSING else value).__name__})")
        return changed + self._restored_elements()

    def _restored_elements(self) -> list[str]:
        now, before = _elements(self._each), self._elements
        if not _is_changed(before, now):
            return []
        is_mapping, is_list = isinstance(before, dict), issubclass(type(self._each), list)
        if is_mapping or (is_list and len(before) == len(now)):
            pairs = before.items() if is_mapping else enumerate(before)  # type: ignore[union-attr]
            for key, value in pairs:
                if (is_list or key in now) and _is_state(value) and value is not now[key]:
                    self._each[key] = value
            now = _elements(self._each)
        values = zip(*(each.values() if is_mapping else each for each in (before, now)), strict=False)  # type: ignore[union-attr]
        if len(before) == len(now) and all(is_same(a, b) for a, b in values):
            return []
        size = f", {len(before)} to {len(now)} elements" if len(before) != len(now) else ""
        return [f"'{self.name}' ({type(self._each).__name__}{size})"]


class _Cell(dict[str, Any]):
    """A closure variable of a function, as a mapping with one key, so that it is restored like an attribute."""

    def __init__(self, cell: types.CellType) -> None:
        self._cell = cell

    def get(self, key: str, default: Any = None) -> Any:
        try:
            return self._cell.cell_contents
        except ValueError:  # the variable has no value yet
            return default

    def __contains__(self, key: object) -> bool:
        return self.get("", _MISSING) is not _MISSING

    def __setitem__(self, key: str, value: Any) -> None:
        self._cell.cell_contents = value

    def __delitem__(self, key: str) -> None:
        del self._cell.cell_contents


def variables(name: str, each: Any) -> list[tuple[str, dict[str, Any], str]]:
    """Returns the variables of a function, or the attributes of an object: the name of each, and the mapping and key
    that contain its value."""
    held = own_dict(each) or {}
    found = [(f"{name}.{key}", held, key) for key in held]
    if isinstance(each, types.FunctionType):
        cells = zip(each.__code__.co_freevars, each.__closure__ or (), strict=False)
        found += [(key, _Cell(cell), key) for key, cell in cells]
        found += [(key, holder, key) for holder, key in globals_named(each)]
    return found


def _put(holder: Any, key: str, value: Any) -> None:
    if value is not _MISSING:
        if holder.get(key, _MISSING) is not value:
            holder[key] = value
    elif key in holder:
        del holder[key]


def _elements(each: Any) -> dict[Any, Any] | list[Any]:
    """Returns the elements of a container; empty for other objects."""
    if issubclass(type(each), dict):
        # The method of dict itself, because a subclass may override items() with side effects.
        return dict(dict.items(each))
    return list(each) if issubclass(type(each), _CONTAINERS) else []


def _parts(name: str, pairs: Iterable[tuple[Any, Any]]) -> list[tuple[str, Any]]:
    """Returns the elements that may contain state, with their names."""
    return [(f"{name}[{key}]" if type(key) in (int, str) else name, value) for key, value in pairs
            if not isinstance(value, PLAIN)]  # fmt: skip


def _is_changed(before: dict[Any, Any] | list[Any], now: dict[Any, Any] | list[Any]) -> bool:
    if len(before) != len(now):
        return True
    if isinstance(before, dict) and isinstance(now, dict):
        return any(a is not b for a, b in zip(before, now, strict=True)) or _is_changed(
            list(before.values()), list(now.values())
        )
    return any(a is not b for a, b in zip(before, now, strict=True))


def is_same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if type(a) is tuple and type(b) is tuple and len(a) == len(b):
        return all(map(is_same, a, b))
    return type(a) is type(b) and isinstance(a, PLAIN) and bool(a == b)


def _is_state(each: Any) -> bool:
    return issubclass(type(each), (torch.Tensor, *STATEFUL, *_trees.array_kinds(), *generator_kinds()))


def is_searched(each: Any) -> bool:
    """Returns true if the objects that an object refers to may be state of the program of the user."""
    if issubclass(type(each), (torch.nn.Module, torch.optim.Optimizer)):
        return True
    name = type(each).__module__
    return name.partition(".")[0] not in _NO_STATE and not name.startswith("torch._")


def cloned(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a copy of a tensor: on the host if the device has not twice the memory for it, otherwise on its
    device."""
    if tensor.is_cuda and 2 * _trees.byte_size(tensor) > torch.cuda.mem_get_info(tensor.device)[0]:
        return tensor.to("cpu", copy=True)
    return tensor.clone()


def _is_same_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    # A lazy parameter has no memory yet, and other layouts have no single address that could be compared.
    if torch.nn.parameter.is_lazy(a):
        return True
    if (a.dtype, a.device, a.layout) != (b.dtype, b.device, b.layout):
        return False
    if a.layout != torch.strided or a.is_nested:
        return True
    return (a.data_ptr(), a.shape, a.stride()) == (b.data_ptr(), b.shape, b.stride())


def _try(action: Callable[[], Any], name: str, failed: list[str]) -> None:
    try:
        action()
    except Exception as error:
        failed.append(f"'{name}' ({type(error).__name__}: {error})")


def _sentence(beginning: str, names: list[str]) -> list[str]:
    if not names:
        return []
    named, more = [_IN_REGISTRIES.sub(r".\1", name) for name in dict.fromkeys(names)], ""
    if len(named) > _MOST_NAMED:
        named, more = named[:_MOST_NAMED], f" and {len(named) - _MOST_NAMED} more"
    return [f"{beginning}{', '.join(named)}{more}"]
