#!/usr/bin/env python3
"""Runs slipstream.verify on loops of the size of `segmentation` (W1).

The loops: the published pipelined loop; a published prefetcher (timm's, if it is installed) before a training step that
takes longer than the host's work; and correct loops. Each has a separate process, because CUDA is unusable after a
device-side assertion. In that case another process runs the reported seed again to find the operation.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import torch
from pytorch_loops import Model, article_pipelined, article_serial, as_float, tuned_serial

import slipstream as ss

STEPS = 10


def batches(options, last_dimension):
    generator = torch.Generator().manual_seed(2)
    side, count = options.image_size, options.batch_size
    shape = (count, side, side, 3) if last_dimension else (count, 3, side, side)
    return [(torch.randint(256, shape, dtype=torch.uint8, generator=generator).pin_memory(),
             torch.randint(10, (count, side, side), generator=generator).pin_memory()) for _ in range(STEPS)]


def make_loop(step, is_tuned):
    def make_run(options):
        torch.manual_seed(1)
        model, data = Model(options.image_size, "cuda", is_tuned), batches(options, is_tuned)

        def run():
            for _ in step(model, data, "cuda"):
                pass
            return model.encoder, model.decoder

        return run

    return make_run


def pipeline(model, data, device):
    for features, labels in ss.Pipeline(data, [("encode", lambda images: model.encoder(as_float(images)))], device):
        model.train_decoder(features, labels)
        yield


def prefetched(model, data, device):
    from timm.data.loader import PrefetchLoader

    for images, labels in PrefetchLoader(data, mean=(0, 0, 0), std=(1, 1, 1), device=torch.device(device)):
        model.train_decoder(model.encode(images), labels)
        yield


LOOPS = {
    "article_pipelined": make_loop(article_pipelined, False),
    "timm_prefetcher": make_loop(prefetched, False),
    "article_serial": make_loop(article_serial, False),
    "tuned_serial": make_loop(tuned_serial, True),
    "slipstream_pipeline": make_loop(pipeline, True),
}


def verify(options):
    # the loss alone is not deterministic; weights do not depend on it
    torch.use_deterministic_algorithms(True, warn_only=True)
    start = time.monotonic()
    report = ss.verify(lambda: LOOPS[options.loop](options), schedules=options.schedules, seed=options.seed)
    report.show()
    report.to_json(options.json)
    print(f"{options.loop}: {report.verdict} after {time.monotonic() - start:.0f} s", flush=True)


def make_report(loop, options, seed, schedules):
    part = Path(options.json + ".part")
    command = [sys.executable, __file__, "--loop", loop, "--json", part, "--seed", seed, "--schedules", schedules,
               "--batch-size", options.batch_size, "--image-size", options.image_size]
    done = subprocess.run([*map(str, command)], env=os.environ | {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}, check=False)
    report = json.loads(part.read_text()) if part.exists() else None
    part.unlink(missing_ok=True)
    return {"exit_code": done.returncode, "report": report}


def verify_all(options):
    rows = []
    for loop in options.loops:
        row = {"loop": loop} | make_report(loop, options, options.seed, options.schedules)
        rows.append(row)
        found = row["report"] or {}
        if found.get("seed") is not None and found["operation"] is None:
            row["again"] = make_report(loop, options, found["seed"], 1)
        Path(options.json).write_text(json.dumps({
            "gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "slipstream": ss.__version__,
            "settings": {key: value for key, value in vars(options).items() if key not in ("json", "loop")},
            "rows": rows}, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("--loops", type=lambda text: text.split(","), default=list(LOOPS), help=",".join(LOOPS))
    add("--loop", choices=LOOPS, help="runs only this one, in this process")
    add("--schedules", type=int, default=200)
    add("--seed", type=int, default=0)
    add("--batch-size", type=int, default=32)
    add("--image-size", type=int, default=256)
    add("--json", default="verify_loops.json")
    options = parser.parse_args()
    verify(options) if options.loop else verify_all(options)


if __name__ == "__main__":
    main()
