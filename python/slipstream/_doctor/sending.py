"""Sends objects with large tensors from a worker process of PyTorch's loader to the process that reads the loader."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any

import torch

_LARGE = 4096  # smallest number of bytes of a storage that is sent in shared memory
_STORAGE: Any = torch.storage.TypedStorage


def pack(value: Any) -> tuple[bytes, torch.Tensor]:
    """Returns the pickled value without the elements of its large tensors, and these elements in one tensor. PyTorch's
    loader sends a tensor in shared memory, and one is enough for any number of tensors, which would otherwise take a
    file descriptor each.

    A tensor that is a small part of its storage, such as a crop, is sent without the rest of the storage."""
    stream, parts = io.BytesIO(), list[torch.Tensor]()
    _Pickler(stream, parts).dump(value)
    return stream.getvalue(), torch.cat([torch.empty(0, dtype=torch.uint8), *parts])


def unpack(packed: tuple[bytes, torch.Tensor]) -> Any:
    """Returns a value that pack() packed. Its tensors are in the memory of this process."""
    text, elements = packed
    return _Unpickler(io.BytesIO(text), elements).load()


class _Pickler(pickle.Pickler):
    def __init__(self, stream: io.BytesIO, parts: list[torch.Tensor]) -> None:
        super().__init__(stream, protocol=5)
        self._parts, self._end = parts, 0

    def reducer_override(self, each: Any) -> Any:
        if isinstance(each, torch.Tensor) and _is_small_part(each):
            alone: Any = each.clone()
            return alone.__reduce_ex__(5)
        if not isinstance(each, _STORAGE):
            return NotImplemented
        storage: torch.UntypedStorage = each._untyped_storage
        if storage.device.type != "cpu" or storage.nbytes() < _LARGE:
            return NotImplemented
        first, self._end = self._end, self._end + storage.nbytes()
        self._parts.append(torch.empty(0, dtype=torch.uint8).set_(storage))
        return _Place, (first, storage.nbytes(), each.dtype)


class _Place:
    """Replaces, in a pickled value, a storage whose elements are sent separately."""

    def __init__(self, first: int, size: int, dtype: torch.dtype) -> None:
        self.first, self.size, self.dtype = first, size, dtype


class _Unpickler(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO, elements: torch.Tensor) -> None:
        super().__init__(stream)
        self._elements = elements

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == (_Place.__module__, _Place.__name__):
            make: Callable[[int, int, torch.dtype], Any] = self._storage
            return make
        return super().find_class(module, name)

    def _storage(self, first: int, size: int, dtype: torch.dtype) -> Any:
        # A separate storage, because views of one storage would be compared, copied and freed together.
        part = self._elements[first : first + size].clone()
        return _STORAGE(wrap_storage=part.untyped_storage(), dtype=dtype, _internal=True)


def _is_small_part(tensor: torch.Tensor) -> bool:
    if tensor.device.type != "cpu" or tensor.layout != torch.strided or tensor.is_quantized or tensor.requires_grad:
        return False
    return 2 * tensor.numel() * tensor.element_size() < tensor.untyped_storage().nbytes()
