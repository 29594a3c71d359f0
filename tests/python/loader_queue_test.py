"""A batch must be reported as ready exactly if PyTorch's iterator would not wait for one.

The tests put PyTorch's queue into random states: workers, which here are no processes, take work, create batches and
end at random times."""

import collections
import copy
import itertools
import queue
import random

import pytest
from slipstream import _sources
from torch.utils.data import _utils, dataloader

PASSES = 100  # of each kind
END = "end"


class WouldWait(BaseException):
    """A BaseException, because PyTorch's iterator handles every Exception."""


class Batches:
    def __init__(self, items=()):
        self.items = collections.deque(items)

    def put(self, item):
        self.items.append(item)

    def get(self, timeout=None):
        if not self.items:
            raise WouldWait
        return self.items.popleft()

    def get_nowait(self):
        if not self.items:
            raise queue.Empty
        return self.items.popleft()


class Alive:
    def is_alive(self):
        return True


class Event:
    def is_set(self):
        return False


class Iterator(dataloader._MultiProcessingDataLoaderIter):
    """PyTorch's iterator with the fields that its constructor creates, but without processes."""

    def __init__(self, draw, is_iterable, in_order):
        kinds = dataloader._DatasetKind
        self._dataset_kind = kinds.Iterable if is_iterable else kinds.Map
        self._persistent_workers, self._in_order = draw.random() < 0.5, in_order
        self._num_workers, self._prefetch_factor = draw.randint(1, 4), draw.randint(1, 4)
        self._timeout, self._pin_memory, self._shutdown = 0, False, False
        self._IterableDataset_len_called, self._num_yielded, self._profile_name = None, 0, ""
        count = self._num_workers
        self._index_queues = [Batches() for _ in range(count)]
        self._workers, self._workers_done_event = [Alive()] * count, Event()
        self._sampler_iter = itertools.repeat(None) if is_iterable else iter(range(draw.randint(0, 15)))
        self._data_queue = _sources._Queue(Batches())
        self._send_idx = self._rcvd_idx = self._tasks_outstanding = 0
        self._task_info, self._workers_status, self._workers_num_tasks = {}, [True] * count, [0] * count
        self._worker_queue_idx_cycle = itertools.cycle(range(count))
        self.left, self.ended = [draw.randint(0, 6) for _ in range(count)], [False] * count
        for _ in range(count * self._prefetch_factor):
            self._try_put_index()

    def _shutdown_workers(self):
        self._shutdown = True

    def work(self, worker):
        """Lets a worker complete one task, if it has one."""
        if self.ended[worker] or not self._index_queues[worker].items:
            return
        task = self._index_queues[worker].get()
        if task is None:
            return
        made = ("batch", task[0])
        self.left[worker] -= 1
        if self._dataset_kind == dataloader._DatasetKind.Iterable and self.left[worker] < 0:
            self.ended[worker] = True
            made = _utils.worker._IterableDatasetStopIteration(worker)
        self._data_queue._batches.put((task[0], made))

    def copied(self):
        other = object.__new__(Iterator)
        own = {name: value for name, value in vars(self).items() if name != "_data_queue"}
        vars(other).update({name: copy.copy(value) for name, value in own.items()})
        other._index_queues = [Batches(each.items) for each in self._index_queues]
        other._data_queue = _sources._Queue(Batches(self._data_queue._batches.items))
        other._data_queue._seen = copy.copy(self._data_queue._seen)
        return other

    def taken(self):
        """Returns the result of next(), END, or None if it would wait."""
        try:
            return next(self)
        except StopIteration:
            return END
        except WouldWait:
            return None


def seen_by_slipstream(iterator):
    workers = object.__new__(_sources._Workers)
    workers._iterator, workers._queue = iterator, iterator._data_queue
    workers._number = workers._queue.passes
    return workers


@pytest.mark.parametrize("is_iterable", [False, True])
@pytest.mark.parametrize("in_order", [True, False])
def test_ready_is_true_exactly_when_torch_iterator_would_not_wait(is_iterable, in_order):
    answers = collections.Counter()
    for seed in range(PASSES):
        draw = random.Random(seed)
        iterator = Iterator(draw, is_iterable, in_order)
        workers = seen_by_slipstream(iterator)
        taken = None
        while taken != END:
            for _ in range(draw.randint(0, 4)):
                iterator.work(draw.randrange(iterator._num_workers))
            expected = iterator.copied().taken()
            ready = workers.ready()
            assert ready == (expected is not None) or expected == END, (seed, vars(iterator))
            answers[ready] += 1
            if ready and draw.random() < 0.8 or draw.random() < 0.1:
                taken = iterator.taken()
                assert taken == expected
            elif expected == END:
                taken = END
    assert min(answers[True], answers[False]) > PASSES
