"""The effects of a run on Python objects: their modes, buffers, memory and calls."""

import gc
import os
import weakref

import pytest
import slipstream as ss
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from trained import Net, make_loader, make_trainer


class Task:
    """Refers to its trainer, whose model, stage, metric and callback refer to it."""

    def __init__(self, photos, device):
        self.model, self.encoder = Net(), nn.Identity().eval()
        pipe = ss.Pipeline(make_loader(photos, device, drop_last=True),
                           [("encode", self.encoder), ("more", self.stage)])
        self.trainer = ss.Trainer(pipe, self.model, epochs=1, loss=self.loss, metrics={"own": self.metric},
                                  val=make_loader(photos, device), on_step=self.on_step, progress=False)
        self.model.task = self.encoder.task = self

    def stage(self, images):
        return images + 0

    def loss(self, output, labels):
        return cross_entropy(output, labels)

    def metric(self, output, labels):
        return torch.ones_like(output[:, 0])

    def on_step(self, step):
        self.step = step


@pytest.mark.parametrize("what", ["fit", "predict", "nothing"])
def test_objects_in_cycle_with_trainer_are_garbage_collected(photos, device, what):
    task = Task(photos, device)
    if what == "fit":
        assert task.trainer.fit().scores["own"] == 1
    elif what == "predict":
        val = make_loader(photos, device, 2)
        task.outputs = task.trainer.predict(val)
        next(task.outputs)
    everything = task, task.model, task.encoder, task.trainer, task.trainer._loader, task.trainer._native
    references = [weakref.ref(each) for each in everything]
    if what == "predict":
        task.outputs.close()
    del task, everything
    gc.collect()
    assert [reference() for reference in references] == [None] * len(references)


class Frozen(Net):
    """A model whose submodules have different modes, and which records calls of train()."""

    def __init__(self):
        super().__init__()
        self.more, self.told, self.seen = nn.Sequential(nn.Dropout(0.5), nn.BatchNorm2d(3)), [], set()
        self.norm.eval()
        self.more.eval()
        self.more[0].train()

    def train(self, mode=True):
        self.told.append(mode)
        return super().train(mode)

    def modes(self):
        return tuple(each.training for each in (self, self.norm, self.drop, self.more, *self.more))

    def forward(self, images):
        self.seen.add(self.modes())
        return super().forward(self.more(images))


@pytest.mark.parametrize("plan", ["serial", "pipelined"])
def test_modules_keep_their_training_modes(photos, device, plan):
    model = Frozen()
    before, norm = model.modes(), {name: value.clone() for name, value in model.norm.state_dict().items()}
    val = make_loader(photos, device)
    trainer = make_trainer(photos, device, model, plan=plan, val=val)
    trainer.fit()
    assert model.modes() == before == (True, False, True, False, True, False)
    assert model.seen == {before, (False,) * 6}
    assert all(torch.equal(model.norm.state_dict()[name].cpu(), norm[name]) for name in norm if "running" in name)
    trainer.evaluate()
    list(trainer.predict(val))
    assert model.modes() == before and model.told[-2:] == [False, True]


class Sharing(Net):
    """A module with two submodules of different modes that share a third one."""

    def __init__(self):
        super().__init__()
        shared = nn.Sequential(nn.BatchNorm2d(8))
        self.first, self.second = nn.Sequential(shared), nn.Sequential(shared, nn.Dropout())
        self.second.eval()
        self.first.train()

    def modes(self):
        return {name: each.training for name, each in self.named_modules()}


@pytest.mark.parametrize("plan", ["serial", "pipelined"])
def test_shared_module_keeps_its_training_mode(photos, device, plan):
    model = Sharing()
    before, val = model.modes(), make_loader(photos, device)
    assert [before[name] for name in ("first", "first.0", "second", "second.1")] == [True, True, False, False]
    trainer = make_trainer(photos, device, model, plan=plan)
    trainer.evaluate(val)
    assert model.modes() == before
    trainer.fit()
    list(trainer.predict(val))
    assert model.modes() == before


def test_model_in_eval_mode_is_trained_in_training_mode(photos, device):
    model = Frozen()
    model.eval()
    model.drop.train()
    model.seen.clear()
    before = model.modes()
    trainer = make_trainer(photos, device, model, on_epoch=lambda epoch: modes.append(model.modes()) or None)
    assert model.modes() == before
    modes = []
    trainer.fit()
    assert model.seen == {(True,) * 6} and modes == [before] * 2 and model.modes() == before
    trainer.evaluate(make_loader(photos, device))
    assert model.modes() == before


