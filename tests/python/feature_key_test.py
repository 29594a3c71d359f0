"""The key of a feature cache: what is refused, what makes entries invalid, and what does not."""

import pytest
import torch
from features import CountedModule, encoder, epochs, pipeline, same, tensors, torch_loader
from torch import nn
from torchvision.transforms import v2

import slipstream as ss
from slipstream import _feature_key as keys


class Images(torch.utils.data.Dataset):
    """Images with a transform, without any identity."""

    def __init__(self, transform=None):
        self.transform = transform

    def __len__(self):
        return 20

    def __getitem__(self, index):
        image = torch.full((3, 8, 8), float(index))
        return (image if self.transform is None else self.transform(image)), index


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(())


def noisy(image):
    return image + torch.rand(())


KEYED = ss.FeatureCache(key="images 1")


def stage(cache="auto", **options):
    return ss.Stage("encode", encoder("cpu"), cache=cache, **options)


@pytest.mark.parametrize(("data", "message"), [
    (Images(), "needs a key.*data set is a Images"),
    (Images(v2.RandomHorizontalFlip()), "random transform RandomHorizontalFlip.*versions=4"),
    (Images(v2.Compose([v2.RandomApply([v2.Identity()])])), "RandomApply"),
    (Images([v2.ColorJitter(0.5)]), "ColorJitter"),
    (torch.utils.data.Subset(Images(v2.GaussianBlur(3)), range(8)), "GaussianBlur"),
    (torch.utils.data.ConcatDataset([Images(), Images(v2.RandomCrop(4))]), "RandomCrop"),
])
def test_data_set_is_refused_with_remedy(data, message):
    with pytest.raises(ss.Refused, match=message):
        ss.Pipeline(torch_loader(data), [stage()], "cpu")


@pytest.mark.parametrize("loader", [
    [(torch.zeros(2, 3, 8, 8), torch.zeros(2))],
    torch_loader(tensors(), batch_size=None, shuffle=False, drop_last=False),
    torch.utils.data.DataLoader(Stream()),
    torch.utils.data.DataLoader(tensors(), batch_sampler=[[0, 1], [2]]),
    ss.DataLoader(Stream(), 2),
])
def test_loader_without_indices_is_refused_with_remedy(loader):
    with pytest.raises(ss.Refused, match="feature cache"):
        ss.Pipeline(loader, [stage(KEYED)], "cpu")


@pytest.mark.parametrize(("stages", "message"), [
    ([ss.Stage("double", lambda x: x * 2, cache="auto")], "'double' is no torch.nn.Module.*FeatureCache\\(key="),
    ([ss.Stage("first", lambda x: x * 2), stage()], "'first' is no torch.nn.Module"),
    ([stage(seed=1)], "'encode' has a seed"),
    ([ss.Stage("crop", ss.transforms.RandomCrop(4)), stage()], "'crop' is a random transform"),
    ([ss.Stage("first", nn.Identity().eval(), cache="auto"), stage()], "'first' and 'encode' have a cache"),
])
def test_stage_is_refused_with_remedy(stages, message):
    with pytest.raises(ss.Refused, match=message):
        ss.Pipeline(torch_loader(tensors()), stages, "cpu")


@pytest.mark.parametrize(("arguments", "message"), [
    ({"versions": 0}, "versions is 0"), ({"device_memory": "much"}, "device_memory is 'much'"),
    ({"dtype": "int3"}, "dtype is 'int3'"), ({"key": 3}, "key is 3"), ({"budget": "1 GB"}, "budget limits"),
    ({"pinned_memory": -1}, "pinned_memory is -1"), ({"seed": -1}, "seed is -1"),
])
def test_arguments_are_refused_with_remedy(arguments, message):
    with pytest.raises(ss.Refused, match=message):
        ss.FeatureCache(**arguments)
    with pytest.raises(ss.Refused, match="stage 'encode': cache is 'disk'"):
        stage("disk")


@pytest.mark.parametrize("workers", [0, 1])
def test_unknown_random_transform_is_refused_when_a_sample_is_read(workers):
    pipe = ss.Pipeline(torch_loader(Images(noisy), num_workers=workers), [stage(KEYED)], "cpu")
    with pytest.raises(ss.Refused, match="reading a sample uses a random generator.*versions=4"):
        next(iter(pipe))


