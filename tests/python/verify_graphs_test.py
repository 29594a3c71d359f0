"""slipstream.verify with CUDA graphs: it finds graphs that are replayed too early or with stale addresses, and correct
loops pass. On a CPU, tests/support/recorded_graphs.py takes the place of CUDA graphs, and threads race instead of
streams."""

import queue
import re
import threading
import warnings
from pathlib import Path

import pytest
import recorded_graphs
import torch
from recorded_graphs import RecordedGraph, make_recorded_graphs
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import slipstream as ss
from slipstream import _cuda_graphs
from slipstream._verify import graphs as observed

torch.set_num_threads(1)
STEPS = 8


@pytest.fixture
def graphs(device, monkeypatch):
    if device == "cpu":
        monkeypatch.setattr(_cuda_graphs, "make_graphs", make_recorded_graphs)
        monkeypatch.setattr(_cuda_graphs, "_LIBRARIES", (*_cuda_graphs._LIBRARIES, recorded_graphs.__file__))
        monkeypatch.setattr(observed, "GRAPHS", (RecordedGraph,))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "slipstream")
        yield


def make_training(device, steps=STEPS):
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).to(device)
    decoder = nn.Linear(8, 4).to(device)
    optimizer = torch.optim.SGD(decoder.parameters(), 0.05, momentum=0.9)
    data = [torch.randn(32, 16) for _ in range(steps)]
    data = [each.pin_memory() for each in data] if device == "cuda" else data
    return encoder.eval().requires_grad_(False), decoder, optimizer, data


def train(decoder, optimizer, features):
    loss = decoder(features).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss


def captured(function, device, pool=None, keeps_memory=True):
    """Returns a graph that the user records, and the output of the function."""
    function()
    if device == "cpu":
        graph = RecordedGraph(keeps_memory)
        graph.capture_begin()
        output = function()
        graph.capture_end()
    else:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            output = function()
    return graph, output


class Capture(TorchDispatchMode):
    """Adds the operations of a block to the contents of a graph."""

    def __init__(self):
        super().__init__()
        self.contents = observed.GraphContents("/folder/train.py:7 in run", is_on_device=False)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.contents.add(func, args, kwargs or {}, result)
        return result


def test_reads_and_writes_of_a_graph_are_those_of_its_operations():
    weight, counter, buffer, unused = (torch.full((2,), float(i)) for i in range(4))
    with Capture() as capture:
        hidden = weight.view(2) * 2
        counter.add_(1)
        buffer.copy_(hidden)
        output = buffer + 1  # reads what the graph has written
        unused.view(1, 2)
        del hidden
    contents = capture.contents
    addresses = [sorted(each.data_ptr() for each in tensors) for tensors in (contents.reads(), contents.writes())]
    assert addresses[0] == sorted([weight.data_ptr(), counter.data_ptr()])
    assert addresses[1] == sorted([counter.data_ptr(), buffer.data_ptr(), output.data_ptr()])
    assert contents.freed({}) == [] and str(contents.function) == "CUDA graph [captured at train.py:7]"
    del weight
    assert contents.freed({}) == ["float32[2]"]
    assert torch.equal(contents.reads()[0], counter)


class Side:
    """Runs functions next to the loop: on a thread, or on a stream."""

    def __init__(self, device):
        self.stream = torch.cuda.Stream() if device == "cuda" else None
        self.thread = None

    def start(self, function):
        """Runs a function after all that the loop has called before."""
        if self.stream is None:
            self.thread = threading.Thread(target=function)
            self.thread.start()
            return
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            function()

    def wait(self):
        if self.stream is not None:
            torch.cuda.current_stream().wait_stream(self.stream)
        elif self.thread is not None:
            self.thread.join()


