"""slipstream.doctor finds frozen modules that run before the trained ones, and advises to store their results."""

import types

import pytest
from pipelines import Images, noise, stated_time  # noqa: F401, a fixture
import torch
from torch import nn
from torch.utils.data import DataLoader

import slipstream as ss
from slipstream import _native
from slipstream._doctor import frozen
from slipstream._doctor.frozen import Features, cache_change, find_frozen, stage_change
from slipstream._doctor.graphs import STEP, LoopTimes, Work
from slipstream._doctor.launches import Launches
from slipstream._doctor.routes import PipelineRoute


def measured(value, half=0.01, unit="steps/s"):
    return _native.Measured(value, value * (1 - half), value * (1 + half), unit, 8)


class Slow(nn.Linear):
    """Takes 30 ms of stated time."""

    def forward(self, x):
        if CLOCK is not None:
            CLOCK.sleep(0.03)
        return super().forward(x)


CLOCK = None


@pytest.fixture
def clock(stated_time, monkeypatch):
    monkeypatch.setattr(frozen, "time", stated_time)
    monkeypatch.setitem(globals(), "CLOCK", stated_time)
    return stated_time


class Loop:
    """A step that calls an encoder, a trained head and perhaps other modules."""

    def __init__(self, device="cpu"):
        torch.manual_seed(1)
        self.encoder = Slow(6, 5).eval().requires_grad_(False).to(device)
        self.head = nn.Linear(5, 2).to(device)
        self.teacher = nn.Linear(6, 5).eval().requires_grad_(False).to(device)
        self.before, self.after = (lambda x: None), (lambda x, features: None)

    def step(self, batch):
        self.before(batch)
        features = self.encoder(batch)
        self.head(features).sum().backward()
        self.after(batch, features)

    def found(self):
        return find_frozen(self.step, lambda: self.step(torch.ones(4, 6)), "cpu", 4, 0.1)


def test_frozen_module_before_trained_ones_is_found_with_its_time_and_bytes(clock):
    (found,) = Loop().found()
    assert found.name.endswith("encoder") and found.bytes_per_sample == 5 * 4
    assert 0.03 <= found.seconds < 0.031


def train_encoder(loop):
    loop.encoder.requires_grad_(True)


def put_into_training_mode(loop):
    loop.encoder.train()


def call_twice(loop):
    loop.before = loop.encoder


def call_after_the_head(loop):
    loop.before = lambda x: loop.head(torch.ones(1, 5))


def follow_the_student(loop):
    def follow(batch, features):
        with torch.no_grad():
            loop.encoder.weight.lerp_(torch.ones_like(loop.encoder.weight), 0.1)

    loop.after = follow


def give_gradients(loop):
    loop.step = lambda batch: loop.head(loop.encoder(batch.requires_grad_())).sum().backward()


def freeze_everything(loop):
    loop.head.requires_grad_(False)
    loop.step = lambda batch: loop.head(loop.encoder(batch))


@pytest.mark.parametrize("change", [train_encoder, put_into_training_mode, call_twice, call_after_the_head,
                                    follow_the_student, give_gradients, freeze_everything])
def test_modules_whose_results_cannot_be_stored_are_not_found(change):
    loop = Loop()
    change(loop)
    assert loop.found() == []


def test_teacher_after_the_trained_module_is_not_found():
    loop = Loop()
    loop.after = lambda batch, features: loop.teacher(batch)
    assert [each.name.rpartition(".")[2] for each in loop.found()] == ["encoder"]


def test_all_frozen_modules_before_the_trained_one_are_found():
    loop = Loop()
    loop.before = loop.teacher
    assert {each.name.rpartition(".")[2] for each in loop.found()} >= {"encoder"} and len(loop.found()) == 2


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5)).eval().requires_grad_(False)
        self.head = nn.Linear(5, 2)

    def forward(self, x):
        return self.head(self.encoder(x))


