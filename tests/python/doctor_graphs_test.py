"""slipstream.doctor finds loops whose GPU waits for launches, and advises CUDA graphs. On a CPU, stated times take the
place of a GPU, and tests/support/recorded_graphs.py that of CUDA graphs."""

import json
import types
import warnings

import pytest
import recorded_graphs
import torch
from pipelines import Images
from recorded_graphs import make_recorded_graphs
from torch import nn
from torch.utils.data import DataLoader

import slipstream as ss
from slipstream import _cuda_graphs, _native
from slipstream._doctor import graph_trials, graphs, launches, trials
from slipstream._doctor.changes import add_changes, make_change
from slipstream._doctor.graphs import STEP, LoopTimes, Work
from slipstream._doctor.launches import Launches, measure_launches
from slipstream._doctor.loaders import Loaders
from slipstream._doctor.measurements import LevelMeasurements
from slipstream._doctor.routes import PipelineRoute, PlainRoute
from slipstream._state_guard import StateGuard


def measured(value, half=0.01, unit="steps/s"):
    return _native.Measured(value, value * (1 - half), value * (1 + half), unit, 8)


def work(name, host_ms, device_ms, is_graph=False):
    return Work(name, Launches(host_ms / 1e3, measured(device_ms / 1e3, unit="s")), is_graph)


# How long host and GPU need


class StatedGpu:
    """A GPU and the clock of a host. Each launch takes the host 1 ms, and its work takes the GPU as long as stated."""

    def __init__(self):
        self.host_s = self.free_s = 0.0

    def perf_counter(self):
        return self.host_s

    def launch(self, seconds):
        self.host_s += 1e-3
        self.free_s = max(self.free_s, self.host_s) + seconds

    def synchronize(self):
        self.host_s = max(self.host_s, self.free_s)

    def mark(self):
        return max(self.host_s, self.free_s)

    def seconds(self, begin, end):
        self.synchronize()
        return end - begin

    def hold(self, seconds):
        self.free_s = max(self.free_s, self.host_s) + seconds

    def is_done(self, mark):
        return mark <= self.host_s


@pytest.mark.parametrize(("kernel_s", "waits"), [(0.2e-3, False), (3e-3, False), (0.2e-3, True)])
def test_times_of_host_and_gpu_are_told_apart(monkeypatch, kernel_s, waits):
    gpu = StatedGpu()
    monkeypatch.setattr(launches, "time", gpu)

    def step(batch):
        for _ in range(10):
            gpu.launch(kernel_s)
        if waits:  # at the end, as loss.item() does
            gpu.synchronize()

    found = measure_launches(step, [torch.zeros(1)], gpu, 0.1)
    assert found.host_s == pytest.approx(10e-3 + (kernel_s if waits else 0))
    assert found.device_s.value == pytest.approx(10 * kernel_s) and found.device_s.n >= 2
    assert found.is_upper_limit == waits
    assert found.device_s.low <= found.device_s.value <= found.device_s.high


def rate_of(steps_per_s, enqueue_s=0.0):
    """Stands in for a TrainingRate."""
    return types.SimpleNamespace(rate=lambda: measured(steps_per_s), enqueue_s=enqueue_s)


def noted(monkeypatch, route, step=None, enqueue_s=10.2e-3):
    """Returns the times of a loop over batches of 4 samples. A stage launches 5 times 0.2 ms, the step 10 times."""
    gpu = StatedGpu()
    monkeypatch.setattr(launches, "time", gpu)
    monkeypatch.setattr("slipstream._doctor.measurements.Gpu", lambda device: gpu)

    def launch(batch, count):
        for _ in range(count):
            gpu.launch(0.2e-3)
        return batch

    route = route(lambda x: launch(x, 5))
    loader = DataLoader(Images(), 4, num_workers=2)
    made = LevelMeasurements(Loaders(loader, False), step or (lambda batch: launch(batch, 10)), "cpu", 5.0, route)
    made._on_gpu, made._batches = True, [[torch.zeros(4, 2), torch.zeros(4)]] * 3
    made._copy = rate_of(1000, 0.1e-3)
    made._levels = [types.SimpleNamespace(training=rate_of(each, enqueue_s)) for each in (99, 90)]
    observed = types.SimpleNamespace(rate_of_all_workers=measured(2000.0))
    return made, made._note_launches(observed)


