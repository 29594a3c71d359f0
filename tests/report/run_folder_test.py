"""Reads a run folder with TensorBoard and with the readers of Python's library.

WRITE_RUN_FOLDER names the program that writes the folder of a run that was resumed.
"""

import csv
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
except ImportError as error:
    print(f"{error}: scripts/setup.sh --lint installs tests/requirements.txt")
    sys.exit(1 if os.environ.get("CI") else 77)


def rows(first, last, scale):
    return {step: {"train/loss": scale / step, "train/lr": 0.5 - step / 200,
                   **({"val/top1": 1 - scale / step} if step % 10 == 0 else {})}
            for step in range(first, last + 1, 2)}


FIRST, SECOND = rows(2, 40, 4), rows(22, 60, 2)
WHOLE = {step: row for step, row in FIRST.items() if step <= 20} | SECOND


class RunFolder(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="slipstream-run-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name) / "run"
        done = subprocess.run([os.environ["WRITE_RUN_FOLDER"], cls.folder], check=True, timeout=600,
                              stdout=subprocess.PIPE, text=True)
        assert done.stdout == "", done.stdout

    def assert_rows(self, read, expected):
        self.assertEqual(sorted(read), sorted(expected))
        for step, row in expected.items():
            self.assertEqual(sorted(read[step]), sorted(row), step)
            for name, value in row.items():
                self.assertAlmostEqual(read[step][name], value, delta=1e-6, msg=f"{name} at {step}")

    def test_each_start_has_an_event_file(self):
        files = sorted(self.folder.glob("events.out.tfevents.*"))
        self.assertEqual(len(files), 2)
        for file, first, expected in zip(files, (0, 21), (FIRST, SECOND)):
            version, start, *events = LegacyEventFileLoader(str(file)).Load()
            self.assertEqual(version.file_version, "brain.Event:2")
            self.assertEqual((start.step, start.session_log.status), (first, start.session_log.START))
            for event in events:
                self.assertAlmostEqual(event.wall_time, file.stat().st_mtime, delta=60)
            read = {event.step: {value.tag: value.simple_value for value in event.summary.value}
                    for event in events}
            if 61 in read:
                self.assertTrue(math.isnan(read.pop(61)["train/loss"]))
            self.assert_rows(read, expected)

    def test_tensorboard_drops_repeated_steps(self):
        run = EventAccumulator(str(self.folder))
        run.Reload()
        self.assertEqual(sorted(run.Tags()["scalars"]), ["train/loss", "train/lr", "val/top1"])
        read = {}
        for name in run.Tags()["scalars"]:
            for scalar in run.Scalars(name):
                read.setdefault(scalar.step, {})[name] = scalar.value
        del read[61]
        self.assert_rows(read, WHOLE)

    def test_jsonl_and_csv_contain_the_same_rows(self):
        lines = [json.loads(line) for line in (self.folder / "metrics.jsonl").read_text().splitlines()]
        self.assertIsNone(lines.pop()["train/loss"])
        for line in lines:
            step = line.pop("step")
            self.assertEqual((line.pop("epoch"), line.pop("time_s")), (step / 20, step / 4))
            self.assertEqual(line, WHOLE[step])
        self.assertEqual(len(lines), len(WHOLE))
        with open(self.folder / "metrics.csv", newline="", encoding="utf-8") as table:
            cells = list(csv.DictReader(table))
        self.assertEqual(cells.pop(), {"step": "61", "epoch": "3.05", "time_s": "16",
                                       "train/loss": "", "train/lr": "", "val/top1": ""})
        for row in cells:
            read = {name: float(value) for name, value in row.items() if value}
            step = int(read.pop("step"))
            self.assertEqual((read.pop("epoch"), read.pop("time_s")), (step / 20, step / 4))
            self.assertEqual(read, WHOLE[step])

    def test_curves_svg_is_well_formed_and_loads_nothing(self):
        text = (self.folder / "curves.svg").read_text(encoding="utf-8")
        for element in ElementTree.fromstring(text).iter():
            self.assertNotIn(element.tag.rsplit("}", 1)[-1], {"script", "image", "use", "a"})
            self.assertFalse([key for key in element.attrib if key.endswith("href")])
        self.assertNotIn("url(", text)

    def test_folder_contains_only_expected_files(self):
        names = {path.name.split(".tfevents.")[0] for path in self.folder.iterdir()}
        self.assertEqual(names, {"run.json", "metrics.jsonl", "metrics.csv", "curves.svg", "events.out"})
        facts = json.loads((self.folder / "run.json").read_text(encoding="utf-8"))
        self.assertEqual((facts["schema"], facts["version"]), ("slipstream.run_folder", 1))
        self.assertEqual(facts["first_step"], 20)


if __name__ == "__main__":
    unittest.main()
