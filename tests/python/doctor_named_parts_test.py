"""slipstream.part, the argument `parts` of slipstream.doctor, and functions whose calls are timed without help."""

import io
import json
import pickle
import sys
import threading
import types

import numpy as np
from PIL import Image, ImageFile
from pipelines import Compose, Images, double, slow, stated_time  # noqa: F401, a fixture
import pipelines
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, default_collate

import slipstream as ss
from slipstream._doctor import clock as clock_module, known_calls as known_calls_module
from slipstream._doctor.clock import Clock, in_order
from slipstream._doctor.known_calls import KnownCalls
from slipstream._doctor.levels import by_step, find_groups
from slipstream._doctor.loaders import Loaders


def run_doctor(dataset, workers=0, step=lambda batch: wait(0.004), batch_size=4, **options):
    loader = DataLoader(dataset, batch_size, num_workers=workers, collate_fn=options.pop("collate_fn", None))
    return ss.doctor(loader, step, device="cpu", budget=options.pop("budget", 6), **options)


def wait(seconds):
    pipelines.time.sleep(seconds)


def read_costs(report):
    return {cost["name"]: cost for cost in json.loads(report._report.json())["costs"]}


class Named(Images):
    """Names parts of its code that wait for stated times."""

    def __init__(self, **seconds):
        super().__init__()
        self.seconds = seconds

    def __getitem__(self, index):
        for name, seconds in self.seconds.items():
            with ss.part(name):
                wait(seconds)
        return super().__getitem__(index)


@pytest.mark.parametrize(("seconds", "verdict"), [
    ({"decode": 0.02, "tokenize": 0.001}, "decode"), ({"read": 0.02, "decode": 0.001}, "read"),
    ({"transforms": 0.02}, "transforms"), ({"tokenize": 0.02, "decode": 0.001}, "tokenize")])
def test_named_part_that_takes_longest_is_the_verdict(stated_time, seconds, verdict):
    report = run_doctor(Named(**seconds))
    assert report.verdict == verdict == report.bottlenecks[0], report.reason
    costs = read_costs(report)
    assert list(costs) == [*seconds, "data set", "collate"]
    for name, each in seconds.items():
        assert costs[name]["wall_ms"]["value"] == pytest.approx(1e3 * each, abs=1)
    assert costs["data set"]["wall_ms"]["value"] < 2


def test_part_in_collate_fn_belongs_to_collating(stated_time):
    def collate(samples):
        with ss.part("pad"):
            wait(0.08)
        return default_collate(samples)

    report = run_doctor(Images(double), collate_fn=collate)
    assert report.verdict == "pad", report.text()
    assert list(read_costs(report)) == ["data set", "double", "pad", "collate"]


def measured(function, first=0):
    clock = Clock(first)
    clock.during(function)
    return {key: [round(1e3 * each) for each in cost[:2]] for key, cost in clock.costs.items()}


def test_time_of_nested_part_is_not_in_the_outer_one(stated_time):
    def make():
        wait(0.01)
        with ss.part("outer"):
            wait(0.02)
            with ss.part("inner"):
                wait(0.04)
            with ss.part("inner"):
                wait(0.04)

    costs = measured(make)
    assert {key: wall for key, (wall, _) in costs.items()} == {(0, ""): 10, (0, "outer"): 20, (0, "inner"): 80}


def test_exception_leaves_a_part_unchanged_and_ends_it(stated_time):
    error = KeyError("lost")

    def make():
        with pytest.raises(KeyError) as caught, ss.part("broken"):
            raise error
        assert caught.value is error
        wait(0.03)

    assert measured(make)[0, ""][0] == 30

    def fail():
        with ss.part("broken"):
            raise error

    clock = Clock()
    with pytest.raises(KeyError):
        clock.during(fail)
    assert clock_module.running_clock() is None
    clock.during(lambda: wait(0.02))
    assert list(clock.costs) == [(0, "")]


def test_part_around_a_yield_does_not_reach_the_next_sample(stated_time):
    def generate():
        for _ in range(2):
            with ss.part("yielding"):
                wait(0.01)
                yield

    samples, clock = generate(), Clock()
    for _ in range(2):
        clock.during(lambda: next(samples))
        assert round(1e3 * clock.costs[0, "yielding"][0]) == 10


