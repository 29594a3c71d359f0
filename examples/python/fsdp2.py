#!/usr/bin/env python3
"""Trains a classifier on a folder with one subfolder per class. fully_shard (FSDP2) shards the weights over processes:

    torchrun --nproc-per-node 2 fsdp2.py photos --checkpoints runs

With --checkpoints it resumes from the last checkpoint in the folder, with any number of processes. Each process has a
GPU, or all run on the CPU.
"""

import argparse
import os
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

import slipstream as ss

MEAN, STD = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])


def make_model(classes, device):
    torch.manual_seed(1)
    body = [nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU()]
    model = nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, classes)).to(device)
    for layer in model:
        if isinstance(layer, nn.Conv2d):
            fully_shard(layer)
    return fully_shard(model)


def make_state(model, optimizer, loader):
    of_model, of_optimizer = get_state_dict(model, optimizer)
    return {"model": of_model, "optimizer": of_optimizer, "loader": loader.state_dict()}


def load(folder, model, optimizer, loader):
    saved = sorted(folder.glob("step-*/.metadata")) if folder else []  # the last file of a checkpoint that is written
    if saved:
        state = make_state(model, optimizer, loader)
        dcp.load(state, checkpoint_id=saved[-1].parent)
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        loader.load_state_dict(state["loader"])


def train(options, device):
    crop = [ss.transforms.RandomResizedCrop(options.size), ss.transforms.RandomHorizontalFlip()]
    data = ss.ImageFolder(options.data, ss.transforms.Compose(crop))
    loader = ss.DataLoader(data, options.batch_size // dist.get_world_size(), shuffle=True, drop_last=True,
                           num_workers=options.num_workers, seed=options.seed, device=device)
    model = make_model(len(data.classes), device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    load(options.checkpoints, model, optimizer, loader)
    mean, std = (each.to(device).view(1, 3, 1, 1) for each in (MEAN, STD))
    pipe = ss.Pipeline(loader, [("normalize", lambda images: (images / 255 - mean) / std)])
    step, loss = loader.state_dict()["position"], None
    while step < options.steps:
        for images, labels in pipe:
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            if options.checkpoints and step % options.save_every == 0:
                dcp.save(make_state(model, optimizer, loader), checkpoint_id=options.checkpoints / f"step-{step:08}")
            if step == options.steps:
                break
    if dist.get_rank() == 0 and loss is not None:
        print(f"step {step}: loss {loss.item():.7f} of this process's samples", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("data")
    parser.add_argument("--batch-size", type=int, default=32, help="of all processes together")
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--num-workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoints", type=Path, help="a folder")
    parser.add_argument("--save-every", type=int, default=10)
    parser.add_argument("--timeout", type=float, default=600, help="seconds after which a process is taken for dead")
    options = parser.parse_args()
    device = "cpu"
    if torch.cuda.is_available():
        device = f"cuda:{os.environ['LOCAL_RANK']}"
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device != "cpu" else "gloo", timeout=timedelta(seconds=options.timeout))
    train(options, device)
    dist.barrier()
    dist.destroy_process_group()
    # Gloo's threads may still hold tensors, and then abort the process when Python ends.
    os._exit(0)


if __name__ == "__main__":
    main()
