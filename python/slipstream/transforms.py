"""Native transforms of images with the names of torchvision.transforms.v2.

slipstream.DataLoader applies them to each sample on its threads. Called with a batch, they run on the device of the
batch, on a GPU in few kernels. docs/transforms.md lists the differences to torchvision.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from . import _native
from ._checks import EPOCHS, SEEDS, Array, Indices, check, shortened, whole_numbers
from ._one_image import transformed_image
from ._steps import (
    Function,
    Step,
    checked_function,
    checked_num_classes,
    flattened,
    nested_steps,
    steps_to_json,
    plain,
    refuse_after_batch,
    refuse_over_batch,
    tensor_conversion,
    with_class_name,
)
from ._transform_parts import display_name

Size = int | Sequence[int]
Range = float | Sequence[float]
Numbers = Sequence[float] | Array
Interpolation = str | int | enum.Enum


class Transform:
    """Base class of all transforms.

    Arguments:
        op (str): name of the operation in a file of transforms (docs/transforms.md).
        keys: the parameters of the operation, by their names in that file. None means the default.
    """

    _steps: list[Step]
    _parsed: _native.TransformChain | None = None

    def __init__(self, op: str, **keys: Any) -> None:
        given = {key: plain(key, value) for key, value in keys.items() if value is not None}
        step = {"op": op} | given
        self._steps = [step]
        try:
            self._native_chain()  # parses the step at once, so that invalid arguments are refused here
        except _native.Refused as error:
            raise _native.Refused(with_class_name(str(error), op, type(self).__name__)) from None

    def __call__(
        self,
        images: Any,
        sample_ids: Indices | None = None,
        epoch: int = 0,
        seed: int = 0,
    ) -> torch.Tensor:
        """Applies the transform to a batch or to one image. Returns batch x channels x height x width, channels-last,
        or channels x height x width, on the device of `images`.

        Arguments:
            images: a batch, a tensor of batch x channels x height x width, uint8 or float32, on a CPU or a GPU. On a
                GPU, kernels are enqueued on the current stream and the host does not wait. The first call for a shape
                compiles the kernels, which takes about a second. Or one image: a tensor of channels x height x width,
                a NumPy array of height x width x channels, or a PIL image.
            sample_ids (list, tensor or array of integers, default None): the number of each sample, on the host.
                Random numbers depend only on this number, `epoch` and `seed`, so the result has the bits that
                slipstream.DataLoader produces for them. Not needed if no transform is random. Not for one image,
                whose random numbers depend on PyTorch's default generator, as with torchvision.
            epoch, seed (int, default 0): the epoch and seed that random numbers depend on. Not for one image.

        Gradients do not flow through a transform. Raises Refused for images of another shape or dtype, for images that
        require gradients, for random transforms of a batch without sample_ids, for epoch and seed with one image, for
        functions in Python with a batch or an image on a GPU, and for MixUp, CutMix and OneHot, which also change
        labels.

        >>> images = torch.zeros(2, 3, 40, 60, dtype=torch.uint8)
        >>> crop = ss.transforms.RandomResizedCrop(32)
        >>> crop(images, sample_ids=[7, 8], epoch=1).shape
        torch.Size([2, 3, 32, 32])
        >>> crop(torch.zeros(3, 40, 60, dtype=torch.uint8)).shape
        torch.Size([3, 32, 32])
        """
        refuse_over_batch(self._steps)
        if sample_ids is None and (image := self._transformed_image(images, epoch, seed)) is not None:
            return image
        self._refuse_images(images)
        if not all(isinstance(step, dict) for step in self._steps):
            raise _native.Refused(
                "functions in Python are applied to single samples, by slipstream.DataLoader: give the Compose to a "
                "data set, or call its parts one after the other"
            )
        chain = self._native_chain()
        if sample_ids is None:
            if chain.is_random():
                raise _native.Refused(
                    "random transforms need sample_ids, the number of each sample, because their random numbers depend "
                    "on it and not on the batch. For example: transform(images, sample_ids=range(len(images)), "
                    "epoch=epoch)"
                )
            sample_ids = range(len(images))
        check(epoch=(epoch, 0, EPOCHS - 1), seed=(seed, 0, SEEDS - 1))
        return chain(images, whole_numbers("sample_ids", sample_ids), seed, epoch)

    def _transformed_image(self, image: Any, epoch: int, seed: int) -> torch.Tensor | None:
        """Returns one image after the transform, or None if `image` is something else."""
        is_tensor = isinstance(image, torch.Tensor)
        if is_tensor and (image.dim() != 3 or (image.requires_grad and torch.is_grad_enabled())):
            return None
        if epoch != 0 or seed != 0:
            raise _native.Refused(
                "epoch and seed select random numbers only together with sample_ids: give a batch, image[None], with "
                "sample_ids, or call torch.manual_seed() before"
            )
        if not is_tensor or image.device.type == "cpu":
            return transformed_image(image, self._native_chain(), Compose._wrap(self)._runs())
        drawn = int(torch.randint(1 << 62, ())) if self._native_chain().is_random() else 0
        return self(image[None], sample_ids=[0], seed=drawn)[0]

    def _native_chain(self) -> _native.TransformChain:
        """Returns the native steps. They are parsed only once."""
        if self._parsed is None:
            self._parsed = _native.TransformChain(
                steps_to_json([step for step in self._steps if isinstance(step, dict)])
            )
        return self._parsed

    def _refuse_images(self, images: Any) -> None:
        if isinstance(images, torch.Tensor) and images.dim() in (3, 4):
            if images.requires_grad and torch.is_grad_enabled():
                raise _native.Refused(
                    f"{type(self).__name__} was called with images that require gradients, but it does not support "
                    "gradients: give images.detach()"
                )
            if images.dim() == 4:
                return
        given = type(images).__name__
        if isinstance(images, torch.Tensor):
            given = f"a tensor of {' x '.join(map(str, images.shape)) or 'one value'}"
        raise _native.Refused(
            f"{type(self).__name__} was called with {given}, but takes a batch (a tensor of batch x channels x height "
            "x width) or, without sample_ids, one image (a tensor of channels x height x width, an array of height x "
            "width x channels, or a PIL image), uint8 or float32. "
            "Images of a data set in Python: slipstream.PythonDataset(dataset, transform)"
        )

    def __getstate__(self) -> dict[str, Any]:
        return {"_steps": self._steps}

    def __repr__(self) -> str:
        steps = [json.dumps(step) if isinstance(step, dict) else display_name(step) for step in self._steps]
        return f"{type(self).__name__}({', '.join(steps)})"


class Compose(Transform):
    """Applies several transforms one after the other.

    Arguments:
        transforms (sequence): transforms of this module, and functions in Python, which slipstream.DataLoader calls
            in worker processes. Such a function takes one image, a tensor of channels x height x width, uint8 or
            float32, on the CPU, and returns one, as transforms of torchvision do. torchvision's ToTensor, ToImage and
            PILToTensor are replaced by the transforms of the same names here.

    Raises Refused for anything else in the sequence.

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
                        f"{type(each).__name__} defines its own __call__(), which Compose does not call: give a "
                        "function of an image (channels x height x width) in addition to the transform from which it "
                        "is derived"
                    )
                self._steps += each._steps
            elif (conversion := tensor_conversion(each)) is not None:
                self._steps += conversion
            else:
                self._steps.append(checked_function(each))
        refuse_after_batch(self._steps)
        self._native_chain()

    @classmethod
    def _wrap(cls, transform: Transform | Function | None) -> Compose:
        return cls([] if transform is None else [transform])

    @classmethod
    def _of(cls, steps: Sequence[Step]) -> Compose:
        """Returns a chain of these steps, which are those of valid transforms."""
        chain = cls([])
        chain._steps = [*steps]
        chain._parsed = None
        return chain

    def to_json(self) -> str:
        """Returns the text of a file for `slipstream train --transforms`, or "" if there are no transforms. Raises
        Refused if one of them is a function in Python."""
        if self._runs():
            raise _native.Refused("a file of transforms cannot contain functions in Python: leave them out")
        return self._native_chain().to_json() if self._steps else ""

    def _runs(self) -> list[tuple[int, str, list[Function]]]:
        """Groups functions in Python that follow each other into runs. Returns for each run its index among the runs
        and native steps, its name and its functions."""
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
    """Resizes images and masks.

    Arguments:
        size: (height, width), or one number for the length of the shorter side, which keeps the proportions. None: the
            longer side becomes `max_size`.
        interpolation (default "bilinear"): "nearest", "nearest-exact", "bilinear" or "bicubic", the member of
            torchvision's InterpolationMode, or PIL's number 0, 2 or 3. Masks are resized as nearest-exact, but as
            nearest if that is the interpolation.
        max_size (int, default None): largest length of the longer side, only if `size` is one number or None.
        antialias (bool, default True): bilinear and bicubic interpolation average all pixels along an axis that
            shrinks.

    >>> ss.transforms.Resize(20)(torch.zeros(1, 3, 40, 60)).shape
    torch.Size([1, 3, 20, 30])
    >>> ss.transforms.Resize(20, "bicubic", max_size=24)(torch.zeros(1, 3, 40, 60)).shape
    torch.Size([1, 3, 16, 24])
    """

    def __init__(
        self,
        size: Size | None,
        interpolation: Interpolation = "bilinear",
        max_size: int | None = None,
        antialias: bool = True,
    ) -> None:
        super().__init__(
            "resize", size=size, interpolation=interpolation, max_size=max_size, antialias=antialias
        )


