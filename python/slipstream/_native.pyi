"""The compiled module: what the package itself calls."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

import torch

class Error(RuntimeError):
    """Raised on a failure. The message describes what failed, where, and what to do."""

class Refused(Error):
    """Raised for arguments that are not valid. They are checked before any sample is read."""

class UnfitSample(Error):
    """Raised for a sample that cannot be read or does not fit a transform."""

class Dataset:
    def __len__(self) -> int: ...
    def name(self, index: int, /) -> str: ...
    def class_names(self) -> list[str]: ...
    def remarks(self) -> list[str]: ...
    def field_names(self) -> list[str]: ...
    def moved_fields(self) -> list[str]: ...
    def label(self, index: int, /) -> int: ...

def image_folder(path: bytes, classes: Sequence[bytes], /) -> Dataset: ...
def open_dataset(path: bytes, num_classes: int, class_names: Sequence[bytes], /) -> Dataset: ...
def subset(dataset: Dataset, indices: Sequence[int], /) -> Dataset: ...
def concat(parts: Sequence[Dataset], /) -> Dataset: ...

class TransformChain:
    def __init__(self, json: str, /) -> None: ...
    def to_json(self) -> str: ...
    def moving_ops(self) -> list[str]: ...
    def is_random(self) -> bool: ...
    def __call__(
        self, images: torch.Tensor, samples: Sequence[int], seed: int, epoch: int, /
    ) -> torch.Tensor: ...

class Transforms:
    def __init__(
        self,
        chain: TransformChain,
        functions: Sequence[tuple[int, str, Callable[..., Any]]],
        keeps_sizes: bool,
        seed: int,
        /,
    ) -> None: ...

def make_sample(dataset: Dataset, transforms: Transforms, index: int, /) -> tuple[Any, ...]: ...
def transformed(
    images: Sequence[torch.Tensor], transforms: Transforms, index: int, /
) -> list[torch.Tensor]: ...

class LoaderSettings:
    device: str
    transforms: TransformChain
    batch_size: int
    prefetch_batches: int
    num_workers: int
    shuffle: bool
    drop_last: bool
    skips_bad_samples: bool
    strict_decoding: bool
    seed: int
    rank: tuple[int, int]
    wire: dict[str, str]
    transforms_on_device: bool
    num_classes: int
    pool: WorkerPool | None
    python_steps: Sequence[tuple[int, str, bool]]
    leaves: Sequence[tuple[torch.dtype, Sequence[int]] | None]
    build: Callable[[tuple[torch.Tensor, ...], list[bytes]], Any] | None

class WorkerPool:
    def __init__(self) -> None: ...
    def add(self, socket: int, memory: int, number: int, process: int, /) -> None: ...
    def describe(self, sample: int, seed: int, /) -> bytes: ...
    def close(self) -> None: ...
    def take_lost(self, with_busy: bool, unwanted: list[int], /) -> list[int]: ...
    def descriptors(self) -> list[int]: ...

class LastCall:
    def __init__(self, function: Callable[[], None], /) -> None: ...
    def __call__(self) -> None: ...

class LateInterrupts:
    def __init__(self) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

def process_dataset(
    pool: WorkerPool,
    size: int,
    form: str,
    leaves: Sequence[tuple[str, bool, torch.dtype, Sequence[int]]],
    has_texts: bool,
    /,
) -> Dataset: ...

class Loader:
    def __init__(self, dataset: Dataset, settings: LoaderSettings, /) -> None: ...
    def batches_per_epoch(self) -> int: ...
    def seek(self, batch: int, /) -> None: ...
    def halt(self) -> None: ...
    def skipped(self) -> list[tuple[str, str]]: ...
    def take_ranks(self, rank: int, ranks: int, /) -> None: ...
    wants_thread: bool

def needs_python(script: torch.jit.ScriptModule, /) -> bool: ...

class LoopStage:
    def __init__(
        self,
        name: str,
        apply: Callable[[Any], Any],
        module: torch.nn.Module | None,
        seed: int | None,
        kept: list[Any],
        script: torch.jit.ScriptModule | None,
        arguments: Callable[[Any], tuple[Any, ...]],
        placed: Callable[[Any, Any], Any],
        direct: tuple[Any, ...],
        chooses_autocast: bool,
        /,
    ) -> None: ...

class AutocastWatch:
    def is_on(self) -> bool: ...
    def begin_stage(self) -> None: ...
    def end_stage(self, name: str, /) -> None: ...
    def begin_body(self) -> None: ...
    def end_body(self) -> str: ...

class Loop:
    def __init__(
        self,
        source: Loader | Iterator[Any],
        ready: Callable[[], bool] | None,
        stages: list[LoopStage],
        device: str,
        first: int,
        run_ahead: int,
        kept: list[Any],
        /,
    ) -> None: ...
    def __iter__(self) -> Loop: ...
    def __next__(self) -> Any: ...
    def close(self) -> None: ...
    def failed(self) -> str: ...
    def given(self) -> int: ...
    def lost(self) -> int: ...

class KeyedDraws:
    def __init__(self, device: str, seed: int | None, number: int, /) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

def moved(value: Any, device: str, /) -> Any: ...
def copy_values(to: torch.Tensor, values: torch.Tensor, /) -> None: ...
def printable_name(name: bytes, /) -> str: ...
def main(words: list[str], /) -> int: ...

class TrainerSettings:
    kept: list[object]
    module: torch.nn.Module
    forward: Callable[..., Any]
    loss: Callable[..., Any] | None
    inputs: list[str]
    targets: list[str]
    optimizer: str
    lr: float
    eps: float | None
    momentum: float | None
    weight_decay: float | None
    nesterov: bool
    betas: list[float] | None
    no_weight_decay_on: list[str]
    label_smoothing: float
    steps: int
    metrics: list[str] | None
    own_metrics: list[tuple[str, Callable[..., Any]]]
    num_classes: int
    precision: str
    plan: str
    transforms_device: str | None
    deterministic: bool
    channels_last: bool
    in_one_thread: bool
    shows_progress: bool
    threads: int
    checkpoint: str
    save_every: int
    keep: int
    command: list[str]
    def add_stage(
        self, name: str, module: torch.nn.Module | None, function: Callable[..., Any], /
    ) -> None: ...
    def add_group(
        self, parameters: list[torch.Tensor], lr: float | None, weight_decay: float | None, /
    ) -> None: ...
    def set_training(self, accumulate: int, clip_grad: float, ema: float, on_nan: str, /) -> None: ...
    def set_schedule(
        self,
        schedule: str,
        warmup_epochs: float | None,
        warmup_steps: int | None,
        step_size: float | None,
        gamma: float | None,
        lr_min: float | None,
        /,
    ) -> None: ...
    def set_log(self, folder: str, every: int, /) -> None: ...
    def record_options(self, name: str, options: Sequence[tuple[str, bool | int | float | str]], /) -> None: ...

class FitResult:
    losses: list[float]
    seconds: float
    steps_per_second: float | None
    ended: str
    is_saved: bool

class Interrupts:
    def __enter__(self) -> None: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

def interrupted() -> bool: ...

class NativeTrainer:
    kept: list[object]  # what it calls
    def __init__(self, loader: Loader, settings: TrainerSettings, /) -> None: ...
    def position(self) -> int: ...
    def digest(self) -> int: ...
    def select_criterion(self, chosen: str | None, /) -> None: ...
    def open(self, resume: str, /) -> list[str]: ...
    def begin(self) -> None: ...
    def end(self) -> None: ...
    def restore(self, path: str, /) -> None: ...
    def fit(
        self, calls: Any, calls_on_step: bool, ends_epochs: bool, evaluates: bool, early_stop: int | None, /
    ) -> FitResult: ...
    def stop(self) -> None: ...
    def finish(self) -> str: ...
    def averages(self) -> list[tuple[str, torch.Tensor]]: ...

class NativeEvaluator:
    trainer: NativeTrainer
    loader: Any
    def __init__(self, trainer: NativeTrainer, loader: Loader, counts_scores: bool, may_differ: bool, /) -> None: ...
    def evaluate(self) -> tuple[bool, int, list[tuple[str, float]]]: ...
    def predict(self, take: Callable[[torch.Tensor], bool], /) -> bool: ...
    def stop(self) -> None: ...

# The doctor's arithmetic, and what measuring for it takes.

class Measured:
    """A figure with its 95 % interval from `low` to `high`, of `n` measurements; n = 0: not measured."""

    value: float
    low: float
    high: float
    unit: str
    n: int
    def __init__(
        self, value: float = 0, low: float = 0, high: float = 0, unit: str = "", n: int = 0
    ) -> None: ...

class MachineCapacity:
    cores: float

class Level:
    name: str
    after: str
    items: int
    with_training: Measured | None
    loader_alone: Measured | None
    error: str
    loader_alone_error: str

class HostStepCost:
    name: str
    group: str
    wall_s: list[float]
    cpu_s: list[float]
    wall_of_all_s: float
    cpu_of_all_s: float
    bytes: float
    is_random: bool

class DeviceCost:
    name: str
    seconds: Measured
    def __init__(self, name: str, seconds: Measured, enqueue_s: float, bytes: int, /) -> None: ...

class Utilization:
    sm_activity: float | None
    dram_use: float | None
    gpu_utilization: float | None
    note: str
    cpu_share: float

class Observations:
    batch_size: int
    workers: int
    slabs: int
    slabs_per_worker: int
    capacity: MachineCapacity
    levels: list[Level]
    host: list[HostStepCost]
    rate_of_all_workers: Measured
    rate_of_one_worker: Measured
    rate_of_half_of_workers: Measured
    device: list[DeviceCost]
    line_cpu_s: float
    utilization: Utilization
    warnings: list[str]
    def set_plan(
        self, on_gpu: bool, pin_memory: bool, prefetch_batches: int, copies_ahead: bool, /
    ) -> None: ...
    def set_on_device_from(self, name: str, /) -> None: ...
    def set_cores(self, cores: int, /) -> None: ...
    def set_free_memory_bytes(self, size: int, /) -> None: ...
    def set_samples(self, count: int, /) -> None: ...
    def set_last_fixed_step(self, name: str, /) -> None: ...
    def set_late_crop(self, crop: str, moved_before: str, /) -> None: ...

class LoaderDrain:
    def __init__(self, loader: Loader, /) -> None: ...
    def measure(self, time: TurnTime, /) -> None: ...
    def rate(self) -> Measured: ...
    def sample_costs(self) -> SampleCosts: ...
    def costs(self, all: LoaderDrain, /) -> list[HostStepCost]: ...

def examined(loader: Loader, after: str, items: int, workers: int, /) -> Loader: ...
def possible_on_device(loader: Loader, /) -> str: ...
def fields_as_files(loader: Loader, /) -> list[str]: ...

class Change:
    id: str
    description: str
    action: str
    step: str
    number: int
    bottleneck: str
    predicted: Measured
    gain: Measured
    is_upper_bound: bool

class Diagnosis:
    verdict: str
    reason: str
    bottlenecks: list[str]
    ceiling: Measured
    rate: Measured
    share: Measured
    changes: list[Change]

class DoctorReport:
    def __init__(
        self,
        device: str,
        name: str,
        options: Sequence[tuple[str, bool | int | float | str]],
        observed: Observations,
        diagnosis: Diagnosis,
        seconds: float,
        budget_s: float,
        /,
    ) -> None: ...
    def text(self) -> str: ...
    def html(self) -> str: ...
    def json(self) -> str: ...

class TurnTime: ...

class PeriodicTurns:
    @staticmethod
    def of_loader(workers: int, batch_size: int, /) -> PeriodicTurns: ...
    @staticmethod
    def of_training(workers: int, /) -> PeriodicTurns: ...
    def begin(self, time: TurnTime, now_s: float, /) -> None: ...
    def add(self, now_s: float, /) -> bool: ...
    def counted(self) -> int: ...
    def end(self, durations_s: Sequence[float], /) -> None: ...
    def rate(self) -> Measured: ...
    def by_item(self, items: int, /) -> list[list[float]]: ...

DEVICE_LEVEL: str
PINNED_LEVEL: str
PAGEABLE_LEVEL: str
COLLATED_LEVEL: str
WHOLE_LEVEL: str

def sample_levels(
    steps: Sequence[str], has_decoding: bool, only_first: bool, /
) -> list[tuple[str, str, int]]: ...

class SampleCosts:
    def __init__(self, seconds: Sequence[float], bytes: Sequence[float], /) -> None: ...

class CacheSizes:
    def batches(self) -> int: ...
    def samples_after(self, step: int, /) -> int: ...

class DeviceUsage:
    def __init__(self, device: str, /) -> None: ...
    def during(self, run: Callable[[], None], /) -> None: ...
    def utilization(self) -> Utilization: ...
    def shared(self) -> str: ...

def diagnose(observed: Observations, /) -> Diagnosis: ...
def what_if(
    observed: Observations, diagnosis: Diagnosis, seconds_of_steps: Mapping[str, float], /
) -> Change: ...
def examine_loop(loop: object, budget_s: float, /) -> Observations: ...
def counted_batch_size(batch_size: int, sample_s: float, /) -> int: ...
def depends_on_data(seconds_by_item: Sequence[Sequence[float]], /) -> str: ...
def seconds_per_event(rate: Measured, /) -> Measured: ...
def native_seconds(
    chain: TransformChain, height: int, width: int, is_float: bool, budget_s: float, /
) -> float: ...
def write_file_atomically(path: os.PathLike[str] | str, text: str, /) -> None: ...
def find_late_crop(
    chain: Sequence[TransformChain | None], bytes: Sequence[float], /
) -> tuple[int, int] | None: ...
def measure_capacity(threads: int, /) -> MachineCapacity: ...
def usable_cores() -> int: ...
def free_memory_bytes() -> int: ...
