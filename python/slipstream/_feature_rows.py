"""Takes batches apart into rows, one row of each tensor for each sample, and puts them together again."""

from __future__ import annotations

import copy
import dataclasses
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from . import _native
from ._trees import mapped, parts

_WORDS = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.uint8}
SCALED = torch.float8_e4m3fn  # rows of this dtype are stored with a scale
_SCALE_BYTES = 4
_CONSTANT = (str, bytes, int, float, bool, type(None))
Rows = torch.Tensor | list[Any]  # samples x words, or one Python object for each sample


class _Marker:
    """The position of a leaf in a template."""

    def __init__(self, number: int) -> None:
        self.number = number


@dataclasses.dataclass(frozen=True)
class RowLayout:
    """How the rows of a tensor are stored: as integers of the largest size that divides a row, in the order of the
    tensor's memory. Gathering integers of 8 bytes uses the memory's bandwidth better than gathering single bytes."""

    shape: tuple[int, ...]  # without the batch dimension
    dtype: torch.dtype
    strides: tuple[int, ...]
    stored: torch.dtype  # dtype in the cache; rows of float8_e4m3fn end with a scale, a float32 value

    @property
    def is_scaled(self) -> bool:
        return self.stored == SCALED and self.dtype != SCALED

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.elements * self.stored.itemsize + (_SCALE_BYTES if self.is_scaled else 0)

    @property
    def word(self) -> torch.dtype:
        return _WORDS[next(size for size in _WORDS if self.bytes % size == 0)]

    @property
    def words(self) -> int:
        return self.bytes // self.word.itemsize

    def to_rows(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns samples x words. The result may share memory with `tensor`."""
        count = tensor.shape[0]
        if self.elements == 0:
            return torch.empty((count, 0), dtype=self.word, device=tensor.device)
        is_laid_out = tuple(tensor.stride()[1:]) == self.strides and (count == 1 or tensor.stride(0) == self.elements)
        if not is_laid_out or tensor.data_ptr() % self.word.itemsize != 0:
            laid_out = torch.empty_strided(
                (count, *self.shape), (self.elements, *self.strides), dtype=tensor.dtype, device=tensor.device
            )
            tensor = laid_out.copy_(tensor)
        flat = tensor.as_strided((count, self.elements), (self.elements, 1))
        return (_scaled_rows(flat) if self.is_scaled else flat.to(self.stored)).view(self.word)

    def has_nan(self, rows: torch.Tensor) -> torch.Tensor | None:
        """Returns for each row whether it contains NaN; None if the dtype has no such value."""
        if not self.dtype.is_floating_point or self.elements == 0:
            return None
        return torch.isnan(self._values(rows)).any(dim=1)

    def _values(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns the elements of each row, in the order of the tensor's memory."""
        if not self.is_scaled:
            return rows.view(self.stored).to(self.dtype)
        elements, scales = rows.view(torch.uint8).split_with_sizes((self.elements, _SCALE_BYTES), dim=1)
        values = elements.contiguous().view(SCALED).float() * scales.contiguous().view(torch.float32)
        return values.to(self.dtype)

    def to_record(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns rows whose elements are in the order of the shape, as other programs expect them."""
        if self.strides == _contiguous_strides(self.shape) or self.elements == 0:
            return rows
        count, size = len(rows), self.elements * self.stored.itemsize
        elements, scales = rows.view(torch.uint8).split_with_sizes((size, self.bytes - size), dim=1)
        tensor = elements.contiguous().view(self.stored)
        tensor = tensor.as_strided((count, *self.shape), (self.elements, *self.strides)).contiguous()
        return torch.cat([tensor.view(count, self.elements).view(torch.uint8), scales], dim=1).view(self.word)

    def from_record(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns rows in the order of the tensor's memory."""
        if self.strides == _contiguous_strides(self.shape) or self.elements == 0:
            return rows
        count, size = len(rows), self.elements * self.stored.itemsize
        elements, scales = rows.view(torch.uint8).split_with_sizes((size, self.bytes - size), dim=1)
        tensor = torch.empty_strided(
            (count, *self.shape), (self.elements, *self.strides), dtype=self.stored, device=rows.device
        )
        tensor.copy_(elements.contiguous().view(self.stored).view(count, *self.shape))
        flat = tensor.as_strided((count, self.elements), (self.elements, 1)).view(torch.uint8)
        return torch.cat([flat, scales], dim=1).view(self.word)

    def to_tensor(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns the tensor whose rows are the elements of `rows`."""
        count = rows.shape[0]
        if self.elements == 0:
            return torch.empty((count, *self.shape), dtype=self.dtype, device=rows.device)
        flat = self._values(rows)
        return flat.as_strided((count, *self.shape), (self.elements, *self.strides))


def _scaled_rows(flat: torch.Tensor) -> torch.Tensor:
    """Returns rows of float8_e4m3fn, each with the scale by which its elements have to be multiplied, as bytes."""
    values = flat.float()
    largest = values.abs().nan_to_num(posinf=0).amax(dim=1, keepdim=True)
    scales = torch.where(largest > 0, largest / torch.finfo(SCALED).max, torch.ones_like(largest))
    return torch.cat([(values / scales).to(SCALED).view(torch.uint8), scales.view(torch.uint8)], dim=1)


class BatchForm:
    """The structure of the batches that a cached stage returns, learned from the first one.

    stage: name of the stage, for messages.
    size: number of samples in this batch.
    unchanged: leaves of the stage's input. Those that are also in its output are not features.
    dtype: dtype in which features are stored; None: unchanged.
    device: device of the pipeline."""

    def __init__(
        self, stage: str, batch: Any, size: int, unchanged: Sequence[Any], dtype: torch.dtype | None, device: str
    ) -> None:
        self._stage, self._device = stage, torch.device(device)
        found: list[Any] = []
        self._template = mapped(batch, lambda leaf: _mark(found, leaf), lambda tree: are_objects(tree, size))
        self._names = list(_names(self._template, ""))
        known = {id(each) for each in unchanged}
        self.layouts: list[RowLayout | None] = []  # None: Python objects
        self._kinds = [type(leaf) for leaf in found]
        for leaf in found:
            self._refuse(leaf, size)
            stored = None if id(leaf) in known else dtype
            self.layouts.append(None if not isinstance(leaf, torch.Tensor) else _layout(leaf, stored))

    @property
    def row_bytes(self) -> int:
        """Bytes of one sample, without Python objects."""
        return sum(layout.bytes for layout in self.layouts if layout is not None)

    def _refuse(self, leaf: Any, size: int) -> None:
        if isinstance(leaf, torch.Tensor):
            if leaf.layout != torch.strided or leaf.is_nested or leaf.is_quantized:
                raise _native.Error(
                    f"stage '{self._stage}' has a cache, but its batch contains a sparse, nested or quantized tensor: "
                    "convert it to a dense tensor in the stage, or leave it out of the batch"
                )
            if leaf.device != self._device:
                raise _native.Error(
                    f"stage '{self._stage}' has a cache, but its batch contains a tensor on {leaf.device}, and the "
                    f"pipeline runs on {self._device}: move it to that device in the stage"
                )
            if leaf.dim() == 0 or leaf.shape[0] != size:
                raise _native.Error(
                    f"stage '{self._stage}' has a cache, but its batch of {size} samples contains a tensor of shape "
                    f"{tuple(leaf.shape)}: only tensors whose first dimension is the batch can be cached. Return one "
                    "row for each sample, or leave the tensor out of the batch"
                )
        elif not are_objects(leaf, size):
            raise _native.Error(
                f"stage '{self._stage}' has a cache, but its batch contains an object of type {type(leaf).__name__}, "
                "which has no part for each sample: leave it out of the batch in collate_fn, or give a list or tuple "
                "with one element for each sample"
            )

    def rows(self, batch: Any, size: int) -> list[Rows]:
        """Returns the rows of each leaf of a batch with `size` samples. Raises Error if its structure or the shape of
        a row differs from that of the first batch."""
        found: list[Any] = []
        marked = mapped(batch, lambda leaf: _mark(found, leaf), lambda tree: are_objects(tree, size))
        names = list(_names(marked, ""))
        if sorted(names) != sorted(self._names) or len({*names}) != len({*self._names}):
            raise self._differs(f"has the values {', '.join(names)}, not {', '.join(self._names)}")
        if names != self._names:  # a mapping with its keys in another order
            found = [found[names.index(name)] for name in self._names]
        made: list[Rows] = []
        for leaf, layout in zip(found, self.layouts, strict=True):
            self._refuse(leaf, size)
            if layout is None or not isinstance(leaf, torch.Tensor):
                if (layout is None) == isinstance(leaf, torch.Tensor):
                    raise self._differs("has values of other types")
                made.append(_copied(leaf))
                continue
            if tuple(leaf.shape[1:]) != layout.shape or leaf.dtype != layout.dtype:
                raise self._differs(
                    f"contains rows of shape {tuple(leaf.shape[1:])} and dtype {leaf.dtype}, not {layout.shape} and "
                    f"{layout.dtype}"
                )
            made.append(layout.to_rows(_plain(leaf)))
        return made

    def _differs(self, how: str) -> _native.Error:
        return _native.Error(
            f"stage '{self._stage}' has a cache, but a batch {how} as in the first batch. All samples need rows of the "
            "same shape: pad them to one shape, for example in collate_fn, or leave out the cache"
        )

    def batch(self, rows: Sequence[Rows]) -> Any:
        """Returns the batch with these rows."""
        values: list[Any] = []
        for each, layout, kind in zip(rows, self.layouts, self._kinds, strict=True):
            if isinstance(each, torch.Tensor):
                assert layout is not None
                values.append(layout.to_tensor(each))
            else:
                values.append(tuple(_copied(each)) if issubclass(kind, tuple) else _copied(each))
        return mapped(self._template, lambda marker: values[marker.number])

    def description(self) -> list[dict[str, Any]]:
        """Returns the name, dtype and shape of the rows of each tensor. The name is the key or the index of the tensor
        in the batch, such as "0" or "image.mask"."""
        fields: list[dict[str, Any]] = []
        for name, layout in zip(self._names, self.layouts, strict=True):
            if layout is not None:
                if any(field["name"] == name for field in fields):
                    name = f"{name}.{len(fields)}"
                dtype = str(layout.stored).removeprefix("torch.")
                fields.append({"name": name, "dtype": dtype, "shape": list(layout.shape)})
                if layout.is_scaled:
                    fields.append({"name": f"{name}.scale", "dtype": "float32", "shape": []})
        return fields


def named_leaves(batch: Any, size: int) -> Iterator[tuple[str, Any]]:
    """Yields the leaves of a batch with `size` samples and their names. A list of Python objects is one leaf."""
    found: list[Any] = []
    template = mapped(batch, lambda leaf: _mark(found, leaf), lambda tree: are_objects(tree, size))
    return zip(_names(template, ""), found, strict=True)


def _names(template: Any, prefix: str) -> Iterator[str]:
    """Yields a name for each leaf of a template, of letters, digits, "_", "-" and "."."""
    if isinstance(template, _Marker):
        yield re.sub(r"[^A-Za-z0-9_.-]", "_", prefix) or "batch"
        return
    if isinstance(template, Mapping):
        inner = list(template.items())
    elif isinstance(template, list | tuple):
        inner = list(zip(getattr(template, "_fields", range(len(template))), template, strict=True))
    else:
        inner = [(each.name, getattr(template, each.name)) for each in dataclasses.fields(template)]
    for key, part in inner:
        yield from _names(part, f"{prefix}.{key}" if prefix else str(key))


def are_objects(tree: Any, size: int) -> bool:
    """Returns true for a list or tuple that has one Python object, such as a file name, for each sample."""
    return type(tree) in (list, tuple) and len(tree) == size and all(map(_is_object, tree))


def _copied(objects: Sequence[Any]) -> list[Any]:
    """Returns copies of Python objects, because the loop body may change those of its batch."""
    return [each if type(each) in _CONSTANT else copy.deepcopy(each) for each in objects]


def _is_object(value: Any) -> bool:
    return not isinstance(value, torch.Tensor | Mapping) and parts(value) is None


def pad(batch: Any, begin: int, end: int, count: int, size: int) -> Any:
    """Returns the samples from `begin` to `end` of a batch of `count` samples, repeated until there are `size`."""
    missing = size - (end - begin)

    def padded(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            if leaf.dim() == 0 or leaf.shape[0] != count:
                return leaf  # refused if it is still in the batch after the stage
            part = leaf if end - begin == count else leaf[begin:end]
            return part if missing == 0 else _repeat(part, missing)
        if are_objects(leaf, count):
            return type(leaf)([*leaf[begin:end], *[leaf[begin]] * missing])
        return leaf

    if missing == 0 and count == end - begin:
        return batch
    return mapped(batch, padded, lambda tree: are_objects(tree, count))


def _repeat(part: torch.Tensor, missing: int) -> torch.Tensor:
    """Appends copies of the first row. The memory format stays the same, because kernels depend on it."""
    size, shape = part.shape[0] + missing, tuple(part.shape[1:])
    strides = part.stride()[1:] if _is_dense(part) else _contiguous_strides(shape)
    made = torch.empty_strided((size, *shape), (math.prod(shape), *strides), dtype=part.dtype, device=part.device)
    made[: part.shape[0]].copy_(part)
    made[part.shape[0] :].copy_(part[:1].expand(missing, *shape))
    return made


def _contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(torch.empty(shape, device="meta").stride())


def _is_dense(tensor: torch.Tensor) -> bool:
    """Returns true if each row occupies one block of memory, in any order of its dimensions."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride()[1:], tensor.shape[1:], strict=True)):
        if size == 1:
            continue
        if stride != expected:
            return False
        expected *= size
    return True


def _layout(tensor: torch.Tensor, stored: torch.dtype | None) -> RowLayout:
    shape = tuple(tensor.shape[1:])
    strides = tuple(tensor.stride()[1:]) if _is_dense(tensor) else _contiguous_strides(shape)
    is_narrowed = stored is not None and tensor.is_floating_point()
    return RowLayout(shape, tensor.dtype, strides, stored if is_narrowed and stored is not None else tensor.dtype)


def _mark(found: list[Any], leaf: Any) -> _Marker:
    found.append(leaf)
    return _Marker(len(found) - 1)


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the values as a tensor that is of no subclass and has no pending conjugation or negation."""
    return tensor.as_subclass(torch.Tensor).resolve_conj().resolve_neg()
