#!/usr/bin/env python3
"""Compares the speed of loaders: JPEG files of 500 x 375 to random resized crops of 224 x 224.

The output is uint8 batches in host memory, or on the GPU if a row's name ends in _gpu. Rates are images per second.

A library that is not installed is listed as absent. Python, numpy and Pillow are enough. Each row has a separate
process, which may die or hang: that is a result. The repeats of all rows are interleaved: only one row measures at a
time, and workers exist only while they are measured. A figure {"value", "low", "high", "unit", "n"} is the median of n
repeats with a 95 % interval (Student's t). Images per core are the images per second of CPU time of the row's process
and its workers.
"""

import argparse
import contextlib
import importlib.metadata
import json
import os
import platform
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import loader_rows
from figures import figure
from loader_rows import ROWS, has

ROOT = Path(__file__).resolve().parent.parent
WIDTH, HEIGHT = 500, 375
ABSENT, SPENT = "absent", "skipped: time budget spent"


def gpu_name():
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        return subprocess.check_output(query, text=True, timeout=30).strip().split("\n")[0]
    return None


def why_absent(name, options):
    """Returns the reason why the row cannot be measured, or ""."""
    if missing := [module for module in ROWS[name][1] if not has(module)]:
        return "not installed: " + ", ".join(missing)
    if name.endswith("_gpu") and not options.gpu:
        return "no NVIDIA GPU"
    if name.startswith("slipstream") and not shutil.which(options.slipstream):
        return f"no program {options.slipstream}; build it or name it with --slipstream"
    if name == "slipstream_with" and not options.slipstream_with:
        return "no --slipstream-with"
    return None


class Child:
    """The process of one row, which executes a file of rows. It starts when it is first needed."""

    process = None

    def __init__(self, rows=loader_rows.__file__):
        self.rows = rows

    def ask(self, task, timeout):
        """Returns the answer. If there is none, stops the process and returns {"error": reason}."""
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, "-B", self.rows], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                start_new_session=True)
        answer = {"error": f"no answer within {timeout:g} s"}
        try:
            print(json.dumps(task), file=self.process.stdin, flush=True)
            if select.select([self.process.stdout], [], [], timeout)[0]:
                line = self.process.stdout.readline()
                answer = json.loads(line) if line else {
                    "error": f"the process ended with exit code {self.process.wait()}"}
        except BrokenPipeError:
            answer = {"error": f"the process ended with exit code {self.process.wait()}"}
        if "error" in answer:
            self.stop()
        return answer

    def stop(self):
        """Ends the process together with its workers."""
        if self.process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None


def add_repeat(row, answer):
    if "error" in answer:
        row |= {"status": "died", "message": answer["error"].split("\n")[0]}
        return
    row["repeats"].append(answer)
    rates = [repeat["rate"] for repeat in row["repeats"]]
    each = [repeat["rate"] / max(repeat["cores"], 1e-9) for repeat in row["repeats"]]
    row |= {"status": "ok", "images_per_second": figure(rates, "images/s"),
            "images_per_core_second": figure(each, "images/s of CPU time")}


def measure(options, files):
    """Measures all rows, interleaved; starts no measurement after the time budget."""
    until = time.monotonic() + options.budget_seconds
    rows = []
    for workers in options.num_workers:
        for name in options.rows:
            why = why_absent(name, options)
            rows.append({"row": name, "workers": workers, "status": ABSENT if why else SPENT,
                         "message": why or "", "repeats": [],
                         "images_per_second": None, "images_per_core_second": None})
    children = {name: Child() for name in options.rows}
    shared = {key: getattr(options, key) for key in (
        "data", "seconds", "batch_size", "slipstream", "slipstream_with")} | {"files": files}
    try:
        for row in rows * options.repeats:
            if row["status"] in (ABSENT, "died") or time.monotonic() > until:
                continue
            task = shared | {"row": row["row"], "workers": row["workers"]}
            add_repeat(row, children[row["row"]].ask(task, options.timeout))
    finally:
        for child in children.values():
            child.stop()
    return rows


def make_photos(folder, number):
    """Creates photo-like files: texture whose strength falls with its frequency, as in photos, and shapes with sharp
    edges."""
    import numpy
    from PIL import Image, ImageDraw

    rng, side = numpy.random.default_rng(1), 1024
    frequency = numpy.hypot(numpy.fft.fftfreq(side)[:, None], numpy.fft.rfftfreq(side)[None])
    noise = numpy.fft.rfft2(rng.standard_normal((4, side, side)))
    textures = numpy.fft.irfft2(noise / numpy.maximum(frequency, 1 / 64) ** 1.2)
    textures *= numpy.array([40, 8, 8, 8])[:, None, None] / textures.std(axis=(1, 2), keepdims=True)
    for index in range(number):
        top, left = rng.integers(0, (side - HEIGHT, side - WIDTH))
        light, *colors = textures[:, top:top + HEIGHT, left:left + WIDTH]
        levels = numpy.stack([light + color for color in colors], axis=2)
        levels = levels * rng.uniform(0.1, 1) + rng.uniform(70, 170, 3)
        image = Image.fromarray(numpy.clip(levels, 0, 255).astype(numpy.uint8))
        draw = ImageDraw.Draw(image)
        for _ in range(rng.integers(1, 5)):
            x, y = rng.integers(0, (WIDTH, HEIGHT))
            w, h = rng.integers(10, 120, 2)
            draw.ellipse((x, y, x + w, y + h), fill=tuple(int(c) for c in rng.integers(0, 256, 3)))
        path = Path(folder, f"class_{index % 10}", f"{index:06}.jpg")
        path.parent.mkdir(exist_ok=True)
        image.save(path, quality=90)


