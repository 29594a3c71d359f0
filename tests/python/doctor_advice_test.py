"""What slipstream.doctor advises, and whether its native loaders are equivalent to the user's; without measurements."""

import types

from pipelines import Compose, Images, NamedCompose, double, read_samples
import pytest
import torch
from torch.utils.data import DataLoader
from torchvision.datasets.vision import StandardTransform
from torchvision import transforms as v1
from torchvision.transforms import v2

import slipstream as ss
from slipstream import _native
from slipstream._doctor import advice
from slipstream._doctor.loaders import EndlessBatches, Loaders, SmallBatches
from slipstream._doctor.parts import Parts, Step
from slipstream._transform_parts import split_transform


def make_change(kind, gain=1.5, **fields):
    fields = {"description": "as it was", "action": "--option", "number": 10, "step": "resize", "effort": "option"} | fields
    return types.SimpleNamespace(id=kind, gain=types.SimpleNamespace(value=gain), **fields)


ADVICE = [
    ("num_workers", "as it was", "DataLoader(..., num_workers=10, persistent_workers=True)"),
    ("prefetch_batches", "as it was", "DataLoader(..., prefetch_factor=4)"),
    ("cache", "store the results of 'resize' once, and read them from then on: no random generator was used up to "
     "this step, and 50 of 50 readings gave no sign of randomness",
     "numpy.lib.format.open_memmap() writes one array that all workers share"),
    ("smaller_samples",
     "make reading cheaper: smaller samples, larger files that are read sequentially, or a faster decoder",
     "python -m slipstream convert --data DIR --to shards --resize N --out NEW"),
    ("crop_first", "as it was", "in the order of the Compose"),
    ("cheaper_transform", "as it was", "in the code of 'resize', or with a faster library"),
    ("lock_contention", "as it was", "--option"),
    ("memory_bandwidth", "as it was", "--option"),
    ("cores", "as it was", "use another machine, or run fewer processes on this one; then num_workers=10"),
    ("pinning", "as it was", "DataLoader(..., pin_memory=True), and .to(device, non_blocking=True)"),
    ("pipelining", "copy batches in advance, on a separate stream",
     "for batch in slipstream.Pipeline(loader): step(batch)"),
]


IN_NATIVE_WORDS = [
    ("num_workers", "as it was", "slipstream.DataLoader(..., num_workers=10)"),
    ("prefetch_batches", "as it was", "slipstream.DataLoader(..., prefetch_factor=4)"),
    ("smaller_samples", "as it was", "python -m slipstream convert --data DIR --to shards --resize N --out NEW; "
     "slipstream.open_dataset(NEW)"),
    ("convert", "as it was", "python -m slipstream convert --data DIR --to npy --resize N --out NEW; "
     "slipstream.open_dataset(NEW)"),
    ("crop_first", "as it was", "in the order of slipstream.transforms.Compose"),
    ("cheaper_transform", "do less in 'resize', or leave it out", "in slipstream.transforms.Compose"),
    ("device_transforms", "as it was", 'slipstream.DataLoader(..., transforms_device="cuda")'),
    ("lock_contention", "as it was", "--option"),
    ("memory_bandwidth", "as it was", "--option"),
    ("cores", "as it was", "use another machine, or run fewer processes on this one; then num_workers=10"),
]


@pytest.mark.parametrize(("kind", "what", "how"), IN_NATIVE_WORDS)
def test_advice_names_arguments_of_native_loader(kind, what, how):
    diagnosis = types.SimpleNamespace(changes=[make_change(kind), make_change("wire")])
    advice.rewrite_native(types.SimpleNamespace(workers=3), diagnosis, False)
    (change,) = diagnosis.changes  # the change "wire" is omitted, because ss.DataLoader has no such option
    assert (change.description, change.action) == (what, how)


def test_advice_of_caches_and_reading_ahead_needs_a_data_set_without_python():
    def rewritten(reads_natively):
        changes = [make_change("cache", action="--cache decode=8M"), make_change("read_ahead", number=4)]
        diagnosis = types.SimpleNamespace(changes=changes)
        advice.rewrite_native(types.SimpleNamespace(workers=3), diagnosis, reads_natively)
        return [change.action for change in diagnosis.changes]

    assert rewritten(True) == ["slipstream.DataLoader(..., cache='decode=8M')", "slipstream.DataLoader(..., read_ahead=4)"]
    assert rewritten(False) == [], "its samples may be random"