def test_refused_evaluation_does_not_change_modes(photos, device):
    def on_step(step):
        with pytest.raises(ss.Refused, match="another trainer is running"):
            trainer.evaluate(make_loader(photos, device))

    model = Frozen()
    trainer = make_trainer(photos, device, model, on_step=on_step)
    trainer.fit()
    assert len(model.seen) == 1


class Counting(Net):
    """A model with buffers that checkpoints do not contain: one is changed in place, one replaced, and one created."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(2), persistent=False)
        self.register_buffer("last", torch.zeros(1), persistent=False)
        self.register_buffer("late", None, persistent=False)

    def forward(self, images):
        output = super().forward(images)
        if self.training:
            self.count[0] += 1
            self.last = output.detach().mean()
            self.late = output.new_ones(1) if self.late is None else self.late + 1
            output = output + self.last * self.late / self.count[0]
        return output


def test_auto_plan_trials_do_not_change_buffers(photos, device):
    models = [Counting(), Counting()]
    results = [make_trainer(photos, device, model, plan=plan, epochs=5).fit()
               for model, plan in zip(models, ("serial", "auto"), strict=True)]
    assert results[0].losses == results[1].losses and results[0].digest == results[1].digest
    assert [model.count.tolist() for model in models] == [[35, 0]] * 2
    assert [model.late.item() for model in models] == [35] * 2


def test_buffer_deleted_during_training_raises_and_stays_deleted(photos, device):
    """The buffer is deleted before a trial of `auto`, which begins at step 16."""
    def on_step(step):
        if step.step == 16:
            del model.last

    model = Counting()
    with pytest.raises(ss.Error, match="at step 16: the module got other buffers"):
        make_trainer(photos, device, model, plan="auto", epochs=5, on_step=on_step).fit()
    assert sorted(model._buffers) == ["count", "late"]


class Keeping(Net):
    """Reads earlier input batches, after a kernel that takes long on a GPU."""

    def __init__(self):
        super().__init__()
        self.kept = []

    def forward(self, images):
        if images.is_cuda:
            torch.cuda._sleep(20_000_000)
        extra = sum((each.mean() for each in self.kept), images.new_zeros(()))
        self.kept = [*self.kept, images][-5:] if len(self.kept) < 5 else []
        return super().forward(images) * (1 + extra)


def test_model_may_keep_its_input_batches(photos, device):
    def fit(plan):
        pipe = ss.Pipeline(make_loader(photos, device, drop_last=True), [("double", lambda images: images * 2)])
        return ss.Trainer(pipe, Keeping(), epochs=6, lr=0.05, plan=plan, deterministic=True, precision="fp32",
                          progress=False).fit()

    serial, pipelined = fit("serial"), fit("pipelined")
    assert serial.losses == pipelined.losses and serial.digest == pipelined.digest


@pytest.mark.parametrize("plan", ["serial", "pipelined"])
def test_stages_are_called_once_per_batch(photos, device, plan):
    calls = []

    def stage(images):
        calls.append(images.sum())
        return images

    def pipe():
        return ss.Pipeline(make_loader(photos, device, drop_last=True), [("told", stage)])

    ss.Trainer(pipe(), Net(), epochs=2, plan=plan, progress=False, val=make_loader(photos, device)).fit()
    trained = [each.item() for each in calls]
    calls.clear()
    for _ in pipe():
        pass
    assert len(trained) == 2 * (6 + 7) and trained[:6] == pytest.approx([each.item() for each in calls])


def test_trainer_does_not_consume_the_given_loader(photos):
    """The trainer reads with separate threads, which start in fit()."""
    next(iter(make_loader(photos)))  # starts the threads that all loaders of the process share
    threads = len(os.listdir("/proc/self/task"))
    loaders = [make_loader(photos, workers=3) for _ in range(2)]
    trainer = ss.Trainer(loaders[0], Net(), epochs=1, val=loaders[1], progress=False)
    assert len(os.listdir("/proc/self/task")) == threads
    assert [len(labels) for _, labels in loaders[0]] == [8] * 6 + [2]
    assert trainer.fit().steps == len(list(loaders[0])) == 7
