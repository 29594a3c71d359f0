#!/usr/bin/env bash
# Prepares the machine for builds and writes build/env.sh, which the Makefile and the scripts
# source. Idempotent; needs no network if nothing is missing.
#   scripts/setup.sh [--lint]      --lint: also the clang tools, the browser and tests/requirements.txt,
#                                  which only the checks need
# SLIPSTREAM_OFFLINE=1: installs nothing. SLIPSTREAM_CACHE: folder of the virtual environment.
set -euo pipefail
cd "$(dirname "$0")/.."

cache=${SLIPSTREAM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/slipstream}
cuda_packages='cuda-toolkit[nvcc,cccl,cudart,crt,nvvm]==13.0.2'

say() { echo "setup: $*"; }
die() { echo "setup: $*" >&2; exit 1; }
have() { command -v "$1" >/dev/null; }

# --- Packages of the system: "package header" or "package command" -------------------------------

headers() {
  cat <<'LIST'
nlohmann-json3-dev nlohmann/json.hpp
libcli11-dev CLI/CLI.hpp
libjpeg-dev jpeglib.h
libpng-dev png.h
zlib1g-dev zlib.h
libzstd-dev zstd.h
liblz4-dev lz4frame.h
libgtest-dev gtest/gtest.h
libgmock-dev gmock/gmock.h
LIST
}

missing_headers() {
  have g++ || { cut -d' ' -f1; return; }
  while read -r package header; do
    printf '#if !__has_include(<%s>)\n@ %s\n#endif\n' "$header" "$package"
  done | g++ -std=c++20 -E -x c++ - | sed -n 's/^@ //p'
}

required() {
  have g++ || echo g++
  have python3 || echo python3
  headers | missing_headers
}

optional() {
  have ccache || echo ccache
  echo 'libbenchmark-dev benchmark/benchmark.h' | missing_headers
  [[ $lint ]] || return 0
  have clang++ || echo clang
  have ld.lld || echo lld
  ls /usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a >/dev/null 2>&1 ||
    echo libclang-rt-dev
  have clang-tidy || echo clang-tidy
  have clang-format || echo clang-format
}

apt_install() {
  local as_root=()
  [[ -z ${SLIPSTREAM_OFFLINE:-} ]] && have apt-get || return 1
  [[ $(id -u) == 0 ]] || as_root=(sudo -n)
  "${as_root[@]}" true 2>/dev/null || return 1
  say "installing $*"
  local options=(-qq -o Acquire::Retries=1 -o Acquire::http::Timeout=20)
  "${as_root[@]}" apt-get "${options[@]}" update &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get "${options[@]}" install -y --no-install-recommends "$@" >/dev/null
}

install_packages() {
  local need want
  need=$(required | sort -u) want=$(optional | sort -u)
  [[ $need$want ]] || return 0
  # shellcheck disable=SC2086
  apt_install $need $want && return 0
  need=$(required | sort -u) want=$(optional | sort -u)
  [[ -z $need ]] || die "missing packages; run: sudo apt-get install -y" $need
  say "going on without" $want
}

# The tests open the doctor's page in this browser.
install_browser() {
  local name
  for name in chromium-headless-shell chromium chromium-browser google-chrome; do
    have $name && return 0
  done
  apt_install chromium-headless-shell || apt_install chromium || say "going on without a browser"
}

# --- Python, LibTorch, CMake, Ninja --------------------------------------------------------------

find_python() {
  local name
  for name in python3 python3.13 python3.12 python3.11; do
    have $name && $name -c 'import sys; sys.exit(sys.version_info < (3, 11))' &&
      { command -v $name; return; }
  done
  die "needs Python 3.11 or newer"
}

# Prints LibTorch's CMake folder if $1 has PyTorch 2.11 for CUDA 13 and the other packages.
find_torch() {
  "$1" - <<'PYTHON' 2>/dev/null
import importlib.util as util, pathlib, runpy, sys
found = [util.find_spec(name) for name in ("torch", "numpy", "PIL")]
root = pathlib.Path(found[0].origin).parent
version = runpy.run_path(str(root / "version.py"))
good = all(found) and version["__version__"].startswith("2.11.") and version["cuda"].startswith("13.")
print(root / "share/cmake") if good else sys.exit(1)
PYTHON
}

# Prints the compiler inside its toolkit, because the one in PATH may be a link or a wrapper elsewhere.
nvcc_13() {
  local nvcc top
  for nvcc in "${CUDACXX:-}" "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc; do
    top=$("$nvcc" -dryrun -x cu /dev/null 2>&1 | sed -n 's/^#\$ TOP=//p') || continue
    top=$(realpath -q "$top") && nvcc=$top/bin/nvcc && "$nvcc" --version 2>/dev/null |
      grep -q 'release 13\.' && { echo "$nvcc"; return; }
  done
  return 1
}

cmake_is_new() {
  have cmake && have ninja &&
    [[ $(printf '%s\n' 3.28 "$(cmake --version | sed -n 's/^cmake version //p')" | sort -V | head -1) == 3.28 ]]
}