@pytest.fixture
def unranked(monkeypatch):
    """Leaves stated changes in their order, because the native function orders only native ones."""
    monkeypatch.setattr(_native, "rank_changes", lambda diagnosis: None)


def rewrite_advice(changes, workers=3, steps=(Step("resize", reads=50),), bottlenecks=()):
    observed = types.SimpleNamespace(workers=workers)
    diagnosis = types.SimpleNamespace(changes=changes, bottlenecks=bottlenecks)
    advice.rewrite(observed, diagnosis, types.SimpleNamespace(steps=list(steps)), False, None)
    return diagnosis


@pytest.mark.parametrize(("kind", "what", "how"), ADVICE)
def test_advice_names_arguments_of_torch_loader(unranked, kind, what, how):
    (change,) = rewrite_advice([make_change(kind)]).changes
    assert (change.description, change.action) == (what, how)
    assert change.effort == {"cache": "data", "pipelining": "code"}.get(kind, "option")


def test_inapplicable_changes_are_omitted_and_native_ones_are_ranked(monkeypatch):
    ranked = []
    monkeypatch.setattr(_native, "rank_changes", ranked.append)
    monkeypatch.setattr(advice, "_native_changes", lambda *_: [make_change("native_transforms", 2.5)])
    changes = [make_change("lock_contention", 1.1), make_change("wire", 9.0)]
    diagnosis = rewrite_advice(changes, workers=0, bottlenecks=["transforms"])
    assert [change.id for change in diagnosis.changes] == ["lock_contention", "native_transforms"]
    assert ranked == [diagnosis]
    assert rewrite_advice([]).changes == [], "native transforms gain nothing if input keeps up"


def native_changes(dataset, gains):
    samples, asked = read_samples(dataset), []

    def predicted(observed, diagnosis, seconds):
        asked.append(seconds)
        return make_change("", gains[len(asked) - 1])

    return advice._native_changes(None, None, samples.parts, predicted), asked


def test_advice_suggests_native_transforms_that_gain():
    chain = v2.Compose([v2.CenterCrop(4), double, v2.Normalize([0.5] * 3, [0.5] * 3)])
    changes, asked = native_changes(Images(chain), [1.5, 1.01, 2.0])
    assert [set(seconds) for seconds in asked] == [{"CenterCrop"}, {"Normalize"}, {"CenterCrop", "Normalize"}]
    assert all(each > 0 for seconds in asked for each in seconds.values())
    first, _, both = changes
    assert first.description.startswith("run 'CenterCrop' natively: slipstream.transforms.CenterCrop takes ")
    assert both.description == "run all of these natively: CenterCrop, Normalize"
    assert {(change.id, change.effort) for change in changes} == {("native_transforms", "code")}
    assert "ss" not in first.action
    assert "slipstream.ImageFolder(DIR, slipstream.transforms.Compose([...]))" in first.action


def test_advice_drops_transforms_native_images_do_not_need():
    (change,), (seconds,) = native_changes(Images(v2.ToImage()), [2.0])
    assert seconds == {"ToImage": 0.0}
    assert change.description == "leave out 'ToImage', which images of the native loader do not need"


def albumentations(name, **attributes):
    """Returns an object like a transform of albumentations 2, which may not be installed."""
    made = type(name, (), {"__module__": "albumentations.augmentations"})()
    vars(made).update({"p": 1} | attributes)
    return made


