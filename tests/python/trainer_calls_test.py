"""Python functions that a trainer calls, and signals, threads and errors during a run."""

import contextlib
import os
import signal
import sys
import threading
import types

import pytest
import slipstream as ss
import torch
from torch import nn
from trained import Failing, Net, make_loader, make_trainer

T = ss.transforms


def darkened(image):
    """Not random, and with a crop whose omission in evaluation would be noticed."""
    return (image // 4)[:, :16, :16].clone()


def darkened_loader(photos, batch_size=50):
    chain = [T.Resize([20, 20]), darkened, T.RandomHorizontalFlip(0), T.ToDtype(torch.float32, scale=True)]
    return ss.DataLoader(ss.ImageFolder(photos, T.Compose(chain)), batch_size, num_workers=1)


class Mean(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, images):
        return images.mean((1, 2, 3))[:, None] * self.weight


def test_evaluation_applies_python_transforms(photos):
    loader = darkened_loader(photos)
    images, _ = next(iter(loader))
    trainer = ss.Trainer(loader, Mean(), steps=1, lr=0.0, metrics={"mean": lambda output, _: output[:, 0]},
                         val=loader)
    assert images.shape == (50, 3, 16, 16)
    assert 0 < images.max() < 0.26
    means = images.mean((1, 2, 3))
    assert torch.allclose(torch.cat(list(trainer.predict(loader)))[:, 0], means)
    assert trainer.fit().scores["mean"] == pytest.approx(means.mean().item())
    assert trainer.evaluate()["mean"] == pytest.approx(means.mean().item())


class Signaling(Net):
    """Sends a signal in call number `at`, and waits until its handler has run."""

    def __init__(self, at=3):
        super().__init__()
        self.calls, self.at, self.is_handled = 0, at, threading.Event()

    def forward(self, images):
        self.calls += 1
        if self.calls == self.at:
            os.kill(os.getpid(), signal.SIGUSR1)
            assert self.is_handled.wait(100), "the handler waits for the end of the run"
        return super().forward(images)


@contextlib.contextmanager
def handled(model, act):
    def handle(*_):
        model.is_handled.set()
        act()

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


class Preempted(Exception):
    pass


def preempt():
    raise Preempted


def test_signal_handler_runs_during_training_and_may_stop_it(photos, tmp_path):
    whole = make_trainer(photos, epochs=8).fit()
    model = Signaling()
    trainer = make_trainer(photos, model=model, epochs=8, checkpoint=tmp_path)
    with handled(model, trainer.stop):
        result = trainer.fit()
    assert (result.ended, result.is_saved) == ("stopped", True)
    assert 2 < result.steps < 56
    model.calls = 0
    with handled(model, preempt), pytest.raises(Preempted):
        trainer.fit()
    assert result.steps < trainer.position < 56
    resumed = make_trainer(photos, epochs=8, checkpoint=tmp_path, resume="auto")
    assert resumed.position == trainer.position
    assert resumed.fit().digest == whole.digest


def test_signal_handler_runs_during_evaluation(photos):
    model = Signaling()
    trainer = make_trainer(photos, model=model)
    with handled(model, preempt), pytest.raises(Preempted):
        trainer.evaluate(make_loader(photos, batch_size=1))
    assert model.calls < 50
    assert trainer.evaluate(make_loader(photos))["loss"] > 0
    assert trainer.fit().steps == 14


def test_reading_the_loader_during_training_keeps_the_digest(photos):
    def fit(**options):
        return ss.Trainer(loader, Net(), steps=30, deterministic=True, **options).fit()

    def look(step):
        seen.append(next(iter(loader))[0].shape)

    seen = []
    loader = darkened_loader(photos, 4)
    alone = fit().digest
    assert fit(on_step=look).digest == alone
    assert seen == [(4, 3, 16, 16)] * 30


def test_stop_iteration_in_model_raises_runtime_error_in_predict(photos):
    outputs = make_trainer(photos, model=Failing(3, StopIteration())).predict(make_loader(photos))
    assert next(outputs).shape == (8, 3)
    with pytest.raises(RuntimeError, match="the model raised StopIteration"):
        list(outputs)
    assert list(outputs) == []


def test_predict_outputs_can_be_read_and_closed_by_several_threads(photos):
    class Waiting(Net):
        def forward(self, images):
            asked.set()
            assert proceed.wait(100)
            return super().forward(images)

    def take(outputs):
        taken.extend(len(output) for output in outputs)

    def begun(model):
        outputs = make_trainer(photos, model=model).predict(make_loader(photos))
        threads = [threading.Thread(target=take, args=[outputs]) for _ in range(3)]
        for thread in threads:
            thread.start()
        return outputs, threads

    def join(threads):
        for thread in threads:
            thread.join(100)
        assert not any(thread.is_alive() for thread in threads)

    taken = []
    join(begun(Net())[1])
    assert sorted(taken) == [2, 8, 8, 8, 8, 8, 8]
    asked, proceed = threading.Event(), threading.Event()
    outputs, threads = begun(Waiting())
    assert asked.wait(100)
    closing = threading.Thread(target=outputs.close)
    closing.start()
    proceed.set()
    join([closing, *threads])


def test_abandoned_predict_outputs_do_not_end_training(photos, tmp_path):
    def look(_):
        seen.append(next(trainer.predict(make_loader(photos, batch_size=1))).shape)

    seen = []
    trainer = make_trainer(photos, epochs=3, on_epoch=look, val=make_loader(photos), checkpoint=tmp_path)
    assert (trainer.fit().steps, seen) == (21, [(1, 3)] * 3)


def test_restore_during_training_is_refused(photos, tmp_path):
    def on_epoch(_):
        with pytest.raises(ss.Refused, match="restore a checkpoint before or after it"):
            trainer.restore(tmp_path)
        told.append(trainer.position)

    told = []
    trainer = make_trainer(photos, on_epoch=on_epoch, checkpoint=tmp_path, save_every=7)
    assert (len(trainer.fit().losses), told) == (14, [7, 14])
    assert trainer.restore(min(tmp_path.glob("step-*"))) == 7


class Complex(Net):
    def __init__(self, **options):
        super().__init__()
        self.register_buffer("turns", torch.polar(torch.ones(3), torch.arange(3.0)), **options)

    def forward(self, images):
        return super().forward(images) * self.turns.real


def test_complex_parameters_and_saved_buffers_are_refused(photos, tmp_path):
    options = {"checkpoint": tmp_path / "run"}
    with pytest.raises(ss.Refused, match=r"'turns' is complex64.*persistent=False"):
        make_trainer(photos, model=Complex(), **options)
    assert make_trainer(photos, model=Complex()).fit().steps == 14
    assert make_trainer(photos, model=Complex(persistent=False), **options).fit().is_saved
    model = Net()
    model.head.scale = nn.Parameter(torch.ones(3, dtype=torch.complex64))
    with pytest.raises(ss.Refused, match=r"'head.scale' is torch.complex64.*torch.view_as_real\(\)"):
        make_trainer(photos, model=model)


@pytest.mark.parametrize("options", [{}, {"accumulate": 2}, {"clip_grad": 1.0}, {"on_nan": "skip"}])
def test_sparse_gradients_raise_with_advice(photos, options):
    class Sparse(Net):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(256, 3, sparse=True)

        def forward(self, images):
            return super().forward(images) + self.table((images[:, 0, 0] * 255).long()).mean(1)

    with pytest.raises(ss.Error, match=r"'.*table.weight' is sparse.*create its layer without sparse=True"):
        make_trainer(photos, model=Sparse(), **options).fit()


@pytest.mark.parametrize("stream", [None, types.SimpleNamespace(write=print)])
def test_training_works_without_usable_stderr(photos, monkeypatch, stream):
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(sys, "argv", ["program", "\udcff"])
    assert make_trainer(photos, epochs=1, progress=None).fit().steps == 7


def test_invalid_trainer_arguments_are_refused(photos, tmp_path):
    head = Net().head
    own = head.weight
    cases = [
        ("on_step is 5", {"on_step": 5}),
        ("on_epoch is 5", {"on_epoch": 5}),
        (r"log_every is 18446744073709551616: give a whole number, at most", {"log_every": 2**64}),
        ("num_classes is 9223372036854775808", {"num_classes": 2**63}),
        ("progress is 'yes'", {"progress": "yes"}),
        ("resume is 3", {"resume": 3}),
        (r"checkpoint is '\\udcff'", {"checkpoint": "\udcff"}),
        (r"input is \['\\udcff'\]", {"input": "\udcff"}),
        (r"target is tensor\(2\)", {"target": torch.tensor(2)}),
        (r"metrics is tensor\(2\)", {"metrics": torch.tensor(2)}),
        (r"param_groups\[0\] has lr=0.1, but the argument lr is 0", {"lr": 0.0, "param_groups": [{"params": own, "lr": 0.1}]}),
    ]
    for message, options in cases:
        with pytest.raises(ss.Refused, match=message):
            make_trainer(photos, model=head, **options)
    model = Net()
    frozen = [{"params": model.head.weight, "lr": 0.0}]
    assert make_trainer(photos, model=model, lr=0.0, param_groups=frozen).fit().steps == 14
    folder = tmp_path / "run--keep-best"
    make_trainer(photos, epochs=1, checkpoint=folder).fit()
    with pytest.raises(ss.Refused, match="run--keep-best has checkpoints"):
        make_trainer(photos, epochs=1, checkpoint=folder)
