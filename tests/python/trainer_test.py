import gc
import json
import threading
import weakref

import pytest
import slipstream as ss
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from trained import CHAIN, Net, make_loader, make_trainer, plain_loop, run_slipstream


def without_draws():
    model = Net()
    model.drop.p = 0.0
    return model


def test_trainer_matches_plain_loop(photos, device):
    """An epoch has 50 samples in batches of 8; the last one has 2."""
    own, plain = without_draws(), without_draws().to(device, memory_format=torch.channels_last)
    result = make_trainer(photos, device, own, loss=cross_entropy, weight_decay=1e-3).fit()
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3, fused=True)
    losses = plain_loop(make_loader(photos, device), plain, optimizer, cross_entropy)
    assert result.steps == result.position == len(losses) == 14
    if device == "cpu":
        assert result.losses == losses
    torch.testing.assert_close(result.losses, losses, rtol=1e-4, atol=1e-4)
    for name, value in plain.state_dict().items():
        torch.testing.assert_close(own.state_dict()[name], value, rtol=1e-3, atol=1e-4)


def test_python_transforms_are_accepted_and_python_data_refused(photos, device):
    def fit(*more):
        data = ss.ImageFolder(photos, ss.transforms.Compose([*CHAIN[:1], *more, *CHAIN[1:]]))
        loader = ss.DataLoader(data, 8, shuffle=True, num_workers=2, device=device, seed=0)
        return ss.Trainer(loader, without_draws(), epochs=2, deterministic=True, precision="fp32").fit()

    with_one, without = fit(lambda image: image.clone()), fit()
    assert (with_one.losses, with_one.digest) == (without.losses, without.digest)
    with pytest.raises(ss.Refused, match="this one is in Python: put slipstream.Pipeline"):
        ss.Trainer(ss.DataLoader([(torch.ones(3), 0)] * 20, 5), without_draws(), steps=1)


def test_named_loss_matches_cross_entropy_of_pytorch(photos, device):
    named = make_trainer(photos, device, without_draws(), epochs=1).fit()
    own = make_trainer(photos, device, without_draws(), epochs=1, loss=cross_entropy).fit()
    torch.testing.assert_close(named.losses, own.losses, rtol=1e-4, atol=1e-4)
    smooth = make_trainer(photos, device, without_draws(), epochs=1, label_smoothing=0.1).fit()
    same = make_trainer(photos, device, without_draws(), epochs=1,
                      loss=lambda output, labels: cross_entropy(output, labels, label_smoothing=0.1)).fit()
    torch.testing.assert_close(smooth.losses, same.losses, rtol=1e-4, atol=1e-4)
    assert abs(smooth.loss - named.loss) > 1e-4


def test_adamw_schedule_clipping_and_groups_match_pytorch(photos, device):
    own, plain = without_draws(), without_draws().to(device, memory_format=torch.channels_last)
    groups = [{"params": own.head.parameters(), "lr": 0.001, "weight_decay": 0.2}]
    result = make_trainer(photos, device, own, loss=cross_entropy, optimizer="adamw", momentum=None, lr=0.01,
                        weight_decay=0.05, clip_grad=0.5, schedule="cosine", param_groups=groups).fit()
    rest = [*plain.conv.parameters(), *plain.norm.parameters()]
    optimizer = torch.optim.AdamW([{"params": rest}, {"params": plain.head.parameters(), "lr": 0.001,
                                                      "weight_decay": 0.2}], lr=0.01, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 14)

    class Clipped:
        zero_grad = optimizer.zero_grad

        def step(self):
            nn.utils.clip_grad_norm_(plain.parameters(), 0.5)
            optimizer.step()
            schedule.step()

    losses = plain_loop(make_loader(photos, device), plain, Clipped(), cross_entropy)
    torch.testing.assert_close(result.losses, losses, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("options", [{}, {"ema_decay": 0.9, "accumulate": 2}, {"precision": "bf16", "on_nan": "skip"}])
def test_all_plans_give_the_same_digest(photos, device, options):
    plans = [{"plan": "serial"}, {"plan": "pipelined"}, {"plan": "auto", "epochs": 5},
             {"plan": "serial", "epochs": 5}]
    if not options:
        plans += [{"transforms_device": "cuda", "plan": plan} for plan in ("serial", "pipelined") if device != "cpu"]
    digests = [make_trainer(photos, device, **options | plan).fit().digest for plan in plans]
    assert digests[0] == digests[1] != digests[2] == digests[3]
    assert {*digests[4:]} <= {digests[0]}


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_model_runs_under_autocast_and_expected_modes(photos, device, precision):
    seen = []

    class Told(Net):
        def forward(self, images):
            kind = images.device.type
            seen.append((self.training, torch.is_grad_enabled(), torch.is_autocast_enabled(kind)))
            output = super().forward(images)
            assert output.dtype == {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)
            return output

    trainer = make_trainer(photos, device, Told(), steps=3, epochs=None, precision=precision)
    assert trainer.fit().steps == 3
    assert seen == [(True, True, precision != "fp32")] * 3
    scores = trainer.evaluate(make_loader(photos, device, 25))
    assert seen[3:] == [(False, False, precision != "fp32")] * 2
    assert trainer.model.training and set(scores) == {"loss", "accuracy", "top1", "class_accuracy"}


def test_trainer_with_stages_matches_loop_over_pipeline(photos, device):
    torch.manual_seed(5)
    encoder = nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3)).eval().requires_grad_(False)

    def noise(images):
        return images + 0.1 * torch.rand_like(images)

    def pipe():
        return ss.Pipeline(make_loader(photos, device, drop_last=True),
                           [("encode", encoder), ss.Stage("noise", noise, seed=7)])

    own, plain = without_draws(), without_draws().to(device, memory_format=torch.channels_last)
    options = {"epochs": 2, "lr": 0.05, "loss": cross_entropy, "deterministic": True, "precision": "fp32",
               "progress": False}
    results = [ss.Trainer(pipe(), model, plan=plan, **options).fit()
               for model, plan in ((own, "pipelined"), (without_draws(), "serial"))]
    assert results[0].digest == results[1].digest
    losses = plain_loop(pipe(), plain, torch.optim.SGD(plain.parameters(), lr=0.05, fused=True), cross_entropy)
    torch.testing.assert_close(results[0].losses, losses, rtol=1e-4, atol=1e-4)


