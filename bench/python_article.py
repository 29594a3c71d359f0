#!/usr/bin/env python3
"""Runs slipstream.doctor on a deliberately starved PyTorch pipeline, which comes from an article on bottlenecks.

Two pipelines are examined: in the first, transforms are the bottleneck; in the second, raw loading is. A sample is a
random RGB image of PIL and a label. Its transforms: conversion to a tensor, a random crop, a mask of random pixels and
their four neighbors, a change of color space, a scale. Sizes are small by default, and on a CPU a small model trains;
on a GPU a ResNet-18. PYTHONPATH must contain the package:

    PYTHONPATH=build/python python3 bench/python_article.py --json bench/results/cpu/python_article.json
"""

import argparse

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import Compose, PILToTensor, RandomCrop

import slipstream

CLASSES = 10
CROSS = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]])


class RandomImages(Dataset):
    """Raw samples, generated again at every read."""

    def __init__(self, size, transform):
        self.size, self.transform = size, transform

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        levels = np.random.randint(0, 256, (self.size, self.size, 3), dtype=np.uint8)
        return self.transform(Image.fromarray(levels)), index % CLASSES


class RandomMask(nn.Module):
    """Sets each pixel to 0 with a given probability, together with its four neighbors."""

    def __init__(self, probability=0.25):
        super().__init__()
        self.probability = probability

    def forward(self, image):
        mask = np.random.uniform(size=image.shape[1:]) < self.probability
        around = np.lib.stride_tricks.sliding_window_view(np.pad(mask, 1), (3, 3))
        grown = (around * CROSS).sum((2, 3)) > 0
        image[torch.from_numpy(grown).expand(3, -1, -1)] = 0
        return image


class ConvertColor(nn.Module):
    """Converts RGB to the YCbCr of JPEG."""

    def __init__(self):
        super().__init__()
        self.matrix = torch.tensor([[0.299, 0.587, 0.114], [-0.16874, -0.33126, 0.5], [0.5, -0.41869, -0.08131]])
        self.offset = torch.tensor([0.0, 128.0, 128.0])

    def forward(self, image):
        color = self.matrix @ image.to(torch.float32).view(3, -1)
        return color.view(image.shape) + self.offset[:, None, None]


class Scale(nn.Module):
    def forward(self, image):
        return image / 255


def small_model():
    return nn.Sequential(nn.Conv2d(3, 16, 16, 16), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(16, CLASSES))


def resnet():
    from torchvision.models import resnet18

    return resnet18(num_classes=CLASSES)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--image-size", type=int, default=1024)
    parser.add_argument("--crop-size", type=int, default=256)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--num-workers", type=int, default=2)
    parser.add_argument("--budget", type=float, default=60)
    parser.add_argument("--json")
    parser.add_argument("--html")
    options = parser.parse_args()

    transform = Compose([PILToTensor(), RandomCrop(options.crop_size), RandomMask(), ConvertColor(), Scale()])
    loader = DataLoader(RandomImages(options.image_size, transform), options.batch_size,
                        num_workers=options.num_workers, pin_memory=options.device != "cpu")
    if options.device == "cpu":
        torch.set_num_threads(1)
    model = (small_model() if options.device == "cpu" else resnet()).to(options.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def step(batch):
        images, labels = (each.to(options.device, non_blocking=True) for each in batch)
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    report = slipstream.doctor(loader, step, device=options.device, budget=options.budget, state=[model, optimizer])
    report.show()
    if options.json:
        report.to_json(options.json)
    if options.html:
        report.to_html(options.html)


if __name__ == "__main__":
    main()
