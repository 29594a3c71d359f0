#!/usr/bin/env python3
"""Compares the gain of CUDA graphs that slipstream.doctor predicts with the rate of the loop after its printed code.

The loops train with bf16 autocast on uint8 images from worker processes: a decoder of four transformer layers on the
features of a frozen ViT-B/16 (plain, or with the ViT as a stage of slipstream.Pipeline), and a ResNet-50. Each row runs
in its own process. "error" is the difference of the measured rate from the predicted one. If the doctor proposes no
change, the measured rate is that of the loop with slipstream.capture, which must then gain less than 5 %.
"""

import argparse
import json
import subprocess
import sys
import time
import warnings

import torch
from cuda_graphs import Tokens, make_decoder
from figures import figure
from torch import nn

import slipstream as ss

BEFORE, REPEATS, REPEAT_S = 40, 6, 0.7
ROW_LIMIT_S = 150
ROWS = ["vit 8", "vit 32", "resnet50 32", "resnet50 128", "vit stage 8", "vit stage 32", "vit item 8"]


class Images(torch.utils.data.Dataset):
    def __init__(self):
        self.images = torch.randint(0, 256, (256, 3, 224, 224), dtype=torch.uint8)

    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        return self.images[index % 256], index % 256


def make_loader(size, workers):
    return torch.utils.data.DataLoader(Images(), size, num_workers=workers, pin_memory=True, drop_last=True,
                                       persistent_workers=False, prefetch_factor=4)


def make_vit(is_stage, has_item):
    encoder, decoder = Tokens().cuda().eval().requires_grad_(False), make_decoder()
    optimizer = torch.optim.AdamW(decoder.parameters(), 1e-4, fused=True)

    def encode(images):
        with torch.autocast("cuda", torch.bfloat16):
            return encoder(images.float().div_(255))

    def step(batch):
        images, labels = batch
        if is_stage:
            features = images
        else:
            with torch.no_grad():
                features = encode(images)
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.cross_entropy(decoder(features).mean(1), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item() if has_item else loss.detach()

    return encode, step


def make_resnet():
    import torchvision

    model = torchvision.models.resnet50(num_classes=256).cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)

    def step(batch):
        images, labels = batch
        images = images.to(memory_format=torch.channels_last).float().div_(255)
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


def rate_of(loader, step):
    """Returns steps/s of a loop. Batches that the loader leaves on the host are copied as by the doctor."""
    rates, begin, steps = [], 0.0, 0
    for number, batch in enumerate(loader):
        step([each.cuda(non_blocking=True) for each in batch])
        steps += 1
        if number == BEFORE or (number > BEFORE and time.perf_counter() - begin > REPEAT_S):
            torch.cuda.synchronize()
            if number > BEFORE:
                rates.append(steps / (time.perf_counter() - begin))
            begin, steps = time.perf_counter(), 0
            if len(rates) == REPEATS:
                break
    return figure(rates, "steps/s")


def run(name, budget, workers):
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(0)
    *words, size = name.split()
    if words[0] == "vit":
        encode, step = make_vit("stage" in words, "item" in words)
    else:
        step = make_resnet()
    loader = make_loader(int(size), workers)
    if "stage" in words:
        loader = ss.Pipeline(loader, [("encode", encode)], "cuda")
    before = rate_of(loader, step)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = ss.doctor(loader, step, budget=budget)
    result = {"row": name, "verdict": report.verdict, "reason": report.reason, "before": before,
              "examined": report.rate.value, "advice": [str(each) for each in report.advice]}
    best = next((each for each in report.advice if each.code), None)
    code = "loader = ss.Pipeline(loader, device='cuda')\nstep = ss.capture(step)" if best is None else best.code
    variables = {"loader": loader, "step": step, "ss": ss}
    if "item" not in words and "stage" not in words or best is not None:
        exec(code, variables)
    after = rate_of(variables["loader"], variables["step"])
    predicted = report.rate.value if best is None else best.predicted.value
    result |= {"code": code, "predicted": predicted, "tried": best and best.measured.value, "measured": after,
               "error": predicted / after["value"] - 1, "step": repr(variables["step"])}
    print(json.dumps(result | {"report": report.text()}))


def run_in_process(name, options):
    command = [sys.executable, __file__, "--row", name, "--budget", str(options.budget), "--workers", str(options.workers)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ROW_LIMIT_S)
    except subprocess.TimeoutExpired:
        return {"row": name, "error": f"did not end within {ROW_LIMIT_S} s"}
    if done.returncode != 0:
        return {"row": name, "error": done.stderr[-3000:]}
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=";".join(ROWS), help="names, separated by semicolons")
    parser.add_argument("--budget", type=float, default=25, help="budget of slipstream.doctor, in seconds")
    parser.add_argument("--workers", type=int, default=8, help="number of worker processes")
    parser.add_argument("--budget-seconds", type=float, default=1e9, help="rows that would begin later are left out")
    parser.add_argument("--json", help="write the results to this file")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        run(options.row, options.budget, options.workers)
        return
    begin, results = time.monotonic(), []
    for name in options.rows.split(";"):
        if time.monotonic() - begin > options.budget_seconds:
            results.append({"row": name, "error": "left out: the budget is used up"})
            continue
        results.append(run_in_process(name, options))
        print(json.dumps({key: value for key, value in results[-1].items() if key != "report"}), flush=True)
    if options.json:
        with open(options.json, "w") as file:
            machine = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
            json.dump({**machine, "rows": results}, file, indent=1)


if __name__ == "__main__":
    main()
