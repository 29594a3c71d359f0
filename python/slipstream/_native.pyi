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
    """A native data set."""

    def __len__(self) -> int: ...
    def name(self, index: int, /) -> str: ...
    def class_names(self) -> list[str]: ...
    def remarks(self) -> list[str]: ...
    def field_names(self) -> list[str]: ...
    def are_images(self) -> list[bool]: ...
    def moved_fields(self) -> list[str]: ...
    def label(self, index: int, /) -> int: ...

def image_folder(
    path: bytes,
    classes: Sequence[bytes],
    extensions: Sequence[bytes],
    is_valid_file: Callable[[str], Any] | None,
    allow_empty: bool,
    /,
) -> Dataset:
    """Opens the images in a folder that has one subfolder per class."""

def labeled_images(classes: Sequence[bytes], paths: Sequence[bytes], labels: Sequence[int], /) -> Dataset:
    """Returns the data set of image_folder() for files that are already known."""

def can_decode(format: str, /) -> bool:
    """Returns true if this build decodes an image format, such as "WebP"."""

def open_dataset(path: bytes, num_classes: int, class_names: Sequence[bytes], /) -> Dataset:
    """Opens a data set and detects its kind."""

def subset(dataset: Dataset, indices: Sequence[int], /) -> Dataset:
    """Returns the samples of `dataset` with these indices."""

def concat(parts: Sequence[Dataset], /) -> Dataset:
    """Returns the samples of all parts, one part after the other."""

class TransformChain:
    """Native transforms, parsed from JSON text."""

    def __init__(self, json: str, /) -> None: ...
    def to_json(self) -> str: ...
    def moving_ops(self) -> list[str]: ...
    def is_random(self) -> bool: ...
    def __call__(
        self, images: torch.Tensor, samples: Sequence[int], seed: int, epoch: int, /
    ) -> torch.Tensor: ...

class Transforms:
    """Transforms that are applied to one sample: a native chain, with functions in Python between its steps."""

    def __init__(
        self,
        chain: TransformChain,
        functions: Sequence[tuple[int, str, Callable[..., Any]]],
        keeps_sizes: bool,
        seed: int,
        epoch: int,
        occurrence: int,
        /,
    ) -> None: ...

def python_seed(seed: int, epoch: int, sample: int, occurrence: int, /) -> int:
    """Returns the seed of Python's random generators for reading a sample."""

def make_sample(dataset: Dataset, transforms: Transforms, index: int, /) -> tuple[Any, ...]:
    """Returns one sample of a native data set after the transforms."""

def transformed(
    images: Sequence[torch.Tensor], transforms: Transforms, index: int, /
) -> list[torch.Tensor]:
    """Returns the images of one sample of a data set in Python after the transforms."""

class LoaderSettings:
    """Arguments of Loader."""

    device: str
    transforms: TransformChain
    batch_size: int
    prefetch_batches: int
    num_workers: int
    shuffle: bool
    drop_last: bool
    skips_bad_samples: bool
    strict_decoding: bool
    scaled_decoding: bool
    read_ahead: int
    cpus: list[int]
    seed: int
    rank: tuple[int, int]
    wire: dict[str, str]
    transforms_on_device: bool
    lists_batches: bool
    pins_for: str
    timeout_s: float
    num_classes: int
    pool: WorkerPool | None
    python_steps: Sequence[tuple[int, str, bool]]
    leaves: Sequence[tuple[torch.dtype, Sequence[int]] | None]
    build: Callable[[tuple[torch.Tensor, ...], list[bytes]], Any] | None

    def set_cache(self, text: str, /) -> None: ...

def named_size(option: str, text: bytes, /) -> int:
    """Returns the size in bytes of "NAME=SIZE". Raises Refused for another form."""

def loader_cpus(text: str, device: str, /) -> list[int]:
    """Returns the CPUs of a list such as "0-7", or for "gpu" those near the device."""

def disk_cached(dataset: Dataset, text: bytes, /) -> Dataset:
    """Returns the data set with a cache in a folder, "DIR=SIZE"."""

def measure_workers(dataset: Dataset, settings: LoaderSettings, prefetch_factor: int, /) -> int:
    """Returns the smallest number of workers that is about as fast as any other."""

class WorkerPool:
    """The sockets and the shared memory of the worker processes of a loader."""

    def __init__(self) -> None: ...
    def add(self, socket: int, memory: int, number: int, process: int, /) -> None: ...
    def describe(self, sample: int, seed: int, /) -> bytes: ...
    def close(self) -> None: ...
    def take_lost(self, with_busy: bool, unwanted: list[int], /) -> list[int]: ...
    def descriptors(self) -> list[int]: ...

