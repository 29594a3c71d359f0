"""What slipstream.verify compares, hashes and delays."""

import collections
import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

import slipstream as ss
from slipstream._verify.schedule import OperationSite, Schedule, Size
from slipstream._verify.search import Expected, call_the_same, narrowed
from slipstream._verify.sources import source_of_error
from slipstream._verify.trace import Step, Trace, compute_digest
from slipstream._verify.values import collect_values, describe_tensor, find_holders, first_difference

torch.set_num_threads(1)


def names(values):
    return [each.name for each in values]


@dataclasses.dataclass
class Scores:
    top1: float


Pair = collections.namedtuple("Pair", "features labels")


def test_values_are_named_by_their_path():
    model = nn.Linear(2, 1)
    tree = {"pair": Pair(torch.zeros(1), [1, "a"]), "scores": Scores(0.5), "model": model, "none": None}
    assert names(collect_values(tree, "returned", True)) == [
        "returned['pair'].features", "returned['pair'].labels[0]", "returned['pair'].labels[1]",
        "returned['scores'].top1", "returned['model'].state_dict()['weight']",
        "returned['model'].state_dict()['bias']", "returned['none']",
    ]  # fmt: skip


MODEL = nn.Linear(2, 1)
OPTIMIZER = torch.optim.SGD(MODEL.parameters(), 0.1)
SCHEDULE = torch.optim.lr_scheduler.StepLR(OPTIMIZER, 1)
FROZEN = nn.Linear(2, 1).requires_grad_(False)
LOADER = ss.DataLoader([torch.ones(2)] * 4, 2)


def train_one(batch):
    return MODEL(batch), FROZEN


def test_state_is_found_in_globals_and_called_functions():
    def run():
        SCHEDULE.step()
        return [train_one(batch) for batch in LOADER], FROZEN

    assert [(each.name, each.content) for each in find_holders(run)] == [
        ("SCHEDULE", SCHEDULE), ("FROZEN", FROZEN), ("SCHEDULE.optimizer", OPTIMIZER), ("train_one.MODEL", MODEL),
    ]  # fmt: skip
    assert [each.content for each in find_holders(train_one)] == [MODEL, FROZEN]


@pytest.mark.parametrize(
    ("a", "b", "how"),
    [
        (torch.tensor([1.0, float("nan")]), torch.tensor([1.0, float("nan")]), None),
        (torch.tensor([0.0, 1.0]), torch.tensor([-0.0, 1.0]), "1 of 2 elements differ"),
        (torch.zeros(2), torch.zeros(2, dtype=torch.int64), "int64[2] instead of float32[2]"),
        (torch.zeros(0), torch.zeros(0), None),
        (torch.tensor(1 + 2j), torch.tensor(1 + 3j), "1 of 1 elements differ"),
        (torch.eye(2).to_sparse(), torch.eye(2).to_sparse(), None),
        (float("nan"), float("nan"), None),
        (1, 1.0, "a different value"),
        (np.arange(3), np.arange(3), None),
        (np.arange(3), np.arange(3.0), "a different value"),
        ([1], [1, 2], "missing in the reference"),
        ([1, 2], [1], "missing"),
    ],
)
def test_values_are_compared_byte_by_byte(a, b, how):
    found = first_difference(collect_values(a, "x", True), collect_values(b, "x", True))
    assert (found and found[1]) == how


class Key:
    def __repr__(self):
        return "key"


def test_keys_with_same_repr_are_compared_separately():
    expected, seen = ({Key(): first, Key(): 2} for first in (1, 3))
    found = first_difference(collect_values(expected, "x", True), collect_values(seen, "x", True))
    assert found == ("x[key]", "a different value", 1)


def padded(byte):
    """Returns an aligned array whose padding consists of this byte."""
    array = np.frombuffer(bytearray([byte] * 32), dtype=np.dtype([("a", "i1"), ("b", "f8")], align=True))
    array["a"], array["b"] = 1, 2
    return array


def test_pointers_and_padding_of_arrays_are_not_compared():
    texts = [np.array(["".join(["some ", "text"]), 2.5], dtype=object) for _ in range(2)]
    assert padded(0).tobytes() != padded(1).tobytes() and texts[0].tobytes() != texts[1].tobytes()
    for a, b in (padded(0), padded(1)), texts:
        assert first_difference(collect_values(a, "x", True), collect_values(b, "x", True)) is None
    changed = padded(0)
    changed["b"][1] = 3
    assert first_difference(collect_values(padded(0), "x", True), collect_values(changed, "x", True))[0] == "x['b']"
    assert names(collect_values(texts[0], "x", True)) == ["x[0]", "x[1]"]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested_tensors_are_compared_by_their_parts(layout):
    def make_run():
        return lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=layout) * 2

    report = ss.verify(make_run, schedules=1)
    assert report.passed and report.operations
    nested = make_run()()
    assert names(collect_values(nested, "x", True)) == ["x[0]", "x[1]"] and describe_tensor(nested) == "nested float32"


def test_digest_depends_on_bytes_and_their_order():
    torch.manual_seed(0)
    for tensor in (
        torch.rand(1000), torch.eye(33, dtype=torch.float64), torch.rand(1 << 19), torch.arange(7).byte(),
        torch.rand(5, dtype=torch.complex64), torch.tensor([True, True, False]),
    ):  # fmt: skip
        assert compute_digest(tensor) == compute_digest(tensor.clone())
        assert compute_digest(tensor) != compute_digest(tensor.flip(0))
        changed = tensor.clone()
        changed[-1] = 0 if changed[-1].any() else 1
        assert compute_digest(tensor) != compute_digest(changed)
    labels = nn.functional.one_hot(torch.randint(0, 4, [32]), 4).double()
    assert compute_digest(labels) != compute_digest(labels[torch.randperm(32)])


