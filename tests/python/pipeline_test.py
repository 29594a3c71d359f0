"""slipstream.Pipeline gives the results of a plain loop, and leaves nothing in memory afterwards."""

import collections
import dataclasses
import gc
import importlib
import os
import time
from typing import ClassVar
import warnings
import weakref

from loops import BATCHES, Numbers, batches, delay, encoder, leave_at, trained
import pytest
from tensors import all_equal
import torch
from torch import nn

import slipstream as ss


@pytest.mark.usefixtures("deterministic")
def test_training_gives_bits_of_plain_loop(device):
    data = batches(40, pinned=device == "cuda")
    encode = encoder(device)
    plain = trained(((encode(x.to(device)), y.to(device), name) for x, y, name in data), device)
    for run_ahead in (1, 2, 5):
        pipe = ss.Pipeline(data, [("encode", encode)], device, run_ahead=run_ahead)
        for ours, theirs in zip(trained(pipe, device), plain, strict=True):
            assert torch.equal(ours, theirs)
    serial = ss.Pipeline(data, [("encode", encode)], device, serial=True)
    assert all_equal(trained(serial, device), plain)


@pytest.mark.parametrize("slow", ["stage", "body", "both"])
def test_slow_stage_or_loop_does_not_change_values(device, slow):
    data = batches(20, pinned=device == "cuda")

    def stage(x):
        if slow != "body":
            delay(device)
        return x * 2 + 1

    sums = []
    for x, y, _ in ss.Pipeline(data, [("stage", stage)], device):
        if slow != "stage":
            delay(device)
        sums.append((x.sum(), y.sum()))
        x.zero_()  # the loop body may change the batch's memory
    expected = [((x.to(device) * 2 + 1).sum(), y.to(device).sum()) for x, y, _ in data]
    assert sums == expected


def test_kept_batches_are_never_overwritten(device):
    data = batches(30, pinned=device == "cuda")
    pipe = ss.Pipeline(data, [("stage", lambda x: x + 1)], device)
    kept, checks = {}, []
    for i, (x, y, _) in enumerate(pipe):
        kept[i] = (x, y[2:5])
        if i >= 7:  # batches are kept longer than any is in flight, read late, and then dropped at once
            delay(device)
            old, labels = kept.pop(i - 7)
            checks.append((i - 7, old.clone(), labels.clone()))
            del old, labels
    assert len(checks) == 23
    for i, x, y in checks:
        assert torch.equal(x.cpu(), (data[i][0].to(device) + 1).cpu()) and torch.equal(y.cpu(), data[i][1][2:5])


Point = collections.namedtuple("Point", "image label")


@dataclasses.dataclass
class Record:
    image: torch.Tensor
    label: torch.Tensor
    name: str


Placed = collections.namedtuple("Placed", ["image", "to"])


def test_batches_of_all_container_types_pass_through_stages(device):
    x, y = torch.ones(2, 3), torch.tensor([1, 2])
    forms = [
        (x, {}),
        ([x, y], {}),
        ({"image": x, "label": y, "name": "a"}, {"input": "image"}),
        (collections.OrderedDict(image=x, label=y), {"input": "image", "output": "features"}),
        (Point(x, y), {}),
        (Point(x, y), {"input": "image"}),
        (Record(x, y, "a"), {"input": "image"}),
        ((x, (y, [x, None, "text", 3])), {}),
        (Placed(x, y), {}),
        (torch.sort(x), {}),
    ]
    for batch, keys in forms:
        stage = ss.Stage("double", lambda t: t * 2, **keys)
        (result,) = ss.Pipeline([batch], [stage], device)
        assert type(result) is type(batch)
        (serial,) = ss.Pipeline([batch], [stage], device, serial=True)
        assert str(result) == str(serial)
    (result,) = ss.Pipeline([forms[3][0]], [ss.Stage("double", lambda t: t * 2, "image", "features")], device)
    assert result["features"].eq(2).all() and result["image"].eq(1).all()
    assert result["image"].device.type == device
    assert "features" not in forms[3][0]


