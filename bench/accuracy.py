#!/usr/bin/env python3
"""Compares the accuracy that the same training reaches with PyTorch and torchvision and with `slipstream train`.

Each seed trains once with each: on the scenes of `make-data classification`, with the same model, transforms, optimizer
and schedule.

    accuracy.py OUT.json [--seeds 3] [--epochs 12] ...
"""

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import torch
import torchvision
from torch import nn
from torch.optim import lr_scheduler
from torchvision.transforms import v2

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = ROOT / "build" / "slipstream"
WARMUP_EPOCHS, SMOOTHING, DECAY = 1, 0.1, 5e-4


def images_in(folder, transform, options, is_training):
    def load(path):
        return torchvision.io.decode_jpeg(torchvision.io.read_file(path), torchvision.io.ImageReadMode.RGB)

    files = torchvision.datasets.ImageFolder(folder, transform, loader=load)
    return torch.utils.data.DataLoader(
        files, options.batch_size, shuffle=is_training, drop_last=is_training, num_workers=options.num_workers,
        pin_memory=options.device == "cuda", persistent_workers=True)


def make_optimizer(model, options):
    plain = [each for each in model.parameters() if each.dim() == 1]
    decaying = [each for each in model.parameters() if each.dim() > 1]
    return torch.optim.SGD([{"params": plain, "weight_decay": 0}, {"params": decaying, "weight_decay": DECAY}],
                           lr=options.lr, momentum=0.9)


def by_pytorch(options, seed, train, val):
    torch.manual_seed(seed)
    train = images_in(train, v2.Compose([v2.RandomResizedCrop(options.size, antialias=True),
                                         v2.RandomHorizontalFlip()]), options, True)
    val = images_in(val, v2.Compose([v2.Resize(round(options.size * 8 / 7), antialias=True),
                                     v2.CenterCrop(options.size)]), options, False)
    model = torchvision.models.get_model(options.model, num_classes=options.classes).to(
        options.device, memory_format=torch.channels_last)
    optimizer = make_optimizer(model, options)
    warmup, steps = WARMUP_EPOCHS * len(train), options.epochs * len(train)
    schedule = lr_scheduler.SequentialLR(optimizer, [
        lr_scheduler.LinearLR(optimizer, 0.01, 1, warmup),
        lr_scheduler.CosineAnnealingLR(optimizer, steps - warmup)], [warmup])

    def compute_outputs(images):
        images = images.to(options.device, non_blocking=True).to(memory_format=torch.channels_last)
        return model(images.float() / 255)

    precision = torch.autocast(options.device, torch.bfloat16, enabled=options.device == "cuda")
    for _ in range(options.epochs):
        for images, labels in train:
            with precision:
                loss = nn.functional.cross_entropy(compute_outputs(images), labels.to(options.device),
                                                   label_smoothing=SMOOTHING)
            loss.backward()
            optimizer.step()
            schedule.step()
            optimizer.zero_grad(set_to_none=True)
    model.eval()
    right = total = 0
    with torch.no_grad(), precision:
        for images, labels in val:
            right += (compute_outputs(images).argmax(1).cpu() == labels).sum().item()
            total += len(labels)
    return right / total


def by_slipstream(options, seed, train, val):
    chain = {"version": 1, "transforms": [{"op": "random_resized_crop", "size": options.size},
                                          {"op": "random_horizontal_flip"}]}
    with tempfile.TemporaryDirectory() as folder:
        transforms, report = Path(folder, "transforms.json"), Path(folder, "report.json")
        transforms.write_text(json.dumps(chain))
        command = [PROGRAM, "train", "classification", "--model", options.model, "--data", train, "--val", val,
                   "--transforms", transforms, "--batch-size", options.batch_size, "--epochs", options.epochs,
                   "--num-workers", options.num_workers, "--device", options.device, "--seed", seed,
                   "--precision", "bf16" if options.device == "cuda" else "fp32", "--plan", "pipelined",
                   "--optimizer", "sgd", "--momentum", 0.9, "--lr", options.lr, "--weight-decay", DECAY,
                   "--no-weight-decay-on", "norm,bias", "--schedule", "cosine", "--warmup-epochs", WARMUP_EPOCHS,
                   "--label-smoothing", SMOOTHING, "--json", report]
        subprocess.run([*map(str, command)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return json.loads(report.read_text())["validation"][-1]["scores"]["top1"]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("out", type=Path)
    add("--model", default="resnet18")
    add("--seeds", type=int, default=3)
    add("--epochs", type=int, default=12)
    add("--samples", type=int, default=8192)
    add("--size", type=int, default=64, help="of the crops; scenes are half as large again")
    add("--classes", type=int, default=10)
    add("--quality", type=int, default=90, help="JPEG quality of the scenes")
    add("--gray", type=float, default=0, help="share of gray scenes")
    add("--batch-size", type=int, default=128)
    add("--lr", type=float, default=0.1)
    add("--num-workers", type=int, default=14)
    add("--device", default="cuda")
    return parser.parse_args()


def main():
    options = parse_arguments()
    torch.backends.cudnn.benchmark = True
    top1 = {"pytorch": [], "slipstream": []}
    with tempfile.TemporaryDirectory() as folder:
        data = {"train": (options.samples, 1), "val": (options.samples // 4, 2)}
        for name, (samples, seed) in data.items():
            subprocess.run([str(word) for word in (
                PROGRAM, "make-data", "classification", "--out", Path(folder, name), "--samples", samples, "--size",
                options.size * 3 // 2, "--classes", options.classes, "--quality", options.quality, "--gray", options.gray,
                "--seed", seed)], check=True, stderr=subprocess.DEVNULL)
        for seed in range(1, options.seeds + 1):
            for name, train in (("pytorch", by_pytorch), ("slipstream", by_slipstream)):
                start = time.monotonic()
                top1[name].append(train(options, seed, *(Path(folder, part) for part in data)))
                print(f"{name} seed {seed}: {top1[name][-1]:.4f}, {time.monotonic() - start:.0f} s", flush=True)
    result = {"settings": {key: value for key, value in vars(options).items() if key != "out"},
              "torch": torch.__version__, "torchvision": torchvision.__version__,
              "gpu": torch.cuda.get_device_name() if options.device == "cuda" else None, "top1": top1,
              "mean": {name: statistics.mean(values) for name, values in top1.items()},
              "spread": {name: max(values) - min(values) for name, values in top1.items()}}
    options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
