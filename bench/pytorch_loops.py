#!/usr/bin/env python3
"""Measures the speed of usual PyTorch loops for the segmentation workload (W1).

Each loop has a separate process, because a loop may die (the published pipelined loop can end in a device-side
assertion): that is a result. Repeats of all processes with the same batch size are interleaved. Only one process
measures at a time, and loader workers exist only while their loop is measured. A figure
{"value", "low", "high", "unit", "n"} is the median of n repeats with a 95 % interval (Student's t).
"""

import argparse
import contextlib
import gc
import json
import os
import signal
import subprocess
import time
from itertools import islice, pairwise, repeat
from multiprocessing import Pipe, get_context
from pathlib import Path

import numpy
import torch
from figures import figure
from PIL import Image
from torch import nn

CLASSES = 10
IMAGES = "*.[jp][pn]g"
WARMUP_STEPS = 10


class Model:
    """The model of W1: encoder (frozen, eval), decoder (trained) and optimizer; tuned: channels-last, fused."""

    def __init__(self, image_size, device, tuned):
        levels = list(pairwise(16 << level for level in range(image_size.bit_length())))
        encoder, decoder = [nn.Conv2d(3, 16, kernel_size=1)], []
        for fine, coarse in levels:
            encoder += [nn.ReLU(inplace=True), nn.Conv2d(fine, coarse, 2, stride=2)]
        for fine, coarse in reversed(levels):
            decoder += [nn.ConvTranspose2d(coarse, fine, 2, stride=2), nn.ReLU(inplace=True)]
        decoder.append(nn.Conv2d(16, CLASSES, kernel_size=3, padding=1))
        layout = torch.channels_last if tuned else torch.contiguous_format
        self.encoder = nn.Sequential(*encoder).requires_grad_(False).eval()
        self.encoder.to(device, memory_format=layout)
        self.decoder = nn.Sequential(*decoder).train().to(device, memory_format=layout)
        self.optimizer = torch.optim.SGD(self.decoder.parameters(), lr=1e-3, fused=tuned or None)

    def encode(self, inputs):
        with torch.no_grad():
            return self.encoder(inputs)

    def train_decoder(self, features, labels):
        self.optimizer.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(self.decoder(features), labels).backward()
        self.optimizer.step()


class Samples(torch.utils.data.Dataset):
    """uint8 images with label maps: random ones, generated at each access, or a folder's files, read with Pillow.
    Files repeat within an epoch, so that an epoch of a small folder is long enough to hide the cost of its start."""

    def __init__(self, folder, size, channels_last, label_type):
        self.size, self.label_type = (size, size), label_type
        self.shape = (size, size, 3) if channels_last else (3, size, size)
        self.images = sorted(Path(folder, "images").glob(IMAGES)) if folder else None

    def __len__(self):
        return 1 << 19

    def __getitem__(self, index):
        if self.images is None:
            labels = torch.randint(0, CLASSES, self.size, dtype=self.label_type)
            return torch.randint(0, 256, self.shape, dtype=torch.uint8), labels
        path = self.images[index % len(self.images)]
        mask = Image.open(path.parents[1] / "masks" / f"{path.stem}.png")
        mask = mask.resize(self.size, Image.Resampling.NEAREST)
        image = Image.open(path).convert("RGB").resize(self.size, Image.Resampling.BILINEAR)
        labels = torch.from_numpy(numpy.array(mask, dtype=numpy.uint8)).to(self.label_type)
        return torch.from_numpy(numpy.array(image)), labels


def endless_batches(cell, labels, source):
    """Yields batches without end: from a DataLoader (plain for the article's loops, tuned for others), or the same
    random batch again and again from device, pinned (host) or pageable memory."""
    folder = cell.data if source == "files" else None
    data = Samples(folder, cell.image_size, cell.tuned, getattr(torch, labels))
    if source in ("loader", "files"):
        extra = {"pin_memory": cell.device == "cuda", "persistent_workers": True,
                 "prefetch_factor": 4, "shuffle": True} if cell.tuned else {}
        loader = torch.utils.data.DataLoader(data, cell.batch_size, num_workers=cell.workers,
                                             multiprocessing_context="fork", **extra)
        while True:
            yield from loader
    fields = [torch.stack(field) for field in zip(*(data[i] for i in range(cell.batch_size)))]
    if source == "device":
        fields = [field.to(cell.device) for field in fields]
    elif source == "host":
        fields = [field.pin_memory() for field in fields]
    yield from repeat(fields)


