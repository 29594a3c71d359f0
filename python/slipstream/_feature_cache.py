"""slipstream.FeatureCache: keeps the results of a frozen stage, so that later epochs do not compute them again."""

from __future__ import annotations

import json
import logging
from typing import Any

import torch

from . import _native
from ._checks import check, check_path, shortened, to_index
from ._feature_disk import FeatureFolder, open_folder
from ._feature_entries import Entries
from ._feature_rows import BatchForm
from ._feature_tiers import parse_size

_log = logging.getLogger("slipstream")
_DTYPES = {
    "bf16": torch.bfloat16, "bfloat16": torch.bfloat16, "fp16": torch.float16, "float16": torch.float16,
    "fp32": torch.float32, "float32": torch.float32, "fp8": torch.float8_e4m3fn, "float8_e4m3fn": torch.float8_e4m3fn,
}


class FeatureCache:
    """Keeps the results of the stages of a `Pipeline`, up to one stage, for later epochs.

    The first epoch fills the cache while training runs. In later epochs, samples that are cached are neither read nor
    transformed, and the stages do not run for them. The cache keeps, for each sample, its row of each tensor in the
    batch after the stage, also of labels and masks, and its element of each list or tuple of Python objects. If only a
    part of the samples fits, the others are computed as before.

    Arguments:
        folder (path, default None): a folder on disk in which features are kept for later runs and for other processes.
            None: nothing is written to disk.
        versions (int, default 1): versions of each sample. With random transforms before the stage, more than one is
            needed: epoch e uses version e % versions. A version's random numbers depend on `seed`, the version and the
            sample.
        budget (int or str, default None): largest size of the folder, a number of bytes or a string such as "200 GB".
            Units are powers of 1024. None: no limit.
        device_memory (int or str, default None): largest size in device memory. None: what is free after the first
            batches, less 10 % of the device's memory.
        pinned_memory (int or str, default None): largest size in page-locked host memory, which holds what does not fit
            into device memory. None: a quarter of the free host memory.
        dtype (torch.dtype or str, default None): dtype in which floating-point results of the stage are stored, such
            as "bf16", or "fp8" with a scale for each sample. Batches have the original dtype. None: they are stored
            unchanged.
        key (str, default None): names the state of what cannot be described: a stage that is no module, and a data set
            in Python that is neither a folder of images nor in memory. Give another key when it changes.
        seed (int, default 0): seed of the random numbers of all versions, from 0 to 2**64 - 1.

    An object may be given to several pipelines. Pipelines share entries if their keys are equal, which contain the data
    set, its transforms, the code and the weights of the stages and the settings of PyTorch.

    Raises Refused for invalid arguments.

    >>> encoder = torch.nn.Linear(4, 2).eval().requires_grad_(False)
    >>> data = torch.utils.data.TensorDataset(torch.ones(6, 4), torch.arange(6))
    >>> loader = torch.utils.data.DataLoader(data, batch_size=2, shuffle=True)
    >>> cache = ss.FeatureCache(device_memory="1 MB")
    >>> pipe = ss.Pipeline(loader, [ss.Stage("encode", encoder, cache=cache)], device="cpu")
    >>> for epoch in range(3):
    ...     for features, labels in pipe:
    ...         pass
    >>> cache.report()["hits"], cache.report()["misses"]
    (12, 6)
    """

    def __init__(
        self,
        folder: Any = None,
        versions: int = 1,
        budget: int | str | None = None,
        device_memory: int | str | None = None,
        pinned_memory: int | str | None = None,
        dtype: torch.dtype | str | None = None,
        key: str | None = None,
        seed: int = 0,
    ) -> None:
        problems = []
        if key is not None and not isinstance(key, str):
            problems.append(f"key is {shortened(key)}: give a string that names the state of the stage and the data")
        if budget is not None and folder is None:
            problems.append("budget limits the size of the folder, but no folder is given: leave it out")
        check(problems, versions=(versions, 1, 1 << 16), seed=(seed, 0, (1 << 64) - 1))
        self.folder = None if folder is None else check_path("folder", folder)
        self.versions, self.seed, self.key = int(versions), int(seed), key
        self.budget = parse_size("budget", budget)
        self.device_memory = parse_size("device_memory", device_memory)
        self.pinned_memory = parse_size("pinned_memory", pinned_memory)
        self.dtype = _parse_dtype(dtype)
        self._entries: dict[str, Entries] = {}
        self._owners: dict[str, Any] = {}  # the data sets of each key, for refuse_other_data()
        self._changes: list[str] = []

    def __repr__(self) -> str:
        return f"FeatureCache(folder={self.folder!r}, versions={self.versions})"

    def __getstate__(self) -> dict[str, Any]:
        """Returns the settings. A copy of a cache, also in another process, begins without features in memory."""
        return vars(self) | {"_entries": {}, "_owners": {}, "_changes": []}

    def report(self) -> dict[str, Any]:
        """Returns the contents of the cache and how it was used. Waits for the device.

        The dict has "entries" (samples times versions), "stored" (entries in memory), "hits" and "misses" (samples of
        batches that were and were not in the cache), "row_bytes" (bytes of one sample), "tiers" (for "device" and
        "pinned" the "samples" that fit and their "bytes"), "disk" (None without a folder, else "records" and "bytes" in
        the folder, "hits", "misses", "damaged" records, "left_out" rows because the disk was slower than training, and
        "filling_ended", which says why nothing more is written), "nan_rows" (computed samples whose features contain
        NaN, which are stored unchanged) and "changes" (why entries were dropped)."""
        tiers: dict[str, dict[str, int]] = {}
        for each in self._entries.values():
            for tier in each.tiers or ():
                known = tiers.setdefault(tier.name, {"samples": 0, "bytes": 0})
                known["samples"] += tier.capacity
                known["bytes"] += tier.bytes
        entries = list(self._entries.values())
        folders = [each.folder.stats() for each in entries if each.folder is not None]
        return {
            "entries": sum(each.count for each in entries),
            "stored": sum(each.stored for each in entries),
            "hits": sum(each.hits for each in entries),
            "misses": sum(each.misses for each in entries),
            "row_bytes": max((each.form.row_bytes for each in entries if each.form is not None), default=0),
            "tiers": tiers,
            "disk": _added(folders) if self.folder is not None else None,
            "nan_rows": sum(each.nan_rows for each in entries),
            "changes": list(self._changes),
        }

    def flush(self) -> None:
        """Waits until all rows that were computed so far are written to the folder. At the end of the program this
        happens by itself."""
        for each in self._entries.values():
            if each.folder is not None:
                each.folder.flush()

    def _entries_for(self, key: str, selection: int, count: int, device: torch.device) -> Entries:
        """Returns the entries with this key for a selection of samples."""
        known = f"{device} {selection} {key}"
        if known not in self._entries:

            def open_disk(form: BatchForm) -> FeatureFolder:
                assert self.folder is not None
                description = json.dumps(form.description())
                samples = count // self.versions
                return open_folder(self.folder, self.budget, key, description, form.layouts, samples, device)

            limits = (self.device_memory, self.pinned_memory)
            self._entries[known] = Entries(count, device, limits, open_disk if self.folder is not None else None)
        return self._entries[known]

    def _drop(self, entries: Entries, why: str) -> None:
        """Frees entries whose key has changed."""
        self._changes.append(why)
        _log.info("the feature cache drops its entries: %s", why)
        self._entries = {key: each for key, each in self._entries.items() if each is not entries}
        entries.close()


def _added(stats: list[dict[str, Any]]) -> dict[str, Any]:
    """Adds the numbers of several folders, and joins their texts."""
    total: dict[str, Any] = {}
    for each in stats:
        for name, value in each.items():
            total[name] = total[name] + value if name in total else value
    return total


def _parse_dtype(given: Any) -> torch.dtype | None:
    dtype = _DTYPES.get(given) if isinstance(given, str) else given
    if given is not None and dtype not in _DTYPES.values():
        names = ", ".join(map(repr, _DTYPES))
        raise _native.Refused(f"dtype is {shortened(given)}: give {names}, or such a torch.dtype")
    return dtype


def parse_cache(stage: str, given: Any) -> FeatureCache | str | None:
    """Checks the argument `cache` of a stage."""
    if given is None or isinstance(given, FeatureCache) or (isinstance(given, str) and given == "auto"):
        return given
    raise _native.Refused(
        f"stage '{stage}': cache is {shortened(given)}: give 'auto', or a slipstream.FeatureCache"
    )
