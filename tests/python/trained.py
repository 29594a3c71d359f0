"""Models, loaders and loops for tests of slipstream.Trainer."""

import interpreters
import slipstream as ss
import torch
from torch import nn

T = ss.transforms
CHAIN = [T.RandomResizedCrop(16), T.RandomHorizontalFlip(), T.ToDtype(torch.float32, scale=True)]


class Net(nn.Module):
    """A model with buffers that training changes, and with dropout, which uses random numbers."""

    def __init__(self, classes=3):
        super().__init__()
        torch.manual_seed(3)
        self.conv, self.norm, self.drop = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Dropout(0.1)
        self.head = nn.Linear(8, classes)

    def forward(self, images):
        return self.head(self.drop(self.norm(self.conv(images)).relu().mean((2, 3))))


def make_loader(photos, device="cpu", batch_size=8, shuffle=True, workers=2, **options):
    data = ss.ImageFolder(photos, T.Compose(CHAIN))
    return ss.DataLoader(data, batch_size, shuffle, num_workers=workers, device=device, **{"seed": 0} | options)


def make_trainer(photos, device="cpu", model=None, batch_size=8, **options):
    options = {"epochs": 2, "lr": 0.05, "momentum": 0.9, "deterministic": True, "precision": "fp32",
               "progress": False} | options
    return ss.Trainer(make_loader(photos, device, batch_size), Net() if model is None else model, **options)


def plain_loop(batches, model, optimizer, loss, epochs=2):
    """Trains with a loop as users write it, without random numbers; returns the losses."""
    allowed, torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.allow_tf32, False
    losses = []
    for _ in range(epochs):
        for images, labels in batches:
            value = loss(model(images), labels)
            value.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            losses.append(value.item())
    torch.backends.cudnn.allow_tf32 = allowed
    return losses


class Failing(Net):
    """Raises in call number `at`."""

    def __init__(self, at, error):
        super().__init__()
        self.calls, self.at, self.error = 0, at, error

    def forward(self, images):
        self.calls += 1
        if self.calls == self.at:
            self.fail()
        return super().forward(images)

    def fail(self):
        raise self.error


def run_slipstream(*words):
    """Runs the command line of the package; returns its output."""
    run = interpreters.run("import sys; from slipstream.__main__ import main; sys.exit(main())", *words)
    assert run.returncode == 0, run.stderr
    return run.stdout
