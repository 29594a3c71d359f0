"""Lightning's Trainer with slipstream.Pipeline and slipstream.DataLoader has the bits of plain loops."""

import pytest
import torch
from framework_loops import (
    ACCUMULATED,
    BATCHES,
    CHECKED,
    EPOCHS,
    LOADERS,
    RESUMED_UPDATES,
    UPDATES,
    WORLD,
    assert_same_run,
    compute_loss,
    copied_weights,
    make_model,
    make_optimizer,
    native_loader,
    normalize,
    pipeline,
    ss_validation,
    torch_loader,
    torch_validation,
    train_serially,
)

lightning = pytest.importorskip("lightning")
from lightning.pytorch.callbacks import ModelCheckpoint  # noqa: E402
from lightning.pytorch.strategies import DDPStrategy  # noqa: E402

SHOWN = RESUMED_UPDATES // UPDATES * BATCHES + RESUMED_UPDATES % UPDATES * ACCUMULATED  # batches before the resume


class Module(lightning.LightningModule):
    def __init__(self, transform, dropout):
        super().__init__()
        self.model, self.transform = make_model(dropout), transform
        self.losses, self.scores, self.ends = [], [], []

    def training_step(self, batch, batch_index):
        loss = compute_loss(self.model, self.transform(batch[0]), batch[1])
        self.losses.append(loss.item())
        self.ends.append(self.trainer.is_last_batch)
        return loss

    def validation_step(self, batch, batch_index):
        # a check at the end of an epoch would make no difference to one in mid-epoch
        if self.trainer.fit_loop.epoch_loop.batch_progress.current.ready == CHECKED:
            self.scores.append(self.model(self.transform(batch[0])))

    def configure_optimizers(self):
        return make_optimizer(self)


def train(loader, validation, transform, folder, resumes_from=None, dropout=0.0):
    module = Module(transform, dropout)
    saving = ModelCheckpoint(folder, "{step}", every_n_train_steps=1, save_top_k=-1)
    strategy = DDPStrategy(process_group_backend="gloo") if WORLD > 1 else "auto"
    trainer = lightning.Trainer(
        devices=WORLD, strategy=strategy, use_distributed_sampler=False,
        max_epochs=EPOCHS, accumulate_grad_batches=ACCUMULATED, val_check_interval=CHECKED, num_sanity_val_steps=0,
        accelerator="cpu", logger=False, callbacks=[saving], enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(module, loader, validation, ckpt_path=resumes_from, weights_only=False)
    assert trainer.global_step == EPOCHS * UPDATES
    return (module.losses, module.scores, copied_weights(module)), module.ends


def identity(images):
    return images


def checkpoint(folder):
    return folder / f"step={RESUMED_UPDATES}.ckpt"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("workers", [0, 1])
def test_pipeline_around_torch_loader_gives_plain_bits(tmp_path, workers):
    def run(wrap, transform, folder, resumes_from=None):
        loops = wrap(torch_loader(workers, is_shared=True)), wrap(torch_validation(is_shared=True))
        return train(*loops, transform, folder, resumes_from, dropout=0.2)

    plain, ends = run(identity, normalize, tmp_path / "plain")
    ours, our_ends = run(pipeline, identity, tmp_path / "ours")
    assert_same_run(ours, plain)
    assert our_ends == ends == ([False] * (BATCHES - 1) + [True]) * EPOCHS
    # Lightning starts the epoch again, because PyTorch's loader has no state.
    plain, _ = run(identity, normalize, tmp_path / "again", checkpoint(tmp_path / "plain"))
    ours, _ = run(pipeline, identity, tmp_path / "again", checkpoint(tmp_path / "ours"))
    assert_same_run(ours, plain)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make_loader", LOADERS)
def test_own_loader_gives_bits_of_serial_loop_and_resumes(photos, tmp_path, make_loader):
    expected = train_serially(make_loader(photos), ss_validation(), gathers=False)
    ours, _ = train(make_loader(photos), ss_validation(), normalize, tmp_path)
    assert_same_run(ours, expected)
    resumed, _ = train(make_loader(photos), ss_validation(), normalize, tmp_path / "again", checkpoint(tmp_path))
    assert_same_run(resumed, (expected[0][SHOWN:], expected[1][-3:], expected[2]))


@pytest.mark.filterwarnings("ignore")
def test_pipeline_around_own_loader_gives_bits_of_serial_loop_and_resumes(photos, tmp_path):
    expected = train_serially(native_loader(photos), ss_validation(), gathers=False)
    loops = pipeline(native_loader(photos)), pipeline(ss_validation())
    ours, _ = train(*loops, identity, tmp_path)
    assert_same_run(ours, expected)
    loops = pipeline(native_loader(photos)), pipeline(ss_validation())
    resumed, _ = train(*loops, identity, tmp_path / "again", checkpoint(tmp_path))
    assert_same_run(resumed, (expected[0][SHOWN:], expected[1][-3:], expected[2]))
