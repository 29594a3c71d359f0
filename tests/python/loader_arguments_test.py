"""Arguments and attributes of slipstream.DataLoader that torch.utils.data.DataLoader has."""

import inspect
import os
import pickle
import sqlite3
import threading
import time

import pytest
from tensors import same
import torch
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, SequentialSampler, default_collate, get_worker_info

import slipstream as ss

T = ss.transforms


class Pairs:
    def __len__(self):
        return 20

    def __getitem__(self, index):
        return torch.full((3,), float(index)), index, f"sample {index}"


class Random(Pairs):
    def __getitem__(self, index):
        return torch.rand(2), index


def collate(samples):
    return {"x": torch.stack([sample[0] for sample in samples]), "n": len(samples), "pid": os.getpid()}


def test_signature_starts_like_pytorchs():
    ours = list(inspect.signature(ss.DataLoader).parameters)
    theirs = list(inspect.signature(DataLoader).parameters)
    assert ours[: len(theirs)] == theirs


def test_every_argument_of_pytorch_may_be_given_with_its_default():
    defaults = {name: each.default for name, each in inspect.signature(DataLoader).parameters.items()
                if name != "dataset"}
    assert same(list(ss.DataLoader(Pairs(), **defaults)), list(DataLoader(Pairs(), **defaults)))


@pytest.mark.parametrize("options", [
    {"pin_memory": True}, {"pin_memory": True, "pin_memory_device": "cuda"}, {"persistent_workers": True},
    {"in_order": True}, {"in_order": False}, {"timeout": 30}, {"prefetch_factor": None}, {"num_workers": 0},
    {"shuffle": None}, {"shuffle": False}, {"generator": torch.Generator()}, {"batch_size": 64}, {"drop_last": True},
    {"collate_fn": default_collate}, {"multiprocessing_context": "fork"}])
def test_accepted_arguments_give_pytorchs_batches(options):
    loader = ss.DataLoader(Pairs(), **{"batch_size": 8, "num_workers": 1} | options)
    size, drops = options.get("batch_size", 8), options.get("drop_last", False)
    assert same(list(loader), list(DataLoader(Pairs(), size, drop_last=drops)))


@pytest.mark.parametrize("options, problem", [
    ({"batch_sampler": [[1]], "batch_size": 2}, "batch_sampler excludes"),
    ({"batch_sampler": [[1]], "shuffle": True}, "batch_sampler excludes"),
    ({"sampler": [1], "shuffle": True}, "sampler excludes shuffle"),
    ({"batch_size": None, "drop_last": True}, "batch_size=None"),
    ({"batch_size": 0}, "batch_size is 0"),
    ({"num_workers": -1}, "num_workers is -1"),
    ({"timeout": -1}, "timeout is -1"),
    ({"prefetch_factor": 0}, "prefetch_factor is 0"),
    ({"collate_fn": 3}, "collate_fn is 3"),
    ({"worker_init_fn": 3}, "worker_init_fn is 3"),
    ({"generator": 3}, "generator is 3"),
    ({"sampler": 3}, "sampler is 3"),
    ({"seed": 1, "generator": torch.Generator()}, "seed and generator"),
    ({"sampler": [1], "rank": 0, "world_size": 2}, "leave rank and world_size out"),
    ({"collate_fn": collate, "on_bad_sample": "skip"}, "leave on_bad_sample out"),
    ({"multiprocessing_context": "thread"}, "multiprocessing_context")])
def test_contradictions_are_value_errors_with_a_remedy(options, problem):
    with pytest.raises(ValueError, match=problem):
        ss.DataLoader(Pairs(), **options)


def test_unknown_argument_is_a_type_error():
    with pytest.raises(TypeError, match="bacth_size"):
        ss.DataLoader(Pairs(), bacth_size=3)


