"""The modules, optimizers and tensors that a captured step uses: detects that they were replaced, and compares them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from ._graph_keys import Identity
from ._held_objects import modules_in, reachable_from
from ._plain_state import PLAIN
from ._trees import same_bytes
from ._variables import Variables

_KINDS = (torch.nn.Module, torch.optim.Optimizer, torch.amp.GradScaler, torch.Tensor)
_REGISTRIES = ("_parameters", "_buffers", "_modules")
# Two runs of a step with algorithms that are not deterministic differ by less than this share of the change that the
# step makes. A learning rate or another number that the graph has frozen differs by more.
_TOLERANCE = 1e-2
_MOST_TIMES_AGAIN = 8  # how much more eager step and graph may differ than two replays of the graph
_HOOKS = (
    "_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks", "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
)  # fmt: skip
_HOOKS_OF_TENSORS = ("_backward_hooks", "_post_accumulate_grad_hooks")
_PARALLEL = ("DistributedDataParallel", "FullyShardedDataParallel", "DataParallel")
_address = torch.Tensor.data_ptr
_training = operator.itemgetter("training")
_requires_grad = operator.attrgetter("requires_grad")


class StepState:
    """The objects that a step refers to.

    modules, optimizers: those that cannot be found because the step reaches them in another way than by variables,
        attributes, and elements of lists, tuples and mappings."""

    def __init__(
        self,
        step: Callable[..., Any],
        modules: Sequence[torch.nn.Module],
        optimizers: Sequence[torch.optim.Optimizer],
    ) -> None:
        self._variables = Variables(step, _KINDS)
        self._given = optimizers
        found = [(each.name, each.content) for each in reachable_from(step, _KINDS)]
        found += [(f"modules[{i}]", each) for i, each in enumerate(modules)]
        found += [(f"optimizers[{i}]", each) for i, each in enumerate(optimizers)]
        found = list({id(each): (name, each) for name, each in reversed(found)}.values())[::-1]
        roots = [(name, each) for name, each in found if isinstance(each, torch.nn.Module)]
        self.optimizers = [each for _, each in found if isinstance(each, torch.optim.Optimizer)]
        self._scalers = [(name, each) for name, each in found if isinstance(each, torch.amp.GradScaler)]
        self._modules = list({id(each): each for _, root in roots for each in modules_in(root)}.values())
        tensors: dict[int, tuple[str, torch.Tensor]] = {}
        for name, root in roots:
            for key, tensor in chain(root.named_parameters(), root.named_buffers()):
                tensors.setdefault(id(tensor), (f"{name}.{key}", tensor))
        for name, optimizer in found:
            if isinstance(optimizer, torch.optim.Optimizer):
                for i, tensor in enumerate(_parameters(optimizer)):
                    tensors.setdefault(id(tensor), (f"parameter {i} of {name}", tensor))
        for name, tensor in found:
            if isinstance(tensor, torch.Tensor):
                tensors.setdefault(id(tensor), (name, tensor))
        self._named = [each for each in tensors.values() if _has_address(each[1])]
        self.device = _device([tensor for _, tensor in tensors.values()])
        self.parameters = [each for _, each in self._named if isinstance(each, torch.nn.Parameter) or _is_trained(each)]
        self._tensors = [tensor for _, tensor in self._named]
        self._addresses = list(map(_address, self._tensors))
        registries = [vars(module).get(name) for module in self._modules for name in _REGISTRIES]
        self._registries = [each for each in registries if isinstance(each, dict) and each]
        self._members = _values(self._registries)
        # Reading the attribute of a module takes longer than reading its __dict__, which modules of TorchScript do not
        # use.
        self._attributes = [each for each in map(vars, self._modules) if "training" in each]
        self._scripts = [each for each in self._modules if "training" not in vars(each)]
        self._optimizers = [_OptimizerState(each) for each in self.optimizers]
        self._hooks, self._next_hook = self._find_hooks(), RemovableHandle.next_id
        self._hook_dicts = [each for each in self._dicts_of_hooks() if each]
        self._hook_counts = list(map(len, self._hook_dicts))

    def prepare_optimizers(self) -> None:
        """Moves learning rates to the device, where a graph reads them, and lets optimizers count their steps there
        (docs/cuda-graphs.md). Changes only optimizers that the code of the step reads: not those of a trainer whose
        evaluation is captured."""
        taken: set[int] = set()
        for each, optimizer in zip(self._optimizers, self.optimizers, strict=True):
            if not self._variables.is_unread(optimizer) or any(optimizer is one for one in self._given):
                each.place_learning_rates(taken)

    def is_empty(self) -> bool:
        return not self._tensors

    def knows(self, each: Any) -> bool:
        """Returns true if a module, optimizer or tensor is part of this state."""
        return any(each is known for known in (*self._modules, *self.optimizers, *self._tensors))

    def refers_to_same_objects(self, other: StepState) -> bool:
        """Returns true if modules, optimizers and parameters are the same as those of `other`."""
        ours, theirs = ((*each._modules, *each.optimizers, *each.parameters) for each in (self, other))
        return list(map(id, ours)) == list(map(id, theirs))

    def refers_to_same_tensors(self, other: StepState) -> bool:
        """Returns true if all tensors are the same as those of `other`."""
        return list(map(id, self._tensors)) == list(map(id, other._tensors))

    def ignore_assigned(self) -> None:
        """Called after the step has run. Variables that it assigned are not reported by changed()."""
        self._variables.ignore_changed()

    def unsupported(self) -> str:
        """Returns why no graph can be recorded; "" if there is no such reason."""
        for module in self._modules:
            if (name := type(module).__name__) in _PARALLEL and type(module).__module__.startswith("torch."):
                return f"graphs of {name} are not supported"
        if len(devices := {tensor.device for _, tensor in self._named if tensor.device.type != "cpu"}) > 1:
            return f"its tensors are on {len(devices)} devices. Remedy: a graph works on one device"
        for name, tensor in self._named:
            if hasattr(type(tensor), "__tensor_flatten__"):
                return f"'{name}' is of class {type(tensor).__name__}: graphs of sharded models are not supported"
        return ""

    def changed(self) -> str:
        """Returns a sentence that describes what was replaced since this object was created; "" if nothing was."""
        if change := self.replaced():
            return change
        if name := self._variables.changed():
            return f"'{name}' refers to another object"
        return ""

    def replaced(self) -> str:
        """Does the same as changed(), but ignores variables."""
        # This runs in each call, so it loops over hundreds of tensors in C.
        if list(map(_address, self._tensors)) != self._addresses:
            pairs = zip(self._named, self._addresses, strict=True)
            name, moved = next(each for each, address in pairs if each[1].data_ptr() != address)
            return f"'{name}' has other memory, on {moved.device}"
        if not are_same(_values(self._registries), self._members):
            return "a submodule, parameter or buffer of a module was added, removed or replaced"
        for each in self._optimizers:
            if change := each.changed():
                return change
        if self._are_hooks_changed():
            return "a hook of a module, parameter or optimizer was added or removed"
        return ""

    def _are_hooks_changed(self) -> bool:
        # Each hook of PyTorch gets a number, so without new numbers there are no new hooks.
        if RemovableHandle.next_id == self._next_hook and list(map(len, self._hook_dicts)) == self._hook_counts:
            return False
        if self._find_hooks() != self._hooks:
            return True
        self._next_hook = RemovableHandle.next_id
        return False

    def _find_hooks(self) -> set[Any]:
        return set(chain.from_iterable(self._dicts_of_hooks()))

    def _dicts_of_hooks(self) -> list[dict[Any, Any]]:
        held = [vars(each).get(name) for each in (*self._modules, *self.optimizers) for name in _HOOKS]
        held += [getattr(each, name, None) for each in self.parameters for name in _HOOKS_OF_TENSORS]
        return [each for each in held if isinstance(each, dict)]

    def keep_optimizer_states(self) -> None:
        """Lets changed() report later replacements of the states of optimizers. Called when a graph was recorded."""
        for each in self._optimizers:
            each.keep()

    def modes(self) -> tuple[tuple[bool, ...], ...]:
        """Returns the modes (training or evaluation) of all modules, and `requires_grad` of all parameters."""
        of_scripts = tuple([bool(each.training) for each in self._scripts])
        return tuple(map(_training, self._attributes)), of_scripts, tuple(map(_requires_grad, self.parameters))

    def constants(self) -> tuple[Any, ...]:
        """Returns the numbers and strings that the step reads in variables and attributes, and those of scalers."""
        constants = self._variables.constants()
        return (constants, *map(_of_scaler, self._scalers)) if self._scalers else constants

    def hyperparameters(self) -> tuple[Any, ...]:
        """Returns the numbers in the groups of all optimizers that are not on the device.

        Numbers that were assigned to a learning rate are written to its tensor on the device."""
        return tuple(chain.from_iterable([each.hyperparameters() for each in self._optimizers]))

    def values(self) -> dict[str, torch.Tensor]:
        """Returns all tensors that a step may change, by name: also gradients, and the state of optimizers and
        gradient scalers."""
        return dict(self._all_named())

    def restored(self) -> list[torch.Tensor]:
        """Returns the tensors that are restored between a replay and the step with which it is compared."""
        return list(self.values().values())

    def _all_named(self) -> Iterator[tuple[str, torch.Tensor]]:
        yield from self._named
        for name, tensor in self._named:
            if tensor.is_leaf and tensor.grad is not None:
                yield f"{name}.grad", tensor.grad
        for i, optimizer in enumerate(self.optimizers):
            for j, parameter in enumerate(_parameters(optimizer)):
                state = optimizer.state.get(parameter, {})
                for key, value in (state if isinstance(state, dict) else {"": state}).items():
                    if isinstance(value, torch.Tensor):
                        yield f"'{key}' of parameter {j} of optimizer {i}", value
            for j, group in enumerate(optimizer.param_groups):
                yield f"the learning rate of group {j} of optimizer {i}", torch.as_tensor(group["lr"])
        for name, scaler in self._scalers:
            for key, value in vars(scaler).items():
                if isinstance(value, torch.Tensor):
                    yield f"{name}.{key}", value


class _OptimizerState:
    """The groups and the state of an optimizer."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._optimizer = optimizer
        self._groups, self._state = optimizer.param_groups, optimizer.state
        self._parameters = _parameters(optimizer)
        self._sizes = list(map(len, map(_params, self._groups)))
        self._kept: dict[int, torch.Tensor] = {}  # tensors of the state that graphs use; holding them keeps ids unique
        self._tensors: list[torch.Tensor] = []  # the same
        self._addresses: list[int] = []
        self._last: list[Any] = []  # the values in the state in the last call in which all kept tensors were there
        self._rates: list[torch.Tensor | None] = [None] * len(self._groups)
        self._set_getters()

    def place_learning_rates(self, taken: set[int]) -> None:
        """taken: ids of tensors that are learning rates of other groups. Each group gets its own tensor."""
        self._rates = [_place_learning_rate(self._optimizer, group, taken) for group in self._groups]
        self._set_getters()

    def _set_getters(self) -> None:
        self._counts = list(map(len, self._groups))
        self._take = [_getter(group, rate) for group, rate in zip(self._groups, self._rates, strict=False)]
        self._last_values: list[Any] = []  # in the groups in the last call
        self._last_key: list[Any] = []
        self._may_change = False  # whether one of these values may change in place

    def changed(self) -> str:
        optimizer, kind = self._optimizer, type(self._optimizer).__name__
        is_replaced = optimizer.state is not self._state or optimizer.param_groups is not self._groups
        if is_replaced or not self._has_kept():
            return f"the state of the optimizer {kind} was replaced, for example by load_state_dict()"
        sizes = list(map(len, map(_params, self._groups)))
        if sizes != self._sizes or not are_same(_parameters(optimizer), self._parameters):
            return f"the groups of the optimizer {kind} have other parameters"
        if list(map(_address, self._tensors)) != self._addresses:
            return f"the state of the optimizer {kind} has other memory"
        return ""

    def keep(self) -> None:
        self._kept |= {id(each): each for each in self._state_values() if isinstance(each, torch.Tensor)}
        self._tensors = list(self._kept.values())
        self._addresses = list(map(_address, self._tensors))
        self._last = []

    def _has_kept(self) -> bool:
        """Returns true if the state contains all tensors that graphs use. It may contain more."""
        if not self._kept:
            return True
        now = self._state_values()
        if not are_same(now, self._last):
            if not self._kept.keys() <= set(map(id, now)):
                return False
            self._last = now
        return True

    def _state_values(self) -> list[Any]:
        states = list(self._optimizer.state.values())
        return _values([each for each in states if isinstance(each, dict)]) + states

    def hyperparameters(self) -> list[Any]:
        for group, rate in zip(self._groups, self._rates, strict=False):
            if rate is not None and (given := group["lr"]) is not rate:
                with torch.no_grad():
                    rate.copy_(given) if isinstance(given, torch.Tensor) else rate.fill_(given)
                group["lr"] = rate
        if list(map(len, self._groups)) != self._counts:
            self._set_getters()
        try:
            values = self._values_of_groups()
        except KeyError:  # a value was removed and another one added
            self._set_getters()
            values = self._values_of_groups()
        if self._may_change or not are_same(values, self._last_values):
            self._last_values, self._last_key = values, list(map(_frozen, values))
            self._may_change = not all(map(_is_plain, values))
        return self._last_key

    def _values_of_groups(self) -> list[Any]:
        return list(chain.from_iterable([take(group) for take, group in zip(self._take, self._groups, strict=False)]))


