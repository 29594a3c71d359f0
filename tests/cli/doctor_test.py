"""Tests the verb doctor: verdict, outputs, applied changes, exit codes of --min-share, bad input."""

import json
import signal
import unittest

from program import (
    DONE, FAILED, INTERRUPTED, NO, REFUSED, TINY, UNDECIDED, ProgramTest, Running, page_data, read_json, run)

# Costs are sleeps instead of work, so that a busy machine has little influence. Here the loader needs 200 ms per batch,
# and the training step takes no time.
LOADING = ["branches", "--mode", "load", *TINY, "--batch-size", "4", "--num-workers", "1"]
STARVED = [*LOADING, "--load-ms", "200", "--step-ms", "0"]
# Here the loader is fast, and the training step takes 10 ms.
FED = [*LOADING, "--load-ms", "0.1", "--step-ms", "10"]


def widened(figure, by):
    """Returns the same report with wider intervals, which then include the differences between runs."""
    if isinstance(figure, list):
        return [widened(each, by) for each in figure]
    if not isinstance(figure, dict):
        return figure
    if set(figure) == {"value", "low", "high", "unit", "n"} and figure["n"]:
        low, high = (figure[bound] for bound in ("low", "high"))  # a bound is null if it is unknown
        return {**figure, "low": low and low / by, "high": high and high * by}
    return {name: widened(each, by) for name, each in figure.items()}


def gate_code(report, least):
    """Returns the exit code of --min-share that matches the report's figures, which depend on the machine."""
    share, is_known = report["share"], report["verdict"] != "not_enough_evidence"
    if share["n"] > 0 and share["high"] is not None and share["high"] < least:
        return NO
    reaches = share["n"] > 0 and (share["low"] >= least or (is_known and share["value"] >= least))
    return DONE if reaches else UNDECIDED


class DoctorTest(ProgramTest):
    def gated(self, name, least, *arguments):
        """Returns the report and the printed text. Checks the exit code."""
        path = self.folder / f"{name}.json"
        done = run("doctor", *arguments, "--json", path, "--min-share", least)
        self.assertTrue(path.exists(), done.stderr)
        report = read_json(path)
        self.assertEqual(done.returncode, gate_code(report, float(least)), done.stdout)
        return report, done.stdout

    def doctor(self, code, name, *arguments, says=()):
        path = self.folder / f"{name}.json"
        self.expect(code, "doctor", *arguments, "--json", path, says=says)
        return read_json(path)

    def test_budget_too_small_for_a_verdict_is_refused_with_a_sufficient_one(self):
        self.expect(REFUSED, "doctor", *STARVED, "--budget", "0.5",
                    says=("a budget of 0.5 s is too small: a verdict takes at least about", "; give a budget of "))

    def test_starved_run_fails_min_share_and_gets_a_measured_plan(self):
        html, plan = self.folder / "starved.html", self.folder / "plan.json"
        report, text = self.gated("starved", "0.95", *STARVED, "--budget", "16", "--apply", "--html", html,
                                  "--plan-out", plan, "--what-if", "read=0.5")
        for words in ("Verdict: ", "--min-share 0.95", "if 'read' took 0.5 ms a sample"):
            self.assertIn(words, text)
        self.assertEqual(page_data(html)["report"], report)
        outcome = report["outcome"]
        self.assertEqual(outcome is None, "nothing to apply" in text)
        if outcome is None:  # the machine was too busy for a verdict
            self.assertEqual(report["verdict"], "not_enough_evidence")
            return
        for rate in ("before", "measured"):
            self.assertGreater(outcome[rate]["n"], 0)
        self.assertGreater(len(outcome["changes"]), 0)
        self.assertNotEqual(outcome["plan"], report["plan"])
        self.expect(DONE, "train", *STARVED, "--plan", plan, "--steps", "2")
        self.assertEqual(json.loads(plan.read_text()), outcome["plan"])

    def test_run_with_fast_loader_passes_min_share_and_baseline_gates(self):
        first = self.folder / "fed.json"
        report, _ = self.gated("fed", "0.2", *FED, "--budget", "8")
        about = self.folder / "about.json"
        about.write_text(json.dumps(widened(report, 20)))
        done = self.expect(DONE, "doctor", *FED, "--budget", "8", "--baseline", about)
        self.assertIn("ceiling", done.stdout)
        better = json.loads(first.read_text())
        for bound in ("value", "low", "high"):
            better["ceiling"][bound] = 1000  # a ceiling in steps/s that a step with such a sleep cannot reach
        baseline = self.folder / "better.json"
        baseline.write_text(json.dumps(better))
        self.expect(NO, "doctor", *FED, "--budget", "8", "--baseline", baseline)

    def test_interrupted_doctor_writes_its_report(self):
        path = self.folder / "interrupted.json"
        examined = Running("doctor", *STARVED, "--json", path)
        self.assertEqual(examined.signal_once_under_way(signal.SIGINT), INTERRUPTED)
        report = read_json(path)
        self.assertTrue(report["interrupted"])
        self.assertEqual(report["verdict"], "not_enough_evidence")

    def test_bad_input_is_refused_before_anything_is_measured(self):
        same = self.folder / "same.json"
        for arguments, says in (
                (["--plan-out", self.folder / "p.json"], "give --apply too"),
                (["--json", same, "--html", same], "name the same file"),
                (["--budget", "0"], "--budget"),
                (["--json", same, "--plan", same], "name the same file"),
                (["--min-share", "2"], "--min-share"),
                (["--min-share", "nan"], "nan is not from 0 to 1"),
                (["--what-if", "read=1", "--what-if", "read=2"], "'read' twice"),
                (["--what-if", "reed=1"], "did you mean 'read'"),
                (["--what-if", "read"], "STEP=MILLISECONDS"),
                (["--what-if", "read=nan"], "STEP=MILLISECONDS"),
                (["--plan", "auto"], "unknown plan 'auto'")):
            self.expect(REFUSED, "doctor", *STARVED, *arguments, says=[says])
        self.expect(REFUSED, "doctor", *STARVED, "--baseline", self.folder / "none.json",
                    says=["none.json"])
        other = self.folder / "other.json"
        other.write_text("{}")
        self.expect(REFUSED, "doctor", *STARVED, "--budget", "1e9", "--baseline", other,
                    says=["is not a report of the doctor"])

    def test_report_has_no_transforms_device_with_a_plan_file(self):
        plan = self.folder / "written.json"
        self.expect(DONE, "train", *FED, "--plan", "serial", "--steps", "1", "--plan-out", plan)
        named = self.doctor(DONE, "named", *FED, "--budget", "8", "--plan", "serial")
        self.assertEqual(named["workload"]["options"]["transforms_device"], "cpu")
        file = self.doctor(DONE, "file", *FED, "--budget", "8", "--plan", plan)
        self.assertNotIn("transforms_device", file["workload"]["options"])

    def test_failed_output_keeps_the_other_outputs(self):
        page, baseline = self.folder / "page.html", self.folder / "four.json"
        done = self.expect(FAILED, "doctor", *FED, "--budget", "8", "--json", "/dev/full",
                           "--html", page, says=["/dev/full"])
        self.assertIn("Verdict: ", done.stdout)
        self.assertIn("</html>", page.read_text())
        self.doctor(DONE, "four", *FED, "--budget", "8")
        eight = [each.replace("4", "8") for each in FED]
        self.expect(REFUSED, "doctor", *eight, "--budget", "1e9", "--baseline", baseline,
                    says=["has another batch size: 4, this report has 8"])


if __name__ == "__main__":
    unittest.main()
