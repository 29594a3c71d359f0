"""Changes and errors that a feature cache must not hide."""

import copy
import os
import pickle
import random

import numpy as np
import pytest
import torch
from features import CountedModule, encoder, epochs, pipeline, same, tensors, torch_loader
from kept_features import KeptFeatures
from torch import nn

import slipstream as ss
from slipstream import _feature_key as keys
from slipstream import _feature_tiers, _native


def test_mappings_with_keys_in_another_order_give_the_same_batches(device):
    samples = [{"image": image, "label": int(label), "number": int(label) + 100} for image, label in tensors(20)]
    samples[5:] = [dict(reversed(each.items())) for each in samples[5:]]
    stages = [ss.Stage("encode", encoder(device), input="image", cache=cache) for cache in ("auto", None)]
    ours, theirs = (ss.Pipeline(torch_loader(samples, shuffle=False), [stage], device) for stage in stages)
    for _ in range(2):
        for mine, other in zip(ours, theirs, strict=True):
            assert all(torch.equal(mine[key], other[key]) for key in other)


class Breaking:
    """A batch sampler that raises an error after three batches."""

    batch_size = 5

    def __iter__(self):
        for begin in (0, 5, 10):
            yield list(range(begin, begin + 5))
        raise ValueError("the sampler is broken")


@pytest.mark.parametrize("workers", [0, 2])
def test_error_of_the_sampler_is_raised_after_the_batches_before_it(device, workers):
    loader = torch.utils.data.DataLoader(tensors(), batch_sampler=Breaking(), num_workers=workers)
    pipe = pipeline(loader, encoder(device), "auto", device)
    images, _ = tensors().tensors
    for _ in range(2):
        found, batches = [], iter(pipe)
        with pytest.raises(ValueError, match="the sampler is broken"):
            while True:
                features, labels = next(batches)
                assert torch.equal(features.cpu(), encoder("cpu")(images[labels.cpu()]))
                found.append(labels.tolist())
        assert found == [list(range(begin, begin + 5)) for begin in (0, 5, 10)]


def replace_item(data):
    data[2] = (data[2][0] + 1, 99)


@pytest.mark.parametrize("change", [replace_item, lambda data: data.append(data[0]), lambda data: data.pop()])
def test_changed_list_gives_the_batches_of_a_pipeline_without_cache(device, change):
    data = [(image, int(label)) for image, label in tensors(10)]
    loader = torch_loader(data, shuffle=False, drop_last=False)
    ours, theirs = (pipeline(loader, encoder(device), cache, device) for cache in ("auto", None))
    epochs(ours, 2)
    change(data)
    assert same(epochs(ours, 2), epochs(theirs, 2))


def test_reverted_sample_is_computed_again_by_another_pipeline(device):
    data = [(image, int(label)) for image, label in tensors(10)]
    kept, cache = data[2], ss.FeatureCache()
    first = pipeline(torch_loader(data, shuffle=False), encoder(device), cache, device)
    for item in (kept, (kept[0] + 1, 99), kept):
        data[2] = item
        if item is not kept or first.stages[0].cache.report()["misses"] == 0:
            epochs(first, 1)
        ours, theirs = (pipeline(torch_loader(data, shuffle=False), encoder(device), each, device)
                        for each in (cache, None))
        assert same(epochs(ours, 1), epochs(theirs, 1))


def write_data(module):
    module[0].weight.data.mul_(2)


def write_in_inference_mode(module):
    with torch.inference_mode():
        module[0].weight.add_(1)


@pytest.mark.parametrize("write", [write_data, write_in_inference_mode])
def test_weights_that_are_written_without_a_version_drop_entries(device, write):
    encode = CountedModule(encoder(device)).eval()
    pipe = pipeline(torch_loader(tensors(10), shuffle=False), encode, "auto", device)
    epochs(pipe, 2)
    write(encode.module)
    assert same(epochs(pipe, 1), epochs(pipeline(torch_loader(tensors(10), shuffle=False), encode, None, device), 1))
    assert pipe.stages[0].cache.report()["changes"] == ["changed: weights of stage 'encode'"]


class Scale(nn.Module):
    def __init__(self, by):
        super().__init__()
        self.by = by

    def forward(self, x):
        return x * self.by


