"""Checks the arguments of slipstream.Trainer and converts them to native settings."""

from __future__ import annotations

import operator
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from . import _native
from ._checks import check, check_path, to_index
from ._stages import Stage, first_module, refuse_stages
from ._training_order import TrainingOrder
from .data import DataLoader, refuse_own_iteration
from .datasets import PythonSource
from .pipeline import Pipeline


def require_loader(source: Any, what: str = "slipstream.Trainer") -> DataLoader:
    """Returns the slipstream.DataLoader of `source`. Raises Refused if there is none, or if its data set is in Python.

    what: the beginning of error messages."""
    loader = source.loader if isinstance(source, Pipeline) else source
    if not isinstance(loader, DataLoader):
        raise _native.Refused(
            f"{what} reads a slipstream.DataLoader, or a slipstream.Pipeline around one, not "
            f"{type(loader).__name__}: the whole run is native. For other loaders put "
            "slipstream.Pipeline around them, and keep your own loop"
        )
    refuse_own_iteration(loader, what)
    if loader._readable is None or isinstance(loader._readable._native, PythonSource):
        raise _native.Refused(
            f"{what} reads native data sets, with native transforms or functions in Python, but this one is in "
            "Python: put slipstream.Pipeline around its loader, and keep your own loop"
        )
    loader._native_dataset()
    return loader


def refuse_several_processes(loader: DataLoader) -> None:
    """Raises Refused if torch.distributed has several processes. A trainer does not average gradients, so each process
    would train a different model."""
    world_size = loader._world_size()
    if world_size > 1:
        raise _native.Refused(
            "slipstream.Trainer trains in one process, but torch.distributed has been initialized with "
            f"{world_size}: give the loader rank=0 and world_size=1 and no sampler, or keep your own loop"
        )


class Calls:
    """The functions that the native training stage calls, with its stream as the current one. forward() keeps the
    model's output until loss() is called for the same batch, because a custom loss gets the unchanged output."""

    def __init__(
        self, model: torch.nn.Module, output: str | int | None, loss: Callable[..., Any] | None
    ) -> None:
        self.model, self._output, self._loss = model, output, loss
        self._whole: Any = None

    def forward(self, *inputs: torch.Tensor) -> Any:
        self._whole = None
        whole = self.model(*inputs)
        if isinstance(whole, torch.Tensor):
            return whole
        if self._loss is not None:
            self._whole = whole
        return self._chosen(whole)

    def loss(self, output: torch.Tensor, *targets: torch.Tensor) -> Any:
        whole, self._whole = self._whole, None
        assert self._loss is not None
        return self._loss(output if whole is None else whole, *targets)

    def _chosen(self, whole: Any) -> Any:
        if self._output is not None:
            try:
                return whole[self._output]
            except (IndexError, KeyError, TypeError):
                raise _native.Error(
                    f"output={self._output!r}: the model returned {_form(whole)}, which does not have this element"
                ) from None
        if self._loss is None:
            raise _native.Error(
                f"the model returned {_form(whole)}: select the element for the loss, such as output='logits', or give "
                "a custom loss, loss=function(output, labels)"
            )
        for each in whole.values() if isinstance(whole, Mapping) else whole:
            if isinstance(each, torch.Tensor):
                return each
        raise _native.Error(
            f"the model returned {_form(whole)}, which contains no tensor: return a tensor, or select one with output="
        )


def _form(whole: Any) -> str:
    name = type(whole).__name__
    if isinstance(whole, Mapping):
        return f"a {name} of {', '.join(repr(key) for key in whole)}"
    return f"a {name} of {len(whole)} elements" if isinstance(whole, tuple | list) else f"a {name}"


