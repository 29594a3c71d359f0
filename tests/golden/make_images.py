"""Writes images.bin and backgrounds.bin.

images.bin contains small JPEG and PNG files of many kinds and their pixels. backgrounds.bin contains PNG files blended
with the color BACKGROUND.

With an argument: also writes the files of images.bin into that folder (seeds for the fuzzer). Needs numpy and Pillow.

Little-endian records: four uint32 (bytes of name, file, RGB pixels, mask), two int32 (height,
width), then name, file, RGB pixels (height x width x 3), mask (height x width; empty: refused).
JPEG pixels are Pillow's; PNG pixels are known from the construction of the file.
"""

import io
import pathlib
import struct
import sys
import zlib

import numpy as np
from PIL import Image, ImageOps

HEIGHT, WIDTH = 13, 21
ADAM7 = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2),
         (1, 0, 2, 1)]
GRAY, RGB, PALETTE, GRAY_ALPHA, RGBA = 0, 2, 3, 4, 6
BACKGROUND = np.array([10, 200, 33])


def scene():
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    red, green = x * 255 // (WIDTH - 1), y * 255 // (HEIGHT - 1)
    return np.stack([red, green, ((x // 3 + y // 2) % 2) * 200 + 20], axis=2).astype(np.uint8)


def jpeg(image, **options):
    out = io.BytesIO()
    image.save(out, "JPEG", **options)
    decoded = ImageOps.exif_transpose(Image.open(io.BytesIO(out.getvalue()))).convert("RGB")
    pixels = np.asarray(decoded)
    return out.getvalue(), pixels, None


def exif(orientation, order):
    entries = [(0x010F, 2, 4, b"our\0"), (0x0112, 3, 1, struct.pack(order + "2H", orientation, 0))]
    directory = struct.pack(order + "H", len(entries))
    for tag, kind, count, value in entries:
        directory += struct.pack(order + "2HI", tag, kind, count) + value
    start = struct.pack(order + "2sHI", b"II" if order == "<" else b"MM", 42, 8)
    return b"Exif\0\0" + start + directory + bytes(4)


def jpegs():
    image = Image.fromarray(scene())
    for name, subsampling in (("444", 0), ("422", 1), ("420", 2)):
        yield f"rgb_{name}.jpg", *jpeg(image, quality=90, subsampling=subsampling)
    yield "quality_1.jpg", *jpeg(image, quality=1)
    yield "progressive.jpg", *jpeg(image, quality=90, progressive=True)
    yield "restarts.jpg", *jpeg(image, quality=90, restart_marker_rows=1)
    yield "gray.jpg", *jpeg(image.convert("L"), quality=90)
    yield "cmyk.jpg", *jpeg(image.convert("CMYK"), quality=90)
    for orientation in range(1, 9):
        order = "<" if orientation % 2 else ">"
        file = jpeg(image, quality=90, exif=exif(orientation, order))
        yield f"exif_{orientation}.jpg", *file
    turned = jpeg(image.convert("CMYK"), quality=90, exif=exif(8, "<"))
    yield "exif_8_cmyk.jpg", *turned


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def packed_rows(samples, bits):
    rows = b""
    for row in samples.reshape(samples.shape[0], -1):
        if bits == 16:
            line = row.astype(">u2").tobytes()
        else:
            ones = (row[:, None] >> np.arange(bits - 1, -1, -1)) & 1
            line = np.packbits(ones.astype(np.uint8)).tobytes()
        rows += b"\0" + line
    return rows


def png(samples, bits, color, interlaced=False, palette=None, transparency=None):
    """Returns a PNG of `samples`, whose shape is height x width x channels."""
    passes = ADAM7 if interlaced else [(0, 0, 1, 1)]
    parts = (samples[top::down, left::right] for top, left, down, right in passes)
    data = b"".join(packed_rows(part, bits) for part in parts if part.size)
    header = struct.pack(">2I5B", WIDTH, HEIGHT, bits, color, 0, 0, interlaced)
    extra = chunk(b"PLTE", palette.tobytes()) if palette is not None else b""
    extra += chunk(b"tRNS", transparency) if transparency is not None else b""
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"gAMA", struct.pack(">I", 45455)) +
            extra + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b""))


def over(background, pixels, alpha, most=255):
    weighed = pixels.astype(int) * alpha + background * (most - alpha.astype(int))
    return (weighed * 2 + most) // (2 * most)


def over_black(pixels, alpha):
    return over(0, pixels, alpha).astype(np.uint8)


def to_8_bits(wide):
    return (wide.astype(int) * 510 + 65535) // 131070


def as_rgb(gray):
    return np.repeat(gray.reshape(HEIGHT, WIDTH, 1), 3, axis=2).astype(np.uint8)


def grays():
    numbers = scene()[:, :, 0].astype(int)
    for bits in (1, 2, 4, 8):
        classes = numbers >> (8 - bits)
        levels = as_rgb(classes * 255 // (2**bits - 1))
        yield f"gray_{bits}.png", png(classes, bits, GRAY), levels, classes
        yield f"gray_{bits}_interlaced.png", png(classes, bits, GRAY, True), levels, classes
    key = int(numbers[5, 5])
    levels = as_rgb(np.where(numbers == key, 0, numbers))
    yield "gray_key.png", png(numbers, 8, GRAY, transparency=struct.pack(">H", key)), levels, numbers
    wide = numbers * 256 + 77
    yield "gray_16.png", png(wide, 16, GRAY), as_rgb(to_8_bits(wide)), None
    alpha = scene()[:, :, 1]
    both = np.stack([numbers, alpha], axis=2)
    yield "gray_alpha.png", png(both, 8, GRAY_ALPHA), over_black(as_rgb(numbers), as_rgb(alpha)), None


def colored():
    pixels = scene()
    alpha = pixels[:, :, 1:2]
    rgba = np.concatenate([pixels, alpha], axis=2)
    for interlaced in (False, True):
        tail = "_interlaced.png" if interlaced else ".png"
        yield "rgb" + tail, png(pixels, 8, RGB, interlaced), pixels, None
        yield "rgba" + tail, png(rgba, 8, RGBA, interlaced), over_black(pixels, alpha), None
    wide = pixels.astype(int) * 256 + 200
    yield "rgb_16.png", png(wide, 16, RGB), to_8_bits(wide), None
    opaque = np.concatenate([pixels.astype(int) * 257, np.full_like(alpha, 65535, dtype=int)], axis=2)
    yield "rgba_16.png", png(opaque, 16, RGBA), pixels, None


def paletted():
    colors = (np.arange(256 * 3).reshape(256, 3) * 37 % 256).astype(np.uint8)
    for bits in (1, 2, 4, 8):
        classes = scene()[:, :, 0].astype(int) >> (8 - bits)
        palette = colors[: 2**bits]
        file = png(classes, bits, PALETTE, palette=palette)
        yield f"palette_{bits}.png", file, palette[classes], classes
    alpha = bytes(range(0, 256, 16))
    classes = scene()[:, :, 0].astype(int) >> 4
    file = png(classes, 4, PALETTE, True, palette=colors[:16], transparency=alpha)
    seen = over_black(colors[classes], np.frombuffer(alpha, np.uint8)[classes][:, :, None])
    yield "palette_alpha_interlaced.png", file, seen, classes


def over_background():
    pixels = scene()
    alpha = pixels[:, :, 1:2]
    gray = pixels[:, :, 0:1].astype(int)
    key = int(gray[5, 5, 0])
    seen = over(BACKGROUND, as_rgb(gray), alpha)
    yield "gray_alpha.png", png(np.concatenate([gray, alpha], axis=2), 8, GRAY_ALPHA), seen, None
    for bits in (2, 8):
        classes = gray >> (8 - bits)
        hidden = int(classes[5, 5, 0])
        seen = np.where(classes == hidden, BACKGROUND, as_rgb(classes * 255 // (2**bits - 1)))
        file = png(classes, bits, GRAY, transparency=struct.pack(">H", hidden))
        yield f"gray_{bits}_key.png", file, seen, None
    wide = gray * 257 - (gray > 0) * 100
    file = png(wide, 16, GRAY, transparency=struct.pack(">H", int(wide[5, 5, 0])))
    yield "gray_16_key.png", file, np.where(gray == key, BACKGROUND, as_rgb(to_8_bits(wide))), None
    hidden = pixels[5, 5].astype(int)
    seen = np.where((pixels == hidden).all(axis=2, keepdims=True), BACKGROUND, pixels)
    yield "rgb_key.png", png(pixels, 8, RGB, transparency=struct.pack(">3H", *hidden)), seen, None
    rgba = np.concatenate([pixels, alpha], axis=2)
    for interlaced in (False, True):
        tail = "_interlaced.png" if interlaced else ".png"
        yield "rgba" + tail, png(rgba, 8, RGBA, interlaced), over(BACKGROUND, pixels, alpha), None
    wide = rgba.astype(int) * 256 + 128
    seen = to_8_bits(over(BACKGROUND * 257, wide[:, :, :3], wide[:, :, 3:], 65535))
    yield "rgba_16.png", png(wide, 16, RGBA), seen, None
    _, file, _, classes = list(paletted())[-1]
    colors = (np.arange(16 * 3).reshape(16, 3) * 37 % 256)[classes]
    alpha = np.arange(0, 256, 16)[classes][:, :, None]
    yield "palette_alpha_interlaced.png", file, over(BACKGROUND, colors, alpha), None


def write(path, makers, folder=None):
    records = b""
    for make in makers:
        for name, file, pixels, mask in make():
            levels = pixels.astype(np.uint8).tobytes()
            classes = b"" if mask is None else mask.astype(np.uint8).tobytes()
            sizes = len(name), len(file), len(levels), len(classes), *pixels.shape[:2]
            records += struct.pack("<6I", *sizes) + name.encode() + file + levels + classes
            if folder:
                pathlib.Path(folder, name).write_bytes(file)
    pathlib.Path(__file__).with_name(path).write_bytes(records)


def main():
    write("images.bin", (jpegs, grays, colored, paletted), *sys.argv[1:2])
    write("backgrounds.bin", (over_background,))


main()
