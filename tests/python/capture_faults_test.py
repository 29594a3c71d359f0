"""slipstream.capture: steps whose graphs would compute other results than the step, without an error."""

import collections
import contextlib
import copy
import functools
import itertools
import random
import time
import types
import warnings
import weakref

import pytest
import torch
from capture_test import WARMUP, Training, assert_same, batches, graphs, network, sgd  # noqa: F401
from torch import nn

import slipstream as ss
from slipstream._step_state import StepState


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
    (WithMomentum, r"reads 'Momentum.state\[...\]\['momentum'\]' and replaces it"),
    (Recurrent, "'hidden' and replaces it"), (WithBuffer, "buffer of a module was added, removed or replaced"), (ReplacingData, "has other memory")])
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


def assert_same_with_changes(device, kind, change, graphs):
    """Compares a captured with a plain loop. Both call `change` in the middle."""
    losses, step = [], None
    for is_captured in (False, True):
        training = kind(device)
        step = ss.capture(training) if is_captured else training
        torch.manual_seed(3)
        for i, batch in enumerate(batches(device, 16)):
            if i == 8:
                change(training)
            losses.append(step(*batch).detach().clone())
    assert all(map(torch.equal, losses[:16], losses[16:]))
    assert step.graphs == graphs


class WithBetas(Training):
    def __init__(self, device):
        super().__init__(device)
        self.optimizer.param_groups[0]["betas"] = [0.9, 0.99]


def set_betas(training):
    training.optimizer.param_groups[0]["betas"][0] = 0.5


def replace_betas(training):
    training.optimizer.param_groups[0]["betas"] = [0.5, 0.9]


@pytest.mark.parametrize(("kind", "change", "graphs_after"), [
    (WithBetas, set_betas, 2), (Training, replace_betas, 2)])
def test_values_in_groups_that_are_no_numbers_select_a_graph(device, graphs, kind, change, graphs_after):
    assert_same_with_changes(device, kind, change, graphs_after)


def test_value_may_be_removed_from_a_group(device, graphs):
    def add(training):
        training.optimizer.param_groups[0]["initial_lr"] = 0.1

    training = Training(device)
    add(training)
    step = ss.capture(training)
    for batch in batches(device):
        step(*batch)
        training.optimizer.param_groups[0].pop("initial_lr", None)
    assert step.graphs == 1


def test_learning_rate_on_the_cpu_selects_a_graph(device, graphs):
    rate = torch.tensor(0.1)
    training = Training(device, lambda model: torch.optim.SGD(model.parameters(), 0.1))
    training.optimizer.param_groups[0]["lr"] = rate
    state = StepState(training, (), ())
    before = state.hyperparameters()
    assert state.hyperparameters() == before
    rate.fill_(0.2)
    assert state.hyperparameters() != before


class TensorState(Momentum):
    """The state of a parameter is a tensor."""

    @torch.no_grad()
    def step(self, closure=None):
        for each in self.param_groups[0]["params"]:
            if each not in self.state:
                self.state[each] = torch.zeros_like(each)
            self.state[each].mul_(0.9).add_(each.grad)
            each.add_(self.state[each], alpha=-0.1)


def test_state_of_an_optimizer_may_be_a_tensor(device, graphs):
    make = lambda model: TensorState(model.parameters())  # noqa: E731
    model, plain = Training(device, make), Training(device, make)
    step = ss.capture(model)
    for batch in batches(device):
        torch.manual_seed(1)
        found = step(*batch)
        torch.manual_seed(1)
        assert torch.equal(found, plain(*batch).detach())
    assert step.graphs == 1


class Out:
    def __init__(self, loss):
        self.loss = loss


class ReturningObject(Training):
    def __call__(self, x, y):
        return Out(super().__call__(x, y).detach())


def test_step_that_returns_an_object_runs_without_graph(device, graphs):
    training, plain = ReturningObject(device), Training(device)
    step = ss.capture(training)
    with pytest.warns(UserWarning, match=r"it returns an object of type Out(.|\n)*tuples"):
        assert_same(training, lambda *batch: step(*batch).loss, batches(device), plain)
    assert step.graphs == 0


def test_generator_function_runs_without_graph(device, graphs):
    training, plain = Training(device), Training(device)

    def generate(x, y):
        yield training(x, y)

    step = ss.capture(generate)
    with pytest.warns(UserWarning, match="it returns an object of type generator"):
        assert_same(training, lambda *batch: next(step(*batch)), batches(device), plain)


class Numbered(Training):
    def __init__(self, device):
        super().__init__(device)
        self.numbers = itertools.count()

    def __call__(self, x, y):
        return {"loss": super().__call__(x, y), "number": next(self.numbers)}


