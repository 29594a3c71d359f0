"""A package that was built for another PyTorch refuses to be imported, before its compiled module is loaded."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import slipstream
import torch

BUILT_FOR = {}
exec((Path(slipstream.__file__).parent / "_built_for.py").read_text(), BUILT_FOR)  # noqa: S102


def import_package_built_for(folder, minor, cuda):
    """Imports a copy of the package whose compiled module ends the process when it is loaded."""
    package = folder / "slipstream"
    shutil.copytree(Path(slipstream.__file__).parent, package,
                    ignore=shutil.ignore_patterns("_native*", "__pycache__"))
    (package / "_native.py").write_text("raise SystemExit('the compiled module was loaded')\n")
    (package / "_built_for.py").write_text(f"TORCH = {minor!r}\nCUDA = {cuda!r}\n")
    return subprocess.run([sys.executable, "-B", "-c", "import slipstream"], cwd=folder, text=True, check=False,
                          env={"PYTHONPATH": str(folder)}, capture_output=True).stderr


def test_build_is_recorded_for_installed_torch():
    assert torch.__version__.startswith(BUILT_FOR["TORCH"] + ".")
    assert torch.version.cuda.startswith(BUILT_FOR["CUDA"] + ".")


@pytest.mark.parametrize(("minor", "cuda"), [("2.10", None), ("2.1", None), (None, "12")])
def test_other_minor_version_or_cuda_is_import_error_with_remedy(tmp_path, minor, cuda):
    minor, cuda = minor or BUILT_FOR["TORCH"], cuda or BUILT_FOR["CUDA"]
    error = import_package_built_for(tmp_path, minor, cuda)
    assert f"ImportError: this slipstream was built for PyTorch {minor} for CUDA {cuda}, but PyTorch " in error
    assert f"but PyTorch {torch.__version__}, for CUDA {torch.version.cuda}, is installed" in error
    assert f"the wheel of slipstream whose name contains +torch{BUILT_FOR['TORCH']}.cu{BUILT_FOR['CUDA']}" in error
    assert "pip install ." in error and "was loaded" not in error, error


def test_same_minor_version_loads_compiled_module(tmp_path):
    assert "the compiled module was loaded" in import_package_built_for(tmp_path, BUILT_FOR["TORCH"], BUILT_FOR["CUDA"])
