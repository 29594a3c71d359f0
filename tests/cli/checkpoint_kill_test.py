"""Checkpoints of trainings that are killed at any moment, of full disks, and of folders that go."""

import os
import random
import resource
import shutil
import signal
import subprocess
import time
import unittest

from checkpoint_runs import RECORD, CheckpointRuns, make_classes, step_path, steps_in
from program import BINARY, DONE, FAILED, INTERRUPTED, REFUSED, Running, read_json

KILLS = 50
STEPS = 1500
LONGEST_S = 0.2


class KilledTest(CheckpointRuns):
    OPTIONS = ("--optimizer", "adamw", "--accumulate", "3", "--ema", "0.9", "--schedule", "cosine",
               "--batch-size", "4", "--steps", str(STEPS))

    def kill_once(self, folder, command, waits, delay_s):
        """After a while. `waits`: that begins with the first checkpoint."""
        before = set(folder.iterdir()) if folder.exists() else set()
        said = self.folder / "said"
        with open(said, "wb") as messages:
            process = subprocess.Popen([BINARY, *map(str, command)], stdout=messages,
                                       stderr=messages)
            while waits and process.poll() is None:
                if folder.exists() and set(folder.iterdir()) - before - {folder / ".lock"}:
                    break
                time.sleep(0.001)
            time.sleep(delay_s)
            process.kill()
            self.assertEqual(process.wait(), -signal.SIGKILL, said.read_text())
        self.assertNotIn("warning: passed over", said.read_text())

    def assert_tidy(self, folder, most):
        """At most what one writer has in hand lies beside what was finished."""
        unfinished = [path.name for path in folder.iterdir() if path.name.startswith(".unfinished")]
        self.assertLessEqual(len(unfinished), 2, unfinished)
        self.assertLessEqual(len(steps_in(folder)), most)
        for path in folder.glob("step-*"):
            self.assertEqual(read_json(path / RECORD)["step"], int(path.name[5:]))

    def assert_same_end(self, name, *more, kept=2):
        """`kept`: as many checkpoints as stay. One more lies beside them until they are tidied up,
        which a run that is killed after its first checkpoint leaves to the next."""
        folder, draw, reached = self.folder / name, random.Random(name), 0
        found = 0
        options = (*self.OPTIONS, *more)
        resumed = (*options, "--checkpoint", folder, "--resume", "auto")
        for count in range(KILLS // 2):
            self.kill_once(folder, self.command(*resumed, "--save-every", "1", "--keep", "2"),
                           count % 2 == 1, draw.uniform(0, LONGEST_S))
            if folder.exists():
                self.assert_tidy(folder, max(kept, found) + 1)
                found = len(steps_in(folder))
                latest = max(steps_in(folder), default=0)
                self.assertGreaterEqual(latest, reached)
                reached = latest
        self.assertGreater(reached, 0)
        self.assertLess(reached, STEPS, "the last run has nothing left to do")
        end = self.report(*resumed, says=[f"goes on from step {reached} "])
        self.assert_whole(folder)
        self.assertEqual(end["digest"], self.report(*options)["digest"])
        return folder

    def test_they_go_on_to_the_same_end(self):
        self.assert_same_end("plain")

    def test_they_do_so_with_a_best_one(self):
        folder = self.assert_same_end("best", "--val", make_classes(self.folder / "val", samples=8),
                                      kept=3)
        record = read_json(step_path(folder, STEPS) / RECORD)
        self.assertEqual(record["best"]["step"], self.best(folder))


class DiskTest(CheckpointRuns):
    def test_a_full_disk_does_not_end_the_training(self):
        folder, path = self.folder / "full", self.folder / "full.json"
        command = self.command("--checkpoint", folder, "--steps", "30", "--save-every", "5",
                               "--json", path)

        def fill_disk():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

        done = subprocess.run([BINARY, *map(str, command)], capture_output=True,
                              text=True, timeout=300, preexec_fn=fill_disk, check=False)
        self.assertEqual(done.returncode, FAILED, done.stderr)  # it ends, but its result is lost
        self.assertIn("warning: could not save the checkpoint of step ", done.stderr)
        self.assertIn("File too large", done.stderr)
        self.assertEqual(read_json(path)["steps"], 30)
        self.assertEqual([each.name for each in folder.iterdir()], [".lock"])
        self.report("--checkpoint", folder, "--resume", "auto", "--steps", "3")

    def test_it_is_told_while_the_training_goes_on(self):
        folder = self.folder / "early"
        training = Running(*self.command("--checkpoint", folder, "--steps", "100000000",
                                         "--save-every", "2"))
        shown = b""
        try:
            while not any(folder.glob("step-*")):
                time.sleep(0.01)
            shutil.rmtree(folder)
            folder.write_text("in the way")
            end = time.monotonic() + 20
            told = b"warning: could not save the checkpoint of step"
            while told not in shown and time.monotonic() < end:
                shown += os.read(training.terminal, 4096)
            self.assertTrue(told in shown, "nothing is told")
        finally:
            code = training.signal_once_under_way(signal.SIGINT, is_under_way=lambda: True)
        self.assertEqual(code, INTERRUPTED)

    @unittest.skipIf(os.geteuid() == 0, "root writes everywhere")
    def test_a_folder_that_cannot_be_written_is_refused(self):
        folder = self.folder / "read only"
        folder.mkdir(mode=0o500)
        self.refuse(REFUSED, "--checkpoint", folder, "--steps", "1",
                    says=[f"cannot write into {folder}: Permission denied"])

    def test_a_folder_that_cannot_be_made_is_refused(self):
        file = self.folder / "file"
        file.write_text("a file")
        for folder in (file / "below", file):
            self.refuse(REFUSED, "--checkpoint", folder, "--steps", "1",
                        says=[f"cannot make the folder {folder}: Not a directory"])

    def test_a_folder_that_vanishes_is_made_anew(self):
        for name, remove in (("removed", shutil.rmtree),
                             ("renamed", lambda folder: folder.rename(self.folder / "elsewhere"))):
            with self.subTest(name):
                folder, path = self.folder / name, self.folder / f"{name}.json"
                training = Running(*self.command("--checkpoint", folder, "--steps", "600",
                                                 "--save-every", "3", "--json", path))
                while not any(folder.glob("step-*")):
                    time.sleep(0.01)
                time.sleep(0.1)
                while folder.exists():
                    try:
                        remove(folder)
                    except OSError:  # something was just written into it
                        continue
                    break
                code, shown = training.shown()
                self.assertEqual(code, DONE, shown)
                self.assertEqual(steps_in(folder)[-1], 600)
                self.assert_whole(folder)
                self.assertEqual(read_json(path)["steps"], 600)
                self.report("--resume", folder, "--steps", "601")

    def test_one_checkpoint_that_vanishes_is_no_trouble(self):
        folder = self.folder / "holes"
        training = Running(*self.command("--checkpoint", folder, "--steps", "300",
                                         "--save-every", "2", "--keep", "5"))
        while len(steps_in(folder)) < 2:
            time.sleep(0.01)
        shutil.rmtree(step_path(folder, steps_in(folder)[0]), ignore_errors=True)
        code, shown = training.shown()
        self.assertEqual(code, DONE, shown)
        self.assert_whole(folder)


if __name__ == "__main__":
    unittest.main()
