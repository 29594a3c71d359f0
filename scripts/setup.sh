#!/usr/bin/env bash
# Makes the machine ready to build and writes build/env.sh, which the Makefile and the scripts
# source. Idempotent; needs no network where nothing is missing.
#   scripts/setup.sh [--wheel|--lint]      --wheel: also scripts/wheel_requirements.txt
#                                          --lint: also the clang tools, the browser and tests/requirements.txt,
#                                          which only the checks need
# Uses the PyTorch of python3 if Slipstream can be built for it, otherwise the one in requirements.txt.
# SLIPSTREAM_OFFLINE=1: installs nothing. SLIPSTREAM_CACHE: where the virtual environment lives.
set -euo pipefail
cd "$(dirname "$0")/.."

cache=${SLIPSTREAM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/slipstream}
cuda_packages='cuda-toolkit[nvcc,cccl,cudart,crt,nvvm,nvrtc]'

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

optional_headers() {
  cat <<'LIST'
libbenchmark-dev benchmark/benchmark.h
libgif-dev gif_lib.h
libtiff-dev tiffio.h
libwebp-dev webp/demux.h
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
  optional_headers | missing_headers
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

# Prints a Python that is not one of the virtual environments below, which build/env.sh adds to the path.
find_python() {
  local name candidate
  for name in python3 python3.14 python3.13 python3.12 python3.11; do
    while read -r candidate; do
      [[ $candidate != "$cache"/* ]] && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null &&
        { echo "$candidate"; return; }
    done < <(type -aP $name)
  done
  die "needs Python 3.11 or newer"
}

# Sets torch (the folder of its CMake package), torch_version and cuda (its major version) to those of the PyTorch of $1.
# Fails, with the reason in torch_reason, if Slipstream cannot be built for it.
find_torch() {
  local found messages
  messages=$(mktemp)
  torch='' torch_version='' cuda='' torch_reason=''
  if found=$("$1" scripts/installed_torch.py 2>"$messages"); then
    { read -r torch; read -r torch_version; read -r cuda; } <<<"$found"
    [[ ! -s $messages ]] || say "$(<"$messages")"
  else
    torch_reason=$(<"$messages")
  fi
  rm -f "$messages"
  [[ $torch ]]
}

# Prints nvcc of a toolkit of CUDA $1: the file inside the toolkit, because the one on the path may be a link or a wrapper.
find_nvcc() {
  local nvcc top
  for nvcc in "${CUDACXX:-}" "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc /usr/local/cuda-"$1"*/bin/nvcc; do
    top=$("$nvcc" -dryrun -x cu /dev/null 2>&1 | sed -n 's/^#\$ TOP=//p') || continue
    top=$(realpath -q "$top") && nvcc=$top/bin/nvcc && "$nvcc" --version 2>/dev/null |
      grep -q "release $1\." && { echo "$nvcc"; return; }
  done
  return 1
}

cmake_is_new() {
  have cmake && have ninja &&
    [[ $(printf '%s\n' 3.28 "$(cmake --version | sed -n 's/^cmake version //p')" | sort -V | head -1) == 3.28 ]]
}

# Succeeds if the Python $1 has the modules $2...
has_modules() {
  "$1" -c 'import sys; from importlib.util import find_spec; sys.exit(not all(map(find_spec, sys.argv[1:])))' "${@:2}"
}

# Prints the Python modules that --wheel or --lint needs.
extra_modules() {
  [[ ! $lint$wheel ]] || echo auditwheel scikit_build_core wheel
  [[ ! $lint ]] || echo accelerate datasets ipykernel lightning mypy nbclient nbformat pdoc pydantic pytest ray \
    safetensors tensorboard timm torchvision transformers
}

# The virtual environment for packages that python3 lacks, because this script does not change the user's Python.
venv_folder() {
  echo "$cache/venv-$({ cat requirements.txt; "$python" --version; echo -n "$torch"; } | sha256sum | cut -c1-12)"
}

# Succeeds if python3, whose PyTorch is used, also has everything else.
is_complete() {
  # shellcheck disable=SC2046
  [[ $nvcc && ! -e $(venv_folder)/.complete ]] && cmake_is_new && has_modules "$python" numpy PIL &&
    { [[ ${SLIPSTREAM_OFFLINE:-} ]] || has_modules "$python" $(extra_modules); }
}

# Creates the virtual environment with all of requirements.txt, shared by every clone. If the PyTorch of python3 is used,
# the environment also finds the packages of python3, and only missing ones are installed.
make_venv() {
  local packages
  venv=$(venv_folder)
  mkdir -p "$cache"
  exec 9>"$venv.lock"
  flock 9
  if [[ ! -e $venv/.complete ]]; then
    [[ -z ${SLIPSTREAM_OFFLINE:-} ]] ||
      die "offline, and $python lacks PyTorch, cmake 3.28, ninja, numpy, pillow or nvcc. $torch_reason"
    say "making $venv ($([[ $torch ]] && echo "with PyTorch $torch_version of $python" || echo 'PyTorch: about 5 GB'))"
    "$python" -c 'import ensurepip' 2>/dev/null || apt_install python3-venv ||
      die "Python has no venv; run: sudo apt-get install -y python3-venv"
    "$python" -m venv --clear "$venv"
    packages=$(echo "$venv"/lib/python3*/site-packages)
    [[ -z $torch ]] || realpath "$torch/../../.." >"$packages/torch.pth"
    if [[ $torch ]]; then
      # An old setuptools that comes with the environment would hide the one of python3, which PyTorch needs.
      "$venv/bin/pip" uninstall --quiet --yes setuptools 2>/dev/null || true
      # The programs of these two may not be on the path if they are packages of python3.
      "$venv/bin/pip" install --quiet --ignore-installed --requirement <(grep -E '^(cmake|ninja)' requirements.txt)
      "$venv/bin/pip" install --quiet --requirement <(grep -v '^torch=' requirements.txt)
    else
      "$venv/bin/pip" install --quiet --requirement requirements.txt
    fi
    touch "$venv/.complete"
  fi
  python=$venv/bin/python
}

# Installs nvcc from PyPI, in the version of PyTorch's CUDA and in the folder of PyTorch's CUDA libraries. nvcc expects
# other names of libraries.
add_nvcc_to_venv() {
  local root version again=()
  if [[ ! -e $venv/.cuda-complete ]]; then
    say "no nvcc $cuda here: adding the one from PyPI"
    version=$("$python" -c 'import torch; print(torch.version.cuda)')
    # Packages of another environment are not in this one's folder.
    [[ ! -e $(echo "$venv"/lib/python3*/site-packages)/torch.pth ]] || again=(--ignore-installed)
    "$python" -m pip install --quiet "${again[@]}" "$cuda_packages==$version.*"
    root=$(echo "$venv"/lib/python3*/site-packages/nvidia/cu13)
    ln -sfn lib "$root/lib64"
    ln -sf libcudart.so.13 "$root/lib/libcudart.so"
    ln -sf libnvrtc.so.13 "$root/lib/libnvrtc.so"
    touch "$venv/.cuda-complete"
  fi
  nvcc=$(echo "$venv"/lib/python3*/site-packages/nvidia/cu13/bin/nvcc)
}

find_tools() {
  venv='' nvcc=''
  python=$(find_python)
  if find_torch "$python"; then
    nvcc=$(find_nvcc "$cuda") || nvcc=
    if [[ ! $nvcc && $cuda != 13 ]]; then  # of which PyPI has an nvcc
      torch='' torch_reason="PyTorch $torch_version is built for CUDA $cuda; set CUDACXX to bin/nvcc of a toolkit $cuda.x"
    fi
  fi
  if [[ $torch ]] && is_complete; then
    path=$(dirname "$("$python" -c 'import sys; print(sys.executable)')")
    return
  fi
  [[ $torch ]] || ! has_modules "$python" torch || say "not using the PyTorch of $python: $torch_reason"
  make_venv
  path=$venv/bin
  find_torch "$python" || die "remove $venv, whose PyTorch is broken: $torch_reason"
  nvcc=$(find_nvcc "$cuda") || add_nvcc_to_venv
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

# Installs the packages of --wheel or --lint into the virtual environment. Does not change PyTorch.
install_extra_packages() {
  local list=scripts/wheel_requirements.txt
  [[ ! $lint ]] || list=tests/requirements.txt
  # shellcheck disable=SC2046
  has_modules "$python" $(extra_modules) && return 0
  [[ -z ${SLIPSTREAM_OFFLINE:-} && $venv ]] &&
    say "installing $list" &&
    "$python" -m pip install --quiet --requirement $list \
      --constraint <(sed "s/^torch=.*/torch==${torch_version%%+*}/" requirements.txt) ||
    say "going on without $list"
}

write_env() {
  local cuda
  cuda=$(dirname "$(dirname "$nvcc")")
  mkdir -p build
  cat >build/env.sh.new <<ENV
# PyTorch $torch_version
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

lint='' wheel=''
case ${1:-} in
  --lint) lint=1 ;;
  --wheel) wheel=1 ;;
  '') ;;
  *) die "unknown option $1" ;;
esac
install_packages
[[ -z $lint ]] || install_browser
find_tools
install_python_headers
install_extra_packages
write_env
release=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')
say "ready: $("$python" --version), PyTorch $torch_version, CUDA $release, $torch"
