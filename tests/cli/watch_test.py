"""Tests the options and files of train --watch. watch_test.cpp tests its verdicts, with simulated times."""

import json
import os
import re
import signal
import subprocess
import unittest

from program import DONE, INTERRUPTED, REFUSED, TINY, ProgramTest, Running, make_data, run

TRAIN = ["train", "segmentation", *TINY]
SHORT = [*TRAIN, "--steps", "2"]
ENDLESS = [*TRAIN, "--steps", "100000000", "--plan", "serial"]


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


class WatchTest(ProgramTest):
    def test_watch_windows_cover_every_step_once(self):
        data = make_data(self.folder / "data", samples=64)
        validated = ["--data", data, "--val", data, "--epochs", "2", "--plan", "pipelined"]
        for name, options in (("auto", ["--steps", "48"]), ("validated", validated)):
            with self.subTest(name):
                file, metrics = self.folder / f"{name}.jsonl", self.folder / f"{name}.prom"
                self.expect(DONE, *TRAIN, *options, "--batch-size", "4", "--watch-json", file,
                            "--watch-prom", metrics, says=["\nwatch: ", "the device waited for input "])
                lines = read_lines(file)
                steps = sum(line["steps"] for line in lines)
                self.assertEqual(lines[-1]["step"], steps)
                self.assertIn(f'slipstream_steps_total{{run="{name}"}} {steps}\n', metrics.read_text())
                self.assertNotIn("slipstream_starving", metrics.read_text(), "it has ended")
                samples = sum(line["host_steps"][0]["samples"] for line in lines)
                self.assertGreaterEqual(samples, 4 * steps)

    def test_watch_is_off_by_default(self):
        self.assertNotIn("watch: ", self.expect(DONE, *SHORT).stdout)
        self.expect(DONE, *SHORT, "--watch", says=["watch: "])

    def test_watch_does_not_change_digest(self):
        for name, more in (("plain", []), ("watched", ["--watch"])):
            self.expect(DONE, *TRAIN, "--steps", "6", "--plan", "pipelined", *more, "--json",
                        self.folder / f"{name}.json")
        self.expect(DONE, "compare", self.folder / "plain.json", self.folder / "watched.json",
                    says=["equal, bit for bit"])

    def test_two_outputs_into_one_file_are_refused(self):
        path = self.folder / "one"
        options = ["--json", "--plan-out", "--watch-json", "--watch-prom"]
        for i, first in enumerate(options):
            for second in options[i + 1:]:
                self.expect(REFUSED, *SHORT, first, path, second, path,
                            says=[f"{first} and {second} name the same file"])
        self.assertFalse(path.exists())

    def test_unwritable_watch_file_does_not_end_training(self):
        self.expect(DONE, *SHORT, "--watch-json", "/dev/full",
                    says=["warning: cannot write /dev/full: No space left on device; training continues"])

    def test_an_interrupted_run_writes_its_last_window(self):
        file = self.folder / "interrupted.jsonl"
        training = Running(*ENDLESS, "--watch-json", file)
        self.assertEqual(training.signal_once_under_way(signal.SIGINT), INTERRUPTED)
        steps = int(re.search(r"interrupted after (\d+) of", training.said).group(1))
        self.assertEqual(read_lines(file)[-1]["step"], steps)

    def test_killed_run_leaves_complete_files(self):
        file, metrics = self.folder / "killed.jsonl", self.folder / "killed.prom"
        training = Running(*ENDLESS, "--watch-json", file, "--watch-prom", metrics)
        training.signal_once_under_way(signal.SIGKILL, is_under_way=metrics.exists)
        self.assertTrue(file.read_text().endswith("}\n"))
        self.assertIn('slipstream_starving{run="killed"} ', metrics.read_text())

    def test_watch_lines_are_written_to_a_pipe(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True) as reader:
            done = run(*SHORT, "--watch-json", pipe)
            self.assertEqual(done.returncode, DONE, done.stderr)
            self.assertEqual(json.loads(reader.stdout.read())["step"], 2)

    def test_custom_program_has_watch_options(self):
        file = self.folder / "own.jsonl"
        self.expect(DONE, "train", "quadrants", *TINY, "--steps", "3", "--watch-json", file,
                    binary=os.environ["SLIPSTREAM_EXAMPLE"], says=["watch: "])
        self.assertIn("brighten", [step["name"] for step in read_lines(file)[-1]["host_steps"]])


if __name__ == "__main__":
    unittest.main()
