"""Tests the option --preview of train, eval and predict."""

import unittest

import numpy
from PIL import Image

from program import DONE, REFUSED, TINY, TINY_CLASSIFIER, ProgramTest, page_data

SAMPLES = 24
CELL = 160
COLORS = numpy.array([(0, 0, 0), (128, 0, 0), (0, 128, 0)])  # colors of the classes 0, 1 and 2


class PreviewTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        test = cls()
        for kind in ("segmentation", "classification"):
            for name, seed in (("data", 1), ("others", 2)):
                test.expect(DONE, "make-data", kind, "--out", cls.folder / f"{kind}-{name}", "--samples", SAMPLES,
                            "--size", "24", "--classes", "3", "--seed", seed)

    @classmethod
    def words(cls, kind, data="others"):
        model = TINY_CLASSIFIER if kind == "classification" else ["segmentation", *TINY, "--classes", "3"]
        return [*model, "--data", cls.folder / f"{kind}-{data}", "--deterministic"]

    def pictures(self, kind):
        """Returns the previews that train, eval and predict write for the same samples after one training, and
        predict's output folder."""
        paths = [self.folder / f"{kind}-{verb}.png" for verb in ("train", "eval", "predict")]
        checkpoints, out = self.folder / f"{kind}-checkpoints", self.folder / f"{kind}-predictions"
        self.expect(DONE, "train", *self.words(kind, "data"), "--val", self.folder / f"{kind}-others", "--steps", "4",
                    "--lr", "0.05", "--checkpoint", checkpoints, "--preview", paths[0],
                    says=[f"preview of 8 samples in {paths[0]}"])
        weights = ["--weights", max(checkpoints.glob("step-*"))]
        self.expect(DONE, "eval", *self.words(kind), *weights, "--preview", paths[1])
        self.expect(DONE, "predict", *self.words(kind), *weights, "--out", out, "--preview", paths[2])
        return [numpy.array(Image.open(path)) for path in paths], out

    def test_segmentation_preview_shows_masks_in_class_colors(self):
        (first, *others), out = self.pictures("segmentation")
        self.assertEqual(first.shape, (8 * CELL, 3 * CELL, 3))
        for other in others:
            self.assertTrue((other == first).all())
        names = sorted((self.folder / "segmentation-others" / "images").glob("*.jpg"))
        for row in range(8):
            image = names[row * SAMPLES // 8]
            label = image.parents[1] / "masks" / f"{image.stem}.png"
            predicted = next(out.rglob(f"{image.stem}.png"))
            for column, path in ((1, predicted), (2, label)):
                # The model's output has 16 x 16 pixels; these are the middles of the squares that show them.
                middles = numpy.arange(16) * 152 // 16 + 4 + 4
                tile = first[row * CELL + middles][:, column * CELL + middles]
                mask = numpy.array(Image.open(path).resize((16, 16), Image.NEAREST))
                equal = (tile == COLORS[mask]).all(-1).mean()
                # Pillow chooses other pixels when it resizes to the nearest ones
                self.assertGreater(equal, 1 - 1e-9 if column == 1 else 0.9)

    def test_classification_preview_marks_wrong_classes_red(self):
        (first, *others), out = self.pictures("classification")
        self.assertEqual(first.shape, (2 * CELL, 4 * CELL, 3))
        for other in others:
            self.assertTrue((other == first).all())
        lines = (out / "predictions.jsonl").read_text().splitlines()
        for tile in range(8):
            line = lines[tile * SAMPLES // 8]
            row, column = divmod(tile, 4)
            is_red = (first[row * CELL, column * CELL] == (255, 0, 0)).all()
            name = line.split('"class":"')[1].split('"')[0]
            self.assertEqual(bool(is_red), f"/{name}/" not in line.split('"sample":"')[1].split('"')[0])

    def test_html_preview_names_predictions_and_labels(self):
        page = self.folder / "page.html"
        self.expect(DONE, "train", *self.words("classification"), "--steps", "2", "--preview", page,
                    says=[f"preview of 8 samples in {page}"])
        for tile in page_data(page)["sections"][0]["tiles"]:
            self.assertRegex(tile["captions"][0], r"^class[0-2] [01]\.[0-9]{2}$")
            self.assertRegex(tile["captions"][1], r"^label class[0-2]$")
            predicted, label = tile["captions"][0].split()[0], tile["captions"][1].split()[1]
            self.assertEqual(tile["is_marked"], predicted != label)

    def test_preview_without_validation_data_is_written(self):
        path = self.folder / "synthetic.png"
        self.expect(DONE, "train", "segmentation", *TINY, "--steps", "2", "--preview", path,
                    says=["preview of 8 samples"])
        self.assertTrue(path.exists())

    def test_preview_of_small_data_set_has_fewer_samples(self):
        few = self.folder / "few"
        self.expect(DONE, "make-data", "segmentation", "--out", few, "--samples", "3", "--size", "16")
        self.expect(DONE, "train", "segmentation", *TINY, "--data", few, "--batch-size", "2", "--steps", "1",
                    "--preview", self.folder / "few.png", says=["preview of 3 samples"])

    def test_finished_training_still_writes_preview(self):
        path, checkpoint = self.folder / "done.png", self.folder / "done"
        words = ["train", "segmentation", *TINY, "--steps", "2", "--checkpoint", checkpoint, "--resume", "auto"]
        self.expect(DONE, *words)
        self.expect(DONE, *words, "--preview", path, says=["nothing is left to do", "preview of 8 samples"])

    def test_preview_path_in_data_or_output_folder_is_refused(self):
        data = self.folder / "segmentation-others"
        words = self.words("segmentation")
        out = self.folder / "out"
        out.mkdir()
        for verb, path, says in (
                ("train", self.folder / "a.jpg", "give a name that ends in .png or"),
                ("train", data / "images" / "a.png", "is in the data"),
                ("eval", data / "a.png", "is in the data"),
                ("predict", out / "a.png", "is in the folder of --out"),
                ("train", self.folder / "none" / "a.png", "none")):
            more = [] if verb == "train" else ["--weights", self.folder / "none.safetensors"]
            more += ["--out", out] if verb == "predict" else []
            self.expect(REFUSED, verb, *words, *more, "--preview", path, says=[says])
        self.expect(REFUSED, "train", *self.words("segmentation", "data"), "--val", data, "--preview", data / "a.png",
                    says=["is in the data"])
        same = self.folder / "same.png"
        self.expect(REFUSED, "train", *words, "--json", same, "--preview", same, says=["name the same file"])


unittest.main()
