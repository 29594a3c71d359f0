"""How values in samples from Python are converted."""

import sys

import numpy
import pytest
import torch
from PIL import Image

import slipstream as ss
from slipstream._samples import Sample, Unfit


def only(value, wants_image=False):
    (tensor,) = Sample(value, wants_image).tensors
    return tensor


def pixels(mode, channels):
    array = numpy.arange(5 * 4 * channels, dtype=numpy.uint8).reshape(5, 4, channels)
    return array, Image.frombytes(mode, (4, 5), array.tobytes())


@pytest.mark.parametrize(("mode", "channels"), [("L", 1), ("RGB", 3), ("RGBA", 4), ("HSV", 3), ("YCbCr", 3), ("LAB", 3)])
def test_supported_pil_modes_keep_their_pixels(mode, channels):
    array, image = pixels(mode, channels)
    assert torch.equal(only(image), torch.from_numpy(array))


@pytest.mark.parametrize("mode", ["P", "CMYK", "LA"])
def test_palette_cmyk_and_la_images_become_rgb(mode):
    image = pixels(mode, {"P": 1, "CMYK": 4, "LA": 2}[mode])[1]
    if mode == "P":
        image.putpalette(list(range(255, -1, -1)) * 3)
    expected = torch.from_numpy(numpy.array(image.convert("RGB")))
    assert expected.shape == (5, 4, 3) and torch.equal(only({"image": image}), expected)


@pytest.mark.parametrize("mode", ["1", "I", "F", "I;16"])
def test_other_pil_modes_are_refused_with_advice(mode):
    """The message names a conversion that loses nothing."""
    image = Image.new(mode, (4, 5))
    advice = "convert it to 'L' or 'RGB'" if mode == "1" else r"give numpy\.array\(image\), or for transforms"
    with pytest.raises(Unfit, match=f"field 'a.0' is a PIL image of mode {mode}.*: {advice}"):
        Sample({"a": [image]}, False)
    if mode != "1":
        assert only(numpy.array(image)).shape == (5, 4) and only(numpy.float32(image)[..., None], True).shape == (5, 4, 1)


COLOR, GRAY, TENSOR = Image.new("RGB", (4, 5)), Image.new("L", (4, 5)), torch.zeros(1, 5, 4)


@pytest.mark.parametrize(("sample", "images"), [
    ((TENSOR, TENSOR), ["0"]), ((TENSOR, GRAY), None), ((GRAY, TENSOR), ["0"]), ((TENSOR, COLOR), ["1"]),
    ({"image": TENSOR, "depth": TENSOR}, ["image"]), ({"rgb": TENSOR, "depth": TENSOR}, None),
    ({"image": TENSOR, "a": GRAY}, ["image"]), ({"image": GRAY, "a": TENSOR}, ["image"]), ({"b": GRAY, "a": TENSOR}, None),
    ({"rgb": COLOR, "a": TENSOR}, ["rgb"]), ({"image": COLOR, "mask": GRAY}, ["image", "mask"]), ({"rgb": TENSOR}, ["rgb"]),
    (({"rgb": TENSOR, "y": 1}, 3), ["0.rgb"]), ((TENSOR, TENSOR, {"id": 1, "of": 2}), ["0"]),
    (({"rgb": TENSOR, "y": 1}, {"z": TENSOR}), ["0.rgb"]), ((1, {"a": GRAY, "z": TENSOR}), None),
    ((GRAY, {"a": 1, "z": TENSOR}), ["0"]), ({"image": {"x": TENSOR}, "y": {"image": TENSOR}}, None),
    ({"image": [TENSOR, TENSOR], "mask": TENSOR}, ["image.0"])])
def test_image_field_is_selected_or_ambiguity_refused(sample, images):
    if images is None:
        with pytest.raises(Unfit, match="transforms are applied to one image, but each of the fields '.*' and '.*' "
                                        "could be that image: use"):
            Sample(sample, True)
    else:
        assert [leaf.name for leaf in Sample(sample, True).leaves if leaf.is_image] == images


