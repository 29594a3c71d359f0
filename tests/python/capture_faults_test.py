"""slipstream.capture: steps whose graphs would compute other results than the step, without an error."""

import contextlib
import functools
import random
import time
import types
import weakref

import pytest
import torch
from capture_test import WARMUP, Training, assert_same, batches, graphs, network, sgd  # noqa: F401
from torch import nn

import slipstream as ss


class Timer:
    """Has a state that is different each time it is read."""

    def state_dict(self):
        return {"elapsed": time.perf_counter()}

    def load_state_dict(self, state):
        pass


class Meter(Timer):
    def state_dict(self):
        return {"rest": (i for i in range(3))}  # cannot be copied


class Holding(Training):
    def __init__(self, device, held=None):
        super().__init__(device)
        self.held = held


@pytest.mark.parametrize("held", [Timer, Meter])
def test_update_is_not_lost_if_an_object_cannot_be_restored(device, graphs, held):
    training, plain = Holding(device, held()), Holding(device)
    step = ss.capture(training)
    with pytest.warns(UserWarning, match=r"is not compared with its graph: not restored(.|\n)*'held'") as seen:
        assert_same(training, step, batches(device), plain)
    assert len(seen) == 1
    assert step.replays == 12 - WARMUP


class Progress:
    calls = 0


class Watched(Training):
    """Python values change during each replay, as those that another thread writes."""

    def __init__(self, device):
        super().__init__(device)
        self.progress = Progress()


def test_update_is_not_lost_if_another_thread_changes_a_value(device, graphs, monkeypatch):
    training, plain = Watched(device), Watched(device)
    step = ss.capture(training)
    replay = type(step)._replay

    def replay_and_count(self, *arguments):
        training.progress.calls += 1
        return replay(self, *arguments)

    monkeypatch.setattr(type(step), "_replay", replay_and_count)
    assert_same(training, step, batches(device), plain)
    assert training.progress.calls == step.replays == 12 - WARMUP


def mse_step(training, x, y):
    loss = nn.functional.mse_loss(training.model(x), y)
    loss.backward()
    training.optimizer.step()
    training.optimizer.zero_grad()
    return loss


def assert_runs_without_graph(device, kind, message):
    training, plain = kind(device), kind(device)
    step = ss.capture(training)
    with pytest.warns(UserWarning, match=message) as seen:
        assert_same(training, step, batches(device), plain)
    assert len(seen) == 1
    assert step.graphs == 0
    return training, plain


class Deep(Training):
    """Keeps averages of more tensors than are searched in other containers."""

    def __init__(self, device):
        super().__init__(device)
        torch.manual_seed(1)
        self.model = nn.Sequential(*[nn.Linear(8, 8) for _ in range(150)], nn.Linear(8, 4)).to(device)
        self.optimizer = sgd(self.model)
        self.averages = [each.detach() + 1 for each in self.model.parameters()]

    def __call__(self, x, y):
        loss = mse_step(self, x, y)
        with torch.no_grad():
            torch._foreach_lerp_(self.averages, list(self.model.parameters()), 0.25)
        return loss


class InNamespace(Training):
    def __init__(self, device):
        super().__init__(device)
        self.statistics = types.SimpleNamespace(total=torch.zeros((), device=device))
        self.averages = [self.statistics.total]

    def __call__(self, x, y):
        loss = mse_step(self, x, y)
        self.statistics.total.add_(loss.detach())
        return loss


class InSet(InNamespace):
    def __init__(self, device):
        super().__init__(device)
        self.totals = set(self.averages)

    def __call__(self, x, y):
        loss = mse_step(self, x, y)
        for each in self.totals:
            each.add_(loss.detach())
        return loss


class InHook(Training):
    def __init__(self, device):
        super().__init__(device)
        total = torch.zeros((), device=device)
        self.find_averages = weakref.ref(total)
        self.model[0].register_forward_hook(lambda module, arguments, result: add_to(total, result))

    @property
    def averages(self):
        return [self.find_averages()]


def add_to(total, result):
    total.add_(result.detach().abs().mean())


@pytest.mark.parametrize("kind", [Deep, InNamespace, InSet, InHook])
def test_tensors_in_all_containers_and_hooks_are_updated_once(device, graphs, kind):
    training, plain = kind(device), kind(device)
    step = ss.capture(training)
    assert_same(training, step, batches(device), plain)
    assert all(map(torch.equal, training.averages, plain.averages))
    assert step.graphs == 1


class Statistics:
    total = None


class InClass(Training):
    """Refers to a tensor in a way that the search for state does not find."""

    def __call__(self, x, y):
        loss = mse_step(self, x, y)
        Statistics.total.add_(loss.detach())
        return loss


class InClassAsData(InClass):
    def __call__(self, x, y):
        loss = mse_step(self, x, y)
        torch._foreach_add_([Statistics.total.data], [loss.detach()])
        return loss


@pytest.mark.parametrize("kind", [InClass, InClassAsData])
def test_step_that_writes_to_a_tensor_that_is_not_found_runs_without_graph(device, graphs, kind):
    totals = []
    for _ in range(2):
        Statistics.total = torch.zeros((), device=device)
        training = kind(device)
        step = ss.capture(training) if totals else training
        seen = pytest.warns(UserWarning, match=r"writes to a tensor of shape \[\] .* not found(.|\n)*Statistics.total")
        with seen if totals else contextlib.nullcontext():
            for batch in batches(device):
                step(*batch)
        totals.append(Statistics.total)
    assert torch.equal(*totals)
    assert step.graphs == 0


