"""Stages and fixtures for tests of TorchScript stages."""

import warnings

import pytest
import torch
from torch import nn

from slipstream import _scripts


@pytest.fixture(autouse=True)
def on_threads(monkeypatch):
    """Uses threads on a CPU, too, and ignores warnings that TorchScript is deprecated."""
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
