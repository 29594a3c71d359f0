import os
import re
import signal

import interpreters
import pytest
import slipstream as ss
from trained import Failing, Net, make_trainer


def test_callback_error_ends_run_and_saves_checkpoint(photos, device, tmp_path):
    whole = make_trainer(photos, device).fit()

    def on_step(step):
        if step.step == 3:
            raise OSError("disk")

    trainer = make_trainer(photos, device, on_step=on_step, checkpoint=tmp_path / "run")
    with pytest.raises(OSError, match="disk"):
        trainer.fit()
    went_on = make_trainer(photos, device, checkpoint=tmp_path / "run", resume="auto")
    assert went_on.position == trainer.position >= 3
    assert went_on.fit().digest == whole.digest


def test_run_resumes_from_last_saved_step_after_model_error(photos, device, tmp_path):
    whole = make_trainer(photos, device).fit()
    # The model has buffers, which a failed step may have changed; such a state is not saved.
    options = {"checkpoint": tmp_path / "run", "save_every": 2}
    trainer = make_trainer(photos, device, Failing(10, ValueError("boom")), **options)
    with pytest.warns(UserWarning, match="only partly trained"), pytest.raises(ValueError, match="boom"):
        trainer.fit()
    with pytest.raises(ss.Refused, match="the weights do not belong to any step"):
        trainer.fit()
    went_on = make_trainer(photos, device, resume="auto", **options)
    assert 2 <= went_on.position < 10
    assert went_on.fit().digest == whole.digest


@pytest.mark.parametrize("plan", ["serial", "pipelined"])
def test_ctrl_c_finishes_steps_in_flight_and_saves(photos, device, tmp_path, plan):
    before = signal.getsignal(signal.SIGINT)
    whole = make_trainer(photos, device, plan=plan).fit()

    def on_step(step):
        if step.step == 2:
            os.kill(os.getpid(), signal.SIGINT)

    trainer = make_trainer(photos, device, on_step=on_step, checkpoint=tmp_path / "run", plan=plan)
    with pytest.raises(KeyboardInterrupt):
        trainer.fit()
    assert 2 <= trainer.position < 14 and signal.getsignal(signal.SIGINT) is before
    went_on = make_trainer(photos, device, checkpoint=tmp_path / "run", resume="auto", plan=plan)
    assert went_on.position == trainer.position and went_on.fit().digest == whole.digest
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        sum(range(1000))


@pytest.mark.parametrize("plan", ["serial", "pipelined"])
def test_a_second_ctrl_c_interrupts_the_model(photos, device, plan):
    class Stuck(Net):
        def forward(self, images):
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGINT)
            sum(range(1000))
            return super().forward(images)

    with pytest.raises(KeyboardInterrupt):
        make_trainer(photos, device, Stuck(), plan=plan).fit()


PROGRAM = """
import os, pathlib, signal, sys, time
from trained import make_trainer
def on_step(step):
    while step.step == 9:
        if any(pathlib.Path(sys.argv[3]).glob("step-*")):
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.01)
make_trainer(*sys.argv[1:3], checkpoint=sys.argv[3], save_every=2, on_step=on_step).fit()
"""


def test_killed_training_resumes_to_same_digest(photos, device, tmp_path):
    run = interpreters.run(PROGRAM, photos, device, tmp_path / "run")
    assert run.returncode == -signal.SIGKILL
    went_on = make_trainer(photos, device, checkpoint=tmp_path / "run", resume="auto")
    assert 2 <= went_on.position < 14 and went_on.position % 2 == 0
    assert went_on.fit().digest == make_trainer(photos, device).fit().digest


ENDING = """
import sys, threading, time
from trained import Net, make_loader, make_trainer
class Slow(Net):
    def forward(self, images):
        entered.set()
        time.sleep(0.01)
        return super().forward(images)
entered = threading.Event()
trainer = make_trainer(*sys.argv[1:3], model=Slow(), epochs=1000, plan=sys.argv[4])
if sys.argv[3] == "predict":
    outputs = trainer.predict(make_loader(*sys.argv[1:3], 1))
    next(outputs)
else:
    run = trainer.fit if sys.argv[3] == "fit" else lambda: trainer.evaluate(make_loader(*sys.argv[1:3], 1))
    threading.Thread(target=run, daemon=True).start()
    entered.wait()
print("the end")
"""


@pytest.mark.parametrize("what", ["fit", "evaluate", "predict"])
@pytest.mark.parametrize("plan", ["serial", "pipelined"])
def test_interpreter_exits_during_fit_evaluate_or_predict(photos, device, what, plan):
    run = interpreters.run(ENDING, photos, device, what, plan)
    assert (run.returncode, run.stdout) == (0, "the end\n"), run.stderr


