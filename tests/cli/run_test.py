"""Tests successful runs: the schedule does not change any bit, and reports are as documented."""

import math
import os
import statistics
import unittest

from program import DONE, FAILED, NO, REFUSED, TINY, ProgramTest, make_data, read_json

MEASURED = {"value", "low", "high", "unit", "n"}
REPORT = {"schema", "version", "environment", "workload", "plan", "first_step", "steps",
          "interrupted", "wall_s", "steps_per_second", "losses", "accuracies", "digest",
          "input_wait_share", "memory", "skipped", "overlap", "gains", "cache", "disk_cache",
          "counters", "jpeg", "graphs", "lanes", "gpu", "auto"}
ENVIRONMENT = {"time", "slipstream", "revision", "compiler", "libtorch", "os", "cpu", "gpu",
               "warnings"}
HOST_STEPS = ["read", "decode", "resize", "collate"]


class TrainTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.options = [*TINY, "--data", make_data(cls.folder / "data"), "--deterministic",
                       "--batch-size", "4", "--steps", "10"]

    def test_plans_and_worker_counts_give_same_digest(self):
        runs = [("serial", 1), ("pipelined", 1), ("pipelined", 2), ("pipelined", 8), ("graph", 2)]
        reports = [self.train(f"{plan}-{workers}", *self.options, "--plan", plan,
                              "--num-workers", workers) for plan, workers in runs]
        self.assertEqual(len({report["digest"] for report in reports}), 1)
        self.assertEqual(reports[0]["losses"], reports[1]["losses"])
        self.assertEqual([len(report["lanes"]) for report in reports], [1, 3, 3, 3, 3])
        on_cpu = reports[-1]["plan"]["schedule"]
        self.assertEqual((on_cpu["mode"], on_cpu["graphs"]), ("pipelined", False))
        paths = [self.folder / f"{plan}-{workers}.json" for plan, workers in runs]
        self.expect(DONE, "compare", *paths, says=["serial-1", "equal, bit for bit"])

    def test_other_seed_gives_another_digest(self):
        self.train("a", *self.options, "--plan", "serial")
        self.train("b", *self.options, "--plan", "serial", "--seed", "4")
        self.expect(NO, "compare", self.folder / "a.json", self.folder / "b.json",
                    says=["DIFFERENT"])

    def test_written_plan_gives_same_plan_and_digest_when_reused(self):
        plan = self.folder / "plan.json"
        first = self.train("first", *self.options, "--plan", "pipelined", "--plan-out", plan)
        again = self.train("again", *self.options, "--plan", plan,
                           "--plan-out", self.folder / "plan-again.json")
        self.assertEqual(plan.read_text(), (self.folder / "plan-again.json").read_text())
        self.assertEqual(read_json(plan), first["plan"])
        self.assertEqual(first["digest"], again["digest"])

    def test_full_disk_keeps_other_outputs(self):
        plan = self.folder / "plan-beside-a-full-disk.json"
        done = self.expect(FAILED, "train", "segmentation", *self.options, "--json", "/dev/full",
                           "--plan-out", plan, says=["cannot write /dev/full", "No space left"])
        self.assertIn("10 steps", done.stdout)
        self.assertIn("loss ", done.stdout)
        self.assertTrue(plan.exists())
        done = self.expect(FAILED, "bench", "segmentation", *TINY, "--batch-size", "2", "--steps",
                           "4", "--repeats", "1", "--plan", "serial", "--json", "/dev/full",
                           says=["cannot write /dev/full"])
        self.assertIn("serial", done.stdout)
        done = self.expect(FAILED, "trace", "segmentation", *TINY, "--steps", "4", "--out",
                           "/dev/full", says=["cannot write /dev/full"])
        self.assertIn("4 steps", done.stdout)

    def test_short_runs_report_no_rate(self):
        done = self.expect(DONE, "train", "segmentation", *TINY, "--steps", "3")
        self.assertNotIn("steps/s (after warm-up)", done.stdout)
        self.assertIn("(the first and the last step)", done.stdout)
        done = self.expect(DONE, "train", "segmentation", *TINY, "--steps", "1")
        self.assertRegex(done.stdout, r"(?m)^1 step, loss ")

    def test_report_has_all_documented_keys(self):
        report = self.train("report", *self.options, "--plan", "pipelined")
        self.assertEqual(set(report), REPORT)
        self.assertEqual((report["schema"], report["version"]), ("slipstream.run", 1))
        self.assertEqual(set(report["environment"]), ENVIRONMENT)
        self.assertEqual(report["workload"]["name"], "segmentation")
        self.assertEqual(report["workload"]["options"]["batch_size"], 4)
        self.assertEqual(set(report["steps_per_second"]), MEASURED)
        self.assertRegex(report["digest"], "^[0-9a-f]{16}$")
        self.assertEqual((report["steps"], len(report["losses"]), report["interrupted"]),
                         (10, 10, False))
        self.assertEqual(len(report["accuracies"]), 10)
        self.assertTrue(all(0 <= share <= 1 for share in report["accuracies"]))
        self.assertIsNone(report["overlap"])
        self.assertIsNone(report["auto"])

    def test_report_counts_every_host_and_device_step(self):
        report = self.train("counters", *self.options, "--plan", "pipelined")
        device_steps = [step for lane in report["plan"]["schedule"]["lanes"]
                        for step in lane["steps"]]
        self.assertEqual([counter["name"] for counter in report["counters"]],
                         HOST_STEPS + device_steps)
        calls = [counter["calls"] for counter in report["counters"]]
        self.assertEqual(calls[4:], [10, 10, 10])
        self.assertGreaterEqual(min(calls[:4]), 40)
        self.assertEqual([lane["steps"] for lane in report["lanes"]],
                         [[step] for step in device_steps])
        for lane in report["lanes"]:
            self.assertEqual([interval["step"] for interval in lane["last_intervals"]],
                             list(range(10)))
            self.assertLessEqual(lane["busy_s"], report["wall_s"])


