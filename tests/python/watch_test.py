"""slipstream.watch: what a loop waits for, what it writes, and that it changes nothing."""

import gc
import importlib
import logging
import re
import subprocess
import sys
import time
import types

import pytest
import torch

import slipstream as ss

STEPS = 8


class Slow(torch.utils.data.Dataset):
    """Sample `i` takes `compute` seconds of CPU time and sleeps for `sleep` seconds, if `i` is a multiple of `every`."""

    def __init__(self, compute=0.0, sleep=0.0, every=1, count=STEPS):
        self.count, self.compute, self.sleep, self.every = count, compute, sleep, every

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if index % self.every == 0:
            time.sleep(self.sleep)
            begin = time.thread_time()
            while time.thread_time() - begin < self.compute:
                pass
        return torch.tensor([index])


def slow_stage(batch):
    time.sleep(0.05)
    return batch


def torch_loader(dataset, num_workers=0):
    # prefetch_factor is 2, so 2 workers take the first 4 samples at once.
    return torch.utils.data.DataLoader(dataset, 1, num_workers=num_workers)


def watched(loader, **options):
    return ss.watch(loader, **{"log": None} | options)


def waits_after(loader, epochs=1, body=0.0):
    """Returns the waits of a loop whose body sleeps for `body` seconds, without those for the first batches."""
    watch = watched(loader)
    for _ in range(epochs):
        for _ in watch:
            time.sleep(body)
    report = watch.report()
    assert report.steps == epochs * STEPS
    assert sum(report.waits.values()) == pytest.approx(report.input_wait_share)
    assert list(report.waits.values()) == sorted(report.waits.values(), reverse=True)
    return {name: share for name, share in report.waits.items() if name != "first_batch"}


def computing_share(waits):
    """Returns the share of the waits in which code runs, or waits for a core on a busy machine."""
    return 1 - sum(share for name, share in waits.items() if name.endswith("_blocked")) / sum(waits.values())


def test_loading_in_loops_thread_is_divided_into_computing_and_waiting():
    computing, sleeping = (waits_after(torch_loader(Slow(**{kind: 0.02}))) for kind in ("compute", "sleep"))
    assert {*computing, *sleeping} == {"loading_cpu", "loading_blocked"}
    assert computing["loading_cpu"] > sleeping["loading_cpu"]
    assert sleeping["loading_blocked"] > sleeping["loading_cpu"]


def test_waits_for_workers_are_divided_into_computing_and_waiting():
    computing, sleeping = (waits_after(torch_loader(Slow(**{kind: 0.1}), 1)) for kind in ("compute", "sleep"))
    assert {*computing, *sleeping} <= {"worker_cpu", "worker_core", "worker_blocked", "receiving", "late_batch"}
    assert computing_share(computing) > computing_share(sleeping)
    assert max(sleeping, key=sleeping.get) == "worker_blocked"


def test_late_batch_is_a_part_if_later_ones_are_ready():
    # With 2 workers, one of them makes all slow samples. The body gives the other one the time to finish its samples.
    # On a busy machine it may still be late, so that other reasons have a larger share.
    waits = waits_after(torch_loader(Slow(sleep=0.9, every=4), 2), body=0.15)
    assert waits.get("late_batch", 0) > 0


def test_waits_of_a_pipeline_are_divided_into_loader_and_stages():
    slow_loader = waits_after(ss.Pipeline(torch_loader(Slow(sleep=0.1), 1), device="cpu"))
    assert max(slow_loader, key=slow_loader.get) == "worker_blocked"
    for serial in (False, True):
        stages = ss.Pipeline(torch_loader(Slow(), 1), [("slow", slow_stage)], device="cpu", serial=serial)
        waits = waits_after(stages)
        assert max(waits, key=waits.get) == "stages"


def test_waits_for_native_loader_are_divided_into_its_host_steps(photos):
    data = ss.ImageFolder(photos, ss.transforms.Resize((512, 512)))
    loader = ss.DataLoader(ss.Subset(data, range(STEPS * 4)), 4, num_workers=1)
    waits = waits_after(loader, epochs=2)
    assert waits.keys() >= {"read", "decode", "resize_0"}
    assert "loading_blocked" not in waits


def test_native_loader_with_python_data_set_names_reading():
    waits = waits_after(ss.DataLoader(Slow(sleep=0.1), 1, num_workers=1))
    assert max(waits, key=waits.get) == "read"


def test_loop_that_waits_less_has_a_smaller_share():
    busy, waiting = watched([0] * STEPS), watched(torch_loader(Slow(sleep=0.02)))
    for loop in (busy, waiting):
        for _ in loop:
            time.sleep(0.02)
    assert busy.report().input_wait_share < 0.2 < waiting.report().input_wait_share
    assert busy.report().steps == waiting.report().steps == STEPS