class _NumberedStage:
    """A stage that gets the same random numbers as in a slipstream.Pipeline. It converts the number of a batch through
    all epochs to epoch and index, from which a pipeline derives them."""

    def __init__(self, stage: Stage, device: str, batches_per_epoch: int) -> None:
        self._stage, self._device, self._batches = stage, device, batches_per_epoch

    def __call__(self, batch: tuple[Any, ...], number: int) -> Any:
        epoch, index = divmod(number, self._batches)
        with _native.KeyedDraws(self._device, self._stage._draw_seed(), (epoch << 32) + index):
            return self._stage._run(batch, (epoch << 32) + index)


def make_settings(
    source: Any, model: torch.nn.Module, options: dict[str, Any]
) -> _native.TrainerSettings:
    """Returns the native settings for the arguments of Trainer, and moves the model to the loader's device.

    options: arguments by name, except for those that Trainer handles itself. Raises Refused for invalid ones."""
    loader = require_loader(source)
    given = dict(options)
    settings = _native.TrainerSettings()
    _set_order(settings, loader)
    given["steps"] = count_steps(loader, given.pop("steps"), given.pop("epochs"))
    checkpoint = optional_path("checkpoint", given.pop("checkpoint"))
    _set_model(settings, loader, model, given)
    _set_stages(settings, source)
    check(accumulate=(given["accumulate"], 1), keep_last=(given["keep_last"], 1), log_every=(given["log_every"], 1))
    _call(settings.set_training, given, _TRAINING)
    _call(settings.set_schedule, given, _SCHEDULE)
    _add_groups(settings, model, given.pop("param_groups"), given["lr"])
    _set_metrics(settings, given.pop("metrics"), given.pop("num_classes"))
    _call(settings.set_log, {"log_dir": optional_path("log_dir", given.pop("log_dir"))} | given, _LOG)
    del given["log_every"]
    settings.checkpoint = checkpoint
    save_every = given.pop("save_every")
    if not settings.checkpoint and save_every is not None:
        raise _native.Refused("save_every needs checkpoint=DIR")
    check(save_every=(1 if save_every is None else save_every, 1))
    given["save_every"] = save_every or 0
    if given["progress"] is None:
        # sys.stderr may be None or an object without isatty(). bool() then returns False in its place.
        given["progress"] = bool(getattr(sys.stderr, "isatty", bool)())
    given["shows_progress"] = given.pop("progress")
    kinds = given.pop("no_weight_decay_on")
    given["no_weight_decay_on"] = kinds.split(",") if isinstance(kinds, str) else kinds
    for name, value in given.items():
        _set(settings, name, value)
    settings.threads = min(torch.get_num_threads(), 256)
    settings.command = ["python", *map(_readable, sys.argv)]
    kept: dict[str, Any] = {k: v for k, v in options.items() if isinstance(v, bool | int | float)}
    kept |= {k: _readable(v) for k, v in options.items() if isinstance(v, str)}
    settings.record_options(f"slipstream.Trainer of {type(model).__name__}", list(kept.items()))
    return settings


def _set_order(settings: _native.TrainerSettings, loader: DataLoader) -> None:
    """Makes the sampler of the loader list the batches, if there is one. Raises Refused for samplers whose order could
    not be repeated, or whose batches have no known number or size."""
    order = loader._listed_order()
    if order is None:
        return
    batch_size = loader.batch_size or to_index(getattr(order.batch_sampler, "batch_size", None))
    if not batch_size or batch_size < 1:
        raise _native.Refused(
            f"slipstream.Trainer needs the largest size of a batch, but {type(order.batch_sampler).__name__} has no "
            "attribute batch_size: set it to the size of its largest batch"
        )
    try:
        length = order.length()
    except (TypeError, NotImplementedError):
        length = 0
    if length < 1:
        raise _native.Refused(
            "slipstream.Trainer needs the number of batches in an epoch, but len() of the sampler is not known or 0: "
            "give the sampler a method __len__() that returns the number of its samples"
        )
    sampler = order.batch_sampler
    while sampler is not None:
        if getattr(sampler, "generator", sampler) is None:
            raise _native.Refused(
                f"the {type(sampler).__name__} uses PyTorch's default generator. PyTorch's default generator is also "
                "used by the model, so the order would differ from that of a plain loop: give the sampler "
                "generator=torch.Generator().manual_seed(1)"
            )
        sampler = getattr(sampler, "sampler", None)
    settings.set_order(TrainingOrder(order, loader._set_epoch_of_sampler), length, batch_size)


