"""The commands `slipstream features`."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from feature_store_test import KEY, make_batch, open_store
from safetensors.torch import load_file


def run_program(*words, code=0):
    """Runs `python -m slipstream features ...` and returns its output."""
    done = subprocess.run([sys.executable, "-m", "slipstream", "features", *map(str, words)], capture_output=True,
                          text=True, timeout=300)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def fill(folder, keys=1):
    for number in range(keys):
        store = open_store(folder, KEY | {"weights": f"{number:04}"})
        store.write(*make_batch(3, 2, version=1))
        store.write(*make_batch(0, 4, version=0))
        store.close()


def test_inspect_lists_keys_and_what_they_depend_on(tmp_path):
    fill(tmp_path, keys=2)
    shown = run_program("inspect", tmp_path, "--json", tmp_path.parent / "keys.json")
    assert "2 keys" in shown
    assert "6 records of 32 bytes" in shown
    assert "transforms: Resize(32)" in shown and "weights: 0001" in shown
    assert "x: bfloat16 [3, 4], label: int64 []" in shown
    keys = json.loads((tmp_path.parent / "keys.json").read_text())
    assert sorted(key["manifest"]["key"]["weights"] for key in keys) == ["0000", "0001"]
    assert all(key["records"] == 6 for key in keys)
    assert "0 keys" in run_program("inspect", tmp_path.parent)
    assert "No such file" in run_program("inspect", tmp_path / "none", code=2)


def test_prune_removes_selected_keys(tmp_path):
    fill(tmp_path, keys=3)
    names = sorted(path.name for path in tmp_path.iterdir() if path.name != ".lock")
    assert "say what to remove" in run_program("prune", tmp_path, code=2)
    assert "is not a size" in run_program("prune", tmp_path, "--to", "much", code=2)
    run_program("prune", tmp_path, "--older-than", "1", "--to", "1G")
    assert len(list(tmp_path.iterdir())) == 4
    assert f"removed {names[0]}" in run_program("prune", tmp_path, "--key", names[0][:8])
    store = open_store(tmp_path, KEY | {"weights": "0001"})
    kept = run_program("prune", tmp_path, "--older-than", "0", code=3)
    assert "a process uses it" in kept
    store.close()
    run_program("prune", tmp_path, "--to", "1")
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_exported_npy_files_are_ordered_by_sample(tmp_path):
    fill(tmp_path / "features")
    out = tmp_path / "out"
    assert "6 records" in run_program("export", tmp_path / "features", "--out", out)
    assert np.load(out / "sample_index.npy").tolist() == [0, 1, 2, 3, 3, 4]
    assert np.load(out / "sample_version.npy").tolist() == [0, 0, 0, 0, 1, 1]
    assert np.load(out / "label.npy").tolist() == [0, 1, 2, 3, 3, 4]
    features = np.load(out / "x.npy")
    assert features.dtype == np.float32 and features.shape == (6, 3, 4)
    assert features[:, 2, 3].tolist() == [0, 1, 2, 3, 3, 4]


def test_exported_safetensors_file_is_read_by_its_library(tmp_path):
    fill(tmp_path / "features")
    run_program("export", tmp_path / "features", "--out", tmp_path / "out.safetensors", "--to", "safetensors")
    tensors = load_file(tmp_path / "out.safetensors")
    assert set(tensors) == {"x", "label", "sample_index", "sample_version"}
    assert tensors["x"].dtype == torch.bfloat16 and tensors["x"].shape == (6, 3, 4)
    assert tensors["label"].tolist() == [0, 1, 2, 3, 3, 4]


def test_export_of_one_of_several_keys_needs_its_name(tmp_path):
    fill(tmp_path / "features", keys=2)
    out = tmp_path / "out"
    refused = run_program("export", tmp_path / "features", "--out", out, code=2)
    names = sorted(path.name for path in (tmp_path / "features").iterdir() if path.name != ".lock")
    assert all(name in refused for name in names) and "--key" in refused
    run_program("export", tmp_path / "features", "--out", out, "--key", names[1])
    assert "did you mean" in run_program("export", tmp_path, "--out", out, "--to", "npz", code=2)
    assert not (tmp_path / "npz").exists()


def test_commands_of_the_guide_run(tmp_path, monkeypatch):
    page = (Path(__file__).resolve().parents[2] / "docs" / "feature-files.md").read_text("utf-8")
    commands = [line.split()[2:] for line in page.splitlines() if line.startswith("slipstream features ")]
    assert {command[0] for command in commands} == {"inspect", "prune", "export"}
    monkeypatch.chdir(tmp_path)
    for words in commands:
        fill(tmp_path / "features")
        [name] = [path.name for path in (tmp_path / "features").iterdir() if path.name != ".lock"]
        run_program(*(name[:4] if word == "8a5b" else word for word in words))
