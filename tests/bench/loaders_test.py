"""Tests what bench/loaders.py reports of rows that run, are absent, die or hang."""

import importlib.util
import os
import sys
import unittest
from pathlib import Path

from script import BENCH, ScriptTest

BINARY = os.environ["SLIPSTREAM_BINARY"]
SKIPPED = 77  # CMakeLists.txt passes this code to CTest as SKIP_RETURN_CODE


class LoadersTest(ScriptTest):
    script = "loaders.py"
    tiny = ("--count", "8", "--batch-size", "4", "--seconds", "0.1", "--repeats", "2")

    def test_rows_run_in_turn_for_each_number_of_workers(self):
        report = self.measure("--rows", "floor,slipstream", "--num-workers", "1,2",
                              "--slipstream", BINARY)
        self.assertEqual([(row["row"], row["workers"]) for row in report["results"]],
                         [("floor", 1), ("slipstream", 1), ("floor", 2), ("slipstream", 2)])
        for row in report["results"]:
            self.assertEqual((row["status"], row["message"], len(row["repeats"])), ("ok", "", 2))
            for name in ("images_per_second", "images_per_core_second"):
                figure = row[name]
                self.assertGreater(figure["value"], 0)
                self.assertLessEqual(figure["low"], figure["value"])
                self.assertGreaterEqual(figure["high"], figure["value"])
                self.assertEqual(figure["n"], 2)
        self.assertIn("pillow", report["environment"]["packages"])
        self.assertEqual(report["settings"]["seconds"], 0.1)
        program, root = Path(BINARY), BENCH.parent
        named = program.relative_to(root) if program.is_relative_to(root) else program
        self.assertEqual(report["settings"]["slipstream"], str(named))
        self.assertGreater(report["file_bytes"], 10_000)

    def test_missing_programs_and_modules_are_reported_absent(self):
        report = self.measure("--num-workers", "1", "--slipstream", self.folder / "none",
                              "--rows", "slipstream,slipstream_with,dali_mixed_gpu,spdl")
        rows = {row["row"]: row for row in report["results"]}
        self.assertEqual(rows["slipstream"]["status"], "absent")
        self.assertIn("--slipstream", rows["slipstream"]["message"])
        for name, module in (("dali_mixed_gpu", "nvidia"), ("spdl", "spdl")):
            if importlib.util.find_spec(module) is None:
                self.assertEqual(rows[name]["status"], "absent")
                self.assertIn("not installed", rows[name]["message"])

    def test_slipstream_with_options_are_passed_to_the_program(self):
        said = self.folder / "said"
        program = self.program(f'echo "$@" >> "{said}"; exec {BINARY} "$@"')
        report = self.measure("--num-workers", "1", "--rows", "slipstream_with",
                              "--slipstream", program, "--slipstream-with", "--read-ahead 2")
        self.assertEqual(report["results"][0]["status"], "ok", report["results"][0]["message"])
        self.assertTrue(said.read_text().split("\n")[0].endswith("--read-ahead 2"))

    def test_failing_program_is_reported_as_died(self):
        report = self.measure("--rows", "slipstream,floor", "--num-workers", "1",
                              "--slipstream", self.program("echo oh no >&2; exit 3"))
        dead, alive = report["results"]
        self.assertEqual((dead["status"], dead["images_per_second"]), ("died", None))
        self.assertEqual(dead["message"], "RuntimeError: exit code 3: oh no")
        self.assertEqual(alive["status"], "ok")

    def test_hanging_row_is_killed_with_its_processes(self):
        started = self.folder / "started"
        program = self.program(f'echo $$ > "{started}"; exec sleep 1000')
        report = self.measure("--rows", "slipstream", "--num-workers", "1", "--timeout", "2",
                              "--slipstream", program)
        row = report["results"][0]
        self.assertEqual((row["status"], row["message"]), ("died", "no answer within 2 s"))
        stat = Path(f"/proc/{started.read_text().strip()}/stat")
        self.assertTrue(not stat.exists() or ") Z " in stat.read_text())

    def test_rows_after_time_budget_are_skipped(self):
        report = self.measure("--rows", "floor", "--num-workers", "1,2", "--budget-seconds", "0")
        self.assertEqual([row["status"] for row in report["results"]],
                         ["skipped: time budget spent"] * 2)

    def test_invalid_arguments_are_refused(self):
        for arguments, says in ((["--rows", "floor,fast"], "unknown row: fast; known: floor"),
                                (["--num-workers", "0"], "at least 1 worker"),
                                (["--count", "3"], "at least one batch of files")):
            done = self.run_script(*arguments)
            self.assertEqual(done.returncode, 2)
            self.assertIn(says, done.stderr)
        done = self.run_script("--data", self.folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn("0 JPEG files", done.stderr)


if __name__ == "__main__":
    if importlib.util.find_spec("PIL") is None or importlib.util.find_spec("numpy") is None:
        print("skipped: needs numpy and Pillow")
        sys.exit(SKIPPED)
    unittest.main()
