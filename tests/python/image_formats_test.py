"""Image files of all formats have the pixels that Pillow reads."""

import sys
from pathlib import Path

import numpy as np
import pytest
import slipstream as ss
import torch
from slipstream import _native

sys.path.append(str(Path(__file__).parents[1] / "golden"))
import make_formats

FORMATS = {".bmp": "BMP", ".gif": "GIF", ".tif": "TIFF", ".webp": "WebP"}


def is_decodable(name):
    return _native.can_decode(FORMATS[Path(name).suffix])


def write(folder, files):
    (folder / "a").mkdir(parents=True)
    for name, file in files:
        (folder / "a" / name).write_bytes(file)
    return folder


@pytest.fixture(scope="module")
def variants():
    """Files of all kinds, made by the installed Pillow, by name, and their pixels."""
    return {name: (file, pixels) for name, file, pixels in make_formats.variants(leaves_out_unread=True)}


@pytest.mark.filterwarnings("ignore:all samples are of one class")
def test_every_variant_has_pixels_of_pillow(variants, tmp_path):
    files = [(name, file) for name, (file, _) in variants.items() if is_decodable(name)]
    data = ss.ImageFolder(write(tmp_path, files))
    assert len(data) == len(files) > 15
    for index in range(len(data)):
        image, _ = data[index]
        expected = torch.from_numpy(variants[Path(data.name(index)).name][1].copy()).permute(2, 0, 1)
        assert torch.equal(image, expected), data.name(index)


@pytest.mark.filterwarnings("ignore:all samples are of one class")
def test_files_of_different_formats_are_loaded_in_one_batch(variants, tmp_path):
    files = [(name, file) for name, (file, _) in variants.items()
             if name in ("rgb.bmp", "raw.tif", "lossless.webp", "interlaced.gif") and is_decodable(name)]
    data = ss.ImageFolder(write(tmp_path, files), ss.transforms.CenterCrop(8))
    ((images, _),) = ss.DataLoader(data, len(files))
    for image, (name, _) in zip(images, sorted(files), strict=True):
        top, left = (make_formats.HEIGHT - 8) // 2, (make_formats.WIDTH - 8) // 2
        whole = variants[name][1]
        expected = ss.transforms.CenterCrop(8)(torch.from_numpy(whole.copy()).permute(2, 0, 1)[None], sample_ids=[0])[0]
        assert torch.equal(image, expected), (name, top, left)


@pytest.mark.filterwarnings("ignore:all samples are of one class")
def test_name_may_have_extension_of_another_format(variants, tmp_path):
    file, pixels = variants["rgb.bmp"]
    image, _ = ss.ImageFolder(write(tmp_path, [("really.jpg", file)]))[0]
    assert np.array_equal(image.permute(1, 2, 0).numpy(), pixels)


@pytest.mark.filterwarnings("ignore:all samples are of one class")
def test_file_that_build_cannot_decode_is_named_with_remedy(variants, tmp_path):
    missing = [name for name in ("raw.tif", "lossless.webp", "plain.gif") if not is_decodable(name)]
    if not missing:
        pytest.skip("this build decodes all formats")
    data = ss.ImageFolder(write(tmp_path, [(missing[0], variants[missing[0]][0])]))
    with pytest.raises(ss.Error, match="this build of Slipstream cannot decode .* and build again, or convert the file"):
        data[0]
