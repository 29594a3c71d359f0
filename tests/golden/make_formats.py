"""Writes formats.bin: small BMP, GIF, TIFF and WebP files of many kinds and their pixels, in the form of make_images.py.
With an argument: also writes the files themselves into that folder (seeds for the fuzzer). Needs numpy and Pillow.

Pixels are those of Pillow's Image.open(file).convert("RGB"), with two exceptions: transparent pixels are drawn over
black, and 16 bits are rounded to 8. tests/python/image_formats_test.py makes the same files with the Pillow that is
installed.
"""

import io
import pathlib
import struct
import sys
import zlib

import numpy as np
from PIL import Image, ImageOps

HEIGHT, WIDTH = 13, 22


def scene():
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    red, green = x * 255 // (WIDTH - 1), y * 255 // (HEIGHT - 1)
    return np.stack([red, green, ((x // 3 + y // 2) % 2) * 200 + 20], axis=2).astype(np.uint8)


def alpha():
    return (scene()[:, :, 0:1].astype(int) * 2 % 256).astype(np.uint8)


def gray():
    return scene()[:, :, 0]


def over_black(colors, opacity, most=255):
    """As the decoder rounds: once, from the product."""
    levels = colors.astype(np.int64) * opacity
    return ((levels * 255 + most * most // 2) // (most * most)).astype(np.uint8)


def pil(file):
    return np.asarray(Image.open(io.BytesIO(file)).convert("RGB"))


def pil_over_black(file):
    rgba = np.asarray(Image.open(io.BytesIO(file)).convert("RGBA"))
    return over_black(rgba[:, :, :3], rgba[:, :, 3:])


def saved(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


# --- BMP -------------------------------------------------------------------------------------------------------------

COLORS = np.array([[i * 53 % 256, i * 97 % 256, i * 31 % 256] for i in range(256)], np.uint8)


def bmp(bits, rows, *, compression=0, masks=b"", colors=None, top_down=False, header=40, count=None):
    """rows: the bytes of the pixels, from the first row that is stored."""
    palette = b""
    if colors is not None:
        blank = b"" if header == 12 else b"\0"
        palette = b"".join(bytes(color[::-1]) + blank for color in colors)
    if header == 12:
        sizes = struct.pack("<IHHHH", 12, WIDTH, HEIGHT, 1, bits)
    else:
        sizes = struct.pack("<IiiHHIIiiII", header, WIDTH, -HEIGHT if top_down else HEIGHT, 1, bits, compression,
                            len(rows), 2835, 2835, count or 0, 0)
    if header > 40:
        sizes, masks = (sizes + masks).ljust(header, b"\0"), b""
    start = 14 + len(sizes) + len(masks) + len(palette)
    return struct.pack("<2sIHHI", b"BM", start + len(rows), 0, 0, start) + sizes + masks + palette + rows


def padded(row):
    return row + bytes(-len(row) % 4)


def index_rows(indices, bits, top_down=False):
    ordered = indices if top_down else indices[::-1]
    ones = (ordered[:, :, None] >> np.arange(bits - 1, -1, -1)) & 1
    return b"".join(padded(np.packbits(row.reshape(-1).astype(np.uint8)).tobytes()) for row in ones)


def number_rows(numbers, dtype, top_down=False):
    ordered = numbers if top_down else numbers[::-1]
    return b"".join(padded(row.astype(dtype).tobytes()) for row in ordered)


def rle8(indices):
    """Encoded runs, a literal run of odd length, and the ends of lines."""
    data = b""
    for row in indices[::-1]:
        data += bytes([0, 7]) + row[:7].tobytes() + b"\0"
        for value in row[7:]:
            data += bytes([1, value])
        data += b"\0\0"
    return data[:-2] + b"\0\1"


def rle4(indices):
    data = b""
    for row in indices[::-1]:
        first = [int(each) for each in row[:5]] + [0]
        data += bytes([0, 5]) + bytes(a << 4 | b for a, b in zip(first[::2], first[1::2])) + b"\0"
        for a, b in zip(row[5:-1:2], row[6::2]):
            data += bytes([2, int(a) << 4 | int(b)])
        data += bytes([1, int(row[-1]) << 4, 0, 0])
    return data[:-2] + b"\0\1"


def channels(image, red, green, blue):
    wide = image.astype(int)
    return (wide[:, :, 0] >> 8 - red) << green + blue | (wide[:, :, 1] >> 8 - green) << blue | wide[:, :, 2] >> 8 - blue


def bmps():
    image = Image.fromarray(scene())
    indices = gray().astype(int)
    for bits, count in ((1, 2), (4, 16), (8, 256)):
        packed = index_rows(indices >> 8 - bits, bits)
        yield f"palette_{bits}.bmp", bmp(bits, packed, colors=COLORS[1:count + 1])
    yield "palette_short.bmp", bmp(8, index_rows(indices >> 4, 8), colors=COLORS[:16], count=16)
    yield "palette_old_header.bmp", bmp(4, index_rows(indices >> 4, 4), colors=COLORS[:16], header=12)
    yield "palette_top_down.bmp", bmp(8, index_rows(indices, 8, True), colors=COLORS, top_down=True)
    yield "gray.bmp", saved(image.convert("L"), "BMP")
    yield "bits.bmp", saved(image.convert("1"), "BMP")
    yield "rgb.bmp", saved(image, "BMP")
    yield "rgb_top_down.bmp", bmp(24, number_rows(scene()[:, :, ::-1].reshape(HEIGHT, -1), "u1", True), top_down=True)
    yield "rgb_555.bmp", bmp(16, number_rows(channels(scene(), 5, 5, 5), "<u2"))
    yield "rgb_565.bmp", bmp(16, number_rows(channels(scene(), 5, 6, 5), "<u2"), compression=3,
                             masks=struct.pack("<3I", 0xF800, 0x7E0, 0x1F))
    wide = number_rows(channels(scene(), 8, 8, 8), "<u4")
    yield "rgb_32.bmp", bmp(32, wide)
    yield "rgb_32_masks.bmp", bmp(32, wide, compression=3, masks=struct.pack("<3I", 0xFF0000, 0xFF00, 0xFF))
    turned = number_rows(channels(scene()[:, :, ::-1], 8, 8, 8) | 0x80000000, "<u4")
    yield "rgba_masks.bmp", bmp(32, turned, compression=3, header=124,
                                masks=struct.pack("<4I", 0xFF, 0xFF00, 0xFF0000, 0xFF000000))
    yield "rle8.bmp", bmp(8, rle8(gray()), compression=1, colors=COLORS)
    yield "rle4.bmp", bmp(4, rle4(indices >> 4), compression=2, colors=COLORS[:16])


# --- GIF -------------------------------------------------------------------------------------------------------------


def paletted(colors=64):
    return Image.fromarray(scene()).quantize(colors)


def moved(gif, left, top, width, height):
    """The same image on a larger canvas."""
    place = gif.index(b",\0\0\0\0" + struct.pack("<HH", WIDTH, HEIGHT))
    return (gif[:6] + struct.pack("<HH", width, height) + gif[10:place + 1] + struct.pack("<HH", left, top)
            + gif[place + 5:])


def without_palette(gif):
    size = 3 << (gif[10] & 7) + 1
    return gif[:10] + bytes([gif[10] & 0x7F]) + gif[11:13] + gif[13 + size:]


def gifs():
    image = paletted()
    yield "plain.gif", saved(image, "GIF", interlace=0)
    yield "interlaced.gif", saved(image, "GIF", interlace=1)
    yield "two_colors.gif", saved(paletted(2), "GIF")
    yield "gray.gif", saved(Image.fromarray(gray()), "GIF")
    yield "no_palette.gif", without_palette(saved(Image.fromarray(gray()), "GIF"))
    yield "moved.gif", moved(saved(image, "GIF"), 3, 2, WIDTH + 9, HEIGHT + 5)
    yield "beyond.gif", moved(saved(image, "GIF"), 6, 7, WIDTH, HEIGHT)
    others = [Image.fromarray(scene()[::-1]).quantize(16), Image.fromarray(scene()[:, ::-1]).quantize(16)]
    yield "animated.gif", saved(image, "GIF", save_all=True, append_images=others, duration=50, loop=0)


def clear_gifs():
    image = paletted()
    yield "transparent.gif", saved(image, "GIF", transparency=image.getpixel((8, 5)))
    yield "transparent_moved.gif", moved(saved(image, "GIF", transparency=image.getpixel((8, 5))), 3, 2, WIDTH + 4,
                                         HEIGHT + 3)


# --- TIFF ------------------------------------------------------------------------------------------------------------

SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 16: 8}


def tiff(blocks, *, order="<", big=False, **tags):
    """blocks: the bytes of the strips, or of the tiles if TileWidth is given."""
    names = {"width": 256, "height": 257, "bits": 258, "compression": 259, "photometric": 262, "fill_order": 266,
             "orientation": 274, "samples": 277, "rows": 278, "planar": 284, "colors": 320, "tile_width": 322,
             "tile_height": 323, "ink_set": 332, "extra": 338, "format": 339, "subsampling": 530, "reference": 532}
    given = {"width": WIDTH, "height": HEIGHT, "compression": 1, "samples": 1, **tags}
    is_tiled = "tile_width" in given
    given.setdefault("rows", HEIGHT) if not is_tiled else None
    offset_size, offset_kind = (8, 16) if big else (4, 4)
    directory = [(names[name], 3, np.atleast_1d(value)) for name, value in given.items()]
    directory.append((325 if is_tiled else 279, 4, np.array([len(each) for each in blocks])))
    start = 16 if big else 8
    starts = start + np.cumsum([0] + [len(each) for each in blocks[:-1]])
    directory.append((324 if is_tiled else 273, offset_kind, starts))
    data = b"".join(blocks) + bytes(sum(map(len, blocks)) % 2)
    entries, extra = b"", b""
    count_format = "Q" if big else "H"
    size = struct.calcsize("<" + count_format) + len(directory) * (20 if big else 12) + offset_size
    here = start + len(data)
    for tag, kind, values in sorted(directory, key=lambda each: each[0]):
        letter = {1: "B", 3: "H", 4: "I", 16: "Q"}[kind]
        packed = struct.pack(f"{order}{len(values)}{letter}", *map(int, values))
        if len(packed) > offset_size:
            place = here + size + len(extra)
            extra += packed + bytes(len(packed) % 2)
            packed = struct.pack(order + ("Q" if big else "I"), place)
        entries += struct.pack(order + ("HHQ" if big else "HHI"), tag, kind, len(values)) + packed.ljust(offset_size, b"\0")
    head = struct.pack(order + "2sH", b"II" if order == "<" else b"MM", 43 if big else 42)
    head += struct.pack(order + "HHQ", 8, 0, here) if big else struct.pack(order + "I", here)
    return head + data + struct.pack(order + count_format, len(directory)) + entries + bytes(offset_size) + extra


def packed_bits(values, bits):
    ones = (values[:, :, None] >> np.arange(bits - 1, -1, -1)) & 1
    return np.packbits(ones.reshape(len(values), -1).astype(np.uint8), axis=1).tobytes()


def strips(data, rows):
    size = len(data) // HEIGHT * rows
    return [data[at:at + size] for at in range(0, len(data), size)]


def tiles(pixels, side):
    full = np.zeros((-(-HEIGHT // side) * side, -(-WIDTH // side) * side, *pixels.shape[2:]), pixels.dtype)
    full[:HEIGHT, :WIDTH] = pixels
    return [full[y:y + side, x:x + side].tobytes() for y in range(0, len(full), side)
            for x in range(0, full.shape[1], side)]


def saved_tiffs():
    image = Image.fromarray(scene())
    for name in ("raw", "tiff_lzw", "tiff_adobe_deflate", "packbits", "zstd", "lzma"):
        yield f"{name}.tif", saved(image, "TIFF", compression=name)
    yield "jpeg.tif", saved(image, "TIFF", compression="jpeg", quality=90)
    yield "jpeg_gray.tif", saved(image.convert("L"), "TIFF", compression="jpeg", quality=90)
    for name in ("group3", "group4"):
        yield f"{name}.tif", saved(image.convert("1"), "TIFF", compression=name)
    for mode in ("1", "L", "CMYK"):
        yield f"{mode}.tif", saved(image.convert(mode), "TIFF")
    yield "palette.tif", saved(paletted(), "TIFF")
    yield "pages.tif", saved(image, "TIFF", save_all=True, append_images=[image.rotate(180)])
    for orientation in range(2, 9):
        exif = Image.Exif()
        exif[274] = orientation
        yield f"orientation_{orientation}.tif", saved(image, "TIFF", exif=exif, compression="tiff_lzw")


def written_tiffs():
    pixels, levels = scene(), gray().astype(int)
    rgb = {"bits": [8] * 3, "samples": 3, "photometric": 2}
    yield "strips.tif", tiff(strips(pixels.tobytes(), 4), rows=4, **rgb)
    yield "big_endian.tif", tiff([pixels.tobytes()], order=">", **rgb)
    yield "bigtiff.tif", tiff([pixels.tobytes()], big=True, **rgb)
    yield "tiles.tif", tiff(tiles(pixels, 16), tile_width=16, tile_height=16, **rgb)
    planes = [pixels[:, :, c].tobytes() for c in range(3)]
    yield "planar.tif", tiff(planes, planar=2, **rgb)
    yield "planar_strips.tif", tiff([each for plane in planes for each in strips(plane, 5)], planar=2, rows=5, **rgb)
    yield "extra_unused.tif", tiff([np.concatenate([pixels, alpha()], axis=2).tobytes()], extra=0,
                                   **{**rgb, "bits": [8] * 4, "samples": 4})
    for bits in (1, 2, 4):
        data = packed_bits(levels >> 8 - bits, bits)
        for photometric, name in ((0, "white"), (1, "black"), (3, "palette")):
            colors = {"colors": (COLORS[:1 << bits].T.reshape(-1).astype(int) * 257)} if photometric == 3 else {}
            yield f"{name}_{bits}.tif", tiff([data], bits=bits, photometric=photometric, **colors)
    yield "white_8.tif", tiff([gray().tobytes()], bits=8, photometric=0)
    mirrored = np.packbits(np.unpackbits(gray()).reshape(-1, 8)[:, ::-1]).tobytes()
    yield "fill_order.tif", tiff([mirrored], bits=8, photometric=1, fill_order=2)
    luma = Image.fromarray(pixels).convert("YCbCr")
    y, cb, cr = np.moveaxis(np.asarray(luma), 2, 0)
    padded_y = np.pad(y, ((0, 1), (0, 0)), mode="edge")
    units = np.stack([padded_y[0::2, 0::2], padded_y[0::2, 1::2], padded_y[1::2, 0::2], padded_y[1::2, 1::2],
                      cb[0::2, 0::2], cr[0::2, 0::2]], axis=2)
    yield "ycbcr.tif", tiff([zlib.compress(units.tobytes())], compression=8, bits=[8] * 3, samples=3, photometric=6,
                            subsampling=[2, 2])


def clear_tiffs():
    image = Image.fromarray(np.concatenate([scene(), alpha()], axis=2))
    yield "rgba.tif", saved(image, "TIFF")
    yield "gray_alpha.tif", saved(image.convert("LA"), "TIFF")
    yield "rgba_tiles.tif", tiff(tiles(np.asarray(image), 16), tile_width=16, tile_height=16, bits=[8] * 4, samples=4,
                                 photometric=2, extra=2)
    yield "rgba_without_tag.tif", tiff([image.tobytes()], bits=[8] * 4, samples=4, photometric=2)


def wide_tiffs():
    """16 bits, and premultiplied alpha: Pillow divides by it before it drops it."""
    wide = scene().astype(np.int64) * 257 - (scene() > 0) * 100
    rounded = ((wide * 255 + 32767) // 65535).astype(np.uint8)
    grays = np.repeat(rounded[:, :, :1], 3, axis=2)
    for order, name in (("<", "little"), (">", "big")):
        kind = order + "u2"
        yield f"gray_16_{name}.tif", tiff([wide[:, :, 0].astype(kind).tobytes()], order=order, bits=16,
                                          photometric=1), grays
        yield f"rgb_16_{name}.tif", tiff([wide.astype(kind).tobytes()], order=order, bits=[16] * 3, samples=3,
                                         photometric=2), rounded
    opacity = alpha().astype(np.int64) * 257
    rgba = np.concatenate([wide, opacity], axis=2).astype("<u2")
    yield "rgba_16.tif", tiff([rgba.tobytes()], bits=[16] * 4, samples=4, photometric=2, extra=2), \
        over_black(wide, opacity, 65535)
    drawn = over_black(scene(), alpha())
    yield "premultiplied.tif", tiff([np.concatenate([drawn, alpha()], axis=2).tobytes()], bits=[8] * 4, samples=4,
                                    photometric=2, extra=1), drawn


# --- WebP ------------------------------------------------------------------------------------------------------------


def webps():
    image = Image.fromarray(scene())
    yield "lossy.webp", saved(image, "WEBP", quality=80)
    yield "lossless.webp", saved(image, "WEBP", lossless=True)
    yield "animated.webp", saved(image, "WEBP", save_all=True, append_images=[image.rotate(180)], duration=50)


def clear_webps():
    image = Image.fromarray(np.concatenate([scene(), alpha()], axis=2))
    yield "alpha_lossy.webp", saved(image, "WEBP", quality=80)
    yield "alpha_lossless.webp", saved(image, "WEBP", lossless=True, exact=True)
    animated = saved(image, "WEBP", lossless=True, save_all=True, append_images=[image.rotate(180)], duration=50)
    # The same frames on a larger canvas: VP8X has its size, ANMF their positions in units of two pixels.
    size = struct.pack("<I", WIDTH + 7)[:3] + struct.pack("<I", HEIGHT + 8)[:3]
    frame = animated.index(b"ANMF") + 8
    place = struct.pack("<I", 2)[:3] + struct.pack("<I", 3)[:3]
    yield "moved.webp", animated[:24] + size + animated[30:frame] + place + animated[frame + 6:]


def turned_webps():
    image = Image.fromarray(scene())
    for orientation in (1, 3, 6, 7):
        exif = Image.Exif()
        exif[274] = orientation
        file = saved(image, "WEBP", lossless=True, exif=exif)
        upright = ImageOps.exif_transpose(Image.open(io.BytesIO(file))).convert("RGB")
        yield f"orientation_{orientation}.webp", file, np.asarray(upright)


def variants(leaves_out_unread=False):
    """Names, files and their pixels. leaves_out_unread: whether to leave out the files that the installed Pillow cannot
    read, because older versions do not read all kinds of BMP."""
    for make in (bmps, gifs, saved_tiffs, written_tiffs, webps):
        for name, file in make():
            try:
                pixels = pil(file)
            except (OSError, ValueError):
                if not leaves_out_unread:
                    raise
                continue
            yield name, file, pixels
    for make in (clear_gifs, clear_tiffs, clear_webps):
        for name, file in make():
            yield name, file, pil_over_black(file)
    for make in (wide_tiffs, turned_webps):
        yield from make()


def main():
    records = b""
    for name, file, pixels in variants():
        levels = pixels.astype(np.uint8).tobytes()
        sizes = len(name), len(file), len(levels), 0, *pixels.shape[:2]
        records += struct.pack("<6I", *sizes) + name.encode() + file + levels
        for folder in sys.argv[1:2]:
            pathlib.Path(folder, name).write_bytes(file)
    pathlib.Path(__file__).with_name("formats.bin").write_bytes(records)


if __name__ == "__main__":
    main()
