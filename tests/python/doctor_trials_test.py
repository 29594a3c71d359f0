"""Changes that slipstream.doctor tries out: the loaders it creates for them, and the code that it prints."""

import functools
import sys
import types

import pytest
import torch
from PIL import Image
from pipelines import sleep, stated_time  # noqa: F401
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, SequentialSampler, default_collate
from torchvision import datasets
from torchvision.transforms import v2

import slipstream as ss
from slipstream import _native
from slipstream._doctor import trials
from slipstream._doctor.loaders import Loaders
from slipstream._doctor.parts import Parts, Step, find_sites
from slipstream._doctor.port import port
from slipstream._doctor.routes import PipelineRoute, PlainRoute

NAMES = trials.Names("loader", "loader")
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


def only_first(path):
    return path.endswith(("0.png", "1.png"))


def without_last_sample(folder):
    data = datasets.ImageFolder(folder, FIXED)
    del data.samples[-1]
    return data


def with_a_file_of_another_format(folder):
    (folder / "class0" / "0.png").rename(folder / "class0" / "0.gif")
    return datasets.ImageFolder(folder, FIXED)


def with_an_empty_class(folder):
    (folder / "class2").mkdir()
    return datasets.ImageFolder(folder, FIXED, allow_empty=True)


@pytest.mark.parametrize("make", [
    lambda folder: datasets.ImageFolder(folder, FIXED, is_valid_file=only_first),
    without_last_sample,
    with_a_file_of_another_format,
    with_an_empty_class,
])
def test_image_folder_with_other_samples_than_the_native_one_is_read_in_python(folder, make):
    loader = DataLoader(make(folder), batch_size=2, drop_last=True)
    made = ported(loader)
    assert isinstance(made.loader.dataset, ss.PythonDataset)
    assert_close_batches(list(made.loader), list(loader))


@pytest.mark.parametrize("sampler", [
    RandomSampler(range(12), replacement=True),
    RandomSampler(range(12), num_samples=8),
    RandomSampler(range(6), num_samples=12),
    RandomSampler(range(6)),
    SequentialSampler(range(6)),
], ids=["replacement", "num_samples", "repeated", "shorter", "sequential and shorter"])
def test_port_uses_the_sampler_if_it_does_not_list_each_sample_once(sampler):
    loader = DataLoader(Photos(FIXED), batch_size=2, sampler=sampler)
    made = ported(loader)
    own = run_code(made.code, loader)
    assert own.batch_sampler is loader.batch_sampler and not made.is_sequential
    batches = list(made.loader)
    assert len(batches) == len(loader)
    labels = torch.cat([labels for _, labels in batches]).tolist()
    assert max(labels) < len(sampler.data_source)


@pytest.mark.parametrize(("settings", "expected"), [
    ({"batch_size": 2}, True),
    ({"batch_sampler": BatchSampler(SequentialSampler(range(12)), 5, False)}, True),
    ({"batch_size": 2, "shuffle": True}, False),
    ({"batch_sampler": [[3, 1], [0, 2]]}, False),
])
def test_port_knows_if_samples_are_in_the_order_of_the_data_set(settings, expected):
    assert ported(DataLoader(Photos(FIXED), **settings)).is_sequential == expected


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
        {"batch_size": 2, "num_workers": 1, "in_order": False, "pin_memory_device": "cpu"},
    ],
)
def test_rebuilt_loader_has_all_other_settings(settings):
    loader = DataLoader(list(range(12)), **settings)
    own = run_code(trials.rebuilt(loader, "loader", {"num_workers": 3}), loader)
    assert own is not loader and own.num_workers == 3
    for name in ("batch_size", "drop_last", "collate_fn", "pin_memory", "timeout", "generator", "persistent_workers",
                 "in_order", "pin_memory_device"):
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


def try_out(monkeypatch, rates, budget_s=60.0, unchanged=Rate(10.0), names=NAMES):
    """Runs try_out() with changes of these ids and rates. Returns the changes and warnings afterwards."""
    monkeypatch.setattr(_native, "rank_changes", rank)
    changes = [
        types.SimpleNamespace(id=name, description=name, gain=_native.Measured(2 - i / 10), measured=_native.Measured(),
                              measured_gain=_native.Measured(), code="")
        for i, name in enumerate(rates)
    ]
    made = [trials.Trial(each, list, f"# {each.id}", training=rates[each.id]) for each in changes if rates[each.id]]
    monkeypatch.setattr(trials._Trials, "possible", lambda self, changes, most: made[:most])
    parts = types.SimpleNamespace(parts=None)
    measurements = types.SimpleNamespace(
        loaders=None, samples=parts, route=None, warnings=[], whole_rate=lambda: unchanged
    )
    diagnosis = types.SimpleNamespace(rate=_native.Measured(10), changes=changes)
    trials.try_out(measurements, diagnosis, names, budget_s)
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