def test_number_in_the_results_that_changes_is_found(device, graphs):
    step = ss.capture(Numbered(device))
    with pytest.raises(ss.Error, match="computes another value of result 1"):
        for batch in batches(device):
            step(*batch)


def test_shapes_are_arguments_and_results(device, graphs):
    training = Training(device)

    def train(x, y, shape):
        return training(x.view(shape), y), x.shape

    step = ss.capture(train)
    shapes = [step(x, y, x.shape)[1] for x, y in batches(device)]
    assert all(type(each) is torch.Size and each == (6, 8) for each in shapes)
    assert step.graphs == 1


class Batch(dict):
    pass


class OfBatch(Training):
    def __call__(self, batch):
        loss = nn.functional.mse_loss(self.model(batch["x"]), batch["y"]) * batch.weight
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss


def test_attributes_of_a_batch_select_a_graph(device, graphs):
    training, plain = OfBatch(device), OfBatch(device)
    step = ss.capture(training)
    for i, (x, y) in enumerate(batches(device, 16)):
        batch = Batch(x=x, y=y)
        batch.weight = float(i < 8)
        torch.manual_seed(i)
        found = step(batch)
        torch.manual_seed(i)
        assert torch.equal(found, plain(batch).detach())
    assert step.graphs == 2
    batch.mask = torch.ones(1, device=device)
    with pytest.warns(UserWarning, match="an argument of type Batch has a tensor in its attribute 'mask'"):
        step(batch)


def test_tensors_with_pending_operations_and_nested_tensors_run_without_graph(device, graphs):
    weight = nn.Parameter(torch.ones(8, device=device))

    def train(x):
        return (x.values() if x.is_nested else x.imag).sum() * weight.sum()

    step = ss.capture(train)
    x = torch.randn(6, 8, dtype=torch.complex64, device=device)
    found = [float(step(x)) for _ in range(8)]
    with pytest.warns(UserWarning, match="pending conjugation"):
        assert float(step(x.conj())) == pytest.approx(-found[0])
    nested = torch.nested.nested_tensor([torch.ones(2, 8), torch.ones(3, 8)], device=device)
    with pytest.warns(UserWarning, match="tensor 0 of its arguments is nested"):
        step(nested)


def test_learning_rate_of_a_step_in_inference_mode_can_be_scheduled(device, graphs):
    model = network(device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2, fused=True)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)

    def evaluate(x, y):
        return nn.functional.mse_loss(model(x), y), optimizer.param_groups

    step = ss.capture(lambda x, y: evaluate(x, y)[0])
    with torch.inference_mode():
        for batch in batches(device):
            step(*batch)
    optimizer.step()
    scheduler.step()
    assert step.graphs == 1


class Evaluating:
    def __init__(self, device):
        self.model = network(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-2, fused=True)

    def evaluate(self, x, y):
        with torch.no_grad():
            return nn.functional.mse_loss(self.model(x), y)


def test_optimizer_that_the_step_does_not_use_is_not_changed(device, graphs):
    training = Evaluating(device)
    step = ss.capture(training.evaluate)
    for batch in batches(device):
        step(*batch)
    assert step.graphs == 1
    assert type(training.optimizer.param_groups[0]["lr"]) is float


class Methods(Training):
    @ss.capture
    def step(self, x, y):
        return self(x, y)


def test_decorated_method_is_refused(device):
    training = Methods(device)
    with pytest.raises(ss.Refused, match=r"decorates the method .*step(.|\n)*self.step = ss.capture\(self.step\)"):
        training.step(*batches(device, 1)[0])


class Trainer(Training):
    def __init__(self, device):
        super().__init__(device)
        self.step = ss.capture(self.__call__)


def test_trainer_with_graphs_can_be_copied(device, graphs):
    trainer = Trainer(device)
    for batch in batches(device):
        trainer.step(*batch)
    assert trainer.step.graphs == 1
    other = copy.deepcopy(trainer)
    assert other.step.graphs == 0
    before = trainer.model[0].weight.detach().clone()
    for batch in batches(device):
        other.step(*batch)
    assert other.step.graphs == 1
    assert torch.equal(trainer.model[0].weight, before)


def test_data_parallel_runs_without_graph(device, graphs):
    if device == "cpu" and torch.cuda.is_available():
        pytest.skip("DataParallel then needs modules on a GPU")
    training = Training(device)
    training.model = nn.DataParallel(training.model)
    step = ss.capture(training)
    with pytest.warns(UserWarning, match="graphs of DataParallel are not supported"):
        for batch in batches(device):
            step(*batch)
    assert step.graphs == 0


