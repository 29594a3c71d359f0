#!/usr/bin/env bash
# Makes wheels of the Python package for the PyTorch of build/env.sh, with the image libraries in them:
#   scripts/wheel.sh OUT_DIR [BUILD_DIR]
# Without BUILD_DIR, builds in build/dist for all GPUs, and for each Python from 3.10 to 3.14 that is installed with its
# headers: those on the path, those of pyenv, or those that PYTHONS names. With BUILD_DIR, packs what is built there, for
# the Python of build/env.sh.
# Leaves OUT_DIR/slipstream-*.whl. The wheels use the installed PyTorch and its CUDA libraries.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p "$1"
out=$(cd "$1" && pwd)
build=${2:-build/dist}
. build/env.sh
raw=$(mktemp -d)
trap 'rm -rf "$raw"' EXIT
own=$(python3 -c 'import sys; print("3.%d" % sys.version_info[1])')

# Prints the version of an interpreter that runs and has Python.h; nothing if it has no GIL.
find_version() {
  "$1" -c 'import os, sys, sysconfig
if os.path.exists(sysconfig.get_paths()["include"] + "/Python.h") and not sysconfig.get_config_var("Py_GIL_DISABLED"):
    print("3.%d" % sys.version_info[1])' 2>/dev/null || true
}

# Interpreters of other versions than that of build/env.sh, one for each version.
other_pythons() {
  local version candidate
  for version in 3.10 3.11 3.12 3.13 3.14; do
    [[ $version != "$own" ]] || continue
    for candidate in ${PYTHONS:-"python$version" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/"python$version"}; do
      [[ $(find_version "$candidate") == "$version" ]] && command -v "$candidate" && break
    done
  done
}

# auditwheel finds it before the system's library.
mkdir "$raw/instead"
"${CC:-cc}" -shared -fPIC -O2 -Wl,-soname,libjbig.so.0 -o "$raw/instead/libjbig.so.0" scripts/no_jbig.c

pack() { # pack COMPONENT VERSION
  local tag=cp${2/./} component=$1
  rm -rf "$raw/wheel" "$raw/packed"
  mkdir "$raw/packed"
  cmake --install "$build" --component "$component" --prefix "$raw/wheel" --strip >/dev/null
  compgen -G "$raw/wheel/slipstream/_native.cpython-${tag#cp}-*.so" >/dev/null ||
    { echo "$build has no module for Python $2: remove it and try again" >&2; return 1; }
  cp -r python/slipstream/. "$raw/wheel/slipstream/"
  find "$raw/wheel" -name __pycache__ -prune -exec rm -rf {} +
  RAW=$raw python3 - <<'PYTHON'
import os
from scikit_build_core.build import prepare_metadata_for_build_wheel
prepare_metadata_for_build_wheel(os.environ["RAW"] + "/wheel")
PYTHON
  sed -i "s/^Tag: cp3[0-9]*-cp3[0-9]*-/Tag: $tag-$tag-/" "$raw"/wheel/slipstream-*.dist-info/WHEEL
  python3 -m wheel pack --dest-dir "$raw/packed" "$raw/wheel" >/dev/null
  LD_LIBRARY_PATH=$raw/instead${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} python3 -m auditwheel repair --wheel-dir "$out" --exclude 'libtorch*' --exclude 'libc10*' \
    --exclude 'libcudart*' --exclude 'libnvrtc*' "$raw"/packed/slipstream-*.whl >"$raw/repair.log" 2>&1 ||
    { cat "$raw/repair.log"; return 1; }
  ls "$out"/slipstream-*-"$tag"-*.whl
}

versions=()
if [[ $build == build/dist ]]; then
  mapfile -t pythons < <(other_pythons)
  for python in "${pythons[@]}"; do versions+=("$(find_version "$python")"); done
  echo "wheel: for Python $own ${versions[*]}"
  cmake --preset dist -DSLIPSTREAM_PYTHONS="$(IFS=';'; echo "${pythons[*]}")" >build/dist.log
fi
cmake --build "$build" --target slipstream_python "${versions[@]/#/slipstream_python_}"
pack python "$own"
for version in "${versions[@]}"; do pack "python_$version" "$version"; done
