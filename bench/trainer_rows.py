"""The training loops that bench/trainers.py compares. Each runs in a process that executes this file, which reads
one task per line as JSON and writes one answer per line."""

import itertools
import json
import os
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path

from loader_rows import SIDE, answer_tasks

CPUS = sorted(os.sched_getaffinity(0))


def stay_on(cores):
    """Binds all threads of this process, and all processes that they start, to this number of cores."""
    for thread in Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(thread.name), CPUS[:cores])


@cache
def training(model, kind):
    """Returns one step of torchvision's model on uint8 images, tuned as usual: channels-last, bf16, cuDNN
    autotuning, a fused optimizer. `kind` contains "compiled", "reduce-overhead" (CUDA graphs of torch.compile) or
    "captured" (CUDA graphs of slipstream.capture)."""
    import torch
    import torchvision

    torch.backends.cudnn.benchmark = True
    module = torchvision.models.get_model(model, num_classes=10).cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-5, fused=True)

    def compute_loss(images, labels):
        with torch.autocast("cuda", torch.bfloat16):
            return torch.nn.functional.cross_entropy(module(images.float() / 255), labels)

    if "compiled" in kind or "reduce-overhead" in kind:
        compute_loss = torch.compile(compute_loss, mode="reduce-overhead" if "reduce-overhead" in kind else "default")

    def step(images, labels):
        compute_loss(images.to(memory_format=torch.channels_last), labels).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    if "captured" in kind:
        import slipstream as ss

        return ss.capture(step)
    return step


def measure_rate(step, batches, task):
    import torch

    for _ in range(max(10, 2 * task.cores)):
        step(*next(batches))
    torch.cuda.synchronize()
    taken, start = 0, time.perf_counter()
    while time.perf_counter() - start < task.seconds:
        step(*next(batches))
        taken += 1
    torch.cuda.synchronize()
    return {"rate": taken * task.batch_size / (time.perf_counter() - start)}


def model_alone(task, kind):
    import torch

    images = torch.randint(256, (task.batch_size, 3, SIDE, SIDE), dtype=torch.uint8, device="cuda")
    labels = torch.randint(10, (task.batch_size,), device="cuda")

    return measure_rate(training(task.model, kind), itertools.repeat((images, labels)), task)


def pytorch(task, kind):
    """Trains from files: DataLoader, torchvision's decoder and transforms, pinned uint8 batches."""
    import torch
    import torchvision
    from torch.utils import data
    from torchvision.transforms import v2

    chain = v2.Compose([v2.RandomResizedCrop(SIDE, antialias=True), v2.RandomHorizontalFlip()])

    class Photos(data.Dataset):
        def __len__(self):
            return len(task.files)

        def __getitem__(self, index):
            bytes_of_file = torchvision.io.read_file(task.files[index])
            image = torchvision.io.decode_jpeg(bytes_of_file, torchvision.io.ImageReadMode.RGB)
            return chain(image), task.labels[index]

    photos = Photos()
    sampler = data.RandomSampler(photos, replacement=True, num_samples=1 << 24)
    loader = data.DataLoader(photos, task.batch_size, sampler=sampler, num_workers=task.cores, pin_memory=True,
                             prefetch_factor=4, multiprocessing_context="fork",
                             worker_init_fn=lambda _: torch.set_num_threads(1))

    def batches():
        for images, labels in loader:
            yield images.cuda(non_blocking=True), labels.cuda(non_blocking=True)

    return measure_rate(training(task.model, kind), batches(), task)


def package(task, kind, wire=None):
    """The same loop with the loader of the Python package."""
    import slipstream as ss

    chain = ss.transforms.Compose([ss.transforms.RandomResizedCrop(SIDE), ss.transforms.RandomHorizontalFlip()])
    loader = ss.DataLoader(ss.ImageFolder(task.data, chain), task.batch_size, shuffle=True, drop_last=True,
                           num_workers=task.cores, device="cuda", wire=wire)
    return measure_rate(training(task.model, kind), endless(loader), task)


def endless(loader):
    while True:
        yield from loader