def _of_scaler(named: tuple[str, torch.amp.GradScaler]) -> tuple[Any, ...]:
    scaler = named[1]
    if not scaler.is_enabled():
        return (False,)
    return scaler.get_growth_interval(), scaler.get_growth_factor(), scaler.get_backoff_factor()


_params = operator.itemgetter("params")


def are_same(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Returns true if two sequences contain the same objects. Does not compare them with ==, which tensors define."""
    return len(a) == len(b) and all(map(operator.is_, a, b))


def _values(mappings: Iterable[dict[Any, Any]]) -> list[Any]:
    return list(chain.from_iterable(map(dict.values, mappings)))


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return list(chain.from_iterable(map(_params, optimizer.param_groups)))


def _getter(group: dict[str, Any], rate: torch.Tensor | None) -> Callable[[Any], Any]:
    """Returns a function that returns the values in a group, as a sequence."""
    keys = [key for key in group if key != "params" and not (key == "lr" and rate is not None)]
    # With one key, itemgetter would return the value instead of a tuple.
    return operator.itemgetter(*keys) if len(keys) > 1 else lambda group: [group[key] for key in keys]


def _is_plain(value: Any) -> bool:
    return isinstance(value, PLAIN) or (type(value) is tuple and all(isinstance(each, PLAIN) for each in value))


def _frozen(value: Any) -> Any:
    """Returns an object that can be compared and hashed. Tensors on the CPU are compared by their values, because a
    graph repeats these; it reads other tensors itself."""
    if _is_plain(value):
        return value
    if type(value) in (list, tuple):
        return (type(value), *map(_frozen, value))
    if isinstance(value, torch.Tensor) and value.device.type == "cpu":
        return value.dtype, repr(value.tolist())
    return Identity(value)


def _place_learning_rate(
    optimizer: torch.optim.Optimizer, group: dict[str, Any], taken: set[int]
) -> torch.Tensor | None:
    """Moves the learning rate of a group to the device, if the optimizer can read it there. Returns its tensor."""
    device = _device(group["params"])
    if device.type == "cuda" and "capturable" in group:
        _make_capturable(optimizer, group)
    is_adam = isinstance(optimizer, torch.optim.Adam | torch.optim.AdamW)
    reads_tensor = is_adam and group.get("capturable")
    if group.get("fused") and isinstance(optimizer, torch.optim.Adam | torch.optim.AdamW | torch.optim.SGD):
        reads_tensor = True
    if not reads_tensor:
        return None
    rate = torch.as_tensor(group["lr"], dtype=torch.float32, device=device)
    if id(rate) in taken:
        rate = rate.clone()
    taken.add(id(rate))
    group["lr"] = rate
    return rate


def _make_capturable(optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> None:
    """Lets an optimizer count its steps on the device."""
    group["capturable"] = True
    optimizer._warned_capturable_if_run_uncaptured = True  # the first calls run without a graph
    for parameter in group["params"]:
        state = optimizer.state.get(parameter, {})
        if isinstance(state, dict) and isinstance(count := state.get("step"), torch.Tensor):
            state["step"] = count.to(parameter.device, torch.float32)


def _has_address(tensor: torch.Tensor) -> bool:
    return not torch.nn.parameter.is_lazy(tensor) and tensor.layout == torch.strided and not tensor.is_nested


def _is_trained(tensor: torch.Tensor) -> bool:
    return tensor.requires_grad and tensor.is_leaf


def _device(tensors: Sequence[torch.Tensor]) -> torch.device:
    """Returns the first device that is not a CPU, if there is one."""
    devices = [tensor.device for tensor in tensors]
    return next((each for each in devices if each.type != "cpu"), torch.device("cpu"))


def find_difference(
    before: dict[str, torch.Tensor],
    eager: dict[str, torch.Tensor],
    graph: dict[str, torch.Tensor],
    again: dict[str, torch.Tensor] | None = None,
) -> str:
    """Returns the name of the first tensor that a graph changed differently from the eager step; "" if there is none.

    With deterministic algorithms, the bytes must be equal.

    again: the tensors after a second replay of the graph, whose difference from the first shows how large
        differences by rounding are."""
    for name, expected in eager.items():
        if name not in graph or _differs(before.get(name), expected, graph[name], (again or {}).get(name)):
            return name
    return ""


def are_results_reproducible() -> bool:
    """Returns true if two runs of a step give the same bits."""
    only_warns = torch.is_deterministic_algorithms_warn_only_enabled()
    return torch.are_deterministic_algorithms_enabled() and not only_warns


def _differs(
    before: torch.Tensor | None, expected: torch.Tensor, found: torch.Tensor, again: torch.Tensor | None
) -> bool:
    if expected.shape != found.shape or expected.dtype != found.dtype:
        return True
    if same_bytes(expected, found):
        return False
    if not expected.is_floating_point() or are_results_reproducible():
        return True
    if not torch.equal(expected.isnan(), found.to(expected.device).isnan()):
        return True
    a, b = (torch.nan_to_num(each.to(expected.device, torch.float64)) for each in (expected, found))
    is_changed = before is not None and before.shape == expected.shape
    change = a - torch.nan_to_num(before.to(a)) if is_changed else a  # type: ignore[union-attr]
    allowed = _TOLERANCE * change.norm()
    if again is not None and again.shape == expected.shape:
        allowed += _MOST_TIMES_AGAIN * (b - torch.nan_to_num(again.to(b))).norm()
    return bool((a - b).norm() > allowed)
