#!/usr/bin/env python3
"""Measures what slipstream.watch costs the loop's thread in each step, around steps of 1 ms.

The step calls small operations of PyTorch for 1 ms, so that the CPU's caches contain other code and data when the watch
runs again. The cost of a step is the CPU time of next() of the watched iterator, minus the CPU time of next() of the
loader's iterator inside it, minus the CPU time of reading the clock. The watch waits for nothing, so this is all that it
costs the loop's thread. "typical" is the median of the steps of an epoch, "mean" also contains the steps in which totals
are written and in which other work of the machine interferes. A figure {"value", "low", "high", "unit", "n"} is the median
of n epochs with a 95 % interval (Student's t).
"""

import argparse
import json
import os
import statistics
import time
from pathlib import Path

import torch
from figures import figure
from torch.utils.data.dataloader import _BaseDataLoaderIter

import slipstream as ss
from slipstream._iteration import Iteration

STEP_S = 1e-3


class Samples(torch.utils.data.Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return torch.ones(64)


class Batches:
    """An iterable with an iterator in Python."""

    def __init__(self, count):
        self.count = count

    def __iter__(self):
        return BatchesIterator(self.count)


class BatchesIterator:
    def __init__(self, left):
        self.left = left

    def __iter__(self):
        return self

    def __next__(self):
        if self.left == 0:
            raise StopIteration
        self.left -= 1
        return self.left


def torch_loader(steps, num_workers):
    return torch.utils.data.DataLoader(
        Samples(steps), 1, num_workers=num_workers, persistent_workers=num_workers > 0)


# The loader of each row, and the class of its iterator.
ROWS = {
    "an iterable": (Batches, BatchesIterator),
    "DataLoader, no workers": (lambda steps: torch_loader(steps, 0), _BaseDataLoaderIter),
    "DataLoader, 2 workers": (lambda steps: torch_loader(steps, 2), _BaseDataLoaderIter),
    "DataLoader, 8 workers": (lambda steps: torch_loader(steps, 8), _BaseDataLoaderIter),
    "ss.DataLoader, 2 workers": (lambda steps: ss.DataLoader(Samples(steps), 1, num_workers=2), Iteration),
    "ss.Pipeline": (lambda steps: ss.Pipeline(torch_loader(steps, 2)), Iteration),
}


class InnerTime:
    """Adds up the CPU time of calls of next() of iterators of a class, inside a `with` block."""

    def __init__(self, kind):
        self.kind, self.function, self.seconds = kind, kind.__next__, 0.0

    def __enter__(self):
        function = self.function

        def timed(iterator):
            begin = time.thread_time()
            try:
                return function(iterator)
            finally:
                self.seconds += time.thread_time() - begin

        self.kind.__next__ = timed
        return self

    def __exit__(self, *error):
        self.kind.__next__ = self.function


def make_step(device):
    weights = torch.ones(64, 64, device=device)

    def step():
        end = time.perf_counter() + STEP_S
        while time.perf_counter() < end:
            torch.relu(weights @ weights)

    return step


def outer_us(loop, kind, step):
    """Returns the CPU time of next() outside the loader's next(): the median and the mean of all steps of an epoch but
    the first."""
    with InnerTime(kind) as inner:
        iterator, times = iter(loop), []
        next(iterator)
        step()
        while True:
            inner.seconds = 0.0
            begin = time.thread_time()
            if next(iterator, None) is None:
                return statistics.median(times), statistics.mean(times)
            times.append(1e6 * (time.thread_time() - begin - inner.seconds))
            step()


def measure(name, options):
    make, kind = ROWS[name]
    loader, step = make(options.steps), make_step(options.device)
    watch = ss.watch(loader, log=None, every=1)
    turns = [(outer_us(loader, kind, step), outer_us(watch, kind, step)) for _ in range(options.epochs + 1)][1:]
    clock_us = statistics.median(typical for (typical, _), _ in turns)
    typical = figure([watched - clock_us for _, (watched, _) in turns], "us")
    mean = figure([watched - clock_us for _, (_, watched) in turns], "us")
    print(f"{name}: {typical['value']:.1f} [{typical['low']:.1f}, {typical['high']:.1f}] us per step, "
          f"{typical['value'] / STEP_S / 1e4:.2f} % of 1 ms; mean {mean['value']:.1f} us", flush=True)
    return {"row": name, "typical": typical, "mean": mean, "clock_us": clock_us}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("--device", default="cpu", choices=("cpu", "cuda"))
    add("--steps", type=int, default=1000, help="steps of an epoch")
    add("--epochs", type=int, default=5)
    add("--json", default=os.devnull)
    options = parser.parse_args()
    torch.set_num_threads(1)
    report = {"device": torch.cuda.get_device_name() if options.device == "cuda" else "cpu",
              "torch": torch.__version__, "slipstream": ss.__version__, "cores": len(os.sched_getaffinity(0)),
              "settings": {"steps": options.steps, "epochs": options.epochs, "step_s": STEP_S},
              "rows": [measure(name, options) for name in ROWS]}
    Path(options.json).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
