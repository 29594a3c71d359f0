"""Which tensors the operations of PyTorch read and write, according to their schemas."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import _python_dispatch

from .._trees import leaves

COPIES = ("copy_", "_to_copy", "_copy_from", "_copy_from_and_resize", "_foreach_copy_")
_OVERWRITES = {
    "bernoulli_", "cauchy_", "copy_", "exponential_", "fill_", "geometric_", "log_normal_", "normal_",
    "random_", "resize_", "resize_as_", "set_", "uniform_", "zero_", "_foreach_copy_", "_foreach_zero_",
}  # fmt: skip


def base_name(function: Any) -> str:
    schema = getattr(function, "_schema", None)
    return schema.name.split("::")[-1] if schema else str(function)


def tensors_in(values: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in leaves(values) if isinstance(leaf, torch.Tensor))


@functools.cache
def written_by(function: Any) -> frozenset[int | str]:
    """Returns the arguments that an operation writes: positions, and names for keyword-only arguments."""
    schema = getattr(function, "_schema", None)
    found: set[int | str] = set()
    for position, argument in enumerate(schema.arguments if schema else ()):
        if argument.alias_info is not None and argument.alias_info.is_write:
            found.add(argument.name if argument.kwarg_only else position)
    return frozenset(found)


@functools.cache
def is_reading(function: Any) -> bool:
    """Returns true if an operation accesses the content of tensors. Views do not, and neither do operations that only
    query or mark memory."""
    schema = getattr(function, "_schema", None)
    aliases = [each.alias_info for each in schema.returns] if schema else []
    is_view = any(each is not None and not each.is_write for each in aliases)
    return not is_view and base_name(function) not in ("record_stream", "is_pinned")


def has_bytes(tensor: torch.Tensor) -> bool:
    return (
        not tensor.is_nested
        and tensor.layout == torch.strided
        and tensor.device.type in ("cpu", "cuda")
        and not tensor.is_quantized
        and tensor.dtype.itemsize in (1, 2, 4, 8, 16)
        and not _python_dispatch.is_traceable_wrapper_subclass(tensor)
    )


def is_overwriting(function: Any) -> bool:
    """Returns true if an operation overwrites the tensors that it writes, without reading them."""
    return base_name(function) in _OVERWRITES
