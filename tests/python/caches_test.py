"""The arguments cache, disk_cache, read_ahead, cpus, scaled_decoding and num_workers="auto" of slipstream.DataLoader."""

import os
import shutil
import subprocess
import sys
import warnings

import pytest
import torch
from PIL import Image

import slipstream as ss

T = ss.transforms
RANDOM = [T.RandomResizedCrop(16), T.RandomHorizontalFlip()]
KINDS = {
    "memory": {"cache": "decode=64MB"},
    "files in memory": {"cache": "read=64MB"},
    "small": {"cache": "decode=100K"},
    "ahead": {"read_ahead": 6},
    "all": {"cache": "read=64MB", "read_ahead": 3},
}


class Labels:
    """A data set in Python."""

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.full((3, 8, 8), index, dtype=torch.uint8), index


def make_loader(photos, device="cpu", chain=None, **kwargs):
    options = {"batch_size": 8, "shuffle": True, "seed": 3, "num_workers": 2, "device": device}
    return ss.DataLoader(ss.ImageFolder(photos, T.Compose(chain or RANDOM)), **options | kwargs)


def epochs(loader, count=3):
    """Returns copies of the batches of each epoch."""
    return [[[field.cpu().clone() for field in batch] for batch in loader] for _ in range(count)]


def assert_equal(ours, expected):
    for ours_of_epoch, epoch in zip(ours, expected, strict=True):
        for batch, same in zip(ours_of_epoch, epoch, strict=True):
            assert all(map(torch.equal, batch, same))


@pytest.fixture
def own_photos(photos, tmp_path):
    """A copy of the images that a test may change."""
    return shutil.copytree(photos, tmp_path / "photos")


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_batches_and_states_are_those_without_a_cache(photos, device, options):
    plain, cached = make_loader(photos, device), make_loader(photos, device, **options)
    expected = epochs(plain)
    assert_equal(epochs(cached), expected)
    assert cached.state_dict() == plain.state_dict()
    # Random transforms follow the cached step, so they are not the same in each epoch.
    assert not torch.equal(expected[0][0][0], expected[1][0][0])


def test_disk_cache_gives_same_batches_in_this_and_later_loaders(photos, device, tmp_path):
    expected = epochs(make_loader(photos, device))
    for hits, misses in ((100, 50), (150, 0)):
        cached = make_loader(photos, device, disk_cache=f"{tmp_path / 'cache'}=64MB")
        assert_equal(epochs(cached), expected)
        state = cached.disk_cache_state
        assert (state["stored"], state["stop_reason"]) == (misses, "")
        assert state["hits"] >= hits and state["hits"] + state["misses"] >= hits + misses


@pytest.mark.parametrize("step", ["read", "decode", "resize_0"])
def test_cache_replaces_the_files_in_later_epochs(own_photos, step):
    chain = [T.Resize((24, 24)), *RANDOM]
    expected = epochs(make_loader(own_photos, chain=chain, num_workers=1))
    loader = make_loader(own_photos, chain=chain, num_workers=1, cache=f"{step}=64MB")
    ours = epochs(loader, 1)
    shutil.rmtree(own_photos)
    assert_equal(ours + epochs(loader, 2), expected)
    state = loader.cache_state
    assert state["samples"] == state["misses"] == 50 and state["is_filling"] and 0 < state["bytes"] <= 64 << 20


def test_cache_is_kept_after_a_break_and_shared_by_iterators(own_photos):
    loader = make_loader(own_photos, cache="decode=64MB")
    list(loader)
    misses = loader.cache_state["misses"]
    for _ in loader:
        break
    loader.set_epoch(7)
    for one, other in zip(loader, loader, strict=True):
        assert not torch.equal(one[0], other[0])
    assert loader.cache_state["misses"] == misses


def test_cache_is_kept_with_a_sampler(own_photos):
    order = torch.utils.data.RandomSampler(range(50), generator=torch.Generator().manual_seed(1))
    options = {"shuffle": None, "sampler": order, "cache": "decode=64MB"}
    loader = make_loader(own_photos, **options)
    list(loader)
    shutil.rmtree(own_photos)
    assert len(list(loader)) == 7 and loader.cache_state["misses"] == 50


def test_cache_works_in_a_forked_process(photos):
    loader = make_loader(photos, cache="decode=64MB")
    expected = epochs(make_loader(photos), 2)
    assert_equal(epochs(loader, 1), expected[:1])
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            assert_equal(epochs(loader, 1), expected[1:])
            assert loader.cache_state["samples"] == 50
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0


