"""Notebooks run from the first cell to the last, with few rows, and are stored without what they print."""

from pathlib import Path

import nbformat
import pytest
from locations import ROOT

import bigsmic

NOTEBOOKS = {path.stem: path for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))}
PICTURES = {"clusters-of-machines": 2, "links": 1, "nights": 2, "tetrodes": 6, "unknown-c": 2}
"""Those that are run alike, each within a minute on two processors, and how many pictures they show."""


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_no_output_is_stored(name):
    cells = [cell for cell in nbformat.read(NOTEBOOKS[name], as_version=4).cells if cell.cell_type == "code"]
    assert [cell.id for cell in cells if cell.outputs or cell.execution_count is not None] == []


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_it_is_in_the_gallery(name):
    gallery = (ROOT / "docs" / "gallery.md").read_text()
    assert f"notebooks/{name}.ipynb" in gallery
    assert f"\nnotebooks/{name}\n" in gallery
    assert f"_static/gallery/{name}.png" in gallery
    assert (ROOT / "docs" / "_static" / "gallery" / f"{name}.png").stat().st_size < 150_000


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
    monkeypatch.setenv("BIGSMIC_NOTEBOOK_ROWS", "2000")
    notebook = nbformat.read(NOTEBOOKS[name], as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
    return notebook


def pictures(notebook):
    """Cells that show a picture."""
    return [cell for cell in notebook.cells if any("image/png" in str(output) for output in cell.get("outputs", []))]


@pytest.mark.end_to_end
def test_quickstart_runs(tmp_path, monkeypatch):
    assert len(pictures(executed("quickstart", tmp_path, monkeypatch))) > 5


@pytest.mark.slow
@pytest.mark.parametrize("name", PICTURES)
def test_it_runs(name, tmp_path, monkeypatch):
    assert len(pictures(executed(name, tmp_path, monkeypatch))) == PICTURES[name]


@pytest.mark.slow
def test_anndata_and_xarray_run(tmp_path, monkeypatch):
    pytest.importorskip("scanpy", reason="the notebook sets bigsmic beside scanpy's Leiden: pip install scanpy igraph")
    notebook = executed("anndata_xarray", tmp_path, monkeypatch)
    assert len(pictures(notebook)) == 2
    said = [
        output.data["text/plain"] for cell in notebook.cells for output in cell.get("outputs", []) if "data" in output
    ]
    assert any("The data show 9 groups" in text for text in said)
    assert "True" in said
