"""Tests the program in examples/ with all verbs: a user-defined data set, operation, stage and model."""

import json
import os
import statistics
import unittest

from program import DONE, REFUSED, TINY, ProgramTest

EXAMPLE = os.environ["SLIPSTREAM_EXAMPLE"]


class ExampleTest(ProgramTest):
    def run_example(self, name, *arguments):
        return self.train(name, *TINY, *arguments, workload="quadrants", binary=EXAMPLE)

    def test_loss_falls_and_plans_give_same_digest(self):
        options = ["--optimizer", "adamw", "--lr", "1e-2", "--steps", "150"]
        serial = self.run_example("serial", *options, "--plan", "serial")
        pipelined = self.run_example("pipelined", *options, "--plan", "pipelined")
        self.assertEqual(serial["digest"], pipelined["digest"])
        self.assertEqual([lane["name"] for lane in pipelined["lanes"]],
                         ["copy", "center", "classify"])
        self.assertIn("brighten", [counter["name"] for counter in serial["counters"]])
        self.assertLess(statistics.mean(serial["losses"][-20:]), 0.7 * serial["losses"][0])
        self.assertGreater(statistics.mean(serial["accuracies"][-20:]), 0.6)
        self.expect(DONE, "compare", self.folder / "serial.json", self.folder / "pipelined.json",
                    binary=EXAMPLE)

    def test_eval_loss_is_close_to_training_loss(self):
        trained = self.run_example("checkpointed", "--optimizer", "adamw", "--lr", "1e-2", "--steps", "150",
                                   "--checkpoint", self.folder / "trained")
        path = self.folder / "eval.json"
        self.expect(DONE, "eval", "quadrants", "--device", "cpu", "--weights", self.folder / "trained" / "last",
                    "--json", path, binary=EXAMPLE)
        self.assertLess(json.loads(path.read_text())["scores"]["loss"], 1.2 * statistics.mean(trained["losses"][-20:]))

    def test_random_draws_do_not_depend_on_workers(self):
        one = self.run_example("one", "--steps", "20", "--plan", "serial", "--num-workers", "1")
        many = self.run_example("many", "--steps", "20", "--plan", "serial", "--num-workers", "5")
        self.assertEqual(one["digest"], many["digest"])

    def test_custom_operation_gives_same_digest_on_cpu_and_device(self):
        on_cpu = self.run_example("cpu", "--steps", "20", "--plan", "pipelined")
        plan = self.plan_on_device(on_cpu, "brighten")
        on_device = self.run_example("on-device", "--steps", "20", "--plan", plan)
        self.assertEqual(on_cpu["digest"], on_device["digest"])
        self.assertIn("augment", [lane["name"] for lane in on_device["lanes"]])

    def test_bench_measures_custom_stage_alone(self):
        self.expect(DONE, "bench", "quadrants", "--device", "cpu", "--image-size", "16",
                    "--batch-size", "4", "--steps", "8", "--repeats", "1", "--num-workers", "1",
                    binary=EXAMPLE, says=["alone:classify"])

    def test_built_in_workload_is_unknown_to_custom_program(self):
        self.expect(REFUSED, "train", "segmentation", *TINY, binary=EXAMPLE,
                    says=["unknown workload 'segmentation'", "known: quadrants"])

    def test_help_and_messages_name_program_and_its_workloads(self):
        name = os.path.basename(EXAMPLE)
        helped = self.expect(DONE, "--help", binary=EXAMPLE, says=[f"Usage: {name}", "compare"])
        self.assertNotIn("make-data", helped.stdout)
        self.expect(DONE, "train", "--help", binary=EXAMPLE, says=["Which workload: quadrants"])
        self.expect(REFUSED, "train", binary=EXAMPLE,
                    says=[f"{name}: ", f"see {name} train --help"])

    def test_undeclared_option_and_bad_value_are_refused(self):
        self.expect(REFUSED, "train", "quadrants", *TINY, "--data", "somewhere", binary=EXAMPLE,
                    says=["unknown option '--data'"])
        self.expect(REFUSED, "train", "quadrants", "--device", "cpu", "--image-size", "3",
                    binary=EXAMPLE, says=["--image-size: 3 is less than 4"])

    def test_report_lists_declared_options(self):
        report = self.run_example("options", "--steps", "2", "--optimizer", "adamw")
        self.assertEqual(report["workload"]["options"],
                         {"batch_size": 8, "seed": 1, "shuffle": True, "drop_last": True,
                          "image_size": 16, "optimizer": "adamw", "lr": 0.001})


if __name__ == "__main__":
    unittest.main()
