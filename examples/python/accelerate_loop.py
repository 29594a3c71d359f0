#!/usr/bin/env python3
"""Trains a classifier on a folder with one subfolder per class. Uses Hugging Face Accelerate, in one process or more:

    python accelerate_loop.py photos
    accelerate launch --num_processes 2 accelerate_loop.py photos --checkpoints runs

With --checkpoints it resumes from the last checkpoint in the folder, with any number of processes.
"""

import argparse
from datetime import timedelta
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import InitProcessGroupKwargs
from torch import nn

import slipstream as ss

MEAN, STD = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])


def make_model(classes):
    torch.manual_seed(1)
    body = [nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU()]
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, classes))


def save(folder, step, accelerator):
    """Writes to another folder first, so that a checkpoint is either complete or missing."""
    part = folder / "part"
    accelerator.save_state(part)
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        part.rename(folder / f"step-{step:08}")


def train(options, accelerator):
    crop = [ss.transforms.RandomResizedCrop(options.size), ss.transforms.RandomHorizontalFlip()]
    data = ss.ImageFolder(options.data, ss.transforms.Compose(crop))
    model = make_model(len(data.classes))
    # The loader and a pipeline must not go through prepare(): the loader already gives this process's share, on its
    # device. A frozen encoder that is a stage must not either: prepare() would wrap it for training.
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9))
    loader = ss.DataLoader(data, options.batch_size // accelerator.num_processes, shuffle=True, drop_last=True,
                           num_workers=options.num_workers, seed=options.seed, device=accelerator.device)
    accelerator.register_for_checkpointing(loader)
    saved = sorted(options.checkpoints.glob("step-*")) if options.checkpoints else []
    if saved:
        accelerator.load_state(saved[-1])
    mean, std = (each.to(accelerator.device).view(1, 3, 1, 1) for each in (MEAN, STD))
    pipe = ss.Pipeline(loader, [("normalize", lambda images: (images / 255 - mean) / std)])
    step, loss = loader.state_dict()["position"], None
    while step < options.steps:
        for images, labels in pipe:
            loss = nn.functional.cross_entropy(model(images), labels)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            if options.checkpoints and step % options.save_every == 0:
                save(options.checkpoints, step, accelerator)
            if step == options.steps:
                break
    if loss is not None:
        accelerator.print(f"step {step}: loss {loss.item():.7f} of this process's samples", flush=True)


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
    processes = InitProcessGroupKwargs(timeout=timedelta(seconds=options.timeout))
    accelerator = Accelerator(cpu=not torch.cuda.is_available(), kwargs_handlers=[processes])
    train(options, accelerator)
    accelerator.end_training()


if __name__ == "__main__":
    main()