def late_input(is_correct, device):
    """The replay does not wait for the copy of its input."""
    encoder, decoder, optimizer, data = make_training(device)
    static, side = torch.zeros(32, 16, device=device), Side(device)

    def run():
        graph, features = captured(lambda: encoder(static), device)
        for batch in data:
            side.start(lambda batch=batch: static.copy_(batch, non_blocking=True))
            if is_correct:
                side.wait()
            graph.replay()
            yield train(decoder, optimizer, features)
            side.wait()

    return run


def refilled_slot(is_correct, device):
    """The slot of a graph is refilled with the batch after the next one, before the replay has read it."""
    encoder, decoder, optimizer, data = make_training(device)
    slots = [torch.zeros(32, 16, device=device) for _ in range(2)]

    def on_stream():
        made = [captured(lambda slot=slot: encoder(slot), device) for slot in slots]
        copies, done = torch.cuda.Stream(), [torch.cuda.Event() for _ in slots]
        copies.wait_stream(torch.cuda.current_stream())
        for number, batch in enumerate(data):
            graph, features = made[number % 2]
            with torch.cuda.stream(copies):
                if is_correct and number >= 2:
                    copies.wait_event(done[number % 2])
                slots[number % 2].copy_(batch, non_blocking=True)
            torch.cuda.current_stream().wait_stream(copies)
            graph.replay()
            done[number % 2].record()
            yield train(decoder, optimizer, features)

    def with_thread():
        made = [captured(lambda slot=slot: encoder(slot), device) for slot in slots]
        items, free = queue.Queue(2), threading.Semaphore(2)

        def refill():
            for number, batch in enumerate(data):
                if is_correct:
                    free.acquire()
                slots[number % 2].copy_(batch)
                items.put(number)
            items.put(None)

        thread = threading.Thread(target=refill, daemon=True)
        thread.start()
        while (number := items.get()) is not None:
            graph, features = made[number % 2]
            graph.replay()
            free.release()
            yield train(decoder, optimizer, features)
        thread.join()

    return on_stream if device == "cuda" else with_thread


def overwritten_output(is_correct, device):
    """Another stream or thread still reads the output of a graph when the next replay overwrites it."""
    encoder, decoder, optimizer, data = make_training(device)
    static, average = torch.zeros(32, 16, device=device), torch.zeros(32, 8, device=device)
    side = Side(device)

    def run():
        graph, features = captured(lambda: encoder(static), device)
        for batch in data:
            static.copy_(batch, non_blocking=True)
            if is_correct:
                side.wait()
            graph.replay()
            if not is_correct:
                side.wait()
            side.start(lambda: average.lerp_(features, 0.5))
            yield train(decoder, optimizer, features)
        side.wait()
        return average

    return run


def shared_pool(is_correct, device):
    """Two graphs that share a memory pool run at the same time."""
    encoder, decoder, optimizer, data = make_training(device)
    inputs, outputs = ([torch.zeros(32, size, device=device) for _ in range(2)] for size in (16, 8))

    def run():
        pool, side = torch.cuda.graph_pool_handle(), torch.cuda.Stream()
        first, second = (captured(lambda x=x, y=y: y.copy_(encoder(x)), device, pool)[0]
                         for x, y in zip(inputs, outputs, strict=True))
        side.wait_stream(torch.cuda.current_stream())
        for batch in data:
            inputs[0].copy_(batch, non_blocking=True)
            inputs[1].copy_(batch.flip(0).pin_memory(), non_blocking=True)
            side.wait_stream(torch.cuda.current_stream())
            first.replay()
            if is_correct:
                side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                second.replay()
            torch.cuda.current_stream().wait_stream(side)
            yield train(decoder, optimizer, outputs[0] + outputs[1])

    return run


def late_input_of_captured_step(is_correct, device):
    """slipstream.capture: the call does not wait for its argument."""
    encoder, decoder, optimizer, data = make_training(device)
    static, side = torch.zeros(32, 16, device=device), Side(device)

    def run():
        step = ss.capture(lambda x: train(decoder, optimizer, encoder(x)), slots=0)
        for batch in data:
            side.start(lambda batch=batch: static.copy_(batch, non_blocking=True))
            if is_correct:
                side.wait()
            yield step(static)
            side.wait()

    return run


