"""Stages of a slipstream.Pipeline whose work runs as CUDA graphs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

from . import _cuda_graphs
from ._random_states import RandomStates, random_states
from ._stages import Stage, first_module
from ._step_state import StepState
from .capture import CapturedStep, Guard, torch_modes


def capture_stage(stage: Stage, device: str) -> Stage:
    """Returns a stage that does the same, and replays a CUDA graph. A transform of slipstream.transforms is not
    captured, because it consists of few kernels and gets other random numbers for each batch."""
    if stage._takes_number() or isinstance(stage.function, StageGraphs):
        return stage
    captured = copy.copy(stage)
    captured.function = StageGraphs(stage.name, stage.function, device)
    return captured


class StageGraphs(CapturedStep):
    """Replays the function of a stage on the stage's stream. Its outputs are copied to new memory, so they may be kept
    like those of other stages."""

    def __init__(self, name: str, function: Callable[..., Any], device: str) -> None:
        self._stage, self._device = name, torch.device(device)
        self._module = first_module(function)
        self._is_checked = False  # whether the pipeline checks in each iteration that the module does not change
        self._uses_random_numbers = False
        # A graph for each address would save only the copy of the input, which is short compared with the stage.
        super().__init__(function, (), (), "eager", (), warmup=3, checks=2, slots=0)

    def begin(self, is_pipelined: bool) -> None:
        """Called before each epoch: frees graphs of a module that was moved or replaced since the epoch before.

        is_pipelined: True means that changes of a module during the epoch are errors. The pipeline finds them in less
            time than this object."""
        self._is_checked = is_pipelined and self._module is not None
        if self._searches == 0:
            self._renew()
        elif self._state.changed() or not self._is_up_to_date(self._make_state()):
            self.reset()
            self._renew()

    def _is_up_to_date(self, state: StepState) -> bool:
        # A stage may replace tensors between two epochs, such as a table that it keeps for each size.
        return state.refers_to_same_objects(self._state) and state.refers_to_same_tensors(self._state)

    def _make_state(self) -> StepState:
        return _StageState(self._step, self._device, self._module is None)

    def _make_graphs(self) -> _cuda_graphs.Graphs | None:
        return _cuda_graphs.make_graphs(self._device, (), uses_default_generator=False)

    def _check_state(self) -> None:
        if self._searches == 0 or (not self._is_checked and self._state.changed()):
            self.reset()
            self._renew()

    def _variant(self) -> tuple[Any, tuple[Any, ...]]:
        modes = () if self._is_checked else self._state.modes()
        return (modes, torch_modes(self._device.type), self._state.constants()), ()

    def _run(self, args: Any, kwargs: Any) -> Any:
        if self._graphs is None:
            return super()._run(args, kwargs)
        before = self._generator_states()
        result = super()._run(args, kwargs)
        self._uses_random_numbers = self._uses_random_numbers or before != self._generator_states()
        return result

    def _generator_states(self) -> tuple[Any, ...]:
        with _cuda_graphs.unobserved():
            is_on_gpu = self._device.type == "cuda"
            on_device = torch.cuda.get_rng_state(self._device).numpy().tobytes() if is_on_gpu else None
            return (*random_states(), on_device)

    def _guard(self) -> Guard:
        return super()._guard() if self._module is None else _RandomGuard()

    def _report_difference(self, name: str) -> None:
        self._warn(
            f"its graph computes another value of {name} than the stage itself. Remedy: a graph repeats the Python "
            "values and branches with which it was recorded, so a stage must not depend on what changes"
        )

    def _problem(self, tensors: list[torch.Tensor]) -> str:
        if self._uses_random_numbers:
            return "it generates random numbers, for which graphs that run at the same time would use the same memory"
        return super()._problem(tensors)

    def _name(self) -> str:
        return f"stage '{self._stage}'"


class _StageState(StepState):
    """The modules of a stage, which do not change."""

    def __init__(self, function: Callable[..., Any], device: torch.device, is_restored: bool) -> None:
        super().__init__(function, (), ())
        self.device, self._is_restored = device, is_restored

    def is_empty(self) -> bool:
        return False  # a function of the batch alone gets a graph, too

    def values(self) -> dict[str, torch.Tensor]:
        return {}

    def restored(self) -> list[torch.Tensor]:
        return list(super().values().values()) if self._is_restored else []


class _RandomGuard:
    """Restores random generators. A module in evaluation mode has no other state."""

    def __init__(self) -> None:
        self._states = RandomStates()

    def restore(self) -> list[str]:
        self._states.restore()
        return []

    def restore_tensors(self) -> list[str]:
        return self.restore()
