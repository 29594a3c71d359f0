#!/usr/bin/env python3
"""Trains a classifier on a folder with one subfolder per class. Uses Lightning, with one or more processes:

    python lightning_module.py photos --steps 100
    torchrun --nproc-per-node 2 lightning_module.py photos --checkpoints runs

With --checkpoints it resumes from the last checkpoint in the folder, with any number of processes. Lightning saves the
position in the data in its checkpoints, because the loader, and a slipstream.Pipeline around it, have state_dict() and
load_state_dict().
"""

import argparse
import os
from datetime import timedelta

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.strategies import DDPStrategy
from torch import nn

import slipstream as ss

MEAN, STD = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])


class Classifier(lightning.LightningModule):
    def __init__(self, options):
        super().__init__()
        crop = [ss.transforms.RandomResizedCrop(options.size), ss.transforms.RandomHorizontalFlip()]
        self.data = ss.ImageFolder(options.data, ss.transforms.Compose(crop))
        self.options = options
        torch.manual_seed(1)
        body = [nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU()]
        head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, len(self.data.classes))]
        self.model = nn.Sequential(*body, *head)

    def train_dataloader(self):
        """Creates the loader here, where the process group exists, so that each process loads its share of every
        step."""
        device = self.trainer.strategy.root_device
        loader = ss.DataLoader(self.data, self.options.batch_size // self.trainer.world_size, shuffle=True,
                               drop_last=True, num_workers=self.options.num_workers, seed=self.options.seed,
                               device=device)
        mean, std = (each.to(device).view(1, 3, 1, 1) for each in (MEAN, STD))
        return ss.Pipeline(loader, [("normalize", lambda images: (images / 255 - mean) / std)])

    def training_step(self, batch, batch_index):
        images, labels = batch
        loss = nn.functional.cross_entropy(self.model(images), labels)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("data")
    parser.add_argument("--batch-size", type=int, default=32, help="of all processes together")
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--num-workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoints", help="a folder")
    parser.add_argument("--save-every", type=int, default=10)
    parser.add_argument("--timeout", type=float, default=600, help="seconds after which a process is taken for dead")
    options = parser.parse_args()
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    strategy = DDPStrategy(timeout=timedelta(seconds=options.timeout)) if processes > 1 else "auto"
    saving = ModelCheckpoint(options.checkpoints, "{step}", every_n_train_steps=options.save_every, save_last=True)
    trainer = lightning.Trainer(max_steps=options.steps, max_epochs=-1, devices=processes, strategy=strategy,
                                callbacks=[saving] if options.checkpoints else [], logger=False,
                                enable_checkpointing=bool(options.checkpoints), enable_progress_bar=False)
    trainer.fit(Classifier(options), ckpt_path="last" if options.checkpoints else None)
    if trainer.is_global_zero and "loss" in trainer.callback_metrics:
        print(f"step {trainer.global_step}: loss {trainer.callback_metrics['loss']:.7f}", flush=True)
    trainer.strategy.barrier()
    if processes > 1:
        # Gloo's threads may still hold tensors, and then abort the process when Python ends.
        os._exit(0)


if __name__ == "__main__":
    main()
