"""Takes samples made in Python apart into tensors and strings, and builds batches with the same structure."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from ._checks import shortened
from ._trees import mapping_with, tuple_like

_PLAIN = (bool, int, float, complex)
_AS_THEY_ARE = ("L", "RGB", "RGBA", "HSV", "LAB", "YCbCr")  # modes of PIL images that are not converted to RGB
_Path = tuple[tuple[bool, int], ...]  # for each container on the way to a part: whether it is a mapping, and the index
_NAMES_OF_THE_LOADER = ("slipstream.texts", "augment.parameters", "mix.parameters")


class Unfit(TypeError):
    """Raised for a sample that cannot be put into a batch. The message is complete and needs no traceback."""


@dataclasses.dataclass
class Leaf:
    """Describes one tensor of a sample."""

    name: str
    is_image: bool
    dtype: torch.dtype
    shape: tuple[int, ...]  # (height, width, channels) for an image


@dataclasses.dataclass
class Template:
    """The structure of a sample: its containers, with the index of each tensor or string instead of its value."""

    tree: Any
    leaves: list[Leaf]  # one for each tensor
    is_text: list[bool]  # for each index in the tree, whether it is a string

    def build(self, tensors: tuple[torch.Tensor, ...], packed: list[bytes]) -> Any:
        """Builds a batch with this structure.

        tensors: the tensors of the batch, in the order of `leaves`.
        packed: for each sample its pickled strings; empty if samples have none."""
        rest, texts = iter(tensors), zip(*map(pickle.loads, packed), strict=True)
        values = [next(texts) if is_text else next(rest) for is_text in self.is_text]
        return _filled(self.tree, values, is_batch=True)


class Sample:
    """A sample, taken apart into its tensors and strings. Raises Unfit if that is not possible.

    wants_image: whether transforms follow. Then the sample must have an image, and images may differ in size.
    """

    def __init__(self, value: Any, wants_image: bool) -> None:
        self._parts: list[str | int] = []
        self._found: list[tuple[str, Any]] = []
        self._paths: list[_Path] = []
        self._walk(value, "", ())
        self.names = _unlike([name or "sample" for name, _ in self._found])
        images = pictures = {i for i, (_, leaf) in enumerate(self._found) if _is_pil(leaf)}
        if wants_image or pictures:
            tensors = [i for i, (_, leaf) in enumerate(self._found) if _may_be_image(leaf)]
            images = self._images_among(pictures, tensors) if wants_image else pictures
            self._refuse_palettes(pictures, tensors)
        self.is_text = [isinstance(leaf, str | bytes) for _, leaf in self._found]
        self.tensors: list[torch.Tensor] = []
        self.leaves: list[Leaf] = []
        forms = []
        for i, (name, value) in enumerate(self._found):
            if self.is_text[i]:
                forms.append("str" if isinstance(value, str) else "bytes")
                continue
            tensor = _image(value, name) if i in images else _tensor(value, name)
            leaf = Leaf(self.names[i], i in images, tensor.dtype, tuple(tensor.shape))
            self.tensors.append(tensor)
            self.leaves.append(leaf)
            forms.append(_describe_leaf(leaf, wants_image))
        self.form = "".join(each if isinstance(each, str) else forms[each] for each in self._parts)
        if not self._found:
            raise Unfit(f"the sample is {self.form}, which contains no value")
        if images == {-1}:
            raise Unfit(
                f"the sample is {self.form}, which has no image, but transforms are applied to images: return a PIL "
                "image, a tensor of channels x height x width or an array of height x width x channels, uint8 or "
                "float32, with 1 to 4 channels"
            )

    def _images_among(self, pictures: set[int], tensors: list[int]) -> set[int]:
        """Selects the fields that image transforms apply to: all PIL images, or else one tensor or array. Raises Unfit
        if it is ambiguous. Returns {-1} if there is none."""
        if not tensors or not (pictures or len(tensors) > 1):
            return pictures or {*tensors} or {-1}
        named = [i for i in sorted({*pictures, *tensors}) if "image" in self._found[i][0].split(".")]
        if named and (pictures & {*named} or self._is_first(named[0], named)):
            return pictures if pictures & {*named} else {named[0]}
        in_color = any(len(self._found[i][1].getbands()) > 1 for i in pictures)
        if not in_color and not self._is_first(min(pictures or tensors), tensors):
            names = " and ".join(f"'{self.names[i]}'" for i in sorted({*tensors, *pictures}))
            raise Unfit(
                f"transforms are applied to one image, but each of the fields {names} could be that image: use the key "
                "'image' for one of them only, or make it the first element of a tuple"
            )
        return pictures or {tensors[0]}

    def _is_first(self, number: int, others: list[int]) -> bool:
        """Returns true if a part comes before all others. Parts of a mapping have no order."""
        ours, theirs = self._paths[number], [self._paths[other] for other in others if other != number]
        parted = [next(pair for pair in zip(ours, path, strict=False) if pair[0] != pair[1]) for path in theirs]
        return all(not one[0] and one[1] < other[1] for one, other in parted)

    def _refuse_palettes(self, pictures: set[int], tensors: list[int]) -> None:
        """Raises Unfit for a palette image next to another image. It is usually a mask, whose values are class numbers
        and must not be converted to colors."""
        for i in pictures:
            is_alone = len(pictures) == 1 and self._is_first(i, tensors)
            if self._found[i][1].mode == "P" and not is_alone:
                raise Unfit(
                    f"field '{self.names[i]}' is a PIL image with a palette (mode P) next to another image: if it is a "
                    "mask, return its class numbers, numpy.array(mask), and move both in __getitem__; if it is a "
                    "picture, return picture.convert('RGB')"
                )

    def with_images(self, value: Any, images: Iterable[torch.Tensor]) -> Any:
        """Returns a copy of `value`, the original of this sample, with its images replaced by `images`."""
        given, parts = iter(images), []
        leaves = zip(self.leaves, self.tensors, strict=True)
        for (_, part), is_text in zip(self._found, self.is_text, strict=True):
            if not is_text:
                leaf, tensor = next(leaves)
                if leaf.is_image:
                    part = next(given)
                elif _is_pil(part):
                    part = tensor
            parts.append(part)
        return _filled(make_template(value, self).tree, parts)

    def packed_texts(self) -> torch.Tensor:
        """Returns the pickled strings of the sample as a uint8 tensor, for Template.build()."""
        texts = [value for (_, value), is_text in zip(self._found, self.is_text, strict=True) if is_text]
        return torch.frombuffer(bytearray(pickle.dumps(texts)), dtype=torch.uint8)

    def _walk(self, value: Any, name: str, path: _Path) -> None:
        if isinstance(value, Mapping):
            items = [(f"{key!r}: ", key, value[key]) for key in sorted(value, key=str)]
            self._walk_all("{", items, "}", name, path)
        elif isinstance(value, list):
            self._walk_all("[", [("", i, each) for i, each in enumerate(value)], "]", name, path)
        elif isinstance(value, tuple):
            opening = "(" if type(value) is tuple else type(value).__name__ + "("
            self._walk_all(opening, [("", i, each) for i, each in enumerate(value)], ")", name, path)
        else:
            self._parts.append(len(self._found))
            self._found.append((name, value))
            self._paths.append(path)

    def _walk_all(
        self, opening: str, items: list[tuple[str, Any, Any]], closing: str, name: str, path: _Path
    ) -> None:
        self._parts.append(opening)
        for number, (text, key, value) in enumerate(items):
            self._parts.append(text if number == 0 else ", " + text)
            self._walk(value, f"{name}.{key}" if name else str(key), (*path, (opening == "{", number)))
        self._parts.append(closing)


def make_template(value: Any, sample: Sample) -> Template:
    """Returns the structure of `value`. sample: the result of Sample(value, ...)."""
    numbers = iter(range(len(sample.names)))
    return Template(_tree(value, numbers), sample.leaves, sample.is_text)


def field_names(value: Any) -> list[str]:
    """Returns the names of the tensors and strings in `value`."""
    return Sample(value, False).names


def _unlike(names: list[str]) -> list[str]:
    """Makes names different by appending numbers, because {"a.b": 1, "a": {"b": 2}} has two fields with the same
    name."""
    taken = {*_NAMES_OF_THE_LOADER}
    for i, name in enumerate(names):
        number = 1
        while names[i] in taken:
            number += 1
            names[i] = f"{name} ({number})"
        taken.add(names[i])
    return names


def _tree(value: Any, numbers: Any, texts: type = list) -> Any:
    if isinstance(value, Mapping):
        order = {key: _tree(value[key], numbers) for key in sorted(value, key=str)}
        return mapping_with(value, {key: order[key] for key in value})
    if isinstance(value, list | tuple):
        return _sequence_like(value, [_tree(each, numbers, tuple) for each in value])
    return _LeafSite(next(numbers), texts)


@dataclasses.dataclass
class _LeafSite:
    number: int
    texts: type  # list or tuple: what default_collate() returns for strings at this position


def _filled(tree: Any, values: list[Any], is_batch: bool = False) -> Any:
    """Returns a structure like `tree` with these values. is_batch: plain tuples become lists, as in default_collate()."""
    if isinstance(tree, _LeafSite):
        value = values[tree.number]
        return tree.texts(value) if isinstance(value, tuple) else value
    if isinstance(tree, Mapping):
        return mapping_with(tree, {key: _filled(each, values, is_batch) for key, each in tree.items()})
    items = [_filled(each, values, is_batch) for each in tree]
    return items if is_batch and type(tree) is tuple else _sequence_like(tree, items)


def _sequence_like(value: Any, items: list[Any]) -> Any:
    if type(value) is list:
        return items
    if isinstance(value, tuple):
        return tuple_like(value, items)
    changed = copy.copy(value)
    changed[:] = items
    return changed


def _describe_leaf(leaf: Leaf, differs: bool) -> str:
    dtype = str(leaf.dtype).removeprefix("torch.")
    sizes = " x ".join(map(str, leaf.shape))
    if leaf.is_image:
        return f"{dtype} image of " + (f"{leaf.shape[2]} channels" if differs else sizes)
    return f"{dtype} of {sizes}" if leaf.shape else dtype


def _is_pil(value: Any) -> bool:
    module = sys.modules.get("PIL.Image")
    return module is not None and isinstance(value, module.Image)


def _is_numpy(value: Any) -> bool:
    module = sys.modules.get("numpy")
    return module is not None and isinstance(value, module.ndarray | module.generic)


def _may_be_image(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return is_image(value)
    if not _is_numpy(value) or value.ndim != 3 or not 1 <= value.shape[2] <= 4:
        return False
    return str(value.dtype) in ("uint8", "float32")


def is_image(value: Any) -> bool:
    """Returns true if native transforms accept `value`: a tensor of channels x height x width."""
    if not isinstance(value, torch.Tensor) or value.dim() != 3 or not 1 <= value.shape[0] <= 4:
        return False
    return value.dtype in (torch.uint8, torch.float32) and value.shape[1] * value.shape[2] > 0


def _image(value: Any, name: str) -> torch.Tensor:
    """Converts an image to a tensor of height x width x channels."""
    if isinstance(value, torch.Tensor):
        return _tensor(value, name).permute(1, 2, 0)
    if not _is_pil(value):
        return _tensor(value, name)
    if value.mode in ("I", "F") or value.mode.startswith("I;"):
        raise Unfit(
            f"field '{name or 'sample'}' is a PIL image of mode {value.mode}, whose values would be truncated: give "
            "numpy.array(image), or for transforms numpy.float32(image)[..., None]"
        )
    if value.mode == "1":
        raise Unfit(f"field '{name or 'sample'}' is a PIL image of mode 1: convert it to 'L' or 'RGB'")
    if value.mode not in _AS_THEY_ARE:
        value = value.convert("RGB")
    pixels = torch.frombuffer(bytearray(value.tobytes()), dtype=torch.uint8)
    return pixels.view(value.height, value.width, len(value.getbands()))


def _tensor(value: Any, name: str) -> torch.Tensor:
    where = f"field '{name or 'sample'}'"
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided or value.is_quantized or value.device.type != "cpu":
            raise Unfit(
                f"{where} is a tensor on {value.device} of layout {value.layout}: give plain tensors on the "
                "CPU"
            )
        return value.detach().as_subclass(torch.Tensor).resolve_conj().resolve_neg().contiguous()
    if _is_numpy(value):
        try:
            if value.flags.c_contiguous and value.flags.writeable and value.dtype.isnative:
                return torch.as_tensor(value)
            native = value.astype(value.dtype.newbyteorder("="), order="C", copy=True)
            return torch.as_tensor(native)
        except TypeError:
            raise Unfit(f"{where} is a NumPy array of {value.dtype}, which tensors do not support") from None
    if isinstance(value, _PLAIN):
        dtype = torch.float64 if isinstance(value, float) else None
        try:
            return torch.tensor(value, dtype=dtype)
        except (OverflowError, RuntimeError, ValueError):
            raise Unfit(f"{where} is {shortened(value)}, which does not fit into int64") from None
    if _is_pil(value):
        return _image(value, name).permute(2, 0, 1).contiguous()
    raise Unfit(
        f"{where} is of type {type(value).__name__}: a batch can contain numbers, strings, tensors, NumPy arrays and "
        "PIL images, in tuples, lists, mappings and named tuples"
    )
