"""Samples with empty tensors, such as the boxes of an image without objects."""

import pytest
import torch
from tensors import all_equal
from torch.utils.data import DataLoader

import slipstream as ss

SAMPLES = [{"boxes": torch.zeros(0, 3), "number": i, "none": torch.zeros(0)} for i in range(12)]


def leaves(batches):
    return [each for batch in batches for each in batch.values()]


def test_loader_collates_empty_samples_like_pytorch():
    ours, theirs = list(ss.DataLoader(SAMPLES, 4, num_workers=2)), list(DataLoader(SAMPLES, 4))
    assert all_equal(leaves(ours), leaves(theirs))
    assert ours[0]["boxes"].shape == (4, 0, 3) and ours[0]["none"].shape == (4, 0)


@pytest.mark.parametrize("serial", [False, True])
@pytest.mark.parametrize("empty", [torch.zeros(0, 3), torch.zeros(4, 0), torch.zeros(0)])
def test_pipeline_passes_empty_tensors_on(device, empty, serial):
    batches = [(empty.clone(), torch.full((2,), float(i))) for i in range(8)]
    stages = [("double", lambda x: x * 2), ("same", lambda x: x)]
    given = list(ss.Pipeline(batches, stages, device, serial=serial))
    assert [each.shape for each, _ in given] == [empty.shape] * 8
    assert all_equal([number.cpu() for _, number in given], [number for _, number in batches])


def test_pipeline_around_torch_loader_passes_empty_tensors_on(device):
    batches = list(ss.Pipeline(DataLoader(SAMPLES, 4, num_workers=1), (), device))
    assert all_equal([each.cpu() for each in leaves(batches)], leaves(DataLoader(SAMPLES, 4)))


def test_stage_may_return_the_same_empty_tensor_repeatedly(device):
    empty = torch.zeros(0, 3)

    def same(x):
        return kept

    kept = empty.to(device)
    given = list(ss.Pipeline([empty.clone() for _ in range(8)], [("same", same)], device))
    assert [each.shape for each in given] == [(0, 3)] * 8


@pytest.mark.parametrize("sample", [torch.zeros(0, 3), torch.zeros(3, 0)])
def test_samples_that_are_one_empty_tensor_collate_like_pytorch(sample):
    assert all_equal(ss.DataLoader([sample] * 8, 4, num_workers=1), DataLoader([sample] * 8, 4))
    assert ss.PythonDataset([sample] * 8)[0].shape == sample.shape
