#!/usr/bin/env python3
"""Compares the speed of augmentation on a GPU by several libraries.

Input: uint8 images of 256 x 256 that are already on the GPU. Output: float32. Times are microseconds per batch by the
device's clock. Batches rotate through more memory than the L2 cache holds.

Rows: ours (bench/augment_bench); torchvision's transforms.v2 with one set of parameters per batch, and also per sample
in a loop; kornia with one set per sample. Unlike the others, kornia's resize in "usual" is not antialiased. A library
that is not installed is listed as absent. One run interleaves the repeats of all rows. A figure
{"value", "low", "high", "unit", "n"} is the median of n repeats with a 95 % interval (Student's t). A chain with one
batch size takes about 20 s; the report is written after each.
"""

import argparse
import contextlib
import importlib.metadata
import importlib.util
import json
import subprocess
import sys
import time
from pathlib import Path

import torch
from figures import figure

SIDE = 256
COLD_BYTES = 1 << 30
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
ROOT = Path(__file__).resolve().parent.parent


def torchvision_chain(name, _):
    from torchvision.transforms import v2

    normalize = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
    return v2.Compose({
        "classification": [v2.ToDtype(torch.float32, scale=True), v2.RandomCrop(128),
                           v2.Resize(256, antialias=False), v2.RandomRotation(45),
                           v2.GaussianBlur(7, (0.1, 2.0)), v2.Normalize(MEAN, STD)],
        "usual": [v2.RandomResizedCrop(224), v2.RandomHorizontalFlip(), *normalize],
        "pointwise": [v2.RandomHorizontalFlip(), *normalize],
    }[name])


def kornia_chain(name, device):
    import kornia.augmentation as K

    mean, std = (torch.tensor(values, device=device) for values in (MEAN, STD))
    steps = {
        "classification": [K.RandomCrop((128, 128)), K.Resize((256, 256), align_corners=False),
                           K.RandomRotation(45.0, resample="nearest", align_corners=False, p=1.0),
                           K.RandomGaussianBlur((7, 7), (0.1, 2.0), p=1.0),
                           K.Normalize(mean, std)],
        "usual": [K.RandomResizedCrop((224, 224), align_corners=False), K.RandomHorizontalFlip(),
                  K.Normalize(mean, std)],
        "pointwise": [K.RandomHorizontalFlip(), K.Normalize(mean, std)],
    }[name]
    chain = torch.nn.Sequential(*steps)
    return lambda batch: chain(batch.float() / 255)


def per_sample(chain):
    return lambda batch: torch.stack([chain(image) for image in batch])


ROWS = {
    "torchvision": ("torchvision", torchvision_chain),
    "torchvision_per_sample": ("torchvision", lambda *what: per_sample(torchvision_chain(*what))),
    "kornia": ("kornia", kornia_chain),
}
CHAINS = ("classification", "usual", "pointwise")


class Theirs:
    """A library's chain, applied to batches that rotate through memory."""

    def __init__(self, make, chain, batch_size, options):
        self.device = torch.device(options.device)
        self.call = make(chain, self.device)
        one = batch_size * SIDE * SIDE * 3
        count = COLD_BYTES // one + 1 if self.device.type == "cuda" else 2
        self.batches = [torch.randint(0, 256, (batch_size, 3, SIDE, SIDE), dtype=torch.uint8,
                                      device=self.device) for _ in range(count)]
        self.next = 0
        self.microseconds(0.05)  # the first run compiles, chooses algorithms and fills the allocator

    def many(self, calls):
        for _ in range(calls):
            self.call(self.batches[self.next])
            self.next = (self.next + 1) % len(self.batches)

    def microseconds(self, seconds):
        calls, took_s = 0, 0.0
        while took_s < seconds or calls == 0:
            took_s += self.timed(4)
            calls += 4
        return took_s / calls * 1e6

    def timed(self, calls):
        if self.device.type != "cuda":
            start = time.perf_counter()
            self.many(calls)
            return time.perf_counter() - start
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        self.many(calls)
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3


class Ours:
    def __init__(self, chain, batch_size, options):
        self.program = options.program
        self.name = f"{chain}/cold/{batch_size}"

    def microseconds(self, _):
        command = [self.program, f"--benchmark_filter=^{self.name}/", "--benchmark_format=json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            raise RuntimeError((done.stderr.strip() or f"exit code {done.returncode}")[-300:])
        found = json.loads(done.stdout)["benchmarks"]
        if not found:
            raise RuntimeError(f"{self.program} does not know {self.name}")
        return found[0]["real_time"]


def made(row, chain, batch_size, options):
    if row == "slipstream":
        return Ours(chain, batch_size, options)
    return Theirs(ROWS[row][1], chain, batch_size, options)


def measure(chain, batch_size, options):
    """Returns a result for each row: a figure, or the reason why there is none."""
    results, values, runners = {}, {}, {}
    for row in options.rows:
        if row in ROWS and importlib.util.find_spec(ROWS[row][0]) is None:
            results[row] = "absent: not installed: " + ROWS[row][0]
            continue
        values[row] = []
    for _ in range(options.repeats):
        for row in list(values):
            try:
                if row not in runners:
                    runners[row] = made(row, chain, batch_size, options)
                values[row].append(runners[row].microseconds(options.seconds))
            except Exception as error:  # a failing library is a result, too
                results[row] = f"failed: {type(error).__name__}: {error}"
                del values[row]
    return results | {row: figure(all_of_it, "us") for row, all_of_it in values.items()}


def environment(options):
    versions = {}
    for package in ("torch", "torchvision", "kornia"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    on_gpu = options.device == "cuda"
    return {"python": sys.version.split()[0], "packages": versions,
            "device": torch.cuda.get_device_name() if on_gpu else "CPU"}


def print_row(row):
    print(f"{row['chain']}, batches of {row['batch_size']}")
    for name, result in row["results"].items():
        shown = result if isinstance(result, str) else f"{result['value']:10.1f} us"
        print(f"  {name:24} {shown}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--program", default=str(ROOT / "build/bench/augment_bench"))
    parser.add_argument("--rows", default=",".join(("slipstream", *ROWS)))
    parser.add_argument("--chains", default=",".join(CHAINS))
    parser.add_argument("--batch-sizes", default="8,32,128")
    parser.add_argument("--seconds", type=float, default=0.2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("PyTorch sees no GPU; --device cpu tries the script out")
    if options.repeats < 1:
        parser.error("--repeats: at least 1")
    options.rows = options.rows.split(",")
    chains = options.chains.split(",")
    for known, given in (({"slipstream", *ROWS}, options.rows), (set(CHAINS), chains)):
        if unknown := set(given) - known:
            parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(sorted(known))}")
    torch.manual_seed(1)
    report = {"environment": environment(options), "rows": []}
    for chain in chains:
        for size in map(int, options.batch_sizes.split(",")):
            results = measure(chain, size, options)
            report["rows"].append({"chain": chain, "batch_size": size, "results": results})
            print_row(report["rows"][-1])
            if options.json:
                Path(options.json).write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
