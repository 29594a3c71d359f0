"""All cells of examples/python/first_steps.ipynb run, and the file contains no outputs."""

from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "python" / "first_steps.ipynb"


def test_first_steps_notebook_runs(tmp_path, monkeypatch):
    for package in ("ipykernel", "torchvision"):
        pytest.importorskip(package)
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in cells)
    nbclient.NotebookClient(notebook, timeout=200, kernel_name="python3",
                            resources={"metadata": {"path": str(tmp_path)}}).execute()
    said = [str(output) for cell in cells for output in cell.outputs]
    assert "equal to the last bit" in said[-1]
    assert any("<iframe srcdoc=" in output for output in said)  # the doctor's report page
