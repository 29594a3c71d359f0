#!/usr/bin/env python3
"""Trains a classifier on a folder with one subfolder per class, on one GPU, on a CPU, or on several under torchrun:

    python train.py photos
    torchrun --nproc-per-node 2 train.py photos --checkpoint run.pt

The samples of each step are the same for any number of processes, also after resuming with another number.
"""

import argparse
import os
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

import slipstream as ss

MEAN, STD = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])


def make_loader(options, device, ranks):
    crop = [ss.transforms.RandomResizedCrop(options.size), ss.transforms.RandomHorizontalFlip()]
    data = ss.ImageFolder(options.data, ss.transforms.Compose(crop))
    return ss.DataLoader(data, options.batch_size // ranks, shuffle=True, drop_last=True, device=device,
                         num_workers=options.num_workers, seed=options.seed)


def make_model(classes, device):
    torch.manual_seed(1)
    body = [nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU()]
    model = nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, classes)).to(device)
    return nn.parallel.DistributedDataParallel(model) if dist.is_initialized() else model


def plain(model):
    """Returns the model without its wrapper, so that names in its state do not depend on the number of processes."""
    return model.module if isinstance(model, nn.parallel.DistributedDataParallel) else model


def save(path, step, loader, model, optimizer):
    part = path.with_suffix(".part")
    torch.save({"step": step, "loader": loader.state_dict(), "model": plain(model).state_dict(),
                "optimizer": optimizer.state_dict()}, part)
    os.replace(part, path)  # a checkpoint is either complete or missing


def load(path, loader, model, optimizer):
    if not path or not path.exists():
        return 0
    state = torch.load(path, map_location="cpu")
    loader.load_state_dict(state["loader"])
    plain(model).load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"]


def train(options, device, ranks):
    loader = make_loader(options, device, ranks)
    model = make_model(len(loader.dataset.classes), device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    step = load(options.checkpoint, loader, model, optimizer)
    mean, std = (each.to(device).view(1, 3, 1, 1) for each in (MEAN, STD))
    pipe = ss.Pipeline(loader, [("normalize", lambda images: (images / 255 - mean) / std)])
    is_first = not dist.is_initialized() or dist.get_rank() == 0
    if step >= options.steps:
        print("nothing is left to do")
        return
    while step < options.steps:
        for images, labels in pipe:
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            step += 1
            if is_first and options.checkpoint and step % options.save_every == 0:
                save(options.checkpoint, step, loader, model, optimizer)
            if step == options.steps:
                break
    if is_first:
        print(f"step {step}: loss {loss.item():.7f} of this process's samples", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("data")
    parser.add_argument("--batch-size", type=int, default=32, help="of all processes together")
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--num-workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--save-every", type=int, default=10)
    parser.add_argument("--timeout", type=float, default=600, help="seconds after which a process is taken for dead")
    options = parser.parse_args()
    device, ranks = "cpu", 1
    if torch.cuda.is_available():
        device = f"cuda:{os.environ.get('LOCAL_RANK', 0)}"
        torch.cuda.set_device(device)
    if "RANK" in os.environ:
        dist.init_process_group("nccl" if device != "cpu" else "gloo", timeout=timedelta(seconds=options.timeout))
        ranks = dist.get_world_size()
    train(options, device, ranks)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
