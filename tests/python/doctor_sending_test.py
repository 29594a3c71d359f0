"""How the doctor sends samples from worker processes."""

import pickle

import pytest
import torch
from torchvision import tv_tensors

from slipstream._doctor.sending import pack, unpack

WHOLE = torch.arange(3 * 64 * 64, dtype=torch.float32).view(3, 64, 64)


@pytest.mark.parametrize("value", [
    WHOLE, WHOLE[:, 4:36, 8:40], WHOLE.permute(1, 2, 0), torch.ones(4), torch.ones(0), torch.ones(()),
    WHOLE.to(torch.uint8), torch.ones(2000, dtype=torch.bfloat16), torch.view_as_complex(WHOLE.view(-1, 2)),
    WHOLE.to_sparse(), torch.quantize_per_tensor(WHOLE, 0.5, 1, torch.qint8),
    torch.nn.Parameter(WHOLE.clone()), tv_tensors.Image(WHOLE), tv_tensors.Image(WHOLE)[:, :8, :8]], ids=range(14))
def test_tensors_arrive_with_type_values_and_shape(value):
    made = unpack(pack({"value": [value], "name": "a.jpg"}))
    other = made["value"][0]
    assert made["name"] == "a.jpg" and type(other) is type(value) and other.dtype == value.dtype
    assert other.shape == value.shape and other.requires_grad == value.requires_grad
    assert torch.equal(torch.dequantize(other) if value.is_quantized else other.to_dense(),
                       torch.dequantize(value) if value.is_quantized else value.to_dense())


def test_large_tensors_are_in_one_tensor_and_crops_without_the_rest():
    text, elements = pack([WHOLE, WHOLE + 1, WHOLE[:, :32, :32]])
    assert elements.nbytes == 2 * WHOLE.nbytes + WHOLE.nbytes // 4 and len(text) < 2000
    assert len(pickle.dumps(WHOLE[:, :32, :32])) > WHOLE.nbytes  # what pickle alone does


def test_arrived_tensors_share_no_memory():
    first, second = unpack(pack([WHOLE, WHOLE + 0]))
    first.zero_()
    assert torch.equal(second, WHOLE)