def dali(task, kind):
    """Trains with DALI, which uses the GPU's JPEG engines."""
    from nvidia.dali import fn, pipeline_def, types
    from nvidia.dali.plugin.pytorch import DALIGenericIterator

    @pipeline_def(batch_size=task.batch_size, num_threads=task.cores, prefetch_queue_depth=2, device_id=0)
    def photos():
        encoded, labels = fn.readers.file(files=task.files, labels=task.labels, random_shuffle=True, name="files")
        images = fn.decoders.image_random_crop(encoded, device="mixed", random_area=[0.08, 1.0],
                                               random_aspect_ratio=[3 / 4, 4 / 3])
        images = fn.resize(images, resize_x=SIDE, resize_y=SIDE)
        images = fn.flip(images, horizontal=fn.random.coin_flip())
        return fn.transpose(images, perm=[2, 0, 1], transpose_layout=True), fn.cast(labels.gpu(), dtype=types.INT64)

    def batches():
        iterator = DALIGenericIterator(photos(), ["images", "labels"])
        while True:
            made = next(iterator)[0]
            yield made["images"], made["labels"].flatten()

    return measure_rate(training(task.model, kind), batches(), task)


def spdl(task, kind):
    """Trains with SPDL's threads, torchvision's decoder and transforms, pinned uint8 batches."""
    import random

    import torch
    import torchvision
    from spdl.pipeline import PipelineBuilder
    from torchvision.transforms import v2

    chain = v2.Compose([v2.RandomResizedCrop(SIDE, antialias=True), v2.RandomHorizontalFlip()])
    torch.set_num_threads(1)

    def indices():
        rng = random.Random(1)
        while True:
            yield rng.randrange(len(task.files))

    def load(index):
        file = torchvision.io.read_file(task.files[index])
        return chain(torchvision.io.decode_jpeg(file, torchvision.io.ImageReadMode.RGB)), task.labels[index]

    def stack(samples):
        images, labels = zip(*samples)
        return torch.stack(images).pin_memory(), torch.tensor(labels).pin_memory()

    pipeline = (PipelineBuilder().add_source(indices()).pipe(load, concurrency=task.cores)
                .aggregate(task.batch_size).pipe(stack).add_sink(4).build(num_threads=task.cores))
    with pipeline.auto_stop():
        batches = ((images.cuda(non_blocking=True), labels.cuda(non_blocking=True)) for images, labels in pipeline)
        return measure_rate(training(task.model, kind), batches, task)


def slipstream(task, *options):
    chain = {"version": 1, "transforms": [{"op": "random_resized_crop", "size": SIDE},
                                          {"op": "random_horizontal_flip"}]}
    with tempfile.TemporaryDirectory() as folder:
        transforms, report = Path(folder, "transforms.json"), Path(folder, "report.json")
        transforms.write_text(json.dumps(chain))
        command = [task.slipstream, "bench", "classification", "--model", task.model, "--data", task.data,
                   "--transforms", transforms, "--batch-size", task.batch_size, "--num-workers", task.cores,
                   "--precision", "bf16", "--optimizer", "sgd", "--momentum", 0.9, "--weight-decay", 5e-5,
                   "--lr", 0.01, "--plan", "pipelined", "--steps", 1 << 20, "--seconds", task.seconds,
                   "--repeats", 1, "--json", report, *options]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"exit code {done.returncode}: {done.stderr.strip()}")
        rows = {row["plan"]: row for row in json.loads(report.read_text())["rows"]}
    rate, alone = (rows[plan]["steps_per_second"]["value"] for plan in ("pipelined", "alone:model"))
    return {"rate": rate * task.batch_size, "alone": alone * task.batch_size}


def on_its_cores(row):
    def bound(task):
        stay_on(task.cores)
        return row(task)

    return bound, ()


ROWS = {name: on_its_cores(row) for name, row in {
    "alone_eager": lambda task: model_alone(task, "eager"),
    "alone_compiled": lambda task: model_alone(task, "compiled"),
    "pytorch_eager": lambda task: pytorch(task, "eager"),
    "pytorch_compiled": lambda task: pytorch(task, "compiled"),
    "package_eager": lambda task: package(task, "eager"),
    "pytorch_reduce-overhead": lambda task: pytorch(task, "reduce-overhead"),
    "package_captured": lambda task: package(task, "captured"),
    "package_compiled_captured": lambda task: package(task, "compiled captured"),
    "package_compiled": lambda task: package(task, "compiled"),
    "package_eager_engines": lambda task: package(task, "eager", {"image": "jpeg"}),
    "package_compiled_engines": lambda task: package(task, "compiled", {"image": "jpeg"}),
    "dali_eager_engines": lambda task: dali(task, "eager"),
    "dali_compiled_engines": lambda task: dali(task, "compiled"),
    "spdl_eager": lambda task: spdl(task, "eager"),
    "slipstream": slipstream,
    "slipstream_jpeg_engines": lambda task: slipstream(task, "--wire", "image=jpeg"),
}.items()}

if __name__ == "__main__":
    answer_tasks(ROWS)
