"""Tests the verbs eval and predict, and evaluation between epochs."""

import csv
import json
import shutil
import unittest

import numpy
from PIL import Image

from program import DONE, FAILED, REFUSED, TINY, TINY_CLASSIFIER, ProgramTest, read_json

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

    def test_eval_of_best_checkpoint_gives_best_epoch_score_in_any_plan(self):
        for kind, score in (("segmentation", "mean_iou"), ("classification", "top1")):
            best = max(row["scores"][score] for row in self.trained[kind]["validation"])
            for more in (["--plan", "serial", "--batch-size", "8"], ["--batch-size", "8", "--num-workers", "3"]):
                report = self.eval(kind, *more)
                self.assertEqual((report["samples"], report["scores"][score]), (SAMPLES, best))

    def test_scores_do_not_depend_on_batch_size(self):
        reports = [self.eval("classification", "--batch-size", size) for size in ("1", "5", "22", "64")]
        for report in reports[1:]:
            for name, value in reports[0]["scores"].items():
                self.assertAlmostEqual(report["scores"][name], value, places=5)
            self.assertEqual([row["labels"] for row in report["classes"]],
                             [row["labels"] for row in reports[0]["classes"]])

    def test_report_has_accuracy_of_each_class(self):
        report = self.eval("classification")
        self.assertEqual(sum(row["labels"] for row in report["classes"]), SAMPLES)
        right = sum(row["labels"] * row["accuracy"] for row in report["classes"])
        self.assertAlmostEqual(right / SAMPLES, report["scores"]["top1"])

    def test_predicted_classes_match_evaluated_accuracy(self):
        top1 = self.eval("classification")["scores"]["top1"]
        out = self.predict("classification", self.folder / "classes", "--num-workers", "3")
        lines = [json.loads(line) for line in (out / "predictions.jsonl").read_text().splitlines()]
        self.assertEqual([line["sample"] for line in lines], sorted(line["sample"] for line in lines))
        self.assertEqual(len(lines), SAMPLES)
        right = sum(f"/{line['class']}/" in f"/{line['sample']}" for line in lines)
        self.assertAlmostEqual(right / SAMPLES, top1)
        for line in lines:
            self.assertAlmostEqual(sum(each["probability"] for each in line["classes"]), 1, places=5)

    def test_predicted_masks_match_evaluated_accuracy(self):
        accuracy = self.eval("segmentation")["scores"]["accuracy"]
        out = self.predict("segmentation", self.folder / "masks")
        right = count = 0
        for mask in sorted((self.folder / "segmentation-others" / "masks").glob("*.png")):
            label = numpy.array(Image.open(mask).resize((16, 16), Image.NEAREST))
            found = next(out.rglob(mask.name))
            right += (numpy.array(Image.open(found)) == label).sum()
            count += label.size
        self.assertEqual(count, SAMPLES * 16 * 16)
        # Pillow chooses other pixels when it resizes to the nearest ones
        self.assertAlmostEqual(right / count, accuracy, delta=0.02)

    def test_predict_into_non_empty_folder_is_refused(self):
        out = self.predict("classification", self.folder / "once")
        self.expect(REFUSED, "predict", "classification", *self.words("classification"), "--weights",
                    self.weights("classification"), "--out", out, says=["is not empty"])

    def test_weights_of_another_model_are_refused(self):
        self.expect(REFUSED, "eval", "segmentation", *self.words("segmentation"), "--weights",
                    self.weights("classification"), says=["another model", "--weights-partial"])

    def test_eval_uses_model_size_and_transforms_of_checkpoint(self):
        chain, others = self.folder / "transforms.json", self.folder / "others.json"
        to_size = '{"op": "resize", "size": [16, 16]}, {"op": "to_dtype", "dtype": "float32", "scale": true}'
        normalize = '{"op": "normalize", "mean": [0.2, 0.3, 0.4], "std": [0.1, 0.2, 0.3]}'
        chain.write_text(f'{{"version": 1, "transforms": [{to_size}, {normalize}]}}')
        others.write_text(f'{{"version": 1, "transforms": [{to_size}]}}')
        data, val = self.folder / "classification-data", self.folder / "classification-others"
        trained = self.train("chain", "--device", "cpu", "--model", "encoder", "--data", data, "--val", val,
                             "--transforms", chain, "--epochs", "1", "--deterministic", "--batch-size", "8",
                             "--seed", "3", "--checkpoint", self.folder / "chain", workload="classification")
        words = ["classification", "--device", "cpu", "--data", val, "--deterministic", "--weights",
                 self.folder / "chain" / "last"]
        path = self.folder / "eval.json"
        self.expect(DONE, "eval", *words, "--transforms", chain, "--json", path)
        chain.unlink()
        for more in ((), ("--model", "encoder", "--image-size", "16", "--seed", "3")):
            self.expect(DONE, "eval", *words, *more, "--json", path)
            self.assertEqual(read_json(path)["scores"], trained["validation"][-1]["scores"])
        self.expect(DONE, "predict", *words, "--out", self.folder / "chain predictions")
        for more, says in ((("--transforms", others), "--transforms "), (("--image-size", "32"), "--image-size 32"),
                           (("--model", "resnet18"), "--model resnet18, trained with encoder"),
                           (("--seed", "4"), "--seed 4, trained with 3")):
            for verb in (("eval",), ("predict", "--out", self.folder / "none")):
                self.expect(REFUSED, *verb, *words, *more, says=["trained with other options", says, "--override"])
        self.expect(DONE, "eval", *words, "--transforms", others, "--override", "--json", path)
        self.assertNotEqual(read_json(path)["scores"], trained["validation"][-1]["scores"])

    def test_eval_uses_frozen_encoder_of_checkpoint(self):
        words = ["segmentation", *TINY, "--classes", "3", "--data", self.folder / "segmentation-data", "--val",
                 self.folder / "segmentation-others", "--deterministic", "--seed", "5"]
        self.expect(DONE, "train", *words, "--epochs", "1", "--batch-size", "8", "--checkpoint", self.folder / "seeded",
                    "--json", self.folder / "seeded.json")
        path = self.folder / "eval.json"
        self.expect(DONE, "eval", "segmentation", "--device", "cpu", "--deterministic", "--data",
                    self.folder / "segmentation-others", "--weights", self.folder / "seeded" / "last", "--json", path)
        self.assertEqual(read_json(path)["scores"], read_json(self.folder / "seeded.json")["validation"][-1]["scores"])

    def test_data_with_other_class_names_is_refused_without_override(self):
        renamed = self.folder / "renamed"
        for number, folder in enumerate(sorted((self.folder / "classification-others").iterdir())):
            shutil.copytree(folder, renamed / f"{'zyx'[number]}{folder.name}")
        words = ["eval", *TINY_CLASSIFIER, "--data", renamed, "--weights", self.weights("classification")]
        self.expect(REFUSED, *words, says=["none of the 3 classes given"])
        self.expect(REFUSED, *words, "--classes-from", renamed, says=["other classes", "class 0 is", "--override"])
        self.expect(DONE, *words, "--classes-from", renamed, "--override")

    def test_training_options_are_refused_by_eval_and_predict(self):
        for verb in (("eval",), ("predict", "--out", self.folder / "none")):
            command = [*verb, "classification", *self.words("classification"), "--weights",
                       self.weights("classification")]
            for option in (["--lr", "1"], ["--ema-decay", "0.9"], ["--accumulate", "2"], ["--momentum", "0.9"],
                           ["--on-nan", "skip"], ["--clip-grad", "1"], ["--sampler", "balanced"], ["--no-shuffle"]):
                self.expect(REFUSED, *command, *option, says=[" has no effect on " + verb[0]])
        self.assertNotIn("--lr", self.expect(DONE, "eval", "classification", "--help").stdout)

    def test_meaningless_scores_are_not_shown(self):
        shown = self.expect(DONE, "eval", "classification", *self.words("classification"), "--weights",
                            self.weights("classification")).stdout
        self.assertNotIn("top5", shown)  # with three classes top5 would always be 1
        self.assertNotIn("IoU", shown)
        shown = self.expect(DONE, "eval", "segmentation", *self.words("segmentation"), "--weights",
                            self.weights("segmentation")).stdout
        self.assertIn("IoU", shown)

    def test_nan_weights_fail_eval_and_predict(self):
        for kind in ("classification", "segmentation"):
            weights = self.folder / f"{kind} nan.safetensors"
            blob = bytearray((self.weights(kind) / "weights.safetensors").read_bytes())
            head = int.from_bytes(blob[:8], "little")
            values = numpy.frombuffer(blob, "float32", offset=8 + head).copy()
            values[:] = numpy.nan
            weights.write_bytes(bytes(blob[:8 + head]) + values.tobytes())
            classes = ["--classes", "3"] if kind == "classification" else []
            self.expect(FAILED, "predict", kind, *self.words(kind), *classes, "--weights", weights, "--out",
                        self.folder / f"{kind} nan", says=["output for sample 0", "is NaN"])
            self.expect(FAILED, "eval", kind, *self.words(kind), "--weights", weights, says=["is NaN"])

    def test_short_run_writes_one_metrics_row(self):
        self.expect(DONE, "train", "classification", *TINY_CLASSIFIER[1:], "--steps", "3", "--log-dir",
                    self.folder / "short")
        rows = list(csv.DictReader((self.folder / "short" / "metrics.csv").open()))
        self.assertEqual([row["step"] for row in rows], ["3"])
        self.assertTrue(rows[0]["train/loss"])

    def test_log_dir_holds_metrics_events_and_curves(self):
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
                    log, says=["contains another run"])


unittest.main()