def test_part_has_no_effect_without_a_doctor_and_in_other_threads():
    with ss.part("anything"):
        assert clock_module.running_clock() is None
    seen = []

    def make():
        def other():
            with ss.part("other"):
                seen.append(clock_module.running_clock())

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

    assert list(measured(make)) == [(0, "")] and seen == [None]
    assert pickle.loads(pickle.dumps(ss.part("sent"))).name == "sent"


@pytest.mark.parametrize("name", ["", 3, None])
def test_name_of_part_must_be_a_string(name):
    with pytest.raises(ss.Refused, match="slipstream.part: the name is"):
        ss.part(name)


# parts=


def load(index):
    wait(0.02)
    return torch.full((3, 8, 8), float(index))


class Loading(Dataset):
    def __init__(self):
        self.finish = Finish()

    def __len__(self):
        return 64

    def __getitem__(self, index):
        return self.finish(self.clean(load(index)) + self.offset(1))

    def clean(self, image):
        wait(0.001)
        return image

    @staticmethod
    def offset(value):
        wait(0.002)
        return value


class Finish:
    factor = 2

    def __call__(self, image):
        return image * self.factor


@pytest.mark.parametrize("workers", [0, 1])
def test_functions_methods_and_attributes_are_measured_as_parts(workers, request):
    if not workers:
        request.getfixturevalue("stated_time")
    dataset = Loading()
    before = [load, *(vars(Loading)[name] for name in ("clean", "offset")), dict(vars(dataset))]
    report = run_doctor(dataset, workers, parts=[load, Loading.offset, dataset.clean, "finish"])
    assert workers or report.verdict == "load", report.text()
    assert list(read_costs(report)) == ["load", "clean", "offset", "finish", "data set", "collate"]
    assert [load, *(vars(Loading)[name] for name in ("clean", "offset")), dict(vars(dataset))] == before


def test_attribute_of_a_wrapped_data_set_is_measured(stated_time):
    dataset = Loading()
    report = run_doctor(Subset(dataset, range(8, 40)), parts=["clean"])
    assert "clean" in read_costs(report) and "clean" not in vars(dataset)


def test_parts_that_cannot_be_measured_are_refused_with_the_reason():
    def local():
        pass

    with pytest.raises(ss.Refused) as caught:
        run_doctor(Loading(), parts=["absent", local, 3, Finish])
    text = str(caught.value)
    assert "parts[0] is 'absent': no data set of the loader has an attribute" in text
    assert "parts[1]" in text and "with slipstream.part(NAME):" in text
    assert "parts[2] is 3: give a function" in text and "parts[3]" in text
    with pytest.raises(ss.Refused, match="parts is 'clean': give a list"):
        run_doctor(Loading(), parts="clean")


# Known functions


@pytest.fixture
def photo(tmp_path):
    path = tmp_path / "photo.jpg"
    Image.effect_noise((64, 64), 40).convert("RGB").save(path)
    return path


def find_keys(make, users=()):
    """Returns the keys of the costs of a call, with functions replaced, and checks that all are restored."""
    before = {(name, key): value for name, module in list(sys.modules.items())
              for key, value in list(getattr(module, "__dict__", {}).items())}
    clock, calls = Clock(), KnownCalls(users)
    with calls.replaced():
        result = clock.during(make)
    after = {(name, key): value for name, module in list(sys.modules.items())
             for key, value in list(getattr(module, "__dict__", {}).items())}
    changed = {key for key in before.keys() & after.keys() if before[key] is not after[key]}
    assert not {(name, key) for name, key in changed if callable(before[name, key])}
    return [name for _, name in in_order(clock.costs, 1) if name], result


