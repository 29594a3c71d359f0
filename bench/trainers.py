#!/usr/bin/env python3
"""Compares the speed of training a model that both PyTorch and Slipstream have, on some cores of the machine.

JPEG files of 500 x 375, random resized crops of 224 x 224, bf16, channels-last; images per second.

Rows: the model alone on one batch on the GPU (PyTorch, eager and compiled); PyTorch's loop from the files (DataLoader
with torchvision's decoder and transforms, pinned uint8 batches, fused SGD; eager, compiled, and compiled with CUDA
graphs); the same loop with the loader of the Python package (also with slipstream.capture), DALI or SPDL (if they are
installed); and the program from the files, together with the rate of its model alone. There is one worker per core. The
repeats of all rows are interleaved. A figure {"value", "low", "high", "unit", "n"} is the median of n repeats with a
95 % interval (Student's t).
"""

import json
import os
import tempfile
import time
from pathlib import Path

import trainer_rows
from figures import figure
from loaders import Child, environment, gpu_name, make_parser, make_photos, numbers


def add_repeat(row, answer):
    if "error" in answer:
        is_missing = answer["error"].startswith("ModuleNotFoundError")
        row |= {"status": "not installed" if is_missing else "died", "message": answer["error"][-1000:]}
        return
    row["repeats"].append(answer)
    row |= {"status": "ok", "images_per_second": figure([each["rate"] for each in row["repeats"]], "images/s")}
    if "alone" in answer:
        row["alone"] = figure([each["alone"] for each in row["repeats"]], "images/s")
        row["share_of_alone"] = figure([each["rate"] / each["alone"] for each in row["repeats"]], "1")


def is_worth_measuring(name, cores, options):
    """Returns false if more cores cannot matter: the model alone needs no cores, and JPEG engines only help if cores
    do not suffice."""
    if name.startswith("alone"):
        return cores == max(options.cores)
    return cores <= 4 or not name.endswith("engines")


def measure(options, shared, write):
    until = time.monotonic() + options.budget_seconds
    rows = [{"row": name, "cores": cores, "status": "skipped: time budget spent", "repeats": []}
            for cores in options.cores for name in options.rows
            if is_worth_measuring(name, cores, options)]
    child = {name: Child(trainer_rows.__file__) for name in ("python", "package", "slipstream")}
    try:
        for row in rows * options.repeats:
            if "message" in row or time.monotonic() > until:
                continue
            kind = row["row"].split("_")[0]  # importing the package before CUDA is used makes CUDA create more queues
            process = child.get(kind, child["python"])
            add_repeat(row, process.ask(shared | {"row": row["row"], "cores": row["cores"]}, options.timeout))
            rate = row["repeats"][-1] if row["repeats"] else row["message"]
            print(row["row"], row["cores"], rate, flush=True)
            write(rows)
    finally:
        for each in child.values():
            each.stop()
    return rows


def parse_arguments():
    parser = make_parser(__doc__, trainer_rows.ROWS)
    parser.set_defaults(count=4000, seconds=4, timeout=180)
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--cores", type=numbers, default=[len(os.sched_getaffinity(0))])
    return parser.parse_args()


def main():
    options = parse_arguments()
    options.gpu = gpu_name()
    report = {"environment": environment(options),
              "settings": {key: value for key, value in vars(options).items() if key not in ("json", "slipstream")}}
    with tempfile.TemporaryDirectory() as folder:
        if options.data:
            folder = options.data
        else:
            make_photos(folder, options.count)
        files = sorted(map(str, Path(folder).glob("*/*.jpg")))
        shared = {key: getattr(options, key) for key in ("model", "batch_size", "seconds", "slipstream")}
        shared |= {"data": folder, "files": files, "labels": [int(Path(file).parent.name[6:]) for file in files]}

        def write(rows):
            Path(options.json).write_text(json.dumps(report | {"rows": rows}, indent=1) + "\n")

        write(measure(options, shared, write))


if __name__ == "__main__":
    main()
