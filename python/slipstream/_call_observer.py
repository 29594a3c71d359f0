"""Observes one call of a step, to find out whether a CUDA graph can do the same."""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils import _python_dispatch

from . import _cuda_graphs
from ._verify.operations import is_reading, tensors_in, written_by

_COLLECTIVES = ("c10d", "_c10d_functional", "c10d_functional")
_STATISTICS = ("running_mean", "running_var")  # some operations write them although their schemas do not show that


class CallObserver:
    """Observes a block in which the step is called.

    is_known: returns true for modules and optimizers whose changes are noticed.

    Attributes:
        objects (list): modules and optimizers that ran, existed before the block, and are not known.
        collective (str): an operation that communicates with other processes, or "".
        host_write (Write or None): a write to a tensor on the CPU that existed before the block.
        waits (dict): maps types of devices to the first line that read a number of a tensor on such a device.
    """

    def __init__(self, is_known: Callable[[Any], bool]) -> None:
        self._is_known = is_known
        self.objects: list[Any] = []
        self.collective = ""
        self.host_write: Write | None = None
        self.waits: dict[str, str] = {}
        self._thread = threading.get_ident()
        self._exit = contextlib.ExitStack()
        self._writes: dict[int, Write] = {}  # by storage
        self._read: set[int] = set()

    def __enter__(self) -> CallObserver:
        tensors, self._objects = _existing()
        # Without these references, a new storage could get the same address.
        self._storages = {key: StorageWeakRef(each.untyped_storage())  # type: ignore[no-untyped-call]
                          for key, each in _by_storage(tensors)}  # fmt: skip
        del tensors
        self._exit.callback(register_optimizer_step_pre_hook(self._note_object).remove)
        # Compiled functions are compiled again if there are hooks of all modules.
        if not _has_compiled():
            self._exit.callback(register_module_forward_pre_hook(self._note_module).remove)
        self._exit.enter_context(_Operations(self))
        return self

    def __exit__(self, *error: object) -> None:
        self._exit.close()
        self._objects = {}

    def unknown_writes(self, known: Iterable[torch.Tensor]) -> list[Write]:
        """Returns writes to tensors that existed before the block and do not share memory with `known`. Writes inside
        compiled functions are not seen."""
        keys = {key for key, _ in _by_storage(known)}
        return [write for key, write in self._writes.items() if key not in keys]

    def has_read(self, tensor: torch.Tensor) -> bool:
        """Returns true if an operation has read the memory of a tensor. Operations inside compiled functions are not
        seen."""
        return storage_key(tensor) in self._read

    def _note_module(self, module: torch.nn.Module, arguments: Any) -> None:
        if threading.get_ident() == self._thread:  # stages of a pipeline may run modules in other threads
            self._note_object(module)

    def _note_object(self, each: Any, *arguments: Any) -> None:
        if id(each) in self._objects and not self._is_known(each):
            self.objects.append(each)

    def note_operation(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if getattr(function, "namespace", None) in _COLLECTIVES:
            self.collective = str(function)
        if is_reading(function):
            self._read.update(key for key, _ in _by_storage(tensors_in((args, kwargs))))
        if function is torch.ops.aten._local_scalar_dense.default:
            self.waits.setdefault(args[0].device.type, _cuda_graphs.calling_line())
        for key, tensor in _by_storage(tensors_in(_written(function, args, kwargs))):
            if key in self._storages and key not in self._writes:
                self._writes[key] = Write(tensor, _cuda_graphs.calling_line())
                if tensor.device.type == "cpu":
                    self.host_write = self._writes[key]


class Write:
    """A write to a tensor.

    line: path, number and text of the line of the user's code, or ""."""

    def __init__(self, tensor: torch.Tensor, line: str) -> None:
        self.line = line
        self.description = f"a tensor of shape {list(tensor.shape)} on {tensor.device}"


class _Operations(_python_dispatch.TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Reports each operation. Compiled functions stay compiled."""

    supports_higher_order_operators = True

    def __init__(self, observer: CallObserver) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._observer = observer

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self._observer.note_operation(func, args, kwargs or {})
        return func(*args, **(kwargs or {}))

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


def _written(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Returns the arguments that an operation writes."""
    schema = getattr(function, "_schema", None)
    given = dict(zip([each.name for each in schema.arguments] if schema else (), args, strict=False)) | kwargs
    positions = [each for each in written_by(function) if not isinstance(each, int) or each < len(args)]
    written = [args[each] if isinstance(each, int) else kwargs.get(each) for each in positions]
    statistics = [given.get(name) for name in _STATISTICS]
    if not given.get("training", given.get("train", True)):
        return [each for each in written if not any(each is one for one in statistics)]
    return [*written, *statistics]


def _existing() -> tuple[list[torch.Tensor], dict[int, Any]]:
    """Returns all tensors of the process, and all modules and optimizers by their ids."""
    tensors, objects = [], {}
    for each in gc.get_objects():
        kind = type(each)
        if issubclass(kind, torch.Tensor):
            tensors.append(each)
        elif issubclass(kind, (torch.nn.Module, torch.optim.Optimizer)):
            objects[id(each)] = each
    return tensors, objects


def storage_key(tensor: torch.Tensor) -> int | None:
    """Returns a number that tensors share if they share memory; None for tensors without a storage."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError):  # raised for sparse tensors and some subclasses
        return None


def _by_storage(tensors: Iterable[torch.Tensor]) -> Iterator[tuple[int, torch.Tensor]]:
    for each in tensors:
        if (key := storage_key(each)) is not None:
            yield key, each


def _has_compiled() -> bool:
    """Returns true if torch.compile has compiled a function in this process."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return dynamo is not None and bool(dynamo.counters["frames"])