def new_input(is_correct, device):
    """The user's graph reads the batch with which it was captured. Later batches are other tensors."""
    encoder, decoder, optimizer, data = make_training(device)

    def run():
        inputs = data[0].clone().to(device)
        graph, features = captured(lambda: encoder(inputs), device, keeps_memory=False)
        for batch in data:
            if is_correct:
                inputs.copy_(batch)
            else:
                inputs = batch.clone().to(device)
            graph.replay()
            yield train(decoder, optimizer, features)

    return run


def replaced_weights(is_correct, device):
    """The weights of a graph are replaced."""
    encoder, decoder, optimizer, data = make_training(device)
    static = torch.zeros(32, 16, device=device)

    def run():
        graph, features = captured(lambda: encoder(static), device, keeps_memory=False)
        for number, batch in enumerate(data):
            if number == 4:
                weight = encoder[2].weight * 0.5
                if is_correct:
                    encoder[2].weight.copy_(weight)
                else:
                    encoder[2].weight = nn.Parameter(weight, requires_grad=False)
            static.copy_(batch)
            graph.replay()
            yield train(decoder, optimizer, features)

    return run


RACES = [late_input, refilled_slot, overwritten_output, late_input_of_captured_step]
STALE = [new_input, replaced_weights]


def assert_passes(loop, device):
    report = ss.verify(lambda: loop(True, device), schedules=30 if device == "cuda" else 12)
    assert report.passed, report.text()
    assert report.replays >= STEPS - 3 and f"{report.replays} graph replays" in report.text()


def assert_race_found(loop, device):
    report = ss.verify(lambda: loop(False, device), schedules=40)
    assert report.verdict == "race", report.text()
    assert Path(report.source.partition(":")[0]).name == Path(__file__).name, report.text()
    again = ss.verify(lambda: loop(False, device), seed=report.seed, schedules=1)
    assert (again.verdict, again.seed) == ("race", report.seed), again.text()
    return report


@pytest.mark.parametrize("loop", [*RACES, *STALE])
def test_correct_loops_with_graphs_pass(device, graphs, loop):
    assert_passes(loop, device)


@pytest.mark.parametrize("loop", RACES)
def test_races_of_graphs_are_found(device, graphs, loop):
    assert_race_found(loop, device)


@pytest.mark.parametrize("loop", [late_input, refilled_slot])
def test_graph_that_reads_the_wrong_batch_is_named(device, graphs, loop):
    report = assert_race_found(loop, device)
    assert re.fullmatch(r"CUDA graph \[captured at verify_graphs_test.py:\d+\]|aten.copy_.default", report.operation)


@pytest.mark.parametrize("device", ["cuda"], indirect=True)
@pytest.mark.parametrize("is_correct", [True, False])
def test_graphs_of_one_pool_that_overlap_are_found(device, graphs, is_correct):
    (assert_passes if is_correct else assert_race_found)(shared_pool, device)


@pytest.mark.parametrize("loop", STALE)
def test_replay_after_the_memory_was_freed_is_found(device, graphs, loop):
    report = ss.verify(lambda: loop(False, device))
    assert report.verdict == "stale_graph" and not report.passed, report.text()
    assert report.operation.startswith("CUDA graph [captured at verify_graphs_test.py:")
    file, line = re.fullmatch(r"(.*):(\d+) in run", report.source).groups()
    assert Path(file).read_text().splitlines()[int(line) - 1].strip() == "graph.replay()"
    assert "memory was freed after the capture" in report.text() and "Remedy" in report.text()
    with pytest.raises(ss.Error, match="a CUDA graph uses memory that was freed"):
        report.raise_if_failed()


