"""A CUDA graph for CPUs: records the operations of a function and repeats them, for tests of what surrounds graphs."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten


class Recorder(TorchDispatchMode):
    """Records operations. As in a capture, no tensor that existed before keeps a change."""

    def __init__(self):
        super().__init__()
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
        self.operations.append((func, args, kwargs, result))
        given = {each.untyped_storage()._cdata for each in tensors_in((args, kwargs))}
        self.made |= {each.untyped_storage()._cdata for each in tensors_in(result)} - given
        return result

    def save(self, given):
        for each in tensors_in(given):
            key = each.untyped_storage()._cdata
            if key not in self.made and (key, each.storage_offset()) not in self.before:
                self.before[key, each.storage_offset()] = (each, each.clone())

    def restore(self):
        with torch.no_grad():
            for tensor, value in self.before.values():
                tensor.copy_(value)

    def replay(self):
        with torch.no_grad():
            for func, args, kwargs, result in self.operations:
                again = func(*args, **kwargs)
                for mine, new in zip(tensors_in(result), tensors_in(again), strict=True):
                    if mine.data_ptr() != new.data_ptr():
                        mine.copy_(new)


def tensors_in(tree):
    return [each for each in tree_flatten(tree)[0] if isinstance(each, torch.Tensor)]


class RecordedGraphs:
    """Has the methods of CudaGraphs."""

    def __init__(self, generators):
        self.generators = [torch.default_generator, *generators]

    def capture(self, function):
        recorder, states = Recorder(), [each.get_state() for each in self.generators]
        try:
            with recorder:
                function()
        finally:
            recorder.restore()
            for generator, state in zip(self.generators, states, strict=True):
                generator.set_state(state)
        return recorder.replay

    def order(self):
        pass


def make_recorded_graphs(device, generators, uses_default_generator=True):
    """Takes the place of slipstream._cuda_graphs.make_graphs."""
    return RecordedGraphs(generators)
