"""Slipstream: training on a GPU that does not wait for its input.

`Pipeline` runs the copies and the frozen stages of a training loop ahead of its body, on streams of
their own, with the plain loop's values bit for bit. `DataLoader` is a native loader of images.
`Trainer` trains a module natively.
`doctor` says what holds a PyTorch loop up. `verify` finds its races.
"""

import os

import torch  # noqa: F401  its libraries are those that the module below needs

os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")  # CUDA reads it when it is first used

from . import transforms
from ._fit import TrainingEpoch, TrainingResult, TrainingStep
from ._native import Error, Measured, Refused
from .data import DataLoader
from .datasets import ConcatDataset, Dataset, ImageFolder, PythonDataset, Subset, open_dataset
from .doctor import Advice, DoctorReport, doctor
from ._stages import Stage
from .pipeline import Pipeline
from .trainer import Trainer
from .verify import VerifyReport, verify

__all__ = [
    "Advice",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DoctorReport",
    "Error",
    "ImageFolder",
    "Measured",
    "Pipeline",
    "PythonDataset",
    "Refused",
    "Stage",
    "Subset",
    "Trainer",
    "TrainingEpoch",
    "TrainingResult",
    "TrainingStep",
    "VerifyReport",
    "doctor",
    "open_dataset",
    "transforms",
    "verify",
]
__version__ = "0.1.0"
