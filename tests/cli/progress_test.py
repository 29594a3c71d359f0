"""Verbs that process data report their progress, on a terminal and in a log."""

import os
import pty
import subprocess
import unittest

from program import BINARY, DONE, LIMIT_S, TINY, ProgramTest, Running, make_data, run


class ProgressTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.data = make_data(cls.folder / "data")

    def verbs(self, out):
        """Returns commands, each with the text of its last line."""
        out = self.folder / out
        return ((["inspect", self.data], "] 8/8 samples"),
                (["make-data", "classification", "--out", out / "made", "--samples", "5",
                  "--size", "16"], "] 5/5 images"),
                (["convert", "--data", self.data, "--out", out / "shards",
                  "--samples-per-shard", "4"], "] 2/2 shards"),
                (["bench", "loader", "--data", self.data, "--image-size", "16", "--batch-size",
                  "4", "--num-workers", "1,2", "--repeats", "2", "--seconds", "0.01"],
                 "] 4/4 measurements"))

    def test_terminal_shows_live_progress_line(self):
        for arguments, last in self.verbs("live"):
            with self.subTest(arguments[0]):
                code, shown = Running(*arguments).shown()
                self.assertEqual(code, DONE, shown)
                self.assertIn("\r[", shown)
                self.assertTrue(shown.rstrip().endswith(last), shown)

    def test_log_has_whole_progress_lines(self):
        for arguments, last in self.verbs("logged"):
            with self.subTest(arguments[0]):
                done = self.expect(DONE, *arguments)
                self.assertIn(last + "\n", done.stderr)
                self.assertNotIn("\r", done.stderr)

    def all_verbs(self, out):
        """Returns the arguments of all verbs that have a progress line."""
        out = self.folder / out
        model = ["segmentation", *TINY, "--data", self.data, "--batch-size", "4"]
        weights = out / "trained"
        trained = self.expect(DONE, "train", *model, "--steps", "2", "--checkpoint", weights)
        self.assertEqual(trained.returncode, DONE)
        return [*(arguments for arguments, _ in self.verbs(out)),
                ["train", *model, "--steps", "2"],
                ["eval", *model, "--weights", weights / "last"],
                ["predict", *model, "--weights", weights / "last", "--out", out / "predicted"],
                ["trace", *model, "--steps", "2", "--out", out / "trace.json"]]

    def test_closed_output_leaves_log_empty(self):
        for arguments in self.all_verbs("closed"):
            with self.subTest(arguments[0]):
                reading, writing = os.pipe()
                os.close(reading)
                done = run(*arguments, stdout=writing)
                os.close(writing)
                self.assertEqual((done.returncode, done.stderr), (DONE, ""), arguments)

    def test_closed_output_clears_live_line(self):
        for arguments in self.all_verbs("closed live"):
            with self.subTest(arguments[0]):
                reading, writing = os.pipe()
                os.close(reading)
                terminal, other_end = pty.openpty()
                program = subprocess.Popen([BINARY, *map(str, arguments)], stdout=writing, stderr=other_end)
                for end in (writing, other_end):
                    os.close(end)
                shown = b""
                try:
                    while part := os.read(terminal, 4096):
                        shown += part
                except OSError:  # the program has closed its end
                    pass
                os.close(terminal)
                self.assertEqual(program.wait(LIMIT_S), DONE)
                self.assertNotIn(b"\n", shown)
                last = shown.decode().removesuffix("\r").rsplit("\r", 1)[-1]
                self.assertEqual(last.strip(), "", shown)


if __name__ == "__main__":
    unittest.main()