@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_graphs_of_the_compiler_are_not_stale(device, graphs):
    """PyTorch frees and reuses the memory of these graphs by its own rules."""
    def make_run():
        torch.compiler.reset()
        encoder, decoder, optimizer, data = make_training(device)
        body = torch.compile(decoder, mode="reduce-overhead")

        def run():
            for batch in data:
                torch.compiler.cudagraph_mark_step_begin()
                with torch.no_grad():
                    features = encoder(batch.to(device))
                yield train(body, optimizer, features).clone()

        return run

    report = ss.verify(make_run, schedules=1)
    assert report.verdict != "stale_graph" and report.replays == 0, report.text()


@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_freed_memory_of_a_shared_pool_is_not_stale(device, graphs):
    """A graph reads the result of another one in the same pool, which remains reserved."""
    def make_run():
        encoder, decoder, optimizer, data = make_training(device)
        static = torch.zeros(32, 16, device=device)
        first, hidden = captured(lambda: encoder[0](static), device)
        second, features = captured(lambda: encoder[2:](hidden), device, first.pool())
        del hidden

        def run():
            for batch in data:
                static.copy_(batch)
                first.replay()
                second.replay()
                yield train(decoder, optimizer, features)

        return run

    report = ss.verify(make_run, schedules=8)
    assert report.passed, report.text()


def test_captured_step_copies_its_arguments(device, graphs):
    """Otherwise, the addresses of the arguments would decide which graph is replayed."""
    steps = []

    def make_run():
        encoder, decoder, optimizer, data = make_training(device, 12)
        buffers = [torch.zeros(32, 16, device=device) for _ in range(2)]
        step = ss.capture(lambda x: train(decoder, optimizer, encoder(x)), slots=2)
        steps.append(step)

        def run():
            for number, batch in enumerate(data):
                yield step(buffers[number % 2].copy_(batch))

        return run

    report = ss.verify(make_run, schedules=2)
    assert report.passed, report.text()
    assert {(step.graphs, step.replays) for step in steps} == {(1, 9)}


def test_captured_step_whose_weights_were_replaced_raises(device, graphs):
    def make_run():
        encoder, decoder, optimizer, data = make_training(device)
        step = ss.capture(lambda x: train(decoder, optimizer, encoder(x)))

        def run():
            for number, batch in enumerate(data):
                if number == 5:
                    encoder[0].weight = nn.Parameter(encoder[0].weight * 2, requires_grad=False)
                yield step(batch.to(device))

        return run

    with pytest.raises(ss.Error, match=r"was added, removed or replaced(.|\n)*reset\(\)"):
        ss.verify(make_run)


@pytest.mark.parametrize("plan", ["pipelined", "serial"])
def test_pipeline_with_graphs_and_captured_step_passes(device, graphs, plan):
    replays = []

    def make_run():
        encoder, decoder, optimizer, data = make_training(device, 10)
        step = ss.capture(lambda x, y: train(decoder, optimizer, x))
        pipe = ss.Pipeline([(each, each[:, :4]) for each in data], [("encode", encoder)], device, plan=plan,
                           graphs=True)

        def run():
            for x, y in pipe:
                yield step(x, y)
            replays.append((step.replays, pipe.stages[0].function.replays))
            return decoder

        return run

    report = ss.verify(make_run, schedules=6)
    assert report.passed, report.text()
    assert {*replays} == {(7, 7)} and report.replays == 14


def test_operations_inside_a_graph_are_one_operation(device, graphs):
    """The replays of a graph with many operations are as many operations as those of one with few."""
    def operations(layers):
        def make_run():
            _, decoder, optimizer, data = make_training(device)
            static = torch.zeros(32, 16, device=device)
            graph, output = captured(lambda: [static.copy_(static.tanh()) for _ in range(layers)][-1], device)

            def run():
                for batch in data:
                    static.copy_(batch)
                    graph.replay()
                return output

            return run

        report = ss.verify(make_run, schedules=1)
        assert report.passed, report.text()
        return report.operations

    assert operations(20) == operations(2)
