"""The key of a feature cache: everything that its entries depend on, as text that is the same in each process."""

from __future__ import annotations

import enum
import functools
import hashlib
import importlib.metadata
import inspect
import json
import os
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from . import _native
from ._held_objects import Wrapper, globals_named
from ._stages import Stage, first_module
from ._torchvision import is_of_torchvision
from ._transform_parts import display_name, split_transform
from ._trees import leaves, view_bytes
from .datasets import ConcatDataset, Dataset, PythonDataset, PythonSource, Subset
from .image_folder import ImageFolder
from .transforms import Compose, Transform

_COMPILER_OPTIONS = ("compiler_config", "export", "_dynamic")  # attributes of what torch.compile() returns
_PLAIN = (type(None), bool, int, float, str, tuple, torch.dtype, torch.device, torch.Tensor)
_LIBRARIES = ("torch.", "torchvision.", "slipstream.")


class NeedsKey(Exception):
    """Raised for an object whose content has no stable description. The argument says which object, as a clause."""


def digest(*parts: Any) -> str:
    """Returns a digest of bytes, as 128 bits in hexadecimal digits."""
    hashed = hashlib.blake2b(digest_size=16)
    for part in parts:
        hashed.update(len(part).to_bytes(8, "little"))
        hashed.update(part)
    return hashed.hexdigest()


def number_digest(*values: Any) -> int:
    """Returns a digest of plain values as a signed integer of 64 bits."""
    hashed = hashlib.blake2b(repr(values).encode(errors="surrogateescape"), digest_size=8)
    return int.from_bytes(hashed.digest(), "little", signed=True)


def tensor_digest(tensor: torch.Tensor) -> str:
    """Returns a digest of the dtype, shape and elements of a tensor on any device. It is computed again only if PyTorch
    has counted a write."""
    version = versions_of([tensor])
    known = _digests.get(tensor)
    if known is None or known[0] != version:
        known = _digests[tensor] = version, _compute_digest(tensor)
    return str(known[1])


_digests: Any = WeakTensorKeyDictionary()


def _compute_digest(tensor: torch.Tensor) -> str:
    host = tensor.detach().as_subclass(torch.Tensor)
    if host.is_quantized:
        return digest(tensor_digest(host.int_repr()).encode(), tensor_digest(host.dequantize()).encode())
    content: Any = view_bytes(host.cpu()).numpy()
    return digest(f"{tensor.dtype} {tuple(tensor.shape)}".encode(), memoryview(content))


def module_digest(module: torch.nn.Module) -> str:
    """Returns a digest of all parameters and buffers, also of buffers that are not saved. With TorchScript, also of the
    code and its constants."""
    if isinstance(module, torch.jit.ScriptModule):
        return digest(module.save_to_buffer())
    named = [*module.named_parameters(), *module.named_buffers(), *_packed_tensors(module)]
    return digest(*(f"{name} {_compute_digest(tensor)}".encode() for name, tensor in named))


