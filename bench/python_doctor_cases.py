"""PyTorch loops of known cause for bench/python_doctor_accuracy.py.

A case is a function that returns a Loop. Training waits 20 ms for a batch of 8 samples, so that a CPU can simulate a
device; cases with `gpu` need a GPU and train there. Data sets are so long that no epoch ends during a measurement.
"""

import dataclasses
import functools
import io
import multiprocessing
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torchvision
from PIL import Image, ImageFilter
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, default_collate
from torchvision import datasets, transforms as v1
from torchvision.transforms import v2

import slipstream as ss

BATCH, STEP_S, LENGTH = 8, 0.02, 1_000_000
T = ss.transforms


@dataclasses.dataclass
class Loop:
    """loader: the loader or pipeline. step: trains on a batch. options: arguments of slipstream.doctor."""

    loader: Any
    step: Callable[[Any], Any]
    options: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Case:
    """verdicts: the right verdicts; several if the costs of the causes are about equal."""

    name: str
    make: Callable[[], Loop]
    verdicts: tuple[str, ...]
    needs_gpu: bool = False


CASES: list[Case] = []


def case(name, *verdicts, gpu=False):
    def add(make):
        CASES.append(Case(name, make, verdicts, gpu))
        return make

    return add


# Steps


def waits(batch, seconds=STEP_S):
    time.sleep(seconds)


def works(seconds):
    """Returns a step that computes on the CPU for a time."""
    weights = torch.ones(96, 96)

    def step(batch):
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            torch.relu(weights @ weights)

    return step


# Data


@functools.cache
def folder():
    """Creates JPEG and PNG files once: in large/ of 1024 x 1024, in small/ of 256 x 256, png/ of 512 x 512."""
    root = Path(tempfile.mkdtemp(prefix="slipstream-doctor-cases-"))
    rng = np.random.default_rng(3)
    for kind, size, suffix in (("large", 1024, "jpg"), ("small", 256, "jpg"), ("png", 512, "png")):
        for number in range(16):
            coarse = rng.integers(0, 256, (size // 8, size // 8, 3), dtype=np.uint8)
            path = root / kind / f"class{number % 2}" / f"{number}.{suffix}"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(coarse).resize((size, size), Image.Resampling.BICUBIC).save(path)
    return root


def files(kind):
    return sorted((folder() / kind).glob("*/*.*"))


def image_folder(kind, transform, **options):
    data = datasets.ImageFolder(folder() / kind, transform, **options)
    data.samples = data.imgs = data.samples * (LENGTH // len(data.samples))
    data.targets = [label for _, label in data.samples]
    return data


class Tensors(Dataset):
    """Images in memory: uint8 tensors of channels x height x width."""

    def __init__(self, size, transform=None, target_transform=None, dtype=torch.uint8):
        self.images = torch.randint(0, 255, (8, 3, size, size)).to(dtype)
        self.transform, self.target_transform = transform, target_transform

    def __len__(self):
        return LENGTH

    def __getitem__(self, index):
        image, label = self.images[index % 8], index % 10
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            label = self.target_transform(label)
        return image, label


class Pictures(Tensors):
    """Images in memory as PIL images."""

    def __getitem__(self, index):
        image = Image.fromarray(self.images[index % 8].permute(1, 2, 0).numpy())
        return self.transform(image), index % 10


class Attribute(Tensors):
    """Holds its transforms in an attribute with another name, or in a list or dict."""

    def __init__(self, size, held, name="augment"):
        super().__init__(size)
        self.name = name
        setattr(self, name, held)

    def __getitem__(self, index):
        image, held = self.images[index % 8], getattr(self, self.name)
        if isinstance(held, dict):
            image = held["train"](image)
        elif isinstance(held, list):
            for each in held:
                image = each(image)
        else:
            image = held(image)
        return image, index % 10


class Paths(Dataset):
    """Reads files with a function."""

    def __init__(self, kind, read):
        self.paths, self.read = files(kind), read

    def __len__(self):
        return LENGTH

    def __getitem__(self, index):
        return self.read(self.paths[index % len(self.paths)]), index % 10


class Function(Dataset):
    """Calls a function of the index."""

    def __init__(self, function):
        self.function = function

    def __len__(self):
        return LENGTH

    def __getitem__(self, index):
        return self.function(index)


def made(dataset, workers=1, step=waits, batch=BATCH, options=None, **settings):
    return Loop(DataLoader(dataset, batch, num_workers=workers, **settings), step, options or {})


def tensor(index, size=64):
    return torch.full((3, size, size), float(index % 7)), index % 10


def delayed(seconds):
    def read(index):
        time.sleep(seconds)
        return tensor(index)

    return read


# Transforms


@case("v1: blur of PIL images", "transforms")
def v1_blur():
    return made(Pictures(256, v1.Compose([v1.GaussianBlur(15), v1.ToTensor(), v1.Normalize([0.5] * 3, [0.5] * 3)])), 2)


@case("v1: rotation and jitter of PIL images", "transforms")
def v1_jitter():
    chain = [v1.RandomRotation(30), v1.ColorJitter(0.4, 0.4, 0.4, 0.1), v1.CenterCrop(128), v1.ToTensor()]
    return made(Pictures(256, v1.Compose(chain)))


@case("v2: blur of tensors", "transforms")
def v2_blur():
    return made(Tensors(256, v2.Compose([v2.GaussianBlur(23), v2.ToDtype(torch.float32, scale=True)])), 2)


@case("v2: jitter of tensors", "transforms")
def v2_jitter():
    return made(Tensors(224, v2.Compose([v2.ColorJitter(0.4, 0.4, 0.4, 0.1), v2.ToDtype(torch.float32, scale=True)])))


@case("v2: shuffled, flip, rotation and normalize", "transforms")
def v2_rotation():
    chain = [v2.RandomHorizontalFlip(), v2.RandomRotation(20, v2.InterpolationMode.BILINEAR)]
    chain += [v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.2] * 3)]
    return made(Tensors(320, v2.Compose(chain)), shuffle=True)


@case("v2: crop after slow transforms", "transforms")
def late_crop():
    chain = [v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.2] * 3), v2.CenterCrop(96)]
    return made(Tensors(1024, v2.Compose(chain)), 2)


