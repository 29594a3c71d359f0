"""Tests the program in examples/skip_connections: a frozen encoder passes several fields to a decoder."""

import os
import unittest

from program import DONE, ProgramTest, read_json

EXAMPLE = os.environ["SLIPSTREAM_SKIPPING"]
TINY = ["--device", "cpu", "--image-size", "16", "--classes", "4"]


class SkipConnectionsTest(ProgramTest):
    def test_plans_give_same_digest_and_saved_model_can_be_evaluated(self):
        data, others = self.folder / "data", self.folder / "others"
        for folder, seed in ((data, 1), (others, 2)):
            self.expect(DONE, "make-data", "segmentation", "--out", folder, "--samples", "16", "--size", "16",
                        "--classes", "4", "--seed", seed)
        options = [*TINY, "--data", data, "--val", others, "--epochs", "2", "--lr", "0.05"]
        runs = {plan: self.train(plan, *options, "--plan", plan, "--checkpoint", self.folder / f"of-{plan}",
                                 workload="masks", binary=EXAMPLE) for plan in ("serial", "pipelined")}
        self.assertEqual(runs["serial"]["digest"], runs["pipelined"]["digest"])
        self.assertEqual(runs["serial"]["validation"], runs["pipelined"]["validation"])
        best = max(row["scores"]["mean_iou"] for row in runs["serial"]["validation"])
        report, weights = self.folder / "eval.json", self.folder / "of-serial" / "best"
        self.expect(DONE, "eval", "masks", *TINY, "--data", others, "--weights", weights, "--json", report,
                    binary=EXAMPLE)
        self.assertEqual(read_json(report)["scores"]["mean_iou"], best)
        self.expect(DONE, "predict", "masks", *TINY, "--data", others, "--weights", weights, "--out",
                    self.folder / "masks", binary=EXAMPLE)
        self.assertEqual(len(list((self.folder / "masks").rglob("*.png"))), 16)


unittest.main()
