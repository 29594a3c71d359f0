"""Stages and loop bodies that torch.compile has compiled with CUDA graphs."""

import sys
import threading
import types
import warnings

import pytest
import torch
from torch import nn

import slipstream as ss
from slipstream import _graph_trees


class Node:
    """Knows the output of the last graph, as torch._inductor.cudagraph_trees.CUDAGraphNode does."""

    def __init__(self, output):
        self.address = output.untyped_storage().data_ptr()

    def _is_cuda_graph_recorded_tensor(self, tensor):
        return tensor.untyped_storage().data_ptr() == self.address


class Manager:
    current_node = None


class Container:
    def __init__(self):
        self.tree_manager = Manager()


class StaticModule:
    """Returns the same memory for each batch, and belongs to the containers in which it is first called."""

    def __init__(self, trees):
        self.trees, self.output, self.containers = trees, torch.empty(2), None

    def __call__(self, x):
        if self.containers is None:
            self.containers = self.trees.get_obj(self.trees.local, "tree_manager_containers")
        self.containers.setdefault(0, Container()).tree_manager.current_node = Node(self.output)
        return self.output.copy_(x + 1)


@pytest.fixture
def trees(monkeypatch):
    """Takes the place of PyTorch's module on a machine without a GPU."""
    module = types.ModuleType("cudagraph_trees")
    module.local = threading.local()
    module.local.tree_manager_containers = {}
    module.get_obj = getattr
    monkeypatch.setitem(sys.modules, _graph_trees._MODULE, module)
    monkeypatch.setattr("slipstream._iteration.isolate", _graph_trees.IsolatedStage)
    monkeypatch.setattr(_graph_trees, "_own", threading.local())
    return module


def pairs(count=6):
    return [(torch.full((2,), float(i)), i) for i in range(count)]


@pytest.mark.parametrize("plan", ["pipelined", "serial"])
@pytest.mark.parametrize("keys", [{}, {"input": 0, "output": 0}])
def test_static_outputs_of_a_stage_are_copied(trees, plan, keys):
    stage = ss.Stage("encode", StaticModule(trees), **keys)
    made = list(ss.Pipeline(pairs(), [stage], "cpu", plan=plan))
    assert [x.tolist() for x, _ in made] == [[i + 1.0] * 2 for i in range(6)]
    assert trees.local.tree_manager_containers == {}


def test_each_stage_has_its_own_graphs(trees):
    first, second = StaticModule(trees), StaticModule(trees)
    pipe = ss.Pipeline(pairs(), [("first", first), ("second", second)], "cpu")
    for _ in range(2):
        assert [x.tolist() for x, _ in pipe] == [[i + 2.0] * 2 for i in range(6)]
    assert first.containers is not second.containers
    assert all(each is not trees.local.tree_manager_containers for each in (first.containers, second.containers))


def test_stage_that_was_called_before_the_loop_gives_one_warning(trees):
    static = StaticModule(trees)
    static(torch.zeros(2))
    with pytest.warns(UserWarning, match=r"stage 'encode'.*does not overlap(.|\n)*torch.compiler.reset") as seen:
        made = list(ss.Pipeline(pairs(), [("encode", static)], "cpu"))
    assert [x.tolist() for x, _ in made] == [[i + 1.0] * 2 for i in range(6)]
    assert len(seen) == 1


def test_error_of_a_stage_restores_the_graphs_of_the_loop(trees):
    def fails(x):
        raise ValueError("no")

    before = trees.local.tree_manager_containers
    with pytest.raises(ValueError, match="no"):
        list(ss.Pipeline(pairs(), [("fails", fails)], "cpu"))
    assert trees.local.tree_manager_containers is before


@pytest.mark.parametrize("plan", ["pipelined", "serial"])
@pytest.mark.parametrize("names", [("encode", "first", "encode"), ("encode", "first", "second")])
def test_pipelines_can_share_a_module(trees, plan, names):
    static = StaticModule(trees)
    list(ss.Pipeline(pairs(), [(names[0], static)], "cpu", plan=plan))
    pipe = ss.Pipeline(pairs(), [(names[1], torch.neg), (names[2], static)], "cpu", plan=plan)
    assert [x.tolist() for x, _ in list(pipe)] == [[1.0 - i] * 2 for i in range(6)]