def environment(options):
    names = ("numpy", "pillow", "simplejpeg", "opencv-python-headless", "opencv-python", "torch",
             "torchvision", "nvidia-dali-cuda120", "nvidia-dali-cuda130", "spdl")
    versions = {}
    for name in names:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    model = None
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().split("\n")
        model = next(line.partition(": ")[2] for line in lines if line.startswith("model name"))
    return {"python": platform.python_version(), "system": platform.platform(), "cpu": model,
            "cpu_count": len(os.sched_getaffinity(0)), "load_before": os.getloadavg(),
            "gpu": options.gpu, "packages": versions}


def make_settings(options):
    """Returns the options as given, except that a program in this repository is named by its path in the repository."""
    settings = {key: value for key, value in vars(options).items() if key != "json"}
    program = Path(options.slipstream)
    if program.is_relative_to(ROOT):
        settings["slipstream"] = str(program.relative_to(ROOT))
    return settings


def numbers(text):
    return [int(item) for item in text.split(",")]


def make_parser(description, rows):
    """Returns a parser with the options of all scripts that measure rows from files."""
    parser = argparse.ArgumentParser(description=description.split("\n\n")[0])
    add = parser.add_argument
    add("--data", help="a folder with a subfolder of JPEG files per class (class_0, ...), instead of generated ones")
    add("--count", type=int, default=2000, help="number of files to generate")
    add("--rows", type=lambda text: text.split(","), default=list(rows), help=",".join(rows))
    add("--batch-size", type=int, default=256)
    add("--seconds", type=float, default=2, help="approximate length of a measurement")
    add("--repeats", type=int, default=3)
    add("--budget-seconds", type=float, default=480, help="no measurement starts after this time")
    add("--timeout", type=float, default=60, help="a row without an answer is stopped after this number of seconds")
    add("--slipstream", default=str(ROOT / "build" / "slipstream"), help="the program")
    add("--json", default=os.devnull, help="write all figures here")
    return parser


def parse_arguments():
    cores = len(os.sched_getaffinity(0))
    powers = [1 << shift for shift in range(cores.bit_length()) if 1 << shift < cores]
    parser = make_parser(__doc__, ROWS)
    parser.add_argument("--num-workers", type=numbers, default=[*powers, cores],
                        help="processes or threads, comma-separated")
    parser.add_argument("--slipstream-with", default="", metavar="OPTIONS",
                        help="adds the row slipstream_with: `bench loader` with these options too")
    options = parser.parse_args()
    if unknown := set(options.rows) - set(ROWS):
        parser.error(f"unknown row: {', '.join(unknown)}; known: {', '.join(ROWS)}")
    if min(options.num_workers) < 1 or options.count < options.batch_size and not options.data:
        parser.error("at least 1 worker and at least one batch of files are needed")
    if not options.data and not (has("numpy") and has("PIL")):
        parser.error("generating files needs numpy and Pillow: install them, or use --data")
    return options


def main():
    options = parse_arguments()
    options.gpu = gpu_name()
    report = {"environment": environment(options), "settings": make_settings(options)}
    with tempfile.TemporaryDirectory(prefix="slipstream-") as folder:
        if not options.data:
            options.data = folder
            make_photos(folder, options.count)
        files = sorted(str(path) for path in Path(options.data).rglob("*.jp*g"))
        if len(files) < options.batch_size:
            sys.exit(f"{len(files)} JPEG files in {options.data}: at least one batch is needed")
        report["file_bytes"] = statistics.mean(os.path.getsize(path) for path in files)
        report["results"] = measure(options, files)
    Path(options.json).write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report["environment"]))
    print(f"{'row':24}{'workers':>7}{'images/s':>10}  {'95 %':16}{'per core':>9}")
    for row in report["results"]:
        text = ""
        if rate := row["images_per_second"]:
            low, high = rate["low"], rate["high"]
            between = "" if low is None else f"{low:.0f} to {high:.0f}"
            each = row["images_per_core_second"]["value"]
            text = f"{rate['value']:10.0f}  {between:16}{each:9.0f}"
        print(f"{row['row']:24}{row['workers']:7}{text}  {row['status']} {row['message']}")


if __name__ == "__main__":
    main()