class LastCall:
    """Calls a function once, at the latest when this object is destroyed. Ctrl-C is delayed until then."""

    def __init__(self, function: Callable[[], None], /) -> None: ...
    def __call__(self) -> None: ...

class LateInterrupts:
    """Delays Ctrl-C until the end of a `with` block."""

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
) -> Dataset:
    """Returns a data set that reads its samples in worker processes."""

class Loader:
    """The native loader. Loop, LoaderDrain, NativeTrainer and NativeEvaluator read its batches."""

    def __init__(self, dataset: Dataset, settings: LoaderSettings, /) -> None: ...
    def batches_per_epoch(self) -> int: ...
    def seek(self, batch: int, /) -> None: ...
    def halt(self) -> None: ...
    def skipped(self) -> list[tuple[str, str]]: ...
    def cache(self) -> dict[str, Any] | None: ...
    def disk_cache(self) -> dict[str, Any] | None: ...
    def add_skipped(self, other: Loader, /) -> None: ...
    def configure(self, batch_size: int, rank: int, ranks: int, seed: int, /) -> None: ...
    def copy(self) -> Loader: ...
    def passes(self) -> int: ...
    def begin_epoch(self) -> None: ...
    def add_batch(self, passed: int, number: int, samples: Sequence[tuple[int, int]], /) -> bool: ...
    def end_epoch(self, passed: int, /) -> None: ...
    wants_thread: bool

def seed_of_resumed(folder: str, resume: str, /) -> int | None:
    """Returns the seed of the training that a trainer resumes, or None if no checkpoint can be read."""

class EpochOrder:
    """The order in which a native loader gives samples, for code that reads them itself."""

    def __init__(
        self, samples: int, batch_size: int, shuffle: bool, drop_last: bool, seed: int, rank: tuple[int, int], /
    ) -> None: ...
    def batches_per_epoch(self) -> int: ...
    def batch(self, number: int, /) -> list[tuple[int, int]]: ...

def needs_python(script: torch.jit.ScriptModule, /) -> bool:
    """Returns true if a script cannot run without the GIL."""

class LoopStage:
    """A stage of Loop."""

    def __init__(
        self,
        name: str,
        apply: Callable[..., Any],
        module: torch.nn.Module | None,
        seed: int | None,
        kept: list[Any],
        script: torch.jit.ScriptModule | None,
        arguments: Callable[[Any], tuple[Any, ...]],
        placed: Callable[[Any, Any], Any],
        direct: tuple[Any, ...],
        chooses_autocast: bool,
        takes_number: bool,
        /,
    ) -> None: ...

class AutocastWatch:
    """Detects a torch.autocast that the loop body enters, which is too late for stages that run in advance."""

    def is_on(self) -> bool: ...
    def begin_stage(self) -> None: ...
    def end_stage(self, name: str, /) -> None: ...
    def begin_body(self) -> None: ...
    def end_body(self) -> str: ...

def choose_plan(serial_s: Sequence[float], pipelined_s: Sequence[float], /) -> tuple[str, str]:
    """Returns "serial" or "pipelined", and the reason. Takes the seconds of steps under both, at least one of each."""

class Loop:
    """Iterates over batches that are copied and go through the stages in advance."""

    def __init__(
        self,
        source: Loader | Iterator[Any],
        ready: Callable[[], bool] | None,
        stages: list[LoopStage],
        device: str,
        first: int,
        limit: int,
        run_ahead: int,
        kept: list[Any],
        /,
    ) -> None: ...
    def __iter__(self) -> Loop: ...
    def __next__(self) -> Any: ...
    def close(self) -> None: ...
    def failed(self) -> str: ...
    def given(self) -> int: ...
    def loader_times(self) -> tuple[float, float]: ...
    def lost(self) -> int: ...

class KeyedDraws:
    """Seeds PyTorch's generators of a device within a `with` block, unless `seed` is None."""

    def __init__(self, device: str, seed: int | None, number: int, /) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

def moved(value: Any, device: str, /) -> Any:
    """Returns `value` with all its tensors copied to the device."""

def copy_values(to: torch.Tensor, values: torch.Tensor, /) -> None:
    """Copies the values of one tensor to another."""

def printable_name(name: bytes, /) -> str:
    """Returns a file name as text for messages."""

def main(words: list[str], /) -> int:
    """Runs the command line and returns its exit code."""

