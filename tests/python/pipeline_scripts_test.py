"""Stages of TorchScript, which threads without Python's lock call."""

import dataclasses
import os
import sys
import threading
import warnings

from loops import batches, delay, encoder, trained
import pytest
import torch
from torch import nn

import slipstream as ss
from slipstream import _native, _scripts


@pytest.fixture(autouse=True)
def on_threads(monkeypatch):
    """On a CPU as well; and TorchScript may be deprecated."""
    monkeypatch.setattr(_scripts, "DEVICES", {"cpu", "cuda"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def scripted(module):
    return torch.jit.script(module.eval())


class Meeting(nn.Module):
    """Goes on when `flag` says that the loop is in the body of the batch before."""

    def __init__(self):
        super().__init__()
        self.register_buffer("flag", torch.zeros(1, dtype=torch.int64))
        self.seen = 0

    def forward(self, x):
        rounds = 0
        while self.seen > int(self.flag) and rounds < 20_000_000:
            rounds += 1
        self.seen += 1
        return x + 1 if rounds < 20_000_000 else x * float("nan")


class Stateful(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x + self.calls


class Both(nn.Module):
    def forward(self, a, b):
        return a + b, [a - b, a * b]


class Gives(nn.Module):
    """The same memory each time."""

    def __init__(self, like):
        super().__init__()
        self.memory = [torch.zeros_like(like)]

    def forward(self, x):
        return self.memory[0].copy_(x)


def add_one(x: torch.Tensor) -> torch.Tensor:
    return x + 1


class AddOne(nn.Module):
    def forward(self, x):
        return add_one(x)


def tripled(self, inputs: tuple[torch.Tensor], output: torch.Tensor) -> torch.Tensor:
    return output * 3


class Noise(nn.Module):
    def forward(self, x):
        if x.dim() > 1:
            x = nn.functional.dropout(x, 0.5, True)
        return x


@torch.jit.ignore
def in_python(x: torch.Tensor) -> torch.Tensor:
    return x * 2


class CallsPython(nn.Module):
    def forward(self, x):
        return in_python(x)


@pytest.mark.parametrize("make", [scripted, lambda m: torch.jit.trace(m, torch.ones(8, 3, 8, 8))])
def test_training_gives_the_plain_loops_bits(device, make):
    data = batches(40, pinned=device == "cuda")
    torch.use_deterministic_algorithms(device == "cpu")
    encode = encoder(device)
    plain = trained(((encode(x.to(device)), y.to(device), name) for x, y, name in data), device)
    script = make(encoder("cpu")).to(device)
    for run_ahead in (1, 2, 5):
        pipe = ss.Pipeline(data, [("encode", script)], device, run_ahead=run_ahead)
        assert all(map(torch.equal, trained(pipe, device), plain))
    torch.use_deterministic_algorithms(False)


def test_they_run_beside_a_body_that_keeps_pythons_lock(device):
    data = [torch.full((4,), float(i)) for i in range(8)]
    meeting = scripted(Meeting())
    flag = meeting.flag.numpy()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        for i, x in enumerate(ss.Pipeline(data, [("meeting", meeting)], device)):
            flag[0] = i + 1
            assert x.eq(i + 1).all()
            while meeting._c.getattr("seen") < min(i + 2, 8):
                pass
    finally:
        sys.setswitchinterval(interval)
    assert flag[0] == 8


def test_inputs_outputs_and_chains(device):
    data = [{"a": torch.full((3,), float(i)), "b": torch.ones(3), "name": "x"} for i in range(6)]
    stages = [
        ss.Stage("both", scripted(Both()), ["a", "b"], ["sum", "more"]),
        ss.Stage("one", scripted(AddOne()), "sum"),
        ss.Stage("python", lambda s: s * 10, "sum", "ten"),
        ss.Stage("again", scripted(AddOne()), "ten"),
        ss.Stage("last", lambda s: s - 1, "ten"),
        ss.Stage("and again", scripted(AddOne()), "ten"),
    ]
    for i, batch in enumerate(ss.Pipeline(data, stages, device)):
        assert batch["sum"].eq(i + 2).all() and batch["ten"].eq(10 * (i + 2) + 1).all()
        assert batch["more"][0].eq(i - 1).all() and batch["more"][1].eq(i).all()
        assert batch["name"] == "x" and batch["a"].eq(i).all()
    assert i == 5


def test_state_of_a_module_goes_from_batch_to_batch(device):
    stage = scripted(Stateful())
    for total in (0, 5):
        made = list(ss.Pipeline([torch.zeros(2)] * 5, [("stage", stage)], device))
        assert [int(x[0]) for x in made] == [total + i + 1 for i in range(5)]


def test_what_is_kept_is_never_overwritten(device):
    data = batches(30, pinned=device == "cuda")
    kept, checks = {}, []
    for i, (x, y, _) in enumerate(ss.Pipeline(data, [("one", scripted(AddOne()))], device)):
        delay(device, 1)
        kept[i] = (x, y[2:5])
        if i >= 7:
            old, labels = kept.pop(i - 7)
            checks.append((i - 7, old.clone(), labels.clone()))
            del old, labels
    assert len(checks) == 23
    for i, x, y in checks:
        assert torch.equal(x.cpu(), (data[i][0].to(device) + 1).cpu()) and torch.equal(y.cpu(), data[i][1][2:5])


def test_the_loops_modes_hold_in_them(device):
    data = batches(4)
    encode = encoder(device)
    with torch.autocast(device, dtype=torch.bfloat16):
        expected = [encode(x.to(device)) for x, *_ in data]
        script = torch.jit.trace(encode, data[0][0].to(device))
        made = [x for x, *_ in ss.Pipeline(data, [("encode", script)], device)]
    assert {x.dtype for x in made} == {torch.bfloat16}
    assert all(map(torch.equal, made, expected))
    made = [x for x, *_ in ss.Pipeline(data, [("one", scripted(AddOne()))], device)]
    assert not any(x.requires_grad for x in made)


def test_errors_come_out_with_the_stages_name(device):
    script = torch.jit.trace(nn.Linear(3, 2).eval().requires_grad_(False), torch.ones(1, 3)).to(device)
    data = [torch.ones(2, 3)] * 5 + [torch.ones(2, 4)] * 5
    seen = 0
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied") as caught:
        for _ in ss.Pipeline(data, [("linear", script), ("more", lambda x: x)], device):
            seen += 1
    assert 3 <= seen <= 5
    if sys.version_info >= (3, 11):
        assert caught.value.__notes__ == ["in stage 'linear' of a slipstream.Pipeline"]
    with pytest.raises(RuntimeError, match="forward.. Expected a value of type 'Tensor'"):
        list(ss.Pipeline([("text", 1)], [("linear", script)], device))
    with pytest.raises(_native.Error, match="stage 'linear' reads 'image'"):
        list(ss.Pipeline([(torch.ones(2, 3), 1)], [ss.Stage("linear", script, "image")], device))
    with pytest.raises(_native.Error, match="has 2 outputs"):
        list(ss.Pipeline([{"a": torch.ones(2, 3)}], [ss.Stage("linear", script, "a", ["b", "c"])], device))
    assert len(list(ss.Pipeline([torch.ones(2, 3)] * 3, [("linear", script)], device))) == 3


def test_a_frozen_module_is_one(device):
    frozen = torch.jit.freeze(scripted(nn.Linear(3, 2)).to(device))
    data = [torch.ones(2, 3)] * 4
    expected = [frozen(x.to(device)) for x in data]
    assert all(map(torch.equal, ss.Pipeline(data, [("frozen", frozen)], device), expected))


def test_the_same_memory_for_two_batches_is_an_error(device):
    stage = torch.jit.script(Gives(torch.ones(3, device=device)))
    stage.eval()
    with pytest.raises(_native.Error, match="stage 'gives' gave the same memory for two batches"):
        list(ss.Pipeline([torch.ones(3)] * 5, [("gives", stage)], device))


@pytest.mark.parametrize("ends_at", [0, 1, 5])
def test_early_ends_errors_of_the_body_and_loops_in_loops(device, ends_at):
    data = [torch.full((2,), float(i)) for i in range(9)]
    pipe = ss.Pipeline(data, [("one", scripted(AddOne()))], device)
    for _ in range(3):
        for i, _ in enumerate(pipe):
            if i == ends_at:
                break
        with pytest.raises(KeyError):
            for i, _ in enumerate(pipe):
                if i == ends_at:
                    raise KeyError(i)
    for i, x in enumerate(pipe):
        assert [int(y[0]) for y in pipe] == list(range(1, 10))
        assert int(x[0]) == i + 1
    assert i == 8


def test_threads_are_used_again():
    pipe = ss.Pipeline([torch.ones(2)] * 5, [("one", scripted(AddOne()))], "cpu")
    list(pipe)
    before = len(os.listdir("/proc/self/task"))
    for _ in range(5):
        list(pipe)
    assert len(os.listdir("/proc/self/task")) == before


def test_a_fork_amid_a_loop_ends_by_itself():
    script = scripted(AddOne())
    loop = iter(ss.Pipeline([torch.ones(2)] * 5, [("one", script)], "cpu"))
    next(loop)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            loop.close()
            made = [float(x[0]) for x in ss.Pipeline([torch.ones(2)] * 3, [("one", add_one)], "cpu")]
            code = 0 if made == [2, 2, 2] else 1
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert len(list(loop)) == 4


class Own(ss.Stage):
    def __call__(self, batch):
        return super().__call__(batch) * 2


def test_what_needs_python_stays_on_the_loops_thread():
    made = list(ss.Pipeline([torch.ones(2)], [Own("own", scripted(AddOne()))], "cpu"))
    assert made[0].eq(4).all()
    hooked = AddOne()
    hooked.register_forward_hook(tripled)
    expected = scripted(hooked)(torch.ones(2))
    assert next(iter(ss.Pipeline([torch.ones(2)], [("hooked", scripted(hooked))], "cpu"))).equal(expected)
    hook = nn.modules.module.register_module_forward_hook(lambda module, inputs, output: output * 5)
    try:
        (made,) = ss.Pipeline([torch.ones(2)], [("one", scripted(AddOne()))], "cpu")
    finally:
        hook.remove()
    assert made.eq(10).all()
    calls = scripted(CallsPython())
    assert next(iter(ss.Pipeline([torch.ones(2)], [("calls", calls)], "cpu"))).eq(2).all()


@torch.library.custom_op("slipstream_test::noise", mutates_args=())
def noise_of_python(x: torch.Tensor) -> torch.Tensor:
    return torch.rand_like(x)


class OperatorInPython(nn.Module):
    def forward(self, x):
        return torch.ops.slipstream_test.noise(x)


class Forks(nn.Module):
    def noise(self, x):
        return torch.rand_like(x)

    def forward(self, x):
        return torch.jit.wait(torch.jit.fork(self.noise, x))


class Seeds(nn.Module):
    def forward(self, x):
        torch.manual_seed(1)
        return x


class Called(torch.jit.RecursiveScriptModule):
    def __call__(self, x):
        return x * 7


@pytest.mark.parametrize("kind", [OperatorInPython, Forks, Seeds, CallsPython, Noise])
def test_what_is_not_pytorchs_alone_is_called_on_the_loops_thread(kind):
    module = scripted(kind())
    assert _native.needs_python(module) and not _native.needs_python(scripted(AddOne()))


def test_what_stands_before_the_compiled_function_is_called():
    replaced = scripted(AddOne())
    compiled = replaced.forward
    replaced.forward = lambda x: compiled(x) * 10
    other_class = scripted(AddOne())
    other_class.__class__ = Called
    for module, expected in ((replaced, 20), (other_class, 7)):
        made = list(ss.Pipeline([torch.ones(2)] * 4, [("one", module)], "cpu"))
        assert all(x.eq(expected).all() for x in made)


@dataclasses.dataclass
class Halved:
    raw: torch.Tensor
    half: torch.Tensor | None = None

    @property
    def image(self):
        return self.raw / 2


@dataclasses.dataclass
class Stops(Halved):
    @property
    def image(self):
        raise StopIteration


class Sub(torch.Tensor):
    pass


def test_inputs_that_are_not_there_as_they_are_read_are_refused(device):
    one = ss.Stage("one", scripted(AddOne()), "image", "half")
    with pytest.raises(_native.Error, match="stage 'one'.*computed by the batch.*Remedy: give a function"):
        list(ss.Pipeline([Halved(torch.ones(2))] * 3, [one], device))
    with pytest.raises(_native.Error, match="stage 'one'.*subclass of torch.Tensor"):
        list(ss.Pipeline([torch.ones(2).as_subclass(Sub)] * 3, [("one", scripted(AddOne()))], device))
    with pytest.raises(RuntimeError, match="stage 'one' raised StopIteration"):
        list(ss.Pipeline([Stops(torch.ones(2))] * 3, [one], device))


def test_a_fork_cannot_go_on_with_a_loop():
    loop = iter(ss.Pipeline([torch.ones(2)] * 5, [("one", scripted(AddOne()))], "cpu"))
    next(loop)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            next(loop)
        except ss.Refused as refused:
            code = 0 if "forked from" in str(refused) else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert len(list(loop)) == 4


def test_a_mode_that_is_entered_amid_a_loop_is_an_error():
    loop = iter(ss.Pipeline([torch.ones(2)] * 9, [("one", scripted(AddOne()))], "cpu"))
    next(loop)
    with Threads(), pytest.raises(_native.Error, match="enter it ahead of the loop"):
        list(loop)


class Late(torch.utils.data.IterableDataset):
    def __init__(self):
        self.turns = torch.multiprocessing.Semaphore(1)

    def __iter__(self):
        for _ in range(5):
            self.turns.acquire()
            yield torch.ones(200, 200)


class Heavy(nn.Module):
    def forward(self, x):
        for _ in range(30):
            x = torch.tanh(x @ x)
        return x


def test_a_late_loader_does_not_hold_up_what_is_on_a_thread(device):
    data = Late()
    loader = torch.utils.data.DataLoader(data, None, num_workers=1)
    for i, _ in enumerate(ss.Pipeline(loader, [("heavy", scripted(Heavy()))], device)):
        data.turns.release()
    assert i == 4


class Threads(torch.utils._python_dispatch.TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, operation, types, arguments=(), keywords=None):
        self.seen.add(threading.get_ident())
        return operation(*arguments, **(keywords or {}))


def test_what_sees_each_operation_sees_them_on_one_thread():
    data = [torch.ones(2)] * 4
    with Threads() as mode:
        assert len(list(ss.Pipeline(data, [("one", scripted(AddOne()))], "cpu"))) == 4
    assert mode.seen == {threading.get_ident()}
    assert ss.verify(lambda: lambda: sum(x.sum() for x in ss.Pipeline(data, [("one", scripted(AddOne()))], "cpu")),
                     schedules=2).passed


def test_draws_in_them_are_found_and_keyed(device):
    noise = scripted(Noise())
    data = [torch.ones(50, 2)] * 4
    with pytest.raises(_native.Error, match="both draw random numbers"):
        for _ in ss.Pipeline(data, [("noise", noise)], device):
            torch.rand(1, device=device)
    keyed = ss.Stage("noise", noise, seed=3)
    passes = [torch.stack(list(ss.Pipeline(data, [keyed], device))) for _ in range(2)]
    assert torch.equal(*passes) and not torch.equal(passes[0][0], passes[0][1])