def test_doctor_measures_a_stage_in_its_own_graphs(trees, monkeypatch):
    monkeypatch.setattr("slipstream._doctor.measurements.isolate", _graph_trees.IsolatedStage)
    static, seen = StaticModule(trees), set()
    loader = torch.utils.data.DataLoader([x for x, _ in pairs()], batch_size=None)
    ss.doctor(ss.Pipeline(loader, [("encode", static)], "cpu"), lambda x: seen.add(x.data_ptr()), budget=1)
    assert seen and static.output.data_ptr() not in seen
    assert static.containers is not trees.local.tree_manager_containers == {}


class Stream:
    """Records for which streams it waits."""

    def __init__(self):
        self.waited = []

    def wait_stream(self, other):
        self.waited.append(other)


def test_stage_waits_for_its_graphs_on_other_streams(trees, monkeypatch):
    body, lane, current = Stream(), Stream(), []
    monkeypatch.setattr(_graph_trees, "_current_stream", lambda device: current[-1])
    current.append(body)
    first = _graph_trees.IsolatedStage(ss.Stage("encode", StaticModule(trees)), "cpu")
    second = _graph_trees.IsolatedStage(first._stage, "cpu")
    other = _graph_trees.IsolatedStage(ss.Stage("other", first._stage.function), "cpu")
    current.append(lane)
    first(pairs(1)[0])
    first(pairs(1)[0])
    assert body.waited == lane.waited == []
    current.append(body)
    second(pairs(1)[0])  # as with plan="serial", after a loop that ended early
    assert body.waited == [lane]
    current.append(lane)
    other(pairs(1)[0])  # its graphs are found to be those of the stage "encode"
    assert lane.waited == [body]
    current.append(body)
    first(pairs(1)[0])
    assert body.waited == [lane, lane]


def test_static_memory_that_is_not_of_graphs_is_still_refused(trees):
    kept = torch.empty(2)
    with pytest.raises(ss.Error, match="same memory for two batches"):
        list(ss.Pipeline(pairs(), [("static", lambda x: kept.copy_(x))], "cpu"))


def train(compile_stage, compile_body, pipelined, steps=60):
    torch.compiler.reset()
    torch.manual_seed(1)
    encoder = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 256)).cuda().eval().requires_grad_(False)
    decoder = nn.Sequential(nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 8)).cuda()
    optimizer = torch.optim.SGD(decoder.parameters(), 1e-2)
    encode, body = compile_stage(encoder), compile_body(decoder)
    made = torch.Generator().manual_seed(2)
    data = [(torch.randn(512, 64, generator=made).pin_memory(), torch.randn(512, 8, generator=made).pin_memory())
            for _ in range(steps)]

    def plain():
        for x, y in data:
            torch.compiler.cudagraph_mark_step_begin()
            with torch.no_grad():
                features = encode(x.cuda(non_blocking=True)).clone()
            yield features, y.cuda(non_blocking=True)

    losses = []
    for x, y in ss.Pipeline(data, [("encode", encode)], "cuda") if pipelined else plain():
        loss = nn.functional.mse_loss(body(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach().clone())
    return torch.stack(losses).cpu()


def eager(module):
    return module


def default(module):
    return torch.compile(module)


def graphs(module):
    return torch.compile(module, mode="reduce-overhead")


@pytest.mark.parametrize("compile_body", [eager, default, graphs])
@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_stage_with_graphs_gives_the_bits_of_a_plain_loop(device, compile_body):
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "stage")
        expected = train(graphs, compile_body, pipelined=False)
        found = train(graphs, compile_body, pipelined=True)
    assert torch.equal(found, expected)


@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_body_with_graphs_after_a_stage_without(device):
    assert torch.equal(train(default, graphs, pipelined=True), train(default, graphs, pipelined=False))
