"""Tests the workload `starved`: raw images, plain and optimized transforms, the costs of the article."""

import unittest

from program import DONE, REFUSED, ProgramTest, read_json

SMALL = ["--device", "cpu", "--image-size", "16", "--batch-size", "4", "--num-workers", "2",
         "--steps", "4"]
ARTICLE = ["--device", "cpu", "--costs", "article"]
HOST_STEPS = ["read", "decode", "to_tensor", "crop", "mask", "color", "scale", "collate"]


class StarvedTest(ProgramTest):
    def starved(self, name, *arguments):
        return self.train(name, *arguments, workload="starved")

    def calls(self, report):
        return {counter["name"]: counter for counter in report["counters"]}

    def test_transforms_plans_and_devices_give_same_digest(self):
        runs = {"plain": [], "serial": ["--plan", "serial"],
                "optimized": ["--optimized-transforms"]}
        reports = {name: self.starved(name, *SMALL, "--plan", "pipelined", *arguments)
                   for name, arguments in runs.items() if name != "serial"}
        reports["serial"] = self.starved("serial", *SMALL, *runs["serial"])
        plan = self.plan_on_device(reports["optimized"], "mask")
        reports["on-device"] = self.starved("on-device", *SMALL, "--optimized-transforms", "--plan", plan)
        self.assertEqual(len({report["digest"] for report in reports.values()}), 1)
        self.assertEqual([name for name in self.calls(reports["plain"])][:8], HOST_STEPS)
        self.assertIn("augment", self.calls(reports["on-device"]))
        self.assertNotIn("mask", self.calls(reports["on-device"]))
        options = reports["optimized"]["workload"]["options"]
        self.assertEqual((options["optimized_transforms"], options["costs"], options["momentum"]),
                         (True, "", 0.9))
        self.assertEqual((options["image_size"], options["raw_size"]), (16, 64))

    def test_generated_files_give_same_digest_plain_and_optimized(self):
        data = self.folder / "raw"
        self.expect(DONE, "make-data", "classification", "--out", data, "--samples", "8",
                    "--size", "64", "--classes", "4", "--png", "0.5", says=["8 images in "])
        plain = self.starved("files", *SMALL, "--data", data, "--plan", "serial")
        optimized = self.starved("crop-first", *SMALL, "--data", data, "--plan", "pipelined",
                                 "--optimized-transforms")
        self.assertEqual(plain["digest"], optimized["digest"])
        options = plain["workload"]["options"]
        self.assertEqual(options["classes"], 4)
        self.assertNotIn("raw_size", options)
        small = self.folder / "small"
        self.expect(DONE, "convert", "--data", data, "--out", small, "--resize", "16")
        self.starved("shrunk", *SMALL, "--data", small, "--plan", "serial")

    def test_article_costs_use_settings_of_the_article(self):
        report = self.starved("article", *ARTICLE, "--plan", "serial", "--steps", "2")
        self.assertEqual(report["plan"]["schedule"]["loader"]["num_workers"], 4)
        options = report["workload"]["options"]
        self.assertEqual((options["batch_size"], options["image_size"], options["costs"]),
                         (256, 8, "article"))
        counters = self.calls(report)
        for step, least_s in (("read", 0.0085), ("to_tensor", 0.0024), ("mask", 0.0042),
                              ("color", 0.0025)):
            self.assertGreaterEqual(counters[step]["wall_s"],
                                    0.99 * least_s * (counters[step]["calls"] - 4), step)
        self.assertGreaterEqual(counters["model"]["wall_s"], 2 * 0.310)
        given = self.starved("given", *ARTICLE, "--plan", "serial", "--steps", "1", "--batch-size",
                             "8", "--num-workers", "1", "--momentum", "0", "--image-size", "12")
        self.assertEqual(given["plan"]["schedule"]["loader"]["num_workers"], 1)
        options = given["workload"]["options"]
        self.assertEqual((options["batch_size"], options["image_size"]), (8, 12))
        self.assertEqual(options["momentum"], 0)

    def test_bench_measures_the_batch_size_of_the_article(self):
        json = self.folder / "bench.json"
        self.expect(DONE, "bench", "starved", *ARTICLE, "--plan", "serial", "--input", "host",
                    "--steps", "2", "--seconds", "0.1", "--repeats", "1", "--json", json)
        self.assertEqual({row["batch_size"] for row in read_json(json)["rows"]}, {256})

    def test_invalid_starved_options_are_refused(self):
        for arguments, says in ((["--optimised-transforms"],
                                 "did you mean '--optimized-transforms'?"),
                                (["--costs", "articel"], "did you mean 'article'?"),
                                (["--raw-size", "8"], "raise --raw-size"),
                                (["--data", "x", "--raw-size", "64"], "make-data --size"),
                                (["--data", "x", "--costs", "article"], "leave --data out"),
                                (["--transforms", "x"], "starved does not have it"),
                                (["--momentum", "0.9", "--optimizer", "adamw"], "no momentum")):
            self.expect(REFUSED, "train", "starved", *SMALL, *arguments, says=[says])
        self.expect(REFUSED, "train", "segmentation", "--costs", "article", says=["--costs"])


if __name__ == "__main__":
    unittest.main()
