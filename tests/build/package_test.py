"""Installs the package, moves it, and builds and runs a user's project with it.

    package_test.py BUILD_DIR WORK_DIR [-DNAME=VALUE]...     further options of the user for CMake
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
BUILD, WORK, OPTIONS = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
PREFIX, ELSEWHERE, PROJECT = WORK / "moved", WORK / "elsewhere", WORK / "project"
EXAMPLES = ["imported_encoder", "skip_connections"]
TINY = ["train", "quadrants", "--device", "cpu", "--image-size", "32", "--steps", "3"]


def run(*command, cwd=WORK, env=None):
    return subprocess.run([str(word) for word in command], cwd=cwd, env=env, text=True, timeout=500,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def run_checked(*command):
    done = run(*command)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}")
    return done.stdout


def configure(folder, *options, env=None):
    return run("cmake", "-G", "Ninja", "-S", PROJECT, "-B", WORK / folder,
               f"-DCMAKE_PREFIX_PATH={ELSEWHERE}", *options, env=env)


def copy_to_another_account():
    """Copies the package to a place where the folders that it was built with do not exist."""
    shutil.copytree(PREFIX, ELSEWHERE, symlinks=True)
    library = (ELSEWHERE / "lib" / "libslipstream.so").resolve()
    script = WORK / "forget.cmake"
    script.write_text(f'file(RPATH_REMOVE FILE "{library}")\n', encoding="utf-8")
    run_checked("cmake", "-P", script)


class PackageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(WORK, ignore_errors=True)
        WORK.mkdir(parents=True)
        run_checked("cmake", "--build", BUILD, "--target", "slipstream_package")
        run_checked("cmake", "--install", BUILD, "--prefix", WORK / "installed")
        (WORK / "installed").rename(PREFIX)
        copy_to_another_account()
        shutil.copytree(HERE / "package", PROJECT)
        shutil.copy(SOURCE / "examples" / "custom_pipeline" / "main.cpp", PROJECT)
        for example in EXAMPLES:
            shutil.copy(SOURCE / "examples" / example / "main.cpp", PROJECT / f"{example}.cpp")
        shutil.copy(SOURCE / "tests" / "cli" / "own_signals.cpp", PROJECT)

    def test_user_program_builds_and_trains(self):
        done = configure("build", "-DCMAKE_BUILD_TYPE=Release", *OPTIONS)
        self.assertEqual(done.returncode, 0, done.stdout)
        run_checked("cmake", "--build", WORK / "build")
        own = WORK / "build" / "own"
        self.assertIn("train", run_checked(own, "--help"))
        run_checked(own, *TINY, "--json", "run.json")
        result = json.loads((WORK / "run.json").read_text(encoding="utf-8"))
        self.assertEqual(len(result["losses"]), 3)
        self.assertEqual(run(WORK / "build" / "interrupted", *TINY).returncode, 130)
        run_checked(WORK / "build" / "own_signals")
        for example in EXAMPLES:
            self.assertIn("predict", run_checked(WORK / "build" / example, "--help"))

    def test_slipstream_program_is_installed(self):
        self.assertIn("slipstream", run_checked(PREFIX / "bin" / "slipstream", "--version"))

    def test_library_search_path_has_only_origin_torch_and_cuda(self):
        dynamic = run_checked("readelf", "-d", PREFIX / "lib" / "libslipstream.so")
        origin, *folders = re.search(r"R(?:UN)?PATH.*\[(.+)\]", dynamic)[1].split(":")
        self.assertEqual(origin, "$ORIGIN")
        for folder in folders:
            self.assertTrue(list(pathlib.Path(folder).glob("lib[ctn]*.so*")), folder)

    def test_moved_program_runs_with_ld_library_path_to_torch(self):
        dynamic = run_checked("readelf", "-d", PREFIX / "lib" / "libslipstream.so")
        folders = re.search(r"R(?:UN)?PATH.*\[\$ORIGIN:(.+)\]", dynamic)[1]
        done = run(ELSEWHERE / "bin" / "slipstream", "--version",
                   env={**os.environ, "LD_LIBRARY_PATH": folders})
        self.assertIn("slipstream", done.stdout)
        self.assertEqual(done.returncode, 0)

    def test_project_can_add_sources_as_subdirectory(self):
        added = WORK / "added"
        added.mkdir()
        shutil.copy(SOURCE / "examples" / "custom_pipeline" / "main.cpp", added)
        (added / "CMakeLists.txt").write_text(f"""cmake_minimum_required(VERSION 3.28)
project(own LANGUAGES CXX)
add_subdirectory({SOURCE} slipstream)
add_executable(own main.cpp)
target_link_libraries(own PRIVATE slipstream::slipstream)
""", encoding="utf-8")
        run_checked("cmake", "-G", "Ninja", "-S", added, "-B", added / "build", *OPTIONS)
        steps = run_checked("cmake", "--build", added / "build", "--target", "own", "--", "-n")
        self.assertIn("early_signals.cpp.o", steps)
        self.assertIn("Linking CXX executable own", steps)

    def test_cmake_files_contain_no_paths_of_the_build_machine(self):
        files = list(PREFIX.rglob("*.cmake"))
        self.assertEqual({file.name for file in files},
                         {"slipstreamConfig.cmake", "slipstreamConfigVersion.cmake",
                          "slipstreamTorchLibraries.cmake"})
        torch = next(option for option in OPTIONS if option.startswith("-DTorch_DIR=")).split("=")[1]
        folders = [str(BUILD), str(SOURCE), str(WORK), torch, str(pathlib.Path.home())]
        for file in files:
            text = file.read_text(encoding="utf-8")
            self.assertEqual([folder for folder in folders if folder in text], [], file)

    def test_only_public_headers_are_installed(self):
        installed = {file.relative_to(PREFIX) for file in PREFIX.rglob("*.h")}
        public = {file.relative_to(SOURCE) for file in (SOURCE / "include").rglob("*.h")}
        self.assertEqual(installed, public)

    def test_missing_torch_fails_with_advice_to_install_pytorch(self):
        (WORK / "tools").mkdir()
        (WORK / "tools" / "python3").symlink_to("/bin/false")
        env = {"PATH": f"{WORK / 'tools'}:{os.environ['PATH']}"}
        cuda = [option for option in OPTIONS if not option.startswith("-DTorch_DIR=")]
        done = configure("no_torch", *cuda, env=env)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"install\s+PyTorch")

    def test_unsupported_torch_version_is_refused(self):
        other = WORK / "other"
        other.mkdir()
        (other / "TorchConfig.cmake").write_text("set(Torch_FOUND TRUE)\n", encoding="utf-8")
        (other / "TorchConfigVersion.cmake").write_text(
            "set(PACKAGE_VERSION 1.13.1)\nset(PACKAGE_VERSION_COMPATIBLE TRUE)\n", encoding="utf-8")
        done = configure("other_torch", *OPTIONS, f"-DTorch_DIR={other}")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("1.13.1", done.stdout)

    def test_install_without_built_library_fails_and_names_target(self):
        script = (BUILD / "cmake_install.cmake").read_text(encoding="utf-8")
        unbuilt = WORK / "unbuilt.cmake"
        unbuilt.write_text(script.replace("/package/libslipstream.so", "/package/no.so"),
                           encoding="utf-8")
        done = run("cmake", f"-DCMAKE_INSTALL_PREFIX={WORK / 'nothing'}", "-P", unbuilt)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("--target slipstream_package", done.stdout)


unittest.main(argv=sys.argv[:1])
