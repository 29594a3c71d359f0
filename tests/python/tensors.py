"""Comparisons of sequences of tensors."""

import torch


def all_equal(ours, theirs):
    """Returns whether both hold the same number of tensors, at least one, and the same bits."""
    ours, theirs = list(ours), list(theirs)
    return len(ours) == len(theirs) > 0 and all(map(torch.equal, ours, theirs))


def same(ours, theirs):
    """Returns whether two nested structures have the same types, the same values and the same bits in tensors."""
    if type(ours) is not type(theirs):
        return False
    if isinstance(ours, torch.Tensor):
        return ours.dtype == theirs.dtype and torch.equal(ours, theirs)
    if isinstance(ours, dict):
        return list(ours) == list(theirs) and all(same(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, list | tuple):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return ours == theirs
