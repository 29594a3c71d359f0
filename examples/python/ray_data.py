#!/usr/bin/env python3
"""Trains a head on a frozen encoder, on images that Ray Data reads from a folder with one subfolder per class:

    python ray_data.py photos

Ray's workers read and resize; slipstream.Pipeline copies their batches and runs the encoder during the training of
earlier batches.
"""

import argparse
from pathlib import Path

import ray
import torch
from torch import nn

import slipstream as ss


def make_batches(folder, classes, batch_size, size):
    """Returns an object that can be iterated repeatedly; its batches are mappings of tensors in host memory."""
    ray.data.DataContext.get_current().execution_options.preserve_order = True  # gives the same batches in every run
    images = ray.data.read_images(folder, size=(size, size), mode="RGB", include_paths=True)
    labeled = images.map(lambda row: {"image": row["image"], "label": classes.index(Path(row["path"]).parent.name)})
    return labeled.iter_torch_batches(batch_size=batch_size, device="cpu", drop_last=True,
                                      pin_memory=torch.cuda.is_available(),
                                      local_shuffle_buffer_size=4 * batch_size, local_shuffle_seed=0)


def make_encoder(device):
    torch.manual_seed(1)
    body = [nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU()]
    encoder = nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten()).to(device)
    return encoder.eval().requires_grad_(False)


def train(batches, classes, epochs, serial=False):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    encoder, head = make_encoder(device), nn.Linear(32, len(classes)).to(device)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.05, momentum=0.9)

    def encode(images):
        return encoder(images.permute(0, 3, 1, 2) / 255)  # Ray's images are batch x height x width x 3

    pipe = ss.Pipeline(batches, [ss.Stage("encode", encode, "image", "features")], device, serial=serial)
    for epoch in range(epochs):
        for batch in pipe:
            loss = nn.functional.cross_entropy(head(batch["features"]), batch["label"])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        print(f"epoch {epoch}: loss {loss.item():.7f}", flush=True)
    return head


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("data")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--num-cpus", type=int, help="of Ray; by default all of the machine")
    options = parser.parse_args()
    classes = sorted(each.name for each in Path(options.data).iterdir() if each.is_dir())
    ray.init(num_cpus=options.num_cpus, include_dashboard=False)
    train(make_batches(options.data, classes, options.batch_size, options.size), classes, options.epochs)
    ray.shutdown()


if __name__ == "__main__":
    main()
