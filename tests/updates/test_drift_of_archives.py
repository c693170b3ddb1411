"""Drift of an archive of windows: quiet nights pass, and what changed is named."""

import json

import numpy as np
import pytest
import zarr
from small_fits import BRIEF, FAST
from typer.testing import CliRunner

import bigsmic
from bigsmic.cli.main import app
from bigsmic.features import windows
from bigsmic.numerics.drift import LEVEL
from bigsmic.stages.update_log import entries
from bigsmic.store import Run
from bigsmic.updates import drift


def night(rng, n=16_000, move=0.0):
    """Two regimes that last some hundred samples each."""
    parts, size = [], 0
    while size < n:
        t = np.arange(rng.geometric(1 / 400))
        slow = rng.random() < 0.6
        parts.append(np.sin(t * (0.1 if slow else 0.9) + rng.uniform(0, 6)) * (1 if slow else 3))
        size += len(t)
    return (np.concatenate(parts)[:n, None] + 0.2 * rng.normal(size=(n, 1)) + move).astype("f4")


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """A fit of ten nights, and nights that can be added."""
    path, rng = tmp_path_factory.mktemp("nights"), np.random.default_rng(0)
    samples = zarr.create_array(
        str(path / "a"), data=np.concatenate([night(rng) for _ in range(10)]), chunks=(16_000, 1)
    )
    made = windows(path / "a", 80, 40, out=path / "w")
    bigsmic.fit(made, 2, out=path / "run", **FAST)

    def add(**change):
        samples.append(night(rng, **change))
        windows(path / "a", 80, 40, out=path / "w")
        return bigsmic.Result.open(path / "run").update(path / "w")

    return path, add


def test_nights(archive):
    path, add = archive
    quiet = [add() for _ in range(3)]
    assert [found.drift["verdict"] for found in quiet] == ["none"] * 3
    assert not any(found.recommends_refit for found in quiet)
    assert quiet[0].drift["tests"].keys() == {"shares", "novelty", "shift", "confidence"}
    together = quiet[2].drift["tests"]["recent_shares"]
    sizes = np.sum([found.cluster_sizes for found in quiet], axis=0)
    assert together["nights"] == 3
    assert together["now"] == pytest.approx((sizes / sizes.sum())[together["cluster"]])
    moved = add(move=1.0)
    assert moved.drift["tests"]["recent_shares"]["nights"] == 4
    assert moved.recommends_refit
    assert moved.drift["tests"]["shift"]["name"].startswith("ch0.")
    assert f"{moved.drift['tests']['shift']['name']} has moved by" in moved.drift["reason"]
    assert "drift      refit recommended" in repr(moved)
    few = add(n=1000)
    assert few.drift["verdict"] == "unknown"
    assert few.drift["sizes"] == few.cluster_sizes
    history = bigsmic.Result.open(path / "run").drift
    assert [found["verdict"] for found in history] == [*["none"] * 3, "refit recommended", "unknown"]
    assert history[3]["first"] == moved.first
    json.dumps(history)
    run = Run(str(path / "run"), writable=False)
    assert len(run.numbers(drift.REFERENCE)) == 1  # nights are alike in length
    assert [entry.number for entry in entries(run)] == list(range(5))


def test_the_exit_code(archive):
    path, _ = archive
    samples = zarr.open_array(str(path / "a"))
    samples.append(night(np.random.default_rng(9), move=5.0))
    windows(path / "a", 80, 40, out=path / "w")
    found = CliRunner().invoke(app, ["update", str(path / "run"), str(path / "w"), "--fail-on-drift"])
    assert found.exit_code == 9
    assert "refit recommended" in found.stdout
    assert CliRunner().invoke(app, ["update", str(path / "run"), str(path / "w"), "--fail-on-drift"]).exit_code == 0