def test_attributes_that_repr_leaves_out_are_in_the_key():
    layers = [nn.TransformerEncoderLayer(8, heads, activation=activation)
              for heads, activation in ((2, "relu"), (4, "relu"), (2, "gelu"))]
    assert len({keys.to_text({"": keys.describe_module(each)}) for each in layers}) == 3
    assert keys.describe_module(Scale(2)) != keys.describe_module(Scale(3))
    first, second = (torch.fx.symbolic_trace(Scale(by)) for by in (2, 3))
    assert keys.describe_module(first) != keys.describe_module(second)


class Noisy(nn.Module):
    def forward(self, x):
        return nn.functional.dropout(x, training=True)


@pytest.mark.parametrize("plan", ["pipelined", "serial"])
def test_stage_that_uses_random_numbers_is_refused(device, plan):
    pipe = pipeline(torch_loader(tensors()), Noisy().eval(), "auto", device, plan=plan)
    with pytest.raises(ss.Refused, match="'encode' uses a random generator"):
        next(iter(pipe))


class Collate:
    """Returns the images, the labels, and a value that a function computes from the labels."""

    def __init__(self, function):
        self.function = function

    def __call__(self, samples):
        images, labels = torch.utils.data.default_collate(samples)
        return images, labels, self.function(labels)


WHOLE_BATCH = {
    "numbers of the rows": lambda labels: torch.arange(len(labels)),
    "size of images": lambda labels: (480, 640, 3, 1, 1),
    "weights of classes": lambda labels: torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5]),
    "equal weights of classes": lambda labels: torch.ones(5),
    "boxes of one length": lambda labels: [torch.full((5, 4), float(label)) for label in labels],
    "centered": lambda labels: labels - labels.float().mean(),
    "sorted": lambda labels: labels.sort().values,
}


@pytest.mark.parametrize("name", WHOLE_BATCH)
def test_values_of_whole_batches_are_refused(device, name):
    loader = torch_loader(tensors(), shuffle=False, collate_fn=Collate(WHOLE_BATCH[name]))
    pipe = pipeline(loader, encoder(device), ss.FeatureCache(key="x"), device)
    with pytest.raises(ss.Refused, match="that collate_fn returns is not a function of single samples"):
        next(iter(pipe))


SINGLE_SAMPLES = {
    "names": lambda labels: [f"{int(label)}.jpg" for label in labels],
    "scaled": lambda labels: (labels / 7).exp(),
    "nan": lambda labels: labels * float("nan"),
    "padded": lambda labels: torch.nn.functional.one_hot(labels.clamp(max=30), 37),
}


@pytest.mark.parametrize("name", SINGLE_SAMPLES)
def test_values_of_single_samples_are_cached(device, name):
    loader = torch_loader(tensors(), collate_fn=Collate(SINGLE_SAMPLES[name]))
    ours, theirs = (pipeline(loader, encoder(device), cache, device) for cache in (ss.FeatureCache(key="x"), None))
    assert str(epochs(ours, 3)) == str(epochs(theirs, 3))


def pop_labels(samples):
    labels = [each.pop("label") for each in samples]
    return torch.stack([each["image"] for each in samples]), torch.tensor(labels)


class Dicts(torch.utils.data.Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, index):
        return {"image": tensors(10)[index][0], "label": index}


def test_collate_fn_may_change_its_samples(device):
    loader = torch_loader(Dicts(), collate_fn=pop_labels)
    ours, theirs = (pipeline(loader, encoder(device), cache, device) for cache in (ss.FeatureCache(key="x"), None))
    assert same(epochs(ours, 3), epochs(theirs, 3))


