"""Tests the verb predict on images without labels."""

import json
import shutil
import unittest

import numpy
from PIL import Image

from program import DONE, FAILED, REFUSED, TINY, TINY_CLASSIFIER, ProgramTest

CLASSES = ["class0", "class1", "class2"]


class PredictTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        test = cls()
        cls.checkpoints = {}
        for kind in ("classification", "segmentation"):
            data = cls.folder / kind
            test.expect(DONE, "make-data", kind, "--out", data, "--samples", "12", "--size", "24", "--classes", "3")
            words = [] if kind == "classification" else ["--classes", "3"]
            test.expect(DONE, "train", *cls.words(kind), *words, "--data", data, "--batch-size", "4", "--steps", "2",
                        "--checkpoint", cls.folder / f"{kind} run")
            cls.checkpoints[kind] = next((cls.folder / f"{kind} run").glob("step-*"))
        # A folder with the images of all classes, and a copy of them further below in it.
        cls.images = cls.folder / "photos"
        for path in sorted((cls.folder / "classification").rglob("*.jpg")):
            for folder in (cls.images, cls.images / "again" / "deep"):
                folder.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, folder / f"{path.parent.name}-{path.name}")

    @staticmethod
    def words(kind):
        return TINY_CLASSIFIER if kind == "classification" else ["segmentation", *TINY]

    def predict(self, kind, data, *arguments, weights=None, code=DONE, says=()):
        out = self.folder / f"out {len(list(self.folder.iterdir()))}"
        self.expect(code, "predict", *self.words(kind), "--data", data, "--weights",
                    weights or self.checkpoints[kind], "--out", out, *arguments, says=says)
        return out

    def lines(self, *arguments, **more):
        out = self.predict("classification", *arguments, **more)
        return [json.loads(line) for line in (out / "predictions.jsonl").read_text().splitlines()]

    def test_unlabeled_images_get_same_predictions_as_labeled_ones(self):
        labeled = self.lines(self.folder / "classification")
        images = self.lines(self.images, "--num-workers", "3")
        names = sorted((path for path in self.images.rglob("*.jpg")), key=lambda path: (bytes(path.parent), path.name))
        self.assertEqual([line["sample"] for line in images], [str(path) for path in names])
        self.assertEqual({each["class"] for line in images for each in line["classes"]}, set(CLASSES))
        known = {line["sample"].split("/")[-2] + "-" + line["sample"].split("/")[-1]: line["classes"]
                 for line in labeled}
        for line in images:
            for found, wanted in zip(line["classes"], known[line["sample"].split("/")[-1]], strict=True):
                self.assertEqual(found["class"], wanted["class"])
                self.assertAlmostEqual(found["probability"], wanted["probability"], places=5)

    def test_missing_class_folder_keeps_all_training_classes(self):
        some = self.folder / "some"
        shutil.copytree(self.folder / "classification" / "class2", some / "class2")
        lines = self.lines(some)
        self.assertEqual(len(lines), 4)
        for line in lines:
            self.assertEqual({each["class"] for each in line["classes"]}, set(CLASSES))

    def test_masks_of_unlabeled_images_equal_those_of_labeled_ones(self):
        out = self.predict("segmentation", self.images)
        masks = sorted(out.rglob("*.png"))
        self.assertEqual(len(masks), 24)
        labeled = self.predict("segmentation", self.folder / "segmentation", "--classes", "3")
        only = self.folder / "only images"
        shutil.copytree(self.folder / "segmentation" / "images", only / "images")
        masks = sorted(self.predict("segmentation", only).rglob("*.png"))
        self.assertEqual(len(masks), 12)
        for mask in masks:
            same = next(labeled.rglob(mask.name))
            self.assertTrue((numpy.array(Image.open(mask)) == numpy.array(Image.open(same))).all())

    def test_weights_without_record_need_class_options(self):
        weights = self.checkpoints["classification"] / "weights.safetensors"
        self.predict("classification", self.images, weights=weights, code=REFUSED,
                     says=["another model", "give --classes or --classes-from"])
        numbered = self.lines(self.images, "--classes", "3", weights=weights)
        named = self.lines(self.images, "--classes-from", self.folder / "classification", weights=weights)
        self.assertEqual(len(numbered), 24)
        for one, other in zip(numbered, named, strict=True):
            self.assertEqual(CLASSES[int(one["class"])], other["class"])
        self.predict("segmentation", self.images, weights=self.checkpoints["segmentation"] / "weights.safetensors",
                     code=REFUSED, says=["another model", "give --classes or --classes-from"])

    def test_class_options_override_the_record(self):
        self.predict("classification", self.images, "--classes", "4", code=REFUSED, says=["another model"])
        names = self.folder / "names.txt"
        names.write_text("a\nb\nc\n")
        told = [{each["class"] for each in line["classes"]} for line in self.lines(self.images, "--classes-from", names)]
        self.assertEqual(told, [{"a", "b", "c"}] * 24)

    def test_preview_of_unlabeled_images_has_no_labels(self):
        picture = self.folder / "preview.png"
        self.predict("classification", self.images, "--preview", picture)
        self.assertEqual(numpy.array(Image.open(picture)).shape, (2 * 160, 4 * 160, 3))
        self.predict("segmentation", self.images, "--preview", picture)
        self.assertEqual(numpy.array(Image.open(picture)).shape, (8 * 160, 2 * 160, 3))

    def test_damaged_image_fails_with_its_name(self):
        data = self.folder / "damaged"
        data.mkdir()
        (data / "bad.jpg").write_bytes(b"no image")
        self.predict("classification", data, code=FAILED, says=["bad.jpg"])

    def test_train_and_eval_refuse_unlabeled_images(self):
        flat = self.folder / "flat"
        flat.mkdir()
        shutil.copy(next(self.images.glob("*.jpg")), flat)
        for kind, code, says in (("classification", FAILED, "no class in"), ("segmentation", REFUSED, "no folder")):
            for verb, more in (("train", ()), ("eval", ("--weights", self.checkpoints[kind]))):
                self.expect(code, verb, *self.words(kind), "--data", flat, *more, says=[says])


unittest.main()
