"""Tests slightly wrong commands: the message names the mistake and the correction."""

import unittest

from data_folders import DataFolders
from program import DONE, REFUSED, TINY, ProgramTest, make_data


class UnknownWordTest(ProgramTest):
    def refuse(self, *arguments, says):
        done = self.expect(REFUSED, *arguments, says=["slipstream: ", *says])
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_unknown_program_options_are_refused(self):
        self.refuse("--verison", says=["unknown option '--verison'", "did you mean '--version'?"])
        self.refuse("-v", says=["unknown option '-v'", "did you mean '--version'?"])
        self.refuse("--foo", says=["unknown option '--foo'; slipstream --help shows"])
        self.refuse("--bogus", "train", "segmentation", says=["unknown option '--bogus'"])

    def test_unknown_options_before_workload_are_refused(self):
        for verb in ("train", "bench", "doctor", "trace"):
            for bogus in (("--bogus",), ("--bogus", "1"), ("--bogus=1",), ("-b", "1")):
                name = bogus[0].split("=")[0]
                self.refuse(verb, *bogus, "segmentation", "--steps", "1",
                            says=[f"unknown option '{name}'; slipstream {verb} --help shows"])
        self.refuse("bench", "--bogus", "1", "loader", says=["unknown option '--bogus'"])
        self.refuse("train", "--optimiser", "sgd", "segmentation", says=["did you mean '--optimizer'?"])

    def test_unknown_options_of_verbs_without_workload_are_refused(self):
        self.refuse("compare", "--jsn", "a.json", says=["unknown option '--jsn'", "compare --help"])
        self.refuse("bench", "loader", "--lr", "1",
                    says=["unknown option '--lr'; slipstream bench loader --help shows"])

    def test_unknown_word_before_verb_is_refused(self):
        self.refuse("foo", "train", "segmentation", says=["unknown verb 'foo'", "known: train, eval, predict, bench"])
        self.refuse("trian", "--help", says=["did you mean 'train'?"])

    def test_unknown_workload_is_refused_with_suggestion(self):
        self.refuse("bench", "laoder", "--data", "x", says=["did you mean 'loader'?"])
        self.refuse("train", "segmentatoin", "--bogus", says=["did you mean 'segmentation'?"])

    def test_values_that_look_like_options_are_values(self):
        self.refuse("train", "segmentation", "--plan", "--bogus", says=["unknown plan '--bogus'"])

    def test_help_verb_prints_same_text_as_help_option(self):
        for verb in (["train"], ["train", "starved"], ["bench", "loader"], []):
            self.assertEqual(self.expect(DONE, "help", *verb).stdout,
                             self.expect(DONE, *verb, "--help").stdout)
        self.refuse("help", "trian", says=["unknown verb 'trian'", "did you mean 'train'?"])


class TransformSizeTest(ProgramTest):
    def chain(self, size):
        path = self.folder / "transforms.json"
        path.write_text('{"version": 1, "transforms": [{"op": "random_horizontal_flip"}'
                        + (f', {{"op": "resize", "size": {size}}}' if size else "") + "]}")
        return path

    def test_transforms_set_image_size_and_conflict_is_refused(self):
        own = ("--device", "cpu", "--transforms", self.chain([16, 16]), "--steps", "1")
        for workload in (["segmentation"], ["classification", "--model", "encoder"]):
            report = self.train("sized", *workload[1:], *own, workload=workload[0])
            self.assertEqual(report["workload"]["options"]["image_size"], 16)
            self.expect(REFUSED, "train", *workload, *own, "--image-size", "32",
                        says=["end with images of 16 x 16 x 3, but --image-size asks for 32 x 32"])

    def test_transforms_without_one_square_size_are_refused(self):
        for size, told in (([16, 8], "16 x 8 x 3"), ("", "? x ? x 3")):
            self.expect(REFUSED, "train", "classification", "--device", "cpu", "--transforms",
                        self.chain(size), says=[f"end with images of {told}: models need square "
                                                "images of one size; end the transforms"])


class SmallImagesTest(ProgramTest):
    def test_resnet_trains_on_28_pixel_images(self):
        self.train("small", "--device", "cpu", "--image-size", "28", "--batch-size", "2", "--steps",
                   "2", workload="classification")

    def test_encoder_refuses_image_size_and_suggests_resnet18(self):
        self.expect(REFUSED, "train", "classification", "--model", "encoder", "--device", "cpu",
                    "--image-size", "224", says=["power of two from 2 to 1024; --model resnet18 "
                                                 "accepts any"])


class OutputsTest(DataFolders):
    def test_make_data_refuses_folder_with_other_kind_of_data(self):
        self.expect(REFUSED, "make-data", "classification", "--out", self.scenes, "--samples", "2",
                    says=[f"'{self.scenes}' holds '", "give a new or empty folder"])
        self.assertEqual(sorted(path.name for path in self.scenes.iterdir()), ["images", "masks"])
        self.expect(REFUSED, "make-data", "segmentation", "--out", self.classes, "--samples", "2",
                    says=["not a part of data for segmentation"])
        self.expect(DONE, "make-data", "segmentation", "--out", self.scenes, "--samples", "2")

    def test_sheets_are_written_as_png_or_html(self):
        chain = self.folder / "resize.json"
        chain.write_text('{"version": 1, "transforms": [{"op": "resize", "size": [8, 8]}]}')
        augment = ("augment", "--data", self.classes, "--transforms", chain, "--samples", "1", "--out")
        inspect = ("inspect", self.classes, "--contact-sheet")
        for command, option in ((augment, "--out"), (inspect, "--contact-sheet")):
            path = self.folder / "picture.jpg"
            self.expect(REFUSED, *command, path,
                        says=[f"{option} {path}: images are written as a PNG or as a page", "in .png or", "in .html"])
            self.assertFalse(path.exists())
            for name, start in (("picture", b"\x89PNG"), ("picture.PNG", b"\x89PNG"), ("page.html", b"<!DOCTYPE html>")):
                self.expect(DONE, *command, self.folder / name)
                self.assertTrue((self.folder / name).read_bytes().startswith(start), name)


