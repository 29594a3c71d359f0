"""slipstream.capture. On a CPU, tests/support/recorded_graphs.py takes the place of CUDA graphs."""

import collections
import contextlib
import copy
import functools
import itertools
import random
import warnings
import weakref

import pytest
import recorded_graphs
import torch
from recorded_graphs import make_recorded_graphs
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

import slipstream as ss
from slipstream import _cuda_graphs
from slipstream._state_guard import StateGuard
from slipstream._step_state import find_difference

WARMUP = 3


@pytest.fixture
def graphs(device, monkeypatch):
    """Records graphs on a CPU, too. Each test uses deterministic algorithms, so that results can be compared with
    `==`."""
    if device == "cpu":
        monkeypatch.setattr(_cuda_graphs, "make_graphs", make_recorded_graphs)
        monkeypatch.setattr(_cuda_graphs, "_LIBRARIES", (*_cuda_graphs._LIBRARIES, recorded_graphs.__file__))
    else:
        monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "slipstream")
        yield
    torch.use_deterministic_algorithms(before)


def network(device, dropout=0.25):
    torch.manual_seed(1)
    layers = nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, 4)
    return nn.Sequential(*layers).to(device)


def adamw(model, lr=1e-2):
    """Has the settings that ss.capture gives an optimizer, so that a plain loop computes the same bits."""
    device = next(model.parameters()).device
    lr = torch.tensor(lr, device=device)
    return torch.optim.AdamW(model.parameters(), lr, fused=True, capturable=device.type == "cuda")


def sgd(model):
    return torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)


def adam(model):
    """On a CPU, only the fused implementation reads its learning rate from a tensor."""
    if next(model.parameters()).is_cuda:
        return torch.optim.Adam(model.parameters(), torch.tensor(1e-2, device="cuda"), capturable=True)
    return torch.optim.Adam(model.parameters(), torch.tensor(1e-2), fused=True)


def batches(device, count=12, size=6):
    made = torch.Generator().manual_seed(2)
    pairs = [(torch.randn(size, 8, generator=made), torch.randn(size, 4, generator=made)) for _ in range(count)]
    return [(x.to(device), y.to(device)) for x, y in pairs]


class Training:
    """A model, an optimizer, and the usual step."""

    writes_arguments = False

    def __init__(self, device, make_optimizer=adamw):
        self.model = network(device)
        self.optimizer = make_optimizer(self.model)

    def __call__(self, x, y):
        loss = nn.functional.mse_loss(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss


def copied(argument):
    return argument.clone() if isinstance(argument, torch.Tensor) else argument


def results(training, step, data):
    """Trains, and returns everything that must have equal bits."""
    device = data[0][0].device
    torch.manual_seed(3)
    losses = [step(*map(copied, each)) if training.writes_arguments else step(*each) for each in data]
    found = [*losses, *training.model.state_dict().values()]
    for state in training.optimizer.state_dict()["state"].values():
        found += [each for each in state.values() if isinstance(each, torch.Tensor)]
    found.append(torch.cuda.get_rng_state() if device.type == "cuda" else torch.get_rng_state())
    return [each.detach().cpu() for each in found]


def assert_same(training, step, data, plain=None):
    plain = type(training)(data[0][0].device) if plain is None else plain
    expected, found = results(plain, plain, data), results(training, step, data)
    assert len(expected) == len(found)
    for i, (a, b) in enumerate(zip(expected, found, strict=True)):
        assert torch.equal(a, b), i


@pytest.mark.parametrize("make_optimizer", [adamw, sgd, adam])
@pytest.mark.parametrize("checks", [0, 2])
def test_graphs_give_the_bits_of_a_plain_loop(device, graphs, make_optimizer, checks):
    training, plain = Training(device, make_optimizer), Training(device, make_optimizer)
    step = ss.capture(training, checks=checks)
    assert_same(training, step, batches(device), plain)
    assert step.graphs == 1
    assert step.replays == 12 - WARMUP


def test_modules_and_optimizers_can_be_named(device, graphs):
    training = Training(device)
    held = weakref.ref(training)  # is not searched
    step = ss.capture(lambda x, y: held()(x, y), modules=[training.model], optimizers=[training.optimizer])
    assert_same(training, step, batches(device))
    replace_layer(training)
    with pytest.raises(ss.Error, match="submodule, parameter or buffer"):
        step(*batches(device, 1)[0])


def test_kept_losses_are_not_overwritten(device, graphs):
    training, plain = Training(device), Training(device)
    step = ss.capture(training)
    torch.manual_seed(3)
    expected = [plain(*each).detach() for each in batches(device)]
    torch.manual_seed(3)
    losses = [step(*each) for each in batches(device)]
    assert all(map(torch.equal, losses, expected))
    assert not losses[-1].requires_grad


class Scheduled(Training):
    def __init__(self, device, make_optimizer=adamw):
        super().__init__(device, make_optimizer)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 20)

    def outside(self, step, *batch):
        loss = step(*batch)
        self.scheduler.step()
        return loss


def test_learning_rate_schedule_needs_one_graph(device, graphs):
    training, plain = Scheduled(device), Scheduled(device)
    step = ss.capture(training)
    expected = results(plain, lambda *batch: plain.outside(plain, *batch), batches(device))
    found = results(training, lambda *batch: training.outside(step, *batch), batches(device))
    assert all(map(torch.equal, expected, found))
    assert step.graphs == 1


