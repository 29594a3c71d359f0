"""A pipeline with a feature cache gives the batches of one without, and computes each sample once."""

import pytest
import torch
from features import SAMPLES, Counted, CountedModule, encoder, epochs, pipeline, same, tensors, torch_loader
from torch import nn

import slipstream as ss
from slipstream import _feature_tiers

ROW = 4 * 4 * 4 * 4 + 8  # bytes of the features and the label of a sample
# Everything in device memory, a part of the samples, and a part in both kinds of memory.
LIMITS = [{}, {"device_memory": 10 * ROW, "pinned_memory": 0}, {"device_memory": 10 * ROW, "pinned_memory": 15 * ROW},
          {"device_memory": 0, "pinned_memory": SAMPLES * ROW}]


def expected(device, data=None, count=4, **options):
    return epochs(pipeline(torch_loader(data or tensors(), **options), encoder(device), None, device), count)


@pytest.mark.parametrize("plan", ["pipelined", "serial", "auto"])
@pytest.mark.parametrize("limits", LIMITS)
def test_cached_batches_have_the_bits_of_a_pipeline_without_cache(device, plan, limits):
    cache = ss.FeatureCache(**limits)
    ours = epochs(pipeline(torch_loader(tensors()), encoder(device), cache, device, plan=plan))
    assert same(ours, expected(device))
    assert cache.report()["hits"] > 0


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("is_persistent", [False, True])
def test_worker_processes_give_the_batches_of_a_pipeline_without_cache(device, workers, is_persistent):
    options = {"num_workers": workers, "persistent_workers": is_persistent}
    ours = epochs(pipeline(torch_loader(tensors(), **options), encoder(device), "auto", device))
    assert same(ours, expected(device, **options))