def test_change_that_no_turn_measured_is_left_as_predicted(monkeypatch):
    never = Rate(20.0)
    never.measure = lambda time: None
    changes, warnings = try_out(monkeypatch, {"a": never})
    assert [(each.id, each.measured.n, each.code) for each in changes] == [("a", 0, "")]
    assert warnings == ["not measured in time: a"]


def test_rate_without_a_useful_interval_is_no_result(monkeypatch):
    class Wide(Rate):
        def rate(self):
            return _native.Measured(self.value, 0, 2 * self.value, "steps/s", 1)

    changes, warnings = try_out(monkeypatch, {"a": Wide(30.0), "b": Rate(25.0)})
    assert [(each.id, each.code) for each in changes] == [("b", "# b"), ("a", "")]
    assert warnings == ["not measured in time: a"]


def test_error_of_the_unchanged_loop_leaves_all_changes_as_predicted(monkeypatch):
    rates = {"a": Rate(20.0), "b": Rate(5.0)}
    changes, warnings = try_out(monkeypatch, rates, unchanged=Rate(10.0, OSError("no space left")))
    assert [(each.id, each.measured.n) for each in changes] == [("a", 0), ("b", 0)]
    assert warnings == ["no change was tried out: OSError: no space left"]


def test_code_states_what_the_variable_is_if_the_user_has_none(monkeypatch):
    changes, _ = try_out(monkeypatch, {"a": Rate(20.0)}, names=trials.Names("loader", "loader", comment="# given\n"))
    assert changes[0].code == "# given\n# a"
    assert sys.modules["slipstream.doctor"]._names(DataLoader([1])).comment == "# loader: the loader that was given to slipstream.doctor()\n"


def stated_trials(monkeypatch, ids):
    """Returns _Trials, changes of these ids, each of which has a trial, and a list of the trials that were created."""
    created = []
    measurements = types.SimpleNamespace(
        loaders=None,
        samples=types.SimpleNamespace(parts=None),
        make_rate=lambda make, workers: (make, workers),
        route=None,
    )

    def make(self, change):
        created.append(change.id)
        return trials.Trial(change, list, "", workers=change.number)

    for each in ids:
        monkeypatch.setattr(trials._Trials, f"_{each}", make, raising=False)
    changes = [types.SimpleNamespace(id=each, number=number) for number, each in enumerate(ids)]
    return trials._Trials(measurements, NAMES), changes, created


def test_only_the_trials_that_are_measured_are_created(monkeypatch):
    made, changes, created = stated_trials(monkeypatch, ["a", "b", "c"])
    assert [trial.training for trial in made.possible(changes, 2)] == [(list, 1), (list, 1)]
    assert created == ["a", "b"]


def test_nothing_is_created_or_tried_without_time(monkeypatch):
    rates = {"a": Rate(20.0)}
    changes, _ = try_out(monkeypatch, rates, budget_s=0.5)
    assert [each.measured.n for each in changes] == [0] and rates["a"].turns == 0
    monkeypatch.setattr(trials._Trials, "possible", lambda *_: pytest.fail("trials were created"))
    diagnosis = types.SimpleNamespace(rate=_native.Measured(10), changes=[])
    trials.try_out(None, diagnosis, "loader", 0.5)


def test_trial_of_more_workers_is_measured_with_their_number():
    loader = DataLoader(Photos(FIXED), batch_size=4, num_workers=1)
    samples = types.SimpleNamespace(parts=None)
    measurements = types.SimpleNamespace(loaders=Loaders(loader, False), samples=samples, workers=1, route=None)
    made = trials._Trials(measurements, NAMES)
    change = types.SimpleNamespace(id="num_workers", number=3)
    assert made._num_workers(change).workers == 3 and made._pinning(change).workers == 1


def test_trial_of_the_pipelined_plan_is_measured_with_the_workers_of_the_loader():
    loader = DataLoader(Photos(FIXED), batch_size=4, num_workers=3)
    measurements = types.SimpleNamespace(
        loaders=Loaders(loader, False), samples=types.SimpleNamespace(parts=None), workers=3, device="cpu",
        route=PipelineRoute(ss.Pipeline(loader, plan="serial")),
    )
    assert trials._Trials(measurements, NAMES)._pipelining(None).workers == 3


def test_reordered_crop_gives_the_same_images():
    chain = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.CenterCrop(16)])
    loader = DataLoader(Photos(chain), batch_size=4)
    loaders = Loaders(loader, False)
    measurements = types.SimpleNamespace(
        loaders=loaders, samples=types.SimpleNamespace(parts=Parts(loaders.dataset)), crop=("CenterCrop", "ToDtype"),
        workers=0, route=PlainRoute("cpu"),
    )
    trial = trials._Trials(measurements, NAMES)._crop_first(None)
    batches = iter(trial.make())
    wanted = list(loader)
    assert all(torch.equal(next(batches)[0], images) for images, _ in wanted)
    run_code(trial.code, loader)
    assert [type(each).__name__ for each in chain.transforms] == ["ToImage", "CenterCrop", "ToDtype"]
    assert all(torch.equal(ours[0], images) for ours, (images, _) in zip(loader, wanted, strict=True))


