"""Measures what checkpoints cost: the step rate of one training with and without them, alternately.

    checkpoint_cost.py OUT.json [--rounds 3] [--steps 400] [--save-every 100] [-- options of train]

Prints and writes the rate of each run, and the share of the rate that is lost: with --save-every, and with one
checkpoint per minute.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

PROGRAM = pathlib.Path(__file__).resolve().parents[1] / "build" / "slipstream"
OPTIONS = ["--model", "resnet50", "--image-size", "224", "--batch-size", "64", "--precision", "bf16", "--plan",
           "pipelined", "--optimizer", "sgd", "--momentum", "0.9", "--lr", "0.01", "--ema-decay", "0.999"]


def run(arguments, folder, name, more):
    report = folder / f"{name}.json"
    command = [PROGRAM, "train", "classification", *(arguments.options or OPTIONS), "--steps", arguments.steps,
               "--json", report, *more]
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return json.loads(report.read_text(encoding="utf-8"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--save-every", type=int, default=100)
    parser.add_argument("options", nargs="*", help="options of train, after --; default: those of ResNet-50")
    arguments = parser.parse_args()
    plain, saving, environment = [], [], None
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for turn in range(arguments.rounds):
            report = run(arguments, folder, "plain", [])
            plain.append(report["steps_per_second"])
            more = ["--checkpoint", folder / f"checkpoints-{turn}", "--save-every", arguments.save_every,
                    "--keep-last", 1]
            saving.append(run(arguments, folder, "saving", more)["steps_per_second"])
            environment = report["environment"]
            size = sum(file.stat().st_size for file in next((folder / f"checkpoints-{turn}").glob("step-*")).iterdir())
            print(f"plain {plain[-1]['value']:.3f}, saving {saving[-1]['value']:.3f} steps/s", flush=True)
    rates = [statistics.median(each["value"] for each in turns) for turns in (plain, saving)]
    # Training time that one checkpoint costs, in seconds.
    cost_s = arguments.save_every * (1 / rates[1] - 1 / rates[0])
    result = {"environment": environment, "options": arguments.options or OPTIONS, "steps": arguments.steps,
              "save_every": arguments.save_every, "checkpoint_bytes": size, "plain": plain, "saving": saving,
              "lost_share": 1 - rates[1] / rates[0], "cost_of_one_s": cost_s,
              "lost_share_at_one_a_minute": cost_s / 60}
    arguments.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(f"lost {100 * result['lost_share']:.2f} %, at one a minute {100 * result['lost_share_at_one_a_minute']:.2f} %")


main()
