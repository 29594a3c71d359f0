"""Stages of a training loop that run ahead of its body."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from . import _native
from ._checks import EPOCHS, check, choose, device_named, index_of, is_device, shortened
from ._iteration import Iteration, Loop, SerialLoop, warn_of_lost_batches
from ._progress import HIDDEN, Progress, has_progress, refusing_hidden
from ._scripts import script_of
from ._sources import Place, States, has_state, set_epochs, source_of
from ._trees import Key, leaves, value_at, with_values
from .data import DataLoader, refuse_own_iteration
from .datasets import Dataset

Keys = Key | Sequence[Key] | None


@dataclasses.dataclass
class Stage:
    """What is done to each batch ahead of the loop's body, on a stream of its own.

    function: a module in evaluation mode without parameters that require gradients, or any
        callable. It runs without gradients, on the stage's stream, which is the current one, and
        must not wait for the device. On a GPU a torch.jit.ScriptModule is called by a thread
        without Python's lock, where it neither calls Python nor draws random numbers.
    input: where its arguments are in the batch: an index of a tuple or list, a key of a mapping, a
        name of a named tuple or data class, or several of these. By default the first element of a
        tuple or list, or the whole batch where it is a tensor.
    output: where its result goes; by default to the first `input`. A mapping may get a new key. Of
        several outputs the function returns a tuple.
    seed: the stage draws random numbers from PyTorch's generators. They then hold numbers made of
        this seed, its name, the pass and the batch while it runs, and go on as before afterwards.
    autocast: torch.bfloat16 or torch.float16: the function runs under torch.autocast with it; False: without
        autocast. By default it runs under the autocast that is active where the loop asks for the
        next batch, so one that is entered in the loop's body does not apply to it, which is an error
        where the two differ.

    >>> halve = ss.Stage("halve", lambda image: image / 2, input="image", output="half")
    >>> halve({"image": torch.tensor([3.0]), "name": "a.jpg"})
    {'image': tensor([3.]), 'name': 'a.jpg', 'half': tensor([1.5000])}
    """

    name: str
    function: Callable[..., Any]
    input: Keys = None
    output: Keys = None
    seed: int | None = None
    autocast: torch.dtype | bool | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not callable(self.function):
            raise _native.Refused(
                f"a stage is a name and a module or function, such as ('encode', encoder), not "
                f"({self.name!r}, {type(self.function).__name__})"
            )
        seed = index_of(self.seed)
        if self.seed is not None and (seed is None or not 0 <= seed < 1 << 63):
            what = f"seed is {shortened(self.seed)}: give a whole number from 0 to 2**63 - 1"
            raise _native.Refused(f"stage '{self.name}': {what}")
        self.seed = seed
        if self.autocast not in (None, False, torch.bfloat16, torch.float16):
            what = f"autocast is {shortened(self.autocast)}: give torch.bfloat16, torch.float16 or False"
            raise _native.Refused(f"stage '{self.name}': {what}")
        self._inputs = self._keys("input", 0 if self.input is None else self.input)
        self._outputs = self._inputs[:1] if self.output is None else self._keys("output", self.output)

    def __call__(self, batch: Any) -> Any:
        """The batch with the stage's result in it; `batch` is not changed."""
        arguments = self._arguments(batch)
        if self.autocast is None:
            return self._placed(batch, self.function(*arguments))
        devices = {each.device.type for each in leaves(arguments) if isinstance(each, torch.Tensor)}
        with contextlib.ExitStack() as modes:
            for each in devices or {"cpu"}:
                dtype = self.autocast if isinstance(self.autocast, torch.dtype) else None
                modes.enter_context(torch.autocast(each, dtype=dtype, enabled=dtype is not None))
            return self._placed(batch, self.function(*arguments))

    def _keys(self, option: str, given: Any) -> list[Key]:
        is_one = not isinstance(given, list | tuple)
        keys = [index_of(each, each) for each in ([given] if is_one else given)]
        no_key = any(isinstance(each, bool | float | None) for each in keys)
        if not keys or no_key or (is_one and not isinstance(keys[0], int | str)):
            what = "an index or a key of the batch, or a list of them"
            raise _native.Refused(f"stage '{self.name}': {option} is {shortened(given)}: give {what}")
        return keys

    def _draw_seed(self) -> int | None:
        """Of this stage alone: others may have the same seed."""
        if self.seed is None:
            return None
        key = f"{self.seed}/{self.name}".encode(errors="backslashreplace")
        return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little")

    def _arguments(self, batch: Any) -> tuple[Any, ...]:
        if isinstance(batch, torch.Tensor):
            if self.input is not None or self.output is not None:
                raise _native.Error(
                    f"stage '{self.name}' names an input or output, but the batch is a tensor, "
                    "which is both: leave them out"
                )
            return (batch,)
        try:
            return tuple([value_at(batch, key) for key in self._inputs])
        except (AttributeError, IndexError, KeyError, TypeError):
            raise self._misfit("reads", self._inputs, batch) from None

    def _placed(self, batch: Any, result: Any) -> Any:
        if isinstance(batch, torch.Tensor):
            return result
        outputs = self._outputs
        results = [result] if len(outputs) == 1 else result
        if not isinstance(results, list | tuple) or len(results) != len(outputs):
            raise _native.Error(
                f"stage '{self.name}' has {len(outputs)} outputs, so its function returns a tuple of "
                f"as many, not {type(result).__name__}"
            )
        try:
            return with_values(batch, outputs, list(results))
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            raise self._misfit("writes", outputs, batch) from None

    def _direct(self) -> tuple[Any, ...]:
        """The keys of the only input and output, where nothing but the function comes between."""
        is_one = len(self._inputs) == len(self._outputs) == 1 and type(self).__call__ is _CALL
        is_one = is_one and self.autocast is None
        return (self._inputs[0], self._outputs[0]) if is_one else ()

    def _script(self, device: str) -> torch.jit.ScriptModule | None:
        """What a thread without Python's lock may call in its place."""
        is_alone = self.seed is None and self.autocast is None and type(self).__call__ is _CALL
        return script_of(self.function, device) if is_alone else None

    def _misfit(self, does: str, keys: list[Key], batch: Any) -> _native.Error:
        return _native.Error(
            f"stage '{self.name}' {does} {_named(keys)}, which a batch of type "
            f"{type(batch).__name__} does not have. Remedy: say where its input is and its output "
            f"goes, slipstream.Stage('{self.name}', ..., input=..., output=...)"
        )