def check_callable(**functions: Any) -> None:
    for name, function in functions.items():
        if function is not None and not callable(function):
            raise _not_taken(name, function)


def optional_path(name: str, value: Any) -> str:
    """Returns a path as a string, and "" for None. Raises Refused for paths that are not UTF-8, because native settings
    are."""
    path = "" if value is None else check_path(name, value)
    try:
        path.encode()
    except UnicodeEncodeError:
        raise _not_taken(name, value) from None
    return path


def _readable(word: Any) -> str:
    """Returns a string that can be encoded as UTF-8, as JSON files require."""
    return str(word).encode("utf-8", "backslashreplace").decode()


def _set(settings: _native.TrainerSettings, name: str, value: Any) -> None:
    try:
        setattr(settings, name, value)
    except (TypeError, OverflowError):
        told = {"shows_progress": "progress", "inputs": "input", "targets": "target"}
        raise _not_taken(told.get(name, name), value) from None


# Arguments that are passed to one native function together, in its order, with the types that each may have.
_Kinds = dict[str, tuple[type, ...]]
_OR_NOT = (float, int, type(None))
_TRAINING: _Kinds = {"accumulate": (int,), "clip_grad": (float, int), "ema_decay": (float, int), "on_nan": (str,)}
_LOG: _Kinds = {"log_dir": (str,), "log_every": (int,)}
_SCHEDULE: _Kinds = {
    "schedule": (str,),
    "warmup_epochs": _OR_NOT,
    "warmup_steps": (int, type(None)),
    "lr_step_size": _OR_NOT,
    "lr_gamma": _OR_NOT,
    "lr_min": _OR_NOT,
}


def _call(function: Callable[..., None], given: dict[str, Any], kinds: _Kinds) -> None:
    values = {name: given.pop(name) for name in kinds}
    for name, value in values.items():
        is_number = float in kinds[name] and hasattr(value, "__float__")
        is_integer = int in kinds[name] and hasattr(value, "__index__")
        if not (isinstance(value, kinds[name]) or is_number or is_integer):
            raise _not_taken(name, value)
    try:
        function(*values.values())
    except TypeError:
        told = ", ".join(f"{name}={value!r}" for name, value in values.items())
        raise _native.Refused(
            f"one of the values {told} is too large or negative: give a smaller number that is at least 0"
        ) from None


def _not_taken(name: str, value: Any) -> _native.Refused:
    what = f"{name} is {value!r}, a {type(value).__name__}, which is not accepted: give a value of a documented type"
    return _native.Refused(f"{what} (help(slipstream.Trainer))")


def count_steps(loader: DataLoader, steps: int | None, epochs: int | None) -> int:
    if steps is None and epochs is None:
        raise _native.Refused("the length of the training is missing: give steps=N or epochs=N")
    if steps is not None and epochs is not None:
        raise _native.Refused("steps and epochs are both given: give only one of them")
    if steps is not None:
        check(steps=(steps, 1))
        return operator.index(steps)
    check(epochs=(epochs, 1))
    assert epochs is not None
    return operator.index(epochs) * len(loader)