def test_times_of_a_plain_loop(monkeypatch):
    made, launching_s = noted(monkeypatch, lambda stage: PlainRoute("cpu"))
    assert launching_s == {STEP: pytest.approx(10e-3)} and made.waits_for_launches()
    times = made.times
    assert times.works[0].launches.device_s.value == pytest.approx(2e-3) and not times.works[0].is_graph
    assert times.loading_s == pytest.approx(4 / 2000) and times.copy_s == pytest.approx(1e-3) and times.overlaps
    # What the loop's thread does besides the step, which contains the copy
    assert times.other_host_s == pytest.approx(1 / 90 - 10.2e-3 + 0.1e-3)


@pytest.mark.parametrize("plan", ["pipelined", "serial"])
def test_times_of_a_pipeline(monkeypatch, plan):
    made, launching_s = noted(monkeypatch, lambda stage: PipelineRoute(ss.Pipeline([], [("encode", stage)], "cpu", plan=plan)))
    assert launching_s == {"encode": pytest.approx(5e-3), STEP: pytest.approx(10e-3)} and made.waits_for_launches()
    assert [each.name for each in made.times.works] == ["encode", STEP] and made.times.overlaps == (plan == "pipelined")
    assert made.times.other_host_s == 0  # 1 / 90 - 10.2 ms is less than the launches of the stage


def test_launches_are_not_measured_if_the_host_is_far_ahead(monkeypatch):
    made, launching_s = noted(monkeypatch, lambda stage: PlainRoute("cpu"), enqueue_s=7e-3)
    assert launching_s == {} and made.times is None


def test_error_of_a_launch_is_a_warning(monkeypatch):
    def fails(batch):
        raise RuntimeError("out of memory")

    made, launching_s = noted(monkeypatch, lambda stage: PlainRoute("cpu"), fails)
    assert launching_s == {} and made.times is None and made.waits_for_launches() is None
    assert "not measured: launches of kernels: RuntimeError: out of memory" in made.warnings


# Predictions


VIT_8 = LoopTimes([work(STEP, 22.8, 3.75)], loading_s=2e-3, copy_s=0.2e-3, other_host_s=0.5e-3)
STAGED = LoopTimes([work("encode", 10.9, 2.11), work(STEP, 12.1, 1.63)], other_host_s=0.5e-3)


@pytest.mark.parametrize(("times", "captured", "step_ms"), [
    (VIT_8, [STEP], 3.75),  # the time of the GPU
    (VIT_8, [], 23.3),
    (LoopTimes([work(STEP, 22.8, 3.75)], loading_s=9e-3), [STEP], 9),  # the loader
    (LoopTimes([work(STEP, 22.8, 3.75)], other_host_s=7e-3), [STEP], 7.3),  # the loop's thread
    (LoopTimes([work(STEP, 22.8, 3.75)], copy_s=5e-3), [STEP], 5),
    (LoopTimes([work(STEP, 22.8, 3.75)], copy_s=5e-3, overlaps=False), [STEP], 8.75),
    (STAGED, ["encode", STEP], 2.11 + 0.8 * 1.63),  # a part of both overlaps
    (STAGED, ["encode"], 0.5 + 0.3 + 12.1),
    (LoopTimes(STAGED.works, overlaps=False), ["encode", STEP], 2.11 + 1.63),
])
def test_slowest_part_of_a_loop_with_graphs_determines_its_rate(times, captured, step_ms):
    predicted = times.rate_with(captured)
    assert 1e3 / predicted.value == pytest.approx(step_ms) and predicted.low <= predicted.value <= predicted.high