class CenterCrop(Transform):
    """Crops the central part. An image that is smaller than the crop is padded with black pixels first.

    Arguments:
        size: (height, width) in pixels, or one number for a square.
    """

    def __init__(self, size: Size) -> None:
        super().__init__("center_crop", size=size)


class RandomCrop(Transform):
    """Crops a part at a random position.

    Arguments:
        size: (height, width) in pixels, or one number for a square.
        padding (default None): pixels that are added first, as in Pad. None adds none.
        pad_if_needed (bool, default False): adds the missing pixels on both sides of an image that is smaller than the
            crop.
        fill, padding_mode (default 0, "constant"): as in Pad.

    Raises Refused if images are smaller than the crop even with their padding.

    >>> crop = ss.transforms.RandomCrop((4, 6), pad_if_needed=True, padding_mode="edge")
    >>> crop(torch.zeros(1, 3, 2, 9), sample_ids=[0]).shape
    torch.Size([1, 3, 4, 6])
    """

    def __init__(
        self,
        size: Size,
        padding: int | Sequence[int] | None = None,
        pad_if_needed: bool = False,
        fill: float | Sequence[float] = 0,
        padding_mode: str = "constant",
    ) -> None:
        super().__init__(
            "random_crop",
            size=size,
            padding=padding,
            pad_if_needed=pad_if_needed,
            fill=fill,
            padding_mode=padding_mode,
        )