def _set_model(
    settings: _native.TrainerSettings,
    loader: DataLoader,
    model: torch.nn.Module,
    given: dict[str, Any],
) -> None:
    # torch.compile() returns a wrapper. The wrapper is called, but the parameters are taken from the module inside it,
    # where their names have no prefix "_orig_mod.".
    compiled_from = getattr(model, "_orig_mod", model)
    _refuse_model(compiled_from)
    _refuse_complex(compiled_from)
    fields = loader._native_dataset().fields
    image = "image" if "image" in fields else fields[0]
    others = [name for name in ("label", "mask") if name in fields and name != image] + fields[1:]
    _set(settings, "inputs", _names("input", given.pop("input"), [image]))
    if not settings.inputs:
        raise _native.Refused(f"input contains no field name: give one or more of {', '.join(fields)}")
    _set(settings, "targets", _names("target", given.pop("target"), others[:1]))
    loss = given.pop("loss")
    if isinstance(loss, str) and loss != "cross_entropy":
        raise _native.Refused(
            f"there is no loss '{loss}': give 'cross_entropy', or a function of (output, labels)"
        )
    if not isinstance(loss, str) and not callable(loss):
        raise _not_taken("loss", loss)
    own = None if isinstance(loss, str) else loss
    if own is None and len(settings.targets) != 1:
        raise _native.Refused(
            f"cross_entropy takes one target, a field of labels, not {len(settings.targets)}; "
            f"batches have {', '.join(fields)}"
        )
    if own is not None and given["label_smoothing"]:
        raise _native.Refused("label_smoothing is only for the loss 'cross_entropy': leave it out")
    compiled_from.to(loader.device)
    calls = Calls(model, given.pop("output"), own)
    settings.module, settings.forward = compiled_from, calls.forward
    settings.loss = None if own is None else calls.loss


def _refuse_model(model: Any) -> None:
    if not isinstance(model, torch.nn.Module):
        raise _native.Refused(f"the model must be a torch.nn.Module, not {type(model).__name__}")
    if isinstance(model, torch.jit.ScriptModule):
        raise _native.Refused("the model is a TorchScript module: give the torch.nn.Module that was scripted or traced")
    parallel = (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)
    if isinstance(model, parallel):
        raise _native.Refused(
            f"slipstream.Trainer trains in one process: give the module inside the "
            f"{type(model).__name__}, or keep your own loop and put slipstream.Pipeline around it"
        )
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if torch.nn.parameter.is_lazy(tensor):
            raise _native.Refused(
                f"'{name}' is not initialized: call the model with a batch first, as lazy modules need"
            )


def _refuse_complex(model: torch.nn.Module) -> None:
    for name, parameter in model.named_parameters():
        if parameter.is_complex() and parameter.requires_grad:
            raise _native.Refused(
                f"the parameter '{name}' is {parameter.dtype}, which the optimizers do not support: keep "
                "torch.view_as_real() of it as the parameter, and call torch.view_as_complex() in forward()"
            )


def _set_stages(settings: _native.TrainerSettings, source: Any) -> None:
    stages: Sequence[Stage] = source.stages if isinstance(source, Pipeline) else ()
    refuse_stages(stages, 1)
    loader = require_loader(source)
    for stage in stages:
        if stage.cache is not None:
            raise _native.Refused(
                f"stage '{stage.name}' has a feature cache, which slipstream.Trainer does not use: leave the cache out, or "
                "keep your own loop over the slipstream.Pipeline"
            )
        module = first_module(stage.function)
        if module is not None:
            module.to(loader.device)
        numbered = _NumberedStage(stage, loader.device, len(loader))
        settings.add_stage(stage.name, module, numbered, stage._takes_number())
    # The default random generators belong to the process, so two threads could use the same one at the same time.
    settings.in_one_thread = any(stage._draw_seed() is not None for stage in stages)


