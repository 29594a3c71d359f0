"""Tests the commands on data sets: inspect, augment, bench loader, bad samples, workers."""

import shutil
import struct
import unittest

from data_folders import DataFolders, write_npy
from program import DONE, FAILED, NO, REFUSED, TINY, TINY_CLASSIFIER, read_json


class DataTest(DataFolders):
    def test_inspect_counts_good_and_bad_samples(self):
        sheet = self.folder / "sheet.png"
        self.expect(DONE, "inspect", self.scenes, "--contact-sheet", sheet,
                    says=["12 samples, 0 bad", "12 JPEG", "12 PNG"])
        self.assertTrue(sheet.read_bytes().startswith(b"\x89PNG"))
        self.expect(DONE, "inspect", self.classes, says=["0 'cat': 6, 1 'd\u00f6g': 6"])
        self.expect(NO, "inspect", self.damaged, says=["1 bad", "a.jpg"])
        self.expect(REFUSED, "inspect", self.folder / "none", says=["no file or folder"])
        self.expect(REFUSED, "inspect", sheet, says=["is not a data set"])
        empty = write_npy(self.folder / "empty.npy", "u1", (0, 4, 4, 3))
        self.expect(FAILED, "inspect", empty, says=["empty.npy", "no samples"])

    def test_inspect_report_lists_all_damaged_samples(self):
        data, report = self.folder / "many", self.folder / "inspect.json"
        (data / "cat").mkdir(parents=True)
        good = next((self.classes / "cat").iterdir())
        for index in range(14):
            (data / "cat" / f"{index:02}.jpg").write_bytes(good.read_bytes()[:200 - index])
        shutil.copy(good, data / "cat" / "good.jpg")
        self.expect(NO, "inspect", data,
                    says=["15 samples, 14 bad", "09.jpg", "and 4 more", "--json FILE"])
        told = self.expect(NO, "inspect", data, "--json", report, says=["and 4 more"])
        self.assertNotIn("--json", told.stdout)
        self.assertNotIn("10.jpg", told.stdout)
        found = read_json(report)
        self.assertEqual(found["schema"], "slipstream.inspect")
        self.assertEqual((found["samples"], found["inspected"]), (15, 15))
        self.assertEqual([each["sample"] for each in found["damaged"]], list(range(14)))
        self.assertTrue(found["damaged"][13]["name"].endswith("13.jpg"))
        self.assertIn("the file is truncated", found["damaged"][13]["message"])
        self.assertEqual(found["fields"][0]["stored"], {"JPEG": 1})
        self.assertEqual(found["fields"][1]["classes"], [{"class": 0, "name": "cat", "samples": 1}])
        self.expect(REFUSED, "inspect", data, "--json", self.folder / "no" / "x.json",
                    says=["there is no folder"])
        self.expect(REFUSED, "inspect", data, "--json", report, "--contact-sheet", report,
                    says=["name the same file"])

    def test_augment_writes_reproducible_sheet_and_refuses_bad_input(self):
        chain = self.folder / "augment.json"
        chain.write_text('''{"version": 1, "transforms": [
            {"op": "random_resized_crop", "size": 16},
            {"op": "random_horizontal_flip"}]}''')
        sheet = self.folder / "augmented.png"

        def command(data=self.scenes, chain=chain, out=sheet):
            return ("augment", "--data", data, "--transforms", chain, "--out", out)

        self.expect(DONE, *command(), says=["8 samples with 3 versions each in "])
        width, height = struct.unpack(">II", sheet.read_bytes()[16:24])
        self.assertEqual(width * 8, height * 4)
        first = sheet.read_bytes()
        self.expect(DONE, *command(), "--seed", "1", "--epoch", "0")
        self.assertEqual(sheet.read_bytes(), first)
        for other in ("--seed", "--epoch"):
            self.expect(DONE, *command(), other, "2")
            self.assertNotEqual(sheet.read_bytes(), first)
        self.expect(DONE, *command(self.classes), "--samples", "100", "--versions", "1",
                    says=["12 samples with 1 version each"])

        sheet.unlink()
        every = ("--samples", "13")
        self.expect(FAILED, *command(self.damaged), *every, says=["step 'decode'", "a.jpg"])
        none = self.folder / "none"
        self.expect(REFUSED, *command(none), says=["no file or folder"])
        empty = self.folder / "empty"
        empty.mkdir()
        self.expect(FAILED, *command(empty), says=["no class in", str(empty)])
        self.expect(REFUSED, *command(chain=none), says=[f"cannot read {none}: "])
        self.expect(REFUSED, *command(out=none / "sheet.png"), says=[str(none)])
        self.expect(FAILED, *command(out="/dev/full"), says=["/dev/full"])
        kept = chain.read_text()
        self.expect(REFUSED, *command(out=chain),
                    says=["--out and --transforms name the same file"])
        self.assertEqual(chain.read_text(), kept)
        for within in (self.scenes / "images" / "sheet.png", self.scenes / "new.png"):
            self.expect(REFUSED, *command(out=within), says=["is in the data"])
            self.expect(REFUSED, "inspect", self.scenes, "--contact-sheet", within,
                        says=["is in the data"])
            self.assertFalse(within.exists())
        self.expect(REFUSED, "train", "classification", "--data", self.classes, "--transforms",
                    chain, "--image-size", "16", "--json", chain, says=["name the same file"])
        self.expect(REFUSED, *command(), "--epoch", "4294967295", says=["an earlier epoch"])
        self.expect(REFUSED, *command(), "--samples", "0", says=["less than 1"])
        self.expect(REFUSED, *command(), "--on-bad-sample", "skp", says=["did you mean 'skip'?"])
        chain.write_text('{"version": 1, "transforms": [{"op": "random_horizontal_flp"}]}')
        self.expect(REFUSED, *command(), says=["did you mean 'random_horizontal_flip'?"])
        self.assertFalse(sheet.exists())
        chain.write_text('{"version": 1, "transforms": [{"op": "resize", "size": [8, 8]}]}')
        self.expect(DONE, *command(self.damaged), *every, "--on-bad-sample", "skip",
                    says=["12 samples", "skipped 1 bad sample: ", "a.jpg"])
        self.assertTrue(sheet.exists())

    def test_bench_loader_reports_rates_caches_and_skipped_samples(self):
        report = self.folder / "loader.json"
        self.expect(DONE, "bench", "loader", "--data", self.classes, "--num-workers", "1,2",
                    "--batch-size", "4", "--image-size", "16", "--seconds", "0.01", "--repeats",
                    "2", "--json", report, says=["samples/s", "workers"])
        told = read_json(report)
        self.assertEqual(told["schema"], "slipstream.loader_bench")
        self.assertEqual([rate["num_workers"] for rate in told["rates"]], [1, 2])
        self.assertIn(told["enough_workers"], (None, 1))
        steps = [step["name"] for step in told["rates"][0]["steps"]]
        self.assertEqual(steps, ["read", "decode", "resize", "collate"])
        self.expect(DONE, "bench", "loader", "--data", self.classes, "--num-workers", "1",
                    "--batch-size", "4", "--image-size", "16", "--seconds", "0.01", "--cache",
                    "resize=1M", "--disk-cache", f"{self.folder / 'disk'}=1M", "--json", report,
                    says=["from cache  from disk cache"])
        rate = read_json(report)["rates"][0]
        self.assertGreater(rate["cache"]["hits"], 0)
        self.assertGreater(rate["disk_cache"]["hits"], 0)
        self.expect(REFUSED, "bench", "loader", "--data", self.classes, "--cache", "resize",
                    says=["NAME=8G"])
        self.expect(FAILED, "bench", "loader", "--data", self.damaged, "--batch-size", "13",
                    says=["a.jpg"])
        self.expect(DONE, "bench", "loader", "--data", self.damaged, "--batch-size", "13",
                    "--num-workers", "1,2", "--image-size", "16", "--seconds", "0.01",
                    "--on-bad-sample", "skip", "--json", report,
                    says=["skipped 1 bad sample: ", "a.jpg"])
        rates = read_json(report)["rates"]
        self.assertEqual(len(rates), 2)
        for rate in rates:
            self.assertGreater(rate["skipped"]["replacements"], 0)
            self.assertEqual(len(rate["skipped"]["samples"]), 1)
        self.expect(REFUSED, "bench", "loader", "--data", self.classes, "--on-bad-sample", "skp",
                    says=["--on-bad-sample", "did you mean 'skip'?"])
        self.expect(REFUSED, "bench", "loader", "--data", self.classes, "--batch-size", "13",
                    says=["13"])
        self.expect(REFUSED, "bench", "loader", "--data", self.classes, "--transforms", "x.json",
                    "--image-size", "16", says=["--image-size has no effect with --transforms"])
        self.expect(REFUSED, "bench", says=["workload (or loader)"])

    def test_bench_loader_reads_partial_last_batch_with_no_drop_last(self):
        data = self.folder / "bad at the end"
        shutil.copytree(self.classes, data)
        (data / "d\u00f6g" / "zz.jpg").write_bytes(b"no image")
        command = ("bench", "loader", "--data", data, "--batch-size", "12", "--num-workers", "1",
                   "--image-size", "16", "--seconds", "0.01", "--repeats", "1", "--no-shuffle")
        self.expect(DONE, *command)
        self.expect(FAILED, *command, "--no-drop-last", says=["zz.jpg"])

    def test_read_ahead_zero_overrides_the_plan(self):
        plan = self.folder / "ahead-plan.json"
        ahead = self.classify("ahead", self.classes, "--read-ahead", "3", "--plan", "serial",
                              "--plan-out", plan)
        self.assertEqual(ahead["plan"]["schedule"]["loader"]["read_ahead"]["reads"], 3)
        for name, how in (("none", "serial"), ("none-of-plan", plan)):
            none = self.classify(name, self.classes, "--read-ahead", "0", "--plan", how)
            self.assertEqual(none["plan"]["schedule"]["loader"]["read_ahead"]["reads"], 0)

    def test_class_folders_give_same_digest_in_every_plan(self):
        reports = [self.classify(plan, self.classes, "--plan", plan)
                   for plan in ("serial", "pipelined")]
        self.assertEqual(reports[0]["digest"], reports[1]["digest"])
        self.assertEqual(len(reports[0]["accuracies"]), 8)
        synthetic = self.train("synthetic", "--device", "cpu", "--image-size", "48", "--batch-size",
                               "2", "--steps", "2", workload="classification")
        self.assertEqual(synthetic["steps"], 2)
        self.assertEqual(synthetic["workload"]["options"]["model"], "resnet18")

    def test_bad_sample_fails_training_unless_skipped(self):
        self.expect(FAILED, "train", *TINY_CLASSIFIER, "--data", self.damaged,
                    "--batch-size", "4", "--steps", "8", says=["a.jpg"])
        reports = [self.classify(f"skip-{workers}", self.damaged, "--on-bad-sample", "skip",
                                 "--num-workers", workers) for workers in ("1", "3")]
        self.assertEqual(reports[0]["digest"], reports[1]["digest"])
        samples = reports[0]["skipped"]["samples"]
        self.assertEqual(len(samples), 1)
        self.assertIn("a.jpg", samples[0]["message"])
        self.expect(REFUSED, "train", "classification", "--on-bad-sample", "skp",
                    says=["did you mean 'skip'?"])

    def test_transforms_file_replaces_default_resize(self):
        chain = self.folder / "transforms.json"
        chain.write_text('''{"version": 1, "transforms": [
            {"op": "random_resized_crop", "size": 16},
            {"op": "random_horizontal_flip", "p": 0.5}]}''')
        reports = [self.classify(f"chain-{plan}", self.classes, "--transforms", chain, "--plan", plan,
                                 "--num-workers", workers)
                   for plan, workers in (("serial", "1"), ("pipelined", "3"))]
        self.assertEqual(reports[0]["digest"], reports[1]["digest"])
        steps = [counter["name"] for counter in reports[0]["counters"]]
        self.assertEqual(steps[:5], ["read", "decode", "random_resized_crop",
                                     "random_horizontal_flip", "collate"])
        self.expect(REFUSED, "train", "classification", "--image-size", "32", "--transforms", chain,
                    says=["16 x 16 x 3", "32 x 32 x 3"])
        self.expect(DONE, "bench", "loader", "--data", self.classes, "--transforms", chain, "--num-workers",
                    "1", "--batch-size", "4", "--seconds", "0.01",
                    says=["random_horizontal_flip ms"])
        chain.write_text("{}")
        self.expect(REFUSED, "train", "classification", "--transforms", chain,
                    says=["transforms.json"])

    def test_batch_transforms_give_same_digest_on_cpu_and_device(self):
        chain = self.folder / "mixed.json"
        chain.write_text('''{"version": 1, "transforms": [
            {"op": "resize", "size": [16, 16]},
            {"op": "to_dtype", "dtype": "float32", "scale": true},
            {"op": "mixup", "alpha": 0.2}, {"op": "one_hot", "label_smoothing": 0.1}]}''')
        reports = [self.classify(f"mixed-{plan}", self.classes, "--transforms", chain, "--plan", plan)
                   for plan in ("serial", "pipelined")]
        plan = self.plan_on_device(reports[1], "to_dtype")
        reports.append(self.classify("mixed-on-device", self.classes, "--transforms", chain, "--plan", plan))
        self.assertEqual(len({report["digest"] for report in reports}), 1)
        self.assertEqual([[lane["steps"] for lane in report["lanes"]] for report in reports[1:]],
                         [[["copy"], ["mix"], ["model"]], [["copy"], ["augment", "mix"], ["model"]]])
        self.train("mixed-synthetic", *TINY, "--model", "encoder", "--steps", "3", "--transforms", chain,
                   workload="classification")

        self.expect(REFUSED, "train", "segmentation", *TINY, "--transforms", chain,
                    says=["'label' is a mask"])
        self.expect(DONE, "augment", "--data", self.classes, "--transforms", chain, "--out",
                    self.folder / "mixed.png", says=["mixup is not shown: it works on whole"])
        self.expect(DONE, "bench", "loader", "--data", self.classes, "--transforms", chain, "--num-workers",
                    "1", "--batch-size", "4", "--seconds", "0.01", says=["to_dtype ms"])
        out = self.folder / "mixed-shards"
        chain.write_text('''{"version": 1, "transforms": [
            {"op": "resize", "size": [16, 16]}, {"op": "one_hot"}, {"op": "cutmix"}]}''')
        self.expect(DONE, "convert", "--data", self.classes, "--out", out, "--transforms", chain,
                    says=["transforms.json"])
        rest = read_json(out / "transforms.json")["transforms"]
        self.assertEqual([each["op"] for each in rest], ["resize", "one_hot", "cutmix"])
        self.classify("mixed-shards", out, "--transforms", out / "transforms.json")
        chain.write_text('''{"version": 1, "transforms": [
            {"op": "mixup"}, {"op": "resize", "size": [16, 16]}]}''')
        self.expect(REFUSED, "train", *TINY_CLASSIFIER, "--transforms", chain,
                    says=["'resize' comes after mixup"])

    def test_transforms_give_same_digest_on_cpu_and_device(self):
        chain = self.folder / "augment.json"
        chain.write_text('''{"version": 1, "transforms": [
            {"op": "random_resized_crop", "size": 16},
            {"op": "random_horizontal_flip"},
            {"op": "to_dtype", "dtype": "float32", "scale": true},
            {"op": "random_rotation", "degrees": 45},
            {"op": "gaussian_blur", "kernel_size": 7, "sigma": [0.1, 2]},
            {"op": "normalize", "mean": [0.4, 0.5, 0.6], "std": [0.2, 0.3, 0.4]}]}''')
        on_cpu = self.classify("augment-cpu", self.classes, "--transforms", chain, "--plan", "pipelined")
        plan = self.plan_on_device(on_cpu, "random_resized_crop")
        on_device = self.classify("augment-on-device", self.classes, "--transforms", chain, "--plan", plan)
        self.assertEqual(on_cpu["digest"], on_device["digest"])
        counters = [counter["name"] for counter in on_device["counters"]]
        self.assertEqual(counters, ["read", "decode", "collate", "copy", "augment", "model"])
        for device, says in (("cudo", "did you mean 'cuda'?"),
                             ("cuda", "the transforms device is cuda, but the training's device is the CPU")):
            self.expect(REFUSED, "train", *TINY_CLASSIFIER, "--transforms-device", device, says=[says])

    def test_resize_alone_gives_same_digest_on_cpu_and_device(self):
        chain = self.folder / "resize.json"
        for more in ("", ', {"op": "one_hot"}, {"op": "cutmix"}'):
            chain.write_text('{"version": 1, "transforms": [{"op": "resize", "size": [16, 16]}'
                             + more + "]}")
            on_cpu = self.classify("resize-cpu", self.classes, "--transforms", chain, "--plan", "pipelined")
            plan = self.plan_on_device(on_cpu, "resize")
            on_device = self.classify("resize-on-device", self.classes, "--transforms", chain, "--plan", plan)
            self.assertEqual(on_cpu["digest"], on_device["digest"])

    def test_csv_list_is_accepted_as_data_set(self):
        images = sorted(path.name for path in (self.scenes / "images").iterdir())
        rows = [f"images/{image},{'even' if index % 2 == 0 else 'odd'}"
                for index, image in enumerate(images)]
        table = self.scenes / "list.csv"
        table.write_text("image,label\n" + "\n".join(rows) + "\n")
        self.expect(DONE, "inspect", table, says=["12 samples, 0 bad", "0 'even': 6, 1 'odd': 6"])
        self.assertEqual(self.classify("list", table)["steps"], 8)
        self.assertEqual(self.classify("list-2", table, "--classes", "2")["steps"], 8)
        for data in (table, self.classes):
            self.expect(REFUSED, "train", *TINY_CLASSIFIER, "--data", data, "--classes", "3",
                        says=["--classes 3", str(data), "has 2 classes", "leave --classes out"])

    def test_control_characters_in_file_names_are_escaped(self):
        data = self.folder / "named"
        (data / "cat").mkdir(parents=True)
        (data / "cat" / "\x1b[31m.jpg").write_bytes(b"no image")
        inspected = self.expect(NO, "inspect", data, says=["\\x1b[31m.jpg"])
        failed = self.expect(FAILED, "train", *TINY_CLASSIFIER, "--data", data,
                             "--batch-size", "1", says=["\\x1b[31m.jpg"])
        for told in (inspected.stdout, inspected.stderr, failed.stderr):
            self.assertNotIn("\x1b", told)

    def test_arrays_without_three_channels_are_refused_with_remedy(self):
        for channels, remedy in ((1, "numpy.repeat(images[..., :1], 3, axis=3)"),
                                 (4, "images[..., :3]")):
            arrays = self.folder / f"{channels} channels"
            arrays.mkdir()
            write_npy(arrays / "image.npy", "u1", (8, 16, 16, channels), bytes(2048 * channels))
            write_npy(arrays / "label.npy", "i8", (8,), bytes(64))
            for workload in (TINY_CLASSIFIER, ("starved", *TINY)):
                self.expect(REFUSED, "train", *workload, "--data", arrays, "--batch-size", "4",
                            says=[str(arrays), f"'image' have {channels} channel", remedy])

    def test_arrays_without_image_array_are_refused(self):
        arrays = self.folder / "names"
        arrays.mkdir()
        write_npy(arrays / "images.npy", "u1", (8, 16, 16, 3), bytes(6144))
        write_npy(arrays / "label.npy", "i8", (8,), bytes(64))
        for workload in (TINY_CLASSIFIER, ("starved", *TINY)):
            self.expect(REFUSED, "train", *workload, "--data", arrays, "--batch-size", "4",
                        says=["no images called 'image'", "it has 'images', 'label'"])

    def test_num_workers_takes_auto_or_a_number(self):
        report = self.classify("auto", self.classes, "--num-workers", "auto", "--plan", "serial")
        self.assertGreaterEqual(report["plan"]["schedule"]["loader"]["num_workers"], 1)
        for wrong in ("0", "x", "1.5", "-1", "4097"):
            self.expect(REFUSED, "train", "classification", f"--num-workers={wrong}",
                        says=["neither auto nor a number"])


if __name__ == "__main__":
    unittest.main()
