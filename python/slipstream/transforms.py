"""Transforms under torchvision's names (torchvision.transforms.v2), done natively.

The native loader does them on its threads, sample by sample. Called with a batch, they do it there, on
a GPU in few kernels. Semantics that differ from torchvision's on purpose are in docs/transforms.md.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import torch

from . import _native

Size = int | Sequence[int]
Range = float | Sequence[float]


class Transform:
    """One operation, by its name and keys in a file of transforms."""

    _steps: list[dict[str, Any]]
    _done_by: _native.TensorTransform | None = None

    def __init__(self, op: str, **keys: Any) -> None:
        self._steps = [{"op": op} | {key: value for key, value in keys.items() if value is not None}]
        _native.parse_chain(_json(self._steps))  # refuses what makes no sense

    def __call__(
        self,
        images: torch.Tensor,
        sample_ids: torch.Tensor | Sequence[int] | None = None,
        epoch: int = 0,
        seed: int = 0,
    ) -> torch.Tensor:
        """The transformed images: batch x channels x height x width, channels-last.

        images: batch x channels x height x width, uint8 or float32, on a CPU or on a GPU, where
            kernels are enqueued on the current stream; the host does not wait. The first call for
            a shape compiles kernels, which takes a second or so.
        sample_ids: the number of each sample, on the host. What is random depends on it, `epoch`
            and `seed` alone: the bits are those of slipstream.DataLoader for these.
        """
        if self._done_by is None:
            self._done_by = _native.TensorTransform(_json(self._steps))
        if sample_ids is None:
            if self._done_by.is_random():
                raise _native.Refused(
                    "random transforms need sample_ids, the number of each sample: what they draw "
                    "depends on it, and not on the batch it is in"
                )
            sample_ids = range(len(images))
        numbers = sample_ids.tolist() if isinstance(sample_ids, torch.Tensor) else list(sample_ids)
        return self._done_by(images, numbers, seed, epoch)

    def __getstate__(self) -> dict[str, Any]:
        return {"_steps": self._steps}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(json.dumps(step) for step in self._steps)})"


class Compose(Transform):
    """Transforms one after the other."""

    def __init__(self, transforms: Sequence[Transform]) -> None:
        for each in transforms:
            if not isinstance(each, Transform):
                raise _native.Refused(
                    f"{type(each).__name__} is no transform of slipstream.transforms: one written in "
                    "Python belongs into a data set of PyTorch's DataLoader"
                )
        self._steps = [step for each in transforms for step in each._steps]
        _native.parse_chain(_json(self._steps))

    @classmethod
    def of(cls, transform: Transform | None) -> Compose:
        return cls([] if transform is None else [transform])

    def to_json(self) -> str:
        """A file of transforms, as `slipstream train --transforms` takes it; "" for none."""
        return _native.parse_chain(_json(self._steps)) if self._steps else ""


def _json(steps: list[dict[str, Any]]) -> str:
    numbered = [{"name": f"{step['op']}_{index}"} | step for index, step in enumerate(steps)]
    return json.dumps({"version": 1, "transforms": numbered})


class Resize(Transform):
    def __init__(self, size: Size, antialias: bool = True) -> None:
        super().__init__("resize", size=size, antialias=antialias)


class CenterCrop(Transform):
    def __init__(self, size: Size) -> None:
        super().__init__("center_crop", size=size)


class RandomCrop(Transform):
    def __init__(self, size: Size, padding: int = 0) -> None:
        super().__init__("random_crop", size=size, padding=padding)


class RandomResizedCrop(Transform):
    def __init__(
        self,
        size: Size,
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3 / 4, 4 / 3),
        antialias: bool = True,
    ) -> None:
        super().__init__(
            "random_resized_crop", size=size, scale=scale, ratio=ratio, antialias=antialias
        )


class RandomHorizontalFlip(Transform):
    def __init__(self, p: float = 0.5) -> None:
        super().__init__("random_horizontal_flip", p=p)


class RandomVerticalFlip(Transform):
    def __init__(self, p: float = 0.5) -> None:
        super().__init__("random_vertical_flip", p=p)


class RandomRotation(Transform):
    def __init__(self, degrees: Range, interpolation: str = "nearest", fill: float = 0) -> None:
        super().__init__("random_rotation", degrees=degrees, interpolation=interpolation, fill=fill)


class RandomAffine(Transform):
    def __init__(
        self,
        degrees: Range,
        translate: Sequence[float] | None = None,
        scale: Sequence[float] | None = None,
        shear: Range | None = None,
        interpolation: str = "nearest",
        fill: float = 0,
    ) -> None:
        super().__init__(
            "random_affine",
            degrees=degrees,
            translate=translate,
            scale=scale,
            shear=shear,
            interpolation=interpolation,
            fill=fill,
        )


class GaussianBlur(Transform):
    def __init__(self, kernel_size: Size, sigma: Range = (0.1, 2.0)) -> None:
        super().__init__("gaussian_blur", kernel_size=kernel_size, sigma=sigma)


class ColorJitter(Transform):
    def __init__(
        self,
        brightness: Range | None = None,
        contrast: Range | None = None,
        saturation: Range | None = None,
        hue: Range | None = None,
    ) -> None:
        super().__init__(
            "color_jitter", brightness=brightness, contrast=contrast, saturation=saturation, hue=hue
        )


class Grayscale(Transform):
    def __init__(self, num_output_channels: int = 3) -> None:
        super().__init__("grayscale", num_output_channels=num_output_channels)


class RandomGrayscale(Transform):
    def __init__(self, p: float = 0.1) -> None:
        super().__init__("random_grayscale", p=p)


class RandomErasing(Transform):
    def __init__(
        self,
        p: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: float = 0,
    ) -> None:
        super().__init__("random_erasing", p=p, scale=scale, ratio=ratio, value=value)


class Normalize(Transform):
    """(value - mean) / std, as float32; uint8 images are divided by 255 first."""

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__("normalize", mean=mean, std=std)


class ToDtype(Transform):
    """To float32, from 0 to 1 with `scale`."""

    def __init__(self, dtype: str = "float32", scale: bool = False) -> None:
        super().__init__("to_dtype", dtype=str(dtype).removeprefix("torch."), scale=scale)
