"""slipstream.doctor also examines the native loader."""

import json
import os
import re
import signal
import threading

import pytest
from tensors import all_equal
import torch
from torch import nn
from torch.utils.data import BatchSampler, WeightedRandomSampler

import slipstream as ss
from slipstream import _native

T = ss.transforms
MODEL = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 3))
OPTIMIZER = torch.optim.SGD(MODEL.parameters(), 0.1, momentum=0.9)
CHAIN = T.Compose([T.Resize((128, 128)), T.GaussianBlur(63, (9, 10)), T.RandomCrop(32), T.Normalize([0.5], [0.5])])
STEPS = ["read", "decode", "resize_0", "gaussian_blur_1", "random_crop_2", "normalize_3", "collate"]


@pytest.fixture(autouse=True)
def model(device):
    MODEL.to(device)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # more PyTorch threads would compete with the workers for cores
    yield
    torch.set_num_threads(threads)


def train(batch):
    OPTIMIZER.zero_grad()
    nn.functional.cross_entropy(MODEL(batch[0]), batch[1]).backward()
    OPTIMIZER.step()


def make_loader(photos, device, transform=CHAIN, **options):
    return ss.DataLoader(ss.ImageFolder(photos, transform), 4, True, num_workers=2, device=device, **{"seed": 0} | options)


def written(report, folder):
    report.to_json(folder / "report.json")
    return json.loads((folder / "report.json").read_text())


def test_report_has_level_and_cost_of_each_loader_step(photos, device, tmp_path):
    loader = make_loader(photos, device)
    report = ss.doctor(loader, train, budget=2, state=[MODEL, OPTIMIZER])
    told = written(report, tmp_path)
    host = "collated batch" if device == "cpu" else "host batch, pinned"
    assert [level["name"] for level in told["levels"]] == [
        "device batch", host, "processed sample", "after random_crop_2", "after gaussian_blur_1", "after resize_0",
        "decoded sample", "file bytes", "nothing cached"]
    assert [cost["name"] for cost in told["costs"]] == STEPS
    assert report.ceiling.n > 0 and report.rate.n > 0 and told["workload"]["name"] == "ImageFolder"
    assert ("wire=" in report.text()) == (device != "cpu")


def exact_value(value, unit):
    return _native.Measured(value, 0.99 * value, 1.01 * value, unit, 16)


def replace_costs(observed, slow="gaussian_blur_1", waits=False):
    """Replaces measurements: a step takes 20 ms, all other steps take almost no time, and a training step takes 1
    ms.

    waits: whether the slow step waits instead of computing."""
    capacity, host, levels = _native.MachineCapacity(), observed.host, observed.levels
    capacity.cores = 8
    for cost in host:
        seconds = 0.02 if cost.name == slow else 1e-5
        cost.wall_s, cost.cpu_s = [seconds] * 16, [1e-5 if waits else seconds] * 16
        cost.wall_of_all_s, cost.cpu_of_all_s = seconds, cost.cpu_s[0]
    runs_slow = {"", *STEPS[: STEPS.index(slow)]}  # levels that still run the slow step
    for level in levels:
        level.with_training = exact_value(2 / 0.08 if level.after in runs_slow else 1000, "steps/s")
        if level.loader_alone is not None:
            level.loader_alone = exact_value(2 / 0.08 if level.after in runs_slow else 4000, "steps/s")
    observed.capacity, observed.host, observed.levels = capacity, host, levels
    observed.rate_of_one_worker, observed.rate_of_all_workers = (exact_value(n / 0.02, "samples/s") for n in (1, 2))
    observed.device = [_native.DeviceCost(name, exact_value(seconds, "s"), 0, 0)
                       for name, seconds in (("copy", 1e-5), ("step", 1e-3))]
    observed.line_cpu_s = 1e-3
    observed.set_cores(8)


def test_advice_names_arguments_of_native_loader(photos, device, monkeypatch):
    def diagnose(observed):
        replace_costs(observed)
        return measured_diagnosis(observed)

    measured_diagnosis = _native.diagnose
    monkeypatch.setattr(_native, "diagnose", diagnose)
    report = ss.doctor(make_loader(photos, device), train, budget=1, state=[MODEL, OPTIMIZER])
    assert report.verdict == "transforms" and report.bottlenecks == ["transforms"]
    assert any("'gaussian_blur_1'" in advice.description for advice in report.advice)
    for advice in report.advice:
        assert re.search(r"slipstream\.|num_workers=|in the code of", advice.action), advice
        assert "--" not in advice.action or "python -m slipstream convert" in advice.action


