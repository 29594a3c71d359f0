"""Invalid arguments are refused with a message that names a valid alternative."""

import json
import warnings

import numpy
import pytest
import torch

import slipstream as ss


def error_message(**options):
    with pytest.raises(ss.Refused) as raised:
        ss.DataLoader([1, 2, 3], **options)
    return str(raised.value)


@pytest.mark.parametrize(("name", "values", "advice"), [
    ("shuffle", ("yes", 2, 1), "give True or False"),
    ("drop_last", (1, None, "no"), "give True or False"),
    ("on_bad_sample", ("ignore", None, True), "give 'stop' or 'skip'"),
    ("transforms_device", ("gpu", None, 0), "give 'cpu' or 'cuda'"),
    ("seed", (2**70, 2**64), "at most 18446744073709551615"),
    ("seed", (True, -1, 1.5, "1"), "give a whole number, at least 0"),
    ("batch_size", (2**70,), "at most"),
    ("prefetch_factor", (1025, 2**40, 2**64), "at most"),
    ("num_workers", (1025, 100000), "give a whole number, at most 1024"),
    ("wire", ("jpeg", ["image"], 1), "give a mapping from fields to formats, such as {'image': 'jpeg'}"),
    ("worker_init_fn", (1, "f"), "give a function of the worker's number"),
    ("device", ("gpu", "auto", "mps", "meta", None, True, 1.5, [], "cuda:x"), "give 'cpu', 'cuda' or 'cuda:N'"),
])
def test_bad_loader_arguments_are_refused_with_advice(name, values, advice):
    for value in values:
        message = error_message(**{name: value})
        assert message.startswith(f"{name} is {value!r}") and advice in message and "--" not in message


def test_missing_gpu_is_refused_with_advice(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for device in ("cuda", "cuda:1", torch.device("cuda", 0)):
        message = error_message(device=device)
        assert f"device is {device!r}, but" in message and "give device='cpu'" in message and "--" not in message
    loader = torch.utils.data.DataLoader([1])
    for call in (lambda: ss.Pipeline(loader, device="cuda"), lambda: ss.doctor(loader, print, device="cuda")):
        with pytest.raises(ss.Refused, match="give device='cpu'"):
            call()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert "device is 'cuda:2', but there are 2 GPUs" in error_message(device="cuda:2")


def test_all_names_of_the_cpu_are_accepted():
    for device in ("cpu", "cpu:0", torch.device("cpu")):
        assert ss.DataLoader([1, 2], device=device, num_workers=1).device == "cpu"


def test_more_workers_than_cores_give_a_warning(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    with pytest.warns(UserWarning, match="num_workers is 9, but this process may use 2 cores") as told:
        ss.DataLoader([1, 2], num_workers=9)
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ss.DataLoader([1, 2], num_workers=8)


def test_bad_rank_and_world_size_are_refused():
    assert "rank is 2: give a whole number, at most 1" in error_message(rank=2, world_size=2)
    assert "world_size is 0" in error_message(rank=0, world_size=0)


@pytest.mark.parametrize("loader", [None, 3])
def test_pipeline_without_iterable_is_refused(loader):
    with pytest.raises(ss.Refused, match=f"a loader or another iterable of batches, not {type(loader).__name__}"):
        ss.Pipeline(loader)


@pytest.mark.parametrize("serial", ["x", None, 1])
def test_serial_that_is_no_bool_is_refused(serial):
    with pytest.raises(ss.Refused, match=f"serial is {serial!r}: give True or False"):
        ss.Pipeline([], serial=serial)


def test_numpy_integers_and_booleans_are_accepted():
    loader = ss.DataLoader([1, 2, 3], numpy.int32(2), numpy.bool_(True), num_workers=numpy.int8(2),
                           prefetch_factor=numpy.int8(100), drop_last=numpy.bool_(True), seed=numpy.uint64(5))
    assert len(loader) == 1 and loader.drop_last is True
    loader.set_epoch(numpy.int8(3))
    assert json.loads(json.dumps(loader.state_dict())) == {
        "position": 3, "batches_per_epoch": 1, "samples": 3, "global_batch_size": 2, "seed": 5, "shuffle": True}
    assert ss.Pipeline([torch.ones(1)], (), "cpu", numpy.int64(2), numpy.bool_(True)).serial is True
    for not_whole in (numpy.bool_(True), numpy.float64(1), torch.tensor(1.0)):
        assert "batch_size is" in error_message(batch_size=not_whole)


def test_doctor_restores_state_given_alone_or_in_containers():
    model = torch.nn.Linear(1, 1)
    for state in (model, {"model": model}, [model], (each for each in [model])):
        before, during = model.weight.detach().clone(), []

        def step(batch):
            with torch.no_grad():
                model.weight.add_(1)
            during.append(model.weight.detach().clone())

        ss.doctor(torch.utils.data.DataLoader([1, 2]), step, device="cpu", budget=0.1, state=state)
        assert torch.equal(model.weight, before) and not torch.equal(during[-1], before)
    for wrong in (3, {"a": 3}, [3]):
        with pytest.raises(ss.Refused, match="state contains an object of type int, which has no state_dict"):
            ss.doctor(torch.utils.data.DataLoader([1, 2]), print, state=wrong)


@pytest.mark.parametrize("budget", ["10", None, 0, -1, float("nan"), True])
def test_bad_doctor_budget_is_refused(budget):
    with pytest.raises(ss.Refused, match=f"budget is {budget!r}: give a number of seconds, more than 0"):
        ss.doctor(torch.utils.data.DataLoader([1, 2]), print, budget=budget)