def test_a_verdict_that_was_cut_short_is_made_by_the_next_call(archive, monkeypatch):
    path, _ = archive
    zarr.open_array(str(path / "a")).append(night(np.random.default_rng(3)))
    windows(path / "a", 80, 40, out=path / "w")
    result, known = bigsmic.Result.open(path / "run"), len(bigsmic.Result.open(path / "run").drift)

    def killed(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(drift, "judge", killed)
        with pytest.raises(KeyboardInterrupt):
            result.update(path / "w")
    assert len(result.drift) == known
    assert result.update(path / "w").drift["verdict"] == "none"
    assert len(result.drift) == known + 1


def test_a_regime_that_is_noise_to_the_fit_is_drift(tmp_path):
    """As usual noise is not; a third of the rows, or all of them, are far from all that was fitted."""
    rng = np.random.default_rng(0)

    def rows(n, unseen=0):
        centers = np.array([[0, 0, 0], [12, 0, 0], [0, 12, 0], [40, 40, 40.0]])
        X = centers[rng.integers(0, 3, n)] + rng.normal(size=(n, 3))
        X[::5] = rng.uniform(-8, 20, (len(X[::5]), 3))
        X[:unseen] = centers[3] + rng.normal(size=(unseen, 3))
        return X.astype("f4")

    array = zarr.create_array(str(tmp_path / "X"), data=rows(1500), chunks=(500, 3))
    result = bigsmic.fit(tmp_path / "X", 3, noise=True, out=tmp_path / "run", **FAST)
    for unseen, verdict in ((0, "none"), (0, "none"), (60, "refit recommended"), (180, "refit recommended")):
        array.append(rows(180, unseen))
        found = result.update(tmp_path / "X")
        assert found.in_none >= max(unseen, 9)
        assert found.drift["verdict"] == verdict
        assert ("of the rows are novel" in found.drift["reason"]) == bool(unseen)


@pytest.mark.parametrize("method", ["rim", "mspc"])
def test_methods_that_know_no_neighbours(archive, tmp_path, method):
    path, _ = archive
    result = bigsmic.fit(path / "w", 2, rows=slice(0, 3900), method=method, out=tmp_path / "run")
    found = result.update(path / "w")
    assert found.drift["verdict"] in ("none", "refit recommended")
    assert found.drift["batches"] >= 6


def test_of_many_columns_the_one_that_moved_is_named(tmp_path):
    """Rows are compared by their principal components, and a shift is a column's."""
    rng, d, moved = np.random.default_rng(0), 70, 33
    y = rng.integers(0, 2, 3000)
    X = (rng.normal(size=(3000, d)) + 2 * rng.normal(size=(2, d))[y]).astype("f4")
    X[2400:, moved] += 1.5
    archive = zarr.create_array(str(tmp_path / "w"), data=X[:2400], chunks=(600, d))
    result = bigsmic.fit(archive, 2, out=tmp_path / "run", **FAST)
    archive.append(X[2400:])
    found = result.update(tmp_path / "w").drift
    assert found["tests"]["shift"]["column"] == moved
    run, level = Run(str(tmp_path / "run"), writable=False), drift.level_of(2400, 600)
    assert run.read(drift.REFERENCE, level, "spreads").shape == (2, d)


def test_a_reference_of_components_is_made_again(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 60)).astype("f4") + 4 * rng.integers(0, 2, (1500, 1)).astype("f4")
    result = bigsmic.fit(X, 2, out=tmp_path / "run", **FAST)
    context = result._context
    found = drift.reference_of(context, 7)
    run = Run(str(tmp_path / "run"))
    run.forget(drift.REFERENCE, 7)
    narrow = found.batches._replace(sums=found.batches.sums[:, :, :50])
    run.write(drift.REFERENCE, 7, narrow._asdict() | {"spreads": found.spreads[:, :50]})
    again = drift.reference_of(bigsmic.Result.open(tmp_path / "run")._context, 7)
    np.testing.assert_array_equal(again.spreads, found.spreads)


