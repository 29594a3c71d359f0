"""MixUp, CutMix and OneHot in the transform of a data set, with loaders, pipelines and trainers."""

import copy
import json
import pickle

import numpy
import pytest
from tensors import all_equal
import torch
import torchvision
from mixed_batches import mixed
from torch import nn
from torch.nn.functional import cross_entropy
from torchvision.transforms import v2
from trained import plain_loop, run_slipstream

import slipstream as ss

T = ss.transforms
FLOATS = [T.Resize((16, 12)), T.ToDtype(torch.float32, scale=True)]
SEED = (7 << 32) + 5


def make_loader(photos, device, *chain, batch_size=8, **options):
    data = ss.ImageFolder(photos, T.Compose([*FLOATS, *chain]))
    options = {"shuffle": True, "seed": SEED, "num_workers": 2} | options
    return ss.DataLoader(data, batch_size, device=device, **options)


def whole_batches(photos, batch_size=8, chain=FLOATS, **options):
    """Yields images and class numbers of batches, without end. The last batch of an epoch is completed with the
    epoch's first samples."""
    loader = ss.DataLoader(ss.ImageFolder(photos, T.Compose(chain)), batch_size, shuffle=True, seed=SEED, **options)
    while True:
        images, labels = (torch.cat(each) for each in zip(*loader, strict=True))
        missing = len(loader) * batch_size - len(images)
        images, labels = torch.cat([images, images[:missing]]), torch.cat([labels, labels[:missing]])
        yield from zip(images.split(batch_size), labels.split(batch_size), strict=True)


def check_batches(batches, whole, op, alpha, first=0, **form):
    """Compares batches with the mixed `whole` ones; a batch may be smaller, with the first samples only."""
    batches = list(batches)
    assert len(batches) >= 7
    for number, ((images, labels), (plain, numbers)) in enumerate(zip(batches, whole, strict=False), first):
        expected, targets = mixed(plain, numbers, op, alpha, SEED, number, **form)
        assert (images.dtype, labels.dtype) == (plain.dtype, torch.float32)
        assert images.is_contiguous(memory_format=torch.channels_last)
        torch.testing.assert_close(images.cpu(), expected[:len(images)], rtol=0, atol=1e-6)
        torch.testing.assert_close(labels.cpu(), targets[:len(images)], rtol=0, atol=1e-6)
        if op != "one_hot":
            assert not torch.equal(images.cpu(), plain[:len(images)])


CHAINS = [("mixup", 0.4, 0.0, [T.MixUp(alpha=0.4)]), ("mixup", 1.0, 0.1, [T.OneHot(label_smoothing=0.1), T.MixUp()]),
          ("cutmix", 1.0, 0.0, [T.CutMix(num_classes=3)]), ("one_hot", 1.0, 0.2, [T.OneHot(label_smoothing=0.2)])]


@pytest.mark.parametrize(("op", "alpha", "smoothing", "chain"), CHAINS)
def test_mixed_batches_match_documented_formulas(photos, device, op, alpha, smoothing, chain):
    """Loads two epochs of 50 samples in batches of 8; the last one has 2."""
    loader = make_loader(photos, device, *chain)
    batches = [*loader, *loader]
    assert [len(images) for images, _ in batches] == [8, 8, 8, 8, 8, 8, 2] * 2
    check_batches(batches, whole_batches(photos), op, alpha, smoothing=smoothing)
    again = make_loader(photos, device, *chain, num_workers=1)
    again.load_state_dict({"position": 9, "batches_per_epoch": 7})
    for own, other in zip(again, batches[9:], strict=True):
        assert all_equal(own, other)
    if device == "cuda":
        on_it = make_loader(photos, device, *chain, transforms_device="cuda")
        assert all(torch.equal(a, b) for own, other in zip(on_it, batches[:7], strict=True)
                   for a, b in zip(own, other, strict=True))


def test_cutmix_of_uint8_images_matches_documented_formulas(photos, device):
    resize = [T.Resize((16, 12))]
    data = ss.ImageFolder(photos, T.Compose([*resize, T.CutMix()]))
    batches = list(ss.DataLoader(data, 8, True, seed=SEED, device=device, num_workers=1))
    check_batches(batches, whole_batches(photos, chain=resize), "cutmix", 1.0, operation=1)


def test_each_rank_mixes_its_share_of_the_batch(photos, device):
    """Positions in a batch are counted over all ranks. Each rank gets one of the last two samples."""
    for rank in range(2):
        options = {"batch_size": 4, "rank": rank, "world_size": 2}
        batches = list(make_loader(photos, device, T.MixUp(), **options))
        assert [len(images) for images, _ in batches] == [4] * 6 + [1]
        check_batches(batches, whole_batches(photos, **options), "mixup", 1.0, first_place=4 * rank)


def brighter(image):
    return image + 0.25


def test_python_function_is_allowed_only_before_mixup(photos, device):
    check_batches(make_loader(photos, device, brighter, T.MixUp()), whole_batches(photos, chain=[*FLOATS, brighter]),
                  "mixup", 1.0)
    with pytest.raises(ss.Refused, match="brighter comes after MixUp, which is applied to whole batches"):
        T.Compose([T.MixUp(), brighter])


