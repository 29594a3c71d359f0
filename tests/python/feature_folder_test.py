"""The feature cache with a folder: later runs, damaged records, budgets, and several processes."""

import threading
from typing import NamedTuple

import pytest
import torch
from features import Counted, CountedModule, encoder, epochs, pipeline, same, tensors, torch_loader
from kept_features import KeptFeatures

import slipstream as ss
from slipstream import _native
from slipstream._feature_rows import BatchForm

ON_DISK = {"device_memory": 0, "pinned_memory": 0}


@pytest.fixture
def store(monkeypatch):
    kept = type("Kept", (KeptFeatures,), {"folders": {}})
    monkeypatch.setattr(_native, "FeatureStore", kept, raising=False)
    return kept


def trained(folder, device, count=3, cache=None, encode=None, data=None, **options):
    """Returns the batches, the batch sizes of the encoder, and the cache of a run."""
    cache = cache or ss.FeatureCache(folder, key="x", **ON_DISK)
    encode = CountedModule(encoder(device) if encode is None else encode).eval()
    pipe = pipeline(torch_loader(data or tensors(), drop_last=False, **options), encode, cache, device)
    made = []
    for epoch in range(count):
        pipe.set_epoch(epoch)
        torch.manual_seed(epoch)
        made.append([[each.cpu().clone() for each in batch] for batch in pipe])
        cache.flush()
    return made, encode.sizes, cache


def plain(device, count=3, **options):
    pipe = pipeline(torch_loader(tensors(), drop_last=False, **options), encoder(device), None, device)
    made = []
    for epoch in range(count):
        torch.manual_seed(epoch)
        made.append([[each.cpu().clone() for each in batch] for batch in pipe])
    return made


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("limits", [ON_DISK, {}, {"device_memory": 10 * 264, "pinned_memory": 0}])
@pytest.mark.parametrize("workers", [0, 2])
def test_later_run_gives_the_same_batches_from_disk(device, tmp_path, limits, workers):
    wanted = plain(device, num_workers=workers)
    for number in range(2):
        data = Counted(tensors())
        cache = ss.FeatureCache(tmp_path, key="x", **limits)
        made, sizes, _ = trained(tmp_path, device, cache=cache, data=data, num_workers=workers)
        assert same(made, wanted)
        # In the later run, samples are read only until the first batch has shown the form of the batches.
        most = 8 if number == 0 else max(1, 2 * workers + 1)
        assert len(sizes) <= most + 1 and int(data.reads.sum()) <= 5 * most


@pytest.mark.usefixtures("store")
def test_first_batch_of_a_later_run_has_the_bits_of_the_first_run(device, tmp_path):
    """The encoder here gives other bits in each call, as kernels may."""

    class Drifting(torch.nn.Module):
        calls = 0.0

        def forward(self, x):
            type(self).calls += 1 / 64
            return x.flatten(1)[:, :4] + self.calls

    first, _, _ = trained(tmp_path, device, 1, encode=Drifting())
    second, _, _ = trained(tmp_path, device, 2, encode=Drifting())

    def rows(batches):
        return {int(label): row for features, labels in batches for row, label in zip(features, labels, strict=True)}

    before, after = rows(first[0]), rows(second[0])
    assert all(torch.equal(before[label], after[label]) for label in before.keys() & after.keys())


def test_damaged_record_is_computed_again(device, tmp_path, store):
    trained(tmp_path, device)
    records = store.folders[next(key for key in store.folders if len(key) == 2)]
    for key in list(records)[20:23]:
        records[key] = None
    made, sizes, cache = trained(tmp_path, device)
    assert same(made, plain(device))
    assert cache.report()["disk"]["damaged"] == 3
    assert cache.report()["misses"] + cache.report()["hits"] == 3 * 37 and cache.report()["misses"] == 5 + 3
    assert set(sizes) == {5}


@pytest.mark.usefixtures("store")
def test_budget_ends_filling_but_not_training(device, tmp_path):
    cache = ss.FeatureCache(tmp_path, key="x", budget=10 * 264, **ON_DISK)
    made, _, _ = trained(tmp_path, device, cache=cache)
    assert same(made, plain(device))
    disk = cache.report()["disk"]
    assert disk["records"] == 10 and disk["filling_ended"] == "the budget is used up"


