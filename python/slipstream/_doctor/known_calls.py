"""Times calls of functions that read, decode or transform, and of functions that the user names.

While the doctor measures the parts of samples, these functions are replaced by ones that call them and measure the
time. Only libraries that are already imported are looked at. Nothing stays replaced afterwards.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from .._blocks import contextmanager
from .clock import running_clock

READ, DECODE, TRANSFORMS = "read", "decode", "transforms"

_FUNCTIONS = {
    READ: ("PIL.Image:open", "numpy:load", "numpy:fromfile"),
    DECODE: ("cv2:imdecode", "simplejpeg:decode_jpeg", "simplejpeg:decode_jpeg_header"),
    TRANSFORMS: ("PIL.ImageOps:autocontrast", "PIL.ImageOps:contain", "PIL.ImageOps:crop", "PIL.ImageOps:equalize",
                 "PIL.ImageOps:expand", "PIL.ImageOps:fit", "PIL.ImageOps:flip", "PIL.ImageOps:invert",
                 "PIL.ImageOps:mirror", "PIL.ImageOps:pad", "PIL.ImageOps:posterize", "PIL.ImageOps:solarize"),
}  # fmt: skip
# Functions that read a file and decode it. The time that they wait counts as reading, and their CPU time as decoding.
_READERS_THAT_DECODE = ("cv2:imread",)
# All functions of torchvision.io call these operators. The functions themselves may have been imported by any name.
_OPERATORS = {
    READ: ("read_file",),
    DECODE: ("decode_image", "decode_jpeg", "decode_png", "decode_gif", "decode_webp", "decode_avif", "decode_heic"),
}
_PIL_METHODS = ("crop", "filter", "reduce", "resize", "rotate", "thumbnail", "transform", "transpose")
_FUNCTIONAL = ("torchvision.transforms.functional", "torchvision.transforms.v2.functional")
_CLASSES = ("torchvision.transforms.transforms", "torchvision.transforms.v2")
# Beginnings of the names of functions that return a property of an image, or are no operations on images.
_QUERY_PREFIXES = ("_", "get_", "is_", "register_")
# The modules of these libraries are not searched for functions, except for those that are named above.
_LIBRARIES = frozenset({"PIL", "cv2", "numpy", "simplejpeg", "slipstream", "torch", "torchvision"})
_PLACES = [place for places in (*_FUNCTIONS.values(), _READERS_THAT_DECODE) for place in places]
_HOMES = frozenset({*(place.partition(":")[0] for place in _PLACES), *_FUNCTIONAL})

_Make = Callable[[Any], Any]  # makes the replacement of a function


def timed_call(name: str, function: Callable[..., Any], args: Any, kwargs: Any, is_users: bool = False) -> Any:
    """Calls a function and measures it as a part, unless an outer part already contains it: a part that the user named,
    a part of the same name or, for transforms, the step of a transform."""
    clock = running_clock()
    if clock is None or (not is_users and clock.is_named()) or clock.is_innermost(name):
        return function(*args, **kwargs)
    if name == TRANSFORMS and not is_users and clock.step() > 0:
        return function(*args, **kwargs)
    clock.enter(name, is_users)
    try:
        return function(*args, **kwargs)
    finally:
        clock.leave(name)


class TimedFunction:
    """Replaces a function. It is equal to the function, because torchvision uses functions as keys of a dict."""

    def __init__(self, name: str, function: Callable[..., Any], is_users: bool = False) -> None:
        self.function, self._part, self._is_users = function, name, is_users

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return timed_call(self._part, self.function, args, kwargs, self._is_users)

    def __eq__(self, other: object) -> bool:
        return other is self or other is self.function

    def __hash__(self) -> int:
        return hash(self.function)

    def __getattr__(self, name: str) -> Any:
        if name == "function":  # not set yet, while an object is copied
            raise AttributeError(name)
        return getattr(self.function, name)


def _timed_method(name: str, method: Any, is_users: bool = False) -> Any:
    """Returns a replacement of a function that is an attribute of a class."""
    if isinstance(method, staticmethod | classmethod):
        return type(method)(_timed_method(name, method.__func__, is_users))

    @functools.wraps(method)
    def timed(*args: Any, **kwargs: Any) -> Any:
        return timed_call(name, method, args, kwargs, is_users)

    return timed


def _reading_and_decoding(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def timed(*args: Any, **kwargs: Any) -> Any:
        clock = running_clock()
        if clock is None or clock.is_named():
            return function(*args, **kwargs)
        clock.enter(DECODE)
        try:
            return function(*args, **kwargs)
        finally:
            clock.move_waiting(DECODE, READ, *clock.leave(DECODE))

    return timed


class _TimedDecoder:
    """A decoder of PIL that measures decode()."""

    def __init__(self, decoder: Any) -> None:
        self._decoder = decoder

    def decode(self, *args: Any) -> Any:
        return timed_call(DECODE, self._decoder.decode, args, {})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._decoder, name)


def _timed_load(name: str, load: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a replacement of the method load() of PIL's images, which does nothing for an image that is loaded."""

    @functools.wraps(load)
    def timed(image: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(image, "tile", None):
            return timed_call(name, load, (image, *args), kwargs)
        return load(image, *args, **kwargs)

    return timed


class KnownCalls:
    """Replaces functions in this process by ones that measure time, and restores them.

    users: names and functions that the user gave.
    classes: classes in which functions of the user may be attributes.
    """

    def __init__(self, users: Sequence[tuple[str, Callable[..., Any]]] = (), classes: Sequence[type] = ()) -> None:
        self._users, self._classes = list(users), list(classes)
        self._homes = _HOMES | {getattr(function, "__module__", None) for _, function in users}
        self._replaced: list[tuple[Any, str, Any, Any]] = []  # holder, attribute, its value before, the replacement
        self._modules = 0  # number of imported modules when functions were last replaced
        self.is_active = False

    @contextmanager
    def replaced(self) -> Iterator[None]:
        """Replaces the functions in the block."""
        try:
            self.update()
            yield
        finally:
            self.restore()

    def update(self) -> None:
        """Replaces the functions. A later call has an effect only if modules were imported since the last call."""
        if len(sys.modules) == self._modules:
            return
        self._modules, self.is_active = len(sys.modules), True
        known = {id(function): (function, make) for function, make in self._functions()}
        for module, name, (function, make) in _names_in_modules(known, self._homes):
            self._put(module, name, function, make(function))
        for holder, name, make in [*_library_methods(), *self._user_methods()]:
            self._put(holder, name, vars(holder)[name], make(vars(holder)[name]))

    def restore(self) -> None:
        """Restores all functions, also in modules that were imported meanwhile."""
        made = {id(new): (before, None) for _, _, before, new in self._replaced}
        for module, name, (before, _) in _names_in_modules(made, self._homes):
            setattr(module, name, before)
        for holder, name, before, new in reversed(self._replaced):
            if vars(holder).get(name) is new:
                setattr(holder, name, before)
        self._replaced, self._modules, self.is_active = [], 0, False

    def _put(self, holder: Any, name: str, before: Any, new: Any) -> None:
        if any(before is made for *_, made in self._replaced):
            return  # replaced by an earlier call
        setattr(holder, name, new)
        self._replaced.append((holder, name, before, new))

    def _functions(self) -> Iterator[tuple[Callable[..., Any], _Make]]:
        for part, places in _FUNCTIONS.items():
            for function in _found(places):
                yield function, functools.partial(TimedFunction, part)
        for function in _found(_READERS_THAT_DECODE):
            yield function, _reading_and_decoding
        for module in filter(None, map(sys.modules.get, _FUNCTIONAL)):
            for name, function in vars(module).items():
                if inspect.isfunction(function) and not name.startswith(_QUERY_PREFIXES):
                    yield function, functools.partial(TimedFunction, TRANSFORMS)
        for name, function in self._users:
            yield function, functools.partial(TimedFunction, name, is_users=True)

    def _user_methods(self) -> Iterator[tuple[Any, str, _Make]]:
        for name, function in self._users:
            for holder, attribute in methods(function, self._classes):
                yield holder, attribute, functools.partial(_timed_method, name, is_users=True)


def is_replaceable(function: Callable[..., Any], classes: Sequence[type]) -> bool:
    """Returns true if the function can be replaced: it is a global variable of a module or an attribute of a class."""
    home = frozenset({getattr(function, "__module__", None)})
    names = _names_in_modules({id(function): (function, None)}, home)
    return bool(methods(function, classes)) or next(names, None) is not None


def methods(function: Callable[..., Any], classes: Iterable[type]) -> list[tuple[type, str]]:
    """Returns the classes that have the function as an attribute, and its name there. Searches `classes`, their bases
    and the class in which the function was defined."""
    searched = [base for each in classes for base in each.__mro__]
    owner: Any = sys.modules.get(getattr(function, "__module__", None) or "")
    for name in getattr(function, "__qualname__", "").split(".")[:-1]:
        owner = getattr(owner, name, None)
    if isinstance(owner, type):
        searched.append(owner)
    return [
        (holder, name)
        for holder in dict.fromkeys(searched)
        for name, each in vars(holder).items()
        if each is function or getattr(each, "__func__", None) is function
    ]


def _found(places: Iterable[str]) -> Iterator[Callable[..., Any]]:
    for module, _, name in (place.partition(":") for place in places):
        function = getattr(sys.modules.get(module), name, None)
        if callable(function) and not isinstance(function, TimedFunction):
            yield function


def _names_in_modules(
    known: dict[int, tuple[Any, Any]], homes: frozenset[str | None]
) -> Iterator[tuple[Any, str, tuple[Any, Any]]]:
    """Yields the global variables that have one of the values, by id(), of `known`: module, name and entry of `known`.
    Searches the modules `homes`, and all that belong to no library."""
    for module_name, module in list(sys.modules.items()):
        top = module_name.partition(".")[0]
        is_library = top in _LIBRARIES or top in sys.stdlib_module_names
        if not isinstance(module, types.ModuleType) or (is_library and top != "__main__" and module_name not in homes):
            continue
        for name, value in list(vars(module).items()):
            entry = known.get(id(value))
            if entry is not None:
                yield module, name, entry


def _library_methods() -> Iterator[tuple[Any, str, _Make]]:
    """Yields attributes of classes and other objects of the libraries: holder, name, and what makes the replacement."""
    operators = torch.ops.image if "torchvision.io" in sys.modules else None
    for part, names in _OPERATORS.items():
        for name in names:
            if operators is not None and hasattr(operators, name):
                yield operators, name, functools.partial(TimedFunction, part)
    for module in filter(None, map(sys.modules.get, _CLASSES)):
        for each in dict.fromkeys(each for each in vars(module).values() if isinstance(each, type)):
            for name in ("__call__", "forward"):
                if name in vars(each) and each.__module__.startswith("torchvision.transforms"):
                    yield each, name, functools.partial(_timed_method, TRANSFORMS)
    if "PIL.Image" in sys.modules:
        yield from _pil_methods(sys.modules["PIL.Image"])


def _pil_methods(pil: Any) -> Iterator[tuple[Any, str, _Make]]:
    for name in _PIL_METHODS:
        if name in vars(pil.Image):
            yield pil.Image, name, functools.partial(_timed_method, TRANSFORMS)
    base = getattr(sys.modules.get("PIL.ImageFile"), "ImageFile", None)
    # load() of an image file reads bytes and passes them to a decoder, so the rest of its time is that of reading. The
    # classes of some formats replace load() by a method that decodes.
    if base is not None and hasattr(pil, "_getdecoder"):
        yield base, "load", functools.partial(_timed_load, READ)
        yield pil, "_getdecoder", lambda get: functools.wraps(get)(lambda *args: _TimedDecoder(get(*args)))
    for each in _subclasses(base) if base is not None else ():
        if "load" in vars(each):
            yield each, "load", functools.partial(_timed_load, DECODE)


def _subclasses(base: type) -> list[type]:
    found: list[type] = []
    children: list[type] = type.__subclasses__(base)
    for child in children:
        found += [child, *_subclasses(child)]
    return found
