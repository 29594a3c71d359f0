"""slipstream.Pipeline gives what a plain loop gives, and leaves nothing behind."""

import collections
import dataclasses
import gc
import threading
import time
import weakref
from typing import ClassVar

import pytest
import torch
from torch import nn

import slipstream as ss

BATCHES = 9


def batches(count=BATCHES, pinned=False):
    generator = torch.Generator().manual_seed(1)
    made = [(torch.randn(8, 3, 8, 8, generator=generator),
             torch.randint(5, (8,), generator=generator), f"batch {i}") for i in range(count)]
    return [(x.pin_memory(), y.pin_memory(), name) for x, y, name in made] if pinned else made


def encoder(device):
    torch.manual_seed(2)
    return nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3)).eval().requires_grad_(False).to(device)


def delay(device, milliseconds=3):
    if device == "cuda":
        torch.cuda._sleep(int(milliseconds * 2e6))


def trained(loop, device):
    """The losses and weights of a decoder trained on what `loop` gives."""
    torch.manual_seed(3)
    decoder = nn.Sequential(nn.Flatten(), nn.Linear(16 * 4 * 4, 5)).to(device)
    optimizer = torch.optim.SGD(decoder.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for features, labels, _ in loop:
        loss = nn.functional.cross_entropy(decoder(features), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())
    return [torch.stack(losses), *(each.detach() for each in decoder.parameters())]


def test_training_gives_the_plain_loops_bits(device):
    data = batches(40, pinned=device == "cuda")
    torch.use_deterministic_algorithms(device == "cpu")
    encode = encoder(device)
    plain = trained(((encode(x.to(device)), y.to(device), name) for x, y, name in data), device)
    for run_ahead in (1, 2, 5):
        pipe = ss.Pipeline(data, [("encode", encode)], device, run_ahead=run_ahead)
        for ours, theirs in zip(trained(pipe, device), plain, strict=True):
            assert torch.equal(ours, theirs)
    serial = ss.Pipeline(data, [("encode", encode)], device, serial=True)
    assert all(map(torch.equal, trained(serial, device), plain))
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("slow", ["stage", "body", "both"])
def test_late_work_changes_no_value(device, slow):
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
        x.zero_()  # the memory is the body's until it comes back
    expected = [((x.to(device) * 2 + 1).sum(), y.to(device).sum()) for x, y, _ in data]
    assert sums == expected


def test_what_is_kept_is_never_overwritten(device):
    data = batches(30, pinned=device == "cuda")
    pipe = ss.Pipeline(data, [("stage", lambda x: x + 1)], device)
    kept, checks = {}, []
    for i, (x, y, _) in enumerate(pipe):
        kept[i] = (x, y[2:5])
        if i >= 7:  # longer than anything is in flight, read late, and dropped at once
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


def test_batches_of_all_forms(device):
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


def test_several_inputs_outputs_and_stages(device):
    data = [{"a": torch.ones(3), "b": torch.ones(3) * 2}] * 5
    stages = [ss.Stage("both", lambda a, b: (a + b, a - b), ["a", "b"], ["sum", "difference"]),
              ss.Stage("more", lambda s: s * 10, "sum")]
    for batch in ss.Pipeline(data, stages, device):
        assert batch["sum"].eq(30).all() and batch["difference"].eq(-1).all()


def test_early_ends_errors_and_several_passes(device):
    data = batches()
    pipe = ss.Pipeline(data, [("stage", lambda x: x + 1)], device)
    assert len(pipe) == BATCHES
    for ends_at in (0, 1, 5):
        for i, _ in enumerate(pipe):
            if i == ends_at:
                break
        with pytest.raises(KeyError):
            for i, _ in enumerate(pipe):
                if i == ends_at:
                    raise KeyError(i)
    for _ in range(2):
        assert [name for *_, name in pipe] == [name for *_, name in data]
    assert list(ss.Pipeline([], [("stage", lambda x: x)], device)) == []


def test_errors_of_a_stage_keep_their_traceback_and_name_it(device):
    def fails(x):
        raise ValueError("no such image")

    with pytest.raises(ValueError, match="no such image") as caught:
        list(ss.Pipeline(batches(), [("good", lambda x: x), ("bad", fails)], device))
    assert "stage 'bad'" in caught.value.__notes__[0]
    assert any(entry.name == "fails" for entry in caught.traceback)


def test_errors_of_the_loader_come_out(device):
    def loader():
        yield from batches(3)
        raise OSError("gone")

    seen = 0
    with pytest.raises(OSError, match="gone"):
        for _ in ss.Pipeline(loader(), (), device):
            seen += 1
    assert seen <= 3


def test_what_the_body_would_train_is_refused(device):
    trained_module = nn.Linear(2, 2)
    with pytest.raises(ss.Refused, match=r"'encode' has parameters that require gradients.*weight"):
        ss.Pipeline([], [("encode", trained_module.eval())], device)
    with pytest.raises(ss.Refused, match="training mode"):
        ss.Pipeline([], [("encode", nn.Linear(2, 2).requires_grad_(False))], device)
    with pytest.raises(ss.Refused, match="two stages are called 'a'"):
        ss.Pipeline([], [("a", abs), ("a", abs)], device)
    with pytest.raises(ss.Refused, match="run_ahead is 0"):
        ss.Pipeline([], [("a", abs)], device, run_ahead=0)


def test_weights_of_a_stage_that_change_are_an_error(device):
    encode = encoder(device)
    with pytest.raises(ss.Error, match="has been written"):
        for _ in ss.Pipeline(batches(), [("encode", encode)], device):
            encode[0].weight.mul_(0.9)  # as a running average would


def test_memory_that_a_stage_gives_twice_is_an_error(device):
    buffer = torch.empty(8, 3, 8, 8, device=device)
    with pytest.raises(ss.Error, match=r"same memory for two batches.*clone"):
        list(ss.Pipeline(batches(), [("static", lambda x: buffer.copy_(x))], device))


def test_two_who_draw_are_refused_and_a_seed_helps(device):
    data = batches()

    def noise(x):
        return x + torch.randn_like(x)

    with pytest.raises(ss.Error, match=r"both draw random numbers.*seed=1"):
        for x, *_ in ss.Pipeline(data, [("noise", noise)], device):
            torch.rand_like(x)
    results = []
    for serial in (False, True):
        torch.manual_seed(5)
        pipe = ss.Pipeline(data, [ss.Stage("noise", noise, seed=1)], device, serial=serial)
        results.append([(x.clone(), torch.rand_like(x)) for _ in range(2) for x, *_ in pipe])
    for (a, b), (c, d) in zip(*results, strict=True):
        assert torch.equal(a, c) and torch.equal(b, d)
    assert not torch.equal(results[0][0][0], results[0][BATCHES][0])  # another pass, other numbers


def test_one_who_draws_gives_the_plain_loops_numbers(device):
    data = batches()
    torch.manual_seed(6)
    plain = [x.to(device) + torch.randn(x.shape, device=device) for x, *_ in data]
    torch.manual_seed(6)
    stage = ss.Stage("noise", lambda x: x + torch.randn(x.shape, device=device))
    ours = [x.clone() for x, *_ in ss.Pipeline(data, [stage], device)]
    assert all(map(torch.equal, ours, plain))


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        return torch.full((3,), float(index)), index


@pytest.mark.parametrize("workers", [0, 2])
def test_pytorch_loaders(device, workers):
    loader = torch.utils.data.DataLoader(Numbers(), 4, num_workers=workers, shuffle=True,
                                         generator=torch.Generator().manual_seed(1),
                                         persistent_workers=workers > 0)
    pipe = ss.Pipeline(loader, [("double", lambda x: x * 2)], device)
    assert len(pipe) == 10
    for _ in range(2):
        numbers = torch.cat([labels.cpu() for _, labels in pipe])
        assert sorted(numbers.tolist()) == list(range(40))
    for x, labels in pipe:
        assert torch.equal(x[:, 0].cpu(), labels.cpu() * 2.0)
        break
    until = time.monotonic() + 30
    while "slipstream input" in [thread.name for thread in threading.enumerate()]:
        assert time.monotonic() < until
        time.sleep(0.01)


def test_no_gradients_and_no_graph_in_stages(device):
    for x, *_ in ss.Pipeline(batches(2), [("stage", lambda x: x * torch.ones(1, device=device, requires_grad=True))], device):
        assert not x.requires_grad and torch.is_grad_enabled()


def test_a_stage_without_its_input_says_where_to_look(device):
    with pytest.raises(ss.Error, match=r"reads 'image', which a batch of type tuple does not have.*input="):
        list(ss.Pipeline(batches(2), [ss.Stage("encode", abs, input="image")], device))


def test_compiled_and_autocast_stages(device):
    encode = encoder(device)

    def half(x):
        with torch.autocast(device, torch.bfloat16):
            return encode(x)

    for x, *_ in ss.Pipeline(batches(3), [("encode", half)], device):
        assert x.dtype == torch.bfloat16


def test_memory_does_not_grow(device):
    if device == "cpu":
        return
    data = batches(200, pinned=True)
    pipe = ss.Pipeline(data, [("encode", encoder(device))], device)
    peaks = []
    for _ in range(2):
        torch.cuda.reset_peak_memory_stats()
        for _ in pipe:
            pass
        peaks.append(torch.cuda.max_memory_reserved())
    assert peaks[1] <= peaks[0]


def test_the_bodys_own_stream(device):
    if device == "cpu":
        return
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
    """Late, so that batches are given one by one; later ones are asked for when they are done."""

    def __getitem__(self, index):
        time.sleep(0.002)
        return super().__getitem__(index)


def test_a_batch_is_used_in_the_body_of_the_next_one(device):
    loader = torch.utils.data.DataLoader(Slow(), 2, num_workers=1, pin_memory=device == "cuda")
    before, seen = None, []
    for x, _ in ss.Pipeline(loader, [("one", lambda x: x + 1)], device):
        if before is not None:
            delay(device, 20)
            seen.append(before.clone())
        before = x
    assert [x[:, 0].tolist() for x in seen] == [[2 * i + 1, 2 * i + 2] for i in range(19)]


def test_what_a_failed_pass_held_is_freed(device):
    class Held:
        pass

    def run(where):
        held = Held()

        def fails(x):
            if where == "stage":
                raise ValueError(held)
            return x

        def loader():
            yield from batches(3)
            raise ValueError(held)

        with pytest.raises(ValueError):
            for _ in ss.Pipeline(loader(), [("stage", fails)], device):
                if where == "body":
                    raise ValueError(held)
        return weakref.ref(held)

    for where in ("stage", "loader", "body"):
        held = run(where)
        gc.collect()
        assert held() is None, where


def test_a_loader_that_refills_its_memory_is_refused(device):
    memory = torch.zeros(4, device=device)

    def refills():
        for i in range(6):
            yield memory.fill_(i)

    with pytest.raises(ss.Error, match=r"the loader gave the same memory.*clone"):
        list(ss.Pipeline(refills(), (), device))
    same = torch.ones(4, device=device)
    assert len(list(ss.Pipeline([same] * 5, (), device))) == 5


def test_stop_iteration_of_a_stage_is_an_error(device):
    def stops(x):
        raise StopIteration

    with pytest.raises(RuntimeError, match="stage 'stops' raised StopIteration"):
        list(ss.Pipeline(batches(), [("stops", stops)], device))


def test_weights_written_in_the_last_bodies_are_seen(device):
    encode = encoder(device)
    with pytest.raises(ss.Error, match="has been written"):
        for i, _ in enumerate(ss.Pipeline(batches(), [("encode", encode)], device)):
            if i == BATCHES - 1:
                encode[0].weight.mul_(0.9)


def test_an_error_of_the_loader_waits_for_the_batches_ahead_of_it(device):
    def loader():
        yield from batches(4)
        raise OSError("gone")

    seen = []
    with pytest.raises(OSError, match="gone"):
        for *_, name in ss.Pipeline(loader(), [("a", lambda x: x), ("b", lambda x: x)], device):
            seen.append(name)
    assert len(seen) == 4


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


def test_containers_stay_what_they_are(device):
    (halved,) = ss.Pipeline([Halved(torch.ones(2))], [ss.Stage("same", lambda x: x, "image")], device)
    assert halved.image.tolist() == [0.5, 0.5] and (halved.made, halved.kind) == (3, "half")
    for batch in (Images([torch.ones(2), "a"]), Pair(torch.ones(2), "a")):
        (result,) = ss.Pipeline([batch], [("double", lambda x: x * 2)], device)
        assert type(result) is type(batch) and result[0].tolist() == [2, 2] and result[1] == "a"
    packed = nn.utils.rnn.pack_sequence([torch.ones(3), torch.ones(2)])
    (result,) = ss.Pipeline([{"x": packed}], (), device)
    assert result["x"].data.device.type == device and result["x"].batch_sizes.device.type == "cpu"


def test_a_shuffled_loader_beside_a_body_that_draws(device):
    loader = torch.utils.data.DataLoader(Numbers(), 4, shuffle=True)

    def run(loop):
        torch.manual_seed(4)
        return [(labels.cpu(), torch.rand(1)) for _, labels in loop]

    for (a, b), (c, d) in zip(run(ss.Pipeline(loader, (), device)), run(loader), strict=True):
        assert torch.equal(a, c) and torch.equal(b, d)

    def draws():
        for x, *_ in batches():
            yield x + torch.rand(1)

    with pytest.raises(ss.Error, match=r"the loader.*generator="):
        for _ in ss.Pipeline(draws(), (), device):
            torch.rand(1)


def test_a_break_does_not_wait_for_a_late_loader(device):
    class Late(Numbers):
        def __getitem__(self, index):
            time.sleep(20 if index == 8 else 0)
            return super().__getitem__(index)

    loader = torch.utils.data.DataLoader(Late(), 1, num_workers=1)
    start = time.monotonic()
    for i, _ in enumerate(ss.Pipeline(loader, (), device)):
        if i == 5:
            break
    assert time.monotonic() - start < 15
    if loader._iterator is not None:
        loader._iterator._shutdown_workers()


def test_stages_that_are_none_are_refused(device):
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU()).eval().requires_grad_(False)
    for stages in (net, [net], ("encode", net), {"encode": net}, [("encode", None)], [(1, net)]):
        with pytest.raises(ss.Refused, match="such as"):
            ss.Pipeline([], stages, device)
    for run_ahead in ("2", 1.5, -1):
        with pytest.raises(ss.Refused, match="run_ahead is"):
            ss.Pipeline([], [("encode", net)], device, run_ahead=run_ahead)
    for keys in ({"output": 5}, {"output": "b"}, {"output": [0, 1]}):
        with pytest.raises(ss.Error, match="stage 'a'"):
            list(ss.Pipeline(batches(2), [ss.Stage("a", lambda x: x, **keys)], device))
    with pytest.raises(ss.Error, match="the batch is a tensor"):
        list(ss.Pipeline([torch.ones(2)], [ss.Stage("a", lambda x: x, input=0)], device))
    pipe = ss.Pipeline(iter([]), [("encode", net)], device)
    assert pipe and "encode" in repr(pipe)
    net.train()
    with pytest.raises(ss.Refused, match="training mode"):
        iter(pipe)


def test_one_pass_is_of_one_thread(device):
    inside, out = threading.Event(), threading.Event()

    def stage(x):
        inside.set()
        assert out.wait(30)
        return x

    loop = iter(ss.Pipeline(batches(2), [("stage", stage)], device))
    other = threading.Thread(target=next, args=(loop,))
    other.start()
    assert inside.wait(30)
    with pytest.raises(ValueError, match="already executing"):
        next(loop)
    out.set()
    other.join()