@case("v2: late conversion of large images to float", "collate", "transforms")
def late_float():
    return made(Tensors(768, v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.2] * 3)])))


class Blur:
    """Has the interface of a transform of albumentations."""

    def __call__(self, image, **others):
        picture = Image.fromarray(image).filter(ImageFilter.GaussianBlur(5))
        return {"image": np.asarray(picture), **others}


class NamedCompose:
    p = 1.0

    def __init__(self, parts):
        self.transforms = parts

    def __call__(self, **values):
        for each in self.transforms:
            values = each(**values)
        return values


NamedCompose.__name__ = "Compose"


class Named(Tensors):
    def __getitem__(self, index):
        image = self.images[index % 8].permute(1, 2, 0).numpy()
        return torch.from_numpy(self.transform(image=image)["image"].copy()), index % 10


@case("like albumentations, in .transform", "transforms")
def albumentations():
    return made(Named(256, NamedCompose([Blur()])))


class NamedAugment(Tensors):
    def __init__(self, size, augment):
        super().__init__(size)
        self.augment = augment

    def __getitem__(self, index):
        image = self.images[index % 8].permute(1, 2, 0).numpy()
        return torch.from_numpy(self.augment(image=image)["image"].copy()), index % 10


@case("like albumentations, in .augment", "transforms")
def albumentations_attribute():
    return made(NamedAugment(256, NamedCompose([Blur()])), 2)


@case("Compose held as self.augment", "transforms")
def attribute():
    return made(Attribute(256, v2.Compose([v2.GaussianBlur(15), v2.ToDtype(torch.float32)])))


@case("dict of transforms", "transforms")
def in_dict():
    return made(Attribute(256, {"train": v2.GaussianBlur(15), "test": v2.Identity()}, "tf"))