# H200, a frozen ViT-B/16 and a decoder: measured times of the GPU, and the measured rate with graphs
@pytest.mark.parametrize(("stage_ms", "step_ms", "rate"), [(2.11, 1.63, 305), (5.13, 4.67, 115), (16.8, 13.7, 34.1)])
def test_predictions_agree_with_recorded_rates(stage_ms, step_ms, rate):
    times = LoopTimes([work("encode", 11, stage_ms), work(STEP, 12, step_ms)])
    assert times.rate_with(["encode", STEP]).value == pytest.approx(rate, rel=0.1)
    assert LoopTimes(times.works, overlaps=False).rate_with(["encode", STEP]).value < rate


@pytest.mark.parametrize(("host_ms", "device_ms", "is_limited"), [
    (22.8, 3.75, True), (22.8, 22, False), (12, 3.75, False), (2, 23, False),
])
def test_loop_is_limited_by_launches_if_the_gpu_is_idle_meanwhile(host_ms, device_ms, is_limited):
    assert LoopTimes([work(STEP, host_ms, device_ms)]).is_limited_by_launches(measured(1e3 / 23)) == is_limited


def level(name, after, rate):
    made = _native.Level()
    made.name, made.after, made.items, made.with_training = name, after, 4, rate
    return made


def observations(ceiling, whole, enqueue_s=0.0, on_gpu=True):
    """A loop whose loader keeps up."""
    observed = _native.Observations()
    observed.batch_size, observed.workers, observed.slabs = 8, 4, 9
    observed.set_plan(on_gpu, True, 8, False)
    observed.set_cores(8)
    cost = _native.HostStepCost()
    cost.name, cost.group, cost.wall_s, cost.cpu_s = "data set", "read", [1e-4], [1e-4]
    observed.host = [cost]
    observed.levels = [level(_native.DEVICE_LEVEL, "copy", ceiling), level(_native.PINNED_LEVEL, "collate", ceiling),
                       level(_native.WHOLE_LEVEL, "", whole)]
    observed.capacity.cores = 8
    observed.device = costs(ceiling, enqueue_s)
    return observed


def costs(ceiling, enqueue_s=0.0):
    seconds = _native.seconds_per_event(ceiling)
    return [_native.DeviceCost("copy", measured(1e-4, unit="s"), 0.0, 0),
            _native.DeviceCost("stage encode", seconds, enqueue_s, 0), _native.DeviceCost("step", seconds, enqueue_s, 0)]


@pytest.mark.parametrize(("is_limited", "enqueue_s", "verdict"), [
    (True, 0.0, "launch_overhead"),  # the stages take the time
    (False, 0.023, "device"),  # the host waits in a full queue
    (None, 0.0, "device"), (None, 0.023, "launch_overhead"),
])
def test_verdict_follows_from_all_launches(is_limited, enqueue_s, verdict):
    observed = observations(measured(43), measured(42.5), enqueue_s)
    with graphs.all_launches_count(observed, costs(measured(43), enqueue_s), is_limited):
        assert _native.diagnose(observed).verdict == verdict
    assert [cost.name for cost in observed.device] == ["copy", "stage encode", "step"]
    assert _native.diagnose(observed).verdict == ("launch_overhead" if enqueue_s else "device")


def advised(times, ceiling=43.0, whole=42.5, route=None):
    observed = observations(measured(ceiling), measured(whole))
    waits = times.is_limited_by_launches(measured(ceiling))
    with graphs.all_launches_count(observed, costs(measured(ceiling)), waits):
        diagnosis = _native.diagnose(observed)
    measurements = types.SimpleNamespace(times=times, waits_for_launches=lambda: waits,
                                         route=route or PlainRoute("cuda:0"))
    add_changes(diagnosis, *graph_trials.advise(measurements, diagnosis, trials.Names("loader", "loader"), 0.0, None))
    return diagnosis, _native.DoctorReport("cpu", "Images", [], observed, diagnosis, 1.0, 60.0)


