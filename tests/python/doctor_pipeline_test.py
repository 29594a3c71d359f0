"""slipstream.doctor examines the loop over a slipstream.Pipeline."""

import json
import multiprocessing

import pytest
from pipelines import Compose, Images, double, slow, stated_time  # noqa: F401, a fixture
import torch
from torch import nn
from torch.utils.data import DataLoader

import slipstream as ss
from slipstream import _native
from slipstream._doctor import trials
from slipstream._doctor.routes import PipelineRoute

ENCODER = nn.Sequential(nn.Flatten(), nn.Linear(192, 8)).eval().requires_grad_(False)
HEAD = nn.Linear(8, 4)
OPTIMIZER = torch.optim.SGD(HEAD.parameters(), 0.1)


@pytest.fixture(autouse=True)
def on_device(request):
    device = request.getfixturevalue("device") if "device" in request.fixturenames else "cpu"
    ENCODER.to(device)
    HEAD.to(device)


def train(batch):
    features, labels = batch
    assert features.shape[1:] == (8,)  # the stage has been applied
    OPTIMIZER.zero_grad()
    nn.functional.cross_entropy(HEAD(features), labels).backward()
    OPTIMIZER.step()


def examined(pipeline, step=train, budget=1, **options):
    return ss.doctor(pipeline, step, budget=budget, state=[HEAD, OPTIMIZER], **options)


def written(report, folder):
    report.to_json(folder / "report.json")
    return json.loads((folder / "report.json").read_text())


@pytest.mark.parametrize("plan", ["pipelined", "serial", "auto"])
@pytest.mark.parametrize("workers", [0, 2])
def test_stages_are_work_of_the_device_before_the_step(device, tmp_path, workers, plan):
    loader = DataLoader(Images(Compose([double])), 4, num_workers=workers)
    pipeline = ss.Pipeline(loader, [("encode", ENCODER)], device, plan=plan)
    before = [each.clone() for each in HEAD.parameters()]
    report = examined(pipeline, budget=4)
    saved = written(report, tmp_path)
    names = [level["name"] for level in saved["levels"]]
    assert names[0] == "device batch" and names[-3:] == ["processed sample", "raw sample", "nothing cached"]
    assert [cost["name"] for cost in saved["costs"]] == ["data set", "double", "collate"]
    assert report.ceiling.n > 0 and report.rate.n > 0
    assert all(torch.equal(now, then) for now, then in zip(HEAD.parameters(), before, strict=True))
    assert not multiprocessing.active_children()


def test_slow_transform_before_a_stage_is_the_bottleneck(stated_time):
    loader = DataLoader(Images(Compose([double, slow(0.02)])), 4)
    report = examined(ss.Pipeline(loader, [("encode", ENCODER)], "cpu"), budget=3)
    assert report.verdict == "transforms"


def test_slow_stage_is_no_bottleneck_of_the_input(stated_time, tmp_path):
    def encode(images):
        slow(0.05)(None)
        return ENCODER(images)

    loader = DataLoader(Images(Compose([double])), 4)
    report = examined(ss.Pipeline(loader, [("encode", encode)], "cpu"), budget=10)
    assert report.verdict == "device" and report.bottlenecks == []
    costs = {cost["name"]: cost["seconds"]["value"] for cost in written(report, tmp_path)["device"]}
    assert list(costs) == ["stage encode", "step"] and 0.05 < costs["stage encode"] < 0.052 and costs["step"] < 1e-3


def test_pipeline_around_a_native_loader_is_measured_with_its_stages(photos, device, tmp_path):
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 8)).eval().requires_grad_(False).to(device)
    data = ss.ImageFolder(photos, ss.transforms.Compose([ss.transforms.CenterCrop(32), ss.transforms.ToDtype()]))
    loader = ss.DataLoader(data, 4, num_workers=2, device=device, seed=0)
    for plan in ("pipelined", "serial"):
        saved = written(examined(ss.Pipeline(loader, [("encode", encoder)], plan=plan)), tmp_path)
        assert [cost["name"] for cost in saved["costs"]][:2] == ["read", "decode"]
        assert saved["levels"][0]["name"] == "device batch" and saved["workload"]["options"]["plan"] == plan
    assert loader.epoch == 0


