"""Two processes that train with DDP, FSDP2, Accelerate, Lightning or Hugging Face's Trainer have the bits of plain
loops. distributed_program.py compares them in each process."""

from pathlib import Path

import pytest
from forked import FORKS, IMPORTED, run_script

PROGRAM = Path(__file__).with_name("distributed_program.py")
PACKAGES = ["accelerate", "lightning", "transformers"]
FORKS.set_forkserver_preload([*IMPORTED, "torch.distributed.checkpoint", *PACKAGES])


@pytest.mark.parametrize("part", ["ddp", "fsdp2", *PACKAGES])
def test_two_processes_have_bits_of_plain_loops(photos, tmp_path, part):
    if part in PACKAGES:
        pytest.importorskip(part)
    assert f"{part} has equal bits" in run_script(PROGRAM, [part, tmp_path, photos], tmp_path / "logs", 2)
