"""slipstream.doctor in two processes that train together. doctor_ranks_program.py runs in each of them."""

from pathlib import Path

import pytest
from forked import run_script

PROGRAM = Path(__file__).with_name("doctor_ranks_program.py")


@pytest.mark.parametrize("part", ["slowest", "refusal", "failure"])
def test_two_processes_examine_their_own_input(tmp_path, part):
    assert f"{part} passed" in run_script(PROGRAM, [part], tmp_path / "logs", 2)
