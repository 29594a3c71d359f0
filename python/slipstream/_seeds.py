"""The seed of a slipstream.DataLoader: given by the caller, or sampled from a generator of PyTorch."""

from __future__ import annotations

from typing import Any

import torch

from . import _native

_shares: dict[str, int] = {}  # number of seeds that were shared for each kind of loader, in this process group
_group: Any = None  # the process group for which _shares counts


def is_distributed() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()


class Seed:
    """Without a given value, the seed is sampled when it is first needed, as torch.utils.data.DataLoader does when an
    iteration begins. It then stays the same, so that any epoch can be repeated.

    value (int or None): the given seed.
    generator (torch.Generator or None): the source of the seed. None means PyTorch's default generator."""

    def __init__(self, value: int | None, generator: torch.Generator | None) -> None:
        self._value, self._generator = value, generator
        self.is_given = value is not None

    def value(self, ranks: int, is_shared: bool, loader: str) -> int:
        """Returns the seed.

        ranks: number of processes that share the samples.
        is_shared: whether they are the processes of torch.distributed, which use the seed of rank 0.
        loader: text that is the same for this loader in all processes."""
        if self._value is None:
            if ranks > 1 and not is_shared:
                raise _native.Refused(
                    "rank and world_size were given, but neither `seed` nor torch.distributed, so the processes cannot "
                    "agree on an order: give all of them the same seed"
                )
            # Rank 0 alone decides, because scripts often seed each process differently.
            sampled = int(torch.empty((), dtype=torch.int64).random_(generator=self._generator).item())
            self._value = _shared(sampled, loader) if is_shared else sampled
        return self._value

    def adopt(self, value: int) -> None:
        """Uses the seed of a saved state."""
        self._value = value


def _shared(sampled: int, loader: str) -> int:
    """Returns what rank 0 sampled. Uses the store of torch.distributed instead of a broadcast, so that rank 0 never
    waits for the other processes."""
    global _group
    from torch.distributed import distributed_c10d

    group = distributed_c10d._get_default_group()
    if group is not _group:
        _group = group
        _shares.clear()
    number = _shares[loader] = _shares.get(loader, 0) + 1
    store: Any = distributed_c10d._get_default_store()
    key = f"slipstream/seed/{loader}/{number}"
    if torch.distributed.get_rank() == 0:
        store.set(key, str(sampled))
    return int(store.get(key))
