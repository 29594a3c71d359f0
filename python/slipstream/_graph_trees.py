"""Stages that torch.compile has compiled with CUDA graphs (mode="reduce-overhead" or "max-autotune").

Such a module returns the same memory for each batch, so its result is copied. PyTorch lets all graphs of a thread share
one memory pool, because it assumes that no two of them run at the same time. A stage runs during the loop body, so the
graphs of each stage get a separate pool."""

from __future__ import annotations

import importlib
import sys
import threading
import types
import warnings
from collections.abc import Callable
from typing import Any

import torch

from . import _trees
from ._stages import Stage

_MODULE = "torch._inductor.cudagraph_trees"
_CONTAINERS = "tree_manager_containers"  # maps a device to the object that owns its pool, in each thread
_own = threading.local()


def isolate(stage: Stage, index: int, device: str) -> Stage | IsolatedStage:
    """Returns an object that can be called in the place of the stage, and keeps its CUDA graphs apart from others.

    Returns the stage itself if nothing can have been compiled with CUDA graphs: torch.compile imports its backend when
    it is given a mode.

    index: position of the stage in the pipeline."""
    if not device.startswith("cuda") or "torch._inductor" not in sys.modules:
        return stage
    return IsolatedStage(stage, index, torch.cuda.current_stream(torch.device(device)))


class IsolatedStage:
    """Calls a stage. Tensors of its result that are outputs of CUDA graphs are copied on the current stream.

    body: the stream of the loop body. If the module had been called outside of stages before, its graphs are in the
        pool of the loop body. The two streams then wait for each other, so that the graphs do not overlap."""

    def __init__(self, stage: Stage, index: int, body: torch.cuda.Stream | None) -> None:
        self._stage, self._body, self._is_shared = stage, body, False
        containers: dict[int, dict[int, Any]] = _own.__dict__.setdefault("containers", {})
        self._containers = containers.setdefault(index, {})

    def __call__(self, batch: Any) -> Any:
        return self._call(self._stage, batch)

    def _run(self, batch: Any, number: int) -> Any:
        return self._call(self._stage._run, batch, number)

    def function(self, *arguments: Any) -> Any:
        """Calls only the function of the stage."""
        return self._call(self._stage.function, *arguments)

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        trees = _trees_module()
        shared = trees.get_obj(trees.local, _CONTAINERS)
        if self._is_shared and self._body is not None:
            torch.cuda.current_stream(self._body.device).wait_stream(self._body)
        trees.local.tree_manager_containers = self._containers
        try:
            result = function(*arguments)
        finally:
            trees.local.tree_manager_containers = shared
        own = [each for each in map(_checker, self._containers.values()) if each is not None]
        others = [each for each in map(_checker, shared.values()) if each is not None]

        def copied(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor) or leaf.layout != torch.strided or leaf.is_nested:
                return leaf
            if any(is_output(leaf) for is_output in own):
                return leaf.clone()
            if any(is_output(leaf) for is_output in others):
                self._share()
                return leaf.clone()
            return leaf

        if not own and not others:
            return result
        result = copied(result) if isinstance(result, torch.Tensor) else _trees.mapped(result, copied)
        if self._is_shared and self._body is not None:
            self._body.wait_stream(torch.cuda.current_stream(self._body.device))
        return result

    def _share(self) -> None:
        if not self._is_shared:
            self._is_shared = True
            warnings.warn(
                f"stage '{self._stage.name}' of a slipstream.Pipeline does not overlap with the loop body: it is "
                "compiled with CUDA graphs, and was called before the loop, so its graphs use the memory of other "
                "graphs. Remedy: do not call it before the loop, or call torch.compiler.reset() after such a call",
                stacklevel=2,
            )


def _trees_module() -> types.ModuleType:
    return importlib.import_module(_MODULE)


def _checker(container: Any) -> Callable[[torch.Tensor], bool] | None:
    """Returns a function that returns true for outputs of the last graphs of a container; None if there are none."""
    manager = container.tree_manager
    node = None if manager is None else manager.current_node
    return None if node is None else node._is_cuda_graph_recorded_tensor