class OfBatch(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.parametrize("function", [
    lambda x: x - x.mean(0), lambda x: x.flatten(1) @ x.flatten(1).T, lambda x: torch.arange(len(x), device=x.device),
    lambda x: x.flip(0), lambda x: nn.functional.batch_norm(x, None, None, training=True),
])
def test_stage_whose_rows_depend_on_other_samples_is_refused(device, function):
    pipe = pipeline(torch_loader(tensors()), OfBatch(function).eval(), ss.FeatureCache(key="x"), device)
    with pytest.raises(ss.Refused, match="'encode' has a cache, but a row of its result depends on the other samples"):
        next(iter(pipe))


@pytest.mark.parametrize("function", [
    lambda x: x.add_(1), lambda x: x.flatten(1).argmax(1), lambda x: x.bfloat16().flatten(1).softmax(1),
    lambda x: x * float("inf"), lambda x: x[:, :0], lambda x: x.contiguous(memory_format=torch.channels_last),
])
def test_stage_that_computes_single_samples_is_not_refused(device, function):
    ours, theirs = (pipeline(torch_loader(tensors()), OfBatch(function).eval(), cache, device)
                    for cache in (ss.FeatureCache(key="x"), None))
    assert str(epochs(ours, 1)) == str(epochs(theirs, 1))


class Box:
    def __init__(self, number):
        self.number = number


def test_loop_body_may_change_python_objects(device):
    def collate(samples):
        images, labels = torch.utils.data.default_collate(samples)
        return images, [Box(int(label)) for label in labels], tuple(label.numpy().copy() for label in labels)

    loader = torch_loader(tensors(), shuffle=False, drop_last=False, collate_fn=collate)
    pipe = pipeline(loader, encoder(device), ss.FeatureCache(key="x"), device)
    for _ in range(4):
        found = []
        for _, boxes, numbers in pipe:
            for box, number in zip(boxes, numbers, strict=True):
                found.append((box.number, int(number)))
                box.number *= 2
                number *= 2
        assert found == [(i, i) for i in range(37)]


class Varying(Dicts):
    """Holds a generator, or has set_epoch()."""

    def __init__(self, generator=None):
        self.generator = generator


class WithEpochs(Varying):
    def set_epoch(self, epoch):
        pass


@pytest.mark.parametrize(("data", "why"), [
    (Varying(torch.Generator()), r"refers to a random generator \(Generator\)"),
    (Varying(random.Random(1)), r"refers to a random generator \(Random\)"),
    (Varying(np.random.default_rng(1)), r"refers to a random generator \(Generator\)"),
    (WithEpochs(), r"WithEpochs has set_epoch\(\)"),
    (torch.utils.data.Subset(WithEpochs(), [1, 2]), r"WithEpochs has set_epoch\(\)"),
])
def test_data_sets_whose_samples_may_differ_in_each_epoch_are_refused(data, why):
    with pytest.raises(ss.Refused, match=why):
        pipeline(torch_loader(data), encoder("cpu"), ss.FeatureCache(key="x"), "cpu")
    pipeline(torch_loader(data), encoder("cpu"), ss.FeatureCache(key="x", versions=2), "cpu")
class Numbers(torch.utils.data.Dataset):
    """Images of one number each, without any description."""

    def __init__(self, count, first):
        self.count, self.first = count, first

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return torch.full((3, 8, 8), self.first + index), index


def test_two_data_sets_with_one_key_are_kept_apart_or_refused(device):
    cache = ss.FeatureCache(key="numbers")
    ours, larger, other, again = (pipeline(torch_loader(Numbers(*each)), encoder(device), cache, device)
                                  for each in ((6, 0.0), (8, 0.0), (6, 100.0), (6, 0.0)))
    epochs(ours, 2)
    epochs(larger, 1)
    with pytest.raises(ss.Refused, match=r"two data sets of the type Numbers.*differ in first.*\"train 1\""):
        next(iter(other))
    before = cache.report()["misses"]
    epochs(again, 2)
    assert cache.report()["misses"] - before <= 1  # a sample that drop_last left out


def test_two_data_sets_with_one_folder_and_one_key_are_refused(device, tmp_path):
    first, other = (pipeline(torch_loader(Numbers(6, each)), encoder(device), ss.FeatureCache(tmp_path, key="x"), device)
                    for each in (0.0, 100.0))
    iter(first).close()
    with pytest.raises(ss.Refused, match="two data sets of the type Numbers"):
        iter(other)


SCALE = 2


def scaled(image):
    return image * SCALE


def scales(image):
    return scaled(image)


def test_functions_are_described_with_their_code_defaults_and_globals(monkeypatch):
    first, second = [lambda x: x * 2, lambda x: x * 3]
    assert keys.describe(first) != keys.describe(second)

    def with_default(by):
        def scaled(x, *, by=by):
            return x * by
        return scaled

    assert keys.describe(with_default(2)) == keys.describe(with_default(2)) != keys.describe(with_default(3))
    before = keys.describe(scales)
    assert keys.describe(scales) == before
    monkeypatch.setitem(globals(), "SCALE", 3)
    assert keys.describe(scales) != before


class OtherList(list):
    def __getitem__(self, index):
        return super().__getitem__(index)[0] * 2


class OtherConcat(ss.ConcatDataset):
    def __getitem__(self, index):
        return super().__getitem__(index)


@pytest.mark.parametrize("data", [OtherList(tensors(4)), OtherConcat([tensors(4)])])
def test_subclass_with_its_own_samples_needs_a_key(data):
    with pytest.raises(keys.NeedsKey, match="Other"):
        keys.identify(data, None)


def test_training_of_submodules_graphs_and_compiled_calls_are_in_the_key():
    module = nn.Sequential(nn.Dropout(0.5), nn.Linear(2, 2)).eval()
    found = [keys.to_text({"": keys.describe_module(module)})]
    module[0].train()
    found.append(keys.to_text({"": keys.describe_module(module)}))
    module[0].eval()
    module[1].compile(backend="eager")
    found.append(keys.to_text({"": keys.describe_module(module)}))
    assert len(set(found)) == 3
    first, second = (nn.Sequential(torch.fx.symbolic_trace(Scale(by))) for by in (2, 3))
    assert keys.describe_module(first) != keys.describe_module(second)


@pytest.mark.filterwarnings("ignore")
def test_weights_of_quantized_layers_are_in_the_digest():
    def quantized(value):
        layer = nn.Linear(2, 2)
        nn.init.constant_(layer.weight, value)
        nn.init.zeros_(layer.bias)
        return torch.ao.quantization.quantize_dynamic(nn.Sequential(layer).eval())

    first, again, other = (quantized(value) for value in (1.0, 1.0, 2.0))
    assert keys.module_digest(first) == keys.module_digest(again) != keys.module_digest(other)


def test_normalization_in_training_mode_is_refused():
    module = nn.Sequential(nn.BatchNorm2d(3)).eval().requires_grad_(False)
    module[0].train()
    with pytest.raises(ss.Refused, match="BatchNorm2d in training mode"):
        pipeline(torch_loader(tensors()), module, "auto", "cpu")


@pytest.mark.parametrize("workers", [0, 2])
def test_index_out_of_range_is_raised_after_the_batches_before_it(workers):
    loader = torch.utils.data.DataLoader(tensors(20), 2, sampler=[0, 1, 0, 1, 4, 99, 5, 6], num_workers=workers)
    batches = iter(pipeline(loader, encoder("cpu"), "auto", "cpu"))
    assert [next(batches)[1].tolist() for _ in range(2)] == [[0, 1], [0, 1]]
    with pytest.raises(ss.Refused, match="the sampler gives the batch"):
        next(batches)


def test_forked_process_leaves_the_folder_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(_native, "FeatureStore", type("Kept", (KeptFeatures,), {"folders": {}}))
    cache = ss.FeatureCache(tmp_path, device_memory=0, pinned_memory=0)
    pipe = pipeline(torch_loader(tensors(), shuffle=False), encoder("cpu"), cache, "cpu")
    epochs(pipe, 2)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    folder = next(iter(cache._entries.values())).folder
    folder._readers.shutdown()  # as in a forked process, in which no thread takes work
    folder._writer.shutdown()
    plain = pipeline(torch_loader(tensors(), shuffle=False), encoder("cpu"), None, "cpu")
    assert same(epochs(pipe, 1), epochs(plain, 1))
    cache.flush()


def test_copy_of_a_cache_has_its_settings_and_no_entries():
    cache = ss.FeatureCache(key="x", versions=2, dtype="bf16")
    epochs(pipeline(torch_loader(tensors()), encoder("cpu"), cache, "cpu"), 1)
    for made in (copy.deepcopy(cache), pickle.loads(pickle.dumps(cache))):
        assert (made.key, made.versions, made.dtype) == ("x", 2, torch.bfloat16)
        assert made.report()["entries"] == 0 < cache.report()["entries"]


class StatefulLoader(torch.utils.data.DataLoader):
    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


def test_loader_with_a_state_of_its_own_is_refused():
    with pytest.raises(ss.Refused, match=r"StatefulLoader with a state_dict\(\)"):
        pipeline(StatefulLoader(tensors(), 5), encoder("cpu"), "auto", "cpu")


def test_limit_of_the_control_group_is_kept(tmp_path):
    for name, text in (("max", "1000"), ("current", "900"), ("stat", "anon 500\ninactive_file 300\n")):
        (tmp_path / f"memory.{name}").write_text(text)
    assert _feature_tiers._left_in_group(str(tmp_path)) == 400
    (tmp_path / "memory.max").write_text("max")
    assert _feature_tiers._left_in_group(str(tmp_path)) > 1 << 60
