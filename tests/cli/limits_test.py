"""Tests runs under a process limit that prevents some threads from starting: each run ends with a message."""

import os
import resource
import subprocess
import unittest

from program import BINARY, DONE, FAILED, LIMIT_S, TINY_CLASSIFIER, ProgramTest
from checkpoint_runs import make_classes

STACK = 512 << 20  # the stack of each thread: so large that it reaches the limit before other memory does
GIB = 1 << 30


class LimitsTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.data = make_classes(cls.folder / "data")

    def run_within(self, address_space):
        def limit():
            _, most = resource.getrlimit(resource.RLIMIT_STACK)
            resource.setrlimit(resource.RLIMIT_STACK, (STACK, most))
            resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))

        return subprocess.run([BINARY, "train", *TINY_CLASSIFIER, "--data", self.data, "--steps", "4",
                               "--plan", "pipelined", "--num-workers", "1"], preexec_fn=limit, timeout=LIMIT_S,
                              capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "8"})

    def test_run_that_cannot_start_threads_fails_with_message(self):
        """Each part that starts threads fails at some of these limits."""
        told = 0
        for halves in range(6, 20):
            done = self.run_within(halves * GIB // 2)
            if done.returncode == DONE:
                continue
            self.assertNotEqual(done.stderr, "")
            if done.returncode == FAILED and "cannot start a thread" in done.stderr:
                told += 1
                self.assertIn("ulimit -v", done.stderr)
        self.assertGreater(told, 0)


if __name__ == "__main__":
    unittest.main()
