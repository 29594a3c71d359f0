"""Adds remedies, as notes, to errors that the user's code raises."""

from __future__ import annotations

import re
from typing import Any

import torch

from ._signals import add_note
from ._trees import leaves

_NAMES_BYTES = re.compile(r"\b(Byte|ByteTensor|unsigned char|uint8)\b")
_NAMES_LABELS = re.compile(r"\b(Long|LongTensor|long|int64)\b")  # such an error is about class numbers, not images


def add_remedy(error: BaseException, values: Any) -> None:
    """Adds a note if the error says that a model does not accept uint8, and its input `values` has uint8 images."""
    image = _bytes_image(error, values)
    if image is None:
        return
    shape = " x ".join(map(str, image.shape))
    add_note(
        error,
        f"the input contains uint8 images ({shape}), from 0 to 255, but a model with floating-point weights needs "
        "floating-point numbers. Remedy: convert them in the last transform of the data set, "
        "slipstream.transforms.ToDtype(torch.float32, scale=True), or in a stage of a slipstream.Pipeline, "
        "slipstream.Stage('to float', lambda images: images.float() / 255)",
    )


def _bytes_image(error: BaseException, values: Any) -> torch.Tensor | None:
    if not isinstance(error, RuntimeError | TypeError):
        return None
    try:
        text = str(error)
        if not _NAMES_BYTES.search(text) or _NAMES_LABELS.search(text):
            return None
        found = [each for each in leaves(values) if isinstance(each, torch.Tensor) and each.dim() >= 3]
    except Exception:  # methods of the user's classes may raise anything; the original error matters more
        return None
    if any(each.is_floating_point() for each in found):  # then these are the images, and uint8 tensors are masks
        return None
    return max((each for each in found if each.dtype == torch.uint8), key=torch.Tensor.dim, default=None)
