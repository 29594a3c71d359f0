"""Slipstream: training on a GPU that does not wait for its input.

`Pipeline` runs the copies and the frozen stages of a training loop in advance, on separate streams, with the same
bits as a plain loop. `DataLoader` loads images with threads that do not use Python. `Trainer` trains a module without
a loop in Python. `doctor` finds the bottleneck of a PyTorch loop, `watch` reports how long a loop waits for input while
it trains, and `verify` finds race conditions.
"""

import os

import torch  # noqa: F401  its libraries are those that the module below needs

# Streams that share a hardware queue wait for each other, so CUDA gets the largest number of queues. CUDA reads the
# variable when it is first used.
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")

from ._torch_check import check_torch

check_torch()  # before the compiled module is loaded

from . import transforms
from ._equivalents import from_torchvision
from ._feature_cache import FeatureCache
from ._fit import TrainingEpoch, TrainingResult, TrainingStep
from ._native import Error, Measured, Refused
from .capture import CapturedStep, capture
from .data import DataLoader
from .datasets import ConcatDataset, Dataset, PythonDataset, Subset, open_dataset
from ._doctor.clock import part
from .doctor import Advice, Comparison, DoctorReport, doctor
from .image_folder import ImageFolder
from ._stages import Stage
from .pipeline import Pipeline
from .trainer import Trainer
from .verify import VerifyReport, verify
from .watch import Watch, WatchReport, watch

__all__ = [
    "Advice",
    "CapturedStep",
    "Comparison",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DoctorReport",
    "Error",
    "FeatureCache",
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
    "Watch",
    "WatchReport",
    "capture",
    "doctor",
    "from_torchvision",
    "open_dataset",
    "part",
    "transforms",
    "verify",
    "watch",
]
__version__ = "0.1.0"
