"""slipstream.verify: its arguments, its verdicts, and its behavior when a loop fails."""

import json
import re
import threading
import traceback
from pathlib import Path

import pytest
import torch
from torch import nn

import slipstream as ss
from slipstream._verify import execution, treatment

torch.set_num_threads(1)
ROOT = Path(__file__).resolve().parents[2]


def tiny(device="cpu", steps=2):
    """Returns the make_run of a correct loop."""

    def make_run():
        torch.manual_seed(0)
        model = nn.Linear(4, 2).to(device)
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        data = torch.randn(steps, 8, 4)

        def run():
            for batch in data:
                loss = model(batch.to(device)).square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                yield loss

        return run

    return make_run


def returning(*results):
    """Returns a make_run whose runs return these results in order, then the last one again."""
    left = list(results)

    def make_run():
        result = left.pop(0) if len(left) > 1 else left[0]
        return result if callable(result) else lambda: result

    return make_run


def test_a_correct_loop_passes_all_schedules(device):
    report = ss.verify(tiny(device), schedules=40)
    assert (report.passed, report.verdict, report.schedules) == (True, "equal", 40)
    assert report.operations > 20 and report.threads >= 1 and report.value is None
    assert str(report).startswith(f"verify: no difference in {report.values} values (40 schedules, ")
    report.raise_if_failed()


def test_weights_are_compared_where_the_run_returns_none(device):
    runs = []

    def make_run():
        model = nn.Linear(2, 1)
        runs.append(model)
        nn.init.constant_(model.weight, len(runs))
        model.to(device)

        def run():
            model.weight.data.mul_(2)

        return run

    report = ss.verify(make_run, schedules=1)
    assert (report.verdict, report.value) == ("not_repeatable", "model.state_dict()['weight']")


def test_a_loop_without_seeds_is_not_repeatable(device):
    def make_run():
        def run():
            return torch.randn(4, device=device).sin()

        return run

    report = ss.verify(make_run)
    assert (report.verdict, report.passed, report.schedules, report.seed) == ("not_repeatable", False, 0, None)
    assert report.operation.startswith("aten.randn") and re.search(r"verify_test.py:\d+ in run$", report.source)
    assert any("torch.manual_seed" in note for note in report.notes)
    with pytest.raises(ss.Error, match="different results each time"):
        report.raise_if_failed()


def test_a_reference_that_fails_once_is_not_repeatable():
    report = ss.verify(returning(1, lambda: fails("now and then")))
    assert (report.verdict, report.seed) == ("not_repeatable", None)
    assert report.reason.startswith("raised ValueError: now and then in one of two runs")
    assert isinstance(report.error, ValueError)


def test_rare_difference_without_overlap_is_not_a_race():
    seeds = iter([0, 0, 1, 1, 2])

    def make_run():
        torch.manual_seed(next(seeds))
        return lambda: torch.rand(2)

    report = ss.verify(make_run)
    assert (report.verdict, report.operation, report.seed) == ("not_repeatable", "aten.rand.default", None)


def test_report_is_shown_as_text_json_and_notebook_cell(tmp_path, capsys):
    report = ss.verify(returning(1, 1, 2, 1))
    report.show()
    text = capsys.readouterr().out
    assert "returned: a different value" in text and "slipstream.verify(make_run, seed=0, schedules=1)" in text
    report.to_json(tmp_path / "verify.json")
    written = json.loads((tmp_path / "verify.json").read_text())
    assert (written["schema"], written["verdict"], written["value"]) == ("slipstream.verify", "race", "returned")
    assert "<pre>verify: the results of this loop" in report._repr_html_()
    assert any("did not occur again" in note for note in report.notes)


def fails(what):
    raise ValueError(what)


def test_error_in_make_run_or_reference_run_is_raised():
    def make_run():
        return lambda: fails("in run")

    for broken, name in ((lambda: fails("in make_run"), "fails"), (make_run, "fails")):
        with pytest.raises(ValueError) as caught:
            ss.verify(broken)
        assert traceback.extract_tb(caught.value.__traceback__)[-1].name == name
    assert threading.Thread.start.__module__ == "threading"


def test_error_only_in_delayed_run_is_a_race():
    report = ss.verify(returning(1, 1, lambda: fails("too late")), timeout=60)
    assert (report.verdict, report.seed, report.value) == ("race", 0, None)
    assert report.reason.startswith("raised ValueError: too late")
    assert report.source.endswith(" in fails")
    assert traceback.extract_tb(report.error.__traceback__)[-1].name == "fails"
    with pytest.raises(ss.Error) as caught:
        report.raise_if_failed()
    assert caught.value.__cause__ is report.error


