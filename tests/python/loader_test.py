"""Which parts of a loader its batches keep alive, and how it behaves after errors, resumption and in subclasses."""

import gc
import io
import os
import shutil
import subprocess
import sys
import threading

import interpreters
import pytest
from processes import wait_until
from tensors import all_equal
import torch

import slipstream as ss

T = ss.transforms


class Mixed:
    def __len__(self):
        return 20

    def __getitem__(self, i):
        return {"image": torch.full((3, 64, 64), i, dtype=torch.uint8), "index": i, "box": torch.ones(4) * i}


def count_threads():
    return len(os.listdir("/proc/self/task"))


IMPORTS = "import slipstream as ss, torch\nT = ss.transforms\n"


def test_kept_batch_does_not_keep_loader_threads_alive(photos):
    loader = ss.DataLoader(ss.ImageFolder(photos, T.CenterCrop(32)), 10, num_workers=4)
    kept = []
    for _ in range(5):
        for images, _ in loader:
            kept.append((images, images.clone()))
            break
        if len(kept) == 1:
            before = count_threads()
    wait_until(lambda: count_threads() <= before)  # a joined thread remains visible for a moment
    list(loader)
    assert all(torch.equal(images, then) for images, then in kept)
    del loader
    gc.collect()
    assert all(torch.equal(images, then) for images, then in kept)


def test_kept_batch_keeps_only_its_own_slab_in_memory(photos):
    """Each iteration has 70 slabs of 0.3 MB."""
    run = interpreters.run(IMPORTS + f"""
loader = ss.DataLoader(ss.ImageFolder({str(photos)!r}, T.Resize((160, 160))), 4, prefetch_factor=64, num_workers=1)
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
kept = [next(iter(loader))]
before = resident()
kept += [next(iter(loader)) for _ in range(10)]
print(resident() - before)
""")
    assert 0 < int(run.stdout) < 70 * 5 * 4 * 160 * 160 * 3


def test_small_fields_have_separate_memory(device):
    for start in (0, 2):  # whole batches, and the last ones of an epoch
        loader = ss.DataLoader(Mixed(), 8, device=device, num_workers=1)
        loader.load_state_dict({"position": start, "batches_per_epoch": 3})
        batch = next(iter(loader))
        for name in ("index", "box"):
            assert batch[name].untyped_storage().nbytes() == batch[name].nbytes
        first = start * 8
        assert batch["index"].tolist() == list(range(first, first + len(batch["index"])))
        assert batch["box"][-1].tolist() == [batch["index"][-1].item()] * 4
        assert (batch["image"].cpu().flatten(1) == batch["index"].cpu()[:, None]).all()
    file = io.BytesIO()
    torch.save(batch["index"], file)
    assert file.tell() < 4096


def test_iteration_can_be_retried_after_out_of_memory(photos):
    program = IMPORTS + f"""
import resource
data = ss.Subset(ss.ImageFolder({str(photos)!r}, T.Resize((2048, 2048))), range(4))
loader = ss.DataLoader(data, 2, num_workers=1)
kept = next(iter(loader))  # the next pass needs a slab of 24 MiB anew
hard = resource.getrlimit(resource.RLIMIT_AS)[1]
for limit in (1 << 20, hard):
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        print(len(list(loader)))
    except ss.Error as error:
        print(error)
"""
    run = subprocess.run([sys.executable, "-c", program], env=os.environ | {"MALLOC_ARENA_MAX": "1"}, check=True,
                         timeout=300, capture_output=True, text=True)
    told = run.stdout.splitlines()
    assert told[0].startswith("out of memory for prefetched batches") and told[1] == "2"


