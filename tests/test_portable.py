"""What a pickle takes along of a fit: enough for the same predictions, no more than is read, and no secret."""

import copy
import errno
import gc
import os
import pickle
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from killed import interrupted_while_zarr_writes
from sklearn.neighbors import kneighbors_graph

import bigsmic
from bigsmic import portable
from bigsmic.errors import CorruptBlockError, RunError, StorageError
from bigsmic.store import CarriedRun, Run
from bigsmic.store.objects import LocalBytes

pytestmark = pytest.mark.filterwarnings("ignore:c .n_clusters.. got 2, but the data show")

METHODS = {
    "smic": {"t": (3, 5), "widths": (1.5, 2), "n_centers": 40},
    "paper": {"preset": "paper", "t": (3,), "n_centers": 40},
    "medoid": {"t": (3, 5), "widths": (1.5, 2), "n_centers": 40, "selection": "medoid"},
    "3smic": {"method": "3smic", "t": 5, "n_centers": 40, "must_links": [[0, 1]]},
    "links": {"method": "3smic", "t": (3, 5), "n_centers": 40, "selection": "links"},
    "rim": {"method": "rim"},
    "kernel_rim": {"method": "kernel_rim", "n_components": 64},
    "fourier": {"method": "kernel_rim", "n_components": 64, "approximation": "fourier"},
    "on_graph": {"method": "kernel_rim", "kernel": "local_scaling"},
    "mic": {"method": "mic", "t": (5, 7), "n_centers": 40},
    "mspc": {"method": "mspc"},
    "dense": {"method": "mwca", "n_starts": 2},
    "spectral": {"method": "mwca", "kernel": "local_scaling", "solver": "spectral"},
}
SMALL = {"consensus", "scores", "eigenvector_sets", "kept", "spectrum", "final", "evidence", "valleys", "number"}
"""Stages of a few numbers, and the labels of row blocks, which only rows without mass ask for."""


def fit(X, name, **options):
    return bigsmic.fit(X, 2, n_threads=1, **METHODS[name] | options)


@pytest.fixture(scope="module")
def results(blobs):
    """A temporary result of every method, on rows cut into several blocks."""
    from small_fits import cut_small

    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        yield {name: fit(blobs[0], name) for name in METHODS}


@pytest.mark.parametrize("name", METHODS)
def test_a_pickle_predicts_the_same_bits(name, results, blobs):
    result, X = results[name], blobs[0]
    loaded = pickle.loads(pickle.dumps(result))
    np.testing.assert_array_equal(loaded.predict_proba(X), result.predict_proba(X))
    np.testing.assert_array_equal(loaded.labels, result.labels)
    np.testing.assert_array_equal(loaded.posterior[:], result.posterior[:])
    assert loaded.settings == result.settings
    assert loaded.diagnostics == result.diagnostics
    assert repr(loaded).splitlines()[:-1] == repr(result).splitlines()[:-1]
    again = pickle.loads(pickle.dumps(loaded))
    np.testing.assert_array_equal(again.predict(X), result.predict(X))
    assert pickle.dumps(result) == pickle.dumps(result)
    assert pickle.dumps(again) == pickle.dumps(pickle.loads(pickle.dumps(again)))


@pytest.mark.parametrize("name", METHODS)
def test_what_is_taken_along_is_what_predictions_read(name, results, blobs, monkeypatch):
    loaded, read = pickle.loads(pickle.dumps(results[name])), set()
    original = Run._read_part

    def spec(run, stage, block, array, *rest):
        read.add((stage, array))
        return original(run, stage, block, array, *rest)

    monkeypatch.setattr(Run, "_read_part", spec)
    loaded.predict(blobs[0])
    run, wanted = results[name]._run, portable.needed(results[name]._context)
    entries = [(stage, run.entry(stage, block)["arrays"]) for stage, block in run.blocks() if stage in wanted]
    taken = {(stage, a) for stage, arrays in entries for a in wanted[stage] or arrays if a in arrays}
    assert read <= taken
    assert {stage for stage, _ in taken - read if wanted[stage] != ()} <= SMALL


def test_a_copy_outlives_the_original(blobs):
    X = blobs[0]
    result = fit(X, "smic")
    wanted, place = result.predict_proba(X), result.location
    copies = [copy.copy(result), copy.deepcopy(result)]
    del result
    gc.collect()
    for made in copies:
        np.testing.assert_array_equal(made.predict_proba(X), wanted)
    del made, copies
    gc.collect()
    assert not os.path.exists(place)


def test_a_cut_travels(results, blobs):
    four = results["smic"].cut(4)
    loaded = pickle.loads(pickle.dumps(four))
    np.testing.assert_array_equal(loaded.predict_proba(blobs[0]), four.predict_proba(blobs[0]))
    np.testing.assert_array_equal(loaded.labels, four.labels)


def test_a_graph_travels(blobs):
    graph = kneighbors_graph(blobs[0], 10, mode="distance")
    result = fit(graph, "smic", metric="precomputed", t=(5,))
    loaded = pickle.loads(pickle.dumps(result))
    np.testing.assert_array_equal(loaded.predict_proba(graph[:50]), result.predict_proba(graph[:50]))


