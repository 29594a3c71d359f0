"""Tests the files that verbs write: on a full disk, never over an input, and to standard output."""

import json
import os
import unittest

from data_folders import DataFolders
from program import DONE, FAILED, NO, REFUSED, TINY, TINY_CLASSIFIER, ProgramTest, read_json, run

FAST = ["--num-workers", "1", "--batch-size", "4", "--image-size", "16", "--seconds", "0.01"]


class FullDiskTest(DataFolders):
    """If one output fails because the disk is full, the others are still written."""

    def test_inspect_still_prints_and_writes_other_outputs(self):
        sheet = self.folder / "beside.png"
        done = self.expect(FAILED, "inspect", self.classes, "--json", "/dev/full",
                           "--contact-sheet", sheet, says=["cannot write /dev/full"])
        self.assertIn("12 samples, 0 bad", done.stdout)
        self.assertTrue(sheet.read_bytes().startswith(b"\x89PNG"))

    def test_bench_loader_still_prints_rates(self):
        done = self.expect(FAILED, "bench", "loader", "--data", self.classes, *FAST, "--json",
                           "/dev/full", says=["cannot write /dev/full"])
        self.assertIn("samples/s", done.stdout)


class InputsTest(DataFolders):
    """No output replaces an input."""

    def refuse(self, kept, *arguments, says):
        before = kept.read_bytes()
        self.expect(REFUSED, *arguments, says=["name the same file", *says])
        self.assertEqual(kept.read_bytes(), before)

    def test_inspect_refuses_to_replace_its_inputs(self):
        names, table = self.folder / "names.txt", self.folder / "list.csv"
        names.write_text("cat\nd\u00f6g\n", encoding="utf-8")
        table.write_text("image,label\na.jpg,0\n")
        self.refuse(names, "inspect", self.classes, "--classes-from", names, "--json", names,
                    says=["--json and --classes-from"])
        self.refuse(table, "inspect", table, "--json", table, says=["--json and the data"])
        link = self.folder / "link.csv"
        link.symlink_to(table)
        self.refuse(table, "inspect", table, "--json", link, says=["--json and the data"])

    def test_bench_loader_refuses_to_replace_its_inputs(self):
        chain, table = self.folder / "transforms.json", self.folder / "table.csv"
        chain.write_text('{"version": 1, "transforms": []}')
        table.write_text("image,label\na.jpg,0\n")
        self.refuse(chain, "bench", "loader", "--data", self.classes, "--transforms", chain,
                    "--json", chain, says=["--json and --transforms"])
        self.refuse(table, "bench", "loader", "--data", table, "--json", table,
                    says=["--json and --data"])

    def test_convert_refuses_to_replace_its_transforms(self):
        out = self.folder / "out"
        out.mkdir()
        chain = out / "transforms.json"
        chain.write_text('{"version": 1, "transforms": [{"op": "random_horizontal_flip"}]}')
        self.refuse(chain, "convert", "--data", self.classes, "--out", out, "--transforms", chain,
                    says=["transforms.json and --transforms"])


