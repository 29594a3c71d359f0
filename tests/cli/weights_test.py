"""Tests trainings that start with the weights of another one."""

import importlib.util
import os
import shlex
import struct
import subprocess
import sys
import unittest

from checkpoint_runs import (TENSORS, CheckpointRuns, float_values, read_header, make_classes, replace_in,
                             step_path, write_tensors)
from program import DONE, REFUSED, TINY_CLASSIFIER

WEIGHTS = TENSORS[0]
HAS_BOTH = all(map(importlib.util.find_spec, ("torch", "safetensors"))) or os.environ.get("CI")


class WeightsTest(CheckpointRuns):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.first, _ = cls("run").saved("first", "--lr", "0.02", "--val", cls.data, steps=8)
        cls.last = step_path(cls.first, 8)

    def losses(self, *arguments, **more):
        return self.report("--steps", "2", *arguments, **more)["losses"]

    def resnet_command(self, *arguments):
        return ["train", "classification", "--device", "cpu", "--image-size", "16", "--data",
                self.data, "--steps", "1", *arguments]

    def test_weights_from_file_and_checkpoint_give_same_losses(self):
        from_file = self.losses("--weights", self.last / WEIGHTS)
        self.assertEqual(from_file, self.losses("--weights", self.last))
        self.assertEqual(from_file, self.losses("--weights", self.first / "best"))
        self.assertLess(from_file[0], self.losses()[0])

    def test_checkpoint_with_ema_loads_averaged_weights(self):
        folder, _ = self.saved("averages", "--ema-decay", "0.9", "--lr", "0.02", steps=4)
        last = step_path(folder, 4)
        averages = self.losses("--weights", last)
        self.assertEqual(averages, self.losses("--weights", last / "ema.safetensors"))
        self.assertNotEqual(averages, self.losses("--weights", last / WEIGHTS))

    def test_loaded_weights_are_saved_unchanged(self):
        """The learning rate is so small that the step changes nothing."""
        folder, _ = self.saved("same", "--weights", self.last, "--lr", "1e-30", steps=1)
        saved = float_values(step_path(folder, 1) / WEIGHTS)
        self.assertTrue(saved == float_values(self.last / WEIGHTS))

    def test_other_class_count_is_refused_without_weights_partial(self):
        four = make_classes(self.folder / "four", classes=4)
        names = ["head.weight (4 x 256 here, 3 x 256 there)", "head.bias (4 here, 3 there)"]
        self.refuse(REFUSED, "--data", four, "--weights", self.last, "--steps", "2",
                    says=["belong to another model", *names, "--weights-partial"])
        self.losses("--data", four, "--weights", self.last, "--weights-partial", says=names[:1])

    def test_weights_of_another_model_are_refused_in_few_lines(self):
        done = self.expect(REFUSED, *self.resnet_command("--weights", self.last),
                           says=["not in the file: ", "not in the model: encoder.conv0", "more"])
        self.assertLess(len(done.stderr.splitlines()), 8, "a few names of a kind are enough")

    def stored(self, name, change):
        """Writes a copy of the last weights, with a header that `change` has modified and matching values."""
        header, begin = read_header(self.last / WEIGHTS)
        values = (self.last / WEIGHTS).read_bytes()[begin:]
        tensors = {key: [entry["dtype"], entry["shape"], values[slice(*entry["data_offsets"])]]
                   for key, entry in header.items() if key != "__metadata__"}
        path = self.folder / name
        write_tensors(path, change(tensors) or tensors)
        return path

    def test_quantized_weights_are_refused(self):
        def quantize(tensors):
            dtype, shape, values = tensors["head.weight"]
            tensors["head.weight"] = ["I8", shape, bytes(len(values) // 4)]

        path = self.stored("int8.safetensors", quantize)
        says = ["of another dtype", "head.weight (float32 here, int8 there)"]
        self.refuse(REFUSED, "--weights", path, "--steps", "2", says=says)
        left_out = "1 tensor left out because of another dtype, such as " + says[1]
        for verb in ([], ["eval"], ["predict"]):
            arguments = ["--weights", path, "--weights-partial"]
            if not verb:
                self.losses(*arguments, says=[left_out])
                continue
            words = [*verb, *TINY_CLASSIFIER, "--data", self.data, "--weights", path]
            out = ["--out", self.folder / "predicted"] if verb == ["predict"] else []
            self.expect(REFUSED, *words, *out, says=says)
            self.expect(DONE, *words, *out, "--weights-partial", says=[left_out])

    def test_half_precision_is_converted_and_reported(self):
        def halve(tensors):
            for name, (dtype, shape, values) in tensors.items():
                floats = [number for number, in struct.iter_unpack("<f", values)]
                tensors[name] = ["F16", shape, struct.pack(f"<{len(floats)}e", *floats)]

        self.losses("--weights", self.stored("half.safetensors", halve),
                    says=["converted to the model's dtype, such as ", "(float32 here, float16 there)"])

    def test_tensor_names_cannot_forge_output_lines(self):
        forged = "x\nslipstream: done\x1b[2K"
        path = self.stored("forged.safetensors", lambda tensors: tensors | {forged: tensors["head.bias"]})
        done = self.refuse(REFUSED, "--weights", path, "--steps", "2", says=["x\\nslipstream: done\\x1b[2K"])
        self.assertNotIn("\nslipstream: done", done.stderr)
        done = self.expect(DONE, *self.command("--weights", path, "--weights-partial", "--steps", "2"))
        self.assertNotIn("\nslipstream: done", done.stdout)
        self.assertIn("such as x\\nslipstream: done\\x1b[2K", done.stdout)

    def test_weights_partial_without_any_match_is_refused(self):
        self.expect(REFUSED, *self.resnet_command("--weights", self.last, "--weights-partial"),
                    says=["none"])

    def test_files_that_are_no_weights_are_refused(self):
        for name, content, says in (("text", b"not weights at all", "not a .safetensors file"),
                                    ("nothing", b"", "too short"), ("gone", None, "No such file")):
            path = self.folder / name
            if content is not None:
                path.write_bytes(content)
            self.refuse(REFUSED, "--weights", path, says=[str(path), says])
        damaged = self.folder / "damaged.safetensors"
        damaged.write_bytes((self.last / WEIGHTS).read_bytes())
        replace_in(damaged, b'"F32"', b'"F99"')
        self.refuse(REFUSED, "--weights", damaged, says=["F99"])
        empty = self.folder / "empty"
        empty.mkdir()
        self.refuse(REFUSED, "--weights", empty, says=[str(empty)])
        self.refuse(REFUSED, "--weights", self.first, says=[str(self.first)])


class PickledTest(CheckpointRuns):
    def line(self, path):
        """Returns the command with Python code that the message shows, split as by a shell."""
        done = self.refuse(REFUSED, "--weights", path, says=["it was written by torch.save()", "python3 -c"])
        return shlex.split(done.stderr[done.stderr.index("python3 -c"):].strip())

    def test_torch_save_file_is_refused_with_conversion_command(self):
        for begin in (b"PK\3\4", b"\x80\2"):
            path = self.folder / "a.pt"
            path.write_bytes(begin + b"more")
            command = self.line(path)
            self.assertEqual(command[:2], ["python3", "-c"])
            compile(command[2], "line", "exec")

    @unittest.skipUnless(HAS_BOTH, "torch and safetensors are not both there")
    def test_suggested_conversion_command_gives_same_losses(self):
        import torch  # pylint: disable=import-outside-toplevel
        from safetensors.torch import load_file  # pylint: disable=import-outside-toplevel
        folder, _ = self.saved("first", "--lr", "0.02", steps=8)
        weights = step_path(folder, 8)
        want = self.report("--weights", weights, "--steps", "2")["losses"]
        for name, is_zip in (("new weights", True), ("old", False), ("anna's", True)):
            path = self.folder / f"{name}.pt"
            torch.save(load_file(weights / WEIGHTS), path, _use_new_zipfile_serialization=is_zip)
            subprocess.run([sys.executable, *self.line(path)[1:]], check=True, timeout=300)
            made = path.with_suffix(".safetensors")
            self.assertEqual(self.report("--weights", made, "--steps", "2")["losses"], want)
            done = self.expect(DONE, *self.command("--weights", made, "--steps", "1"))
            self.assertNotIn("not in the", done.stdout)


if __name__ == "__main__":
    unittest.main()
