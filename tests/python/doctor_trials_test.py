"""Changes that slipstream.doctor makes for real: the loaders it creates for them, and the code that it prints."""

import types

import pytest
import torch
from PIL import Image
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, SequentialSampler, default_collate
from torchvision import datasets
from torchvision.transforms import v2

import slipstream as ss
from slipstream import _native
from slipstream._doctor import trials
from slipstream._doctor.loaders import Loaders
from slipstream._doctor.parts import Parts, find_sites
from slipstream._doctor.port import port

FIXED = v2.Compose([v2.Resize(24), v2.CenterCrop(16), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])


class Photos(torch.utils.data.Dataset):
    def __init__(self, transform):
        self.transform = transform

    def __len__(self):
        return 12

    def __getitem__(self, index):
        levels = (torch.arange(40 * 30 * 3).view(40, 30, 3) * (index + 1) % 251).to(torch.uint8)
        return self.transform(Image.fromarray(levels.numpy())), index


@pytest.fixture
def folder(tmp_path):
    for number in range(6):
        path = tmp_path / f"class{number % 2}" / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        levels = (torch.arange(40 * 30 * 3).view(40, 30, 3) * (number + 1) % 251).to(torch.uint8)
        Image.fromarray(levels.numpy()).save(path)
    return tmp_path


def ported(loader, kept=0):
    loaders = Loaders(loader, False)
    transforms = [site for site in find_sites(loaders.dataset) if site.attribute == "transform"]
    return port(loaders, Parts(loaders.dataset, transforms), "loader", "cpu", 1, kept)


def run_code(code, loader):
    names = {"loader": loader}
    exec(code, names)
    return names["loader"]


def assert_close_batches(ours, theirs):
    """Compares batches whose images may differ by one level, because resizing rounds in another way."""
    assert len(ours) == len(theirs) > 0
    for (images, labels), (wanted, wanted_labels) in zip(ours, theirs, strict=True):
        assert images.dtype == wanted.dtype and torch.equal(labels, wanted_labels)
        assert (images - wanted).abs().max() <= 1.01 / 255


def test_port_of_image_folder_reads_it_natively_with_the_same_batches(folder):
    loader = DataLoader(datasets.ImageFolder(folder, FIXED), batch_size=2)
    made = ported(loader)
    assert isinstance(made.loader.dataset, ss.ImageFolder) and "ss.ImageFolder(loader.dataset.root" in made.code
    assert_close_batches(list(made.loader), list(loader))
    own = run_code(made.code, loader)
    assert isinstance(own, ss.DataLoader) and own.num_workers == 1
    assert_close_batches(list(own), list(loader))


@pytest.mark.parametrize("kept", [0, 2])
def test_port_of_python_data_set_gives_the_same_batches(kept):
    loader = DataLoader(Photos(FIXED), batch_size=4)
    made = ported(loader, kept)
    assert isinstance(made.loader.dataset, ss.PythonDataset)
    assert ("apply 'CenterCrop'" in made.described) == (kept == 2)
    assert_close_batches(list(made.loader), list(loader))
    own = run_code(made.code, loader)
    assert_close_batches(list(own), list(loader))
    assert loader.dataset.transform is FIXED  # the code and the doctor use copies


def test_port_reaches_the_transform_inside_of_a_subset():
    loader = DataLoader(torch.utils.data.Subset(Photos(FIXED), [3, 1, 2]), batch_size=3)
    made = ported(loader)
    assert_close_batches(list(run_code(made.code, loader)), list(loader))
    assert_close_batches(list(made.loader), list(loader))


def test_port_keeps_order_and_settings():
    shuffled = DataLoader(Photos(FIXED), batch_size=4, shuffle=True, drop_last=True)
    own = run_code(ported(shuffled).code, shuffled)
    assert isinstance(own.sampler, RandomSampler) and own.drop_last and own.batch_size == 4
    sampler = BatchSampler(SequentialSampler(range(0, 12)), 5, False)
    loader = DataLoader(Photos(FIXED), batch_sampler=sampler)
    own = run_code(ported(loader).code, loader)
    assert own.batch_sampler is sampler and [len(labels) for _, labels in own] == [5, 5, 2]