def test_evaluation_scores_match_predictions(photos, device):
    val = make_loader(photos, device, 16)
    told = []
    trainer = make_trainer(photos, device, epochs=3, val=val, on_epoch=told.append, ema_decay=0.5,
                         metrics={"top2": "top2", "sure": lambda out, labels: out.softmax(1).amax(1)})
    result = trainer.fit()
    assert [epoch.step for epoch in told] == [7, 14, 21] and told == result.epochs
    outputs = torch.cat(list(trainer.predict(val)))
    assert outputs.device.type == "cpu" and len(outputs) == 50
    labels = torch.tensor([val.dataset.label(i) for i in range(50)])
    assert result.scores == trainer.evaluate()
    expected = {"loss": cross_entropy(outputs, labels).item(), "sure": outputs.softmax(1).amax(1).mean().item(),
                "top2": (outputs.topk(2).indices == labels[:, None]).any(1).double().mean().item()}
    for name, value in expected.items():
        assert result.scores[name] == pytest.approx(value, rel=1e-4)
    averages = trainer.averages()
    assert averages.keys() == trainer.model.state_dict().keys()
    trainer.model.load_state_dict(averages)
    trainer.model.eval()
    images = torch.cat([each for each, _ in make_loader(photos, device, 10, False)])
    assert images.shape[0] == 50  # the crops are random and differ from those of the evaluation
    assert trainer.model(images).shape == outputs.shape


@pytest.mark.parametrize("form", ["scalar", "by time", "mapping"])
def test_scores_weigh_samples_equally_for_any_output_form(photos, device, form):
    """An epoch has 50 samples in batches of 16; the last one has 2."""
    class Other(Net):
        def forward(self, images):
            output = super().forward(images)
            if form == "mapping":
                return {"scale": output.new_ones(()), "logits": output}
            return output.square().mean().sqrt() if form == "scalar" else output.expand(5, *output.shape)

    def loss(output, labels):
        logits = output["logits"] if form == "mapping" else output
        return logits.square().mean()

    val = make_loader(photos, device, 16)
    sure = {"label": lambda output, labels: labels}
    trainer = make_trainer(photos, device, Other(), loss=loss, metrics=sure)
    scores = trainer.evaluate(val)
    outputs = torch.cat(list(make_trainer(photos, device, Net()).predict(val)))
    labels = torch.tensor([val.dataset.label(i) for i in range(50)])
    assert scores["loss"] == pytest.approx(outputs.square().mean().item(), rel=1e-4)
    assert scores["label"] == pytest.approx(labels.double().mean().item())
    for wrong in (torch.ones(5), torch.ones(16, 2), torch.ones(16, dtype=torch.complex64), torch.tensor(1.0)):
        with pytest.raises(ss.Error, match="must return a real score for each of 16 samples"):
            make_trainer(photos, device, Other(), loss=loss, metrics={"one": lambda *_, w=wrong: w.to(device)}).evaluate(val)


def test_training_works_after_closing_unfinished_predictions(photos, device):
    trainer = make_trainer(photos, device)
    outputs = trainer.predict(make_loader(photos, device, 2))
    first = next(outputs)
    with pytest.raises(ss.Refused, match="another trainer is running"):
        trainer.fit()
    outputs.close()
    assert torch.equal(next(trainer.predict(make_loader(photos, device, 2))), first)
    assert trainer.fit().steps == 14


