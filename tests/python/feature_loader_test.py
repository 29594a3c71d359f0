"""The feature cache with a slipstream.DataLoader: order, resume, versions of random transforms, and edited files."""

import os
import shutil

import pytest
import torch
import torchvision
from features import CountedModule, epochs, same
from torch import nn
from torchvision.transforms import v2

import slipstream as ss
from slipstream._feature_entries import Entries
from slipstream._feature_key import identify

T = ss.transforms
FLOATS = T.ToDtype(torch.float32, scale=False)


def pooled(device):
    """Returns a frozen stage whose results are exact, because it adds whole numbers."""
    return CountedModule(nn.Sequential(nn.AvgPool2d(4, divisor_override=1))).eval().to(device)


def make(photos, device, cache, transform=None, plan="pipelined", **options):
    chain = T.Compose([T.CenterCrop(32) if transform is None else transform, FLOATS])
    given = {"batch_size": 8, "shuffle": True, "seed": 3, "num_workers": 1, "device": device} | options
    if given.get("transforms_device") == "cuda":
        given["transforms_device"] = torch.device(device).type
    loader = ss.DataLoader(ss.ImageFolder(photos, chain), **given)
    encode = pooled(device)
    return ss.Pipeline(loader, [ss.Stage("encode", encode, cache=cache)], plan=plan), encode


@pytest.mark.parametrize("plan", ["pipelined", "serial"])
@pytest.mark.parametrize("options", [{}, {"drop_last": True}, {"transforms_device": "cuda"},
                                     {"num_workers": 0}, {"sampler": range(49, -1, -1)}])
def test_batches_have_the_bits_of_a_pipeline_without_cache(photos, device, plan, options):
    if "sampler" in options:
        options = options | {"shuffle": None}
    ours, encode = make(photos, device, "auto", plan=plan, **options)
    theirs, _ = make(photos, device, None, **options)
    assert same(epochs(ours, 3), epochs(theirs, 3))
    assert set(encode.sizes) == {8} and len(encode.sizes) <= 9
    assert ours.stages[0].cache.report()["hits"] >= 90


def test_part_of_the_samples_in_memory_gives_the_same_batches(photos, device):
    cache = ss.FeatureCache(device_memory=20 * (3 * 8 * 8 * 4 + 8), pinned_memory=0)
    ours, _ = make(photos, device, cache)
    theirs, _ = make(photos, device, None)
    assert same(epochs(ours, 4), epochs(theirs, 4))
    assert cache.report()["stored"] == 20


def test_resumed_epoch_gives_the_remaining_batches(photos, device):
    theirs, _ = make(photos, device, None)
    wanted = epochs(theirs, 3)
    first, _ = make(photos, device, "auto")
    epochs(first, 1)
    iteration = iter(first)
    for _ in range(3):
        next(iteration)
    state = first.state_dict()
    ours, _ = make(photos, device, "auto")
    ours.load_state_dict(state)
    rest = [[each.cpu() for each in batch] for batch in ours]
    assert same(rest, [[features, labels] for features, labels, _ in wanted[1][3:]])
    assert same([[each.cpu() for each in batch] for batch in ours], [batch[:2] for batch in wanted[2]])


def test_set_epoch_selects_order_and_version(photos, device):
    ours, _ = make(photos, device, ss.FeatureCache(versions=2), T.RandomCrop(32))
    found = {}
    for epoch in (0, 1, 2, 3, 1):
        ours.set_epoch(epoch)
        found.setdefault(epoch, []).append([[each.cpu() for each in batch] for batch in ours])
    assert same(found[1][0], found[1][1])
    assert same(by_sum(found[0][0]), by_sum(found[2][0]))
    assert same(by_sum(found[1][0]), by_sum(found[3][0]))
    assert not same(by_sum(found[0][0]), by_sum(found[1][0]))


def by_sum(batches):
    """Returns the features of all samples in an order that does not depend on that of the epoch."""
    rows = torch.cat([features for features, _ in batches]).flatten(1)
    return torch.stack(sorted(rows, key=lambda row: row.tolist()))


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_versions_are_the_same_in_each_process(photos, device, workers):
    first, _ = make(photos, device, ss.FeatureCache(versions=2), T.RandomCrop(32), num_workers=workers)
    second, _ = make(photos, device, ss.FeatureCache(versions=2), T.RandomCrop(32), num_workers=1, seed=8)
    for _ in range(2):
        ours, theirs = ([[each.cpu() for each in batch] for batch in pipe] for pipe in (first, second))
        assert same(by_sum(ours), by_sum(theirs))


