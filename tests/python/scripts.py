"""What the tests of stages of TorchScript share."""

import warnings

import pytest
import torch
from torch import nn

from slipstream import _scripts


@pytest.fixture(autouse=True)
def on_threads(monkeypatch):
    """On a CPU as well; and TorchScript may be deprecated."""
    monkeypatch.setattr(_scripts, "DEVICES", {"cpu", "cuda"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def scripted(module):
    return torch.jit.script(module.eval())


def add_one(x: torch.Tensor) -> torch.Tensor:
    return x + 1


class AddOne(nn.Module):
    def forward(self, x):
        return add_one(x)