def test_pil_is_split_into_reading_and_decoding(photo):
    wanted = np.asarray(Image.open(photo).convert("RGB"))
    keys, made = find_keys(lambda: np.asarray(Image.open(photo).convert("RGB")))
    assert sorted(keys) == ["decode", "read"] and (made == wanted).all()
    keys, _ = find_keys(lambda: Image.open(io.BytesIO(photo.read_bytes())).load())
    assert sorted(keys) == ["decode", "read"]
    keys, _ = find_keys(lambda: Image.open(photo).resize((8, 8)))
    assert sorted(keys) == ["decode", "read", "transforms"]
    assert "load" in vars(ImageFile.ImageFile) and not hasattr(ImageFile.ImageFile.load, "__wrapped__")
    assert not hasattr(Image.Image.resize, "__wrapped__")


def test_arguments_of_load_reach_the_method_of_an_image_format():
    class Scaled(ImageFile.ImageFile):
        tile = ()

        def __init__(self):
            self.loaded = []

        def _open(self):
            pass

        def load(self, scale=1, transparency=False):  # as that of EPS files
            self.loaded.append((scale, transparency))
            return self.loaded

    image = Scaled()
    with KnownCalls().replaced():
        image.load(2, transparency=True)
        image.tile = [1]
        image.load(3, transparency=True)
    assert image.loaded == [(2, True), (3, True)]


def test_functions_are_restored_if_replacing_them_fails(monkeypatch):
    calls, opens, seen = KnownCalls(), Image.open, []

    def fail():
        seen.append(Image.open)
        raise KeyboardInterrupt

    monkeypatch.setattr(known_calls_module, "_library_methods", fail)
    with pytest.raises(KeyboardInterrupt), calls.replaced():
        pass
    assert seen[0] is not opens and Image.open is opens and not calls.is_active


def test_time_of_a_slow_file_counts_as_reading_and_that_of_the_decoder_as_decoding(photo, stated_time, monkeypatch):
    class SlowFile(io.BytesIO):
        def read(self, *args):
            wait(0.05)
            return super().read(*args)

    def costs(make):
        clock = Clock()
        with KnownCalls().replaced():
            clock.during(make)
        return {name: cost[0] for (_, name), cost in clock.costs.items()}

    data = photo.read_bytes()
    slow_reading = costs(lambda: Image.open(SlowFile(data)).load())
    assert slow_reading["read"] >= 0.1 > 0.01 > slow_reading["decode"]

    class SlowDecoder:
        def __init__(self, decoder):
            self.decoder = decoder

        def decode(self, *args):
            wait(0.05)
            return self.decoder.decode(*args)

        def __getattr__(self, name):
            return getattr(self.decoder, name)

    create = Image._getdecoder
    monkeypatch.setattr(Image, "_getdecoder", lambda *args: SlowDecoder(create(*args)))
    slow_decoding = costs(lambda: Image.open(io.BytesIO(data)).load())
    assert slow_decoding["decode"] >= 0.05 > 0.01 > slow_decoding["read"]


def test_torchvision_io_is_split_however_it_is_imported(photo):
    torchvision_io = pytest.importorskip("torchvision.io")
    read_image, operator = torchvision_io.read_image, torch.ops.image.read_file
    keys, image = find_keys(lambda: read_image(str(photo)))
    assert sorted(keys) == ["decode", "read"] and image.shape == (3, 64, 64)
    keys, _ = find_keys(lambda: torchvision_io.decode_jpeg(torchvision_io.read_file(str(photo))))
    assert sorted(keys) == ["decode", "read"] and torch.ops.image.read_file is operator


def test_inline_transforms_of_torchvision_are_a_part(photo):
    v2 = pytest.importorskip("torchvision.transforms.v2")
    from torchvision import transforms as v1

    image = torch.rand(3, 16, 16)
    compose = v1.Compose([v1.CenterCrop(8), v1.Normalize([0.5], [0.2])])
    for make in (lambda: v2.functional.resize(image, [8, 8], antialias=True), lambda: v2.Resize(8)(image),
                 lambda: v1.functional.hflip(image), lambda: compose(image), lambda: normalize(image, [0.5], [0.2])):
        keys, made = find_keys(make)
        assert keys == ["transforms"] and torch.equal(made, make())


def normalize(*args):
    return globals()["renamed"](*args)


try:
    from torchvision.transforms.functional import normalize as renamed