def test_each_sample_is_read_and_computed_once(device):
    data, encode = Counted(tensors()), CountedModule(encoder(device)).eval()
    pipe = pipeline(torch_loader(data, drop_last=False), encode, ss.FeatureCache(key="data"), device)
    epochs(pipe)
    assert data.reads.tolist() == [1] * SAMPLES
    assert set(encode.sizes) == {5} and len(encode.sizes) == -(-SAMPLES // 5) + 1  # one for the check of the first batch
    report = pipe.stages[0].cache.report()
    assert (report["stored"], report["misses"], report["hits"]) == (SAMPLES, SAMPLES, 3 * SAMPLES)
    assert report["row_bytes"] == ROW


def test_full_cache_starts_no_worker_process(device, monkeypatch):
    pipe = pipeline(torch_loader(tensors(), num_workers=1, drop_last=False), encoder(device), "auto", device)
    first = epochs(pipe, 1)
    monkeypatch.setattr(torch.utils.data.DataLoader, "_get_iterator", None)
    assert same(sorted(label for batch in epochs(pipe, 1)[0] for label in batch[1].tolist()),
                sorted(label for batch in first[0] for label in batch[1].tolist()))


def test_small_batches_are_padded_to_the_batch_size_of_the_loader(device):
    encode = CountedModule(encoder(device)).eval()
    batches = [[0, 1, 2, 3, 4, 5, 6], [7], [0, 8], [8, 8, 9]]
    loader = torch.utils.data.DataLoader(tensors(), batch_sampler=Listed(batches, 4))
    made = epochs(pipeline(loader, encode, "auto", device), 1)[0]
    assert set(encode.sizes) == {4} and len(encode.sizes) == 6  # one for the check of the first batch
    images, _ = tensors().tensors
    for (features, labels, _), batch in zip(made, batches, strict=True):
        assert labels.tolist() == batch
        assert torch.equal(features, encoder("cpu")(images[batch]))


class Static(nn.Module):
    """Returns the same memory for each batch, as a compiled module with CUDA graphs does."""

    def __init__(self):
        super().__init__()
        self.register_buffer("output", torch.empty(4, 3, 8, 8), persistent=False)

    def forward(self, x):
        return self.output.data.copy_(x + 1)


def test_large_batch_of_a_stage_with_static_output_is_computed_in_pieces(device):
    loader = torch.utils.data.DataLoader(tensors(), batch_sampler=Listed([range(10), range(10, 13)], 4))
    first, second = (Static().to(device).eval() for _ in range(2))
    stages = [ss.Stage("first", first), ss.Stage("second", second, cache="auto")]
    images, _ = tensors().tensors
    pipe = ss.Pipeline(loader, stages, device)
    for _ in range(2):
        found = torch.cat([features.cpu() for features, _ in pipe])
        assert torch.equal(found, images[:13] + 2)


class Listed:
    """A batch sampler that gives the same batches in each epoch."""

    def __init__(self, batches, batch_size):
        self.batches, self.batch_size = batches, batch_size

    def __iter__(self):
        return iter(self.batches)

    def __len__(self):
        return len(self.batches)


def test_sampler_with_replacement_gives_batches_of_a_pipeline_without_cache(device):
    def sampler():
        return torch.utils.data.WeightedRandomSampler(torch.arange(1.0, SAMPLES + 1), 60, replacement=True)

    ours = pipeline(torch_loader(tensors(), shuffle=False, sampler=sampler()), encoder(device), "auto", device)
    theirs = expected(device, shuffle=False, sampler=sampler())
    assert same(epochs(ours), theirs)


def test_loop_body_may_change_its_batch(device):
    pipe = pipeline(torch_loader(tensors()), encoder(device), "auto", device)
    theirs = expected(device)
    torch.manual_seed(5)
    for epoch in theirs:
        for (features, labels), (wanted, numbers, _) in zip(pipe, epoch, strict=True):
            assert torch.equal(features.cpu(), wanted) and torch.equal(labels.cpu(), numbers)
            features.zero_()
            labels.zero_()
            torch.rand(1)


@pytest.mark.parametrize("measured_after", [3, 100])
def test_rows_before_the_memory_is_measured_are_kept(device, monkeypatch, measured_after):
    monkeypatch.setattr("slipstream._feature_entries.Entries._measures_later", lambda self: True)
    monkeypatch.setattr("slipstream._feature_entries._MEASURED_AFTER", measured_after)
    encode = CountedModule(encoder(device)).eval()
    pipe = pipeline(torch_loader(tensors(), drop_last=False), encode, "auto", device)
    images, _ = tensors().tensors
    for _ in range(3):
        for features, labels in pipe:
            assert torch.equal(features.cpu(), encoder("cpu")(images[labels.cpu()]))
            features.zero_()
    assert len(encode.sizes) == 9


def test_long_rows_in_page_locked_memory_have_the_same_bits(device, monkeypatch):
    """The copy engine of a GPU moves rows of at least _COPIED_ROW_BYTES. On a CPU, the same calls are made."""
    monkeypatch.setattr("slipstream._feature_tiers._COPIED_ROW_BYTES", 200)
    if device == "cpu":
        make = _feature_tiers.Tier.__init__

        def with_host(self, *given):
            make(self, *given)
            self._host = [rows if self.name == "pinned" and rows.shape[1] > 1 else None for rows in self.rows]

        monkeypatch.setattr(_feature_tiers.Tier, "__init__", with_host)
    cache = ss.FeatureCache(device_memory=10 * ROW, pinned_memory=15 * ROW)
    assert same(epochs(pipeline(torch_loader(tensors()), encoder(device), cache, device)), expected(device))


class Runtime:
    """Records the calls of CUDA's runtime."""

    def __init__(self):
        self.calls = []

    def cudaHostRegister(self, address, size, flags):
        self.calls.append(("register", address, size, flags))
        return 0

    def cudaHostUnregister(self, address):
        self.calls.append(("unregister", address))


def test_page_locked_memory_has_pages_of_its_own_until_it_is_freed(monkeypatch):
    runtime = Runtime()
    monkeypatch.setattr(_feature_tiers, "_runtime", lambda: runtime)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: runtime.calls.append("synchronize"))
    memories = [_feature_tiers.PinnedMemory(100), _feature_tiers.PinnedMemory(5000)]
    addresses = [each.host.data_ptr() for each in memories]
    assert all(address % 4096 == 0 for address in addresses)
    assert [each.__cuda_array_interface__["data"][0] for each in memories] == addresses
    assert runtime.calls == [("register", addresses[0], 100, 3), ("register", addresses[1], 5000, 3)]
    memories[1].host.fill_(7)
    del memories[0]
    assert runtime.calls[2:] == ["synchronize", ("unregister", addresses[0])]
    del memories


def test_distributed_sampler_gives_each_process_its_samples(device):
    data, found = tensors(), []
    for rank in range(2):
        made = []
        for cache in ("auto", None):
            sampler = torch.utils.data.DistributedSampler(data, num_replicas=2, rank=rank)
            pipe = pipeline(torch_loader(data, shuffle=False, sampler=sampler), encoder(device), cache, device)
            for epoch in (0, 1, 2, 1):
                pipe.set_epoch(epoch)
                made.append([[each.cpu() for each in batch] for batch in pipe])
        assert same(made[:4], made[4:])
        found.append({int(label) for _, labels in made[0] for label in labels})
    assert not found[0] & found[1] - {0}


