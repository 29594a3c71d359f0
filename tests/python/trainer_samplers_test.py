"""slipstream.Trainer with a loader that has a sampler, compared with loops over the same loader."""

import os
import signal

import interpreters
import pytest
import slipstream as ss
from slipstream._training_order import TrainingOrder
import torch
from torch import nn
from torch.utils.data import BatchSampler, DistributedSampler, RandomSampler, WeightedRandomSampler
from trained import CHAIN, make_trainer, plain_loop

T = ss.transforms
SAMPLES = 50


class Line(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.conv, self.head = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8, 3)

    def forward(self, images):
        return self.head(self.conv(images).relu().mean((2, 3)))


def weighted(seed=5, count=44):
    weights = torch.arange(1.0, SAMPLES + 1)
    return WeightedRandomSampler(weights, count, generator=torch.Generator().manual_seed(seed))


def make_loader(photos, device, batch_size=8, **options):
    data = ss.ImageFolder(photos, T.Compose(CHAIN))
    size = {} if "batch_sampler" in options else {"batch_size": batch_size}
    return ss.DataLoader(data, num_workers=2, device=device, seed=0, **size, **options)


def new_trainer(loader, **options):
    options = {"epochs": 3, "lr": 0.1, "deterministic": True, "precision": "fp32", "progress": False} | options
    return ss.Trainer(loader, Line(), **options)


def loop_losses(loader, device, epochs=3):
    def batches():
        loader.set_epoch(batches.epoch)
        batches.epoch += 1
        return iter(loader)

    class Epochs:
        def __iter__(self):
            return batches()

    batches.epoch = 0
    model = Line().to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return plain_loop(Epochs(), model, optimizer, nn.functional.cross_entropy, epochs)


class Sizes:
    """A batch sampler whose batches have several sizes and are others in each epoch."""

    batch_size = 8

    def __init__(self):
        self.epoch = -1

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return 5

    def __iter__(self):
        for size in (3, 8, 1, 8, 5):
            yield [(self.epoch * 11 + size * 7 + i * i) % SAMPLES for i in range(size)]


class Stateful:
    """A sampler with its own state, whose epochs continue one endless sequence."""

    def __init__(self):
        self.at = 0

    def __len__(self):
        return 20

    def __iter__(self):
        for _ in range(20 - self.at % 20):  # the rest of the epoch after load_state_dict()
            self.at += 1
            yield self.at * 7 % SAMPLES

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


SAMPLERS = {
    "weighted": lambda: {"sampler": weighted()},
    "drop_last": lambda: {"sampler": weighted(), "drop_last": True},
    "random": lambda: {"sampler": RandomSampler(range(SAMPLES), generator=torch.Generator().manual_seed(2))},
    "distributed": lambda: {"sampler": DistributedSampler(range(SAMPLES), 2, 1, seed=4)},
    "list": lambda: {"sampler": [4, 9, 4, 0, 49, 9, 7, 4, 4, 1]},
    "batches": lambda: {"batch_sampler": BatchSampler(weighted(), 6, False)},
    "sizes": lambda: {"batch_sampler": Sizes()},
    "stateful": lambda: {"sampler": Stateful()},
}


