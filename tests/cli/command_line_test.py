"""Tests what is refused before any data is read, and the output of --help and --version."""

import os
import unittest

from program import (DONE, FAILED, HAS_GPU, NO, REFUSED, TINY, ProgramTest, make_data, read_json,
                     run)

VERBS = ["train", "bench", "make-data", "features", "compare"]


class HelpTest(ProgramTest):
    def test_help_names_every_verb(self):
        self.expect(DONE, "--help", says=VERBS)

    def test_version_option_prints_version(self):
        self.expect(DONE, "--version", says=["slipstream 0."])

    def test_every_verb_has_help(self):
        for verb in VERBS:
            with self.subTest(verb):
                self.expect(DONE, verb, "--help", says=["--help"])

    def test_help_shows_options_in_groups(self):
        own = {"train": ("Training", "Loader", "Schedule", "Output"),
               "bench": ("Training", "Loader", "Schedule", "Measuring", "Output"),
               "doctor": ("Training", "Loader", "Schedule", "Measuring", "Output"),
               "trace": ("Training", "Loader", "Schedule", "Measuring", "Output"),
               "bench loader": ("Data", "Transforms", "Loader", "Measuring", "Output"),
               "convert": ("Data", "Transforms", "Loader", "Output"),
               "augment": ("Data", "Transforms", "Output"),
               "inspect": ("Data", "Loader", "Output"),
               "features inspect": ("Output",),
               "features prune": ("Data",),
               "features export": ("Data", "Loader", "Output"),
               "make-data": ("Data", "Output")}
        for verb, headings in own.items():
            with self.subTest(verb):
                groups = self.read_option_groups(*verb.split())
                self.assertLessEqual(set(headings), set(groups))
                self.assertEqual(groups.get("Options"), ["-h,--help"])
        workload = self.read_option_groups("train", "starved")
        self.assertEqual(workload["Options of the workload starved"],
                         ["--optimized-transforms", "--costs", "--raw-size"])
        self.assertIn("--sampler", workload["Data"])
        self.assertIn("--lr", workload["Optimizer"])

    def test_help_shows_negated_flags_by_name(self):
        for verb in (["train"], ["bench", "loader"]):
            told = self.expect(DONE, *verb, "--help", says=["--shuffle,--no-shuffle ",
                                                            "--drop-last,--no-drop-last "])
            self.assertNotIn("{false}", told.stdout)

    def read_option_groups(self, *verb):
        """Returns the names of the options under each heading."""
        groups, heading = {}, ""
        for line in self.expect(DONE, *verb, "--help").stdout.splitlines():
            if line.endswith(":") and not line.startswith(" "):
                heading = line[:-1]
            elif line.startswith("  -"):
                groups.setdefault(heading, []).append(line.split()[0])
        return groups

    def test_help_shows_workload_options_only_with_workload(self):
        for verb in ("train", "bench", "doctor", "trace"):
            with self.subTest(verb):
                plain = self.expect(DONE, verb, "--help", says=[
                    f"'{verb} WORKLOAD --help'",
                    "segmentation, classification, branches, starved"])
                for own in ("--data", "--raw-size", "--mode", "--optimizer"):
                    self.assertNotIn(own + " ", plain.stdout)
                starved = self.expect(DONE, verb, "starved", "--help",
                                      says=["--raw-size INT"])
                # Versions of the parser print a default in two ways.
                self.assertRegex(starved.stdout, r"--momentum FLOAT(=| \[)0\.9")
                self.assertNotIn("--mode", starved.stdout)


