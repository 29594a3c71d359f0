"""Stages of a training loop that run ahead of its body."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from . import _native
from ._checks import EPOCHS, check, choose, device_named, is_device
from ._iteration import Iteration, Loop, Pass, SerialLoop, warn_of_lost_batches
from ._progress import HIDDEN, Progress, has_progress, refusing_hidden
from ._sources import LoaderPosition, States, has_state, make_source, set_epochs
from ._stages import Stage, refuse_stages, to_stages
from .data import DataLoader, refuse_own_iteration
from .datasets import Dataset


class Pipeline:
    """A loop over `loader` whose copies and stages run ahead of its body.

    loader: batches in host memory, page-locked where copies are to overlap (pin_memory=True): a
        torch.utils.data.DataLoader, a slipstream.DataLoader, or any iterable of tensors and of
        tuples, lists, mappings, named tuples and data classes of them, nested. Other objects
        pass through, changed by their to(device) where they have one.
    stages: names and callables, or `Stage`s, in their order.
    device: where tensors are copied: "cuda", "cuda:N" or "cpu", where nothing overlaps. By default
        that of `loader` if it is a slipstream.DataLoader, else "cuda" if there is one.
    run_ahead: batches that the host may enqueue, beyond those in flight, before the device has
        finished.
    serial: does everything on the caller's stream, in the order of a plain loop; for comparison.
        Only the copies of a slipstream.DataLoader stay ahead.

    While the body works on batch n, the stages work on n + 1 and the copies on n + 2. Each batch is
    what a plain loop on one stream gives, bit for bit, as long as stages and body share nothing
    that either of them writes. What can be seen of that is checked: a stage with trained
    parameters, in training mode, or whose weights are written meanwhile, one that gives the same
    memory twice, and two that draw from one generator of random numbers are errors.

    The body runs on the caller's current stream, which waits for each batch. Its tensors may be
    kept for any time. The host waits for the device only to stay within `run_ahead`.

    Around a loader with state_dict() and load_state_dict() it has both, too: where the body is, while the
    loader's own is as far as was read ahead. Around a slipstream.DataLoader they are that one's.

    >>> encoder = torch.nn.Linear(4, 2).eval().requires_grad_(False)
    >>> batches = [(torch.ones(8, 4), ["a.jpg"] * 8) for _ in range(3)]
    >>> pipe = ss.Pipeline(batches, stages=[("encode", encoder)], device="cpu")
    >>> len(pipe)
    3
    >>> for features, names in pipe:
    ...     pass
    >>> features.shape, names[0]
    (torch.Size([8, 2]), 'a.jpg')
    """

    def __init__(
        self,
        loader: Iterable[Any],
        stages: Sequence[Stage | tuple[str, Callable[..., Any]]] = (),
        device: str | torch.device | None = None,
        run_ahead: int = 2,
        serial: bool = False,
    ) -> None:
        gives_items = hasattr(loader, "__iter__") or hasattr(loader, "__getitem__")
        if isinstance(loader, Dataset) or not gives_items:
            raise _native.Refused(
                f"slipstream.Pipeline goes around what gives batches, a loader or another iterable, not "
                f"{type(loader).__name__}"
            )
        self.loader = loader
        self.stages = to_stages(stages)
        self.device = _choose_device(loader, device)
        self.run_ahead = run_ahead
        check(choose(serial=(serial, (True, False))))
        self.serial = bool(serial)
        innermost = loader
        while isinstance(innermost, Pipeline):
            innermost = innermost.loader
        if innermost is not loader and has_progress(innermost) and not self.serial:
            raise _native.Refused(HIDDEN)
        self._has_warned = False
        self._place = LoaderPosition(loader, resumes=isinstance(innermost, DataLoader))
        if isinstance(loader, DataLoader):
            refuse_own_iteration(loader, "a slipstream.Pipeline")
            self.state_dict, self.load_state_dict = loader.state_dict, loader.load_state_dict
        elif has_state(loader):
            self.state_dict, self.load_state_dict = self._place.state_dict, self._place.load_state_dict
        refuse_stages(self.stages, run_ahead)

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        stages = ", ".join(stage.name for stage in self.stages)
        return f"Pipeline({type(self.loader).__name__}, stages=[{stages}], device={self.device})"

    def set_epoch(self, epoch: int) -> None:
        """The next pass is that of `epoch`: stages with a seed draw by it. The loader's set_epoch() is
        called with it, or where it has none, those of its sampler, batch_sampler and data set, such as
        torch.utils.data.DistributedSampler's."""
        check(epoch=(epoch, 0, EPOCHS - 1))
        self._place.seek(operator.index(epoch))
        set_epochs(self.loader, operator.index(epoch))

    def __iter__(self) -> Iterator[Any]:
        refuse_stages(self.stages, self.run_ahead)
        stages, device = self.stages, self.device
        if not isinstance(self.loader, DataLoader):
            return self._foreign_iteration()
        if self.serial:
            loader = self.loader
            return Iteration(
                lambda: SerialLoop(iter(loader), stages, device, loader._first_number())
            )
        return self.loader._pass(self.stages, self.run_ahead)

    def _foreign_iteration(self) -> Iteration:
        """The loader's own iterator is made here, as in a plain loop: it may draw random numbers. The epoch begins
        with the first batch, for frameworks iterate a loader only to see whether they can."""
        states = States(self.loader) if has_state(self.loader) else None
        source, ready = make_source(self.loader, states)
        progress: Progress | None = None
        if not self.serial and has_progress(self.loader):
            source = progress = Progress(self.loader, source)
        elif not self.serial:
            source = refusing_hidden(source)
        stages, device, place = self.stages, self.device, self._place
        epoch = batch = 0

        def begin() -> Pass | SerialLoop:
            nonlocal epoch, batch
            epoch, batch = place.begin()
            first = (epoch << 32) + batch
            if self.serial:
                return SerialLoop(source, stages, device, first)
            return Pass(source, ready, stages, device, self.run_ahead, first)

        def passed(given: int) -> None:
            if progress is not None:
                progress.give(given)
            if states is not None and (state := states.given(given)) is not None:
                place.given(state, epoch, batch + given)

        def ended() -> None:
            if progress is not None:
                progress.end()
            place.end()

        is_lost = isinstance(self.loader, Iterator) and not self.serial
        return Iteration(
            begin,
            None if states is None and progress is None else passed,
            ended=ended,
            left=self._warn_of_lost_batches if is_lost else None,
        )

    def _warn_of_lost_batches(self, loop: Loop) -> None:
        if not self._has_warned:
            self._has_warned = warn_of_lost_batches(loop, type(self.loader).__name__)


def _choose_device(loader: Iterable[Any], device: str | torch.device | None) -> str:
    if isinstance(loader, DataLoader):
        if device is not None and not is_device(device, loader.device):
            raise _native.Refused(
                f"the loader fills memory for {loader.device}, but the pipeline's device is "
                f"{device}: give both the same"
            )
        return loader.device
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return device_named(device)
