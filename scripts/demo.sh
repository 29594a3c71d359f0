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
others=cat  # of the later run's lines: its warnings would be the first one's again
for plan in serial pipelined; do
  echo
  echo "--- $plan, on $device"
  "$program" train segmentation --data data --device "$device" --plan "$plan" --deterministic \
    --image-size "$size" --batch-size "$batch" --optimizer "$optimizer" --lr 1e-3 --seed 1 \
    --steps "$steps" --json "$plan.json" | $others
  others='sed /^warning:/d'
done
echo
"$program" compare serial.json pipelined.json
echo
echo "Pipelined, the copy and the encoder work on the next batches while the decoder trains on this one."
echo "Both runs end with the same losses and weights, to the last bit: only the waiting is gone."