class UnknownNameTest(ProgramTest):
    def refuse(self, *arguments, says):
        self.expect(REFUSED, *arguments, says=["slipstream: ", *says])

    def test_missing_verb_is_refused(self):
        self.refuse(says=["no verb is given", "--help"])

    def test_unknown_verb_is_refused_with_suggestion(self):
        self.refuse("trian", "segmentation", says=["unknown verb 'trian'", "did you mean 'train'?"])

    def test_unknown_option_is_refused_with_suggestion(self):
        self.refuse("train", "segmentation", "--bacth-size", "4",
                    says=["unknown option '--bacth-size'", "did you mean '--batch-size'?"])

    def test_unknown_option_with_attached_value_is_refused(self):
        self.refuse("bench", "segmentation", "--plns=serial", says=["did you mean '--plan'?"])

    def test_bad_options_of_bench_loader_are_refused(self):
        data = ("bench", "loader", "--data", self.folder)
        self.refuse(*data, "--batch-size", "4", "--worker", "2",
                    says=["unknown option '--worker'", "did you mean '--num-workers'?"])
        self.refuse(*data, "--batch-size", "x", says=["--batch-size", "x", "bench loader --help"])
        self.refuse(*data, "--batch-size", "4", "--repeats", "0", says=["--repeats", "0 is less"])
        for wrong in ("0", "4097", "1.5", "auto", "1,4097"):
            self.refuse(*data, "--batch-size", "4", "--num-workers", wrong,
                        says=["--num-workers", "is not a number from 1 to 4096"])
        self.refuse(*data, "--read-ahead", "-1", says=["--read-ahead", "-1"])
        self.refuse("bench", "--wire", "image=jpeg", "loader", "--data", self.folder,
                    says=["--wire of bench has no effect on bench loader"])

    def test_prefetch_factor_out_of_range_is_refused(self):
        for command in (("train", "segmentation", *TINY),
                        ("bench", "loader", "--data", make_data(self.folder / "data", samples=2))):
            self.refuse(*command, "--num-workers", "2", "--prefetch-factor", "2049",
                        says=["--prefetch-factor 2049 with 2 workers prefetches 4098 batches",
                              "lower one of them"])
            self.refuse(*command, "--prefetch-factor", "0", says=["not a number from 1 to 4096"])

    def test_missing_workload_is_refused(self):
        self.refuse("train", says=["workload", "train --help"])

    def test_empty_option_values_are_refused(self):
        for option in ("--json", "--plan-out", "--transforms", "--data"):
            self.refuse("train", "segmentation", option, "", says=[option, "the value is empty"])
        self.refuse("bench", "segmentation", "--svg", "", says=["--svg", "the value is empty"])
        self.refuse("bench", "loader", "--data", "", says=["--data", "the value is empty"])
        self.refuse("augment", "--data", "x", "--transforms", "y", "--out", "",
                    says=["--out", "is empty"])
        self.refuse("make-data", "classification", "--out", "", says=["--out", "is empty"])

    def test_options_of_other_workloads_are_refused(self):
        for option in (("--fork", "streams"), ("--members", "2"), ("--load-ms", "5")):
            for workload in ("segmentation", "classification", "starved"):
                self.refuse("train", workload, *option,
                            says=[f"{option[0]} is an option of the workload branches; {workload} does not have it"])
        for verb in ("train", "bench", "doctor", "trace"):
            self.refuse(verb, "branches", "--transforms", "x.json",
                        says=["--transforms is an option of the workloads segmentation and classification; "
                              "branches does not have it"])
        self.refuse("train", "--raw-size", "64", "segmentation", says=["of the workload starved"])
        self.refuse("train", "--raw-size=64", says=["option of the workload starved: give the workload as the first "
                                                    "argument of train"])

    def test_options_without_effect_are_refused(self):
        for mode, option in (("load", "--members"), ("load", "--fork"), ("branches", "--load-ms")):
            value = "streams" if option == "--fork" else "5"
            self.refuse("train", "branches", *TINY, "--mode", mode, option, value,
                        says=[f"{option} has no effect on branches with these options"])
        self.refuse("train", "segmentation", *TINY, "--optimizer", "adamw", "--momentum", "0",
                    says=["adamw has no momentum"])

    def test_steps_that_is_not_a_number_is_refused(self):
        self.refuse("train", "segmentation", "--steps", "many", says=["--steps", "many"])

    def test_unknown_workload_is_refused_with_suggestion(self):
        self.refuse("train", "segmentatoin", *TINY,
                    says=["unknown workload 'segmentatoin'", "did you mean 'segmentation'?"])

    def test_unknown_workload_of_bench_is_refused_with_suggestion(self):
        self.refuse("bench", "segmentatoin", "--device", "cpu", "--batch-size", "2",
                    says=["did you mean 'segmentation'?"])

    def test_unknown_plan_is_refused_with_suggestion(self):
        self.refuse("train", "segmentation", *TINY, "--plan", "pipelinde",
                    says=["unknown plan 'pipelinde'", "did you mean 'pipelined'?"])

    def test_plan_name_too_long_for_a_file_is_refused(self):
        self.refuse("train", "segmentation", *TINY, "--plan", "x" * 300, says=["unknown plan 'x"])

    def test_unknown_plan_of_bench_is_refused_with_suggestion(self):
        self.refuse("bench", "segmentation", "--plan", "serail",
                    says=["unknown plan 'serail'", "did you mean 'serial'?"])

    def test_unknown_input_of_bench_is_refused_with_suggestion(self):
        self.refuse("bench", "segmentation", "--device", "cpu", "--input", "lodaer",
                    says=["unknown input 'lodaer'", "did you mean 'loader'?"])

    def test_unknown_device_is_refused_with_known_ones(self):
        self.refuse("train", "segmentation", "--device", "cdua",
                    says=["unknown device 'cdua'", "known: auto, cpu, cuda"])

    def test_unknown_precision_is_refused_with_suggestion(self):
        self.refuse("train", "segmentation", *TINY, "--precision", "bf61",
                    says=["unknown precision 'bf61'", "did you mean 'bf16'?"])

    def test_unknown_optimizer_is_refused_with_suggestion(self):
        self.refuse("train", "segmentation", *TINY, "--optimizer", "adamv",
                    says=["'adamv'", "did you mean 'adamw'?"])

    def test_unknown_kind_of_data_is_refused_with_suggestion(self):
        self.refuse("make-data", "segmentatoin", "--out", self.folder / "x",
                    says=["did you mean 'segmentation'?"])


