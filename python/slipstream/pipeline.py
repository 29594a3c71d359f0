"""slipstream.Pipeline: runs the copies and stages of a training loop in advance, on separate streams."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from . import _native
from ._checks import EPOCHS, check, choose, device_named, is_device, to_index
from ._feature_cache import FeatureCache
from ._feature_part import CachedPart, find_cached
from ._frameworks import is_check_of_lightning, refuse_rebuilding
from ._iteration import RUN_AHEAD, Iteration, Loop, LoopOwner, Pass, SerialLoop, warn_of_lost_batches
from ._plan_choice import PlanChoice, begin_loop
from ._progress import HIDDEN, Progress, has_progress, refusing_hidden
from ._sources import LoaderPosition, States, has_state, make_source, set_epochs
from ._stage_graphs import StageGraphs, capture_stage
from ._stages import Stage, refuse_stages, to_stages
from .data import DataLoader, refuse_own_iteration
from .datasets import Dataset

_LOADER_ATTRIBUTES = (
    *("dataset", "batch_size", "sampler", "batch_sampler", "drop_last", "num_workers", "collate_fn", "pin_memory"),
    *("timeout", "generator", "worker_init_fn", "prefetch_factor", "persistent_workers", "multiprocessing_context"),
)


class Pipeline:
    """Iterates over the batches of a loader; copies to the device and frozen stages run in advance on separate streams.

    While the loop body works on batch n, a stage works on batch n + 1 and the copy on a later batch. Each batch has
    the same bits as in a plain loop on one stream, as long as stages and loop body do not write to anything that they
    share.

    Arguments:
        loader: a torch.utils.data.DataLoader, a slipstream.DataLoader, or any iterable of batches in host memory. A
            batch is a tensor of any shape and dtype, or a tuple, list, mapping, named tuple or data class of
            tensors, also nested. Other objects in it are passed on; if they have a method to(), its result for the
            device is used. Copies overlap with other work only if the memory is page-locked (pin_memory=True).
        stages (sequence, default ()): pairs of a name and a callable, or `Stage` objects, in the order in which they
            run.
        device (str or torch.device, default None): where tensors are copied: "cuda", "cuda:N", or "cpu", on which
            nothing overlaps. None means the device of a slipstream.DataLoader, otherwise "cuda" if there is a GPU
            and "cpu" if there is none.
        run_ahead (int, default 2): number of batches, at least 1, that the host may enqueue before it waits for the
            device, in addition to the len(stages) + 2 batches that have device memory.
        serial (bool, default False): True means the same as plan="serial".
        graphs (bool, default False): True records the work of each stage on a GPU as a CUDA graph after three batches,
            and replays it for later batches of the same shapes. The GPU then does not wait until the host has launched
            each kernel of a stage. A stage that cannot be recorded runs as usual, after a warning that says why.
        plan (str, default "pipelined"): "pipelined" runs copies and stages in advance. "serial" runs everything on the
            caller's stream in the order of a plain loop; only the copies of a slipstream.DataLoader still run in
            advance. "auto" measures both in the first batches and continues with the faster one. All plans give the
            same batches.

    The loop body runs on the caller's current stream, which waits for each batch. The tensors of a batch may be kept
    for any time. The host waits for the device only to stay within `run_ahead`.

    If the loader has state_dict() and load_state_dict(), so does the pipeline. Its state is the position of the loop
    body; the state of the loader itself is further, because batches are read in advance. With a slipstream.DataLoader
    the two methods are those of the loader.

    Raises Refused for invalid arguments, for a stage in training mode, and for one whose parameters require gradients.
    Iterating raises Error for conflicts that can be detected: weights of a stage that change during the epoch, a
    stage that returns the same memory for two batches, and one random generator that is used by two of loader,
    stages and loop body. Exceptions of the loader and of stages are raised in place of their batch, and the next call
    of next() gives the batch that follows.

    >>> encoder = torch.nn.Linear(4, 2).eval().requires_grad_(False)
    >>> batches = [(torch.ones(8, 4), ["a.jpg"] * 8) for _ in range(3)]
    >>> pipe = ss.Pipeline(batches, stages=[("encode", encoder)], device="cpu")
    >>> len(pipe)
    3
    >>> for features, names in pipe:
    ...     pass
    >>> features.shape, names[0]
    (torch.Size([8, 2]), 'a.jpg')
    """

    def __init__(
        self,
        loader: Iterable[Any],
        stages: Sequence[Stage | tuple[str, Callable[..., Any]]] = (),
        device: str | torch.device | None = None,
        run_ahead: int = RUN_AHEAD,
        serial: bool = False,
        plan: str = "pipelined",
        graphs: bool = False,
    ) -> None:
        gives_items = hasattr(loader, "__iter__") or hasattr(loader, "__getitem__")
        if isinstance(loader, Dataset) or not gives_items:
            raise _native.Refused(
                f"slipstream.Pipeline needs a loader or another iterable of batches, not {type(loader).__name__}"
            )
        self.loader = loader
        self.stages = to_stages(stages)
        self.device = _choose_device(loader, device)
        self.run_ahead = run_ahead
        plans = ("pipelined", "serial", "auto")
        problems = choose(graphs=(graphs, (True, False)), serial=(serial, (True, False)), plan=(plan, plans))
        if serial and plan == "auto":
            problems.append("serial=True and plan='auto' contradict each other: leave one of them out")
        check(problems)
        self.serial = bool(serial) or plan == "serial"
        fill = len(self.stages) + 2 + (to_index(run_ahead) or 0)
        self._choice = PlanChoice(fill) if plan == "auto" else "serial" if self.serial else "pipelined"
        innermost = loader
        while isinstance(innermost, Pipeline):
            innermost = innermost.loader
        if innermost is not loader and has_progress(innermost) and not self.serial:
            raise _native.Refused(HIDDEN)
        self._has_warned = False
        self._place = LoaderPosition(loader, resumes=isinstance(innermost, DataLoader))
        if isinstance(loader, DataLoader):
            refuse_own_iteration(loader, "a slipstream.Pipeline")
            if has_state(loader):
                self.state_dict, self.load_state_dict = loader.state_dict, loader.load_state_dict
        elif has_state(loader):
            self.state_dict, self.load_state_dict = self._place.state_dict, self._place.load_state_dict
        refuse_stages(self.stages, run_ahead)
        if graphs:
            self.stages = [capture_stage(stage, self.device) for stage in self.stages]
        self._features, self._lane_stages = self._with_features()

    def _with_features(self) -> tuple[CachedPart | None, list[Stage]]:
        """Returns the part up to a stage with a cache, or None, and the stages that the lanes call."""
        cached = find_cached(self.stages)
        if cached is None:
            return None, self.stages
        if self.stages[cached].cache == "auto":
            # A copy, because another pipeline with the same stage gets another cache.
            self.stages[cached] = copy.copy(self.stages[cached])
            self.stages[cached].cache = FeatureCache()
        features = CachedPart(self.loader, self.stages, self.device, cached)
        return features, features.lane_stages

    @property
    def plan(self) -> str:
        """The plan. With plan="auto" it is "auto" during the measurement, and then "serial" or "pipelined"."""
        return self._choice if isinstance(self._choice, str) else self._choice.plan

    @property
    def plan_reason(self) -> str:
        """With plan="auto", why that plan was chosen. "" before, and with other plans."""
        return "" if isinstance(self._choice, str) else self._choice.reason

    @property
    def graph_memory_bytes(self) -> int:
        """With graphs=True, the predicted number of bytes that the graphs of all stages reserve on the GPU, in addition
        to the memory of the stages without graphs. It is known after three batches; 0 before, and without graphs."""
        functions = [stage.function for stage in self.stages]
        return sum(each.memory_bytes for each in functions if isinstance(each, StageGraphs))

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        # Frameworks and training scripts read these attributes of torch.utils.data.DataLoader.
        if name == "dataset":
            refuse_rebuilding("Pipeline")
        if name in _LOADER_ATTRIBUTES and "loader" in self.__dict__:
            return getattr(self.loader, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        stages = ", ".join(stage.name for stage in self.stages)
        return f"Pipeline({type(self.loader).__name__}, stages=[{stages}], device={self.device})"

    def set_epoch(self, epoch: int) -> None:
        """Selects the epoch of the next iteration, which determines the random numbers of stages with a seed.

        Also calls set_epoch() of the loader. If the loader has no such method, calls those of its sampler,
        batch_sampler and data set, for example that of torch.utils.data.DistributedSampler.

        Arguments:
            epoch (int): index of the epoch, 0 to 2**32 - 1.

        Raises Refused for other values."""
        check(epoch=(epoch, 0, EPOCHS - 1))
        self._place.seek(operator.index(epoch))
        set_epochs(self.loader, operator.index(epoch))

    def __iter__(self) -> Iterator[Any]:
        refuse_stages(self.stages, self.run_ahead)
        if is_check_of_lightning():
            return iter(())
        for stage in self.stages:
            if isinstance(stage.function, StageGraphs):
                stage.function.begin(is_pipelined=self._choice == "pipelined")
        if not isinstance(self.loader, DataLoader):
            return self._foreign_iteration()
        if self._features is None:
            return self.loader._pass(self.stages, self.run_ahead, self._choice)
        return self.loader._pass(self._lane_stages, self.run_ahead, self._choice, self._features.begin_reading)

    def _foreign_iteration(self) -> Iteration:
        """Iterates over a loader that is not a slipstream.DataLoader.

        The loader's iterator is created at once, as in a plain loop, because creating it may use random numbers. The
        epoch begins with the first batch, because frameworks call iter() only to find out whether it works."""
        states = States(self.loader) if has_state(self.loader) else None
        source: Iterator[Any]
        if self._features is None:
            source, ready = make_source(self.loader, states)
        else:
            source, ready = self._features.begin(self._place.epoch).until_length()
        progress: Progress | None = None
        if not self.serial and has_progress(self.loader):
            source = progress = Progress(self.loader, source)
        elif not self.serial:
            source = refusing_hidden(source)
        stages, device, place = self._lane_stages, self.device, self._place
        epoch = batch = 0

        def make(plan: str, given: int, limit: int) -> Pass | SerialLoop:
            first = (epoch << 32) + batch + given
            if plan == "serial":
                return SerialLoop(source, stages, device, first, limit)
            return Pass(source, ready, stages, device, self.run_ahead, first, limit)

        def begin() -> LoopOwner:
            nonlocal epoch, batch
            epoch, batch = place.begin()
            return begin_loop(self._choice, make, device)

        def passed(given: int) -> None:
            if progress is not None:
                progress.give(given)
            if states is not None and (state := states.given(given)) is not None:
                place.given(state, epoch, batch + given)

        def ended() -> None:
            if progress is not None:
                progress.end()
            place.end()

        is_lost = isinstance(self.loader, Iterator) and not self.serial
        return Iteration(
            begin,
            None if states is None and progress is None else passed,
            ended=ended,
            left=self._warn_of_lost_batches if is_lost else None,
        )

    def _warn_of_lost_batches(self, loop: Loop) -> None:
        if not self._has_warned:
            self._has_warned = warn_of_lost_batches(loop, type(self.loader).__name__)


def _choose_device(loader: Iterable[Any], device: str | torch.device | None) -> str:
    if isinstance(loader, DataLoader):
        if device is not None and not is_device(device, loader.device):
            raise _native.Refused(
                f"the loader loads batches for {loader.device}, but the pipeline's device is {device}: use the same "
                "device for both"
            )
        return loader.device
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return device_named(device)
