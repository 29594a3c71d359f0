import sys
import traceback
from math import isfinite

import pytest
import slipstream as ss
from tensors import all_equal
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from trained import CHAIN, Failing, Net, make_loader, make_trainer


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(_, x):
        return x * 2

    @staticmethod
    def backward(_, gradient):
        return gradient * 2


class BrokenBackward(Doubled):
    @staticmethod
    def backward(_, gradient):
        raise LookupError("no way back")


def error_notes(error):
    return "\n".join(getattr(error, "__notes__", []))


def traceback_frames(error):
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


@pytest.mark.parametrize("plan", ["serial", "pipelined"])
def test_model_error_is_raised_with_stage_and_step(photos, device, plan):
    model = Failing(4, ValueError("boom"))
    with pytest.raises(ValueError, match="boom") as caught:
        make_trainer(photos, device, model, plan=plan).fit()
    assert traceback_frames(caught.value)[-2:] == ["forward", "fail"]
    if sys.version_info >= (3, 11):
        assert "stage 'model' at step 3: ValueError: boom" in error_notes(caught.value)


def test_out_of_device_memory_is_noted_with_stage_and_step(photos, device):
    with pytest.raises(torch.OutOfMemoryError, match="no memory") as caught:
        make_trainer(photos, device, Failing(4, torch.OutOfMemoryError("no memory"))).fit()
    if sys.version_info >= (3, 11):
        assert "stage 'model' at step 3: out of device memory. " in error_notes(caught.value)


def test_errors_of_loss_stage_and_backward_are_raised(photos, device):
    def loss(output, labels):
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone") as caught:
        make_trainer(photos, device, loss=loss).fit()
    assert traceback_frames(caught.value)[-1] == "loss"

    class Broken(Net):
        def forward(self, images):
            return BrokenBackward.apply(super().forward(images))

    with pytest.raises(LookupError, match="no way back") as caught:
        make_trainer(photos, device, Broken()).fit()
    assert traceback_frames(caught.value)[-1] == "backward"
    pipe = ss.Pipeline(make_loader(photos, device), [("blur", loss)])
    with pytest.raises(TypeError, match="missing 1 required positional argument") as caught:
        ss.Trainer(pipe, Net(), epochs=1).fit()
    if sys.version_info >= (3, 11):
        assert "stage 'blur' at step 0" in error_notes(caught.value)


@pytest.mark.parametrize("plan", ["serial", "pipelined"])
def test_python_autograd_function_gives_same_losses(photos, device, plan):
    class Custom(Net):
        def forward(self, images):
            return Doubled.apply(super().forward(images)) / 2

    results = [make_trainer(photos, device, model, plan=plan).fit() for model in (Custom(), Net())]
    torch.testing.assert_close(results[0].losses, results[1].losses, rtol=1e-4, atol=1e-4)


class Assigning(Net):
    def __init__(self, what):
        super().__init__()
        self.what = what
        self.register_buffer("mean", torch.zeros(1))
        self.register_buffer("passing", torch.zeros(1), persistent=False)

    def forward(self, images):
        if self.what == "buffer":
            self.mean = self.mean * 0.9 + images.mean() * 0.1
        elif self.what == "passing":
            self.passing = images.mean()
        elif self.what == "in place":
            self.mean.mul_(0.9).add_(images.mean() * 0.1)
        elif self.what == "parameter":
            self.extra = nn.Parameter(torch.zeros(1, device=images.device))
        elif self.what == "deleted":
            self.norm.weight = None
        return super().forward(images)


def test_model_may_modify_but_not_replace_its_buffers(photos, device):
    make_trainer(photos, device, model := Assigning("in place")).fit()
    assert model.mean > 0
    make_trainer(photos, device, Assigning("passing")).fit()
    for what, message in (("buffer", "replaced or removed 'mean', one of its buffers"),
                          ("deleted", "replaced or removed 'norm.weight', one of its parameters"),
                          ("parameter", "got other parameters")):
        with pytest.raises(ss.Error, match=f"stage 'model' at step 0: the module {message}"):
            make_trainer(photos, device, Assigning(what)).fit()


@pytest.mark.parametrize(("gives", "message"), [
    (lambda out: (out, 1), "a tuple of 2 elements: select the element for the loss"),
    (lambda out: {"logits": out}, "a dict of 'logits': select the element"),
    (lambda out: None, "a NoneType: select the element"),
])
def test_model_output_that_is_no_tensor_raises(photos, device, gives, message):
    class Other(Net):
        def forward(self, images):
            return gives(super().forward(images))

    with pytest.raises(ss.Error, match=message):
        make_trainer(photos, device, Other()).fit()
    with pytest.raises(ss.Error, match="output='x'"):
        make_trainer(photos, device, Other(), output="x").fit()