def as_float(images):
    """Converts images stored as (batch, height, width, channel) to a channels-last float tensor."""
    return images.permute(0, 3, 1, 2).float()


def article_serial(model, batches, device):
    """The published baseline: copy, cast, encode and train on one stream; default layout, no autotuning, int64
    labels, unpinned memory (so its "non-blocking" copies block)."""
    for data in batches:
        inputs = data[0].to(device, non_blocking=True).float()
        labels = data[1].to(device, non_blocking=True)
        features = model.encode(inputs)
        model.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model.decoder(features), labels)
        loss.backward()
        model.optimizer.step()
        yield


def article_pipelined(model, batches, device):
    """The published pipelined loop. Copies and casts stay on the current stream, one stream trains on batch n,
    another encodes batch n+1. Only the training stream waits for the encoding stream. All other waits are missing,
    as in the original: the loop may read memory too early, and die."""
    encode_stream, train_stream = torch.cuda.Stream(), torch.cuda.Stream()
    features = None
    for data in batches:
        inputs = data[0].to(device, non_blocking=True).float()
        next_labels = data[1].to(device, non_blocking=True)
        if features is not None:
            with torch.cuda.stream(train_stream):
                train_stream.wait_stream(encode_stream)
                model.optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model.decoder(features), labels)
                loss.backward()
                model.optimizer.step()
        with torch.cuda.stream(encode_stream):
            features = model.encode(inputs)
            features.record_stream(train_stream)
        labels = next_labels
        yield


def tuned_serial(model, batches, device):
    """The serial loop as a good PyTorch user tunes it: channels-last model and input, cuDNN autotuning, pinned uint8
    images, non-blocking copies, fused SGD."""
    for images, labels in batches:
        features = model.encode(as_float(images.to(device, non_blocking=True)))
        model.train_decoder(features, labels.to(device, non_blocking=True).long())
        yield


def tuned_graph(model, batches, device):
    """The tuned step (cast, encode, train, update) in one CUDA graph, with a batch cached on the device or with a
    pinned one, whose two copies precede each replay on the same stream."""
    sources = next(batches)
    images, labels = (field.to(device, copy=True) for field in sources)

    def step():
        model.train_decoder(model.encode(as_float(images)), labels.long())

    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        for _ in range(WARMUP_STEPS):
            step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    while True:
        if not sources[0].is_cuda:
            images.copy_(sources[0], non_blocking=True)
            labels.copy_(sources[1], non_blocking=True)
        graph.replay()
        yield


def decoder_alone(model, batches, device):
    """An upper limit: trains on one batch's cached features and int64 labels; tuned, eager."""
    images, labels = next(batches)
    features = model.encode(as_float(images))
    while True:
        model.train_decoder(features, labels)
        yield


def encoder_alone(model, batches, device):
    """An upper limit: encodes one cached float batch; tuned, eager."""
    inputs = as_float(next(batches)[0])
    while True:
        model.encode(inputs)
        yield


LOOPS = {  # generators that yield after each step, and the inputs that each supports
    "article_serial": (article_serial, ("loader",)),
    "article_pipelined": (article_pipelined, ("loader",)),
    "tuned_serial": (tuned_serial, ("loader", "files", "device")),
    "tuned_graph": (tuned_graph, ("device", "host")),
    "decoder_alone": (decoder_alone, ("device",)),
    "encoder_alone": (encoder_alone, ("device",)),
}


