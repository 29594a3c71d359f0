"""The loop of timm's training script with slipstream.Pipeline and slipstream.DataLoader has the bits of plain loops."""

import argparse

import numpy as np
import pytest
import torch
from framework_loops import BATCH, EPOCHS, SAMPLES, VALIDATED, assert_same_run, copied_weights
from PIL import Image

import slipstream as ss

timm = pytest.importorskip("timm")
from timm import utils  # noqa: E402
from timm.data import Mixup, create_loader  # noqa: E402
from timm.loss import SoftTargetCrossEntropy  # noqa: E402
from timm.models import resume_checkpoint  # noqa: E402
from timm.optim import create_optimizer_v2  # noqa: E402
from timm.scheduler import create_scheduler_v2  # noqa: E402
from timm.task import ClassificationTask  # noqa: E402

ACCUMULATED, MIXUP_OFF_EPOCH, RESUMED_EPOCH = 5, 2, 1
MEAN = 0.4


class Photos(torch.utils.data.Dataset):
    """create_loader() sets the transform."""

    def __init__(self, count, seed):
        generator = np.random.default_rng(seed)
        self.images = [Image.fromarray(generator.integers(256, size=(40, 40, 3), dtype=np.uint8))
                       for _ in range(count)]
        self.labels, self.transform = generator.integers(10, size=count).tolist(), None

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.transform(self.images[index]), self.labels[index]


def timm_loader(workers, trains=True):
    return create_loader(Photos(SAMPLES, 1) if trains else Photos(VALIDATED, 2), (3, 32, 32), BATCH,
                         is_training=trains, re_prob=0.5, num_workers=workers, use_prefetcher=False,
                         persistent_workers=False)


def own_loader(photos, workers=1):
    """The last batch has two samples. Mixup needs an even number."""
    steps = ss.transforms.Compose([ss.transforms.RandomResizedCrop(32),
                                   ss.transforms.ToDtype(torch.float32, scale=True)])
    return ss.DataLoader(ss.ImageFolder(photos, steps), BATCH, shuffle=True, num_workers=workers, seed=4)


def center(images):
    return images - MEAN