def mixing(samples):
    images, labels = torch.utils.data.default_collate(samples)
    return images.roll(1, 0) * torch.rand(()) + images, labels


@pytest.mark.parametrize("make", [torch.utils.data.DataLoader, ss.DataLoader])
@pytest.mark.parametrize("workers", [0, 1])
def test_random_collate_function_is_refused(make, workers):
    loader = make(tensors(), 5, collate_fn=mixing, num_workers=workers)
    with pytest.raises(ss.Refused, match="collate_fn uses a random generator"):
        next(iter(ss.Pipeline(loader, [stage()], "cpu")))


@pytest.mark.parametrize("workers", [0, 2])
def test_versions_alternate_and_keep_the_random_numbers_of_the_program(device, workers):
    cache = ss.FeatureCache(versions=2, key="noisy")
    loader = torch_loader(Images(noisy), shuffle=False, num_workers=workers)
    found = epochs(pipeline(loader, encoder(device), cache, device), 4)
    numbers = epochs(pipeline(torch_loader(Images(), shuffle=False), encoder(device), None, device), 4)
    features = [[batch[0] for batch in epoch] for epoch in found]
    assert same(features[0], features[2]) and same(features[1], features[3])
    assert not same(features[0], features[1])
    assert same([[batch[2] for batch in epoch] for epoch in found], [[batch[2] for batch in each] for each in numbers])


def test_versions_do_not_depend_on_workers_or_seeds_of_the_program(device):
    found = []
    for workers, seed in ((0, 5), (2, 6), (0, 7)):
        cache = ss.FeatureCache(versions=2, key="noisy", seed=int(seed == 7))
        loader = torch_loader(Images(noisy), shuffle=False, num_workers=workers)
        made = epochs(pipeline(loader, encoder(device), cache, device), 2, seed)
        found.append([[features for features, _, _ in epoch] for epoch in made])
    assert same(found[0], found[1])
    assert not same(found[0], found[2])


def changed_by(change, device="cpu"):
    """Returns the batch sizes of the encoder in the epoch after a change, and the reported changes."""
    encode = CountedModule(encoder(device)).eval()
    pipe = pipeline(torch_loader(tensors(10), shuffle=False), encode, "auto", device)
    epochs(pipe, 2)
    encode.sizes.clear()
    with torch.no_grad():
        change(encode.module)
    made = epochs(pipe, 1)
    plain = epochs(pipeline(torch_loader(tensors(10), shuffle=False), encode.module, None, device), 1)
    assert same(made, plain)
    return len(encode.sizes), pipe.stages[0].cache.report()["changes"]


def replace(module):
    module[2] = nn.Conv2d(8, 2, 3).requires_grad_(False).eval().to(module[0].weight.device)
    module[2].weight.round_()
    module[2].bias.round_()


@pytest.mark.parametrize(("change", "part"), [
    (lambda module: module[0].weight[0].add_(1), "weights of stage 'encode'"),
    (replace, "stage 'encode', weights of stage 'encode'"),
])
def test_changed_stage_drops_entries(device, change, part):
    computed, changes = changed_by(change, device)
    assert computed == 2
    assert changes == [f"changed: {part}"]


def test_weights_written_with_the_same_values_keep_entries(device):
    assert changed_by(lambda module: module[0].weight.copy_(module[0].weight.clone()), device) == (0, [])


@pytest.mark.parametrize(("get", "set_to", "value", "part"), [
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "high", "precision"),
    (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms, True, "deterministic"),
    (torch.get_num_threads, torch.set_num_threads, 3, "threads"),
])
def test_changed_setting_of_pytorch_drops_entries(get, set_to, value, part):
    before = get()
    try:
        computed, changes = changed_by(lambda module: set_to(value))
    finally:
        set_to(before)
    assert (computed, changes) == (2, [f"changed: {part}"])


def test_settings_of_a_gpu_are_in_the_key(device):
    described = keys.describe_settings(f"{device}:0" if device == "cuda" else device)
    assert described["slipstream"] == ss.__version__
    assert ("cudnn" in described) == ("attention" in described) == (device == "cuda")