def _packed_tensors(module: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    """Returns the weights of quantized layers, which are neither parameters nor buffers."""
    found = []
    for name, each in module.named_modules():
        packed = vars(each).get("_packed_params")
        if isinstance(packed, torch.ScriptObject):
            tensors = _native_weights(packed)
            found += [(f"{name}.{number}", tensor) for number, tensor in enumerate(tensors)]
    return found


def _native_weights(packed: Any) -> list[torch.Tensor]:
    return [each for each in packed.unpack() if isinstance(each, torch.Tensor)]


def weight_versions(module: torch.nn.Module | None) -> tuple[Any, ...]:
    """Returns values that change when a parameter or buffer is written or replaced. This takes less time than a
    digest."""
    if module is None:
        return ()
    tensors = [*module.parameters(), *module.buffers()]
    packed = [id(vars(each).get("_packed_params")) for each in module.modules()]
    # PyTorch does not count writes through .data, NumPy, or in inference mode. The sums of all bits show most of them.
    sums = [_sum_of_bits(each) for each in tensors if each.layout == torch.strided and not each.is_quantized]
    by_device: dict[torch.device, list[torch.Tensor]] = {}
    for each in sums:
        by_device.setdefault(each.device, []).append(each)
    return versions_of(tensors), packed, [torch.stack(each).tolist() for each in by_device.values()]


def _sum_of_bits(tensor: torch.Tensor) -> torch.Tensor:
    data = view_bytes(tensor.detach())
    return (data.view(torch.int32) if data.numel() % 4 == 0 else data).sum(dtype=torch.int64)


def versions_of(tensors: Sequence[torch.Tensor]) -> tuple[Any, ...]:
    return tuple((each.data_ptr(), 0 if each.is_inference() else each._version, each.dtype) for each in tensors)


def describe(value: Any) -> Any:
    """Returns JSON values that describe a function, a transform, or a plain value. Raises NeedsKey if that is not
    possible."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, torch.dtype | torch.device):
        return str(value)
    if isinstance(value, torch.Tensor):
        return tensor_digest(value)
    if isinstance(value, list | tuple):
        return [describe(each) for each in value]
    if isinstance(value, Mapping):
        return {str(key): describe(each) for key, each in value.items()}
    if isinstance(value, functools.partial):
        return [describe(value.func), describe(value.args), describe(value.keywords)]
    if isinstance(value, types.MethodType):
        return [describe(value.__self__), value.__name__]
    if isinstance(value, types.FunctionType):
        return _describe_function(value)
    if isinstance(value, types.BuiltinFunctionType | type):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, Transform):
        return [each if isinstance(each, dict) else describe(each) for each in value._steps]
    return _describe_object(value)


def _describe_function(function: types.FunctionType, callers: tuple[Any, ...] = ()) -> Any:
    name = f"{function.__module__}.{function.__qualname__}"
    if f"{function.__module__}.".startswith(_LIBRARIES):
        return name
    try:
        inside = [describe(cell.cell_contents) for cell in function.__closure__ or ()]
    except ValueError as error:  # a variable without a value yet
        raise NeedsKey(f"the function {name} uses a variable that has no value") from error
    defaults = [describe(function.__defaults__), describe(function.__kwdefaults__)]
    return [name, _describe_code(function.__code__), inside, *defaults, _describe_globals(function, (*callers, function))]


def _describe_code(code: types.CodeType) -> Any:
    """Returns the description of the instructions and constants of a function, without comments and line numbers."""
    constants = [
        _describe_code(each) if isinstance(each, types.CodeType)
        else sorted(map(repr, each)) if isinstance(each, frozenset) else repr(each)
        for each in code.co_consts
    ]
    return [digest(code.co_code), constants, list(code.co_names), list(code.co_varnames)]


def _describe_globals(function: types.FunctionType, callers: tuple[Any, ...]) -> dict[str, Any]:
    """Returns descriptions of the user's functions and of the plain values that a function takes from its module.
    Values that may change while samples are read, such as lists, are left out."""
    found: dict[str, Any] = {}
    for holder, name in globals_named(function):
        value = holder.get(name)
        try:
            if isinstance(value, types.FunctionType):
                found[name] = value.__qualname__ if value in callers else _describe_function(value, callers)
            elif isinstance(value, (*_PLAIN, functools.partial)):
                found[name] = describe(value)
        except NeedsKey:
            found[name] = type(value).__qualname__
    return found


def _describe_object(value: Any) -> Any:
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, enum.Enum):
        return f"{kind}.{value.name}"
    parts = split_transform(value)
    if parts != [value]:
        return [kind, [describe(each) for each in parts]]
    if is_of_torchvision(value):
        return [kind, describe({name: each for name, each in vars(value).items() if not name.startswith("_")})]
    if isinstance(value, torch.nn.Module):
        return [*describe_module(value), module_digest(value)]
    if hasattr(value, "__array__") and hasattr(value, "tobytes"):
        return [str(value.dtype), list(value.shape), digest(value.tobytes())]
    if callable(value) and hasattr(value, "__dict__"):
        return [kind, source_digest(type(value)), describe(vars(value))]
    raise NeedsKey(f"an object of type {kind} has no stable description")


def source_digest(function: Any) -> str:
    try:
        return digest(inspect.getsource(function).encode())
    except (OSError, TypeError) as error:
        raise NeedsKey(f"the source of {display_name(function)} cannot be read") from error


def describe_module(module: torch.nn.Module) -> list[Any]:
    """Returns the structure of a module and the sources of its classes, without weights."""
    inner = getattr(module, "_orig_mod", None)
    is_compiled = isinstance(inner, torch.nn.Module)
    options = ""
    if is_compiled:
        context = getattr(module, "dynamo_ctx", None)
        # The configuration has hundreds of values.
        options = digest(repr([getattr(context, name, None) for name in _COMPILER_OPTIONS]).encode())
        assert inner is not None
        module = inner
    classes = {kind for each in module.modules() for kind in type(each).__mro__ if issubclass(kind, torch.nn.Module)}
    own = sorted((each for each in classes if not f"{each.__module__}.".startswith("torch.")), key=_class_name)
    code = [each.code for each in module.modules() if isinstance(each, torch.fx.GraphModule)]
    attributes = [_plain_attributes(each) for each in module.modules()]
    sources = [[_class_name(each), _source_of_class(each)] for each in own]
    return [repr(module), code, attributes, sources, is_compiled, options]


def _plain_attributes(module: torch.nn.Module) -> dict[str, Any]:
    """Returns attributes of a module that its repr() may leave out: numbers, strings, tensors, functions and hooks."""
    found: dict[str, Any] = {}
    for name, value in vars(module).items():
        if name.endswith("_hooks") and value:
            value = tuple(value.values())
        is_plain = value is None or isinstance(value, bool | int | float | str | tuple | torch.dtype | torch.Tensor)
        if is_plain or isinstance(value, types.FunctionType | types.MethodType):
            try:
                found[name] = describe(value)
            except NeedsKey:
                found[name] = type(value).__qualname__
    return found


def _class_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _source_of_class(kind: type) -> str:
    try:
        return source_digest(kind)
    except NeedsKey:  # for example, a class of a notebook or of TorchScript: the structure has to suffice
        return ""


def describe_stage(stage: Stage, key: str | None) -> dict[str, Any]:
    """Returns the description of a stage, without its weights. Raises NeedsKey for a function without a key."""
    function: Any = stage.function
    while isinstance(function, Wrapper):
        function = function.held()[0][1]
    module = first_module(function)
    called: Any = None
    if module is not None:
        called = [describe_module(module), getattr(function, "__name__", "") if module is not function else ""]
    elif isinstance(function, Transform):
        called = describe(function)
    elif key is None:
        raise NeedsKey(f"stage '{stage.name}' is no torch.nn.Module, so it is not known what its result depends on")
    return {
        "function": called,
        "input": stage.input,
        "output": stage.output,
        "autocast": str(stage.autocast),
        "class": _class_name(type(stage)),
    }


_backends: Any = torch.backends
# PyTorch has an older and a newer interface for the precision of float32, and refuses to read the one if the other is
# used.
_PRECISIONS: tuple[Callable[[], Any], ...] = (
    torch.get_float32_matmul_precision,
    lambda: _backends.cudnn.allow_tf32,
    lambda: _backends.cudnn.conv.fp32_precision,
    lambda: _backends.cuda.matmul.fp32_precision,
)


@functools.cache
def _installed_version(library: str) -> str:
    """Returns the version of a library, whether or not it has been imported yet; "" if it is not installed."""
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _setting(get: Callable[[], Any]) -> Any:
    try:
        return get()
    except (AttributeError, RuntimeError):
        return None


def describe_settings(device: str) -> dict[str, Any]:
    """Returns the settings of PyTorch on which the bits of a result depend, and the versions of the libraries."""
    is_cuda = device.startswith("cuda")
    described = {
        "slipstream": sys.modules["slipstream"].__version__,
        "torchvision": _installed_version("torchvision"),
        "pillow": _installed_version("pillow"),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(device) if is_cuda else "cpu",
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "precision": [_setting(get) for get in _PRECISIONS],
        "dtype": str(torch.get_default_dtype()),
    }
    if not is_cuda:
        return described | {"threads": torch.get_num_threads()}
    cudnn, cuda, matmul = _backends.cudnn, _backends.cuda, _backends.cuda.matmul
    return described | {
        "cudnn": [cudnn.enabled, cudnn.benchmark, cudnn.deterministic],
        "matmul": [matmul.allow_fp16_reduced_precision_reduction, matmul.allow_bf16_reduced_precision_reduction],
        "attention": [cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled(), cuda.math_sdp_enabled()],
    }


def describe_decoding(loader: Any) -> Any:
    """Returns the arguments of a slipstream.DataLoader that may change pixels."""
    arguments = loader._arguments
    return [bool(arguments.scaled_decoding), dict(arguments.wire or {})]


class DatasetIdentity:
    """What identifies the samples of a data set.

    common: description of what all samples depend on, such as transforms.
    samples: a digest of each sample, as a signed integer of 64 bits. It changes if the sample's file changes.
    files: the path and the label of each sample; None: they are not files.
    tensors: the tensors that the samples consist of.
    keyed: the data sets whose content only the key of the cache describes."""

    def __init__(
        self,
        common: Any,
        samples: Sequence[int],
        files: Sequence[tuple[str, int]] | None = None,
        tensors: Sequence[torch.Tensor] = (),
        keyed: Sequence[Any] = (),
    ) -> None:
        self.common, self.samples, self.files, self.tensors, self.keyed = common, samples, files, tensors, keyed
        self.tensor_versions = versions_of(tensors)

    def selected(self, indices: Sequence[int]) -> DatasetIdentity:
        """Returns the identity of the samples with these indices."""
        files = None if self.files is None else [self.files[index] for index in indices]
        samples = [self.samples[index] for index in indices]
        return DatasetIdentity(self.common, samples, files, self.tensors, self.keyed)

    def wrapped(self, *described: Any) -> DatasetIdentity:
        """Returns the identity of a data set that has these samples and other properties."""
        return DatasetIdentity([*described, self.common], self.samples, self.files, self.tensors, self.keyed)


def identify(dataset: Any, key: str | None) -> DatasetIdentity:
    """Returns the identity of a data set. Raises NeedsKey if there is none, unless there is a key."""
    kind = type(dataset)
    if kind is torch.utils.data.Subset:
        return identify(dataset.dataset, key).selected(dataset.indices)
    if kind is torch.utils.data.ConcatDataset:
        return _joined([identify(each, key) for each in dataset.datasets])
    try:
        return _identify_ours(dataset, key) if isinstance(dataset, Dataset) else _identify(dataset)
    except NeedsKey:
        if key is None:
            raise
        count = len(dataset)
        common = {"key": key, "type": _class_name(type(dataset)), "samples": count}
        return DatasetIdentity(common, range(count), keyed=[dataset])


def _identify(dataset: Any) -> DatasetIdentity:
    kind = type(dataset)
    if kind is torch.utils.data.TensorDataset:
        digests = [tensor_digest(each) for each in dataset.tensors]
        return DatasetIdentity(digests, range(len(dataset)), tensors=dataset.tensors)
    if kind.__module__ == "torchvision.datasets.folder" and hasattr(dataset, "samples"):
        functions = [describe(each) for each in (dataset.transform, dataset.target_transform, dataset.loader)]
        return DatasetIdentity([kind.__qualname__, *functions], file_digests(dataset.samples), dataset.samples)
    if kind is list or kind is tuple:
        tensors = [leaf for leaf in leaves(dataset) if isinstance(leaf, torch.Tensor)]
        return DatasetIdentity("list", _value_digests(dataset), tensors=tensors)
    raise NeedsKey(f"the data set is a {kind.__qualname__}, whose samples have no name, size and time of a file")


def _identify_ours(dataset: Dataset, key: str | None) -> DatasetIdentity:
    kind = type(dataset)
    if any("__getitem__" in vars(each) for each in kind.__mro__[: kind.__mro__.index(_our_class(kind))]):
        raise NeedsKey(f"the data set is a {kind.__qualname__}, which has a __getitem__ of its own")
    transform = describe(Compose._wrap(dataset.transform))
    if isinstance(dataset, ConcatDataset):
        inner = _joined([identify(each, key) for each in dataset._arguments[0]])
    elif isinstance(dataset, Subset):
        whole, indices = dataset._arguments
        inner = identify(whole, key).selected(indices)
    elif isinstance(dataset, PythonDataset):
        source = dataset._native
        assert isinstance(source, PythonSource)
        inner = identify(source.source, key)
    elif isinstance(dataset, ImageFolder):
        files = [(os.path.join(dataset.root, dataset.name(i)), dataset.label(i)) for i in range(len(dataset))]
        inner = DatasetIdentity([describe(each) for each in dataset._arguments[1:]], file_digests(files), files)
    else:
        raise NeedsKey(f"the data set is a {type(dataset).__qualname__}, which is not identified by its files")
    return inner.wrapped(type(dataset).__qualname__, transform)


def _our_class(kind: type) -> type:
    """Returns the class of slipstream from which a class is derived."""
    return next(each for each in kind.__mro__ if each.__module__.startswith("slipstream."))


def _joined(parts: Sequence[DatasetIdentity]) -> DatasetIdentity:
    """Returns the identity of the samples of all parts. Samples that are not files are identified by their indices,
    which are the same in each part, and the same file may have other transforms in another part. The number of the part
    is then added."""
    files = None
    if all(part.files is not None for part in parts):
        files = [file for part in parts for file in part.files or ()]
    samples = [
        sample if part.files is not None and part.common == parts[0].common else number_digest(number, sample)
        for number, part in enumerate(parts)
        for sample in part.samples
    ]
    tensors = [tensor for part in parts for tensor in part.tensors]
    keyed = [dataset for part in parts for dataset in part.keyed]
    return DatasetIdentity([part.common for part in parts], samples, files, tensors, keyed)


def file_digests(files: Sequence[tuple[str, int]]) -> list[int]:
    """Returns digests of the names, labels, sizes and modification times of files."""
    found = []
    for path, label in files:
        try:
            stat = os.stat(path)
        except OSError:
            found.append(number_digest(path, label, -1, -1))  # reading the sample raises the error
            continue
        found.append(number_digest(path, label, stat.st_size, stat.st_mtime_ns))
    return found


def _value_digests(samples: Sequence[Any]) -> list[int]:
    """Returns digests of samples that are in memory."""
    found = []
    for sample in samples:
        values: list[Any] = []
        for leaf in leaves(sample):
            if not isinstance(leaf, torch.Tensor | int | float | str | bytes | None):
                raise NeedsKey(f"the data set is a list with objects of type {type(leaf).__qualname__}")
            values.append(tensor_digest(leaf) if isinstance(leaf, torch.Tensor) else leaf)
        found.append(number_digest(type(sample).__qualname__, values))
    return found


def to_text(parts: Mapping[str, Any]) -> str:
    """Returns the key as JSON text."""
    return json.dumps(parts, sort_keys=True)


def changed_parts(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Returns the names of the parts of a key that differ."""
    return sorted(name for name in {*before, *after} if before.get(name) != after.get(name))


def describe_collate(function: Callable[..., Any] | None, key: str | None) -> Any:
    """Returns the description of a function that makes batches of samples. Raises NeedsKey if there is none, unless
    there is a key."""
    try:
        return describe(function)
    except NeedsKey:
        if key is None:
            raise
        return None
