"""Damaged files give the same pixels as PIL with every way of decoding, or an error if PIL raises one."""

import io
import random

import numpy
import pytest
import torch
from PIL import Image

import slipstream as ss

T = ss.transforms
HEIGHT, WIDTH = 90, 123
WHOLE = T.CenterCrop((HEIGHT, WIDTH))


def scene():
    y, x = numpy.mgrid[0:HEIGHT, 0:WIDTH]
    noise = numpy.random.default_rng(0).normal(0, 20, (HEIGHT, WIDTH, 3))
    return numpy.clip(numpy.stack([x * 1.8, y * 2.5, (x * y / 5) % 256], 2) + noise, 0, 255).astype(numpy.uint8)


def jpeg(mode="RGB", **options):
    out = io.BytesIO()
    Image.fromarray(scene()).convert(mode).save(out, "JPEG", quality=85, **options)
    return out.getvalue()


FILES = {
    "baseline": jpeg(),
    "without subsampling": jpeg(subsampling=0),
    "with restarts": jpeg(restart_marker_blocks=5),
    "gray": jpeg("L"),
    "CMYK": jpeg("CMYK"),
    "progressive": jpeg(progressive=True),
    "progressive with restarts": jpeg(progressive=True, restart_marker_rows=1),
}


def markers(file, *kinds):
    start = file.index(b"\xff\xda")
    found = [at for at in range(2, start + 1) if file[at:at + 1] == b"\xff" and file[at + 1] in kinds]
    return found or [start]


def random_bytes(draw, count):
    return bytes(draw.randrange(255) for _ in range(count))  # no 0xff, which would begin a marker


def add_before_end(draw, file):
    file[-2:-2] = random_bytes(draw, draw.choice([1, 2, 3, 50, 600]))


def add_between_segments(draw, file):
    at = draw.choice(markers(file, 0xDB, 0xC0, 0xC2, 0xDA))
    file[at:at] = random_bytes(draw, draw.choice([1, 2, 40]))


def scan(file):
    return file.index(b"\xff\xda") + 14


def flip_bits(draw, file):
    for _ in range(draw.choice([1, 1, 1, 6])):
        file[draw.randrange(scan(file), len(file) - 2)] ^= 1 << draw.randrange(8)


def replace_bytes(draw, file):
    at, count = draw.randrange(scan(file), len(file) - 12), draw.randrange(1, 10)
    file[at:at + count] = bytes(draw.randrange(256) for _ in range(count))


def remove_bytes(draw, file):
    at = draw.randrange(scan(file), len(file) - 2)
    del file[at:at + draw.randrange(1, 30)]


def cut(draw, file):
    del file[draw.choice([draw.randrange(scan(file), len(file)), len(file) - draw.randrange(1, 8)]):]


def damaged(count):
    """Yields names and contents of files: `count` files for each kind of file and each kind of damage."""
    draw = random.Random(7)
    for kind, file in FILES.items():
        for damage in (add_before_end, add_between_segments, flip_bits, replace_bytes, remove_bytes, cut):
            for number in range(count):
                changed = bytearray(file)
                damage(draw, changed)
                yield f"{kind}, {damage.__name__}, {number}.jpg", bytes(changed)


def decode_with_pil(file):
    try:
        with Image.open(io.BytesIO(file)) as image:
            return numpy.asarray(image.convert("RGB"))
    except OSError:
        return None


def sample(data, index):
    try:
        return data[index][0].permute(1, 2, 0).numpy()
    except ss.Error:
        return None


def load_only_image(data, **options):
    """Returns the image of the only sample in the first epoch, or None if it is bad."""
    try:
        return next(iter(ss.DataLoader(data, batch_size=1, **options)))[0][0]
    except ss.Error:
        return None


def folder(path, files):
    (path / "a").mkdir(parents=True)
    for name, file in files:
        (path / "a" / name).write_bytes(file)
    return path


