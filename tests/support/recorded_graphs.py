"""A CUDA graph for CPUs: records the operations of a function and repeats them, for tests of what surrounds graphs."""

import contextlib

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_map

from slipstream._graph_memory import PoolMemory

AVAILABLE_BYTES = 1 << 30


class Recorder(TorchDispatchMode):
    """Records operations. As in a capture, no tensor that existed before keeps a change."""

    def __init__(self, keeps_memory=True):
        super().__init__()
        self.keeps_memory = keeps_memory
        self.operations, self.made, self.before = [], set(), {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.ops.aten._local_scalar_dense.default:
            raise RuntimeError("operation not permitted when stream is capturing")
        for given, argument in zip(args, func._schema.arguments, strict=False):
            if argument.alias_info is not None and argument.alias_info.is_write:
                self.save(given)
        # The schema does not show that it writes statistics in training mode, args[5].
        if func is torch.ops.aten.native_batch_norm.default and args[5]:
            self.save(args[3:5])
        for argument in func._schema.arguments:
            if argument.kwarg_only and argument.alias_info is not None and argument.alias_info.is_write:
                self.save(kwargs.get(argument.name))
        result = func(*args, **kwargs)
        given = {each.untyped_storage()._cdata for each in tensors_in((args, kwargs))}
        self.made |= {each.untyped_storage()._cdata for each in tensors_in(result)} - given
        self.operations.append((func, *self.addresses((args, kwargs, result))))
        return result

    def save(self, given):
        for each in tensors_in(given):
            key = each.untyped_storage()._cdata
            if key not in self.made and (key, each.storage_offset()) not in self.before:
                with _disable_current_modes():
                    self.before[key, each.storage_offset()] = (each, each.clone())

    def addresses(self, tree):
        """Replaces tensors that existed before by their addresses, if the graph does not keep their memory."""
        def address(leaf):
            is_made = not isinstance(leaf, torch.Tensor) or leaf.untyped_storage()._cdata in self.made
            return leaf if self.keeps_memory or is_made else Address(leaf)
        return tree_map(address, tree)

    def restore(self):
        with torch.no_grad(), _disable_current_modes():
            for tensor, value in self.before.values():
                tensor.copy_(value)

    def replay(self):
        with torch.no_grad():
            for func, args, kwargs, result in self.operations:
                args, kwargs = tree_map(lambda leaf: leaf.tensor() if isinstance(leaf, Address) else leaf, (args, kwargs))
                again = func(*args, **kwargs)
                pairs = zip(tree_flatten(result)[0], tree_flatten(again)[0], strict=True)
                for mine, new in [each for each in pairs if isinstance(each[0], torch.Tensor)]:
                    if mine.data_ptr() != new.data_ptr():
                        mine.copy_(new)


class Address:
    """The memory of a tensor, which may be freed."""

    def __init__(self, tensor):
        self.storage = StorageWeakRef(tensor.untyped_storage())
        self.form = tensor.storage_offset(), tensor.shape, tensor.stride()
        self.empty = torch.empty(0, dtype=tensor.dtype)

    def tensor(self):
        storage = torch.UntypedStorage._new_with_weak_ptr(self.storage.cdata)
        if storage is None:
            return self.empty.new_full(self.form[1], 77)
        return self.empty.new_empty(0).set_(storage, *self.form)


def tensors_in(tree):
    return [each for each in tree_flatten(tree)[0] if isinstance(each, torch.Tensor)]


class RecordedGraph:
    """Has the methods of torch.cuda.CUDAGraph.

    keeps_memory: False means that tensors of the caller are read where they are, even after their memory was freed.
        Freed memory contains garbage."""

    def __init__(self, keeps_memory=True):
        self.keeps_memory = keeps_memory

    def capture_begin(self):
        self.recorder = Recorder(self.keeps_memory)
        self.recorder.__enter__()

    def capture_end(self):
        self.recorder.__exit__(None, None, None)
        self.recorder.restore()

    def replay(self):
        self.recorder.replay()


@contextlib.contextmanager
def recorded_graph(graph):
    """Takes the place of torch.cuda.graph."""
    graph.capture_begin()
    try:
        yield
    finally:
        graph.capture_end()


class RecordedGraphs:
    """Has the methods of CudaGraphs."""

    def __init__(self, generators):
        self.generators = [torch.default_generator, *generators]
        self.memory = PoolMemory()

    def capture(self, function):
        graph, states = RecordedGraph(), [each.get_state() for each in self.generators]
        try:
            with recorded_graph(graph):
                function()
        finally:
            for generator, state in zip(self.generators, states, strict=True):
                generator.set_state(state)
        return graph.replay

    def measure(self, function):
        """Reports one allocation of 3 MiB that stays, and one that is freed."""
        return function(), [(1, 3 << 20), (2, 100), (2, -1)]

    def available_bytes(self):
        return AVAILABLE_BYTES

    def order(self):
        pass


def make_recorded_graphs(device, generators, uses_default_generator=True):
    """Takes the place of slipstream._cuda_graphs.make_graphs."""
    return RecordedGraphs(generators)
