"""Chains of slipstream.transforms as stages of a slipstream.Pipeline, which counts the samples."""

import pytest
import torch

import slipstream as ss

T = ss.transforms
AUGMENT = T.Compose([T.RandomResizedCrop(16), T.RandomHorizontalFlip(), T.ColorJitter(0.4)])


def make_loader(photos, device, batch_size=8, **kwargs):
    data = ss.ImageFolder(photos, T.Resize((32, 32)))
    return ss.DataLoader(data, batch_size, shuffle=True, seed=1, num_workers=1, device=device, **kwargs)


def read_images(loop):
    return [images.cpu().clone() for images, _ in loop]


def assert_equal(ours, expected):
    assert all(map(torch.equal, ours, expected)) and len(ours) == len(expected)


@pytest.mark.parametrize("plan", ["pipelined", "serial", "auto"])
def test_random_chain_needs_no_sample_ids(photos, device, plan):
    pipe = ss.Pipeline(make_loader(photos, device), [("augment", AUGMENT)], plan=plan)
    first, second = read_images(pipe), read_images(pipe)
    assert [each.shape for each in first] == [(8, 3, 16, 16)] * 6 + [(2, 3, 16, 16)]
    pipe.set_epoch(0)
    assert_equal(read_images(pipe), first)
    assert not any(map(torch.equal, first, second))


def test_samples_of_all_batches_get_different_numbers(device):
    image = torch.rand(1, 3, 24, 24).expand(6, 3, 24, 24).contiguous()
    pipe = ss.Pipeline([(image,), (image,)], [("augment", AUGMENT)], device)
    made = torch.cat([images.cpu() for images, in pipe])
    assert len(made.flatten(1).unique(dim=0)) == 12


def test_numbers_are_those_of_batch_and_position(device):
    batches = [(torch.rand(size, 3, 24, 24),) for size in (4, 2, 3)]
    stage = ss.Stage("augment", AUGMENT, seed=7)
    pipe = ss.Pipeline(batches, [stage], device)
    for index, (images,) in enumerate(pipe):
        ids = range(index << 24, (index << 24) + len(images))
        alone = AUGMENT(batches[index][0], sample_ids=ids, epoch=0, seed=stage._separate_seed(7))
        assert torch.equal(images.cpu(), alone)


def test_a_batch_that_fails_in_the_loader_does_not_shift_the_numbers(device):
    class Failing:
        def __init__(self, fails):
            self.fails = fails

        def __iter__(self):
            self.number = -1
            return self

        def __next__(self):
            self.number += 1
            if self.number == 4:
                raise StopIteration
            if self.number == 1 and self.fails:
                raise ValueError("no batch")
            return (torch.arange(3 * 24 * 24).view(1, 3, 24, 24).remainder(256).byte(),)

    def made(fails):
        batches, all_of_them = iter(ss.Pipeline(Failing(fails), [("augment", AUGMENT)], device)), []
        while True:
            try:
                all_of_them.append(next(batches)[0].cpu())
            except ValueError:
                all_of_them.append(None)
            except StopIteration:
                return all_of_them

    whole, partial = made(False), made(True)
    assert partial[1] is None
    assert_equal([partial[0], *partial[2:]], [whole[0], *whole[2:]])


def test_seed_and_name_select_the_random_numbers(photos, device):
    def made(*stages):
        return read_images(ss.Pipeline(make_loader(photos, device), stages))

    none, zero = made(("augment", AUGMENT)), made(ss.Stage("augment", AUGMENT, seed=0))
    assert_equal(none, zero)
    for other in (ss.Stage("augment", AUGMENT, seed=1), ("other", AUGMENT)):
        assert not any(map(torch.equal, made(other), none))


def test_chain_does_not_use_the_generators_of_pytorch(photos, device):
    loader = make_loader(photos, device)
    torch.manual_seed(5)
    expected = [torch.rand(1, device=device) for _ in loader]
    torch.manual_seed(5)
    pipe = ss.Pipeline(make_loader(photos, device), [ss.Stage("augment", AUGMENT, seed=1)])
    assert_equal([torch.rand(1, device=device) for _ in pipe], expected)


def test_pipeline_resumes_with_the_same_random_numbers(photos, device):
    def make():
        return ss.Pipeline(make_loader(photos, device), [("augment", AUGMENT)])

    whole = read_images(make())
    pipe = make()
    for number, _ in enumerate(pipe):
        if number == 2:
            state = pipe.state_dict()
            break
    resumed = make()
    resumed.load_state_dict(state)
    assert_equal(read_images(resumed), whole[3:])


def test_trainer_gives_the_stage_the_same_numbers(photos, device):
    """A model that trains on the sum of its images has other weights for other images."""
    augment = T.Compose([T.RandomResizedCrop(16), T.ToDtype(scale=True)])

    def pipe(plan="pipelined"):
        loader = make_loader(photos, device, drop_last=True)
        return ss.Pipeline(loader, [("augment", augment)], plan=plan)

    seen = []

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3 * 16 * 16, 3)

        def forward(self, images):
            seen.append(images.detach().cpu().clone())
            return self.linear(images.flatten(1))

    ss.Trainer(pipe(), Model().to(device), epochs=2, deterministic=True).fit()
    loop = pipe()
    assert_equal(seen, read_images(loop) + read_images(loop))


def test_ranks_get_different_numbers(monkeypatch):
    images = torch.rand(2, 3, 24, 24)
    made = []
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    for rank in range(2):
        monkeypatch.setattr(torch.distributed, "get_rank", lambda rank=rank: rank)
        made += [batch for batch, in ss.Pipeline([(images,), (images,)], [("augment", AUGMENT)], "cpu")]
    assert len(torch.cat(made).flatten(1).unique(dim=0)) == 8


def test_chain_that_cannot_be_a_stage_is_reported(device):
    images = torch.zeros(2, 3, 8, 8)
    two = ss.Stage("augment", AUGMENT, input=[0, 1])
    with pytest.raises(ss.Error, match="stage 'augment' is a transform of images, which takes one input, not 2"):
        list(ss.Pipeline([(images, images)], [two], device))
    with pytest.raises(ss.Refused, match="takes a batch"):
        list(ss.Pipeline([("text", images)], [("augment", AUGMENT)], device))
    with pytest.raises(ss.Refused, match="MixUp also changes the labels of a batch"):
        list(ss.Pipeline([(images,)], [("mix", T.MixUp())], device))
