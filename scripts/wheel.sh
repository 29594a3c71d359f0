#!/usr/bin/env bash
# Makes a wheel of the Python package, for the Python of build/env.sh, with the image libraries in it:
#   scripts/wheel.sh OUT_DIR [BUILD_DIR]      BUILD_DIR: what is built there (default: build/dist, for all GPUs)
# Leaves OUT_DIR/slipstream-*.whl. PyTorch and CUDA's libraries are those of the PyTorch that it is installed beside.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p "$1"
out=$(cd "$1" && pwd)
build=${2:-build/dist}
. build/env.sh
[[ $build != build/dist ]] || cmake --preset dist >build/dist.log
cmake --build "$build" --target slipstream_python
raw=$(mktemp -d)
trap 'rm -rf "$raw"' EXIT
cmake --install "$build" --component python --prefix "$raw/wheel" --strip >/dev/null
cp -r python/slipstream/. "$raw/wheel/slipstream/"
find "$raw/wheel" -name __pycache__ -prune -exec rm -rf {} +
RAW=$raw python3 - <<'PYTHON'
import os
from pathlib import Path
from scikit_build_core.build import prepare_metadata_for_build_wheel
prepare_metadata_for_build_wheel(os.environ["RAW"] + "/wheel")
PYTHON
python3 -m wheel pack --dest-dir "$raw" "$raw/wheel" >/dev/null
python3 -m auditwheel repair --wheel-dir "$out" --exclude 'libtorch*' --exclude 'libc10*' \
  --exclude 'libcudart*' --exclude 'libnvrtc*' "$raw"/slipstream-*.whl >"$raw/repair.log" 2>&1 ||
  { cat "$raw/repair.log"; exit 1; }
ls "$out"/slipstream-*.whl