_CALL = Stage.__call__


class Pipeline:
    """A loop over `loader` whose copies and stages run ahead of its body.

    loader: batches in host memory, page-locked where copies are to overlap (pin_memory=True): a
        torch.utils.data.DataLoader, a slipstream.DataLoader, or any iterable of tensors and of
        tuples, lists, mappings, named tuples and data classes of them, nested. Other objects
        pass through, changed by their to(device) where they have one.
    stages: names and callables, or `Stage`s, in their order.
    device: where tensors are copied: "cuda", "cuda:N" or "cpu", where nothing overlaps. By default
        that of `loader` if it is a slipstream.DataLoader, else "cuda" if there is one.
    run_ahead: batches that the host may enqueue, beyond those in flight, before the device has
        finished.
    serial: does everything on the caller's stream, in the order of a plain loop; for comparison.
        Only the copies of a slipstream.DataLoader stay ahead.

    While the body works on batch n, the stages work on n + 1 and the copies on n + 2. Each batch is
    what a plain loop on one stream gives, bit for bit, as long as stages and body share nothing
    that either of them writes. What can be seen of that is checked: a stage with trained
    parameters, in training mode, or whose weights are written meanwhile, one that gives the same
    memory twice, and two that draw from one generator of random numbers are errors.

    The body runs on the caller's current stream, which waits for each batch. Its tensors may be
    kept for any time. The host waits for the device only to stay within `run_ahead`.

    Around a loader with state_dict() and load_state_dict() it has both, too: where the body is, while the
    loader's own is as far as was read ahead. Around a slipstream.DataLoader they are that one's.

    >>> encoder = torch.nn.Linear(4, 2).eval().requires_grad_(False)
    >>> batches = [(torch.ones(8, 4), ["a.jpg"] * 8) for _ in range(3)]
    >>> pipe = ss.Pipeline(batches, stages=[("encode", encoder)])
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
        run_ahead: int = 2,
        serial: bool = False,
    ) -> None:
        gives_items = hasattr(loader, "__iter__") or hasattr(loader, "__getitem__")
        if isinstance(loader, Dataset) or not gives_items:
            raise _native.Refused(
                f"slipstream.Pipeline goes around what gives batches, a loader or another iterable, not "
                f"{type(loader).__name__}"
            )
        self.loader = loader
        self.stages = _stages_of(stages)
        self.device = _device_of(loader, device)
        self.run_ahead = run_ahead
        check(choose(serial=(serial, (True, False))))
        self.serial = bool(serial)
        innermost = loader
        while isinstance(innermost, Pipeline):
            innermost = innermost.loader
        if innermost is not loader and has_progress(innermost) and not self.serial:
            raise _native.Refused(HIDDEN)
        self._has_warned = False
        self._place = Place(loader, goes_on=isinstance(innermost, DataLoader))
        if isinstance(loader, DataLoader):
            refuse_own_iteration(loader, "a slipstream.Pipeline")
            self.state_dict, self.load_state_dict = loader.state_dict, loader.load_state_dict
        elif has_state(loader):
            self.state_dict, self.load_state_dict = self._place.state_dict, self._place.load_state_dict
        _refuse_stages(self.stages, run_ahead)

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        stages = ", ".join(stage.name for stage in self.stages)
        return f"Pipeline({type(self.loader).__name__}, stages=[{stages}], device={self.device})"

    def set_epoch(self, epoch: int) -> None:
        """The next pass is that of `epoch`: stages with a seed draw by it. The loader's set_epoch() is
        called with it, or where it has none, those of its sampler, batch_sampler and data set, such as
        torch.utils.data.DistributedSampler's."""
        check(epoch=(epoch, 0, EPOCHS - 1))
        self._place.go_to(operator.index(epoch))
        set_epochs(self.loader, operator.index(epoch))

    def __iter__(self) -> Iterator[Any]:
        _refuse_stages(self.stages, self.run_ahead)
        stages, device = self.stages, self.device
        if not isinstance(self.loader, DataLoader):
            return self._foreign_iteration()
        if self.serial:
            loader = self.loader
            return Iteration(
                lambda: SerialLoop(iter(loader), stages, device, loader._first_number())
            )
        return self.loader._pass(self.stages, self.run_ahead)

    def _foreign_iteration(self) -> Iteration:
        """The loader's own iterator is made here, as in a plain loop: it may draw random numbers. The epoch begins
        with the first batch, for frameworks iterate a loader only to see whether they can."""
        states = States(self.loader) if has_state(self.loader) else None
        source, ready = source_of(self.loader, states)
        progress: Progress | None = None
        if not self.serial and has_progress(self.loader):
            source = progress = Progress(self.loader, source)
        elif not self.serial:
            source = refusing_hidden(source)
        stages, device, place = self.stages, self.device, self._place
        epoch = batch = 0

        def begin() -> Pass | SerialLoop:
            nonlocal epoch, batch
            epoch, batch = place.begin()
            first = (epoch << 32) + batch
            if self.serial:
                return SerialLoop(source, stages, device, first)
            return Pass(source, ready, stages, device, self.run_ahead, first)

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