def test_attributes_are_those_of_pytorchs_loader():
    data, sampler = Pairs(), [1, 2]
    loader = ss.DataLoader(data, 4, num_workers=1, drop_last=True, collate_fn=collate, timeout=5)
    assert loader.dataset is data and loader.batch_size == 4 and loader.num_workers == 1
    assert loader.drop_last is True and loader.collate_fn is collate and loader.timeout == 5
    assert isinstance(loader.sampler, SequentialSampler) and loader.batch_sampler.batch_size == 4
    assert isinstance(ss.DataLoader(data, shuffle=True).sampler, RandomSampler)
    assert ss.DataLoader(data, sampler=sampler).sampler is sampler
    pipe = ss.Pipeline(loader, device="cpu")
    assert pipe.dataset is data and pipe.batch_size == 4 and pipe.sampler is loader.sampler
    assert ss.Pipeline(DataLoader(data, 3), device="cpu").batch_size == 3
    assert not hasattr(ss.Pipeline([1]), "batch_size")


@pytest.mark.parametrize("name", ["batch_size", "sampler", "batch_sampler", "drop_last", "dataset"])
def test_attributes_of_the_order_cannot_be_changed(name):
    loader = ss.DataLoader(Pairs(), 4)
    with pytest.raises(ValueError, match=f"{name} of a slipstream.DataLoader cannot be changed"):
        setattr(loader, name, 3)


def test_native_batches_are_lists(photos):
    batch = next(iter(ss.DataLoader(ss.ImageFolder(photos, T.CenterCrop(8)), 4)))
    assert type(batch) is list


@pytest.mark.parametrize("workers", [0, 1])
def test_structures_are_those_of_default_collate(workers):
    class Nested(Pairs):
        def __getitem__(self, index):
            return {"a": (index, ["x", (2.5, "y")])}, (index, f"{index}")

    ours = list(ss.DataLoader(Nested(), 6, num_workers=workers))
    theirs = list(DataLoader(Nested(), 6))
    assert same(ours, theirs)
    assert repr(ours) == repr(theirs)


# --- collate_fn and batch_size=None -------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 2])
def test_collate_fn_gets_a_list_of_samples(workers):
    batches = list(ss.DataLoader(Pairs(), 6, num_workers=workers, collate_fn=collate))
    assert [batch["n"] for batch in batches] == [6, 6, 6, 2]
    assert torch.equal(torch.cat([batch["x"] for batch in batches])[:, 0], torch.arange(20.0))
    assert all((batch["pid"] == os.getpid()) == (workers == 0) for batch in batches)


def test_collate_fn_of_native_samples_gets_those_of_the_data_set(photos):
    data = ss.ImageFolder(photos, T.CenterCrop(8))
    batch = next(iter(ss.DataLoader(data, 5, collate_fn=list)))
    assert same(batch, [data[i] for i in range(5)])


@pytest.mark.parametrize("workers", [0, 2])
def test_batch_size_none_gives_single_samples(workers):
    ours = list(ss.DataLoader(Pairs(), None, num_workers=workers))
    assert same(ours, list(DataLoader(Pairs(), None)))


def test_samples_do_not_depend_on_the_number_of_workers_or_on_collate_fn():
    def run(**options):
        loader = ss.DataLoader(Random(), 6, shuffle=True, seed=3, **options)
        return [list(loader), list(loader)]

    first = run(num_workers=1)
    assert same(run(num_workers=0), first)
    assert same(run(num_workers=3), first)
    assert same(run(num_workers=2, collate_fn=lambda samples: default_collate(samples)), first)


@pytest.mark.parametrize("workers", [0, 2])
def test_photos_with_python_functions_are_the_same_for_any_number_of_workers(photos, workers):
    def noise(image):
        return image + torch.randint(0, 3, image.shape, dtype=torch.uint8)

    transform = T.Compose([T.RandomResizedCrop(16), noise, T.RandomHorizontalFlip()])

    def run(count):
        return list(ss.DataLoader(ss.ImageFolder(photos, transform), 8, shuffle=True, seed=2, num_workers=count))

    made, expected = run(workers), run(1)
    assert same(made, expected)
    assert all(images.is_contiguous(memory_format=torch.channels_last) for images, _ in made)