@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_gpu_that_still_has_work_does_not_wait(device):
    torch.cuda._sleep(1)
    shares = []
    for cycles in (1, 200_000_000):
        watch = watched(torch_loader(Slow(sleep=0.02)))
        for _ in range(2):
            for _ in watch:
                torch.cuda._sleep(cycles)
            torch.cuda.synchronize()
        shares.append(watch.report().input_wait_share)
    assert shares[1] < 0.5 < shares[0]


NUMBERS = torch.utils.data.TensorDataset(torch.arange(12))
SHUFFLED = [
    lambda: torch.utils.data.DataLoader(NUMBERS, 2, shuffle=True),
    lambda: torch.utils.data.DataLoader(NUMBERS, 2, shuffle=True, num_workers=2, persistent_workers=True),
    lambda: ss.DataLoader(NUMBERS, 2, shuffle=True, num_workers=1),
    lambda: ss.Pipeline(torch.utils.data.DataLoader(NUMBERS, 2, shuffle=True), [("add", lambda x: x)], device="cpu"),
]


@pytest.mark.parametrize("make", SHUFFLED)
def test_batches_and_random_numbers_are_those_of_a_plain_loop(make):
    results = []
    for wrap in (lambda loader: loader, watched):
        torch.manual_seed(5)
        loop = wrap(make())
        batches = [torch.cat([each[0] for each in loop]) for _ in range(2)]
        results.append([*batches, torch.get_rng_state()])
    for plain, with_watch in zip(*results, strict=True):
        assert torch.equal(plain, with_watch)


def test_nothing_in_the_loader_changes():
    loader = torch_loader(Slow(), 1)
    before = dict(vars(loader))
    for _ in watched(loader):
        pass
    assert vars(loader) == before


def test_length_and_attributes_are_those_of_the_loader(photos):
    data = ss.ImageFolder(photos, ss.transforms.RandomResizedCrop(8))
    loader = ss.DataLoader(data, 8, shuffle=True, num_workers=1, seed=1)
    watch = watched(loader)
    watch.set_epoch(3)
    assert (len(watch), watch.batch_size, watch.epoch, bool(watch)) == (7, 8, 3, True)
    assert watch.loader is loader and watch.sampler is loader.sampler
    state = next(iter(watch)) is not None and watch.state_dict()
    watch.load_state_dict(state)
    with pytest.raises(AttributeError, match="no_such_name"):
        watch.no_such_name
    assert not bool(watched([])) and not hasattr(watched([1]), "state_dict")
    with pytest.raises(TypeError):
        len(watched(iter([1])))


def test_each_iteration_is_an_epoch_and_time_between_epochs_does_not_count():
    lines = []
    watch = ss.watch([1, 2, 3], log=lines.append, name="train")
    for _ in range(2):
        assert list(watch) == [1, 2, 3]
        time.sleep(0.2)
    report = watch.report()
    assert (report.steps, report.batches_ready, report.state) == (6, None, "warming_up")
    assert report.seconds < 0.2
    assert [re.match(r"train: epoch \d: 3 steps in", line)[0] for line in lines] == [
        "train: epoch 1: 3 steps in", "train: epoch 2: 3 steps in"]


def test_break_ends_the_epoch_and_its_workers():
    lines = []
    watch = ss.watch(torch_loader(Slow(count=100), 2), log=lines.append)
    for _ in watch:
        break
    assert len(lines) == 1 and "epoch 1: 1 step in" in lines[0]
    gc.collect()
    assert torch.multiprocessing.active_children() == []
    assert watch.report().steps == 1
    assert len(list(watch)) == 100


def test_exception_of_the_body_ends_the_epoch():
    watch = watched([1, 2, 3])
    with pytest.raises(KeyError):
        for _ in watch:
            raise KeyError
    gc.collect()
    assert list(watch) == [1, 2, 3]
    assert watch.report().steps == 4


def test_exception_of_the_loader_is_unchanged_and_the_next_batch_follows():
    class Bad(Slow):
        def __getitem__(self, index):
            if index == 1:
                raise LookupError("bad sample")
            return super().__getitem__(index)

    batches = iter(watched(torch_loader(Bad(), 1)))
    assert next(batches).item() == 0
    with pytest.raises(LookupError, match="bad sample"):
        next(batches)
    assert [each.item() for each in batches] == [2, 3, 4, 5, 6, 7]


def test_of_two_iterations_the_later_is_measured():
    watch = watched([1, 2, 3])
    first = iter(watch)
    next(first)
    assert list(watch) == [1, 2, 3]
    assert list(first) == [2, 3]
    assert watch.report().steps == 4


