"""What a run leaves of Python's objects: their modes, buffers, memory and calls."""

import gc
import weakref

import pytest
import slipstream as ss
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from trained import Net, loader_of, trainer_of


class Task:
    """Its trainer calls it, and it knows its trainer, as its model, stage, metric and callback do."""

    def __init__(self, photos, device):
        self.model, self.encoder = Net(), nn.Identity().eval()
        pipe = ss.Pipeline(loader_of(photos, device, drop_last=True),
                           [("encode", self.encoder), ("more", self.stage)])
        self.trainer = ss.Trainer(pipe, self.model, epochs=1, loss=self.loss, metrics={"own": self.metric},
                                  val=loader_of(photos, device), on_step=self.on_step, progress=False)
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
def test_what_refers_to_its_trainer_is_let_go_of(photos, device, what):
    task = Task(photos, device)
    if what == "fit":
        assert task.trainer.fit().scores["own"] == 1
    elif what == "predict":
        val = loader_of(photos, device, 2)
        task.outputs = task.trainer.predict(val)
        next(task.outputs)
    everything = task, task.model, task.encoder, task.trainer, task.trainer._loader, task.trainer._native
    references = [weakref.ref(each) for each in everything]
    if what == "predict":
        task.outputs.close()
    del task, everything
    gc.collect()
    assert [reference() for reference in references] == [None] * len(references)