@pytest.mark.parametrize("transform", [None, T.RandomCrop(5)])
def test_data_in_python_has_the_same_bits_and_layout_for_any_number_of_workers(transform):
    from PIL import Image

    class Pictures(Pairs):
        def __getitem__(self, index):
            generator = torch.Generator().manual_seed(index)
            pixels = torch.randint(0, 256, (8, 8, 3), dtype=torch.uint8, generator=generator)
            return {"image": Image.fromarray(pixels.numpy()), "name": str(index), "pair": (index, 2.0)}

    runs = [list(ss.DataLoader(ss.PythonDataset(Pictures(), transform), 6, shuffle=True, seed=1, num_workers=count))
            for count in (0, 1)]
    assert same(runs[0], runs[1])
    assert repr(runs[0]) == repr(runs[1])
    assert [[batch["image"].stride() for batch in run] for run in runs][0] == [
        batch["image"].stride() for batch in runs[1]]


def test_reading_in_the_process_leaves_the_programs_generators_alone():
    import random

    import numpy

    states = torch.get_rng_state(), random.getstate(), numpy.random.get_state()[1].tolist()
    list(ss.DataLoader(Random(), 6, seed=1, num_workers=0))
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1] and numpy.random.get_state()[1].tolist() == states[2]


def test_without_workers_samples_are_read_in_the_thread_of_the_loop():
    class Local(Pairs):
        def __init__(self):
            self.connection = sqlite3.connect(":memory:")  # may be used in one thread only
            self.lock = threading.Lock()  # cannot be pickled

        def __getitem__(self, index):
            assert get_worker_info() is None
            return self.connection.execute("select ?", (index,)).fetchone()[0]

    assert torch.cat(list(ss.DataLoader(Local(), 6))).tolist() == list(range(20))


@pytest.mark.parametrize("collates", [False, True])
def test_exception_of_a_data_set_keeps_its_type_and_the_next_batch_follows(collates):
    class Fails(Pairs):
        def __getitem__(self, index):
            if index == 7:
                raise LookupError(f"nothing at {index}")
            return index

    for workers in (0, 1):
        options = {"collate_fn": default_collate if not collates else lambda samples: torch.tensor(samples)}
        batches = iter(ss.DataLoader(Fails(), 5, num_workers=workers, **options))
        assert next(batches).tolist() == [0, 1, 2, 3, 4]
        with pytest.raises(LookupError, match="nothing at 7"):
            next(batches)
        assert next(batches).tolist() == [10, 11, 12, 13, 14]


def test_timeout_is_an_error_of_the_waiting_loop():
    class Slow(Pairs):
        def __getitem__(self, index):
            if index >= 5:
                time.sleep(60)
            return index

    batches = iter(ss.DataLoader(Slow(), 5, num_workers=1, timeout=0.5))
    assert next(batches).tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(RuntimeError, match="timeout=0.5"):
        next(batches)


# --- iterable-style data sets -------------------------------------------------------------------


class Stream(IterableDataset):
    def __init__(self, length=None):
        self.length = length

    def __iter__(self):
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        yield from ((torch.tensor(i), torch.rand(())) for i in range(first, 22, step))


class Sized(Stream):
    def __len__(self):
        return 22


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("batch_size", [None, 5])
def test_iterable_data_set_gives_pytorchs_batches(workers, batch_size):
    ours = [batch[0].tolist() for batch in ss.DataLoader(Stream(), batch_size, num_workers=workers)]
    theirs = [batch[0].tolist() for batch in DataLoader(Stream(), batch_size, num_workers=workers)]
    assert ours == theirs


def test_iterable_data_set_repeats_its_random_numbers_by_seed_and_epoch():
    def run(seed):
        loader = ss.DataLoader(Stream(), 5, num_workers=2, seed=seed)
        return [torch.cat([batch[1] for batch in loader]) for _ in range(2)]

    first, again, other = run(1), run(1), run(2)
    assert same(first, again)
    assert not torch.equal(first[0], first[1]) and not torch.equal(first[0], other[0])