class Stream(IterableDataset):
    def __iter__(self):
        return iter([1, 2])


class Loader(DataLoader):
    pass


@pytest.mark.parametrize(
    ("loader", "reason"),
    [
        (lambda: DataLoader(Photos(FIXED), collate_fn=lambda samples: default_collate(samples)), "own collate_fn"),
        (lambda: DataLoader(Stream()), "iterable-style"),
        (lambda: Loader(Photos(FIXED)), "subclass"),
        (lambda: DataLoader(Photos(FIXED), batch_size=None), "single samples"),
        (lambda: DataLoader(range(3)), "attribute .transform alone"),
    ],
)
def test_port_is_refused_with_the_reason(loader, reason):
    with pytest.raises(ss.Refused, match=reason):
        ported(loader())


def test_first_transforms_are_not_kept_unless_the_transform_is_a_compose():
    with pytest.raises(ss.Refused, match="not a Compose"):
        ported(DataLoader(Photos(v2.Compose([FIXED])), batch_size=2), 1)


def collate(samples):
    return samples


@pytest.mark.parametrize(
    "settings",
    [
        {"batch_size": 4, "shuffle": True, "drop_last": True},
        {"batch_size": 4, "sampler": SequentialSampler(range(12)), "collate_fn": collate},
        {"batch_sampler": BatchSampler(SequentialSampler(range(12)), 3, False)},
        {"batch_size": None, "num_workers": 2, "prefetch_factor": 3, "timeout": 7, "generator": torch.Generator()},
        {"batch_size": 2, "num_workers": 1, "pin_memory": True, "persistent_workers": True},
    ],
)
def test_rebuilt_loader_has_all_other_settings(settings):
    loader = DataLoader(list(range(12)), **settings)
    own = run_code(trials.rebuilt(loader, "loader", {"num_workers": 3}), loader)
    assert own is not loader and own.num_workers == 3
    for name in ("batch_size", "drop_last", "collate_fn", "pin_memory", "timeout", "generator", "persistent_workers"):
        assert getattr(own, name) == getattr(loader, name), name
    if "batch_sampler" in settings:
        assert own.batch_sampler is loader.batch_sampler
    else:
        assert own.sampler is loader.sampler


class Rate:
    """A rate with a stated value."""

    def __init__(self, value, error=None):
        self.value, self.error, self.turns = value, error, 0

    def measure(self, time):
        self.turns += 1
        if self.error:
            raise self.error

    def rate(self):
        return _native.Measured(self.value, 0.95 * self.value, 1.05 * self.value, "steps/s", 9 if self.turns else 0)


def rank(diagnosis):
    """Sorts and selects as the native function does for changes of one effort."""
    gains = {id(each): (each.measured_gain if each.measured.n else each.gain).value for each in diagnosis.changes}
    kept = [each for each in diagnosis.changes if gains[id(each)] >= _native.LEAST_GAIN]
    diagnosis.changes = sorted(kept, key=lambda each: -gains[id(each)])


def try_out(monkeypatch, rates, budget_s=60.0, unchanged=10.0):
    """Runs try_out() with changes of these ids and rates. Returns the changes and warnings afterwards."""
    monkeypatch.setattr(_native, "rank_changes", rank)
    changes = [
        types.SimpleNamespace(id=name, description=name, gain=_native.Measured(2 - i / 10), measured=_native.Measured(),
                              measured_gain=_native.Measured(), code="")
        for i, name in enumerate(rates)
    ]
    made = [trials.Trial(each, list, f"# {each.id}", training=rates[each.id]) for each in changes if rates[each.id]]
    monkeypatch.setattr(trials._Trials, "possible", lambda self, changes: made)
    parts = types.SimpleNamespace(parts=None)
    measurements = types.SimpleNamespace(loaders=None, samples=parts, warnings=[], whole_rate=lambda: Rate(unchanged))
    diagnosis = types.SimpleNamespace(rate=_native.Measured(10), changes=changes)
    trials.try_out(measurements, diagnosis, "loader", budget_s)
    return diagnosis.changes, measurements.warnings