RESIZE_OF_CV2 = {"height": 9, "width": 8, "interpolation": 1, "area_for_downscale": None}
ROTATE = {"limit": (-20, 30), "interpolation": 1, "border_mode": 0, "crop_border": False, "fill": 3}
BILINEAR = v2.InterpolationMode.BILINEAR
FORMS = [
    (v2.Resize([9]), '{"op": "resize", "size": 9, "interpolation": "bilinear", "antialias": true}'),
    (v2.Resize(9, v2.InterpolationMode.BICUBIC, 10, False),
     '{"op": "resize", "size": 9, "interpolation": "bicubic", "max_size": 10, "antialias": false}'),
    (v2.RandomResizedCrop(9, (0.5, 1), (1, 1), v2.InterpolationMode.NEAREST),
     '{"op": "random_resized_crop", "size": [9, 9], "scale": [0.5, 1], "ratio": [1, 1], "interpolation": "nearest", '
     '"antialias": true}'),
    (v2.RandomRotation((-3, 5), BILINEAR, fill=7),
     '{"op": "random_rotation", "degrees": [-3.0, 5.0], "interpolation": "bilinear", "fill": 7}'),
    (v1.RandomRotation(4, BILINEAR, fill=None),
     '{"op": "random_rotation", "degrees": [-4.0, 4.0], "interpolation": "bilinear", "fill": 0}'),
    (v2.RandomAffine(2, (0.1, 0.2), (0.5, 2), 4, BILINEAR, 7),
     '{"op": "random_affine", "degrees": [-2.0, 2.0], "translate": [0.1, 0.2], "scale": [0.5, 2], "shear": [-4.0, 4.0], '
     '"interpolation": "bilinear", "fill": 7}'),
    (v2.RandomErasing(0.2, value=7),
     '{"op": "random_erasing", "p": 0.2, "scale": [0.02, 0.33], "ratio": [0.3, 3.3], "value": 7.0}'),
    (v1.RandomErasing(0.2, value=(7, 7, 7)),
     '{"op": "random_erasing", "p": 0.2, "scale": [0.02, 0.33], "ratio": [0.3, 3.3], "value": 7}'),
    (v2.ToDtype(torch.float32), '{"op": "to_dtype", "dtype": "float32", "scale": false}'),
    (v1.ConvertImageDtype(torch.float32), '{"op": "to_dtype", "dtype": "float32", "scale": true}'),
    (v1.ToTensor(), '{"op": "to_dtype", "dtype": "float32", "scale": true}'),
    (v2.RandomCrop((9, 7), (1, 2, 3, 4), True, 5, "edge"),
     '{"op": "random_crop", "size": [9, 7], "padding": [1, 2, 3, 4], "pad_if_needed": true, "fill": 5, '
     '"padding_mode": "edge"}'),
    (v1.RandomCrop(9, (1, 2)),
     '{"op": "random_crop", "size": [9, 9], "padding": [1, 2], "pad_if_needed": false, "fill": 0, '
     '"padding_mode": "constant"}'),
    (v2.Pad((1, 2), 3, "reflect"), '{"op": "pad", "padding": [1, 2], "fill": 3, "padding_mode": "reflect"}'),
    (v2.RandomVerticalFlip(0.2), '{"op": "random_vertical_flip", "p": 0.2}'),
    (v2.RandomGrayscale(0.2), '{"op": "random_grayscale", "p": 0.2}'),
    (v2.RandomInvert(0.2), '{"op": "random_invert", "p": 0.2}'),
    (v2.RandomPosterize(3, 0.2), '{"op": "random_posterize", "bits": 3, "p": 0.2}'),
    (v2.RandomSolarize(9, 0.2), '{"op": "random_solarize", "threshold": 9, "p": 0.2}'),
    (v2.RandomAdjustSharpness(2, 0.2), '{"op": "random_adjust_sharpness", "sharpness_factor": 2, "p": 0.2}'),
    (v2.RandomAutocontrast(0.2), '{"op": "random_autocontrast", "p": 0.2}'),
    (v2.RandomEqualize(0.2), '{"op": "random_equalize", "p": 0.2}'),
    (v2.RandAugment(3, fill=4), '{"op": "rand_augment", "num_ops": 3, "magnitude": 9, "num_magnitude_bins": 31, '
     '"interpolation": "nearest", "fill": 4}'),
    (v2.TrivialAugmentWide(), '{"op": "trivial_augment_wide", "num_magnitude_bins": 31, "interpolation": "nearest"}'),
    (v2.AutoAugment(v2.AutoAugmentPolicy.SVHN), '{"op": "auto_augment", "policy": "svhn", "interpolation": "nearest"}'),
    (v2.Grayscale(3), '{"op": "grayscale", "num_output_channels": 3}'),
    (albumentations("HorizontalFlip", p=0.2), '{"op": "random_horizontal_flip", "p": 0.2}'),
    (albumentations("VerticalFlip", p=0.2), '{"op": "random_vertical_flip", "p": 0.2}'),
    (albumentations("ToGray", p=0.2, num_output_channels=3, method="weighted_average"),
     '{"op": "random_grayscale", "p": 0.2}'),
    (albumentations("Resize", **RESIZE_OF_CV2),
     '{"op": "resize", "size": [9, 8], "interpolation": "bilinear", "antialias": false}'),
    (albumentations("RandomResizedCrop", size=(9, 8), scale=(0.5, 1), ratio=(1, 1), interpolation=2),
     '{"op": "random_resized_crop", "size": [9, 8], "scale": [0.5, 1], "ratio": [1, 1], "interpolation": "bicubic", '
     '"antialias": false}'),
    (albumentations("Rotate", **ROTATE),
     '{"op": "random_rotation", "degrees": [-20, 30], "interpolation": "bilinear", "fill": 3}'),
    (albumentations("ColorJitter", brightness=(0.8, 1.2), contrast=(1, 1), saturation=(1, 1), hue=(0, 0)),
     '{"op": "color_jitter", "brightness": [0.8, 1.2], "contrast": [1, 1], "saturation": [1, 1], "hue": [0, 0]}'),
    (albumentations("Pad", padding=(1, 2), fill=3, border_mode=4),
     '{"op": "pad", "padding": [1, 2], "fill": 3, "padding_mode": "reflect"}'),
    (albumentations("RandomCrop", height=9, width=8, pad_if_needed=False),
     '{"op": "random_crop", "size": [9, 8], "pad_if_needed": false, "fill": 0, "padding_mode": "constant"}'),
    (albumentations("CenterCrop", height=9, width=8), '{"op": "center_crop", "size": [9, 8]}'),
    (albumentations("Normalize", mean=(0.5,), std=(0.2,), max_pixel_value=255.0, normalization="standard"),
     '{"op": "normalize", "mean": [0.5], "std": [0.2]}'),
]