def test_disk_cache_is_refused_in_a_forked_process(photos, tmp_path):
    loader = make_loader(photos, disk_cache=f"{tmp_path / 'cache'}=64MB")
    list(loader)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            list(loader)
        except ss.Refused:
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0


def test_loader_resumes_with_a_cache(photos, tmp_path):
    expected = epochs(make_loader(photos), 2)
    loader = make_loader(photos, cache="decode=64MB", disk_cache=f"{tmp_path / 'cache'}=64MB")
    for number, _ in enumerate(loader):
        if number == 2:
            state = loader.state_dict()
            break
    resumed = make_loader(photos, cache="read=1MB", disk_cache=f"{tmp_path / 'cache'}=64MB")
    resumed.load_state_dict(state)
    assert_equal(epochs(resumed, 2), [expected[0][3:], expected[1]])


def test_full_disk_cache_warns_once_and_reading_continues(photos, tmp_path):
    loader = make_loader(photos, disk_cache=f"{tmp_path / 'cache'}=20K")
    with pytest.warns(UserWarning, match="the disk cache stores no more samples, and the others are read from the data"):
        first = epochs(loader, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        later = epochs(loader, 2)
    assert_equal(first + later, epochs(make_loader(photos)))
    state = loader.disk_cache_state
    assert 0 < state["stored"] < 50 and state["stop_reason"] and state["bytes"] <= 20 << 10
    assert sum(each.stat().st_size for each in (tmp_path / "cache").iterdir()) <= 20 << 10


def test_disk_that_is_full_stops_storing_and_reading_continues(photos, tmp_path, full_disk):
    expected = epochs(make_loader(photos), 1)
    with full_disk():
        loader = make_loader(photos, disk_cache=f"{tmp_path / 'cache'}=64MB")
        with pytest.warns(UserWarning, match="the disk cache stores no more samples"):
            assert_equal(epochs(loader, 1), expected)
    assert loader.disk_cache_state["stored"] == 0


def test_folder_that_cannot_be_written_stops_storing_and_reading_continues(photos):
    loader = make_loader(photos, disk_cache="/proc/no-such-folder/cache=64MB")
    with pytest.warns(UserWarning, match="/proc/no-such-folder/cache"):
        assert_equal(epochs(loader), epochs(make_loader(photos)))
    assert loader.disk_cache_state["stored"] == 0


def test_damaged_disk_cache_is_read_from_the_data_set_and_stored_again(photos, tmp_path):
    folder = tmp_path / "cache"
    expected = epochs(make_loader(photos), 1)
    list(make_loader(photos, disk_cache=f"{folder}=64MB"))
    with open(folder / "cache.samples", "r+b") as file:
        for offset in range(0, (folder / "cache.samples").stat().st_size, 512):
            file.seek(offset)
            file.write(b"\xff" * 64)
    for stored in (True, False):
        loader = make_loader(photos, disk_cache=f"{folder}=64MB")
        assert_equal(epochs(loader, 1), expected)
        assert (loader.disk_cache_state["stored"] > 0) == stored


def test_disk_cache_of_another_data_set_is_refused(photos, tmp_path):
    disk_cache = f"{tmp_path / 'cache'}=64MB"
    make_loader(photos, disk_cache=disk_cache)
    with pytest.raises(ss.Refused, match="samples"):
        ss.DataLoader(ss.Subset(ss.ImageFolder(photos, T.CenterCrop(8)), range(9)), disk_cache=disk_cache)


def test_two_processes_share_a_disk_cache(photos, tmp_path):
    program = f"""
import slipstream as ss, torch
T = ss.transforms
chain = T.Compose([T.RandomResizedCrop(16), T.RandomHorizontalFlip()])
loader = ss.DataLoader(ss.ImageFolder({str(photos)!r}, chain), 8, True, num_workers=2, seed=3,
                       disk_cache={f"{tmp_path / 'cache'}=64MB"!r})
print(sum(int(images.long().sum()) for _ in range(3) for images, _ in loader))
"""
    runs = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    expected = sum(int(images.long().sum()) for epoch in epochs(make_loader(photos)) for images, _ in epoch)
    for run in runs:
        assert int(run.communicate(timeout=600)[0]) == expected and run.returncode == 0
    later = make_loader(photos, disk_cache=f"{tmp_path / 'cache'}=64MB")
    list(later)
    assert later.disk_cache_state["misses"] == 0


def test_scaled_decoding_reduces_large_jpeg_files(tmp_path):
    (tmp_path / "class").mkdir()
    Image.effect_noise((256, 256), 80).convert("RGB").save(tmp_path / "class" / "0.jpg")
    plain, scaled = (next(iter(ss.DataLoader(ss.ImageFolder(tmp_path, T.Resize((32, 32))), scaled_decoding=each)))[0]
                     for each in (False, True))
    assert plain.shape == scaled.shape and not torch.equal(plain, scaled)


def test_scaled_decoding_is_that_of_the_program(photos, tmp_path):
    """The trainer takes it from its loader."""
    loader = make_loader(photos, scaled_decoding=True, chain=[T.Resize((8, 8)), T.ToDtype(scale=True)], num_workers=1)
    plain = make_loader(photos, chain=[T.Resize((8, 8)), T.ToDtype(scale=True)], num_workers=1)
    digests = []
    for each in (loader, plain, loader):
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 3))
        digests.append(ss.Trainer(each, model, steps=3, lr=0.1).fit().digest)
    assert digests[0] == digests[2] != digests[1]


