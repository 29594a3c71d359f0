"""Tests the verb trace: its file and its summary."""

import gzip
import json
import os
import resource
import signal
import subprocess
import unittest

from program import BINARY, DONE, FAILED, HAS_GPU, REFUSED, TINY, ProgramTest

TRACE = ["trace", "segmentation", *TINY, "--batch-size", "2", "--steps", "6", "--num-workers", "2"]


def limit_files():
    """Lets every write beyond 2000 bytes of a file fail, as on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores this signal, and the child would inherit that
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))


def events_of_phase(trace, phase):
    return [each for each in trace["traceEvents"] if each["ph"] == phase]


def read_rows(trace):
    """Returns the names of rows by their position."""
    return {(each["pid"], each["tid"]): each["args"]["name"]
            for each in events_of_phase(trace, "M") if each["name"] == "thread_name"}


class TraceTest(ProgramTest):
    def trace(self, name, *arguments, says=(), command=TRACE):
        path = self.folder / name
        self.expect(DONE, *command, "--out", path, *arguments, says=says)
        with (gzip.open if name.endswith(".gz") else open)(path) as file:
            return json.load(file)

    def test_trace_has_rows_slices_and_arrows_of_every_step(self):
        trace = self.trace("trace.json.gz", says=["lane", "busy", "waiting", "overlapped",
                                                  "2 workers", "critical path of step"])
        rows = read_rows(trace)
        for name in ("worker 0", "worker 1", "batch buffer 0", "copy", "encoder", "decoder"):
            self.assertIn(name, rows.values())
        slices = events_of_phase(trace, "X")
        names = {each["name"] for each in slices}
        for batch in range(5, 11):
            for step in ("read", "decode", "collate", "fill", "copy", "encoder", "decoder"):
                self.assertIn(f"{step} #{batch}", names)
        for each in slices:
            self.assertIn((each["pid"], each["tid"]), rows)
            self.assertGreaterEqual(each["ts"], 0)
            self.assertGreaterEqual(each["dur"], 0)
            self.assertTrue(each["name"].endswith(f"#{each['args']['batch']}"))
        begins = [each["id"] for each in events_of_phase(trace, "s")]
        self.assertEqual(len(begins), len(set(begins)))
        self.assertEqual(begins, [each["id"] for each in events_of_phase(trace, "f")])
        self.assertGreaterEqual(len(begins), 6 * 3)
        self.assertEqual(trace["otherData"]["workload"], "segmentation")

    def test_trace_of_cached_input_has_no_worker_rows(self):
        for source in ("host", "device"):
            trace = self.trace(f"{source}.json", "--input", source)
            rows = set(read_rows(trace).values())
            self.assertFalse([row for row in rows if row.startswith(("worker", "batch buffer"))])
            self.assertEqual("copy" in rows, source == "host")
            self.assertIn("decoder", rows)

    def test_trace_of_serial_plan_has_one_lane(self):
        trace = self.trace("serial.json", "--plan", "serial", says=["plan serial"])
        lanes = {each["tid"] for each in events_of_phase(trace, "X") if each["cat"] in
                 ("copy", "encoder", "decoder")}
        self.assertEqual(len(lanes), 1)

    def test_plan_file_sets_lanes_and_option_sets_workers(self):
        plan = self.folder / "plan.json"
        self.expect(DONE, "train", *TRACE[1:], "--plan", "serial", "--plan-out", plan)
        trace = self.trace("file.json", "--plan", plan, says=["plan serial"])
        lanes = {each["tid"] for each in events_of_phase(trace, "X") if each["cat"] in
                 ("copy", "encoder", "decoder")}
        self.assertEqual(len(lanes), 1)
        self.assertIn("worker 1", read_rows(trace).values())
        one_worker = [*TRACE[:-1], "1"]
        trace = self.trace("workers.json", "--plan", plan, command=one_worker)
        self.assertNotIn("worker 1", read_rows(trace).values())

    def test_bad_options_are_refused_before_anything_runs(self):
        out = self.folder / "none.json"
        for arguments, says in [(("--steps", "0"), "--steps"),
                                (("--input", "devcie"), "did you mean 'device'?"),
                                (("--plan", "auto"), "unknown plan 'auto'"),
                                (("--plan", self.folder), "cannot read"),
                                (("--out", self.folder / "no" / "folder.json"), "no folder")]:
            arguments = ("--out", out, *arguments) if "--out" not in arguments else arguments
            self.expect(REFUSED, *TRACE, *arguments, says=[says])
        self.expect(REFUSED, *TRACE, says=["--out"])
        self.expect(REFUSED, *TRACE, "--plan", out, "--out", out, says=["name the same file"])
        self.assertFalse(out.exists())

    def test_full_disk_fails_and_leaves_no_file(self):
        out = self.folder / "full.json"
        done = subprocess.run([BINARY, *TRACE, "--out", out], capture_output=True, text=True,
                              timeout=300, restore_signals=False, preexec_fn=limit_files)
        self.assertEqual(done.returncode, FAILED, done.stderr)
        self.assertIn(f"cannot write {out}: File too large", done.stderr)
        self.assertEqual([each for each in os.listdir(self.folder) if each.endswith(".tmp")], [])
        self.assertFalse(out.exists())
        self.expect(FAILED, *TRACE, "--out", "/dev/full", says=["/dev/full", "No space left"])

    def test_custom_program_has_trace_verb(self):
        path = self.folder / "own.json"
        self.expect(DONE, "trace", "quadrants", *TINY, "--steps", "2", "--out", path,
                    binary=os.environ["SLIPSTREAM_EXAMPLE"])
        self.assertIn("classify", read_rows(json.loads(path.read_text())).values())

    @unittest.skipUnless(HAS_GPU, "no GPU here")
    def test_gpu_trace_has_stream_rows(self):
        command = [each if each != "cpu" else "cuda" for each in TRACE]
        trace = self.trace("gpu.json.gz", command=command, says=["kernels and copies on"])
        streams = [row for row in read_rows(trace).values() if row.startswith("stream ")]
        self.assertGreaterEqual(len(streams), 3)
        self.assertIn("CUDA events", trace["otherData"]["lanes"])


if __name__ == "__main__":
    unittest.main()
