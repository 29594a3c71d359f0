"""Modes and settings are restored after a run, and only one run at a time uses the device."""

import os
import signal
import threading

import interpreters
import pytest
import slipstream as ss
from tensors import all_equal
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from trained import Net, make_loader, make_trainer

ENDS = """
import gc, sys, threading
from trained import Net, make_loader, make_trainer
photos, device, plan = sys.argv[1:]
class RaisingInTrainMode(Net):
    def train(self, mode=True):
        if mode and hasattr(self, "raises"):
            raise self.raises
        return super().train(mode)
model = RaisingInTrainMode()
trainer = make_trainer(photos, device, model, plan=plan)
for model.raises in (OSError("told"), KeyboardInterrupt()):
    try:
        trainer.evaluate(make_loader(photos, device))
    except BaseException as error:
        print(type(error).__name__)

class Collecting(Net):
    calls = 0
    def forward(self, images):
        self.calls += 1
        if self.calls > 1 and released.wait(0.5) and not done.is_set():
            gc.collect()
            done.set()
        return super().forward(images)
class Holder: pass
gc.disable()
released, done = threading.Event(), threading.Event()
trainer = make_trainer(photos, device, Collecting(), plan=plan)
holder = Holder()
holder.itself, holder.outputs = holder, trainer.predict(make_loader(photos, device, 1))
next(holder.outputs)
del holder
released.set()
print(done.wait(100), trainer.fit().steps)
"""


@pytest.mark.parametrize("plan", ["serial", "pipelined"])
def test_process_survives_errors_at_the_end_of_a_run(photos, device, plan):
    run = interpreters.run(ENDS, photos, device, plan)
    assert (run.returncode, run.stdout) == (0, "OSError\nKeyboardInterrupt\nTrue 14\n"), run.stderr


def test_weights_are_restored_after_error_in_evaluation(photos, device):
    class RaisingInTrainMode(Net):
        def train(self, mode=True):
            if mode and getattr(self, "raises", False):
                raise OSError("told")
            return super().train(mode)

    trainer = make_trainer(photos, device, model := RaisingInTrainMode(), ema_decay=0.5)
    trainer.fit()
    before = [each.clone() for each in model.parameters()]
    model.raises = True
    with pytest.raises(OSError, match="told"):
        trainer.evaluate(make_loader(photos, device))
    assert all_equal(before, model.parameters())


@pytest.mark.parametrize("plan", ["serial", "pipelined"])
def test_ctrl_c_in_last_batch_of_evaluation_is_raised(photos, device, plan):
    class Interrupted(Net):
        calls = 0

        def forward(self, images):
            self.calls += 1
            if self.calls == 7:
                os.kill(os.getpid(), signal.SIGINT)
            return super().forward(images)

    with pytest.raises(KeyboardInterrupt):
        make_trainer(photos, device, Interrupted(), plan=plan).evaluate(make_loader(photos, device))


def legacy_precisions():
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    return cudnn.allow_tf32, matmul.allow_tf32, torch.get_float32_matmul_precision()


def precisions():
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    return (torch.backends.fp32_precision, cudnn.conv.fp32_precision, cudnn.rnn.fp32_precision,
            matmul.fp32_precision, torch.backends.mkldnn.matmul.fp32_precision)


PRECISIONS = """
import sys, torch
from trainer_modes_test import legacy_precisions, precisions
from trained import make_loader, make_trainer
photos, device = sys.argv[1:]
trainer = make_trainer(photos, device)

def under(above):
    torch.backends.fp32_precision = above
    found = precisions()
    torch.backends.fp32_precision = "none"
    return found

before = precisions(), legacy_precisions(), under("tf32"), under("ieee")
trainer.evaluate(make_loader(photos, device))
print((precisions(), legacy_precisions(), under("tf32"), under("ieee")) == before)
for how in ("highest", "high", "medium"):
    torch.set_float32_matmul_precision(how)
    before = precisions(), legacy_precisions()
    trainer.evaluate(make_loader(photos, device))
    print((precisions(), legacy_precisions()) == before)
torch.set_float32_matmul_precision("highest")
torch.backends.cuda.matmul.fp32_precision = "tf32"
torch.backends.cudnn.conv.fp32_precision = "ieee"
before = precisions()
print(trainer.fit().steps, precisions() == before)
torch.backends.cuda.matmul.fp32_precision = "none"
for above in ("tf32", "ieee"):  # an unset precision is still inherited
    torch.backends.fp32_precision = above
    trainer.evaluate(make_loader(photos, device))
    print(torch.backends.cuda.matmul.fp32_precision)
"""


def test_precision_settings_of_both_interfaces_are_restored(photos, device):
    run = interpreters.run(PRECISIONS, photos, device)
    assert run.stdout == "True\nTrue\nTrue\nTrue\n14 True\ntf32\nieee\n", run.stderr


