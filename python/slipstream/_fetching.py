"""Reading samples of a map-style data set as the loader of torch.utils.data reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.utils.data import Subset

from ._signals import add_note


def fetched(dataset: Any, indices: Sequence[Any]) -> Any:
    """The samples of a batch, by `__getitems__` where the data set has it: a data set may have no other way to read."""
    fetch = getattr(dataset, "__getitems__", None)
    return fetch(indices) if fetch else [dataset[index] for index in indices]


def item(dataset: Any, index: int) -> Any:
    """One sample of a batch."""
    try:
        samples = fetched(dataset, [index])
        if isinstance(samples, list | tuple) and len(samples) == 1:
            return samples[0]
        return dataset[index]  # __getitems__() makes a whole batch, for a custom collate_fn
    except IndexError as error:
        add_note(error, f"the data set's len() is {len(dataset)}, so it has to have a sample {index}")
        raise


def fetches_batches(dataset: Any) -> bool:
    """Returns true if the data set makes several samples at once in its own way."""
    while getattr(dataset, "__getitems__", None):
        if getattr(type(dataset), "__getitems__", None) is not Subset.__getitems__:
            return True
        dataset = dataset.dataset  # a Subset reads its samples as the data set in it does
    return False