class TrainerSettings:
    """Arguments of NativeTrainer."""

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
    keep_last: int
    command: list[str]
    def add_stage(
        self, name: str, module: torch.nn.Module | None, function: Callable[..., Any], takes_number: bool, /
    ) -> None: ...
    def set_order(self, order: Any, batches_per_epoch: int, batch_size: int, /) -> None:
        """Makes `order`, a _training_order.TrainingOrder, list the batches. batch_size: samples of the largest one."""

    def add_group(
        self, parameters: list[torch.Tensor], lr: float | None, weight_decay: float | None, /
    ) -> None: ...
    def set_training(self, accumulate: int, clip_grad: float, ema_decay: float, on_nan: str, /) -> None: ...
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
    """Result of NativeTrainer.fit()."""

    losses: list[float]
    seconds: float
    steps_per_second: float | None
    ended: str
    is_saved: bool

class Interrupts:
    """Handles Ctrl-C natively within a `with` block, see interrupted()."""

    def __enter__(self) -> None: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

def interrupted() -> bool:
    """Returns true if Ctrl-C was pressed within the `with` block of an Interrupts object."""

class NativeTrainer:
    """Trains a module with the loop of `slipstream train`."""

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
    """Evaluates the module of a trainer on a loader."""

    trainer: NativeTrainer
    loader: Any
    def __init__(self, trainer: NativeTrainer, loader: Loader, counts_scores: bool, may_differ: bool, /) -> None: ...
    def evaluate(self) -> tuple[bool, int, list[tuple[str, float]]]: ...
    def predict(self, take: Callable[[torch.Tensor], bool], /) -> bool: ...
    def stop(self) -> None: ...

# The doctor's arithmetic, and what measuring for it takes.

class Measured:
    """A measured value with its uncertainty.

    Attributes:
        value (float): the value.
        low, high (float): its 95 % interval.
        unit (str): its unit, such as "steps/s".
        n (int): number of measurements; 0: not measured.
    """

    value: float
    low: float
    high: float
    unit: str
    n: int
    def __init__(
        self, value: float = 0, low: float = 0, high: float = 0, unit: str = "", n: int = 0
    ) -> None: ...

class MachineCapacity:
    """How much work the machine can do at the same time."""

    cores: float

class Level:
    """Rates at one cache level of the doctor."""

    name: str
    after: str
    items: int
    with_training: Measured | None
    loader_alone: Measured | None
    error: str
    loader_alone_error: str

class HostStepCost:
    """Cost of one host step, sample by sample."""

    name: str
    group: str
    wall_s: list[float]
    cpu_s: list[float]
    wall_of_all_s: float
    cpu_of_all_s: float
    waiting_of_all_s: list[float]
    bytes: float
    is_random: bool
    is_inside: bool

def part_group(name: str, /) -> str:
    """Returns the bottleneck that a part with this name is, such as "decode"; "part" for a name of the user."""

class DeviceCost:
    """Cost of one device step that runs alone on a cached batch."""

    name: str
    seconds: Measured
    def __init__(self, name: str, seconds: Measured, enqueue_s: float, bytes: int, /) -> None: ...

class Utilization:
    """How busy the device and the cores were during the measurements."""

    sm_activity: float | None
    dram_use: float | None
    gpu_utilization: float | None
    note: str
    cpu_share: float

class Observations:
    """All measurements of the doctor."""

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
    def set_has_worker_processes(self, has: bool, /) -> None: ...
    def set_cores(self, cores: int, /) -> None: ...
    def set_free_memory_bytes(self, size: int, /) -> None: ...
    def set_samples(self, count: int, /) -> None: ...
    def set_last_fixed_step(self, name: str, /) -> None: ...
    def set_late_crop(self, crop: str, moved_before: str, /) -> None: ...

class LoaderDrain:
    """Measures samples/s of a loader whose batches stay on the host and are discarded."""

    def __init__(self, loader: Loader, /) -> None: ...
    def measure(self, time: TurnTime, /) -> None: ...
    def rate(self) -> Measured: ...
    def sample_costs(self) -> SampleCosts: ...
    def costs(self, all: LoaderDrain, /) -> list[HostStepCost]: ...

def examined(
    loader: Loader, after: str, items: int, workers: int, listed: Dataset | None, batch_size: int, /
) -> Loader:
    """Returns a loader with the data of `loader` that starts with `items` cached results of the step `after`.

    listed: if a sampler lists the batches, the samples of its batches, which the loader gives in batches of
        `batch_size`; otherwise None."""

