#!/usr/bin/env python3
"""Measures the feature cache of slipstream.Pipeline on two models: the trunk of a ResNet-50 with an FCN head, and a
ViT-B/16 with a transformer decoder of four layers.

The rows `head alone` train on features that are already in device memory, and the rows `plain` on a few batches in
page-locked memory. All other rows get samples from a torch.utils.data.DataLoader with worker processes. The first epoch,
in which a cache is filled, and later epochs are reported separately. Each row runs in its own process. A figure {"value",
"low", "high", "unit", "n"} is the median of n epochs with a 95 % interval (Student's t). The first batches of an epoch
do not count, except in `with_begin`, which is the rate of whole epochs.
"""

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import time

import torch
from figures import figure
from torch import nn

import slipstream as ss

UNCOUNTED, EPOCHS = 20, 6
ROW_LIMIT_S = 240
SIZES = {"resnet": [16, 64], "vit": [8, 32, 128]}
# name: (how the step runs, cache arguments, compiled with CUDA graphs); cache: None, "plain" and "resident": without
ROWS = {
    "resnet": {
        "head alone": ("eager", "resident"),
        "plain": ("eager", "plain"),
        "pipeline": ("eager", None),
        "cache in device memory": ("eager", {}),
        "cache in pinned memory": ("eager", {"device_memory": 0}),
        "cache on disk": ("eager", {"device_memory": 0, "pinned_memory": 0, "folder": True}),
    },
    "vit": {
        "plain reduce-overhead": ("reduce-overhead", "plain"),
        "head alone, capture": ("capture", "resident"),
        "pipeline graphs capture": ("capture", None),
        "cache in device memory, capture": ("capture", {}),
        "cache in pinned memory, capture": ("capture", {"device_memory": 0}),
        "cache on disk, capture": ("capture", {"device_memory": 0, "pinned_memory": 0, "folder": True}),
    },
}


class ResNetTrunk(nn.Module):
    """The trunk of torchvision's fcn_resnet50: 2048 x 28 x 28 features of an image of 224 x 224."""

    def __init__(self):
        super().__init__()
        import torchvision

        net = torchvision.models.resnet50(replace_stride_with_dilation=[False, True, True])
        self.trunk = nn.Sequential(*list(net.children())[:-2])

    def forward(self, images):
        images = images.float().div_(255).contiguous(memory_format=torch.channels_last)
        return self.trunk(images)


class ViTTokens(nn.Module):
    """A ViT-B/16 up to its encoder: 197 features of 768 numbers for each image."""

    def __init__(self):
        super().__init__()
        import torchvision

        self.vit = torchvision.models.vit_b_16()

    def forward(self, images):
        x = self.vit._process_input(images.float().div_(255))
        return self.vit.encoder(torch.cat([self.vit.class_token.expand(x.shape[0], -1, -1), x], 1))


class FCNHead(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Conv2d(2048, 512, 3, padding=1, bias=False), nn.BatchNorm2d(512), nn.ReLU(),
                         nn.Conv2d(512, 21, 1), nn.Upsample(size=(224, 224), mode="bilinear"))


def make_vit_head():
    layer = nn.TransformerEncoderLayer(768, 12, 3072, batch_first=True, dropout=0.0)
    return nn.Sequential(nn.TransformerEncoder(layer, 4), nn.Linear(768, 256))


def make_data(model, samples):
    generator = torch.Generator().manual_seed(1)
    images = torch.randint(0, 256, (samples, 3, 224, 224), dtype=torch.uint8, generator=generator)
    if model == "resnet":
        return torch.utils.data.TensorDataset(images, torch.randint(0, 21, (samples, 224, 224), dtype=torch.uint8,
                                                                    generator=generator))
    return torch.utils.data.TensorDataset(images, torch.rand(samples, 197, 256, generator=generator))