class Pad(Transform):
    """Adds pixels around images and masks.

    Arguments:
        padding: number of pixels on each side, or (left and right, top and bottom), or (left, top, right, bottom).
        fill (default 0): value of the added pixels in the image's units, one number or one per channel. Masks get the
            number as their class.
        padding_mode (default "constant"): "constant" adds pixels of the value `fill`, "edge" repeats the outermost
            pixels, "reflect" mirrors the image at the centers of the outermost pixels, "symmetric" at their edges.

    Raises Refused for a value of `fill` that the images cannot hold, and for images that are too small to be mirrored.

    >>> ss.transforms.Pad((1, 0), padding_mode="reflect")(torch.tensor([[[[1.0, 2.0, 3.0]]]]))
    tensor([[[[2., 1., 2., 3., 2.]]]])
    """

    def __init__(
        self,
        padding: int | Sequence[int],
        fill: float | Sequence[float] = 0,
        padding_mode: str = "constant",
    ) -> None:
        super().__init__("pad", padding=padding, fill=fill, padding_mode=padding_mode)


class RandomResizedCrop(Transform):
    """Crops a random part and resizes it.

    Arguments:
        size: (height, width) of the result in pixels, or one number for a square.
        scale (default (0.08, 1.0)): range of the part's share of the area.
        ratio (default (3/4, 4/3)): range of the part's width / height.
        interpolation (default "bilinear"): as in Resize.
        antialias (bool, default True): as in Resize.
    """

    def __init__(
        self,
        size: Size,
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3 / 4, 4 / 3),
        interpolation: Interpolation = "bilinear",
        antialias: bool = True,
    ) -> None:
        super().__init__(
            "random_resized_crop",
            size=size,
            scale=scale,
            ratio=ratio,
            interpolation=interpolation,
            antialias=antialias,
        )


