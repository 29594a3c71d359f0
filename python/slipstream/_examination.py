"""Runs a step once, and finds out whether a CUDA graph can do the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import _cuda_graphs
from ._call_observer import CallObserver
from ._held_values import HeldValues, tensors_in_tree
from ._random_states import random_states
from ._step_state import StepState

_NAMES = "slipstream.capture(step, modules=[...], optimizers=[...])"


class Examination:
    """Examines one call of a step.

    roots: the step and other objects that it uses, with their names.
    generators: random generators that graphs may use."""

    def __init__(self, state: StepState, roots: Sequence[tuple[str, Any]], generators: Sequence[Any]) -> None:
        self._state = state
        with _cuda_graphs.unobserved():
            self._restored = state.restored()
            self._values = HeldValues(roots, generators)
        self._random = random_states()[1:]
        self._observer = CallObserver(state.knows)

    def run(self, function: Callable[[], Any]) -> Any:
        with self._observer:
            return function()

    def objection(self, arguments: Sequence[torch.Tensor]) -> str:
        """Returns why a graph cannot do what the call did; "" if there is no reason."""
        with _cuda_graphs.unobserved():
            return (
                self._objection_to_waiting()
                or self._objection_to_objects()
                or self._objection_to_replaced()
                or self._objection_to_writes(arguments)
                or objection_to_changes(self._values.changes())
                or self._objection_to_random_numbers()
            )

    def _objection_to_waiting(self) -> str:
        line = self._observer.waits.get(self._state.device.type)
        return "" if line is None else f"{line}: waits for the device. Remedy: call item() on the results of the step"

    def _objection_to_objects(self) -> str:
        if self._observer.collective:
            return (
                f"it communicates with other processes ({self._observer.collective}). The comparison of graph and step "
                "would communicate more often than in the other processes"
            )
        for each in self._observer.objects:
            return (
                f"it uses a {type(each).__name__} that is not found in its variables and attributes, so changes of its "
                f"mode or its numbers would not be noticed. Remedy: {_NAMES}"
            )
        return ""

    def _objection_to_writes(self, arguments: Sequence[torch.Tensor]) -> str:
        known = [*self._restored, *self._state.restored(), *arguments]
        for write in self._observer.unknown_writes(known):
            return (
                f"it writes to {write.description} that is not found in its variables and attributes: {write.line}. "
                f"Remedy: let a variable or an attribute of the step refer to the tensor, or {_NAMES}"
            )
        write_to_host = self._observer.host_write
        if write_to_host is not None and self._state.device.type != "cpu":
            return (
                f"it writes to {write_to_host.description}, which a graph does not: {write_to_host.line}. Remedy: let "
                f"this tensor be on {self._state.device}"
            )
        return ""

    def _objection_to_replaced(self) -> str:
        remedy = "Remedy: write to the tensor in place, such as h.copy_(new) or mean.lerp_(new, 0.1)"
        if change := self._state.replaced():
            return f"after a call, {change}. {remedy}"
        for each in self._values.replaced():
            if each.is_state or any(map(self._observer.has_read, tensors_in_tree(each.old))):
                return f"it reads '{each.name}' and replaces it, but a graph reads the same memory each time. {remedy}"
        return ""

    def _objection_to_random_numbers(self) -> str:
        if random_states()[1:] == self._random:
            return ""
        return "it uses random numbers of Python or NumPy. Remedy: give them as arguments, or use those of PyTorch"


def objection_to_changes(changes: Sequence[str]) -> str:
    """Returns why a step with these changes in Python gets no graph; "" if there are none."""
    if not changes:
        return ""
    return (
        f"it changes {changes[0]}, and a graph runs no Python. Remedy: change it outside of the step, and give the "
        "step what it needs as an argument (a Python number, or a tensor on the device)"
    )