def test_iterator_that_is_never_used_is_no_epoch():
    lines = []
    watch = ss.watch([1], log=lines.append)
    iter(watch)
    gc.collect()
    assert not lines and watch.report().steps == 0
    assert watch.report().text() == "watch: no batch yet\n"


def test_starving_loop_is_reported_with_what_it_waits_for():
    lines = []
    for _ in ss.watch(torch_loader(Slow(sleep=0.05, count=80)), log=lines.append, every=1000):
        pass
    starving = [line for line in lines if ": starving: the device waits for input " in line]
    assert len(starving) == 1
    assert "for a loader that waits for storage, network, locks or other processes" in starving[0]
    assert starving[0].endswith("; call slipstream.doctor(loader, step) to find the cause")


def test_report_is_shown_as_text(capsys):
    watch = watched(torch_loader(Slow(sleep=0.01)), name="train")
    list(watch)
    watch.report().show()
    shown = capsys.readouterr().out
    assert shown.startswith("train: 8 steps in ") and "loading_blocked" in shown
    assert shown == watch.report().text() + "\n"


class FakeRun:
    """Has the methods of wandb.Run that are used."""

    def __init__(self):
        self.logged = []

    def log(self, data, commit=True):
        self.logged.append((data, commit))


def test_run_of_wandb_gets_values_without_a_step_of_its_own(monkeypatch):
    run, current = FakeRun(), FakeRun()
    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(run=current))
    for _ in ss.watch(torch_loader(Slow(sleep=0.01)), log=[run, "wandb"], name="train"):
        pass
    assert run.logged == current.logged
    [(values, commit)] = run.logged
    assert commit is False
    assert values.keys() >= {"train/input_wait_share", "train/steps_per_second", "train/waits/loading_blocked"}
    assert 0 < values["train/waits/loading_blocked"] <= values["train/input_wait_share"] <= 1


def test_part_that_is_missing_in_a_later_interval_has_the_value_0():
    run = FakeRun()
    watch = ss.watch([1, 2], log=run)
    watch._parts = {"late_batch": 0.5}
    list(watch)
    assert run.logged[0][0]["watch/waits/late_batch"] == 0


def test_values_are_written_after_every_interval():
    run = FakeRun()
    list(ss.watch(torch_loader(Slow(sleep=0.02)), log=run, every=0.03))
    assert len(run.logged) > 1


def test_summary_writer_gets_scalars_at_the_step():
    written = []
    writer = types.SimpleNamespace(add_scalar=lambda *arguments: written.append(arguments))
    list(ss.watch(torch_loader(Slow()), log=writer))
    assert {"watch/input_wait_share", "watch/steps_per_second"} <= {tag for tag, _, _ in written}
    assert {step for _, _, step in written} == {STEPS}


def test_folder_gets_files_of_tensorboard(tmp_path):
    accumulators = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
    list(ss.watch(torch_loader(Slow()), log=tmp_path))
    events = accumulators.EventAccumulator(str(tmp_path)).Reload()
    assert [each.step for each in events.Scalars("watch/input_wait_share")] == [STEPS]


def test_packages_that_are_not_installed_are_refused_with_remedy(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ss.Refused, match="pip install tensorboard"):
        ss.watch([1], log=tmp_path)
    with pytest.raises(ss.Refused, match="pip install wandb"):
        ss.watch([1], log="wandb")
    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(run=None))
    with pytest.raises(ss.Refused, match=r"call wandb.init\(\)"):
        ss.watch([1], log="wandb")


@pytest.mark.parametrize("arguments, message", [
    ({"loader": 3}, "needs a loader or another iterable of batches, not int"),
    ({"every": 0}, "every is 0: give a number of seconds"),
    ({"every": float("nan")}, "every is nan"),
    ({"name": ""}, "name is ''"),
    ({"log": 3}, "log is 3: give a function"),
    ({"log": logging.getLogger("a")}, "such as logger.info"),
])
def test_invalid_arguments_are_refused(arguments, message):
    with pytest.raises(ss.Refused, match=message):
        ss.watch(**{"loader": [1]} | arguments)


def test_log_that_fails_is_left_out_with_one_warning():
    lines = []

    def fail(line):
        raise OSError("disk full")

    watch = ss.watch([1, 2], log=[fail, lines.append])
    with pytest.warns(RuntimeWarning, match="continues without this log: OSError: disk full") as warned:
        for _ in range(3):
            list(watch)
    assert len(warned) == 1 and len(lines) == 3
    assert warned[0].filename == __file__


def test_watching_does_not_initialize_cuda():
    program = "import torch, slipstream as ss; list(ss.watch([1], log=None)); assert not torch.cuda.is_initialized()"
    subprocess.run([sys.executable, "-c", program], check=True)