def measure(cell, model, labels, seconds):
    """Returns steps per second. The host waits for the device before the first step and after the last."""
    batches = endless_batches(cell, labels, cell.input)
    loop = LOOPS[cell.loop][0](model, batches, cell.device)
    wait = torch.cuda.synchronize if cell.device == "cuda" else int

    def timed(steps):
        wait()
        start = time.perf_counter()
        for _ in range(steps):
            next(loop)
        wait()
        return time.perf_counter() - start

    # New workers deliver in bursts of one batch each: some bursts warm up, more are measured.
    pilot = max(WARMUP_STEPS, 2 * cell.workers)
    _, rate = (pilot / timed(pilot) for _ in range(2))
    if seconds:  # without seconds, the fixed number of steps of a quick look
        steps = cell.steps or int(max(WARMUP_STEPS, 6 * cell.workers, rate * seconds))
        rate = steps / timed(steps)
    del loop, batches  # ends the loader's workers
    gc.collect()
    torch.cuda.empty_cache()
    return rate


def child_main(conn, cell):
    """Builds the model, sends a message when it is ready, then measures one repeat per message, until it is killed."""
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # a device-side assertion prints pages of text
    try:
        torch.backends.cudnn.benchmark = cell.tuned
        torch.manual_seed(1)
        model = Model(cell.image_size, cell.device, cell.tuned)
        conn.recv()
        conn.send({})
        conn.recv()
        # Load and tune all kernels before a loader starts; its queue would fill in that time.
        serial = tuned_serial if cell.tuned else article_serial
        list(islice(serial(model, endless_batches(cell, "int64", "plain"), cell.device), 3))
        labels, tried = "int64", {}
        if cell.tuned and cell.input != "device":  # with cached device input, a cast in each step would only add cost
            tried = {kind: measure(cell, model, kind, 0) for kind in ("uint8", "int64")}
            labels = max(tried, key=tried.get)
        while True:
            rate = measure(cell, model, labels, cell.seconds)
            conn.send({"rate": rate, "labels": labels, "labels_tried": tried})
            conn.recv()
    except BaseException as error:
        conn.send(f"{type(error).__name__}: {error}")
    os._exit(1)


class Runner:
    """The process of one cell, as the parent sees it; `row` is the cell's result so far."""

    def __init__(self, cell):
        self.timeout, self.process = cell.timeout, None
        self.row = {key: getattr(cell, key) for key in ("loop", "input", "batch_size", "workers")}
        self.row |= {"status": "skipped: time budget spent", "message": "", "labels": None,
                     "labels_tried": {}, "repeats": [], "steps_per_second": None}
        if cell.loop in ("article_pipelined", "tuned_graph") and cell.device != "cuda":
            self.row["status"] = "skipped: needs CUDA"
            return
        self.conn, theirs = Pipe()
        self.process = get_context("spawn").Process(target=child_main, args=(theirs, cell))
        self.process.start()
        theirs.close()

    def ask(self):
        """Takes the next answer: first {} (ready), then a repeat's. If the process dies or hangs, it is stopped."""
        answer = f"no answer within {self.timeout:g} s"
        try:
            with contextlib.suppress(BrokenPipeError):  # its last message may not have been read yet
                self.conn.send("go")
            if self.conn.poll(self.timeout):
                answer = self.conn.recv()
        except (EOFError, OSError):
            self.process.join(1)
            answer = f"the process ended with exit code {self.process.exitcode}"
        if isinstance(answer, str):
            ends = answer.split("\n")[:1] + answer.rstrip().split("\n")[1:][-1:]
            self.row |= {"status": "died", "message": " ... ".join(ends), "steps_per_second": None}
            self.stop()
        elif answer:
            self.row["repeats"].append(answer.pop("rate"))
            self.row |= {"status": "ok", "steps_per_second": rounded_figure(self.row["repeats"])} | answer

    def stop(self):
        """Ends the process together with its loader workers."""
        if self.process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.kill()
            self.process.join()
            self.process = None


def rounded_figure(rates):
    found = figure(rates, "steps/s")
    if found["n"] > 1:
        found |= {end: round(found[end], 2) for end in ("low", "high")}
    return found