class WireTest(ProgramTest):
    def test_packed_masks_give_same_digest(self):
        options = [*TINY, "--plan", "pipelined", "--steps", "6"]
        self.train("plain", *options)
        packed = self.train("packed", *options, "--wire", "label=bits")
        self.assertEqual(packed["plan"]["schedule"]["loader"]["wire"], {"label": "bits"})
        self.expect(DONE, "compare", self.folder / "plain.json", self.folder / "packed.json",
                    says=["equal, bit for bit"])

    def test_invalid_wire_formats_are_refused(self):
        for wire, says in (("label=bit", "did you mean 'bits'?"), ("label", "FIELD=FORMAT"),
                           ("lable=bits", "did you mean 'label'?"),
                           ("image=bf16", "the format needs float32")):
            self.expect(REFUSED, "train", "segmentation", *TINY, "--steps", "1", "--wire", wire,
                        says=[says])


class LoaderTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.options = [*TINY, "--data", make_data(cls.folder / "data", samples=16, size=40),
                       "--batch-size", "4", "--plan", "pipelined", "--steps", "10"]

    def same(self, name, *arguments):
        if not (self.folder / "plain.json").exists():
            self.train("plain", *self.options)
        report = self.train(name, *self.options, *arguments)
        told = self.expect(DONE, "compare", self.folder / "plain.json",
                           self.folder / f"{name}.json", says=["equal, bit for bit"])
        self.assertNotIn("not the same run", told.stdout)
        return report

    def test_read_ahead_cpus_and_caches_do_not_change_digest(self):
        cpu = min(os.sched_getaffinity(0))
        report = self.same("loader", "--read-ahead", "3", "--cpus", cpu, "--cache", "resize=1M",
                           "--disk-cache", f"{self.folder / 'disk'}=10M")
        loader = report["plan"]["schedule"]["loader"]
        self.assertEqual(loader["read_ahead"]["reads"], 3)
        self.assertEqual(loader["cpus"], str(cpu))
        self.assertEqual(loader["cache"], {"after": "resize", "bytes": 2 ** 20})
        self.assertTrue(any((self.folder / "disk").iterdir()))
        self.assertGreater(report["cache"]["hits"], 0)
        self.assertEqual(report["cache"]["samples"], 16)
        self.assertGreaterEqual(report["cache"]["misses"], 16, "two threads may miss one at once")
        self.assertEqual(report["disk_cache"]["stored"], 16)
        again = self.same("again", "--disk-cache", f"{self.folder / 'disk'}=10M")
        self.assertIsNone(again["cache"])
        self.assertEqual(again["disk_cache"]["misses"], 0)
        self.expect(DONE, "train", "segmentation", *self.options, "--cache", "read=1M",
                    "--disk-cache", f"{self.folder / 'disk'}=10M",
                    says=["disk cache: ", "samples were loaded from it (including prefetched batches); "
                          "it contains 16 in "])

    def test_sampler_file_selects_only_weighted_samples(self):
        weights = self.folder / "weights.txt"
        weights.write_text("0\n" * 15 + "1\n")
        report = self.train("weighted", *self.options, "--sampler", weights, "--lr", "1e-9")
        self.assertLess(max(report["losses"]) - min(report["losses"]), 1e-4)

    def test_invalid_loader_options_are_refused(self):
        for arguments, says in ((["--cache", "resize"], "NAME=8G"),
                                (["--cache", "reed=1M"], "did you mean 'read'?"),
                                (["--cache", "decode=1X"], "'1X' is not a size: give bytes, or a"),
                                (["--disk-cache", "=1G"], "NAME=8G"),
                                (["--disk-cache", "a=1X"], "'1X' is not a size: give bytes, or a"),
                                (["--cpus", "4095"], "4095"),
                                (["--cpus", "gpu"], "the run is on the CPU"),
                                (["--sampler", "balanced"], "a file with a weight in each line")):
            self.expect(REFUSED, "train", "segmentation", *self.options, *arguments, says=[says])


class EpochTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.options = [*TINY, "--data", make_data(cls.folder / "data", samples=10)]

    def test_partial_last_batch_is_dropped_unless_no_drop_last(self):
        digests, four = set(), (*self.options, "--batch-size", "4")
        for last, steps in (([], 6), (["--drop-last"], 6), (["--no-drop-last"], 9)):
            for plan in ("serial", "pipelined"):
                report = self.train(plan, *four, "--epochs", "3", "--plan", plan, *last)
                self.assertEqual((report["steps"], len(report["losses"])), (steps, steps), last)
                self.assertEqual(report["workload"]["options"]["drop_last"], steps == 6)
                digests.add((steps, report["digest"]))
        self.assertEqual(len(digests), 2, "the plan changes no bit")
        self.expect(DONE, "train", "segmentation", *four, "--epochs", "2", "--no-drop-last",
                    says=["6 steps"])

    def test_epochs_have_same_order_without_shuffle(self):
        epochs = {}
        for order in ("--shuffle", "--no-shuffle"):
            losses = self.train(order, *self.options, "--batch-size", "1", "--lr", "1e-30",
                                "--epochs", "3", order)["losses"]
            epochs[order] = [losses[at:at + 10] for at in range(0, 30, 10)]
        same, mixed = epochs["--no-shuffle"], epochs["--shuffle"]
        self.assertEqual((same[1], same[2]), (same[0], same[0]))
        self.assertTrue(all(sorted(each) == sorted(same[0]) for each in mixed))
        self.assertNotEqual(mixed[0], mixed[1])


class DivergenceTest(ProgramTest):
    def test_non_finite_loss_fails_training(self):
        report = self.folder / "diverged.json"
        for plan in ("serial", "pipelined", "auto"):
            self.expect(FAILED, "train", "segmentation", *TINY, "--steps", "40", "--lr", "1e300",
                        "--plan", plan, "--json", report,
                        says=["stage 'decoder' at step ", ": the loss is ",
                              "use a smaller learning rate"])
            self.assertFalse(report.exists(), plan)

    def test_trace_and_bench_continue_with_non_finite_loss(self):
        options = ["segmentation", *TINY, "--batch-size", "2", "--steps", "8", "--lr", "1e300"]
        self.expect(DONE, "trace", *options, "--out", self.folder / "trace.json",
                    says=["8 steps"])
        self.expect(DONE, "bench", *options, "--repeats", "1", "--seconds", "0.2",
                    says=["serial", "pipelined", "alone:decoder"])


class PrefetchTest(ProgramTest):
    def ahead(self, *arguments):
        report = self.train("ahead", *TINY, "--batch-size", "4", "--steps", "2", *arguments)
        loader = report["plan"]["schedule"]["loader"]
        return loader["num_workers"], loader["prefetch_batches"]

    def test_prefetch_factor_counts_batches_per_worker(self):
        serial = ("--plan", "serial", "--num-workers", "3")
        self.assertEqual(self.ahead(*serial), (3, 4))
        plan = self.folder / "plan.json"
        self.assertEqual(self.ahead(*serial, "--prefetch-factor", "2", "--plan-out", plan), (3, 6))
        self.assertEqual(self.ahead("--plan", plan), (3, 6))
        self.assertEqual(self.ahead("--plan", plan, "--prefetch-factor", "5"), (3, 15))
        self.assertEqual(self.ahead("--plan", plan, "--num-workers", "2", "--prefetch-factor", "4"),
                         (2, 8))


class AutoTest(ProgramTest):
    def test_auto_reports_chosen_plan_and_gives_serial_digest(self):
        options = [*TINY, "--steps", "48"]
        report = self.train("auto", *options, "--plan", "auto")
        self.assertEqual(set(report["auto"]), {"chosen", "reason", "serial", "pipelined"})
        self.assertIn(report["auto"]["chosen"], ("serial", "pipelined"))
        self.assertEqual(report["plan"]["schedule"]["mode"], report["auto"]["chosen"])
        if report["auto"]["serial"]["n"] > 0 and report["auto"]["pipelined"]["n"] > 0:
            self.assertEqual(set(report["overlap"]["efficiency"]), MEASURED)
        else:
            self.assertIn("too few steps", report["auto"]["reason"])
        self.assertEqual(len(report["losses"]), 48)
        self.train("serial", *options, "--plan", "serial")
        self.expect(DONE, "compare", self.folder / "serial.json", self.folder / "auto.json",
                    says=["equal, bit for bit"])

    def test_auto_with_too_few_steps_chooses_serial(self):
        report = self.train("few", *TINY, "--steps", "2", "--plan", "auto")
        self.assertIn("too few steps", report["auto"]["reason"])
        self.assertEqual(report["auto"]["chosen"], "serial")
        self.assertEqual(report["plan"]["schedule"]["mode"], "serial")


