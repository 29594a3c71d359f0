"""The feature cache with graphs=True. On a CPU, tests/support/recorded_graphs.py takes the place of CUDA graphs."""

import warnings

import pytest
import recorded_graphs
import torch
from features import SAMPLES, encoder, epochs, pipeline, same, tensors, torch_loader
from recorded_graphs import make_recorded_graphs
from torch import nn

import slipstream as ss
from slipstream import _cuda_graphs


@pytest.fixture
def graphs(device, monkeypatch):
    if device == "cpu":
        monkeypatch.setattr(_cuda_graphs, "make_graphs", make_recorded_graphs)
        monkeypatch.setattr(_cuda_graphs, "_LIBRARIES", (*_cuda_graphs._LIBRARIES, recorded_graphs.__file__))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "slipstream")
        yield


@pytest.mark.usefixtures("graphs")
@pytest.mark.parametrize("plan", ["pipelined", "serial"])
def test_stage_is_recorded_and_gives_the_batches_of_a_pipeline_without_cache(device, plan):
    pipe = pipeline(torch_loader(tensors(), drop_last=False), encoder(device), "auto", device, plan=plan, graphs=True)
    plain = pipeline(torch_loader(tensors(), drop_last=False), encoder(device), None, device)
    assert same(epochs(pipe), epochs(plain))
    assert pipe.stages[0].function.graphs == 1
    assert pipe.stages[0].cache.report()["misses"] == SAMPLES


@pytest.mark.usefixtures("graphs")
def test_captured_step_trains_with_the_losses_of_a_plain_loop(device):
    def losses(cache):
        torch.manual_seed(3)
        head = nn.Sequential(nn.Flatten(), nn.Linear(64, 5)).to(device)
        optimizer = torch.optim.SGD(head.parameters(), lr=1e-4)

        def train_step(features, labels):
            loss = nn.functional.cross_entropy(head(features), labels % 5)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            return loss.detach()

        step = train_step if cache is None else ss.capture(train_step)
        pipe = pipeline(torch_loader(tensors()), encoder(device), cache, device, graphs=cache is not None)
        torch.manual_seed(5)
        return [float(step(*batch)) for _ in range(4) for batch in pipe]

    ours, theirs = losses("auto"), losses(None)
    assert ours == pytest.approx(theirs, rel=1e-5)


@pytest.mark.usefixtures("graphs")
def test_replaced_weights_are_computed_and_recorded_again(device):
    encode = encoder(device)
    pipe = pipeline(torch_loader(tensors(), shuffle=False), encode, "auto", device, graphs=True)
    epochs(pipe, 2)
    with torch.no_grad():
        encode[0].weight = nn.Parameter(encode[0].weight * 2, requires_grad=False)
    plain = pipeline(torch_loader(tensors(), shuffle=False), encode, None, device)
    assert same(epochs(pipe, 2), epochs(plain, 2))
    assert pipe.stages[0].cache.report()["changes"] == ["changed: weights of stage 'encode'"]
