"""Tests what bench/augmenters.py reports of rows that run, are absent or fail."""

import importlib.util
import unittest

from script import ScriptTest

FOUND = '{"benchmarks": [{"real_time": 12.5}]}'


class AugmentersTest(ScriptTest):
    script = "augmenters.py"
    tiny = ("--device", "cpu", "--batch-size", "2", "--seconds", "0.01", "--repeats", "2")

    def rows(self, *arguments):
        return self.measure(*arguments)["rows"]

    def test_slipstream_result_is_read_from_its_program(self):
        program = self.program(f"echo '{FOUND}'; echo \"$1\" > {self.folder}/asked")
        rows = self.rows("--rows", "slipstream", "--chains", "usual", "--program", program)
        self.assertEqual(rows[0]["results"]["slipstream"],
                         {"value": 12.5, "low": 12.5, "high": 12.5, "unit": "us", "n": 2})
        self.assertEqual((self.folder / "asked").read_text(),
                         "--benchmark_filter=^usual/cold/2/\n")

    def test_failing_program_gives_failed_result(self):
        program = self.program("echo no GPU >&2; exit 3")
        rows = self.rows("--rows", "slipstream", "--chains", "usual", "--program", program)
        self.assertEqual(rows[0]["results"]["slipstream"], "failed: RuntimeError: no GPU")
        rows = self.rows("--rows", "slipstream", "--chains", "usual", "--program",
                            self.program("echo '{\"benchmarks\": []}'"))
        self.assertIn("does not know usual/cold/2", rows[0]["results"]["slipstream"])

    def test_libraries_are_measured_or_reported_absent(self):
        rows = self.rows("--rows", "torchvision,torchvision_per_sample,kornia")
        self.assertEqual(len(rows), 3)
        for row in rows:
            self.assertEqual(set(row["results"]), {"torchvision", "torchvision_per_sample", "kornia"})
            for name, result in row["results"].items():
                package = name.split("_")[0]
                if importlib.util.find_spec(package):
                    self.assertGreater(result["value"], 0)
                else:
                    self.assertEqual(result, f"absent: not installed: {package}")

    def test_unknown_names_are_refused(self):
        done = self.run_script("--rows", "dalle")
        self.assertEqual(done.returncode, 2)
        self.assertIn("unknown: dalle", done.stderr)


if __name__ == "__main__":
    unittest.main()
