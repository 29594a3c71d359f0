"""The native loader and its data sets in Python."""

from concurrent.futures import ThreadPoolExecutor
import copy
import pickle
import threading
import warnings

import numpy
import pytest
from tensors import all_equal
import torch

import slipstream as ss

T = ss.transforms


def folder(photos, *transforms):
    return ss.ImageFolder(photos, T.Compose(transforms or [T.Resize((32, 32))]))


def collect_batches(loader):
    images, labels = zip(*((x.cpu().clone(), y.cpu()) for x, y in loader), strict=True)
    return torch.cat(images), torch.cat(labels)


def test_image_folder_has_classes_names_and_labels(photos):
    data = folder(photos)
    assert (len(data), data.classes, data.fields) == (50, ["class0", "class1", "class2"], ["image", "label"])
    assert data.name(0).endswith("class0/000000.jpg") and data.label(49) == 2
    with pytest.raises(ss.Refused, match="nowhere"):
        ss.ImageFolder("/nowhere")
    some = ss.Subset(data, [3, 1])
    assert len(some) == 2 and some.name(0) == data.name(3)
    assert len(ss.ConcatDataset([data, some])) == 52
    assert len(ss.open_dataset(photos)) == 50


def test_batches_have_sizes_types_and_layout_of_pytorch(photos, device):
    loader = ss.DataLoader(folder(photos), batch_size=8, num_workers=2, device=device)
    assert len(loader) == 7
    sizes = []
    for images, labels in loader:
        assert images.dtype == torch.uint8 and labels.dtype == torch.int64
        assert images.shape[1:] == (3, 32, 32) and images.device.type == labels.device.type == device
        assert images.is_contiguous(memory_format=torch.channels_last)
        sizes.append(len(labels))
    assert sizes == [8] * 6 + [2]
    assert collect_batches(loader)[1].tolist() == [loader.dataset.label(i) for i in range(50)]
    dropping = ss.DataLoader(folder(photos), batch_size=8, drop_last=True, device=device)
    assert [len(labels) for _, labels in dropping] == [8] * 6


def test_values_do_not_depend_on_workers_or_device(photos, device):
    chain = (T.RandomResizedCrop(24), T.RandomHorizontalFlip(), T.ColorJitter(0.4))
    one = collect_batches(ss.DataLoader(folder(photos, *chain), 8, shuffle=True, seed=3))
    two = collect_batches(ss.DataLoader(folder(photos, *chain), 8, shuffle=True, seed=3, num_workers=3, device=device))
    assert all_equal(one, two)
    other = collect_batches(ss.DataLoader(folder(photos, *chain), 8, shuffle=True, seed=4))
    assert not torch.equal(one[0], other[0])


def skip_unless_cuda(device):
    if device != "cuda":
        pytest.skip("for a GPU")


def test_transforms_on_device_give_same_bits_as_in_workers(photos, device):
    skip_unless_cuda(device)
    chains = [(T.RandomResizedCrop(24), T.ColorJitter(0.4)), (T.Resize((32, 32)), T.RandomCrop(24), T.GaussianBlur(3))]
    for chain in chains:
        options = {"batch_size": 8, "shuffle": True, "seed": 3, "num_workers": 2, "device": device}
        by_workers = collect_batches(ss.DataLoader(folder(photos, *chain), **options))
        by_device = collect_batches(ss.DataLoader(folder(photos, *chain), **options, transforms_device="cuda"))
        assert all_equal(by_workers, by_device)


def test_wire_formats_give_equal_labels_and_close_images(photos, device):
    skip_unless_cuda(device)
    chain = (T.RandomResizedCrop(24), T.RandomHorizontalFlip())
    options = {"batch_size": 8, "shuffle": True, "seed": 3, "device": device}
    plain = collect_batches(ss.DataLoader(folder(photos, *chain), **options))
    packed = collect_batches(ss.DataLoader(folder(photos, *chain), **options, wire={"label": "smallest"}))
    assert all_equal(plain, packed)
    images, labels = collect_batches(ss.DataLoader(folder(photos, *chain), **options, wire={"image": "jpeg"}))
    assert torch.equal(labels, plain[1])
    assert (images.float() - plain[0].float()).abs().mean() < 4


def test_gpu_only_options_are_refused_on_cpu(photos):
    for options in ({"wire": {"image": "jpeg"}}, {"transforms_device": "cuda"}):
        with pytest.raises(ss.Refused, match="are for batches on a GPU"):
            ss.DataLoader(folder(photos), 8, **options)
    with pytest.raises(ss.Refused, match="give 'cpu' or 'cuda'"):
        ss.DataLoader(folder(photos), 8, transforms_device="gpu")


