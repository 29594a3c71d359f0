#!/usr/bin/env python3
"""Finds the PyTorch that Slipstream is built for: the one that this Python imports.

    installed_torch.py     prints the folder of its CMake package, its version and the major version of its CUDA;
                           fails with the reason if Slipstream cannot be built for it

scripts/setup.sh and CMake call it as a program. scikit-build-core imports it (pyproject.toml) for the metadata that
depend on PyTorch.
"""

import importlib.util
import os
import pathlib
import re
import runpy
import subprocess
import sys

OLDEST = (2, 11)
PIN = re.compile(r"^torch==(\d+)\.(\d+)\.", re.MULTILINE)
HERE = pathlib.Path(__file__).resolve()
BUILD_HERE = "pip install 'scikit-build-core>=1.1' cmake ninja && pip install --no-build-isolation ."


def newest_tested():
    """The minor version that CI uses, for example (2, 15)."""
    return tuple(map(int, PIN.search((HERE.parents[1] / "requirements.txt").read_text()).groups()))


def find_folder():
    """Folder of the package torch, None without one. Does not import it, which takes seconds."""
    found = importlib.util.find_spec("torch")
    if found and found.origin:
        return pathlib.Path(found.origin).parent
    # pip builds in an environment that hides the packages of this Python, with these two variables.
    if {"PYTHONPATH", "PYTHONNOUSERSITE"} <= os.environ.keys():
        plain = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONNOUSERSITE")}
        code = "import importlib.util; found = importlib.util.find_spec('torch'); print(found.origin if found else '')"
        origin = subprocess.run([sys.executable, "-c", code], env=plain, cwd=HERE.parent, text=True, check=True,
                                stdout=subprocess.PIPE).stdout.strip()
        return pathlib.Path(origin).parent if origin else None
    return None


def minor_version(version):
    """(2, 15) of "2.15.0+cu132"."""
    return tuple(map(int, re.match(r"(\d+)\.(\d+)", version).groups()))


def reason_to_refuse(folder, version, cuda):
    """Why Slipstream cannot be built for this PyTorch, and what to do; None if it can."""
    oldest = ".".join(map(str, OLDEST))
    if folder is None:
        return (f"{sys.executable} has no PyTorch, or the build runs in an environment that hides it. Slipstream is "
                f"built for the PyTorch that is installed. Install PyTorch {oldest} or newer, then run: {BUILD_HERE}")
    if minor_version(version) < OLDEST:
        return (f"{folder} is PyTorch {version}, but Slipstream needs {oldest} or newer. "
                "Run: pip install --upgrade torch")
    if cuda is None:
        return (f"{folder} is PyTorch {version}, which is not built for CUDA. Install one that is; "
                "https://pytorch.org/get-started/locally has the command")
    return None


def find_torch():
    """Folder, version and CUDA version of the PyTorch to build for. Raises SystemExit with the reason without one."""
    folder, version, cuda = find_folder(), None, None
    if folder:
        described = runpy.run_path(str(folder / "version.py"))
        version, cuda = described["__version__"], described["cuda"]
    reason = reason_to_refuse(folder, version, cuda)
    if reason:
        raise SystemExit(reason)
    if minor_version(version) > newest_tested():
        print(f"note: PyTorch {version} is newer than {'.'.join(map(str, newest_tested()))}, the newest version that "
              "Slipstream was tested with", file=sys.stderr)
    return folder, version, cuda


def get_requires_for_dynamic_metadata(settings):
    find_torch()  # refuses before pip installs requirements of the build
    return []


def dynamic_metadata(settings, project):
    """The local version label names PyTorch and CUDA. It is part of the wheel's name and of its version, which `pip
    list` shows. A build tag would be part of the name only."""
    _, version, cuda = find_torch()
    minor = ".".join(map(str, minor_version(version)))
    return {"version": f"{settings['version']}+torch{minor}.cu{cuda.split('.')[0]}",
            "dependencies": [f"torch=={minor}.*"]}


if __name__ == "__main__":
    torch_folder, torch_version, torch_cuda = find_torch()
    print(torch_folder / "share" / "cmake", torch_version, torch_cuda.split(".")[0], sep="\n")