def test_labels_of_a_pickle_are_exported(blobs, tmp_path):
    result = fit(blobs[0], "smic")
    loaded = pickle.loads(pickle.dumps(result))
    np.testing.assert_array_equal(np.load(loaded.export(tmp_path / "labels.npy"))["label"], result.labels)


def test_a_single_cluster_travels(blobs):
    loaded = pickle.loads(pickle.dumps(bigsmic.fit(blobs[0], 1)))
    assert (loaded.predict(blobs[0]) == 0).all()


def test_a_number_left_open_has_its_curve_when_it_was_saved(blobs, tmp_path):
    result = bigsmic.fit(blobs[0], None, t=(5,), widths=(1, 1.5), n_centers=40, n_threads=1)
    with pytest.raises(RunError, match=r"is missing from .*: a pickle contains what predictions need"):
        pickle.loads(pickle.dumps(result)).cut(3)
    saved = result.save(tmp_path / "run")
    np.testing.assert_array_equal(saved.cut(3).labels, result.cut(3).labels)


@pytest.mark.parametrize("name", ["smic", "rim"])
def test_what_was_left_behind_is_named(name, results):
    loaded = pickle.loads(pickle.dumps(results[name]))
    if name == "rim":
        np.testing.assert_array_equal(loaded.path, results[name].path)
        np.testing.assert_array_equal(loaded.means, results[name].means)
        return
    with pytest.raises(RunError, match=r"is missing from the pickled part of.*give the fit out=.*result\.save"):
        loaded.cut(3)


def test_posterior_is_left_behind_where_there_is_no_room(results, blobs, monkeypatch):
    result = results["mspc"]
    monkeypatch.setattr(portable, "CARRIED_BYTES", 4 * 700 + 10_000)
    loaded = pickle.loads(pickle.dumps(result))
    np.testing.assert_array_equal(loaded.predict(blobs[0]), result.predict(blobs[0]))
    monkeypatch.setattr(portable, "CARRIED_BYTES", 4 * 700 + 2_500)
    loaded = pickle.loads(pickle.dumps(result))
    np.testing.assert_array_equal(loaded.predict(blobs[0]), result.predict(blobs[0]))
    with pytest.raises(RunError, match=r"'posterior' is missing from the pickled part of"):
        _ = loaded.posterior


def test_too_much_is_refused_by_its_size(results, monkeypatch):
    monkeypatch.setattr(portable, "CARRIED_BYTES", 1 << 10)
    with pytest.raises(RunError, match=r"predictions read [\d,]+ MiB of .*more than the 0 MiB.*out=.*result.save"):
        pickle.dumps(results["smic"])


def test_what_is_damaged_is_not_taken_along(blobs):
    result = fit(blobs[0], "smic")
    for path in Path(result.location).glob("rows/*/X/c.0.0"):
        path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(CorruptBlockError, match=r"X of block 0 .* does not match its checksum"):
        pickle.dumps(result)


# -- runs that have a name


def test_a_named_run_is_pickled_as_its_name(blobs, tmp_path):
    X = blobs[0]
    result = fit(X, "smic", out=tmp_path / "run")
    written = pickle.dumps(result)
    assert len(written) < 4 * len(X) + 20_000
    loaded = pickle.loads(written)
    np.testing.assert_array_equal(loaded.predict_proba(X), result.predict_proba(X))
    assert loaded.location == str(tmp_path / "run")
    (tmp_path / "run").rename(tmp_path / "away")
    with pytest.raises(RunError, match=r"the run that the pickle names is not there, restore it: .*not a dir"):
        pickle.loads(written)
    fit(X[::-1], "smic", out=tmp_path / "run")
    with pytest.raises(RunError, match="run is not the run that was pickled, but another one"):
        pickle.loads(written)


def test_a_pickle_has_no_secret(blobs):
    X = blobs[0]
    made = fit(X, "smic", out="memory://secretive/run", storage_options={"key": "SECRET"})
    written = pickle.dumps(made)
    assert b"SECRET" not in written
    np.testing.assert_array_equal(pickle.loads(written).predict(X), made.predict(X))
    assert isinstance(pickle.loads(written)._run, CarriedRun)


# -- save


@pytest.mark.parametrize("name", ["smic", "rim", "dense"])
def test_a_saved_result_is_a_run(name, results, blobs, tmp_path):
    result, X = results[name], blobs[0]
    saved = result.save(tmp_path / "run")
    opened = bigsmic.Result.open(tmp_path / "run")
    for found in (saved, opened):
        np.testing.assert_array_equal(found.labels, result.labels)
        np.testing.assert_array_equal(found.posterior[:], result.posterior[:])
        np.testing.assert_array_equal(found.predict_proba(X), result.predict_proba(X))
        assert found.diagnostics == result.diagnostics
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("run/*/[0-9]*/zarr.json")}
    fit(X, name, out=tmp_path / "run")
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.glob("run/*/[0-9]*/zarr.json")}


