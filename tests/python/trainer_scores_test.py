"""How a training uses its scores: for the best checkpoint, for its end, and in later runs."""

import math
import shutil
import threading
import time

import pytest
import slipstream as ss
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from trained import Failing, Net, make_loader, make_trainer


def whole(photos, device):
    """Loads the data in one batch, so that each evaluation calls a metric once."""
    return make_loader(photos, device, 50)


def given(*scores):
    left = list(scores)

    def metric(output, labels):
        score = left.pop(0)
        if isinstance(score, Exception):
            raise score
        return torch.full_like(output[:, 0], score)

    return {"given": metric}


def scored(photos, device, *scores, **options):
    options = {"epochs": len(scores), "keep_best": "given"} | options
    return make_trainer(photos, device, val=whole(photos, device), metrics=given(*scores), **options)


def read_best(folder):
    return (folder / "best").resolve().name


@pytest.mark.parametrize(("scores", "are_best"), [
    ((0.25, 0.5, 0.125, 0.5), [True, True, False, False]),
    ((0.25, math.nan, 0.5, 0.375), [True, False, True, False]),
    ((math.nan, 0.25, math.inf), [False, True, False]),
])
def test_largest_finite_score_is_best(photos, device, tmp_path, scores, are_best):
    trainer = scored(photos, device, *scores, checkpoint=tmp_path)
    assert [epoch.is_best for epoch in trainer.fit().epochs] == are_best
    assert trainer.fit().epochs == []
    step = 7 * (len(are_best) - are_best[::-1].index(True))
    assert read_best(tmp_path) == f"step-{step:08}"


def test_smallest_loss_is_best(photos, device, tmp_path):
    left = [2.0, 1.0, 3.0]

    def loss(output, labels):
        return cross_entropy(output, labels) if torch.is_grad_enabled() else output.new_tensor(left.pop(0))

    result = make_trainer(photos, device, val=whole(photos, device), loss=loss, epochs=3, keep_best="loss",
                        checkpoint=tmp_path).fit()
    assert [epoch.scores["loss"] for epoch in result.epochs] == [2, 1, 3]
    assert [epoch.is_best for epoch in result.epochs] == [True, True, False]
    assert read_best(tmp_path) == "step-00000014"


def test_epoch_result_has_mean_loss_of_that_epoch(photos, device):
    class SlowAtFirst(Net):
        calls = 0

        def forward(self, images):
            self.calls += 1
            time.sleep(0.01 if self.calls <= 7 else 0)
            return super().forward(images)

    result = make_trainer(photos, device, SlowAtFirst(), on_epoch=lambda epoch: None).fit()
    assert [epoch.loss for epoch in result.epochs] == [
        pytest.approx(sum(result.losses[i:i + 7]) / 7) for i in (0, 7)]
    assert result.epochs[0].loss != result.epochs[1].loss
    assert result.seconds >= 7 * 0.01  # the time of all epochs counts


def test_best_link_skips_checkpoint_that_was_not_saved(photos, device, tmp_path):
    folder, away = tmp_path / "run", tmp_path / "away"

    def on_epoch(epoch):
        if epoch.step == 7:  # the checkpoint of step 7 has been saved by now
            assert read_best(folder) == "step-00000007"
            folder.rename(away)
            folder.write_text("in the way")
        elif epoch.step == 14:
            folder.unlink()
            away.rename(folder)
            assert read_best(folder) == "step-00000007"

    trainer = scored(photos, device, 0.25, 0.75, 0.5, checkpoint=folder, on_epoch=on_epoch)
    with pytest.warns(UserWarning, match="could not save the checkpoint of step 14"):
        result = trainer.fit()
    assert [epoch.is_best for epoch in result.epochs] == [True, True, False]
    assert read_best(folder) == "step-00000021"  # it is better than the last best checkpoint that exists


def test_resumed_run_keeps_best_score_and_early_stop_count(photos, device, tmp_path):
    options = {"checkpoint": tmp_path, "early_stop": 3, "epochs": 9}
    first = scored(photos, device, 0.75, 0.25, checkpoint=tmp_path, early_stop=3).fit()
    assert (first.steps, first.ended) == (14, "")
    second = scored(photos, device, 0.5, 0.625, 0.875, resume="auto", **options).fit()
    assert [epoch.is_best for epoch in second.epochs] == [False, False]
    assert second.ended == "ended early: given has not improved for 3 epochs (best: 0.75 at step 7)"
    assert read_best(tmp_path) == "step-00000007"


def test_evaluation_missed_before_resume_runs_first(photos, device, tmp_path):
    with pytest.raises(ValueError, match="wrong"):
        scored(photos, device, ValueError("wrong"), epochs=2, checkpoint=tmp_path).fit()
    told = []
    trainer = scored(photos, device, 0.5, 0.25, resume="auto", checkpoint=tmp_path, on_epoch=told.append)
    assert trainer.position == 7
    result = trainer.fit()
    assert [(each.step, each.scores["given"]) for each in told] == [(7, 0.5), (14, 0.25)]
    assert told[0].loss > 0 and result.steps == 7  # the checkpoint has the losses of its epoch
    assert scored(photos, device, resume="auto", checkpoint=tmp_path, epochs=2).fit().epochs == []


