"""Data sets for the tests of the command line."""

import shutil
import struct

from program import TINY, ProgramTest, make_data


def write_npy(path, dtype, shape, values=b""):
    head = f"{{'descr': '<{dtype}', 'fortran_order': False, 'shape': {tuple(shape)}}}".encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    path.write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head + values)
    return path


class DataFolders(ProgramTest):
    """Has a folder of images and masks, a folder with the same images in two classes, and a copy of that with a bad
    file."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.scenes = make_data(cls.folder / "scenes", samples=12)
        cls.classes = cls.folder / "of classes"
        images = sorted((cls.scenes / "images").iterdir())
        for index, image in enumerate(images):
            folder = cls.classes / ("cat", "d\u00f6g")[index % 2]
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(image, folder)
        cls.damaged = cls.folder / "damaged"
        shutil.copytree(cls.classes, cls.damaged)
        (cls.damaged / "cat" / "a.jpg").write_bytes(images[0].read_bytes()[:200])

    def classify(self, name, data, *arguments):
        return self.train(name, *TINY, "--data", data, "--batch-size", "4", "--steps", "8",
                          "--model", "encoder", *arguments, workload="classification")
