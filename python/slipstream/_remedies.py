"""Remedies for errors that the code of users raises, as notes on these errors."""

from __future__ import annotations

import re
from typing import Any

import torch

from ._signals import add_note
from ._trees import leaves

_NAMES_BYTES = re.compile(r"\b(Byte|ByteTensor|unsigned char|uint8)\b")
_NAMES_LABELS = re.compile(r"\b(Long|LongTensor|long|int64)\b")  # that is about class numbers


def add_remedy(error: BaseException, values: Any) -> None:
    """Adds a note where a model refuses the uint8 images that `values`, its input, hold."""
    image = _bytes_image(error, values)
    if image is None:
        return
    shape = " x ".join(map(str, image.shape))
    add_note(
        error,
        f"the input holds images of uint8 ({shape}), from 0 to 255, but a model with floating-point weights takes "
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
    except Exception:  # raised by methods of the user's classes
        return None
    if any(each.is_floating_point() for each in found):  # those are the images, and uint8 ones are masks
        return None
    return max((each for each in found if each.dtype == torch.uint8), key=torch.Tensor.dim, default=None)
