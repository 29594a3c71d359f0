"""Recognizes samplers whose order is known without iterating over them."""

from __future__ import annotations

from typing import Any

from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler


def is_sequential(sampler: Any, dataset: Any) -> bool:
    """Returns true if a sampler of indices, or of batches of indices, lists each sample of the data set in its order.
    The last batch may be left out."""
    if type(sampler) is BatchSampler:
        sampler = sampler.sampler
    return type(sampler) is SequentialSampler and len(sampler.data_source) == len(dataset)


def is_shuffled(sampler: Any, dataset: Any) -> bool:
    """Returns true if a sampler of indices lists each sample of the data set once, in random order."""
    return (
        type(sampler) is RandomSampler
        and not sampler.replacement
        and sampler.num_samples == len(sampler.data_source) == len(dataset)
    )
