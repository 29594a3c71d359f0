"""Tests encoders from Python in the program of examples/imported_encoder."""

import json
import math
import os
import pathlib
import subprocess
import sys
import unittest
import zipfile

from program import DONE, FAILED, HAS_GPU, REFUSED, ProgramTest

EXAMPLE = os.environ["SLIPSTREAM_IMPORTED"]
SCRIPT = pathlib.Path(__file__).parents[2] / "examples" / "imported_encoder" / "make_encoder.py"
STEPS = ["--steps", "12", "--batch-size", "4"]


def make(*files, device):
    """Writes the encoder for images of 32 x 32, as TorchScript or as an AOTInductor package."""
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(files[0].parent / "cache")}
    environment.pop("CXX", None)  # a compiler that links libstdc++ statically would produce packages that crash
    done = subprocess.run([sys.executable, SCRIPT, *files, "--image-size", "32", "--device", device],
                          env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout


def changed(package, out, **values):
    """Writes a copy of the package with changed metadata."""
    with zipfile.ZipFile(package) as read, zipfile.ZipFile(out, "w") as written:
        for entry in read.infolist():
            data = read.read(entry)
            if entry.filename.endswith("metadata.json"):
                known = {**json.loads(data), **values}
                data = json.dumps({key: value for key, value in known.items() if value is not None})
            written.writestr(entry.filename, data)
    return out


class ImportedTest(ProgramTest):
    device = "cpu"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.script, cls.package = cls.folder / "encoder.pt", cls.folder / "encoder.pt2"
        make(cls.script, cls.package, device=cls.device)

    def head(self, name, encoder, *arguments):
        return self.train(name, "--device", self.device, "--encoder", encoder, *STEPS,
                          "--image-size", "32", *arguments, workload="head", binary=EXAMPLE)

    def expect_training_error(self, code, encoder, says, size="32"):
        self.expect(code, "train", "head", "--device", self.device, "--encoder", encoder, *STEPS,
                    "--image-size", size, binary=EXAMPLE, says=[encoder.name, *says])

    def expect_changed_package_refused(self, says, **values):
        file = changed(self.package, self.folder / "changed.pt2", **values)
        self.expect_training_error(REFUSED, file, says=[*says, "compile the package again"])

    def test_plans_and_both_file_formats_give_same_losses(self):
        losses = []
        for file in (self.script, self.package):
            serial = self.head("serial", file, "--plan", "serial")
            pipelined = self.head("pipelined", file, "--plan", "pipelined")
            self.assertEqual(serial["digest"], pipelined["digest"])
            self.assertEqual([lane["name"] for lane in pipelined["lanes"]],
                             ["copy", "encoder", "head"])
            losses.append(serial["losses"])
        self.assertEqual(len(losses[0]), 12)
        for one, other in zip(*losses, strict=True):
            self.assertAlmostEqual(one, other, delta=1e-4)

    def test_package_gives_similar_losses_under_fp32_and_bf16(self):
        exact, rounded = (self.head(precision, self.package, "--precision", precision)["losses"]
                          for precision in ("fp32", "bf16"))
        self.assertEqual(len(exact), 12)
        for one, other in zip(exact, rounded, strict=True):
            self.assertTrue(math.isclose(one, other, abs_tol=0.02), (one, other))

    def test_inputs_of_other_shape_or_type_fail(self):
        self.expect_training_error(FAILED, self.package, size="48",
                         says=["image uint8[*, 3, 32, 32]", "but got uint8[4, 3, 48, 48]",
                               "compile the package again"])
        file = changed(self.package, self.folder / "changed.pt2",
                       slipstream_inputs="float32[*, 3, 32, 32] channels_last")
        self.expect_training_error(FAILED, file, says=["image float32[", "but got uint8[4, 3, 32, 32]"])

    def test_packages_for_other_device_or_version_are_refused(self):
        other = {"cpu": "cuda", "cuda": "cpu"}[self.device]
        self.expect_changed_package_refused([f"made for {other}", f"runs on {self.device}"], AOTI_DEVICE_KEY=other)
        self.expect_changed_package_refused(["made by PyTorch 2.3.0"], slipstream_torch="2.3.0")
        self.expect_changed_package_refused(["does not describe its inputs"], slipstream_inputs=None)
        file = changed(self.package, self.folder / "changed.pt2", slipstream_outputs="2")
        self.expect_training_error(REFUSED, file, says=["made with 2 outputs, but 1 were named"])

    def test_files_that_are_no_packages_are_refused(self):
        damaged = self.folder / "damaged.pt2"
        damaged.write_bytes(self.package.read_bytes()[:-1000])
        script = self.folder / "script.pt2"
        script.write_bytes(self.script.read_bytes())
        for file in (damaged, script):
            self.expect_training_error(REFUSED, file, says=["not a package of AOTInductor"])
        package = self.folder / "package.pt"
        package.write_bytes(self.package.read_bytes())
        self.expect_training_error(REFUSED, package, says=["torch.jit.script(module).save(file)"])

    def test_package_with_empty_library_is_refused(self):
        empty = self.folder / "empty.pt2"
        with zipfile.ZipFile(self.package) as read, zipfile.ZipFile(empty, "w") as written:
            for entry in read.infolist():
                is_code = entry.filename.endswith(".so")
                written.writestr(entry.filename, b"" if is_code else read.read(entry))
        self.expect_training_error(REFUSED, empty, says=["cannot be loaded for " + self.device])

    def test_bench_takes_batches_of_any_size(self):
        self.expect(DONE, "bench", "head", "--device", self.device, "--encoder", self.package,
                    "--image-size", "32", "--batch-size", "1,6", "--steps", "8", "--repeats", "1",
                    binary=EXAMPLE, says=["alone:encoder"])


@unittest.skipUnless(HAS_GPU, "no GPU here")
class ImportedOnGpuTest(ImportedTest):
    device = "cuda"

    def test_package_for_other_gpu_architecture_is_refused(self):
        self.expect_changed_package_refused(["GPUs of sm_"], AOTI_COMPUTE_CAPABILITY="999")

    def test_script_saved_on_cpu_gives_same_digest_on_gpu(self):
        file = self.folder / "from_cpu.pt"
        make(file, device="cpu")
        self.assertEqual(self.head("moved", file)["digest"],
                         self.head("native", self.script)["digest"])


if __name__ == "__main__":
    unittest.main()
