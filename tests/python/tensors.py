"""Comparisons of sequences of tensors."""

import torch


def all_equal(ours, theirs):
    """Returns whether both hold the same number of tensors, at least one, and the same bits."""
    ours, theirs = list(ours), list(theirs)
    return len(ours) == len(theirs) > 0 and all(map(torch.equal, ours, theirs))