def test_epochs_differ_and_set_epoch_repeats_one(photos):
    loader = ss.DataLoader(folder(photos), 8, shuffle=True, seed=0)
    first, second = collect_batches(loader), collect_batches(loader)
    assert loader.epoch == 2 and not torch.equal(first[0], second[0])
    loader.set_epoch(0)
    assert torch.equal(collect_batches(loader)[0], first[0])
    for _ in loader:
        break
    assert loader.epoch == 1  # reading one batch counts as an epoch
    for number, _ in enumerate(loader):
        if number == 1:
            break
    assert loader.epoch == 2


def test_state_of_a_different_loader_is_refused(photos):
    state = ss.DataLoader(folder(photos), 8, seed=0).state_dict()
    assert state == {"position": 0, "batches_per_epoch": 7, "samples": 50, "global_batch_size": 8, "seed": 0,
                     "shuffle": False}
    with pytest.raises(ss.Refused, match="with batches_per_epoch=7, global_batch_size=8, but this one has "
                                         "batches_per_epoch=5, global_batch_size=10: create the loader with the same data"):
        ss.DataLoader(folder(photos), 10).load_state_dict(state)
    with pytest.raises(ss.Refused, match="with seed=0, shuffle=False, but this one has seed=7, shuffle=True"):
        ss.DataLoader(folder(photos), 8, shuffle=True, seed=7).load_state_dict(state)
    with pytest.raises(ss.Refused, match="with samples=50, but this one has samples=49"):
        ss.DataLoader(ss.Subset(folder(photos), range(49)), 8).load_state_dict(state)
    half = ss.DataLoader(folder(photos), 4, rank=1, world_size=2)
    half.load_state_dict(state | {"position": 9})
    assert half.epoch == 1
    loader = ss.DataLoader(folder(photos), 8)
    for _ in loader:
        loader.set_epoch(5)
    assert loader.epoch == 5


@pytest.mark.parametrize("damaged", [{}, None, [], {"position": 1}, [1] * 1000, 3, "position"])
def test_invalid_state_or_epoch_is_refused(photos, damaged):
    loader = ss.DataLoader(folder(photos), 8)
    with pytest.raises(ss.Refused, match="is not the state of a loader: give the result of its state_dict") as raised:
        loader.load_state_dict(damaged)
    assert len(str(raised.value)) < 300
    for position in ("1", -1, 1.0, None, 2**70):
        with pytest.raises(ss.Refused, match="position is"):
            loader.load_state_dict({"position": position, "batches_per_epoch": 7})
    for epoch in (-1, 1.5, 2**32, "1"):
        with pytest.raises(ss.Refused, match="epoch is"):
            loader.set_epoch(epoch)
    assert len(list(loader)) == 7


def test_threads_that_share_a_loader_get_whole_epochs(photos, device):
    loader = ss.DataLoader(folder(photos), 8, num_workers=2, device=device)
    has_begun, may_continue = threading.Event(), threading.Event()

    def iterate(passes):
        counts = []
        for _ in range(passes):
            counts.append(0)
            for _ in loader:
                counts[-1] += 1
                if passes == 1:
                    has_begun.set()
                    assert may_continue.wait(100)
        return counts

    with ThreadPoolExecutor() as pool:
        first = pool.submit(iterate, 1)
        assert has_begun.wait(100)
        assert len(list(loader)) == 7
        may_continue.set()
        assert first.result() == [7]
        for each in [pool.submit(iterate, 5) for _ in range(3)]:  # their iterations may overlap at any time, or never
            assert each.result() == [7] * 5
    assert len(list(loader)) == 7


def test_data_set_without_images_loads_labels(tmp_path):
    numpy.save(tmp_path / "label.npy", numpy.arange(20, dtype=numpy.uint8) % 3)
    loader = ss.DataLoader(ss.open_dataset(tmp_path, num_classes=3), 4)
    assert torch.cat([labels for (labels,) in loader]).tolist() == [i % 3 for i in range(20)]


