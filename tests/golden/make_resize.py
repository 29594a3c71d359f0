"""Writes resize.bin: noise that Pillow has resized bilinearly. Needs numpy and Pillow.

Little-endian records: int32 height, width, new height, new width; the new pixels (RGB); the new
pixels of two separate resizes, first of the width, then of the height. Pillow before 13 gives the same for both. Since
then it resizes the height first if that is much cheaper, which rounds differently.
"""

import pathlib
import struct

import numpy as np
from PIL import Image

CASES = [
    (13, 17, 8, 8), (8, 8, 13, 17), (1, 1, 5, 7), (7, 1, 3, 3), (1, 9, 1, 4), (48, 64, 16, 16),
    (33, 31, 32, 30), (20, 20, 20, 7), (20, 20, 9, 20), (3, 5, 2, 64), (3, 100, 1, 1),
    (16, 16, 16, 16), (40, 40, 23, 41), (2, 2, 1, 1), (200, 5, 3, 4),
]


def noise(count):
    """resize_test.cpp has a copy of this generator."""
    state = 1
    levels = []
    for _ in range(count):
        state = (state * 1664525 + 1013904223) % 2**32
        levels.append(state >> 24)
    return np.array(levels, dtype=np.uint8)


def main():
    records = b""
    for height, width, new_height, new_width in CASES:
        image = Image.fromarray(noise(height * width * 3).reshape(height, width, 3))
        resized = image.resize((new_width, new_height), Image.Resampling.BILINEAR)
        across = image.resize((new_width, height), Image.Resampling.BILINEAR)
        ordered = across.resize((new_width, new_height), Image.Resampling.BILINEAR)
        records += struct.pack("<4i", height, width, new_height, new_width)
        records += resized.tobytes() + ordered.tobytes()
    pathlib.Path(__file__).with_name("resize.bin").write_bytes(records)


main()