def test_report_names_capture_with_the_predicted_gain_first():
    diagnosis, report = advised(VIT_8)
    (change,) = diagnosis.changes
    assert change.description == "run the training step as a CUDA graph"
    assert change.action == "step = slipstream.capture(step), for batch in slipstream.Pipeline(loader): step(batch)"
    assert change.predicted.value == pytest.approx(1e3 / 3.75) and change.gain.value == pytest.approx(1e3 / 3.75 / 42.5)
    assert change.effort == "code" and change.id == "graphs"
    assert "the host needs 22.8 ms to launch 3.75 ms of the GPU's work" in diagnosis.reason
    lines = report.summary().splitlines()
    assert lines[0].startswith("Verdict: launch overhead.") and "267 [261, 273] steps/s, 6.27" in lines[1]
    assert lines[1].startswith("Do this first: run the training step as a CUDA graph: ")
    saved = json.loads(report.json())
    assert saved["verdict"] == "launch_overhead" and saved["changes"][0]["id"] == "graphs"


def test_stages_of_a_pipeline_and_the_step_become_graphs():
    route = types.SimpleNamespace(copies_ahead=True)
    changes = advised(STAGED, route=route)[0].changes
    assert changes[0].description == "run stage 'encode' and the training step as one CUDA graph each"
    assert [each.gain.value for each in changes] == sorted([each.gain.value for each in changes], reverse=True)
    assert changes[0].action == "slipstream.Pipeline(..., graphs=True), step = slipstream.capture(step)"
    assert {each.action for each in changes[1:]} == {"slipstream.Pipeline(..., graphs=True)", "step = slipstream.capture(step)"}


def test_report_says_if_a_change_may_gain_more():
    limited = Work(STEP, Launches(0.02, measured(0.01, unit="s"), is_upper_limit=True))
    (change,) = [each.change for each in graphs.graph_changes(LoopTimes([limited]), measured(45), False)]
    assert change.description == "run the training step as a CUDA graph, which may gain more than predicted"


def test_works_that_are_graphs_are_not_advised_again():
    done = LoopTimes([work("encode", 0.1, 2, is_graph=True), work(STEP, 20, 2)])
    assert [each.captured for each in graphs.graph_changes(done, measured(45), False)] == [[STEP]]
    done = LoopTimes([work("encode", 20, 2), work(STEP, 0.1, 2, is_graph=True)])
    assert [each.captured for each in graphs.graph_changes(done, measured(45), False)] == [["encode"]]


def test_nothing_is_advised_if_the_gpu_is_busy():
    diagnosis, report = advised(LoopTimes([work(STEP, 22.8, 22.5)]))
    assert diagnosis.verdict == "device" and diagnosis.changes == []
    assert graphs.graph_changes(LoopTimes([work(STEP, 22.8, 22.8)]), measured(42.5), False) == []


@pytest.mark.parametrize(("rate", "predicted"), [((42.5, 0.01), (261, 0.02)), ((100, 0.05), (104, 0.04)), ((3, 0.03), (300, 0.1))])
def test_change_has_the_rate_that_python_predicts(rate, predicted):
    change = make_change("graphs", "what", "how", measured(*rate), measured(*predicted))
    assert change.predicted.value == pytest.approx(predicted[0], rel=1e-3)
    assert change.gain.value == pytest.approx(predicted[0] / rate[0], rel=1e-3)
    half = (change.predicted.high - change.predicted.low) / 2 / predicted[0]
    assert half == pytest.approx((predicted[1] ** 2 + 0.02**2) ** 0.5, rel=0.05)
    assert (change.id, change.description, change.action, change.effort) == ("graphs", "what", "how", "code")