class Training:
    """The training script of timm (train.py), without options that this test does not need."""

    def __init__(self, transform):
        utils.random_seed(1)
        self.transform = transform
        model = timm.create_model("test_resnet", num_classes=10)
        self.task = ClassificationTask(model, SoftTargetCrossEntropy(), device="cpu", verbose=False)
        self.optimizer = create_optimizer_v2(model, opt="sgd", lr=0.05, momentum=0.9, weight_decay=1e-4)
        self.mixup = Mixup(mixup_alpha=0.2, cutmix_alpha=1.0, label_smoothing=0.1, num_classes=10)
        self.losses, self.scores = [], []

    def make_scheduler(self, loader):
        self.scheduler, _ = create_scheduler_v2(
            self.optimizer, sched="cosine", num_epochs=EPOCHS, warmup_epochs=0,
            updates_per_epoch=-(-len(loader) // ACCUMULATED))

    def train_one_epoch(self, epoch, loader):
        if epoch >= MIXUP_OFF_EPOCH:
            self.mixup.mixup_enabled = False
        model = self.task.get_trainable_module()
        model.train()
        accum_steps, last_batch_idx = ACCUMULATED, len(loader) - 1
        last_accum_steps = len(loader) % accum_steps
        updates = epoch * -(-len(loader) // ACCUMULATED)
        self.optimizer.zero_grad()
        for batch_idx, (images, target) in enumerate(loader):
            last_batch = batch_idx == last_batch_idx
            need_update = last_batch or (batch_idx + 1) % accum_steps == 0
            if batch_idx >= len(loader) - last_accum_steps:
                accum_steps = last_accum_steps
            images, target = self.mixup(self.transform(images), target)
            loss = self.task(images, target)["loss"] / accum_steps
            loss.backward()
            self.losses.append(loss.item())
            if need_update:
                utils.dispatch_clip_grad(model.parameters(), value=1.0)
                self.optimizer.step()
                updates += 1
                self.optimizer.zero_grad()
                self.scheduler.step_update(num_updates=updates)

    @torch.inference_mode()
    def validate(self, loader):
        model = self.task.get_trainable_module()
        model.eval()
        for images, target in loader:
            output = model(self.transform(images))
            self.scores += [output, *utils.accuracy(output, target, topk=(1, 5))]

    def run(self, loader, validation, start_epoch=0, saver=None):
        self.make_scheduler(loader)
        self.scheduler.step(start_epoch)
        for epoch in range(start_epoch, EPOCHS):
            for part in (loader.dataset, loader.batch_sampler, loader.sampler):
                if hasattr(part, "set_epoch"):
                    part.set_epoch(epoch)
            self.train_one_epoch(epoch, loader)
            self.validate(validation)
            self.scheduler.step(epoch + 1)
            if saver is not None:
                saver.save_checkpoint(epoch, metric=None)
        return self.losses, self.scores, copied_weights(self.task)

    def saver(self, folder):
        folder.mkdir()
        return utils.CheckpointSaver(self.task.get_trainable_module(), self.optimizer, checkpoint_dir=str(folder),
                                     args=argparse.Namespace(model="test_resnet"), max_history=EPOCHS)

    def resume(self, folder):
        start_epoch = resume_checkpoint(self.task.get_trainable_module(),
                                        str(folder / f"checkpoint-{RESUMED_EPOCH - 1}.pth.tar"), self.optimizer,
                                        log_info=False)
        utils.random_seed(7)
        return start_epoch


def identity(images):
    return images


def piped(loader):
    return ss.Pipeline(loader, [("center", center)], "cpu")


@pytest.mark.parametrize("workers", [0, 1])
def test_pipeline_around_timms_loader_gives_plain_bits(tmp_path, workers):
    def run(name, wrap, transform, resumes):
        training = Training(transform)
        start_epoch = training.resume(tmp_path / name) if resumes else 0
        loops = wrap(timm_loader(workers)), wrap(timm_loader(workers, trains=False))
        return training.run(*loops, start_epoch, None if resumes else training.saver(tmp_path / name))

    for resumes in (False, True):
        plain = run("plain", identity, center, resumes)
        assert_same_run(run("ours", piped, identity, resumes), plain)
        assert len(plain[0]) == (EPOCHS - RESUMED_EPOCH if resumes else EPOCHS) * (SAMPLES // BATCH)


def train_serially(loader, validation):
    """Trains without timm's bookkeeping of updates; returns the same as Training.run()."""
    training = Training(center)
    training.make_scheduler(loader)
    training.scheduler.step(0)
    model = training.task.get_trainable_module()
    for epoch in range(EPOCHS):
        training.mixup.mixup_enabled = epoch < MIXUP_OFF_EPOCH
        model.train()
        batches = list(loader)
        for first in range(0, len(batches), ACCUMULATED):
            group = batches[first:first + ACCUMULATED]
            for images, target in group:
                images, target = training.mixup(center(images), target)
                loss = training.task(images, target)["loss"] / len(group)
                loss.backward()
                training.losses.append(loss.item())
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            training.optimizer.step()
            training.optimizer.zero_grad()
            training.scheduler.step_update(epoch * -(-len(batches) // ACCUMULATED) + first // ACCUMULATED + 1)
        training.validate(validation)
        training.scheduler.step(epoch + 1)
    return training.losses, training.scores, copied_weights(training.task)


@pytest.mark.parametrize("wrap, transform", [(identity, center), (piped, identity)], ids=["loader", "pipeline"])
def test_own_loader_gives_bits_of_serial_loop_and_resumes(photos, tmp_path, wrap, transform):
    validation = timm_loader(0, trains=False)
    validation = ss.DataLoader(validation.dataset, BATCH)
    expected = train_serially(own_loader(photos), validation)
    assert len(expected[0]) == EPOCHS * 7
    training = Training(transform)
    ours = training.run(wrap(own_loader(photos)), wrap(validation), saver=training.saver(tmp_path / "saved"))
    assert_same_run(ours, expected)

    def resumed(make_loop, transform):
        training = Training(transform)
        start_epoch = training.resume(tmp_path / "saved")
        loader = own_loader(photos)
        loader.set_epoch(start_epoch)
        return training.run(make_loop(loader), make_loop(validation), start_epoch)

    serial = resumed(lambda loader: SerialLoop(loader), center)
    assert_same_run(resumed(wrap, transform), serial)
    assert len(serial[0]) == (EPOCHS - RESUMED_EPOCH) * 7


class SerialLoop:
    """Reads each epoch before the loop begins."""

    dataset = batch_sampler = sampler = None

    def __init__(self, loader):
        self.loader = loader

    def __len__(self):
        return len(self.loader)

    def __iter__(self):
        return iter(list(self.loader))


def test_augmentation_and_mixup_with_one_generator_in_one_process_are_refused():
    """RandAugment in the process of the loop uses NumPy's generator, as Mixup in the loop body does."""
    loader = create_loader(Photos(SAMPLES, 1), (3, 32, 32), BATCH, is_training=True, num_workers=0,
                           use_prefetcher=False, auto_augment="rand-m9-mstd0.5")
    training = Training(identity)
    training.make_scheduler(loader)
    with pytest.raises(ss.Error, match="both draw random numbers from numpy"):
        training.train_one_epoch(0, piped(loader))
