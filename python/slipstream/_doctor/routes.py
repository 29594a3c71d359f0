"""How batches get from a loader to the training step: in a plain loop, or through a slipstream.Pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import torch

from .. import _native
from .._iteration import RUN_AHEAD, Pass, SerialLoop
from .._plan_choice import PlanChoice
from .._stage_graphs import capture_stage
from .._stages import Stage, without_caches
from ..pipeline import Pipeline


class Route(Protocol):
    """The way of a batch.

    stages: the stages that are applied to each batch before the step.
    copies_ahead: whether batches are copied to the device in advance."""

    stages: list[Stage]
    copies_ahead: bool

    def through(self, batches: Iterable[Any]) -> Iterable[Any]:
        """Returns the batches of a loader, or other batches, as the loop gets them."""
        ...

    def native(self, loader: _native.Loader) -> Iterator[Any]:
        """Yields the batches of one epoch of a native loader, from its current position, as the loop gets them."""
        ...

    def arrived(self, batch: Any) -> Any:
        """Returns a batch of the loop on the device."""
        ...


class PlainRoute:
    """A plain loop over a loader. Only a slipstream.DataLoader copies batches in advance."""

    def __init__(self, device: str, copies_ahead: bool = False) -> None:
        self.stages: list[Stage] = []
        self.device, self.copies_ahead = device, copies_ahead
        self._moves = torch.device(device).type == "cuda"

    def through(self, batches: Iterable[Any]) -> Iterable[Any]:
        return batches

    def native(self, loader: _native.Loader) -> Iterator[Any]:
        with Pass(loader, None, (), self.device, RUN_AHEAD, 0) as batches:
            yield from batches

    def arrived(self, batch: Any) -> Any:
        return _native.moved(batch, self.device) if self._moves else batch


class _Iterated:
    """Gives an iterator. A pipeline warns of the batches that an iterator loses when the loop ends, but not of those of
    another iterable."""

    def __init__(self, batches: Iterator[Any]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[Any]:
        return self._batches


class PipelineRoute:
    """The loop over a slipstream.Pipeline.

    plan: that of the pipeline. While plan="auto" has not chosen yet, the doctor examines "pipelined"."""

    def __init__(self, pipeline: Pipeline, plan: str = "") -> None:
        self.pipeline, self.stages, self._device = pipeline, without_caches(pipeline.stages), pipeline.device
        self.chooses_plan = isinstance(pipeline._choice, PlanChoice)
        self.plan = plan or ("pipelined" if pipeline.plan == "auto" else pipeline.plan)
        self.copies_ahead = self.plan == "pipelined"

    def through(self, batches: Iterable[Any]) -> Iterable[Any]:
        if isinstance(batches, Iterator):
            batches = _Iterated(batches)
        return Pipeline(batches, self.stages, self._device, self.pipeline.run_ahead, plan=self.plan)

    def native(self, loader: _native.Loader) -> Iterator[Any]:
        stages = self.stages if self.copies_ahead else ()
        with Pass(loader, None, stages, self._device, self.pipeline.run_ahead, 0) as batches:
            if self.copies_ahead:
                yield from batches
                return
            loop = SerialLoop(batches, self.stages, self._device, 0)
            while True:
                try:
                    batch = next(loop)
                except StopIteration:
                    return
                yield batch

    def arrived(self, batch: Any) -> Any:
        return batch

    def pipelined(self) -> PipelineRoute:
        return PipelineRoute(self.pipeline, "pipelined")

    def with_graphs(self) -> PipelineRoute:
        """Returns a route whose stages run as CUDA graphs."""
        made = PipelineRoute(self.pipeline, self.plan)
        made.stages = [capture_stage(stage, self._device) for stage in self.stages]
        return made

    def code(self, name: str, loader: str, plan: str = "", graphs: bool = False) -> str:
        """Returns code that creates the pipeline again.

        name, loader: the variables for the pipeline, and for its loader. plan: "" for the plan that it has.
        graphs: whether all stages become graphs. Those that are graphs stay graphs."""
        given = plan or ("auto" if self.chooses_plan else self.plan)
        arguments = [loader, *([f"{name}.stages"] if self.stages else []), f"device={name}.device"]
        if self.pipeline.run_ahead != RUN_AHEAD:
            arguments.append(f"run_ahead={name}.run_ahead")
        if given != "pipelined":
            arguments.append(f"plan={given!r}")
        if graphs:
            arguments.append("graphs=True")
        return f"import slipstream as ss\n{name} = ss.Pipeline({', '.join(arguments)})"