class Pass:
    """One pass over a source: as a context, its batches; what ends it ends what runs ahead."""

    def __init__(
        self,
        source: _native.Loader | Iterator[Any],
        ready: Callable[[], bool] | None,
        stages: Sequence[Stage],
        device: str,
        run_ahead: int,
        first: int,
    ) -> None:
        self._kept: list[Any] = []  # what the native side uses, where the garbage collector sees it
        native = [
            _native.LoopStage(
                stage.name,
                stage,
                _module_of(stage.function),
                stage._draw_seed(),
                self._kept,
                stage._script(device),
                stage._arguments,
                stage._placed,
                stage._direct(),
                stage.autocast is not None,
            )
            for stage in stages
        ]
        self._loop = _native.Loop(source, ready, native, device, first, run_ahead, self._kept)

    @property
    def loop(self) -> _native.Loop:
        """Ends what runs ahead when it is closed or deleted."""
        return self._loop

    def __enter__(self) -> _native.Loop:
        return self._loop

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """The host waits for nothing."""
        self._loop.close()


def _stages_of(stages: Any) -> list[Stage]:
    all_of_them = []
    is_sequence = isinstance(stages, list | tuple) and not isinstance(stages, Stage)
    for each in stages if is_sequence else [stages]:
        if isinstance(each, Stage):
            all_of_them.append(each)
        elif is_sequence and isinstance(each, tuple) and len(each) == 2:
            all_of_them.append(Stage(*each))
        else:
            raise _native.Refused(
                "stages are a list of names and functions, such as [('encode', encoder)], or of "
                f"slipstream.Stage; there is one of type {type(each).__name__}"
            )
    return all_of_them


def _device_of(loader: Iterable[Any], device: str | torch.device | None) -> str:
    if isinstance(loader, DataLoader):
        if device is not None and not is_device(device, loader.device):
            raise _native.Refused(
                f"the loader fills memory for {loader.device}, but the pipeline's device is "
                f"{device}: give both the same"
            )
        return loader.device
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return device_named(device)


def _refuse_stages(stages: Sequence[Stage], run_ahead: int) -> None:
    names = [stage.name for stage in stages]
    problems = [f"two stages are called '{name}'" for name in {*names} if names.count(name) > 1]
    for stage in stages:
        module = _module_of(stage.function)
        if module is None:
            continue
        trained = [name for name, each in module.named_parameters() if each.requires_grad]
        if trained:
            problems.append(
                f"stage '{stage.name}' has parameters that require gradients ({trained[0]}, ...): it "
                "runs ahead of the body, which would train them. Freeze them "
                "(module.requires_grad_(False)), or call it in the body"
            )
        # A frozen module of TorchScript has no mode, and that of an exported one means nothing.
        has_mode = not (isinstance(module, torch.fx.GraphModule) and "eval" in vars(module))
        if has_mode and getattr(module, "training", False):
            problems.append(
                f"stage '{stage.name}' is in training mode: call module.eval(), or call it in the "
                "body"
            )
    check(problems, run_ahead=(run_ahead, 1))


def _module_of(function: Callable[..., Any]) -> torch.nn.Module | None:
    if isinstance(function, torch.nn.Module):
        return function
    owner = getattr(function, "__self__", None)
    return owner if isinstance(owner, torch.nn.Module) else None


def _named(keys: list[Key]) -> str:
    return " and ".join(repr(key) if isinstance(key, str) else f"element {key}" for key in keys)