class RandomHorizontalFlip(Transform):
    """Swaps left and right.

    Arguments:
        p (float, default 0.5): probability.

    >>> ss.transforms.RandomHorizontalFlip(p=1)(torch.tensor([[[[1.0, 2.0]]]]), sample_ids=[0])
    tensor([[[[2., 1.]]]])
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__("random_horizontal_flip", p=p)


class RandomVerticalFlip(Transform):
    """Swaps top and bottom.

    Arguments:
        p (float, default 0.5): probability.
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__("random_vertical_flip", p=p)


class RandomRotation(Transform):
    """Rotates images around their center by a random angle, counter-clockwise.

    Arguments:
        degrees: range of the angle (least, most), or one number d for (-d, d).
        interpolation (str, default "nearest"): "nearest" or "bilinear".
        fill (float, default 0): value outside of the image, in all channels and in the image's units; for uint8 an
            integer from 0 to 255.
    """

    def __init__(self, degrees: Range, interpolation: str = "nearest", *, fill: float = 0) -> None:
        super().__init__("random_rotation", degrees=degrees, interpolation=interpolation, fill=fill)


class RandomAffine(Transform):
    """Rotates, shifts, scales and shears images by random amounts.

    Arguments:
        degrees: range of the rotation around the center, clockwise: (least, most), or one number d for (-d, d).
        translate (default None): largest shift along x and y, as shares of width and height. None means no shift.
        scale (default None): range of the scale factor. None means 1.
        shear (default None): range of the shear in degrees: (least, most) along x, four numbers for ranges along x and
            y, or one number d for (-d, d) along x. None means 0.
        interpolation (str, default "nearest"): as in RandomRotation.
        fill (float, default 0): as in RandomRotation.
    """

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
    """Blurs images with a Gaussian kernel.

    Arguments:
        kernel_size: height and width of the kernel in pixels, odd, from 1 to 63.
        sigma (default (0.1, 2.0)): range of the standard deviation in pixels, or one number.
    """

    def __init__(self, kernel_size: Size, sigma: Range = (0.1, 2.0)) -> None:
        super().__init__("gaussian_blur", kernel_size=kernel_size, sigma=sigma)


class ColorJitter(Transform):
    """Changes brightness, contrast, saturation and hue by random amounts, in random order.

    Arguments:
        brightness, contrast, saturation (default None): range of a factor, or one number x for (max(0, 1 - x), 1 + x).
            None changes nothing.
        hue (default None): range of a shift, as a part of the color circle, or one number x for (-x, x). None changes
            nothing.
    """

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
    """Replaces each of the three channels by the gray value.

    Arguments:
        num_output_channels (int): must be 3, because images keep their number of channels. The default of torchvision,
            1, is refused.
    """

    def __init__(self, num_output_channels: int = 1) -> None:
        super().__init__("grayscale", num_output_channels=num_output_channels)


