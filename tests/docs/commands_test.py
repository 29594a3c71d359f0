"""Runs every command that the README and docs/ show, to keep them correct.

    commands_test.py cpu|gpu

The commands of a page run in a separate folder, in which build/slipstream is the program under test, next to the
examples, and python3 is the interpreter that runs this file. Commands that name the GPU run under `gpu`, all others
under `cpu`. Commands in NOT_RUN build or test everything again; a page has to show them, but they do not run.

Most commands start build/slipstream with plain arguments. program_server runs these in forks of one process, because
loading PyTorch's libraries takes longer than most of them. All other commands go to bash.
"""

import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests" / "cli"))
from program import Server  # noqa: E402

BINARY = os.environ["SLIPSTREAM_BINARY"]
IMPORTED = os.environ["SLIPSTREAM_IMPORTED"]
WANTED = sys.argv.pop() if sys.argv[-1] in ("cpu", "gpu") else "cpu"
SKIPPED = 77  # CMakeLists.txt passes this code to CTest as SKIP_RETURN_CODE
NOT_RUN = [
    "make build", "make demo", "make release", "make test", "make check", "make check-all", "scripts/test.sh tsan",
    "scripts/test.sh format", ". build/env.sh", "cmake --preset release", "cmake --build build",
    "ctest --test-dir build -L cpu", "slipstream/scripts/setup.sh", ". slipstream/build/env.sh",
    "cmake -G Ninja -B build", "make install PREFIX=$HOME/.local",
    # tests/python/wheel_test.py runs these
    "make wheel", "pip install --no-index --find-links build/wheels slipstream",
    "cmake --build build --target slipstream_package", "cmake --install build --prefix $HOME/.local",
]


def pages():
    return [*SOURCE.glob("*.md"), *sorted((SOURCE / "docs").glob("*.md"))]


def page_commands(page):
    text = page.read_text(encoding="utf-8")
    commands = []
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        lines = block.replace("\\\n", " ").splitlines()
        commands += [re.sub(r"\s+", " ", re.sub(r"\s#.*", "", line)).strip() for line in lines]
    return [command for command in commands if command]


def is_ignored(name):
    """Returns whether git ignores a file that a command created in the root; None without git."""
    if not (SOURCE / ".git").exists():
        return None
    done = subprocess.run(["git", "-C", SOURCE, "check-ignore", "--no-index", "-q", name])
    return {0: True, 1: False}.get(done.returncode)


def command_label(command):
    if command in NOT_RUN:
        return None
    return "gpu" if "cuda" in command else "cpu"


def prepare(folder):
    """Creates the files and folders that commands expect in the clone's root."""
    os.makedirs(f"{folder}/build/examples")
    os.symlink(BINARY, f"{folder}/build/slipstream")
    os.symlink(IMPORTED, f"{folder}/build/examples/imported_encoder")
    os.symlink(pathlib.Path(BINARY).parent / "python", f"{folder}/build/python")
    os.symlink(SOURCE / "examples", f"{folder}/examples")


def plain_arguments(command):
    """Returns the words of a command that starts build/slipstream and needs no expansion by bash, else None."""
    if not command.startswith("build/slipstream ") or re.search(r"[|&;<>()$`*?~\\\[{#]", command):
        return None
    return shlex.split(command)


def run_in(folder, command, server):
    """Returns the exit code and the output."""
    words = plain_arguments(command)
    if words:
        done = server.run(words)
        return done.returncode, done.stdout + done.stderr
    path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    done = subprocess.run(["bash", "-c", command], cwd=folder, text=True, timeout=600,
                          env={**os.environ, "PATH": path}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


class CommandsTest(unittest.TestCase):
    def check_page(self, page, folder):
        commands = [command for command in page_commands(page) if command_label(command) == WANTED]
        if not commands:
            return 0
        prepare(folder)
        server = Server(cwd=folder)
        for command in commands:
            with self.subTest(page=page.name, command=command):
                code, output = run_in(folder, command, server)
                self.assertEqual(code, 0, output)
        server.end()
        for made in set(os.listdir(folder)) - {"examples"}:
            with self.subTest(page=page.name, made=made):
                name = made + "/" if os.path.isdir(f"{folder}/{made}") else made
                self.assertIsNot(is_ignored(name), False)
        return len(commands)

    def test_commands_exit_with_0_and_create_only_files_ignored_by_git(self):
        count = 0
        for page in pages():
            with tempfile.TemporaryDirectory(prefix="slipstream-docs-") as folder:
                count += self.check_page(page, folder)
        self.assertGreater(count, 0)

    def test_commands_not_run_here_are_still_in_the_docs(self):
        shown = {command for page in pages() for command in page_commands(page)}
        self.assertEqual(set(NOT_RUN) - shown, set())

    def test_linked_files_exist(self):
        for page in pages():
            prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"),
                           flags=re.MULTILINE | re.DOTALL)
            for link in re.findall(r"\]\(([^)#]+)[^)]*\)", prose):
                with self.subTest(page=page.name, link=link):
                    if "://" not in link:
                        self.assertTrue((page.parent / link).exists())

    def test_cpp_tests_named_in_the_docs_exist(self):
        sources = "".join(file.read_text() for file in (SOURCE / "tests").rglob("*_test.cpp"))
        tests = re.findall(r"TEST(?:_F|_P)?\((\w+), (\w+)\)", sources)
        there = {".".join(names) for names in tests}
        for page in pages():
            named = re.findall(r"`([A-Z]\w+\.[A-Za-z]\w+)`", page.read_text(encoding="utf-8"))
            self.assertEqual(set(named) - there, set(), page.name)


if __name__ == "__main__":
    if WANTED == "gpu" and not os.path.exists("/dev/nvidiactl"):
        print("no GPU here")
        sys.exit(1 if os.environ.get("SLIPSTREAM_REQUIRE_GPU") == "1" else SKIPPED)
    unittest.main()