def _add_groups(
    settings: _native.TrainerSettings, model: torch.nn.Module, groups: Any, default_lr: Any
) -> None:
    own = {id(parameter) for parameter in model.parameters()}
    taken: set[int] = set()
    try:
        groups = [dict(group) for group in groups]
    except (TypeError, ValueError):
        raise _not_taken("param_groups", groups) from None
    for number, group in enumerate(groups):
        params = _group_parameters(group)
        for parameter in params:
            if id(parameter) not in own:
                what = f"has {_describe_parameter(parameter)}, which is not a parameter of the model"
                raise _native.Refused(f"param_groups[{number}] {what}: give model.parameters(), or some of them")
            if id(parameter) in taken:
                what = (
                    f"has {_describe_parameter(parameter)}, which occurs twice in this group, or also in an earlier one"
                )
                raise _native.Refused(f"param_groups[{number}] {what}: give each parameter once")
            taken.add(id(parameter))
        lr = group.get("lr")
        # The native setting is the quotient of lr and the default, which would be 0 / 0.
        if default_lr == 0 and lr == 0:
            lr = None
        if default_lr == 0 and lr is not None:
            raise _native.Refused(
                f"param_groups[{number}] has lr={lr}, but the argument lr is 0, and a schedule multiplies both by the "
                "same factor: give an lr above 0, and put the other parameters into a group with lr=0"
            )
        try:
            settings.add_group(params, lr, group.get("weight_decay"))
        except TypeError:
            rest = {name: value for name, value in group.items() if name != "params"}
            raise _native.Refused(f"param_groups[{number}] has {rest}: lr and weight_decay must be numbers") from None


def _group_parameters(group: Mapping[str, Any]) -> list[Any]:
    unknown = sorted(set(group) - {"params", "lr", "weight_decay"}, key=str)
    if unknown or "params" not in group:
        raise _native.Refused(
            "a group in param_groups needs params, and can also have lr and weight_decay, but "
            + (f"this one has {unknown[0]!r}" if unknown else "this one has no params")
        )
    params = group["params"]
    if not isinstance(params, torch.Tensor | Iterable):
        raise _not_taken("params of param_groups", params)
    params = [params] if isinstance(params, torch.Tensor) else list(params)
    # Pairs of a name and a parameter are accepted, as in torch.optim.
    return [p[1] if isinstance(p, tuple) and len(p) == 2 else p for p in params]


def _describe_parameter(parameter: Any) -> str:
    if isinstance(parameter, torch.Tensor):
        return f"a tensor of {list(parameter.shape)}"
    return f"a {type(parameter).__name__}"


def _set_metrics(
    settings: _native.TrainerSettings, metrics: Any, num_classes: int | None
) -> None:
    if num_classes is not None:
        check(num_classes=(num_classes, 1))
        _set(settings, "num_classes", num_classes)
    if metrics is None:
        return
    try:
        if isinstance(metrics, str):
            raise TypeError
        named = dict(metrics) if isinstance(metrics, Mapping) else {name: name for name in metrics}
    except TypeError:
        raise _native.Refused(f"metrics is {metrics!r}: give a list of names, or a mapping") from None
    for name, value in named.items():
        if not isinstance(name, str) or not (isinstance(value, str) or callable(value)):
            raise _native.Refused(
                f"metrics has {value!r} for {name!r}: give the name of a metric, or a function(output, *target)"
            )
    _set(settings, "metrics", [name for name, value in named.items() if isinstance(value, str)])
    _set(settings, "own_metrics", [(name, f) for name, f in named.items() if not isinstance(f, str)])


def _names(option: str, given: Any, otherwise: list[str]) -> list[str]:
    if given is None:
        return otherwise
    try:
        names = [given] if isinstance(given, str) else list(given)
    except TypeError:
        raise _not_taken(option, given) from None
    if not all(isinstance(name, str) for name in names):
        raise _not_taken(option, given)
    return names


def as_arguments(refused: _native.Refused) -> _native.Refused:
    """Returns the error with the options of the command line renamed to arguments of Python, such as --save-every to
    save_every. Paths that contain such a word are not changed."""
    option = r"(?<![^\s'\"(])--([a-z][a-z-]*)(?![\w/-]|\.\w)"
    text = re.sub(option, lambda match: match[1].replace("-", "_"), str(refused))
    return _native.Refused(text)
