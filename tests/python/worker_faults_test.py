"""Any failure in worker processes ends in an error, and leaves no process."""

import contextlib
import gc
import multiprocessing
import os
import re
import resource
import signal
import subprocess
import sys
import time
import types
import warnings

import interpreters
from processes import is_there, wait_until
import pytest
import torch

import slipstream as ss
from slipstream import _workers

T = ss.transforms


class Squares:
    def __init__(self, bad=None, length=20):
        self.bad, self.length = bad, length

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        if i == 11 and self.bad is not None:
            return self.bad(i)
        return torch.tensor(i), torch.full((2,), i * i)


def raises(i):
    raise ValueError(f"no {i}")


def raise_index_error(i):
    return [0][i]


def kill_itself(_):
    os.kill(os.getpid(), signal.SIGKILL)


def children():
    gc.collect()
    return multiprocessing.active_children()


def error_message(error, *args, **kwargs):
    with pytest.raises(error) as raised:
        list(ss.DataLoader(*args, **{"num_workers": 1} | kwargs))
    return str(raised.value)


@pytest.mark.parametrize("workers", [1, 3])
def test_worker_exception_includes_its_traceback(workers):
    message = error_message(ss.Error, Squares(raises), 4, num_workers=workers)
    assert "step 'read' of sample 11 (sample 11, epoch 0, batch 2): ValueError: no 11" in message
    assert "Traceback" in message and "in raises" in message and 'raise ValueError(f"no {i}")' in message
    assert "_worker_process.py" not in message


def test_index_error_below_len_is_explained():
    message = error_message(ss.Error, Squares(raise_index_error), 4)
    assert "IndexError" in message
    if sys.version_info >= (3, 11):
        assert "len() is 20, so it must have a sample 11" in message


def test_bad_samples_are_skipped():
    loader = ss.DataLoader(Squares(raises), 4, num_workers=2, on_bad_sample="skip")
    messages = []
    for _ in range(2):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            assert [x.tolist() for x, _ in loader] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10], [12, 13, 14, 15],
                                                       [16, 17, 18, 19]]
        messages += [str(each.message) for each in told]
    assert len(messages) == 1 and "skipped 1 bad of 20 samples: sample 11 (loader.skipped" in messages[0]
    assert [*loader.skipped] == ["sample 11"] and "ValueError: no 11" in loader.skipped["sample 11"]
    # with these options batches stay full
    for options in ({"shuffle": True}, {"drop_last": True}, {"rank": 0, "world_size": 2}):
        loader = ss.DataLoader(Squares(raises), 4, num_workers=2, on_bad_sample="skip", **options)
        assert all(len(x) in (2, 4) for x, _ in loader)
    bad = [Squares(raises)[i] if i != 11 else 0 for i in range(20)]
    assert len(list(ss.DataLoader(bad[11:], 3, shuffle=True, on_bad_sample="skip", seed=0, num_workers=1))) == 3
    with pytest.raises(ss.Error, match="of sample 1: the sample is {}, which contains no value"):
        ss.DataLoader([{}, {}], 1, on_bad_sample="skip", num_workers=1)


def test_exception_in_transform_names_step_and_sample(photos):
    def fails(image):
        if image.float().mean() >= 0:
            raise RuntimeError("broken")

    chain = T.Compose([T.CenterCrop(8), fails])
    message = error_message(ss.Error, ss.ImageFolder(photos, chain), 4)
    assert "step 'fails_1' of sample 0" in message and "000000.jpg" in message
    assert "RuntimeError: broken" in message and "in fails" in message
    message = error_message(ss.Error, ss.ImageFolder(photos, T.Compose([T.CenterCrop(8), lambda x: x.double()])), 4)
    assert "<lambda> returned a tensor of 3 x 8 x 8, float64, on cpu, but a transform must return an image" in message


def test_samples_with_failing_transform_are_skipped(photos):
    def picky(image):
        if image[0, 0, 0] % 2 == 0:
            raise RuntimeError("even")
        return image

    loader = ss.DataLoader(ss.ImageFolder(photos, T.Compose([T.CenterCrop(8), picky])), 5, num_workers=2,
                           shuffle=True, on_bad_sample="skip", seed=0)
    firsts = torch.cat([images[:, 0, 0, 0] for images, _ in loader])
    assert len(firsts) == 50 and (firsts % 2 == 1).all()


@pytest.mark.parametrize(("end", "text"), [
    (kill_itself, r"pid \d+\) was ended by signal 9 \(Killed\)"), (lambda i: os._exit(7), "exited with code 7"),
    (lambda i: sys.exit(3), "exited with code 3")])
