"""slipstream.capture: runs a training step as CUDA graphs."""

from __future__ import annotations

import operator
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from . import _cuda_graphs, _native, _trees
from ._checks import check, choose
from ._examination import Examination, objection_to_changes
from ._graph_keys import Arguments, Unsupported, with_tensors
from ._graph_memory import Events
from ._held_objects import Wrapper
from ._held_values import HeldValues, Replaced, find_changed, is_constant
from ._random_states import host_states
from ._signals import add_note
from ._state_guard import StateGuard, cloned
from ._step_state import StepState, are_results_reproducible, are_same, find_difference

__all__ = ["CapturedStep", "capture"]

_MOST_CALLS = 32  # combinations of arguments and modes of one step that have or may get a graph
_OF_GRAPHS = (
    "_calls", "_last", "_last_grads", "_last_has_grad", "_shapes", "_state", "_graphs", "_grads",
)  # fmt: skip
_MOST_SEARCHES = 2  # that find objects which a step created in its first calls


def capture(
    step: Callable[..., Any],
    modules: Sequence[torch.nn.Module] = (),
    optimizers: Sequence[torch.optim.Optimizer] = (),
    new_shapes: str = "eager",
    generators: Sequence[torch.Generator] = (),
    warmup: int = 3,
    checks: int = 2,
    slots: int = 4,
) -> CapturedStep:
    """Returns a function that does the same as `step`, but runs its work on the GPU as CUDA graphs.

    A graph is launched with one call, so the GPU does not wait until Python has launched each kernel. The first calls
    run `step` as usual; later calls replay a graph that was recorded once. On a CPU, each call runs `step` as usual.

    Arguments:
        step (callable): forward pass, loss, backward pass and optimizer. It gets tensors on the device, also in tuples,
            lists and mappings, and Python numbers and strings. What it returns is returned: tensors detached from the
            autograd graph and in new memory, other values as they were when the graph was recorded. It must
            not write to its arguments.
        modules (sequence, default ()): modules that `step` uses but that are not found. Global and enclosing variables,
            attributes, and elements of lists, tuples and mappings are searched.
        optimizers (sequence, default ()): optimizers that `step` uses, likewise.
        new_shapes (str, default "eager"): "eager" records a graph only for the shapes of the first recorded call. Other
            calls, such as one with a smaller last batch, run without. "capture" records a graph for each shape.
        generators (sequence, default ()): generators on the GPU that `step` uses, other than the default one.
        warmup (int, default 3): number of calls, at least 1, before a graph is recorded. They train as usual.
        checks (int, default 2): number of replays whose results are compared with those of `step`, run on the same
            state. 0 compares nothing.
        slots (int, default 4): maximum number of graphs that read a batch in place. If a loader reuses a few buffers,
            each buffer gets its own graph. All other batches are first copied to the memory of one graph.

    The optimizers are changed on a GPU: `capturable` is set, and learning rates of Adam, AdamW and fused SGD become
    tensors on the device. Raises Refused for invalid arguments. Calls raise Error if a module was moved, a parameter
    replaced, an optimizer's state or groups changed, or a variable that leads to them assigned after a graph was
    recorded, and if a replay gives other results than `step`. A step that cannot be recorded runs without graphs, after
    a warning that says why.

    >>> model = torch.nn.Linear(4, 2)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> def train_step(x, y):
    ...     loss = torch.nn.functional.mse_loss(model(x), y)
    ...     loss.backward()
    ...     optimizer.step()
    ...     optimizer.zero_grad()
    ...     return loss
    >>> step = ss.capture(train_step)
    >>> losses = [step(torch.ones(8, 4), torch.zeros(8, 2)) for _ in range(5)]
    >>> bool(losses[4] < losses[0]), step.graphs
    (True, 0)
    """
    problems = choose(new_shapes=(new_shapes, ("eager", "capture")))
    if not callable(step):
        problems.append(f"step is of type {type(step).__name__}: give a function that trains on one batch")
    kinds = torch.nn.Module, torch.optim.Optimizer, torch.Generator
    named = ("modules", modules), ("optimizers", optimizers), ("generators", generators)
    for (name, given), kind in zip(named, kinds, strict=True):
        if not isinstance(given, list | tuple) or not all(isinstance(each, kind) for each in given):
            what = f"{name} must be a list of objects of {kind.__module__}.{kind.__name__}"
            problems.append(f"{what}, not {type(given).__name__}: give [] if there are none")
    check(problems, warmup=(warmup, 1), checks=(checks, 0), slots=(slots, 0))
    return CapturedStep(step, tuple(modules), tuple(optimizers), new_shapes, tuple(generators), warmup, checks, slots)