def test_assigned_learning_rate_is_used(device, graphs):
    training, plain = Training(device), Training(device)
    step = ss.capture(training)

    def set_rate(holder, call, n):
        def run(*batch):
            n[0] += 1
            rate = 0.1 / n[0]
            holder.optimizer.param_groups[0]["lr"] = rate if holder is training else torch.tensor(rate, device=device)
            return call(*batch)
        return run

    expected = results(plain, set_rate(plain, plain, [0]), batches(device))
    found = results(training, set_rate(training, step, [0]), batches(device))
    assert all(map(torch.equal, expected, found))
    assert step.graphs == 1


def test_changed_learning_rate_on_the_host_gets_another_graph(device, graphs):
    training, plain = Training(device, sgd), Training(device, sgd)
    step = ss.capture(training)

    def set_rate(holder, call, n):
        def run(*batch):
            n[0] += 1
            holder.optimizer.param_groups[0]["lr"] = 0.1 if n[0] <= 6 else 0.05
            return call(*batch)
        return run

    expected = results(plain, set_rate(plain, plain, [0]), batches(device))
    found = results(training, set_rate(training, step, [0]), batches(device))
    assert all(map(torch.equal, expected, found))
    assert step.graphs == 2


class ZeroFirst(Training):
    set_to_none = True

    def __call__(self, x, y):
        self.optimizer.zero_grad(set_to_none=self.set_to_none)
        loss = nn.functional.mse_loss(self.model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 0.1)
        self.optimizer.step()
        return loss


class ZeroInPlace(ZeroFirst):
    set_to_none = False


class StepFirst(Training):
    """Applies the gradients of the step before."""

    def __call__(self, x, y):
        self.optimizer.step()
        self.optimizer.zero_grad()
        loss = nn.functional.mse_loss(self.model(x), y)
        loss.backward()
        return loss


@pytest.mark.parametrize("kind", [ZeroFirst, ZeroInPlace, StepFirst])
@pytest.mark.parametrize("slots", [0, 4])
def test_gradients_that_outlive_a_step(device, graphs, kind, slots):
    training, plain = kind(device), kind(device)
    step = ss.capture(training, slots=slots)
    data = batches(device, 3) * 6
    assert_same(training, step, data, plain)
    assert step.replays >= 18 - 2 * WARMUP
    for mine, other in zip(training.model.parameters(), plain.model.parameters(), strict=True):
        assert torch.equal(mine.grad, other.grad)


@pytest.mark.parametrize("kind", [ZeroFirst, StepFirst])
def test_gradients_of_a_call_without_graph_are_used_by_the_next_replay(device, graphs, kind):
    training, plain = kind(device), kind(device)
    step = ss.capture(training, slots=0)
    assert_same(training, step, with_small_last_batch(device), plain)
    assert step.replays >= 25 - 2 * WARMUP


class Accumulating(Training):
    def __call__(self, x, y, is_last):
        loss = nn.functional.mse_loss(self.model(x), y) / 3
        loss.backward()
        if is_last:
            self.optimizer.step()
            self.optimizer.zero_grad()
        return loss


def test_accumulated_gradients(device, graphs):
    training, plain = Accumulating(device), Accumulating(device)
    step = ss.capture(training)
    data = [(*batch, i % 3 == 2) for i, batch in enumerate(batches(device, 24))]
    assert_same(training, step, data, plain)
    assert step.graphs == 3  # the first, second and third of three steps
    assert step.replays == 24 - 3 * WARMUP
    assert all(each.grad is None for each in training.model.parameters())


