"""Pipeline(plan=...): the choice of "auto", and that no plan changes a batch."""

import time

import pytest
import torch

import slipstream as ss
from slipstream import _plan_choice

T = ss.transforms


class Numbers:
    """A loader of a few numbers."""

    def __init__(self, batches):
        self.batches = batches

    def __len__(self):
        return self.batches

    def __iter__(self):
        return iter([torch.full((4,), float(number)) for number in range(self.batches)])


def make_stages():
    noise = ss.Stage("noise", lambda x: x + torch.rand_like(x), seed=3)
    return [("double", lambda x: 2 * x), noise]


@pytest.fixture
def stated(monkeypatch):
    """Returns a function that states the seconds of a step under each plan."""
    def state(**seconds):
        def add(self, plan, measured):
            return original(self, plan, [seconds[plan] * (1 + 0.01 * (i % 2)) for i in range(len(measured))])

        monkeypatch.setattr(_plan_choice.PlanChoice, "add", add)

    original = _plan_choice.PlanChoice.add
    return state


@pytest.mark.parametrize(("seconds", "plan"), [({"serial": 0.3, "pipelined": 0.2}, "pipelined"),
                                               ({"serial": 0.2, "pipelined": 0.3}, "serial")])
@pytest.mark.parametrize("batches", [20, 300])
def test_auto_takes_the_faster_plan(stated, seconds, plan, batches, device):
    stated(**seconds)
    pipe = ss.Pipeline(Numbers(batches), make_stages(), device, plan="auto")
    assert (pipe.plan, pipe.plan_reason) == ("auto", "")
    expected = list(ss.Pipeline(Numbers(batches), make_stages(), device, plan="serial"))
    epochs = 0
    while pipe.plan == "auto":
        ours = list(pipe)
        epochs += 1
        if epochs == 1:
            assert all(map(torch.equal, ours, expected)) and len(ours) == batches
    assert pipe.plan == plan and "steps/s" in pipe.plan_reason
    assert epochs == (1 if batches == 300 else 5)
    last = ss.Pipeline(Numbers(batches), make_stages(), device)
    for each in (pipe, last):
        each.set_epoch(9)
    assert all(map(torch.equal, pipe, last))


def test_auto_measures_the_steps_themselves():
    """Times are only used, not compared: the loop sleeps, so that each step has a length."""
    pipe = ss.Pipeline(Numbers(200), make_stages(), "cpu", plan="auto")
    for _ in pipe:
        time.sleep(1e-4)
    assert pipe.plan in ("serial", "pipelined") and "serial" in pipe.plan_reason


def test_epochs_too_short_to_measure_stay_serial(device):
    pipe = ss.Pipeline(Numbers(3), make_stages(), device, plan="auto")
    for _ in range(60):
        assert len(list(pipe)) == 3
    assert (pipe.plan, pipe.plan_reason) == ("serial", "the epochs have too few batches to measure both plans")


def test_auto_gives_the_same_batches_of_a_native_loader_in_every_turn(photos, device, tmp_path):
    def pipe(plan):
        chain = T.Compose([T.RandomResizedCrop(8), T.ToDtype(scale=True)])
        loader = ss.DataLoader(ss.ImageFolder(photos, chain), 1, True, num_workers=2, seed=1, device=device)
        return ss.Pipeline(loader, make_stages(), plan=plan)

    auto, serial = pipe("auto"), pipe("serial")
    for _ in range(6):
        for ours, expected in zip(auto, serial, strict=True):
            assert torch.equal(ours[0], expected[0]) and torch.equal(ours[1], expected[1])
            assert auto.state_dict() == serial.state_dict()
    assert auto.plan != "auto"


def test_auto_resumes_inside_a_turn(photos):
    def pipe(plan):
        loader = ss.DataLoader(ss.ImageFolder(photos, T.RandomResizedCrop(8)), 1, True, num_workers=1, seed=1)
        return ss.Pipeline(loader, [("float", lambda x: x.float())], plan=plan)

    first = pipe("auto")
    for number, _ in enumerate(first):
        if number == 40:
            state = first.state_dict()
            break
    rest, expected = pipe("auto"), list(pipe("serial"))
    rest.load_state_dict(state)
    ours = list(rest)
    assert len(ours) == 9 and all(torch.equal(a[0], b[0]) for a, b in zip(ours, expected[41:], strict=True))


def test_errors_of_auto_take_the_place_of_their_batch(device):
    def fail(x):
        if int(x[0]) in (10, 50):
            raise ValueError(f"batch {int(x[0])}")
        return x

    batches = iter(ss.Pipeline(Numbers(120), [("fail", fail)], device, plan="auto"))
    seen = []
    while True:
        try:
            seen.append(int(next(batches)[0]))
        except ValueError as error:
            seen.append(str(error))
        except StopIteration:
            break
    assert seen == [f"batch {i}" if i in (10, 50) else i for i in range(120)]


def test_breaks_of_auto_lose_no_batches_of_the_next_epoch():
    pipe = ss.Pipeline(Numbers(60), make_stages(), "cpu", plan="auto")
    for _ in range(3):
        assert next(iter(pipe)) is not None
    assert len(list(pipe)) == 60


def test_names_of_plans():
    assert ss.Pipeline([], (), "cpu").plan == "pipelined"
    serial = ss.Pipeline([], (), "cpu", plan="serial")
    assert (serial.plan, serial.serial) == ("serial", True)
    assert ss.Pipeline([], (), "cpu", serial=True).plan == "serial"
    with pytest.raises(ss.Refused, match="plan is 'fast': give 'pipelined' or 'serial' or 'auto'"):
        ss.Pipeline([], (), "cpu", plan="fast")
    with pytest.raises(ss.Refused, match="serial=True and plan='auto' contradict each other"):
        ss.Pipeline([], (), "cpu", serial=True, plan="auto")