def test_changed_tensors_of_the_data_set_drop_entries(device):
    data = tensors(10)
    pipe = pipeline(torch_loader(data), encoder(device), "auto", device)
    epochs(pipe, 2)
    data.tensors[0][3] += 1
    plain = pipeline(torch_loader(data), encoder(device), None, device)
    assert same(epochs(pipe, 2), epochs(plain, 2))
    assert pipe.stages[0].cache.report()["changes"] == ["changed: data set"]


def test_changed_sample_of_a_list_is_computed_again(device):
    data = [(image, int(label)) for image, label in tensors(10)]
    encode = CountedModule(encoder(device)).eval()
    pipe = pipeline(torch_loader(data, shuffle=False), encode, "auto", device)
    epochs(pipe, 2)
    encode.sizes.clear()
    data[3][0].add_(1)
    plain = pipeline(torch_loader(data, shuffle=False), encode.module, None, device)
    assert same(epochs(pipe, 2), epochs(plain, 2))
    assert encode.sizes == [5]
    assert pipe.stages[0].cache.report()["changes"] == ["changed samples of the data set: 1"]


@pytest.mark.parametrize("sampler", [[3, 40], [-1, 2], ["a", "b"]])
def test_samples_that_are_no_indices_are_refused(sampler):
    loader = torch.utils.data.DataLoader(tensors(), 2, sampler=sampler)
    with pytest.raises(ss.Refused, match="the sampler gives the batch"):
        next(iter(ss.Pipeline(loader, [stage()], "cpu")))


def test_left_iteration_ends_with_an_error_after_the_weights_change(device):
    pipe = pipeline(torch_loader(tensors()), encoder(device), "auto", device, plan="serial")
    epochs(pipe, 1)
    left = iter(pipe)
    next(left)
    with torch.no_grad():
        pipe.stages[0].function[0].weight.add_(1)
    epochs(pipe, 1)
    with pytest.raises(ss.Error, match="features of this iteration were dropped"):
        list(left)


def test_shared_cache_keeps_entries_of_different_stages_apart(device):
    cache = ss.FeatureCache()
    other = encoder(device)
    with torch.no_grad():
        other[0].weight.mul_(2)
    pipes = [pipeline(torch_loader(tensors(), shuffle=False), each, cache, device) for each in (encoder(device), other)]
    plain = [pipeline(torch_loader(tensors(), shuffle=False), each, None, device) for each in (encoder(device), other)]
    for _ in range(2):
        for ours, theirs in zip(pipes, plain, strict=True):
            assert same(epochs(ours, 1), epochs(theirs, 1))
    again = CountedModule(encoder(device)).eval()
    assert cache.report()["misses"] == 70
    assert same(epochs(pipeline(torch_loader(tensors()), again.module, cache, device), 1),
                epochs(pipeline(torch_loader(tensors()), encoder(device), None, device), 1))
    assert cache.report()["misses"] == 70 + 2  # samples that drop_last left out


@pytest.mark.parametrize("make", [tensors, lambda samples: Images()])
def test_parts_of_a_data_set_with_one_cache_are_kept_apart(device, make):
    data, cache = make(20), ss.FeatureCache(key="x")
    parts = [torch.utils.data.Subset(data, range(10)), torch.utils.data.Subset(data, range(10, 20))]
    pipes = [pipeline(torch_loader(each, shuffle=False), encoder(device), cache, device) for each in parts]
    plain = [pipeline(torch_loader(each, shuffle=False), encoder(device), None, device) for each in parts]
    for _ in range(2):
        for ours, theirs in zip(pipes, plain, strict=True):
            assert same(epochs(ours, 1), epochs(theirs, 1))


@pytest.mark.parametrize("data", [
    torch.utils.data.ConcatDataset([tensors(5), tensors(7)]), torch.utils.data.ConcatDataset([Images(), Images()]),
    torch.utils.data.Subset(Images(), [3, 1, 4]), ss.ConcatDataset([Images(), ss.Subset(Images(), [2, 3])])])
