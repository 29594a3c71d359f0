"""Data, a model and a plain training loop, with which tests of frameworks compare the frameworks' loops.

The same tests run in one process, and in several that share each batch. An epoch has 7 batches, of which the last is
incomplete. Gradients of 3 batches are accumulated, so that an epoch has 3 updates, the last after one batch. Scores
are computed in mid-epoch, after batch CHECKED."""

import contextlib
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler

import slipstream as ss

WORLD, RANK = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
SAMPLES, BATCHES, EPOCHS = 50, 7, 3
BATCH = 8 // WORLD
ACCUMULATED, UPDATES = 3, 3
CHECKED = 3
VALIDATED = 21  # samples for validation: batches of 8, 8 and 5
RESUMED_UPDATES = 5  # a resumed run starts after this update, which is after batch 6 of the second epoch
T = ss.transforms
torch.set_num_threads(1)


def samples(count=SAMPLES, seed=1):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(3, (count,), generator=generator)
    return torch.utils.data.TensorDataset(torch.randn(count, 3, 8, 8, generator=generator), labels)


def validation_samples():
    return samples(VALIDATED, seed=2)


def torch_loader(workers=0, is_shared=False):
    """The sampler uses a generator of its own, which also depends on whether earlier epochs were read to the end.

    is_shared: whether the sampler gives each process its share."""
    data = samples()
    if is_shared and WORLD > 1:
        return DataLoader(data, BATCH, sampler=DistributedSampler(data, seed=3), num_workers=workers)
    return DataLoader(data, BATCH, shuffle=True, num_workers=workers, generator=torch.Generator().manual_seed(3))


def torch_validation(is_shared=False):
    data = validation_samples()
    sampler = DistributedSampler(data, shuffle=False) if is_shared and WORLD > 1 else None
    return DataLoader(data, BATCH, sampler=sampler)


def native_loader(photos):
    """Reads and transforms images without Python."""
    steps = T.Compose([T.RandomResizedCrop(8), T.RandomHorizontalFlip(), T.ToDtype(torch.float32, scale=True)])
    return ss.DataLoader(ss.ImageFolder(photos, steps), BATCH, shuffle=True, num_workers=1, seed=4)


class Noisy(torch.utils.data.Dataset):
    """A data set in Python that uses random numbers."""

    def __init__(self):
        self.samples = samples()

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        image, label = self.samples[index]
        return image + torch.rand(image.shape), label


def python_loader(photos, workers=0):
    return ss.DataLoader(Noisy(), BATCH, shuffle=True, num_workers=workers, seed=4)


def worker_loader(photos):
    return python_loader(photos, workers=1)


LOADERS = [native_loader, python_loader, worker_loader]


def ss_validation():
    return ss.DataLoader(validation_samples(), BATCH)


def normalize(images):
    return (images - 0.4) / 0.3


def pipeline(loader):
    return ss.Pipeline(loader, [("normalize", normalize)], "cpu")


def make_model(dropout=0.0):
    torch.manual_seed(5)
    return nn.Sequential(nn.Flatten(), nn.Dropout(dropout), nn.Linear(192, 16), nn.Tanh(), nn.Linear(16, 3))


def make_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def compute_loss(model, images, labels):
    return nn.functional.cross_entropy(model(images), labels)


def is_update(number):
    """Returns whether the weights change after this batch of an epoch."""
    return (number + 1) % ACCUMULATED == 0 or number + 1 == BATCHES


def divide_by_all(number):
    return ACCUMULATED


def divide_by_batches_of_update(number):
    """The last update of an epoch has fewer batches."""
    return ACCUMULATED if number < BATCHES - BATCHES % ACCUMULATED else BATCHES % ACCUMULATED


def accumulating(model, number):
    """Returns a context in which the processes exchange gradients only for an update."""
    if hasattr(model, "no_sync") and not is_update(number):
        return model.no_sync()
    if hasattr(model, "set_requires_gradient_sync"):
        model.set_requires_gradient_sync(is_update(number))
    return contextlib.nullcontext()


def wrapped(model):
    """Wraps a model as frameworks do if there are several processes."""
    return model if WORLD == 1 else nn.parallel.DistributedDataParallel(model)


def gathered(scores, count):
    """Returns the first `count` scores of all processes."""
    if WORLD == 1:
        return scores
    parts = [torch.empty_like(scores) for _ in range(WORLD)]
    dist.all_gather(parts, scores)
    return torch.cat(parts)[:count]


def score(model, validation, transform, gathers):
    with torch.no_grad():
        scores = [model(transform(each)) for each, _ in validation]
    left = range(VALIDATED, 0, -BATCH * WORLD)
    return [gathered(each, count) for each, count in zip(scores, left, strict=True)] if gathers else scores


def select_epoch(loop, epoch):
    for each in (loop, getattr(loop, "sampler", None)):
        if hasattr(each, "set_epoch"):
            return each.set_epoch(epoch)


def train_serially(loop, validation, divisor=divide_by_all, gathers=True, wrap=wrapped, transform=normalize):
    """Trains on the batches of a loop without a framework. Returns the losses, the scores and the weights.

    gathers: whether the scores of all processes are returned."""
    model = wrap(make_model())
    optimizer = make_optimizer(model)
    losses, scores = [], []
    for epoch in range(EPOCHS):
        select_epoch(loop, epoch)
        for number, (images, labels) in enumerate(loop):
            with accumulating(model, number):
                loss = compute_loss(model, transform(images), labels)
                (loss / divisor(number)).backward()
            losses.append(loss.item())
            if is_update(number):
                optimizer.step()
                optimizer.zero_grad()
            if number + 1 == CHECKED:
                scores += score(model, validation, transform, gathers)
    return losses, scores, copied_weights(model)


def copied_weights(model):
    full = [getattr(each, "full_tensor", each.detach)() for each in model.parameters()]
    return [each.detach().clone() for each in full]


def assert_same_run(ours, theirs):
    """Compares the bits of losses, scores and weights."""
    assert len(ours[0]) > 0 and ours[0] == theirs[0]
    for ours_part, theirs_part in zip(ours[1:], theirs[1:], strict=True):
        assert len(ours_part) == len(theirs_part) > 0 and all(map(torch.equal, ours_part, theirs_part))
