"""Verbs on data say how far they are, on a terminal and in a log."""

import unittest

from program import DONE, ProgramTest, Running, make_data


class ProgressTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.data = make_data(cls.folder / "data")

    def verbs(self, out):
        """Each with what its last line says."""
        out = self.folder / out
        return ((["inspect", self.data], "] 8/8 samples"),
                (["make-data", "classification", "--out", out / "made", "--samples", "5",
                  "--size", "16"], "] 5/5 images"),
                (["convert", "--data", self.data, "--out", out / "shards",
                  "--samples-per-shard", "4"], "] 2/2 shards"),
                (["bench", "loader", "--data", self.data, "--image-size", "16", "--batch-size",
                  "4", "--num-workers", "1,2", "--repeats", "2", "--seconds", "0.01"],
                 "] 4/4 measurements"))

    def test_a_live_line_on_a_terminal(self):
        for arguments, last in self.verbs("live"):
            with self.subTest(arguments[0]):
                code, shown = Running(*arguments).shown()
                self.assertEqual(code, DONE, shown)
                self.assertIn("\r[", shown)
                self.assertTrue(shown.rstrip().endswith(last), shown)

    def test_lines_in_a_log(self):
        for arguments, last in self.verbs("logged"):
            with self.subTest(arguments[0]):
                done = self.expect(DONE, *arguments)
                self.assertIn(last + "\n", done.stderr)
                self.assertNotIn("\r", done.stderr)


if __name__ == "__main__":
    unittest.main()
