"""Reads samples of a map-style data set in the way in which torch.utils.data.DataLoader does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.utils.data import Subset

from ._signals import add_note


def fetched(dataset: Any, indices: Sequence[Any]) -> Any:
    """Returns the samples of a batch. Calls `__getitems__` if the data set has it, because a data set may have no other
    method for reading."""
    fetch = getattr(dataset, "__getitems__", None)
    return fetch(indices) if fetch else [dataset[index] for index in indices]


def item(dataset: Any, index: int) -> Any:
    """Returns one sample, read in the same way as a batch."""
    try:
        samples = fetched(dataset, [index])
        if isinstance(samples, list | tuple) and len(samples) == 1:
            return samples[0]
        return dataset[index]  # __getitems__() returned a whole batch, for a custom collate_fn
    except IndexError as error:
        add_note(error, f"the data set's len() is {len(dataset)}, so it must have a sample {index}")
        raise


def fetches_batches(dataset: Any) -> bool:
    """Returns true if the data set has a custom __getitems__() for several samples at once."""
    while getattr(dataset, "__getitems__", None):
        if getattr(type(dataset), "__getitems__", None) is not Subset.__getitems__:
            return True
        dataset = dataset.dataset  # Subset.__getitems__() calls the inner data set, so that one decides
    return False