class EveryVerbTest(DataFolders):
    """No verb replaces a file that it reads, for any option and any name of the file."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        test = cls()
        cls.checkpoints = cls.folder / "checkpoints"
        cls.plan, cls.chain = cls.folder / "plan.json", cls.folder / "chain.json"
        cls.chain.write_text('{"version": 1, "transforms": [{"op": "resize", "size": [16, 16]}]}')
        test.expect(DONE, "train", *TINY_CLASSIFIER, "--data", cls.classes, "--batch-size", "4", "--steps", "2",
                    "--plan", "serial", "--plan-out", cls.plan, "--checkpoint", cls.checkpoints)
        cls.weights = next(cls.checkpoints.glob("step-*")) / "weights.safetensors"
        cls.image = next((cls.classes / "cat").iterdir())
        cls.before = {path: path.read_bytes() for path in cls.files()}

    @classmethod
    def files(cls):
        folders = (cls.classes, cls.scenes, cls.checkpoints)
        return [cls.plan, cls.chain, *(path for folder in folders for path in folder.rglob("*") if path.is_file())]

    def refuse(self, *command):
        self.expect(REFUSED, *command)
        self.assertEqual({path: path.read_bytes() for path in self.files()}, self.before, command)

    def names_in_data(self):
        """Returns names in the data: of an image, directly and through links, and of a new file. The hard link is
        left out: replacing it does not change the image."""
        image, link, _, through_folder = self.other_names(self.image)
        return image, link, through_folder, self.classes / "cat" / "new.png"

    def other_names(self, path):
        link, hard, folder = (self.folder / f"{path.name}.{kind}" for kind in ("link", "hard", "folder"))
        for each in (link, hard, folder):
            each.unlink(missing_ok=True)
        link.symlink_to(path)
        hard.hardlink_to(path)
        folder.symlink_to(path.parent)
        return path, link, hard, folder / path.name

    def test_train_refuses_to_replace_its_inputs(self):
        train = ("train", *TINY_CLASSIFIER, "--data", self.classes, "--batch-size", "4", "--steps", "1")
        for kept, option in ((self.plan, "--plan"), (self.chain, "--transforms"), (self.weights, "--weights")):
            for name in self.other_names(kept):
                for output in ("--json", "--plan-out", "--watch-json", "--watch-prom"):
                    self.refuse(*train, option, kept, output, name)
        for output in ("--json", "--plan-out", "--watch-json", "--watch-prom", "--log-dir", "--checkpoint"):
            self.refuse(*train, output, self.classes / "cat" / "new")
            self.refuse(*train, "--val", self.scenes, output, self.scenes / "new")
        self.refuse(*train, "--json", self.image)
        self.refuse(*train, "--weights", self.weights.parent, "--json", self.weights.parent / "checkpoint.json")
        self.refuse(*train, "--resume", self.checkpoints, "--json", self.weights)
        self.refuse(*train, "--checkpoint", self.checkpoints, "--resume", "auto", "--json", self.weights)
        self.refuse(*train, "--disk-cache", f"{self.classes / 'cache'}=1M")
        self.refuse(*train, "--log-dir", self.folder / "log", "--json", self.folder / "log" / "run.json")

    def test_workload_verbs_refuse_to_replace_their_inputs(self):
        data = (*TINY_CLASSIFIER, "--data", self.classes, "--batch-size", "4")
        for command, outputs in ((("eval", *data, "--weights", self.weights.parent), ("--json", "--preview")),
                                 (("doctor", *data, "--apply"), ("--json", "--html", "--plan-out")),
                                 (("bench", *data), ("--json", "--svg")), (("trace", *data), ("--out",))):
            for output in outputs:
                for name in self.names_in_data():
                    self.refuse(*command, output, name)
        self.refuse("doctor", *data, "--baseline", self.plan, "--json", self.plan)
        for output in ("--json", "--preview"):
            self.refuse("eval", *data, "--weights", self.weights, output, self.weights)
        self.refuse("predict", *data, "--weights", self.weights.parent, "--out", self.classes / "out")
        self.refuse("predict", *data, "--weights", self.weights.parent, "--out", self.weights.parent / "out")

    def test_data_verbs_refuse_to_replace_their_inputs(self):
        for name in self.names_in_data():
            self.refuse("inspect", self.classes, "--json", name)
            self.refuse("inspect", self.classes, "--contact-sheet", name)
            self.refuse("augment", "--data", self.classes, "--transforms", self.chain, "--out", name)
            self.refuse("bench", "loader", "--data", self.classes, *FAST, "--json", name)
        self.refuse("bench", "loader", "--data", self.classes, *FAST, "--disk-cache", f"{self.classes / 'x'}=1M")
        self.refuse("convert", "--data", self.classes, "--out", self.classes / "cat")
        self.refuse("convert", "--data", self.scenes, "--out", self.checkpoints)
        self.refuse("convert", "--data", self.scenes, "--out", self.classes)


class NestedJsonTest(DataFolders):
    """JSON that is nested deeply enough to overflow the stack of a recursive reader is refused with a message."""

    def test_deeply_nested_json_is_refused_by_every_verb(self):
        for text in ("[" * 200_000 + "]" * 200_000, '{"a":' * 40_000 + "1" + "}" * 40_000,
                     '{"settings":' * 40_000 + "1" + "}" * 40_000, '{"settings": {"a":' + "[" * 200_000):
            nested, folder = self.folder / "nested.jsonl", self.folder / "nested"
            nested.write_text(text)
            folder.mkdir(exist_ok=True)
            (folder / "manifest.json").write_text(text)
            train = ("train", *TINY_CLASSIFIER, "--batch-size", "4", "--steps", "1")
            for command in (("inspect", nested), ("inspect", folder), (*train, "--data", nested),
                            (*train, "--data", folder), (*train, "--transforms", nested), (*train, "--plan", nested),
                            ("convert", "--data", self.classes, "--out", folder), ("compare", nested),
                            ("convert", "--data", nested, "--out", self.folder / "out"),
                            ("doctor", *TINY_CLASSIFIER, "--budget", "1", "--baseline", nested)):
                done = run(*command)
                self.assertIn(done.returncode, (FAILED, REFUSED), (command, done.stderr))
                self.assertNotIn("json.exception", done.stderr)


class DamagedManifestTest(DataFolders):
    def test_damaged_manifest_gives_no_raw_json_error(self):
        out = self.folder / "converted"
        convert = ("convert", "--data", self.classes, "--out", out, "--samples-per-shard", "5")
        self.expect(DONE, *convert)
        manifest = out / "manifest.json"
        whole = json.loads(manifest.read_text(encoding="utf-8"))

        def damaged(change):
            document = json.loads(json.dumps(whole))
            return change(document) or document

        def change_shard(key, value):
            return damaged(lambda document: document["shards"][0].update({key: value}))

        documents = [change_shard("samples", value) for value in (-1, 0, "5", None, 1.5)]
        documents += [change_shard("bytes", -1), change_shard("digest", 7), change_shard("file", "../shard-000000.tar"),
                      change_shard("file", "shard-000099.tar"), change_shard("file", "shard-000001.tar"),
                      change_shard("file", None), change_shard("skipped", 3)]
        documents += [damaged(lambda document, key=key, value=value: document.update({key: value}))
                      for key in ("shards", "settings", "version") for value in (None, [], {}, 5, "text")]
        documents += [damaged(lambda document: document["settings"].update({"class_names": [1, 2]})),
                      damaged(lambda document: document["shards"].append(document["shards"][0])),
                      [], 5, "text", None, {}]
        for document in documents:
            manifest.write_text(json.dumps(document))
            for command in (convert, ("inspect", out)):
                done = run(*command)
                told = f"{command}, {document}: {done.returncode} {done.stderr}"
                self.assertNotIn("json.exception", done.stderr, told)
                self.assertIn(done.returncode, (DONE, FAILED, REFUSED, NO), told)
            # an empty list is allowed: a conversion that was interrupted at its start leaves it
            if document != {**whole, "shards": []}:
                self.assertNotEqual(run(*convert).returncode, DONE, document)


class ForeignTextTest(DataFolders):
    """Text from files can neither control the terminal nor look like a line of the program."""

    def setUp(self):
        self.data = self.folder / "foreign"
        if self.data.exists():
            return
        self.names = ["a\x1b[31mb", "c\nforged: all is well"]
        for name in self.names:
            (self.data / name).mkdir(parents=True)
            for image in (self.classes / "cat").iterdir():
                (self.data / name / image.name).write_bytes(image.read_bytes())

    def check(self, code, *command):
        done = self.expect(code, *command)
        for line in (done.stdout + done.stderr).splitlines():
            self.assertNotIn("\x1b", line)
            self.assertFalse(line.startswith("forged"), done.stdout + done.stderr)
        return done

    def test_class_names_and_option_values_are_escaped(self):
        train = ("train", *TINY_CLASSIFIER, "--data", self.data, "--batch-size", "4", "--steps", "1")
        self.check(DONE, *train, "--checkpoint", self.folder / "run", "--json", self.folder / "one.json")
        shown = self.check(DONE, "eval", *TINY_CLASSIFIER, "--data", self.data, "--weights",
                           self.folder / "run" / "last").stdout
        self.assertIn("a\\x1b[31mb", shown)
        self.assertIn("c\\nforged: all is well", shown)
        self.check(DONE, "inspect", self.data)
        self.check(DONE, "predict", *TINY_CLASSIFIER, "--data", self.data, "--weights", self.folder / "run" / "last",
                   "--out", self.folder / "predicted")
        self.check(REFUSED, *train, "--val", self.classes)
        self.check(REFUSED, "inspect", self.data, "--classes-from", self.classes)
        report = json.loads((self.folder / "one.json").read_text())
        report["workload"]["options"]["model"] = "\x1b[31m\nforged: equal"
        (self.folder / "other.json").write_text(json.dumps(report))
        self.check(DONE, "compare", self.folder / "one.json", self.folder / "other.json")

    def test_tensor_names_are_escaped(self):
        self.expect(DONE, "train", *TINY_CLASSIFIER, "--data", self.data, "--batch-size", "4", "--steps", "1",
                    "--checkpoint", self.folder / "weights run")
        weights = self.folder / "weights run" / "last" / "weights.safetensors"
        blob = weights.read_bytes()
        size = int.from_bytes(blob[:8], "little")
        head = json.loads(blob[8:8 + size])
        head = {("\x1b[31m\nforged" if index == 0 else name): value
                for index, (name, value) in enumerate(sorted(head.items(), key=lambda item: item[0] == "__metadata__"))}
        text = json.dumps(head).encode()
        text += b" " * (-len(text) % 8)
        named = self.folder / "named.safetensors"
        named.write_bytes(len(text).to_bytes(8, "little") + text + blob[8 + size:])
        self.check(DONE, "train", *TINY_CLASSIFIER, "--data", self.data, "--batch-size", "4", "--steps", "1",
                   "--weights", named, "--weights-partial")


class SkippedTest(DataFolders):
    def test_names_of_skipped_samples_are_escaped(self):
        data, out = self.folder / "named", self.folder / "converted"
        (data / "cat").mkdir(parents=True)
        image = next((self.classes / "cat").iterdir())
        (data / "cat" / "good.jpg").write_bytes(image.read_bytes())
        (data / "cat" / "\x1b[31m.jpg").write_bytes(b"no image")
        command = ("convert", "--data", data, "--out", out, "--on-bad-sample", "skip")
        says = ["skipped 1 bad sample: ", "\\x1b[31m.jpg"]
        done = [self.expect(DONE, *command, says=says)]
        manifest = out / "manifest.json"
        written = json.loads(manifest.read_text(encoding="utf-8"))
        written["shards"][0]["skipped"][0]["message"] = "a \x1b[31m.jpg"
        manifest.write_text(json.dumps(written))
        done.append(self.expect(DONE, *command, says=says))
        for each in done:
            self.assertNotIn("\x1b", each.stdout + each.stderr)


class StandardOutputTest(ProgramTest):
    def test_unwritable_standard_output_fails(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = run("--help", stdout=full)
        self.assertEqual(done.returncode, FAILED)
        self.assertIn("standard output cannot be written", done.stderr)

    def test_closed_standard_output_still_writes_report(self):
        reader, writer = os.pipe()
        os.close(reader)
        json_path, plan_path = self.folder / "run.json", self.folder / "plan.json"
        done = run("train", "segmentation", *TINY, "--steps", "2", "--json", json_path,
                   "--plan-out", plan_path, stdout=writer)
        os.close(writer)
        self.assertEqual(done.returncode, DONE, done.stderr)
        self.assertNotIn("standard output", done.stderr)
        self.assertEqual(read_json(json_path)["plan"], read_json(plan_path))


if __name__ == "__main__":
    unittest.main()
