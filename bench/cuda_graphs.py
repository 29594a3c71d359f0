#!/usr/bin/env python3
"""Compares CUDA graphs in a training loop: torch.compile(mode="reduce-overhead"), and slipstream.capture with and
without slipstream.Pipeline.

The loop trains a transformer decoder of four layers on the features of a frozen ViT-B/16, with bf16 autocast, a fused
AdamW, and uint8 batches in page-locked memory. Each row runs in its own process, because the graphs of torch.compile
are recorded again when loops alternate. A figure {"value", "low", "high", "unit", "n"} is the median of n repeats with
a 95 % interval (Student's t). `loss` is the loss of the last of the same number of steps in each row. next_host_us and
step_host_us are the host's time for the next batch and for the step. They include waits if the host is far ahead.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time

import torch
from figures import figure
from torch import nn

import slipstream as ss

STEPS_BEFORE, REPEATS = 60, 6
ROW_LIMIT_S = 120
GRAPHS = "reduce-overhead"
# name: (modes of torch.compile for encoder and decoder, whether the step is captured, arguments of slipstream.Pipeline)
ROWS = {
    "plain": (None, None, False, None),
    "plain reduce-overhead": (GRAPHS, GRAPHS, False, None),
    "pipeline graphs compiled capture": ("default", "default", True, {"graphs": True}),
    "pipeline graphs capture": (None, None, True, {"graphs": True}),
    "serial graphs compiled capture": ("default", "default", True, {"graphs": True, "plan": "serial"}),
    "capture": (None, None, True, None),
    "pipeline": (None, None, False, {}),
    "pipeline capture": (None, None, True, {}),
    "plain compiled": ("default", "default", False, None),
    "compiled capture": ("default", "default", True, None),
    "pipeline reduce-overhead": (GRAPHS, GRAPHS, False, {}),
    "plain compiled, reduce-overhead step": ("default", GRAPHS, False, None),
    "pipeline compiled, reduce-overhead step": ("default", GRAPHS, False, {}),
    "serial compiled, reduce-overhead step": ("default", GRAPHS, False, {"plan": "serial"}),
    "pipeline graphs compiled, reduce-overhead step": ("default", GRAPHS, False, {"graphs": True}),
}


class Tokens(nn.Module):
    """A ViT-B/16 up to its encoder: 197 features of 768 numbers for each image."""

    def __init__(self):
        super().__init__()
        import torchvision

        self.vit = torchvision.models.vit_b_16()

    def forward(self, x):
        x = self.vit._process_input(x)
        return self.vit.encoder(torch.cat([self.vit.class_token.expand(x.shape[0], -1, -1), x], 1))


def make_decoder():
    layer = nn.TransformerEncoderLayer(768, 12, 3072, batch_first=True, dropout=0.0)
    return nn.Sequential(nn.TransformerEncoder(layer, 4), nn.Linear(768, 256)).cuda()


def host_batches(size):
    made = [(torch.randint(0, 256, (size, 3, 224, 224), dtype=torch.uint8).pin_memory(),
             torch.rand(size, 197, 256).pin_memory()) for _ in range(4)]
    while True:
        yield from made


def plain_batches(encode, size):
    for images, targets in host_batches(size):
        torch.compiler.cudagraph_mark_step_begin()
        with torch.no_grad():
            features = encode(images.cuda(non_blocking=True))
        yield features, targets.cuda(non_blocking=True)


def run(name, batch_size):
    encoder_mode, decoder_mode, is_captured, options = ROWS[name]
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(0)
    encoder, decoder = Tokens().cuda().eval().requires_grad_(False), make_decoder()
    model = torch.compile(decoder, mode=decoder_mode) if decoder_mode else decoder
    if encoder_mode:
        encoder = torch.compile(encoder, mode=encoder_mode)
    optimizer = torch.optim.AdamW(decoder.parameters(), torch.tensor(1e-4, device="cuda"), fused=True)

    def encode(images):
        with torch.autocast("cuda", torch.bfloat16):
            return encoder(images.float().div_(255))

    def train_step(features, targets):
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.mse_loss(model(features), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    step = ss.capture(train_step) if is_captured else train_step
    if options is not None:
        batches = ss.Pipeline(host_batches(batch_size), [("encode", encode)], "cuda", **options)
    else:
        batches = plain_batches(encode, batch_size)
    measure(name, batch_size, step, iter(batches))


def measure(name, batch_size, step, batches):
    count, rates, next_us, host_us = 30 if batch_size > 32 else 100, [], [], []
    loss = None
    for n in range(STEPS_BEFORE + count * REPEATS):
        if n >= STEPS_BEFORE and (n - STEPS_BEFORE) % count == 0:
            torch.cuda.synchronize()
            begin = time.perf_counter()
        requested = time.perf_counter()
        batch = next(batches)
        called = time.perf_counter()
        next_us.append((called - requested) * 1e6)
        loss = step(*batch)
        host_us.append((time.perf_counter() - called) * 1e6)
        if n >= STEPS_BEFORE and (n - STEPS_BEFORE) % count == count - 1:
            torch.cuda.synchronize()
            rates.append(count / (time.perf_counter() - begin))
    print(json.dumps({"row": name, "batch_size": batch_size, "steps_per_s": figure(rates, "steps/s"),
                      "next_host_us": statistics.median(next_us[STEPS_BEFORE:]),
                      "step_host_us": statistics.median(host_us[STEPS_BEFORE:]), "loss": float(loss),
                      "reserved_mib": torch.cuda.memory_reserved() >> 20, "step": repr(step)}))


def run_in_process(name, size):
    command = [sys.executable, __file__, "--row", name, "--batch-size", str(size)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ROW_LIMIT_S)
    except subprocess.TimeoutExpired:
        return {"row": name, "batch_size": size, "error": f"did not end within {ROW_LIMIT_S} s"}
    if done.returncode != 0:
        return {"row": name, "batch_size": size, "error": done.stderr[-2000:]}
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch-size", default="8,32,128", help="numbers, separated by commas")
    parser.add_argument("--rows", default=";".join(ROWS), help="names, separated by semicolons")
    parser.add_argument("--budget-seconds", type=float, default=1e9, help="rows that would begin later are left out")
    parser.add_argument("--json", help="write the results to this file")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sizes = [int(each) for each in options.batch_size.split(",")]
    if options.row:
        run(options.row, sizes[0])
        return
    begin, results = time.monotonic(), []
    for size in sizes:
        for name in options.rows.split(";"):
            if time.monotonic() - begin > options.budget_seconds:
                results.append({"row": name, "batch_size": size, "error": "left out: the budget is used up"})
                continue
            result = run_in_process(name, size)
            results.append(result)
            print(json.dumps(result), flush=True)
    if options.json:
        with open(options.json, "w") as file:
            machine = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
            json.dump({**machine, "rows": results}, file, indent=1)


if __name__ == "__main__":
    main()