# Creates a virtual environment with all of requirements.txt, which all clones share.
make_venv() {
  local name
  name=venv-$({ cat requirements.txt; "$python" --version; } | sha256sum | cut -c1-12)
  venv=$cache/$name
  mkdir -p "$cache"
  exec 9>"$venv.lock"
  flock 9
  if [[ ! -e $venv/.complete ]]; then
    [[ -z ${SLIPSTREAM_OFFLINE:-} ]] || die "offline, and no Python with torch 2.11, cmake and ninja"
    say "making $venv (PyTorch: about 5 GB)"
    "$python" -c 'import ensurepip' 2>/dev/null || apt_install python3-venv ||
      die "Python has no venv; run: sudo apt-get install -y python3-venv"
    "$python" -m venv --clear "$venv"
    "$venv/bin/python" -m pip install --quiet --requirement requirements.txt
    touch "$venv/.complete"
  fi
  python=$venv/bin/python
}

# Installs nvcc from PyPI next to PyTorch's CUDA libraries, and links the names that nvcc expects.
add_nvcc_to_venv() {
  local root
  if [[ ! -e $venv/.cuda-complete ]]; then
    say "no nvcc 13 here: adding the one from PyPI"
    "$python" -m pip install --quiet "$cuda_packages"
    root=$(echo "$venv"/lib/python3*/site-packages/nvidia/cu13)
    ln -sfn lib "$root/lib64"
    ln -sf libcudart.so.13 "$root/lib/libcudart.so"
    ln -sf libnvrtc.so.13 "$root/lib/libnvrtc.so"
    touch "$venv/.cuda-complete"
  fi
  nvcc=$(echo "$venv"/lib/python3*/site-packages/nvidia/cu13/bin/nvcc)
}

find_tools() {
  venv=
  python=$(find_python)
  nvcc=$(nvcc_13) || nvcc=
  torch=$(find_torch "$python") || torch=
  if [[ $torch && $nvcc ]] && cmake_is_new; then
    path=$(dirname "$("$python" -c 'import sys; print(sys.executable)')")
  else
    make_venv
    path=$venv/bin
    torch=$(find_torch "$python") || die "PyTorch in $venv is broken: remove that folder"
    [[ $nvcc ]] || add_nvcc_to_venv
  fi
}

# Returns whether compiler $1 links libstdc++ statically into libraries, which then crash in a process with PyTorch.
hides_libstdcxx() {
  local library failed=1
  library=$(mktemp)
  if echo 'void f() { throw 1; }' | "$1" -x c++ -shared -fPIC -o "$library" - 2>/dev/null; then
    readelf -d "$library" | grep -q 'libstdc++' || failed=0
  fi
  rm -f "$library"
  return "$failed"
}

# Prints the options that select /usr/bin/g++ if the compiler that CMake would use links libstdc++ statically, or if
# nvcc's host compiler does, whose library folders CMake adds to every link.
compiler_exports() {
  local cxx=${CXX:-c++} besides compiler
  besides=$(dirname "$(command -v "${CC:-cc}")")/g++
  [[ ${CXX:-} || -z ${CC:-} || ! -x $besides ]] || cxx=$besides
  for compiler in "$cxx" "${CUDAHOSTCXX:-$cxx}"; do
    if hides_libstdcxx "$compiler" && have /usr/bin/g++ && ! hides_libstdcxx /usr/bin/g++; then
      say "taking /usr/bin/g++: libraries that $compiler links crash in a process with PyTorch" >&2
      echo 'export CC=/usr/bin/gcc CXX=/usr/bin/g++ CUDAHOSTCXX=/usr/bin/g++'
      return
    fi
  done
}

# The Python package needs this.
install_python_headers() {
  "$python" -c 'import os, sysconfig, sys; sys.exit(not os.path.exists(sysconfig.get_paths()["include"] + "/Python.h"))' &&
    return 0
  apt_install python3-dev || say "going on without the Python package: no Python.h"
}

# Installs only into the virtual environment: the user's other Python installations do not change. PyTorch in it does
# not change either.
install_test_packages() {
  local modules='accelerate auditwheel ipykernel lightning mypy nbclient nbformat pdoc pydantic pytest ray
    safetensors scikit_build_core tensorboard torchvision'
  # shellcheck disable=SC2086
  "$python" -c 'import sys; from importlib.util import find_spec; sys.exit(not all(map(find_spec, sys.argv[1:])))' \
    $modules && return 0
  [[ -z ${SLIPSTREAM_OFFLINE:-} && $venv ]] &&
    say "installing tests/requirements.txt" &&
    "$python" -m pip install --quiet --constraint requirements.txt --requirement tests/requirements.txt ||
    say "going on without tests/requirements.txt"
}

write_env() {
  local cuda
  cuda=$(dirname "$(dirname "$nvcc")")
  mkdir -p build
  cat >build/env.sh.new <<ENV
export PATH="$path:\$PATH"
export Torch_ROOT="$torch"
export CUDACXX="$nvcc" CUDA_HOME="$cuda" CUDA_PATH="$cuda"
ENV
  compiler_exports >>build/env.sh.new
  if ! cmp -s build/env.sh.new build/env.sh; then
    rm -f build/CMakeCache.txt build/*/CMakeCache.txt  # they contain the names of the old tools
  fi
  mv build/env.sh.new build/env.sh
}

lint=
[[ ${1:-} == --lint ]] && lint=1
install_packages
[[ -z $lint ]] || install_browser
find_tools
install_python_headers
[[ -z $lint ]] || install_test_packages
write_env
say "ready: $("$python" --version), $("$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/CUDA \1/p'), $torch"
