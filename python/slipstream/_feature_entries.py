"""The entries of a feature cache with one key: which samples are cached, where, and how a batch is made from them."""

from __future__ import annotations

import array
from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import _native
from ._feature_disk import FeatureFolder, Reading
from ._feature_rows import BatchForm, Rows
from ._feature_tiers import Tier, allocate

# Batches after which the memory that training leaves is measured: the training step has then run several times, also as
# a CUDA graph (slipstream.capture).
_MEASURED_AFTER = 12


class Work:
    """The samples of one batch that have to be computed or read. It passes the lanes of a pipeline with the batch.

    entries: the entry of each sample of the batch.
    computed: the entries that are computed for this batch, in the order in which they were loaded.
    parts: number of entries in each of the loaded batches that together contain `computed`.
    disk: the entries whose rows are read from disk, in the order of the rows.
    reading: the reading of these rows; None: there is none.
    is_early: whether the work was planned before the folder was open.
    rows: rows of the samples in memory, if all of them are there; otherwise None.
    places: for each tier, its rows that the batch needs, if all rows are in memory; otherwise None."""

    __slots__ = ("computed", "disk", "entries", "is_early", "parts", "places", "reading", "rows")

    def __init__(self, entries: list[int]) -> None:
        self.entries = entries
        self.computed: list[int] = []
        self.parts: list[int] = []
        self.disk: list[int] = []
        self.reading: Reading | None = None
        self.is_early = False
        self.rows: torch.Tensor | None = None
        self.places: list[list[int]] | None = None


