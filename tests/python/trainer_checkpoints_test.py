import json
import shutil

import pytest
import safetensors.torch
import slipstream as ss
import torch
import torchvision
from torch import nn
from trained import CHAIN, Net, make_loader, make_trainer, run_slipstream


def test_resumed_training_gives_digest_of_whole_training(photos, device, tmp_path):
    options = {"epochs": 3, "ema_decay": 0.9, "schedule": "cosine", "warmup_epochs": 0.5}
    whole = make_trainer(photos, device, **options).fit()
    stopped = make_trainer(photos, device, checkpoint=tmp_path / "run", keep_last=9, save_every=4, **options,
                         on_step=lambda step: step.step == 5 and stopped.stop())
    part = stopped.fit()
    assert 5 <= part.steps < 21 and part.ended == "stopped" and part.is_saved
    last = tmp_path / "run" / "last"
    assert last.readlink().name == f"step-{part.position:08}"
    weights = safetensors.torch.load_file(last / "weights.safetensors")
    assert all(torch.equal(weights[name], value.cpu()) for name, value in stopped.model.state_dict().items())
    went_on = make_trainer(photos, device, checkpoint=tmp_path / "run", resume="auto", **options)
    assert went_on.position == part.position
    rest = went_on.fit()
    assert (rest.digest, part.losses + rest.losses) == (whole.digest, whole.losses)
    assert went_on.fit().steps == 0
    assert went_on.restore(tmp_path / "run" / "step-00000021") == 21 and went_on.digest() == whole.digest
    early = min((tmp_path / "run").glob("step-*"))
    back = make_trainer(photos, device, **options)
    assert 0 < back.restore(early) < 21 and back.fit().digest == whole.digest
    logged = make_trainer(photos, device, resume=early, log_dir=tmp_path / "log", **options)
    with pytest.raises(ss.Refused, match="a run folder cannot go back"):
        logged.restore(early)
    assert logged.fit().digest == whole.digest


def test_compiled_and_tied_models_resume_to_same_losses(photos, device, tmp_path):
    class Tied(Net):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
            self.second.weight, self.third = self.first.weight, self.first

        def forward(self, images):
            features = self.norm(self.conv(images)).relu().mean((2, 3))
            return self.head(self.third(self.second(self.first(features))))

    def part(model, **options):
        trainer = make_trainer(photos, device, model, ema_decay=0.9, checkpoint=tmp_path / "run", **options,
                             on_step=lambda step: step.step == 3 and "resume" not in options and trainer.stop())
        return trainer.fit()

    whole = make_trainer(photos, device, Tied(), ema_decay=0.9).fit()
    first, rest = part(torch.compile(Tied(), backend="aot_eager")), part(Tied(), resume="auto")
    torch.testing.assert_close(first.losses + rest.losses, whole.losses, rtol=1e-4, atol=1e-4)
    for name in ("weights", "ema"):
        stored = safetensors.torch.load_file(tmp_path / "run" / "step-00000014" / f"{name}.safetensors")
        Tied().load_state_dict(stored)
        assert all(torch.equal(stored[alias], stored["first.weight"]) for alias in ("second.weight", "third.weight"))
    trainer = make_trainer(photos, device, Tied(), ema_decay=0.9)
    assert trainer.averages().keys() == trainer.model.state_dict().keys()


def make_resnet(photos, device, **options):
    torch.manual_seed(1)
    data = ss.ImageFolder(photos, ss.transforms.Compose([ss.transforms.Resize([32, 32]), CHAIN[2]]))
    loader = ss.DataLoader(data, 8, True, drop_last=True, seed=1, device=device)
    model = torchvision.models.resnet18(num_classes=3)
    return ss.Trainer(loader, model, lr=0.01, momentum=0.9, progress=False, **options)


def test_command_line_reads_trainer_checkpoints(photos, device, tmp_path):
    trainer = make_resnet(photos, device, epochs=1, checkpoint=tmp_path / "run")
    trainer.fit()
    val = ss.DataLoader(trainer._loader.dataset, 8, device=device)
    run_slipstream("eval", "classification", "--data", photos, "--image-size", 32, "--device", device,
               "--weights", tmp_path / "run" / "step-00000006", "--json", tmp_path / "scores.json")
    scores = json.loads((tmp_path / "scores.json").read_text())["scores"]
    for name, value in trainer.evaluate(val).items():
        assert scores[name] == pytest.approx(value, rel=0.02, abs=0.021)
    run_slipstream("predict", "classification", "--data", photos / "class0", "--image-size", 32, "--device", device,
               "--weights", tmp_path / "run" / "step-00000006", "--out", tmp_path / "told")
    told = [json.loads(line) for line in (tmp_path / "told" / "predictions.jsonl").read_text().splitlines()]
    assert len(told) == len(list((photos / "class0").iterdir())) and told[0]["class"].startswith("class")
    stored = safetensors.torch.load_file(tmp_path / "run" / "step-00000006" / "weights.safetensors")
    torchvision.models.resnet18(num_classes=3).load_state_dict(stored)
    assert torch.equal(stored["fc.weight"], trainer.model.fc.weight.cpu())