@case("list of transforms", "transforms")
def in_list():
    return made(Attribute(256, [v2.GaussianBlur(15), v2.RandomHorizontalFlip()], "steps"), 2)


class Inline(Tensors):
    def __getitem__(self, index):
        image = v2.functional.gaussian_blur(self.images[index % 8], [15, 15])
        return v2.functional.to_dtype(image, torch.float32, scale=True), index % 10


@case("torchvision functions inline in __getitem__", "transforms")
def inline():
    return made(Inline(256))


class InlineAfterDecoding(Paths):
    def __getitem__(self, index):
        with Image.open(self.paths[index % len(self.paths)]) as picture:
            levels = np.asarray(picture.convert("RGB")).astype(np.float32)
        for _ in range(30):
            levels = np.sqrt(levels * levels + 1)
        return torch.from_numpy(levels), index % 10


@case("NumPy code inline after decoding", "transforms")
def inline_numpy():
    return made(InlineAfterDecoding("small", None), 2)


class PilMethods(Paths):
    def __getitem__(self, index):
        with Image.open(self.paths[index % len(self.paths)]) as picture:
            picture = picture.convert("RGB").resize((900, 900), Image.Resampling.LANCZOS).resize((64, 64))
        return torch.from_numpy(np.asarray(picture).copy()), index % 10


@case("resize of PIL images inline", "transforms")
def inline_pil():
    return made(PilMethods("small", None))


@case("transforms without workers", "transforms")
def without_workers():
    return made(Tensors(224, v2.Compose([v2.GaussianBlur(15), v2.ToDtype(torch.float32)])), 0)


@case("transforms in a Subset", "transforms")
def subset():
    return made(Subset(Tensors(256, v2.GaussianBlur(15)), range(LENGTH)))


def slow_target(label):
    time.sleep(0.008)
    return label


@case("slow target_transform", "transforms")
def target():
    return made(Tensors(32, None, slow_target))


class Stream(IterableDataset):
    def __init__(self, transform):
        self.transform, self.images = transform, torch.randint(0, 255, (8, 3, 256, 256), dtype=torch.uint8)

    def __iter__(self):
        for index in range(LENGTH):
            yield self.transform(self.images[index % 8]), index % 10


@case("iterable-style data set with a slow transform", "transforms")
def stream():
    return made(Stream(v2.GaussianBlur(15)))


# Decoding


@case("ImageFolder: large JPEG files, small crop", "decode")
def jpeg():
    return made(image_folder("large", v1.Compose([v1.CenterCrop(64), v1.ToTensor()])), 2)


def decode_bytes(path):
    return torchvision.io.decode_jpeg(torchvision.io.read_file(str(path)))[:, :64, :64].contiguous()


@case("torchvision.io.decode_jpeg", "decode")
def io_decode():
    return made(Paths("large", decode_bytes))


def read_whole(path):
    return torchvision.io.read_image(str(path))[:, :64, :64].contiguous()


@case("torchvision.io.read_image of PNG files", "decode")
def io_read():
    return made(Paths("png", read_whole))


def open_png(path):
    with Image.open(path) as picture:
        return torch.from_numpy(np.asarray(picture.convert("RGB").crop((0, 0, 64, 64))).copy()).permute(2, 0, 1)


@case("PIL: PNG files", "decode")
def pil_png():
    return made(Paths("png", open_png), 2)


def open_bytes(path):
    with Image.open(io.BytesIO(path.read_bytes())) as picture:
        return torch.from_numpy(np.asarray(picture.convert("RGB").crop((0, 0, 64, 64))).copy())


@case("PIL: JPEG files from bytes", "decode")
def pil_bytes():
    return made(Paths("large", open_bytes))