def make_step(model, how):
    """Returns the training step and its modules."""
    head = (FCNHead() if model == "resnet" else make_vit_head()).cuda().train()
    if model == "resnet":
        head = head.to(memory_format=torch.channels_last)
    called = torch.compile(head, mode=how) if how == "reduce-overhead" else head
    optimizer = torch.optim.AdamW(head.parameters(), torch.tensor(1e-4, device="cuda"), fused=True)

    def train_step(features, targets):
        with torch.autocast("cuda", torch.bfloat16):
            made = called(features)
            if model == "resnet":
                loss = nn.functional.cross_entropy(made, targets.long())
            else:
                loss = nn.functional.mse_loss(made, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return ss.capture(train_step) if how == "capture" else train_step


def plain_batches(data, encode, size, count):
    """A loop without a loader: a few batches in page-locked memory are copied again and again."""
    starts = [number * size for number in range(4)]
    pinned = [[each[start : start + size].pin_memory() for each in data.tensors] for start in starts]
    for number in range(count):
        images, targets = pinned[number % 4]
        torch.compiler.cudagraph_mark_step_begin()
        with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
            features = encode(images.cuda(non_blocking=True))
        yield features, targets.cuda(non_blocking=True)


def resident_batches(data, encode, size):
    """Returns a few batches of features in device memory."""
    made = []
    for number in range(4):
        images, targets = (each[number * size : (number + 1) * size].cuda() for each in data.tensors)
        with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
            made.append((encode(images).clone(), targets))
    return made


def run(model, name, size):
    how, cache = ROWS[model][name]
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(0)
    count = 80 if size > 32 else 200
    data = make_data(model, count * size)
    encode = (ResNetTrunk() if model == "resnet" else ViTTokens()).cuda().eval().requires_grad_(False)
    if model == "resnet":
        encode = encode.to(memory_format=torch.channels_last)
    if how == "reduce-overhead":
        encode = torch.compile(encode, mode=how)
    step = make_step(model, how)
    loader = torch.utils.data.DataLoader(data, size, shuffle=True, num_workers=8, pin_memory=True,
                                         persistent_workers=True, drop_last=True)
    with contextlib.ExitStack() as ending:
        if cache == "resident":
            made = resident_batches(data, encode, size)
            measure(model, name, size, step, lambda: (made[number % 4] for number in range(count)))
            return
        if cache == "plain":
            measure(model, name, size, step, lambda: plain_batches(data, encode, size, count))
            return
        if cache is not None:
            if cache.get("folder"):
                folder = tempfile.mkdtemp()
                ending.callback(shutil.rmtree, folder, ignore_errors=True)
                cache = cache | {"folder": folder}
            cache = ss.FeatureCache(**cache)
        stage = ss.Stage("encode", encode, autocast=torch.bfloat16, cache=cache)
        pipe = ss.Pipeline(loader, [stage], "cuda", graphs=how == "capture")
        measure(model, name, size, step, lambda: pipe, cache)


def measure(model, name, size, step, begin_epoch, cache=None):
    rates, whole, loss = [], [], None
    for _ in range(EPOCHS):
        torch.cuda.synchronize()
        begin = counted = time.perf_counter()
        count = 0
        for features, targets in begin_epoch():
            loss = step(features, targets)
            count += 1
            if count == UNCOUNTED:
                torch.cuda.synchronize()
                counted = time.perf_counter()
        torch.cuda.synchronize()
        end = time.perf_counter()
        rates.append((count - UNCOUNTED) / (end - counted))
        whole.append(count / (end - begin))
    result = {"model": model, "row": name, "batch_size": size, "first_epoch": figure(rates[:1], "steps/s"),
              "steps_per_s": figure(rates[1:], "steps/s"), "with_begin": figure(whole[1:], "steps/s"),
              "loss": float(loss), "reserved_mib": torch.cuda.memory_reserved() >> 20}
    print(json.dumps(result | ({} if cache is None else {"cache": cache.report()})))


def run_in_process(model, name, size):
    command = [sys.executable, __file__, "--model", model, "--row", name, "--batch-size", str(size)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ROW_LIMIT_S)
    except subprocess.TimeoutExpired:
        return {"model": model, "row": name, "batch_size": size, "error": f"did not end within {ROW_LIMIT_S} s"}
    if done.returncode != 0:
        return {"model": model, "row": name, "batch_size": size, "error": done.stderr[-2000:]}
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet,vit", help="resnet, vit, or both, separated by a comma")
    parser.add_argument("--batch-size", help="numbers, separated by commas")
    parser.add_argument("--rows", help="names, separated by semicolons")
    parser.add_argument("--budget-seconds", type=float, default=1e9, help="rows that would begin later are left out")
    parser.add_argument("--json", help="write the results to this file")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        run(options.model, options.row, int(options.batch_size))
        return
    begin, results = time.monotonic(), []
    for model in options.model.split(","):
        sizes = [int(each) for each in options.batch_size.split(",")] if options.batch_size else SIZES[model]
        for size in sizes:
            for name in options.rows.split(";") if options.rows else ROWS[model]:
                if name not in ROWS[model]:
                    continue
                if time.monotonic() - begin > options.budget_seconds:
                    results.append({"model": model, "row": name, "batch_size": size, "error": "left out: no time left"})
                    continue
                results.append(run_in_process(model, name, size))
                print(json.dumps(results[-1]), flush=True)
    if options.json:
        with open(options.json, "w") as file:
            machine = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
            json.dump({**machine, "rows": results}, file, indent=1)


if __name__ == "__main__":
    main()