def test_trainer_and_command_line_resume_each_others_checkpoints(photos, device, tmp_path):
    words = ["train", "classification", "--data", photos, "--image-size", 32, "--batch-size", 8, "--lr", 0.01,
             "--momentum", 0.9, "--plan", "serial", "--device", device, "--precision", "fp32", "--deterministic"]
    run_slipstream(*words, "--steps", 4, "--checkpoint", tmp_path / "run")
    trainer = make_resnet(photos, device, steps=8, checkpoint=tmp_path / "run", resume="auto")
    assert trainer.position == 4
    result = trainer.fit()
    run_slipstream(*words, "--steps", 8, "--checkpoint", tmp_path / "other", "--json", tmp_path / "run.json")
    torch.testing.assert_close(result.losses, json.loads((tmp_path / "run.json").read_text())["losses"][4:],
                               rtol=0.05, atol=0.05)
    told = run_slipstream(*words, "--steps", 10, "--checkpoint", tmp_path / "run", "--resume", "auto")
    assert "continues from step 8" in told and "2 steps" in told


def test_used_checkpoint_folder_needs_resume_and_same_settings(photos, device, tmp_path):
    options = {"checkpoint": tmp_path / "run"}
    make_trainer(photos, device, **options).fit()
    with pytest.raises(ss.Refused, match='continue with resume="auto"'):
        make_trainer(photos, device, **options)
    with pytest.raises(ss.Refused, match="another model"):
        make_trainer(photos, device, Net(4), resume="auto", **options)
    with pytest.raises(ss.Refused, match="batch size 8, this training 4"):
        make_trainer(photos, device, batch_size=4, resume="auto", **options)
    with pytest.raises(ss.Refused, match="another optimizer"):
        make_trainer(photos, device, optimizer="adamw", momentum=None, resume="auto", **options)


def test_failed_checkpoint_write_gives_a_warning(photos, device, tmp_path):
    def on_step(step):
        if step.step == 2:
            shutil.rmtree(tmp_path / "run")
            (tmp_path / "run").write_text("in the way")

    whole = make_trainer(photos, device).fit()
    with pytest.warns(UserWarning, match="could not save the checkpoint of step 14"):
        result = make_trainer(photos, device, checkpoint=tmp_path / "run", on_step=on_step).fit()
    assert (result.digest, result.is_saved) == (whole.digest, False)


class Expanded(Net):
    """A model with buffers whose elements share memory."""

    def __init__(self, value=2.0):
        super().__init__()
        self.register_buffer("b", torch.full((1,), value).expand(4))
        self.register_buffer("passing", torch.full((1,), value).expand(4), persistent=False)

    def forward(self, images):
        self.passing[:1].add_(1)
        return super().forward(images) * self.b[0]


@pytest.mark.parametrize("options", [{}, {"ema_decay": 0.9, "on_nan": "skip", "plan": "auto"}])
def test_model_with_expanded_buffer_resumes_to_same_digest(photos, device, tmp_path, options):
    whole = make_trainer(photos, device, Expanded(), **options).fit()
    part = make_trainer(photos, device, Expanded(), checkpoint=tmp_path / "run", **options,
                      on_step=lambda step: step.step == 5 and part.stop())
    part.fit()
    rest = make_trainer(photos, device, Expanded(1.0), checkpoint=tmp_path / "run", resume="auto", **options)
    assert rest.fit().digest == whole.digest
    assert rest.evaluate(make_trainer(photos, device)._loader)
    assert torch.equal(rest.model.b.cpu(), torch.full((4,), 2.0))


@pytest.mark.parametrize("name", ["__metadata__", "head"])
def test_checkpoint_refuses_parameter_named_metadata(photos, tmp_path, name):
    model = Net()
    owner = model if name.startswith("_") else model.head
    owner.register_parameter("__metadata__", nn.Parameter(torch.ones(1)))
    if owner is model:
        with pytest.raises(ss.Refused, match=r"cannot be saved: tensor '__metadata__'.*rename it"):
            make_trainer(photos, model=model, checkpoint=tmp_path / "run")
    else:
        assert make_trainer(photos, model=model, checkpoint=tmp_path / "run").fit().is_saved
    assert make_trainer(photos, model=model).fit().steps == 14


def test_resumed_training_uses_the_seed_of_its_checkpoint(photos, device, tmp_path):
    """Without a given seed, each process samples another one."""
    def trainer(torch_seed, **options):
        torch.manual_seed(torch_seed)
        loader = make_loader(photos, device, seed=None)
        torch.manual_seed(0)  # the same initial weights
        model = Net()
        torch.manual_seed(torch_seed)
        return ss.Trainer(loader, model, lr=0.05, precision="fp32", progress=False, **options)

    whole = trainer(1, steps=10).fit()
    trainer(1, steps=4, checkpoint=tmp_path).fit()
    resumed = trainer(2, steps=10, checkpoint=tmp_path, resume="auto").fit()
    assert resumed.losses == whole.losses[4:] and resumed.digest == whole.digest
    with pytest.raises(ss.Refused, match="seed"):
        trainer(2, steps=10).restore(tmp_path / "step-00000004")
