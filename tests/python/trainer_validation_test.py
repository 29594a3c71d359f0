"""Data for validation: images that differ from those in training, bad samples, and losses of resumed epochs."""

import shutil
import warnings

import pytest
import slipstream as ss
import torch
from trained import make_loader, make_trainer

T = ss.transforms
TO_FLOAT = T.ToDtype(torch.float32, scale=True)


def validation(photos, device, *chain, **options):
    return ss.DataLoader(ss.ImageFolder(photos, T.Compose([*chain])), 10, device=device, num_workers=1, **options)


DIFFERENT = {
    "size": ([T.Resize([24, 24]), TO_FLOAT], r"'image' is float32 of shape 24 x 24 x 3, .*16 x 16 x 3"),
    "range": ([T.CenterCrop(16), T.ToDtype(torch.float32)], r"'image' reach 25\d, but those in training reach (1|0\.9)"),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_validation_images_of_other_size_or_range_are_refused(photos, device, what):
    chain, message = DIFFERENT[what]
    loader = validation(photos, device, *chain)
    with pytest.raises(ss.Refused, match=message) as refused:
        make_trainer(photos, device, val=loader)
    assert "val_may_differ=True" in str(refused.value)
    trainer = make_trainer(photos, device, val=loader, val_may_differ=True, epochs=1)
    assert trainer.fit().epochs[0].scores["loss"] > 0
    with pytest.raises(ss.Refused, match=message):
        trainer.evaluate(loader)
    assert trainer.evaluate(loader, may_differ=True) == trainer.evaluate()
    assert len(list(trainer.predict(loader))) == 5  # predict() computes no score, so the images may differ


def test_validation_images_of_other_type_are_always_refused(photos, device):
    loader = validation(photos, device, T.CenterCrop(16))
    with pytest.raises(ss.Refused, match="'image' is uint8") as refused:
        make_trainer(photos, device, val=loader, val_may_differ=True)
    assert "val_may_differ" not in str(refused.value)


@pytest.mark.parametrize("value", [1, None, "shape"])
def test_val_may_differ_that_is_no_bool_is_refused(photos, device, value):
    with pytest.raises(ss.Refused, match="val_may_differ is"):
        make_trainer(photos, device, val_may_differ=value)


def white(image):
    return torch.ones_like(image)


def dark(image):
    return image / 8


SCALED_ALIKE = {
    "normalized": [T.CenterCrop(16), TO_FLOAT, T.Normalize([0.5] * 3, [0.25] * 3)],
    "black": [T.CenterCrop(16), TO_FLOAT, torch.zeros_like],
    "by a function": [T.CenterCrop(16), TO_FLOAT, white],
    "darker": [T.CenterCrop(16), TO_FLOAT, dark],
}


@pytest.mark.parametrize("what", SCALED_ALIKE)
def test_validation_images_of_similar_range_are_accepted(photos, device, what):
    trainer = make_trainer(photos, device, val=validation(photos, device, *SCALED_ALIKE[what]), epochs=1)
    assert len(trainer.fit().epochs) == 1


def test_range_check_does_not_change_the_digest(photos, device):
    assert make_trainer(photos, device, val=make_loader(photos, device)).fit().digest == make_trainer(
        photos, device, val=make_loader(photos, device), val_may_differ=True).fit().digest


@pytest.fixture
def damaged(photos, tmp_path):
    """Creates a copy of the folder with three damaged files; returns both."""
    folder = shutil.copytree(photos, tmp_path / "damaged")
    files = sorted(each for each in folder.rglob("*") if each.is_file())
    bad = [files[0], files[7], files[-1]]
    for each in bad:
        each.write_bytes(b"no image")
    return folder, bad


def test_bad_validation_samples_are_skipped_counted_and_named(photos, device, damaged, tmp_path):
    folder, bad = damaged
    good = shutil.copytree(folder, tmp_path / "good")
    for each in bad:
        (good / each.relative_to(folder)).unlink()
    chain = [T.CenterCrop(16), TO_FLOAT]
    trainer = make_trainer(photos, device)
    expected = trainer.evaluate(validation(good, device, *chain))
    loader = validation(folder, device, *chain, on_bad_sample="skip")
    with pytest.warns(UserWarning, match=rf"skipped 3 bad of 50 samples: .*{bad[0].name}"):
        assert trainer.evaluate(loader) == pytest.approx(expected, abs=1e-6)
    assert len(loader.skipped) == 3 and all(any(each.name in name for name in loader.skipped) for each in bad)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the files have been reported before
        assert trainer.evaluate(loader) == pytest.approx(expected, abs=1e-6)
    with pytest.raises(ss.Error, match=bad[0].name):
        trainer.evaluate(validation(folder, device, *chain))


def test_fit_skips_bad_validation_samples(photos, device, damaged):
    val = validation(damaged[0], device, T.CenterCrop(16), TO_FLOAT, on_bad_sample="skip")
    trainer = make_trainer(photos, device, val=val, epochs=2)
    with pytest.warns(UserWarning, match="skipped 3 bad of 50 samples"):
        assert len(trainer.fit().epochs) == 2


def test_predict_raises_on_bad_sample(photos, device, damaged):
    loader = validation(damaged[0], device, T.CenterCrop(16), TO_FLOAT, on_bad_sample="skip")
    with pytest.raises(ss.Error, match=damaged[1][0].name):
        list(make_trainer(photos, device).predict(loader))


@pytest.mark.parametrize("stop", [3, 7, 10])
def test_epoch_loss_after_resume_equals_that_of_whole_epoch(photos, device, tmp_path, stop):
    def trainer(**options):
        return make_trainer(photos, device, epochs=2, on_epoch=lambda epoch: None, **options)

    whole = trainer().fit()
    assert whole.epochs[0].loss == pytest.approx(sum(whole.losses[:7]) / 7)
    first = trainer(checkpoint=tmp_path, save_every=1,
                    on_step=lambda step: step.step == stop and first.stop())
    position = first.fit().position
    resumed = trainer(checkpoint=tmp_path, resume="auto").fit()
    assert [epoch.loss for epoch in resumed.epochs] == [epoch.loss for epoch in whole.epochs][position // 7:]
    for folder in tmp_path.glob("step-*"):  # also the checkpoints that were saved during the run
        step = int(folder.name[5:])
        rest = trainer(resume=folder).fit().epochs
        assert [epoch.loss for epoch in rest] == [epoch.loss for epoch in whole.epochs][step // 7:], step


def test_epoch_loss_after_stop_and_second_fit_equals_whole_epoch(photos, device):
    def trained(**options):
        return make_trainer(photos, device, batch_size=1, epochs=1, on_epoch=lambda epoch: None, **options)

    whole = trained().fit()
    trainer = trained(on_step=lambda step: step.step == 3 and trainer.stop())
    assert 3 <= trainer.fit().position < 50
    assert [epoch.loss for epoch in trainer.fit().epochs] == [epoch.loss for epoch in whole.epochs]


def test_evaluation_missed_before_resume_has_loss_of_its_epoch(photos, device, tmp_path):
    first = make_trainer(photos, device, checkpoint=tmp_path, steps=7, epochs=None).fit()
    result = make_trainer(photos, device, checkpoint=tmp_path, resume="auto", val=make_loader(photos, device)).fit()
    assert result.epochs[0].step == 7
    assert result.epochs[0].loss == pytest.approx(sum(first.losses) / 7)
