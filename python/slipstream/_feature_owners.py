"""The data sets that only the key of a feature cache names. Two data sets with other contents must not have one key."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import torch

from . import _native
from ._feature_key import NeedsKey, describe, digest, to_text

_MOST_BYTES = 64 << 20  # of a tensor or array whose elements are compared

# For each key and each of its data sets: references to the objects that were compared, and the attributes.
Owners = dict[str, list[tuple[list[Any], dict[str, str]]]]
_owners_of_folders: dict[str, Owners] = {}


def refuse_other_data(owners: Owners, folder: str | None, key: str, datasets: Sequence[Any]) -> None:
    """Remembers the data sets of a key. Raises Refused if the key belongs to data sets with other attributes.

    owners: those of the cache. Caches with one folder use those of the folder."""
    if folder is not None:
        owners = _owners_of_folders.setdefault(folder, {})
    known = owners.get(key)
    if known is None:
        owners[key] = [([_reference(each)], _attributes(each)) for each in datasets]
        return
    for (references, attributes), dataset in zip(known, datasets, strict=True):
        if any(each() is dataset for each in references):
            continue  # its attributes may have changed since, for example a counter
        found = _attributes(dataset)
        differ = sorted(name for name in {*attributes, *found} if attributes.get(name) != found.get(name))
        if differ:
            raise _native.Refused(
                f"two data sets of the type {type(dataset).__qualname__} have the same key of a feature cache, but "
                f"they differ in {', '.join(differ)}: give each of them ss.FeatureCache(key=\"...\") with a key of its "
                "own, such as \"train 1\" and \"validation 1\""
            )
        references[:] = [*(each for each in references if each() is not None), _reference(dataset)]


def _reference(dataset: Any) -> Any:
    try:
        return weakref.ref(dataset)
    except TypeError:  # a class with __slots__
        return lambda: None


def _attributes(dataset: Any) -> dict[str, str]:
    """Returns digests of the attributes that can be described."""
    found = {}
    for name, value in getattr(dataset, "__dict__", {}).items():
        if (isinstance(value, torch.Tensor) or hasattr(value, "__array__")) and getattr(value, "nbytes", 0) > _MOST_BYTES:
            value = str(value.dtype), list(value.shape)
        try:
            found[name] = digest(to_text({"": describe(value)}).encode(errors="surrogateescape"))
        except (NeedsKey, RecursionError, TypeError):  # its content is not compared
            continue
    return found