def test_worker_process_that_exits_is_named_in_error(end, text):
    loader = ss.DataLoader(Squares(end), 4, num_workers=2, on_bad_sample="skip")
    with pytest.raises(ss.Error, match=rf"of sample 11 .*worker process [01] \(?.*{text}"):
        list(loader)
    loader.set_epoch(3)  # new processes replace those that ended
    seen = []
    with pytest.raises(ss.Error, match="worker process"):
        for x, _ in loader:
            seen += x.tolist()
    assert seen == list(range(8))


def test_iteration_can_be_retried_after_worker_exit(tmp_path):
    def ends_once(i):
        while not (tmp_path / "begun").exists():  # processes that end between two epochs are replaced
            time.sleep(0.01)
        if not (tmp_path / "done").exists():
            (tmp_path / "done").touch()
            os._exit(1)
        return Squares()[i]

    loader = ss.DataLoader(Squares(ends_once), 4, num_workers=1)
    seen = []
    with pytest.raises(ss.Error, match="exited with code 1"):
        for x, _ in loader:
            (tmp_path / "begun").touch()
            seen += x.tolist()
    loader.load_state_dict(loader.state_dict())
    seen += [i for x, _ in loader for i in x.tolist()]
    assert seen == list(range(20))


def test_samples_of_different_structure_raise():
    other = {"text": lambda i: (torch.tensor(i), "text"), "shape": lambda i: (torch.tensor(i), torch.zeros(3)),
             "type": lambda i: (torch.tensor(i), torch.zeros(2, dtype=torch.int32)), "more": lambda i: (1, 2, 3)}
    found = {name: error_message(ss.Error, Squares(bad), 4) for name, bad in other.items()}
    assert all("of sample 11" in each for each in found.values())
    assert "is (int64, str), but the first one was (int64, int64 of 2)" in found["text"]
    assert "is (int64, float32 of 3), but the first one was (int64, int64 of 2)" in found["shape"]
    assert "int32 of 2" in found["type"] and "(int64, int64, int64)" in found["more"]


