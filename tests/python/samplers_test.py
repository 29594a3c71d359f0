"""Samplers, batch samplers and the seed of slipstream.DataLoader, compared with torch.utils.data.DataLoader."""

import copy
import io
import random

import pytest
from tensors import same
import torch
from torch.utils.data import (BatchSampler, DataLoader, DistributedSampler, RandomSampler, SequentialSampler,
                              SubsetRandomSampler, WeightedRandomSampler)

import slipstream as ss

T = ss.transforms
SAMPLES = 50


class Numbers:
    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return index, torch.rand(())


def photos_with_indices(photos):
    """Returns a native data set whose labels are the indices of its samples."""
    return ss.ImageFolder(photos, T.CenterCrop(8))


def order(loader):
    """Returns the batches of an epoch as lists of sample numbers."""
    return [batch[0].tolist() for batch in loader]


def made(kind, seed=3):
    generator = torch.Generator().manual_seed(seed)
    return {
        "random": lambda: RandomSampler(range(SAMPLES), generator=generator),
        "replacement": lambda: RandomSampler(range(SAMPLES), True, 33, generator),
        "weighted": lambda: WeightedRandomSampler(torch.arange(1.0, SAMPLES + 1), 40, generator=generator),
        "subset": lambda: SubsetRandomSampler(range(0, SAMPLES, 3), generator),
        "distributed": lambda: DistributedSampler(range(SAMPLES), 3, 1, shuffle=True, seed=4),
        "sequential": lambda: SequentialSampler(range(SAMPLES)),
        "list": lambda: [4, 9, 4, 0, 49],
        "numpy": lambda: list(torch.tensor([7, 3, 3]).numpy()),
    }[kind]()


KINDS = ["random", "replacement", "weighted", "subset", "distributed", "sequential", "list", "numpy"]


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("workers", [0, 2])
def test_order_of_each_sampler_equals_pytorchs_over_two_epochs(kind, drop_last, workers):
    ours = ss.DataLoader(Numbers(), 8, sampler=made(kind), drop_last=drop_last, num_workers=workers)
    theirs = DataLoader(Numbers(), 8, sampler=made(kind), drop_last=drop_last)
    assert len(ours) == len(theirs)
    for _ in range(2):
        assert order(ours) == order(theirs)


@pytest.mark.parametrize("workers", [0, 2])
def test_batch_sampler_with_batches_of_several_sizes(workers):
    batches = [[3], [1, 2, 4], [9, 9], list(range(17)), [5], list(range(40, 50))]
    loader = ss.DataLoader(Numbers(), batch_sampler=batches, num_workers=workers)
    assert len(loader) == 6 and loader.batch_size is None and loader.batch_sampler is batches
    for _ in range(3):
        assert order(loader) == batches


def test_native_images_of_a_batch_sampler_equal_those_of_the_data_set(photos):
    data = ss.ImageFolder(photos, T.CenterCrop(16))
    batches = [[0], [49, 3, 7], [7, 7, 7, 7, 7, 1], [2]]
    for batch, (images, labels) in zip(batches, ss.DataLoader(data, batch_sampler=batches, num_workers=2), strict=True):
        assert same(list(images), [data[i][0] for i in batch])
        assert labels.tolist() == [data[i][1] for i in batch]


def test_repeated_sample_gets_other_random_numbers_in_the_same_epoch(photos):
    data = ss.ImageFolder(photos, T.RandomResizedCrop(16))
    images, _ = next(iter(ss.DataLoader(data, 4, sampler=[5, 5, 5, 5], seed=1)))
    assert len({image.numpy().tobytes() for image in images}) == 4
    again, _ = next(iter(ss.DataLoader(data, 4, sampler=[5, 5, 5, 5], seed=1)))
    assert torch.equal(images, again)


def test_infinite_sampler_is_read_only_as_far_as_needed():
    taken = []

    class Endless:
        def __iter__(self):
            while True:
                taken.append(len(taken) % SAMPLES)
                yield taken[-1]

    for workers in (0, 2):
        taken.clear()
        loader = ss.DataLoader(Numbers(), 4, sampler=Endless(), num_workers=workers)
        with pytest.raises(TypeError):
            len(loader)
        batches = iter(loader)
        assert [next(batches)[0].tolist() for _ in range(30)][-1] == [(116 + i) % SAMPLES for i in range(4)]
        assert len(taken) < 300