def test_callbacks_and_log_report_every_step(photos, device, tmp_path):
    steps = []
    trainer = make_trainer(photos, device, steps=9, epochs=None, on_step=steps.append, schedule="linear",
                         log_dir=tmp_path / "log", log_every=3, val=make_loader(photos, device))
    result = trainer.fit()
    assert [each.step for each in steps] == list(range(1, 10))
    assert [each.loss for each in steps] == result.losses
    assert steps[0].lr == 0.05 > steps[8].lr
    rows = [json.loads(line) for line in (tmp_path / "log" / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if "train/loss" in row] == [3, 6, 9]
    assert "val/top1" in rows[-1] and "train/loss" not in rows[-1]


def test_on_epoch_callback_and_early_stop_end_training(photos, device):
    trainer = make_trainer(photos, device, epochs=5, on_epoch=lambda epoch: epoch.epoch == 2 and trainer.stop())
    result = trainer.fit()
    assert (result.steps, result.ended) == (14, "stopped")
    assert trainer.fit().steps == 21
    val = make_loader(photos, device)
    metrics = {"top1": "top1", "same": lambda output, labels: torch.ones_like(output[:, 0])}
    early = make_trainer(photos, device, epochs=9, val=val, metrics=metrics, early_stop=2, keep_best="same").fit()
    assert (early.steps, early.scores["same"]) == (21, 1.0)
    assert "same has not improved for 2 epochs (best: 1 at step 7)" in early.ended


def test_trainer_in_a_thread_gives_same_digest(photos, device):
    expected = make_trainer(photos, device).fit().digest
    digests = []
    thread = threading.Thread(target=lambda: digests.append(make_trainer(photos, device).fit().digest))
    thread.start()
    thread.join()
    assert [*digests, make_trainer(photos, device).fit().digest] == [expected] * 2


def test_output_of_dict_model_is_selected_by_name(photos, device):
    class Pair(Net):
        def forward(self, images):
            return {"features": images, "logits": super().forward(images)}

    plain = make_trainer(photos, device, loss=cross_entropy, epochs=1).fit()
    chosen = make_trainer(photos, device, Pair(), output="logits", epochs=1).fit()
    torch.testing.assert_close(chosen.losses, plain.losses, rtol=1e-4, atol=1e-4)
    own = make_trainer(photos, device, Pair(), loss=lambda out, labels: cross_entropy(out["logits"], labels), epochs=1)
    torch.testing.assert_close(own.fit().losses, plain.losses, rtol=1e-4, atol=1e-4)


def test_fit_restores_random_state_and_modes_and_frees_model(photos, device):
    """After fit(), random numbers and PyTorch's settings are as before, and the model can be freed."""
    trainer = make_trainer(photos, device, on_step=lambda step: step.step == 4 and trainer.stop())
    whole = make_trainer(photos, device).fit()
    torch.manual_seed(7)
    expected = [torch.rand(2), torch.rand(2, device=device)]
    torch.manual_seed(7)
    assert trainer.fit().ended == "stopped"
    assert all(torch.equal(torch.rand(2, device=each.device), each) for each in expected)
    assert not torch.are_deterministic_algorithms_enabled() and not torch.is_autocast_enabled(device)
    trainer.model.eval()  # fit() sets training mode itself
    assert trainer.fit().digest == whole.digest
    model = weakref.ref(trainer.model)
    del trainer
    gc.collect()
    assert model() is None


def test_segmentation_model_trains_on_masks(tmp_path, device):
    run_slipstream("make-data", "segmentation", "--out", tmp_path / "scenes", "--samples", 12, "--size", 32)
    data = ss.open_dataset(tmp_path / "scenes", ss.transforms.Compose([ss.transforms.Resize([32, 32]), CHAIN[2]]))

    class Segmenter(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.head = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 10, 1)

        def forward(self, images):
            return {"out": self.head(self.conv(images).relu())}

    def loss(output, masks):
        assert masks.dtype == torch.int64
        return cross_entropy(output["out"], masks)

    def fit(**options):
        torch.manual_seed(0)
        loader = ss.DataLoader(data, 4, True, device=device, seed=0)
        return ss.Trainer(loader, Segmenter(), epochs=2, lr=0.1, precision="fp32", val=loader, progress=False,
                          **options).fit()

    named, own = fit(output="out", num_classes=10), fit(loss=loss, metrics=["mean_iou"], num_classes=10)
    torch.testing.assert_close(named.losses, own.losses, rtol=1e-3, atol=1e-3)
    assert set(named.scores) == {"loss", "accuracy", "mean_iou"} and set(own.scores) == {"loss", "mean_iou"}
    with pytest.raises(ss.Refused, match="give num_classes"):
        fit(loss=loss, metrics=["mean_iou"])