except ImportError:
    renamed = None


def test_transform_of_torchvision_that_is_a_step_is_not_a_part_of_itself():
    v2 = pytest.importorskip("torchvision.transforms.v2")
    report = run_doctor(Images(Compose([v2.CenterCrop(4), double])), budget=0.3)
    assert list(read_costs(report)) == ["data set", "CenterCrop", "double", "collate"]


def test_calls_of_libraries_are_timed_by_their_names(monkeypatch, stated_time, photo):
    cv2, simplejpeg = types.ModuleType("cv2"), types.ModuleType("simplejpeg")
    cv2.imread = lambda path: wait(0.05)
    cv2.imdecode = simplejpeg.decode_jpeg = None
    cv2.imdecode = lambda data: data
    simplejpeg.decode_jpeg = lambda data: data
    monkeypatch.setitem(sys.modules, "cv2", cv2)
    monkeypatch.setitem(sys.modules, "simplejpeg", simplejpeg)
    assert find_keys(lambda: cv2.imdecode(1))[0] == ["decode"]
    assert find_keys(lambda: simplejpeg.decode_jpeg(1))[0] == ["decode"]
    np.save(photo.with_suffix(".npy"), np.ones(3))
    assert find_keys(lambda: np.load(photo.with_suffix(".npy")))[0] == ["read"]
    # It reads and decodes in one call, so waiting counts as reading.
    clock = Clock()
    with KnownCalls().replaced():
        clock.during(lambda: cv2.imread("a"))
    assert clock.costs[0, "read"][0] == pytest.approx(0.05, abs=1e-3) and clock.costs[0, "decode"][0] < 1e-3


def test_libraries_that_are_not_imported_stay_so(monkeypatch):
    for name in ("cv2", "simplejpeg", "PIL.ImageOps"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with KnownCalls().replaced():
        pass
    assert not {"cv2", "simplejpeg", "PIL.ImageOps"} & sys.modules.keys()


def test_function_in_a_part_that_the_user_named_is_not_a_part_of_its_own(photo):
    def make():
        with ss.part("own"):
            np.asarray(Image.open(photo))

    assert find_keys(make)[0] == ["own"]


class Photos(Dataset):
    def __init__(self, path):
        self.path = str(path)

    def __len__(self):
        return 64

    def __getitem__(self, index):
        with Image.open(self.path) as image:
            return torch.from_numpy(np.array(image.convert("RGB")))


@pytest.mark.parametrize("workers", [0, 2])
def test_reading_and_decoding_of_pil_are_steps_with_and_without_workers(photo, workers):
    costs = read_costs(run_doctor(Photos(photo), workers, budget=0.3))
    assert {name: cost["group"] for name, cost in costs.items()} == {
        "read": "read", "decode": "decode", "data set": costs["data set"]["group"], "collate": "collate"}
    assert not hasattr(ImageFile.ImageFile.load, "__wrapped__")


def test_rest_of_the_data_set_counts_as_reading_or_transforms():
    def groups(own, **parts):
        costs = {(0, ""): own} | {(0, name): ([1.0], [1.0], [0.0]) for name in parts}
        return find_groups(costs, 1)

    computes, waits = ([1.0], [0.9], [0.0]), ([1.0], [0.1], [0.0])
    assert groups(computes)[0, ""] == groups(waits)[0, ""] == "read"
    assert groups(computes, decode=1)[0, ""] == "transforms" and groups(waits, decode=1)[0, ""] == "read"
    assert groups(waits, mix=1)[0, "mix"] == "part" and groups(waits)[-1, ""] == "collate"


def test_costs_of_samples_without_a_part_are_zero():
    one, other = {(0, ""): [1.0, 1.0, 8.0]}, {(0, "rare"): [2.0, 1.0, 0.0], (0, ""): [1.0, 1.0, 8.0]}
    assert by_step([one, other])[0, "rare"] == ([0.0, 2.0], [0.0, 1.0], [0.0, 0.0])
    assert in_order({(0, ""), (0, "rare")}, 1) == [(0, "rare"), (0, ""), (-1, "")]
