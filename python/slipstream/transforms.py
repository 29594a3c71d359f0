"""Transforms under torchvision's names (torchvision.transforms.v2), done natively.

The native loader does them on its threads, sample by sample. Called with a batch, they do it there, on
a GPU in few kernels. Semantics that differ from torchvision's on purpose are in docs/transforms.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from . import _native
from ._checks import EPOCHS, SEEDS, Array, Indices, check, shortened, whole_numbers
from ._steps import (
    Function,
    Step,
    checked_function,
    checked_num_classes,
    steps_to_json,
    plain,
    refuse_after_batch,
    refuse_over_batch,
)
from ._worker_process import display_name

Size = int | Sequence[int]
Range = float | Sequence[float]
Numbers = Sequence[float] | Array


class Transform:
    """One operation, by its name and keys in a file of transforms."""

    _steps: list[Step]
    _parsed: _native.TransformChain | None = None

    def __init__(self, op: str, **keys: Any) -> None:
        given = {key: plain(key, value) for key, value in keys.items() if value is not None}
        step = {"op": op} | given
        self._steps = [step]
        self._native_chain()  # refuses what makes no sense

    def __call__(
        self,
        images: torch.Tensor,
        sample_ids: Indices | None = None,
        epoch: int = 0,
        seed: int = 0,
    ) -> torch.Tensor:
        """The transformed images: batch x channels x height x width, channels-last.

        images: batch x channels x height x width, uint8 or float32, on a CPU or on a GPU, where
            kernels are enqueued on the current stream; the host does not wait. The first call for
            a shape compiles kernels, which takes a second or so.
        sample_ids: the number of each sample, on the host. What is random depends on it, `epoch`
            and `seed` alone: the bits are those of slipstream.DataLoader for these.

        Gradients do not flow through it. Raises Refused for images that it does not take, those that
        require gradients among them, for what is random without sample_ids, and for
        MixUp, CutMix and OneHot, which change labels too.

        >>> images = torch.zeros(2, 3, 40, 60, dtype=torch.uint8)
        >>> crop = ss.transforms.RandomResizedCrop(32)
        >>> crop(images, sample_ids=[7, 8], epoch=1).shape
        torch.Size([2, 3, 32, 32])
        """
        refuse_over_batch(self._steps)
        self._refuse_images(images)
        if not all(isinstance(step, dict) for step in self._steps):
            raise _native.Refused(
                "functions in Python are done sample by sample, by slipstream.DataLoader: give the chain "
                "to a data set, or call its parts one after the other"
            )
        chain = self._native_chain()
        if sample_ids is None:
            if chain.is_random():
                raise _native.Refused(
                    "random transforms need sample_ids, the number of each sample: what they draw "
                    "depends on it, and not on the batch it is in. For example: transform(images, "
                    "sample_ids=range(len(images)), epoch=epoch)"
                )
            sample_ids = range(len(images))
        check(epoch=(epoch, 0, EPOCHS - 1), seed=(seed, 0, SEEDS - 1))
        return chain(images, whole_numbers("sample_ids", sample_ids), seed, epoch)

    def _native_chain(self) -> _native.TransformChain:
        """The native steps, parsed once."""
        if self._parsed is None:
            self._parsed = _native.TransformChain(
                steps_to_json([step for step in self._steps if isinstance(step, dict)])
            )
        return self._parsed

    def _refuse_images(self, images: Any) -> None:
        if isinstance(images, torch.Tensor) and images.dim() == 4:
            if images.requires_grad and torch.is_grad_enabled():
                raise _native.Refused(
                    f"{type(self).__name__} was called with images that require gradients, which do not flow "
                    "through it: give images.detach()"
                )
            return
        given = type(images).__name__
        if isinstance(images, torch.Tensor):
            given = f"a tensor of {' x '.join(map(str, images.shape)) or 'one value'}"
        raise _native.Refused(
            f"{type(self).__name__} was called with {given}, but takes a batch: a tensor of batch x channels "
            "x height x width, uint8 or float32. For one image: "
            "transform(image[None], sample_ids=[index], epoch=epoch)[0]. "
            "Images of a data set in Python: slipstream.PythonDataset(dataset, transform)"
        )

    def __getstate__(self) -> dict[str, Any]:
        return {"_steps": self._steps}

    def __repr__(self) -> str:
        steps = [json.dumps(step) if isinstance(step, dict) else display_name(step) for step in self._steps]
        return f"{type(self).__name__}({', '.join(steps)})"


class Compose(Transform):
    """Transforms one after the other: those of this module, and functions in Python, which
    slipstream.DataLoader calls in worker processes. Such a function gets one image, a tensor of
    channels x height x width, uint8 or float32, and returns one, as transforms of torchvision.

    >>> T = ss.transforms
    >>> chain = T.Compose([T.CenterCrop((2, 4)), T.Normalize([0.5], [0.5])])
    >>> chain(torch.full((1, 1, 8, 8), 255, dtype=torch.uint8))
    tensor([[[[1., 1., 1., 1.],
              [1., 1., 1., 1.]]]])
    """

    def __init__(self, transforms: Sequence[Transform | Function]) -> None:
        self._steps = []
        if not isinstance(transforms, Iterable):
            raise _native.Refused(
                f"Compose takes a list of transforms, not {shortened(transforms)}: give it in [...]"
            )
        for each in transforms:
            if isinstance(each, Transform):
                if type(each).__call__ is not Transform.__call__:
                    raise _native.Refused(
                        f"{type(each).__name__} has a __call__ of its own, which a chain goes around: give a "
                        "function of an image (channels x height x width), beside the transforms it builds on"
                    )
                self._steps += each._steps
            else:
                self._steps.append(checked_function(each))
        refuse_after_batch(self._steps)
        self._native_chain()

    @classmethod
    def _wrap(cls, transform: Transform | Function | None) -> Compose:
        return cls([] if transform is None else [transform])

    def to_json(self) -> str:
        """A file of transforms, as `slipstream train --transforms` takes it; "" for none. Raises
        Refused where there are functions in Python among them."""
        if self._runs():
            raise _native.Refused("a file of transforms cannot hold functions in Python: leave them out")
        return self._native_chain().to_json() if self._steps else ""

    def _runs(self) -> list[tuple[int, str, list[Function]]]:
        """Functions that follow each other: their place among runs and native steps, name and all."""
        runs: list[tuple[int, str, list[Function]]] = []
        place = 0
        for step in self._steps:
            if isinstance(step, dict):
                place += 1
            elif runs and runs[-1][0] == place - 1:
                runs[-1][2].append(step)
            else:
                runs.append((place, "", [step]))
                place += 1
        named = (("+".join(map(display_name, run)), place, run) for place, _, run in runs)
        return [(place, f"{name}_{place}", run) for name, place, run in named]


class Resize(Transform):
    """To `size` pixels: (height, width), or one number, which the shorter side gets.

    >>> ss.transforms.Resize(20)(torch.zeros(1, 3, 40, 60)).shape
    torch.Size([1, 3, 20, 30])
    """

    def __init__(self, size: Size, *, antialias: bool = True) -> None:
        super().__init__("resize", size=size, antialias=antialias)


class CenterCrop(Transform):
    """The middle, `size` pixels: (height, width), or one number for a square."""

    def __init__(self, size: Size) -> None:
        super().__init__("center_crop", size=size)


class RandomCrop(Transform):
    """A part of `size` pixels from anywhere, `padding` black pixels put on each side first."""

    def __init__(self, size: Size, padding: int = 0) -> None:
        super().__init__("random_crop", size=size, padding=padding)


class RandomResizedCrop(Transform):
    """A random part, resized to `size` pixels: its share of the area within `scale`, its width /
    height within `ratio`."""

    def __init__(
        self,
        size: Size,
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3 / 4, 4 / 3),
        *,
        antialias: bool = True,
    ) -> None:
        super().__init__(
            "random_resized_crop", size=size, scale=scale, ratio=ratio, antialias=antialias
        )


class RandomHorizontalFlip(Transform):
    """Left and right change places with probability `p`.

    >>> ss.transforms.RandomHorizontalFlip(p=1)(torch.tensor([[[[1.0, 2.0]]]]), sample_ids=[0])
    tensor([[[[2., 1.]]]])
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__("random_horizontal_flip", p=p)