def test_file_names_that_are_not_utf8_round_trip(tmp_path, photos):
    """Names are converted as by os.fsencode() and os.fsdecode(); messages escape the bytes."""
    root = os.fsencode(tmp_path) + b"/d\xe9"
    image = next(photos.glob("*/*"))
    for folder in (b"caf\xe9", b"plain"):
        os.makedirs(root + b"/" + folder)
        shutil.copy(image, root + b"/" + folder + b"/1\xe9.jpg")
    root = os.fsdecode(root)
    classes = [os.fsdecode(b"caf\xe9"), "plain"]
    crop = T.CenterCrop(8)
    for data in (ss.ImageFolder(root, crop), ss.ImageFolder(root, crop, classes=classes[::-1]), ss.open_dataset(root, crop)):
        assert sorted(data.classes) == classes and len(next(iter(ss.DataLoader(data, 2, num_workers=1)))[0]) == 2
        assert os.path.samefile(data.name(0), os.path.join(root, data.classes[0], os.fsdecode(b"1\xe9.jpg")))
    with open(data.name(0), "wb") as file:
        file.write(b"no image")
    with pytest.raises(ss.Error, match=r"caf\\x[eE]9/1\\x[eE]9.jpg"):
        list(ss.DataLoader(data, 2, num_workers=1))


@pytest.mark.parametrize("opens", [ss.ImageFolder, ss.open_dataset])
def test_folder_scan_releases_the_gil(photos, opens):
    """The switch interval is so long that another thread can only run if the scan releases the GIL."""
    gate, ran = threading.Lock(), []

    def other():
        with gate:
            ran.append(True)

    thread = threading.Thread(target=other)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        with gate:
            thread.start()
        for _ in range(2000):
            opens(photos)
            if ran:
                break
        assert ran
    finally:
        sys.setswitchinterval(interval)
        thread.join()


def test_set_epoch_keeps_position_in_resumed_epoch(photos):
    """Training loops of all kinds call set_epoch() at the start of each epoch, even of a resumed one."""
    def made():
        return ss.DataLoader(ss.ImageFolder(photos, T.CenterCrop(8)), 10, shuffle=True, seed=0, num_workers=1)

    def passes(loader, epochs):
        for epoch in epochs:
            loader.set_epoch(epoch)
            yield [labels for _, labels in loader]

    whole = list(passes(made(), range(3)))
    loader = made()
    loader.load_state_dict({"position": 7, "batches_per_epoch": 5})
    rest = list(passes(loader, range(loader.epoch, 3)))
    assert [len(each) for each in rest] == [3, 5]
    assert all_equal(sum(rest, []), sum(whole, [])[7:])
    loader.load_state_dict({"position": 7, "batches_per_epoch": 5})
    assert [len(each) for each in passes(loader, [0, 1, 1])] == [5, 5, 5]
    pipe = ss.Pipeline(loader)
    pipe.load_state_dict({"position": 4, "batches_per_epoch": 5})
    assert len(list(passes(pipe, [0]))[0]) == 1


class Folder(ss.ImageFolder):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return torch.full((3, 8, 8), i, dtype=torch.uint8), self.label(i) + 7


def test_len_and_getitem_of_image_folder_subclass_are_used(photos):
    images, labels = next(iter(ss.DataLoader(Folder(photos, T.CenterCrop(4)), 4, num_workers=1)))
    assert images.shape == (4, 3, 4, 4) and images[:, 0, 0, 0].tolist() == [0, 1, 2, 3] and labels.tolist() == [7] * 4
    images, _ = next(iter(ss.DataLoader(ss.Subset(Folder(photos), [3, 1]), 2, num_workers=1)))
    assert images[:, 0, 0, 0].tolist() == [3, 1]


