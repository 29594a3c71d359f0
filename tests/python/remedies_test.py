"""Errors of models that get uint8 images name the remedy; other errors do not."""

import re

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

import slipstream as ss
from trained import Net

REMEDY = r"uint8 images .*Remedy: .*ToDtype\(torch.float32, scale=True\).*images.float\(\) / 255"
IMAGES = torch.zeros(4, 3, 16, 16, dtype=torch.uint8)


def make_notes(error):
    return "\n".join(getattr(error, "__notes__", []))


def raised_by(call):
    with pytest.raises(Exception) as caught:
        call()
    return caught.value


MODELS = [nn.Conv2d(3, 8, 3), nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, 2)), nn.BatchNorm2d(3)]


def frozen(model):
    return model.eval().requires_grad_(False)


@pytest.mark.parametrize("serial", [False, True])
@pytest.mark.parametrize("model", MODELS)
def test_stage_error_on_uint8_images_names_the_remedy(device, model, serial):
    model = frozen(model).to(device)
    pipe = ss.Pipeline([(IMAGES, torch.zeros(4))], [("encode", model)], device, serial=serial)
    notes = make_notes(raised_by(lambda: list(pipe)))
    assert re.search(REMEDY, notes), notes
    assert "4 x 3 x 16 x 16" in notes and "stage 'encode'" in notes


def test_trainer_error_on_uint8_images_names_the_remedy(photos, device):
    data = ss.ImageFolder(photos, ss.transforms.CenterCrop(16))
    trainer = ss.Trainer(ss.DataLoader(data, 8, device=device), Net(), epochs=1, progress=False)
    assert "images.float() / 255" in make_notes(raised_by(trainer.fit))


def test_doctor_error_on_uint8_images_names_the_remedy():
    model = nn.Conv2d(3, 8, 3)
    loader = DataLoader([image for image in IMAGES], batch_size=2)
    error = raised_by(lambda: ss.doctor(loader, lambda batch: model(batch), device="cpu", budget=0.3))
    assert "images.float() / 255" in make_notes(error)


def make_failing_stage(message):
    def fails(batch):
        raise RuntimeError(message)

    return fails


@pytest.mark.parametrize(("batch", "message"), [
    (IMAGES.float(), "expected scalar type Byte but found Float"),  # the batch has no uint8 image
    # the model compared the mask, not the image
    ((IMAGES.float(), IMAGES[:, 0]), "Found dtype Byte but expected Float"),
    (torch.zeros(4, dtype=torch.uint8), "expected scalar type Byte but found Float"),  # the error is about labels
    (IMAGES, "expected scalar type Long but found Byte"),  # the error is about class numbers
    (IMAGES, "the file is damaged"),
])
def test_other_errors_name_no_remedy(batch, message):
    pipe = ss.Pipeline([batch], [("bad", make_failing_stage(message))], "cpu")
    assert "Remedy" not in make_notes(raised_by(lambda: list(pipe)))


class Unprintable(RuntimeError):
    def __str__(self):
        raise ValueError("no text")


def test_error_whose_str_fails_is_raised_unchanged():
    def fails(batch):
        raise Unprintable

    assert type(raised_by(lambda: list(ss.Pipeline([IMAGES], [("bad", fails)], "cpu")))) is Unprintable
