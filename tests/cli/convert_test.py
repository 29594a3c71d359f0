"""Tests conversions of data sets to shards and to arrays on the command line."""

import shutil
import unittest

from data_folders import DataFolders
from program import DONE, FAILED, NO, REFUSED, TINY, TINY_CLASSIFIER


class ConvertTest(DataFolders):
    def test_convert_writes_shards_that_inspect_and_train_read(self):
        out = self.folder / "shards"
        chain = self.folder / "convert.json"
        chain.write_text('''{"version": 1, "transforms": [
            {"op": "resize", "size": [16, 16]},
            {"op": "random_horizontal_flip", "p": 0.5}]}''')
        command = ("convert", "--data", self.classes, "--out", out, "--samples-per-shard", "5",
                   "--transforms", chain)
        self.expect(DONE, *command, says=["12 samples in 3 shards", "transforms.json"])
        self.expect(DONE, *command, says=["3 of which were already written"])
        self.expect(DONE, "inspect", out, says=["12 samples, 0 bad", "16 x 16 x 3"])
        report = self.classify("shards", out, "--transforms", out / "transforms.json")
        self.assertEqual(report["steps"], 8)
        self.expect(REFUSED, "train", *TINY_CLASSIFIER, "--data", out, "--transforms",
                    out / "transforms.json", "--classes", "1", says=["has 2 classes; leave --classes out"])
        shard = out / "shard-000001.tar"
        shard.write_bytes(shard.read_bytes().replace(b"ustar", b"ustaR", 1))
        changed = self.expect(FAILED, "inspect", out)
        self.assertIn("shard-000001.tar", changed.stderr)
        self.expect(REFUSED, *command, "--quality", "80",
                    says=["holds another conversion", "its quality: 90, wanted: 80"])
        self.expect(REFUSED, *command, "--resize", "8", says=["not both"])
        self.expect(REFUSED, *command, "--to", "npz", says=["known: shards, npy"])
        self.expect(REFUSED, "convert", "--data", self.classes, "--out", self.classes / "shards",
                    says=["it would be read as data"])

    def test_convert_skips_bad_samples_only_on_request(self):
        for form, resize in (("shards", ()), ("npy", ("--resize", "16"))):
            out = self.folder / f"skipped as {form}"
            command = ("convert", "--data", self.damaged, "--out", out, "--to", form, *resize)
            self.expect(FAILED, *command, says=["a.jpg"])
            shutil.rmtree(out)
            self.expect(DONE, *command, "--on-bad-sample", "skip",
                        says=["12 samples in 1 ", "skipped 1 bad sample: ", "a.jpg"])
            self.expect(DONE, "inspect", out, says=["12 samples, 0 bad"])
            self.expect(DONE, *command, "--on-bad-sample", "skip",
                        says=["1 of which was already written", "skipped 1 bad sample: "])

    def test_convert_writes_arrays_that_train_like_the_files(self):
        out = self.folder / "a folder of arr\u00e4ys"
        command = ("convert", "--data", self.classes, "--out", out, "--to", "npy",
                   "--samples-per-shard", "5")
        self.expect(REFUSED, *command, says=["differs from sample to sample", "--resize"])
        self.expect(REFUSED, *command, "--resize", "16", "--quality", "80", says=["--quality"])
        self.expect(DONE, *command, "--resize", "16", says=["12 samples in 3 blocks", "3/3 blocks"])
        self.expect(DONE, *command, "--resize", "16", says=["3 of which were already written"])
        self.expect(DONE, "inspect", out,
                    says=["12 samples, 0 bad", "16 x 16 x 3", "0 'cat': 6, 1 'd\u00f6g': 6"])
        self.expect(DONE, "inspect", out / "image.npy", says=["12 samples, 0 bad", "12 uint8"])
        # The digests are equal only if both have the same number of classes: one more would give the model a larger
        # head.
        digests = [self.classify(name, data)["digest"]
                   for name, data in (("npy", out), ("files", self.classes))]
        self.assertEqual(*digests)
        self.expect(REFUSED, *command, "--resize", "8", says=["holds another conversion"])
        image = out / "image.npy"
        image.write_bytes(image.read_bytes()[:-1] + b"\x01")
        self.expect(NO, "inspect", out, says=["changed: '", "image.npy", "samples 10 to 11"])

    def test_segmentation_digest_is_the_same_for_converted_data(self):
        digests = set()
        for name in ("pairs", "shards", "npy"):
            data = self.scenes if name == "pairs" else self.folder / f"masks as {name}"
            if name != "pairs":
                resize = ("--resize", "16") if name == "npy" else ()
                self.expect(DONE, "convert", "--data", self.scenes, "--out", data, "--to", name,
                            *resize)
                self.expect(FAILED, "train", "segmentation", *TINY, "--data", data, "--classes",
                            "2", says=["but there are 2 classes"])
            digests.add(self.segment(name, data))
        plain = self.folder / "plain arrays"
        plain.mkdir()
        for array in (self.folder / "masks as npy").glob("*.npy"):
            shutil.copy(array, plain)
        shard = shutil.copy(self.folder / "masks as shards" / "shard-000000.tar",
                            self.folder / "plain.tar")
        digests.update((self.segment("arrays", plain), self.segment("shard", shard)))
        self.assertEqual(len(digests), 1)

    def segment(self, name, data):
        return self.train(f"segmentation-{name}", *TINY, "--data", data, "--batch-size", "4",
                          "--steps", "4")["digest"]

    def test_segmentation_without_masks_is_refused(self):
        table = self.folder / "labels.csv"
        image = next((self.classes / "cat").iterdir())
        table.write_text(f"image,label\n{image},0\n")
        self.expect(REFUSED, "train", "segmentation", *TINY, "--data", table,
                    says=["needs masks", "labels.csv", "use classification if each image has one class"])


if __name__ == "__main__":
    unittest.main()
