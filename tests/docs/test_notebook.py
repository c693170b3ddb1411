"""The notebook runs from its first cell to its last, and is stored without what it prints."""

from pathlib import Path

import nbformat
import pytest
from locations import ROOT

import bigsmic

NOTEBOOK = ROOT / "docs" / "notebooks" / "quickstart.ipynb"


@pytest.fixture
def notebook():
    return nbformat.read(NOTEBOOK, as_version=4)


def test_no_output_is_stored(notebook):
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.id for cell in cells if cell.outputs or cell.execution_count is not None] == []


def test_it_runs(notebook, tmp_path, monkeypatch):
    from ipykernel.kernelspec import write_kernel_spec

    # a kernel of this interpreter, whatever kernels the machine has; nothing is read from or written to the home folder
    write_kernel_spec(tmp_path / "kernels" / "python3")
    for name, folder in {"JUPYTER_PATH": "", "JUPYTER_RUNTIME_DIR": "runtime", "IPYTHONDIR": "ipython"}.items():
        monkeypatch.setenv(name, str(tmp_path / folder))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.setenv("PYTHONPATH", str(Path(bigsmic.__file__).parents[1]))

    from nbclient import NotebookClient

    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    pictures = [
        cell for cell in notebook.cells if any("image/png" in str(output) for output in cell.get("outputs", []))
    ]
    assert len(pictures) > 4
