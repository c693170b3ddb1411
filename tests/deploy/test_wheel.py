"""What is released works without the repository."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from locations import ROOT

pytestmark = pytest.mark.slow


def run(*command, folder, **env):
    """Run a command in a folder, with nothing of the repository to be found; its standard output."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [*map(str, command)], cwd=folder, env=clean | env, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """What ``python -m build`` makes: a wheel out of a source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT, folder=folder)
    return folder


def test_distributions_have_what_they_need(dist):
    (wheel,), (source,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {"bigsmic/__init__.py", "bigsmic/__init__.pyi", "bigsmic/py.typed"} <= set(names)
    assert {name.split("/")[0] for name in names} == {"bigsmic", f"{source.name.removesuffix('.tar.gz')}.dist-info"}
    with tarfile.open(source) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "CITATION.cff",
        "tests/deploy/test_wheel.py",
        "docs/conf.py",
    } <= packed


def test_wheel_runs_the_demo_in_a_fresh_environment(dist, tmp_path):
    run(sys.executable, "-m", "venv", tmp_path / "venv", folder=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    (wheel,) = dist.glob("*.whl")
    run(python, "-m", "pip", "install", "--quiet", wheel, folder=tmp_path)
    where = run(python, "-c", "import bigsmic; print(bigsmic.__file__)", folder=tmp_path)
    assert Path(where.strip()).is_relative_to(tmp_path)
    shown = run(python.with_name("bigsmic"), "demo", "--spikes", 3000, "--units", 4, folder=tmp_path)
    assert "Adjusted Rand index" in shown