@pytest.mark.parametrize(("theirs", "ours"), FORMS, ids=lambda each: type(each).__name__)
def test_native_forms_have_the_same_arguments(theirs, ours):
    assert repr(advice.native_form(theirs)).endswith(f"({ours})")


@pytest.mark.parametrize("theirs", [
    v2.ToImage(), v2.PILToTensor(), v2.ToDtype(torch.uint8, scale=True), v1.ConvertImageDtype(torch.uint8),
    albumentations("ToTensorV2"),
], ids=lambda each: type(each).__name__)
def test_conversion_to_uint8_needs_no_native_form(theirs):
    assert advice.native_form(theirs) is advice.NOTHING


class Normalize:
    """A transform of a user that has the name and the attributes of one of torchvision."""

    mean, std = [0.5], [0.2]

    def __call__(self, image):
        return image


@pytest.mark.parametrize("theirs", [
    v2.Grayscale(),  # native Grayscale has three channels, this one has one
    v2.Pad(9, {torch.Tensor: 1, "others": 0}),
    v2.RandomRotation(9, expand=True), v2.RandomRotation(9, center=(1, 2)), v2.RandomRotation(9, fill=(1, 2, 3)),
    v2.RandomRotation(9, v2.InterpolationMode.BICUBIC), v1.RandomRotation(9, expand=True),
    v2.RandomAffine(9, center=(1, 2)), v1.RandomAffine(9, center=(1, 2)), v2.RandomAffine(9, fill=(1, 2, 3)),
    v2.RandomErasing(value="random"), v1.RandomErasing(value="random"), v2.RandomErasing(value=(1, 2, 3)),
    v2.ToDtype(torch.float16), v2.ToDtype({torch.Tensor: torch.float32, "others": None}),
    v1.ConvertImageDtype(torch.float64),
    Normalize(), v2.ToImage,
    albumentations("Rotate", **ROTATE | {"p": 0.5}), albumentations("Rotate", **ROTATE | {"border_mode": 4}),
    albumentations("Rotate", **ROTATE | {"interpolation": 2}),
    albumentations("Rotate", **ROTATE | {"crop_border": True}),
    albumentations("ColorJitter", brightness=(0.8, 1.2), contrast=(1, 1), saturation=(1, 1), hue=(0, 0), p=0.5),
    albumentations("Pad", padding=1, fill=0, border_mode=3),
    albumentations("RandomCrop", height=9, width=8, pad_if_needed=True, border_mode=4),
    albumentations("Resize", **RESIZE_OF_CV2 | {"interpolation": 3}),
    albumentations("Resize", **RESIZE_OF_CV2 | {"area_for_downscale": "image"}),
    albumentations("Normalize", mean=(0.5,), std=(0.2,), max_pixel_value=1.0, normalization="standard"),
    albumentations("ToGray", num_output_channels=1, method="weighted_average"),
    albumentations("RandomErasing", scale=(0.1, 0.2), ratio=(1, 1), value=0),
], ids=lambda each: type(each).__name__)
def test_transform_with_arguments_that_have_no_native_equivalent_has_no_native_form(theirs):
    assert advice.native_form(theirs) is None


