"""Tests data sets that cannot be trained on: each is refused, or fails with the file's name."""

import io
import shutil
import struct
import tarfile
import unittest
import zlib

from program import DONE, FAILED, REFUSED, TINY, ProgramTest, make_data, run


def png(width, height, pixels=None):
    """A gray PNG; without pixels it is only a header that states a size."""

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = b"" if pixels is None else b"".join(
        b"\0" + pixels[row * width:(row + 1) * width] for row in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) +
            chunk(b"IEND", b""))


class FolderTest(ProgramTest):
    def refuse(self, folder, says, code=REFUSED):
        self.expect(code, "train", "segmentation", *TINY, "--data", folder, says=says)

    def test_missing_data_folder_is_refused(self):
        missing = self.folder / "missing"
        self.refuse(missing, says=[f"no folder '{missing}'", "make-data"])

    def test_file_instead_of_data_folder_is_refused(self):
        file = self.folder / "file"
        file.write_text("")
        self.refuse(file, says=["is not a data set", "images/ and masks/"])

    def test_folder_without_images_and_masks_is_refused(self):
        (self.folder / "bare").mkdir()
        self.refuse(self.folder / "bare", says=["images"])

    def test_empty_images_folder_fails(self):
        empty = self.folder / "empty"
        for name in ("images", "masks"):
            (empty / name).mkdir(parents=True)
        self.refuse(empty, says=["no images in"], code=FAILED)


class ForgedNamesTest(ProgramTest):
    """File names that would look like a line of the program, or control the terminal."""

    FORGED = "\nslipstream: all is well\x1b[2K"

    def shard(self, *members):
        path = self.folder / "shard.tar"
        with tarfile.open(path, "w") as archive:
            for name, content, kind in members:
                member = tarfile.TarInfo(name)
                member.size, member.type, member.linkname = len(content), kind, "x"
                archive.addfile(member, io.BytesIO(content))
        return path

    def write_list(self, label):
        path = self.folder / "list.csv"
        path.write_text(f'image,label\n000.png,"{label}"\n')
        return path

    def array(self, kind):
        path = self.folder / "image.npy"
        header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': (1,), }}".encode()
        path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
        return path

    def test_names_in_data_cannot_forge_output_lines(self):
        image, file, link = png(2, 2, bytes(4)), tarfile.REGTYPE, tarfile.SYMTYPE
        name = "a" + self.FORGED
        cases = {"a link": lambda: self.shard((name + ".png", b"", link)),
                 "a second image": lambda: self.shard((name + ".png", image, file), (name + ".jpg", image, file)),
                 "no image": lambda: self.shard((name + ".cls", b"1", file)),
                 "a sample": lambda: self.shard((name + ".png", b"damaged", file), (name + ".cls", b"1", file)),
                 "a class": lambda: self.shard(("a.png", image, file), ("a.cls", name.encode(), file)),
                 "a label": lambda: self.write_list(self.FORGED[:1] + "2"),
                 "a type": lambda: self.array("<u9")}
        for what, make in cases.items():
            with self.subTest(what):
                done = run("inspect", make())
                self.assertNotEqual(done.returncode, DONE)
                for output in (done.stdout, done.stderr):
                    self.assertNotRegex(output, "(?m)^(slipstream: all is well|2')")
                    self.assertNotIn("\x1b", output)


class FileTest(ProgramTest):
    """Each test damages one file of a small data set."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.good = make_data(cls.folder / "good", samples=8)

    def setUp(self):
        self.data = self.folder / self.id().rsplit(".", 1)[-1]
        shutil.copytree(self.good, self.data)
        self.image = self.data / "images" / "000002.jpg"
        self.mask = self.data / "masks" / "000002.png"

    def expect_failure(self, says, code=FAILED, more=()):
        for plan in ("serial", "pipelined"):
            self.expect(code, "train", "segmentation", *TINY, "--data", self.data, "--plan", plan,
                        "--steps", "2", *more, says=says)

    def test_image_without_mask_fails_with_its_name(self):
        self.mask.unlink()
        self.expect_failure(says=["000002", "without masks/NAME.png"], code=FAILED)

    def test_mask_without_image_fails_with_its_name(self):
        self.image.unlink()
        self.expect_failure(says=["000002", "without images/NAME"], code=FAILED)

    def test_mask_of_different_size_fails_with_both_sizes(self):
        self.mask.write_bytes(png(8, 4, bytes(32)))
        self.expect_failure(says=["000002.png", "8 x 4", "16 x 16", "step 'read'"])

    def test_truncated_image_fails_in_decode_step(self):
        self.image.write_bytes(self.image.read_bytes()[:-100])
        self.expect_failure(says=["000002.jpg", "step 'decode'"])

    def test_truncated_mask_fails_in_decode_step(self):
        self.mask.write_bytes(self.mask.read_bytes()[:-20])
        self.expect_failure(says=["000002", "step 'decode'"])

    def test_file_that_is_no_image_fails_with_its_name(self):
        self.image.write_bytes(b"this is no image")
        self.expect_failure(says=["000002.jpg", "not a JPEG, PNG, PPM, BMP, GIF, TIFF or WebP file"])

    def test_empty_image_file_fails_with_its_name(self):
        self.image.write_bytes(b"")
        self.expect_failure(says=["000002.jpg", "0 bytes"])

    def test_image_above_pixel_limit_fails_with_its_size(self):
        self.image.unlink()
        self.image.with_suffix(".png").write_bytes(png(60000, 60000))
        self.mask.write_bytes(png(60000, 60000))
        self.expect_failure(says=["000002.png", "60000 x 60000", "DecodeOptions::pixel_limit"])

    def test_label_outside_classes_fails_with_its_value(self):
        self.mask.write_bytes(png(16, 16, bytes(255) + b"\x0b"))
        self.expect_failure(says=["000002", "class 11", "10 classes"])

    def test_too_small_classes_option_fails(self):
        self.mask.write_bytes(png(16, 16, bytes([9]) * 256))
        self.expect_failure(says=["3 classes"], more=["--classes", "3"])

    def test_batch_larger_than_data_set_is_refused(self):
        self.expect_failure(says=["batch size 64", "at most 8"], code=REFUSED,
                            more=["--batch-size", "64"])


if __name__ == "__main__":
    unittest.main()
