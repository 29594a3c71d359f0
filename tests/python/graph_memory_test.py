"""The memory of CUDA graphs is predicted before they are recorded. On a CPU, tests/support/recorded_graphs.py takes the
place of CUDA graphs."""

import gc
import warnings

import pytest
import recorded_graphs
import torch
from recorded_graphs import make_recorded_graphs
from torch import nn

import slipstream as ss
from slipstream import _cuda_graphs
from slipstream._graph_memory import PoolMemory, reserved_bytes

WARMUP = 3
MIB = 1 << 20


@pytest.fixture
def graphs(device, monkeypatch):
    if device == "cpu":
        monkeypatch.setattr(_cuda_graphs, "make_graphs", make_recorded_graphs)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "slipstream")
        yield


def allocated(*sizes):
    return [(address, size) for address, size in enumerate(sizes)]


def freed(*addresses):
    return [(address, -1) for address in addresses]


@pytest.mark.parametrize(("events", "expected"), [
    ([], 0), (allocated(1), 2), (allocated(MIB, MIB), 2), (allocated(MIB, MIB, 1), 4), (allocated(3 * MIB), 20),
    (allocated(9 * MIB, 9 * MIB), 20), (allocated(9 * MIB, 9 * MIB, 9 * MIB), 40), (allocated(10 * MIB), 10),
    (allocated(11 * MIB), 12), (allocated(2 * MIB, 1), 22)])
def test_pool_grows_by_segments(events, expected):
    assert reserved_bytes([events]) == expected * MIB


def test_freed_memory_is_used_again():
    events = allocated(30 * MIB) + freed(0)
    assert reserved_bytes([[*events, (5, 20 * MIB), (6, 9 * MIB)]]) == 30 * MIB
    assert reserved_bytes([[*events, (5, 31 * MIB)]]) == 62 * MIB
    assert reserved_bytes([events, events]) == 30 * MIB


def test_freed_neighbors_become_one_block():
    six = allocated(*6 * [3 * MIB])
    for order in ((0, 1, 2, 3, 4, 5), (5, 4, 3, 2, 1, 0), (0, 2, 4, 1, 3, 5)):
        assert reserved_bytes([[*six, *freed(*order), (9, 19 * MIB)]]) == 20 * MIB
    assert reserved_bytes([[*six, *freed(0, 1, 2, 4, 5), (9, 19 * MIB)]]) == 40 * MIB


def test_memory_that_stays_is_used_by_one_graph_only():
    stays = allocated(9 * MIB)
    assert reserved_bytes(3 * [stays]) == 40 * MIB
    pool = PoolMemory()
    assert pool.bytes_with(stays) == 20 * MIB and pool.bytes == 0
    for _ in range(3):
        pool.add(stays)
    assert pool.bytes == 40 * MIB


def test_free_of_older_memory_is_ignored():
    assert reserved_bytes([[*freed(7), *allocated(MIB)]]) == 2 * MIB


def make_step(device, width=8, layers=2):
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(layers)]).to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def train(x):
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return train


def test_prediction_is_known_before_the_first_graph(device, graphs):
    step = ss.capture(make_step(device), slots=0)
    x = torch.ones(4, 8, device=device)
    for _ in range(WARMUP - 1):
        step(x)
    assert step.memory_bytes == 0
    step(x)
    assert step.graphs == 0 and step.memory_bytes >= 2 * MIB
    before = step.memory_bytes
    step(x)
    assert step.graphs == 1 and step.memory_bytes == before
    step.reset()
    assert step.memory_bytes == 0


def test_step_without_enough_memory_runs_without_graph(device, graphs, monkeypatch):
    monkeypatch.setattr(recorded_graphs, "AVAILABLE_BYTES", MIB)
    monkeypatch.setattr(_cuda_graphs, "available_bytes", lambda device: MIB)
    step, plain = ss.capture(make_step(device)), make_step(device)
    x = torch.ones(4, 8, device=device)
    message = r"runs without CUDA graph: a graph needs \d\.\d\d GiB(.|\n)*0.00 GiB are available. Remedy: use smaller"
    with pytest.warns(UserWarning, match=message) as seen:
        for _ in range(8):
            assert torch.equal(step(x), plain(x))
    assert len(seen) == 1 and step.graphs == step.replays == 0


def test_pipeline_reports_the_memory_of_its_stages(device, graphs):
    encoder = nn.Linear(8, 8).to(device).eval().requires_grad_(False)
    stages = [("first", encoder), ("second", torch.tanh)]
    pipe = ss.Pipeline([torch.ones(4, 8) for _ in range(6)], stages, device, graphs=True)
    assert pipe.graph_memory_bytes == 0
    list(pipe)
    parts = [stage.function.memory_bytes for stage in pipe.stages]
    assert pipe.graph_memory_bytes == sum(parts) and all(part >= 2 * MIB for part in parts)
    assert ss.Pipeline([], stages, device).graph_memory_bytes == 0


@pytest.mark.parametrize("device", ["cuda"], indirect=True)
@pytest.mark.parametrize(("width", "layers", "size"), [(1024, 4, 8192), (512, 12, 2048)])
def test_prediction_agrees_with_the_memory_that_is_reserved(device, graphs, width, layers, size):
    step = ss.capture(make_step(device, width, layers), slots=0, checks=0)
    x = torch.ones(size, width, device=device)
    for _ in range(WARMUP):
        step(x)
    torch.cuda.synchronize()
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()  # as before a capture
    torch.cuda.empty_cache()
    predicted, before = step.memory_bytes, torch.cuda.memory_reserved()
    step(x)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    reserved = torch.cuda.memory_reserved() - before - x.nbytes  # without the copy of the argument
    print(f"predicted {predicted / MIB:.0f} MiB, reserved {reserved / MIB:.0f} MiB: {predicted / reserved:.3f}")
    assert step.graphs == 1 and 0.6 < predicted / reserved < 1.6


@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_history_that_the_program_records_is_kept(device, graphs):
    torch.cuda.memory._record_memory_history("all", context=None, max_entries=1000)
    try:
        step = ss.capture(make_step(device))
        for _ in range(WARMUP + 2):
            step(torch.ones(4, 8, device=device))
        assert torch._C._cuda_isHistoryEnabled()
        assert step.graphs == 1 and step.memory_bytes == 0
    finally:
        torch.cuda.memory._record_memory_history(None)