class RandomVerticalFlip(Transform):
    """Top and bottom change places with probability `p`."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__("random_vertical_flip", p=p)


class RandomRotation(Transform):
    """Turns about the middle, counter-clockwise, by `degrees` from (least, most) or (-d, d).

    interpolation: "nearest" or "bilinear". fill: outside of the image, in all channels, in the image's
        units; for uint8 a whole number from 0 to 255.
    """

    def __init__(self, degrees: Range, interpolation: str = "nearest", *, fill: float = 0) -> None:
        super().__init__("random_rotation", degrees=degrees, interpolation=interpolation, fill=fill)


class RandomAffine(Transform):
    """Turns by `degrees`, clockwise, moves by at most `translate` (shares of width and height),
    scales by a factor within `scale` and shears by `shear` degrees. interpolation, fill: as in
    RandomRotation."""

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
    """Blurs with a kernel of `kernel_size` pixels, odd; its standard deviation, in pixels, is drawn
    from `sigma`."""

    def __init__(self, kernel_size: Size, sigma: Range = (0.1, 2.0)) -> None:
        super().__init__("gaussian_blur", kernel_size=kernel_size, sigma=sigma)


class ColorJitter(Transform):
    """Changes brightness, contrast and saturation by factors from (1 - x, 1 + x), and turns hues by
    a part of the circle from (-x, x), in random order."""

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
    """Makes each of the three channels the gray one. num_output_channels: 3 alone, for images keep their
    channels; torchvision's 1 is refused."""

    def __init__(self, num_output_channels: int = 1) -> None:
        super().__init__("grayscale", num_output_channels=num_output_channels)


