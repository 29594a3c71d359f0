"""Tests what bench/transforms.py reports with torchvision and without it."""

import importlib.util
import unittest

from script import ScriptTest

LISTED = "resize/u8\\nnormalize/f32"
FOUND = '{"benchmarks": [{"cpu_time": 12.5}]}'


class TransformsTest(ScriptTest):
    script = "transforms.py"
    tiny = ("--seconds", "0.01", "--repeats", "2")

    def setUp(self):
        super().setUp()
        self.ours = self.program('case "$1" in *list*) printf "' + LISTED + '\\n";; '
                                 f"*) echo '{FOUND}'; echo \"$1\" >> {self.folder}/asked;; esac")

    def test_slipstream_result_is_read_from_its_program(self):
        rows = self.measure("--rows", "normalize/f32", "--program", self.ours)["rows"]
        self.assertEqual([row["row"] for row in rows], ["normalize/f32"])
        self.assertEqual(rows[0]["slipstream"],
                         {"value": 12.5, "low": 12.5, "high": 12.5, "unit": "us", "n": 2})
        self.assertEqual((self.folder / "asked").read_text(),
                         "--benchmark_filter=^normalize/f32$\n" * 2)

    def test_torchvision_is_measured_or_omitted(self):
        rows = self.measure("--program", self.ours)["rows"]
        self.assertEqual([row["row"] for row in rows], ["resize/u8", "normalize/f32"])
        for row in rows:
            if importlib.util.find_spec("torchvision"):
                best = min(row["planes"]["value"], row["pixels"]["value"])
                self.assertAlmostEqual(row["times_as_fast"], best / 12.5)
            else:
                self.assertEqual(set(row), {"row", "slipstream"})

    def test_unknown_names_are_refused(self):
        done = self.run_script("--rows", "resize/f16", "--program", self.ours)
        self.assertEqual(done.returncode, 2)
        self.assertIn("unknown: resize/f16; known: resize/u8, normalize/f32", done.stderr)


if __name__ == "__main__":
    unittest.main()