def test_mixup_leaves_other_fields_unchanged(photos, device, tmp_path):
    """For example weights of samples, which are in the same slab as the images."""
    (tmp_path / "data").mkdir()
    numpy.save(tmp_path / "data" / "image.npy", numpy.random.default_rng(1).integers(0, 256, (20, 8, 8, 3), "uint8"))
    numpy.save(tmp_path / "data" / "label.npy", numpy.arange(20) % 3)
    numpy.save(tmp_path / "data" / "weight.npy", numpy.arange(20 * 500, dtype="float32").reshape(20, 500))
    data = ss.open_dataset(tmp_path / "data", T.Compose([FLOATS[1], T.MixUp()]), num_classes=3)
    kept = list(ss.DataLoader(data, 2, device=device, num_workers=1))
    weights = torch.cat([batch[data.fields.index("weight")] for batch in kept])
    assert torch.equal(weights.cpu(), torch.arange(20 * 500.0).view(20, 500))
    assert [batch[data.fields.index("label")].shape for batch in kept] == [(2, 3)] * 10
    unknown = ss.open_dataset(tmp_path / "data", T.Compose([FLOATS[1], T.MixUp(num_classes=3)]))
    with pytest.raises(ss.Refused, match="does not report how many classes there are: open it with num_classes=N"):
        ss.DataLoader(unknown, 2, device=device, num_workers=1)


def test_pipeline_does_not_overwrite_mixed_batches_in_use(photos, device):
    """Stages and loop body run after mixing. A batch is not overwritten while a slow loop body still reads it."""
    plain = [tuple(each.clone() for each in batch) for batch in make_loader(photos, device, T.MixUp())]
    pipe = ss.Pipeline(make_loader(photos, device, T.MixUp()), [("halve", lambda images: images / 2)])
    kept = []
    for images, labels in pipe:
        if device == "cuda":
            torch.cuda._sleep(5_000_000)
        kept.append((images.clone(), labels.clone()))
    assert len(kept) == len(plain) == 7
    for own, (images, labels) in zip(kept, plain, strict=True):
        assert torch.equal(own[0], images / 2) and torch.equal(own[1], labels)


