"""Data, encoders and loops that the tests of the feature cache use."""

import torch
from torch import nn

import slipstream as ss

SAMPLES = 37


def encoder(device):
    """Returns an encoder whose results are exact, because weights and inputs are small whole numbers. A kernel may sum
    in another order at another position in the batch, so other weights would give other bits there."""
    generator = torch.Generator().manual_seed(2)
    made = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3))
    for parameter in made.parameters():
        parameter.data = torch.randint(-3, 4, parameter.shape, generator=generator).float()
    return made.eval().requires_grad_(False).to(device)


def tensors(samples=SAMPLES):
    generator = torch.Generator().manual_seed(1)
    images = torch.randint(0, 9, (samples, 3, 8, 8), generator=generator).float()
    return torch.utils.data.TensorDataset(images, torch.arange(samples))


class Counted(torch.utils.data.Dataset):
    """Counts how often each sample is read, also in worker processes."""

    def __init__(self, dataset):
        self.dataset, self.reads = dataset, torch.zeros(len(dataset), dtype=torch.long).share_memory_()

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, index):
        self.reads[index] += 1
        return self.dataset[index]


class CountedModule(nn.Module):
    """Counts the calls of a module and remembers their batch sizes."""

    def __init__(self, module):
        super().__init__()
        self.module, self.sizes = module, []

    def forward(self, x):
        self.sizes.append(len(x))
        return self.module(x)


def torch_loader(data, **options):
    given = {"batch_size": 5, "shuffle": True, "drop_last": True} | options
    return torch.utils.data.DataLoader(data, **given)


def epochs(pipe, count=4, seed=5):
    """Returns copies of the batches of several epochs, with a random number that the loop body samples for each."""
    torch.manual_seed(seed)
    found = []
    for _ in range(count):
        found.append([[*(copied(each) for each in batch), torch.rand(1)] for batch in pipe])
    return found


def copied(value):
    return value.cpu().clone() if isinstance(value, torch.Tensor) else value


def same(ours, theirs):
    """Returns whether two results of epochs() have the same bits."""
    if isinstance(ours, torch.Tensor):
        return ours.dtype == theirs.dtype and torch.equal(ours, theirs)
    if isinstance(ours, list | tuple) and isinstance(theirs, list | tuple):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return ours == theirs


def pipeline(loader, encode, cache, device, **options):
    return ss.Pipeline(loader, [ss.Stage("encode", encode, cache=cache)], device, **options)