class RandomGrayscale(Transform):
    """Converts an image of three channels to gray. The channels stay three.

    Arguments:
        p (float, default 0.1): probability.
    """

    def __init__(self, p: float = 0.1) -> None:
        super().__init__("random_grayscale", p=p)


class RandomInvert(Transform):
    """Replaces each value v of an image by 255 - v, or by 1 - v for float32.

    Arguments:
        p (float, default 0.5): probability.

    >>> ss.transforms.RandomInvert(p=1)(torch.tensor([[[[0.0, 0.25, 1.0]]]]))
    tensor([[[[1.0000, 0.7500, 0.0000]]]])
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__("random_invert", p=p)


class RandomPosterize(Transform):
    """Keeps the most significant bits of each level and sets the others to 0.

    Arguments:
        bits (int): number of bits to keep, from 0 to 8.
        p (float, default 0.5): probability.

    float32 images with values from 0 to 1 are rounded down to multiples of 2^-bits.

    >>> ss.transforms.RandomPosterize(2, p=1)(torch.tensor([[[[63, 64, 255]]]], dtype=torch.uint8))
    tensor([[[[  0,  64, 192]]]], dtype=torch.uint8)
    """

    def __init__(self, bits: int, p: float = 0.5) -> None:
        super().__init__("random_posterize", bits=bits, p=p)


class RandomSolarize(Transform):
    """Inverts the values that are at least as large as a threshold, as RandomInvert does.

    Arguments:
        threshold (float): in the image's units, so at most 255 for uint8 and 1 for float32.
        p (float, default 0.5): probability.

    >>> ss.transforms.RandomSolarize(128, p=1)(torch.tensor([[[[127, 128, 255]]]], dtype=torch.uint8))
    tensor([[[[127, 127,   0]]]], dtype=torch.uint8)
    """

    def __init__(self, threshold: float, p: float = 0.5) -> None:
        super().__init__("random_solarize", threshold=threshold, p=p)


class RandomAdjustSharpness(Transform):
    """Blurs or sharpens images.

    Arguments:
        sharpness_factor (float): 0 blurs, 1 changes nothing, 2 sharpens; 0 or more.
        p (float, default 0.5): probability.

    The pixels at the edges of an image are not changed.
    """

    def __init__(self, sharpness_factor: float, p: float = 0.5) -> None:
        super().__init__("random_adjust_sharpness", sharpness_factor=sharpness_factor, p=p)


class RandomAutocontrast(Transform):
    """Stretches the values of each channel to the range from black to white.

    Arguments:
        p (float, default 0.5): probability.

    >>> ss.transforms.RandomAutocontrast(p=1)(torch.tensor([[[[0.25, 0.5, 0.75]]]]))
    tensor([[[[0.0000, 0.5000, 1.0000]]]])
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__("random_autocontrast", p=p)