def test_images_of_different_sizes_need_a_transform():
    images = [(torch.zeros(3, 8, 8 + i // 3), i) for i in range(6)]
    message = error_message(ss.Error, ss.PythonDataset(images, T.RandomHorizontalFlip()), 3)
    assert "of sample 3" in message and "8 x 9 x 3" in message and "8 x 8 x 3" in message
    assert len(list(ss.DataLoader(ss.PythonDataset(images, T.CenterCrop(6)), 3, num_workers=1))) == 2
    message = error_message(ss.Error, ss.PythonDataset([(1, 2)], T.CenterCrop(6)), 1)
    assert "transforms are applied to images" in message


def test_invalid_data_and_start_methods_are_refused():
    for stream in (iter([1]), "photos"):
        assert "give an iterable-style data set to slipstream.DataLoader directly" in error_message(ss.Refused, stream)
    for workers in (0, 1):
        assert "the data set is empty" in error_message(ss.Refused, [], num_workers=workers)
        message = error_message(ss.Refused, [1, 2], 3, drop_last=True, num_workers=workers)
        assert "batch" in message
    assert "give one of fork, " in error_message(ss.Refused, [1], multiprocessing_context="thread")
    assert "of type int" in error_message(ss.Refused, [1], multiprocessing_context=1)
    message = error_message(ss.Refused, Squares(lambda i: i), 4, multiprocessing_context="spawn")
    assert "cannot be started with 'spawn'" in message and "multiprocessing_context='fork'" in message
    assert children() == []


def test_error_in_worker_init_fn_is_raised():
    class Slow(Squares):
        def __getitem__(self, i):
            time.sleep(0.01)
            return super().__getitem__(i)

    for options in ({}, {"on_bad_sample": "skip"}):  # an error of worker_init_fn is not a bad sample
        message = error_message(ss.Error, [1, 2], worker_init_fn=lambda number: {}[number], **options)
        assert message.startswith("KeyError: 0\nin worker process 0")
        message = error_message(ss.Error, Slow(length=2000), num_workers=2, worker_init_fn=lambda number: {0: 0}[number], **options)
        assert message.startswith("step 'read' of sample") and "KeyError: 1\nin worker process 1" in message


def test_too_little_shared_memory_raises_with_needed_bytes():
    def limit(_):
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

    small = [torch.zeros(100)] * 3
    assert len(list(ss.DataLoader(small, 1, worker_init_fn=limit, num_workers=1))) == 3
    message = error_message(ss.Error, [torch.zeros(1 << 20)] * 3, 1, worker_init_fn=limit)
    assert "needs 4194304 bytes of memory shared with its worker process (File too large)" in message


def test_cuda_in_forked_worker_raises_with_advice(monkeypatch):
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)
    message = error_message(ss.Error, Squares(lambda i: torch.cuda.init()), 4, multiprocessing_context="fork")
    assert "Cannot re-initialize CUDA in forked subprocess" in message and "'forkserver' or 'spawn'" in message


def test_deleting_the_loader_ends_its_processes():
    loader = ss.DataLoader(Squares(lambda i: time.sleep(1000)), 4, num_workers=2)
    next(iter(loader))
    assert len(children()) == 2
    del loader
    wait_until(lambda: children() == [])  # long before the sample has been read


def test_sigterm_ends_worker_despite_handler_of_program():
    others = children()
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        loader = ss.DataLoader(Squares(), 4, num_workers=1)
        process = next(each for each in children() if each not in others)
        process.terminate()
        process.join(100)
        assert process.exitcode == -signal.SIGTERM
        assert len(list(loader)) == 5  # a new process replaces the one that ended
    finally:
        signal.signal(signal.SIGTERM, before)


def test_slow_sample_does_not_delay_the_next_iteration(tmp_path):
    def slow_once(i):
        with contextlib.suppress(FileExistsError):
            (tmp_path / "begun").touch(exist_ok=False)
            time.sleep(1000)
        return Squares()[i]

    loader = ss.DataLoader(Squares(slow_once), 4, num_workers=3)
    for x, _ in loader:
        assert x.tolist() == [0, 1, 2, 3]
        break
    wait_until((tmp_path / "begun").exists)
    loader.set_epoch(1)
    assert torch.cat([x for x, _ in loader]).tolist() == list(range(20))


def test_exit_of_forked_process_keeps_the_parents_loader():
    loader = ss.DataLoader(Squares(), 4, num_workers=2)
    batch = next(iter(loader))
    process = os.fork()
    if process == 0:
        del loader, batch
        gc.collect()
        os._exit(5)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 5
    assert len(list(loader)) == 5


FORKS = """
import os, sys
import slipstream as ss, torch

def in_a_fork(call):
    process = os.fork()
    if process == 0:
        try:
            told = call()
        except ss.Refused as error:
            told = f"Refused: {error}"
        print(told, flush=True)
        os._exit(0)
    os.waitpid(process, 0)

data = ss.ImageFolder(sys.argv[1], ss.transforms.Resize([16, 16]))
in_python = ss.DataLoader(range(20), 4, num_workers=1)
mixed = ss.DataLoader(ss.ImageFolder(sys.argv[1], ss.transforms.Compose([ss.transforms.Resize([8, 8]), abs])), 5, num_workers=1)
loaders = [ss.DataLoader(data, 5, num_workers=2) for _ in range(2)]
labels = [label.tolist() for _, label in loaders[0]]
for loader in loaders:
    in_a_fork(lambda: [label.tolist() for _, label in loader] == labels)
batches = iter(loader)
next(batches)
in_a_fork(lambda: list(batches))
in_a_fork(lambda: list(in_python))
in_a_fork(lambda: ss.Trainer(mixed, torch.nn.Linear(1, 1), steps=1))
print([label.tolist() for _, label in batches] == labels[1:], len(list(in_python)))
"""


def test_forked_process_can_read_native_but_not_python_loaders(photos):
    run = interpreters.run(FORKS, photos, ignores_warnings=True)
    refused = r"Refused: this {} was created in the process that this one was forked from, .*\n"
    expected = "True\nTrue\n" + refused.format("iterator of a loader") + refused.format("loader") * 2 + "True 5\n"
    assert re.fullmatch(expected, run.stdout), run.stdout + run.stderr


PROGRAM = """
import multiprocessing, os, sys, time
import torch
import slipstream as ss

class Slow:
    def __len__(self):
        return 8
    def __getitem__(self, i):
        if i >= int(sys.argv[1]):
            os.write(1, b"process %d\\n" % os.getpid())
            time.sleep(1000)
        return i

if __name__ == "__main__":
    multiprocessing.set_forkserver_preload(["slipstream"])
    loader = ss.DataLoader(Slow(), 2, num_workers=2, multiprocessing_context=sys.argv[2])
    for batch in loader:
        os.write(1, b"batch\\n")
"""


UNDEFINED = """
import sys
import slipstream as ss

class Squares(list):
    pass

try:
    ss.DataLoader(Squares([1, 2]), 1, multiprocessing_context="spawn", num_workers=1)
except ss.Error as error:
    print(error)
"""


def test_advice_differs_for_programs_that_are_no_file(monkeypatch):
    main = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    for name in (None, "<stdin>", "/no/such/file.py"):
        main.__file__ = name
        assert "this program is not a file" in _workers._advice_for_unforked()
    main.__file__ = __file__
    assert "if __name__ == '__main__'" in _workers._advice_for_unforked()


@pytest.mark.parametrize("how", ["-c", "file"])
def test_unimportable_class_in_spawned_worker_gives_advice(tmp_path, how):
    (tmp_path / "program.py").write_text(UNDEFINED)
    words = {"-c": ["-c", UNDEFINED], "file": [tmp_path / "program.py"]}[how]
    run = subprocess.run([sys.executable, *words], text=True, timeout=300, capture_output=True, check=False,
                         env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    in_a_module = "this program is not a file" in run.stdout and "in a module, or give multiprocessing_context='fork'" in run.stdout
    assert in_a_module == (how != "file"), run.stdout + run.stderr
    assert ("if __name__ == '__main__'" in run.stdout) == (how == "file"), run.stdout + run.stderr


@pytest.mark.parametrize(("how", "first_slow", "method"), [
    (signal.SIGINT, 0, "fork"), (signal.SIGINT, 2, "forkserver"),
    (signal.SIGKILL, 0, "forkserver"), (signal.SIGKILL, 2, "fork")])
def test_no_worker_outlives_the_program(tmp_path, how, first_slow, method):
    (tmp_path / "program.py").write_text(PROGRAM)
    program = subprocess.Popen([sys.executable, tmp_path / "program.py", str(first_slow), method], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    workers = []
    while len(workers) < (2 if first_slow else 1):
        words = program.stdout.readline().split()
        assert words, program.stderr.read()
        if words[0] == "process":
            workers.append(int(words[1]))
    if how == signal.SIGINT:
        os.killpg(program.pid, how)  # a terminal signals the whole group, too
    else:
        program.kill()
    program.wait(100)
    wait_until(lambda: not any(map(is_there, workers)))
    _, errors = program.communicate(timeout=100)
    assert program.returncode == -how and (how == signal.SIGKILL or "KeyboardInterrupt" in errors)


def kill_all(processes):
    for process in processes:
        process.kill()
        process.join(100)


@pytest.mark.parametrize("workers", [1, 3])
def test_workers_killed_between_epochs_are_replaced(workers):
    others = children()
    loader = ss.DataLoader(Squares(), 4, num_workers=workers)
    for _ in range(3):
        assert torch.cat([x for x, _ in loader]).tolist() == list(range(20))
        kill_all([each for each in children() if each not in others])


def test_trainer_replaces_killed_workers(photos):
    others = children()
    to_float = T.ToDtype(torch.float32, scale=True)

    def loader():
        chain = T.Compose([T.CenterCrop(8), lambda image: image.flip(2), to_float])
        return ss.DataLoader(ss.ImageFolder(photos, chain), 10, num_workers=2)

    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 8 * 8, 3))
    trainer = ss.Trainer(loader(), model, epochs=1, val=loader(), progress=False)
    kill_all([each for each in children() if each not in others])
    assert trainer.fit().steps == 5
    kill_all([each for each in children() if each not in others])
    assert "loss" in trainer.evaluate()


class Custom(Exception):
    def __init__(self, code, text):
        super().__init__(text)


@pytest.mark.parametrize("raised", [KeyError("no key"), ValueError("no value"), OSError(5, "no file"), Custom(3, "own"),
                                    UnicodeDecodeError("utf-8", b"x", 0, 1, "no text"), ZeroDivisionError(),
                                    torch.OutOfMemoryError("no memory")])
def test_an_exception_in_a_worker_process_keeps_its_type(raised):
    def fails(i):
        raise raised

    for loop in (ss.DataLoader(Squares(fails), 4, num_workers=1), ss.Pipeline(ss.DataLoader(Squares(fails), 4, num_workers=1), [("same", lambda x: x)])):
        seen = []
        with pytest.raises(type(raised)) as caught:
            for x, _ in loop:
                seen += x.tolist()
        assert isinstance(caught.value, ss.Error) and "step 'read' of sample 11" in str(caught.value)
        assert "in worker process 0" in str(caught.value) and seen == list(range(8))


def test_exception_of_local_class_is_raised_as_slipstream_error():
    class Local(Exception):
        pass

    def fails(i):
        raise Local("own")

    with pytest.raises(ss.Error, match="Local: own\nin worker process 0"):
        list(ss.DataLoader(Squares(fails), 4, num_workers=1))