def test_frozen_part_of_a_module_is_found():
    model = Whole()

    def step(batch):
        model(batch).sum().backward()

    (found,) = find_frozen(step, lambda: step(torch.ones(4, 6)), "cpu", 4, 0.1)
    assert found.name == "model.encoder" and found.bytes_per_sample == 20


def test_no_hook_remains():
    loop = Loop()
    loop.found()
    for each in (loop.encoder, loop.head, loop.teacher):
        assert not each._forward_hooks and not each._forward_pre_hooks

    def fails(batch):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        find_frozen(loop.step, lambda: fails(None), "cpu", 4, 0.1)
    assert not loop.encoder._forward_hooks and not loop.head._forward_pre_hooks


def test_result_without_batch_dimension_has_no_bytes():
    assert frozen._bytes_per_sample((torch.zeros(4, 3), {"x": torch.zeros(4, dtype=torch.uint8)}), 4) == 13
    assert frozen._bytes_per_sample((torch.zeros(4, 3), torch.zeros(2)), 4) == 0
    assert frozen._bytes_per_sample(torch.zeros(()), 4) == 0


GIB = 2**30
FEATURES = {"names": ["encoder"], "bytes_per_sample": 2**20, "samples": 50_000, "is_random": False,
            "device_bytes": 100 * GIB, "host_bytes": 30 * GIB}


@pytest.mark.parametrize(("facts", "tier", "cache"), [
    ({}, "in device memory", 'cache="auto"'),
    ({"device_bytes": 30 * GIB}, "in device memory and page-locked memory", 'cache="auto"'),
    ({"device_bytes": 1 * GIB, "host_bytes": 90 * GIB}, "in page-locked memory", 'cache="auto"'),
    ({"device_bytes": 0, "host_bytes": 90 * GIB}, "in memory", 'cache="auto"'),
    ({"device_bytes": 0}, "in a folder on disk", 'cache=slipstream.FeatureCache("features/")'),
    ({"is_random": True}, "several versions", "cache=slipstream.FeatureCache(versions=4)"),
])
def test_advice_names_bytes_tier_and_gain(facts, tier, cache):
    change = cache_change(Features(**FEATURES | facts), measured(46), measured(125))
    assert "the frozen 'encoder'" in change.description and "1 MiB for a sample, 48.8 GiB for all 50000" in change.description
    assert tier in change.description and cache in change.action and "from the second epoch on" in change.description
    assert change.gain.value == pytest.approx(125 / 46, rel=1e-3) and change.id == "feature_cache"


def test_nothing_is_advised_without_gain_or_size():
    assert cache_change(Features(**FEATURES), measured(46), measured(47)) is None
    assert cache_change(Features(**FEATURES | {"bytes_per_sample": 0}), measured(46), measured(125)) is None
    assert cache_change(Features(**FEATURES | {"samples": 0}), measured(46), measured(125)) is None
    assert stage_change(["encoder"], measured(46), measured(47)) is None


def test_stage_is_advised_with_the_rate_of_graphs():
    # An encoder of 60 % of a step whose launches take 20 ms and whose work on the GPU takes 4 ms.
    times = LoopTimes([Work(STEP, Launches(0.02, measured(0.004, unit="s")))], other_host_s=1e-3)
    predicted = times.rate_with_stages(0.6)
    assert 1 / predicted.value == pytest.approx(0.004 * (1 - 0.2 * 0.4))
    change = stage_change(["model.encoder"], measured(48), predicted)
    assert change.action.startswith('slipstream.Pipeline(loader, stages=[("encoder", model.encoder)], graphs=True)')


def test_doctor_advises_to_store_the_features_of_a_step(clock):
    loop = Loop()
    loop.encoder, loop.head = Slow(192, 8).eval().requires_grad_(False), nn.Linear(8, 2)

    def step(batch):
        loop.head(loop.encoder(batch[0].flatten(1))).sum().backward()
        clock.sleep(0.01)

    report = ss.doctor(DataLoader(Images(), 4), step, device="cpu", budget=10)
    advice = next(each for each in report.advice if "FeatureCache" in each.action or "cache=" in each.action)
    assert advice.gain.value == pytest.approx(4, rel=0.15) and "32 bytes for a sample, 2 KiB for all 64" in advice.description
    assert 'cache="auto"' in advice.action and advice.effort == "code"


