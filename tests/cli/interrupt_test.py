"""Runs that are ended early leave a whole report, or keep the earlier file."""

import json
import pathlib
import re
import signal
import time
import unittest

from program import INTERRUPTED, TINY, ProgramTest, Running, read_json, run

ENDLESS = ["--steps", "100000000"]


def handles_sigint(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    caught = int(re.search(r"^SigCgt:\s*([0-9a-f]+)", status, re.MULTILINE)[1], 16)
    return caught >> (signal.SIGINT - 1) & 1 == 1


class InterruptTest(ProgramTest):
    def train(self, signal_number, name, plan):
        path = self.folder / name
        training = Running("train", "segmentation", *TINY, *ENDLESS, "--plan", plan,
                           "--json", path)
        return training.signal_once_under_way(signal_number), path

    def test_interrupted_training_writes_its_report(self):
        for plan in ("serial", "pipelined", "auto"):
            with self.subTest(plan):
                code, path = self.train(signal.SIGINT, f"{plan}.json", plan)
                self.assertEqual(code, INTERRUPTED)
                report = read_json(path)
                self.assertTrue(report["interrupted"])
                self.assertGreater(report["steps"], 0)
                self.assertEqual(len(report["losses"]), report["steps"])

    def test_terminated_training_writes_its_report(self):
        code, path = self.train(signal.SIGTERM, "terminated.json", "pipelined")
        self.assertEqual(code, INTERRUPTED)
        self.assertTrue(read_json(path)["interrupted"])

    def test_hangup_ends_training_and_writes_report(self):
        path = self.folder / "gone.json"
        training = Running("train", "segmentation", *TINY, *ENDLESS, "--json", path)
        self.assertEqual(training.signal_once_under_way(signal.SIGHUP, signal.SIGHUP), INTERRUPTED)
        self.assertTrue(read_json(path)["interrupted"])

    def test_summary_of_interrupted_run_reports_finished_steps(self):
        path = self.folder / "far.json"
        training = Running("train", "segmentation", *TINY, *ENDLESS, "--json", path)
        training.signal_once_under_way(signal.SIGINT)
        steps = read_json(path)["steps"]
        self.assertIn(f"interrupted after {steps} of 100000000 steps", training.said)

    def test_interrupted_run_has_digest_of_run_with_fewer_steps(self):
        options = [*TINY, "--deterministic", "--plan", "pipelined"]
        path = self.folder / "early.json"
        training = Running("train", "segmentation", *options, *ENDLESS, "--json", path)
        training.signal_once_under_way(signal.SIGINT)
        early = read_json(path)
        whole = self.folder / "whole.json"
        run("train", "segmentation", *options, "--steps", early["steps"], "--json", whole)
        self.assertEqual(early["digest"], read_json(whole)["digest"])

    def test_killed_run_keeps_the_old_report(self):
        path = self.folder / "old.json"
        path.write_text("old")
        training = Running("train", "segmentation", *TINY, *ENDLESS, "--json", path)
        self.assertEqual(training.signal_once_under_way(signal.SIGKILL), -signal.SIGKILL)
        self.assertEqual(path.read_text(), "old")
        self.assertEqual([str(file) for file in self.folder.glob(".slipstream-*")], [])


class InterruptedDataTest(ProgramTest):
    def test_interrupted_make_data_keeps_finished_samples(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            out = self.folder / number.name
            making = Running("make-data", "segmentation", "--out", out, "--samples", "100000")
            code = making.signal_once_under_way(
                number, is_under_way=lambda: (out / "masks" / "000000.png").exists())
            self.assertEqual(code, INTERRUPTED)
            made = len(list((out / "masks").iterdir()))
            self.assertEqual(len(list((out / "images").iterdir())), made)
            images = "1 image" if made == 1 else f"{made} images"
            self.assertIn(f"interrupted after {made} of 100000: {images} with masks", making.said)

    def test_interrupt_ends_search_for_data_files(self):
        many, classes = self.folder / "many", self.folder / "classes"
        many.mkdir()
        classes.mkdir()
        for number in range(2000):
            (many / f"{number}.jpg").touch()
            (classes / f"class{number}").symlink_to(many)
        (classes / "empty").mkdir()  # a complete scan would report this empty class

        def lists():
            numbers = pathlib.Path(f"/proc/{inspect.pid}/fd").iterdir()
            return any(number.exists() and number.readlink() == many for number in numbers)

        inspect = Running("inspect", classes, both=True)
        self.assertEqual(inspect.signal_once_under_way(signal.SIGINT, is_under_way=lists),
                         INTERRUPTED)
        self.assertIn("interrupted before anything was done", inspect.said)

    def test_interrupted_augment_writes_no_picture(self):
        data, chain, out = (self.folder / name for name in ("data", "transforms.json", "sheet.png"))
        run("make-data", "segmentation", "--out", data, "--samples", "100", "--size", "16")
        # the warning about this file shows that augment has begun
        (data / "images" / "not-read.avif").write_bytes(b"RIFF")
        blur = {"op": "gaussian_blur", "kernel_size": 63, "sigma": 9}  # takes several seconds
        resize = {"op": "resize", "size": [512, 512]}
        chain.write_text(json.dumps({"version": 1, "transforms": [resize, blur]}))
        augment = Running("augment", "--data", data, "--transforms", chain, "--out", out,
                          "--samples", "100", "--versions", "60")
        self.assertEqual(augment.signal_once_under_way(signal.SIGINT), INTERRUPTED)
        self.assertIn("interrupted before the picture was complete", augment.said)
        self.assertFalse(out.exists())


class InterruptedBenchTest(ProgramTest):
    def test_interrupted_bench_loader_reports_its_rates(self):
        data, report = self.folder / "data", self.folder / "loader.json"
        run("make-data", "segmentation", "--out", data, "--samples", "8", "--size", "16")
        bench = Running("bench", "loader", "--data", data, "--batch-size", "4",
                        "--num-workers", "1", "--image-size", "16", "--seconds", "0.01", "--repeats", "1000000",
                        "--json", report)
        self.assertEqual(bench.signal_once_under_way(signal.SIGINT), INTERRUPTED)
        self.assertIn("interrupted", bench.said)
        self.assertEqual(len(read_json(report)["rates"]), 1)

    def test_interrupted_bench_writes_its_report(self):
        path = self.folder / "bench.json"
        bench = Running("bench", "segmentation", "--device", "cpu", "--image-size", "16",
                        "--batch-size", "2", "--steps", "1000000", "--seconds", "1000",
                        "--num-workers", "1", "--json", path)
        self.assertEqual(bench.signal_once_under_way(signal.SIGINT), INTERRUPTED)
        self.assertEqual(read_json(path)["schema"], "slipstream.bench")


class EarlyInterruptTest(ProgramTest):
    """Interrupts that arrive while a verb prepares, after the program has installed its signal handlers."""

    MOMENTS_S = (0, 0.03, 0.1, 0.3)
    VERBS = {"train": [*TINY, *ENDLESS, "--num-workers", "auto", "--json"],
             "bench": ["--device", "cpu", "--image-size", "16", "--batch-size", "2,4", "--steps",
                       "1000000", "--seconds", "1000", "--json"],
             "doctor": [*TINY, "--budget", "1000", "--json"],
             "trace": [*TINY, "--steps", "100000", "--out"]}

    def interrupt(self, verb, out, moment_s):
        run = Running(verb, "segmentation", *self.VERBS[verb], out, both=True)

        def is_time():
            if not handles_sigint(run.pid):
                return False
            time.sleep(moment_s)
            return True
        return run.signal_once_under_way(signal.SIGINT, is_under_way=is_time), run.said

    def test_early_interrupt_exits_as_interrupted_without_partial_files(self):
        for verb in self.VERBS:
            for moment_s in self.MOMENTS_S:
                with self.subTest(verb, moment_s=moment_s):
                    out = self.folder / f"{verb}-{moment_s}.json"
                    code, said = self.interrupt(verb, out, moment_s)
                    self.assertEqual(code, INTERRUPTED, said)
                    self.assertIn("interrupted", said)
                    if out.exists():
                        read_json(out)
                    self.assertEqual(list(self.folder.glob(".slipstream-*")), [])


if __name__ == "__main__":
    unittest.main()
