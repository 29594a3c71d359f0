"""Examines a loop in each of several processes that train together with torch.distributed."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode

from .. import _native
from .._blocks import contextmanager
from .._held_objects import reachable_from

_EXCHANGING = ("c10d", "_c10d_functional")  # namespaces of PyTorch's operators that communicate


def trains_together() -> bool:
    """Returns true if this is one of several processes that train together."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


@contextmanager
def without_exchange(roots: Sequence[Any]) -> Iterator[None]:
    """In the block, the DistributedDataParallel modules that `roots` refer to exchange neither gradients nor buffers,
    as in their method no_sync(), so that the processes may run different numbers of steps."""
    held = [each.content for root in roots for each in reachable_from(root, (torch.nn.Module,))]
    modules = dict.fromkeys(module for each in held for module in each.modules())
    flags = [
        (module, module.require_backward_grad_sync, module.require_forward_param_sync)
        for module in modules
        if isinstance(module, DistributedDataParallel)
    ]
    for module, _, _ in flags:
        module.require_backward_grad_sync = module.require_forward_param_sync = False
    try:
        yield
    finally:
        for module, backward, forward in flags:
            module.require_backward_grad_sync, module.require_forward_param_sync = backward, forward


class _FindsExchange(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Collects the names of operators that communicate with other processes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function.namespace in _EXCHANGING:
            self.found.append(function._schema.name)
        return function(*args, **(kwargs or {}))


@contextmanager
def refusing_exchange() -> Iterator[None]:
    """Raises Refused at the end of the block if code in it communicated with other processes: they may run different
    numbers of steps, and would wait for each other indefinitely."""
    if not trains_together():
        yield
        return
    with _FindsExchange() as mode:
        yield
    if mode.found:
        raise _native.Refused(
            f"the step communicates with other processes ({mode.found[0]}), but the doctor runs a different number of "
            "steps in each of them: give a step without calls of torch.distributed. DistributedDataParallel modules may "
            "stay, because the doctor switches their exchange off"
        )


def gather(device: str, result: Any) -> list[Any]:
    """Returns the result of each process, in the order of ranks. All processes must call this."""
    results: list[Any] = [None] * dist.get_world_size()
    # NCCL sends objects through the memory of the current GPU.
    on_device = torch.cuda.device(device) if device.startswith("cuda") else contextlib.nullcontext()
    with on_device:
        dist.all_gather_object(results, result)
    return results


@dataclasses.dataclass(frozen=True)
class _Found:
    """The result of a process: its verdict, and the values of Measured. error: why there is none, or ""."""

    verdict: str = ""
    ceiling: tuple[Any, ...] = ()
    rate: tuple[Any, ...] = ()
    error: str = ""


def _values(measured: _native.Measured) -> tuple[Any, ...]:
    return measured.value, measured.low, measured.high, measured.unit, measured.n


def exchange_results(device: str, diagnosis: _native.Diagnosis) -> tuple[list[_native.RankResult], list[str]]:
    """Returns the result of each process, and a warning for each process that failed."""
    own = _Found(diagnosis.verdict, _values(diagnosis.ceiling), _values(diagnosis.rate))
    found: list[_Found] = gather(device, own)
    ranks = [
        _native.RankResult(rank, each.verdict, _native.Measured(*each.ceiling), _native.Measured(*each.rate))
        for rank, each in enumerate(found)
    ]
    return ranks, [f"rank {rank} failed: {each.error}" for rank, each in enumerate(found) if each.error]


@contextmanager
def reporting_failures(device: str) -> Iterator[None]:
    """If the block raises an exception, reports it to the other processes, which wait in exchange_results()."""
    try:
        yield
    except Exception as error:
        gather(device, _Found(error=f"{type(error).__name__}: {error}"))
        raise