def test_evaluation_in_another_thread_is_refused_during_a_run(photos, device):
    """All evaluations of another thread are refused, and none affects the model's random numbers."""
    other, told = make_trainer(photos, device), []
    whole = make_trainer(photos, device, epochs=3, on_epoch=lambda epoch: None).fit()

    def bother():
        try:
            other.evaluate(make_loader(photos, device))
        except ss.Refused as refused:
            told.append(str(refused))

    def from_another_thread(*_):
        thread = threading.Thread(target=bother)
        thread.start()
        thread.join()

    class Disturbed(Net):
        def forward(self, images):
            if self.training:
                from_another_thread()
            return super().forward(images)

    trainer = make_trainer(photos, device, Disturbed(), epochs=3, on_epoch=from_another_thread)
    assert trainer.fit().digest == whole.digest
    assert len(told) == 24 and all("another trainer is running" in each for each in told)
    from_another_thread()
    assert len(told) == 24


def test_on_epoch_callback_may_evaluate_and_predict(photos, device):
    def on_epoch(epoch):
        scores.append(trainer.evaluate(make_loader(photos, device)))
        outputs.append(torch.cat(list(trainer.predict(make_loader(photos, device)))))
        trainer.digest()

    scores, outputs = [], []
    trainer = make_trainer(photos, device, on_epoch=on_epoch)
    assert trainer.fit().steps == 14 and len(scores) == len(outputs) == 2


def linear():
    return nn.Sequential(nn.Flatten(), nn.Linear(768, 8), nn.Linear(8, 3))


def test_loss_gets_training_output_after_predict(photos, device):
    class Either(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = linear()

        def forward(self, images):
            output = self.inner(images)
            return output if self.training else {"output": output}

    kinds = []

    def loss(output, labels):
        kinds.append(type(output))
        return cross_entropy(output if isinstance(output, torch.Tensor) else output["output"], labels)

    trainer = make_trainer(photos, device, Either(), loss=loss)
    list(trainer.predict(make_loader(photos, device)))
    trainer.fit()
    assert set(kinds) == {torch.Tensor}


@pytest.mark.parametrize(("change", "message"), [
    (lambda model: model.__setitem__(2, nn.Linear(8, 3)), "replaced or removed '2', one of its modules"),
    (lambda model: setattr(model[2].bias, "data", model[2].bias.new_zeros(4000000)), "'2.bias' got another size"),
    (lambda model: model.double(), "'1.weight' got another dtype, Double in place of Float"),
    (lambda model: model[1].requires_grad_(True), "'1.weight' got another requires_grad, True"),
])
def test_model_changed_after_trainer_was_created_raises(photos, device, change, message):
    model = linear()
    model[1].requires_grad_(False)
    trainer = make_trainer(photos, device, model, on_epoch=lambda epoch: change(model) and None, ema_decay=0.9)
    with pytest.raises(ss.Error, match=message):
        trainer.fit()


def test_invalid_trainer_arguments_are_refused(photos, device):
    model = linear()
    own, foreign = list(model.parameters()), list(linear().parameters())
    cases = [
        (r"param_groups\[0\] has a tensor of \[8, 768\], which is not a parameter",
         {"param_groups": [{"params": foreign}]}),
        (r"param_groups\[1\] has a tensor of \[8, 768\], which occurs twice in this group, or also in an earlier one",
         {"param_groups": [{"params": own}, {"params": own[0]}]}),
        (r"param_groups\[0\] has {'lr': 'fast'}", {"param_groups": [{"params": own, "lr": "fast"}]}),
        ("params of param_groups is 3", {"param_groups": [{"params": 3}]}),
        ("param_groups is 3", {"param_groups": 3}),
        (r"betas is \(0.9, 0.9, 0.9\)", {"optimizer": "adamw", "momentum": None, "betas": (0.9, 0.9, 0.9)}),
        ("betas is 0.9", {"betas": 0.9}),
        ("no_weight_decay_on is 3", {"no_weight_decay_on": 3}),
        ("clip_grad is None", {"clip_grad": None}),
        ("ema_decay is '0.9'", {"ema_decay": "0.9"}),
        ("on_nan is 3", {"on_nan": 3}),
        ("schedule is None", {"schedule": None}),
        ("warmup_steps is 1.5", {"schedule": "cosine", "warmup_steps": 1.5}),
        ("steps is 1180591620717411303424", {"steps": 2**70, "epochs": None}),
        ("input contains no field name: give one or more of image, label", {"input": []}),
        (r"input is \[3\], a list", {"input": [3]}),
        ("target is 3, a int", {"target": 3}),
        ("loss is 3", {"loss": 3}),
        ("loss is None", {"loss": None}),
        ("metrics is 'top1'", {"metrics": "top1"}),
        ("metrics has 3 for 'x'", {"metrics": {"x": 3}}),
    ]
    for message, options in cases:
        with pytest.raises(ss.Refused, match=message):
            make_trainer(photos, device, model, **options)
    named = [{"params": model.named_parameters(), "lr": 0.1}]
    assert make_trainer(photos, device, model, param_groups=named).fit().steps == 14