class BadValueTest(ProgramTest):
    def refuse(self, *arguments, says):
        self.expect(REFUSED, "train", "segmentation", "--device", "cpu", *arguments, says=says)

    def test_image_size_that_is_no_power_of_two_is_refused(self):
        self.refuse("--image-size", "48", says=["image size 48", "power of two"])

    def test_zero_classes_are_refused(self):
        self.refuse("--image-size", "16", "--classes", "0", says=["classes", "2 to 256"])

    def test_zero_and_negative_values_are_refused(self):
        for option in ("--steps", "--epochs", "--batch-size", "--num-workers", "--image-size", "--lr"):
            for value in ("0", "-4"):
                self.refuse(option, value, says=[option, value])

    def test_negative_seed_is_refused(self):
        self.refuse("--seed", "-1", says=["--seed", "-1"])

    def test_non_finite_learning_rate_is_refused(self):
        for value in ("inf", "1e400", "nan"):
            self.refuse("--lr", value, says=["--lr", value])

    def test_too_large_integers_are_refused(self):
        for option in ("--seed", "--steps", "--epochs"):
            self.refuse(option, "18446744073709551616", says=[option, "is too large"])
        self.refuse("--image-size", "16", "--epochs", "18446744073709551615",
                    says=["--epochs 18446744073709551615 is too large: an epoch has 128 steps"])

    def test_epochs_together_with_steps_is_refused(self):
        self.refuse("--epochs", "1", "--steps", "2",
                    says=["--epochs and --steps both set the length of the training: leave one of them out"])

    def test_option_given_twice_is_refused(self):
        self.refuse("--seed", "1", "--seed", "2", says=["--seed is given more than once"])

    def test_option_without_value_is_refused(self):
        self.refuse("--steps", says=["--steps needs a value"])

    def test_batch_larger_than_the_data_set_is_refused(self):
        self.refuse("--image-size", "16", "--batch-size", "5000",
                    says=["batch size 5000", "at most 1024"])

    def test_bench_with_zero_steps_repeats_or_seconds_is_refused(self):
        for option in ("--steps", "--repeats", "--seconds"):
            self.expect(REFUSED, "bench", "segmentation", "--device", "cpu", option, "0",
                        says=[option])

    @unittest.skipIf(HAS_GPU, "this machine has a GPU")
    def test_missing_gpu_is_refused(self):
        for device in ("cuda", "cuda:1"):
            self.expect(REFUSED, "train", "segmentation", "--device", device,
                        says=[f"device '{device}' is not available", "use --device cpu"])


