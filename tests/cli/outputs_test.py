"""What the verbs write: beside a full disk, never over what they read, and to standard output."""

import json
import os
import unittest

from data_folders import DataFolders
from program import DONE, FAILED, REFUSED, TINY, ProgramTest, read_json, run

FAST = ["--num-workers", "1", "--batch-size", "4", "--image-size", "16", "--seconds", "0.01"]


class FullDiskTest(DataFolders):
    """A full disk takes no result along."""

    def test_inspect(self):
        sheet = self.folder / "beside.png"
        done = self.expect(FAILED, "inspect", self.classes, "--json", "/dev/full",
                           "--contact-sheet", sheet, says=["cannot write /dev/full"])
        self.assertIn("12 samples, 0 bad", done.stdout)
        self.assertTrue(sheet.read_bytes().startswith(b"\x89PNG"))

    def test_bench_loader(self):
        done = self.expect(FAILED, "bench", "loader", "--data", self.classes, *FAST, "--json",
                           "/dev/full", says=["cannot write /dev/full"])
        self.assertIn("samples/s", done.stdout)


class InputsTest(DataFolders):
    """What is read is not replaced."""

    def refuse(self, kept, *arguments, says):
        before = kept.read_bytes()
        self.expect(REFUSED, *arguments, says=["name the same file", *says])
        self.assertEqual(kept.read_bytes(), before)

    def test_inspect(self):
        names, table = self.folder / "names.txt", self.folder / "list.csv"
        names.write_text("cat\nd\u00f6g\n", encoding="utf-8")
        table.write_text("image,label\na.jpg,0\n")
        self.refuse(names, "inspect", self.classes, "--classes-from", names, "--json", names,
                    says=["--json and --classes-from"])
        self.refuse(table, "inspect", table, "--json", table, says=["--json and the data"])
        link = self.folder / "link.csv"
        link.symlink_to(table)
        self.refuse(table, "inspect", table, "--json", link, says=["--json and the data"])

    def test_bench_loader(self):
        chain, table = self.folder / "transforms.json", self.folder / "table.csv"
        chain.write_text('{"version": 1, "transforms": []}')
        table.write_text("image,label\na.jpg,0\n")
        self.refuse(chain, "bench", "loader", "--data", self.classes, "--transforms", chain,
                    "--json", chain, says=["--json and --transforms"])
        self.refuse(table, "bench", "loader", "--data", table, "--json", table,
                    says=["--json and --data"])

    def test_convert(self):
        out = self.folder / "out"
        out.mkdir()
        chain = out / "transforms.json"
        chain.write_text('{"version": 1, "transforms": [{"op": "random_horizontal_flip"}]}')
        self.refuse(chain, "convert", "--data", self.classes, "--out", out, "--transforms", chain,
                    says=["transforms.json and --transforms"])


class SkippedTest(DataFolders):
    def test_names_do_not_command_the_terminal(self):
        data, out = self.folder / "named", self.folder / "converted"
        (data / "cat").mkdir(parents=True)
        image = next((self.classes / "cat").iterdir())
        (data / "cat" / "good.jpg").write_bytes(image.read_bytes())
        (data / "cat" / "\x1b[31m.jpg").write_bytes(b"no image")
        command = ("convert", "--data", data, "--out", out, "--on-bad-sample", "skip")
        says = ["skipped 1 bad sample: ", "\\x1b[31m.jpg"]
        done = [self.expect(DONE, *command, says=says)]
        manifest = out / "manifest.json"
        written = json.loads(manifest.read_text(encoding="utf-8"))
        written["shards"][0]["skipped"][0]["message"] = "a \x1b[31m.jpg"
        manifest.write_text(json.dumps(written))
        done.append(self.expect(DONE, *command, says=says))
        for each in done:
            self.assertNotIn("\x1b", each.stdout + each.stderr)


class StandardOutputTest(ProgramTest):
    def test_output_that_cannot_be_written_is_a_failure(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = run("--help", stdout=full)
        self.assertEqual(done.returncode, FAILED)
        self.assertIn("standard output cannot be written", done.stderr)

    def test_a_reader_that_went_away_costs_no_report(self):
        reader, writer = os.pipe()
        os.close(reader)
        json_path, plan_path = self.folder / "run.json", self.folder / "plan.json"
        done = run("train", "segmentation", *TINY, "--steps", "2", "--json", json_path,
                   "--plan-out", plan_path, stdout=writer)
        os.close(writer)
        self.assertEqual(done.returncode, FAILED, done.stderr)
        self.assertEqual(read_json(json_path)["plan"], read_json(plan_path))


if __name__ == "__main__":
    unittest.main()
