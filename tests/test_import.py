import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from locations import ROOT

import bigsmic


def test_every_public_name_is_there():
    assert [name for name in bigsmic.__all__ if getattr(bigsmic, name, None) is None] == []
    assert set(bigsmic.__all__) <= set(dir(bigsmic))


def test_unknown_name():
    with pytest.raises(AttributeError, match="No bigsmic attribute kmeans"):
        _ = bigsmic.kmeans


def test_version_is_that_of_the_distribution():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == bigsmic.__version__


def test_the_package_says_that_it_is_typed():
    assert Path(bigsmic.__file__).with_name("py.typed").exists()


def test_import_is_quick():
    command = [sys.executable, "-X", "importtime", "-W", "error", "-c", "import bigsmic"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    _, cumulative, module = done.stderr.splitlines()[-1].split("|")
    assert module.strip() == "bigsmic"
    assert int(cumulative) < 300_000  # microseconds; a fifteenth of it where nothing else runs


def test_a_fit_loads_nothing_that_it_does_not_need():
    """What takes as long to load as all the rest: modules that one function of them was wanted from."""
    heavy = ("sklearn", "pandas", "distributed", "scipy.stats", "scipy.spatial", "scipy.optimize", "xarray", "anndata")
    modules = "bigsmic.pipeline, bigsmic.methods.smic.method, bigsmic.interop.anndata, bigsmic.labelled"
    command = f"import sys, {modules}; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
