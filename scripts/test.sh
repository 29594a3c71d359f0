#!/usr/bin/env bash
# What CI runs:   scripts/test.sh
# One part:       scripts/test.sh PART...
#   style         clang-format
#   release       builds everything and runs all tests
#   tsan          tests of modules with threads, under ThreadSanitizer
#   asan          tests of all modules without Torch, under AddressSanitizer and UndefinedBehaviorSanitizer
#   fuzz          every fuzz target for FUZZ_SECONDS (6), in the same build as asan
#   tidy          clang-tidy on modules without Torch, on what changed since it last passed on this machine
# Parts of `scripts/test.sh all` that CI leaves out:
#   tsan-all      all modules without Torch, under ThreadSanitizer
#   asan-all      everything, Torch included, under AddressSanitizer and UndefinedBehaviorSanitizer
#   analyze       clang's static analyzer
# For a quick answer:
#   check         tests of modules without Torch, without sanitizers
#   format        rewrites the sources by .clang-format
set -euo pipefail
cd "$(dirname "$0")/.."

jobs=$(nproc)
run_under=()
clang_format=$(command -v clang-format-14 || command -v clang-format || true)

configure() { # configure PRESET FOLDER [cmake option]...
  local preset=$1 folder=$2
  shift 2
  mkdir -p "$folder"
  cmake --preset "$preset" -B "$folder" "$@" >"$folder/configure.log" 2>&1 || { cat "$folder/configure.log"; return 1; }
}

build() { # build PRESET FOLDER [target]...
  configure "$1" "$2"
  cmake --build "$2" ${3:+--target "${@:3}"}
}

run_ctest() { # run_ctest FOLDER [ctest option]...
  local folder=$1
  shift
  "${run_under[@]}" ctest --test-dir "$folder" --no-tests=error --output-on-failure --parallel "$jobs" "$@"
}

# A check whose tool is absent is skipped with a reason; in CI that is a failure.
have_tool() {
  command -v "$1" >/dev/null && return 0
  echo "skipped: no $1 here"
  [[ -z ${CI:-} ]] || exit 1
  return 1
}

release() {
  build release build
  run_ctest build
}

check() {
  build check build/check
  run_ctest build/check -LE slow
}

run_tsan() { # run_tsan FOLDER
  # ThreadSanitizer cannot map its shadow memory under strong address randomization.
  local run_under=()
  setarch -R true 2>/dev/null && run_under=(setarch -R)
  TSAN_OPTIONS=second_deadlock_stack=1 run_ctest "$1" -LE slow
}

# The other modules without Torch have no threads.
tsan() {
  local module modules=(core datasets features loader tools python)
  build tsan build/tsan $(printf 'tests/%s/all ' "${modules[@]}")
  for module in "${modules[@]}"; do run_tsan "build/tsan/tests/$module"; done
}

tsan_all() {
  build tsan build/tsan
  run_tsan build/tsan
}

run_asan() { # run_asan FOLDER
  # CUDA maps memory where AddressSanitizer would protect a gap.
  ASAN_OPTIONS=protect_shadow_gap=0 UBSAN_OPTIONS=print_stacktrace=1 run_ctest "$1" -LE slow
}

asan() {
  have_tool clang++ || return 0
  build asan build/asan
  run_asan build/asan
}

asan_all() {
  have_tool clang++ || return 0
  build asan-all build/asan-all
  run_asan build/asan-all
}

check_sources() { # check_sources FOLDER CHECKS [cmake option]...
  have_tool clang-tidy || return 0
  # This folder is only configured: precompiled headers are not built there.
  configure asan "$1" -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON "${@:3}"
  cmake --build "$1" --target slipstream_revision
  python3 scripts/tidy.py "$1" "$2"
}

# A dozen sources at a time, since most of the time goes into headers.
tidy() { check_sources build/tidy '-clang-analyzer-*,-bugprone-suspicious-include'; }

# The static analyzer follows calls into included functions. It reads each source alone, so it also finds missing
# includes.
analyze() { check_sources build/analyze '-*,clang-analyzer-*,clang-diagnostic-*' -DSLIPSTREAM_UNITY=OFF; }

sources() {
  find include src tests bench examples fuzz \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' \)
}

# Only clang-format 14 counts: versions disagree about the same file.
style() {
  if [[ $clang_format && $("$clang_format" --version) == *" 14."* ]]; then
    sources | xargs -r "$clang_format" --dry-run -Werror
  else
    echo "skipped: no clang-format 14 here"
    [[ -z ${CI:-} ]]
  fi
}

format() { sources | xargs -r "$clang_format" -i; }

fuzz_target() { # fuzz_target BINARY
  local name corpus
  name=$(basename "$1" _fuzz)
  corpus=("build/asan/corpus/$name")  # inputs that it finds are kept for the next run
  mkdir -p "${corpus[0]}"
  [[ ! -d fuzz/corpus/$name ]] || corpus+=("fuzz/corpus/$name")
  "$1" -max_total_time="${FUZZ_SECONDS:-6}" -seed=1 -timeout=10 -rss_limit_mb=2048 \
    -artifact_prefix="build/asan/$name-" "${corpus[@]}" >"build/asan/$name.log" 2>&1 ||
    { tail -40 "build/asan/$name.log"; echo "fuzzing $name failed"; return 1; }
  echo "$name: $(tail -1 "build/asan/$name.log")"
}

# Starts from the seeds in fuzz/corpus/NAME.
fuzz() {
  have_tool clang++ || return 0
  build asan build/asan fuzz/all
  export -f fuzz_target
  find build/asan/fuzz -name '*_fuzz' -type f -executable -print0 |
    xargs -0 -r -n 1 -P "$jobs" bash -c 'fuzz_target "$1"' fuzz
}

if [[ ${1:-} == format ]]; then format; exit; fi
phases=("$@")
[[ $# -gt 0 ]] || phases=(style release tsan asan fuzz tidy)
[[ ${1:-} != all ]] || phases=(style release tsan-all asan-all fuzz tidy analyze)
for phase in "${phases[@]}"; do
  [[ " style release check tsan tsan-all asan asan-all fuzz tidy analyze " == *" $phase "* ]] ||
    { echo "unknown part: $phase" >&2; exit 2; }
done
scripts/setup.sh --lint
. build/env.sh
for phase in "${phases[@]}"; do
  start=$SECONDS
  echo "=== $phase"
  "${phase//-/_}"
  echo "=== $phase: passed in $((SECONDS - start)) s"
done