class MissingFileTest(ProgramTest):
    def test_unreadable_file_is_named_once_in_message(self):
        for command in (["train", "segmentation", "--device", "cpu", "--plan", self.folder],
                        ["train", "segmentation", "--device", "cpu", "--transforms"],
                        ["compare"]):
            path = self.folder if self.folder in command else self.folder / "missing.json"
            command += [] if self.folder in command else [path]
            done = self.expect(REFUSED, *command, says=[f"slipstream: cannot read {path}: "])
            self.assertEqual(done.stderr.count(str(path)), 1)


class HelpTest(ProgramTest):
    def test_help_shows_defaults_in_plain_words(self):
        for command, says, hides in (
                (["train", "starved"], ["(default: 4 in all)", "Momentum; for sgd only"], ["Of sgd"]),
                (["bench", "loader"], ["(default: 4 in all)", "--whole-decoding ",
                                       "A folder, list, .tar shard or .npy file"], ["{false}"])):
            shown = " ".join(self.expect(DONE, *command, "--help").stdout.split())
            for words in says:
                self.assertIn(words, shown)
            for words in hides:
                self.assertNotIn(words, shown)

    def test_whole_decoding_reports_tolerated_damage(self):
        data, chain = make_data(self.folder / "scenes", samples=1, size=256), self.folder / "crop.json"
        image = next((data / "images").iterdir())
        jpeg = image.read_bytes()
        # the file has an end marker, but rows before it are missing
        image.write_bytes(jpeg[:-len(jpeg) // 4] + jpeg[-2:])
        chain.write_text('{"version": 1, "transforms": [{"op": "center_crop", "size": [16, 16]}]}')
        bench = ("bench", "loader", "--data", data, "--transforms", chain, "--batch-size", "1",
                 "--num-workers", "1", "--seconds", "0.01", "--repeats", "1")
        self.assertNotIn("tolerated", self.expect(DONE, *bench).stdout)
        self.expect(DONE, *bench, "--whole-decoding", says=["tolerated 1 damaged sample: ", image.name])

    def test_sampler_that_is_neither_name_nor_file_is_refused(self):
        self.expect(REFUSED, "train", "segmentation", *TINY, "--sampler", "weighted",
                    says=["unknown sampler 'weighted'", "known: random, balanced",
                          "and there is no such file", "or a file with a weight in each line"])


class WeightDecayTest(ProgramTest):
    def test_weight_decay_applies_to_both_optimizers(self):
        tiny = (*TINY, "--steps", "2", "--lr", "0.01")
        for optimizer, otherwise in (("sgd", "0"), ("adamw", "0.01")):
            plain, same, more = (
                self.train("decay", *tiny, "--optimizer", optimizer, *decay)
                for decay in ([], ["--weight-decay", otherwise], ["--weight-decay", "0.5"]))
            self.assertEqual(plain["digest"], same["digest"])
            self.assertNotEqual(plain["digest"], more["digest"])
            self.assertEqual(more["workload"]["options"]["weight_decay"], 0.5)
            self.assertNotIn("weight_decay", plain["workload"]["options"])
        self.expect(DONE, "train", "segmentation", "--help",
                    says=["--weight-decay FLOAT", "0 for sgd, 0.01 for adamw"])


class PyTorchNamesTest(ProgramTest):
    def refuse(self, option, *says):
        self.expect(REFUSED, "train", "segmentation", option, "1",
                    says=[f"unknown option '{option}'; ", *says])

    def test_pytorch_option_names_suggest_our_names(self):
        for theirs, ours in (("--learning-rate", "--lr"), ("--batch", "--batch-size"),
                             ("--bs", "--batch-size"), ("--workers", "--num-workers"),
                             ("--wd", "--weight-decay"), ("--amp", "--precision bf16"), ("--bf16", "--precision bf16")):
            self.refuse(theirs, f"did you mean '{ours}'?")
        self.refuse("--fp16", "did you mean '--precision fp16'?")

    def test_pytorch_settings_that_are_plan_keys_name_the_key(self):
        for option, key in (("--pin-memory", "schedule.loader.pin_memory"),
                            ("--cudnn-benchmark", "numerics.cudnn_benchmark"),
                            ("--channels-last", "numerics.channels_last")):
            self.refuse(option, f"it is a key of the plan, {key} ", "train --plan-out FILE",
                        "train --plan FILE")

    def test_unknown_option_message_does_not_list_all_options(self):
        for option in ("--bacth-size", "--bogus"):
            done = self.expect(REFUSED, "train", "segmentation", option, "1")
            self.assertNotIn("--on-bad-sample", done.stderr)


if __name__ == "__main__":
    unittest.main()