def possible_on_device(loader: Loader, /) -> str:
    """Returns the name of the first transform that could run on the device but does not; "" if there is none."""

def note_loading(observed: Observations, loader: Loader, /) -> None:
    """Notes which results a native loader could cache, and what it caches and reads in advance already."""

def fields_as_files(loader: Loader, /) -> list[str]:
    """Returns the names of the fields that are copied to the device as files."""

class Change:
    """A change that would make training faster, with its predicted rate."""

    id: str
    description: str
    action: str
    step: str
    number: int
    effort: str
    bottleneck: str
    predicted: Measured
    gain: Measured
    is_upper_bound: bool
    measured: Measured
    measured_gain: Measured
    code: str

class Diagnosis:
    """Conclusions of the doctor from its measurements."""

    verdict: str
    reason: str
    bottlenecks: list[str]
    ceiling: Measured
    rate: Measured
    share: Measured
    changes: list[Change]

class RankResult:
    """The result of one of several processes that train together."""

    def __init__(self, rank: int, verdict: str, ceiling: Measured, rate: Measured, /) -> None: ...
    rank: int
    verdict: str
    ceiling: Measured
    rate: Measured

class BaselineRow:
    """A value in two reports."""

    name: str
    before: Measured
    now: Measured
    is_worse: bool

class BaselineComparison:
    """A comparison of two reports."""

    rows: list[BaselineRow]
    differences: list[str]
    def text(self) -> str: ...

def is_certain(measured: Measured, /) -> bool:
    """Returns true if the value was measured, is a number, and its interval is not wider than itself."""

class DoctorReport:
    """The report of the doctor as text, HTML and JSON."""

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
    rank: int
    def set_ranks(self, rank: int, ranks: Sequence[RankResult], /) -> None: ...
    def slowest_rank(self) -> int | None: ...
    def judge_share(self, least: float, /) -> str: ...
    def compare(self, baseline: str, /) -> BaselineComparison: ...
    def summary(self) -> str: ...
    def text(self) -> str: ...
    def html(self) -> str: ...
    def json(self) -> str: ...

class TurnTime:
    """How long one turn may take. A rate is measured in several turns."""

class PeriodicTurns:
    """Measures the rate of a loop over a loader whose workers deliver their batches together."""

    @staticmethod
    def of_loader(workers: int, batch_size: int, /) -> PeriodicTurns: ...
    @staticmethod
    def of_training(workers: int, /) -> PeriodicTurns: ...
    def restart(self) -> None: ...
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
) -> list[tuple[str, str, int]]:
    """Returns the name, the last cached step and the index of this step for each cache level that caches samples."""

class SampleCosts:
    """Costs of samples that a single worker produced."""

    def __init__(self, seconds: Sequence[float], bytes: Sequence[float], /) -> None: ...

class CacheSizes:
    """Decides how many samples or batches the caches of the measured levels contain."""

    def batches(self) -> int: ...
    def samples_after(self, step: int, /) -> int: ...

class DeviceUsage:
    """Measures how busy the device is while a function runs."""

    def __init__(self, device: str, /) -> None: ...
    def during(self, run: Callable[[], None], /) -> None: ...
    def utilization(self) -> Utilization: ...
    def shared(self) -> str: ...

def diagnose(observed: Observations, /) -> Diagnosis:
    """Finds the bottlenecks, and predicts the gain of changes."""

LEAST_GAIN: float

def rank_changes(diagnosis: Diagnosis, /) -> None:
    """Orders the changes by what they take, and removes those that the evidence does not support."""

def what_if(
    observed: Observations, diagnosis: Diagnosis, seconds_of_steps: Mapping[str, float], /
) -> Change:
    """Predicts the rate if the given steps took these times."""

def port_to_native(
    observed: Observations,
    diagnosis: Diagnosis,
    seconds_of_steps: Mapping[str, float],
    has_worker_processes: bool,
    /,
) -> Change:
    """Predicts the rate with a native loader, if the given steps took these times."""

def examine_loop(loop: object, budget_s: float, budget_share: float, /) -> Observations:
    """Measures a loop at each cache level, by calling methods of `loop`, and returns all measurements."""

def measure_alternately(rates: Sequence[object], budget_s: float, turn_s: float, /) -> None:
    """Measures rates, which have measure(TurnTime) and rate(), in turns for about `budget_s`. A turn takes at least
    about `turn_s`."""

