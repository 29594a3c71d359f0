"""slipstream.doctor changes nothing, and names what is slow in pipelines of PyTorch."""

import functools
import json
import multiprocessing
import random
import re
import time
import traceback
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
from pipelines import Compose, Images, Stream, double, in_place, noise, sleep, slow
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, get_worker_info

import slipstream as ss

MODEL = nn.Sequential(nn.Flatten(), nn.Linear(192, 4))
OPTIMIZER = torch.optim.SGD(MODEL.parameters(), 0.1, momentum=0.9)


def train(batch, seconds=0.004):
    time.sleep(seconds)
    OPTIMIZER.zero_grad()
    nn.functional.cross_entropy(MODEL(batch[0]), batch[1]).backward()
    OPTIMIZER.step()


def examined(dataset, step=train, workers=2, budget=6.0, batch_size=4, **options):
    """The report; a busy machine may leave too little evidence, which more time makes up for."""
    loader = DataLoader(dataset, batch_size, num_workers=workers, **options)
    for more in (1, 2, 4, 8):
        report = ss.doctor(loader, step, device="cpu", budget=more * budget, state=[MODEL, OPTIMIZER])
        if report.verdict != "not_enough_evidence":
            break
    return report


@pytest.mark.parametrize("workers", [0, 2])
def test_slow_transforms_are_named(workers, tmp_path):
    report = examined(Images(Compose([noise, slow(0.02), double]), sleep_s=0.001), workers=workers, shuffle=True)
    assert report.verdict == "transforms" and report.culprits[0] == "transforms"
    assert any("'sleep'" in advice.what for advice in report.advice)
    assert any("num_workers=" in advice.how for advice in report.advice)
    assert not any("--" in advice.how and "python -m slipstream" not in advice.how for advice in report.advice)
    report.to_json(tmp_path / "report.json")
    written = json.loads((tmp_path / "report.json").read_text())
    assert (written["schema"], written["verdict"]) == ("slipstream.doctor", "transforms")
    levels = [level["name"] for level in written["levels"]]
    first = ["device batch", "collated batch"][: 1 + (workers > 0)]
    assert levels == [*first, "processed sample", "after sleep", "after noise", "raw sample", "nothing cached"]
    costs = {cost["name"]: cost["wall_ms"]["value"] for cost in written["costs"]}
    assert costs["sleep"] > 4 * costs["data set"] > 0


def test_a_slow_data_set_is_named():
    report = examined(Images(Compose([double, slow(0.001)]), sleep_s=0.02))
    assert report.verdict == "raw_reading"


def test_a_slow_step_is_named():
    report = examined(Images(Compose([double])), step=functools.partial(train, seconds=0.05))
    assert report.verdict == "gpu" and report.culprits == []
    assert "the CPU" in report.text()


def test_streams_and_data_sets_of_batches():
    report = examined(Stream(Images(Compose([slow(0.02)]), sleep_s=0.001)))
    assert report.verdict == "transforms"

    class Batches(Images):
        def __getitem__(self, index):
            image, label = super().__getitem__(index)
            return image[None], torch.tensor([label])

    report = examined(Batches(sleep_s=0.02), batch_size=None, workers=1, budget=4)
    assert report.verdict == "raw_reading"


def test_console_page_and_notebook(tmp_path, capsys):
    report = examined(Images(slow(0.02)), budget=3)
    report.show()
    shown = capsys.readouterr().out
    assert "Slipstream doctor: Images" in shown and "device batch (the ceiling)" in shown and "--apply" not in shown
    report.to_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>\n"))
    assert report._repr_html_().startswith("<iframe srcdoc=") and "<script" not in report._repr_html_()
    assert report.verdict in repr(report)