def test_seeded_stage_generates_same_numbers_after_resume(photos, device):
    def make():
        return ss.DataLoader(folder(photos), 8, shuffle=True, seed=0, device=device)

    def noise(loader):
        stage = ss.Stage("noise", lambda x: torch.rand(1, device=x.device), seed=1)
        return [x.item() for x, _ in ss.Pipeline(loader, [stage])]

    whole, resumed = make(), make()
    expected = noise(whole) + noise(whole)
    resumed.load_state_dict({"position": 3, "batches_per_epoch": 7})
    assert noise(resumed) + noise(resumed) == expected[3:]


@pytest.mark.parametrize("done", [0, 1, 6, 7, 10])
def test_restored_loader_continues_with_remaining_batches(photos, device, done):
    def make():
        return ss.DataLoader(folder(photos, T.RandomCrop(20)), 8, shuffle=True, seed=0, device=device)

    whole, loader = make(), make()
    expected = [x.cpu().clone() for _ in range(3) for x, _ in whole]
    state = loader.state_dict()
    count = 0
    while count < done:
        for _ in loader:
            count += 1
            if count == done:
                break
        state = loader.state_dict()  # after the loop this is the state at the end of the epoch
    rest = make()
    rest.load_state_dict(state)
    ours = [x.cpu().clone() for _ in range(3) for x, _ in rest]
    assert all_equal(ours[: len(expected) - done], expected[done:])


def test_kept_batches_are_not_overwritten(photos, device):
    loader = ss.DataLoader(folder(photos), 2, shuffle=True, seed=0, num_workers=2, device=device)
    kept = list(loader)
    assert len(kept) == 25
    loader.set_epoch(0)
    for (x, y), (images, labels) in zip(kept, loader, strict=True):
        assert torch.equal(x, images) and torch.equal(y, labels)
    del loader
    assert kept[3][0].sum() > 0


def test_pipeline_around_loader_gives_same_batches(photos, device):
    loader = ss.DataLoader(folder(photos), 8, shuffle=True, seed=0, num_workers=2, device=device)
    plain = [(x.float() / 255).cpu() for x, _ in loader]
    loader.set_epoch(0)
    pipe = ss.Pipeline(loader, [("scale", lambda x: x.float() / 255)])
    assert len(pipe) == 7
    ours = [x.cpu() for x, _ in pipe]
    assert all_equal(ours, plain)
    with pytest.raises(ss.Refused, match="the loader loads batches for"):
        ss.Pipeline(loader, (), "meta")
    for name in (device, torch.device(device, 0)):
        assert ss.Pipeline(loader, (), name).device == loader.device


def test_pipeline_saves_and_restores_state_of_its_loader(photos, device):
    pipe = ss.Pipeline(ss.DataLoader(folder(photos), 8, shuffle=True, seed=0, device=device), [("scale", lambda x: x / 255)])
    iter(pipe)  # frameworks do this to test whether an object is iterable
    whole = [x for x, _ in pipe]
    pipe.set_epoch(0)
    for i, _ in enumerate(pipe):
        if i == 2:
            break
    state = pipe.state_dict()
    pipe.set_epoch(5)
    pipe.load_state_dict(state)
    assert all_equal([x for x, _ in pipe], whole[3:])
    assert not hasattr(ss.Pipeline([]), "state_dict")  # otherwise Lightning would try to save and restore its state


def test_ranks_split_each_global_batch(photos):
    whole = collect_batches(ss.DataLoader(folder(photos), 10, shuffle=True, seed=0, drop_last=True))[0]
    parts = [list(ss.DataLoader(folder(photos), 5, shuffle=True, seed=0, drop_last=True, rank=rank, world_size=2))
             for rank in range(2)]
    joined = torch.cat([x for step in zip(*parts, strict=True) for x, _ in step])
    assert torch.equal(joined, whole)