JITTER, BLUR, FLIP = v2.ColorJitter(brightness=0.5), v2.GaussianBlur(3), v2.RandomHorizontalFlip(1)
T = ss.transforms
CONTAINERS = [
    (v2.RandomApply([JITTER, v2.Compose([BLUR, FLIP])], p=0.3), lambda forms: T.RandomApply(forms, 0.3)),
    (v1.RandomApply(torch.nn.ModuleList([JITTER, BLUR, FLIP])), lambda forms: T.RandomApply(forms, 0.5)),
    (v2.RandomApply([v2.RandomApply([JITTER, BLUR], p=1.0), FLIP]),
     lambda forms: T.RandomApply([T.RandomApply(forms[:2], 1.0), forms[2]])),
    (v2.RandomChoice([JITTER, v2.Compose([BLUR, FLIP])], p=[1, 3]),
     lambda forms: T.RandomChoice([forms[0], T.Compose(forms[1:])], [0.25, 0.75])),
    (v1.RandomChoice([JITTER, BLUR, FLIP]), lambda forms: T.RandomChoice(forms)),
]


@pytest.mark.parametrize("theirs, ours", CONTAINERS, ids=["apply", "apply of v1", "nested", "choice", "choice of v1"])
def test_random_container_is_converted_with_its_transforms(theirs, ours):
    forms = [advice.native_form(each) for each in (JITTER, BLUR, FLIP)]
    assert ss.from_torchvision(theirs)._steps == ours(forms)._steps


@pytest.mark.parametrize("container", [v1.RandomApply, v2.RandomApply, v1.RandomChoice, v2.RandomChoice])
@pytest.mark.parametrize("inner", [
    v2.CenterCrop(4), v2.Resize(4), v2.RandomCrop(4), v2.RandomResizedCrop(4), v2.Pad(1), v2.Normalize([0.5], [0.5]),
    v2.ToDtype(torch.float32, scale=True), v2.ToDtype(torch.uint8), v2.ToImage(), v2.RandomRotation(9, expand=True),
    v2.RandomApply([v2.CenterCrop(4)]), double,
], ids=lambda each: type(each).__name__)
def test_container_with_transform_that_changes_size_or_dtype_stays_in_python(container, inner):
    theirs = container([JITTER, inner])
    assert ss.from_torchvision(theirs)._steps == [theirs]


def test_parts_without_native_form_remain_functions_in_python():
    rotation, own = v2.RandomRotation(9, expand=True), Normalize()
    assert ss.from_torchvision(v2.Compose([v2.CenterCrop(4), rotation, own]))._steps[1:] == [rotation, own]
    with pytest.raises(ss.Refused, match="ToImage is a class, not a transform"):
        ss.from_torchvision(v2.ToImage)
    with pytest.raises(ss.Refused, match="albumentations' Rotate has no native equivalent with these arguments"):
        ss.from_torchvision(albumentations("Rotate", **ROTATE | {"p": 0.5}))


def test_conversion_to_uint8_is_left_out_only_if_images_are_uint8():
    to_uint8 = v2.ToDtype(torch.uint8, scale=True)
    crop = ss.transforms.CenterCrop((4, 4))
    assert ss.from_torchvision(v2.Compose([v2.CenterCrop(4), to_uint8]))._steps == crop._steps
    for before in (v1.ToTensor(), v2.Normalize([0.5], [0.5]), double):
        assert ss.from_torchvision(v2.Compose([before, v2.CenterCrop(4), to_uint8]))._steps[-1] is to_uint8


CHAINS = [
    ([v2.Normalize([0.5] * 3, [0.5] * 3), v2.CenterCrop(4)], ("CenterCrop", "Normalize")),
    ([v2.Resize(16), JITTER, v2.ToDtype(torch.float32, True), v2.RandomCrop(4)], ("RandomCrop", "ColorJitter")),
    ([v2.ToImage(), JITTER, v2.CenterCrop(4)], ("CenterCrop", "ToImage")),
    ([v2.Resize(16), v2.RandomCrop(4)], None),
    ([v2.Resize(16), v2.GaussianBlur(3), v2.CenterCrop(4)], None),
    ([v2.ColorJitter(contrast=0.5), v2.CenterCrop(4)], None),
    ([double, v2.CenterCrop(4)], None),
    ([JITTER, v2.Resize(2)], None),
    ([JITTER, v2.RandomResizedCrop(2)], None),
    ([JITTER, v2.RandomCrop(4, pad_if_needed=True)], None),
    ([JITTER, v2.CenterCrop(14)], None),
    ([v2.CenterCrop(4), JITTER], None),
]