def test_stage_that_writes_to_its_batch_is_reported(device):
    def halve(images):
        return images.mul_(0.5).flatten(1)[:, :8]

    report = examined(ss.Pipeline(DataLoader(Images(), 4), [("halve", halve)], device))
    assert "stage 'halve' writes to its batch" in report.text()


def test_state_of_a_stage_is_restored(device):
    scale = torch.ones(1, device=device)

    def scaled(images):
        scale.mul_(0.5)
        return images.flatten(1)[:, :8] * scale

    examined(ss.Pipeline(DataLoader(Images(), 4), [("scale", scaled)], device))
    assert scale.item() == 1


def test_pipeline_around_other_batches_and_another_device_are_refused():
    with pytest.raises(ss.Refused, match="loader of the slipstream.Pipeline is of type list"):
        examined(ss.Pipeline([torch.ones(2, 8)], device="cpu"))
    with pytest.raises(ss.Refused, match="device is .*, but the loader gives batches on 'cpu'|no GPU here"):
        examined(ss.Pipeline(DataLoader(Images(), 4), device="cpu"), device="cuda")


def test_code_of_a_change_creates_the_pipeline_again():
    pipe = ss.Pipeline(DataLoader(Images(), 4, drop_last=True), [("encode", ENCODER)], "cpu", run_ahead=3)

    class Measurements:
        route, loaders, device = PipelineRoute(pipe), None, "cpu"
        samples = type("Samples", (), {"parts": None})

    for names in (trials.Names("pipe", "loader", is_new=True), trials.Names("pipe", "mine")):
        made = trials._Trials(Measurements, names)
        code = made._in_loop(trials.rebuilt(pipe.loader, names.loader, {"num_workers": 1}))
        variables = {"pipe": pipe, "mine": pipe.loader}
        exec(code, variables)
        new = variables["pipe"]
        assert isinstance(new, ss.Pipeline) and new.loader.num_workers == 1 and new.loader.drop_last
        assert new.stages == pipe.stages and new.run_ahead == 3 and new.plan == "pipelined"
        assert next(iter(new))[0].shape == (4, 8)


def test_code_does_not_use_the_name_of_the_pipeline_for_its_loader(monkeypatch):
    names = []
    monkeypatch.setattr(trials, "try_out", lambda measurements, diagnosis, given, *_: names.append(given))
    loader = ss.Pipeline(DataLoader(Images(), 4), device="cpu")
    ss.doctor(loader, lambda batch: None, budget=0.3)
    inner = loader.loader
    ss.doctor(loader, lambda batch: None, budget=0.3)
    assert names == [trials.Names("loader", "inner_loader", is_new=True), trials.Names("loader", "inner")]
    assert inner is loader.loader


@pytest.mark.parametrize("plan", ["serial", "auto", "pipelined"])
def test_code_keeps_the_plan_of_the_pipeline(plan):
    pipe = ss.Pipeline(DataLoader(Images(), 4), device="cpu", plan=plan)
    variables = {"pipe": pipe}
    exec(PipelineRoute(pipe).code("pipe", "pipe.loader"), variables)
    assert variables["pipe"] is not pipe and variables["pipe"].plan == plan
    exec(PipelineRoute(pipe).code("pipe", "pipe.loader", "pipelined"), variables)
    assert variables["pipe"].plan == "pipelined"


def test_changes_of_a_pipeline_are_tried_with_its_stages():
    pipe = ss.Pipeline(DataLoader(Images(Compose([slow(0.004)])), 4), [("encode", ENCODER)], "cpu")
    report = examined(pipe, budget=4)
    for advice in report.advice:
        if advice.code:
            assert "pipeline = ss.Pipeline(" in advice.code and "stages" in advice.code  # the variable in examined()
            exec(advice.code, variables := {"pipeline": pipe})
            assert next(iter(variables["pipeline"]))[0].shape == (4, 8)
