"""Hugging Face's Trainer with slipstream.Pipeline and slipstream.DataLoader has the bits of plain loops."""

import numpy as np
import pytest
import torch
from framework_loops import (
    ACCUMULATED,
    BATCH,
    BATCHES,
    CHECKED,
    EPOCHS,
    RESUMED_UPDATES,
    SAMPLES,
    UPDATES,
    VALIDATED,
    assert_same_run,
    copied_weights,
    divide_by_batches_of_update,
    make_model,
    make_optimizer,
    native_loader,
    normalize,
    samples,
    train_serially,
    validation_samples,
)
from torch import nn

import slipstream as ss

transformers = pytest.importorskip("transformers")
datasets = pytest.importorskip("datasets")
pytestmark = pytest.mark.filterwarnings("ignore")
SHOWN = RESUMED_UPDATES // UPDATES * BATCHES + RESUMED_UPDATES % UPDATES * ACCUMULATED  # batches before the resume


class Classifier(nn.Module):
    """Has the interface of a model of transformers. `transform` is applied unless a pipeline has applied it."""

    def __init__(self, transform, dropout):
        super().__init__()
        self.layers, self.transform, self.losses = make_model(dropout), transform, []

    def forward(self, images, labels):
        logits = self.layers(self.transform(images))
        loss = nn.functional.cross_entropy(logits, labels)
        if self.training:
            self.losses.append(loss.item())
        return {"loss": loss, "logits": logits}


class Batches(torch.utils.data.IterableDataset):
    """Lets the Trainer resume in mid-epoch: it creates another loader around this, and drops the first batches."""

    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        return iter(self.loader)

    def __len__(self):
        return len(self.loader)


class SetEpoch(transformers.TrainerCallback):
    def on_epoch_begin(self, args, state, control, train_dataloader=None, **kwargs):
        train_dataloader.dataset.loader.set_epoch(int(state.epoch or 0))


class Trainer(transformers.Trainer):
    """Trains on what `make_loop` returns for the loader that the Trainer creates itself."""

    def __init__(self, make_loop, *args, **options):
        super().__init__(*args, **options)
        self.make_loop = make_loop

    def get_train_dataloader(self):
        return self.make_loop(super().get_train_dataloader())

    def get_eval_dataloader(self, eval_dataset=None):
        return self.make_loop(super().get_eval_dataloader(eval_dataset), evaluates=True)


def hf_dataset(given):
    return datasets.Dataset.from_dict(
        {"images": given.tensors[0].numpy(), "labels": given.tensors[1].numpy()}).with_format("torch")


def train(folder, make_loop, transform, resumes_from=None, dropout=0.0, callbacks=(), **options):
    """Returns losses, predictions in mid-epoch, weights, and the loss of each evaluation."""
    model, scores = Classifier(transform, dropout), []

    def collect(predictions):
        scores.append(torch.from_numpy(np.array(predictions.predictions)))
        return {}

    arguments = transformers.TrainingArguments(
        folder, per_device_train_batch_size=BATCH, per_device_eval_batch_size=BATCH, num_train_epochs=EPOCHS,
        gradient_accumulation_steps=ACCUMULATED, max_grad_norm=0, eval_strategy="steps", eval_steps=1,
        save_strategy="steps", save_steps=RESUMED_UPDATES, logging_steps=1, report_to=[], use_cpu=True, disable_tqdm=True, seed=1,
        remove_unused_columns=False, **options)
    optimizer = make_optimizer(model)
    constant = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1)
    trainer = Trainer(make_loop, model, arguments, train_dataset=hf_dataset(samples()),
                      eval_dataset=hf_dataset(validation_samples()), compute_metrics=collect,
                      optimizers=(optimizer, constant), callbacks=[*callbacks])
    trainer.train(resume_from_checkpoint=resumes_from)
    assert trainer.state.global_step == EPOCHS * UPDATES
    evaluations = [each["eval_loss"] for each in trainer.state.log_history if "eval_loss" in each]
    return (model.losses, scores, copied_weights(model)), evaluations


def checkpoint(folder):
    return str(folder / f"checkpoint-{RESUMED_UPDATES}")


STAGES = [ss.Stage("normalize", normalize, input="images", output="images")]


def plain_loop(loader, evaluates=False):
    return loader


def piped_loop(loader, evaluates=False):
    return ss.Pipeline(loader, STAGES, "cpu")