def test_samples_of_a_data_set_have_different_digests(data):
    identity = keys.identify(data, "x")
    assert len(set(identity.samples)) == len(data) == len(identity.samples)


def test_subset_has_the_digests_of_its_samples():
    whole = keys.identify(tensors(9), None)
    part = keys.identify(torch.utils.data.Subset(tensors(9), [3, 1]), None)
    assert part.samples == [whole.samples[3], whole.samples[1]]


def test_autocast_is_part_of_the_key(device):
    cache = ss.FeatureCache()
    pipe = pipeline(torch_loader(tensors(), shuffle=False), encoder(device), cache, device)
    plain = pipeline(torch_loader(tensors(), shuffle=False), encoder(device), None, device)
    for enabled in (False, True, True):
        with torch.autocast(device, torch.bfloat16, enabled=enabled):
            assert same(epochs(pipe, 1), epochs(plain, 1))
    assert cache.report()["changes"] == ["changed: autocast"]


def test_autocast_after_the_begin_is_refused(device):
    iteration = iter(pipeline(torch_loader(tensors()), encoder(device), "auto", device))
    with torch.autocast(device, torch.bfloat16), pytest.raises(ss.Error, match=r"torch.autocast was entered or left"):
        next(iteration)


@pytest.mark.parametrize(("batch", "message"), [
    (lambda x: (x, torch.zeros(3)), r"tensor of shape \(3,\)"),
    (lambda x: (x, torch.tensor(1)), "first dimension is the batch"),
    (lambda x: (x, "train"), "object of type str"),
    (lambda x: (x, x.to_sparse()), "sparse"),
])
def test_batch_without_a_row_for_each_sample_is_refused(batch, message):
    loader = torch.utils.data.DataLoader(tensors(), 5, collate_fn=lambda samples: batch(
        torch.stack([image for image, _ in samples])))
    with pytest.raises(ss.Error, match=message):
        next(iter(ss.Pipeline(loader, [stage(ss.FeatureCache(key="x"))], "cpu")))


class Elsewhere(nn.Module):
    def forward(self, x):
        return x.to("meta")


def test_features_on_another_device_are_refused():
    pipe = pipeline(torch_loader(tensors()), Elsewhere().eval(), "auto", "cpu")
    with pytest.raises(ss.Error, match="tensor on meta, and the pipeline runs on cpu"):
        next(iter(pipe))


def test_rows_of_other_shapes_are_refused():
    samples = [(torch.ones(3, 8, 8 if i < 10 else 9), i) for i in range(20)]
    pipe = ss.Pipeline(torch.utils.data.DataLoader(samples, 5), [stage()], "cpu")
    with pytest.raises(ss.Error, match="rows of shape.*pad them to one shape"):
        list(pipe)


def test_description_contains_values_that_a_transform_uses():
    assert keys.describe(v2.Resize(8)) != keys.describe(v2.Resize(9))
    assert keys.describe(v2.Compose([v2.Resize(8)])) == keys.describe(v2.Compose([v2.Resize(8)]))
    assert keys.describe(ss.transforms.CenterCrop(8)) != keys.describe(ss.transforms.CenterCrop(9))

    def scaled(by):
        return lambda image: image * by

    assert keys.describe(scaled(2)) == keys.describe(scaled(2)) != keys.describe(scaled(3))
    with pytest.raises(keys.NeedsKey):
        keys.describe(object())


class Scaled(nn.Module):
    def __init__(self, by):
        super().__init__()
        self.by = by

    def forward(self, x):
        return x * self.by


def test_scripts_with_other_code_have_other_digests():
    first, second = (torch.jit.freeze(torch.jit.script(Scaled(by).eval())) for by in (2, 3))
    assert keys.module_digest(first) != keys.module_digest(second)


def test_compiled_module_has_another_key():
    module = nn.Linear(2, 2)
    assert keys.describe_module(torch.compile(module)) != keys.describe_module(module)
    assert keys.describe_module(torch.compile(module)) == keys.describe_module(torch.compile(module))
    for options in ({"dynamic": True}, {"mode": "reduce-overhead"}, {"backend": "eager"}):
        assert keys.describe_module(torch.compile(module)) != keys.describe_module(torch.compile(module, **options))
