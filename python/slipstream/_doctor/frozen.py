"""Finds the frozen modules that a step calls before the trained ones, and predicts what storing their results gains."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from .. import _native, _trees
from .._blocks import contextmanager
from .._held_objects import modules_in, own_dict, reachable_from, walk
from .._stages import first_module
from .changes import make_change
from .launches import Gpu
from .levels import fresh
from .measurements import LevelMeasurements
from .routes import PipelineRoute, PlainRoute

_FEWEST, _MOST = 2, 8  # measured steps
_BUDGET_SHARE = 0.01  # share of the doctor's budget for them
_LEAST_SHARE = 0.02  # of a step's time that remains at least if nothing is frozen in it
_MARGIN = 0.9  # share of the free device memory that features may use
_PINNED_SHARE = 4  # features may use one part in so many of the free memory of the host


@dataclasses.dataclass(frozen=True)
class Frozen:
    """A frozen module that a step calls once, before any trained module.

    name: how the step reaches it. seconds: the time of its call in the step.
    bytes_per_sample: size of its result for one sample; 0 if the first dimension of the result is not the batch."""

    name: str
    seconds: float
    bytes_per_sample: float


class _Call:
    """The calls of a frozen module in one step."""

    def __init__(self) -> None:
        self.count = 0
        self.is_late = False  # a trained module was called before
        self.has_gradients = False
        self.marks: list[Any] = []  # begin and end of each call
        self.bytes_per_sample = 0.0


class _Clock:
    """Gives times on the device: with CUDA events on a GPU, otherwise by the clock of the host."""

    def __init__(self, device: str) -> None:
        self._gpu = Gpu(device) if device.startswith("cuda") else None

    def mark(self) -> Any:
        return time.perf_counter() if self._gpu is None else self._gpu.mark()

    def seconds(self, begin: Any, end: Any) -> float:
        return float(end - begin) if self._gpu is None else self._gpu.seconds(begin, end)


def find_frozen(
    step: Callable[[Any], Any], run: Callable[[], Any], device: str, batch_size: int, budget_s: float
) -> list[Frozen]:
    """Calls `run` a few times, for about `budget_s`, and returns the frozen modules that the step calls first.

    A module is frozen if it has parameters, none of which requires gradients, if it is in evaluation mode, and if the
    step changes neither its parameters nor its buffers: a teacher that follows the trained module is not frozen.

    step: the step, whose variables are searched for modules. run: runs it on a batch of `batch_size` samples."""
    named, trained = _split(step)
    if not named or not trained:
        return []
    versions = {name: _versions(module) for name, module in named.items()}
    calls = {name: _Call() for name in named}
    clock, start = _Clock(device), time.perf_counter()
    with _watched(named, trained, calls, clock, batch_size) as begin_step:
        for number in range(1, _MOST + 1):
            begin_step()
            run()
            if number >= _FEWEST and time.perf_counter() - start > budget_s:
                break
    found = []
    for name, module in named.items():
        call = calls[name]
        is_first = call.count == 1 and not call.is_late and not call.has_gradients
        if is_first and versions[name] == _versions(module):
            pairs = zip(call.marks[::2], call.marks[1::2], strict=True)
            seconds = statistics.median([clock.seconds(begin, end) for begin, end in pairs])
            found.append(Frozen(name, seconds, call.bytes_per_sample))
    return found


def _split(step: Callable[[Any], Any]) -> tuple[dict[str, torch.nn.Module], list[torch.nn.Module]]:
    """Returns the outermost frozen modules that a step refers to, by name, and modules that have trained parameters of
    their own. Hooks of these modules do not make torch.compile compile anything again."""
    objects = [step, *(each.content for each in walk([("", step)], ()))]
    compiled = [vars(each) for each in objects if _is_compiled(each)]
    own = {id(each.get("forward")) for each in compiled}
    if any(_is_compiled_in_place(each) for each in objects if id(each) not in own):
        return {}, []
    frozen: dict[str, torch.nn.Module] = {}
    trained: list[torch.nn.Module] = []
    wrapped = [each["_modules"].get("_orig_mod") for each in compiled]
    seen = {id(module) for each in wrapped if each is not None for module in each.modules()}
    rest = [(each.name, each.content) for each in reachable_from(step, (torch.nn.Module,))]
    while rest:
        name, module = rest.pop(0)
        if id(module) in seen:
            continue
        seen.add(id(module))
        parameters = list(module.parameters())
        if parameters and not any(each.requires_grad for each in parameters):
            if not any(each.training for each in module.modules()):
                frozen[name] = module
                seen.update(id(each) for each in module.modules())
            continue
        if _is_compiled(module) or any(each.requires_grad for each in module.parameters(recurse=False)):
            trained.append(module)
        rest += [(f"{name}.{key}", each) for key, each in module.named_children()]
    return frozen, trained


def _is_compiled(each: Any) -> bool:
    """Returns true for the result of torch.compile(module), whose own hooks are not compiled."""
    return issubclass(type(each), torch.nn.Module) and type(each).__module__.startswith("torch._dynamo")


def _is_compiled_in_place(each: Any) -> bool:
    """Returns true for a compiled function, and for a module after module.compile()."""
    held = own_dict(each) or {}
    if issubclass(type(each), torch.nn.Module):
        return any(vars(module).get("_compiled_call_impl") is not None for module in modules_in(each))
    return "_torchdynamo_orig_callable" in held


def _versions(module: torch.nn.Module) -> list[tuple[int, int]]:
    tensors = [*module.parameters(), *module.buffers()]
    return [(each.data_ptr(), 0 if each.is_inference() else each._version) for each in tensors]


@contextmanager
def _watched(
    frozen: dict[str, torch.nn.Module],
    trained: Sequence[torch.nn.Module],
    calls: dict[str, _Call],
    clock: _Clock,
    batch_size: int,
) -> Iterator[Callable[[], None]]:
    """Notes the calls of modules in the block. Gives a function to call before each step."""
    has_trained = False

    def begin_step() -> None:
        nonlocal has_trained
        has_trained = False
        for call in calls.values():
            call.count = 0

    def begin_trained(*_: Any) -> None:
        nonlocal has_trained
        has_trained = True

    def begin(name: str) -> Callable[..., None]:
        def note(module: Any, args: Any, kwargs: Any) -> None:
            call = calls[name]
            call.count += 1
            call.is_late |= has_trained
            call.marks.append(clock.mark())

        return note

    def end(name: str) -> Callable[..., None]:
        def note(module: Any, args: Any, result: Any) -> None:
            call = calls[name]
            call.marks.append(clock.mark())
            call.has_gradients |= any(each.requires_grad for each in _tensors(result))
            call.bytes_per_sample = _bytes_per_sample(result, batch_size)

        return note

    with contextlib.ExitStack() as hooks:
        for each in trained:
            hooks.callback(each.register_forward_pre_hook(begin_trained).remove)
        for name, each in frozen.items():
            hooks.callback(each.register_forward_pre_hook(begin(name), with_kwargs=True).remove)
            hooks.callback(each.register_forward_hook(end(name)).remove)
        yield begin_step


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [each for each in _trees.leaves(tree) if isinstance(each, torch.Tensor)]


def _bytes_per_sample(result: Any, batch_size: int) -> float:
    tensors = _tensors(result)
    if not tensors or any(each.is_nested or each.dim() == 0 or len(each) != batch_size for each in tensors):
        return 0
    return sum(map(_trees.byte_size, tensors)) / batch_size


def advise(
    measurements: LevelMeasurements, observed: _native.Observations, diagnosis: _native.Diagnosis
) -> list[_native.Change]:
    """Returns changes for frozen modules that run before the trained ones: in the step, or as stages of a
    slipstream.Pipeline."""
    ceiling, rate = diagnosis.ceiling, diagnosis.rate
    if diagnosis.verdict == "not_enough_evidence" or ceiling.n == 0 or rate.n == 0:
        return []
    try:
        found = _found(measurements)
    except Exception as error:  # such as a module that refuses hooks
        measurements.warnings.append(f"not searched for frozen modules: {type(error).__name__}: {error}")
        return []
    if found is None:
        return []
    changes: list[_native.Change | None] = []
    without = measurements.step_alone_rate()
    if without is None:  # the modules are in the step
        share = min(1 - _LEAST_SHARE, found.seconds * ceiling.value)
        without = _scaled(ceiling, 1 / (1 - share))
        if measurements.times is not None and isinstance(measurements.route, PlainRoute):
            changes.append(stage_change(found.names, rate, measurements.times.rate_with_stages(share)))
    is_random = any(cost.is_random for cost in observed.host)
    samples = (measurements.number_of_samples() or 0) * found.rows // max(1, measurements.batch_size)
    features = Features(found.names, found.bytes_per_sample, samples, is_random, *_free_bytes(measurements.device))
    changes.append(cache_change(features, rate, without))
    return [change for change in changes if change is not None]


@dataclasses.dataclass(frozen=True)
class _Found:
    """All frozen modules or stages together. rows: number of samples in a batch."""

    names: Sequence[str]
    bytes_per_sample: float
    rows: int
    seconds: float = 0


def _found(measurements: LevelMeasurements) -> _Found | None:
    stages, step = measurements.route.stages, measurements.user_step
    if isinstance(measurements.route, PipelineRoute) and stages:
        given = measurements.route.pipeline.stages  # those of the route have no caches
        has_cache = any(getattr(stage, "cache", None) is not None for stage in given)
        if has_cache or any(first_module(stage.function) is None for stage in stages):
            return None
        batch = measurements.batch_for_step()
        rows = _rows(batch)
        return _Found([stage.name for stage in stages], _bytes_per_sample(batch, rows), rows)
    if not all(_split(step)):
        return None
    batch = measurements.batch_for_step()
    rows, budget_s = _rows(batch), _BUDGET_SHARE * measurements.budget_s
    found = find_frozen(step, functools.partial(_run, step, batch), measurements.device, rows, budget_s)
    if not found:
        return None
    sizes = [each.bytes_per_sample for each in found]
    return _Found([each.name for each in found], sum(sizes) if all(sizes) else 0, rows, sum(each.seconds for each in found))


def _rows(batch: Any) -> int:
    """Returns the first dimension of the first tensor of a batch; 0 if it has none."""
    tensors = _tensors(batch)
    return len(tensors[0]) if tensors and not tensors[0].is_nested and tensors[0].dim() > 0 else 0


def _run(step: Callable[[Any], Any], batch: Any) -> None:
    step(fresh(batch))


def _scaled(rate: _native.Measured, by: float) -> _native.Measured:
    return _native.Measured(rate.value * by, rate.low * by, rate.high * by, rate.unit, rate.n)


def _free_bytes(device: str) -> tuple[int, int]:
    """Returns the memory for features on the GPU and on the host."""
    of_host = _native.free_memory_bytes() // _PINNED_SHARE
    if not device.startswith("cuda"):
        return 0, of_host
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(_MARGIN * (torch.cuda.mem_get_info(device)[0] + unused)), of_host


@dataclasses.dataclass(frozen=True)
class Features:
    """What a cache of the results of frozen modules would hold.

    names: the modules, or the stages of the loop. bytes_per_sample: of all results.
    samples: number of samples in the data set. is_random: whether the data set or its transforms use random numbers.
    device_bytes, host_bytes: memory that a cache may use on the GPU and on the host; 0 on the GPU if there is none."""

    names: Sequence[str]
    bytes_per_sample: float
    samples: int
    is_random: bool
    device_bytes: int
    host_bytes: int

    def tier(self) -> str:
        """Returns where the features of all samples fit."""
        size = self.bytes_per_sample * self.samples
        if size <= self.device_bytes:
            return "device memory"
        host = "page-locked memory" if self.device_bytes > 0 else "memory"
        if size <= self.device_bytes + self.host_bytes:
            return f"device memory and {host}" if self.device_bytes >= size / 10 else host
        return "a folder on disk"


def cache_change(features: Features, rate: _native.Measured, predicted: _native.Measured) -> _native.Change | None:
    """Returns the change to a cache of features, or None if it does not gain.

    predicted: the rate of the loop without the frozen modules and without its loader."""
    if features.bytes_per_sample == 0 or features.samples == 0 or rate.n == 0:
        return None
    if predicted.value < _native.LEAST_GAIN * rate.value:
        return None
    size = _size(features.bytes_per_sample * features.samples)
    tier, name = features.tier(), features.names[-1]
    description = (
        f"compute the results of the frozen {_joined(features.names)} only once for each sample: "
        f"{_size(features.bytes_per_sample)} for a sample, {size} for all {features.samples}, in {tier}; "
        "from the second epoch on"
    )
    if features.is_random:
        description += ". The data set is random: store several versions of each sample"
    options = ['"features/"'] if tier == "a folder on disk" else []
    options += ["versions=4"] if features.is_random else []
    cache = f"slipstream.FeatureCache({', '.join(options)})" if options else '"auto"'
    action = f'slipstream.Pipeline(loader, stages=[slipstream.Stage("{_last(name)}", {name}, cache={cache})])'
    return make_change("feature_cache", description, action, rate, predicted)


def stage_change(names: Sequence[str], rate: _native.Measured, predicted: _native.Measured) -> _native.Change | None:
    """Returns the change to stages of a slipstream.Pipeline, or None if it does not gain.

    predicted: the rate of a pipeline whose stages and step are CUDA graphs."""
    if rate.n == 0 or predicted.value < _native.LEAST_GAIN * rate.value:
        return None
    description = f"run the frozen {_joined(names)} during the training step of the batch before"
    stages = ", ".join(f'("{_last(name)}", {name})' for name in names)
    action = f"slipstream.Pipeline(loader, stages=[{stages}], graphs=True), and slipstream.capture() of the rest"
    return make_change("stages", description, action, rate, predicted)


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _joined(names: Sequence[str]) -> str:
    """Returns the names of modules as part of a sentence."""
    return " and ".join(f"'{name}'" for name in names)


def _size(count: float) -> str:
    """Returns a number of bytes with three digits."""
    unit = min(4, int(math.log(max(1.0, count), 1024)))
    return f"{count / 1024**unit:.3g} {('bytes', 'KiB', 'MiB', 'GiB', 'TiB')[unit]}"
