"""Where slipstream.doctor finds that a step waits for the device."""

import warnings

import pytest
import torch

import slipstream as ss
from slipstream._doctor.levels import finding_waits


@pytest.fixture
def modes(monkeypatch):
    """Stands in for CUDA: PyTorch warns of a synchronizing call, and that the mode is a prototype."""
    set_modes = []

    def set_mode(mode):
        set_modes.append(mode)
        warnings.warn("Synchronization debug mode is a prototype feature and does not yet detect all synchronizing operations")

    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: 0)
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", set_mode)
    return set_modes


def make_scalar():
    """Returns an object whose item() warns in a file of PyTorch, as methods of tensors do that are written in Python."""
    code = "import warnings\nclass Scalar:\n  def item(self):\n    warnings.warn('called a synchronizing CUDA operation')"
    names = {}
    exec(compile(code, torch.__file__, "exec"), names)
    return names["Scalar"]()


@pytest.fixture(params=["always", "error"])
def shown(request):
    """Returns a list of the warnings that are shown, which must stay empty. With "error", as with -W error, a warning
    is raised instead."""
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter(request.param)
        yield shown
    assert not [str(each.message) for each in shown]


def test_waits_are_named_with_file_line_and_call(modes, shown):
    show, scalar = warnings.showwarning, make_scalar()
    with finding_waits(True) as waits:
        for _ in range(2):
            scalar.item()
        warn_in_own_code()
    first, second = waits
    assert first.startswith("doctor_waits_test.py:") and first.endswith(" (.item())")
    assert second == f"doctor_waits_test.py:{warn_in_own_code.__code__.co_firstlineno + 1} (warnings.warn(\"called a synchronizing CUDA operation\"))"
    assert modes == ["warn", 0] and warnings.showwarning is show


def warn_in_own_code():
    warnings.warn("called a synchronizing CUDA operation")


def test_step_that_does_not_wait_is_not_named(modes, shown):
    with finding_waits(True) as waits:
        torch.ones(3).sum().item()
    assert waits == []
    with pytest.warns(UserWarning, match="called a synchronizing"), finding_waits(False) as waits:
        warn_in_own_code()
    assert waits == [] and modes == ["warn", 0]


def test_mode_is_restored_after_an_error(modes, shown):
    show = warnings.showwarning
    with pytest.raises(KeyError), finding_waits(True):
        raise KeyError
    assert modes == ["warn", 0] and warnings.showwarning is show


def test_other_warnings_of_the_step_are_shown(modes):
    with pytest.warns(UserWarning, match="another prototype feature"), finding_waits(True) as waits:
        warnings.warn("another prototype feature")
    assert waits == []


@pytest.mark.parametrize("waits", [False, True])
def test_report_names_the_line_of_a_step_that_waits(device, waits):
    if device == "cpu":
        pytest.skip("only a GPU is waited for")
    model = torch.nn.Linear(64, 2).to(device)
    loader = torch.utils.data.DataLoader([torch.ones(64) for _ in range(64)], 8)

    def step(batch):
        loss = model(batch.to(device)).sum()
        loss.backward()
        return loss.item() if waits else None

    text = ss.doctor(loader, step, device=device, budget=3).text()
    line = step.__code__.co_firstlineno + 3
    assert (f"the step waits for the device in doctor_waits_test.py:{line} (.item())" in text) == waits
    assert ("waits for the device in" in text) == waits