@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 6])
def test_ranks_split_the_partial_last_batch(photos, device, world_size):
    whole = collect_batches(ss.DataLoader(folder(photos), 12, shuffle=True, seed=0, device=device))[0]
    parts = [list(ss.DataLoader(folder(photos), 12 // world_size, shuffle=True, seed=0, rank=rank, world_size=world_size,
                                device=device)) for rank in range(world_size)]
    for rank in parts:
        assert [len(x) for x, _ in rank] == [12 // world_size] * 4 + [-(-2 // world_size)]
    joined = torch.cat([x.cpu() for step in zip(*parts, strict=True) for x, _ in step])
    assert len(joined) < 50 + world_size
    assert torch.equal(joined, torch.cat([whole, whole[: len(joined) - 50]]))


def test_bad_sample_raises_unless_skipped(tmp_path, photos):
    (tmp_path / "a").mkdir()
    good = (photos / "class0" / "000000.jpg").read_bytes()
    for i in range(8):
        (tmp_path / "a" / f"{i}.jpg").write_bytes(good if i != 3 else b"no image")
    with pytest.raises(ss.Error, match=r"a/3\.jpg"):
        list(ss.DataLoader(folder(tmp_path), 4))
    loader = ss.DataLoader(folder(tmp_path), 4, on_bad_sample="skip")
    with pytest.warns(UserWarning, match=r"skipped 1 bad of 8 samples: .*a/3\.jpg") as warned:
        assert [len(images) for images, _ in loader] == [3, 4]
    assert warned[0].filename == __file__  # the line of the loop
    with pytest.raises(ss.Error, match="batch 3: all its samples are bad, the first: "):
        list(ss.DataLoader(folder(tmp_path), 1, on_bad_sample="skip"))


class GrowingSampler:
    """Lists the first four samples in the first epoch, and all samples in later ones."""

    def __init__(self, samples):
        self.samples, self.epochs = samples, 0

    def __iter__(self):
        self.epochs += 1
        return iter(range(4 if self.epochs == 1 else self.samples))


def test_warning_after_an_epoch_names_only_bad_samples_that_are_new(tmp_path, photos):
    (tmp_path / "a").mkdir()
    good = (photos / "class0" / "000000.jpg").read_bytes()
    for i in range(16):
        (tmp_path / "a" / f"{i:02}.jpg").write_bytes(b"no image" if i in (3, 4, 5, 6, 8, 9, 10) else good)
    loader = ss.DataLoader(folder(tmp_path), 4, sampler=GrowingSampler(16), on_bad_sample="skip")

    def warning():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            list(loader)
        return [str(each.message) for each in caught]

    first = warning()
    assert len(first) == 1 and "skipped 1 bad of 16 samples: " in first[0] and "a/03.jpg" in first[0]
    second = warning()
    assert len(second) == 1 and "skipped 7 bad of 16 samples, of which 6 are new: " in second[0]
    names = second[0].partition(" (loader.skipped")[0]
    assert names.count(".jpg") == 5 and names.endswith(", ...") and "a/03.jpg" not in second[0]
    assert warning() == []


def test_skipped_bad_samples_are_left_out_on_each_device(tmp_path, photos, device):
    (tmp_path / "a").mkdir()
    for i, file in enumerate(sorted(photos.glob("*/*"))[:8]):
        (tmp_path / "a" / f"{i}.jpg").write_bytes(file.read_bytes() if i != 2 else b"no image")
    good = ss.Subset(folder(tmp_path), [0, 1, 3, 4, 5, 6, 7])
    expected = torch.cat([images for images, _ in ss.DataLoader(good, 7)])
    given = [images for images, _ in ss.DataLoader(folder(tmp_path), 4, device=device, on_bad_sample="skip")]
    assert torch.equal(torch.cat(given).cpu(), expected)
    assert all(images.is_contiguous(memory_format=torch.channels_last) for images in given)


def test_invalid_arguments_are_refused(photos):
    there_are = "there are" if torch.cuda.is_available() else "there is no GPU here: give device='cpu'"
    with pytest.raises(ss.Refused, match=f"device is 'cuda:99', but .*{there_are}"):
        ss.DataLoader(folder(photos), device="cuda:99")
    with pytest.raises(ss.Refused, match="wraps data sets that have __len__"):
        ss.DataLoader(iter([1, 2, 3]))
    with pytest.raises(ss.Refused, match="on_bad_sample is 'go on'"):
        ss.DataLoader(folder(photos), on_bad_sample="go on")
    with pytest.raises(ss.Refused, match="num_workers is True.*\nseed is 'a'.*\non_bad_sample is 'go on'"):
        ss.DataLoader(folder(photos), num_workers=True, seed="a", on_bad_sample="go on")
    with pytest.raises(ss.Refused, match="resize"):
        ss.DataLoader(ss.ImageFolder(photos), 4)
    with pytest.raises(ss.Refused, match="batch"):
        ss.DataLoader(folder(photos), 1000, drop_last=True)
    for name, value in {"batch_size": 0, "num_workers": -1, "prefetch_factor": 0, "seed": -1}.items():
        with pytest.raises(ss.Refused, match=f"{name} is {value}"):
            ss.DataLoader(folder(photos), **{"batch_size": 8, name: value})
    with pytest.raises(ss.Refused, match="belong together"):
        ss.DataLoader(folder(photos), 8, world_size=2)
    with pytest.raises(ss.Refused, match="rank is -1"):
        ss.DataLoader(folder(photos), 8, rank=-1, world_size=2)
    with pytest.raises(IndexError, match="sample 50: the data set has 50 samples"):
        folder(photos).label(50)
    assert ss.Subset(folder(photos), [49, 0]).label(0) == 2


def test_transforms_take_torchvision_arguments_and_can_be_copied():
    chain = T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.RandomVerticalFlip(0.1),
                       T.RandomRotation(10), T.RandomAffine(5, (0.1, 0.1), (0.9, 1.1), 3),
                       T.GaussianBlur(5), T.ColorJitter(0.4, 0.4, 0.2, 0.1), T.RandomGrayscale(),
                       T.RandomErasing(), T.Normalize((0.5,) * 3, (0.2,) * 3)])
    assert '"op": "random_affine"' in chain.to_json()
    with pytest.raises(ss.Refused, match="p is 2; it must be"):
        T.RandomHorizontalFlip(p=2)
    with pytest.raises(ss.Refused, match="str is not a transform"):
        T.Compose(["crop"])
    mixed = T.Compose([T.CenterCrop(4), len])
    with pytest.raises(ss.Refused, match="cannot contain functions in Python"):
        mixed.to_json()
    with pytest.raises(ss.Refused, match="single samples, by slipstream.DataLoader"):
        mixed(torch.zeros(1, 3, 8, 8))
    assert repr(mixed).endswith(', len)')
    crop = T.CenterCrop(4)
    crop(torch.zeros(1, 3, 8, 8))
    for copied in (pickle.loads(pickle.dumps(crop)), copy.deepcopy(crop)):
        assert copied.__getstate__() == crop.__getstate__()