def test_change_of_a_slow_input_is_ranked_with_the_others():
    observed = observations(measured(100), measured(20))
    cost = _native.HostStepCost()
    cost.name, cost.group, cost.wall_s, cost.cpu_s = "data set", "read", [2.5e-2], [2.5e-2]
    observed.host = [cost]
    diagnosis = _native.diagnose(observed)
    assert diagnosis.bottlenecks, diagnosis.reason
    add_changes(diagnosis, [make_change("graphs", "large", "", measured(20), measured(500)),
                            make_change("graphs", "small", "", measured(20), measured(20.2))])
    found = [each.description for each in diagnosis.changes]
    assert "large" in found and "small" not in found and len(found) > 1


# Trials


@pytest.fixture
def recorded(device, monkeypatch):
    if device == "cpu":
        monkeypatch.setattr(_cuda_graphs, "make_graphs", make_recorded_graphs)
        monkeypatch.setattr(_cuda_graphs, "_LIBRARIES", (*_cuda_graphs._LIBRARIES, recorded_graphs.__file__))


@pytest.fixture
def keeps_all(monkeypatch):
    """Keeps changes that do not gain, because recorded operations take longer than those of the step, and rates with
    wide intervals, because other programs may use the machine."""
    monkeypatch.setattr(_native, "LEAST_GAIN", 0.0)
    monkeypatch.setattr(graph_trials, "_is_known", lambda measured, unchanged: measured.n > 0 and unchanged.n > 0)


class Loop:
    """A loop whose step trains a model of several layers."""

    def __init__(self, device, fails=False):
        torch.manual_seed(1)
        self.model = nn.Sequential(nn.Flatten(), nn.Linear(192, 8), nn.ReLU(), nn.Linear(8, 4)).to(device)
        # On a CPU, Adam reads its number of steps with item(), which cannot be recorded. Of SGD with fused=True, a
        # captured step changes the learning rate.
        parameters = self.model.parameters()
        self.optimizer = torch.optim.Adam(parameters, 1e-3) if device == "cuda" else torch.optim.SGD(
            parameters, 1e-3, momentum=0.9, fused=True)
        self.loader = DataLoader(Images(), 4)
        self.fails, self.losses = fails, []

    def step(self, batch):
        images, labels = batch
        loss = nn.functional.cross_entropy(self.model(images), labels)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.item() if self.fails else loss

    def guard(self):
        return StateGuard([("model", self.model), ("optimizer", self.optimizer)])

    def state(self):
        groups = [{key: value for key, value in group.items() if key != "params"} for group in self.optimizer.param_groups]
        return [each.detach().clone() for each in self.model.parameters()], groups


def measurements_of(loop, device, route=None):
    loaders = Loaders(loop.loader, device == "cuda")
    made = LevelMeasurements(loaders, loop.step, f"{device}:0" if device == "cuda" else device, 5.0,
                             route or PlainRoute(f"{device}:0" if device == "cuda" else device))
    return made


def change_of(captured, predicted=1e6):
    return graphs.GraphChange(make_change("graphs", "what", "how", measured(10), measured(predicted)), captured)


def test_captured_step_is_measured_and_the_state_is_restored(device, recorded, keeps_all):
    loop = Loop(device)
    for batch in loop.loader:
        loop.step([each.to(device) for each in batch])
        break
    groups = loop.state()[1]
    devices = [state["step"].device if "step" in state else None for state in loop.optimizer.state.values()]
    measurements = measurements_of(loop, device)
    known = len(measurements.warnings)
    (change,), failed = graph_trials.try_out(measurements, [change_of([STEP])], NAMES, 3.0, loop.guard)
    assert failed == []
    # The steps of the unchanged loop are not undone here, but by the doctor.
    after = loop.state()
    assert after[1] == groups and type(after[1][0]["lr"]) is float
    found = [state["step"].device if "step" in state else None for state in loop.optimizer.state.values()]
    assert found == devices
    assert change.measured.n > 0 and change.measured_gain.n > 0 and measurements.warnings[known:] == []
    assert change.code == CODE.format(device=repr(measurements.device) if device == "cuda" else "'cpu'")
    names = {"loader": loop.loader, "step": loop.step}
    exec(change.code, names)
    before = [each.detach().clone() for each in loop.model.parameters()]
    losses = [names["step"](batch) for _ in range(2) for batch in names["loader"]]
    assert len(losses) == 32 and names["step"].replays > 0 and all(torch.isfinite(loss) for loss in losses)
    assert not all(map(torch.equal, loop.model.parameters(), before))