def test_what_the_page_shows(photos, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").symlink_to(photos)
    page = (Path(__file__).parents[2] / "docs" / "python-doctor.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    space = {"loader": DataLoader(Images(double), 4), "model": MODEL, "optimizer": OPTIMIZER, "device": "cpu"}
    for block in blocks:
        exec(compile(block.replace("budget=60", "budget=2"), "python-doctor.md", "exec"), space)
    assert (tmp_path / "doctor.json").exists() and (tmp_path / "doctor.html").exists()


# Nothing of the user's is changed


def test_everything_is_as_before():
    dataset = Images(Compose([noise, in_place]), sleep_s=0.002)
    generator = torch.Generator().manual_seed(5)
    loader = DataLoader(dataset, 4, shuffle=True, num_workers=2, generator=generator)
    held = dict(vars(dataset))
    weights = [each.clone() for each in MODEL.parameters()]
    state = json.dumps(OPTIMIZER.state_dict(), default=str)
    torch.manual_seed(1), random.seed(1), np.random.seed(1)
    expected = torch.rand(1), random.random(), np.random.rand(), torch.rand(1, generator=generator.clone_state())
    torch.manual_seed(1), random.seed(1), np.random.seed(1)
    ss.doctor(loader, train, device="cpu", budget=3, state=[MODEL, OPTIMIZER])
    assert (torch.rand(1), random.random(), np.random.rand(), torch.rand(1, generator=generator)) == expected
    assert vars(dataset) == held and dataset.transform.transforms == [noise, in_place]
    assert all(map(torch.equal, weights, MODEL.parameters()))
    assert json.dumps(OPTIMIZER.state_dict(), default=str) == state
    assert all(each.grad is None for each in MODEL.parameters()) or OPTIMIZER.state
    assert multiprocessing.active_children() == []


def test_batch_samplers_of_ones_own_keep_their_numbers():
    class Random:
        def __iter__(self):
            return iter([[random.randrange(64) for _ in range(3)] for _ in range(5)])

    random.seed(2)
    expected = random.random()
    random.seed(2)
    loader = DataLoader(Images(slow(0.01)), batch_sampler=Random(), num_workers=1)
    report = ss.doctor(loader, train, device="cpu", budget=2)
    assert random.random() == expected and "batch 3, 1 worker" in report.text()


def test_worker_init_functions_find_the_users_data_set():
    class Needy(Images):
        offset = 0

        def __getitem__(self, index):
            image, label = super().__getitem__(index)
            assert get_worker_info() is None or self.offset == 7
            return image, label

    def start(worker):
        get_worker_info().dataset.offset = 7

    report = examined(Needy(slow(0.01)), worker_init_fn=start, budget=3)
    assert report.rate.n > 0


# Errors


def test_errors_say_what_to_do():
    loader = DataLoader(Images(), 4)
    with pytest.raises(ss.Refused, match=r"a torch.utils.data.DataLoader or a slipstream.DataLoader, not list.*\n.*step cannot be called"):
        ss.doctor([1], None)
    with pytest.raises(ss.Refused, match="budget is 0"):
        ss.doctor(loader, train, budget=0)
    with pytest.raises(ss.Refused, match="state holds int"):
        ss.doctor(loader, train, state=[3])
    with pytest.raises(ss.Refused, match="gives no batch"):
        ss.doctor(DataLoader(Images(count=0), 4), train, device="cpu")


def test_errors_of_the_step_and_the_data_set_come_out():
    def fails(batch):
        raise ValueError("no such thing")

    with pytest.raises(ValueError, match="no such thing") as caught:
        ss.doctor(DataLoader(Images(), 4), fails, device="cpu", budget=1)
    assert "in the step" in caught.value.__notes__[0]

    seen = []

    def fails_later(batch):
        seen.append(batch)
        if len(seen) > 2:
            fails(batch)

    with pytest.raises(ss.Error, match="neither the ceiling nor the whole loop.*ValueError: no such thing") as caught:
        ss.doctor(DataLoader(Images(), 4), fails_later, device="cpu", budget=1)
    assert isinstance(caught.value.__cause__, ValueError)
    assert "fails_later" in [frame.name for frame in traceback.extract_tb(caught.value.__cause__.__traceback__)]

    class Broken(Images):
        def __getitem__(self, index):
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        ss.doctor(DataLoader(Broken(), 4), train, device="cpu", budget=1)
