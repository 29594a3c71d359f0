#!/usr/bin/env bash
# Checks and measures on a machine with a GPU; needs no network.
#   scripts/gpu_check.sh OUT_DIR [build|test|sanitize|bench|augmenters|stated|real|launches|trainers|trained|python|graphs|bits]...
# Without a phase: the first four. augmenters: compared with torchvision and kornia, if they are installed.
# stated and real: the doctor's accuracy, on stated costs and on real work. launches: its advice of graphs. trainers: ResNet-50 compared with
# PyTorch's loops on 16, 8, 4 and 2 cores. trained: the cost of checkpoints, and the accuracy. python:
# the package around PyTorch's loop, and races of published loops. graphs: CUDA graphs in a loop. bits: their bits.
# Writes OUT_DIR/summary.txt and OUT_DIR/results.tar.gz. Each phase takes less than 9 minutes. If
# there is no .git, SLIPSTREAM_REVISION must name the revision that was built.
set -euo pipefail

limit_s=530
jobs=$(nproc)

phase_build() {
  SLIPSTREAM_OFFLINE=1 scripts/setup.sh
  . build/env.sh
  cmake --preset release >"$raw/configure.log" 2>&1 || { cat "$raw/configure.log"; return 1; }
  cmake --build build --parallel "$jobs"
  build/slipstream --version
}

# A skipped test is a failure here.
phase_test() {
  ctest --test-dir build -L gpu --no-tests=error --output-on-failure --parallel 6 --timeout 500 \
    --test-output-size-passed 10000000 --output-junit "$raw/ctest.xml"
  ! grep -qE 'status="notrun"|SKIPPED' "$raw/ctest.xml" || { echo "some tests were skipped"; return 1; }
}

sanitize() { # sanitize TOOL BINARY [argument]...
  local log
  log=$raw/$1-$(basename "$2").log
  compute-sanitizer --tool "$1" --error-exitcode 86 "${api_errors[@]}" "${@:2}" >"$log" 2>&1 ||
    { tail -40 "$log"; echo "FAILED: $*"; return 1; }
  ! grep -q '^\[=*\] 0 tests from .* ran' "$log" || { echo "FAILED: no test ran: $*"; return 1; }
  echo "$1 $(basename "$2"): $(tail -1 "$log")"
}

# Kernels and streams are checked with the tests of module cuda and with chains of cuda/augment. Left out are tests that
# lose the device, prove an overlap or a missing wait by time, or repeat others under load. Runs with Torch are checked
# with a few tests, without its caching allocator, which would hide stray accesses. Left out are two tests in which
# several threads enqueue, because the tool and the driver may wait for each other's locks, and the tests that bound the
# number of live batches, because without the allocator each free waits for the device. All checks run in parallel,
# because they wait for the tool more than for the GPU.
phase_sanitize() {
  local tool pids=() pid failed=0
  local api_errors=(--report-api-errors no)  # some tests cause API errors on purpose
  for tool in memcheck racecheck initcheck; do
    sanitize "$tool" build/tests/cuda/cuda_test \
      '--gtest_filter=-*DeathTest*:*WithoutWait*:*LateProducer*:*LanesRunConcurrently*:*UnderLoad*' &
    pids+=($!)
  done
  for tool in memcheck racecheck; do
    sanitize "$tool" build/tests/cuda/augment/augment_gpu_test \
      '--gtest_filter=*Classification*:*CropMaskColorDivide*:*EveryResize*:*Layout*:*BlurMatches*:*EveryImageSize*' &
    pids+=($!)
    sanitize "$tool" build/tests/cuda/augment/mix_gpu_test &
    pids+=($!)
  done
  PYTORCH_NO_CUDA_MEMORY_CACHING=1 sanitize memcheck build/tests/engine/run_gpu_test \
    '--gtest_filter=*OddSizesAndPartialEpochs*:*DropoutAndBatch*:*ViewAddedByStage*:*SwitchingPlansBetweenRuns*:*SavedDuringRun*:*EmaWeightsAre*' &
  pids+=($!)
  PYTORCH_NO_CUDA_MEMORY_CACHING=1 PYTHONPATH=build/python SLIPSTREAM=build/slipstream sanitize memcheck \
    python3 -B -m pytest -q -p no:cacheprovider -k "cuda and not share_a_loader and not wire_formats and not import_sets and not live_batches" tests/python/pipeline_test.py tests/python/data_test.py &
  pids+=($!)
  for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
  return "$failed"
}