def test_second_picture_is_not_transformed():
    data = ss.PythonDataset([{"image": TENSOR, "depth": GRAY}] * 2, ss.transforms.CenterCrop((5, 4)))
    with pytest.raises(ss.Refused, match="CenterCrop changes the positions of pixels, and would be applied to field 'image'"):
        ss.DataLoader(data, num_workers=1)
    data.transform = ss.transforms.Normalize([0.5], [0.5])
    for sample in (data[0], next(iter(ss.DataLoader(data, num_workers=1)))):
        assert sample["depth"].shape[-3:] == (1, 5, 4) and sample["depth"].dtype == torch.uint8
        assert sample["image"].unique().tolist() == [-1]


@pytest.mark.parametrize("number", [1 << 63, -(1 << 63) - 1, 1 << 200])
def test_integers_beyond_int64_are_refused(number):
    with pytest.raises(Unfit, match=f"field 'a' is {str(number)[:50]}.*, which does not fit into int64"):
        Sample({"a": number}, False)
    assert only((1 << 63) - 1).item() == (1 << 63) - 1


WHOLE = numpy.arange(24, dtype=numpy.int32).reshape(4, 6)


def read_only():
    array = WHOLE.copy()
    array.flags.writeable = False
    return array


ARRAYS = {
    "read-only": read_only,
    "byte-swapped": lambda: WHOLE.astype(WHOLE.dtype.newbyteorder(">")),
    "transposed": lambda: numpy.asfortranarray(WHOLE),
    "backwards": lambda: WHOLE[::-1, ::-1].copy()[::-1, ::-1],
    "every second": lambda: numpy.repeat(WHOLE, 2, axis=1)[:, ::2],
    "broadcast": lambda: numpy.broadcast_to(WHOLE, (2, 4, 6))[1],
}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.filterwarnings("error")
def test_arrays_of_any_layout_keep_their_values(name):
    made = only(ARRAYS[name]())
    assert made.dtype == torch.int32 and made.is_contiguous() and torch.equal(made, torch.from_numpy(WHOLE))


def test_numpy_scalars_keep_value_and_strings_are_refused():
    assert only(numpy.array(513, dtype=">i2")).item() == 513 and only(numpy.float64(0.1)).item() == 0.1
    with pytest.raises(Unfit, match="field 'sample' is a NumPy array of <U3, which tensors do not support"):
        Sample(numpy.array(["abc"]), False)


def test_conjugate_and_transposed_views_keep_their_values():
    value = torch.tensor([1 + 2j, 3 - 4j])
    for view in (value.conj(), value.conj().imag, value.t()):
        assert torch.equal(only(view), view.clone()) and not only(view).is_conj() and not only(view).is_neg()
    assert only(value.conj().imag).tolist() == [-2, 4]


def test_parameter_becomes_plain_contiguous_tensor():
    leaf = torch.nn.Parameter(torch.ones(2, 3).t().contiguous().t())
    made = only(leaf)
    assert type(made) is torch.Tensor and not made.requires_grad and made.is_contiguous()


@pytest.mark.parametrize("make", [
    lambda: torch.eye(3).to_sparse(), lambda: torch.empty(2, device="meta"),
    lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
], ids=["sparse", "meta", "quantized"])
def test_sparse_meta_and_quantized_tensors_are_refused(make):
    with pytest.raises(Unfit, match=r"field 'x' is a tensor on \w+ of layout torch.\w+: give plain tensors"):
        Sample({"x": make()}, False)


def image(value):
    return torch.full((3, 4, 5), value, dtype=torch.uint8)


def image_field_names(value):
    return [leaf.name for leaf in Sample(value, True).leaves if leaf.is_image]


def test_only_the_first_image_array_is_transformed():
    assert image_field_names([image(1), image(2), {"label": 3}]) == ["0"]
    assert image_field_names((7, numpy.zeros((4, 5, 3), numpy.float32), image(2))) == ["1"]
    tensors = [torch.zeros(5, 4, 4), torch.zeros(3, 4, 4, dtype=torch.float64), torch.zeros(3, 4)]
    assert image_field_names([*tensors, image(1)]) == ["3"]
    arrays = [numpy.zeros((4, 5, 5), numpy.uint8), numpy.zeros((4, 5, 3)), numpy.zeros((4, 5, 4), numpy.uint8)]
    assert image_field_names(arrays) == ["2"]


