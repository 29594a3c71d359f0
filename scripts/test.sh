#!/usr/bin/env bash
# All tests:  scripts/test.sh        or some:  scripts/test.sh [style|release|tsan|asan|fuzz|tidy|analyze]...
# scripts/test.sh check: the tests of the rooms without Torch alone, for a quick answer.
# scripts/test.sh format rewrites the sources by .clang-format.
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

tsan() {
  build tsan build/tsan
  # ThreadSanitizer cannot map its shadow under strong address randomization.
  local run_under=()
  setarch -R true 2>/dev/null && run_under=(setarch -R)
  TSAN_OPTIONS=second_deadlock_stack=1 run_ctest build/tsan -LE slow
}

asan() {
  have_tool clang++ || return 0
  build asan build/asan
  # protect_shadow_gap: CUDA maps memory there.
  ASAN_OPTIONS=protect_shadow_gap=0 UBSAN_OPTIONS=print_stacktrace=1 \
    run_ctest build/asan -LE slow
}

check_sources() { # check_sources FOLDER CHECKS
  cmake --build "$1" --target slipstream_revision
  run-clang-tidy -quiet -p "$1" -checks="$2" -j "$jobs" "$PWD/($1/)?src/" >"$1/tidy.log" 2>&1 ||
    { grep -A6 -E 'error:|warning:' "$1/tidy.log"; return 1; }
}

# Of the rooms without Torch, a dozen sources at a time: most of the time goes into headers.
tidy() {
  have_tool run-clang-tidy || return 0
  configure fuzz build/fuzz
  check_sources build/fuzz '-clang-analyzer-*,-bugprone-suspicious-include'
}

# clang's static analyzer, which passes over included functions: each source alone, which shows missing includes, too.
# It takes longer than tidy and is not part of all tests.
analyze() {
  have_tool run-clang-tidy || return 0
  configure fuzz build/tidy -DSLIPSTREAM_UNITY=OFF
  check_sources build/tidy '-*,clang-analyzer-*,clang-diagnostic-*'
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

# Each fuzz target for 12 seconds, from the seeds in fuzz/corpus/NAME.
fuzz() {
  have_tool clang++ || return 0
  build fuzz build/fuzz fuzz/all
  export -f fuzz_target
  find build/fuzz/fuzz -name '*_fuzz' -type f -executable -print0 |
    xargs -0 -r -n 1 -P "$jobs" bash -c 'fuzz_target "$1"' fuzz
}

if [[ ${1:-} == format ]]; then format; exit; fi
phases=("$@")
[[ $# -gt 0 ]] || phases=(style release tsan asan fuzz tidy)
for phase in "${phases[@]}"; do
  [[ " release check tsan asan fuzz tidy analyze style " == *" $phase "* ]] ||
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