def test_overrides_that_native_code_would_bypass_are_refused(photos):
    class Short(ss.ImageFolder):
        def __len__(self):
            return 4

    class Dark(T.CenterCrop):
        def __call__(self, images, *args, **kwargs):
            return super().__call__(images, *args, **kwargs) * 0

    class Half(ss.DataLoader):
        def __iter__(self):
            return ((x / 2, y) for x, y in super().__iter__())

    class Named(T.CenterCrop):
        """Overrides no method."""

    data = ss.ImageFolder(photos, Named(8))
    assert next(iter(ss.Pipeline(ss.DataLoader(data, 4, num_workers=1), device="cpu")))[0].shape == (4, 3, 8, 8)
    with pytest.raises(ss.Refused, match=r"Short defines its own __len__\(\).*use slipstream.Subset"):
        ss.DataLoader(Short(photos, T.CenterCrop(8)), 4, num_workers=1)
    with pytest.raises(ss.Refused, match=r"Dark defines its own __call__\(\).*give a function"):
        T.Compose([T.Resize((32, 32)), Dark(8)])
    with pytest.raises(ss.Refused, match=r"Dark defines its own __call__\(\)"):
        ss.DataLoader(ss.ImageFolder(photos, Dark(8)), 4, num_workers=1)
    half = Half(data, 4)
    assert next(iter(half))[0].dtype == torch.float32
    with pytest.raises(ss.Refused, match=r"Half defines its own __iter__\(\).*Pipeline.*to a stage"):
        ss.Pipeline(half)
    with pytest.raises(ss.Refused, match=r"Half defines its own __iter__\(\).*Trainer"):
        ss.Trainer(half, torch.nn.Linear(1, 1), steps=1)


def load_batches(photos, **options):
    return ss.DataLoader(ss.ImageFolder(photos, T.CenterCrop(8)), 10, shuffle=True, **{"seed": 0} | options)


def read_labels(loop):
    return [labels.tolist() for _, labels in loop]


@pytest.mark.parametrize("wrap", [lambda loader: loader, lambda loader: ss.Pipeline(loader),
                                  lambda loader: ss.Pipeline(loader, serial=True)])
def test_reading_one_batch_does_not_advance_the_epoch(photos, wrap):
    plain = load_batches(photos)
    epochs = [read_labels(plain) for _ in range(3)]
    loader = load_batches(photos)
    loop = wrap(loader)
    for _ in range(2):
        assert next(iter(loop))[1].tolist() == epochs[0][0] and loader.epoch == 0
    assert loader.state_dict()["position"] == 1
    assert [read_labels(loop) for _ in range(loader.epoch, 3)] == epochs
    loader.load_state_dict({"position": 7, "batches_per_epoch": 5})
    next(iter(loop))
    loader.set_epoch(1)
    next(iter(loop))
    assert loader.epoch == 1 and read_labels(loop) == epochs[1][2:]


@pytest.mark.parametrize("sampler", [None, range(10)])
def test_last_batch_ends_the_epoch_of_a_loop_that_counts_batches(photos, sampler):
    data = ss.Subset(ss.ImageFolder(photos, T.CenterCrop(8)), range(10))
    single = ss.DataLoader(data, 10, sampler=sampler, seed=1)
    for epoch in range(1, 4):
        it = iter(single)
        next(it)
        assert single.epoch == epoch
    loader = ss.DataLoader(data, 6, sampler=sampler, seed=1)
    epochs = [read_labels(loader) for _ in range(2)]
    it = iter(loader)
    next(it)
    state = loader.state_dict()
    resumed = ss.DataLoader(data, 6, sampler=sampler, seed=1)
    resumed.load_state_dict(state)
    it = iter(resumed)
    assert next(it)[1].tolist() == epochs[0][1] and resumed.epoch == loader.epoch + 1
    assert len(read_labels(resumed)) == 2


def test_epochs_advance_with_the_second_batch(photos):
    loader = load_batches(photos)
    seen = []
    for number, _ in enumerate(loader):
        seen.append(loader.epoch)
        if number == 2:
            break
    assert seen == [0, 1, 1] and loader.epoch == 1
    epochs = [read_labels(each) for each in [load_batches(photos)] for _ in range(2)]
    assert read_labels(loader) == epochs[1]


def test_iterator_continues_epoch_after_first_batch(photos):
    loader = load_batches(photos)
    it = iter(loader)
    first = next(it)[1].tolist()
    assert [first, *read_labels(it)] == read_labels(load_batches(photos)) and loader.epoch == 1
