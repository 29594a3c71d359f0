"""Tests the contents of checkpoint folders, how runs resume, and which checkpoints are refused."""

import math
import shutil
import signal
import unittest

from checkpoint_runs import RECORD, CheckpointRuns, float_values, make_classes, step_path, steps_in
from program import DONE, FAILED, INTERRUPTED, REFUSED, Running, read_json, run

EVERYTHING = ["--optimizer", "adamw", "--accumulate", "3", "--ema-decay", "0.9", "--clip-grad", "1",
              "--schedule", "cosine", "--warmup-steps", "4"]


class FolderTest(CheckpointRuns):
    def test_checkpoint_folder_holds_latest_and_best(self):
        for criterion, read_best, lr in (("loss", min, "0.001"), ("top1", max, "1e-9")):
            with self.subTest(criterion):
                folder = self.folder / criterion
                report = self.report("--checkpoint", folder, "--keep-last", "1", "--steps", "36", "--lr",
                                     lr, "--val", self.data, "--keep-best", criterion)
                self.assert_complete(folder)
                scores = {row["step"]: row["scores"][criterion] for row in report["validation"]}
                self.assertEqual(list(scores), [8, 16, 24, 32, 36])
                best = self.best(folder)
                self.assertEqual(scores[best], read_best(scores.values()))
                self.assertEqual(steps_in(folder), sorted({best, 36}))
                record = read_json(step_path(folder, 36) / RECORD)
                self.assertEqual((record["best"]["metric"], record["best"]["step"]),
                                 (criterion, best))
                self.assertAlmostEqual(record["best"]["value"], scores[best])

    def test_keep_option_limits_number_of_checkpoints(self):
        folder = self.folder / "many"
        self.report("--checkpoint", folder, "--steps", "20", "--save-every", "2", "--keep-last", "2")
        self.assert_complete(folder)
        self.assertEqual(len(steps_in(folder)), 2)
        self.assertEqual(steps_in(folder)[-1], 20)
        self.assertFalse((folder / "best").exists())

    def test_run_without_save_every_saves_at_its_end(self):
        folder = self.folder / "deep" / "er"
        self.report("--checkpoint", folder, "--steps", "3", "--ema-decay", "0.5")
        self.assertEqual(steps_in(folder), [3])
        self.assertTrue((step_path(folder, 3) / "ema.safetensors").exists())
        record = read_json(step_path(folder, 3) / RECORD)
        told = {key: record[key] for key in ("version", "epoch", "batch_size", "samples")}
        self.assertEqual(told, {"version": 1, "epoch": 3 / 8, "batch_size": 8, "samples": 64})

    def test_second_run_in_same_checkpoint_folder_is_refused(self):
        folder = self.folder / "shared"
        first = Running(*self.command("--checkpoint", folder, "--steps", "1000000"))
        second = ("--checkpoint", folder, "--steps", "1")

        def both():
            if not (folder / ".lock").exists():
                return False
            for more in ([], ["--resume", "auto"]):
                self.refuse(REFUSED, *second, *more,
                            says=[f"another run stores its checkpoints in {folder}"])
            return True

        self.assertEqual(first.signal_once_under_way(signal.SIGINT, is_under_way=both), INTERRUPTED)
        self.assert_complete(folder)

    def test_new_run_in_used_checkpoint_folder_is_refused(self):
        folder, _ = self.saved("used", steps=2)
        self.refuse(REFUSED, "--checkpoint", folder, "--steps", "4",
                    says=[f"{folder} has checkpoints", "step 2", "--resume auto"])
        self.assertEqual(steps_in(folder), [2])

    def test_folder_named_best_or_last_is_refused_and_kept(self):
        """`cp -rL` and archives without links turn the links into such folders."""
        for name in ("best", "last"):
            folder, _ = self.saved(f"copied {name}", "--val", self.data, steps=8)
            (folder / name).unlink()
            shutil.copytree(step_path(folder, 8), folder / name)
            (folder / name / "notes.txt").write_text("mine")
            command = ("--checkpoint", folder, "--resume", "auto", "--steps", "12", "--val", self.data)
            self.refuse(REFUSED, *command, says=[f"{folder / name} is a folder, not a link", "rename it"])
            self.assertEqual((folder / name / "notes.txt").read_text(), "mine")
            (folder / name).rename(self.folder / f"kept {name}")
            self.refuse(DONE, *command, says=["continues from step 8"])
            self.assert_complete(folder)