def test_stages_with_several_inputs_and_outputs_are_chained(device):
    data = [{"a": torch.ones(3), "b": torch.ones(3) * 2}] * 5
    stages = [ss.Stage("both", lambda a, b: (a + b, a - b), ["a", "b"], ["sum", "difference"]),
              ss.Stage("more", lambda s: s * 10, "sum")]
    made = list(ss.Pipeline(data, stages, device))
    assert len(made) == len(data)
    assert all(batch["sum"].eq(30).all() and batch["difference"].eq(-1).all() for batch in made)


def test_pipeline_can_be_iterated_again_after_break_and_error(device):
    data = batches()
    pipe = ss.Pipeline(data, [("stage", lambda x: x + 1)], device)
    assert len(pipe) == BATCHES
    for ends_at in (0, 1, 5):
        leave_at(pipe, ends_at)
    for _ in range(2):
        assert [name for *_, name in pipe] == [name for *_, name in data]
    assert list(ss.Pipeline([], [("stage", lambda x: x)], device)) == []


@pytest.mark.parametrize("workers", [0, 2])
def test_torch_loader_gives_each_sample_once_per_epoch(device, workers):
    loader = torch.utils.data.DataLoader(Numbers(), 4, num_workers=workers, shuffle=True,
                                         generator=torch.Generator().manual_seed(1),
                                         persistent_workers=workers > 0)
    pipe = ss.Pipeline(loader, [("double", lambda x: x * 2)], device)
    assert len(pipe) == 10
    for _ in range(2):
        numbers = torch.cat([labels.cpu() for _, labels in pipe])
        assert sorted(numbers.tolist()) == list(range(40))
    x, labels = next(iter(pipe))
    assert torch.equal(x[:, 0].cpu(), labels.cpu() * 2.0)


@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_stage_may_enter_autocast(device, is_compiled):
    encode, graphs = encoder(device), []

    def half(x):
        with torch.autocast(device, torch.bfloat16):
            return encode(x)

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    stage = torch.compile(half, backend=backend) if is_compiled else half
    made = [x for x, *_ in ss.Pipeline(batches(3), [("encode", stage)], device)]
    assert bool(graphs) == is_compiled
    assert {x.dtype for x in made} == {torch.bfloat16}
    for x, (image, *_) in zip(made, batches(3), strict=True):
        assert torch.equal(x, half(image.to(device)))


@pytest.mark.parametrize("run_ahead", [1, 3])
@pytest.mark.parametrize("serial", [False, True])
def test_number_of_live_batches_is_bounded(device, serial, run_ahead):
    alive, most = collections.Counter(), []

    def tracked(kind, x):
        alive[kind] += 1
        weakref.finalize(x, alive.subtract, [kind])
        return x

    data = (tracked("loader", torch.ones(4, 3)) for _ in range(100))
    pipe = ss.Pipeline(data, [("add", lambda x: tracked("stage", x + 1))], device, run_ahead=run_ahead, serial=serial)
    for _ in pipe:
        most.append(dict(alive))
    assert len(most) == 100
    limit = run_ahead + 4  # batches that run ahead, that of the loop body, and those that each lane still holds
    assert all(0 < each["stage"] <= limit and each["loader"] <= limit for each in most), most
    gc.collect()
    assert alive["stage"] <= 1 and alive["loader"] <= 1


@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_memory_of_the_device_does_not_grow_with_the_number_of_batches(device):
    peaks = []
    for count in (20, 200):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        pipe = ss.Pipeline(batches(count, pinned=True), [("encode", encoder(device))], device)
        assert sum(1 for _ in pipe) == count
        peaks.append(torch.cuda.max_memory_reserved())
        del pipe
    assert peaks[1] <= peaks[0]


@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_a_training_step_may_run_on_another_stream(device):
    data = batches(20, pinned=True)
    stream = torch.cuda.Stream()
    sums = []
    with torch.cuda.stream(stream):
        for x, *_ in ss.Pipeline(data, [("stage", lambda x: x + 1)], device):
            delay(device)
            sums.append(x.sum())
    stream.synchronize()
    assert sums == [(x.to(device) + 1).sum() for x, *_ in data]