def test_earlier_stages_run_only_for_missing_samples(device):
    halve, encode = CountedModule(nn.Identity()).eval(), CountedModule(encoder(device)).eval()
    stages = [ss.Stage("first", halve), ss.Stage("encode", encode, cache="auto"), ss.Stage("last", lambda x: x + 1)]
    pipe = ss.Pipeline(torch_loader(tensors(), drop_last=False), stages, device)
    plain = ss.Pipeline(torch_loader(tensors(), drop_last=False), [
        ("encode", encoder(device)), ("last", lambda x: x + 1)], device)
    assert same(epochs(pipe), epochs(plain))
    assert len(halve.sizes) == len(encode.sizes) == 9 and set(halve.sizes) == {5}


def test_dict_batches_and_names_are_cached(device):
    samples = [{"image": image, "label": int(label), "name": f"{label}.jpg"} for image, label in tensors()]
    stage = {"input": "image", "output": "features"}
    plain = ss.Pipeline(torch_loader(samples), [ss.Stage("encode", encoder(device), **stage)], device)
    cached = ss.Pipeline(torch_loader(samples), [ss.Stage("encode", encoder(device), **stage, cache="auto")], device)

    def values(pipe):
        torch.manual_seed(5)
        return [[[key, each.cpu() if isinstance(each, torch.Tensor) else each] for key, each in sorted(batch.items())]
                for _ in range(3) for batch in pipe]

    assert same(values(cached), values(plain))
    assert cached.stages[0].cache.report()["stored"] > 0


def test_memory_format_of_features_is_kept(device):
    class ChannelsLast(nn.Module):
        def forward(self, x):
            return x.contiguous(memory_format=torch.channels_last)

    pipe = pipeline(torch_loader(tensors(), drop_last=False), ChannelsLast().eval(), "auto", device)
    for _ in range(3):
        for features, labels in pipe:
            assert features.is_contiguous(memory_format=torch.channels_last)
            assert torch.equal(features.cpu(), tensors().tensors[0][labels.cpu()])


def test_fp8_rows_have_a_scale_for_each_sample(device):
    encode = nn.Flatten().eval()
    images = torch.randn(20, 3, 2, 2) * torch.logspace(-6, 6, 20)[:, None, None, None]
    images[3], images[4, 0, 0, 0] = 0, float("nan")
    cache = ss.FeatureCache(dtype="fp8")
    data = torch.utils.data.TensorDataset(images, torch.arange(20))
    found = epochs(pipeline(torch_loader(data, shuffle=False), encode, cache, device), 2)
    assert same([batch[0].nan_to_num() for batch in found[0]], [batch[0].nan_to_num() for batch in found[1]])
    features = torch.cat([batch[0] for batch in found[0]])
    largest = images.flatten(1).abs().nan_to_num().amax(1, keepdim=True)
    assert bool(((features - images.flatten(1)).nan_to_num().abs() <= largest / 16).all())
    assert features.isnan().sum() == 1 and cache.report()["nan_rows"] == 1
    assert cache.report()["row_bytes"] == 12 + 4 + 8


def test_features_are_stored_in_given_dtype(device):
    encode = nn.Sequential(nn.Flatten(), nn.Linear(192, 6)).eval().requires_grad_(False).to(device)
    cache = ss.FeatureCache(dtype="bf16")
    loader = torch_loader(torch.utils.data.TensorDataset(tensors().tensors[0], torch.rand(SAMPLES, 2)))
    seen = {}
    for _ in range(3):
        for features, targets in pipeline(loader, encode, cache, device):
            assert features.dtype == targets.dtype == torch.float32
            assert torch.equal(features, features.to(torch.bfloat16).float())
            assert not torch.equal(targets, targets.to(torch.bfloat16).float())
            for feature, target in zip(features, targets, strict=True):
                key = tuple(target.tolist())
                assert torch.equal(seen.setdefault(key, feature.clone()), feature)
    assert cache.report()["row_bytes"] == 6 * 2 + 2 * 4