def make_costs(names, sizes):
    costs = []
    for name, size in zip(names, sizes):
        cost = _native.HostStepCost()
        cost.name, cost.bytes = name, size
        costs.append(cost)
    return costs


@pytest.mark.parametrize(("chain", "expected"), CHAINS)
def test_crop_moves_only_before_per_pixel_transforms(chain, expected):
    parts, image, sizes = Parts(Images(Compose(chain))), torch.rand(3, 16, 16), [768]
    for part in chain:
        image = part(image)
        sizes.append(image.numel())
    assert advice.late_crop(parts, make_costs([step.name for step in parts.steps], sizes)) == expected


@pytest.mark.parametrize(("chain", "expected"), [
    ([ss.transforms.Resize(64), ss.transforms.RandomCrop(8)], None),
    ([ss.transforms.Resize(64), ss.transforms.Normalize([0.5], [0.5]), ss.transforms.RandomCrop(8)],
     ("random_crop_2", "normalize_1")),
])
def test_native_crop_moves_only_before_per_pixel_transforms(chain, expected):
    names = ["read", "decode", "resize_0", "normalize_1", "random_crop_2"][: len(chain) + 2]
    sizes = [1000, 3 * 32 * 32] + [3 * 64 * 64] * (len(chain) - 1) + [3 * 8 * 8, 1]
    costs = make_costs([*names, "collate"], sizes)
    assert advice.late_native_crop(ss.transforms.Compose(chain), costs) == expected


def collate(samples):
    return samples


def start(worker):
    pass


def test_doctor_loaders_have_settings_of_users_loader():
    theirs = DataLoader(Images(), 4, num_workers=2, collate_fn=collate, prefetch_factor=5, timeout=7,
                        multiprocessing_context="forkserver", worker_init_fn=start)
    loaders = Loaders(theirs, on_gpu=False)
    parts = Parts(theirs.dataset)
    made = [loaders.whole(parts), loaders.collated([1], theirs.dataset), loaders.timed(parts, 2, 3)]
    for each in made:
        assert (each.num_workers, each.prefetch_factor, each.timeout) == (2, 5, 7)
        assert each.multiprocessing_context.get_start_method() == "forkserver"
        assert each.worker_init_fn.function is start
    assert made[0].collate_fn is collate and made[2].collate_fn.collate is collate


def test_endless_batches_leave_out_short_batches():
    batches = iter(EndlessBatches([[0, 1], [2, 3], [4]]))
    assert [next(batches) for _ in range(5)] == [[0, 1], [2, 3], [0, 1], [2, 3], [0, 1]]
    small = iter(SmallBatches([[0, 1], [2, 3]], 3))
    assert [next(small) for _ in range(3)] == [[0, 1, 2], [3, 0, 1], [2, 3, 0]]


class Counting:
    def __init__(self):
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        return x


def test_copies_of_users_transforms_are_called_instead():
    counting = Counting()
    samples = read_samples(Images(Compose([counting, double])))
    samples.fill(2)
    copied = samples.parts.plain()
    assert copied[3][0].eq(6).all() and counting.calls == 0
    assert copied.transform.transforms[0].calls == 1


def test_bound_method_as_transform_keeps_its_object():
    class Own(Images):
        def more(self, x):
            return x + len(self.read)

    images = Own()
    images.transform = images.more
    assert Parts(images).plain().transform.__self__ is images


def test_compose_with_processors_is_not_split():
    chain = NamedCompose([double])
    assert split_transform(chain) == [double]
    chain.processors = {"bboxes": 1}
    assert split_transform(chain) == [chain]


def test_torchvision_standard_transform_is_split_into_two_parts():
    class Standard(Images):
        def __init__(self):
            super().__init__(Compose([double]), lambda label: label + 10)
            self.transforms = StandardTransform(self.transform, self.target_transform)

        def __getitem__(self, index):
            return self.transforms(torch.full((3, 8, 8), float(index)), index)

    samples = read_samples(Standard())
    assert samples.why_not == "" and [step.name for step in samples.parts.steps[1:]] == ["double", "target_transform"]
    samples.fill(2)
    for behind in range(3):
        image, label = samples.behind(behind)[1]
        assert image.eq(2).all() and label == 11
    assert samples.parts.cutting().transforms is not samples.parts.dataset.transforms


def test_step_that_writes_into_its_batch_is_reported():
    report = ss.doctor(DataLoader(Images(), 4), lambda batch: batch[0].mul_(2), device="cpu", budget=0.5)
    assert "the step writes to its batch, so cached batches change from step to step" in report.text()
