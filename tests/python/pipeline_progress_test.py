"""Loaders with attributes that tell whether a batch is the last one, like those of Accelerate."""

import pytest
import torch

import slipstream as ss


class Flagged:
    """A loader whose flags refer to the batch that it yields."""

    end_of_dataloader = False

    def __init__(self, count=8):
        self.count, self.iteration, self.is_iterating = count, 0, False
        self.batches = [torch.full((4,), float(i)) for i in range(count)]

    def __len__(self):
        return self.count

    def __iter__(self):
        self.end_of_dataloader, self.is_iterating = False, True
        for i, batch in enumerate(self.batches):
            self.end_of_dataloader = i + 1 == self.count
            self.state = {"given": i + 1}
            yield batch
        self.is_iterating = False
        self.iteration += 1


def seen(loader, loop):
    """Returns the flags in the loop body of each batch, and those after the loop."""
    def flags():
        return loader.end_of_dataloader, getattr(loader, "state", None), loader.iteration, loader.is_iterating

    all_flags = [(int(batch[0]), *flags()) for batch in loop]
    return [*all_flags, flags()]


def same(batch):
    return batch * 1.0


@pytest.mark.parametrize("count", [0, 1, 8])
@pytest.mark.parametrize("stages", [0, 1, 2])
@pytest.mark.parametrize("serial", [False, True])
def test_loader_flags_match_the_current_batch(device, stages, serial, count):
    plain, loader = Flagged(count), Flagged(count)
    pipe = ss.Pipeline(loader, [(f"stage{i}", same) for i in range(stages)], device, serial=serial)
    for _ in range(3):
        assert seen(loader, pipe) == seen(plain, plain)


def test_flags_after_break_match_the_last_batch():
    loader = Flagged()
    pipe = ss.Pipeline(loader, [("same", same)], "cpu")
    for number, _ in enumerate(pipe):
        if number == 2:
            break
    assert (loader.end_of_dataloader, loader.state, loader.iteration) == (False, {"given": 3}, 0)


def test_attributes_set_in_the_loop_body_are_kept():
    loader = Flagged()
    loader.note = None
    for number, _ in enumerate(ss.Pipeline(loader, [("same", same)], "cpu")):
        assert loader.note == (number - 1 if number > 0 else None)
        loader.note = number


def test_state_dict_matches_the_current_batch():
    class Stateful(Flagged):
        def state_dict(self):
            return self.state

        def load_state_dict(self, state):
            pass

    loader = Stateful()
    pipe = ss.Pipeline(loader, [("same", same)], "cpu")
    states = [(loader.state_dict(), pipe.state_dict()["loader"]) for _ in pipe]
    assert states == [({"given": i + 1}, {"given": i + 1}) for i in range(8)]


def test_loader_error_is_raised_after_earlier_batches():
    class Failing(Flagged):
        def __iter__(self):
            for i, batch in enumerate(super().__iter__()):
                if i == 5:
                    raise OSError("truncated")
                yield batch

    loader = Failing()
    given = []
    with pytest.raises(OSError, match="truncated"):
        for batch in ss.Pipeline(loader, [("same", same)], "cpu"):
            given.append((int(batch[0]), loader.state["given"]))
    assert given == [(i, i + 1) for i in range(5)]


def test_pipeline_inside_a_pipeline_is_refused_unless_serial():
    inner = ss.Pipeline(Flagged(), [("same", same)], "cpu")
    with pytest.raises(ss.Refused, match="is inside another iterable.*one slipstream.Pipeline with all stages"):
        ss.Pipeline(inner, [("again", same)], "cpu")
    assert len(list(ss.Pipeline(inner, [("again", same)], "cpu", serial=True))) == 8