def test_all_pil_images_and_no_tensors_are_transformed():
    picture = Image.new("RGB", (5, 4))
    assert image_field_names([image(1), picture, {"more": picture}]) == ["1", "2.more"]


def test_sample_without_image_is_refused_with_its_types():
    with pytest.raises(Unfit, match=r"sample is \(int64, float32 of 5 x 4 x 4\), which has no image, but "
                                    "transforms are applied to images"):
        Sample((1, torch.zeros(5, 4, 4)), True)


def test_loader_converts_only_the_first_image():
    class Pairs:
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return {"image": image(i), "later": image(i + 10)}

    data = ss.PythonDataset(Pairs(), ss.transforms.ToDtype(torch.float32))
    batch = next(iter(ss.DataLoader(data, 4, num_workers=1)))
    assert batch["image"].dtype == torch.float32 and batch["later"].dtype == torch.uint8
    assert batch["image"][:, 0, 0, 0].tolist() == [0, 1, 2, 3]
    assert batch["later"][:, 0, 0, 0].tolist() == [10, 11, 12, 13]


class Made:
    """A data set of two samples that a function creates from their index."""

    def __init__(self, make):
        self.make = make

    def __len__(self):
        return 2

    def __getitem__(self, i):
        return self.make(i)


@pytest.mark.parametrize(("make", "message"), [
    (lambda i: {"tokens": list(range(4096)), "label": i}, "has 4097 tensors and numbers.* more than 4096: combine"),
    (lambda i: [[*range(4096)], "text"], "has 4097 tensors and numbers.* more than 4096: combine"),
    (lambda i: {"k" * (1 << 24): i}, "has 33.* bytes, more than 16777216: use fewer")])
def test_samples_with_too_many_fields_are_refused(make, message):
    with pytest.raises(ss.Error, match=f"step 'read' of sample 0: the .*{message}"):
        ss.DataLoader(Made(make), 2, num_workers=1)


def test_sample_with_maximum_number_of_fields_is_collated():
    batch = next(iter(ss.DataLoader(Made(lambda i: [*range(4095), "text"]), 2, num_workers=1)))
    assert torch.stack(batch[:-1]).tolist() == [[n, n] for n in range(4095)] and batch[-1] == ("text", "text")


def test_very_long_error_message_is_reported():
    def fails(i):
        raise ValueError("long" * (1 << 23))

    with pytest.raises(ss.Error, match="^step 'read' of sample 0: ValueError: longlong"):
        ss.DataLoader(Made(fails), 2, num_workers=1)


def with_a_note(i):
    error = ValueError(f"no {i}")
    error.__notes__ = ["Help: see the manual"]
    raise error


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 has no notes and groups")
def test_exception_text_precedes_notes_and_traceback():
    with pytest.raises(ss.Error, match=r"step 'read' of sample 0: ValueError: no 0\nin worker(.|\n)*see the manual"):
        ss.DataLoader(Made(with_a_note), 1, num_workers=1)

    def group(i):
        raise ExceptionGroup("two files", [OSError("a"), OSError("b")])  # noqa: F821

    with pytest.raises(ss.Error, match=r"ExceptionGroup: two files \(2 sub-exceptions\)\nin worker"):
        ss.DataLoader(Made(group), 1, num_workers=1)


def test_one_element_arrays_of_any_stride_keep_their_values():
    column = numpy.arange(6.0).reshape(1, 6).T  # pandas' frame[["y"]].values has such strides
    table = torch.arange(24.0).reshape(6, 4)
    batch = next(iter(ss.DataLoader([(column[i], table[i : i + 1, 3]) for i in range(6)], 6, num_workers=1)))
    assert torch.equal(batch[0], torch.from_numpy(column)) and torch.equal(batch[1], table[:, 3:])


class Counted(list):
    reads = 0

    def __getitem__(self, index):
        self.reads += 1
        return super().__getitem__(index)


def test_repr_of_data_set_reads_no_sample():
    data = ss.PythonDataset(Counted([1, 2]))
    before = data._native.source.reads
    assert "2 samples" in repr(data) and data._native.source.reads == before
    assert repr(ss.PythonDataset([])) == "PythonDataset(0 samples)"
