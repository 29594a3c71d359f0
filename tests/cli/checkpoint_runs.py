"""Trainings with checkpoints, and helpers that tests use to examine them."""

import json
import pathlib
import re
import struct

from program import DONE, TINY_CLASSIFIER, ProgramTest, read_json, run

TENSORS = ("weights.safetensors", "training.safetensors")
RECORD = "checkpoint.json"
SAMPLES = 64  # 8 steps per epoch


def make_classes(folder, classes=3, samples=SAMPLES):
    made = run("make-data", "classification", "--out", folder, "--samples", samples, "--size", 24,
               "--classes", classes)
    assert made.returncode == DONE, made.stderr
    return folder


def steps_in(folder):
    """Returns the steps of the checkpoints in a folder, from their names."""
    return sorted(int(path.name[5:]) for path in folder.glob("step-*"))


def step_path(folder, step):
    return folder / f"step-{step:08}"


def read_header(path):
    """Returns the JSON header of a .safetensors file and the offset of its values."""
    content = path.read_bytes()
    size, = struct.unpack("<Q", content[:8])
    return json.loads(content[8:8 + size]), 8 + size


def float_values(path):
    header, begin = read_header(path)
    values = path.read_bytes()[begin:]
    return [number for name, tensor in header.items() if name != "__metadata__"
            and tensor["dtype"] == "F32"
            for number, in struct.iter_unpack("<f", values[slice(*tensor["data_offsets"])])]


def write_tensors(path, tensors):
    """Writes a .safetensors file; `tensors` maps a name to dtype, shape and bytes."""
    header, values = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(values), len(values) + len(content)]}
        values += content
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + values)


def replace_in(path, old, new):
    content = path.read_bytes()
    assert old in content, f"{old} is not in {path}"
    path.write_bytes(content.replace(old, new, 1))


class CheckpointRuns(ProgramTest):
    """Runs trainings on a folder of images of three classes."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.data = make_classes(cls.folder / "data")

    def command(self, *arguments):
        data = [] if "--data" in arguments else ["--data", self.data]
        return ["train", *TINY_CLASSIFIER, *data, "--deterministic", *arguments]

    def report(self, *arguments, says=(), code=DONE):
        path = self.folder / "report.json"
        path.unlink(missing_ok=True)
        self.expect(code, *self.command(*arguments, "--json", path), says=says)
        return read_json(path)

    def refuse(self, code, *arguments, says):
        return self.expect(code, *self.command(*arguments), says=says)

    def saved(self, name, *arguments, steps=10, every=3, keep=99):
        """Trains with checkpoints; returns their folder and the digest of the training."""
        folder = self.folder / name
        digest = self.report("--checkpoint", folder, "--steps", steps, "--save-every", every,
                             "--keep-last", keep, *arguments)["digest"]
        return folder, digest

    def assert_complete(self, folder):
        """Checks that the folder contains only whole checkpoints, the links to the best and the last one, and the
        lock."""
        for path in folder.iterdir():
            self.assertRegex(path.name, re.compile(r"^(step-\d{8,}|best|last|\.lock)$"))
        for path in folder.glob("step-*"):
            names = {each.name for each in path.iterdir()}
            self.assertEqual(names - {"ema.safetensors"}, {*TENSORS, RECORD}, path)
            self.assertEqual(read_json(path / RECORD)["step"], int(path.name[5:]))

    def best(self, folder):
        target = (folder / "best").readlink()
        self.assertEqual(target, pathlib.Path(target.name), "the link moves with the folder")
        return int(target.name[5:])