def test_length_of_an_iterable_data_set_is_that_of_pytorch():
    assert len(ss.DataLoader(Sized(), 5)) == len(DataLoader(Sized(), 5))
    with pytest.raises(TypeError):
        len(ss.DataLoader(Stream(), 5))


def test_loader_over_an_iterable_data_set_has_no_state_and_says_why():
    loader = ss.DataLoader(Stream(), 5)
    assert not hasattr(loader, "state_dict") and not hasattr(loader, "load_state_dict")
    with pytest.raises(AttributeError, match="StatefulDataLoader"):
        loader.state_dict()
    assert hasattr(ss.DataLoader(Pairs()), "state_dict")


@pytest.mark.parametrize("options", [{"shuffle": True}, {"sampler": [1]}, {"batch_sampler": [[1]]}])
def test_order_of_an_iterable_data_set_cannot_be_chosen(options):
    with pytest.raises(ValueError, match="iterable-style"):
        ss.DataLoader(Stream(), **options)


def test_set_epoch_of_an_iterable_data_set_is_called():
    class Epochs(Stream):
        epoch = 0

        def set_epoch(self, epoch):
            self.epoch = epoch

        def __iter__(self):
            yield from range(self.epoch, self.epoch + 3)

    for workers in (0, 1):
        loader = ss.DataLoader(Epochs(), 3, num_workers=workers)
        loader.set_epoch(5)
        assert next(iter(loader)).tolist() == [5, 6, 7]


# --- several iterators ---------------------------------------------------------------------------


def loaders(photos):
    return [ss.DataLoader(ss.ImageFolder(photos, T.RandomCrop(8)), 10, shuffle=True, seed=1, num_workers=2),
            ss.DataLoader(Pairs(), 4, shuffle=True, seed=1, num_workers=1),
            ss.DataLoader(Pairs(), 4, shuffle=True, seed=1, num_workers=0),
            ss.DataLoader(Pairs(), 4, sampler=RandomSampler(range(20), generator=torch.Generator().manual_seed(1)),
                          seed=1, num_workers=1)]


@pytest.mark.parametrize("which", range(4))
def test_two_iterators_at_once_are_two_independent_epochs(photos, which):
    one, two = loaders(photos)[which], loaders(photos)[which]
    epochs = [list(two), list(two)]
    pairs = list(zip(one, one, strict=True))
    assert same([first for first, _ in pairs], epochs[0])
    if which < 3:  # the sampler's generator is shared, and both iterators sample from it when they begin
        assert same([second for _, second in pairs], epochs[1])
    assert one.epoch == 2


def test_iterator_that_is_kept_does_not_disturb_the_next_loop(photos):
    loader = loaders(photos)[0]
    kept = iter(loader)
    first, second = next(kept), next(kept)
    epoch = list(loader)
    assert len(epoch) == 5 and not same(epoch[0], first)
    assert not same(next(kept), second)
    assert len(list(kept)) == 2


def test_look_at_one_batch_does_not_use_up_an_epoch(photos):
    for loader in loaders(photos)[:3]:
        looked = next(iter(loader))
        assert loader.epoch == 0
        assert same(next(iter(loader)), looked)


# --- page-locked memory ---------------------------------------------------------------------------


@pytest.mark.skipif(not torch.cuda.is_available(), reason="page-locked memory needs a GPU")
@pytest.mark.parametrize("which", range(4))
def test_pinned_batches_are_page_locked(photos, which):
    data = [ss.ImageFolder(photos, T.CenterCrop(8)), Pairs(), Pairs(), Pairs()][which]
    options = [{"num_workers": 1}, {"num_workers": 1}, {"num_workers": 0}, {"collate_fn": default_collate}][which]
    kept = list(ss.DataLoader(data, 4, pin_memory=True, **options))
    assert all(each.is_pinned() for batch in kept for each in batch if isinstance(each, torch.Tensor))
    assert same(kept, list(ss.DataLoader(data, 4, **options)))


def test_loader_cannot_be_pickled():
    with pytest.raises(TypeError, match="pickle its data set"):
        pickle.dumps(ss.DataLoader(Pairs()))
