#!/usr/bin/env python3
"""Compares `slipstream train` with its defaults and a tuned PyTorch loop, for the segmentation workload on a CPU.

Both train the same model on the same JPEG files. The repeats of all rows are interleaved. The rows are: a run of
`slipstream train` with its defaults, one for each plan of --plan-files, and a measurement of pytorch_loops.py's tuned
loop for each number of DataLoader workers. A figure {"value", "low", "high", "unit", "n"} is the median of n repeats
with a 95 % interval (Student's t).
"""

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path

from figures import figure
from pytorch_loops import Runner, environment

BINARY = Path(__file__).parents[1] / "build/slipstream"


class Slipstream:
    """A row in which each repeat is a run of the program."""

    def __init__(self, name, options, extra):
        self.row = {"name": name, "repeats": [], "workers": [], "intra_op_threads": []}
        self.command = [options.slipstream, "train", "segmentation", "--device", "cpu", "--data",
                        options.data, "--image-size", options.image_size, "--batch-size",
                        options.batch_size, "--steps", options.steps, *extra]

    def measure(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "report.json")
            subprocess.run([str(word) for word in [*self.command, "--json", path]], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            report = json.loads(path.read_text())
        self.row["repeats"].append(report["steps_per_second"]["value"])
        self.row["workers"].append(report["plan"]["schedule"]["loader"]["num_workers"])
        self.row["intra_op_threads"].append(report["plan"]["numerics"]["intra_op_threads"])

    def stop(self):
        pass


class PyTorch:
    """A row with a process that builds the model once and measures on request."""

    def __init__(self, options, workers):
        cell = argparse.Namespace(
            loop="tuned_serial", input="files", tuned=True, device="cpu", data=options.data,
            image_size=options.image_size, batch_size=options.batch_size, workers=workers,
            steps=0, seconds=options.seconds, timeout=600)
        self.runner = Runner(cell)
        self.row = {"name": f"PyTorch, {workers} workers"}
        self.runner.ask()

    def measure(self):
        self.runner.ask()
        if self.runner.row["status"] == "died":
            raise SystemExit(f"the PyTorch loop: {self.runner.row['message']}")
        self.row["repeats"] = self.runner.row["repeats"]

    def stop(self):
        self.runner.stop()


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("--data", required=True, help="folder with images/NAME.jpg and masks/NAME.png")
    add("--slipstream", default=BINARY)
    add("--image-size", type=int, default=64, help="a power of two")
    add("--batch-size", type=int, default=8)
    add("--steps", type=int, default=200, help="steps of each run of slipstream train")
    add("--seconds", type=float, default=8, help="approximate length of a measurement of PyTorch")
    add("--repeats", type=int, default=5)
    add("--num-workers", type=lambda text: [int(item) for item in text.split(",")], default=[1, 2],
        help="DataLoader workers of the PyTorch loop")
    add("--plan-files", nargs="*", default=[], help="files of plans; each is a separate row")
    add("--json", default=os.devnull, help="write all figures here")
    return parser.parse_args()


def main():
    options = parse_arguments()
    rows = [Slipstream("slipstream train", options, [])]
    rows += [Slipstream(Path(path).stem, options, ["--plan", path]) for path in options.plan_files]
    rows += [PyTorch(options, workers) for workers in options.num_workers]
    try:
        for row in [row for _ in range(options.repeats) for row in rows]:
            row.measure()
    finally:
        for row in rows:
            row.stop()
    for row in rows:
        row.row["steps_per_second"] = figure(row.row["repeats"], "steps/s")
    settings = {key: str(value) for key, value in vars(options).items()}
    report = {"environment": environment("cpu"), "settings": settings,
              "results": [row.row for row in rows]}
    Path(options.json).write_text(json.dumps(report, indent=1) + "\n")
    for row in report["results"]:
        rate = row["steps_per_second"]
        interval = f" [{rate['low']:.2f}, {rate['high']:.2f}]" if rate["n"] > 1 else ""
        print(f"{row['name']:32}{rate['value']:8.2f}{interval}")


if __name__ == "__main__":
    main()
