"""What a trainer makes of Python that it calls, and of what Python does meanwhile."""

import pytest
import slipstream as ss
import torch
from torch import nn

T = ss.transforms


def darkened(image):
    """Without a draw, and what evaluation would leave out were it random."""
    return (image // 4)[:, :16, :16].clone()


def darkened_loader(photos, batch_size=50):
    chain = [T.Resize([20, 20]), darkened, T.RandomHorizontalFlip(0), T.ToDtype(torch.float32, scale=True)]
    return ss.DataLoader(ss.ImageFolder(photos, T.Compose(chain)), batch_size, num_workers=1)


class Mean(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, images):
        return images.mean((1, 2, 3))[:, None] * self.weight


def test_evaluation_does_what_is_in_python(photos):
    loader = darkened_loader(photos)
    images, _ = next(iter(loader))
    trainer = ss.Trainer(loader, Mean(), steps=1, lr=0.0, metrics={"mean": lambda output, _: output[:, 0]},
                         val=loader)
    assert images.shape == (50, 3, 16, 16)
    assert 0 < images.max() < 0.26
    means = images.mean((1, 2, 3))
    assert torch.allclose(torch.cat(list(trainer.predict(loader)))[:, 0], means)
    assert trainer.fit().scores["mean"] == pytest.approx(means.mean().item())
    assert trainer.evaluate()["mean"] == pytest.approx(means.mean().item())