def ratio(a: Measured, b: Measured, /) -> Measured:
    """Returns a / b, with the interval of all ratios of values in the intervals of both."""

def counted_batch_size(batch_size: int, sample_s: float, /) -> int:
    """Returns a batch size small enough that batches can be counted about every 0.1 s."""

def depends_on_data(seconds_by_item: Sequence[Sequence[float]], /) -> str:
    """Returns a warning if steps take longer on some of the batches than on others; "" if they do not."""

def seconds_per_event(rate: Measured, /) -> Measured:
    """Converts a rate to the seconds of one event."""

def native_seconds(
    chain: TransformChain, height: int, width: int, is_float: bool, budget_s: float, /
) -> float:
    """Measures how long native transforms take for one image of this size."""

def write_file_atomically(path: os.PathLike[str] | str, text: str, /) -> None:
    """Writes a file that other processes see either whole or not at all."""

def find_late_crop(
    chain: Sequence[TransformChain | None], bytes: Sequence[float], /
) -> tuple[int, int] | None:
    """Finds a crop that could be applied earlier. Returns its index and the index that it would have, or None."""

def measure_capacity(threads: int, /) -> MachineCapacity:
    """Measures how much work this number of threads can do at the same time. Takes about 0.2 s."""

def usable_cores() -> int:
    """Returns the number of CPUs that this process can use at once."""

def free_memory_bytes() -> int:
    """Returns the size of the free memory of the host."""

# What slipstream.watch() measures with.

class LoopTotals:
    """Sums over a time in which a loop was watched."""

    steps: int
    seconds: float
    def input_wait_share(self) -> float: ...
    def steps_per_second(self) -> float: ...
    def batches_ready(self) -> float | None: ...
    def waits(self) -> dict[str, float]: ...
    def text(self, name: str, /) -> str: ...

class TorchQueue:
    """Observes which batches have arrived from the workers of PyTorch's loader."""

    def __init__(
        self, iterator: Iterator[Any], deque: object | None, free: Callable[[], int] | None, size: int, /
    ) -> None: ...

class LoopMeter:
    """Measures the calls of next() of a loop."""

    def __init__(self, name: str, every_s: float, /) -> None: ...
    def begin_epoch(self, created_s: float, /) -> None: ...
    def set_source(
        self,
        processes: Sequence[int],
        loader: Loader | None,
        queue: TorchQueue | None,
        loader_times: Callable[[], tuple[float, float]] | None,
        /,
    ) -> None: ...
    def measure_gpu(self, device: int, /) -> None: ...
    def next(self, batches: Iterator[Any], write: Callable[[], None], /) -> Any: ...
    def end_epoch(self) -> None: ...
    def take_lines(self) -> list[str]: ...
    def take_totals(self) -> LoopTotals | None: ...
    def totals(self) -> LoopTotals: ...
    def state(self) -> str: ...
    def starvations(self) -> int: ...
    def starved_s(self) -> float: ...

class FeatureStore:
    """Records of one size on disk: what a frozen stage computed from each sample."""

    def __init__(self, folder: bytes, key: str, description: str, budget_bytes: int | None, /) -> None:
        """Opens the features of a key. `key` and `description` are JSON texts.

        `description` is a list of fields such as {"name": "0", "dtype": "bfloat16", "shape": [197, 768]}: the parts of
        each record, one after the other without gaps. `budget_bytes` limits the files of all keys in the folder.
        """

    @property
    def record_bytes(self) -> int:
        """Size of a record: the values of all fields."""

    def find(self, entries: torch.Tensor, /) -> torch.Tensor:
        """Returns the numbers of records, int64 [n], -1 if there is none, for int64 [n, 2]: digest of sample, version."""

    def read(self, numbers: torch.Tensor, into: torch.Tensor, threads: int, /) -> torch.Tensor:
        """Reads records to uint8 [n, record_bytes] in host memory. Returns bool [n]: false for damaged records."""

    def write(self, entries: torch.Tensor, samples: torch.Tensor, records: torch.Tensor, /) -> int:
        """Stores records of entries that have none. Returns how many.

        `samples`, int64 [n], are indices in the data set; they determine the order of exports.
        """

    def refresh(self) -> int:
        """Finds records that other processes have stored. Returns how many."""

    def filling_ended(self) -> str:
        """Returns why nothing is stored any more, or ""."""

    def stats(self) -> dict[str, int]:
        """Returns the counts "records", "bytes", "hits", "misses" and "damaged"."""

    def close(self) -> None:
        """Closes the files. Later calls raise Refused."""