@pytest.mark.parametrize("options", [*KINDS.values(), {"disk_cache": "cache=64MB"}, {"cpus": "0-1023"}])
def test_trainer_and_doctor_use_the_options_of_the_loader(photos, tmp_path, monkeypatch, options):
    monkeypatch.chdir(tmp_path)
    if "cpus" in options:
        options = {"cpus": ",".join(map(str, sorted(os.sched_getaffinity(0))))}
    digests = []
    for kwargs in ({}, options):
        torch.manual_seed(1)
        loader = make_loader(photos, chain=[*RANDOM, T.ToDtype(scale=True)], **kwargs)
        model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(768, 3))
        digests.append(ss.Trainer(loader, model, steps=20, lr=0.1).fit().digest)
    assert digests[0] == digests[1]
    report = ss.doctor(loader, lambda batch: None, budget=0.5)
    assert report.rate.value > 0


def test_cpus_are_those_of_threads_and_of_worker_processes(photos):
    usable = os.sched_getaffinity(0)
    cpu = max(usable)
    before = {*os.listdir("/proc/self/task")}
    loader = make_loader(photos, cpus=str(cpu))
    batches = iter(loader)
    next(batches)
    threads = {*os.listdir("/proc/self/task")} - before
    pinned = sum(affinity(thread) == {cpu} for thread in threads)
    # If the process may use only one CPU, all of its threads run on it.
    assert pinned == 2 if len(usable) > 1 else pinned >= 2
    assert os.sched_getaffinity(0) == usable
    for collate in (None, list):
        loader = ss.DataLoader(Where(), 2, num_workers=1, cpus=str(cpu), collate_fn=collate, worker_init_fn=set_variable)
        masks = [int(each) for batch in loader for each in batch]
        assert masks == [1 << cpu] * 4  # -1 if worker_init_fn was not called
    assert "STARTED_WORKER" not in os.environ


def affinity(thread):
    """Returns the CPUs of a thread, or None if it has ended."""
    try:
        return os.sched_getaffinity(int(thread))
    except ProcessLookupError:
        return None


def set_variable(number):
    os.environ["STARTED_WORKER"] = str(number)