@pytest.mark.parametrize("plan", ["pipelined", "serial"])
@pytest.mark.parametrize("kind", SAMPLERS)
def test_losses_equal_those_of_a_loop_over_the_same_loader(photos, device, kind, plan):
    result = new_trainer(make_loader(photos, device, **SAMPLERS[kind]()), plan=plan).fit()
    expected = loop_losses(make_loader(photos, device, **SAMPLERS[kind]()), device)
    assert len(result.losses) == len(expected) > 3
    torch.testing.assert_close(result.losses, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", SAMPLERS)
def test_training_stopped_in_and_between_epochs_resumes_to_the_same_digest(photos, device, tmp_path, kind):
    whole = new_trainer(make_loader(photos, device, **SAMPLERS[kind]())).fit()
    length = len(whole.losses) // 3
    for stop in {1, length - 1, length, length + 1, 2 * length} - {0}:
        folder = tmp_path / f"{stop} steps"
        part = new_trainer(make_loader(photos, device, **SAMPLERS[kind]()), steps=stop, epochs=None, checkpoint=folder)
        first = part.fit()
        rest = new_trainer(make_loader(photos, device, **SAMPLERS[kind]()), checkpoint=folder, resume="auto")
        assert rest.position == stop
        done = rest.fit()
        assert (first.losses + done.losses, done.digest) == (whole.losses, whole.digest), stop


KILLED = """
import os, pathlib, signal, sys
sys.path.insert(0, sys.argv[3])
import trainer_samplers_test as t

last = pathlib.Path(sys.argv[2]) / "last"

def kill_inside_epoch(step):
    saved = int(last.resolve().name.removeprefix("step-")) if last.exists() else 0
    if saved > 6 and saved % 6 != 0:
        os.kill(os.getpid(), signal.SIGKILL)

loader = t.make_loader(sys.argv[1], "cpu", sampler=t.weighted())
t.new_trainer(loader, epochs=30, checkpoint=last.parent, save_every=2, on_step=kill_inside_epoch).fit()
"""


def test_training_killed_inside_an_epoch_resumes_to_the_same_digest(photos, tmp_path):
    whole = new_trainer(make_loader(photos, "cpu", sampler=weighted()), epochs=30).fit()
    killed = interpreters.run(KILLED, photos, tmp_path / "run", os.path.dirname(__file__))
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    rest = new_trainer(make_loader(photos, "cpu", sampler=weighted()), epochs=30, checkpoint=tmp_path / "run",
                       resume="auto")
    assert 6 < rest.position < len(whole.losses)
    assert (tmp_path / "run" / "last" / "sampler.pt").exists()
    done = rest.fit()
    assert (done.losses, done.digest) == (whole.losses[-done.steps:], whole.digest)


def test_auto_plan_and_frozen_stage_give_the_losses_of_a_serial_training(photos, device):
    def source():
        loader = make_loader(photos, device, sampler=weighted())
        return ss.Pipeline(loader, [ss.Stage("darker", lambda x: x * 0.5, input=0, output=0)], device)

    serial = new_trainer(source(), plan="serial", epochs=12).fit()
    assert new_trainer(source(), plan="auto", epochs=12).fit().losses == serial.losses
    assert new_trainer(source(), epochs=12).fit().digest == serial.digest


def test_restored_and_repeated_fit_continue_the_order_of_the_sampler(photos, device, tmp_path):
    whole = new_trainer(make_loader(photos, device, sampler=weighted())).fit()
    stopped = new_trainer(make_loader(photos, device, sampler=weighted()), checkpoint=tmp_path / "run", keep_last=9,
                         on_step=lambda step: step.step == 4 and stopped.stop())
    part = stopped.fit()
    assert part.ended == "stopped" and part.steps < 18
    rest = stopped.fit()
    assert (part.losses + rest.losses, rest.digest) == (whole.losses, whole.digest)
    assert stopped.restore(tmp_path / "run" / f"step-{part.steps:08}") == part.steps
    fresh = new_trainer(make_loader(photos, device, sampler=weighted()))
    assert fresh.restore(tmp_path / "run" / f"step-{part.steps:08}") == part.steps
    assert fresh.fit().digest == whole.digest


def test_sampler_is_not_read_after_the_last_step(photos, device):
    sampler = weighted()
    new_trainer(make_loader(photos, device, sampler=sampler), epochs=2).fit()
    expected = weighted()
    for _ in range(2):
        list(expected)
    assert torch.equal(sampler.generator.get_state(), expected.generator.get_state())


class Fails:
    def __len__(self):
        return 40

    def __iter__(self):
        yield from range(16)
        raise LookupError("no more weights")


class Short(Fails):
    def __iter__(self):
        yield from range(10)


class Long(Fails):
    def __iter__(self):
        yield from range(49)


class Large(Sizes):
    batch_size = 7


class Outside(Fails):
    def __iter__(self):
        yield from range(16)
        yield from range(SAMPLES, 4 * SAMPLES)


@pytest.mark.parametrize(("sampler", "error", "message"), [
    (Fails, LookupError, "no more weights"), (Outside, ss.Error, "gives index 50, but the data set has 50 samples")])
@pytest.mark.parametrize("plan", ["serial", "pipelined"])
def test_error_of_the_sampler_is_raised_when_its_batch_is_needed(photos, device, plan, sampler, error, message):
    """A pipelined training needs a batch before it has trained the batches in front of it."""
    steps = []
    loader = make_loader(photos, device, sampler=sampler())
    trainer = new_trainer(loader, plan=plan, on_step=lambda step: steps.append(step.step))
    with pytest.raises(error, match=message):
        trainer.fit()
    assert steps == [1, 2] if plan == "serial" else steps in ([], [1], [1, 2])
    assert trainer.position == len(steps)
    with pytest.raises(error, match=message):
        trainer.fit()


def test_batches_that_were_listed_before_an_interrupt_are_not_lost(photos, monkeypatch):
    loader = make_loader(photos, "cpu", sampler=[4, 9, 4, 0, 49, 9, 7], batch_size=2)
    order = TrainingOrder(loader._listed_order(), lambda epoch: None)
    expected = TrainingOrder(loader._listed_order(), lambda epoch: None).take(0, 0, 0, 4)
    list_next, presses = order._next, [2]

    def press_ctrl_c(batch):
        if batch in presses:
            presses.remove(batch)
            raise KeyboardInterrupt
        return list_next(batch)

    monkeypatch.setattr(order, "_next", press_ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        order.take(0, 0, 0, 4)
    assert order.take(0, 0, 0, 1) + order.take(0, 1, 1, 4) == expected


@pytest.mark.parametrize(("order", "message"), [
    ({"sampler": Short()}, "lists 2 batches in epoch 0, but its length is 5 batches"),
    ({"sampler": Long()}, "lists more than 5 batches in epoch 0"),
    ({"sampler": [0, 50]}, "gives index 50, but the data set has 50 samples"),
    ({"batch_sampler": Large()}, "lists 8 samples in a batch, but its batch_size is 7"),
])
def test_samplers_that_break_their_promise_raise_in_fit(photos, device, order, message):
    with pytest.raises(ss.Error, match=message):
        new_trainer(make_loader(photos, device, **order)).fit()


class Endless:
    def __iter__(self):
        yield 0


class Lambdas(Stateful):
    def state_dict(self):
        return {"at": nn.Linear}


@pytest.mark.parametrize(("order", "message"), [
    ({"sampler": Endless()}, r"give the sampler a method __len__\(\)"),
    ({"batch_sampler": [[0, 1], [2]]}, "list has no attribute batch_size"),
    ({"sampler": WeightedRandomSampler([1.0] * SAMPLES, 9)}, "the order would differ from that of a plain loop: "
     r"give the sampler generator=torch.Generator\(\)"),
])
def test_samplers_that_cannot_be_trained_with_are_refused(photos, device, order, message):
    with pytest.raises(ss.Refused, match=message):
        new_trainer(make_loader(photos, device, **order))


def test_sampler_state_that_a_checkpoint_cannot_hold_is_refused(photos, device, tmp_path):
    with pytest.raises(ss.Refused, match="contains objects that a checkpoint cannot hold"):
        new_trainer(make_loader(photos, device, sampler=Lambdas()), checkpoint=tmp_path)


def test_evaluation_on_a_loader_with_a_sampler_is_refused(photos, device):
    loader = make_loader(photos, device, sampler=weighted())
    with pytest.raises(ss.Refused, match=r"val has a sampler.*select samples with slipstream.Subset"):
        new_trainer(loader, val=loader)


def test_checkpoint_with_and_without_sampler_do_not_mix(photos, device, tmp_path):
    new_trainer(make_loader(photos, device, sampler=weighted()), steps=3, epochs=None, checkpoint=tmp_path / "a").fit()
    make_trainer(photos, device, Line(), steps=3, epochs=None, momentum=None, checkpoint=tmp_path / "b").fit()
    with pytest.raises(ss.Refused, match="the order of samples differs; the checkpoint's: listed by a sampler"):
        make_trainer(photos, device, Line(), momentum=None, resume=tmp_path / "a")
    with pytest.raises(ss.Refused, match="this training's: listed by a sampler"):
        new_trainer(make_loader(photos, device, sampler=weighted()), resume=tmp_path / "b")


def test_damaged_state_of_the_sampler_is_reported(photos, device, tmp_path):
    new_trainer(make_loader(photos, device, sampler=weighted()), steps=3, epochs=None, checkpoint=tmp_path).fit()
    file = tmp_path / "step-00000003" / "sampler.pt"
    content = bytearray(file.read_bytes())
    content[100] ^= 1
    file.write_bytes(content)
    with pytest.raises(ss.Refused, match="sampler.pt is damaged"):
        new_trainer(make_loader(photos, device, sampler=weighted()), resume=tmp_path / "step-00000003")
