"""The feature cache with the records of slipstream._native.FeatureStore."""

import multiprocessing
import os

import pytest
import torch
from features import Counted, CountedModule, encoder, pipeline, same, tensors, torch_loader
from feature_folder_test import ON_DISK, plain, trained

import slipstream as ss


@pytest.mark.parametrize("limits", [ON_DISK, {}, {"device_memory": 10 * 264, "pinned_memory": 0}])
@pytest.mark.parametrize("workers", [0, 1])
def test_later_run_gives_the_same_batches_from_disk(device, tmp_path, limits, workers):
    wanted = plain(device, num_workers=workers)
    for number in range(2):
        data = Counted(tensors())
        cache = ss.FeatureCache(tmp_path / "new" / "folder", key="x", **limits)
        made, sizes, _ = trained(tmp_path, device, cache=cache, data=data, num_workers=workers)
        assert same(made, wanted)
        most = 8 if number == 0 else max(1, 2 * workers + 1)
        assert len(sizes) <= most + 1 and int(data.reads.sum()) <= 5 * most
        assert cache.report()["disk"]["records"] == 37


def flip_a_bit(folder):
    """Changes a bit in the middle of the largest file."""
    path = max((os.path.join(root, name) for root, _, names in os.walk(folder) for name in names), key=os.path.getsize)
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 4]))


def test_flipped_bit_is_found_and_the_sample_computed_again(device, tmp_path):
    trained(tmp_path, device)
    flip_a_bit(tmp_path)
    made, sizes, cache = trained(tmp_path, device)
    assert same(made, plain(device))
    assert cache.report()["disk"]["damaged"] == 1 and len(sizes) <= 3


def test_full_disk_ends_filling_but_not_training(device, tmp_path, full_disk):
    with full_disk():
        made, _, cache = trained(tmp_path, device)
    assert same(made, plain(device))
    assert cache.report()["disk"]["filling_ended"]


def test_budget_ends_filling_but_not_training(device, tmp_path):
    cache = ss.FeatureCache(tmp_path, key="x", budget="12 K", **ON_DISK)
    made, _, cache = trained(tmp_path, device, cache=cache)
    assert same(made, plain(device))
    disk = cache.report()["disk"]
    assert 0 < disk["records"] < 37 and "budget" in disk["filling_ended"]


def fill(folder, rank):
    sampler = torch.utils.data.DistributedSampler(tensors(), num_replicas=2, rank=rank)
    trained(folder, "cpu", 1, shuffle=False, sampler=sampler)


def test_processes_fill_one_folder_together(device, tmp_path):
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=fill, args=(tmp_path, rank)) for rank in range(2)]
    for each in processes:
        each.start()
    for each in processes:
        each.join()
    assert [each.exitcode for each in processes] == [0, 0]
    if device == "cuda":
        return  # features that a CPU computed have another key
    made, sizes, cache = trained(tmp_path, device)
    assert same(made, plain(device))
    assert len(sizes) == 2 and cache.report()["disk"]["records"] == 37


def test_process_uses_the_features_that_another_one_wrote_during_its_epoch(device, tmp_path):
    def begin():
        cache, encode = ss.FeatureCache(tmp_path, **ON_DISK), CountedModule(encoder(device)).eval()
        return cache, encode, pipeline(torch_loader(tensors(), drop_last=False), encode, cache, device)

    (first, one, ours), (second, other, theirs) = begin(), begin()
    next(iter(theirs))
    second.flush()
    list(ours)
    first.flush()
    other.sizes.clear()
    list(theirs)
    assert other.sizes == [] and len(one.sizes) == 9