def test_damaged_checkpoint_is_skipped_with_a_warning(photos, device, tmp_path):
    make_trainer(photos, device, checkpoint=tmp_path, keep_last=9, save_every=7).fit()
    (tmp_path / "step-00000014" / "weights.safetensors").write_bytes(b"damaged")
    with pytest.warns(UserWarning, match="skipped a damaged checkpoint: .*step-00000014"):
        trainer = make_trainer(photos, device, checkpoint=tmp_path, keep_last=9, save_every=7, resume="auto")
    assert trainer.position == 7
    assert trainer.fit().steps == 7
    again = make_trainer(photos, device, checkpoint=tmp_path, keep_last=9, save_every=7, resume="auto")
    assert again.position == 14


def test_validation_data_with_other_classes_is_refused(photos, device, tmp_path):
    shutil.copytree(photos, tmp_path / "other")
    (tmp_path / "other" / "class2").rename(tmp_path / "other" / "class3")
    for root, classes, message in [
        (tmp_path / "other", (), "val has other classes than the training data .'class2' is not in both"),
        (photos, ("class2", "class1", "class0"), "val has other classes than the training data, or in another"),
    ]:
        data = ss.ImageFolder(root, make_loader(photos, device).dataset.transform, classes=classes)
        with pytest.raises(ss.Refused, match=message):
            make_trainer(photos, device, val=ss.DataLoader(data, 8, device=device))
        with pytest.raises(ss.Refused, match=message.replace("val", "the loader")):
            make_trainer(photos, device).evaluate(ss.DataLoader(data, 8, device=device))


@pytest.mark.filterwarnings("ignore:.*torch.jit.script")
def test_invalid_evaluation_and_checkpoint_arguments_are_refused(photos, device, tmp_path):
    val = whole(photos, device)
    kind = nn.parallel.DistributedDataParallel
    distributed = kind.__new__(kind)  # the constructor would need a process group
    cases = [
        ("val is a slipstream.Pipeline: give its loader", {"val": ss.Pipeline(val)}),
        ("early_stop is 0: give a whole number, at least 1", {"val": val, "early_stop": 0}),
        ("keep_last is 0: give", {"checkpoint": tmp_path / "run", "keep_last": 0}),
        ("save_every is 0: give", {"checkpoint": tmp_path / "run", "save_every": 0}),
        ("in one process: give the module inside the DataParallel", {"model": nn.DataParallel(Net())}),
        ("inside the DistributedDataParallel", {"model": distributed}),
        ("the model is a TorchScript module", {"model": torch.jit.script(nn.Linear(3, 3))}),
        ("cross_entropy takes one target, a field of labels, not 2", {"target": ["label", "label"]}),
    ]
    for message, options in cases:
        with pytest.raises(ss.Refused, match=message):
            make_trainer(photos, device, **options)
    assert not (tmp_path / "run").exists()


def test_stage_in_training_mode_is_refused(photos, device):
    stage = nn.Identity().eval()
    pipe = ss.Pipeline(make_loader(photos, device), [("same", stage)])
    stage.train()
    with pytest.raises(ss.Refused, match="stage 'same' is in training mode"):
        ss.Trainer(pipe, Net(), epochs=1, progress=False)


def test_output_argument_selects_element_by_index(photos, device):
    class Pair(Net):
        def forward(self, images):
            return images, super().forward(images)

    plain, chosen = make_trainer(photos, device).fit(), make_trainer(photos, device, Pair(), output=1).fit()
    assert chosen.losses == plain.losses
    with pytest.raises(ss.Error, match="output=2: the model returned a tuple of 2 elements, which does not have this "
                                       "element"):
        make_trainer(photos, device, Pair(), output=2).fit()


def test_model_error_is_raised_by_predict(photos, device):
    outputs = make_trainer(photos, device, Failing(3, LookupError("lost"))).predict(make_loader(photos, device))
    seen = []
    with pytest.raises(LookupError, match="lost"):
        for output in outputs:
            seen.append(len(output))
    assert seen == [8, 8] and list(outputs) == []


def test_closing_predict_waits_for_running_forward(photos, device):
    entered, is_left = threading.Event(), []

    class Slow(Net):
        def forward(self, images):
            is_left.append(False)
            entered.set()
            time.sleep(0.3)
            output = super().forward(images)
            is_left[-1] = True
            return output

    outputs = make_trainer(photos, device, Slow()).predict(make_loader(photos, device))
    next(outputs)
    entered.clear()
    assert entered.wait(100)
    outputs.close()
    assert len(is_left) >= 2 and all(is_left)
