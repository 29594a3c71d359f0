"""The methods of slipstream.doctor's report: predictions for assumed costs, comparisons, tests and ranks."""

import json

from pipelines import Compose, Images, noise, sleep, slow, stated_time  # noqa: F401, a fixture
import pytest
from torch.utils.data import DataLoader

import slipstream as ss
from slipstream import _native


def run_doctor(seconds=0.02, batch_size=4):
    loader = DataLoader(Images(Compose([noise, slow(seconds)])), batch_size)
    return ss.doctor(loader, lambda batch: sleep(batch, 0.004), device="cpu", budget=6)


@pytest.fixture
def report(stated_time):  # noqa: F811
    return run_doctor()


def test_what_if_predicts_the_rate_for_assumed_costs(report):
    predicted = report.what_if({"sleep": 10})
    assert predicted.description == "if 'sleep' took 10 ms a sample"
    assert predicted.predicted.value == pytest.approx(1 / (0.004 + 4 * 0.01), rel=0.05)
    assert predicted.gain.value == pytest.approx(predicted.predicted.value / report.rate.value)
    assert predicted not in report.advice and "10 ms" in str(predicted)
    both = report.what_if({"sleep": 0, "noise": 0})
    assert 3 * predicted.predicted.value < both.predicted.value < 1.01 / 0.004


def test_what_if_refuses_unknown_steps_and_times(report):
    with pytest.raises(ss.Refused, match="unknown host step 'sleeping'.*sleep"):
        report.what_if({"sleeping": 1})
    with pytest.raises(ss.Refused, match="cannot take less than 0 ms"):
        report.what_if({"sleep": -1})


def test_comparison_names_what_is_worse(report, tmp_path):
    report.to_json(tmp_path / "before.json")
    now = run_doctor(0.03)
    for baseline in (report, tmp_path / "before.json", str(tmp_path / "before.json")):
        comparison = now.compare(baseline)
        assert comparison.is_worse and {"rate", "sleep, ms a sample"} <= set(comparison.worse)
        assert "ceiling" not in comparison.worse and comparison.differences == []
        assert "WORSE" in comparison.text() and str(comparison) == comparison.text()
    assert not report.compare(now).is_worse, "it is better than the slower one"


def test_comparison_refuses_other_files_and_batch_sizes(report, tmp_path):
    other = tmp_path / "other.json"
    other.write_text("{}")
    with pytest.raises(ss.Refused, match="not a report of the doctor"):
        report.compare(other)
    with pytest.raises(ss.Refused, match="another batch size"):
        report.compare(run_doctor(batch_size=2))
    with pytest.raises(FileNotFoundError):
        report.compare(tmp_path / "missing.json")


def test_share_passes_or_fails(report):
    assert report.share.value == pytest.approx(report.rate.value / report.ceiling.value)
    assert report.judge_share(0.01) == "passes" and report.judge_share(0.9) == "fails"
    for wrong in (2, -0.1, float("nan"), "0.5", True):
        with pytest.raises(ss.Refused, match="from 0 to 1"):
            report.judge_share(wrong)


def test_single_process_has_no_rank(report, tmp_path):
    report.to_json(tmp_path / "report.json")
    assert (report.rank, report.slowest_rank) == (None, None)
    assert json.loads((tmp_path / "report.json").read_text())["ranks"] == [] and "rank" not in report.text()


def test_report_lists_all_ranks_and_names_the_slowest(report):
    def result(rank, rate, count=9):
        return _native.RankResult(rank, "read", report.ceiling, _native.Measured(rate, rate, rate, "steps/s", count))

    report._report.set_ranks(2, [result(0, 9.0), result(1, 5.0), result(2, 1.0, 0)])
    assert "This is rank 2 of 3. The slowest is rank 1, and all others wait for it: 5.00 [5.00, 5.00] steps/s, verdict read." \
        in report.text()
    ranks = json.loads(report._report.json())["ranks"]
    assert [(each["rank"], each["verdict"], each["rate"]["value"]) for each in ranks] == [(0, "read", 9), (1, "read", 5), (2, "read", None)]


def test_gain_without_a_useful_interval_is_not_stated():
    wide = _native.Measured(2, 0, 4.1, "", 3)
    assert str(ss.Advice("use 3 workers", "num_workers=3", wide, wide, False, "option")) == \
        "use 3 workers: gain not known (num_workers=3)"
