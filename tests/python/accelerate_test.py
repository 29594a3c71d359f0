"""Loops with Accelerate over slipstream.Pipeline and slipstream.DataLoader have the bits of plain loops."""

import pytest
import torch
from framework_loops import (
    ACCUMULATED,
    BATCH,
    BATCHES,
    CHECKED,
    EPOCHS,
    LOADERS,
    VALIDATED,
    WORLD,
    assert_same_run,
    compute_loss,
    copied_weights,
    make_model,
    make_optimizer,
    native_loader,
    normalize,
    pipeline,
    python_loader,
    ss_validation,
    torch_loader,
    torch_validation,
    train_serially,
)

import slipstream as ss

accelerate = pytest.importorskip("accelerate")
SAVED_AT = (1, 5)  # epoch, and batch in whose loop body the state is saved


class Loop:
    """A training with Accelerate. `transform` is applied in the loop body, unless a pipeline has applied it."""

    def __init__(self, make_loops, transform, dropout=0.0):
        self.accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=ACCUMULATED)
        model = make_model(dropout)
        self.model, self.optimizer = self.accelerator.prepare(model, make_optimizer(model))
        self.transform = transform
        self.loader, self.validation = make_loops(self.accelerator)
        self.losses, self.scores, self.flags = [], [], []

    def train(self, loops, folder=None):
        """Trains an epoch on each of `loops`; saves the state to `folder`."""
        for epoch, (first, loop) in enumerate(loops):
            for number, (images, labels) in enumerate(loop, first):
                self.step(images, labels)
                if number + 1 == CHECKED:
                    self.validate()
                if folder and (epoch, number) == SAVED_AT:
                    self.accelerator.save_state(folder)
        return self.losses, self.scores, copied_weights(self.model)

    def step(self, images, labels):
        with self.accelerator.accumulate(self.model):
            loss = compute_loss(self.model, self.transform(images), labels)
            self.accelerator.backward(loss)
            self.optimizer.step()
            self.optimizer.zero_grad()
        self.losses.append(loss.item())
        state = self.accelerator.gradient_state
        self.flags.append((self.accelerator.sync_gradients, state.end_of_dataloader, state.remainder))

    def validate(self):
        with torch.no_grad():
            scores = [self.accelerator.gather_for_metrics(self.model(self.transform(each)))
                      for each, _ in self.validation]
        assert sum(map(len, scores)) == VALIDATED
        self.scores += scores


def identity(images):
    return images


def whole_epochs(loop):
    return [(0, loop.loader)] * EPOCHS


def around_prepared(wrap, workers):
    def make_loops(accelerator):
        loaders = torch_loader(workers), torch_validation()
        return [wrap(accelerator.prepare_data_loader(each, device_placement=False)) for each in loaders]

    return make_loops


@pytest.mark.parametrize("workers", [0, 1])
def test_pipeline_around_prepared_loaders_gives_plain_bits(workers):
    plain = Loop(around_prepared(identity, workers), normalize, dropout=0.2)
    expected = plain.train(whole_epochs(plain))
    ours = Loop(around_prepared(pipeline, workers), identity, dropout=0.2)
    assert_same_run(ours.train(whole_epochs(ours)), expected)
    assert ours.flags == plain.flags
    assert [is_update for is_update, _, _ in plain.flags] == [False, False, True, False, False, True, True] * EPOCHS


def resumed_by_skipping(folder, wrap, transform):
    """Resumes in the epoch, and after the batch, in whose loop body the state was saved."""
    def make_loops(accelerator):
        prepared = accelerator.prepare_data_loader(torch_loader(), device_placement=False)
        return prepared, wrap(accelerator.prepare_data_loader(torch_validation(), device_placement=False))

    loop = Loop(make_loops, transform, dropout=0.2)
    loop.accelerator.load_state(folder)
    first = SAVED_AT[1] + 1
    skipping = wrap(loop.accelerator.skip_first_batches(loop.loader, first))
    result = loop.train([(first, skipping), (0, wrap(loop.loader))])
    return result, loop.flags


def test_pipeline_around_skipping_loader_resumes_with_plain_bits(tmp_path):
    plain = Loop(around_prepared(identity, 0), normalize, dropout=0.2)
    plain.train(whole_epochs(plain), tmp_path / "plain")
    ours = Loop(around_prepared(pipeline, 0), identity, dropout=0.2)
    ours.train(whole_epochs(ours), tmp_path / "ours")
    expected, flags = resumed_by_skipping(tmp_path / "plain", identity, normalize)
    result, our_flags = resumed_by_skipping(tmp_path / "ours", pipeline, identity)
    assert_same_run(result, expected)
    assert our_flags == flags and len(flags) == 1 + BATCHES