class Net(nn.Module):
    """Keeps all images that it gets."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.conv, self.head = nn.Conv2d(3, 8, 3), nn.Linear(8, 3)
        self.seen = []

    def forward(self, images):
        self.seen.append(images.detach().clone())
        return self.head(self.conv(images).relu().mean((2, 3)))


def fit(loader, **options):
    model = Net()
    options = {"epochs": 2, "lr": 0.05, "momentum": 0.9, "deterministic": True, "precision": "fp32",
               "progress": False} | options
    trainer = ss.Trainer(loader, model, **options)
    return trainer, trainer.fit(), model


@pytest.mark.parametrize("chain", [[T.MixUp(), T.OneHot(label_smoothing=0.1)], [T.CutMix()]])
def test_trainer_with_mixing_matches_plain_loop(photos, device, chain):
    seen = []

    def loss(output, labels):
        seen.append(labels.clone())
        return cross_entropy(output, labels)

    trainer, result, model = fit(make_loader(photos, device, *chain), loss=loss, plan="serial")
    loader = make_loader(photos, device, *chain)
    batches = [*loader, *loader]
    assert all_equal(model.seen, (images for images, _ in batches)) and len(seen) == len(batches) == 14
    assert all_equal(seen, (labels for _, labels in batches))
    plain = Net().to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.05, momentum=0.9, fused=True)
    losses = plain_loop(make_loader(photos, device, *chain), plain, optimizer, cross_entropy)
    if device == "cpu":
        assert result.losses == losses
    torch.testing.assert_close(result.losses, losses, rtol=1e-4, atol=1e-4)
    named = [fit(make_loader(photos, device, *chain), plan=plan)[1] for plan in ("serial", "pipelined")]
    assert named[0].digest == named[1].digest
    torch.testing.assert_close(named[0].losses, losses, rtol=1e-4, atol=1e-4)


def test_trainer_resumes_mixing_and_evaluates_without_it(photos, device, tmp_path):
    chain = [T.MixUp(), T.OneHot(label_smoothing=0.1)]
    val = make_loader(photos, device, *chain)
    whole = fit(make_loader(photos, device, *chain))[1]
    fit(make_loader(photos, device, *chain), epochs=None, steps=5, checkpoint=tmp_path / "run")
    trainer, rest, _ = fit(make_loader(photos, device, *chain), checkpoint=tmp_path / "run", resume="auto")
    assert rest.steps == 9 and rest.digest == whole.digest
    outputs = torch.cat(list(trainer.predict(val)))
    labels = torch.tensor([val.dataset.label(i) for i in range(50)])
    assert trainer.evaluate(val)["loss"] == pytest.approx(cross_entropy(outputs, labels).item(), rel=1e-4)
    smoothed = fit(make_loader(photos, device, T.MixUp()), label_smoothing=0.1)[1]
    assert smoothed.digest == whole.digest
    with pytest.raises(ss.Refused, match="so does OneHot among the transforms: leave one of them out"):
        fit(make_loader(photos, device, *chain), label_smoothing=0.1)


@pytest.mark.parametrize("op", [T.MixUp(alpha=8.0), T.CutMix()])
def test_command_line_and_trainer_mix_the_same_batches(photos, device, tmp_path, op):
    """The command line trains one step to create a checkpoint. The loss of the second step then shows which batch it
    used."""
    (tmp_path / "chain.json").write_text(T.Compose([T.Resize((32, 32)), FLOATS[1], op]).to_json())
    words = ["train", "classification", "--data", photos, "--transforms", tmp_path / "chain.json", "--image-size", 32,
             "--batch-size", 8, "--lr", 0.01, "--momentum", 0.9, "--plan", "serial", "--device", device, "--precision",
             "fp32", "--deterministic"]
    run_slipstream(*words, "--steps", 1, "--checkpoint", tmp_path / "run")
    run_slipstream(*words, "--steps", 2, "--json", tmp_path / "run.json")
    expected = json.loads((tmp_path / "run.json").read_text())["losses"][1]

    def loss_with(*chain):
        data = ss.ImageFolder(photos, T.Compose([T.Resize((32, 32)), FLOATS[1], *chain]))
        loader = ss.DataLoader(data, 8, True, drop_last=True, seed=1, device=device, num_workers=1)
        trainer = ss.Trainer(loader, torchvision.models.resnet18(num_classes=3), steps=2, lr=0.01, momentum=0.9,
                             plan="serial", precision="fp32", deterministic=True, progress=False)
        trainer.restore(tmp_path / "run" / "step-00000001")
        return trainer.fit().losses[0]

    assert loss_with(op) == pytest.approx(expected, rel=1e-3)
    assert loss_with() != pytest.approx(expected, rel=1e-2)


class Made(torch.utils.data.Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, index):
        return torch.full((3, 8, 8), float(index)), index % 3


def test_invalid_mixing_is_refused(photos, tmp_path):
    def refused(chain, message, data=ss.ImageFolder, source=photos, **options):
        with pytest.raises(ss.Refused, match=message):
            ss.DataLoader(data(source, T.Compose(chain), **options), 4)

    refused([T.Resize((8, 8)), T.MixUp()], "mixup needs float32 images, but 'image' is uint8")
    refused([*FLOATS, T.CutMix(num_classes=4)], "num_classes of cutmix is 4, but the data set has 3 classes")
    refused([*FLOATS, T.MixUp(num_classes=3), T.OneHot(num_classes=4)], "num_classes is 3 and 4 in one chain")
    refused([T.MixUp()], "MixUp needs labels of known classes, but it is not known which number in a sample",
            ss.PythonDataset, Made())
    run_slipstream("make-data", "segmentation", "--out", tmp_path / "scenes", "--samples", 8, "--size", 32)
    refused([*FLOATS, T.CutMix()], "'label' is a mask with a class for every pixel", ss.open_dataset,
            tmp_path / "scenes")
    for chain, message in (([T.MixUp(), T.Resize((8, 8))], "put mixup, cutmix and one_hot last"),
                           ([T.MixUp(), T.CutMix()], "give mixup or cutmix, not both"),
                           ([T.OneHot(), T.OneHot()], "is a second one_hot"),
                           ([v2.MixUp(num_classes=3)], r"give slipstream.transforms.MixUp\(alpha=...\) as the last")):
        with pytest.raises(ss.Refused, match=message):
            T.Compose(chain)
    for make, message in ((lambda: T.MixUp(alpha=0), "alpha is 0; it must be above 0"),
                          (lambda: T.OneHot(label_smoothing=2), "label_smoothing is 2; it must be 0 to 1"),
                          (lambda: T.CutMix(num_classes="3"), "num_classes is '3': give a whole number")):
        with pytest.raises(ss.Refused, match=message):
            make()


def test_calling_mixup_on_a_batch_is_refused():
    images, labels = torch.zeros(4, 3, 8, 8), torch.zeros(4, dtype=torch.int64)
    for chain in (T.MixUp(), T.Compose([T.Normalize([0.5], [0.5]), T.MixUp()])):
        with pytest.raises(ss.Refused, match=r"MixUp also changes the labels of a batch.*torchvision.transforms.v2"):
            chain(images, labels)


def test_mixup_has_repr_pickle_and_json():
    mix = T.MixUp(alpha=0.2, num_classes=3)
    assert repr(mix) == 'MixUp({"op": "mixup", "alpha": 0.2, "num_classes": 3})'
    for same in (pickle.loads(pickle.dumps(mix)), copy.deepcopy(mix)):
        assert repr(same) == repr(mix)
    (step,) = json.loads(T.Compose([mix]).to_json())["transforms"]
    assert step == {"name": "mixup_0", "op": "mixup", "alpha": 0.2}
