"""Slipstream: training on a GPU that does not wait for its input.

`Pipeline` runs the copies and the frozen stages of a training loop ahead of its body, on streams of
their own, with the plain loop's values bit for bit. `DataLoader` is a native loader of images.
"""

import torch  # noqa: F401  its libraries are those that the module below needs

from . import transforms
from ._native import Error, Refused
from .data import ConcatDataset, DataLoader, Dataset, ImageFolder, Subset, open_dataset
from .pipeline import Pipeline, Stage

__all__ = [
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "Error",
    "ImageFolder",
    "Pipeline",
    "Refused",
    "Stage",
    "Subset",
    "open_dataset",
    "transforms",
]
__version__ = "0.1.0"
