#!/usr/bin/env python3
"""Compares the bits of trainings with and without CUDA graphs: losses, weights, buffers, and the random generator.

Each case trains the same steps from the same seed in a plain loop, in slipstream.Pipeline, and in slipstream.Pipeline
with graphs=True and slipstream.capture, with deterministic algorithms. Exits with 1 if any bits differ.
"""

import argparse
import os
import sys
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
import torchvision
from cuda_graphs import Tokens
from torch import nn

import slipstream as ss

CHANNELS = [16, 32, 64, 128, 256, 512, 1024, 2048, 4096]


class Case:
    """A frozen encoder, a trained module, and four batches that repeat."""

    def __init__(self, encoder, module, batches):
        self.encoder = encoder.cuda().eval().requires_grad_(False)
        self.module = module.cuda()
        self.batches = [tuple(each.pin_memory() for each in batch) for batch in batches]
        lr = torch.tensor(1e-4, device="cuda")
        self.optimizer = torch.optim.AdamW(self.module.parameters(), lr, fused=True, capturable=True)
        self.optimizer._warned_capturable_if_run_uncaptured = True

    def encode(self, x):
        with torch.autocast("cuda", torch.bfloat16):
            return self.encoder(x)

    def step(self, x, y):
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.mse_loss(self.module(x).float(), y)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss


def segmentation():
    down, up = [nn.Conv2d(3, 16, 1)], []
    for a, b in zip(CHANNELS, CHANNELS[1:], strict=False):
        down += [nn.ReLU(), nn.Conv2d(a, b, 2, 2)]
        up = [nn.ConvTranspose2d(b, a, 2, 2), nn.ReLU(), *up]
    shape = 8, 3, 256, 256
    batches = [(torch.rand(shape), torch.rand(8, 10, 256, 256)) for _ in range(4)]
    return Case(nn.Sequential(*down), nn.Sequential(*up, nn.Conv2d(16, 10, 3, padding=1)), batches)


def vit_with_dropout():
    layer = nn.TransformerEncoderLayer(768, 12, 3072, batch_first=True, dropout=0.1)
    decoder = nn.Sequential(nn.TransformerEncoder(layer, 4), nn.Linear(768, 256))
    batches = [(torch.rand(8, 3, 224, 224), torch.rand(8, 197, 256)) for _ in range(4)]
    return Case(Tokens(), decoder, batches)


def resnet50_with_batch_norm():
    batches = [(torch.rand(16, 3, 128, 128), torch.rand(16, 10)) for _ in range(4)]
    return Case(nn.Hardtanh(0, 1), torchvision.models.resnet50(num_classes=10), batches)


CASES = {"segmentation": segmentation, "vit_with_dropout": vit_with_dropout, "resnet50": resnet50_with_batch_norm}


def train(make, kind, steps):
    torch.manual_seed(0)
    case = make()
    host = [case.batches[i % 4] for i in range(steps)]
    if kind == "plain":
        batches = ((torch.no_grad()(case.encode)(x.cuda()), y.cuda()) for x, y in host)
    else:
        batches = ss.Pipeline(host, [("encode", case.encode)], "cuda", graphs=kind == "graphs")
    step = ss.capture(case.step) if kind == "graphs" else case.step
    torch.manual_seed(1)
    losses = []
    for x, y in batches:
        losses.append(step(x, y).detach())
    if kind == "graphs":
        assert step.replays > steps // 2 and batches.stages[0].function.replays > steps // 2, (step, batches)
    found = [*losses, *case.module.state_dict().values(), torch.cuda.get_rng_state()]
    return [each.cpu() for each in found]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--cases", default=",".join(CASES), help="names, separated by commas")
    options = parser.parse_args()
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    failed = False
    for name in options.cases.split(","):
        expected = train(CASES[name], "plain", options.steps)
        for kind in ("pipelined", "graphs"):
            begin = time.monotonic()
            found = train(CASES[name], kind, options.steps)
            differ = [i for i, (a, b) in enumerate(zip(expected, found, strict=True)) if not torch.equal(a, b)]
            failed = failed or bool(differ)
            verdict = f"{len(differ)} of {len(found)} values differ, first {differ[0]}" if differ else "equal bits"
            print(f"{name} {kind}: {verdict}, {options.steps} steps in {time.monotonic() - begin:.1f} s", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