def around_own(make_loader, photos):
    def make_loops(accelerator):
        loaders = make_loader(photos), ss_validation()
        assert accelerator.prepare(*loaders) == loaders
        accelerator.register_for_checkpointing(loaders[0])
        return loaders

    return make_loops


@pytest.mark.parametrize("make_loader", LOADERS)
def test_own_loader_gives_bits_of_serial_loop_and_resumes(photos, tmp_path, make_loader):
    expected = train_serially(make_loader(photos), ss_validation())
    loop = Loop(around_own(make_loader, photos), normalize)
    assert_same_run(loop.train(whole_epochs(loop), tmp_path / "saved"), expected)
    epoch = [(False, False), (False, False), (True, False)] * 2 + [(True, True)]
    rest = len(loop.loader.dataset) % (BATCH * WORLD)
    assert loop.flags == [(is_update, is_end, rest) for is_update, is_end in epoch] * EPOCHS
    resumed = Loop(around_own(make_loader, photos), normalize)
    resumed.accelerator.load_state(tmp_path / "saved")
    assert resumed.loader.epoch == 1
    first = SAVED_AT[1] + 1
    losses, scores, weights = resumed.train([(first, resumed.loader), (0, resumed.loader)])
    later = BATCHES + first
    assert_same_run((losses, scores, weights), (expected[0][later:], expected[1][-3:], expected[2]))
    assert resumed.flags == loop.flags[later:]


def test_pipeline_around_own_loader_has_flags_of_the_batch_in_the_loop_body(photos):
    expected = train_serially(native_loader(photos), ss_validation())

    def make_loops(accelerator):
        return pipeline(native_loader(photos)), pipeline(ss_validation())

    loop = Loop(make_loops, identity)
    assert_same_run(loop.train(whole_epochs(loop)), expected)
    assert [is_end for _, is_end, _ in loop.flags] == ([False] * (BATCHES - 1) + [True]) * EPOCHS
    assert loop.accelerator.gradient_state.active_dataloader is None


def test_flags_end_with_a_loop_that_is_left():
    state = accelerate.Accelerator(cpu=True).gradient_state
    for _ in python_loader(None):
        assert state.in_dataloader and not state.end_of_dataloader
        break
    assert not state.in_dataloader
    for _ in python_loader(None):
        for _ in ss_validation():
            pass
        assert state.in_dataloader and state.remainder == 2


def test_flags_of_loaders_with_samplers():
    state = accelerate.Accelerator(cpu=True).gradient_state
    data = torch.utils.data.TensorDataset(torch.arange(10.0))
    sampler = torch.utils.data.SubsetRandomSampler(range(7))

    def flags(**options):
        return [(state.end_of_dataloader, state.remainder) for _ in ss.DataLoader(data, **options)]

    assert flags(batch_size=4, sampler=sampler) == [(False, 3), (True, 3)]
    assert flags(batch_sampler=[[1, 2], [3]]) == [(False, -1), (True, -1)]
    assert flags(batch_size=4, drop_last=True) == [(False, 0), (True, 0)]
    assert flags(batch_size=None) == [(False, -1)] * 9 + [(True, -1)]


@pytest.mark.parametrize("wrap", [lambda loader: loader, pipeline], ids=["loader", "pipeline"])
def test_functions_that_would_create_another_loader_are_refused(wrap):
    accelerator = accelerate.Accelerator(cpu=True)
    loop = wrap(python_loader(None))
    with pytest.raises(ss.Refused, match=r"skip_first_batches\(\) of Accelerate would create .* load_state_dict\(\)"):
        accelerator.skip_first_batches(loop, 2)
    with pytest.raises(ss.Refused, match=r"prepare_data_loader\(\) of Accelerate would create .*: leave it out"):
        accelerator.prepare_data_loader(loop)
    assert len(loop.dataset) == 50


def test_own_loader_inside_other_iterable_is_refused():
    accelerate.Accelerator(cpu=True)

    class Shown:
        def __iter__(self):
            return iter(python_loader(None))

    with pytest.raises(ss.Refused, match="give the loader itself"):
        next(iter(ss.Pipeline(Shown(), (), "cpu")))
    assert len(list(ss.Pipeline(Shown(), (), "cpu", serial=True))) == BATCHES
