"""The folder of a feature cache: reads records in advance, and writes computed rows from a thread."""

from __future__ import annotations

import logging
import math
import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch

from . import _native
from ._feature_rows import RowLayout, Rows

_log = logging.getLogger("slipstream")
_READS_AT_ONCE = 2  # batches
_THREADS_OF_A_READ = 4
_MOST_UNWRITTEN_BYTES = 1 << 30  # in host memory; further rows are not written, and are computed again in a later epoch


class Reading:
    """Records of a batch that are being read.

    entries: the entries, in the order of the records."""

    def __init__(self, entries: list[int], future: Future[tuple[torch.Tensor, torch.Tensor]]) -> None:
        self.entries, self._future = entries, future

    def result(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Waits for the records. Returns them, and whether each of them is undamaged."""
        return self._future.result()


class FeatureFolder:
    """The entries of one key in a folder. The thread of the loop calls it; two threads read and one writes.

    store: the records on disk.
    layouts: those of the rows of a sample. samples: number of samples; entry i belongs to sample i % samples.
    is_pinned: whether records are read into page-locked memory."""

    def __init__(
        self, store: _native.FeatureStore, layouts: Sequence[RowLayout | None], samples: int, is_pinned: bool
    ) -> None:
        self._store, self._samples, self._is_pinned = store, samples, is_pinned
        self._layouts = [layout for layout in layouts if layout is not None]
        self._readers = ThreadPoolExecutor(_READS_AT_ONCE, "slipstream-features")
        self._writer = ThreadPoolExecutor(1, "slipstream-features")
        self._lock = threading.Lock()
        self._unwritten_bytes = 0
        self._failure = ""  # message of an error that ended writing
        self._process = os.getpid()  # a forked process has no threads, and leaves the folder alone
        self.left_out = 0  # rows that were not written because the disk is slower than training
        self.digests: Sequence[int] = ()  # of each sample

    def _ids(self, entries: Sequence[int]) -> torch.Tensor:
        pairs = [(self.digests[entry % self._samples], entry // self._samples) for entry in entries]
        return torch.tensor(pairs, dtype=torch.int64).reshape(len(pairs), 2)

    def find(self, entries: Sequence[int]) -> list[int]:
        """Returns the number of the record of each entry, -1 for those that are not there."""
        if self._is_forked():
            return [-1] * len(entries)
        return self._store.find(self._ids(entries)).tolist() if entries else []

    def _is_forked(self) -> bool:
        return os.getpid() != self._process

    def read(self, entries: list[int], numbers: list[int]) -> Reading:
        """Starts to read records."""
        return Reading(entries, self._readers.submit(self._read, torch.tensor(numbers)))

    def _read(self, numbers: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        shape = (len(numbers), self._store.record_bytes)
        records = torch.empty(shape, dtype=torch.uint8, pin_memory=self._is_pinned)
        try:
            return records, self._store.read(numbers, records, _THREADS_OF_A_READ)
        except _native.Error as error:  # the samples are computed, as for damaged records
            _log.warning("the feature cache could not read records: %s", error)
            return records, torch.zeros(len(numbers), dtype=torch.bool)

    def write(self, entries: list[int], rows: Sequence[Rows]) -> None:
        """Starts to write rows. They may be changed afterwards."""
        if self._is_forked():
            return
        records = self._join(rows)
        event: torch.cuda.Event | None = None
        with self._lock:
            if self.filling_ended():
                return
            if self._unwritten_bytes + records.numel() > _MOST_UNWRITTEN_BYTES:
                self.left_out += len(entries)
                return
            self._unwritten_bytes += records.numel()
        if records.is_cuda:
            on_host = torch.empty(records.shape, dtype=torch.uint8, pin_memory=True)
            on_host.copy_(records, non_blocking=True)
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record()
            records = on_host
        samples = [entry % self._samples for entry in entries]
        self._writer.submit(self._write, self._ids(entries), samples, records, event)

    def _write(self, ids: torch.Tensor, samples: list[int], records: torch.Tensor, event: Any) -> None:
        try:
            if event is not None:
                event.synchronize()
            self._store.write(ids, torch.tensor(samples), records)
        except Exception as error:
            self._failure = str(error)
        finally:
            with self._lock:
                self._unwritten_bytes -= records.numel()

    def _join(self, rows: Sequence[Rows]) -> torch.Tensor:
        """Returns the rows of all tensors as records, in new memory."""
        tensors = [each for each in rows if isinstance(each, torch.Tensor)]
        pairs = zip(tensors, self._layouts, strict=True)
        return torch.cat([layout.to_record(each).view(torch.uint8) for each, layout in pairs], dim=1)

    def split(self, records: torch.Tensor) -> list[Rows]:
        """Returns the rows of each tensor in the records."""
        sizes = [layout.bytes for layout in self._layouts]
        word = math.gcd(8, *sizes)  # copying larger integers is faster
        columns = records.view({8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.uint8}[word])
        parts = torch.split(columns, [size // word for size in sizes], dim=1)
        return [
            layout.from_record(part.contiguous().view(layout.word))
            for part, layout in zip(parts, self._layouts, strict=True)
        ]

    def refresh(self) -> None:
        """Finds records that other processes have written."""
        if not self._is_forked():
            self._store.refresh()

    def filling_ended(self) -> str:
        """Returns why no more rows are written; "" if rows are written."""
        return self._failure or self._store.filling_ended()

    def flush(self) -> None:
        """Waits until all rows are written."""
        if not self._is_forked():
            self._writer.submit(int).result()

    def stats(self) -> dict[str, Any]:
        return {**self._store.stats(), "left_out": self.left_out, "filling_ended": self.filling_ended()}

    def close(self) -> None:
        if self._is_forked():
            return
        self._writer.shutdown()
        self._readers.shutdown()
        self._store.close()


def open_folder(
    folder: str,
    budget: int | None,
    key: str,
    description: str,
    layouts: Sequence[RowLayout | None],
    samples: int,
    device: torch.device,
) -> FeatureFolder:
    """Opens the folder for entries with this key. Raises Refused if the batches have Python objects."""
    if None in layouts:
        raise _native.Refused(
            "a feature cache with a folder keeps tensors, but the batch contains a list of Python objects, such as "
            "names: leave it out of the batch, or leave out the folder"
        )
    store = _native.FeatureStore(os.fsencode(folder), key, description, budget)
    return FeatureFolder(store, layouts, samples, device.type == "cuda")