def test_doctor_advises_to_store_the_results_of_a_stage(clock):
    encoder, head = nn.Sequential(nn.Flatten(), Slow(192, 8)).eval().requires_grad_(False), nn.Linear(8, 2)

    def step(batch):
        head(batch[0]).sum().backward()
        clock.sleep(0.01)

    loader = DataLoader(Images(noise), 4)
    report = ss.doctor(ss.Pipeline(loader, [("encode", encoder)], "cpu", plan="serial"), step, budget=10)
    (advice,) = [each for each in report.advice if "cache=" in each.action]
    assert "the frozen 'encode'" in advice.description and "versions=4" in advice.action
    assert advice.gain.value == pytest.approx(4, rel=0.15)


def test_stage_with_a_cache_gets_no_second_one():
    encoder = nn.Flatten().eval()
    pipe = ss.Pipeline(DataLoader(Images(), 4), [("encode", encoder)], "cpu")
    measurements = types.SimpleNamespace(
        route=PipelineRoute(pipe), user_step=None, batch_for_step=lambda: [torch.zeros(4, 3), torch.zeros(4)])
    assert frozen._found(measurements).bytes_per_sample == 16
    pipe.stages[0].cache = "auto"
    assert frozen._found(measurements) is None


@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_frozen_module_is_timed_on_a_gpu(device):
    encoder = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(20)]).eval().requires_grad_(False).to(device)
    head = nn.Linear(2048, 2).to(device)

    def step(batch):
        with torch.no_grad():
            features = encoder(batch)
        head(features).sum().backward()

    batch = torch.ones(4096, 2048, device=device)
    (found,) = find_frozen(step, lambda: step(batch), f"{device}:0", 4096, 0.5)
    assert found.seconds > 1e-3 and found.bytes_per_sample == 2048 * 4
    loader = DataLoader([torch.ones(2048) for _ in range(512)], 256)
    report = ss.doctor(loader, step, budget=8)
    assert any("cache=" in each.action for each in report.advice) or report.verdict == "not_enough_evidence", report.text()


class Compiler:
    """A backend of torch.compile that counts what it compiles."""

    def __init__(self):
        self.count = 0

    def __call__(self, module, inputs):
        self.count += 1
        return module.forward


def test_compiled_modules_are_found_and_not_compiled_again():
    compiler, encoder, head = Compiler(), nn.Linear(6, 5).eval().requires_grad_(False), nn.Linear(5, 2)
    encode, model = (torch.compile(each, backend=compiler) for each in (encoder, head))

    def step(batch):
        model(encode(batch)).sum().backward()
        nn.utils.clip_grad_norm_(head.parameters(), 1.0)

    step(torch.ones(4, 6))
    compiled = compiler.count
    (found,) = find_frozen(step, lambda: step(torch.ones(4, 6)), "cpu", 4, 0.1)
    assert found.name == "encode" and found.bytes_per_sample == 20
    step(torch.ones(4, 6))
    assert compiler.count == compiled > 0


@pytest.mark.parametrize("is_function", [True, False])
def test_functions_and_modules_that_are_compiled_in_place_are_not_hooked(is_function):
    loop = Loop()
    if is_function:
        loop.after = torch.compile(lambda batch, features: None, backend="eager")
    else:
        loop.teacher.compile(backend="eager")
    assert find_frozen(loop.step, lambda: pytest.fail("the step was called"), "cpu", 4, 0.1) == []
    assert find_frozen(torch.compile(Loop().step, backend="eager"), lambda: pytest.fail("called"), "cpu", 4, 0.1) == []
