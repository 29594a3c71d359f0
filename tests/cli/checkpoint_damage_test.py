"""Damaged checkpoints are skipped, and unsuitable ones are refused."""

import shutil
import unittest

from checkpoint_runs import (RECORD, TENSORS, CheckpointRuns, read_header, make_classes, replace_in,
                             step_path, steps_in)
from program import DONE, FAILED, REFUSED, read_json


class DamageTest(CheckpointRuns):
    """The last of two checkpoints has been changed after it was written."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.whole, cls.digest = cls.saved(
    cls("run"), "whole", "--optimizer", "adamw", steps=6, every=3)

    def assert_skipped(self, name, damage):
        folder = self.folder / name
        shutil.copytree(self.whole, folder, symlinks=True)
        last = step_path(folder, 6)
        damage(last)
        with self.subTest(name):
            more = ("--optimizer", "adamw", "--steps", "6")
            done = self.refuse(REFUSED, "--resume", last, *more, says=[str(last)])
            self.assertNotIn("another", done.stderr)
            report = self.folder / "report.json"
            self.refuse(DONE, "--checkpoint", folder, "--resume", "auto", *more, "--json", report,
                        says=["warning: passed over a damaged checkpoint", str(last),
                              "continues from step 3 "])
            self.assertEqual(read_json(report)["digest"], self.digest)

    def test_resume_skips_checkpoint_with_truncated_or_missing_file(self):
        for file in (*TENSORS, RECORD):
            def cut(last, name=file):
                content = (last / name).read_bytes()
                (last / name).write_bytes(content[:len(content) // 2])

            self.assert_skipped(f"cut {file}", cut)
            self.assert_skipped(f"empty {file}",
                                    lambda last, name=file: (last / name).write_bytes(b""))
            self.assert_skipped(f"no {file}", lambda last, name=file: (last / name).unlink())

    def test_resume_skips_checkpoint_with_flipped_tensor_bit(self):
        for file in TENSORS:
            for place in (0, -1):
                def flip(last, name=file, at=place):
                    content = bytearray((last / name).read_bytes())
                    begin = read_header(last / name)[1]
                    content[begin if at == 0 else -1] ^= 0x10
                    (last / name).write_bytes(content)

                self.assert_skipped(f"flip {file} {place}", flip)

    def test_resume_skips_checkpoint_with_changed_tensor_header(self):
        for old, new in ((b'"F32"', b'"I32"'), (b".weight", b".weighd"),
                         (b"[16,3,1,1]", b"[16,1,3,1]"), (b'"dtype"', b'"dtypf"'), (b"{", b"[")):
            self.assert_skipped(f"header {new}",
                                    lambda last, a=old, b=new: replace_in(last / TENSORS[0], a, b))

    def test_resume_skips_checkpoint_with_changed_record(self):
        for old, new in ((b'"step": 6', b'"step": 2'), (b'"seed": 1', b'"seed": 3'),
                         (b'"batch_size": 8', b'"batch_size": 9'),
                         (b'"samples": 64', b'"samples": 24'),
                         (b'"epoch"', b'"epocg"'), (b"{", b"[")):
            self.assert_skipped(f"record {new}",
                                    lambda last, a=old, b=new: replace_in(last / RECORD, a, b))

    def test_resume_skips_checkpoint_with_changed_digest(self):
        def change(last):
            digit = read_json(last / RECORD)["loss_digest"][:1]
            replace_in(last / RECORD, f'"loss_digest": "{digit}'.encode(),
                       f'"loss_digest": "{"0" if digit != "0" else "1"}'.encode())

        self.assert_skipped("digest", change)

    def test_resume_ignores_file_named_like_a_checkpoint(self):
        folder, _ = self.saved("file", steps=4, every=2)
        shutil.rmtree(step_path(folder, 4))
        step_path(folder, 4).write_text("a file")
        report = self.report("--checkpoint", folder, "--resume", "auto", "--steps", "5")
        self.assertEqual(report["first_step"], 2)

    def test_failed_run_saves_last_step_before_the_error(self):
        data = make_classes(self.folder / "spoiled")
        sorted(data.rglob("*.jpg"))[40].write_bytes(b"not an image")  # a sample of the sixth batch
        for name, validation in (("alone", []), ("scored", ["--val", self.data])):
            folder = self.folder / name
            self.refuse(FAILED, "--data", data, "--no-shuffle", "--checkpoint", folder, "--plan", "serial", "--steps",
                        "8", "--batch-size", "8", *validation, says=["spoiled"])
            self.assertEqual(steps_in(folder), [5], name)

    def test_resume_auto_without_intact_checkpoint_is_refused(self):
        folder, _ = self.saved("gone", steps=2)
        (step_path(folder, 2) / RECORD).unlink()
        self.refuse(REFUSED, "--checkpoint", folder, "--resume", "auto", "--steps", "3",
                    says=["no checkpoint in", RECORD])

    def test_resume_from_path_that_is_no_checkpoint_is_refused(self):
        empty = self.folder / "empty"
        empty.mkdir()
        (empty / RECORD).write_text('{"schema": "slipstream.run", "version": 1}')
        for path, says in ((empty, "not the record of a checkpoint"),
                           (self.folder / "nowhere", "nowhere"), (self.data, str(self.data)),
                           (empty / RECORD, "folder")):
            self.refuse(REFUSED, "--resume", path, "--steps", "9", says=[says])

    def test_checkpoint_of_later_version_is_refused(self):
        folder, _ = self.saved("later", steps=6)
        replace_in(step_path(folder, 6) / RECORD, b'"version": 1', b'"version": 2')
        for resume in (["--checkpoint", folder, "--resume", "auto"],
                       ["--resume", step_path(folder, 6)]):
            self.refuse(REFUSED, *resume, "--steps", "9",
                        says=["later version", "update the program"])


if __name__ == "__main__":
    unittest.main()