class Scaled(Training):
    def __init__(self, device):
        super().__init__(device)
        self.scaler = torch.amp.GradScaler(device if isinstance(device, str) else device.type, init_scale=1024.0,
                                           growth_interval=4)

    def __call__(self, x, y):
        loss = nn.functional.mse_loss(self.model(x), y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        return loss


def test_grad_scaler(device, graphs):
    training, plain = Scaled(device), Scaled(device)
    step = ss.capture(training)
    data = batches(device, 16)
    data[9] = (data[9][0], data[9][1] * 1e38)  # its gradients are infinite, so this step must be skipped
    expected, found = results(plain, plain, data), results(training, step, data)
    assert all(map(torch.equal, expected, found))
    assert training.scaler.get_scale() == plain.scaler.get_scale() == 4096.0
    assert {float(each["step"]) for each in training.optimizer.state.values()} == {15.0}
    assert step.graphs == 1


class Averaged(Training):
    def __init__(self, device):
        super().__init__(device)
        self.average = network(device).requires_grad_(False)

    def __call__(self, x, y):
        loss = super().__call__(x, y)
        with torch.no_grad():
            torch._foreach_lerp_(list(self.average.parameters()), list(self.model.parameters()), 0.25)
        return loss


def test_average_of_weights(device, graphs):
    training, plain = Averaged(device), Averaged(device)
    assert_same(training, ss.capture(training), batches(device), plain)
    assert all(map(torch.equal, training.average.parameters(), plain.average.parameters()))


class Adversarial(Training):
    def __init__(self, device):
        super().__init__(device)
        self.judge = nn.Linear(4, 1).to(device)
        self.judges_optimizer = adamw(self.judge, 1e-3)

    def __call__(self, x, y):
        made = self.model(x)
        judged = self.judge(made.detach()).mean() - self.judge(y).mean()
        judged.backward()
        self.judges_optimizer.step()
        loss = -self.judge(made).mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.judges_optimizer.zero_grad()
        return {"loss": loss, "judged": judged}


def test_several_optimizers_and_results(device, graphs):
    training, plain = Adversarial(device), Adversarial(device)
    step = ss.capture(training)
    assert_same(training, lambda *batch: step(*batch)["judged"], batches(device), _Judged(plain))
    assert all(map(torch.equal, training.judge.parameters(), plain.judge.parameters()))
    assert step.graphs == 1


class _Judged:
    def __init__(self, training):
        self.model, self.optimizer, self._training = training.model, training.optimizer, training
        self.writes_arguments = False

    def __call__(self, *batch):
        return self._training(*batch)["judged"]


class Noisy(Training):
    def __init__(self, device):
        super().__init__(device)
        self.generator = torch.Generator(device).manual_seed(4)

    def __call__(self, x, y):
        return super().__call__(x + torch.randn(x.shape, generator=self.generator, device=x.device), y)


def test_generator_of_the_step(device, graphs):
    training, plain = Noisy(device), Noisy(device)
    step = ss.capture(training, generators=[training.generator])
    assert_same(training, step, batches(device), plain)
    assert torch.equal(training.generator.get_state(), plain.generator.get_state())
    assert step.graphs == 1


class Autocast(Training):
    def __call__(self, x, y):
        with torch.autocast(x.device.type, torch.bfloat16):
            return super().__call__(x, y)


def test_autocast_in_the_step(device, graphs):
    training = Autocast(device)
    step = ss.capture(training)
    assert_same(training, step, batches(device))
    assert step.graphs == 1


def test_autocast_around_the_loop_uses_the_new_weights(device, graphs):
    training, plain = Training(device), Autocast(device)
    step = ss.capture(training)
    with torch.autocast(device, torch.bfloat16):
        found = results(training, step, batches(device))
    assert all(map(torch.equal, found, results(plain, plain, batches(device))))
    assert step.graphs == 1


def with_small_last_batch(device):
    return ([*batches(device, 5), *batches(device, 1, 2)]) * 5


def test_new_shapes_run_without_graph(device, graphs):
    training = Training(device)
    step = ss.capture(training, slots=0)
    assert_same(training, step, with_small_last_batch(device))
    assert step.graphs == 1
    assert step.replays == 25 - WARMUP


def test_new_shapes_can_get_a_graph(device, graphs):
    training = Training(device)
    step = ss.capture(training, slots=0, new_shapes="capture")
    assert_same(training, step, with_small_last_batch(device))
    assert step.graphs == 2
    assert step.replays == 30 - 2 * WARMUP


class Weighted(Training):
    def __call__(self, x, y, weight=1.0):
        loss = nn.functional.mse_loss(self.model(x), y) * weight
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss


def test_python_numbers_select_a_graph(device, graphs):
    training = Weighted(device)
    step = ss.capture(training)
    assert_same(training, step, [(*batch, float(i % 2)) for i, batch in enumerate(batches(device, 16))])
    assert step.graphs == 2


def test_number_that_changes_in_each_call_gives_one_warning(device, graphs):
    training = Weighted(device)
    step = ss.capture(training)
    with pytest.warns(UserWarning, match=r"more than 32 combinations(.|\n)*as tensors on the device") as seen:
        for i, batch in enumerate(batches(device, 36)):
            step(*batch, 1.0 / (i + 1))
    assert len(seen) == 1
    assert seen[0].filename == __file__


def test_one_and_true_are_different_arguments(device, graphs):
    training = Weighted(device)
    step = ss.capture(training)
    for weight in (1, True, 1.0) * (WARMUP + 1):
        step(*batches(device, 1)[0], weight)
    assert step.graphs == 3


def test_ring_of_addresses_gets_a_graph_for_each(device, graphs):
    training = Training(device)
    step = ss.capture(training, slots=3)
    assert_same(training, step, batches(device, 3) * 5)
    assert step.graphs == 3
    assert step.replays == 15 - WARMUP


def test_more_addresses_than_slots_are_copied(device, graphs):
    training = Training(device)
    step = ss.capture(training, slots=2)
    assert_same(training, step, batches(device, 5) * 4)
    assert step.graphs == 3
    assert step.replays == 20 - WARMUP


def test_mode_of_module_is_part_of_the_key(device, graphs):
    training, plain = Training(device), Training(device)
    step = ss.capture(training)
    for run in (training, plain):
        torch.manual_seed(3)
        for i, batch in enumerate(batches(device, 16)):
            run.model.train(i < 8)
            (step if run is training else run)(*batch)
    assert all(map(torch.equal, training.model.state_dict().values(), plain.model.state_dict().values()))
    assert step.graphs == 2


@pytest.mark.filterwarnings("ignore:.torch.jit")
def test_mode_of_a_torchscript_module_is_part_of_the_key(device, graphs):
    model = torch.jit.script(nn.Sequential(nn.Linear(8, 4), nn.Dropout(0.5)).to(device))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def train(x, y):
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    step = ss.capture(train, slots=0, checks=0)
    for i, batch in enumerate(batches(device, 2 * WARMUP + 4)):
        model.train(i < WARMUP + 2)
        step(*batch)
    assert step.graphs == 2


def test_gradient_that_a_loop_sets_is_used(device, graphs):
    """Gradients are compared with those before the last call, and these may be the same objects for many calls."""
    training, plain = ZeroFirst(device), ZeroFirst(device)
    for kind in (training, plain):
        kind.set_to_none = False
    step = ss.capture(training)
    for number, batch in enumerate(batches(device, 16)):
        for kind, call in ((training, step), (plain, plain)):
            if number in (5, 10):
                for parameter in kind.model.parameters():
                    parameter.grad = None if number == 5 else torch.ones_like(parameter)
            torch.manual_seed(number)
            call(*batch)
    assert all(map(torch.equal, training.model.state_dict().values(), plain.model.state_dict().values()))


def run_to_graph(device, kind=Training, **options):
    training = kind(device)
    step = ss.capture(training, **options)
    for batch in batches(device, WARMUP + 2):
        step(*batch)
    assert step.graphs == 1
    return training, step


def replace_layer(training):
    training.model[0] = nn.Linear(8, 16).to(next(training.model.parameters()).device)


def replace_parameter(training):
    training.model[4].bias = nn.Parameter(torch.zeros_like(training.model[4].bias))


def move(training):
    training.kept = [each.data for each in training.model.parameters()]  # so that their memory is not used again
    training.model.to(torch.float64).to(torch.float32)


def replace_state(training):
    training.optimizer.load_state_dict(training.optimizer.state_dict())


def add_group(training):
    extra = nn.Parameter(torch.zeros(2, device=training.model[0].weight.device))
    training.optimizer.add_param_group({"params": [extra]})


@pytest.mark.parametrize(("change", "message"), [
    (replace_layer, "submodule, parameter or buffer(.|\n)*replaced"), (replace_parameter, "parameter or buffer"),
    (move, "'model.0.weight' has other memory"), (replace_state, "AdamW was replaced, for example by load_state_dict"),
    (add_group, "groups of the optimizer AdamW have other parameters")])
def test_replay_after_a_change_raises_until_reset(device, graphs, change, message):
    training, step = run_to_graph(device)
    change(training)
    for _ in range(2):
        with pytest.raises(ss.Error, match=rf"{message}(.|\n)*reset\(\)"):
            step(*batches(device, 1)[0])
    step.reset()
    assert step.graphs == 0
    for batch in batches(device, WARMUP + 2):
        step(*batch)
    assert step.graphs == 1


def test_rebound_variables_raise_until_reset(device, graphs):
    model = network(device)
    optimizer = sgd(model)

    def train(x, y):
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()

    step = ss.capture(train)
    for batch in batches(device, WARMUP + 2):
        step(*batch)
    assert step.graphs == 1
    model = network(device)
    optimizer = sgd(model)
    with pytest.raises(ss.Error, match=r"'(model|optimizer)' refers to another object(.|\n)*reset\(\)"):
        step(*batches(device, 1)[0])
    step.reset()
    before = model[0].weight.detach().clone()
    for batch in batches(device, WARMUP + 2):
        step(*batch)
    assert step.graphs == 1 and not torch.equal(model[0].weight, before)


def test_rebound_attribute_raises(device, graphs):
    training, step = run_to_graph(device)
    training.model = network(device)
    with pytest.raises(ss.Error, match="'model' refers to another object"):
        step(*batches(device, 1)[0])


class Slotted:
    """Has its model in a slot."""

    __slots__ = ("model", "optimizer")

    def __init__(self, device):
        self.model = network(device)
        self.optimizer = sgd(self.model)

    def __call__(self, x, y):
        return train_with(self.model, self.optimizer, x, y)


def train_with(model, optimizer, x, y):
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss


def in_slot(device):
    step = Slotted(device)
    return step, lambda: setattr(step, "model", network(device))


def in_keywords_of_partial(device):
    model = network(device)
    step = functools.partial(train_with, model=model, optimizer=sgd(model))
    return lambda x, y: step(x=x, y=y), lambda: step.keywords.update(model=network(device))


def in_closure_of_partial(device):
    model = network(device)
    optimizer = sgd(model)

    def train(weight, x, y):
        return train_with(model, optimizer, x, y * weight)

    def rebind():
        nonlocal model
        model = network(device)

    return functools.partial(train, 2.0), rebind


def in_other_partial(device):
    model = network(device)
    train = functools.partial(train_with, model, sgd(model))

    def rebind():
        nonlocal train
        other = network(device)
        train = functools.partial(train_with, other, sgd(other))

    return lambda x, y: train(x, y), rebind


def in_deque(device):
    models = collections.deque([network(device)])
    optimizer = sgd(models[0])
    return lambda x, y: train_with(models[0], optimizer, x, y), lambda: models.appendleft(network(device))


@pytest.mark.parametrize("make", [in_slot, in_keywords_of_partial, in_closure_of_partial, in_other_partial, in_deque])
def test_rebinding_in_other_objects_raises_until_reset(device, graphs, make):
    train, rebind = make(device)
    step = ss.capture(train)
    for batch in batches(device, WARMUP + 2):
        step(*batch)
    assert step.graphs == 1
    rebind()
    with pytest.raises(ss.Error, match=r"refers to another object(.|\n)*reset\(\)"):
        step(*batches(device, 1)[0])


class Recording(Training):
    """Belongs to a loop that keeps its last losses where the step does not read them."""

    def __init__(self, device):
        super().__init__(device)
        self.recent = collections.deque([torch.zeros((), device=device)], maxlen=2)
        self.named = {"loss": torch.zeros((), device=device)}


def test_elements_that_the_step_does_not_read_may_change(device, graphs):
    training = Recording(device)
    step = ss.capture(training)
    for batch in batches(device):
        training.recent.append(step(*batch))
        training.named["loss"] = training.recent[-1]
    assert step.graphs == 1


class Remembering(Training):
    """Assigns a tensor to an attribute in each step."""

    last = None

    def __call__(self, x, y):
        self.last = super().__call__(x, y).detach()
        return self.last


def test_variables_that_the_step_assigns_may_change(device, graphs):
    training = Remembering(device)
    step = ss.capture(training, slots=0)
    assert_same(training, step, with_small_last_batch(device))
    assert step.replays == 25 - WARMUP


class KeepingAutogradGraph(Training):
    """Keeps the autograd graph of its last step, and with it objects of PyTorch for the stream of that step."""

    last = None

    def __call__(self, x, y):
        self.last = super().__call__(x, y)
        return self.last


@pytest.mark.filterwarnings("ignore:The AccumulateGrad node's stream")
def test_step_that_keeps_its_autograd_graph_runs_without_cuda_graph(device, graphs):
    training = KeepingAutogradGraph(device)
    step = ss.capture(training)
    remedy = r"keep detached tensors only, such as self.last = loss.detach\(\)"
    refused = pytest.warns(UserWarning, match=remedy) if device == "cuda" else contextlib.nullcontext()
    with refused:
        assert_same(training, step, batches(device))
    assert step.graphs == (0 if device == "cuda" else 1)


def test_attributes_that_the_step_does_not_read_may_change(device, graphs):
    training = Training(device)
    training.last_loss, training.best = torch.zeros((), device=device), network(device)
    step = ss.capture(training)
    for batch in batches(device):
        training.last_loss = step(*batch)
        training.best = copy.deepcopy(training.model)
    assert step.graphs == 1


class Late:
    """Creates its model in the first call and its optimizer in the second."""

    training = None

    def __call__(self, x, y):
        if self.training is None:
            self.training = Training(x.device, lambda model: None)
            return self.training.model(x)
        if self.training.optimizer is None:
            self.training.optimizer = adamw(self.training.model)
        return self.training(x, y)


def test_objects_that_the_step_creates_are_found(device, graphs):
    step = ss.capture(late := Late())
    for batch in batches(device):
        step(*batch)
    assert step.graphs == 1
    replace_state(late.training)
    with pytest.raises(ss.Error, match="AdamW was replaced"):
        step(*batches(device, 1)[0])


def test_step_without_known_objects_gives_one_warning(device, graphs, monkeypatch):
    training = Training(device)
    held = weakref.ref(training)
    step = ss.capture(lambda x, y: held()(x, y))
    monkeypatch.setattr(_cuda_graphs, "are_possible", lambda: True)
    with pytest.warns(UserWarning, match=r"no module, optimizer or tensor(.|\n)*modules=") as seen:
        for batch in batches(device):
            step(*batch)
    assert len(seen) == 1


def test_module_as_argument_must_be_known(device, graphs):
    training = Training(device)

    def train(x, y, model):
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        training.optimizer.step()
        training.optimizer.zero_grad()
        return loss

    del training.model
    model = network(device)
    training.optimizer = sgd(model)
    step = ss.capture(train)
    with pytest.warns(UserWarning, match=r"arguments is a Sequential(.|\n)*modules="):
        for batch in batches(device):
            step(*batch, model)
    assert step.graphs == 0
    step = ss.capture(train, modules=[model])
    for batch in batches(device):
        step(*batch, model)
    assert step.graphs == 1


def test_generator_as_argument_must_be_named(device, graphs):
    training, generator = Training(device), torch.Generator(device)

    def train(x, y, generator):
        return training(x + torch.randn(x.shape, generator=generator, device=x.device), y)

    step = ss.capture(train)
    with pytest.warns(UserWarning, match=r"arguments is a random generator(.|\n)*generators="):
        for batch in batches(device):
            step(*batch, generator)
    assert step.graphs == 0
    step = ss.capture(train, generators=[generator])
    for batch in batches(device):
        step(*batch, generator)
    assert step.graphs == 1


def with_criterion(training):
    def train(x, y, criterion):
        loss = criterion(training.model(x), y)
        loss.backward()
        training.optimizer.step()
        training.optimizer.zero_grad()
        return loss

    return train


@pytest.mark.parametrize("make", [
    lambda scale: lambda a, b: nn.functional.mse_loss(a, b) * scale,
    lambda scale: functools.partial(scaled_loss, scale=scale), lambda scale: lambda a, b, s=scale: scaled_loss(a, b, s)])
def test_numbers_in_the_closure_of_an_argument_select_a_graph(device, graphs, make):
    training = Training(device)
    step = ss.capture(with_criterion(training))
    plain = Training(device)
    for i, batch in enumerate(batches(device, 2 * WARMUP + 4)):
        for call in (step, with_criterion(plain)):
            torch.manual_seed(i)
            call(*batch, make(1.0 + i % 2))
    assert all(map(torch.equal, training.model.state_dict().values(), plain.model.state_dict().values()))
    assert step.graphs == 2


def scaled_loss(a, b, scale):
    return nn.functional.mse_loss(a, b) * scale


def test_function_as_argument_whose_closure_changes_gets_another_graph(device, graphs):
    training, scale = Training(device), 1.0

    def criterion(a, b):
        return nn.functional.mse_loss(a, b) * scale

    step, plain = ss.capture(with_criterion(training)), Training(device)
    for i, batch in enumerate(batches(device, 2 * WARMUP + 4)):
        scale = 1.0 if i < WARMUP + 2 else 3.0
        for call in (step, with_criterion(plain)):
            torch.manual_seed(i)
            call(*batch, criterion)
    assert all(map(torch.equal, training.model.state_dict().values(), plain.model.state_dict().values()))
    assert step.graphs == 2


@pytest.mark.parametrize("what", ["module", "tensor", "list", "object"])
def test_function_as_argument_with_unknown_objects_runs_without_graph(device, graphs, what):
    training = Training(device)
    weight = {"module": nn.Linear(4, 4).to(device), "tensor": torch.ones(4, device=device), "list": [2.0],
              "object": Annealed(device)}[what]
    used = weight if what == "object" else lambda a, b: nn.functional.mse_loss(apply(weight, a), b)
    step = ss.capture(with_criterion(training) if what != "object" else lambda x, y, criterion: training(x, y))
    message = {"module": r"uses 'weight', a Linear(.|\n)*modules=", "tensor": "uses 'weight', a Tensor(.|\n)*as an arg",
               "list": "uses 'weight' of type list, which may change", "object": "of type Annealed, which may change"}
    with pytest.warns(UserWarning, match=message[what]) as seen:
        for batch in batches(device):
            step(*batch, used)
    assert len(seen) == 1 and step.graphs == 0


def apply(weight, x):
    return weight(x) if callable(weight) else x * (weight[0] if isinstance(weight, list) else weight)


def test_known_module_in_a_function_as_argument_gets_a_graph(device, graphs):
    training, judge = Training(device), nn.Linear(4, 4).to(device)
    step = ss.capture(with_criterion(training), modules=[judge])
    for batch in batches(device):
        step(*batch, lambda a, b: nn.functional.mse_loss(judge(a), b))
    assert step.graphs == 1


class SchedulingInside(Scheduled):
    def __call__(self, x, y):
        loss = super().__call__(x, y)
        self.scheduler.step()
        return loss


def test_step_with_a_scheduler_inside_runs_without_graph(device, graphs):
    training, plain = SchedulingInside(device), SchedulingInside(device)
    with pytest.warns(UserWarning, match=r"it changes 'scheduler.last_epoch' \(int\)"):
        assert_same(training, ss.capture(training), batches(device), plain)


def test_groups_that_share_a_learning_rate_get_separate_ones(device, graphs):
    rate = torch.tensor(0.1, device=device)
    model = network(device)
    groups = [{"params": model[0].parameters()}, {"params": model[4].parameters()}]
    optimizer = torch.optim.SGD(groups, rate, fused=True)

    def train(x, y):
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()

    step = ss.capture(train)
    for batch in batches(device):
        step(*batch)
        optimizer.param_groups[0]["lr"] = 0.0
        assert step.graphs == 0 or float(optimizer.param_groups[1]["lr"]) == pytest.approx(0.1)
    assert step.graphs == 1
    assert float(optimizer.param_groups[1]["lr"]) == pytest.approx(0.1)


def test_optimizer_without_graphs_is_not_changed():
    training = Training("cpu", lambda model: torch.optim.Adam(model.parameters(), 1e-2, fused=True))
    step = ss.capture(training)
    step(*batches("cpu", 1)[0])
    assert isinstance(training.optimizer.param_groups[0]["lr"], float)


def test_modes_of_pytorch_select_a_graph(device, graphs):
    training, step = run_to_graph(device)
    torch.set_float32_matmul_precision("high")
    try:
        for batch in batches(device, WARMUP + 1):
            step(*batch)
    finally:
        torch.set_float32_matmul_precision("highest")
    assert step.graphs == 2


def test_many_shapes_that_get_no_graph_give_no_warning(device, graphs):
    training = Training(device)
    step = ss.capture(training, slots=0)
    for batch in batches(device, WARMUP + 1):
        step(*batch)
    for size in range(10, 50):
        step(*batches(device, 1, size)[0])
    replays = step.replays
    step(*batches(device, 1)[0])
    assert step.replays == replays + 1


def test_least_recently_used_graph_is_dropped(device, graphs):
    training = Weighted(device)
    step = ss.capture(training, slots=0, checks=0, warmup=1)
    batch = batches(device, 1)[0]
    with pytest.warns(UserWarning, match="more than 32 combinations"):
        for i in range(33):
            for _ in range(2):
                step(*batch, float(i))
    assert step.graphs == 33
    step(*batch, 32.0)
    assert step.graphs == 33
    step(*batch, 0.0)
    step(*batch, 0.0)
    assert step.graphs == 34


def test_differences_as_between_two_replays_are_allowed(device, graphs):
    torch.use_deterministic_algorithms(False)
    eager, graph, again, other = [{"loss": torch.tensor(value, device=device)} for value in (1.1, 1.0, 1.05, 2.0)]
    assert find_difference({}, eager, graph) == "loss"
    assert find_difference({}, eager, graph, again) == ""
    assert find_difference({}, other, graph, again) == "loss"


def test_state_that_cannot_be_restored_prevents_the_comparison(device, graphs, monkeypatch):
    training, plain = Training(device), Training(device)
    step = ss.capture(training)
    monkeypatch.setattr(StateGuard, "restore_tensors", lambda self: ["not restored, because restoring failed: 'x'"])
    with pytest.warns(UserWarning, match=r"is not compared with its graph: not restored(.|\n)*'x'") as seen:
        assert_same(training, step, batches(device), plain)
    assert len(seen) == 1
    assert step.replays == 12 - WARMUP


def remove_state(training):
    training.optimizer.state.clear()


def replace_momentum(training):
    state = training.optimizer.state[training.model[0].weight]
    state["exp_avg"] = state["exp_avg"].clone()


def replace_parameter_of_group(training):
    training.optimizer.param_groups[0]["params"][0] = nn.Parameter(training.model[0].weight.detach().clone())


def remove_group(training):
    training.optimizer.param_groups.pop()


def to_other_dtype(training):
    training.model.double()


@pytest.mark.parametrize(("change", "message"), [
    (replace_parameter_of_group, "groups of the optimizer AdamW have other"), (to_other_dtype, "has other memory"),
    (remove_group, "groups of the optimizer AdamW have other")])
def test_replay_after_other_changes_of_groups_and_types_raises(device, graphs, change, message):
    training, step = run_to_graph(device)
    change(training)
    with pytest.raises(ss.Error, match=rf"{message}(.|\n)*reset\(\)"):
        step(*batches(device, 1)[0])


@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_replay_after_the_model_was_moved_to_the_cpu_raises(device, graphs):
    training, step = run_to_graph(device)
    training.model.cpu()
    with pytest.raises(ss.Error, match=r"'model.0.weight' has other memory, on cpu(.|\n)*reset\(\)"):
        step(*batches(device, 1)[0])


def test_error_of_a_replay_names_the_call(device, graphs, monkeypatch):
    kind = torch.cuda.CUDAGraph if device == "cuda" else recorded_graphs.RecordedGraph

    def fail(graph):
        raise RuntimeError("an illegal memory access was encountered")

    monkeypatch.setattr(kind, "replay", fail)
    step = ss.capture(Training(device), checks=0)
    for number, batch in enumerate(batches(device, WARMUP + 2)):
        if number < WARMUP:
            step(*batch)
            continue
        with pytest.raises(RuntimeError, match="illegal memory access") as caught:
            step(*batch)
        assert f"call {number} of Training (counted from 0) replayed its CUDA graph" in caught.value.__notes__[0]


@pytest.mark.parametrize("change", [remove_state, replace_momentum])
def test_replay_without_the_state_of_the_optimizer_raises(device, graphs, change):
    training, step = run_to_graph(device)
    change(training)
    with pytest.raises(ss.Error, match="the state of the optimizer AdamW was replaced"):
        step(*batches(device, 1)[0])


@pytest.mark.parametrize("is_wrapped", [True, False])
def test_doctor_restores_the_state_of_a_captured_step(device, graphs, is_wrapped):
    training, plain = Training(device), Training(device)
    step = ss.capture(training if is_wrapped else lambda batch: training(*batch))
    before = [each.clone() for each in training.model.state_dict().values()]
    loader = torch.utils.data.DataLoader([(torch.ones(8), torch.ones(4)) for _ in range(64)], batch_size=6)
    given = (lambda batch: step(*batch)) if is_wrapped else step
    ss.doctor(loader, given, device=device, budget=0.5, try_out=False)
    assert all(map(torch.equal, training.model.state_dict().values(), before))
    assert not training.optimizer.state
    assert step.replays > 0 and step.graphs == 0
    found = results(training, step if is_wrapped else lambda *batch: step(batch), batches(device))
    assert all(map(torch.equal, found, results(plain, plain, batches(device))))


class Reading(Training):
    def __call__(self, x, y):
        loss = super().__call__(x, y)
        self.last = loss.item()
        return loss


def test_step_that_waits_for_the_device_runs_without_graph(device, graphs):
    training, plain = Reading(device), Reading(device)
    step = ss.capture(training)
    with pytest.warns(UserWarning, match=r"capture_test.py:\d+: self.last = loss.item\(\)") as seen:
        assert_same(training, step, batches(device), plain)
    assert len(seen) == 1
    assert seen[0].filename == __file__
    assert step.graphs == step.replays == 0
    assert training.last == plain.last


def wait(device):
    """Waits for the device, which is not possible in a capture."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    elif any(isinstance(each, recorded_graphs.Recorder) for each in _get_current_dispatch_mode_stack()):
        raise RuntimeError("operation not permitted when stream is capturing")


class ScaledReading(Scaled):
    def __call__(self, x, y):
        loss = nn.functional.mse_loss(self.model(x), y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        wait(x.device)  # fails in the capture, after the scaler has noted that it made a step
        self.scaler.update()
        self.optimizer.zero_grad()
        return loss


def test_failed_capture_leaves_no_trace_in_python_objects(device, graphs):
    training = ScaledReading(device)
    with pytest.warns(UserWarning, match=r"wait\(x.device\)|torch.cuda.synchronize\(\)|operation not permitted"):
        assert_same(training, ss.capture(training), batches(device))


class Failing(Training):
    """Raises an exception after some steps, until `fails` is reset."""

    count, fails = 0, True

    def __call__(self, x, y):
        loss = nn.functional.mse_loss(self.model(x), y)
        loss.backward()
        if self.fails and self.count == 0:
            raise ValueError("this batch is bad")
        self.count -= self.fails
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss


def train_until_the_end(training, step, data):
    """Continues after a bad batch, as a loop may do."""
    losses = []
    torch.manual_seed(3)
    for batch in data:
        try:
            losses.append(step(*batch))
        except ValueError:
            training.optimizer.zero_grad()
            training.fails = False
    return [*losses, *training.model.state_dict().values()]


def test_exception_in_a_capture_is_that_of_the_step(device, graphs):
    training, plain, data = Failing(device), Failing(device), batches(device)
    plain.count = training.count = WARMUP
    step = ss.capture(training)
    expected = train_until_the_end(plain, plain, data)
    found = train_until_the_end(training, step, data)
    assert not training.fails
    assert len(found) == len(expected)
    assert all(map(torch.equal, found, expected))
    assert step.graphs == 1


class Annealed(Training):
    """Uses a Python number that changes, which a graph would freeze, in an object whose changes are not visible."""

    def __init__(self, device):
        super().__init__(device)
        self.calls = itertools.count(1)

    def __call__(self, x, y):
        loss = nn.functional.mse_loss(self.model(x), y) * (0.5 ** next(self.calls))
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss


def test_frozen_python_number_is_found(device, graphs):
    training = Annealed(device)
    step = ss.capture(training)
    data = batches(device)
    with pytest.raises(ss.Error, match=r"another value of .* than the step itself(.|\n)*give what changes as an arg"):
        for batch in data:
            step(*batch)
    replays = step.replays
    step(*data[0])
    assert step.replays == replays  # without graph


def test_results_of_the_step_are_used_if_a_graph_differs(device, graphs):
    training, plain, data = Annealed(device), Annealed(device), batches(device)
    step = ss.capture(training)
    for run in (step, plain):
        torch.manual_seed(3)
        for batch in data[:WARMUP]:
            run(*batch)
    next(plain.calls)  # as in the capture, whose number the graph has frozen
    state = torch.cuda.get_rng_state() if device == "cuda" else torch.get_rng_state()
    plain(*data[WARMUP])
    torch.cuda.set_rng_state(state) if device == "cuda" else torch.set_rng_state(state)
    with pytest.raises(ss.Error, match="The results of the step itself are used"):
        step(*data[WARMUP])
    assert all(map(torch.equal, training.model.state_dict().values(), plain.model.state_dict().values()))


class Drawing(Training):
    def __call__(self, x, y):
        loss = nn.functional.mse_loss(self.model(x), y)
        if random.random() < 2:
            loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss


def test_step_with_random_numbers_of_the_host_runs_without_graph(device, graphs):
    training = Drawing(device)
    with pytest.warns(UserWarning, match="it uses random numbers of Python or NumPy"):
        assert_same(training, ss.capture(training), batches(device))


class InPlace(Training):
    writes_arguments = True

    def __call__(self, x, y):
        return super().__call__(x.mul_(2), y)


def test_step_that_writes_to_its_arguments_runs_without_graph(device, graphs):
    training = InPlace(device)
    step = ss.capture(training)
    with pytest.warns(UserWarning, match="writes to tensor 0 of its arguments"):
        assert_same(training, step, batches(device))
    assert step.graphs == 0


def test_argument_that_requires_gradients_runs_without_graph(device, graphs):
    training = Training(device)
    step = ss.capture(training)
    with pytest.warns(UserWarning, match=r"tensor 0 of its arguments requires gradients(.|\n)*detach"):
        assert_same(training, step, [(x.requires_grad_(), y) for x, y in batches(device)])


def test_object_as_argument_runs_without_graph(device, graphs):
    training = Weighted(device)
    step = ss.capture(lambda x, y, options: training(x, y))
    with pytest.warns(UserWarning, match="one of its arguments is of type object"):
        for batch in batches(device):
            step(*batch, object())
    assert step.graphs == 0


def test_operations_are_visible_to_dispatch_modes(device, graphs):
    training, step = run_to_graph(device)
    seen = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with Mode():
        step(*batches(device, 1)[0])
    assert len(seen) > 10


def test_verify_runs_a_captured_step(device, graphs):
    def make_run():
        training = Training(device)
        step = ss.capture(training)

        def run():
            for batch in ss.Pipeline(batches("cpu", 6), device=device):
                yield step(*batch)

        return run

    assert ss.verify(make_run, schedules=2).passed


def test_momentum_that_changes_in_each_step_gives_one_warning(device, graphs):
    training = Training(device)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(training.optimizer, 0.1, 60)
    step = ss.capture(training)
    with pytest.warns(UserWarning, match=r"numbers in the groups of optimizers(.|\n)*cycle_momentum=False"):
        for batch in batches(device, 36):
            step(*batch)
            scheduler.step()
    assert step.graphs == 0


def test_step_on_a_cpu_runs_without_graph():
    training = Training("cpu")
    step = ss.capture(training)
    assert_same(training, step, batches("cpu"))
    assert step.graphs == step.replays == 0


def test_model_that_is_moved_before_the_first_graph(device, graphs):
    training = Training("cpu", sgd)
    step = ss.capture(training)
    training.model.to(device)
    for batch in batches(device):
        step(*batch)
    assert step.graphs == 1


def test_lazy_module_gets_a_graph(device, graphs):
    model = nn.LazyLinear(4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def train(x, y):
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    step = ss.capture(train)
    losses = [float(step(*batch)) for batch in batches(device, 1) * 8]
    assert losses == sorted(losses, reverse=True)
    assert step.graphs == 1
    assert repr(step).endswith("train, graphs=1, replays=4)")


@pytest.mark.parametrize(("arguments", "message"), [
    ({"step": 3}, "step is of type int"), ({"modules": nn.Linear(1, 1)}, "modules must be a list"),
    ({"optimizers": [3]}, "optimizers must be a list"), ({"new_shapes": "never"}, "new_shapes is 'never'"),
    ({"modules": None}, "modules must be a list(.|\n)*NoneType"), ({"generators": [3]}, "generators must be a list"),
    ({"generators": torch.Generator()}, "generators must be a list"), ({"warmup": 0}, "warmup is 0"), ({"checks": -1}, "checks is -1"), ({"slots": 1.5}, "slots is 1.5")])
def test_invalid_arguments_are_refused(arguments, message):
    with pytest.raises(ss.Refused, match=message):
        ss.capture(**{"step": print, **arguments})
