"""How slipstream.verify treats its arguments and the values that it compares."""

import functools
import json
import random
import signal
import types
from unittest import mock
import weakref

import numpy
import pytest
import torch
from torch import nn

import slipstream as ss
from slipstream._verify import treatment, verification
from slipstream._verify.schedule import Delays, OperationSite, Schedule, Size

torch.set_num_threads(1)


@pytest.fixture
def seeds(monkeypatch):
    """Records the seeds of the delayed runs."""
    seen = []

    class Recorded(Schedule):
        def __init__(self, seed, *rest):
            seen.append(seed)
            super().__init__(seed, *rest)

    monkeypatch.setattr(verification, "Schedule", Recorded)
    return seen


def test_schedules_are_numbered_from_the_seed(seeds):
    assert ss.verify(lambda: lambda: torch.ones(2).sum(), schedules=3, seed=7).passed
    assert seeds == [7, 8, 9]


def test_seed_of_report_reproduces_the_race(seeds):
    def make_run():
        return lambda: bool(seeds) and seeds[-1] == 8

    report = ss.verify(make_run, seed=7, schedules=5)
    assert (report.verdict, report.schedules, report.seed) == ("race", 2, 8)
    assert "slipstream.verify(make_run, seed=8, schedules=1)" in report.text()
    seeds.clear()
    again = ss.verify(make_run, seed=report.seed, schedules=1)
    assert (again.verdict, again.schedules, again.seed, set(seeds)) == ("race", 1, 8, {8})
    seeds.clear()
    assert ss.verify(make_run, seed=9, schedules=3).passed


class Numbered:
    """A make_run that passes the number of the run to `make`."""

    def __init__(self, make):
        self.make, self.runs = make, 0

    def __call__(self):
        self.runs += 1
        return self.make(self.runs)


def find_differing_value(make):
    report = ss.verify(Numbered(make), schedules=1)
    assert report.verdict == "not_repeatable"
    return report.value


def test_yielded_values_are_copied_at_once():
    def make(number):
        def run():
            buffer = torch.full((3,), number)
            yield {"loss": buffer}
            buffer.zero_()
            yield buffer

        return run

    assert find_differing_value(make) == "yielded[0]['loss']"


def linear(number):
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, number)
    return model


class Loop:
    def __init__(self, number):
        self.net = linear(number)

    def run(self):
        return None

    __call__ = run


@pytest.mark.parametrize(("make", "value"), [
    (lambda number: functools.partial(lambda model: None, linear(number)), "argument 0.state_dict()['weight']"),
    (lambda number: functools.partial(lambda model: None, model=linear(number)), "model.state_dict()['weight']"),
    (lambda number: functools.partial(Loop(number).run), "net.state_dict()['weight']"),
    (lambda number: Loop(number).run, "net.state_dict()['weight']"),
    (Loop, "net.state_dict()['weight']"),
])
def test_modules_that_a_run_holds_are_compared(make, value):
    assert find_differing_value(make) == value


def test_optimizers_that_a_run_closes_over_are_compared():
    def make(number):
        optimizer = torch.optim.SGD(linear(1).parameters(), lr=number)
        return lambda: optimizer and None

    assert find_differing_value(make) == "optimizer.state_dict()['param_groups'][0]['lr']"


class Holder:
    def __init__(self, **held):
        self.__dict__.update(held)

    def steps(self):
        return None


class InSlots:
    __slots__ = ("net", "empty")

    def __init__(self, net):
        self.net = net


def bound(model):
    return Holder(inner=Holder(models={"g": [model]})).steps


@pytest.mark.parametrize(("hold", "name"), [
    (lambda model: lambda first=1, models=(model,), *, more=3: models and None, "models[0]"),
    (lambda model: lambda *, net=model: net and None, "net"),
    (lambda model: (lambda models: lambda: models and None)([model]), "models[0]"),
    (lambda model: (lambda trainer: lambda: trainer and None)(Holder(model=model)), "trainer.model"),
    (lambda model: (lambda step: lambda: step and None)(lambda: model), "step.model"),
    (lambda model: functools.partial(print, end="", file=Holder(write=len, nets=(model,))), "file.nets[0]"),
    (bound, "inner.models['g'][0]"),
    (lambda model: model.extra_repr, "Linear"),
    (lambda model: functools.partial(model.extra_repr), "Linear"),
    (lambda model: (lambda step: lambda: step and None)(model.forward), "step.Linear"),
    (lambda model: (lambda slots: lambda: slots and None)(InSlots(model)), "slots.net"),
    (lambda model: functools.partial(lambda net=None: None, net=model), "net"),
])
def test_modules_in_nested_holders_are_compared(hold, name):
    def make(number):
        model = linear(number)
        return hold(model)

    assert find_differing_value(make) == f"{name}.state_dict()['weight']"


class Raising(dict):
    """An object none of whose methods may be called."""

    def items(self):
        raise AssertionError

    __iter__ = __len__ = keys = values = __getitem__ = __getattr__ = __repr__ = items

    @property
    def lazily(self):
        raise AssertionError


class Context:
    """An object whose attributes exist only during a request, as in web frameworks."""

    @property
    def __dict__(self):
        raise RuntimeError


class Unrepresented:
    def __repr__(self):
        raise AssertionError


