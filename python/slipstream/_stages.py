"""slipstream.Stage: a function that changes each batch before the loop body gets it."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import _native
from ._checks import EPOCHS, check, shortened, to_index
from ._feature_cache import FeatureCache, parse_cache
from ._held_objects import Wrapper
from ._scripts import compile_script
from ._seeds import is_distributed
from ._trees import Key, leaves, value_at, with_values
from .transforms import Transform

Keys = Key | Sequence[Key] | None

_LARGEST_BATCH = 1 << 24  # a native transform numbers the samples of a batch from a multiple of this


@dataclasses.dataclass
class Stage:
    """A function that a slipstream.Pipeline applies to each batch before the loop body gets it, on a separate stream.

    Arguments:
        name (str): name of the stage in error messages. It is also part of the stage's seed.
        function (callable): a module in evaluation mode without parameters that require gradients, or any callable.
            It runs without gradients, and the current stream is that of the stage. It should not wait for the
            device, because nothing overlaps while the host waits. On a GPU, a torch.jit.ScriptModule that neither
            calls Python nor uses random numbers is called by a separate thread without the GIL.
        input (int, str or list of them, default None): where the arguments of `function` are in the batch: an index
            of a tuple or list, a key of a mapping, or an attribute of a named tuple or data class. None means the
            first element of a tuple or list, or the whole batch if it is a tensor.
        output (int, str or list of them, default None): where the result is stored; None means at the first `input`.
            A mapping may get a new key. With several outputs, the function returns a tuple.
        seed (int, default None): allows the stage to use PyTorch's default generators. While the stage runs, they are
            seeded by this seed, the name of the stage, the epoch and the batch; afterwards they continue as before.
            From 0 to 2**63 - 1. If `function` is a random transform of slipstream.transforms, its random numbers
            depend on this seed (None means 0), the name of the stage, the epoch, and the number of the sample, which
            the pipeline counts: the batch and the position in it and, if torch.distributed is initialized, the rank.
        autocast (torch.dtype or False, default None): torch.bfloat16 or torch.float16 runs the function under
            torch.autocast with this dtype, False without autocast. None uses the autocast that is active when the
            loop requests the next batch. Autocast that is entered in the loop body is therefore too late for the
            stage; if the two differ, iterating raises Error.
        cache ("auto" or slipstream.FeatureCache, default None): keeps the results of this stage and of those before it,
            so that they run only once for each sample. "auto" keeps them in device memory, then in page-locked host
            memory, as far as they fit; each pipeline gets a separate cache. `pipeline.stages[i].cache` is the cache.

    Raises Refused for invalid arguments. Calling a stage raises Error if the batch does not have its input or output.

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
    cache: FeatureCache | str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not callable(self.function):
            raise _native.Refused(
                f"a stage is a name and a module or function, such as ('encode', encoder), not "
                f"({self.name!r}, {type(self.function).__name__})"
            )
        seed = to_index(self.seed)
        if self.seed is not None and (seed is None or not 0 <= seed < 1 << 63):
            what = f"seed is {shortened(self.seed)}: give a whole number from 0 to 2**63 - 1"
            raise _native.Refused(f"stage '{self.name}': {what}")
        self.seed = seed
        if self.autocast not in (None, False, torch.bfloat16, torch.float16):
            what = f"autocast is {shortened(self.autocast)}: give torch.bfloat16, torch.float16 or False"
            raise _native.Refused(f"stage '{self.name}': {what}")
        self.cache = parse_cache(self.name, self.cache)
        self._inputs = self._keys("input", 0 if self.input is None else self.input)
        self._outputs = self._inputs[:1] if self.output is None else self._keys("output", self.output)

    def __call__(self, batch: Any) -> Any:
        """Returns a copy of the batch with the result of the function in it.

        Arguments:
            batch: a batch with the input of this stage. It is not changed."""
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
        keys = [to_index(each, each) for each in ([given] if is_one else given)]
        no_key = any(isinstance(each, bool | float | None) for each in keys)
        if not keys or no_key or (is_one and not isinstance(keys[0], int | str)):
            what = "an index or a key of the batch, or a list of them"
            raise _native.Refused(f"stage '{self.name}': {option} is {shortened(given)}: give {what}")
        return keys

    def _draw_seed(self) -> int | None:
        """Returns the seed for PyTorch's generators, or None if they are not seeded."""
        return None if self.seed is None or self._takes_number() else self._separate_seed(self.seed)

    def _separate_seed(self, seed: int) -> int:
        """Returns a seed for this stage only, because other stages may have the same `seed`."""
        key = f"{seed}/{self.name}".encode(errors="backslashreplace")
        return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little")

    def _takes_number(self) -> bool:
        """Returns whether the function is a native transform, which needs the numbers of samples if it is random."""
        is_plain = type(self).__call__ is _CALL and type(self.function).__call__ is Transform.__call__
        return is_plain and isinstance(self.function, Transform)

    def _run(self, batch: Any, number: int) -> Any:
        """Applies the stage to the batch with this index. The upper half of the index is the epoch."""
        if not self._takes_number():
            return self(batch)
        arguments = self._arguments(batch)
        if len(arguments) != 1:
            raise _native.Error(
                f"stage '{self.name}' is a transform of images, which takes one input, not {len(arguments)}: name only the "
                "images"
            )
        return self._placed(batch, self._transformed(arguments[0], number))

    def _transformed(self, images: Any, number: int) -> torch.Tensor:
        epoch, index = divmod(number, EPOCHS)
        step = index
        if is_distributed():
            step = index * torch.distributed.get_world_size() + torch.distributed.get_rank()
        first = step * _LARGEST_BATCH
        count = len(images) if isinstance(images, torch.Tensor) and images.dim() > 0 else 0
        seed = self._separate_seed(self.seed or 0)
        assert isinstance(self.function, Transform)
        return self.function(images, sample_ids=range(first, first + count), epoch=epoch, seed=seed)

    def _arguments(self, batch: Any) -> tuple[Any, ...]:
        if isinstance(batch, torch.Tensor):
            if self.input is not None or self.output is not None:
                raise _native.Error(
                    f"stage '{self.name}' names an input or output, but the batch is a single tensor: leave out input "
                    "and output"
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
                f"stage '{self.name}' has {len(outputs)} outputs, so its function must return a tuple of "
                f"{len(outputs)} elements, not {type(result).__name__}"
            )
        try:
            return with_values(batch, outputs, list(results))
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            raise self._misfit("writes", outputs, batch) from None

    def _direct(self) -> tuple[Any, ...]:
        """Returns the keys of input and output if there is one of each and only `function` has to be called; otherwise
        (). The native loop then reads and writes the batch without calling this class."""
        is_one = len(self._inputs) == len(self._outputs) == 1 and type(self).__call__ is _CALL
        is_one = is_one and self.autocast is None
        return (self._inputs[0], self._outputs[0]) if is_one else ()

    def _script(self, device: str) -> torch.jit.ScriptModule | None:
        """Returns the script that a thread without the GIL may call instead of this stage, or None."""
        is_alone = self.seed is None and self.autocast is None and type(self).__call__ is _CALL
        return compile_script(self.function, device) if is_alone else None

    def _misfit(self, does: str, keys: list[Key], batch: Any) -> _native.Error:
        return _native.Error(
            f"stage '{self.name}' {does} {_named(keys)}, which a batch of type {type(batch).__name__} does not have. "
            f"Remedy: name its input and output, slipstream.Stage('{self.name}', ..., input=..., output=...)"
        )


