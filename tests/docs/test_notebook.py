"""Notebooks run from the first cell to the last, and are stored without what they print."""

from pathlib import Path

import nbformat
import pytest
from locations import ROOT

import bigsmic

NOTEBOOKS = {path.stem: path for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))}


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_no_output_is_stored(name):
    cells = [cell for cell in nbformat.read(NOTEBOOKS[name], as_version=4).cells if cell.cell_type == "code"]
    assert [cell.id for cell in cells if cell.outputs or cell.execution_count is not None] == []


def executed(name, folder, monkeypatch):
    """The notebook with what its cells print, run in a folder."""
    from ipykernel.kernelspec import write_kernel_spec
    from nbclient import NotebookClient

    # a kernel of this interpreter, whatever kernels the machine has; nothing is read from or written to the home folder
    write_kernel_spec(folder / "kernels" / "python3")
    for variable, place in {"JUPYTER_PATH": "", "JUPYTER_RUNTIME_DIR": "runtime", "IPYTHONDIR": "ipython"}.items():
        monkeypatch.setenv(variable, str(folder / place))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.setenv("PYTHONPATH", str(Path(bigsmic.__file__).parents[1]))
    notebook = nbformat.read(NOTEBOOKS[name], as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
    return notebook


def pictures(notebook):
    """Cells that show a picture."""
    return [cell for cell in notebook.cells if any("image/png" in str(output) for output in cell.get("outputs", []))]


def test_quickstart_runs(tmp_path, monkeypatch):
    assert len(pictures(executed("quickstart", tmp_path, monkeypatch))) > 4


@pytest.mark.slow
def test_anndata_and_xarray_run(tmp_path, monkeypatch):
    pytest.importorskip("scanpy", reason="the notebook sets bigsmic beside scanpy's Leiden: pip install scanpy igraph")
    monkeypatch.setenv("BIGSMIC_NOTEBOOK_ROWS", "2000")
    notebook = executed("anndata_xarray", tmp_path, monkeypatch)
    assert len(pictures(notebook)) == 2
    said = [
        output.data["text/plain"] for cell in notebook.cells for output in cell.get("outputs", []) if "data" in output
    ]
    assert any("The data show 9 groups" in text for text in said)
    assert "True" in said
