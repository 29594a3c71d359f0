"""Runs the Python code in the README and in the pages of docs/ on Python."""

import re
from pathlib import Path

import pytest
import torch
from torch import nn

ROOT = Path(__file__).resolve().parents[2]


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def given_variables():
    """Returns the variables that the code on a page does not define."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    decoder, encoder = nn.LazyLinear(3).to(device), nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten()).to(device)
    images = [(torch.randn(3, 32, 32), torch.tensor(i % 3)) for i in range(70)]
    return {
        "torch": torch,
        "device": device,
        "images": images,
        "loader": torch.utils.data.DataLoader(images, 8),
        "frozen_encoder": encoder,
        "encoder": encoder.eval().requires_grad_(False),
        "decoder": decoder,
        "optimizer": torch.optim.SGD(decoder.parameters(), lr=0.1),
    }


PARTS = ("", "-pipeline", "-loader", "-data", "-trainer", "-watch")
PAGES = ["README.md", *(f"docs/python{part}.md" for part in PARTS), "docs/cuda-graphs.md", "docs/feature-cache.md"]


@pytest.mark.parametrize("page", PAGES)
def test_python_code_on_page_runs(page, photos, monkeypatch):
    monkeypatch.chdir(photos.parent)
    shown = blocks(page)
    assert shown
    space = given_variables()
    for block in shown:
        if not torch.cuda.is_available():
            block = block.replace('"cuda"', '"cpu"').replace("pin_memory=True", "pin_memory=False")
        block = block.replace("batch_size=256", "batch_size=16").replace("Crop(224)", "Crop(32)")
        exec(compile(block, page, "exec"), space)
    assert len(space["labels"]) > 0
