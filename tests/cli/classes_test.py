"""Tests the names of classes on the command line, and what inspect shows and notes."""

import shutil
import struct
import unittest
import zlib

from data_folders import DataFolders
from program import DONE, FAILED, REFUSED, TINY, TINY_CLASSIFIER, read_json


def transparent_png(side):
    """A PNG with black lines on a transparent background."""

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    row = b"\0" + b"".join(bytes((0, 0, 0, 255 * (x % 4 == 0))) for x in range(side))
    header = struct.pack(">IIBBBBB", side, side, 8, 6, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) +
            chunk(b"IDAT", zlib.compress(row * side)) + chunk(b"IEND", b""))


class ClassesTest(DataFolders):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.validation = cls.folder / "validation"
        shutil.copytree(cls.classes / "d\u00f6g", cls.validation / "d\u00f6g")

    def counts(self, data, *arguments):
        path = self.folder / "inspected.json"
        self.expect(DONE, "inspect", data, *arguments, "--json", path)
        return [(each["name"], each["samples"])
                for each in read_json(path)["fields"][1]["classes"]]

    def test_classes_from_numbers_validation_data_like_training_data(self):
        same = ("--classes-from", self.classes)
        self.assertEqual(self.counts(self.validation), [("d\u00f6g", 6)])
        self.assertEqual(self.counts(self.validation, *same), [("cat", 0), ("d\u00f6g", 6)])
        for form, resize in (("shards", ()), ("npy", ("--resize", "16"))):
            out = self.folder / f"validation-{form}"
            command = ("convert", "--data", self.validation, "--out", out, "--to", form, *resize)
            self.expect(DONE, *command, *same)
            self.assertEqual(self.counts(out), [("cat", 0), ("d\u00f6g", 6)])
            self.expect(REFUSED, *command, says=["holds another conversion", "class 0 is 'cat'"])
            self.assertEqual(self.classify(form, out, *same)["class_names"], ["cat", "d\u00f6g"])
            names = self.folder / "names.txt"
            names.write_text("d\u00f6g\ncat\n")
            self.expect(REFUSED, "inspect", out, "--classes-from", names,
                        says=[f"{out.name}' has other class indices", "class 0 is 'cat'"])
        report = self.classify("validated", self.validation, *same)
        self.assertEqual(report["class_names"], ["cat", "d\u00f6g"])
        self.assertEqual(report["workload"]["options"]["classes_from"], str(self.classes))

    def test_classes_from_that_does_not_match_the_data_is_refused(self):
        names = self.folder / "cats.txt"
        names.write_text("cat\n")
        for command in (("inspect", self.classes),
                        ("convert", "--data", self.classes, "--out", self.folder / "none"),
                        ("train", *TINY_CLASSIFIER, "--data", self.classes)):
            self.expect(REFUSED, *command, "--classes-from", names,
                        says=["1 folder that is not the class given: 'd\u00f6g'"])
        self.expect(REFUSED, "train", *TINY_CLASSIFIER, "--classes-from", names,
                    says=["--classes-from has no effect on classification"])
        self.expect(REFUSED, "train", *TINY_CLASSIFIER, "--data", self.classes,
                    "--classes-from", self.folder / "no.txt", says=["no class list"])

    def test_segmentation_has_one_class_per_given_name(self):
        names = self.folder / "ten.txt"
        names.write_text("".join(f"class {number}\n" for number in range(12)))
        report = self.train("masks", *TINY, "--data", self.scenes, "--batch-size", "4", "--steps",
                            "2", "--classes-from", names)
        self.assertEqual(len(report["class_names"]), 12)
        self.expect(REFUSED, "train", "segmentation", *TINY, "--data", self.scenes, "--classes",
                    "9", "--classes-from", names, says=["--classes 9", "12 classes have names"])

    def test_every_verb_warns_of_single_class_and_unread_formats(self):
        data = self.folder / "odd"
        shutil.copytree(self.validation, data)
        (data / "d\u00f6g" / "a.avif").write_bytes(b"RIFF")
        says = ["all samples are of one class, 'd\u00f6g'", "1 file has a format", "(1 .avif)"]
        self.expect(DONE, "inspect", data, says=says)
        self.expect(DONE, "convert", "--data", data, "--out", self.folder / "odd-out", says=says)
        batches = (*TINY_CLASSIFIER, "--data", data, "--batch-size", "4", "--steps")
        self.expect(DONE, "train", *batches, "1", says=says)
        self.expect(DONE, "trace", *batches, "2", "--out", self.folder / "trace", says=says)
        self.expect(DONE, "doctor", *batches[:-1], "--budget", "8", says=says)
        self.expect(DONE, "bench", "loader", "--data", data, "--batch-size", "4",
                    "--num-workers", "1", "--seconds", "0.01", says=says)
        chain = self.folder / "resize.json"
        chain.write_text('{"version": 1, "transforms": [{"op": "resize", "size": [8, 8]}]}')
        self.expect(DONE, "augment", "--data", data, "--transforms", chain, "--out",
                    self.folder / "odd.png", says=says)
        bench = self.expect(DONE, "bench", *TINY_CLASSIFIER, "--data", data,
                            "--batch-size", "2,4", "--plan", "serial", "--steps", "2",
                            "--repeats", "1", "--num-workers", "1", says=says)
        self.assertEqual(bench.stderr.count(says[0]), 1)

    def test_unfinished_conversion_is_refused_as_data(self):
        out = self.folder / "failed"
        convert = ("convert", "--data", self.damaged, "--out", out)
        self.expect(FAILED, *convert, says=["a.jpg"])
        for command in (("inspect", out), ("train", *TINY_CLASSIFIER, "--data", out),
                        ("train", "segmentation", *TINY, "--data", out)):
            self.expect(REFUSED, *command,
                        says=[f"the conversion in '{out}' is not finished", "the same convert"])

    def test_background_option_fills_transparent_pixels(self):
        data = self.folder / "drawings"
        for name in ("a", "b"):
            (data / name).mkdir(parents=True)
            (data / name / "1.png").write_bytes(transparent_png(16))
        sheets = [self.folder / f"{name}.png" for name in ("default", "white", "black")]
        for sheet, more in zip(sheets, ((), ("--background", "white"), ("--background", "#000000"))):
            self.expect(DONE, "inspect", data, "--contact-sheet", sheet, *more,
                        says=["2 images of 'image' have transparent pixels", "over black"])
        default, white, black = (sheet.read_bytes() for sheet in sheets)
        self.assertEqual(default, white)
        self.assertNotEqual(default, black)
        self.expect(REFUSED, "inspect", data, "--background", "pink",
                    says=["--background: 'pink' is not a color"])
        self.expect(REFUSED, "inspect", data, "--background", "white",
                    says=["--background has no effect without a contact sheet"])
        train = ("--data", data, "--batch-size", "2", "--steps", "2")
        reports = [self.train(f"drawn-{len(more)}", *TINY, "--model", "encoder", *train, *more,
                              workload="classification")
                   for more in ((), ("--background", "white"))]
        self.assertNotEqual(reports[0]["losses"], reports[1]["losses"])
        self.assertEqual(reports[1]["workload"]["options"]["background"], "white")
        shards = ("convert", "--data", data, "--out", self.folder / "drawn shards", "--background",
                  "white")
        self.expect(REFUSED, *shards, says=["--background has no effect on shards", "--to npy"])
        self.expect(DONE, *shards, "--resize", "16")
        for color in ("black", "white"):
            out = self.folder / f"drawn on {color}"
            self.expect(DONE, "convert", "--data", data, "--out", out, "--to", "npy", "--resize",
                        "16", "--background", color)
        pixels = (self.folder / "drawn on white" / "image.npy").read_bytes()[-3:]
        self.assertEqual(pixels, b"\xff\xff\xff")
        self.expect(REFUSED, "train", *TINY_CLASSIFIER, "--background", "white",
                    says=["--background has no effect on classification"])


if __name__ == "__main__":
    unittest.main()
