"""The loaders that bench/loaders.py compares. Each runs in a process that executes this file, which reads one task
per line as JSON and writes one answer per line."""

import argparse
import contextlib
import importlib.util
import json
import math
import os
import random
import shlex
import subprocess
import sys
import tempfile
import time
from itertools import count, islice, repeat
from pathlib import Path

SIDE = 224


def random_box(rng, width, height):
    """Returns left, top, width and height of a crop, sampled as in torchvision's RandomResizedCrop."""
    for _ in range(10):
        area = width * height * rng.uniform(0.08, 1)
        ratio = math.exp(rng.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return rng.randint(0, width - w), rng.randint(0, height - h), w, h
    side = min(width, height)
    return (width - side) // 2, (height - side) // 2, side, side


def pillow_crop(path, rng):
    """Returns one sample as users of Pillow load it."""
    import numpy
    from PIL import Image

    with Image.open(path) as image:
        left, top, w, h = random_box(rng, *image.size)
        box = (left, top, left + w, top + h)
        image = image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR, box)
    return numpy.asarray(image)


def fast_crop():
    """Returns a function that loads one sample with the fastest installed libraries: simplejpeg (libjpeg-turbo) or
    Pillow for decoding, OpenCV (bilinear, not antialiased) or Pillow for resizing."""
    if not has("cv2"):
        return pillow_crop
    import cv2

    cv2.setNumThreads(1)
    if has("simplejpeg"):
        import simplejpeg

        def decode(path):
            return simplejpeg.decode_jpeg(Path(path).read_bytes())
    else:
        import numpy
        from PIL import Image

        def decode(path):
            with Image.open(path) as image:
                return numpy.asarray(image.convert("RGB"))

    def crop(path, rng):
        image = decode(path)
        left, top, w, h = random_box(rng, image.shape[1], image.shape[0])
        return cv2.resize(image[top:top + h, left:left + w], (SIDE, SIDE))
    return crop


def endless(files, seed=1):
    """Yields files in random order, without end."""
    rng = random.Random(seed)
    while True:
        yield from rng.sample(files, len(files))


def cpu_seconds():
    """Returns the CPU time of this process and all that it started, which are in the same session."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == os.getsid(0):
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def measure_rate(batches, task):
    """Measures the rate of batches. New workers deliver in bursts of one batch each, so some bursts warm up and more
    are measured."""
    for _ in islice(batches, 2 * task.workers + 1):
        pass
    taken, cpu, start = 0, cpu_seconds(), time.perf_counter()
    while time.perf_counter() - start < task.seconds or taken < task.workers:
        next(batches)
        taken += 1
    elapsed = time.perf_counter() - start
    return {"rate": taken * task.batch_size / elapsed, "cores": (cpu_seconds() - cpu) / elapsed}


def floor_process(task, index, barrier, results):
    import numpy

    crop, rng = fast_crop(), random.Random(index)
    batch = numpy.empty((task.batch_size, SIDE, SIDE, 3), numpy.uint8)
    files = endless(task.files, index)
    for place in range(4):
        batch[place % task.batch_size] = crop(next(files), rng)
    barrier.wait()
    start, cpu, elapsed = time.perf_counter(), time.process_time(), 0
    for number in count(1):
        batch[number % task.batch_size] = crop(next(files), rng)
        elapsed = time.perf_counter() - start
        if elapsed >= task.seconds:
            break
    results.put((number / elapsed, (time.process_time() - cpu) / elapsed))


def floor(task):
    """Measures N processes that share nothing: the highest rate that N cores can reach."""
    import multiprocessing

    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(task.workers), context.SimpleQueue()
    processes = [context.Process(target=floor_process, args=(task, index, barrier, results))
                 for index in range(task.workers)]
    for process in processes:
        process.start()
    each = [results.get() for _ in processes]
    for process in processes:
        process.join()
    return {"rate": sum(rate for rate, _ in each), "cores": sum(cores for _, cores in each)}


def dataloader(task, load):
    from torch.utils import data

    class Crops(data.Dataset):
        def __len__(self):
            return 1 << 24

        def __getitem__(self, index):
            return load(task.files[index % len(task.files)], random)

    sampler = data.RandomSampler(Crops(), replacement=True, num_samples=1 << 24)
    return measure_rate(iter(data.DataLoader(
        Crops(), task.batch_size, sampler=sampler, num_workers=task.workers, prefetch_factor=2,
        multiprocessing_context="fork")), task)


def dataloader_pillow(task):
    import numpy
    import torch

    return dataloader(task, lambda path, rng: torch.from_numpy(
        numpy.array(pillow_crop(path, rng))))


def dataloader_torchvision(task):
    import torchvision
    from torchvision.transforms.v2 import functional

    def load(path, rng):
        image = torchvision.io.decode_jpeg(torchvision.io.read_file(str(path)))
        left, top, w, h = random_box(rng, image.shape[2], image.shape[1])
        return functional.resized_crop(image, top, left, h, w, [SIDE, SIDE], antialias=True)
    return dataloader(task, load)


def dali(task, is_gpu):
    from nvidia.dali import fn, pipeline_def

    @pipeline_def(batch_size=task.batch_size, num_threads=task.workers, prefetch_queue_depth=2,
                  device_id=0 if is_gpu else None)
    def crops():
        encoded, _ = fn.readers.file(files=[str(path) for path in task.files], random_shuffle=True)
        images = fn.decoders.image_random_crop(
            encoded, device="mixed" if is_gpu else "cpu", random_area=[0.08, 1.0],
            random_aspect_ratio=[3 / 4, 4 / 3])
        return fn.resize(images, resize_x=SIDE, resize_y=SIDE)

    pipeline = crops()
    pipeline.build()
    return measure_rate((pipeline.run() for _ in repeat(None)), task)


def spdl(task):
    """Measures SPDL's threads with the same functions as in the row `floor`."""
    import numpy
    from spdl.pipeline import PipelineBuilder

    crop, rng = fast_crop(), random.Random(1)
    pipeline = (PipelineBuilder().add_source(endless(task.files))
                .pipe(lambda path: crop(path, rng), concurrency=task.workers)
                .aggregate(task.batch_size).pipe(numpy.stack).add_sink(2)
                .build(num_threads=task.workers))
    with pipeline.auto_stop():
        return measure_rate(iter(pipeline), task)