class Guard(Protocol):
    """Saves state when it is created."""

    def restore(self) -> list[str]:
        """Restores the state. Returns sentences about what could not be restored."""
        ...

    def restore_tensors(self) -> list[str]:
        """Restores the state after a replay, which runs no Python. Returns sentences about what could not be
        restored."""
        ...


class CapturedStep(Wrapper):
    """The result of capture(). One thread may call it.

    Attributes:
        graphs (int): number of graphs that were recorded.
        replays (int): number of calls that replayed a graph.
        memory_bytes (int): predicted number of bytes that the graphs reserve on the GPU, in addition to the memory of
            calls without graphs. It is known after the last call before the first graph is recorded; 0 before, and if
            the history of PyTorch's allocator is recorded meanwhile.
    """

    graphs: int
    replays: int
    memory_bytes: int

    def __init__(
        self,
        step: Callable[..., Any],
        modules: Sequence[torch.nn.Module],
        optimizers: Sequence[torch.optim.Optimizer],
        new_shapes: str,
        generators: Sequence[torch.Generator],
        warmup: int,
        checks: int,
        slots: int,
    ) -> None:
        self._step, self._modules, self._optimizers = step, modules, optimizers
        self._new_shapes, self._generators = new_shapes, generators
        self._warmup, self._checks, self._slots = warmup, checks, slots
        self._warned: set[str] = set()
        self._reason = ""  # why calls ran without a graph
        self.graphs = self.replays = 0
        self._is_observed = False  # by a dispatch mode that sees replays
        self._number = -1  # of the current call
        self.reset()

    def reset(self) -> None:
        """Frees all graphs. Later calls record new ones, after `warmup` calls without.

        Call it after a change of the model or the optimizer that a graph cannot follow, such as
        optimizer.load_state_dict()."""
        self._calls: dict[Any, CallRecord] = {}
        self._last: CallRecord | None = None  # of the last call
        self._last_grads: list[torch.Tensor | None] = []  # gradients before the last call, in the memory of graphs
        self._last_has_grad: tuple[bool, ...] = ()
        self._shapes: dict[Any, Any] = {}  # of the first graph for each combination of other arguments
        self.graphs = self.memory_bytes = 0
        self._searches = 0
        self._late_searches = 0  # after the first calls
        self._is_refused = False  # whether the step replaces its state, so that each call would search again
        self._state = StepState(print, (), ())
        self._graphs: _cuda_graphs.Graphs | None = None

    def __get__(self, instance: Any, owner: Any = None) -> CapturedStep:
        """Called for a captured step that is an attribute of a class. Refuses methods, because the objects of a class
        cannot share graphs."""
        code = getattr(self._step, "__code__", None)
        if instance is not None and code is not None and code.co_varnames[: code.co_argcount][:1] == ("self",):
            raise _native.Refused(
                f"ss.capture decorates the method {self._name()}, but each object needs its own graphs: capture the "
                "bound method in __init__(), self.step = ss.capture(self.step)"
            )
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Returns the state for copies and pickles, which have no graphs."""
        return {key: value for key, value in vars(self).items() if key not in _OF_GRAPHS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.reset()

    def held(self) -> list[tuple[str, Any]]:
        named = [("modules", self._modules), ("optimizers", self._optimizers), ("generators", self._generators)]
        return [("", self._step), *((f"{name}[{i}]", each) for name, given in named for i, each in enumerate(given))]

    def _renew(self, state: StepState | None = None) -> None:
        self._searches += 1
        self._state = self._make_state() if state is None else state
        self._grads: list[torch.Tensor | None] = [None] * len(self._state.parameters)
        self._last_grads = []
        self._graphs = None if self._state.is_empty() else self._make_graphs()
        if self._graphs is not None and (reason := self._state.unsupported()):
            self._graphs = None
            self._warn(reason)
        if self._graphs is not None:
            with torch.inference_mode(False):  # a scheduler may later write to the learning rates
                self._state.prepare_optimizers()

    def _is_found_late(self) -> bool:
        """Searches again before the first graph. Returns true if the step uses objects that did not exist before, so
        that the calls that were counted do not count."""
        if self.graphs > 0 or self._late_searches >= _MOST_SEARCHES:
            return False
        state = self._make_state()
        if state.refers_to_same_objects(self._state):
            return False
        self._late_searches += 1
        self._renew(state)
        self._calls.clear()
        self._last = None
        return True

    def _make_state(self) -> StepState:
        return StepState(self._step, self._modules, self._optimizers)

    def _make_graphs(self) -> _cuda_graphs.Graphs | None:
        return _cuda_graphs.make_graphs(self._state.device, self._generators)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs one step, with the arguments of `step`.

        Arguments:
            args, kwargs: the arguments of `step`.

        Returns what `step` returns. Does not wait for the device."""
        self._number += 1
        # A dispatch mode must see each operation of the step, and no others.
        self._is_observed = torch._C._len_torch_dispatch_stack() > 0
        if self._is_observed and not _cuda_graphs.may_be_used():
            return self._run(args, kwargs)
        if self._is_refused:
            return self._run(args, kwargs)
        self._check_state()
        if self._graphs is None:
            return self._run(args, kwargs)
        self._graphs.order()
        try:
            given = Arguments(args, kwargs)
            tensors = given.tensors
            self._refuse_unknown(given.objects)
            call = self._record_of_call(given.structure, tensors)
        except Unsupported as error:
            self._warn(str(error))
            return self._run(args, kwargs)
        graph = None if call is None else self._graph(call, args, kwargs, tensors)
        if call is not None and call.is_due(self._warmup):
            return self._examine(call, args, kwargs, tensors)
        if call is None or graph is None:
            result = self._run_measured(call, args, kwargs)
            # If the step itself raises an exception, the capture is tried again in the next call.
            if call is not None and call.reason and not call.is_eager:
                call.is_eager = True
                self._warn(call.reason)
            return result
        self.replays += 1
        # slipstream.verify compares whole runs. A comparison here would wait for the device, which hides races.
        if call.checks > 0 and not self._is_observed:
            call.checks -= 1
            return self._checked_replay(call, graph, args, kwargs, tensors)
        return self._replay(graph, tensors)

    def __repr__(self) -> str:
        return f"CapturedStep({self._name()}, graphs={self.graphs}, replays={self.replays})"

    def _check_state(self) -> None:
        """Raises Error if graphs use memory that was replaced."""
        # A step may create its model in its first call.
        if self._searches == 0 or (self._state.is_empty() and self._searches <= self._warmup):
            self._renew()
        elif self._state.is_empty() and self._searches == self._warmup + 1 and _cuda_graphs.are_possible():
            self._searches += 1
            self._warn(
                "it refers to no module, optimizer or tensor. Remedy: name those that it uses, "
                "slipstream.capture(step, modules=[...], optimizers=[...])"
            )
        change = self._state.changed()
        if change and self.graphs == 0:
            self._renew()
        elif change:
            raise _native.Error(
                f"{change}, after a graph of {self._name()} was recorded, which uses the earlier memory. Remedy: call "
                "reset() of the captured step after such a change"
            )

    def _name(self) -> str:
        return _name(self._step)

    def _run(self, args: Any, kwargs: Any) -> Any:
        # In an autocast block around the loop, PyTorch would use the weights that it converted in an earlier step.
        torch.clear_autocast_cache()
        result = _trees.mapped(self._step(*args, **kwargs), _detached)
        self._state.ignore_assigned()
        return result

    def _examine(self, call: CallRecord, args: Any, kwargs: Any, tensors: list[torch.Tensor]) -> Any:
        """Runs the step, and finds out whether a graph can do the same. Returns what the step returns."""
        examination = Examination(self._state, self._roots(), self._generators)
        result = examination.run(lambda: self._run_measured(call, args, kwargs))
        reason = examination.objection(tensors) or _objection_to_result(result)
        call.is_examined = not reason
        if reason and call.can_try_again:
            # The step may have created objects in this call, such as the state of an optimizer.
            call.can_try_again = False
            call.warmed -= 1
            call.allocations = None
        elif reason:
            call.is_eager = True
            self._is_refused = self.graphs == 0 and bool(self._state.replaced())
            self._warn(reason)
        return result

    def _run_measured(self, call: CallRecord | None, args: Any, kwargs: Any) -> Any:
        """Runs the step. In the last call before a graph is recorded, also predicts the memory of the graph."""
        is_last = call is not None and call.warmed == self._warmup and call.allocations is None and not call.is_eager
        if call is None or self._graphs is None or not is_last or self._is_observed:
            return self._run(args, kwargs)
        result, call.allocations = self._graphs.measure(lambda: self._run(args, kwargs))
        if call.allocations is not None and self.graphs == 0:
            self.memory_bytes = self._graphs.memory.bytes_with(call.allocations)
        return result

    def _lacking_memory(self, call: CallRecord) -> str:
        """Returns a sentence if there is not enough memory for one more graph; "" otherwise."""
        if self._graphs is None or call.allocations is None:
            return ""
        memory = self._graphs.memory
        needed, available = memory.bytes_with(call.allocations) - memory.bytes, self._graphs.available_bytes()
        if needed <= available:
            return ""
        return (
            f"a graph needs {needed / 2**30:.2f} GiB in addition to the memory of calls without a graph, and "
            f"{available / 2**30:.2f} GiB are available. Remedy: use smaller batches"
        )

    def _record_of_call(self, structure: Any, tensors: list[torch.Tensor]) -> CallRecord | None:
        """Returns the record of calls with such arguments, or None if they get no graph because of their shapes."""
        if problem := self._problem(tensors):
            raise Unsupported(problem)
        modes, hyperparameters = self._variant()
        variant = (structure, modes, hyperparameters)
        shapes = tuple([(each.shape, each.stride(), each.dtype) for each in tensors])
        # Comparing with the last call takes less time than computing the hash. Numbers of an optimizer may be replaced by
        # tensors, which must not be compared with ==.
        last = self._last
        if last is not None and last.shapes == shapes and last.variant[:2] == variant[:2]:
            if are_same(last.variant[2], hyperparameters):
                return last
        self._last = self._find_record(variant, shapes)
        return self._last

    def _find_record(self, variant: Any, shapes: Any) -> CallRecord | None:
        if self._new_shapes == "eager" and self._shapes.get(variant, shapes) != shapes:
            return None
        # The records are in the order of their last use.
        call = self._calls.pop((variant, shapes), None)
        if call is None:
            call = CallRecord(variant, shapes, self._checks)
        self._calls[variant, shapes] = call
        if len(self._calls) > _MOST_CALLS:
            self._drop_record()
            self._warn(
                f"it was called with more than {_MOST_CALLS} combinations of shapes, Python numbers, modes, numbers in "
                "variables that it reads and numbers in the groups of optimizers, and each would need a graph. Remedy: "
                "give numbers that change as tensors on the device, use optimizers whose learning rate can be on the "
                "device (Adam, AdamW, SGD with fused=True), and schedulers that change only the learning rate "
                "(cycle_momentum=False)"
            )
        return call

    def _drop_record(self) -> None:
        """Drops the record that was not used for the longest time, if possible one without graph. Keeps the newest."""
        keys = list(self._calls)[:-1]
        key = next((key for key in keys if not self._calls[key].has_graph()), keys[0])
        call = self._calls.pop(key)
        if call.has_graph() and self._shapes.get(call.variant) == call.shapes:
            del self._shapes[call.variant]

    def _variant(self) -> tuple[Any, tuple[Any, ...]]:
        """Returns everything but the arguments on which the operations of a step depend: modes, numbers in variables,
        and the numbers in the groups of optimizers."""
        state = self._state
        modes = (state.modes(), torch_modes(state.device.type), self._has_gradients(), state.constants())
        return modes, state.hyperparameters()

    def _has_gradients(self) -> tuple[bool, ...]:
        """Returns which parameters have gradients, after moving these to the memory that graphs use."""
        grads = list(map(_grad, self._state.parameters))
        if not are_same(grads, self._last_grads):
            if any([grad is not kept and grad is not None for grad, kept in zip(grads, self._grads, strict=True)]):
                self._move_gradients(grads)
                grads = list(map(_grad, self._state.parameters))
            self._last_grads, self._last_has_grad = grads, tuple([grad is not None for grad in grads])
        return self._last_has_grad

    def _move_gradients(self, grads: list[torch.Tensor | None]) -> None:
        """Copies gradients to the memory where graphs read and write them. Before the first graph, this is where they
        are."""
        for i, (parameter, grad) in enumerate(zip(self._state.parameters, grads, strict=True)):
            kept = self._grads[i]
            if self.graphs == 0 or (kept is None and grad is not None):
                self._grads[i] = grad
            elif grad is not None and kept is not None and grad is not kept:
                parameter.grad = kept.copy_(grad)

    def _refuse_unknown(self, objects: list[tuple[str, Any]]) -> None:
        """Raises Unsupported if the arguments lead to a module, optimizer, tensor or generator whose changes would not
        be noticed."""
        for name, each in objects:
            what = f"a function among its arguments uses '{name}', a {type(each).__name__}"
            if isinstance(each, torch.Generator):
                if not any(each is known for known in self._generators):
                    what = what if name else "one of its arguments is a random generator"
                    raise Unsupported(f"{what}. Remedy: name it in slipstream.capture(step, generators=[...])")
            elif not self._state.knows(each):
                remedy = "name it in slipstream.capture(step, modules=[...], optimizers=[...])"
                if isinstance(each, torch.Tensor):
                    remedy = "give the tensor as an argument"
                what = what if name else f"one of its arguments is a {type(each).__name__}"
                raise Unsupported(f"{what}. Remedy: {remedy}")

    def _problem(self, tensors: list[torch.Tensor]) -> str:
        device = self._state.device
        for i, tensor in enumerate(tensors):
            if tensor.is_nested:
                return f"tensor {i} of its arguments is nested"
            if tensor.is_conj() or tensor.is_neg():
                return (
                    f"tensor {i} of its arguments has a pending conjugation or negation. Remedy: "
                    "resolve_conj().resolve_neg()"
                )
            if tensor.device != device:
                return f"tensor {i} of its arguments is on {tensor.device}. Remedy: copy it to {device} before the call"
            if tensor.requires_grad:
                return f"tensor {i} of its arguments requires gradients. Remedy: detach() it, or compute it in the step"
            if type(tensor) is not torch.Tensor or tensor.layout != torch.strided:
                return f"tensor {i} of its arguments is of class {type(tensor).__name__}, layout {tensor.layout}"
        return ""

    def _warn(self, reason: str) -> None:
        self._reason = reason
        self._say(f"{self._name()} runs without CUDA graph: {reason}")

    def _say(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            warnings.warn(f"slipstream: {text}", stacklevel=_level_of_caller())

    def _graph(self, call: CallRecord, args: Any, kwargs: Any, tensors: list[torch.Tensor]) -> _Graph | None:
        """Returns the graph for these arguments, and records it if it is time to do so."""
        addresses = tuple([each.data_ptr() for each in tensors])
        if call.is_eager:
            return None
        if graph := call.by_address.get(addresses):
            return graph
        is_known = addresses in call.seen
        if not is_known and len(call.seen) < 4 * self._slots:
            call.seen.add(addresses)
        if call.warmed < self._warmup:
            call.warmed += 1
            if call.warmed == self._warmup and self._is_found_late():
                call.warmed = 0
            return None
        if not call.is_examined:
            return None
        # In slipstream.verify, addresses may depend on delays, but each run must call the same operations.
        reads_arguments = is_known and len(call.by_address) < self._slots and not self._is_observed
        if not reads_arguments and call.copying is not None:
            return call.copying
        if self._is_found_late():
            return None
        if lacking := self._lacking_memory(call):
            call.reason = lacking
            return None
        made = self._capture(call, args, kwargs, tensors, reads_arguments)
        if made is not None and reads_arguments:
            call.by_address[addresses] = made
        elif made is not None:
            call.copying = made
        return made

    def _guard(self) -> Guard:
        """Returns an object whose restore() undoes what the step does."""
        return StateGuard(self._roots())

    def _roots(self) -> list[tuple[str, Any]]:
        """Returns the step and other objects that it uses, with their names."""
        roots: list[tuple[str, Any]] = [(self._name(), self._step)]
        roots += [(f"modules[{i}]", each) for i, each in enumerate(self._modules)]
        roots += [(f"optimizers[{i}]", each) for i, each in enumerate(self._optimizers)]
        return [*roots, *((f"generators[{i}]", each) for i, each in enumerate(self._generators))]

    def _capture(
        self, call: CallRecord, args: Any, kwargs: Any, tensors: list[torch.Tensor], reads_arguments: bool
    ) -> _Graph | None:
        """Records a graph. Returns None, and changes nothing, if that is not possible."""
        assert self._graphs is not None
        graph = _Graph()
        with torch.inference_mode(False):
            inputs = tensors if reads_arguments else [torch.empty_like(each).copy_(each) for each in tensors]
        graph.inputs = None if reads_arguments else inputs
        args, kwargs = with_tensors((args, kwargs), inputs)
        before = [parameter.grad for parameter in self._state.parameters]
        kept, versions = list(self._grads), list(map(_version, inputs))
        with _cuda_graphs.unobserved():
            known, guard = set(self._state.values()), self._guard()
            values = HeldValues(self._roots(), self._generators)

        def record() -> None:
            graph.outputs = _trees.mapped(self._step(*args, **kwargs), _detached)
            self._keep_gradients(before, graph)

        torch.clear_autocast_cache()
        reason, is_recorded = "", False
        try:
            graph.run = self._graphs.capture(record)
            is_recorded = True
            self._state.ignore_assigned()
            with _cuda_graphs.unobserved():
                graph.assigned = values.replaced()
                reason = self._objection(known, inputs, versions) or objection_to_changes(values.changes())
        except Exception as error:
            reason = _cuda_graphs.describe_failure(error)
        finally:
            # Weights that autocast has converted during the capture are in the memory of the graph.
            torch.clear_autocast_cache()
            for parameter, grad in zip(self._state.parameters, before, strict=True):
                parameter.grad = grad
            if reason or not is_recorded:
                self._grads = kept
                with _cuda_graphs.unobserved():
                    values.restore()
                    problems = guard.restore()
                reason = ". ".join([reason, *problems]) if reason else ""
        if not reason:
            self.graphs += 1
            if call.allocations is not None:
                self._graphs.memory.add(call.allocations)
                self.memory_bytes = self._graphs.memory.bytes
            self._state.keep_optimizer_states()
            self._shapes.setdefault(call.variant, call.shapes)
            return graph
        call.reason = reason
        return None

    def _keep_gradients(self, before: list[torch.Tensor | None], graph: _Graph) -> None:
        """Copies gradients that the step leaves in new memory to where all graphs read them. Runs in the capture."""
        for i, parameter in enumerate(self._state.parameters):
            grad = parameter.grad
            if grad is not None and self._grads[i] is None:
                self._grads[i] = grad
            elif grad is not None and grad is not self._grads[i]:
                grad = self._grads[i].copy_(grad)  # type: ignore[union-attr]
            if grad is not before[i]:
                graph.gradients.append((parameter, grad))

    def _objection(self, known: set[str], inputs: list[torch.Tensor], versions: list[int]) -> str:
        """Returns a reason not to use a graph that was recorded; "" if there is none."""
        for i, (tensor, version) in enumerate(zip(inputs, versions, strict=True)):
            if _version(tensor) != version:
                return f"it writes to tensor {i} of its arguments. Remedy: let it write to a clone()"
        if made := {name for name in self._state.values() if not name.endswith(".grad")} - known:
            return f"it created {min(made)} during the capture, which each replay would create again"
        if change := self._state.replaced():
            return f"after a call, {change}. Remedy: write to tensors in place"
        return ""

    def _replay(self, graph: _Graph, tensors: list[torch.Tensor]) -> Any:
        try:
            if graph.inputs is not None:
                for mine, given in zip(graph.inputs, tensors, strict=True):
                    mine.copy_(given)
            graph.run()
        except Exception as error:
            add_note(
                error,
                f"raised when call {self._number} of {self._name()} (counted from 0) replayed its CUDA graph. A GPU "
                "works after the call that starts the work, so the cause may be in an earlier call",
            )
            raise
        for parameter, grad in graph.gradients:
            parameter.grad = grad
        for each in graph.assigned:
            each.assign(_trees.mapped(each.new, _copied))
        outputs = graph.outputs
        return outputs.clone() if type(outputs) is torch.Tensor else _trees.mapped(outputs, _copied)

    def _checked_replay(
        self, call: CallRecord, graph: _Graph, args: Any, kwargs: Any, tensors: list[torch.Tensor]
    ) -> Any:
        """Replays a graph, restores the state before, and runs the step. Returns the results of the step, which must
        be those of the graph."""
        guard = self._guard()
        if problems := guard.restore_tensors():
            # Nothing has changed yet, so this replay counts. After a replay it would be too late to find out.
            self._stop_comparing(call, problems)
            return self._replay(graph, tensors)
        before = {name: cloned(each) for name, each in self._state.values().items()}
        args, kwargs = with_tensors((args, kwargs), [each.clone() for each in tensors])
        result = self._replay(graph, tensors)
        replayed, constants = self._copied_values(result), _constants(result)
        problems, again = guard.restore_tensors(), None
        if not problems and not are_results_reproducible():
            again = self._copied_values(self._replay(graph, tensors))
            problems = guard.restore_tensors()
        result = self._run(args, kwargs)
        if problems:
            self._stop_comparing(call, problems)
        elif name := (
            find_difference(before, self._values(result), replayed, again)
            or find_changed(constants, _constants(result))
        ):
            call.is_eager = True
            self._report_difference(name)
        return result

    def _stop_comparing(self, call: CallRecord, problems: list[str]) -> None:
        call.checks = 0
        self._say(f"{self._name()} is not compared with its graph: {problems[0]}")

    def _copied_values(self, result: Any) -> dict[str, torch.Tensor]:
        return {name: cloned(each) for name, each in self._values(result).items()}

    def _report_difference(self, name: str) -> None:
        raise _native.Error(
            f"the graph of {self._name()} computes another value of {name} than the step itself. The results of "
            "the step itself are used, and later calls run without this graph. Remedy: a graph repeats the Python "
            "values and branches with which it was recorded, so give what changes as an argument (a Python number, or "
            "a tensor on the device); checks=0 turns this comparison off"
        )

    def _values(self, result: Any) -> dict[str, torch.Tensor]:
        found = self._state.values()
        for i, leaf in enumerate(_trees.leaves(result)):
            if isinstance(leaf, torch.Tensor):
                found[f"result {i}"] = leaf
        for name, state in host_states().items():
            if name == "torch":
                found["PyTorch's random generator of the CPU"] = state
            elif state is not None:
                found[f"the random generator of {name}"] = torch.tensor(hash(repr(state)))
        if self._state.device.type == "cuda":
            found["PyTorch's random generator of the GPU"] = torch.cuda.get_rng_state(self._state.device)
        return found


class CallRecord:
    """Calls with the same structure, shapes, Python values and modes."""

    def __init__(self, variant: Any, shapes: Any, checks: int) -> None:
        self.variant, self.shapes, self.checks = variant, shapes, checks
        self.warmed = 0
        self.allocations: Events | None = None  # of a call without a graph
        self.is_eager = False
        self.is_examined = False  # whether the step was examined, and a graph can do the same
        self.can_try_again = True  # whether it may be examined again
        self.reason = ""  # why the last capture failed
        self.seen: set[tuple[int, ...]] = set()  # addresses of arguments
        self.by_address: dict[tuple[int, ...], _Graph] = {}
        self.copying: _Graph | None = None

    def is_due(self, warmup: int) -> bool:
        """Returns true if the step must be examined in this call."""
        return self.warmed == warmup and not self.is_examined and not self.is_eager

    def has_graph(self) -> bool:
        return self.copying is not None or bool(self.by_address)


class _Graph:
    """A graph, and the memory that it reads and writes."""

    run: Callable[[], None]
    inputs: list[torch.Tensor] | None  # None if it reads the arguments where they are
    outputs: Any

    def __init__(self) -> None:
        self.gradients: list[tuple[torch.Tensor, torch.Tensor | None]] = []  # those that the step adds or removes
        self.assigned: list[Replaced] = []  # variables and attributes to which the step assigns tensors


def torch_modes(device: str) -> tuple[Any, ...]:
    """Returns the modes of PyTorch on which the operations of a step depend."""
    autocast = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        autocast,
        torch.are_deterministic_algorithms_enabled(),
        torch.get_float32_matmul_precision(),
        torch.backends.cudnn.benchmark,
        torch.backends.cudnn.deterministic,
        torch.get_default_dtype(),
        torch.is_anomaly_enabled(),
        torch.is_autocast_cache_enabled(),
        torch._C._len_torch_function_stack(),
        torch._C._get_cudnn_enabled(),
        torch._C._get_cudnn_allow_tf32(),
        torch._C._get_flash_sdp_enabled(),
        torch._C._get_mem_efficient_sdp_enabled(),
        torch._C._get_math_sdp_enabled(),
        torch._C._get_cudnn_sdp_enabled(),
    )


def _objection_to_result(result: Any) -> str:
    for leaf in _trees.leaves(result):
        if not isinstance(leaf, torch.Tensor) and not is_constant(leaf):
            return (
                f"it returns an object of type {type(leaf).__name__}. Remedy: return tensors and numbers, also in "
                "tuples, lists, mappings and data classes"
            )
    return ""


def _constants(result: Any) -> list[tuple[str, Any]]:
    return [(f"result {i}", leaf) for i, leaf in enumerate(_trees.leaves(result)) if not isinstance(leaf, torch.Tensor)]


def _detached(leaf: Any) -> Any:
    return leaf.detach() if isinstance(leaf, torch.Tensor) else leaf


def _copied(leaf: Any) -> Any:
    return leaf.clone() if isinstance(leaf, torch.Tensor) else leaf


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def _level_of_caller() -> int:
    """Returns the argument `stacklevel` with which warnings of the calling function name the line of the user."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(f"{__package__}."):
        frame, level = frame.f_back, level + 1
    return level


_grad = operator.attrgetter("grad")
_qualified = operator.attrgetter("__qualname__")


def _name(step: Callable[..., Any]) -> str:
    try:
        return str(_qualified(step))
    except AttributeError:
        return type(step).__name__