def train_with(step, device):
    """Returns the losses of a step."""
    torch.manual_seed(3)
    return [step(*batch).detach() for batch in batches(device)]


def step_of_cached_model(device):
    find = functools.lru_cache(lambda: network(device))
    optimizer = sgd(find())

    def step(x, y):
        return mse_step(types.SimpleNamespace(model=find(), optimizer=optimizer), x, y)

    return step


def step_that_updates_in_backward(device):
    model = network(device)
    optimizers = {each: torch.optim.SGD([each], 0.1) for each in model.parameters()}

    def update(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for each in model.parameters():
        each.register_post_accumulate_grad_hook(update)

    def step(x, y):
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        return loss

    return step


@pytest.mark.parametrize(("make", "kind"), [
    (step_of_cached_model, "Sequential"), (step_that_updates_in_backward, "SGD")])
def test_step_with_an_object_that_is_not_found_runs_without_graph(device, graphs, make, kind):
    expected, step = train_with(make(device), device), ss.capture(make(device))
    with pytest.warns(UserWarning, match=rf"it uses a {kind} that is not found(.|\n)*modules="):
        found = train_with(step, device)
    assert all(map(torch.equal, found, expected))
    assert step.graphs == 0


class Momentum(torch.optim.Optimizer):
    """Replaces the tensors of its state."""

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.1})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for each in group["params"]:
                state = self.state[each]
                state["momentum"] = 0.9 * state.get("momentum", 0) + each.grad
                each.add_(state["momentum"], alpha=-group["lr"])


class WithMomentum(Training):
    def __init__(self, device):
        super().__init__(device, lambda model: Momentum(model.parameters()))


class Recurrent(Training):
    def __init__(self, device):
        super().__init__(device)
        self.hidden = torch.zeros(6, 4, device=device)

    def __call__(self, x, y):
        made = self.model(x)
        loss = nn.functional.mse_loss(made + self.hidden, y)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.hidden = made.detach()
        return loss


class Centered(nn.Module):
    """Replaces a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(8))

    def forward(self, x):
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        return x - self.mean


class WithBuffer(Training):
    def __init__(self, device):
        super().__init__(device)
        self.model = nn.Sequential(Centered().to(device), self.model)


class ReplacingData(Training):
    def __call__(self, x, y):
        loss = mse_step(self, x, y)
        bias = self.model[4].bias
        bias.data = bias.data * 0.9
        return loss


@pytest.mark.parametrize(("kind", "message"), [
    (WithMomentum, r"reads 'Momentum.state\[...\]\['momentum'\]' and replaces it"), (Recurrent, "'hidden' and replaces it"),
    (WithBuffer, "buffer of a module was added, removed or replaced"), (ReplacingData, "has other memory")])
def test_step_that_replaces_its_state_runs_without_graph(device, graphs, kind, message):
    assert_runs_without_graph(device, kind, rf"{message}(.|\n)*in place")


class Counting(Training):
    calls = 0

    def __call__(self, x, y):
        loss = nn.functional.mse_loss(self.model(x), y)
        loss.backward()
        self.calls += 1
        if self.calls % 8 == 0:
            self.optimizer.step()
            self.optimizer.zero_grad()
        return loss


class Appending(Training):
    def __init__(self, device):
        super().__init__(device)
        self.losses = []

    def __call__(self, x, y):
        loss = super().__call__(x, y)
        self.losses.append(loss.detach())
        return loss


class DrawingItself(Training):
    def __init__(self, device):
        super().__init__(device)
        self.random = random.Random(1)

    def __call__(self, x, y):
        return super().__call__(x if self.random.random() < 0.9 else -x, y)


class CountingOptimizer(torch.optim.SGD):
    def step(self, closure=None):
        super().step(closure)
        for state in self.state.values():
            state["count"] = state.get("count", 0) + 1


class CountingInOptimizer(Training):
    def __init__(self, device):
        super().__init__(device, lambda model: CountingOptimizer(model.parameters(), 0.1, momentum=0.9))


@pytest.mark.parametrize(("kind", "message"), [
    (Counting, r"it changes 'calls' \(int\)"), (Appending, r"it changes 'losses' \(list, \d to \d elements\)"),
    (DrawingItself, "random generator"), (CountingInOptimizer, r"CountingOptimizer.state\[...\]\['count'\]")])
def test_step_that_changes_python_values_runs_without_graph(device, graphs, kind, message):
    training, plain = assert_runs_without_graph(device, kind, message)
    assert getattr(training, "calls", 0) == getattr(plain, "calls", 0)
    assert all(map(torch.equal, getattr(training, "losses", []), getattr(plain, "losses", [])))


class Assigning(Training):
    last, named = None, None

    def __init__(self, device):
        super().__init__(device)
        self.named = {}

    def __call__(self, x, y):
        self.last = super().__call__(x, y).detach()
        self.named["loss"] = self.last * 2
        return self.last


def test_tensors_that_a_step_assigns_are_new_in_each_call(device, graphs):
    losses = []
    for is_captured in (False, True):
        training = Assigning(device)
        step = ss.capture(training) if is_captured else training
        torch.manual_seed(3)
        for batch in batches(device):
            step(*batch)
            losses += [training.last, training.named["loss"]]
    assert step.graphs == 1
    assert all(map(torch.equal, losses[:24], losses[24:]))
