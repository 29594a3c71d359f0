"""Compares the PyTorch of this process with the one that the package was built for."""

import torch

from . import _built_for


def check_torch() -> None:
    """Raises ImportError if the compiled module cannot be loaded next to this PyTorch. PyTorch's C++ functions differ
    between minor versions, so loading it would fail with the name of a missing symbol, or later without an error."""
    minor = ".".join(torch.__version__.split(".")[:2])
    cuda = torch.version.cuda
    major = cuda and cuda.split(".")[0]
    if (minor, major) == (_built_for.TORCH, _built_for.CUDA):
        return
    here = f"for CUDA {cuda}" if cuda else "not built for CUDA"
    raise ImportError(
        f"this slipstream was built for PyTorch {_built_for.TORCH} for CUDA {_built_for.CUDA}, but PyTorch "
        f"{torch.__version__}, {here}, is installed ({torch.__file__}). Install the wheel of slipstream whose name contains "
        f"+torch{minor}.cu{major or _built_for.CUDA}, or run 'pip install .' in a clone of slipstream, which builds it "
        f"for the PyTorch that is installed; or run: pip install 'torch=={_built_for.TORCH}.*'",
        name="slipstream", path=__file__)