def test_held_objects_are_searched_without_calling_their_methods():
    gone = weakref.proxy(Holder())
    values = [gone, Context(), Raising(), mock.Mock(spec=dict), mock.Mock(spec=nn.Module)]
    model = linear(1)
    sharded = torch.optim.SGD(linear(1).parameters(), lr=1)
    sharded.state_dict = lambda: 1 / 0  # for example because its state is distributed over processes
    held = Raising(values=values, deeper=[model, sharded], **{"itself": values})
    dict.__setitem__(held, Unrepresented(), linear(2))
    values.append(values)
    report = ss.verify(lambda: lambda: (held, None)[1], schedules=1)
    assert report.passed and report.values == 2 * len(model.state_dict())


class Ahead:
    """A prefetching loader with a module that counts batches."""

    def __init__(self):
        self.augment = nn.BatchNorm1d(2, affine=False)


def test_state_of_prefetching_loader_is_not_compared():
    def make(number):
        model, loader = linear(1), Ahead()
        loader.augment.num_batches_tracked.fill_(number)
        return lambda: (model, loader) and None

    assert ss.verify(Numbered(make), schedules=2).passed


def test_report_counts_compared_values():
    model = linear(1)
    report = ss.verify(lambda: lambda: [model, 1.0, {"a": torch.ones(2)}], schedules=1)
    assert report.values == len(model.state_dict()) + 2
    assert f"no difference in {report.values} values (1 schedule, " in report.text()
    assert "no difference in 1 value (" in ss.verify(lambda: lambda: 1, schedules=1).text()


def test_sigalrm_handler_and_timer_are_restored():
    def own(number, frame):
        raise AssertionError

    before = signal.signal(signal.SIGALRM, own)
    try:
        assert ss.verify(lambda: lambda: 1, schedules=1, timeout=100).passed
        assert signal.getsignal(signal.SIGALRM) is own and signal.getitimer(signal.ITIMER_REAL) == (0, 0)
        signal.setitimer(signal.ITIMER_REAL, 1000, 500)
        assert ss.verify(lambda: lambda: 1, schedules=1, timeout=100).passed
        rest, interval = signal.setitimer(signal.ITIMER_REAL, 0)
        assert 0 < rest < 1000 and interval == 500
    finally:
        signal.signal(signal.SIGALRM, before)


def test_numpy_and_python_random_states_are_restored():
    def make(_):
        def run():
            random.seed(1)
            numpy.random.seed(1)
            return 1

        return run

    random.seed(5)
    numpy.random.seed(5)
    expected = random.random(), numpy.random.rand()
    random.seed(5)
    numpy.random.seed(5)
    ss.verify(Numbered(make), schedules=1)
    assert (random.random(), numpy.random.rand()) == expected


def test_threads_are_delayed_before_and_after_an_operation(monkeypatch):
    slept = []
    monkeypatch.setattr(treatment.time, "sleep", slept.append)
    schedule = types.SimpleNamespace(delays=lambda place: Delays(host_before=1, host_after=2))
    operation = types.SimpleNamespace(place=OperationSite("main", 3, None, False), device=None)
    for scale in (1, 4):
        delayed = treatment.Delayed(schedule, scale=scale)
        slept.clear()
        delayed.before(operation)
        assert slept == [scale]
        delayed.after(operation, None)
        assert slept == [scale, 2 * scale] and delayed.applied == [("main", 3)]


@pytest.mark.parametrize("count", [20, 2000, 50000])
def test_total_delay_stays_near_its_budget(count):
    """The budget is 0.25 s, or 0.1 ms per operation if that is more."""
    schedule = Schedule(0, Size(count, 0, 0, 1))
    delays = [schedule.delays(OperationSite("main", number, None, False)) for number in range(count)]
    assert {each[2:] for each in delays} == {(0, 0)}
    budget_s = max(0.25, count * 1e-4)
    assert 0 < sum(map(sum, delays)) < 3 * budget_s


def test_reason_reports_number_of_other_differing_values():
    report = ss.verify(Numbered(lambda number: lambda: [1, number, number, number]), schedules=1)
    assert report.reason.splitlines()[0].startswith("returned[1]: a different value, as do 2 other values")
    report = ss.verify(Numbered(lambda number: lambda: [1, number]), schedules=1)
    assert report.reason.splitlines()[0] == "returned[1]: a different value between two runs without any overlap"


def test_error_is_written_as_text_in_json(tmp_path):
    def make(number):
        return lambda: 1 if number < 3 else int("five")

    report = ss.verify(Numbered(make), schedules=1)
    report.to_json(tmp_path / "verify.json")
    written = json.loads((tmp_path / "verify.json").read_text())
    assert written["error"] == repr(report.error) and "invalid literal" in written["error"]
    assert (written["version"], written["passed"], written["seed"]) == (1, False, 0)
    ss.verify(lambda: lambda: 1, schedules=1).to_json(tmp_path / "verify.json")
    written = json.loads((tmp_path / "verify.json").read_text())
    assert (written["error"], written["passed"], written["seed"]) == (None, True, None)


def test_settings_that_hide_races_are_noted(monkeypatch):
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    assert ss.verify(lambda: lambda: 1, schedules=1).notes == (
        "CUDA_LAUNCH_BLOCKING is set, so streams do not overlap",)
    notes = ss.verify(Numbered(lambda number: lambda: number), schedules=1).notes
    assert any("torch.backends.cudnn.benchmark = False" in note for note in notes)


def test_full_disk_keeps_the_previous_report(tmp_path, full_disk):
    report = ss.verify(lambda: lambda: 1, schedules=1)
    (tmp_path / "report").write_text("of before")
    with full_disk(), pytest.raises(ss.Error, match="cannot write .*report"):
        report.to_json(tmp_path / "report")
    assert (tmp_path / "report").read_text() == "of before" and len(list(tmp_path.iterdir())) == 1
