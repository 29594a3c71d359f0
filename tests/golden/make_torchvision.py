"""Writes torchvision.bin: the results of torchvision's transforms on noise. Needs torch, torchvision and numpy.

Little-endian records: a name of 32 bytes, padded with zeros; int32 height, width; the new pixels,
float32 RGB, channels last. Made with torchvision 0.26.
"""

import pathlib
import struct

import numpy as np
import torch
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as F

NEAREST, BILINEAR = InterpolationMode.NEAREST, InterpolationMode.BILINEAR
HEIGHT, WIDTH = 24, 33


def noise(count):
    """torchvision_test.cpp has a copy of this generator."""
    state = 1
    levels = []
    for _ in range(count):
        state = (state * 1664525 + 1013904223) % 2**32
        levels.append(state >> 24)
    return np.array(levels, dtype=np.uint8)


def main():
    levels = torch.from_numpy(noise(HEIGHT * WIDTH * 3).reshape(HEIGHT, WIDTH, 3)).permute(2, 0, 1)
    floats = F.to_dtype(levels, torch.float32, scale=True)
    results = {
        "to_float": floats,
        "normalize": F.normalize(floats, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        "horizontal_flip": F.horizontal_flip(floats),
        "vertical_flip": F.vertical_flip(floats),
        "center_crop": F.center_crop(floats, [10, 13]),
        "resize": F.resize(floats, [37, 11], BILINEAR, antialias=False),
        "resize antialias": F.resize(floats, [9, 40], BILINEAR, antialias=True),
        "rotate": F.rotate(floats, 33.3, NEAREST, fill=0.25),
        "rotate bilinear": F.rotate(floats, 33.3, BILINEAR, fill=None),
        "affine": F.affine(floats, -20.5, [0, 0], 0.8, [7.0, -4.0], NEAREST, fill=0.25),
        "affine bilinear": F.affine(floats, -20.5, [0, 0], 1.3, [7.0, -4.0], BILINEAR, fill=None),
        "gaussian_blur": F.gaussian_blur(floats, [5, 5], [1.3, 1.3]),
        "gaussian_blur u8": F.gaussian_blur(levels, [5, 5], [1.3, 1.3]),
        "brightness": F.adjust_brightness(floats, 1.3),
        "brightness u8": F.adjust_brightness(levels, 1.3),
        "contrast": F.adjust_contrast(floats, 0.7),
        "contrast u8": F.adjust_contrast(levels, 0.7),
        "saturation": F.adjust_saturation(floats, 1.6),
        "saturation u8": F.adjust_saturation(levels, 1.6),
        "hue": F.adjust_hue(floats, 0.2),
        "hue u8": F.adjust_hue(levels, 0.2),
        "grayscale": F.rgb_to_grayscale(floats, 3),
        "grayscale u8": F.rgb_to_grayscale(levels, 3),
    }
    records = b""
    for name, image in results.items():
        pixels = image.permute(1, 2, 0).to(torch.float32).contiguous().numpy()
        records += name.encode().ljust(32, b"\0") + struct.pack("<2i", *pixels.shape[:2])
        records += pixels.tobytes()
    pathlib.Path(__file__).with_name("torchvision.bin").write_bytes(records)


main()