@pytest.mark.parametrize("count", [8, 17, 40])
def test_digest_does_not_depend_on_memory_address(count):
    values = torch.rand(count)
    memory = torch.empty(4 * count + 8, dtype=torch.uint8)
    for offset in (0, 4):
        placed = memory[offset : offset + 4 * count].view(torch.float32).copy_(values)
        from_elsewhere = torch.from_numpy(memory.numpy()[offset : offset + 4 * count].view(np.float32))
        assert from_elsewhere.data_ptr() % 8 == offset
        assert compute_digest(placed) == compute_digest(from_elsewhere) == compute_digest(values)


def test_a_digest_makes_no_large_copy():
    large = torch.ones(1 << 22, dtype=torch.uint8)
    for tensor in (torch.ones(1).expand(1 << 40), torch.ones(2, 1, 3).expand(2, 1 << 40, 3), large[:-1]):
        with torch.profiler.profile(profile_memory=True, acc_events=True) as profile:
            compute_digest(tensor)
        assert max(event.cpu_memory_usage for event in profile.events()) <= 8 << 17


def make_trace(*calls):
    trace = Trace()
    trace.steps = [Step("main", i, i, name, "", "", "", "", [], []) for i, name in enumerate(calls)]
    return trace


def test_runs_with_other_operations_are_distinguished():
    assert call_the_same(make_trace("aten.mm", "aten.add"), make_trace("aten.mm", "aten.add"))
    assert not call_the_same(make_trace("aten.mm", "aten.add"), make_trace("aten.mm"))
    assert not call_the_same(make_trace("aten.mm"), make_trace("aten.bmm"))


def test_operations_running_at_device_failure_are_found():
    def traced(digests):
        trace = make_trace("aten.mm", "aten.relu", "aten.nll_loss_forward", "aten.backward", "aten.add")
        for step, stream, inputs, outputs in zip(trace.steps, "abbbb", *zip(*digests)):
            step.stream, step.inputs, step.outputs = stream, inputs, outputs
        return trace

    whole = [([1], [2]), ([3], [4]), ([5, "0.5"], [6, 7]), ([8], [9]), ([10], [11])]
    failed = [([1], [None]), ([3], [4]), ([5, "0.5"], [None, None]), ([None], [None]), ([None], [None])]
    expected = Expected([traced(whole), traced(whole)])
    assert expected.first_difference(traced(failed)) is None
    assert [step.name for step in expected.running(traced(failed))] == ["aten.nll_loss_forward", "aten.mm"]
    assert expected.running(traced(whole)) == []


def raised_in(file):
    """Returns the traceback of an error that generated code of this file raised; this module called the code."""
    try:
        exec(compile("1 / 0", file, "exec"), {})
    except ZeroDivisionError as error:
        return error.__traceback__


def test_source_of_error_skips_generated_code(monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/cache of inductor")
    for file in ("<eval_with_key>.7", "/cache of inductor/ab/cab.py"):
        assert source_of_error(raised_in(file)).endswith(" in raised_in")
    assert source_of_error(raised_in("train.py")) == "train.py:1 in <module>"


def test_delays_depend_only_on_seed_and_operation_site():
    size = Size(operations=400, on_device=300, copies=20, threads=2)
    places = [OperationSite("main", i, i % 2, i % 15 == 0) for i in range(300)]
    kinds = set()
    for seed in range(30):
        delays = [Schedule(seed, size).delays(place) for place in places]
        assert delays == [Schedule(seed, size).delays(place) for place in reversed(places)][::-1]
        assert sum(map(sum, delays)) < 2
        kinds.add(Schedule(seed, size).kind)
        only = [("main", 7)]
        assert not any(any(Schedule(seed, size, only).delays(place)) for place in places if place.number != 7)
    assert kinds == {"streams", "copies", "operations", "everything", "threads"}


def test_delays_inside_graphs_stay_within_the_budget():
    replays, kinds = 30, set()
    size = Size(operations=100, on_device=100, copies=10, threads=1, replays=replays, replayed=40 * replays)
    totals = []
    for seed in range(40):
        schedule = Schedule(seed, size)
        delays = [schedule.delay_in_graph("graph", number) for number in range(40)]
        assert delays == [Schedule(seed, size).delay_in_graph("graph", number) for number in range(40)]
        totals.append(replays * sum(delays))
        kinds |= {schedule.kind} if any(delays) else set()
        only = Schedule(seed, size, [("graph", 7), ("main", 3)])
        assert not any(only.delay_in_graph("graph", number) for number in range(40) if number != 7)
        assert only.delay_in_graph("graph", 7) == delays[7]
    assert kinds == {"operations", "everything"} and 0 < sum(totals) / len(totals) < 0.5


def test_streams_of_threads_are_delayed_separately():
    size, pairs = Size(operations=200, on_device=200, copies=20, threads=2), set()
    for seed in range(100):
        schedule = Schedule(seed, size)
        if schedule.kind == "streams":
            is_slow = {
                thread: any(any(schedule.delays(OperationSite(thread, i, 0, False))) for i in range(200))
                for thread in ("main", "main/1", "main backward cuda:0")
            }
            assert is_slow["main"] == is_slow["main backward cuda:0"]
            pairs.add((is_slow["main"], is_slow["main/1"]))
    assert pairs >= {(True, False), (False, True)}


def test_delays_are_narrowed_to_the_necessary_ones():
    assert narrowed(list(range(50)), lambda some: 17 in some, 100) == [17]
    assert narrowed(list(range(50)), lambda some: {17, 40} <= set(some), 200) == [17, 40]
