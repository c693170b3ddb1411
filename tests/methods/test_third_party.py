"""A method of another package, found by its entry point: one file and its metadata on the path."""

import json
import os
import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest
import zarr
from clusters import cluster_of
from locations import ROOT

import bigsmic
from bigsmic import registry
from bigsmic.errors import BigsmicWarning, InputError, OptionError
from bigsmic.result import Result
from bigsmic.settings import MethodSettings

X = np.random.default_rng(0).standard_normal((3000, 4)).astype(np.float32)
EXAMPLE = ROOT / "docs" / "examples" / "shells.py"


def install(folder, package="shells-pkg", **methods):
    """Metadata of a package that offers methods, as pip would have left it."""
    metadata = folder / f"{package.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = [f"{name} = {value}" for name, value in methods.items()]
    (metadata / "entry_points.txt").write_text("\n".join(["[bigsmic.methods]", *lines, ""]))


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A folder on the path of this process and of those that it starts."""
    folder = tmp_path / "packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', ROOT)}")
    yield folder
    for name in ("shells", "broken", "imposter"):
        sys.modules.pop(name, None)


@pytest.fixture
def shells(path):
    shutil.copy(EXAMPLE, path)
    install(path, shells="shells:Settings")
    return path


def wanted(c, power=2.0):
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    distances = np.linalg.norm(scaled, ord=power, axis=1)
    return np.searchsorted(np.quantile(distances, np.arange(1, c) / c), distances)


def test_it_fits_plans_predicts_and_opens(shells, tmp_path):
    assert set(bigsmic.plan(X, 3, method="shells").stages) == {"scan", "radii", "output"}
    result = bigsmic.fit(X, 3, method="shells", power=1.0, out=tmp_path / "run", n_threads=2)
    assert np.mean(result.labels == wanted(3, 1.0)) > 0.999  # float32 rows
    np.testing.assert_array_equal(result.predict(X[:50]), result.labels[:50])
    assert result.sizes.sum() == 3000
    opened = Result.open(tmp_path / "run")
    assert type(opened) is type(result)
    assert opened.settings == result.settings
    assert opened.settings.power == 1.0
    copied = pickle.loads(pickle.dumps(result))
    np.testing.assert_array_equal(copied.predict(X[:50]), result.labels[:50])


def test_it_resumes_and_leaves_nothing_temporary(shells, tmp_path):
    def stop(stage, done, total):
        if stage == "output":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bigsmic.fit(X, 3, method="shells", out=tmp_path / "run", progress=stop)
    assert (tmp_path / "run" / "sizes").exists()
    begun = []
    bigsmic.fit(X, 3, method="shells", out=tmp_path / "run", progress=lambda stage, *_: begun.append(stage))
    assert "scan" not in begun
    assert "output" in begun
    assert not (tmp_path / "run" / "sizes").exists()


def test_its_options_are_its_own(shells):
    with pytest.raises(InputError, match="power: got -1; use a positive number"):
        bigsmic.fit(X, 3, method="shells", power=-1)
    with pytest.raises(OptionError, match=r"shells: got unexpected option t= .*; it takes power=, scale=, seed="):
        bigsmic.fit(X, 3, method="shells", t=3)
    with pytest.raises(OptionError, match=r"smic: .*power= \(it is an option of method 'shells'\)"):
        bigsmic.fit(X, 3, power=2)
    with pytest.raises(InputError, match=r"method: got 'nope'; use one of smic, .*, shells"):
        bigsmic.fit(X, 3, method="nope")


def test_installed_packages_are_read_again_only_where_one_was_added(path, monkeypatch):
    reads, read = [], registry.entry_points
    monkeypatch.setattr(registry, "entry_points", lambda **options: reads.append(options) or read(**options))
    for _ in range(3):
        registry.settings("smic", 3, {})
        assert "shells" not in registry.names()
    assert len(reads) == 1
    install(path, shells="shells:Settings")
    assert "shells" in registry.names()
    assert len(reads) == 2


def command(*args):
    done = subprocess.run(
        [sys.executable, "-m", "bigsmic", *map(str, args)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.end_to_end
def test_it_is_on_the_command_line(shells, tmp_path):
    zarr.create_array(str(tmp_path / "X.zarr"), data=X, chunks=(500, 4))
    install(shells, "broken-pkg", broken="broken:Settings")  # which nobody asks for
    options = ("-c", 3, "--method", "shells", "--power", "1")
    shown = command("fit", "--help")
    assert "Method shells" in shown
    assert "Norm by which distance is measured." in shown
    planned = json.loads(command("plan", tmp_path / "X.zarr", *options, "--json"))
    assert set(planned["stages"]) == {"scan", "radii", "output"}
    found = json.loads(command("fit", tmp_path / "X.zarr", *options, "--out", tmp_path / "run", "--json"))
    labels = Result.open(tmp_path / "run").labels
    assert found["diagnostics"]["sizes"] == np.bincount(labels).tolist()
    assert np.mean(labels == wanted(3, 1.0)) > 0.999
    command("predict", tmp_path / "run", tmp_path / "X.zarr", "--out", tmp_path / "predicted")
    np.testing.assert_array_equal(zarr.open_group(str(tmp_path / "predicted"))["labels"][:], labels)


@pytest.mark.end_to_end
def test_it_runs_on_a_cluster(shells, tmp_path):
    alone = bigsmic.fit(X, 3, method="shells", client=False).labels
    with cluster_of(1) as client:
        found = bigsmic.fit(X, 3, method="shells", out=tmp_path / "run", client=client)
        np.testing.assert_array_equal(found.labels, alone)


# -- what is no method


def test_what_cannot_be_imported_breaks_nothing_else(path):
    (path / "broken.py").write_text("import no_such_module\n")
    install(path, "broken-pkg", broken="broken:Settings")
    assert "broken" in registry.names()
    assert "broken" not in registry.loadable()
    assert len(bigsmic.fit(X[:100], 2, method="mspc").labels) == 100
    message = r"'broken' of package broken-pkg \(broken:Settings\) cannot be loaded \(ModuleNotFoundError: .*no_such"
    with pytest.raises(InputError, match=message):
        bigsmic.fit(X, 2, method="broken")


def test_a_name_of_ours_is_ours(path):
    (path / "imposter.py").write_text("Settings = None\n")
    install(path, "imposter-pkg", mspc="imposter:Settings")
    assert registry.settings_of("mspc").__module__ == "bigsmic.settings.mspc"
    assert registry.names().count("mspc") == 1
    with pytest.warns(BigsmicWarning, match=r"'mspc' is bigsmic's own; that of package imposter-pkg .* is refused"):
        bigsmic.fit(X[:100], 2, method="mspc")


def test_a_name_of_two_packages_is_refused(shells):
    install(shells, "other-pkg", shells="other:Settings")
    with pytest.raises(InputError, match=r"'shells' is offered by package .* and package .*; uninstall one of them"):
        bigsmic.fit(X, 2, method="shells")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("Settings = 3", "3 is not a dataclass derived from bigsmic.settings.MethodSettings"),
        ("class Settings(MethodSettings): method = 'imposter'", "is not a dataclass derived from"),
        ("@dataclass\nclass Settings(MethodSettings): method = 'other'", "its settings belong to a method 'other'"),
        ("@dataclass\nclass Settings(MethodSettings): method = 'imposter'", "its settings have no field n_clusters"),
        (
            "@dataclass\nclass Settings(MethodSettings):\n    method = 'imposter'\n    n_clusters: int = 2\n"
            "    out: int = option(1, INTEGER, help='A.')",
            "its option out is a parameter of every fit",
        ),
        (
            "@dataclass\nclass Settings(MethodSettings):\n    method = 'imposter'\n    n_clusters: int = 2\n"
            "def plan(): pass",
            "'imposter' lacks run, summary, model, Result in module imposter",
        ),
    ],
)
def test_what_is_no_method_is_refused(path, code, message):
    head = "from dataclasses import dataclass\nfrom bigsmic.settings import INTEGER, MethodSettings, option\n"
    (path / "imposter.py").write_text(head + code)
    install(path, "imposter-pkg", imposter="imposter:Settings")
    with pytest.raises(InputError, match=message):
        bigsmic.fit(X, 2, method="imposter")


def test_settings_of_a_package_may_derive_from_ours_without_its_module():
    class Derived(registry.settings_of("rim")):
        method = "derived"

    assert issubclass(Derived, MethodSettings)
    assert registry.of(Derived).__name__ == __name__
