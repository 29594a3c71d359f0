"""Which PyTorch the package is built for, and which ones are refused, by scripts/setup.sh, by pip and by CMake.

    torch_versions_test.py WORK_DIR [-DNAME=VALUE]...     options for CMake
"""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import torch

SOURCE = pathlib.Path(__file__).resolve().parents[2]
WORK, OPTIONS = pathlib.Path(sys.argv[1]), sys.argv[2:]
FINDER = SOURCE / "scripts" / "installed_torch.py"
TORCH = pathlib.Path(torch.__file__).parent
MINOR, CUDA = ".".join(torch.__version__.split(".")[:2]), torch.version.cuda.split(".")[0]


def run(*command, **options):
    return subprocess.run([str(word) for word in command], text=True, timeout=500, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)


def fake_torch(version, cuda):
    """The environment of a Python that finds a PyTorch with this version."""
    folder = WORK / "fake"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "torch").mkdir(parents=True)
    (folder / "torch" / "__init__.py").touch()
    (folder / "torch" / "version.py").write_text(f"__version__ = {version!r}\ncuda = {cuda!r}\n", encoding="utf-8")
    return os.environ | {"PYTHONPATH": str(folder)}


def find_torch(version, cuda):
    return run(sys.executable, FINDER, env=fake_torch(version, cuda))


def link_torch(folder, *but):
    """A copy of PyTorch of links, without some files below share/cmake and lib."""
    folder.mkdir(parents=True)
    for name in ("include", "bin", "version.py"):
        (folder / name).symlink_to(TORCH / name)
    for part in ("lib", "share/cmake/Torch", "share/cmake/Caffe2", "share/cmake/ATen"):
        (folder / part).mkdir(parents=True)
        for path in (TORCH / part).glob("*"):
            if path.name not in but:
                (folder / part / path.name).symlink_to(path)
    return folder


def configure(torch_folder):
    done = run("cmake", "-G", "Ninja", "-S", SOURCE, "-B", WORK / "configured", "--fresh", "-DSLIPSTREAM_TESTS=OFF",
               "-DSLIPSTREAM_BENCH=OFF", f"-DTorch_DIR={torch_folder / 'share/cmake/Torch'}", *OPTIONS)
    return done.returncode, " ".join(done.stdout.split())


class FinderTest(unittest.TestCase):
    def test_versions_since_2_11_are_found_with_cuda(self):
        for version, cuda, major in (("2.11.0+cu130", "13.0", "13"), ("2.12.1+cu126", "12.6", "12")):
            done = find_torch(version, cuda)
            self.assertEqual(done.stdout.splitlines(), [str(WORK / "fake/torch/share/cmake"), version, major])
            self.assertEqual(done.returncode, 0)

    def test_newer_version_than_tested_is_found_with_note(self):
        done = find_torch("2.99.0a0+git1", "13.2")
        self.assertIn("note: PyTorch 2.99.0a0+git1 is newer than 2.", done.stdout)
        self.assertEqual(done.returncode, 0)

    def test_older_version_and_version_without_cuda_are_refused(self):
        for version, cuda, reason in (("2.10.0", "12.8", "needs 2.11 or newer"), ("2.9.1", "12.8", "pip install --upgrade"),
                                      ("2.15.0+cpu", None, "not built for CUDA")):
            done = find_torch(version, cuda)
            self.assertIn(reason, done.stdout)
            self.assertEqual(done.returncode, 1)

    def test_torch_hidden_by_pips_build_environment_is_found(self):
        overlay = WORK / "overlay"
        overlay.mkdir()
        (overlay / "sitecustomize.py").write_text(
            "import sys\nsys.path[:] = [path for path in sys.path if 'site-packages' not in path]\n", encoding="utf-8")
        hidden = os.environ | {"PYTHONPATH": str(overlay), "PYTHONNOUSERSITE": "1"}
        self.assertNotEqual(run(sys.executable, "-c", "import torch", env=hidden).returncode, 0)
        done = run(sys.executable, FINDER, env=hidden)
        self.assertEqual(done.stdout.splitlines()[:2], [str(TORCH / "share/cmake"), torch.__version__])

    def test_build_environment_without_torch_is_refused_with_remedy(self):
        done = run(sys.executable, "-S", FINDER, env={"PATH": os.environ["PATH"]})
        self.assertEqual(done.returncode, 1)
        self.assertIn("pip install --no-build-isolation .", done.stdout)

    def test_metadata_name_minor_version_and_cuda(self):
        described = importlib.util.spec_from_file_location("installed_torch", FINDER)
        module = importlib.util.module_from_spec(described)
        described.loader.exec_module(module)
        self.assertEqual(module.dynamic_metadata({"version": "1.2.3"}, {}),
                         {"version": f"1.2.3+torch{MINOR}.cu{CUDA}", "dependencies": [f"torch=={MINOR}.*"]})


