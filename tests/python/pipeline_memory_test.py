"""Batches that share memory in a slipstream.Pipeline: an error is raised only if shared memory is overwritten."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import slipstream as ss

DATA = np.arange(1 << 18, dtype=np.int64)


def windows(length, step):
    return lambda: (torch.from_numpy(DATA[i:i + length]) for i in range(0, 10 * step, step))


def columns():
    return (torch.from_numpy(DATA.reshape(512, 512))[:, i:i + 8] for i in range(0, 40, 4))


def constant_next_to_each_batch():
    eye = np.eye(3)
    return iter(DataLoader(torch.arange(20.0), 4, collate_fn=lambda s: (torch.stack(s), torch.from_numpy(eye))))


def repeated():
    return (torch.as_tensor(DATA[i:i + 8]) for i in (0, 8, 0, 0, 16, 8))


SHARING = {"windows": windows(16, 4), "long windows": windows(1 << 17, 8), "columns": columns,
           "constant": constant_next_to_each_batch, "repeated": repeated}


@pytest.mark.parametrize("source", SHARING)
def test_batches_that_share_unmodified_memory_are_allowed(device, source):
    assert [str(batch) for batch in ss.Pipeline(SHARING[source](), (), "cpu")] == [
        str(batch) for batch in SHARING[source]()]
    assert len(list(ss.Pipeline(SHARING[source](), (), device))) == len(list(SHARING[source]()))


def test_stage_may_return_kept_unmodified_memory():
    kept = [torch.arange(4.0) * i for i in range(3)]
    loop = ss.Pipeline([torch.tensor([i % 3]) for i in range(9)], [("kept", lambda i: kept[int(i)])], "cpu")
    assert [x.tolist() for x in loop] == [kept[i % 3].tolist() for i in range(9)]


def fill_with_numpy(memory, value):
    memory.numpy()[...] = value


def fill_with_pointer(memory, value):
    np.lib.stride_tricks.as_strided(memory.numpy())[...] = value


def fill_with_pytorch(memory, value):
    memory.fill_(value)


def fill_with_data(memory, value):
    memory.data.fill_(value)


@pytest.mark.parametrize("size", [4, 1 << 18])
@pytest.mark.parametrize("fill", [fill_with_numpy, fill_with_pointer, fill_with_pytorch, fill_with_data])
def test_loader_that_refills_its_memory_raises(fill, size):
    memory = torch.zeros(size)

    def refills():
        for i in range(9):
            fill(memory, i)
            yield torch.from_numpy(memory.numpy())

    with pytest.raises(ss.Error, match=r"the loader returned the same memory.*changed it.*clone"):
        list(ss.Pipeline(refills(), (), "cpu"))


@pytest.mark.parametrize("fill", [fill_with_numpy, fill_with_pytorch])
def test_stage_that_refills_its_memory_raises(fill):
    memory = torch.zeros(4)

    def refills(x):
        fill(memory, float(x))
        return memory

    with pytest.raises(ss.Error, match=r"stage 'refills' returned the same memory for two batches.*clone"):
        list(ss.Pipeline([torch.tensor(float(i)) for i in range(9)], [("refills", refills)], "cpu"))
