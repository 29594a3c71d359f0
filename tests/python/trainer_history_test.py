"""Scores, plans and lost checkpoints over several calls of fit(), and in a resumed training."""

import json
import math
import warnings

import pytest
import slipstream as ss
import torch
from trained import Failing, Net, make_loader, make_trainer


def scored(photos, scores, **options):
    """Returns a trainer whose evaluations have these values of a metric."""
    left = list(scores)
    metrics = {"given": lambda output, labels: torch.full_like(output[:, 0], left.pop(0))}
    val = make_loader(photos, batch_size=50)
    return make_trainer(photos, val=val, metrics=metrics, keep_best="given", **{"epochs": len(left)} | options)


def read_record(folder, name="last"):
    return json.loads((folder / name / "checkpoint.json").read_text())


def read_run(folder):
    return json.loads((folder / "run.json").read_text())


def test_a_checkpoint_has_the_best_value_of_each_score(photos, tmp_path):
    first = scored(photos, [0.75, 0.25], checkpoint=tmp_path).fit()
    scored(photos, [0.5], epochs=3, checkpoint=tmp_path, resume="auto").fit()
    best = {each["metric"]: (each["value"], each["step"]) for each in read_record(tmp_path)["best_scores"]}
    assert best.keys() == {"loss", "accuracy", "given"}
    assert best["given"] == (0.75, 7)
    assert best["loss"][0] <= min(epoch.scores["loss"] for epoch in first.epochs)


def test_a_restored_checkpoint_is_not_evaluated_again_and_has_its_own_best_score(photos, tmp_path):
    scored(photos, [0.25, 0.5], checkpoint=tmp_path, keep_last=9).fit()
    trainer = scored(photos, [0.75, 0.5, 0.375, 0.125], epochs=2)
    assert [epoch.is_best for epoch in trainer.fit().epochs] == [True, False]
    trainer.restore(tmp_path / "step-00000007")
    result = trainer.fit()
    assert [(epoch.step, epoch.scores["given"], epoch.is_best) for epoch in result.epochs] == [(14, 0.375, True)]


def test_the_next_fit_saves_what_could_not_be_saved(photos, tmp_path):
    def on_step(step):
        if step.step == 14:
            folder.rename(tmp_path / "away")
            folder.write_text("in the way")

    folder = tmp_path / "run"
    trainer = make_trainer(photos, checkpoint=folder, save_every=5, on_step=on_step)
    with pytest.warns(UserWarning, match="could not save the checkpoint of step 14"):
        assert not trainer.fit().is_saved
    folder.unlink()
    (tmp_path / "away").rename(folder)
    assert trainer.fit().is_saved
    assert read_record(folder)["step"] == 14
    assert trainer.fit().is_saved


def test_what_the_next_fit_saves_has_the_best_score(photos, tmp_path):
    def on_step(step):
        if step.step == 14:
            folder.rename(tmp_path / "away")
            folder.write_text("in the way")

    folder = tmp_path / "run"
    trainer = scored(photos, [0.75, 0.25], checkpoint=folder, on_step=on_step)
    with pytest.warns(UserWarning, match="could not save the checkpoint of step 14"):
        trainer.fit()
    folder.unlink()
    (tmp_path / "away").rename(folder)
    assert trainer.fit().is_saved
    record = read_record(folder)
    assert (record["step"], record["scored_step"], record["best"]["step"]) == (14, 7, 7)
    told = scored(photos, [0.5], epochs=2, checkpoint=folder, resume="auto").fit().epochs
    assert [(epoch.step, epoch.is_best) for epoch in told] == [(14, False)]


def test_the_time_of_a_run_that_a_callback_ended_counts(photos):
    def on_step(step):
        seconds.append(step.seconds)
        if step.step == 5:
            raise OSError("disk")

    seconds = []
    trainer = make_trainer(photos, on_step=on_step)
    with pytest.raises(OSError, match="disk"):
        trainer.fit()
    trainer.fit()
    assert seconds == sorted(seconds)


def test_scores_that_are_never_finite_end_it_without_a_best_one(photos):
    result = scored(photos, [math.nan] * 3, early_stop=1).fit()
    assert (result.ended, result.steps) == ("ended early: given has not improved for 1 epoch", 7)


def test_auto_records_the_plan_that_it_kept(photos, tmp_path):
    trainer = make_trainer(photos, plan="auto", epochs=1, checkpoint=tmp_path / "run", log_dir=tmp_path / "log")
    trainer.fit()
    assert "plan" not in read_run(tmp_path / "log")  # the plan was not yet known when the file was written
    # there were too few steps to choose another
    assert read_record(tmp_path / "run")["plan"]["schedule"]["mode"] == "serial"


def test_an_unknown_score_is_refused_with_the_nearest_one(photos):
    with pytest.raises(ss.Refused, match="keep_best: unknown score 'top'; did you mean 'top1'"):
        make_trainer(photos, keep_best="top", val=make_loader(photos))
    for other in ("", 5):
        with pytest.raises(ss.Refused, match=f"keep_best: unknown score '{other}'; "):
            make_trainer(photos, keep_best=other, val=make_loader(photos))


def test_a_score_that_the_loss_does_not_give_ends_the_training(photos):
    trainer = make_trainer(photos, loss=torch.nn.functional.cross_entropy, keep_best="accuracy", val=make_loader(photos))
    with pytest.raises(ss.Error, match="keep_best='accuracy': the evaluation does not compute this score; it "
                                       "computes .*: choose one of them"):
        trainer.fit()


@pytest.mark.parametrize("evaluates", [True, False])
def test_a_warning_names_the_line_that_called_fit(photos, tmp_path, evaluates):
    def on_step(step):
        if step.step == 3:
            (tmp_path / "run").rename(tmp_path / "away")
            (tmp_path / "run").write_text("in the way")

    trainer = make_trainer(photos, epochs=1, checkpoint=tmp_path / "run", on_step=on_step,
                           val=make_loader(photos) if evaluates else None)
    with pytest.warns(UserWarning, match="could not save") as caught:
        trainer.fit()
    assert {each.filename for each in caught if "could not save" in str(each.message)} == {__file__}


def test_a_warning_that_is_an_error_does_not_hide_what_ended_the_training(photos, tmp_path):
    trainer = make_trainer(photos, model=Failing(10, ValueError("boom")), checkpoint=tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="boom"):
            trainer.fit()


def test_the_rate_is_that_of_the_last_part_that_has_one(photos):
    """The last part has only one step, from which no rate can be computed."""
    result = make_trainer(photos, model=Net(), batch_size=2, steps=26, epochs=None, on_epoch=lambda epoch: None).fit()
    assert [epoch.step for epoch in result.epochs] == [25, 26]
    assert result.steps_per_second > 0