def test_other_weights_in_one_folder_are_kept_apart(device, tmp_path, store):
    other = encoder(device)
    with torch.no_grad():
        other[0].weight.mul_(2)
    first, _, _ = trained(tmp_path, device)
    second, sizes, _ = trained(tmp_path, device, encode=other)
    assert len(sizes) == 9 and not same(first, second)
    assert len([key for key in store.folders if len(key) == 2]) == 2
    again, sizes, _ = trained(tmp_path, device)
    assert same(first, again) and len(sizes) == 2


@pytest.mark.usefixtures("store")
def test_slow_disk_does_not_delay_training(device, tmp_path, monkeypatch):
    monkeypatch.setattr("slipstream._feature_disk._MOST_UNWRITTEN_BYTES", 6 * 264)
    may_write = threading.Event()
    original = KeptFeatures.write
    monkeypatch.setattr(KeptFeatures, "write", lambda self, *given: may_write.wait(60) and original(self, *given))
    cache = ss.FeatureCache(tmp_path, key="x", **ON_DISK)
    pipe = pipeline(torch_loader(tensors()), encoder(device), cache, device)
    assert len(epochs(pipe, 1)[0]) == 7
    may_write.set()
    cache.flush()
    disk = cache.report()["disk"]
    assert disk["records"] == 5 and disk["left_out"] == 30


class Pair(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


@pytest.mark.parametrize(("batch", "names"), [
    (torch.zeros(2), ["batch"]),
    ([torch.zeros(2), ["a", "b"], torch.zeros(2)], ["0", "2"]),
    ({"image": {"a mask": torch.zeros(2)}, "pair": Pair(torch.zeros(2), torch.zeros(2))},
     ["image.a_mask", "pair.left", "pair.right"]),
    ({"a b": torch.zeros(2), "a_b": torch.zeros(2)}, ["a_b", "a_b.1"]),
])
def test_fields_are_named_by_their_keys(batch, names):
    form = BatchForm("encode", batch, 2, [], None, "cpu")
    assert [field["name"] for field in form.description()] == names


def test_error_of_the_disk_ends_writing_but_not_training(device, tmp_path, store, monkeypatch):
    trained(tmp_path, device, 1)

    def fail(*given):
        raise _native.Error("the disk is broken")

    monkeypatch.setattr(store, "read", fail)
    monkeypatch.setattr(store, "write", fail)
    made, _, cache = trained(tmp_path, device)
    assert same(made, plain(device))
    assert cache.report()["disk"]["filling_ended"] == "the disk is broken"


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("dtype", ["fp8", "bf16"])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_narrowed_rows_are_read_unchanged_from_disk(device, tmp_path, dtype, memory_format):
    encode = encoder(device).to(memory_format=memory_format)
    found = [trained(tmp_path, device, cache=ss.FeatureCache(tmp_path, dtype=dtype, **ON_DISK), encode=encode,
                     shuffle=False)[0] for _ in range(2)]
    assert same(found[0], found[1]) and same(found[0][0], found[0][2])


@pytest.mark.usefixtures("store")
def test_records_have_the_order_of_the_shape(device, tmp_path, store):
    encode = encoder(device).to(memory_format=torch.channels_last)
    made, _, _ = trained(tmp_path, device, 2, encode=encode)
    records = store.folders[next(key for key in store.folders if len(key) == 2)]
    found = {int(record[-8:].view(torch.int64)): record[:-8].view(torch.float32).view(4, 4, 4)
             for record in records.values()}
    for epoch in made:
        for features, labels in epoch:
            for row, label in zip(features, labels.tolist(), strict=True):
                assert torch.equal(found[label], row)


@pytest.mark.usefixtures("store")
def test_python_objects_are_refused_with_a_folder(tmp_path):
    samples = [(torch.ones(3, 8, 8), f"{i}.jpg") for i in range(10)]
    loader = torch.utils.data.DataLoader(samples, 5)
    with pytest.raises(ss.Refused, match="list of Python objects"):
        list(pipeline(loader, encoder("cpu"), ss.FeatureCache(tmp_path), "cpu"))