def test_facts_of_a_stretch_are_those_of_its_sampled_rows_in_clusters_and_in_none():
    X, novel = np.array([[1, 2], [10, 20], [100, 200], [3, 4]], np.float32), np.array([True, False, True, False])
    found = drift.facts(np.array([50, 40]), X, np.array([0, 1, -1, 0]), novel)
    for of_one, expected in zip(found, ([50, 40], [2, 1, 1], [[4, 6], [10, 20]], 2), strict=True):
        np.testing.assert_array_equal(of_one, [expected])


@pytest.mark.parametrize(
    ("n_fitted", "n_new", "level"),
    [(10**6, 49, None), (10**6, 50, 6), (299, 500, None), (300, 500, 5), (10**6, 1023, 10), (6 * 2**8, 10**6, 8)],
)
def test_stretches_are_as_long_as_the_new_rows_if_there_are_enough(n_fitted, n_new, level):
    assert drift.level_of(n_fitted, n_new) == level
    assert level is None or n_fitted >= 6 * 2**level


def test_spreads_are_those_of_fitted_rows_and_new_ones_together():
    rng = np.random.default_rng(0)
    fitted, new = rng.normal(size=(30, 2)), rng.normal(size=(12, 2)) * [1, 5]
    batches = drift.facts(np.array([300, 50]), np.tile(fitted, (2, 1)), np.repeat([0, 1], 30), np.zeros(60, bool))
    spreads = np.stack([fitted.std(axis=0)] * 2)
    found = drift.pooled_spreads(drift.Reference(batches, spreads, 64), new, np.where(np.arange(12) < 10, 1, -1))
    centred = np.concatenate([part - part.mean(axis=0) for part in (fitted, new[:10])])
    np.testing.assert_allclose(found, [spreads[0], centred.std(axis=0)])
    np.testing.assert_array_equal(spreads[1], fitted.std(axis=0))


def test_novelty_of_fitted_rows_is_by_their_nearest_in_other_stretches(monkeypatch):
    """Rows of a walk, of which the nearest are those just before and after."""
    X = np.cumsum(np.random.default_rng(0).normal(size=(250, 3)), axis=0).astype("f4")
    context = bigsmic.fit(X, 2, scale=None, valleys=False, **BRIEF)._context
    assessor, seen = drift.Assessor(context, drift.model_of(context)), []
    monkeypatch.setattr(type(assessor.novelty), "of_neighbors", lambda _, *found: seen.append(found))
    rows = np.arange(0, 250, 7)
    drift._novelty_elsewhere(context, X[rows], rows, 10)
    ((near, squares, _),) = seen
    numbers = assessor.model.row_numbers(np.arange(250))[near]
    assert np.abs(numbers - rows[:, None]).min() >= 10
    exact = ((X[rows, None].astype("f8") - X) ** 2).sum(axis=2)
    np.testing.assert_allclose(squares, np.take_along_axis(exact, numbers, axis=1), rtol=1e-4)
    exact[np.abs(rows[:, None] - np.arange(250)) < 10] = np.inf
    np.testing.assert_allclose(squares, np.sort(exact, axis=1)[:, : near.shape[1]], rtol=1e-4)


def test_a_flag_that_is_rare_in_a_cluster_has_not_moved_but_one_that_is_always_set_has(tmp_path):
    rng = np.random.default_rng(2)
    y = rng.integers(0, 6, 2400)
    often = np.where(np.arange(24) // 4 == y[:, None], 0.5, 0.0005)  # of most flags no stretch of a cluster has any
    levels = 8.0 * (np.arange(6) == y[:, None]) + rng.normal(size=(2400, 6))
    X = np.column_stack([levels, rng.random(often.shape) < often])
    p = {}
    for name, is_set in (("usual", False), ("set", True)):
        archive = zarr.create_array(str(tmp_path / name), data=X[:1200], chunks=(400, 30))
        result = bigsmic.fit(archive, 6, method="rim", out=tmp_path / f"{name}.run")
        archive.append(np.where(is_set & (np.arange(30) == 20), 1, X[1200:]))
        p[name] = result.update(archive).drift["tests"]["shift"]["p"]
    assert p["usual"] > LEVEL > p["set"]
