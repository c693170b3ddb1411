"""bigsmic as a clustering method of SpikeInterface: what it writes, runs and returns; and both environments at work."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from locations import ROOT

import bigsmic
from bigsmic.interop import spikeinterface_clustering as clustering

MODULE = Path(clustering.__file__)
COMMAND = ["env", f"PYTHONPATH={Path(bigsmic.__file__).parents[1]}", sys.executable, "-m", "bigsmic"]


def test_it_imports_neither_zarr_nor_bigsmic(tmp_path):
    (tmp_path / "copied.py").write_text(MODULE.read_text())
    code = "import sys, copied; print([name for name in ('zarr', 'bigsmic', 'spikeinterface') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_channels_are_cut_along_the_probe():
    locations = np.stack([np.tile([0.0, 20.0], 10), np.repeat(np.arange(10.0), 2) * 20], axis=1)[::-1]
    groups = clustering.channel_groups(locations, 8)
    assert sorted(np.concatenate(groups).tolist()) == list(range(20))
    assert [len(group) for group in groups] == [7, 7, 6]
    depths = [locations[group, 1] for group in groups]
    assert all(low.max() <= high.min() for low, high in itertools.pairwise(depths))
    assert [group.tolist() for group in clustering.channel_groups(locations[:3], 8)] == [[0, 1, 2]]


def test_features_are_aligned_on_the_channels_that_peaks_reach(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    mask = abs(np.subtract.outer(np.arange(6), np.arange(6))) <= 1
    channels = rng.integers(0, 4, 50)
    dense = rng.normal(size=(50, 2, 6)).astype("f4") * mask[channels][:, None, :]
    sparse = np.zeros((50, 2, 3), "f4")
    for i, channel in enumerate(channels):
        sparse[i, :, : mask[channel].sum()] = dense[i][:, mask[channel]]
    rows = np.flatnonzero(channels < 3)
    monkeypatch.setattr(clustering, "BLOCK_BYTES", 500)
    clustering.write_features(tmp_path / "X.npy", sparse, channels, rows, mask)
    assert np.array_equal(np.load(tmp_path / "X.npy"), dense[rows][:, :, :4].reshape(len(rows), 8))


def test_small_clusters_are_none():
    assert clustering.without_small(np.array([0, 0, 1, 2, 2, -1]), 2).tolist() == [0, 0, -1, 2, 2, -1]


def test_a_command_that_is_not_there_says_what_to_install():
    with pytest.raises(FileNotFoundError, match=r"'no-such-bigsmic' does not exist.*-m venv DIR .*'command': 'DIR/bin"):
        clustering._found("no-such-bigsmic")


def params(**given):
    return clustering.BigsmicClustering._default_params | {"command": COMMAND, "verbose": False} | given


def runner(folder, **given):
    return clustering._Runner(clustering._found(COMMAND), folder, params(options=["--threads", "1"], **given))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"min_cluster_sise": 5}, r"method_kwargs: got \['min_cluster_sise'\]; bigsmic has \['command', "),
        ({"options": "--threads 1"}, r"options: got '--threads 1'; give a list of words"),
        ({"options": ["--rows", ":50"]}, r"options: got \['--rows'\], which the method gives itself"),
        ({"options": ["--out=x.zarr"]}, r"options: got \['--out=x.zarr'\], which the method gives itself"),
        ({"max_channels": 0}, "max_channels: got 0; give an integer of at least 1"),
        ({"min_cluster_size": "few"}, "min_cluster_size: got 'few'; give an integer of at least 0"),
        ({"seed": None}, "seed: got None; give an integer"),
        ({"noise": "off"}, "noise: got 'off'; give True or False"),
        ({"peaks_svd": None}, "peaks_svd: got None; give a dict"),
        ({"peaks_svd": {"motion_aware": True}}, "motion_aware=True, which moves peaks"),
        ({"merge_from_templates": False}, "merge_from_templates: got False; give a dict, or None"),
        ({"command": []}, "command: got no words"),
    ],
)
def test_parameters_are_refused_before_features_are_extracted(monkeypatch, given, message):
    monkeypatch.setattr(clustering, "_features", None)
    with pytest.raises(ValueError, match=message):
        clustering.BigsmicClustering.main_function(None, np.zeros(9), params(**given))


def test_no_peaks_have_no_clusters(monkeypatch):
    monkeypatch.setattr(clustering, "_features", None)
    found, labels, more = clustering.BigsmicClustering.main_function(None, np.zeros(0), params())
    assert (found.tolist(), labels.tolist(), more["groups"]) == ([], [], [])
    assert labels.dtype == np.int64


def test_a_command_that_is_another_program_is_named(tmp_path):
    with pytest.raises(RuntimeError, match=r"printed no JSON: 'fit .*is .*echo that of bigsmic\?"):
        clustering._Runner(clustering._found("echo"), tmp_path, params())._run("fit", "X.npy")


def test_a_command_has_this_environment_but_for_its_libraries(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    code = "import json, os; print(json.dumps([os.environ.get(name) for name in ('PYTHONPATH', 'OMP_NUM_THREADS')]))"
    assert clustering._Runner([sys.executable, "-c", code], tmp_path, params())._run("fit") == [None, "3"]


def test_paths_are_never_taken_for_options(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert clustering._Runner([], Path("-peaks"), params()).folder == tmp_path / "-peaks"


@pytest.fixture
def clouds(tmp_path):
    """Three clouds of two hundred rows in a file, and which is whose."""
    rng, truth = np.random.default_rng(0), np.repeat(np.arange(3), 200)
    np.save(tmp_path / "X.npy", (rng.normal(size=(600, 4)) + 9 * np.eye(3, 4)[truth]).astype("f4"))
    return tmp_path / "X.npy", truth


@pytest.mark.end_to_end
def test_labels_come_from_a_command_that_finds_the_number(clouds):
    path, truth = clouds
    labels, fact = runner(path.parent).labels(path)
    assert fact["n_clusters"] == 3
    assert fact["sentence"].startswith("The data show 3 groups")
    assert len({*zip(labels.tolist(), truth.tolist(), strict=True)}) == 3
    again, _ = runner(path.parent).labels(path)
    assert np.array_equal(again, labels)


@pytest.mark.end_to_end
def test_peaks_that_nothing_parts_are_one_cluster(tmp_path):
    np.save(tmp_path / "X.npy", np.random.default_rng(2).normal(size=(300, 3)).astype("f4"))
    labels, fact = runner(tmp_path).labels(tmp_path / "X.npy")
    assert (labels.tolist(), fact["n_clusters"]) == ([0] * 300, 1)


@pytest.mark.end_to_end
def test_two_peaks_are_one_cluster(tmp_path):
    np.save(tmp_path / "X.npy", np.random.default_rng(2).normal(size=(2, 3)).astype("f4"))
    labels, fact = runner(tmp_path).labels(tmp_path / "X.npy")
    assert (labels.tolist(), fact) == ([0, 0], {"n_clusters": 1, "sentence": "Clusters: 1."})


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ([], 0),
        (["-c", "5"], 5),
        (["-c5"], 5),
        (["--clusters=5", "--threads", "1"], 5),
        (["--seed", "-3", "-c", "4", "--clusters", "5"], 5),
        (["--cluster", "5"], 0),
        (["-c", "many"], 0),
        (["-c"], 0),
    ],
)
def test_fewer_peaks_than_clusters_are_one_cluster(tmp_path, options, asked):
    assert clustering.asked_clusters(options) == asked
    np.save(tmp_path / "group3.npy", np.zeros((4, 3), "f4"))
    if asked:
        runner = clustering._Runner(["no-such"], tmp_path, params(options=options))
        with pytest.warns(UserWarning, match=r"group3: 4 peaks cannot be 5 clusters, as options asks for, and are one"):
            labels, fact = runner.labels(tmp_path / "group3.npy")
        assert (labels.tolist(), fact["n_clusters"]) == ([0] * 4, 1)


@pytest.mark.end_to_end
def test_a_folder_of_other_peaks_says_to_give_another(clouds):
    path, _ = clouds
    found, _ = runner(path.parent).labels(path)
    rows = np.load(path)
    np.save(path, rows[::2])
    with pytest.raises(
        RuntimeError, match=r"the folder has runs of other peaks or parameters, .* give another folder="
    ):
        runner(path.parent).labels(path)
    np.save(path, rows)
    again, _ = runner(path.parent).labels(path)
    assert np.array_equal(again, found)


@pytest.mark.end_to_end
def test_what_the_command_says_is_in_the_error(clouds):
    path, _ = clouds
    np.save(path, np.full((50, 3), np.nan, "f4"))
    with pytest.raises(
        RuntimeError, match=r"fit .*X\.npy .* ended with exit code 3: bigsmic: error: .*row 0, column 0"
    ):
        runner(path.parent).labels(path)


@pytest.mark.end_to_end
def test_clusters_of_groups_of_channels_are_told_apart(clouds, monkeypatch):
    """Peaks far apart on a probe are clustered by themselves, and those of a channel with few are in none."""
    path, truth = clouds
    rows = np.load(path)
    features = np.concatenate([rows, rows[:400], rows[:5]])[:, :, None]
    peaks = np.zeros(1005, [("channel_index", "i8"), ("sample_index", "i8")])
    peaks["channel_index"] = np.repeat([0, 1, 2], [600, 400, 5])

    class Recording:
        def get_channel_locations(self):
            return np.array([[0.0, 0.0], [0.0, 500.0], [0.0, 1000.0]])

    monkeypatch.setattr(clustering, "_features", lambda *args: (features, np.eye(3, dtype=bool), "model"))
    given = params(max_channels=1, merge_from_templates=None, options=["--threads", "1"])
    found, labels, more = clustering.BigsmicClustering.main_function(Recording(), peaks, given)
    assert found.tolist() == [0, 1, 2, 3, 4]
    assert (labels[1000:] == -1).all()
    assert len({*zip(labels[:600].tolist(), truth.tolist(), strict=True)}) == 3
    assert not set(labels[:600]) & set(labels[600:])
    assert [(group["channels"], group["peaks"], group["n_clusters"]) for group in more["groups"]] == [
        ([0], 600, 3),
        ([1], 400, 2),
    ]
    assert set(more) == {"svd_model", "peaks_svd", "peak_svd_sparse_mask", "groups"}


# -- both environments


def run(*command, folder):
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run([*map(str, command)], cwd=folder, env=clean, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_it_keeps_up_with_clusterings_of_spikeinterface(tmp_path):
    """Each library in an environment of its own; a recording of known spikes; SpikeInterface's own comparison."""
    for name, wanted in (("spikes", "spikeinterface[full]==0.105.*"), ("clusters", ROOT)):
        run(sys.executable, "-m", "venv", tmp_path / name, folder=tmp_path)
        run(tmp_path / name / "bin" / "pip", "install", "--quiet", wanted, folder=tmp_path)
    (tmp_path / "bigsmic_clustering.py").write_text(MODULE.read_text())
    script, command = ROOT / "benchmarks" / "spikeinterface_clusterings.py", tmp_path / "clusters" / "bin" / "bigsmic"
    where = [
        "--channels",
        32,
        "--units",
        20,
        "--seconds",
        60,
        "--methods",
        "bigsmic,random-projections,iterative-hdbscan",
    ]
    python = tmp_path / "spikes" / "bin" / "python"
    shown = run(python, "-W", "ignore", script, "bigsmic_clustering.py", "--command", command, *where, folder=tmp_path)
    found = {
        line["method"]: line for line in map(json.loads, filter(lambda text: text.startswith("{"), shown.splitlines()))
    }
    ours = found.pop("bigsmic")
    assert ours["well_detected"] >= 0.8 * max(line["well_detected"] for line in found.values())
    assert ours["accuracy"] >= min(line["accuracy"] for line in found.values())
    assert ours["false_positive"] <= 2
