"""Writes crops.bin: the crops that random_resized_crop samples.

They are computed with a separate implementation of Philox and of the rule in Python, with the C library's exp and log.

Little-endian records: uint64 seed, sample; uint32 epoch, operation; int32 height, width, top, left,
height of the crop, width of the crop; doubles scale_min, scale_max, ratio_min, ratio_max.
"""

import math
import pathlib
import struct

MASK = 2**32 - 1


def philox(counter, key):
    a, b, c, d = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (p1 >> 32) ^ b ^ k0, p1 & MASK, (p0 >> 32) ^ d ^ k1, p0 & MASK
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return a, b, c, d


def words(seed, sample, epoch, operation):
    index = 0
    while True:
        counter = sample & MASK, sample >> 32, epoch, index | operation << 26
        yield from philox(counter, (seed & MASK, seed >> 32))
        index += 1


def below(stream, bound):
    while True:
        product = next(stream) * bound
        if (product & MASK) >= (2**32 - bound) % bound:
            return product >> 32


def uniform(stream):
    return (next(stream) >> 8) / 2**24


def rounded(x):
    return math.floor(x + 0.5)


def crop(stream, height, width, scale_min, scale_max, ratio_min, ratio_max):
    for _ in range(10):
        area = height * width * (scale_min + uniform(stream) * (scale_max - scale_min))
        low, high = math.log(ratio_min), math.log(ratio_max)
        ratio = math.exp(low + uniform(stream) * (high - low))
        w, h = rounded(math.sqrt(area * ratio)), rounded(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return below(stream, height - h + 1), below(stream, width - w + 1), h, w
    h, w = height, width
    if width / height < ratio_min:
        h = max(1, rounded(width / ratio_min))
    elif width / height > ratio_max:
        w = max(1, rounded(height * ratio_max))
    return (height - h) // 2, (width - w) // 2, h, w


def main():
    usual = 0.08, 1.0, 3 / 4, 4 / 3
    cases = [(1, i, i % 3, i % 64, 375 + i, 500 - i, *usual) for i in range(24)]
    cases += [(2**63 + 5, 2**47 + i, 2**32 - 1, 63, 480, 640, 0.5, 1.0, 0.5, 2.0) for i in range(8)]
    # Cases in which no attempt fits, so the center is used.
    cases += [(3, 1, 0, 0, 20, 400, 1.0, 1.0, 3 / 4, 4 / 3), (3, 1, 0, 0, 400, 20, 1.0, 1.0, 1, 1)]
    cases += [(3, 1, 0, 0, 1, 1000, 0.9, 1.0, 0.01, 0.01), (4, 9, 0, 0, 1, 1, *usual)]
    records = b""
    for seed, sample, epoch, operation, height, width, *bounds in cases:
        drawn = crop(words(seed, sample, epoch, operation), height, width, *bounds)
        records += struct.pack("<2Q2I6i4d", seed, sample, epoch, operation, height, width, *drawn,
                               *bounds)
    pathlib.Path(__file__).with_name("crops.bin").write_bytes(records)


main()