phase_bench() {
  local data=build/bench-data workers=$((jobs > 1 ? jobs / 2 : 1)) batch plan
  local common=(segmentation --data "$data" --device cuda --num-workers "$workers")
  [[ -d $data ]] ||
    build/slipstream make-data segmentation --out "$data" --samples 2048 --size 256 --seed 1
  build/bench/handoff_bench --benchmark_repetitions=5 --benchmark_out="$raw/handoff.json"
  build/bench/cross_entropy_bench --benchmark_min_time=0.1 --benchmark_out="$raw/kernels.json"
  build/bench/augment_bench --benchmark_out="$raw/augment.json"
  build/bench/wire_bench --benchmark_repetitions=5 --benchmark_out="$raw/wire.json"
  build/bench/trace_bench --device cuda --image-size 256 --batch-size 32 --json "$raw/trace.json"
  build/slipstream bench "${common[@]}" --batch-size 8,16,32,64,128 --input loader --steps 600 \
    --seconds 1 --json "$raw/bench_loader.json" --svg "$raw/bench_loader.svg"
  build/slipstream bench "${common[@]}" --batch-size 8,32,128 --input device --steps 600 \
    --seconds 1 --json "$raw/bench_device.json"
  for batch in 8 32 128; do
    build/slipstream train "${common[@]}" --plan auto --batch-size "$batch" \
      --steps $((12000 / batch + 300)) --json "$raw/auto_$batch.json"
  done
  for batch in 8 32 128; do
    for plan in serial pipelined; do
      build/slipstream train "${common[@]}" --plan "$plan" --batch-size "$batch" --steps 200 \
        --json "$raw/memory_${plan}_$batch.json"
    done
  done
  python3 bench/pytorch_loops.py --data "$data" --num-workers 8,16 --budget-seconds 200 \
    --json "$raw/pytorch_loops.json"
}

phase_augmenters() { python3 bench/augmenters.py --json "$raw/augmenters.json"; }

doctor_accuracy() {
  build/bench/doctor_accuracy --device cuda --budget 4 --cases "$1" --json "$raw/doctor_$1.json"
}
phase_stated() { doctor_accuracy stated; }
phase_real() { doctor_accuracy real; }

phase_launches() {
  PYTHONPATH=build/python python3 bench/doctor_graphs.py --budget-seconds 400 --json "$raw/doctor_graphs.json"
}

phase_trainers() {
  local data=build/photos-500x375 cores=() count
  [[ -d $data ]] || { mkdir -p "$data.part" && python3 -c 'import sys; sys.path.insert(0, "bench")
import loaders; loaders.make_photos(sys.argv[1], 3000)' "$data.part" && mv "$data.part" "$data"; }
  for count in 16 8 4 2; do ((count > jobs)) || cores+=("$count"); done
  python3 bench/trainers.py --data "$data" --cores "$(IFS=,; echo "${cores[*]}")" --budget-seconds 440 \
    --json "$raw/trainers.json"
}

phase_trained() {
  python3 bench/checkpoint_cost.py "$raw/checkpoint_cost.json"
  python3 bench/accuracy.py "$raw/accuracy.json" --size 32 --quality 5 --gray 1
}

phase_python() {
  local data=build/bench-data
  [[ -d $data ]] ||
    build/slipstream make-data segmentation --out "$data" --samples 2048 --size 256 --seed 1
  export PYTHONPATH=build/python
  python3 bench/python_loops.py --data "$data" --seconds 0.5 --repeats 8 --json "$raw/python_loops.json"
  python3 bench/verify_loops.py --schedules 40 --json "$raw/verify_loops.json"
}

phase_graphs() {
  PYTHONPATH=build/python python3 bench/cuda_graphs.py --budget-seconds 400 --json "$raw/cuda_graphs.json"
}

phase_bits() { PYTHONPATH=build/python python3 bench/graph_bits.py; }

if [[ ${1:-} == --phase ]]; then
  raw=$3
  [[ $2 == build ]] || . build/env.sh
  export SLIPSTREAM_REQUIRE_GPU=1
  "phase_$2"
  exit
fi

[[ $# -gt 0 ]] || { sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")/.."
[[ $# -gt 0 ]] || set -- build test sanitize bench
raw=$(mktemp -d)
trap 'rm -rf "$raw"' EXIT
failed=0
{
  echo "revision: $(git describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null || echo "${SLIPSTREAM_REVISION:-unknown}")"
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader || echo "no GPU"
  echo "cores: $jobs; $(uname -sr)"
} >"$out/summary.txt" 2>&1
for phase in "$@"; do
  declare -F "phase_$phase" >/dev/null || { echo "no phase '$phase'" >&2; exit 2; }
  start=$SECONDS verdict=passed
  timeout "$limit_s" bash scripts/gpu_check.sh --phase "$phase" "$raw" 2>&1 | tee "$raw/$phase.log" || { verdict=FAILED; failed=1; }
  echo "$phase: $verdict after $((SECONDS - start)) s; $(tail -1 "$raw/$phase.log")" | tee -a "$out/summary.txt"
done
cp "$out/summary.txt" "$raw/"
tar czf "$out/results.tar.gz" -C "$raw" .
exit "$failed"
