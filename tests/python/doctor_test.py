"""slipstream.doctor changes no objects, and names the slow parts of PyTorch pipelines."""

import functools
import json
import multiprocessing
import random
import re
import traceback
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
from pipelines import Compose, Images, Stream, double, in_place, noise, sleep, slow, stated_time  # noqa: F401, a fixture
import pytest
from tensors import all_equal
import torch
from torch import nn
from torch.utils.data import DataLoader, get_worker_info

import slipstream as ss
from slipstream import _native

MODEL = nn.Sequential(nn.Flatten(), nn.Linear(192, 4))
OPTIMIZER = torch.optim.SGD(MODEL.parameters(), 0.1, momentum=0.9)


def train(batch, seconds=0.004):
    sleep(batch, seconds)
    OPTIMIZER.zero_grad()
    nn.functional.cross_entropy(MODEL(batch[0]), batch[1]).backward()
    OPTIMIZER.step()


def run_doctor(dataset, step=train, workers=0, budget=6, batch_size=4, **options):
    loader = DataLoader(dataset, batch_size, num_workers=workers, **options)
    return ss.doctor(loader, step, device="cpu", budget=budget, state=[MODEL, OPTIMIZER])


def write_and_read_report(report, folder):
    report.to_json(folder / "report.json")
    return json.loads((folder / "report.json").read_text())


LEVELS = ["processed sample", "after sleep", "after noise", "raw sample", "nothing cached"]


def test_slow_transform_is_reported_as_bottleneck(stated_time, tmp_path):
    report = run_doctor(Images(Compose([noise, slow(0.02), double]), sleep_s=0.001), shuffle=True)
    assert report.verdict == "transforms" and report.bottlenecks[0] == "transforms"
    assert any("'sleep'" in advice.description for advice in report.advice)
    assert any("num_workers=" in advice.action for advice in report.advice)
    assert not any("--" in advice.action and "python -m slipstream" not in advice.action for advice in report.advice)
    assert 0.8 / 0.004 < report.ceiling.value < 1 / 0.004
    assert 0.8 / (0.004 + 4 * 0.021) < report.rate.value < 1 / (0.004 + 4 * 0.021)
    told = write_and_read_report(report, tmp_path)
    assert (told["schema"], told["verdict"]) == ("slipstream.doctor", "transforms")
    assert [level["name"] for level in told["levels"]] == ["device batch", *LEVELS]
    costs = {cost["name"]: cost["wall_ms"]["value"] for cost in told["costs"]}
    assert 20 < costs["sleep"] < 21 and 1 < costs["data set"] < 2


def test_slow_data_set_is_reported_as_bottleneck(stated_time):
    report = run_doctor(Images(Compose([double, slow(0.001)]), sleep_s=0.02))
    assert report.verdict == "read"


def collate_slowly(samples):
    sleep(None, 0.08)
    return torch.utils.data.default_collate(samples)


def test_slow_collate_fn_is_reported_as_bottleneck(stated_time):
    report = run_doctor(Images(Compose([double, slow(0.001)])), collate_fn=collate_slowly)
    assert report.verdict == "collate" and report.bottlenecks[0] == "collate"
    assert any("make 'collate' cheaper" in advice.description for advice in report.advice)


def test_slow_step_is_reported_as_bottleneck(stated_time):
    report = run_doctor(Images(Compose([double])), step=functools.partial(train, seconds=0.05))
    assert report.verdict == "device" and report.bottlenecks == []
    assert "the CPU" in report.text()


class Batches(Images):
    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        return image[None], torch.tensor([label])


def test_bottleneck_of_stream_and_batched_data_set_is_found(stated_time):
    report = run_doctor(Stream(Images(Compose([slow(0.02)]), sleep_s=0.001)))
    assert report.verdict == "transforms"
    report = run_doctor(Batches(sleep_s=0.02), batch_size=None)
    assert report.verdict == "read"


@pytest.mark.parametrize(("dataset", "batch_size"), [
    (Images(Compose([noise, slow(0.02), double])), 4), (Stream(Images(Compose([noise, slow(0.02), double]))), 4),
    (Batches(Compose([noise, slow(0.02), double])), None)])
def test_loaders_with_workers_are_measured_at_each_level(tmp_path, dataset, batch_size):
    report = run_doctor(dataset, batch_size=batch_size, workers=2, budget=1)
    told = write_and_read_report(report, tmp_path)
    assert [level["name"] for level in told["levels"]] == ["device batch", "collated batch", *LEVELS]
    assert report.ceiling.n > 0 and report.rate.n > 0
    assert told["loader"]["batch_size"] == (batch_size or 1)
    costs = {cost["name"]: cost["wall_ms"]["value"] for cost in told["costs"]}
    assert costs["sleep"] >= 20


def test_report_is_shown_in_console_page_and_notebook(tmp_path, capsys, stated_time):
    report = run_doctor(Images(slow(0.02)))
    report.show()
    shown = capsys.readouterr().out
    assert "Slipstream doctor: Images" in shown and "device batch (the ceiling)" in shown and "--apply" not in shown
    report.to_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>\n"))
    assert report._repr_html_().startswith("<iframe srcdoc=") and "<script" not in report._repr_html_()
    assert report.verdict == "transforms" and repr(report).startswith("Verdict: transforms. ")
    assert str(report) == report.text() and report.text().startswith(repr(report) + "\n")
    assert len(repr(report).splitlines()) == 3