class Entries:
    """The cached rows of all samples and versions. The thread of the loop calls it.

    count: number of entries, samples times versions. Entry i is that of sample i % samples in version i // samples.
    limits: largest number of bytes in device memory and in page-locked memory, or None for the default of each.
    open_folder: opens the folder on disk, when the form of the batches is known; None: there is none."""

    def __init__(
        self,
        count: int,
        device: torch.device,
        limits: tuple[int | None, int | None],
        open_folder: Callable[[BatchForm], FeatureFolder] | None = None,
    ) -> None:
        self._open_folder = open_folder
        self.folder: FeatureFolder | None = None
        self.digests: Sequence[int] = ()  # of each sample
        self.count, self._device, self._limits = count, device, limits
        # Each pair shares memory. Python code reads single elements faster from the first, and all elements of a batch
        # from the other.
        # The row of each entry in all tiers together, in the order of first use.
        self._slots = array.array("q", [-1]) * max(count, 1)
        self._slots_tensor = torch.frombuffer(self._slots, dtype=torch.int64)
        self._is_stored = bytearray(max(count, 1))
        self._is_stored_tensor = torch.frombuffer(self._is_stored, dtype=torch.bool)
        self._next_slot = 0
        self.form: BatchForm | None = None
        self.tiers: list[Tier] | None = None  # None: not allocated yet
        self._capacity = 0
        self._pending: list[tuple[list[int], list[Rows]]] = []  # computed before the tiers were allocated
        self._objects: dict[int, list[Any]] = {}  # Python objects of each stored entry, one for each leaf
        self._last: torch.cuda.Stream | None = None  # on which the tiers were last used
        self._nan_rows: torch.Tensor | None = None
        self.hits = self.misses = self.stored = 0
        self._is_closed = False

    @property
    def nan_rows(self) -> int:
        """Number of computed rows that contain NaN. Waits for the device."""
        return 0 if self._nan_rows is None else int(self._nan_rows)

    def plan(self, work: Work, promised: set[int]) -> None:
        """Decides which samples of a batch have to be computed, and stores them in `work`.

        promised: entries that earlier batches of the same iteration compute. This batch may use them, because all
            batches pass through the stage in order. The new ones are added."""
        entries = work.entries
        if self.tiers and self._find_rows(work):
            self.hits += len(entries)
            return
        new: dict[int, None] = {}
        for entry in entries:
            if self._is_stored[entry] or entry in new or entry in promised:
                continue
            if self._slots[entry] < 0:
                self._slots[entry] = self._next_slot
                self._next_slot += 1
            new[entry] = None
        work.computed = list(new)
        self._plan_reading(work)
        if self.tiers is not None:
            promised.update(entry for entry in new if self._slots[entry] < self._capacity)
        self.misses += len(work.computed)
        self.hits += len(entries) - len(work.computed)

    def _find_rows(self, work: Work) -> bool:
        """Looks up the rows of the samples. Returns whether all of them are in memory."""
        ids = torch.tensor(work.entries)
        if bool(self._is_stored_tensor[ids].all()):
            work.rows = self._slots_tensor[ids]
        return work.rows is not None

    def _plan_reading(self, work: Work) -> None:
        """Starts to read the entries of `work` that are on disk."""
        if self.folder is None:
            work.is_early = self._open_folder is not None
            return
        numbers = self.folder.find(work.computed)
        found = [(entry, number) for entry, number in zip(work.computed, numbers, strict=True) if number >= 0]
        if found:
            work.disk = [entry for entry, _ in found]
            work.reading = self.folder.read(work.disk, [number for _, number in found])
            work.computed = [entry for entry, number in zip(work.computed, numbers, strict=True) if number < 0]

    def finish_reading(self, work: Work) -> tuple[torch.Tensor | None, list[int]]:
        """Waits for the rows of `work` that are read from disk. Returns them, and the entries whose record is damaged,
        which have to be computed in addition."""
        if work.reading is None:
            return None, []
        records, is_good = work.reading.result()
        if bool(is_good.all()):
            return records, []
        damaged = [entry for entry, good in zip(work.disk, is_good.tolist(), strict=True) if not good]
        work.disk = [entry for entry in work.disk if entry not in damaged]
        return records[is_good] if work.disk else None, damaged

    def index(self, work: Work) -> torch.Tensor | None:
        """Returns the rows of a batch whose samples are all in memory, first those in the first tier, and stores them
        in `work`, too. If there are rows in several tiers, the order of the samples follows. Otherwise returns None."""
        if not self.tiers or work.computed or work.disk:
            return None
        if work.rows is None and not self._find_rows(work):
            return None  # a sample is still being computed for an earlier batch
        rows = work.rows
        assert rows is not None
        if len(self.tiers) == 1:
            work.places = [rows.tolist()]
            return self._pinned(rows)
        parts, order = [], []
        first = 0
        for tier in self.tiers:
            place = ((rows >= first) & (rows < first + tier.capacity)).nonzero().squeeze(1)
            order.append(place)
            parts.append(rows[place] - first)
            first += tier.capacity
        work.places = [part.tolist() for part in parts]
        if max(map(len, work.places)) < len(rows):
            places = torch.cat(order)
            parts.append(torch.empty_like(places).scatter_(0, places, torch.arange(len(places))))
        return self._pinned(torch.cat(parts))

    def _pinned(self, values: torch.Tensor) -> torch.Tensor:
        return values.pin_memory() if self._device.type == "cuda" else values

    def _to_device(self, values: Sequence[int]) -> torch.Tensor:
        return self._pinned(torch.tensor(values, dtype=torch.int64)).to(self._device, non_blocking=True)

    def gather(self, work: Work, index: torch.Tensor) -> Any:
        """Returns a batch whose samples are all in memory. index: the result of index() on the device."""
        self._begin_use()
        assert self.form is not None and self.tiers is not None and work.places is not None
        if len(self.tiers) == 1:
            used, order = [(self.tiers[0], index, work.places[0])], index
        else:
            counts = [len(place) for place in work.places]
            *pieces, order = torch.split(index, [*counts, len(index) - sum(counts)])
            used = [each for each in zip(self.tiers, pieces, work.places, strict=True) if each[2]]
        rows: list[Rows] = []
        for leaf, layout in enumerate(self.form.layouts):
            if layout is None:
                rows.append([self._objects[entry][leaf] for entry in work.entries])
                continue
            found = [tier.load(leaf, piece, place) for tier, piece, place in used]
            rows.append(found[0] if len(found) == 1 else torch.cat(found).index_select(0, order))
        return self.form.batch(rows)

    def finish(self, work: Work, computed: list[list[Rows]], records: torch.Tensor | None) -> Any:
        """Stores computed rows and returns the batch.

        computed: rows of each computed part of the batch. records: those of the entries work.disk, on the device."""
        self._begin_use()
        assert self.form is not None
        groups: list[tuple[list[int], list[Rows]]] = []
        if work.computed:
            new = _joined(computed)
            self._count_nan(new)
            groups += self._write(work, new)
        if work.disk:
            assert self.folder is not None and records is not None
            groups.append((work.disk, self.folder.split(records)))
        for entries, rows in groups:
            self._keep(entries, rows)
        there = {entry for entries, _ in groups for entry in entries}
        groups += self._load([entry for entry in dict.fromkeys(work.entries) if entry not in there])
        place = {entry: i for i, entry in enumerate(entry for entries, _ in groups for entry in entries)}
        order = [place[entry] for entry in work.entries]
        whole = _joined([rows for _, rows in groups])
        if order != list(range(len(place))):
            index = self._to_device(order)
            whole = [
                rows.index_select(0, index) if isinstance(rows, torch.Tensor) else [rows[i] for i in order]
                for rows in whole
            ]
        return self.form.batch(whole)

    def _write(self, work: Work, rows: list[Rows]) -> list[tuple[list[int], list[Rows]]]:
        """Writes computed rows to the folder. Returns the groups of entries and rows that the batch uses. If the work
        was planned before the folder was open, entries that are already there are read, because another run may have
        computed them with other bits."""
        if self._open_folder is None:
            return [(work.computed, rows)]
        if self.folder is None:
            assert self.form is not None
            self.folder = self._open_folder(self.form)
            self.folder.digests = self.digests
        entries, groups = work.computed, []
        if work.is_early:
            early = Work(entries)
            early.computed = entries
            self._plan_reading(early)
            records, _ = self.finish_reading(early)
            if records is not None:
                groups.append((early.disk, self.folder.split(records.to(self._device))))
                known = set(early.disk)
                kept = [row for row, entry in enumerate(entries) if entry not in known]
                entries = [entries[row] for row in kept]
                index = self._to_device(kept)
                rows = [each.index_select(0, index) for each in rows if isinstance(each, torch.Tensor)]
        if entries:
            self.folder.write(entries, rows)
            groups.append((entries, rows))
        return groups

    def _load(self, entries: list[int]) -> list[tuple[list[int], list[Rows]]]:
        """Loads entries from the tiers, in groups."""
        if not entries:
            return []
        assert self.form is not None
        if self.tiers is None or not all(self._is_stored[entry] for entry in entries):
            raise _native.Error(
                "a batch needs a sample that an earlier batch of this epoch did not compute because of an error: "
                "handle the earlier error, or start another epoch"
            )
        groups: list[tuple[list[int], list[Rows]]] = []
        first = 0
        for tier in self.tiers:
            inside = [entry for entry in entries if first <= self._slots[entry] < first + tier.capacity]
            if inside:
                place = [self._slots[entry] - first for entry in inside]
                index = self._to_device(place)
                rows: list[Rows] = []
                for leaf, layout in enumerate(self.form.layouts):
                    if layout is None:
                        rows.append([self._objects[entry][leaf] for entry in inside])
                    else:
                        rows.append(tier.load(leaf, index, place))
                groups.append((inside, rows))
            first += tier.capacity
        return groups

    def _keep(self, entries: list[int], rows: list[Rows]) -> None:
        if self.tiers is None and self._measures_later() and len(self._pending) < _MEASURED_AFTER:
            # Copies, because the loop body may change the memory of its batch.
            self._pending.append((entries, [each.clone() if isinstance(each, torch.Tensor) else each for each in rows]))
            return
        self.allocate()
        self._store(entries, rows)

    def _measures_later(self) -> bool:
        return self._device.type == "cuda" and self._limits[0] is None

    def allocate(self) -> None:
        """Allocates the tiers, unless that was done, and moves the rows there that were computed before."""
        if self.tiers is not None or self.form is None:
            return
        self._order_streams()
        self.tiers = allocate(self.form.layouts, self.count, self._device, self._limits)
        self._capacity = sum(tier.capacity for tier in self.tiers)
        pending, self._pending = self._pending, []
        for entries, rows in pending:
            self._store(entries, rows)

    def _store(self, entries: list[int], rows: list[Rows]) -> None:
        assert self.form is not None and self.tiers is not None
        first = 0
        for tier in self.tiers:
            inside = [i for i, each in enumerate(entries) if first <= self._slots[each] < first + tier.capacity]
            if inside:
                place = [self._slots[entries[i]] - first for i in inside]
                index = self._to_device(place)
                chosen = None if len(inside) == len(entries) else self._to_device(inside)
                for leaf, each in enumerate(rows):
                    if isinstance(each, torch.Tensor):
                        tier.store(leaf, index, place, each if chosen is None else each.index_select(0, chosen))
                for i in inside:
                    self._mark_stored(entries[i], i, rows)
            first += tier.capacity

    def _mark_stored(self, entry: int, row: int, rows: list[Rows]) -> None:
        objects = [each[row] if isinstance(each, list) else None for each in rows]
        if any(isinstance(each, list) for each in rows):
            self._objects[entry] = objects
        self.stored += not self._is_stored[entry]
        self._is_stored[entry] = True

    def _count_nan(self, rows: list[Rows]) -> None:
        assert self.form is not None
        has_nan = None
        for each, layout in zip(rows, self.form.layouts, strict=True):
            if layout is None or not isinstance(each, torch.Tensor):
                continue
            if (found := layout.has_nan(each)) is not None:
                has_nan = found if has_nan is None else has_nan | found
        if has_nan is not None:
            number = has_nan.sum()
            self._nan_rows = number if self._nan_rows is None else self._nan_rows + number

    def _begin_use(self) -> None:
        if self._is_closed:
            raise _native.Error(
                "the features of this iteration were dropped, because another iteration has begun after the stage or "
                "the data changed: end one iteration before that"
            )
        self._order_streams()

    def _order_streams(self) -> None:
        """Makes the current stream wait for the stream that used the tiers before. Stages of two pipelines, and the
        two plans of plan="auto", use different streams."""
        if self._device.type != "cuda":
            return
        stream = torch.cuda.current_stream(self._device)
        if self._last is not None and stream != self._last:
            stream.wait_stream(self._last)
        self._last = stream

    def forget(self, entries: Sequence[int]) -> None:
        """Forgets entries, which are then computed again. Their rows in memory are used again."""
        self.allocate()  # rows that wait for it would otherwise be stored later, although they are forgotten
        for entry in entries:
            self.stored -= self._is_stored[entry]
            self._is_stored[entry] = False

    def begin_epoch(self, digests: Sequence[int]) -> None:
        """Prepares for an epoch: allocates the tiers if the form of the batches is known."""
        self.digests = digests
        if self.folder is not None:
            self.folder.digests = digests
            self.folder.refresh()
        self.allocate()

    def close(self) -> None:
        """Frees the memory. Work that is enqueued may still use it."""
        self._is_closed = True
        if self.folder is not None:
            self.folder.close()
            self.folder, self._open_folder = None, None
        if self._last is not None:
            for tier in self.tiers or ():
                for rows in tier.tensors():
                    if tier.name == "device":
                        rows.record_stream(self._last)
        self.tiers, self._capacity, self._pending = [], 0, []
        self._is_stored_tensor.zero_()
        self._objects.clear()
        self.stored = 0


def _joined(parts: Sequence[Sequence[Rows]]) -> list[Rows]:
    """Returns the rows of all parts, one part after the other."""
    if len(parts) == 1:
        return list(parts[0])
    joined: list[Rows] = []
    for pieces in zip(*parts, strict=True):
        if isinstance(pieces[0], torch.Tensor):
            joined.append(torch.cat(pieces))
        else:
            joined.append([each for piece in pieces for each in piece])
    return joined