class Slow(Numbers):
    """So slow that batches arrive one by one, and each request has to wait."""

    def __getitem__(self, index):
        time.sleep(0.002)
        return super().__getitem__(index)


def test_previous_batch_is_still_valid_in_the_next_iteration(device):
    loader = torch.utils.data.DataLoader(Slow(), 2, num_workers=1, pin_memory=device == "cuda")
    before, seen = None, []
    for x, _ in ss.Pipeline(loader, [("one", lambda x: x + 1)], device):
        if before is not None:
            delay(device, 20)
            seen.append(before.clone())
        before = x
    assert [x[:, 0].tolist() for x in seen] == [[2 * i + 1, 2 * i + 2] for i in range(19)]


@dataclasses.dataclass
class Halved:
    image: torch.Tensor
    made: int = dataclasses.field(init=False, default=3)
    kind: ClassVar[str] = "half"

    def __post_init__(self):
        self.image = self.image / 2


class Images(list):
    pass


class Pair(tuple):
    def __new__(cls, first, second):
        return super().__new__(cls, (first, second))


def test_container_types_are_preserved(device):
    (halved,) = ss.Pipeline([Halved(torch.ones(2))], [ss.Stage("same", lambda x: x, "image")], device)
    assert halved.image.tolist() == [0.5, 0.5] and (halved.made, halved.kind) == (3, "half")
    for batch in (Images([torch.ones(2), "a"]), Pair(torch.ones(2), "a")):
        (result,) = ss.Pipeline([batch], [("double", lambda x: x * 2)], device)
        assert type(result) is type(batch) and result[0].tolist() == [2, 2] and result[1] == "a"
    packed = nn.utils.rnn.pack_sequence([torch.ones(3), torch.ones(2)])
    (result,) = ss.Pipeline([{"x": packed}], (), device)
    assert result["x"].data.device.type == device and result["x"].batch_sizes.device.type == "cpu"


@pytest.mark.parametrize("workers", [0, 2])
def test_iter_uses_same_random_numbers_as_iter_of_the_loader(device, workers):
    def run(wrap):
        torch.manual_seed(0)
        one, two = (torch.utils.data.DataLoader(Numbers(), 4, shuffle=True, num_workers=workers) for _ in range(2))
        zipped = [(a[1].tolist(), b[1].tolist()) for a, b in zip(wrap(one), wrap(two))]
        iterator = iter(wrap(one))
        weight = nn.Linear(2, 2).weight
        return zipped, weight.tolist(), [labels.tolist() for _, labels in iterator]

    assert run(lambda loader: ss.Pipeline(loader, (), device)) == run(lambda loader: loader)


def test_lost_prefetched_batches_give_one_warning(device):
    numbers = iter([torch.tensor([i]) for i in range(20)])
    pipe = ss.Pipeline(numbers, (), device)
    with pytest.warns(UserWarning, match=r"further batches that had already been taken .* are lost") as warned:
        for _ in pipe:
            break
        for _ in pipe:
            break
    assert len(warned) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in ss.Pipeline([torch.ones(1)] * 9, (), device):
            break
        for number in ss.Pipeline(iter([torch.tensor(i) for i in range(5)]), (), device):
            if int(number) == 4:
                break


def test_iter_reads_nothing_before_the_first_next(device):
    taken = []

    def loader():
        for i in range(3):
            taken.append(i)
            yield torch.tensor([i])

    pipe = ss.Pipeline(loader(), [ss.Stage("noise", lambda x: x + torch.rand(1, device=x.device), seed=1)], device)
    iter(pipe)
    assert not taken
    assert all_equal(pipe, ss.Pipeline(loader(), pipe.stages, device))


@pytest.mark.parametrize(("given", "expected"), [({}, "32"), ({"CUDA_DEVICE_MAX_CONNECTIONS": "4"}, "4")])
def test_import_sets_cuda_device_max_connections(given, expected, monkeypatch):
    monkeypatch.delenv("CUDA_DEVICE_MAX_CONNECTIONS", raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    importlib.reload(ss)
    assert os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] == expected