def test_measured_gains_decide_the_order(monkeypatch):
    changes, warnings = try_out(monkeypatch, {"a": Rate(13.0), "b": Rate(25.0), "c": None})
    assert [each.id for each in changes] == ["b", "c", "a"] and not warnings
    assert changes[0].measured.value == 25 and changes[0].measured_gain.value == pytest.approx(2.5)
    assert changes[0].code == "# b" and changes[1].measured.n == 0


def test_changes_that_fail_or_do_not_gain_are_not_advised(monkeypatch):
    rates = {"a": Rate(20.0, ValueError("no such file")), "b": Rate(9.0), "c": Rate(20.0)}
    changes, warnings = try_out(monkeypatch, rates)
    assert [each.id for each in changes] == ["c"]
    assert warnings == [
        "tried without success: a (ValueError: no such file)",
        "tried without a gain: b: 0.90 [0.81, 0.99] times as fast",
    ]
    assert rates["a"].turns == 1  # a change that failed is not tried again


def test_nothing_is_tried_without_time(monkeypatch):
    rates = {"a": Rate(20.0)}
    changes, _ = try_out(monkeypatch, rates, budget_s=0.5)
    assert [each.measured.n for each in changes] == [0] and rates["a"].turns == 0


def test_reordered_crop_gives_the_same_images():
    chain = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.CenterCrop(16)])
    loader = DataLoader(Photos(chain), batch_size=4)
    loaders = Loaders(loader, False)
    measurements = types.SimpleNamespace(
        loaders=loaders, samples=types.SimpleNamespace(parts=Parts(loaders.dataset)), crop=("CenterCrop", "ToDtype")
    )
    trial = trials._Trials(measurements, "loader")._crop_first(None)
    batches = iter(trial.make())
    wanted = list(loader)
    assert all(torch.equal(next(batches)[0], images) for images, _ in wanted)
    run_code(trial.code, loader)
    assert [type(each).__name__ for each in chain.transforms] == ["ToImage", "CenterCrop", "ToDtype"]
    assert all(torch.equal(ours[0], images) for ours, (images, _) in zip(loader, wanted, strict=True))


def test_doctor_tries_changes_and_leaves_the_objects_of_the_user_alone():
    torch.manual_seed(1)
    model = torch.nn.Linear(16 * 16 * 3, 2)
    mine = DataLoader(Photos(FIXED), batch_size=4, shuffle=True)
    before, state = [each.clone() for each in model.parameters()], torch.get_rng_state()

    def step(batch):
        model(batch[0].flatten(1)).sum().backward()

    report = ss.doctor(mine, step, device="cpu", budget=4)
    assert mine.dataset.transform is FIXED and torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(now, then) for now, then in zip(model.parameters(), before, strict=True))
    for each in report.advice:
        assert (each.measured is None) == (each.code == "")
        if each.code:
            assert "mine = " in each.code  # the name of the variable here
            exec(each.code, names := {"mine": mine})
            assert next(iter(names["mine"]))[0].shape == (4, 3, 16, 16)


def test_doctor_tries_nothing_out_if_told_so(monkeypatch):
    monkeypatch.setattr(trials, "try_out", lambda *_: pytest.fail("a change was tried out"))
    ss.doctor(DataLoader([torch.ones(1)] * 8, batch_size=2), lambda batch: batch, device="cpu", budget=0.5, try_out=False)