class RandomGrayscale(Transform):
    """Makes an image gray with probability `p`."""

    def __init__(self, p: float = 0.1) -> None:
        super().__init__("random_grayscale", p=p)


class RandomErasing(Transform):
    """Fills a rectangle with `value` with probability `p`: its share of the area within `scale`, its
    height / width within `ratio`. value: in all channels, in the image's units; for uint8 a whole number
    from 0 to 255."""

    def __init__(
        self,
        p: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: float = 0,
    ) -> None:
        super().__init__("random_erasing", p=p, scale=scale, ratio=ratio, value=value)


class Normalize(Transform):
    """(value - mean) / std, as float32; uint8 images are divided by 255 first.

    mean, std: a number for each channel, or one for all: a list, tensor or array.

    >>> ss.transforms.Normalize(mean=[0.5], std=[0.25])(torch.tensor([[[[0.5, 1.0]]]]))
    tensor([[[[0., 2.]]]])
    """

    def __init__(self, mean: Numbers, std: Numbers) -> None:
        super().__init__("normalize", mean=mean, std=std)


class ToDtype(Transform):
    """To float32, from 0 to 1 with `scale`.

    >>> ss.transforms.ToDtype(torch.float32, scale=True)(torch.full((1, 1, 1, 2), 255, dtype=torch.uint8))
    tensor([[[[1., 1.]]]])
    """

    def __init__(self, dtype: str | torch.dtype = "float32", scale: bool = False) -> None:
        super().__init__("to_dtype", dtype=str(dtype).removeprefix("torch."), scale=scale)


class MixUp(Transform):
    """Over the batch: mixes every image (float32) and its label with those of the sample before it, the
    first with the last: lambda x own + (1 - lambda) x other, lambda drawn for each from Beta(alpha, alpha).

    It comes last in the transform of a data set that has one label for each image and knows its classes.
    slipstream.DataLoader and slipstream.Trainer do it on the loader's device, on a GPU in the stream of the
    copies; labels are float32 then, batch x classes. It draws by `seed`, the batch's number through all
    epochs and the place in it. A smaller last batch is mixed as if it were full: its first image with one
    from the epoch's beginning.

    alpha: above 0, at most 1000. num_classes: as many as the data set has, which need not be said.

    >>> T = ss.transforms
    >>> chain = T.Compose([T.CenterCrop(32), T.ToDtype(torch.float32, scale=True), T.MixUp(alpha=0.2)])
    >>> images, labels = next(iter(ss.DataLoader(ss.ImageFolder("photos", chain), batch_size=8)))
    >>> images.dtype, labels.shape, labels.dtype
    (torch.float32, torch.Size([8, 3]), torch.float32)
    """

    def __init__(self, *, alpha: float = 1.0, num_classes: int | None = None) -> None:
        super().__init__("mixup", alpha=alpha, num_classes=checked_num_classes(num_classes))


class CutMix(Transform):
    """Over the batch: puts a box of the sample before it (of the last into the first) into every image,
    uint8 or float32, and mixes labels by the box's area, of which the image's sides have
    sqrt(1 - lambda), lambda drawn from Beta(alpha, alpha). All else as in MixUp."""

    def __init__(self, *, alpha: float = 1.0, num_classes: int | None = None) -> None:
        super().__init__("cutmix", alpha=alpha, num_classes=checked_num_classes(num_classes))


class OneHot(Transform):
    """Over the batch: makes labels float32, batch x classes: 1 - label_smoothing + label_smoothing /
    classes for the class, label_smoothing / classes for the others. Beside MixUp or CutMix it adds the
    smoothing. Where it stands, and num_classes: as in MixUp."""

    def __init__(self, *, label_smoothing: float = 0.0, num_classes: int | None = None) -> None:
        super().__init__(
            "one_hot", label_smoothing=label_smoothing, num_classes=checked_num_classes(num_classes)
        )
