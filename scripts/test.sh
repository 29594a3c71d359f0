#!/usr/bin/env bash
# All tests:  scripts/test.sh        or some:  scripts/test.sh [release|tsan|asan|fuzz|tidy|style]...
# scripts/test.sh check: the tests of the rooms without Torch alone, for a quick answer.
# scripts/test.sh format rewrites the sources by .clang-format.
set -euo pipefail
cd "$(dirname "$0")/.."

jobs=$(nproc)
run_under=()
clang_format=$(command -v clang-format-14 || command -v clang-format || true)

build() { # build PRESET FOLDER
  mkdir -p "$2"
  cmake --preset "$1" >"$2/configure.log" 2>&1 || { cat "$2/configure.log"; return 1; }
  cmake --build "$2"
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

tsan() {
  build tsan build/tsan
  # ThreadSanitizer cannot map its shadow under strong address randomization.
  local run_under=()
  setarch -R true 2>/dev/null && run_under=(setarch -R)
  TSAN_OPTIONS=second_deadlock_stack=1 run_ctest build/tsan -LE slow
}

asan() {
  build asan build/asan
  # protect_shadow_gap: CUDA maps memory there.
  ASAN_OPTIONS=protect_shadow_gap=0 UBSAN_OPTIONS=print_stacktrace=1 \
    run_ctest build/asan -LE slow
}

# Of the rooms without Torch.
tidy() {
  have_tool run-clang-tidy || return 0
  build fuzz build/fuzz
  run-clang-tidy -quiet -p build/fuzz -j "$jobs" "$PWD/src/" >build/fuzz/tidy.log 2>&1 ||
    { grep -A6 -E 'error:|warning:' build/fuzz/tidy.log; return 1; }
}

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
  corpus=("build/fuzz/corpus/$name")  # what it finds; kept for the next run
  mkdir -p "${corpus[0]}"
  [[ ! -d fuzz/corpus/$name ]] || corpus+=("fuzz/corpus/$name")
  "$1" -max_total_time="${FUZZ_SECONDS:-12}" -seed=1 -timeout=10 -rss_limit_mb=2048 \
    -artifact_prefix="build/fuzz/$name-" "${corpus[@]}" >"build/fuzz/$name.log" 2>&1 ||
    { tail -40 "build/fuzz/$name.log"; echo "fuzzing $name failed"; return 1; }
  echo "$name: $(tail -1 "build/fuzz/$name.log")"
}

# The rooms without Torch by clang: another compiler's warnings, its thread-safety analysis, and each
# fuzz target for 12 seconds, from the seeds in fuzz/corpus/NAME.
fuzz() {
  have_tool clang++ || return 0
  build fuzz build/fuzz
  export -f fuzz_target
  find build/fuzz/fuzz -name '*_fuzz' -type f -executable -print0 |
    xargs -0 -r -n 1 -P "$jobs" bash -c 'fuzz_target "$1"' fuzz
}

if [[ ${1:-} == format ]]; then format; exit; fi
phases=("$@")
[[ $# -gt 0 ]] || phases=(release tsan asan fuzz tidy style)
for phase in "${phases[@]}"; do
  [[ " release check tsan asan fuzz tidy style " == *" $phase "* ]] ||
    { echo "unknown part: $phase" >&2; exit 2; }
done
scripts/setup.sh --lint
. build/env.sh
for phase in "${phases[@]}"; do
  start=$SECONDS
  echo "=== $phase"
  "$phase"
  echo "=== $phase: passed in $((SECONDS - start)) s"
done