def test_tiers_are_logged_and_processes_share_host_memory(device, caplog, monkeypatch):
    monkeypatch.setattr("slipstream._feature_tiers.free_host_bytes", lambda: 8 * 10 * ROW)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    cache = ss.FeatureCache(device_memory=5 * ROW, pinned_memory=None)
    with caplog.at_level("INFO", "slipstream"):
        epochs(pipeline(torch_loader(tensors()), encoder(device), cache, device), 1)
    pinned = {"pinned": {"samples": 10, "bytes": 10 * ROW}} if device == "cuda" else {}
    assert cache.report()["tiers"] == {"device": {"samples": 5, "bytes": 5 * ROW}, **pinned}
    assert "the feature cache keeps 5 samples (0 MiB) in device memory" in caplog.text


def test_nan_is_stored_and_counted(device):
    images, labels = tensors().tensors
    images[3, 0, 0, 0] = float("nan")
    cache = ss.FeatureCache()
    made = epochs(pipeline(torch_loader(torch.utils.data.TensorDataset(images, labels), drop_last=False),
                           encoder(device), cache, device), 2)
    for epoch in made:
        assert sum(int(features.isnan().flatten(1).any(1).sum()) for features, _, _ in epoch) == 1
    assert cache.report()["nan_rows"] == 1


def test_left_iteration_leaves_a_cache_that_later_epochs_complete(device):
    cache = ss.FeatureCache()
    pipe = pipeline(torch_loader(tensors(), drop_last=False), encoder(device), cache, device)
    for number, _ in enumerate(pipe):
        if number == 1:
            break
    images, _ = tensors().tensors
    for _ in range(2):
        for features, labels in pipe:
            assert torch.equal(features.cpu(), encoder("cpu")(images[labels.cpu()]))
    assert cache.report()["stored"] == SAMPLES


class Failing(Counted):
    """Raises an error for sample 7 while it is broken."""

    is_broken = True

    def __getitem__(self, index):
        if index == 7 and self.is_broken:
            raise OSError("sample 7")
        return super().__getitem__(index)


def test_error_of_a_sample_is_raised_in_place_of_its_batch(device):
    data = Failing(tensors())
    loader = torch_loader(data, shuffle=False, drop_last=False)
    pipe = pipeline(loader, encoder(device), ss.FeatureCache(key="x"), device)
    for _ in range(2):
        found, batches = [], iter(pipe)
        while True:
            try:
                found.append(next(batches)[1].tolist())
            except StopIteration:
                break
            except OSError:
                found.append("error")
        assert found[0] == [0, 1, 2, 3, 4] and found[1] == "error" and found[2] == [10, 11, 12, 13, 14]
        assert len(found) == 8
    data.is_broken = False
    labels = [label for _, labels in pipe for label in labels.tolist()]
    assert labels == list(range(SAMPLES))


def test_sample_of_a_failed_batch_is_computed_by_a_later_batch(device):
    data = Failing(tensors())
    listed = Listed([[0, 1], [7, 2], [3, 4], [5, 6], [8, 9], [7, 0]], 2)
    loader = torch.utils.data.DataLoader(data, batch_sampler=listed)
    batches = iter(pipeline(loader, encoder(device), ss.FeatureCache(key="x", **LIMITS[2]), device, plan="serial"))
    assert next(batches)[1].tolist() == [0, 1]
    with pytest.raises(OSError, match="sample 7"):
        next(batches)
    data.is_broken = False
    assert [labels.tolist() for _, labels in batches] == [[3, 4], [5, 6], [8, 9], [7, 0]]


def test_two_iterations_at_once_share_a_cache(device):
    cache = ss.FeatureCache()
    pipe = pipeline(torch_loader(tensors(), shuffle=False), encoder(device), cache, device)
    wanted = expected(device, shuffle=False, count=1)[0]
    for (ours, _), (others, _), (theirs, _, _) in zip(pipe, pipe, wanted, strict=True):
        assert torch.equal(ours.cpu(), theirs) and torch.equal(others.cpu(), theirs)


def test_validation_pipeline_with_the_same_stage_has_a_separate_cache(device):
    stage = ss.Stage("encode", encoder(device), cache="auto")
    train = ss.Pipeline(torch_loader(tensors()), [stage], device)
    validation = ss.Pipeline(torch_loader(tensors(11)), [stage], device)
    for _ in range(2):
        epochs(train, 1)
        epochs(validation, 1)
    assert stage.cache == "auto"
    assert train.stages[0].cache is not validation.stages[0].cache
    assert validation.stages[0].cache.report()["entries"] == 11