class WithSettings(Training):
    """Reads numbers in attributes, in elements and in the attributes of modules."""

    def __init__(self, device):
        super().__init__(device)
        self.weight, self.settings, self.average = 1.0, {"scale": 1.0}, None
        self.model = nn.Sequential(Scaling(), self.model)

    def __call__(self, x, y):
        loss = nn.functional.mse_loss(self.model(x), y) * getattr(self, "weight") * self.settings["scale"]
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        if self.average is not None:
            with torch.no_grad():
                torch._foreach_lerp_(list(self.average.parameters()), list(self.model.parameters()), 0.5)
        return loss


class Scaling(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = 1.0

    def forward(self, x):
        return x * self.factor


def change_attribute(training):
    training.weight = 0.5


def change_element(training):
    training.settings["scale"] = 0.5


def change_submodule(training):
    training.model[0].factor = 0.5


def change_dropout(training):
    training.model[1][3].p = 0.9


@pytest.mark.parametrize("change", [change_attribute, change_element, change_submodule, change_dropout])
def test_numbers_that_the_step_reads_select_a_graph(device, graphs, change):
    assert_same_with_changes(device, WithSettings, change, 2)


def test_object_that_was_none_is_used(device, graphs):
    def add_average(training):
        training.average = copy.deepcopy(training.model).requires_grad_(False)

    with pytest.warns(UserWarning, match="not found in its variables and attributes"):
        assert_same_with_changes(device, WithSettings, add_average, 1)


class ScaledByAttribute(Training):
    def __init__(self, device):
        super().__init__(device)
        self.scaler = torch.amp.GradScaler(device, init_scale=64.0, growth_interval=3)

    def __call__(self, x, y):
        loss = nn.functional.mse_loss(self.model(x), y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        return self.scaler._scale.clone()


def test_settings_of_a_gradient_scaler_select_a_graph(device, graphs):
    assert_same_with_changes(device, ScaledByAttribute, lambda training: training.scaler.set_growth_interval(50), 2)


def test_detection_of_anomalies_selects_a_graph(device, graphs):
    training = Training(device)
    step = ss.capture(training)
    for i, batch in enumerate(batches(device, 16)):
        with torch.autograd.set_detect_anomaly(i >= 8), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            step(*batch)
    assert step.replays < 16 - WARMUP


class InOrderedDict(Training):
    def __init__(self, device):
        super().__init__(device)
        self.parts = collections.OrderedDict(model=self.model)

    def __call__(self, x, y):
        return mse_step(types.SimpleNamespace(model=self.parts["model"], optimizer=self.optimizer), x, y)


class ByName(Training):
    def __call__(self, x, y):
        model = getattr(self, "model_of_step")
        return mse_step(types.SimpleNamespace(model=model, optimizer=self.optimizer), x, y)

    def __init__(self, device):
        super().__init__(device)
        self.model_of_step = self.model


class WithPlainTensors(Training):
    """Its submodules have plain tensors as attributes, of the same name."""

    def __init__(self, device):
        super().__init__(device)
        self.model = nn.Sequential(Scaling(), self.model, Scaling())
        for each in (self.model[0], self.model[2]):
            each.factor = torch.ones((), device=device)


def add_module_hook(training):
    return training.model[0].register_forward_hook(lambda module, arguments, result: result * 0)


def add_parameter_hook(training):
    return next(training.model.parameters()).register_hook(lambda grad: grad * 0)


def add_optimizer_hook(training):
    return training.optimizer.register_step_post_hook(lambda *arguments: None)


@pytest.mark.parametrize("add", [add_module_hook, add_parameter_hook, add_optimizer_hook])
def test_hooks_that_are_added_or_removed_raise_until_reset(device, graphs, add):
    training = Training(device)
    step = ss.capture(training)
    for batch in batches(device):
        step(*batch)
    hook = add(training)
    for _ in range(2):
        with pytest.raises(ss.Error, match=r"a hook of a module, parameter or optimizer was added(.|\n)*reset\(\)"):
            step(*batches(device, 1)[0])
    step.reset()
    for batch in batches(device):
        step(*batch)
    assert step.graphs == 1
    hook.remove()
    with pytest.raises(ss.Error, match="was added or removed"):
        step(*batches(device, 1)[0])


def rebind_element(training):
    training.parts["model"] = network("cpu")


def rebind_attribute(training):
    training.model_of_step = network("cpu")


def rebind_first(training):
    training.model[0].factor = training.model[0].factor * 2


def rebind_last(training):
    training.model[2].factor = training.model[2].factor * 2


@pytest.mark.parametrize(("kind", "change"), [
    (InOrderedDict, rebind_element), (ByName, rebind_attribute), (WithPlainTensors, rebind_first),
    (WithPlainTensors, rebind_last)])
def test_rebound_variables_raise(device, graphs, kind, change):
    training = kind(device)
    step = ss.capture(training)
    for batch in batches(device):
        step(*batch)
    assert step.graphs == 1
    change(training)
    with pytest.raises(ss.Error, match="refers to another object"):
        step(*batches(device, 1)[0])
