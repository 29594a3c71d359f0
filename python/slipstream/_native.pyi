"""The compiled module: what the package itself calls."""

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

import torch

class Error(RuntimeError):
    """Something failed. The message says what, where and what to do."""

class Refused(Error):
    """What was asked for makes no sense, which was found before any sample was read."""

class Dataset:
    def __len__(self) -> int: ...
    def name(self, index: int, /) -> str: ...
    def class_names(self) -> list[str]: ...
    def field_names(self) -> list[str]: ...
    def label(self, index: int, /) -> int: ...

def image_folder(path: str, classes: Sequence[str], /) -> Dataset: ...
def open_dataset(path: str, num_classes: int, class_names: Sequence[str], /) -> Dataset: ...
def subset(dataset: Dataset, indices: Sequence[int], /) -> Dataset: ...
def concat(parts: Sequence[Dataset], /) -> Dataset: ...
def parse_chain(text: str, /) -> str: ...

class TensorTransform:
    def __init__(self, chain: str, /) -> None: ...
    def is_random(self) -> bool: ...
    def __call__(
        self, images: torch.Tensor, samples: Sequence[int], seed: int, epoch: int, /
    ) -> torch.Tensor: ...

class LoaderSettings:
    device: str
    transforms: str
    batch_size: int
    prefetch_batches: int
    num_workers: int
    shuffle: bool
    drop_last: bool
    skips_bad_samples: bool
    seed: int
    rank: int
    ranks: int
    wire: dict[str, str]
    transforms_on_device: bool

class Loader:
    def __init__(self, dataset: Dataset, settings: LoaderSettings, /) -> None: ...
    def batches_per_epoch(self) -> int: ...
    def go_to(self, batch: int, /) -> None: ...

class LoopStage:
    def __init__(
        self, name: str, apply: Callable[[Any], Any], reads: list[torch.Tensor], seed: int | None, /
    ) -> None: ...

class Loop:
    def __init__(
        self, source: Any, stages: list[LoopStage], device: str, first: int, run_ahead: int, /
    ) -> None: ...
    def next(self, end: Any, /) -> Any: ...
    def close(self) -> None: ...
    def failed(self) -> str: ...

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
def main(words: list[str], /) -> int: ...

# The doctor's arithmetic, and what measuring for it takes.

class Measured:
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
    coarse: float | None
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
    def set_plan(self, on_gpu: bool, pin_memory: bool, prefetch_batches: int, /) -> None: ...
    def set_cores(self, cores: int, /) -> None: ...
    def set_free_memory_bytes(self, size: int, /) -> None: ...
    def set_samples(self, count: int, /) -> None: ...
    def set_last_fixed_step(self, name: str, /) -> None: ...
    def set_late_crop(self, name: str, /) -> None: ...

class Change:
    id: str
    what: str
    how: str
    step: str
    number: int
    against: str
    predicted: Measured
    gain: Measured
    is_bound: bool

class Diagnosis:
    verdict: str
    reason: str
    culprits: list[str]
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

class Task:
    what: str
    def __init__(
        self,
        what: str,
        measure: Callable[[float, float], None],
        figure: Callable[[], Measured],
        is_essential: bool,
        weight: float,
        /,
    ) -> None: ...

class DeviceUsage:
    def __init__(self, device: str, /) -> None: ...
    def during(self, run: Callable[[], None], /) -> None: ...
    def utilization(self) -> Utilization: ...
    def shared(self) -> str: ...

def diagnose(observed: Observations, /) -> Diagnosis: ...
def what_if(
    observed: Observations, diagnosis: Diagnosis, seconds_of_steps: Mapping[str, float], /
) -> Change: ...
def measure_in_turns(
    tasks: Sequence[Task], budget_s: float, left: Callable[[], float], /
) -> list[str]: ...
def rate_from_durations(durations_s: Sequence[float], /) -> Measured: ...
def mean_interval(values: Sequence[float], unit: str, /) -> Measured: ...
def depends_on_data(seconds_by_item: Sequence[Sequence[float]], /) -> str: ...
def native_seconds(
    chain: str, height: int, width: int, is_float: bool, budget_s: float, /
) -> float: ...
def measure_capacity(threads: int, /) -> MachineCapacity: ...
def usable_cores() -> int: ...
def free_memory_bytes() -> int: ...
def last_level_cache_bytes() -> int: ...