class ResumeTest(CheckpointRuns):
    def assert_resumes_to_same_digest(self, name, *options, steps):
        folder, digest = self.saved(name, "--plan", "serial", *options, steps=steps)
        between = [step for step in steps_in(folder)[:-1] if step % 8 != 0]
        plans = (("pipelined", "1"), ("auto", "3"), ("pipelined", "2"))
        steps_to_try = between[0], between[len(between) // 2], between[-1]
        for step, (plan, workers) in zip(steps_to_try, plans, strict=True):
            report = self.report("--resume", step_path(folder, step), "--steps", steps, *options,
                                 "--plan", plan, "--num-workers", workers,
                                 says=[f"continues from step {step} "])
            self.assertEqual(report["digest"], digest, (step, plan))
            self.assertEqual((report["first_step"], report["steps"]), (step, steps - step))

    def test_resumed_sgd_run_has_digest_of_uninterrupted_run(self):
        self.assert_resumes_to_same_digest("sgd", "--momentum", "0.9", steps=20)

    def test_resumed_run_with_all_states_has_digest_of_uninterrupted_run(self):
        self.assert_resumes_to_same_digest("everything", *EVERYTHING, "--val", self.data, steps=20)

    def test_checkpoint_saved_during_plan_trials_resumes_to_same_digest(self):
        folder, digest = self.saved("auto", "--plan", "auto", steps=40, every=2)
        self.assertGreaterEqual(len(steps_in(folder)), 4)
        for step in steps_in(folder)[:4]:
            self.assertEqual(self.report("--resume", step_path(folder, step), "--steps", "40",
                                         "--plan", "serial")["digest"], digest, step)

    def test_resumed_run_does_not_read_earlier_samples(self):
        data = make_classes(self.folder / "worn")
        ordered = ("--data", data, "--no-shuffle", "--num-workers", "1", "--prefetch-factor", "1")
        folder, digest = self.saved("worn out", *ordered, steps=8, every=5)
        for image in sorted(data.rglob("*.jpg"))[:40]:
            image.write_bytes(b"none")
        self.refuse(FAILED, *ordered, "--steps", "8", says=["step 0"])
        resumed = self.report("--resume", step_path(folder, 5), *ordered, "--steps", "8")
        self.assertEqual(resumed["digest"], digest)

    def test_interrupted_run_resumes_to_digest_of_whole_run(self):
        folder, path = self.folder / "interrupted", self.folder / "interrupted.json"
        options = ("--checkpoint", folder, "--steps", "200", "--save-every", "4", *EVERYTHING)
        first = Running(*self.command(*options, "--plan", "pipelined", "--json", path))
        code = first.signal_once_under_way(signal.SIGINT,
                                           is_under_way=lambda: any(folder.glob("step-*")))
        self.assertEqual(code, INTERRUPTED)
        self.assert_complete(folder)
        step = read_json(path)["steps"]
        self.assertEqual(steps_in(folder)[-1], step)
        report = self.report(*options, "--resume", "auto", says=[f"continues from step {step} "])
        whole = self.report("--steps", "200", *EVERYTHING)
        self.assertEqual(report["digest"], whole["digest"])
        self.assertEqual(whole["losses"][step:], report["losses"])

    def test_resume_auto_without_checkpoints_starts_at_step_zero(self):
        folder = self.folder / "new"
        for _ in range(2):
            self.assertEqual(self.report("--checkpoint", folder, "--resume", "auto", "--steps",
                                         "3")["first_step"], 0)
            shutil.rmtree(step_path(folder, 3))

    def test_resume_takes_checkpoint_folder_and_its_best_link(self):
        folder, _ = self.saved("paths", "--val", self.data, steps=10, every=99)
        for path, step in ((folder, 10), (folder / "best", self.best(folder))):
            self.report("--resume", path, "--steps", "12", says=[f"continues from step {step} "])

    def test_resume_from_earlier_step_needs_another_folder(self):
        folder, _ = self.saved("back", steps=20, every=4)
        earlier, before = step_path(folder, steps_in(folder)[0]), steps_in(folder)
        self.refuse(REFUSED, "--checkpoint", folder, "--resume", earlier, "--steps", "9",
                    says=["has checkpoints that are later than", "up to step 20", "give another folder"])
        self.assertEqual(steps_in(folder), before)
        self.report("--checkpoint", self.folder / "other", "--resume", earlier, "--steps", "9")

    def test_best_score_is_carried_into_another_folder(self):
        first, _ = self.saved("good", "--val", self.data, steps=32, every=99)
        before = read_json(first / "best" / RECORD)["best"]
        second = self.folder / "no better"
        self.report("--checkpoint", second, "--resume", first / "best", "--val", self.data, "--lr",
                    "1e-9", "--steps", before["step"] + 8)
        record = read_json(step_path(second, before["step"] + 8) / RECORD)
        self.assertEqual((record["best"], record["epochs_since_best"]), (before, 1))

    def test_wrong_best_link_is_corrected_from_the_record(self):
        """Corresponds to a run that was killed after it wrote a checkpoint and before it changed the link."""
        folder, _ = self.saved("unlinked", "--val", self.data, steps=16)
        self.assertEqual(self.best(folder), 16)
        (folder / "best").unlink()
        (folder / "best").symlink_to(step_path(folder, 8).name)
        self.report("--checkpoint", folder, "--resume", "auto", "--val", self.data, "--lr", "1e-9",
                    "--steps", "24", "--keep-last", "1")
        self.assertEqual(self.best(folder), 16)

    def test_resumed_run_continues_early_stop_count(self):
        options = ("--val", self.data, "--keep-best", "top1", "--lr", "1e-9", "--early-stop", "4")
        folder = self.folder / "stopped"
        self.report("--checkpoint", folder, *options, "--steps", "24")
        report = self.report("--checkpoint", folder, *options, "--steps", "100", "--resume", "auto",
                             says=["ended early: top1 has not improved for 4 epochs"])
        self.assertEqual([row["step"] for row in report["validation"]], [32, 40])
        self.assertEqual(steps_in(folder)[-1], 40)

    def printed(self, folder, *more):
        """Trains for 24 steps; returns the lines of the epochs and the table of scores that it prints."""
        done = run(*self.command("--checkpoint", folder, "--steps", "24", "--val", self.data, *more))
        self.assertEqual(done.returncode, DONE, done.stderr)
        lines = done.stdout.splitlines()
        table = lines.index(next(line for line in lines if line.startswith("score ")))
        return [line for line in lines if line.startswith("epoch ")], lines[table:]

    def test_resumed_run_prints_epochs_and_best_scores_of_whole_run(self):
        epochs, table = self.printed(self.folder / "whole")
        self.assertEqual(len(epochs), 3)
        for step in (4, 8, 12, 20):
            folder, _ = self.saved(f"part {step}", "--val", self.data, steps=step)
            rest, whole_table = self.printed(folder, "--resume", "auto")
            if step % 8 == 0:
                self.assertEqual((rest, whole_table), (epochs[step // 8:], table))
            else:  # a run that ends within an epoch is scored there, and that score may be the best one
                self.assertEqual([line.removesuffix("  best") for line in rest],
                                 [line.removesuffix("  best") for line in epochs[step // 8:]])

    def test_summary_reports_number_of_trained_steps(self):
        stopped = ["--early-stop", "1", "--val", self.data, "--lr", "1e-9"]
        for more, says in ((stopped, "16 steps, "), ([], "100 steps, ")):
            done = self.expect(DONE, *self.command("--steps", "100", *more))
            self.assertIn(f"\n{says}", "\n" + done.stdout)


class DivergedTest(CheckpointRuns):
    def test_nan_loss_leaves_only_finite_checkpoints(self):
        folder, _ = self.saved("stopped", steps=6)
        on = ("--checkpoint", folder, "--resume", "auto", "--steps", "20", "--save-every", "1")
        self.refuse(FAILED, *on, "--lr", "1e30", says=["the loss is NaN"])
        self.assert_complete(folder)
        self.assertIn(6, steps_in(folder))
        for step in steps_in(folder):
            for number in float_values(step_path(folder, step) / "weights.safetensors"):
                self.assertTrue(math.isfinite(number), step)
        self.report("--resume", step_path(folder, 6), "--steps", "9")

    def test_non_finite_score_is_never_the_best(self):
        folder = self.folder / "scores"
        on = ("--checkpoint", folder, "--val", self.data, "--keep-best", "loss", "--on-nan", "skip",
              "--resume", "auto")
        self.report(*on, "--steps", "8", "--lr", "1e30")
        self.assert_complete(folder)
        self.assertFalse((folder / "best").exists())
        self.report(*on, "--steps", "9", says=["continues from step 8 "])

    def test_on_nan_skip_keeps_weights_finite(self):
        folder = self.folder / "skipped"
        report = self.report("--checkpoint", folder, "--steps", "6", "--lr", "1e30",
                             "--on-nan", "skip", "--ema-decay", "0.9")
        self.assertEqual(report["steps"], 6)
        for file in ("weights.safetensors", "ema.safetensors"):
            values = float_values(step_path(folder, 6) / file)
            self.assertGreater(len(values), 0)
            self.assertTrue(all(map(math.isfinite, values)), file)


class OtherTrainingTest(CheckpointRuns):
    def test_resume_with_other_settings_is_refused_with_the_difference(self):
        folder, _ = self.saved("sgd", steps=6, every=99)
        four = make_classes(self.folder / "four", classes=4)
        fewer = make_classes(self.folder / "fewer", samples=48)
        for other, says in ((["--batch-size", "4"], ["batch size 8", "4"]),
                            (["--seed", "7"], ["seed 1", "7"]),
                            (["--data", fewer], ["data set of size 64", "48"]),
                            (["--data", four], ["another model", "head.bias (4 here, 3 there)"]),
                            (["--optimizer", "adamw"], ["another optimizer", "exp_avg"]),
                            (["--momentum", "0.9"], ["another optimizer", "momentum"]),
                            (["--ema-decay", "0.9"], ["ema.safetensors"])):
            for resume in (["--checkpoint", folder, "--resume", "auto"],
                           ["--resume", step_path(folder, 6)]):
                with self.subTest(other):
                    self.refuse(REFUSED, *resume, *other, "--steps", "9", says=says)
        self.assertEqual(steps_in(folder), [6])

    def test_resume_with_another_model_is_refused(self):
        folder, _ = self.saved("encoder", steps=2)
        self.expect(REFUSED, "train", "classification", "--device", "cpu", "--image-size", "16",
                    "--data", self.data, "--resume", step_path(folder, 2), "--steps", "3",
                    says=["another model", "not in the file: ", "not in the model: encoder.conv0"])

    def test_resume_of_finished_run_has_nothing_left_to_do(self):
        folder, _ = self.saved("over", steps=4)
        done = self.expect(DONE, *self.command("--resume", folder, "--steps", "4"))
        self.assertIn("nothing is left to do: the training has 4 steps", done.stdout)

    def test_validation_data_with_other_classes_is_refused(self):
        four = make_classes(self.folder / "others", classes=4)
        self.refuse(REFUSED, "--val", four, says=["classes"])

    def test_options_without_effect_are_refused(self):
        folder, _ = self.saved("effect", "--val", self.data, steps=2)
        for options, says in ((["--save-every", "2"], "--save-every needs --checkpoint"),
                              (["--keep-last", "2"], "--keep-last needs --checkpoint"),
                              (["--resume", "auto"], "--resume auto needs --checkpoint"),
                              (["--weights-partial"], "--weights-partial"),
                              (["--weights", folder / "best", "--resume", folder], "--weights"),
                              (["--keep-best", "loss"], "--keep-best needs --val"),
                              (["--early-stop", "2"], "--early-stop needs --val"),
                              (["--lr-gamma", "0.1"], "--lr-gamma has no effect"),
                              (["--schedule", "step"], "--lr-step-size")):
            with self.subTest(says):
                self.refuse(REFUSED, *options, "--steps", "4", says=[says])

    def test_unknown_keep_best_score_is_refused(self):
        self.refuse(REFUSED, "--val", self.data, "--keep-best", "acuracy", "--steps", "1",
                    says=["--keep-best", "'acuracy'", "did you mean 'accuracy'?"])


if __name__ == "__main__":
    unittest.main()
