#!/usr/bin/env python3
"""Compares slipstream.Pipeline and slipstream.DataLoader around the tuned PyTorch loop of `segmentation` (W1).

Measures steps per second, and the host time of an iteration. The repeats of all rows are interleaved in one process,
in which all loops stay alive. Each repeat begins with steps that are not counted; these use up the batches that the
row's workers loaded while other rows ran. A figure {"value", "low", "high", "unit", "n"} is the median of n repeats
with a 95 % interval (Student's t). of_plain is the rate divided by the rate of the plain loop with the same input in
the same repeat.
"""

import argparse
import gc
import itertools
import json
import os
import time
from pathlib import Path

import torch
from figures import figure
from pytorch_loops import Model, Samples, as_float

import slipstream as ss

WARMUP_STEPS = 20
PREFETCH_FACTOR = 4


def pytorch_loader(options, batch_size):
    data = Samples(options.data, options.image_size, True, torch.uint8)
    return torch.utils.data.DataLoader(
        data, batch_size, shuffle=True, num_workers=options.num_workers, pin_memory=True,
        persistent_workers=True, prefetch_factor=PREFETCH_FACTOR, multiprocessing_context="fork")


def native_loader(options, batch_size):
    resize = ss.transforms.Resize((options.image_size, options.image_size))
    data = ss.open_dataset(options.data, resize, num_classes=10)
    return ss.DataLoader(data, batch_size, shuffle=True, num_workers=options.num_workers, drop_last=True,
                         prefetch_factor=PREFETCH_FACTOR, device="cuda")


def endless(loader):
    while True:
        yield from loader


def plain(model, batches):
    for images, labels in batches:
        features = model.encode(as_float(images.cuda(non_blocking=True)))
        model.train_decoder(features, labels.cuda(non_blocking=True).long())
        yield


def staged(model, pipe):
    for features, labels in endless(pipe):
        model.train_decoder(features, labels.long())
        yield


def copies_ahead(model, pipe):
    """Copies in advance; the encoder runs in the loop body."""
    for images, labels in endless(pipe):
        model.train_decoder(model.encode(as_float(images)), labels.long())
        yield


def at_high_priority(loop):
    """Runs the loop body on a stream whose kernels have priority over those of the stages."""
    stream = torch.cuda.Stream(priority=-1)
    while True:
        with torch.cuda.stream(stream):
            next(loop)
        yield


def encode_stage(model):
    return [("encode", lambda images: model.encoder(as_float(images)))]


def native_stage(model):
    return [("encode", lambda images: model.encoder(images.float()))]


class Encode(torch.nn.Module):
    def __init__(self, encoder, is_channels_last):
        super().__init__()
        self.encoder, self.is_channels_last = encoder, is_channels_last

    def forward(self, images):
        return self.encoder(as_float(images) if self.is_channels_last else images.float())


def script_stage(model, options, batch_size, is_channels_last):
    """Uses the encoder as TorchScript, which a thread calls without the GIL."""
    size = options.image_size
    shape = (batch_size, size, size, 3) if is_channels_last else (batch_size, 3, size, size)
    images = torch.zeros(shape, dtype=torch.uint8, device="cuda")
    if not is_channels_last:
        images = images.contiguous(memory_format=torch.channels_last)
    return [("encode", torch.jit.trace(Encode(model.encoder, is_channels_last).eval(), images))]


def pinned_batches(options, batch_size):
    data = Samples(None, options.image_size, True, torch.uint8)
    made = [[torch.stack(field).pin_memory() for field in zip(*(data[i] for i in range(batch_size)))]
            for _ in range(4)]
    return itertools.cycle(made)


def decoder_alone(model, batches):
    images, labels = next(batches)
    features, labels = model.encode(as_float(images.cuda())), labels.cuda().long()
    while True:
        model.train_decoder(features, labels)
        yield


