#!/usr/bin/env bash
# Writes a small data set, trains segmentation serial and pipelined on what this machine has, and
# compares the two runs. `make demo` builds first. About a minute.
set -euo pipefail
cd "$(dirname "$0")/.."

program=$PWD/build/slipstream
if nvidia-smi -L 2>/dev/null | grep -q GPU; then
  size=256 samples=512 steps=400 batch=32 optimizer=adamw device=cuda
else
  size=64 samples=256 steps=150 batch=8 optimizer=adamw device=cpu
fi

mkdir -p build/demo
cd build/demo
"$program" make-data segmentation --out data --samples "$samples" --size "$size" --seed 1
others=cat  # in the later run this filter removes warnings, which would repeat those of the first run
for plan in serial pipelined; do
  echo
  echo "--- $plan, on $device"
  "$program" train segmentation --data data --device "$device" --plan "$plan" --deterministic \
    --image-size "$size" --batch-size "$batch" --optimizer "$optimizer" --lr 1e-3 --seed 1 \
    --steps "$steps" --json "$plan.json" | $others
  others='sed /^warning:/d'
done
echo
"$program" compare serial.json pipelined.json  # exits with 3 if the bits differ
echo
echo "Pipelined, the copy and the encoder work on the next batches while the decoder trains on this one."
python3 - serial.json pipelined.json <<'END'
import json
import sys

serial, pipelined = (json.load(open(path, encoding="utf-8")) for path in sys.argv[1:])
rates = [run["steps_per_second"] for run in (serial, pipelined)]
text = "Both runs ended with the same losses and weights, to the last bit"
if any(rate["value"] is None for rate in rates):
    print(f"{text}; too few steps were measured to compare their rates.")
elif rates[1]["low"] > rates[0]["high"]:
    print(f"{text}; pipelined trained {rates[1]['value'] / rates[0]['value']:.2f} times as fast.")
elif rates[0]["low"] > rates[1]["high"]:
    print(f"{text}; here pipelined was slower, {rates[1]['value'] / rates[0]['value']:.2f} times as fast: "
          "there is little to overlap where training and loading share a few cores.")
else:
    print(f"{text}; here their rates do not differ by more than the noise: there is little to overlap "
          "where training and loading share a few cores.")
END
