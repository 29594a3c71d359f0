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


class GraphPool:
    """The objects that own the memory of graphs, by device, and the stream on which the last of these graphs run.

    Graphs in one pool must not overlap, so each stream waits for the last one."""

    def __init__(self) -> None:
        self.containers: dict[int, Any] = {}
        self.last: torch.cuda.Stream | None = None

    def order(self, stream: torch.cuda.Stream | None) -> None:
        if stream is not None and self.last is not None and stream != self.last:
            stream.wait_stream(self.last)
        self.last = stream


def isolate(stage: Stage, device: str) -> Stage | IsolatedStage:
    """Returns an object that can be called in the place of the stage, and keeps its CUDA graphs apart from others.

    Returns the stage itself if nothing can have been compiled with CUDA graphs: torch.compile imports its backend when
    it is given a mode."""
    if not device.startswith("cuda") or "torch._inductor" not in sys.modules:
        return stage
    return IsolatedStage(stage, device)


class IsolatedStage:
    """Calls a stage. Tensors of its result that are outputs of CUDA graphs are copied on the current stream.

    Stages of the same name share a pool, because they run on the same stream. If the module had been called elsewhere
    before, its graphs are in the pool of another stage, or in that of the loop body. The streams then wait for each
    other, so that the graphs do not overlap."""

    def __init__(self, stage: Stage, device: str) -> None:
        self._stage, self._device = stage, torch.device(device)
        self._body, self._is_shared = _current_stream(self._device), False
        self._pools: dict[tuple[torch.device, str], GraphPool] = _own.__dict__.setdefault("pools", {})
        self._pool = self._pools.setdefault((self._device, stage.name), GraphPool())
        self._used = [self._pool]

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
        stream = _current_stream(self._device)
        for pool in self._used:
            pool.order(stream)
        self._wait(stream, self._body)
        trees.local.tree_manager_containers = self._pool.containers
        try:
            result = function(*arguments)
        finally:
            trees.local.tree_manager_containers = shared
        pools = [pool for pool in self._pools.values() if _checkers(pool.containers)]
        if not pools and not _checkers(shared):
            return result

        def copied(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor) or leaf.layout != torch.strided or leaf.is_nested:
                return leaf
            for pool in pools:
                if _is_output(leaf, pool.containers):
                    if pool not in self._used:
                        self._used.append(pool)
                        pool.order(stream)
                    return leaf.clone()
            if _is_output(leaf, shared):
                self._share()
                return leaf.clone()
            return leaf

        result = copied(result) if isinstance(result, torch.Tensor) else _trees.mapped(result, copied)
        self._wait(self._body, stream)
        return result

    def _wait(self, waits: torch.cuda.Stream | None, other: torch.cuda.Stream | None) -> None:
        """Orders the stage and the loop body, if their graphs are in one pool."""
        if self._is_shared and waits is not None and other is not None and waits != other:
            waits.wait_stream(other)

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


def _current_stream(device: torch.device) -> torch.cuda.Stream | None:
    return torch.cuda.current_stream(device) if device.type == "cuda" else None


def _checkers(containers: dict[int, Any]) -> list[Callable[[torch.Tensor], bool]]:
    """Returns functions that return true for outputs of the last graphs in the containers."""
    managers = [each.tree_manager for each in list(containers.values())]
    nodes = [each.current_node for each in managers if each is not None]
    return [each._is_cuda_graph_recorded_tensor for each in nodes if each is not None]


def _is_output(tensor: torch.Tensor, containers: dict[int, Any]) -> bool:
    return any(is_output(tensor) for is_output in _checkers(containers))