ROWS = {
    "decoder_alone": lambda model, o, n: decoder_alone(model, pinned_batches(o, n)),
    "plain_pinned": lambda model, o, n: plain(model, pinned_batches(o, n)),
    "pipeline_pinned": lambda model, o, n: staged(model, ss.Pipeline(pinned_batches(o, n), encode_stage(model), "cuda")),
    "pipeline_pinned_copies": lambda model, o, n: copies_ahead(model, ss.Pipeline(pinned_batches(o, n), (), "cuda")),
    "pipeline_pinned_serial": lambda model, o, n: staged(model, ss.Pipeline(
        pinned_batches(o, n), encode_stage(model), "cuda", serial=True)),
    "pipeline_pinned_priority": lambda model, o, n: at_high_priority(staged(model, ss.Pipeline(
        pinned_batches(o, n), encode_stage(model), "cuda"))),
    "pipeline_pinned_script": lambda model, o, n: staged(model, ss.Pipeline(
        pinned_batches(o, n), script_stage(model, o, n, True), "cuda")),
    "plain_dataloader": lambda model, o, n: plain(model, endless(pytorch_loader(o, n))),
    "pipeline_dataloader": lambda model, o, n: staged(model, ss.Pipeline(pytorch_loader(o, n), encode_stage(model), "cuda")),
    "pipeline_native_dataloader": lambda model, o, n: staged(model, ss.Pipeline(native_loader(o, n), native_stage(model))),
    "pipeline_native_dataloader_script": lambda model, o, n: staged(model, ss.Pipeline(
        native_loader(o, n), script_stage(model, o, n, False))),
}


def measure_rate(loop, warmup_steps, seconds):
    for _ in range(warmup_steps):
        next(loop)
    torch.cuda.synchronize()
    steps, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        next(loop)
        steps += 1
    torch.cuda.synchronize()
    return steps / (time.perf_counter() - start)


def measure_rows(batch_size, options):
    torch.manual_seed(1)
    model = Model(options.image_size, "cuda", True)
    loops = {name: ROWS[name](model, options, batch_size) for name in options.rows}
    rates = {name: [] for name in options.rows}
    for repeat in range(-1, options.repeats):  # repeat -1 is not counted: lazy initialization happens in it
        for name, loop in loops.items():
            ready = PREFETCH_FACTOR * options.num_workers if "dataloader" in name else 0
            rate = measure_rate(loop, WARMUP_STEPS + ready, options.seconds)
            if repeat >= 0:
                rates[name].append(rate)
    for name, each in rates.items():
        plain = rates.get("plain_dataloader" if "dataloader" in name else "plain_pinned", [])
        row = {"row": name, "batch_size": batch_size, "steps_per_second": figure(each, "steps/s")}
        print(batch_size, name, [round(rate, 1) for rate in each], flush=True)
        yield row | ({"of_plain": figure([a / b for a, b in zip(each, plain)], "1")} if plain else {})


def microseconds(loop, count=3000):
    """Returns the host time of an iteration; the device has next to nothing to do."""
    iterator = iter(loop)
    for _ in range(200):
        next(iterator)
    start = time.perf_counter()
    for _ in range(count):
        next(iterator)
    return (time.perf_counter() - start) / count * 1e6


def host_costs():
    batch = [torch.ones(8).pin_memory(), torch.ones(8).pin_memory()]

    def copied():
        for x, y in itertools.repeat(batch):
            yield x.cuda(non_blocking=True), y.cuda(non_blocking=True)

    def with_stage():
        for x, y in copied():
            yield x + 1, y

    plan = {"plain_copies": copied, "plain_stage": with_stage,
            "pipeline_copies": lambda: ss.Pipeline(itertools.repeat(batch), (), "cuda"),
            "pipeline_stage": lambda: ss.Pipeline(itertools.repeat(batch), [("add", lambda x: x + 1)], "cuda")}
    rounds = [{name: microseconds(make()) for name, make in plan.items()} for _ in range(5)]
    return {name: figure([each[name] for each in rounds], "us") for name in plan}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("--data", required=True, help="a folder of images/ and masks/, as make-data segmentation writes it")
    add("--batch-size", type=lambda text: [int(each) for each in text.split(",")], default=[8, 32, 128])
    add("--image-size", type=int, default=256)
    add("--num-workers", type=int, default=14)
    add("--repeats", type=int, default=3)
    add("--seconds", type=float, default=2)
    add("--rows", type=lambda text: text.split(","), default=list(ROWS), help=",".join(ROWS))
    add("--json", default=os.devnull)
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    report = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "slipstream": ss.__version__,
              "cores": len(os.sched_getaffinity(0)), "settings": {key: value for key, value in vars(options).items() if key != "json"},
              "host_us": host_costs(), "rows": []}
    print({name: round(cost["value"], 1) for name, cost in report["host_us"].items()}, flush=True)
    for batch_size in options.batch_size:
        report["rows"] += measure_rows(batch_size, options)
        gc.collect()  # ends the loops' workers
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