CHAINS = [
    [T.RandomResizedCrop(24), T.RandomHorizontalFlip()],
    [T.Resize((32, 32)), T.RandomRotation(20), T.ColorJitter(0.4, 0.4, 0.2, 0.1), T.Normalize((0.5,) * 3, (0.2,) * 3)],
    [T.CenterCrop(16), T.GaussianBlur(5), T.RandomErasing()],
    [T.RandomCrop(32), T.RandomMask(0.3), T.ConvertColor(), T.Divide()],
]


@pytest.mark.parametrize("chain", CHAINS, ids=["crop", "color", "blur", "mask"])
def test_transforms_called_on_a_batch_match_the_loader(photos, device, chain):
    whole = ss.DataLoader(ss.ImageFolder(photos, T.Resize((40, 40))), 10)
    images = torch.cat([x.clone() for x, _ in whole])
    loaded = ss.DataLoader(ss.ImageFolder(photos, T.Compose([T.Resize((40, 40)), *chain])), 10, seed=7)
    loaded.set_epoch(2)
    expected = torch.cat([x.clone() for x, _ in loaded])
    transform = T.Compose([T.Resize((40, 40)), *chain])
    ours = transform(images.to(device), torch.arange(50), epoch=2, seed=7)
    assert ours.dtype == expected.dtype and torch.equal(ours.cpu(), expected)
    again = transform(images.to(device)[10:20], range(10, 20), epoch=2, seed=7)
    assert torch.equal(again.cpu(), expected[10:20])


def test_invalid_batches_for_transforms_are_refused(device):
    images = torch.zeros(4, 3, 20, 20, dtype=torch.uint8, device=device)
    with pytest.raises(ss.Refused, match="sample_ids"):
        T.RandomHorizontalFlip()(images)
    with pytest.raises(ss.Refused, match="4 images, but 2 sample_ids"):
        T.RandomHorizontalFlip()(images, [1, 2])
    with pytest.raises(ss.Refused, match="batch x channels x height x width"):
        T.CenterCrop(4)(images[0, 0])
    with pytest.raises(ss.Refused, match="uint8 or float32"):
        T.CenterCrop(4)(images.double())
    with pytest.raises(ss.Refused):
        T.RandomCrop(64)(images, range(4))
    floats = torch.zeros(1, 1, 4, 4)
    for other in (floats.to("meta"), floats.to_sparse(), floats.to_mkldnn()):
        with pytest.raises(ss.Refused, match="dense tensors on a CPU or a GPU, not one of layout .* on (cpu|meta)"):
            T.Normalize([0.5], [0.5])(other)
    assert T.CenterCrop((4, 6))(images).shape == (4, 3, 4, 6)