NAMES, PIPE_NAMES = trials.Names("loader", "loader", step="step"), trials.Names("pipe", "loader", step="step")
CODE = """import slipstream as ss
loader = ss.Pipeline(loader, device={device})
step = ss.capture(step)"""


@pytest.mark.parametrize("stage_only", [False, True])
def test_stages_and_step_of_a_pipeline_are_measured_as_graphs(device, recorded, keeps_all, stage_only):
    loop = Loop(device)
    encode = nn.Conv2d(3, 3, 1).eval().requires_grad_(False).to(device)
    pipe = ss.Pipeline(loop.loader, [("encode", encode)], device)
    measurements = measurements_of(loop, device, PipelineRoute(pipe))
    wanted = [change_of(["encode"])] if stage_only else [change_of(["encode", STEP]), change_of([STEP])]
    changes, failed = graph_trials.try_out(measurements, wanted, PIPE_NAMES, 4.0, loop.guard)
    assert len(changes) == len(wanted) and failed == [] and all(each.measured.n > 0 for each in changes)
    names = {"pipe": pipe, "step": loop.step}
    exec(next(each.code for each in changes if "graphs=True" in each.code), names)
    for _ in range(2):
        for batch in names["pipe"]:
            names["step"](batch)
    graphs_of = [each.function.graphs for each in names["pipe"].stages]
    assert graphs_of == [1] and (stage_only or names["step"].graphs > 0)
    assert pipe.stages[0].function is encode


def test_change_says_why_a_step_cannot_be_captured(device, recorded):
    loop = Loop(device, fails=True)
    measurements = measurements_of(loop, device)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made, (change,) = graph_trials.try_out(measurements, [change_of([STEP])], NAMES, 3.0, loop.guard)
    assert made == []
    assert change.measured.n == 0 and change.code == ""
    assert "cannot be recorded: " in change.description and "loss.item()" in change.description
    assert "doctor_graphs_test.py:" in change.description


def test_capture_that_fails_is_not_tried_again_together_with_stages(device, recorded, keeps_all):
    loop = Loop(device, fails=True)
    pipe = ss.Pipeline(loop.loader, [("encode", nn.Identity().eval())], device)
    measurements = measurements_of(loop, device, PipelineRoute(pipe))
    wanted = [change_of([STEP], 1e6), change_of(["encode", STEP], 2e6), change_of(["encode"], 3e6)]
    (made,), failed = graph_trials.try_out(measurements, wanted, PIPE_NAMES, 4.0, loop.guard)
    assert made.measured.n > 0 and "graphs=True" in made.code
    assert ["cannot be recorded: " in each.description for each in failed] == [True, True]


def test_changes_that_cannot_be_made_are_last():
    diagnosis = advised(VIT_8)[0]
    small, large = (make_change("x", f"gain {gain}", "", measured(42.5), measured(42.5 * gain)) for gain in (2, 9))
    impossible = make_change("graphs", "impossible", "", measured(42.5), measured(500))
    add_changes(diagnosis, [small, large], [impossible])
    names = [each.description for each in diagnosis.changes]
    assert names == ["gain 9", "run the training step as a CUDA graph", "gain 2", "impossible"]


def test_graphs_that_do_not_gain_are_not_advised(device, recorded, monkeypatch):
    monkeypatch.setattr(graph_trials, "_measure", lambda trial, *rest: setattr(trial, "rate", measured(0.1)))
    loop = Loop(device)
    measurements = measurements_of(loop, device)
    assert graph_trials.try_out(measurements, [change_of([STEP])], NAMES, 2.0, loop.guard) == ([], [])
    assert "tried without a gain: what: 0.0" in measurements.warnings[-1]