@pytest.mark.parametrize("is_late", [False, True])
def test_edited_file_is_computed_again(photos, device, tmp_path, monkeypatch, is_late):
    if is_late:  # as on a GPU: after a short first epoch, no memory is allocated yet
        monkeypatch.setattr(Entries, "_measures_later", lambda self: True)
    folder = tmp_path / "photos"
    shutil.copytree(photos, folder)
    pipe, encode = make(folder, device, "auto", shuffle=False)
    before = features(pipe)
    files = [os.path.join(folder, pipe.loader.dataset.name(i)) for i in range(50)]
    shutil.copyfile(files[30], files[3])
    encode.sizes.clear()
    after = features(pipe)
    assert encode.sizes == [8]
    assert [i for i in range(50) if not torch.equal(before[i], after[i])] == [3]
    assert torch.equal(after[3], after[30])
    assert torch.equal(features(pipe), after)
    assert pipe.stages[0].cache.report()["changes"] == ["changed samples of the data set: 1"]


def features(pipe):
    return torch.cat([each.cpu() for each, _ in pipe])


def to_floats(image):
    return image.float()


@pytest.mark.parametrize("part", ["whole", "subset", "joined", "native"])
@pytest.mark.parametrize("workers", [0, 1])
def test_folder_in_pytorchs_loader_needs_no_key(photos, device, tmp_path, part, workers):
    folder = tmp_path / "photos"
    shutil.copytree(photos, folder)
    transform = v2.Compose([v2.PILToTensor(), v2.CenterCrop(32), v2.Lambda(to_floats)])
    data = torchvision.datasets.ImageFolder(folder, transform)
    if part == "native":
        data = ss.ImageFolder(folder, T.Compose([T.CenterCrop(32), FLOATS]))
    path = data.samples[3][0] if part != "native" else os.path.join(folder, data.name(3))
    if part == "subset":
        data = torch.utils.data.Subset(data, range(1, 20))
    if part == "joined":
        data = torch.utils.data.ConcatDataset([data, torch.utils.data.Subset(data, [3])])
    loader = torch.utils.data.DataLoader(data, 8, shuffle=True, num_workers=workers)
    encode = pooled(device)
    ours = ss.Pipeline(loader, [ss.Stage("encode", encode, cache="auto")], device)
    theirs = ss.Pipeline(loader, [ss.Stage("encode", pooled(device))], device)
    assert same(epochs(ours, 3), epochs(theirs, 3))
    encode.sizes.clear()
    shutil.copyfile(os.path.join(folder, "class1", os.listdir(folder / "class1")[0]), path)
    assert same(epochs(ours, 1), epochs(theirs, 1))
    assert encode.sizes == [8] * (1 if part != "joined" else len(encode.sizes))
    count = 2 if part == "joined" else 1
    assert ours.stages[0].cache.report()["changes"] == [f"changed samples of the data set: {count}"]


def test_decoding_is_part_of_the_key(photos, device):
    cache = ss.FeatureCache()
    for scaled in (False, True):
        epochs(make(photos, device, cache, T.Resize((32, 32)), scaled_decoding=scaled)[0], 1)
    assert cache.report()["misses"] == 100


def test_one_folder_with_two_transforms_has_different_digests(photos):
    folders = [torchvision.datasets.ImageFolder(photos, v2.CenterCrop(size)) for size in (32, 16)]
    identity = identify(torch.utils.data.ConcatDataset(folders), None)
    assert len(set(identity.samples)) == 100


def test_processes_get_their_own_samples(photos, device):
    found = []
    for rank in range(2):
        ours, _ = make(photos, device, "auto", rank=rank, world_size=2, batch_size=5)
        theirs, _ = make(photos, device, None, rank=rank, world_size=2, batch_size=5)
        found.append(epochs(ours, 3))
        assert same(found[-1], epochs(theirs, 3))
    assert not same(found[0], found[1])


def test_mixed_and_skipped_samples_are_refused(photos):
    with pytest.raises(ss.Refused, match="on_bad_sample"):
        make(photos, "cpu", "auto", on_bad_sample="skip")
    data = ss.ImageFolder(photos, T.Compose([T.CenterCrop(32), FLOATS, T.MixUp(alpha=0.2)]))
    with pytest.raises(ss.Refused, match="MixUp mixes the samples"):
        ss.Pipeline(ss.DataLoader(data, 8), [ss.Stage("encode", nn.Identity().eval(), cache="auto")])


def test_random_native_transform_is_refused(photos):
    with pytest.raises(ss.Refused, match="random_crop.*versions=4"):
        make(photos, "cpu", "auto", T.RandomCrop(32))