def test_damaged_files_have_the_pixels_of_pil(tmp_path):
    files = sorted(damaged(12))
    data = ss.ImageFolder(folder(tmp_path, files))
    outcomes = {True: 0, False: 0}
    for index, (name, file) in enumerate(files):
        ours, theirs = sample(data, index), decode_with_pil(file)
        assert (ours is None) == (theirs is None), name
        assert theirs is None or (ours == theirs).all(), name
        outcomes[theirs is None] += 1
    assert min(outcomes.values()) > 50


def test_crop_of_damaged_file_is_part_of_whole_decoded_image(tmp_path):
    for number, (name, file) in enumerate(sorted(damaged(2))):
        root = folder(tmp_path / str(number), [(name, file)])
        whole = load_only_image(ss.ImageFolder(root, WHOLE))
        for seed in range(6):
            size = (20, 31) if seed < 5 else (HEIGHT, WIDTH)
            crop = load_only_image(ss.ImageFolder(root, T.RandomCrop(size)), seed=seed)
            assert (crop is None) == (whole is None), (name, seed)
            assert whole is None or contains_crop(whole, crop), (name, seed)


def contains_crop(whole, crop):
    """Returns whether the crop equals a part of the whole image at any position."""
    windows = whole.unfold(1, crop.shape[1], 1).unfold(2, crop.shape[2], 1)
    return bool((windows == crop[:, None, None]).all(dim=0).all(dim=-1).all(dim=-1).any())


def test_crop_of_progressive_file_with_missing_scans_is_part_of_whole(tmp_path):
    file = FILES["progressive"]
    scans = [at for at in range(len(file)) if file[at:at + 2] == b"\xff\xda"]
    for number, end in enumerate(scans[1:]):
        tables = file.rindex(b"\xff\xc4", 0, end)
        part = file[:tables if tables > scans[number] else end] + b"\xff\xd9"
        root = folder(tmp_path / str(number), [("a.jpg", part)])
        whole = load_only_image(ss.ImageFolder(root, WHOLE))
        for seed in range(5):
            crop = load_only_image(ss.ImageFolder(root, T.RandomCrop((24, 31))), seed=seed)
            assert contains_crop(whole, crop), (number, seed)


@pytest.mark.parametrize("skip", [False, True])
def test_strict_decoding_refuses_tolerated_damage(tmp_path, skip):
    junk = FILES["baseline"][:-2] + bytes(50) + b"\xff\xd9"
    data = ss.ImageFolder(folder(tmp_path, [("bad.jpg", junk), ("good.jpg", FILES["baseline"])]), T.CenterCrop(8))
    options = {"batch_size": 2, "on_bad_sample": "skip" if skip else "stop"}
    assert [len(images) for images, _ in ss.DataLoader(data, **options)] == [2]
    strict = ss.DataLoader(data, **options, decode="strict")
    if skip:
        assert [len(images) for images, _ in strict] == [1] and list(strict.skipped) != []
        return
    with pytest.raises(ss.Error, match="bad.jpg.*extraneous bytes"):
        list(strict)


def test_unknown_decode_argument_is_refused(tmp_path):
    data = ss.ImageFolder(folder(tmp_path, [("a.jpg", FILES["baseline"])]))
    with pytest.raises(ss.Refused, match="decode"):
        ss.DataLoader(data, 1, decode="fast")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_damaged_files_sent_as_jpeg_have_same_pixels_as_on_cpu(tmp_path):
    tolerated = []
    for name, file in sorted(damaged(3)):
        one = ss.ImageFolder(folder(tmp_path / name, [(name, file)]), WHOLE)
        if load_only_image(one) is not None and load_only_image(one, decode="strict") is None:
            tolerated.append((name, file))
    assert len(tolerated) > 20
    data = ss.ImageFolder(folder(tmp_path / "all", tolerated), T.Resize((32, 32)))
    plain = torch.cat([images for images, _ in ss.DataLoader(data, 4)])
    files = torch.cat([images.cpu() for images, _ in ss.DataLoader(data, 4, device="cuda", wire={"image": "jpeg"})])
    assert torch.equal(plain, files)