class Where:
    """Samples are the CPUs of the process that reads them, as a mask; -1 if set_variable() was not called in it."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        is_started = os.environ.get("STARTED_WORKER") == "0"
        return sum(1 << cpu for cpu in os.sched_getaffinity(0)) if is_started else -1


def test_auto_chooses_a_number_of_workers_that_gives_the_same_batches(photos, device):
    state = torch.get_rng_state()
    loader = make_loader(photos, device, num_workers="auto", cache="decode=64MB")
    assert torch.equal(torch.get_rng_state(), state)
    assert 1 <= loader.num_workers <= len(os.sched_getaffinity(0))
    assert loader.cache_state["misses"] == 0
    assert_equal(epochs(loader), epochs(make_loader(photos, device)))
    sampler = torch.utils.data.BatchSampler(range(50), 60, False)
    assert ss.DataLoader(ss.ImageFolder(photos, T.CenterCrop(8)), batch_sampler=sampler, num_workers="auto").num_workers > 0
    none = ss.Subset(ss.ImageFolder(photos, T.CenterCrop(8)), [])
    with pytest.raises(ss.Refused, match="the data set is empty"):
        ss.DataLoader(none, num_workers="auto")


ONLY_NATIVE = [{"cache": "read=1M"}, {"disk_cache": "cache=1M"}, {"read_ahead": 2}, {"scaled_decoding": True},
               {"num_workers": "auto"}]


@pytest.mark.parametrize("options", ONLY_NATIVE, ids=lambda each: next(iter(each)))
def test_data_set_in_python_is_refused_with_the_remedy(photos, options):
    (name, value), = options.items()
    name = "num_workers='auto'" if value == "auto" else name
    with pytest.raises(ss.Refused, match=f"^{name} can be given for data sets that are read without Python.*Labels is "
                                         "written in Python: leave it out"):
        ss.DataLoader(Labels(), 2, **{"num_workers": 1} | options)
    for other in ({"collate_fn": list}, {"batch_size": None}):
        with pytest.raises(ss.Refused, match=f"makes batches in Python, without {name}: leave it out"):
            ss.DataLoader(ss.ImageFolder(photos), **other | options)


def test_function_in_python_after_the_cached_step_is_possible(photos):
    chain = [T.Resize((24, 24)), invert]
    expected = epochs(make_loader(photos, chain=chain))
    assert_equal(epochs(make_loader(photos, chain=chain, cache="resize_0=64MB", read_ahead=2)), expected)
    with pytest.raises(ss.Refused, match="cannot cache after 'invert_1': transform 'invert_1' is random"):
        make_loader(photos, chain=chain, cache="invert_1=64MB")
    with pytest.raises(ss.Refused, match="num_workers='auto' measures loading without Python, but a transform"):
        make_loader(photos, chain=chain, num_workers="auto")


def invert(image):
    return 255 - image


@pytest.mark.parametrize(("options", "message"), [
    ({"cache": 8}, "cache is 8: give a string STEP=SIZE, such as 'decode=8GB'"),
    ({"cache": "decode"}, "cache decode: give a name and a size"),
    ({"cache": "decode=8X"}, "cache decode=8X: '8X' is not a size"),
    ({"cache": "decod=8G"}, "decode"),
    ({"cache": "decode=8"}, "a cache of 8 bytes is too small even for its index"),
    ({"cache": "random_resized_crop_0=1G"}, "transform 'random_resized_crop_0' is random"),
    ({"cache": "decode=8G", "scaled_decoding": True}, "cannot cache after 'decode': whole images are cached"),
    ({"disk_cache": 8}, "disk_cache is 8: give a string DIR=SIZE, such as '/fast=64GB'"),
    ({"disk_cache": "=8G"}, "disk_cache =8G: give a name and a size"),
    ({"disk_cache": "cache=8"}, "a disk cache of 8 bytes is too small even for its index"),
    ({"read_ahead": -1}, "read_ahead is -1: give a whole number, at least 0"),
    ({"read_ahead": 1025}, "read_ahead is 1025: give a whole number, at most 1024"),
    ({"read_ahead": 2, "shuffle": None, "sampler": [1, 2]}, "leave out the sampler, or read_ahead"),
    ({"cpus": 3}, "cpus is 3: give a string such as '0-7,16', or 'gpu'"),
    ({"cpus": "first"}, "first"),
    ({"cpus": "60000"}, "60000"),
    ({"cpus": "gpu"}, "cpus gpu: the run is on the CPU"),
    ({"scaled_decoding": 2}, "scaled_decoding is 2: give True or False"),
    ({"num_workers": "many"}, "num_workers is 'many': give a whole number"),
])
def test_invalid_values_are_refused(photos, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ss.Refused, match=message):
        make_loader(photos, **options)


def test_cpus_without_workers_are_refused_if_python_runs_in_the_loop():
    with pytest.raises(ss.Refused, match="makes batches in the thread of the loop, which cpus does not move"):
        ss.DataLoader(Labels(), 2, cpus="0")


def test_home_folder_is_replaced_in_disk_cache(photos, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    list(make_loader(photos, disk_cache="~/a=b=64MB"))
    assert (tmp_path / "a=b" / "cache.json").exists()


def test_loader_without_caches_has_no_states(photos):
    loader = make_loader(photos)
    assert loader.cache_state is None and loader.disk_cache_state is None
    assert ss.DataLoader(Labels(), 2).cache_state is None