FORKS = """
import gc, os, sys
import slipstream as ss
from trained import Net, make_loader, make_trainer
photos, plan, folder = sys.argv[1:]

def in_a_fork(call):
    process = os.fork()
    if process == 0:
        try:
            told = call()
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
        print(told, flush=True)
        os._exit(0)
    os.waitpid(process, 0)

def fit(**options):
    return make_trainer(photos, plan=plan, **options).fit().digest

def release_trainer():
    global trainer, outputs
    outputs.close()
    del trainer, outputs
    gc.collect()
    return "gone"

def on_step(step):
    if step.step == 3:
        in_a_fork(fit)
    if step.step == 4 and os.fork() == 0:
        sys.exit(3)
    if step.step == 5:
        print(os.WEXITSTATUS(os.wait()[1]), flush=True)

def on_epoch(epoch):
    if epoch.epoch == 1:
        in_a_fork(lambda: trainer.fit())

options = {"checkpoint": folder, "val": make_loader(photos), "on_epoch": on_epoch}
trainer = make_trainer(photos, plan=plan, **options)
print(trainer.fit().digest, flush=True)
in_a_fork(fit)
for call in (trainer.fit, trainer.digest, trainer.evaluate, lambda: trainer.restore(folder)):
    in_a_fork(call)
outputs = trainer.predict(make_loader(photos, batch_size=1))
next(outputs)
for call in (lambda: next(outputs), release_trainer, fit):
    in_a_fork(call)
outputs.close()
print(fit(on_step=on_step))
used = make_loader(photos)
list(used)
in_a_fork(lambda: ss.Trainer(used, Net(), epochs=2, lr=0.05, momentum=0.9, deterministic=True, precision="fp32",
                             plan=plan, progress=False).fit().digest)
"""


@pytest.mark.parametrize("plan", ["serial", "pipelined"])
def test_forked_process_can_train_only_with_a_new_trainer(photos, tmp_path, plan):
    """PyTorch operations use only one thread, because a fork of a thread that used more would hang in PyTorch. The
    GPU is hidden, because PyTorch refuses backward passes in a fork if it has used one."""
    run = interpreters.run(FORKS, photos, plan, tmp_path / "run", threads=1, ignores_warnings=True, CUDA_VISIBLE_DEVICES="")
    assert run.returncode == 0, run.stderr
    lines = [re.sub("Refused: this (trainer|iterator).*", r"\1", line) for line in run.stdout.splitlines()]
    digest = lines[1]
    refused = ["trainer"] * 4 + ["iterator"]
    assert lines == ["trainer", digest, digest, *refused, "gone", digest, digest, "3", digest, digest]


ENDS_OF_FORKS = """
import os, sys
import slipstream as ss
from torch.nn.functional import cross_entropy
from trained import Net, make_loader
photos, plan, where = sys.argv[1:]

def without_stdout():
    sys.stdout = None
    sys.exit(3)

def with_a_closed_pipe():
    reader, writer = os.pipe()
    os.close(reader)
    sys.stdout = open(writer, "w")
    print("lost")
    sys.exit(4)

def fail():
    raise ValueError("wrong")

ends = [lambda: None, sys.exit, lambda: sys.exit("told"), lambda: sys.exit(-1), fail, without_stdout,
        with_a_closed_pipe]

def called(place, value=None):
    if place == where and ends:
        end = ends.pop(0)
        process = os.fork()
        if process == 0:
            end()
        else:
            print(os.WEXITSTATUS(os.waitpid(process, 0)[1]), flush=True)
    return value

class Model(Net):
    def forward(self, images):
        return called("model", super().forward(images))

pipe = ss.Pipeline(make_loader(photos), [("more", lambda images: called("stage", images))])
trainer = ss.Trainer(pipe, Model(), epochs=2, plan=plan, val=make_loader(photos), progress=False,
                     loss=lambda output, labels: called("loss", cross_entropy(output, labels)),
                     metrics={"own": lambda output, labels: called("metric", output[:, 0])},
                     on_step=lambda step: called("on_step"))
print(trainer.fit().steps, flush=True)
"""


@pytest.mark.parametrize("where", ["model", "loss", "stage", "metric", "on_step"])
@pytest.mark.parametrize("plan", ["serial", "pipelined"])
def test_process_forked_inside_a_run_exits_with_its_code(photos, plan, where):
    run = interpreters.run(ENDS_OF_FORKS, photos, plan, where, threads=1, ignores_warnings=True)
    assert (run.returncode, run.stdout.split()) == (0, ["1", "0", "1", "255", "1", "3", "4", "14"]), run.stderr
    first, second, *rest = run.stderr.splitlines()
    assert first.startswith("a process that was forked inside a run cannot continue the run") and second == "told"
    assert rest[0].startswith("Traceback") and rest[-1] == "ValueError: wrong"