def test_caches_and_reading_ahead_are_advised_for_slow_storage(photos, device, monkeypatch):
    def diagnose(observed):
        replace_costs(observed, "read", waits=True)
        return measured_diagnosis(observed)

    measured_diagnosis = _native.diagnose
    monkeypatch.setattr(_native, "diagnose", diagnose)
    report = ss.doctor(make_loader(photos, device), train, budget=1, state=[MODEL, OPTIMIZER])
    actions = [advice.action for advice in report.advice]
    assert report.verdict == "read" and all(advice.gain.value > 1.5 for advice in report.advice), report.text()
    assert any(re.fullmatch(r"slipstream\.DataLoader\(\.\.\., read_ahead=\d+\)", action) for action in actions)
    (cache,) = (action for action in actions if "cache=" in action)
    given = re.fullmatch(r"slipstream\.DataLoader\(\.\.\., cache='(.*)'\)", cache)[1]
    assert given.startswith("resize_0="), "the last step before a random one"
    assert make_loader(photos, device, cache=given).cache_state["samples"] == 0, "the loader accepts the advice"


def test_doctor_changes_neither_loader_model_nor_generator(photos, device):
    loader = make_loader(photos, device)
    rest = iter(loader)
    first = next(rest)
    before = [each.clone() for each in MODEL.parameters()]
    torch.manual_seed(4)
    ss.doctor(loader, train, budget=1, state=[MODEL, OPTIMIZER])
    drawn = torch.rand(2)
    torch.manual_seed(4)
    assert torch.equal(drawn, torch.rand(2)) and all_equal(before, MODEL.parameters())
    unused = ss.DataLoader(ss.ImageFolder(photos, CHAIN), 4, shuffle=True, device=device)
    torch.manual_seed(4)
    ss.doctor(unused, train, budget=1, state=[MODEL, OPTIMIZER])
    assert torch.equal(drawn, torch.rand(2))  # the seed of the loader is not sampled yet
    others = iter(make_loader(photos, device))
    for ours in (first, *rest):
        assert all_equal(ours, next(others))


def test_partial_last_batch_is_measured(photos, device, tmp_path):
    report = ss.doctor(make_loader(photos, device, T.CenterCrop(32)), lambda batch: batch[0].float().mean(), budget=1)
    assert [cost["name"] for cost in written(report, tmp_path)["costs"]] == [
        "read", "decode", "center_crop_0", "collate"]


def test_mixup_is_reported_as_part_of_the_measurement(photos, device):
    def train_mixed(batch):
        nn.functional.cross_entropy(MODEL(batch[0]), batch[1]).backward()

    chain = T.Compose([T.CenterCrop(32), T.Normalize([0.5], [0.5]), T.MixUp()])
    report = ss.doctor(make_loader(photos, device, chain), train_mixed, budget=1)
    assert "is measured together with MixUp, which follows it" in report.text()


@pytest.mark.parametrize("uses_batches", [False, True])
def test_samples_of_a_sampler_are_measured_without_changing_it(photos, device, uses_batches):
    generator, seen = torch.Generator().manual_seed(4), set()
    sampler = WeightedRandomSampler([1.0] * 3 + [0.0] * 46 + [1.0], 13, generator=generator)
    order = {"batch_sampler": BatchSampler(sampler, 4, False)} if uses_batches else {"sampler": sampler, "batch_size": 4}
    data = ss.ImageFolder(photos, T.CenterCrop(32))
    states = generator.get_state(), torch.get_rng_state()
    expected = {photo.numpy().tobytes() for photo in (data[i][0] for i in (0, 1, 2, 49))}

    def step(batch):
        assert len(batch[0]) == 4
        seen.update(photo.cpu().contiguous().numpy().tobytes() for photo in batch[0])
        return batch[0].float().mean()

    report = ss.doctor(ss.DataLoader(data, num_workers=2, device=device, seed=0, **order), step, budget=1)
    assert report.rate.n > 0
    assert len(seen) > 1 and seen <= expected
    assert torch.equal(generator.get_state(), states[0]) and torch.equal(torch.get_rng_state(), states[1])


@pytest.mark.parametrize(("make", "message"), [
    (lambda photos, device: ss.DataLoader(ss.ImageFolder(photos, CHAIN), batch_sampler=[[1, 2], [3], [4, 5]],
                                          device=device), "lists batches of 1 to 2 samples"),
    (lambda photos, device: Own(ss.ImageFolder(photos, CHAIN), 4, device=device), r"defines its own __iter__\(\)")])
def test_loaders_that_cannot_be_measured_are_refused(photos, device, make, message):
    with pytest.raises(ss.Refused, match=message):
        ss.doctor(make(photos, device), train, budget=1)


class Own(ss.DataLoader):
    def __iter__(self):
        return iter([])


def test_device_other_than_that_of_the_loader_is_refused(photos):
    with pytest.raises(ss.Refused, match="device is .*, but the loader gives batches on 'cpu'|no GPU here"):
        ss.doctor(make_loader(photos, "cpu"), train, device="cuda")


def test_step_errors_are_raised_and_ctrl_c_interrupts(photos, device):
    def fails(batch):
        raise ValueError("no such thing")

    with pytest.raises(ValueError, match="no such thing"):
        ss.doctor(make_loader(photos, device), fails, budget=1)
    interrupt = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        interrupt.start()
        ss.doctor(make_loader(photos, device), train, budget=600, state=[MODEL, OPTIMIZER])
    interrupt.join()