class BranchesTest(ProgramTest):
    GAIN = {"part", "predicted", "measured", "chosen", "reason"}
    OPTIONS = [*TINY, "--batch-size", "4", "--num-workers", "1"]
    COSTS = {"load": ["--load-ms", "4", "--step-ms", "8"]}

    def branches(self, mode, *arguments):
        return self.train("-".join([mode, *arguments]), *self.OPTIONS, "--mode", mode,
                          *self.COSTS.get(mode, []), *arguments, workload="branches")

    def test_every_mode_reports_gain_of_overlapping(self):
        for mode, of in (("load", ["loading"]), ("branches", ["model.fork", "loading"]),
                         ("ensemble", ["members", "loading"])):
            report = self.branches(mode, "--steps", "40")
            told = [gain["part"] for gain in report["gains"]]
            # On a busy machine, steps may use batches that were prefetched; then there is no gain of loading.
            self.assertIn(told, (of, [one for one in of if one != "loading"]))
            options = report["workload"]["options"]
            self.assertEqual(options["mode"], mode)
            self.assertEqual("load_ms" in options, mode == "load")
            self.assertEqual("members" in options, mode == "ensemble")
            for gain in report["gains"]:
                self.assertEqual(set(gain), self.GAIN)
                self.assertEqual(set(gain["measured"]), MEASURED)
                self.assertGreaterEqual(gain["predicted"]["value"], 1)
                self.assertGreater(gain["measured"]["value"], 0)
            if mode != "load":
                self.assertEqual(report["gains"][0]["chosen"], "one stream")
                self.assertIn("on a CPU", report["gains"][0]["reason"])

    def test_short_runs_report_no_gain_of_loading(self):
        self.assertEqual(self.branches("load", "--steps", "31")["gains"], [])

    def test_fork_option_does_not_change_digest(self):
        for mode in ("branches", "ensemble"):
            reports = [self.branches(mode, "--fork", fork, "--steps", "12")
                       for fork in ("auto", "streams", "one-stream")]
            self.assertEqual(len({report["digest"] for report in reports}), 1)
            self.assertEqual([report["gains"][0]["reason"] for report in reports[1:]],
                             ["requested"] * 2)

    def test_summary_reports_stream_choice_and_reason(self):
        self.expect(DONE, "train", "branches", *self.OPTIONS, "--mode", "branches", "--fork",
                    "one-stream", "--steps", "12",
                    says=["model.fork: one stream, requested\n"])
        self.expect(DONE, "train", "branches", *self.OPTIONS, "--mode", "ensemble", "--plan",
                    "serial", "--steps", "24",
                    says=["members: one stream, on a CPU branches run one after the other; "
                          "branches on separate streams: "])

    def test_invalid_branches_options_are_refused(self):
        for arguments, says in ((["--mode", "load", "--step-ms", "99999"], "from 0 to 10000"),
                                (["--mode", "ensembel"], "did you mean 'ensemble'?"),
                                ([], "give --mode load, branches or ensemble"),
                                (["--mode", "branches", "--fork", "stream"], "'streams'?"),
                                (["--mode", "ensemble", "--members", "0"], "--members")):
            self.expect(REFUSED, "train", "branches", *TINY, "--steps", "1", *arguments,
                        says=[says])
        self.expect(REFUSED, "train", "segmentation", *TINY, "--mode", "load", says=["--mode"])


class LearningTest(ProgramTest):
    def test_loss_falls_during_training(self):
        data = make_data(self.folder / "data", samples=32)
        report = self.train("learn", *TINY, "--data", data, "--batch-size", "4", "--optimizer",
                            "adamw", "--steps", "150", "--plan", "pipelined")
        losses = report["losses"]
        self.assertEqual(len(losses), 150)
        self.assertTrue(all(math.isfinite(loss) for loss in losses))
        self.assertLess(statistics.mean(losses[-15:]), 0.7 * statistics.mean(losses[:5]))

    def test_bf16_training_has_finite_losses(self):
        report = self.train("bf16", *TINY, "--precision", "bf16", "--steps", "3",
                            "--plan", "pipelined")
        self.assertEqual(report["plan"]["numerics"]["precision"], "bf16")
        self.assertEqual([math.isfinite(loss) for loss in report["losses"]], [True] * 3)


if __name__ == "__main__":
    unittest.main()