@pytest.mark.parametrize(("loss", "message"), [
    (lambda output, labels: output, "must return one floating-point number"),
    (lambda output, labels: 1.0, "the loss must return a tensor, but returned float"),
    (lambda output, labels: cross_entropy(output, labels) * float("nan"), "at step 0: the loss is NaN"),
])
def test_invalid_loss_value_raises(photos, device, loss, message):
    with pytest.raises(ss.Error, match=message):
        make_trainer(photos, device, loss=loss).fit()


@pytest.mark.parametrize("options", [{}, {"on_nan": "skip", "plan": "serial"}, {"label_smoothing": 0.1}])
def test_model_with_too_few_outputs_raises_before_any_update(photos, device, options):
    data = ss.ImageFolder(photos, ss.transforms.Compose(CHAIN))
    loader = ss.DataLoader(data, 8, device=device)  # the labels of the first samples are all 0
    message = "an output of .8, 2. has 2 classes in its second dimension, but the labels are of 3: give the model 3"
    trainer = ss.Trainer(loader, model := Net(classes=2), epochs=1, **options)
    before = [parameter.clone() for parameter in model.parameters()]
    with pytest.raises(ss.Error, match="stage 'model' at step 0: cross entropy: " + message):
        trainer.fit()
    assert all_equal(before, model.parameters())
    with pytest.raises(ss.Error, match=message.replace("8", "16")):
        trainer.evaluate(ss.DataLoader(data, 16, device=device))


def test_extra_outputs_and_labels_from_a_stage_are_accepted(photos, device):
    assert isfinite(make_trainer(photos, device, Net(classes=5)).fit().loss)
    pipe = ss.Pipeline(make_loader(photos, device), [ss.Stage("merge", lambda labels: labels // 2, input=1)])
    assert isfinite(ss.Trainer(pipe, Net(classes=2), epochs=1).fit().loss)


def test_invalid_trainer_options_are_refused_before_training(photos, device, tmp_path):
    frozen, lazy = Net().requires_grad_(False), nn.LazyLinear(3)
    torch_loader = torch.utils.data.DataLoader([torch.zeros(1)])
    cases = [
        ("no parameter requires gradients", {"model": frozen}),
        ("is not initialized", {"model": nn.Sequential(nn.Flatten(), lazy)}),
        ("must be a torch.nn.Module, not function", {"model": make_loader}),
        ("give only one of them", {"steps": 3}),
        ("the length of the training is missing: give steps=N or epochs=N", {"epochs": None}),
        ("lr is 'fast', a str", {"lr": "fast"}),
        ("steps is 0", {"steps": 0, "epochs": None}),
        ("optimizer 'adam'", {"optimizer": "adam"}),
        ("adamw has no momentum", {"optimizer": "adamw"}),
        ("sgd has no betas and no eps; leave them out, or give optimizer='adamw'", {"betas": (0.9, 0.99)}),
        ("sgd has no betas and no eps", {"eps": 1e-8}),
        ("schedule 'cosin'", {"schedule": "cosin"}),
        ("lr_gamma has no effect with schedule cosine", {"schedule": "cosine", "lr_gamma": 0.1}),
        ("precision", {"precision": "fp8"}),
        ("plan 'fast'", {"plan": "fast"}),
        ("field 'depth'", {"input": "depth"}),
        ("metric 'top'", {"metrics": ["top"]}),
        ("there is no loss 'mse'", {"loss": "mse"}),
        ("label_smoothing is only for the loss 'cross_entropy'", {"loss": cross_entropy, "label_smoothing": 0.1}),
        ("a group in param_groups needs params", {"param_groups": [{"params": [], "momentum": 0.1}]}),
        ("save_every needs checkpoint", {"save_every": 3}),
        ("resume=\"auto\" needs checkpoint", {"resume": "auto"}),
        ("there is no checkpoint at", {"resume": tmp_path / "none"}),
        ("keep_best and early_stop need val", {"early_stop": 1}),
        ("keep_best: unknown score 'top9'", {"keep_best": "top9", "val": make_loader(photos, device)}),
        ("ema_decay must be", {"ema_decay": 1.0}),
        ("not DataLoader", {"val": torch_loader}),
    ]
    for message, options in cases:
        with pytest.raises(ss.Refused, match=message):
            make_trainer(photos, device, **options)
    with pytest.raises(ss.Refused, match="reads a slipstream.DataLoader"):
        ss.Trainer(torch_loader, Net(), epochs=1)
    with pytest.raises(ss.Refused, match="one of several"):
        ss.Trainer(make_loader(photos, device, rank=0, world_size=2), Net(), epochs=1)


def test_evaluation_during_training_is_refused(photos, device):
    errors = []

    def on_step(step):
        if step.step == 2:
            try:
                trainer.evaluate(make_loader(photos, device))
            except ss.Refused as refused:
                errors.append(str(refused))

    trainer = make_trainer(photos, device, on_step=on_step)
    assert trainer.fit().steps == 14
    assert ["another trainer is running" in error for error in errors] == [True]