@pytest.mark.parametrize("workers", [0, 2])
def test_error_of_a_sampler_is_raised_after_the_batches_before_it(workers):
    class Fails:
        def __iter__(self):
            yield from range(12)
            raise LookupError("no more weights")

    batches = iter(ss.DataLoader(Numbers(), 4, sampler=Fails(), num_workers=workers))
    seen = []
    with pytest.raises(LookupError, match="no more weights"):
        for batch in batches:
            seen.append(batch[0].tolist())
    assert seen[: 2 if workers == 0 else 3] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]][: 2 if workers == 0 else 3]


@pytest.mark.parametrize("index", [50, -1, "a", 1.5])
def test_index_that_the_data_set_does_not_have_is_an_error(photos, index):
    loader = ss.DataLoader(photos_with_indices(photos), 1, sampler=[0, index])
    with pytest.raises(ss.Error, match="the sampler gives"):
        list(loader)


def test_batch_without_samples_is_an_error(photos):
    with pytest.raises(ss.Refused, match="a batch without samples"):
        list(ss.DataLoader(photos_with_indices(photos), batch_sampler=[[1], []]))


def test_sampler_on_several_ranks_loads_what_the_sampler_lists():
    loader = ss.DataLoader(Numbers(), 10, sampler=made("distributed"))
    assert sum(order(loader), []) == list(made("distributed"))


def test_set_epoch_reaches_the_sampler_once():
    class Recorded(DistributedSampler):
        def set_epoch(self, epoch):
            epochs.append(epoch)
            super().set_epoch(epoch)

    epochs = []
    loader = ss.DataLoader(Numbers(), 10, sampler=Recorded(range(SAMPLES), 1, 0))
    first = order(loader)
    loader.set_epoch(7)
    assert epochs == [7] and loader.epoch == 7 and order(loader) != first


def test_batch_of_bad_samples_and_samplers_leave_bad_samples_out(photos, tmp_path):
    import shutil

    shutil.copytree(photos, tmp_path / "photos")
    data = ss.ImageFolder(tmp_path / "photos", T.CenterCrop(8))
    open(data.name(3), "wb").write(b"no image")
    loader = ss.DataLoader(data, sampler=[1, 3, 4, 3], batch_size=2, on_bad_sample="skip")
    with pytest.warns(UserWarning, match="skipped 1 bad of 50 samples"):
        sizes = [len(labels) for _, labels in loader]
    assert sizes == [1, 1] and list(loader.skipped) == [data.name(3)]


# --- resuming ------------------------------------------------------------------------------------


class Stateful(RandomSampler):
    """A sampler with a state, as torchdata has them."""

    def __init__(self):
        super().__init__(range(SAMPLES))
        self.position = 0
        self.order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(8)).tolist()

    def __iter__(self):
        while self.position < SAMPLES:
            self.position += 1
            yield self.order[self.position - 1]
        self.position = 0

    def state_dict(self):
        return {"position": self.position}

    def load_state_dict(self, state):
        self.position = state["position"]


class Shuffled:
    """A sampler whose order comes from its own generator of Python."""

    def __init__(self):
        self.generator = random.Random(6)

    def __iter__(self):
        values = list(range(SAMPLES))
        self.generator.shuffle(values)
        return iter(values)


def resumable(kind):
    return {"stateful": Stateful, "shuffled": Shuffled}[kind]() if kind in ("stateful", "shuffled") else made(kind)


@pytest.mark.parametrize("kind", ["random", "weighted", "subset", "distributed", "list", "stateful", "shuffled"])
@pytest.mark.parametrize("given", [0, 1, 2, 3])
def test_resumed_loader_gives_the_rest_of_the_epoch_and_the_next_one(kind, given):
    loader = ss.DataLoader(Numbers(), 2 if kind == "list" else 8, sampler=resumable(kind), num_workers=1, seed=5)
    whole = [list(loader), list(loader)]
    loader = ss.DataLoader(Numbers(), loader.batch_size, sampler=resumable(kind), num_workers=1, seed=5)
    for number, _ in enumerate(loader, 1) if given else ():
        if number == given:
            break
    saved = io.BytesIO()
    torch.save(loader.state_dict(), saved)
    saved.seek(0)
    resumed = ss.DataLoader(Numbers(), loader.batch_size, sampler=resumable(kind), num_workers=1, seed=5)
    resumed.load_state_dict(torch.load(saved, weights_only=True))
    for rest in [whole[0][given:], whole[1]]:
        if rest:  # a state that was saved during the last batch continues with the next epoch
            assert same(list(resumed), rest)


