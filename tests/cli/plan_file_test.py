"""Tests invalid files of plans: each is refused, and the message names the mistake."""

import json
import unittest

from program import DONE, REFUSED, TINY, ProgramTest, read_json


class PlanFileTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.plan = cls.folder / "plan.json"
        ProgramTest.expect(cls(), DONE, "train", "segmentation", *TINY, "--plan", "pipelined",
                           "--steps", "1", "--plan-out", cls.plan)

    def refuse(self, text, says):
        path = self.folder / "other.json"
        path.write_text(text)
        self.expect(REFUSED, "train", "segmentation", *TINY, "--steps", "1", "--plan", path,
                    says=says)

    def test_plan_that_is_not_json_is_refused(self):
        self.refuse("mode = serial", says=["this plan must be JSON"])

    def test_empty_plan_file_is_refused(self):
        self.refuse("", says=["this plan must be JSON"])

    def test_unknown_plan_key_is_refused_with_suggestion(self):
        plan = read_json(self.plan)
        plan["schedule"]["dept"] = plan["schedule"].pop("depth")
        self.refuse(json.dumps(plan), says=["unknown key 'dept'", "did you mean 'depth'?"])

    def test_all_plan_problems_are_reported_at_once(self):
        plan = read_json(self.plan)
        plan["schedule"]["depth"] = 1
        step = plan["schedule"]["lanes"][1]["steps"].pop()
        plan["schedule"]["lanes"][1]["steps"] = [step + "s"]
        self.refuse(json.dumps(plan), says=["schedule.depth is 1", f"did you mean '{step}'?"])

    def test_missing_plan_file_is_refused(self):
        self.expect(REFUSED, "train", "segmentation", *TINY, "--plan", self.folder / "no.json",
                    says=["no.json", "no such file"])

    def test_transforms_device_with_plan_file_is_refused(self):
        for verb, more in (("train", []), ("trace", ["--out", self.folder / "trace.json"])):
            self.expect(REFUSED, verb, "segmentation", *TINY, "--plan", self.plan,
                        "--transforms-device", "cpu", *more,
                        says=["--transforms-device has no effect on the plan in"])


if __name__ == "__main__":
    unittest.main()
