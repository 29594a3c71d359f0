"""Tests the table, the JSON and the SVG of bench."""

import unittest
import xml.etree.ElementTree as xml

from program import DONE, REFUSED, ProgramTest, read_json

TINY = ["segmentation", "--device", "cpu", "--image-size", "16", "--steps", "8",
        "--repeats", "1", "--seconds", "0.2", "--num-workers", "1"]
CLASSIFICATION = ["classification", "--model", "encoder", *TINY[1:]]


class BenchTest(ProgramTest):
    def test_report_has_rows_for_each_plan_and_lane(self):
        json, svg = self.folder / "bench.json", self.folder / "bench.svg"
        self.expect(DONE, "bench", *TINY, "--batch-size", "2,4", "--json", json, "--svg", svg,
                    says=["serial", "pipelined", "alone:copy"])
        report = read_json(json)
        self.assertEqual((report["schema"], report["version"]), ("slipstream.bench", 1))
        self.assertNotIn("batch_size", report["workload"]["options"])
        self.assertEqual(report["settings"], {"precision": "tf32", "deterministic": True,
                                              "num_workers": 1, "steps": 8, "seconds": 0.2,
                                              "repeats": 1})
        rows = {(row["batch_size"], row["plan"]): row for row in report["rows"]}
        plans = [plan for size, plan in rows if size == 2]
        self.assertEqual(plans[:3], ["serial", "pipelined", "alone:copy"])
        self.assertEqual(list(rows), [(size, plan) for size in (2, 4) for plan in plans])
        self.assertEqual(len(plans), 5)
        for (_, plan), row in rows.items():
            self.assertIsNone(row["error"])
            self.assertGreater(row["steps_per_second"]["value"], 0)
            self.assertEqual(row["gain"] is None, plan.startswith("alone:"))
        self.assertEqual(rows[2, "serial"]["gain"]["value"], 1)
        self.assertEqual(xml.parse(svg).getroot().tag, "{http://www.w3.org/2000/svg}svg")

    def test_cached_input_is_reported_without_gain(self):
        for source in ("host", "device"):
            json = self.folder / f"{source}.json"
            self.expect(DONE, "bench", *TINY, "--batch-size", "2", "--input", source,
                        "--plan", "pipelined", "--json", json)
            row = read_json(json)["rows"][0]
            self.assertEqual((row["plan"], row["input"]), ("pipelined", source))
            self.assertIsNone(row["gain"])

    def test_bad_transforms_devices_are_refused(self):
        for given, says in (("cpu,cudo", "did you mean 'cuda'?"), ("cpu,cpu", "'cpu' is named twice"),
                            ("cpu,cuda", "the training's device is the CPU")):
            self.expect(REFUSED, "bench", *CLASSIFICATION, "--transforms-device", given, says=[says])


if __name__ == "__main__":
    unittest.main()
