"""The doctor finds the state that a step changes, and restores it bit for bit."""

import collections
import functools
import io
import random

import numpy as np
import pytest
from tensors import all_equal
import torch
from torch import nn

from slipstream._held_objects import STATEFUL, reachable_from
from slipstream._state_guard import StateGuard


class Codebook(nn.Module):
    """A module whose call changes buffers and attributes; the first call registers a buffer."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2).bfloat16()
        self.register_buffer("usage", torch.zeros(()), persistent=False)
        self.calls, self.hidden = 0, None

    def forward(self, x):
        self.usage += 1
        self.calls += 1
        self.hidden = x
        if not hasattr(self, "table"):
            self.register_buffer("table", torch.ones(2, device=x.device))
        return self.layer(x.bfloat16()) * self.table


class Training:
    """A model, its optimizer with float32 state, a schedule, and a step that uses them."""

    def __init__(self, device="cpu"):
        self.model = Codebook().to(device)
        parameters = list(self.model.parameters())
        self.optimizer = torch.optim.SGD(parameters, 0.5, momentum=0.9)
        for each in parameters:
            self.optimizer.state[each]["momentum_buffer"] = torch.full_like(each, 0.1234567, dtype=torch.float32)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 1)
        self.device = device

    def step(self, batch):
        self.model.train(False)
        self.model(batch.to(self.device)).float().sum().backward()
        for each in self.model.parameters():
            buffer = self.optimizer.state[each]["momentum_buffer"].mul_(0.9).add_(each.grad)
            each.data.add_(buffer, alpha=-self.optimizer.param_groups[0]["lr"])
        self.optimizer._opt_called = True  # optimizer.step() sets this flag, which the schedule checks
        self.schedule.step()
        self.optimizer.zero_grad(set_to_none=True)

    def tensors(self):
        moments = [each["momentum_buffer"] for each in self.optimizer.state.values()]
        return [*self.model.parameters(), *self.model.buffers(), *moments]


def batch():
    return torch.arange(12.0).reshape(3, 4)


def test_modules_optimizers_and_schedules_are_restored_to_the_bit(device):
    training = Training(device)
    weight = training.model.layer.weight
    gradient = weight.grad = torch.ones_like(weight)
    before = [each.clone() for each in training.tensors()]
    guard = StateGuard([("step", training.step)])
    training.optimizer.zero_grad(set_to_none=False)
    for _ in range(3):
        training.step(batch())
    assert guard.restore() == []
    after = training.tensors()
    assert all_equal(before, after) and [each.dtype for each in before] == [each.dtype for each in after]
    assert after[-1].dtype == torch.float32 and weight.dtype == torch.bfloat16
    model, schedule = training.model, training.schedule
    assert (model.training, model.calls, model.hidden, hasattr(model, "table")) == (True, 0, None, False)
    assert (schedule.last_epoch, training.optimizer.param_groups[0]["lr"]) == (0, 0.5)
    assert weight.grad is gradient and gradient.eq(1).all() and model.layer.bias.grad is None


def test_state_created_by_the_first_step_is_removed():
    model = nn.Linear(4, 2)
    optimizer, scaler = torch.optim.Adam(model.parameters()), torch.amp.GradScaler("cpu")

    def step():
        scaler.scale(model(batch()).sum()).backward()
        scaler.step(optimizer)
        scaler.update()

    guard = StateGuard([("step", step)])
    step()
    assert optimizer.state
    assert guard.restore() == []
    assert not optimizer.state and scaler._scale is None and model.weight.grad is None


def test_initialized_lazy_modules_become_lazy_again():
    model = nn.Sequential(nn.LazyLinear(3), nn.Dropout())
    guard = StateGuard([("step", model.forward)])
    model(batch())
    assert guard.restore() == []
    assert type(model[0]) is nn.LazyLinear and nn.parameter.is_lazy(model[0].weight)
    assert model(batch()).shape == (3, 3)


@pytest.mark.filterwarnings("ignore:.*torch.jit")
@pytest.mark.parametrize("wrap", [torch.jit.script, functools.partial(torch.compile, backend="eager")])
def test_scripted_and_compiled_modules_are_restored(wrap):
    module = wrap(nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2)))
    before = [each.clone() for each in [*module.parameters(), *module.buffers()]]

    def step():
        module(batch()).sum().backward()
        module.eval()
        with torch.no_grad():
            next(module.parameters()).add_(1)

    guard = StateGuard([("step", step)])
    step()
    assert guard.restore() == []
    assert all_equal(before, [*module.parameters(), *module.buffers()]) and module.training
    assert all(each.grad is None for each in module.parameters())
    step()


GLOBAL = Codebook()


def call_global():
    return GLOBAL(batch())


def call_helper():
    return call_global()


class Bound:
    def __init__(self, model):
        self.parts = {"models": [model]}

    def step(self):
        return self._inner()

    def _inner(self):
        return self.parts["models"][0](batch())

    __call__ = step


def argument(model):
    return model(batch())


class Holder(nn.Module):
    """Has a model that is not a submodule."""

    def __init__(self, model):
        super().__init__()
        self.models = (model,)

    def step(self):
        return self.models[0](batch())


WAYS = {
    "closure": lambda model: lambda: model(batch()),
    "bound self": lambda model: Bound(model).step,
    "object that is called": lambda model: Bound(model),
    "argument": lambda model: functools.partial(argument, model),
    "default": lambda model: (lambda held=model: held(batch())),
    "function in a function": lambda model: (lambda: (lambda: model(batch()))()),
    "attribute of a module": lambda model: Holder(model).step,
}


@pytest.mark.parametrize("way", WAYS)
def test_state_reachable_from_the_step_is_restored(way):
    model = Codebook()
    step = WAYS[way](model)
    assert [each.content for each in reachable_from(step, STATEFUL) if each.content is model] == [model]
    guard = StateGuard([("step", step)])
    step()
    assert guard.restore() == [] and model.calls == 0 and model.usage == 0


@pytest.mark.parametrize("step", [call_global, call_helper, lambda: GLOBAL(batch()), lambda: call_helper()])
def test_state_in_globals_used_by_the_step_is_restored(step):
    guard = StateGuard([("step", step)])
    step()
    assert GLOBAL.calls == 1
    assert guard.restore() == [] and GLOBAL.calls == 0 and GLOBAL.usage == 0


def test_tensors_arrays_and_generators_are_restored():
    weights, table, array = torch.ones(2, requires_grad=True), {"mean": torch.zeros(2)}, np.zeros(3)
    generators = [torch.Generator(), np.random.default_rng(0), random.Random(0)]
    hidden = None

    def step():
        nonlocal weights, hidden
        table["mean"].add_(1)
        table["mean"] = table["mean"] * 2
        array[1] = 5
        weights = (weights * 2).detach()
        hidden = torch.ones(1)
        return torch.rand(1, generator=generators[0]), generators[1].random(), generators[2].random()

    first = weights
    guard = StateGuard([("step", step)])
    drawn = step()
    assert guard.restore() == []
    assert weights is first and hidden is None and table["mean"].eq(0).all() and not array.any()
    assert step() == drawn


class Average:
    """A moving average of weights, as users write it."""

    def __init__(self):
        self.shadow, self.updates, self.names = {"w": torch.zeros(2)}, 0, []

    def update(self):
        self.shadow["w"] = self.shadow["w"] + 1
        self.updates += 1
        self.names.append("w")

    def state_dict(self):
        return {"shadow": self.shadow, "updates": self.updates}

    def load_state_dict(self, state):
        raise RuntimeError("cannot be loaded")


def test_stateful_objects_are_restored_by_their_attributes():
    average = Average()
    guard = StateGuard([("step", average.update)])
    average.update()
    assert guard.restore() == []
    assert (average.updates, average.names) == (0, []) and average.shadow["w"].eq(0).all()


class Elsewhere(Average):
    """Has state that no attribute refers to."""

    COUNTS = collections.Counter()

    def __init__(self, fails):
        self.fails = fails

    def update(self):
        type(self).COUNTS["updates"] += 1

    def state_dict(self):
        return dict(type(self).COUNTS)

    def load_state_dict(self, state):
        if self.fails:
            raise RuntimeError("cannot be loaded")
        type(self).COUNTS = collections.Counter(state)


@pytest.mark.parametrize("fails", [False, True])
def test_failed_restore_of_one_object_still_restores_others(fails):
    Elsewhere.COUNTS = collections.Counter()
    elsewhere, training = Elsewhere(fails), Training()
    before = [each.clone() for each in training.tensors()]

    def step():
        elsewhere.update()
        training.step(batch())

    guard = StateGuard([("step", step)])
    step()
    messages = guard.restore()
    assert all_equal(before, training.tensors()) and training.model.training
    if fails:
        assert len(messages) == 1 and "'elsewhere' (RuntimeError: cannot be loaded)" in messages[0]
    else:
        assert messages == [] and Elsewhere.COUNTS["updates"] == 0


COUNT = 0


def test_changes_that_are_not_restored_are_named():
    losses, meter, cache = [], Bound(None), {}

    def step():
        global COUNT
        COUNT += 1
        losses.append(1.5)
        meter.steps = 3
        cache["key"] = "value"

    guard = StateGuard([("step", step)])
    step()
    (message,) = guard.restore()
    for part in ("'COUNT' (int)", "'losses' (list, 0 to 1 elements)", "'meter.steps' (int)", "'cache' (dict, 0 to 1"):
        assert part in message
    assert losses == [1.5] and COUNT == 1


def test_writes_to_large_uncopied_tensors_are_named():
    data, weights = torch.zeros(1000), torch.zeros(1000, requires_grad=True)

    def step():
        data.add_(1)
        with torch.no_grad():
            weights.add_(1)

    guard = StateGuard([("step", step)], most_bytes=100)
    step()
    (message,) = guard.restore()
    assert "'data' (written in place)" in message and data.eq(1).all() and weights.eq(0).all()


def test_replaced_parameter_memory_is_restored():
    model = nn.Linear(4, 2)
    weight, before = model.weight, model.weight.detach().clone()
    guard = StateGuard([("step", model.half)])
    model.half()
    weight.data = torch.zeros(1)
    weight.requires_grad_(False)
    assert guard.restore() == []
    assert model.weight is weight and weight.requires_grad and torch.equal(weight, before) and weight.dtype == before.dtype


def test_file_position_is_restored(tmp_path):
    (tmp_path / "lines").write_bytes(b"abcdef")
    with open(tmp_path / "lines", "rb") as file:
        file.read(2)
        guard = StateGuard([("step", lambda: file.read(3))])
        file.read(3)
        assert guard.restore() == [] and file.read() == b"cdef"
    assert isinstance(file, io.IOBase)


def test_expanded_tensors_are_restored():
    module = nn.Module()
    module.register_buffer("b", torch.ones(1).expand(4))
    guard = StateGuard([("module", module)])
    module.b[:1].add_(1)
    assert guard.restore() == [] and module.b.tolist() == [1.0] * 4 and module.b.stride() == (0,)
