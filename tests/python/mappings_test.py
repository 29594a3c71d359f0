"""Batches and samples that are mappings of types other than dict."""

from collections import ChainMap, OrderedDict, UserDict, defaultdict
from collections.abc import Mapping, MutableMapping
import dataclasses

import pytest
import torch

import slipstream as ss
from slipstream import _native, _trees


class Kept(MutableMapping):
    """A mapping whose copies by copy.copy() share its values."""

    def __init__(self, **values):
        self._values = values

    def __getitem__(self, key):
        return self._values[key]

    def __setitem__(self, key, value):
        self._values[key] = value

    def __delitem__(self, key):
        del self._values[key]

    def __iter__(self):
        return iter(self._values)

    def __len__(self):
        return len(self._values)


class Slotted(Kept):
    __slots__ = ("__values",)

    @property
    def _values(self):
        return self.__values

    @_values.setter
    def _values(self, values):
        self.__values = values


class Store:
    def __init__(self, values):
        self.values = values


class Deep(Kept):
    """A mapping that cannot be copied without sharing its values."""

    def __init__(self, **values):
        self._store = Store(values)

    @property
    def _values(self):
        return self._store.values


class Frozen(Mapping):
    def __init__(self, **values):
        self._values = values

    __getitem__, __iter__, __len__ = Kept.__getitem__, Kept.__iter__, Kept.__len__


@dataclasses.dataclass
class Output(OrderedDict):
    """A dict that is also a data class, like model outputs of Hugging Face."""

    x: torch.Tensor
    y: torch.Tensor

    def __post_init__(self):
        self["x"], self["y"] = self.x, self.y

    def __reduce__(self):
        return type(self), (self.x, self.y)


def with_default(**values):
    return defaultdict(list, values)


WRITABLE = [dict, OrderedDict, with_default, UserDict, ChainMap, Kept, Slotted, Deep, Output]


def made(kind, **values):
    return ChainMap(values) if kind is ChainMap else kind(**values)


def values(mapping):
    return {key: value.tolist() for key, value in mapping.items()}


@pytest.mark.parametrize("serial", [False, True])
@pytest.mark.parametrize("kind", WRITABLE)
def test_stages_do_not_change_the_loaders_batches(device, kind, serial):
    data = [made(kind, x=torch.ones(2), y=torch.zeros(1)) for _ in range(2)]
    stages = [ss.Stage("double", lambda x: x * 2, "x"), ss.Stage("sum", torch.add, ["x", "y"], "z")]
    if kind is Output:
        stages.pop()
    pipe = ss.Pipeline(data, stages, device, serial=serial)
    for _ in range(3):
        given = [values(batch) for batch in pipe]
        assert given == [{"x": [2, 2], "y": [0]} | ({} if kind is Output else {"z": [2, 2]})] * 2
        assert [values(batch) for batch in data] == [{"x": [1, 1], "y": [0]}] * 2
    is_of_its_kind = type(next(iter(pipe))) is type(data[0])
    assert is_of_its_kind == (kind is not Deep)


@pytest.mark.parametrize("kind", [*WRITABLE, Frozen])
def test_mapping_a_tree_does_not_change_it(kind):
    tree = made(kind, x=torch.ones(2), y=torch.zeros(1))
    assert values(_trees.mapped(tree, lambda x: x + 1)) == {"x": [2, 2], "y": [1]}
    assert values(_native.moved(tree, "cpu")) == values(tree)
    assert values(tree) == {"x": [1, 1], "y": [0]}


@pytest.mark.parametrize("kind", [*WRITABLE, Frozen])
def test_moving_a_batch_keeps_the_original_on_its_device(kind):
    tree = made(kind, x=torch.ones(2), y=torch.zeros(1))
    there = _native.moved(tree, "meta")
    assert {value.device.type for value in there.values()} == {"meta"}
    assert {value.device.type for value in tree.values()} == {"cpu"}


@pytest.mark.parametrize("kind", [*WRITABLE, Frozen])
def test_samples_of_all_mapping_types_are_collated(kind):
    names = {} if kind is Output else {"name": "a"}
    samples = [made(kind, x=torch.full((2,), float(i)), y=i, **names) for i in range(4)]
    for _ in range(2):
        first, second = ss.DataLoader(samples, 2, multiprocessing_context="fork", num_workers=1)
        assert first["x"].tolist() == [[0, 0], [1, 1]] and second["y"].tolist() == [2, 3]
        assert not names or second["name"] == ["a", "a"]
        assert isinstance(first, type(samples[0])) or kind in (Deep, Frozen)


def test_dataclass_attributes_match_keys_after_a_stage(device):
    batch = Output(torch.ones(2), torch.zeros(1))
    (changed,) = ss.Pipeline([batch], [ss.Stage("double", lambda x: x * 2, "x")], device)
    assert changed.x is changed["x"] and changed.x.tolist() == [2, 2] and batch.x.tolist() == [1, 1]


class Wrapped(Deep):
    """Also changes the values that it is given."""

    def __setitem__(self, key, value):
        if value == "refused":
            raise TypeError
        self._values[key] = value if value is None else value * 1


@pytest.mark.parametrize("items", [{"a": torch.ones(1)}, {"a": 2, "b": "refused"}, {"c": None}])
def test_mapping_that_cannot_be_copied_becomes_a_dict(items):
    tree = Wrapped(a=torch.zeros(1), b=torch.zeros(1))
    before = dict(tree)
    made = _trees.mapping_with(tree, items)
    assert type(made) is dict and made == before | items
    assert {*tree} == {*before} and all(tree[key] == before[key] for key in before)
