"""train --watch: what it says, and the files that it writes."""

import json
import os
import re
import resource
import signal
import subprocess
import unittest

from program import (BINARY, DONE, INTERRUPTED, REFUSED, TINY, ProgramTest, Running, read_json,
                     run)

LINE = ["schema", "version", "step", "elapsed_s", "steps", "window_s", "steps_per_second",
        "input_wait_share", "batches_ready", "workers_busy", "state", "event", "message", "cause",
        "host_steps"]
HOST_STEP = ["name", "group", "samples", "samples_per_second", "wall_ms", "cpu_ms"]
LOADING = ["train", "branches", *TINY, "--mode", "load", "--num-workers", "1", "--plan",
           "pipelined"]
HUNGRY = [*LOADING, "--batch-size", "4", "--load-ms", "200", "--step-ms", "0"]


def limit_files():
    """Every write beyond 2000 bytes of a file fails, as on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def read_metrics(path):
    """Values by name and labels."""
    values = {}
    for line in path.read_text().splitlines():
        if line.startswith("#"):
            continue
        name, value = re.fullmatch(r'(slipstream_\w+\{[^ ]*\}) ([0-9.e+-]+)', line).groups()
        assert name not in values, line
        values[name] = float(value)
    return values


class WatchTest(ProgramTest):
    def watch(self, name, *command, code=DONE, **more):
        lines, metrics = self.folder / f"{name}.jsonl", self.folder / f"{name}.prom"
        done = self.expect(code, *command, "--watch-json", lines, "--watch-prom", metrics, **more)
        return done, read_lines(lines), read_metrics(metrics)

    def check(self, lines, steps):
        """What is true of every run."""
        for line in lines:
            self.assertEqual(list(line), LINE)
            self.assertEqual((line["schema"], line["version"]), ("slipstream.watch", 1))
            self.assertGreater(line["steps"], 0)
            self.assertGreaterEqual(line["window_s"], 0)
            for step in line["host_steps"]:
                self.assertEqual(list(step), HOST_STEP)
                self.assertGreaterEqual(step["samples"], 0)
                self.assertGreaterEqual(step["wall_ms"] or 0, 0)
        self.assertEqual(sum(line["steps"] for line in lines), steps)
        self.assertEqual(lines[-1]["step"], steps)

    def test_a_run_that_starves_says_so_and_why(self):
        done, lines, metrics = self.watch(
            "hungry", *HUNGRY, "--steps", "40",
            says=[": starving: waits for input ", " batches ready; 'read' takes ",
                  "it waits, for storage, a lock or a core", "watch: starved 1 time, "])
        self.check(lines, 40)
        said = [line for line in lines if line["event"]]
        self.assertEqual([line["event"] for line in said], ["starved"])
        self.assertIn(said[0]["message"] + "\n", done.stderr)
        self.assertEqual(lines[0]["state"], "warming_up")
        self.assertEqual(lines[-1]["state"], "starving")
        self.assertEqual(lines[-1]["cause"]["group"], "raw_reading")
        self.assertEqual(lines[-1]["cause"]["step"], "read")
        self.assertGreater(said[0]["input_wait_share"], 0.5)
        run_label = 'run="hungry"'
        self.assertEqual(metrics[f"slipstream_steps_total{{{run_label}}}"], 40)
        self.assertNotIn(f"slipstream_starving{{{run_label}}}", metrics, "it is over")
        self.assertEqual(metrics[f"slipstream_starvations_total{{{run_label}}}"], 1)
        self.assertGreater(metrics[f"slipstream_input_wait_seconds_total{{{run_label}}}"], 4)
        samples = metrics[f'slipstream_host_step_samples_total{{{run_label},step="read"}}']
        self.assertGreaterEqual(samples, 40 * 4)
        self.assertEqual(sum(line["host_steps"][0]["samples"] for line in lines), samples)

    def test_a_run_that_is_fed_after_its_first_epoch_recovers(self):
        # 1024 samples of 6 ms each are the first epoch; later ones come from the cache.
        _, lines, _ = self.watch(
            "cached", *LOADING, "--batch-size", "32", "--load-ms", "200", "--step-ms", "40",
            "--cache", "read=64M", "--steps", "220", says=[": starving: ", ": recovered: "])
        self.check(lines, 220)
        self.assertEqual([line["event"] for line in lines if line["event"]],
                         ["starved", "recovered"])
        self.assertEqual(lines[-1]["state"], "fed")
        self.assertIsNone(lines[-1]["cause"])

    def test_a_run_that_is_fed_is_not_spoken_of(self):
        done, lines, _ = self.watch("fed", *LOADING, "--batch-size", "4", "--load-ms", "0.1",
                                    "--step-ms", "100", "--steps", "40",
                                    says=["watch: never starved; waited for input "])
        self.check(lines, 40)
        self.assertNotIn("starving", done.stderr)
        self.assertEqual({line["state"] for line in lines[1:]}, {"fed"})

    def test_the_articles_transforms_are_named(self):
        _, lines, _ = self.watch(
            "article", "train", "starved", "--device", "cpu", "--costs", "article", "--raw-size",
            "8", "--batch-size", "64", "--num-workers", "1", "--steps", "16", "--plan", "serial",
            says=["transforms, most of all 'mask', take "])
        self.assertEqual(lines[-1]["cause"]["group"], "transforms")

    def test_parts_of_auto_are_one_run(self):
        _, lines, metrics = self.watch("auto", "train", "segmentation", *TINY, "--steps", "48")
        self.check(lines, 48)
        steps = [line["step"] for line in lines]
        self.assertEqual(steps, sorted(steps))
        self.assertEqual(metrics['slipstream_steps_total{run="auto"}'], 48)

    def test_a_run_shorter_than_a_window_leaves_a_line(self):
        _, lines, _ = self.watch("short", "train", "segmentation", *TINY, "--steps", "2",
                                 says=["watch: too short a run to judge"])
        self.check(lines, 2)
        self.assertGreaterEqual(lines[-1]["host_steps"][0]["samples"], 16)

    def test_without_being_asked_it_says_nothing(self):
        done = self.expect(DONE, "train", "segmentation", *TINY, "--steps", "2")
        self.assertNotIn("watch", done.stdout + done.stderr)
        self.expect(DONE, "train", "segmentation", *TINY, "--steps", "2", "--watch",
                    says=["watch: "])

    def test_it_changes_no_bit(self):
        options = ["train", "segmentation", *TINY, "--steps", "6", "--plan", "pipelined"]
        for name, more in (("plain", []), ("watched", ["--watch"])):
            self.expect(DONE, *options, *more, "--json", self.folder / f"{name}.json")
        self.expect(DONE, "compare", self.folder / "plain.json", self.folder / "watched.json",
                    says=["equal, bit for bit"])


class WatchFilesTest(ProgramTest):
    SHORT = ["train", "segmentation", *TINY, "--steps", "2"]

    def test_what_cannot_be_written_is_refused(self):
        for option in ("--watch-json", "--watch-prom"):
            self.expect(REFUSED, *self.SHORT, option, self.folder / "no" / "file",
                        says=["there is no folder"])
        self.expect(REFUSED, *self.SHORT, "--watch-prom", "/dev/null", says=["it is not a file"])

    def test_two_outputs_into_one_file(self):
        path = self.folder / "one"
        options = ["--json", "--plan-out", "--watch-json", "--watch-prom"]
        for i, first in enumerate(options):
            for second in options[i + 1:]:
                self.expect(REFUSED, *self.SHORT, first, path, second, path,
                            says=[f"{first} and {second} name the same file"])
        self.assertFalse(path.exists())

    def test_a_file_that_cannot_be_written_does_not_end_training(self):
        lines, report = self.folder / "full.jsonl", self.folder / "full.json"
        done = self.expect(DONE, *self.SHORT, "--watch-json", "/dev/full", "--json", report,
                           says=["cannot write /dev/full: No space left on device; training goes "
                                 "on without that file\n"])
        self.assertEqual(done.stderr.count("/dev/full"), 1)
        self.assertEqual(read_json(report)["steps"], 2)
        limited = subprocess.run(
            [BINARY, *HUNGRY, "--steps", "40", "--watch-json", lines], capture_output=True,
            text=True, timeout=300, restore_signals=False, preexec_fn=limit_files)
        self.assertEqual(limited.returncode, DONE, limited.stderr)
        self.assertEqual(limited.stderr.count("File too large; training goes on"), 1)
        self.assertEqual([line["version"] for line in read_lines(lines)][:1], [1])

    def test_an_interrupted_run_writes_its_last_window(self):
        lines = self.folder / "interrupted.jsonl"
        training = Running("train", "segmentation", *TINY, "--steps", "100000000", "--plan",
                           "serial", "--watch-json", lines)
        self.assertEqual(training.signal_once_under_way(signal.SIGINT), INTERRUPTED)
        steps = int(re.search(r"interrupted after (\d+) of", training.said).group(1))
        self.assertEqual(read_lines(lines)[-1]["step"], steps)

    def test_a_killed_run_leaves_whole_lines(self):
        lines, metrics = self.folder / "killed.jsonl", self.folder / "killed.prom"
        training = Running("train", "segmentation", *TINY, "--steps", "100000000", "--watch-json",
                           lines, "--watch-prom", metrics)
        training.signal_once_under_way(
            signal.SIGKILL, is_under_way=lambda: lines.exists() and lines.stat().st_size > 3000)
        self.assertTrue(lines.read_text().endswith("\n"))
        self.assertGreater(len(read_lines(lines)), 1)
        self.assertIn('slipstream_steps_total{run="killed"}', read_metrics(metrics))

    def test_a_pipe_gets_the_lines(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True) as reader:
            done = run(*self.SHORT, "--watch-json", pipe)
            self.assertEqual(done.returncode, DONE, done.stderr)
            told = [json.loads(line) for line in reader.stdout.read().splitlines()]
        self.assertEqual(told[-1]["step"], 2)

    def test_a_program_of_ones_own_has_it(self):
        lines = self.folder / "own.jsonl"
        self.expect(DONE, "train", "quadrants", *TINY, "--steps", "3", "--watch-json", lines,
                    binary=os.environ["SLIPSTREAM_EXAMPLE"], says=["watch: "])
        self.assertIn("brighten", [step["name"] for step in read_lines(lines)[-1]["host_steps"]])


if __name__ == "__main__":
    unittest.main()
