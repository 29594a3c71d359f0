"""The verbs eval and predict, and evaluation between epochs."""

import csv
import json
import unittest

import numpy
from PIL import Image

from program import DONE, REFUSED, TINY, TINY_CLASSIFIER, ProgramTest, read_json

SAMPLES = 22


class EvalTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        test = cls()
        for kind in ("segmentation", "classification"):
            for name, seed, samples in (("data", 1, 32), ("others", 2, SAMPLES)):
                test.expect(DONE, "make-data", kind, "--out", cls.folder / f"{kind}-{name}", "--samples", samples,
                            "--size", "24", "--classes", "3", "--seed", seed)
        cls.trained = {kind: test.train_once(kind) for kind in ("segmentation", "classification")}

    @classmethod
    def words(cls, kind, data="others"):
        model = TINY_CLASSIFIER[1:] if kind == "classification" else [*TINY, "--classes", "3"]
        return [*model, "--data", cls.folder / f"{kind}-{data}", "--deterministic"]

    def train_once(self, kind):
        return self.train(kind, *self.words(kind, "data"), "--val", self.folder / f"{kind}-others", "--epochs", "2",
                          "--lr", "0.05", "--batch-size", "8", "--checkpoint", self.folder / f"{kind}-checkpoints",
                          "--log-dir", self.folder / f"{kind}-log", "--log-every", "2", workload=kind)

    def weights(self, kind):
        return self.folder / f"{kind}-checkpoints" / "best"

    def eval(self, kind, *arguments):
        path = self.folder / "eval.json"
        self.expect(DONE, "eval", kind, *self.words(kind), "--weights", self.weights(kind), "--json", path, *arguments)
        return read_json(path)

    def predict(self, kind, out, *arguments):
        self.expect(DONE, "predict", kind, *self.words(kind), "--weights", self.weights(kind), "--out", out,
                    *arguments)
        return out

    def test_scores_are_those_of_the_best_epoch_whatever_the_plan(self):
        for kind, score in (("segmentation", "mean_iou"), ("classification", "top1")):
            best = max(row["scores"][score] for row in self.trained[kind]["validation"])
            for more in (["--plan", "serial", "--batch-size", "8"], ["--batch-size", "8", "--num-workers", "3"]):
                report = self.eval(kind, *more)
                self.assertEqual((report["samples"], report["scores"][score]), (SAMPLES, best))

    def test_a_batch_that_is_not_full_changes_no_score(self):
        reports = [self.eval("classification", "--batch-size", size) for size in ("1", "5", "22", "64")]
        for report in reports[1:]:
            for name, value in reports[0]["scores"].items():
                self.assertAlmostEqual(report["scores"][name], value, places=5)
            self.assertEqual([row["labels"] for row in report["classes"]],
                             [row["labels"] for row in reports[0]["classes"]])

    def test_classes_are_told_one_by_one(self):
        report = self.eval("classification")
        self.assertEqual(sum(row["labels"] for row in report["classes"]), SAMPLES)
        right = sum(row["labels"] * row["accuracy"] for row in report["classes"])
        self.assertAlmostEqual(right / SAMPLES, report["scores"]["top1"])

    def test_predicted_classes_are_those_that_are_scored(self):
        top1 = self.eval("classification")["scores"]["top1"]
        out = self.predict("classification", self.folder / "classes", "--num-workers", "3")
        lines = [json.loads(line) for line in (out / "predictions.jsonl").read_text().splitlines()]
        self.assertEqual([line["sample"] for line in lines], sorted(line["sample"] for line in lines))
        self.assertEqual(len(lines), SAMPLES)
        right = sum(f"/{line['class']}/" in f"/{line['sample']}" for line in lines)
        self.assertAlmostEqual(right / SAMPLES, top1)
        for line in lines:
            self.assertAlmostEqual(sum(each["probability"] for each in line["classes"]), 1, places=5)

    def test_predicted_masks_are_those_that_are_scored(self):
        accuracy = self.eval("segmentation")["scores"]["accuracy"]
        out = self.predict("segmentation", self.folder / "masks")
        right = count = 0
        for mask in sorted((self.folder / "segmentation-others" / "masks").glob("*.png")):
            label = numpy.array(Image.open(mask).resize((16, 16), Image.NEAREST))
            found = next(out.rglob(mask.name))
            right += (numpy.array(Image.open(found)) == label).sum()
            count += label.size
        self.assertEqual(count, SAMPLES * 16 * 16)
        self.assertAlmostEqual(right / count, accuracy, delta=0.02)  # Pillow's nearest neighbors differ

    def test_predictions_do_not_mix(self):
        out = self.predict("classification", self.folder / "once")
        self.expect(REFUSED, "predict", "classification", *self.words("classification"), "--weights",
                    self.weights("classification"), "--out", out, says=["is not empty"])

    def test_weights_of_another_model_are_refused(self):
        self.expect(REFUSED, "eval", "segmentation", *self.words("segmentation"), "--weights",
                    self.weights("classification"), says=["another model", "--weights-partial"])

    def test_a_run_folder_has_the_course_of_the_training(self):
        log = self.folder / "classification-log"
        rows = list(csv.DictReader((log / "metrics.csv").open()))
        self.assertEqual([row["step"] for row in rows if row["train/loss"]], ["2", "4", "6", "8"])
        scores = [float(row["val/top1"]) for row in rows if row.get("val/top1")]
        self.assertEqual(scores, [row["scores"]["top1"] for row in self.trained["classification"]["validation"]])
        run = read_json(log / "run.json")
        self.assertIn("--log-dir", run["command"])
        self.assertEqual((run["steps"], run["seed"], run["samples"]), (8, 1, 32))
        self.assertTrue(list(log.glob("events.out.tfevents.*")) and (log / "curves.svg").exists())
        self.expect(REFUSED, "train", "classification", *self.words("classification"), "--steps", "1", "--log-dir",
                    log, says=["holds another run"])


unittest.main()
