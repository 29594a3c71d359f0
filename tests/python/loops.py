"""Loops and data that several tests of pipelines use."""

import pytest
import torch
from torch import nn

BATCHES = 9


def batches(count=BATCHES, pinned=False):
    generator = torch.Generator().manual_seed(1)
    made = [(torch.randn(8, 3, 8, 8, generator=generator),
             torch.randint(5, (8,), generator=generator), f"batch {i}") for i in range(count)]
    return [(x.pin_memory(), y.pin_memory(), name) for x, y, name in made] if pinned else made


def encoder(device):
    torch.manual_seed(2)
    return nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3)).eval().requires_grad_(False).to(device)


def delay(device, milliseconds=3):
    if device == "cuda":
        torch.cuda._sleep(int(milliseconds * 2e6))


def trained(loop, device):
    """Trains a decoder on the batches of `loop`; returns the losses and the weights."""
    torch.manual_seed(3)
    decoder = nn.Sequential(nn.Flatten(), nn.Linear(16 * 4 * 4, 5)).to(device)
    optimizer = torch.optim.SGD(decoder.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for features, labels, _ in loop:
        loss = nn.functional.cross_entropy(decoder(features), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())
    return [torch.stack(losses), *(each.detach() for each in decoder.parameters())]


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        return torch.full((3,), float(index)), index


def leave_at(pipe, ends_at):
    """Leaves an iteration in the loop body of a batch, by a break and by an error."""
    for i, _ in enumerate(pipe):
        if i == ends_at:
            break
    with pytest.raises(KeyError):
        for i, _ in enumerate(pipe):
            if i == ends_at:
                raise KeyError(i)


def collect_results(loop):
    """Returns the result or the error of each next(), until the end."""
    results, loop = [], iter(loop)
    while True:
        try:
            results.append(int(next(loop)[0]))
        except StopIteration:
            return results
        except Exception as error:
            results.append(type(error).__name__ + " " + str(error).split("\n")[0])