@case("ImageFolder: usual transforms of large JPEG files", "decode", "transforms")
def usual():
    chain = [v2.RandomResizedCrop(64), v2.RandomHorizontalFlip(), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
    return made(image_folder("large", v2.Compose(chain)), 2, shuffle=True)


# Reading


@case("slow storage", "read")
def slow_storage():
    return made(Function(delayed(0.008)))


@case("slow storage, 2 workers", "read")
def slow_storage_two():
    return made(Function(delayed(0.02)), 2)


@case("slow storage without workers", "read")
def slow_storage_none():
    return made(Function(delayed(0.004)), 0)


def open_slowly(path):
    time.sleep(0.012)
    with Image.open(path) as picture:
        return picture.convert("RGB")


@case("ImageFolder on slow storage", "read")
def slow_folder():
    return made(image_folder("small", v1.Compose([v1.CenterCrop(64), v1.ToTensor()]), loader=open_slowly), 2)


@functools.cache
def arrays():
    path = folder() / "arrays"
    path.mkdir(exist_ok=True)
    for number in range(8):
        np.save(path / f"{number}.npy", np.zeros((48 << 20,), np.uint8))
    return path


def load_array(index):
    return torch.from_numpy(np.load(arrays() / f"{index % 8}.npy")[:1000].copy()), index % 10


@case("numpy.load of large arrays", "read")
def large_arrays():
    arrays()
    return made(Function(load_array))


def in_bursts(index):
    time.sleep(0.12 if index % 13 == 0 else 0.001)
    return tensor(index)


@case("slow storage in bursts", "read")
def bursts():
    return made(Function(in_bursts), 2)


class Batches(Dataset):
    def __len__(self):
        return LENGTH

    def __getitem__(self, index):
        time.sleep(0.06)
        return torch.zeros(BATCH, 3, 64, 64), torch.zeros(BATCH)


@case("whole batches from slow storage", "read")
def whole_batches():
    return made(Batches(), batch=None)


# Collating


def collate_slowly(samples):
    time.sleep(0.05)
    return default_collate(samples)


@case("slow collate_fn", "collate")
def slow_collate():
    return made(Function(tensor), collate_fn=collate_slowly)


def collate_in_loops(samples):
    batch = torch.zeros(len(samples), 3, 64, 64)
    for number, (image, _) in enumerate(samples):
        for channel in range(3):
            for row in range(64):
                batch[number, channel, row] = image[channel, row]
    return batch, torch.tensor([label for _, label in samples])


@case("collate_fn with loops over rows", "collate")
def loops_in_collate():
    return made(Function(tensor), 0, collate_fn=collate_in_loops)


def sequence(index):
    return torch.zeros(1 + index % 3000, 64)


def pad(samples):
    longest = max(map(len, samples))
    return torch.stack([torch.cat([each, torch.zeros(4 * longest - len(each), 64)]) for each in samples])


@case("padding of long sequences", "collate")
def padding():
    return made(Function(sequence), batch=32, collate_fn=pad)


def large_sample(index, images=torch.zeros(4, 3, 512, 512)):
    return images[index % 4]


@case("large float batches", "collate", "copy")
def large_batches():
    return made(Function(large_sample), batch=16)


# Workers that wait for each other


def locked(seconds):
    lock = multiprocessing.Lock()

    def read(index):
        with lock:
            time.sleep(seconds)
        return tensor(index, 8)

    return read


@case("a lock shared by 2 workers", "lock_contention")
def lock_of_two():
    return made(Function(locked(0.008)), 2)


@case("a lock shared by 4 workers", "lock_contention")
def lock_of_four():
    return made(Function(locked(0.006)), 4)


# Named parts


class Tokens(Dataset):
    def __len__(self):
        return LENGTH

    def __getitem__(self, index):
        with ss.part("load"):
            words = [str(number) for number in range(100)]
        with ss.part("tokenize"):
            return torch.tensor([sum(hash((word, k)) % 97 for k in range(600)) for word in words])


@case("ss.part: tokenize", "tokenize")
def tokenize():
    return made(Tokens())


def parse(index):
    return torch.tensor([random.Random(index * 1000 + k).random() for k in range(4000)])


class Parsed(Function):
    def __getitem__(self, index):
        return parse(index)


@case("parts=[parse]", "parse")
def parts():
    return made(Parsed(None), 2, options={"parts": [parse]})


# Loops whose input keeps up


@case("cheap samples without workers", "device")
def cheap():
    return made(Function(functools.partial(tensor, size=8)), 0)


@case("cheap samples, 2 workers", "device")
def cheap_workers():
    return made(Function(tensor), 2)


@case("transforms that keep up", "device")
def fast_transforms():
    return made(Tensors(96, v2.Compose([v2.RandomHorizontalFlip(), v2.ToDtype(torch.float32)])), 2)


@case("decoding that keeps up", "device")
def fast_decoding():
    return made(image_folder("small", v1.Compose([v1.CenterCrop(64), v1.ToTensor()])), 1, lambda b: waits(b, 0.06))


@case("a step that computes on the CPU", "device")
def busy_step():
    return made(Function(tensor), 1, works(0.02))


# slipstream.DataLoader and slipstream.Pipeline


def native(kind, chain, workers=1, step=waits, **options):
    return Loop(ss.DataLoader(ss.ImageFolder(folder() / kind, T.Compose(chain)), BATCH, num_workers=workers, **options), step)


@case("ss.DataLoader: blur", "transforms")
def native_blur():
    return native("small", [T.Resize((512, 512)), T.GaussianBlur(63, (9, 10)), T.CenterCrop(64)])


@case("ss.DataLoader: large JPEG files", "decode")
def native_decode():
    return native("large", [T.Resize((64, 64))])


@case("ss.DataLoader: keeps up", "device")
def native_fast():
    return native("small", [T.CenterCrop(64)], 2)


@case("ss.DataLoader with PythonDataset: PNG files", "decode")
def process_decode():
    data = ss.PythonDataset(Paths("png", open_png), T.CenterCrop(32))
    return Loop(ss.DataLoader(data, BATCH, num_workers=1, seed=0), waits)


@case("ss.DataLoader with PythonDataset: slow storage", "read")
def process_read():
    return Loop(ss.DataLoader(Function(delayed(0.008)), BATCH, num_workers=1, seed=0), waits)


@case("ss.DataLoader with a slow collate_fn", "collate")
def process_collate():
    return Loop(ss.DataLoader(Function(tensor), BATCH, num_workers=1, seed=0, collate_fn=collate_slowly), waits)


@case("ss.Pipeline: slow transforms", "transforms")
def pipeline_transforms():
    loop = made(Tensors(256, v2.Compose([v2.GaussianBlur(15), v2.ToDtype(torch.float32)])))
    return Loop(ss.Pipeline(loop.loader, [("scale", lambda images: images / 255)]), waits)


@case("ss.Pipeline: slow stage", "device")
def pipeline_stage():
    def encode(images):
        time.sleep(0.02)
        return images

    loop = made(Function(tensor), 1)
    return Loop(ss.Pipeline(loop.loader, [("encode", lambda images: encode(images) + 1)]), waits)


# On a GPU


def on_gpu(milliseconds):
    cycles = int(milliseconds * 1e-3 * 1.7e9)
    return lambda batch: torch.cuda._sleep(cycles)


def launches(count):
    small = torch.ones(8, device="cuda") if torch.cuda.is_available() else None

    def step(batch):
        for _ in range(count):
            small.add_(1)

    return step


@case("GPU: many small kernels", "launch_overhead", gpu=True)
def small_kernels():
    return made(Function(tensor), 4, launches(4000))


@case("GPU: large batches in pageable memory", "copy", gpu=True)
def pageable():
    batches = [torch.zeros(64, 3, 512, 512) for _ in range(2)]
    return Loop(DataLoader(batches * 100_000, None), on_gpu(5))


@case("GPU: a step of long kernels", "device", gpu=True)
def long_kernels():
    return made(Function(tensor), 4, on_gpu(20), pin_memory=True)


@case("GPU: slow transforms", "transforms", gpu=True)
def gpu_transforms():
    return made(Tensors(256, v2.GaussianBlur(23)), 4, on_gpu(5), pin_memory=True)
