"""What a trainer makes of Python that it calls, and of what Python does meanwhile."""

import contextlib
import os
import signal
import threading

import pytest
import slipstream as ss
import torch
from torch import nn
from trained import Failing, Net, loader_of, trainer_of

T = ss.transforms


def darkened(image):
    """Without a draw, and what evaluation would leave out were it random."""
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


def test_evaluation_does_what_is_in_python(photos):
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
    """Gets a signal in its call number `at`, and waits there until its handler has run."""

    def __init__(self, at=3):
        super().__init__()
        self.calls, self.at, self.is_handled = 0, at, threading.Event()

    def forward(self, images):
        self.calls += 1
        if self.calls == self.at:
            os.kill(os.getpid(), signal.SIGUSR1)
            assert self.is_handled.wait(30), "the handler waits for the end of the run"
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


def test_handlers_of_signals_run_during_a_training(photos, tmp_path):
    whole = trainer_of(photos, epochs=8).fit()
    model = Signaling()
    trainer = trainer_of(photos, model=model, epochs=8, checkpoint=tmp_path)
    with handled(model, trainer.stop):
        result = trainer.fit()
    assert (result.ended, result.is_saved) == ("stopped", True)
    assert 2 < result.steps < 56
    model.calls = 0
    with handled(model, preempt), pytest.raises(Preempted):
        trainer.fit()
    assert result.steps < trainer.position < 56
    resumed = trainer_of(photos, epochs=8, checkpoint=tmp_path, resume="auto")
    assert resumed.position == trainer.position
    assert resumed.fit().digest == whole.digest


def test_handlers_of_signals_run_during_an_evaluation(photos):
    model = Signaling()
    trainer = trainer_of(photos, model=model)
    with handled(model, preempt), pytest.raises(Preempted):
        trainer.evaluate(loader_of(photos, batch_size=1))
    assert model.calls < 50
    assert trainer.evaluate(loader_of(photos))["loss"] > 0
    assert trainer.fit().steps == 14


def test_the_loader_gives_batches_while_the_trainer_reads_it_too(photos):
    def fit(**options):
        return ss.Trainer(loader, Net(), steps=30, deterministic=True, **options).fit()

    def look(step):
        seen.append(next(iter(loader))[0].shape)

    seen = []
    loader = darkened_loader(photos, 4)
    alone = fit().digest
    assert fit(on_step=look).digest == alone
    assert seen == [(4, 3, 16, 16)] * 30


def test_a_stop_iteration_of_the_model_does_not_end_the_outputs(photos):
    outputs = trainer_of(photos, model=Failing(3, StopIteration())).predict(loader_of(photos))
    assert next(outputs).shape == (8, 3)
    with pytest.raises(RuntimeError, match="the model raised StopIteration"):
        list(outputs)
    assert list(outputs) == []


def test_outputs_may_be_taken_by_two_threads_and_closed_by_another(photos):
    class Waiting(Net):
        def forward(self, images):
            asked.set()
            assert go_on.wait(30)
            return super().forward(images)

    def take(outputs):
        taken.extend(len(output) for output in outputs)

    def begun(model):
        outputs = trainer_of(photos, model=model).predict(loader_of(photos))
        threads = [threading.Thread(target=take, args=[outputs]) for _ in range(3)]
        for thread in threads:
            thread.start()
        return outputs, threads

    def join(threads):
        for thread in threads:
            thread.join(30)
        assert not any(thread.is_alive() for thread in threads)

    taken = []
    join(begun(Net())[1])
    assert sorted(taken) == [2, 8, 8, 8, 8, 8, 8]
    asked, go_on = threading.Event(), threading.Event()
    outputs, threads = begun(Waiting())
    assert asked.wait(30)
    closing = threading.Thread(target=outputs.close)
    closing.start()
    go_on.set()
    join([closing, *threads])


def test_outputs_that_are_let_go_of_between_epochs_do_not_end_a_training(photos, tmp_path):
    def look(_):
        seen.append(next(trainer.predict(loader_of(photos, batch_size=1))).shape)

    seen = []
    trainer = trainer_of(photos, epochs=3, on_epoch=look, val=loader_of(photos), checkpoint=tmp_path)
    assert (trainer.fit().steps, seen) == (21, [(1, 3)] * 3)
