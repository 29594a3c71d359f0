"""TorchScript stages, which threads call without the GIL."""

import os
import sys

from loops import batches, delay, encoder, leave_at, trained
import pytest
from scripts import AddOne, add_one, on_threads, scripted  # noqa: F401, a fixture
from tensors import all_equal
import torch
from torch import nn

import slipstream as ss
from slipstream import _native


class Meeting(nn.Module):
    """Returns only when `flag` shows that the loop has reached the body of the previous batch."""

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
    """Returns the same memory each time."""

    def __init__(self, like):
        super().__init__()
        self.memory = [torch.zeros_like(like)]

    def forward(self, x):
        return self.memory[0].copy_(x)


@pytest.mark.parametrize("make", [scripted, lambda m: torch.jit.trace(m, torch.ones(8, 3, 8, 8))])
@pytest.mark.usefixtures("deterministic")
def test_training_with_script_stage_gives_bits_of_plain_loop(device, make):
    data = batches(40, pinned=device == "cuda")
    encode = encoder(device)
    plain = trained(((encode(x.to(device)), y.to(device), name) for x, y, name in data), device)
    script = make(encoder("cpu")).to(device)
    for run_ahead in (1, 2, 5):
        pipe = ss.Pipeline(data, [("encode", script)], device, run_ahead=run_ahead)
        assert all_equal(trained(pipe, device), plain)


def test_script_stages_run_while_the_loop_holds_the_gil(device):
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


def test_script_stages_read_and_write_chained_fields(device):
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


def test_script_module_state_is_kept_between_batches(device):
    stage = scripted(Stateful())
    for total in (0, 5):
        made = list(ss.Pipeline([torch.zeros(2)] * 5, [("stage", stage)], device))
        assert [int(x[0]) for x in made] == [total + i + 1 for i in range(5)]


def test_kept_batches_are_never_overwritten(device):
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


def test_autocast_of_the_loop_applies_to_script_stages(device):
    data = batches(4)
    encode = encoder(device)
    with torch.autocast(device, dtype=torch.bfloat16):
        expected = [encode(x.to(device)) for x, *_ in data]
        script = torch.jit.trace(encode, data[0][0].to(device))
        made = [x for x, *_ in ss.Pipeline(data, [("encode", script)], device)]
    assert {x.dtype for x in made} == {torch.bfloat16}
    assert all_equal(made, expected)
    made = [x for x, *_ in ss.Pipeline(data, [("one", scripted(AddOne()))], device)]
    assert [x.requires_grad for x in made] == [False] * 4


def test_script_stage_errors_name_the_stage(device):
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


def test_frozen_script_module_is_accepted_as_stage(device):
    frozen = torch.jit.freeze(scripted(nn.Linear(3, 2)).to(device))
    data = [torch.ones(2, 3)] * 4
    expected = [frozen(x.to(device)) for x in data]
    assert all_equal(ss.Pipeline(data, [("frozen", frozen)], device), expected)


def test_script_returning_the_same_memory_twice_raises(device):
    stage = torch.jit.script(Gives(torch.ones(3, device=device)))
    stage.eval()
    with pytest.raises(_native.Error, match="stage 'gives' returned the same memory for two batches"):
        list(ss.Pipeline([torch.full((3,), float(i)) for i in range(5)], [("gives", stage)], device))


@pytest.mark.parametrize("ends_at", [0, 1, 5])
def test_loop_can_be_restarted_and_nested_after_break_and_error(device, ends_at):
    data = [torch.full((2,), float(i)) for i in range(9)]
    pipe = ss.Pipeline(data, [("one", scripted(AddOne()))], device)
    for _ in range(3):
        leave_at(pipe, ends_at)
    for i, x in enumerate(pipe):
        assert [int(y[0]) for y in pipe] == list(range(1, 10))
        assert int(x[0]) == i + 1
    assert i == 8


def test_threads_are_reused_between_loops():
    pipe = ss.Pipeline([torch.ones(2)] * 5, [("one", scripted(AddOne()))], "cpu")
    list(pipe)
    before = len(os.listdir("/proc/self/task"))
    for _ in range(5):
        list(pipe)
    assert len(os.listdir("/proc/self/task")) == before


def test_forked_process_can_close_the_loop_and_start_another():
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


def test_forked_process_cannot_continue_the_loop():
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


def test_late_loader_does_not_delay_script_stages(device):
    data = Late()
    loader = torch.utils.data.DataLoader(data, None, num_workers=1)
    for i, _ in enumerate(ss.Pipeline(loader, [("heavy", scripted(Heavy()))], device)):
        data.turns.release()
    assert i == 4
