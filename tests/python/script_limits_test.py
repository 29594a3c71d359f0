"""Which TorchScript stages stay on the loop's thread, and which inputs they refuse."""

import dataclasses
import threading

import pytest
from scripts import AddOne, on_threads, scripted  # noqa: F401, a fixture
import torch
from torch import nn

import slipstream as ss
from slipstream import _native


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


class Own(ss.Stage):
    def __call__(self, batch):
        return super().__call__(batch) * 2


def test_script_stages_that_need_python_give_right_values():
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
def test_scripts_with_python_random_or_forked_code_need_python(kind):
    module = scripted(kind())
    assert _native.needs_python(module) and not _native.needs_python(scripted(AddOne()))


def test_replaced_forward_or_call_of_script_is_used():
    replaced = scripted(AddOne())
    compiled = replaced.forward
    replaced.forward = lambda x: compiled(x) * 10
    other_class = scripted(AddOne())
    other_class.__class__ = Called
    for module, expected in ((replaced, 20), (other_class, 7)):
        made = list(ss.Pipeline([torch.ones(2)] * 4, [("one", module)], "cpu"))
        assert [x.tolist() for x in made] == [[expected] * 2] * 4


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


def test_computed_and_subclassed_script_inputs_raise(device):
    one = ss.Stage("one", scripted(AddOne()), "image", "half")
    with pytest.raises(_native.Error, match="stage 'one'.*computed by the batch.*Remedy: give a function"):
        list(ss.Pipeline([Halved(torch.ones(2))] * 3, [one], device))
    with pytest.raises(_native.Error, match="stage 'one'.*subclass of torch.Tensor"):
        list(ss.Pipeline([torch.ones(2).as_subclass(Sub)] * 3, [("one", scripted(AddOne()))], device))
    with pytest.raises(RuntimeError, match="stage 'one' raised StopIteration"):
        list(ss.Pipeline([Stops(torch.ones(2))] * 3, [one], device))


def test_dispatch_mode_entered_during_a_loop_raises():
    loop = iter(ss.Pipeline([torch.ones(2)] * 9, [("one", scripted(AddOne()))], "cpu"))
    next(loop)
    with Threads(), pytest.raises(_native.Error, match="enter it before the loop"):
        list(loop)


class Threads(torch.utils._python_dispatch.TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, operation, types, arguments=(), keywords=None):
        self.seen.add(threading.get_ident())
        return operation(*arguments, **(keywords or {}))


def test_dispatch_mode_sees_operations_on_one_thread():
    data = [torch.ones(2)] * 4
    with Threads() as mode:
        assert len(list(ss.Pipeline(data, [("one", scripted(AddOne()))], "cpu"))) == 4
    assert mode.seen == {threading.get_ident()}
    assert ss.verify(lambda: lambda: sum(x.sum() for x in ss.Pipeline(data, [("one", scripted(AddOne()))], "cpu")),
                     schedules=2).passed


def test_random_scripts_are_detected_and_can_be_seeded(device):
    noise = scripted(Noise())
    data = [torch.ones(50, 2)] * 4
    with pytest.raises(_native.Error, match="both draw random numbers"):
        for _ in ss.Pipeline(data, [("noise", noise)], device):
            torch.rand(1, device=device)
    keyed = ss.Stage("noise", noise, seed=3)
    passes = [torch.stack(list(ss.Pipeline(data, [keyed], device))) for _ in range(2)]
    assert torch.equal(*passes) and not torch.equal(passes[0][0], passes[0][1])