def test_nothing_is_tried_without_time():
    changes, failed = graph_trials.try_out(None, [change_of([STEP])], NAMES, 1.0, None)
    assert [each.measured.n for each in changes] == [0] and failed == []


@pytest.mark.parametrize(("captured", "route", "names", "lines"), [
    ([STEP], PlainRoute("cuda:0"), {}, ["import slipstream as ss", "loader = ss.Pipeline(loader, device='cuda:0')",
                                        "step = ss.capture(step)"]),
    ([STEP], PlainRoute("cuda:0", copies_ahead=True), {"step": "train"},
     ["import slipstream as ss", "train = ss.capture(train)"]),
    ([STEP], PlainRoute("cuda:0", copies_ahead=True), {"step": "", "comment": "# loader: the loader\n"},
     ["# loader: the loader", "# step: the function that was given to slipstream.doctor()", "import slipstream as ss",
      "step = ss.capture(step)"]),
])
def test_code_copies_batches_if_the_loader_does_not(captured, route, names, lines):
    given = trials.Names("loader", "loader", **{"step": "step"} | names)
    assert graph_trials.code_for(captured, route, given).splitlines() == lines


# The whole doctor on a GPU


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(64, 64)

    def forward(self, x):
        return x + 0.1 * self.linear(x)


def small_steps(device):
    """Returns a model whose step consists of many short kernels."""
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 64), *[Residual() for _ in range(150)]).to(device)


@pytest.mark.parametrize("device", ["cuda"], indirect=True)
@pytest.mark.parametrize("kind", ["loader", "pipeline"])
def test_doctor_finds_launches_and_measures_graphs(device, kind):
    torch.manual_seed(1)
    model = small_steps(device)
    encoder = nn.Sequential(*[nn.Conv2d(3, 3, 1) for _ in range(40)]).eval().requires_grad_(False).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    loader = DataLoader(Images(), 4, num_workers=1, pin_memory=True)
    if kind == "pipeline":
        loader = ss.Pipeline(loader, [("encode", encoder)], device)

    def step(batch):
        images, labels = batch
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    before = [each.detach().clone() for each in model.parameters()]
    report = ss.doctor(loader, step, budget=20)
    assert all(map(torch.equal, model.parameters(), before)) and not optimizer.state
    assert type(optimizer.param_groups[0]["lr"]) is float and not optimizer.param_groups[0]["capturable"]
    text = report.text()
    assert report.verdict in ("launch_overhead", "not_enough_evidence") or "ss.capture" in text, text
    best = next((each for each in report.advice if "ss.capture" in each.code), None)
    if best is None:  # on a busy machine, the intervals may be too wide for advice
        assert report.verdict == "not_enough_evidence", text
        return
    assert best.measured is not None and best.measured_gain.value > 1, text
    names = {"loader": loader, "step": step}
    exec(best.code, names)
    for _ in range(2):
        for batch in names["loader"]:
            names["step"](batch)
    assert names["step"].graphs > 0


@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_busy_gpu_is_not_limited_by_launches(device):
    weights = torch.rand(4096, 4096, device=device)

    def step(batch):
        result = weights
        for _ in range(40):
            result = result @ weights
            result = result / result.norm()

    found = measure_launches(step, [torch.zeros(1, device=device)], launches.Gpu(f"{device}:0"), 0.5)
    assert found.host_s < 0.5 * found.device_s.value
    report = ss.doctor(DataLoader(Images(), 4, num_workers=1), step, budget=8)
    assert report.verdict != "launch_overhead", report.text()


@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_gpu_is_held_for_the_stated_time(device):
    gpu = launches.Gpu(f"{device}:0")
    gpu.hold(0.01)
    begin = gpu.mark()
    gpu.hold(0.05)
    assert 0.025 < gpu.seconds(begin, gpu.mark()) < 0.1