def identity(images):
    return images


@pytest.mark.parametrize("workers", [0, 1])
def test_pipeline_around_the_trainers_loader_gives_plain_bits(tmp_path, workers):
    options = {"dropout": 0.2, "dataloader_num_workers": workers}
    plain, evaluations = train(tmp_path / "plain", plain_loop, normalize, **options)
    ours, our_evaluations = train(tmp_path / "ours", piped_loop, identity, **options)
    assert_same_run(ours, plain)
    assert our_evaluations == evaluations and len(evaluations) == EPOCHS * UPDATES
    assert all(each.shape == (VALIDATED, 3) for each in ours[1])
    resumed, _ = train(tmp_path / "plain", plain_loop, normalize, checkpoint(tmp_path / "plain"), **options)
    assert_same_run(resumed, (plain[0][SHOWN:], plain[1][RESUMED_UPDATES:], plain[2]))
    with pytest.raises(ss.Refused, match=r"skip_first_batches\(\) of Accelerate would .* IterableDataset"):
        train(tmp_path / "ours", piped_loop, identity, checkpoint(tmp_path / "ours"), **options)


class OwnLoop:
    """Gives the Trainer a slipstream.DataLoader over the samples that `make_loader` reads."""

    def __init__(self, make_loader, resumes):
        self.make_loader, self.resumes = make_loader, resumes

    def __call__(self, loader, evaluates=False):
        if evaluates:
            return ss.DataLoader(hf_dataset(validation_samples()), BATCH)
        own = self.make_loader()
        return torch.utils.data.DataLoader(Batches(own), batch_size=None) if self.resumes else own


def own_loader(workers):
    return ss.DataLoader(hf_dataset(samples()), BATCH, shuffle=True, num_workers=workers, seed=4)



class Pairs:
    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        return ((each["images"], each["labels"]) for each in self.loader)


def expected_run(loader):
    losses, scores, weights = train_serially(
        Pairs(loader), Pairs(ss.DataLoader(hf_dataset(validation_samples()), BATCH)), divide_by_batches_of_update)
    return losses, list(torch.cat(scores).split(VALIDATED)), weights


def mid_epoch(scores):
    return scores[::UPDATES]


@pytest.mark.parametrize("workers", [0, 1])
def test_own_loader_gives_bits_of_serial_loop(tmp_path, workers):
    expected = expected_run(own_loader(workers))
    (losses, scores, weights), _ = train(tmp_path, OwnLoop(lambda: own_loader(workers), False), normalize)
    assert_same_run((losses, mid_epoch(scores), weights), expected)


def test_own_loader_counts_each_evaluated_sample_once(tmp_path):
    _, plain = train(tmp_path / "plain", plain_loop, normalize)

    class OwnEvaluation(OwnLoop):
        def __call__(self, loader, evaluates=False):
            return super().__call__(loader, True) if evaluates else loader

    _, evaluations = train(tmp_path / "ours", OwnEvaluation(None, False), normalize)
    assert evaluations == plain


def test_own_loader_inside_data_set_of_batches_resumes_in_mid_epoch(tmp_path):
    expected = expected_run(own_loader(0))
    make = OwnLoop(lambda: own_loader(0), True)
    (losses, scores, weights), _ = train(tmp_path, make, normalize, callbacks=[SetEpoch()])
    assert_same_run((losses, mid_epoch(scores), weights), expected)
    (losses, _, weights), _ = train(tmp_path, make, normalize, checkpoint(tmp_path), callbacks=[SetEpoch()])
    assert losses == expected[0][SHOWN:] and all(map(torch.equal, weights, expected[2]))


def test_pipeline_inside_data_set_of_batches_resumes_in_mid_epoch(tmp_path):
    expected = expected_run(own_loader(0))

    def make(loader, evaluates=False):
        loop = own_loader(0) if not evaluates else ss.DataLoader(hf_dataset(validation_samples()), BATCH)
        piped = ss.Pipeline(loop, STAGES)
        return piped if evaluates else torch.utils.data.DataLoader(Batches(piped), batch_size=None)

    train(tmp_path, make, identity, callbacks=[SetEpoch()])
    (losses, _, weights), _ = train(tmp_path, make, identity, checkpoint(tmp_path), callbacks=[SetEpoch()])
    assert losses == expected[0][SHOWN:] and all(map(torch.equal, weights, expected[2]))