def test_a_saved_cut_is_a_run(results, blobs, tmp_path):
    four = results["smic"].cut(4)
    saved = four.save(tmp_path / "run")
    assert saved.n_clusters == 4
    np.testing.assert_array_equal(saved.labels, four.labels)
    np.testing.assert_array_equal(saved.predict_proba(blobs[0]), four.predict_proba(blobs[0]))
    assert replace(saved.settings, seed=1) == replace(four.settings, seed=1)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(saved)).labels, four.labels)


def test_nothing_is_saved_over_what_is_there(results, tmp_path):
    (tmp_path / "thesis").write_text("mine")
    for there in (tmp_path, tmp_path / "thesis"):
        with pytest.raises(RunError, match="exists already, and nothing is overwritten; give another path"):
            results["mspc"].save(there)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis"]
    results["mspc"].save("memory://saved/run")
    with pytest.raises(RunError, match="is a run already, and nothing is overwritten"):
        results["mspc"].save("memory://saved/run")


def test_a_run_that_another_process_saved_in_the_meantime_stays(results, tmp_path, monkeypatch):
    saved = results["mspc"].save(tmp_path / "run")
    monkeypatch.setattr("bigsmic.portable.refuse_taken", lambda location: None)  # as if it was made after this look
    with pytest.raises(RunError, match="is a run already, and nothing is overwritten"):
        results["rim"].save(tmp_path / "run")
    np.testing.assert_array_equal(bigsmic.Result.open(tmp_path / "run").labels, saved.labels)


@pytest.mark.parametrize("place", ["disk", "store"])
def test_a_save_that_was_killed_is_finished_by_the_same_and_by_no_other(results, blobs, tmp_path, monkeypatch, place):
    path = tmp_path / "run" if place == "disk" else "memory://killed/run"
    cut, other, write, calls = results["smic"].cut(4), results["smic"].cut(3), Run.write, []

    def killed(self, *arguments, **options):
        calls.append(1)
        if len(calls) == 20:
            raise KeyboardInterrupt
        return write(self, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "write", killed)
        patch.setattr("bigsmic.portable.remove_unfinished", lambda path: None)  # which a killed process does not do
        with pytest.raises(KeyboardInterrupt):
            cut.save(path)
    begun = Run(path, writable=False).id
    for result in (other, results["smic"], results["mspc"]):
        with pytest.raises(RunError, match="is a run already, and nothing is overwritten"):
            result.save(path)
    with pytest.raises(RunError, match="is a saved cut at 4 clusters, which no fit resumes"):
        fit(blobs[0], "smic", out=path)
    saved = cut.save(path)
    assert saved._run.id == begun
    np.testing.assert_array_equal(saved.labels, cut.labels)
    np.testing.assert_array_equal(saved.posterior[:], cut.posterior[:])
    with pytest.raises(RunError, match="nothing is overwritten"):
        cut.save(path)


@pytest.mark.parametrize("file", ["zarr.json", "lease/zarr.json"])
def test_a_save_that_cannot_begin_leaves_nothing(results, tmp_path, monkeypatch, file):
    create = LocalBytes.create

    def full(self, key, *args):
        if key == file:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), key)
        return create(self, key, *args)

    with monkeypatch.context() as patch:
        patch.setattr(LocalBytes, "create", full)
        with pytest.raises(StorageError, match="no space left"):
            results["mspc"].save(tmp_path / "run")
    assert results["mspc"].save(tmp_path / "run").n_clusters == results["mspc"].n_clusters


@pytest.mark.parametrize("number", [0, 2, 4])
def test_a_save_that_is_interrupted_leaves_nothing(results, tmp_path, number):
    with interrupted_while_zarr_writes(number):
        results["mspc"].save(tmp_path / "run")
    time.sleep(0.6)  # what Zarr was writing would be there again
    assert list(tmp_path.iterdir()) == []
    np.testing.assert_array_equal(results["mspc"].save(tmp_path / "run").labels, results["mspc"].labels)


def test_a_save_that_is_interrupted_before_it_copies_leaves_nothing(results, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("bigsmic.store.run_group.Lease", lambda *arguments: _interrupt())
        with pytest.raises(KeyboardInterrupt):
            results["mspc"].save(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def _interrupt():
    raise KeyboardInterrupt


def test_a_save_that_fails_leaves_nothing(blobs, tmp_path):
    result = fit(blobs[0], "mspc")
    for path in Path(result.location).glob("posterior/c/*/*"):
        path.unlink()
    with pytest.raises(CorruptBlockError, match=r"posterior: rows 0:\d+ in .* are missing"):
        result.save(tmp_path / "run")
    assert not list(tmp_path.iterdir())
    with pytest.raises(
        RunError, match=r"save: the pickled part of .* has only what predictions need, and is not a whole run"
    ):
        pickle.loads(pickle.dumps(fit(blobs[0], "mspc"))).save(tmp_path / "run")
