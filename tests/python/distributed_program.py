#!/usr/bin/env python3
"""Runs comparisons of distributed_test.py in a process of torchrun: distributed_program.py PART FOLDER PHOTOS"""

import copy
import os
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from framework_loops import (
    BATCHES,
    LOADERS,
    VALIDATED,
    accumulating,
    assert_same_run,
    compute_loss,
    copied_weights,
    is_update,
    make_model,
    make_optimizer,
    native_loader,
    normalize,
    pipeline,
    python_loader,
    ss_validation,
    torch_loader,
    torch_validation,
    train_serially,
    worker_loader,
    wrapped,
)
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

SAVED_AT = (1, 5)  # epoch, and batch in whose loop body the state is saved


def identity(images):
    return images


def sharded(model):
    for layer in model:
        if list(layer.parameters()):
            fully_shard(layer)
    return fully_shard(model)


class InLists:
    """Reads each epoch before the loop begins."""

    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        return iter([*self.loader])


def make_state(model, optimizer, loader):
    of_model, of_optimizer = get_state_dict(model, optimizer)
    return {"model": of_model, "optimizer": of_optimizer, "loader": loader.state_dict()}


def train_to(model, optimizer, loop, folder):
    """Trains until the batch at which the state is saved."""
    for epoch in range(SAVED_AT[0] + 1):
        for number, batch in enumerate(loop):
            step(model, optimizer, number, *batch)
            if (epoch, number) == SAVED_AT:
                dcp.save(make_state(model, optimizer, loop), checkpoint_id=folder)
                return


def step(model, optimizer, number, images, labels):
    with accumulating(model, number):
        loss = compute_loss(model, images, labels)
        (loss / 3).backward()
    if is_update(number):
        optimizer.step()
        optimizer.zero_grad()
    return loss.item()


def resumed(wrap, loop, folder):
    model = wrap(make_model())
    optimizer = make_optimizer(model)
    state = make_state(model, optimizer, loop)
    dcp.load(state, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    loop.load_state_dict(copy.deepcopy(state["loader"]))
    losses = []
    for first in (SAVED_AT[1] + 1, 0):
        losses += [step(model, optimizer, number, *batch) for number, batch in enumerate(loop, first)]
    return losses, copied_weights(model)


def check_loops(wrap, folder, photos):
    plain = train_serially(torch_loader(is_shared=True), torch_validation(is_shared=True), gathers=False, wrap=wrap)
    ours = train_serially(pipeline(torch_loader(is_shared=True)), pipeline(torch_validation(is_shared=True)),
                          gathers=False, wrap=wrap, transform=identity)
    assert_same_run(ours, plain)
    for make_loader in LOADERS:
        serial = train_serially(InLists(make_loader(photos)), InLists(ss_validation()), wrap=wrap)
        assert sum(map(len, serial[1])) == 3 * VALIDATED
        assert_same_run(train_serially(make_loader(photos), ss_validation(), wrap=wrap), serial)
        piped = train_serially(pipeline(make_loader(photos)), pipeline(ss_validation()), wrap=wrap, transform=identity)
        assert_same_run(piped, serial)
        model = wrap(make_model())
        train_to(model, make_optimizer(model), pipeline(make_loader(photos)), folder / make_loader.__name__)
        losses, weights = resumed(wrap, pipeline(make_loader(photos)), folder / make_loader.__name__)
        assert losses == serial[0][SAVED_AT[0] * BATCHES + SAVED_AT[1] + 1:]
        assert all(map(torch.equal, weights, serial[2]))


def check_ddp(folder, photos):
    check_loops(wrapped, folder, photos)


def check_fsdp2(folder, photos):
    check_loops(sharded, folder, photos)


def check_accelerate(folder, photos):
    import accelerate_test as tests

    tests.test_pipeline_around_prepared_loaders_gives_plain_bits(0)
    tests.test_pipeline_around_skipping_loader_resumes_with_plain_bits(folder)
    tests.test_own_loader_gives_bits_of_serial_loop_and_resumes(photos, folder / "native", native_loader)
    tests.test_own_loader_gives_bits_of_serial_loop_and_resumes(photos, folder / "python", python_loader)
    tests.test_pipeline_around_own_loader_has_flags_of_the_batch_in_the_loop_body(photos)


def check_lightning(folder, photos):
    import lightning_test as tests

    tests.test_pipeline_around_torch_loader_gives_plain_bits(folder / "torch", 0)
    tests.test_own_loader_gives_bits_of_serial_loop_and_resumes(photos, folder / "worker", worker_loader)
    tests.test_pipeline_around_own_loader_gives_bits_of_serial_loop_and_resumes(photos, folder / "native")


def check_transformers(folder, photos):
    import transformers_test as tests

    tests.test_own_loader_gives_bits_of_serial_loop(folder / "own", 0)
    tests.test_pipeline_inside_data_set_of_batches_resumes_in_mid_epoch(folder / "pipeline")


if __name__ == "__main__":
    part, parent, photos = sys.argv[1:]
    dist.init_process_group("gloo", timeout=timedelta(seconds=30))
    folder = Path(parent) / os.environ["MASTER_PORT"]  # another one for each attempt
    folder.mkdir(exist_ok=True)
    globals()[f"check_{part}"](folder, photos)
    dist.barrier()
    print(f"{part} has equal bits", flush=True)
    # Gloo's threads may still hold tensors, and then abort the process when Python ends.
    os._exit(0)