# Identifies subclasses that override __call__(): the native loop has to call those, not their `function`.
_CALL = Stage.__call__


def to_stages(stages: Any) -> list[Stage]:
    all_of_them = []
    is_sequence = isinstance(stages, list | tuple) and not isinstance(stages, Stage)
    for each in stages if is_sequence else [stages]:
        if isinstance(each, Stage):
            all_of_them.append(each)
        elif is_sequence and isinstance(each, tuple) and len(each) == 2:
            all_of_them.append(Stage(*each))
        else:
            raise _native.Refused(
                "stages must be pairs of a name and a function, such as [('encode', encoder)], or slipstream.Stage "
                f"objects, but one is of type {type(each).__name__}"
            )
    return all_of_them


def refuse_stages(stages: Sequence[Stage], run_ahead: int) -> None:
    names = [stage.name for stage in stages]
    problems = [f"two stages are called '{name}'" for name in {*names} if names.count(name) > 1]
    for stage in stages:
        module = first_module(stage.function)
        if module is None:
            continue
        trained = [name for name, each in module.named_parameters() if each.requires_grad]
        if trained:
            problems.append(
                f"stage '{stage.name}' has parameters that require gradients ({trained[0]}, ...), but a stage runs "
                "before the loop body, which would train them. Freeze them (module.requires_grad_(False)), or call the "
                "module in the loop body"
            )
        # A frozen TorchScript module has no attribute `training`, and a module of torch.export cannot be put into
        # evaluation mode, whatever its attribute says.
        has_mode = not (isinstance(module, torch.fx.GraphModule) and "eval" in vars(module))
        if has_mode and getattr(module, "training", False):
            problems.append(
                f"stage '{stage.name}' is in training mode: call module.eval(), or call the module in the loop body"
            )
    check(problems, run_ahead=(run_ahead, 1))


def without_caches(stages: Sequence[Stage]) -> list[Stage]:
    """Returns stages that compute each sample."""
    made = []
    for stage in stages:
        changed = copy.copy(stage)
        changed.cache = None
        made.append(changed)
    return made


def first_module(function: Callable[..., Any]) -> torch.nn.Module | None:
    if isinstance(function, torch.nn.Module):
        return function
    if isinstance(function, Wrapper):
        return first_module(function.held()[0][1])
    owner = getattr(function, "__self__", None)
    return owner if isinstance(owner, torch.nn.Module) else None


def _named(keys: list[Key]) -> str:
    return " and ".join(repr(key) if isinstance(key, str) else f"element {key}" for key in keys)