def test_default_generator_is_repeated_for_a_resume_and_stays_as_it_was():
    loader = ss.DataLoader(Numbers(), 8, sampler=RandomSampler(range(SAMPLES)), num_workers=0, seed=1)
    torch.manual_seed(11)
    rest = []
    for number, batch in enumerate(loader):
        if number == 2:
            state = copy.deepcopy(loader.state_dict())
        elif number > 2:
            rest.append(batch[0].tolist())
    torch.manual_seed(99)
    resumed = ss.DataLoader(Numbers(), 8, sampler=RandomSampler(range(SAMPLES)), num_workers=0, seed=1)
    resumed.load_state_dict(state)
    before = torch.get_rng_state()
    assert order(resumed) == rest
    assert torch.equal(torch.get_rng_state(), before)


def test_sampler_that_cannot_be_repeated_is_refused_at_the_resume():
    class Unrepeatable:
        calls = 0

        def __iter__(self):
            Unrepeatable.calls += 1
            return iter([Unrepeatable.calls, *range(40)])

    loader = ss.DataLoader(Numbers(), 8, sampler=Unrepeatable(), seed=1)
    for number, _ in enumerate(loader):
        if number == 1:
            break
    state = loader.state_dict()
    resumed = ss.DataLoader(Numbers(), 8, sampler=Unrepeatable(), seed=1)
    resumed.load_state_dict(state)
    with pytest.raises(ss.Refused, match="give the sampler state_dict"):
        list(resumed)


@pytest.mark.parametrize("state", [{}, {"position": 3, "batches_per_epoch": 5}, None,
                                   {"seed": 1, "epoch": 0, "batch": 1, "sampler": {}}])
def test_other_states_are_refused(state):
    with pytest.raises(ss.Refused, match="state"):
        ss.DataLoader(Numbers(), 8, sampler=made("random"), seed=1).load_state_dict(state)


# --- the seed ------------------------------------------------------------------------------------


def shuffled(**options):
    return ss.DataLoader(Numbers(), 10, shuffle=True, **options)


def test_manual_seed_selects_the_order():
    loaders = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        loaders.append(order(shuffled()))
    assert loaders[0] == loaders[1] != loaders[2]


def test_seed_is_sampled_when_the_first_iteration_begins():
    early = shuffled()
    torch.manual_seed(1)
    late = shuffled()
    torch.manual_seed(1)
    first = order(early)
    torch.manual_seed(1)
    assert order(late) == first


def test_given_seed_leaves_pytorchs_generator_alone():
    before = torch.get_rng_state()
    loader = shuffled(seed=4)
    first = order(loader)
    assert torch.equal(torch.get_rng_state(), before)
    assert order(shuffled(seed=4)) == first != order(loader)


def test_generator_is_the_source_of_the_seed():
    before = torch.get_rng_state()
    one, two, three = (order(shuffled(generator=torch.Generator().manual_seed(n))) for n in (1, 1, 2))
    assert one == two != three
    assert torch.equal(torch.get_rng_state(), before)


def test_state_contains_the_seed():
    torch.manual_seed(1)
    loader = shuffled()
    batches = iter(loader)
    next(batches), next(batches)
    state = loader.state_dict()
    rest = [batch[0].tolist() for batch in batches]
    torch.manual_seed(2)
    resumed = shuffled()
    resumed.load_state_dict(state)
    assert order(resumed) == rest
    assert order(resumed) == order(loader)


def test_seed_of_another_state_is_refused_if_a_seed_was_given():
    with pytest.raises(ss.Refused, match="seed"):
        shuffled(seed=3).load_state_dict(shuffled(seed=4).state_dict())


def test_ranks_without_a_common_seed_are_refused():
    loader = shuffled(rank=0, world_size=2)
    with pytest.raises(ss.Refused, match="give all of them the same seed"):
        next(iter(loader))
    assert len(order(shuffled(rank=0, world_size=2, seed=1))) == 3


def test_batch_sampler_of_pytorch_keeps_its_attributes():
    sampler = BatchSampler(SequentialSampler(range(SAMPLES)), 7, True)
    loader = ss.DataLoader(Numbers(), batch_sampler=sampler)
    assert loader.sampler is sampler.sampler and len(loader) == 7
    assert [len(batch) for batch in order(loader)] == [7] * 7
