import contextlib
import gc
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import slipstream as ss

sys.path.append(str(Path(__file__).parents[1] / "support"))

DEVICES = ["cpu", "cuda"]


@pytest.fixture(params=DEVICES)
def device(request):
    """Runs each test that uses it on a CPU and on a GPU."""
    if request.param == "cuda" and not torch.cuda.is_available():
        if os.environ.get("SLIPSTREAM_REQUIRE_GPU") == "1":
            pytest.fail("there is no GPU")
        pytest.skip("no GPU here")
    return request.param


@pytest.fixture
def deterministic(device):
    """Uses deterministic algorithms on a CPU during one test."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(device == "cpu")
    yield
    torch.use_deterministic_algorithms(before)


@pytest.fixture(autouse=True)
def _sufficient_budget(monkeypatch):
    """Repeats an examination with the budget that a refusal proposes, because a busy machine needs more time."""
    module = sys.modules["slipstream.doctor"]
    examine = module._examined

    def examine_again(loop, loader, budget, *rest):
        for _ in range(4):
            try:
                return examine(loop, loader, budget, *rest)
            except ss.Refused as refused:
                proposed = re.search(r"give a budget of (\d+) s", str(refused))
                if proposed is None:
                    raise
                budget = float(proposed[1])
        return examine(loop, loader, budget, *rest)

    monkeypatch.setattr(module, "_examined", examine_again)


@pytest.fixture(autouse=True)
def _no_garbage_on_a_gpu():
    """Collects garbage before each test, because a forked worker that collects an object on the GPU aborts."""
    if torch.cuda.is_initialized():
        gc.collect()


@pytest.fixture
def full_disk():
    """Returns a context manager in which no file can grow beyond 16 bytes."""
    @contextlib.contextmanager
    def full():
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (16, limits[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    return full


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    """Creates a folder with three class folders and 50 JPEG files of 40 x 40."""
    folder = tmp_path_factory.mktemp("data") / "photos"
    program = os.environ.get("SLIPSTREAM", Path(__file__).parents[2] / "build" / "slipstream")
    subprocess.run([program, "make-data", "classification", "--out", folder, "--samples", "50",
                    "--classes", "3", "--size", "40"], check=True, capture_output=True)
    return folder