def slipstream(task, options=""):
    chain = {"version": 1, "transforms": [
        {"op": "random_resized_crop", "size": SIDE}]}
    with tempfile.TemporaryDirectory() as folder:
        transforms_file, report_file = (Path(folder, name)
                                        for name in ("transforms.json", "report.json"))
        transforms_file.write_text(json.dumps(chain))
        command = [task.slipstream, "bench", "loader", "--data", task.data,
                   "--transforms", transforms_file, "--num-workers", task.workers, "--batch-size", task.batch_size,
                   "--seconds", task.seconds, "--repeats", 1, "--json", report_file,
                   *shlex.split(options)]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"exit code {done.returncode}: {done.stderr.strip()}")
        measured = json.loads(report_file.read_text())["rates"][0]
    rate = measured["samples_per_second"]["value"]
    cpu_each = sum(step["cpu_s"] / max(step["calls"], 1) for step in measured["steps"])
    return {"rate": rate, "cores": rate * cpu_each}


def slipstream_python(task):
    """Measures the loader of the row `slipstream` from Python."""
    import slipstream as ss

    loader = ss.DataLoader(ss.ImageFolder(task.data, ss.transforms.RandomResizedCrop(SIDE)), task.batch_size,
                           shuffle=True, drop_last=True, num_workers=task.workers, device="cpu")
    return measure_rate((batch for _ in count() for batch in loader), task)


ROWS = {  # the function that measures each row, and the modules that it needs
    "floor": (floor, ("numpy", "PIL")),
    "dataloader_pillow": (dataloader_pillow, ("numpy", "PIL", "torch")),
    "dataloader_torchvision": (dataloader_torchvision, ("torch", "torchvision")),
    "dali_cpu": (lambda task: dali(task, False), ("nvidia.dali",)),
    "dali_mixed_gpu": (lambda task: dali(task, True), ("nvidia.dali",)),
    "spdl": (spdl, ("numpy", "PIL", "spdl.pipeline")),
    "slipstream": (slipstream, ()),
    "slipstream_python": (slipstream_python, ("torch", "slipstream")),
    "slipstream_with": (lambda task: slipstream(task, task.slipstream_with), ()),
}


def has(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def answer_tasks(rows):
    """Reads one task per line and measures it, until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries may print to stdout, which is reserved for answers
    for line in sys.stdin:
        task = argparse.Namespace(**json.loads(line))
        try:
            answer = rows[task.row][0](task)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    answer_tasks(ROWS)