class SetupTest(unittest.TestCase):
    def set_up(self, env):
        """Runs scripts/setup.sh without the network, in a folder of its own."""
        clone = WORK / "clone"
        shutil.rmtree(clone, ignore_errors=True)
        shutil.copytree(SOURCE / "scripts", clone / "scripts")
        shutil.copy(SOURCE / "requirements.txt", clone)
        done = run(clone / "scripts" / "setup.sh", env=env | {"SLIPSTREAM_OFFLINE": "1", "SLIPSTREAM_CACHE": str(WORK)})
        written = clone / "build" / "env.sh"
        return done, written.read_text(encoding="utf-8") if written.exists() else ""

    def test_torch_of_python3_is_used(self):
        done, written = self.set_up(os.environ)
        self.assertIn(f"# PyTorch {torch.__version__}\n", written, done.stdout)
        self.assertIn(f'Torch_ROOT="{TORCH}/share/cmake"', written)

    def test_refused_torch_of_python3_is_named_with_reason(self):
        for version, cuda, reason in (("2.10.0", "12.8", "needs 2.11 or newer"),
                                      ("2.15.0+cu11", "11.9", "built for CUDA 11; set CUDACXX")):
            done, written = self.set_up(fake_torch(version, cuda))
            self.assertIn("not using the PyTorch of", done.stdout)
            self.assertIn(reason, done.stdout)
            self.assertEqual((done.returncode, written), (1, ""))


class CMakeTest(unittest.TestCase):
    def test_torch_for_another_cuda_than_the_toolkit_is_refused(self):
        folder = link_torch(WORK / "cuda99" / "torch", "libc10_cuda.so")
        for name, options in (("libcudart.so.99", ()), ("libc10_cuda.so", (folder / "lib" / "libcudart.so.99",))):
            done = run("c++", "-shared", "-fPIC", f"-Wl,--no-as-needed,-soname,{name}", "-o", folder / "lib" / name,
                       "-x", "c++", "/dev/null", "-x", "none", *options)
            self.assertEqual(done.returncode, 0, done.stdout)
        code, text = configure(folder)
        self.assertIn("is built for CUDA 99, but the CUDA toolkit is version", text)
        self.assertIn("take a PyTorch for CUDA", text)
        self.assertNotEqual(code, 0)

    def test_older_torch_is_refused(self):
        folder = link_torch(WORK / "old" / "torch", "TorchConfigVersion.cmake")
        (folder / "share/cmake/Torch/TorchConfigVersion.cmake").write_text(
            "set(PACKAGE_VERSION 2.10.0)\nset(PACKAGE_VERSION_COMPATIBLE TRUE)\n", encoding="utf-8")
        code, text = configure(folder)
        self.assertIn("LibTorch 2.10.0, but 2.11 or newer is needed", text)
        self.assertNotEqual(code, 0)

    def test_torch_without_cuda_is_refused(self):
        code, text = configure(link_torch(WORK / "cpu" / "torch", "libc10_cuda.so"))
        self.assertIn("is not built for CUDA; take one that is", text)
        self.assertNotEqual(code, 0)


shutil.rmtree(WORK, ignore_errors=True)
WORK.mkdir(parents=True)
unittest.main(argv=sys.argv[:1])