def test_full_disk_keeps_the_previous_report(tmp_path, full_disk):
    report = run_doctor(Images(), budget=0.3)
    for write in (report.to_json, report.to_html):
        (tmp_path / "report").write_text("of before")
        with full_disk(), pytest.raises(ss.Error, match="cannot write .*report"):
            write(tmp_path / "report")
        assert (tmp_path / "report").read_text() == "of before" and len(list(tmp_path.iterdir())) == 1
        write(tmp_path / "report")
        assert (tmp_path / "report").read_text() != "of before"


def test_figures_are_printed_with_their_intervals(stated_time):
    report = run_doctor(Images(slow(0.01)))
    assert re.fullmatch(r"[\d.]+ \[[\d.]+, [\d.]+\] steps/s", str(report.rate))
    assert repr(report.rate) == f"Measured({report.rate}, n={report.rate.n})"
    assert str(_native.Measured()) == "not measured"
    assert "object at" not in f"{report.advice!r} {report!r} {vars(report)['ceiling']!r}"


def documented_keys():
    """Returns the keys in the tables of docs/doctor-json.md, by the heading above each table."""
    keys, heading = {}, ""
    for line in (Path(__file__).parents[2] / "docs" / "doctor-json.md").read_text().splitlines():
        if found := re.match(r"## `(\w+)`", line):
            heading = found[1]
        elif line.startswith("| `"):
            keys.setdefault(heading, set()).update(re.findall(r"`(\w+)`", line.split(" | ")[0]))
    return keys


def test_documentation_lists_the_keys_of_the_json_report(stated_time, tmp_path):
    report = write_and_read_report(run_doctor(Images(Compose([noise, slow(0.02)]))), tmp_path)
    written = {"": set(report), "loader": set(report["loader"])}
    written |= {name: set(report[name][0]) for name in ("levels", "costs", "changes")}
    assert documented_keys() == written


def test_python_code_on_doctor_page_runs(photos, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").symlink_to(photos)
    page = (Path(__file__).parents[2] / "docs" / "python-doctor.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    space = {"loader": DataLoader(Images(double), 4), "model": MODEL, "optimizer": OPTIMIZER, "device": "cpu"}
    for block in blocks:
        # Whether the input is fast enough depends on the machine.
        shortened = block.replace("budget=60", "budget=0.5").replace("judge_share(0.5)", "judge_share(0)")
        exec(compile(shortened, "python-doctor.md", "exec"), space)
    assert (tmp_path / "doctor.json").exists() and (tmp_path / "doctor.html").exists()


# The user's objects do not change


def test_doctor_restores_model_optimizer_and_generators():
    dataset = Images(Compose([noise, in_place]), sleep_s=0.002)
    generator = torch.Generator().manual_seed(5)
    loader = DataLoader(dataset, 4, shuffle=True, num_workers=2, generator=generator)
    held = dict(vars(dataset))
    OPTIMIZER.zero_grad(set_to_none=True)
    weights = [each.clone() for each in MODEL.parameters()]
    state = json.dumps(OPTIMIZER.state_dict(), default=str)
    torch.manual_seed(1), random.seed(1), np.random.seed(1)
    expected = torch.rand(1), random.random(), np.random.rand(), torch.rand(1, generator=generator.clone_state())
    torch.manual_seed(1), random.seed(1), np.random.seed(1)
    report = ss.doctor(loader, train, device="cpu", budget=1, state=[MODEL, OPTIMIZER])
    assert (torch.rand(1), random.random(), np.random.rand(), torch.rand(1, generator=generator)) == expected
    assert vars(dataset) == held and dataset.transform.transforms == [noise, in_place]
    assert all_equal(weights, MODEL.parameters())
    assert json.dumps(OPTIMIZER.state_dict(), default=str) == state
    assert [each.grad for each in MODEL.parameters()] == [None, None]
    assert report.rate.n > 0 and multiprocessing.active_children() == []


def test_custom_batch_sampler_leaves_random_state_unchanged():
    class Random:
        def __iter__(self):
            return iter([[random.randrange(64) for _ in range(3)] for _ in range(5)])

    random.seed(2)
    expected = random.random()
    random.seed(2)
    loader = DataLoader(Images(slow(0.01)), batch_sampler=Random(), num_workers=1)
    report = ss.doctor(loader, train, device="cpu", budget=1)
    assert random.random() == expected and "batch 3, 1 worker" in report.text()


def test_worker_init_fn_gets_the_users_data_set():
    class Needy(Images):
        offset = 0

        def __getitem__(self, index):
            image, label = super().__getitem__(index)
            assert get_worker_info() is None or self.offset == 7
            return image, label

    def start(worker):
        get_worker_info().dataset.offset = 7

    report = run_doctor(Needy(slow(0.01)), worker_init_fn=start, workers=2, budget=1)
    assert report.rate.n > 0


# Errors


def test_failing_second_worker_is_reported_with_its_reason():
    def start(worker):
        if worker == 1:
            raise ValueError("no camera for worker 1")

    report = run_doctor(Images(slow(0.01)), worker_init_fn=start, workers=2, budget=1)
    assert "no camera for worker 1" in report.text()


def test_invalid_doctor_arguments_are_refused():
    loader = DataLoader(Images(), 4)
    with pytest.raises(ss.Refused, match=r"a slipstream.DataLoader or a slipstream.Pipeline, not list.*\n.*step cannot be called"):
        ss.doctor([1], None)
    with pytest.raises(ss.Refused, match="budget is 0"):
        ss.doctor(loader, train, budget=0)
    with pytest.raises(ss.Refused, match="state contains an object of type int"):
        ss.doctor(loader, train, state=[3])
    with pytest.raises(ss.Refused, match="gives no batch"):
        ss.doctor(DataLoader(Images(count=0), 4), train, device="cpu")


def test_errors_of_step_and_data_set_are_raised():
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