def make_cells(batch_size, options):
    for loop in options.loops:
        for source in LOOPS[loop][1]:
            counts = [0]
            if source in ("loader", "files"):
                counts = options.num_workers if loop == "tuned_serial" else [8]
            for workers in counts if source != "files" or options.data else ():
                chosen = {"loop": loop, "input": source, "batch_size": batch_size,
                          "workers": workers, "tuned": not loop.startswith("article")}
                yield argparse.Namespace(**vars(options) | chosen)


def run_batch_size(batch_size, options, seconds):
    """Measures all cells of one batch size, interleaved; starts no measurement after this number of seconds."""
    until = time.monotonic() + seconds
    runners = [Runner(cell) for cell in make_cells(batch_size, options)]
    try:
        for runner in runners * (1 + options.repeats):
            if runner.process and time.monotonic() < until:
                runner.ask()
    finally:
        for runner in runners:
            runner.stop()
    return [runner.row for runner in runners]


def environment(device):
    info = {"torch": torch.__version__, "cuda": torch.version.cuda, "cpu_count": os.cpu_count(),
            "tf32_convolutions": torch.backends.cudnn.allow_tf32}
    if device == "cuda":
        info |= {"gpu": torch.cuda.get_device_name(), "cudnn": torch.backends.cudnn.version()}
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            info["driver"] = subprocess.check_output(query, text=True, timeout=30).split()[0]
    return info


def parse_arguments():
    def numbers(text):
        return [int(item) for item in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("--device", choices=("cuda", "cpu"), default="cuda")
    add("--image-size", type=int, default=256, help="a power of two; sets the number of levels")
    add("--batch-sizes", type=numbers, default=[8, 32, 128])
    add("--loops", type=lambda text: text.split(","), default=list(LOOPS))
    add("--data", help="folder with images/NAME.jpg and masks/NAME.png: adds the input 'files'")
    add("--num-workers", type=numbers, default=[8, 16], help="loader workers of tuned_serial")
    add("--steps", type=int, default=0, help="number of steps of a measurement, instead of --seconds")
    add("--seconds", type=float, default=1.0, help="approximate length of a measurement")
    add("--repeats", type=int, default=3)
    add("--budget-seconds", type=float, default=300, help="shared evenly by the batch sizes")
    add("--timeout", type=float, default=60, help="a loop without an answer is stopped after this number of seconds")
    add("--json", default=os.devnull, help="write all figures here")
    options = parser.parse_args()
    if (size := options.image_size) < 2 or size & (size - 1):
        parser.error("--image-size must be a power of two")
    if unknown := set(options.loops) - set(LOOPS):
        parser.error(f"unknown loop: {', '.join(unknown)}; known: {', '.join(LOOPS)}")
    if options.data and not any(Path(options.data, "images").glob(IMAGES)):
        parser.error(f"no images/*.jpg or *.png in {options.data}")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("no CUDA device; use --device cpu")
    return options


def main():
    options = parse_arguments()
    deadline = time.monotonic() + options.budget_seconds
    report = {"environment": environment(options.device), "settings": vars(options), "results": []}
    for index, batch_size in enumerate(options.batch_sizes):
        share = (deadline - time.monotonic()) / (len(options.batch_sizes) - index)
        report["results"] += run_batch_size(batch_size, options, share)
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report["environment"]))
    print(f"{'loop':18}{'input':8}{'workers':>7} {'labels':>7}{'batch':>6}{'steps/s':>9}  95 %")
    for row in report["results"]:
        text = f"  {row['status']} {row['message']}"
        if rate := row["steps_per_second"]:
            text = f"{rate['value']:9.1f}  {rate['low']} to {rate['high']} (n={rate['n']})"
        print(f"{row['loop']:18}{row['input']:8}{row['workers'] or '-':>7} "
              f"{row['labels'] or '-':>7}{row['batch_size']:6}{text}")


if __name__ == "__main__":
    main()