class OutputTest(ProgramTest):
    """The program tries to open its outputs before anything else; therefore the data does not exist here either."""

    def refuse(self, verb, *arguments, says):
        self.expect(REFUSED, verb, "segmentation", "--data", self.folder / "missing", *arguments,
                    says=says)

    def test_report_into_missing_folder_is_refused(self):
        path = self.folder / "no" / "run.json"
        self.refuse("train", "--json", path, says=[f"cannot write {path}", "there is no folder"])

    def test_plan_into_missing_folder_is_refused(self):
        path = self.folder / "no" / "plan.json"
        self.refuse("train", "--plan-out", path, says=[f"cannot write {path}"])

    def test_report_path_that_is_a_folder_is_refused(self):
        self.refuse("train", "--json", self.folder, says=["it is a folder"])

    def test_bench_plot_into_missing_folder_is_refused(self):
        path = self.folder / "no" / "plot.svg"
        self.refuse("bench", "--svg", path, says=[f"cannot write {path}"])

    def test_report_with_too_long_name_is_refused(self):
        self.refuse("train", "--json", self.folder / ("x" * 300), says=["File name too long"])

    def test_report_link_into_missing_folder_is_refused(self):
        link = self.folder / "link.json"
        link.symlink_to(self.folder / "no" / "run.json")
        self.refuse("train", "--json", link, says=[f"cannot write {link}", "there is no folder"])

    def test_report_into_pipe_without_reader_is_refused(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        self.refuse("train", "--json", pipe, says=[f"cannot write {pipe}: no process reads it"])

    def test_two_outputs_into_one_file_are_refused(self):
        path = self.folder / "both"
        says = ["name the same file", "both"]
        self.refuse("train", "--json", path, "--plan-out", self.folder / "." / "both", says=says)
        self.refuse("bench", "--json", path, "--svg", path, says=says)

    def test_make_data_over_a_file_is_refused(self):
        file = self.folder / "file"
        file.write_text("")
        self.expect(REFUSED, "make-data", "segmentation", "--out", file, "--samples", "1",
                    says=[str(file)])


class ConsistentErrorsTest(ProgramTest):
    """The same cause has the same exit code and message in every verb."""

    def refuse_all(self, commands, says):
        for command in commands:
            done = self.expect(REFUSED, *command, says=says)
            for raw in ("filesystem error", "std::", "Could not convert"):
                self.assertNotIn(raw, done.stderr)

    def test_every_verb_refuses_missing_data(self):
        missing = self.folder / "missing"
        out = self.folder / "out"
        workload = ["segmentation", *TINY, "--data", missing]
        self.refuse_all([["train", *workload], ["bench", *workload], ["doctor", *workload],
                         ["trace", *workload, "--out", out], ["inspect", missing],
                         ["convert", "--data", missing, "--out", out],
                         ["augment", "--data", missing, "--transforms", self.chain(), "--out", out],
                         ["bench", "loader", "--data", missing]], says=[str(missing)])

    def test_every_verb_refuses_unreadable_input_files(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        for path, why in ((self.folder / "missing.json", "missing.json"),
                          (self.folder, "folder"), (pipe, "pipe or a device"),
                          ("/dev/zero", "pipe or a device")):
            chain = ["segmentation", *TINY, "--transforms", path]
            self.refuse_all([["train", *chain], ["bench", *chain], ["doctor", *chain],
                             ["trace", *chain, "--out", self.folder / "out"],
                             ["convert", "--data", self.data(), "--out", self.folder / "out",
                              "--transforms", path],
                             ["augment", "--data", self.data(), "--transforms", path, "--out",
                              self.folder / "sheet"],
                             ["bench", "loader", "--data", self.data(), "--transforms", path],
                             ["train", "segmentation", *TINY, "--plan", path],
                             ["doctor", "segmentation", *TINY, "--baseline", path],
                             ["train", "segmentation", *TINY, "--sampler", path],
                             ["compare", path]], says=[why])

    def test_output_folders_that_cannot_be_created_are_refused(self):
        file = self.folder / "file"
        file.write_text("")
        below = file / "below"
        self.refuse_all([["make-data", "segmentation", "--out", below, "--samples", "1"],
                         ["convert", "--data", self.data(), "--out", below]],
                        says=["cannot create", str(below), "Not a directory"])

    def test_learning_rate_that_is_not_a_number_is_refused(self):
        self.refuse_all([["train", "segmentation", "--lr", "abc"],
                         ["bench", "segmentation", "--lr", "abc"],
                         ["doctor", "segmentation", "--lr", "abc"]],
                        says=["--lr: 'abc' is not a valid number"])

    def chain(self):
        path = self.folder / "transforms.json"
        path.write_text('{"version": 1, "transforms": '
                        '[{"op": "to_dtype", "dtype": "float32", "scale": true}]}')
        return path

    def data(self):
        path = self.folder / "data"
        return path if path.exists() else make_data(path, samples=2)


class CompareTest(ProgramTest):
    def test_missing_report_is_refused(self):
        self.expect(REFUSED, "compare", self.folder / "no.json", says=["no.json"])

    def test_file_that_is_no_report_is_refused(self):
        file = self.folder / "other.json"
        file.write_text("{}")
        self.expect(REFUSED, "compare", file, says=["not a report of a run", "other.json"])

    def test_plan_instead_of_report_is_refused(self):
        plan, report = self.folder / "plan.json", self.folder / "run.json"
        self.expect(DONE, "train", "segmentation", *TINY, "--steps", "1", "--json", report,
                    "--plan-out", plan)
        done = self.expect(REFUSED, "compare", report, plan,
                           says=["plan.json", "it is a plan", "that train --json wrote"])
        self.assertNotIn("json.exception", done.stderr)

    def test_reports_of_same_name_are_distinguished_by_path(self):
        paths = [self.folder / name / "run.json" for name in ("a", "b")]
        for path, steps in zip(paths, ("1", "2")):
            path.parent.mkdir()
            self.expect(DONE, "train", "segmentation", *TINY, "--plan", "serial", "--steps", steps,
                        "--json", path)
        self.expect(NO, "compare", *paths,
                    says=[f"{paths[0]}  serial", f"{paths[1]}  serial", "report  ",
                          "not the same run: steps 1 and 2"])


if __name__ == "__main__":
    unittest.main()
