#!/usr/bin/env python3
"""Compares the CPU implementation of transforms with torchvision's on one core: microseconds per image of 256 x 256 x 3.

Ours is bench/transform_bench; torchvision's transforms.v2 run on tensors with one thread. "planes" is the layout that
torchvision's decoder returns; in "pixels" the channels of a pixel are adjacent. One run interleaves the repeats of all
rows. A figure {"value", "low", "high", "unit", "n"} is the median of n repeats with a 95 % interval (Student's t);
"times_as_fast" is the time of torchvision's faster layout divided by our time.
"""

import argparse
import contextlib
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import torch
from figures import figure

SIDE = 256
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
ROOT = Path(__file__).resolve().parent.parent


def torchvision_rows():
    from torchvision.transforms import InterpolationMode, v2

    to_float, normalize = v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)
    jitter = v2.ColorJitter(0.4, 0.4, 0.4, 0.1)
    ours_in_one = [v2.RandomResizedCrop(224), v2.RandomHorizontalFlip(), to_float, normalize]
    return {
        "center_crop": v2.CenterCrop(224),
        "random_crop": v2.RandomCrop(224),
        "horizontal_flip": v2.RandomHorizontalFlip(1),
        "vertical_flip": v2.RandomVerticalFlip(1),
        "resize": v2.Resize((224, 224)),
        "resize_without_filter": v2.Resize((224, 224), antialias=False),
        "random_resized_crop": v2.RandomResizedCrop(224),
        "rotate": v2.RandomRotation(45),
        "rotate_bilinear": v2.RandomRotation(45, interpolation=InterpolationMode.BILINEAR),
        "affine": v2.RandomAffine(30, translate=(0.1, 0.1), scale=(0.9, 1.1)),
        "color_jitter": jitter,
        "grayscale": v2.Grayscale(3),
        "gaussian_blur": v2.GaussianBlur(7, (0.1, 2.0)),
        "random_erasing": v2.RandomErasing(1),
        "to_float": to_float,
        "normalize": normalize,
        "classification": v2.Compose([to_float, v2.RandomCrop(128), v2.Resize(256, antialias=False),
                                      v2.RandomRotation(45), v2.GaussianBlur(7, (0.1, 2.0)),
                                      normalize]),
        "usual": v2.Compose(ours_in_one),
        "usual_in_one": v2.Compose(ours_in_one),
        "color": v2.Compose([v2.RandomResizedCrop(224), jitter, to_float, normalize]),
    }


def image(dtype, layout):
    made = torch.randint(0, 256, (3, SIDE, SIDE), dtype=torch.uint8)
    if dtype == "f32":
        made = made.float() / 255
    return made if layout == "planes" else made.permute(1, 2, 0).contiguous().permute(2, 0, 1)


def theirs(transform, taken, seconds):
    transform(taken)
    calls, start = 0, time.perf_counter()
    while (took_s := time.perf_counter() - start) < seconds:
        transform(taken)
        calls += 1
    return took_s / calls * 1e6


def ours(options, name):
    command = [options.program, f"--benchmark_filter=^{name}$", "--benchmark_format=json",
               f"--benchmark_min_time={options.seconds}"]
    found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return found["benchmarks"][0]["cpu_time"]


def measure(name, transform, options):
    """Returns figures by row, and how many times faster ours is; `transform` is None if torchvision has no
    equivalent."""
    values = {"slipstream": []}
    taken = {} if transform is None else {
        layout: image(name.split("/")[1], layout) for layout in ("planes", "pixels")}
    for _ in range(options.repeats):
        values["slipstream"].append(ours(options, name))
        for layout, one in taken.items():
            values.setdefault(layout, []).append(theirs(transform, one, options.seconds))
    row = {of: figure(measured, "us") for of, measured in values.items()}
    if taken:
        best = min(row[layout]["value"] for layout in taken)
        row["times_as_fast"] = best / row["slipstream"]["value"]
    return row


def environment():
    versions = {}
    for package in ("torch", "torchvision"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return {"python": sys.version.split()[0], "packages": versions, "cores": os.cpu_count()}


def print_row(row):
    figures = "".join(f"{row[of]['value']:10.1f}" for of in ("slipstream", "planes", "pixels")
                      if of in row)
    times = f"{row['times_as_fast']:8.2f}" if "times_as_fast" in row else ""
    print(f"{row['row']:28}{figures}{times}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default=str(ROOT / "build/bench/transform_bench"))
    parser.add_argument("--rows", help="comma-separated list, for example resize/u8; default: all")
    parser.add_argument("--seconds", type=float, default=0.2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json")
    options = parser.parse_args()
    if options.repeats < 1:
        parser.error("--repeats: at least 1")
    listed = subprocess.run([options.program, "--benchmark_list_tests"], capture_output=True,
                            check=True, text=True).stdout.split()
    names = options.rows.split(",") if options.rows else listed
    if unknown := set(names) - set(listed):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(listed)}")
    torch.manual_seed(1)
    torch.set_num_threads(1)
    has_torchvision = importlib.util.find_spec("torchvision") is not None
    if not has_torchvision:
        print("absent: not installed: torchvision", file=sys.stderr)
    transforms = torchvision_rows() if has_torchvision else {}
    report = {"environment": environment(), "rows": []}
    for name in names:
        row = {"row": name, **measure(name, transforms.get(name.split("/")[0]), options)}
        report["rows"].append(row)
        print_row(row)
        if options.json:
            Path(options.json).write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