class RandomEqualize(Transform):
    """Equalizes the histogram of each channel of uint8 images, so that all levels become about equally frequent.

    Arguments:
        p (float, default 0.5): probability.
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__("random_equalize", p=p)


class RandomApply(Transform):
    """Applies several transforms one after the other, or none of them.

    Arguments:
        transforms (sequence): transforms of this module. They must not change the size or the dtype of an image.
        p (float, default 0.5): probability of applying the transforms.

    Raises Refused for Python functions: for these, use torchvision's RandomApply as a function in Compose.

    >>> T = ss.transforms
    >>> chain = T.RandomApply([T.GaussianBlur(3), T.RandomGrayscale()], p=0.1)
    >>> chain(torch.zeros(1, 3, 8, 8), sample_ids=[0]).shape
    torch.Size([1, 3, 8, 8])
    """

    def __init__(self, transforms: Iterable[Transform], p: float = 0.5) -> None:
        steps = [step for steps in nested_steps("RandomApply", transforms) for step in steps]
        super().__init__("random_apply", transforms=steps, p=p)


class RandomChoice(Transform):
    """Applies one of several transforms.

    Arguments:
        transforms (sequence): transforms of this module, also a Compose of transforms that keep the size and the dtype
            of an image. All must give the same size and dtype.
        p (sequence of floats, default None): probabilities of the transforms. They are divided by their sum. None means
            equal probabilities.

    Raises Refused for Python functions: for these, use torchvision's RandomChoice as a function in Compose.

    >>> T = ss.transforms
    >>> chain = T.RandomChoice([T.CenterCrop(8), T.Resize((8, 8))], p=[0.2, 0.8])
    >>> chain(torch.zeros(1, 3, 16, 16), sample_ids=[0]).shape
    torch.Size([1, 3, 8, 8])
    """

    def __init__(self, transforms: Iterable[Transform], p: Sequence[float] | None = None) -> None:
        choices = [
            steps[0] if len(steps) == 1 else {"op": "random_apply", "transforms": steps, "p": 1.0}
            for steps in nested_steps("RandomChoice", transforms)
        ]
        super().__init__("random_choice", transforms=choices, p=p)


class RandAugment(Transform):
    """Applies randomly chosen augmentations to uint8 images of 1 or 3 channels.

    The augmentations are identity, shears, translations, rotation, brightness, color, contrast, sharpness, posterize,
    solarize, autocontrast and equalize. Source: Cubuk et al., "RandAugment", 2019.

    Arguments:
        num_ops (int, default 2): number of augmentations, from 0 to 8.
        magnitude (int, default 9): strength of the augmentations, below num_magnitude_bins.
        num_magnitude_bins (int, default 31): number of possible magnitudes, at least 2.
        interpolation (str, default "nearest"): "nearest" or "bilinear".
        fill (default None): value outside of the image, in all channels, an integer from 0 to 255. None means 0.

    Raises Refused in a data set with masks or boxes, because these would no longer match the image.

    >>> ss.transforms.RandAugment()(torch.zeros(1, 3, 8, 8, dtype=torch.uint8), sample_ids=[0]).shape
    torch.Size([1, 3, 8, 8])
    """

    def __init__(
        self,
        num_ops: int = 2,
        magnitude: int = 9,
        num_magnitude_bins: int = 31,
        interpolation: str = "nearest",
        fill: float | None = None,
    ) -> None:
        super().__init__(
            "rand_augment",
            num_ops=num_ops,
            magnitude=magnitude,
            num_magnitude_bins=num_magnitude_bins,
            interpolation=interpolation,
            fill=fill,
        )


class TrivialAugmentWide(Transform):
    """Applies one randomly chosen augmentation with a random magnitude to uint8 images of 1 or 3 channels.

    The augmentations are those of RandAugment, with larger magnitudes. Source: Müller and Hutter, "TrivialAugment",
    ICCV 2021.

    Arguments:
        num_magnitude_bins (int, default 31): number of possible magnitudes, at least 2.
        interpolation (str, default "nearest"): "nearest" or "bilinear".
        fill (default None): as in RandAugment.

    Raises Refused in a data set with masks or boxes, because these would no longer match the image.
    """

    def __init__(
        self, num_magnitude_bins: int = 31, interpolation: str = "nearest", fill: float | None = None
    ) -> None:
        super().__init__(
            "trivial_augment_wide",
            num_magnitude_bins=num_magnitude_bins,
            interpolation=interpolation,
            fill=fill,
        )


class AutoAugment(Transform):
    """Applies a randomly chosen pair of augmentations of a learned policy to uint8 images of 1 or 3 channels.

    Source: Cubuk et al., "AutoAugment", CVPR 2019.

    Arguments:
        policy (str, default "imagenet"): "imagenet", "cifar10" or "svhn", or a member of torchvision's
            AutoAugmentPolicy.
        interpolation (str, default "nearest"): "nearest" or "bilinear".
        fill (default None): as in RandAugment.

    Raises Refused in a data set with masks or boxes, because these would no longer match the image.
    """

    def __init__(
        self, policy: str = "imagenet", interpolation: str = "nearest", fill: float | None = None
    ) -> None:
        super().__init__("auto_augment", policy=policy, interpolation=interpolation, fill=fill)


class RandomErasing(Transform):
    """Fills a random rectangle with one value.

    Arguments:
        p (float, default 0.5): probability.
        scale (default (0.02, 0.33)): range of the rectangle's share of the area.
        ratio (default (0.3, 3.3)): range of the rectangle's height / width.
        value (float, default 0): fill value in all channels and in the image's units; for uint8 an integer from 0 to
            255.
    """

    def __init__(
        self,
        p: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: float = 0,
    ) -> None:
        super().__init__("random_erasing", p=p, scale=scale, ratio=ratio, value=value)


class RandomMask(Transform):
    """Sets random pixels to 0 in all channels. torchvision does not have this transform.

    Arguments:
        p (float, default 0.25): probability of each pixel, rounded to a multiple of 2**-16.
        dilate (bool, default True): also sets the pixels above, below, left and right of such a pixel to 0.

    >>> masked = ss.transforms.RandomMask(p=0.5)(torch.ones(1, 3, 32, 32), sample_ids=[0])
    >>> sorted(masked.unique().tolist())
    [0.0, 1.0]
    """

    def __init__(self, p: float = 0.25, dilate: bool = True) -> None:
        super().__init__("random_mask", p=p, dilate=dilate)


class ConvertColor(Transform):
    """Multiplies the three channels of each pixel by a matrix and adds an offset. The result is float32, not rounded.
    torchvision does not have this transform.

    Arguments:
        matrix (default None): nine numbers, row by row, or a 3 x 3 list, tensor or array. None converts RGB to YCbCr of
            full range (ITU-T T.871).
        offset (default None): three numbers in the units of the image. None means (0, 128, 128), which is for uint8
            images.

    >>> swap = ss.transforms.ConvertColor([[0, 0, 1], [0, 1, 0], [1, 0, 0]], offset=[0, 0, 0])
    >>> swap(torch.tensor([1, 2, 3], dtype=torch.uint8).view(1, 3, 1, 1)).flatten()
    tensor([3., 2., 1.])
    """

    def __init__(self, matrix: Numbers | Sequence[Numbers] | None = None, offset: Numbers | None = None) -> None:
        super().__init__("convert_color", matrix=flattened(matrix), offset=offset)


class Divide(Transform):
    """Divides images by a number. The result is float32. torchvision does not have this transform.

    Arguments:
        divisor (float, default 255): not 0.

    >>> ss.transforms.Divide(2)(torch.full((1, 1, 1, 2), 3, dtype=torch.uint8))
    tensor([[[[1.5000, 1.5000]]]])
    """

    def __init__(self, divisor: float = 255) -> None:
        super().__init__("divide", divisor=divisor)


class Normalize(Transform):
    """Computes (value - mean) / std as float32. uint8 images are divided by 255 first.

    Arguments:
        mean, std: list, tensor or array with a number for each channel, or with one number for all.

    >>> ss.transforms.Normalize(mean=[0.5], std=[0.25])(torch.tensor([[[[0.5, 1.0]]]]))
    tensor([[[[0., 2.]]]])
    """

    def __init__(self, mean: Numbers, std: Numbers) -> None:
        super().__init__("normalize", mean=mean, std=std)


class ToDtype(Transform):
    """Converts images to float32. float32 images are not changed.

    Arguments:
        dtype (default "float32"): must be "float32" or torch.float32.
        scale (bool, default False): divides uint8 images by 255, so that values are from 0 to 1.

    >>> ss.transforms.ToDtype(torch.float32, scale=True)(torch.full((1, 1, 1, 2), 255, dtype=torch.uint8))
    tensor([[[[1., 1.]]]])
    """

    def __init__(self, dtype: str | torch.dtype = "float32", scale: bool = False) -> None:
        super().__init__("to_dtype", dtype=str(dtype).removeprefix("torch."), scale=scale)


class ToTensor(Transform):
    """Converts images to float32 tensors with values from 0 to 1, as ToDtype(torch.float32, scale=True) does.

    >>> from PIL import Image
    >>> ss.transforms.ToTensor()(Image.new("L", (2, 1), 255))
    tensor([[[1., 1.]]])
    """

    def __init__(self) -> None:
        super().__init__("to_dtype", dtype="float32", scale=True)


class ToImage(Transform):
    """Converts a PIL image or an array of height x width x channels to a tensor of channels x height x width.

    In the transform of a data set it changes nothing, because images are tensors already.

    >>> from PIL import Image
    >>> ss.transforms.ToImage()(Image.new("RGB", (20, 10))).shape
    torch.Size([3, 10, 20])
    """

    def __init__(self) -> None:
        self._steps = []


class PILToTensor(ToImage):
    """Does the same as ToImage."""


class MixUp(Transform):
    """Mixes each image of a batch with another image of the batch, and their labels in the same ratio.

    An image becomes lambda * image + (1 - lambda) * other. The other image is the previous one in the batch, or the
    last one for the first image. lambda is sampled for each image from Beta(alpha, alpha). Images must be float32.
    Labels become float32, batch x classes.

    MixUp must be last in the transform of a data set that has one label for each image and known classes.
    slipstream.DataLoader and slipstream.Trainer apply it on the loader's device. On a GPU, it runs on the stream that
    copies batches. Random numbers depend on the loader's seed, the index of the batch (counted through all epochs), and
    the position in the batch. If the last batch of an epoch is smaller, its first image is mixed with an image from the
    beginning of the epoch.

    Arguments:
        alpha (float, default 1): above 0, at most 1000.
        num_classes (int, default None): number of classes of the data set. It is known from the data set and only
            checked.

    >>> T = ss.transforms
    >>> chain = T.Compose([T.CenterCrop(32), T.ToDtype(torch.float32, scale=True), T.MixUp(alpha=0.2)])
    >>> images, labels = next(iter(ss.DataLoader(ss.ImageFolder("photos", chain), batch_size=8)))
    >>> images.dtype, labels.shape, labels.dtype
    (torch.float32, torch.Size([8, 3]), torch.float32)
    """

    def __init__(self, *, alpha: float = 1.0, num_classes: int | None = None) -> None:
        super().__init__("mixup", alpha=alpha, num_classes=checked_num_classes(num_classes))


class CutMix(Transform):
    """Replaces a box of each image of a batch by the same box of another image, and mixes their labels in proportion
    to the area of the box.

    The sides of the box are sqrt(1 - lambda) of the image's sides; lambda is sampled from Beta(alpha, alpha). Images
    are uint8 or float32. The other image, the labels and the position in a transform are as in MixUp.

    Arguments:
        alpha (float, default 1): as in MixUp.
        num_classes (int, default None): as in MixUp.
    """

    def __init__(self, *, alpha: float = 1.0, num_classes: int | None = None) -> None:
        super().__init__("cutmix", alpha=alpha, num_classes=checked_num_classes(num_classes))


class OneHot(Transform):
    """Converts the labels of a batch to probabilities, float32, batch x classes.

    The class of a sample gets 1 - label_smoothing + label_smoothing / classes, each other class
    label_smoothing / classes. Together with MixUp or CutMix it adds the smoothing to their labels. The position in a
    transform is as in MixUp.

    Arguments:
        label_smoothing (float, default 0): from 0 to 1.
        num_classes (int, default None): as in MixUp.
    """

    def __init__(self, *, label_smoothing: float = 0.0, num_classes: int | None = None) -> None:
        super().__init__(
            "one_hot", label_smoothing=label_smoothing, num_classes=checked_num_classes(num_classes)
        )
