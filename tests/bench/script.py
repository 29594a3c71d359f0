"""A base class for the tests of the scripts in bench/."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "bench"


class ScriptTest(unittest.TestCase):
    """Runs `script` with the options `tiny` and further ones."""

    script = None
    tiny = ()

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="slipstream-test-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_script(self, *arguments):
        command = [sys.executable, "-B", BENCH / self.script, *self.tiny, *arguments]
        return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300)

    def measure(self, *arguments):
        report = self.folder / "report.json"
        done = self.run_script("--json", report, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(report.read_text())

    def program(self, text):
        path = self.folder / "program"
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)
        return path
