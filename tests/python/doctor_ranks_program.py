"""Runs ss.doctor in a process of torchrun: doctor_ranks_program.py PART"""

import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from pipelines import Compose, Images, slow
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

import slipstream as ss

SLOW = 1  # the rank with slow transforms


def loader():
    seconds = 0.02 if dist.get_rank() == SLOW else 0.005
    return DataLoader(Images(Compose([slow(seconds)])), 4)


def module():
    return DistributedDataParallel(nn.Sequential(nn.Flatten(), nn.Linear(192, 4), nn.BatchNorm1d(4)))


def training(model):
    def step(batch):
        model.zero_grad()
        nn.functional.cross_entropy(model(batch[0]), batch[1]).backward()

    return step


def check_slowest():
    model = module()
    step, batch = training(model), next(iter(loader()))
    step(batch)
    kept = [parameter.grad.clone() for parameter in model.parameters()]
    report = ss.doctor(loader(), step, device="cpu", budget=6)
    assert (report.rank, report.slowest_rank) == (dist.get_rank(), SLOW), report.text()
    which = "It is the slowest" if report.rank == SLOW else "The slowest is rank 1"
    assert f"This is rank {report.rank} of 2. {which}, and all others wait for it: " in report.text()
    assert all(torch.equal(each.grad, grad) for each, grad in zip(model.parameters(), kept, strict=True))
    model.zero_grad()
    nn.functional.cross_entropy(model(torch.full((4, 3, 8, 8), float(report.rank))), batch[1]).backward()
    grads = [torch.empty_like(kept[0]) for _ in range(2)]
    dist.all_gather(grads, next(model.parameters()).grad)
    assert torch.equal(*grads), "gradients are exchanged again"


def check_refusal():
    def step(batch):
        dist.all_reduce(torch.ones(1))

    try:
        ss.doctor(loader(), step, device="cpu", budget=6)
    except ss.Refused as refused:
        assert "the step communicates with other processes (c10d::allreduce_)" in str(refused)
    else:
        raise AssertionError("the step was accepted")


def check_failure():
    def step(batch):
        if dist.get_rank() == SLOW:
            raise ValueError("no such batch")

    try:
        report = ss.doctor(loader(), step, device="cpu", budget=6)
    except ValueError:
        assert dist.get_rank() == SLOW
    else:
        assert "rank 1 failed: ValueError: no such batch" in report.text() and report.slowest_rank == 0


if __name__ == "__main__":
    dist.init_process_group("gloo", timeout=timedelta(seconds=120))
    globals()[f"check_{sys.argv[1]}"]()
    dist.barrier()
    print(f"{sys.argv[1]} passed", flush=True)
    # Gloo's threads may still hold tensors, and then abort the process when Python ends.
    os._exit(0)