class Flipped(torch.utils.data.Dataset):
    """Changes the image after its transform, which the port does before."""

    def __init__(self, transform):
        self.transform = transform

    def __len__(self):
        return 4

    def __getitem__(self, index):
        image = torch.arange(3 * 8 * 8, dtype=torch.uint8).view(3, 8, 8)
        return self.transform(image).flip(-1), index


def checked_port(dataset, **settings):
    loader = DataLoader(dataset, batch_size=4, **settings)
    loaders = Loaders(loader, False)
    transforms = [site for site in find_sites(loaders.dataset) if site.attribute == "transform"]
    samples = types.SimpleNamespace(parts=Parts(loaders.dataset, transforms))
    measurements = types.SimpleNamespace(
        loaders=loaders, samples=samples, device="cpu", route=None, first_batch=lambda: next(iter(loader))
    )
    return trials._Trials(measurements, NAMES)._port(0)


def test_port_with_other_values_is_refused():
    assert isinstance(checked_port(Flipped(v2.CenterCrop(4))).loader, ss.DataLoader)
    with pytest.raises(ss.Refused, match="its batches would have other values"):
        checked_port(Flipped(v2.Pad((4, 0, 0, 0))))
    # The order is not known, so that values cannot be compared.
    assert isinstance(checked_port(Flipped(v2.Pad((4, 0, 0, 0))), shuffle=True).loader, ss.DataLoader)


def test_values_of_batches_are_compared_except_for_random_ones():
    images, labels = torch.linspace(0, 1, 4 * 3 * 8 * 8).view(4, 3, 8, 8), torch.arange(4)
    fixed, is_random = [Step("data set"), Step("crop")], [Step("data set"), Step("crop", is_random=True)]
    for ours, expected, expected_if_random in [
        ([images + 0.004, labels], True, True),
        ([images[:2], labels[:2]], True, True),
        ([images.flip(3).flip(2), labels], False, True),
        ([images, labels + 1], False, False),
    ]:
        assert trials._has_values_of(ours, [images, labels], fixed) == expected
        assert trials._has_values_of(ours, [images, labels], is_random) == expected_if_random
    assert trials._has_values_of([images, labels + 1], [images, labels], [Step("data set", is_random=True)])
    assert not trials._has_values_of({"name": "a"}, {"name": "b"}, fixed)


def test_code_uses_a_variable_of_the_user_without_leading_underscore(monkeypatch):
    given = []
    monkeypatch.setattr(trials, "try_out", lambda measurements, diagnosis, names, *_: given.append(names))

    def examine(loader):
        ss.doctor(loader, lambda batch: batch, device="cpu", budget=0.5)

    _last = DataLoader([torch.ones(1)] * 8, batch_size=2)
    mine = _last
    ss.doctor(mine, lambda batch: batch, device="cpu", budget=0.5)
    del mine
    ss.doctor(_last, lambda batch: batch, device="cpu", budget=0.5)
    examine(_last)
    assert [names.loop for names in given] == ["mine", "loader", "loader"]
    assert [bool(names.comment) for names in given] == [False, True, False]


def test_doctor_tries_changes_and_leaves_the_objects_of_the_user_alone(stated_time):
    torch.manual_seed(1)
    model = torch.nn.Linear(16 * 16 * 3, 2)
    chain = v2.Compose([*FIXED.transforms, functools.partial(sleep, seconds=0.05)])
    mine = DataLoader(Photos(chain), batch_size=4, shuffle=True)
    before, state = [each.clone() for each in model.parameters()], torch.get_rng_state()

    def step(batch):
        model(batch[0].flatten(1)).sum().backward()
        sleep(batch, 0.01)

    report = ss.doctor(mine, step, device="cpu", budget=40)
    assert mine.dataset.transform is chain and torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(now, then) for now, then in zip(model.parameters(), before, strict=True))
    assert any(each.code for each in report.advice)
    for each in report.advice:
        assert (each.measured is None) == (each.code == "")
        if each.code:
            assert "mine = " in each.code  # the name of the variable here
            exec(each.code, names := {"mine": mine})
            assert next(iter(names["mine"]))[0].shape == (4, 3, 16, 16)


def test_nothing_is_tried_out_with_try_out_false(monkeypatch):
    monkeypatch.setattr(trials, "try_out", lambda *_: pytest.fail("a change was tried out"))
    ss.doctor(DataLoader([torch.ones(1)] * 8, batch_size=2), lambda batch: batch, device="cpu", budget=0.5, try_out=False)