def hangs():
    threading.Event().wait()


def test_refusal_only_in_delayed_run_is_a_race():
    report = ss.verify(returning(1, 1, lambda: ss.Pipeline([], stages=5)))
    assert report.verdict == "race" and isinstance(report.error, ss.Refused)


def test_run_that_does_not_end_is_reported_as_hang():
    report = ss.verify(returning(1, 1, hangs), timeout=3)
    assert (report.verdict, report.seed) == ("hang", 0)
    assert "did not end within 3 s" in report.reason and report.source.endswith(" in hangs")
    with pytest.raises(ss.Error, match="longer timeout"):
        ss.verify(lambda: hangs, timeout=0.5)


def test_thread_still_alive_after_a_run_is_noted(monkeypatch):
    monkeypatch.setattr(execution, "_JOIN_S", 0.1)
    stop = threading.Event()

    def make_run():
        def run():
            threading.Thread(target=stop.wait, name="goes on", daemon=True).start()
            return 1

        return run

    report = ss.verify(make_run, schedules=1)
    stop.set()
    assert report.passed and report.notes == ("thread 'goes on' was still alive a second after a run",)


def test_a_generator_is_closed_when_its_values_are_refused():
    closed = []

    def make_run():
        def run():
            try:
                yield 1
                yield object()
            finally:
                closed.append(True)

        return run

    with pytest.raises(ss.Refused, match=r"yielded\[1\] is of type object"):
        ss.verify(make_run)
    assert closed == [True]


def test_verify_inside_verify_is_refused():
    def make_run():
        return lambda: ss.verify(tiny())

    with pytest.raises(ss.Refused, match="running already"):
        ss.verify(make_run)
    assert ss.verify(tiny(), schedules=1).passed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"make_run": None}, "make_run cannot be called"),
        ({"schedules": 0}, "schedules is 0"),
        ({"schedules": True}, "schedules is True"),
        ({"seed": -1}, "seed is -1"),
        ({"timeout": 0}, "timeout is 0"),
        ({"timeout": True}, "timeout is True"),
        ({"timeout": float("inf")}, "timeout is inf"),
        ({"make_run": lambda: nn.Linear(1, 1)}, "make_run\\(\\) returned Linear"),
        ({"make_run": lambda: 5}, "make_run\\(\\) returned int"),
        ({"make_run": lambda: lambda: None}, "nothing that can be compared"),
        ({"make_run": lambda: lambda: {"x": object()}}, r"returned\['x'\] is of type object"),
    ],
)
def test_invalid_verify_arguments_are_refused(arguments, message):
    with pytest.raises(ss.Refused, match=message):
        ss.verify(**{"make_run": tiny(), **arguments})


def test_torch_random_state_is_restored():
    torch.manual_seed(5)
    expected = torch.randn(2)
    torch.manual_seed(5)
    ss.verify(tiny(), schedules=1)
    assert torch.equal(torch.randn(2), expected)


def test_delay_is_named_if_no_operation_differs(monkeypatch):
    slept = []
    monkeypatch.setattr(treatment.time, "sleep", slept.append)

    def make_run():
        def run():
            late = []
            for number in range(20):
                slept.clear()
                torch.ones(1).sum()
                late += [number] if number == 7 and any(slept) else []
            return len(late)

        return run

    report = ss.verify(make_run, schedules=40)
    assert (report.verdict, report.value, report.notes) == ("race", "returned", ())
    assert re.search(r"operation 1[45] of thread 'main', on the host, causes the difference if it is", report.reason)
    assert report.source.endswith(" in run")


def test_compiled_functions_stay_compiled():
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    def make_run():
        torch.manual_seed(0)
        model = nn.Linear(4, 1)
        compiled = torch.compile(model, backend=backend)
        return lambda: (compiled(torch.ones(2, 4)), model)

    assert ss.verify(make_run, schedules=3).passed and graphs


def test_python_code_on_verify_page_runs():
    page = (ROOT / "docs" / "verify.md").read_text(encoding="utf-8")
    for block in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        space = {"device": "cuda" if torch.cuda.is_available() else "cpu"}
        exec(compile(block, "docs/verify.md", "exec"), space)
        assert space["report"].passed
