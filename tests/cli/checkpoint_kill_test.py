"""Tests the checkpoints of trainings that are killed at any moment, of full disks, and of folders that disappear."""

import contextlib
import os
import random
import resource
import shutil
import signal
import subprocess
import time
import unittest

from checkpoint_runs import RECORD, CheckpointRuns, make_classes, step_path, steps_in
from program import BINARY, FAILED, INTERRUPTED, REFUSED, Running, read_json, wait_until

KILLS = 9
STEPS = 1000
ENDLESS = ("--steps", "100000000")


class KilledTest(CheckpointRuns):
    OPTIONS = ("--optimizer", "adamw", "--accumulate", "3", "--ema-decay", "0.9", "--schedule", "cosine", "--batch-size",
               "4", "--steps", STEPS)

    def kill_once(self, folder, command, checkpoints, delay_s):
        """Runs the command, and kills it `delay_s` after it has finished this number of checkpoints."""
        messages = self.folder / "messages"
        before = set(steps_in(folder))
        with open(messages, "wb") as file:
            process = subprocess.Popen([BINARY, *map(str, command)], stdout=file, stderr=file)
            wait_until(lambda: process.poll() is not None or len(set(steps_in(folder)) - before) >= checkpoints)
            time.sleep(delay_s)
            process.kill()
            self.assertEqual(process.wait(), -signal.SIGKILL, messages.read_text())
        self.assertNotIn("warning: passed over", messages.read_text())

    def assert_tidy(self, folder):
        """Checks that few files are left: two checkpoints, the best one, one that a killed run had no time to
        remove, and the two files that one writer had begun."""
        unfinished = [path.name for path in folder.iterdir() if path.name.startswith(".unfinished")]
        self.assertLessEqual(len(unfinished), 2, unfinished)
        self.assertLessEqual(len(steps_in(folder)), 4)
        for step in steps_in(folder):
            self.assertEqual(read_json(step_path(folder, step) / RECORD)["step"], step)

    def test_killed_training_resumes_to_the_same_digest(self):
        folder, moments, reached = self.folder / "killed", random.Random(1), 0
        options = (*self.OPTIONS, "--val", make_classes(self.folder / "val", samples=8))
        resumed = (*options, "--checkpoint", folder, "--resume", "auto")
        for kill in range(KILLS):
            # Kills the run during its start, and during its first and second checkpoint.
            checkpoints = kill % 3
            self.kill_once(folder, self.command(*resumed, "--save-every", "1", "--keep-last", "2"), checkpoints,
                           moments.uniform(0, 0.02 if checkpoints else 0.5))
            if folder.exists():
                self.assert_tidy(folder)
            latest = max(steps_in(folder), default=0)
            self.assertGreaterEqual(latest, reached + bool(checkpoints))
            reached = latest
        self.assertLess(reached, STEPS, "the last run has nothing left to do")
        end = self.report(*resumed, says=[f"continues from step {reached} "])
        self.assert_complete(folder)
        whole = self.report(*options)
        self.assertEqual(end["digest"], whole["digest"])
        self.assertEqual(end["losses"], whole["losses"][reached:])
        self.assertEqual(read_json(step_path(folder, STEPS) / RECORD)["best"]["step"], self.best(folder))


class DiskTest(CheckpointRuns):
    def interrupt_once(self, training, condition):
        """Interrupts an endless training when the condition on its terminal output is met."""
        os.set_blocking(training.terminal, False)
        shown = b""

        def holds():
            nonlocal shown
            with contextlib.suppress(OSError):  # nothing to read
                shown += os.read(training.terminal, 4096)
            return condition(shown) or training.has_ended()

        code = training.signal_once_under_way(signal.SIGINT, is_under_way=lambda: wait_until(holds) or True)
        self.assertEqual(code, INTERRUPTED, shown)

    def test_full_disk_does_not_end_the_training(self):
        folder, path = self.folder / "full", self.folder / "full.json"
        command = self.command("--checkpoint", folder, "--steps", "30", "--save-every", "5", "--json", path)

        def fill_disk():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

        done = subprocess.run([BINARY, *map(str, command)], capture_output=True,
                              text=True, timeout=300, preexec_fn=fill_disk, check=False)
        self.assertEqual(done.returncode, FAILED, done.stderr)  # the run ends, but no checkpoint has its result
        self.assertIn("warning: could not save the checkpoint of step ", done.stderr)
        self.assertIn("File too large", done.stderr)
        self.assertEqual(read_json(path)["steps"], 30)
        self.assertEqual([each.name for each in folder.iterdir()], [".lock"])
        self.report("--checkpoint", folder, "--resume", "auto", "--steps", "3")

    def test_failed_checkpoint_is_reported_during_the_training(self):
        folder = self.folder / "early"
        training = Running(*self.command("--checkpoint", folder, *ENDLESS, "--save-every", "2"))
        def replace_folder():
            wait_until(lambda: any(folder.glob("step-*")))
            shutil.rmtree(folder, ignore_errors=True)
            try:
                folder.write_text("in the way")
            except IsADirectoryError:  # the training has just written a file into the folder
                return False
            return True

        wait_until(replace_folder)
        self.interrupt_once(training, lambda shown: b"warning: could not save the checkpoint of step" in shown)

    @unittest.skipIf(os.geteuid() == 0, "root writes everywhere")
    def test_folder_that_cannot_be_written_is_refused(self):
        folder = self.folder / "read only"
        folder.mkdir(mode=0o500)
        self.refuse(REFUSED, "--checkpoint", folder, "--steps", "1",
                    says=[f"cannot write into {folder}: Permission denied"])

    def test_folder_that_cannot_be_made_is_refused(self):
        file = self.folder / "file"
        file.write_text("a file")
        for folder in (file / "below", file):
            self.refuse(REFUSED, "--checkpoint", folder, "--steps", "1",
                        says=[f"cannot make the folder {folder}: Not a directory"])

    def test_folder_that_disappears_is_made_again(self):
        for name, remove in (("removed", shutil.rmtree),
                             ("renamed", lambda folder: folder.rename(self.folder / "elsewhere"))):
            with self.subTest(name):
                folder, path = self.folder / name, self.folder / f"{name}.json"
                training = Running(*self.command("--checkpoint", folder, *ENDLESS, "--save-every", "3",
                                                 "--json", path))

                def is_removed():
                    try:
                        remove(folder)
                    except OSError:  # the training has just written a file into the folder
                        return False
                    return True

                wait_until(lambda: any(folder.glob("step-*")))
                wait_until(is_removed)
                self.interrupt_once(training, lambda _: any(folder.glob("step-*")))
                steps = read_json(path)["steps"]
                self.assertEqual(steps_in(folder)[-1], steps)
                self.assert_complete(folder)
                self.report("--resume", folder, "--steps", steps + 1)

    def test_training_continues_after_a_checkpoint_disappears(self):
        folder = self.folder / "holes"
        training = Running(*self.command("--checkpoint", folder, *ENDLESS, "--save-every", "2", "--keep-last", "5"))
        wait_until(lambda: len(steps_in(folder)) >= 2)
        last = steps_in(folder)[-1]
        shutil.rmtree(step_path(folder, steps_in(folder)[0]), ignore_errors=True)
        self.interrupt_once(training, lambda _: steps_in(folder)[-1] > last)
        self.assert_complete(folder)


if __name__ == "__main__":
    unittest.main()
