"""Rules that are scaled where the eigenvalues of a graph crowd below 1, as of many rows in a plane."""

import numpy as np
import pytest

import bigsmic
from bigsmic.numerics.labeling import groups
from bigsmic.numerics.labeling.group_moments import GroupMoments
from bigsmic.numerics.labeling.groups import Groups
from bigsmic.stages import crowding
from bigsmic.stages.labeling_specs import eigenproblems

OPTIONS = {"t": (5, 10), "n_centers": 60, "seed": 0}


@pytest.fixture(scope="module")
def plane():
    rng = np.random.default_rng(3)
    centers = rng.uniform(-5, 5, (6, 2))
    return (centers[np.arange(3000) % 6] + 0.6 * rng.normal(size=(3000, 2))).astype(np.float32)


def solved(result):
    """Of each eigenproblem: the graph's least eigenvalue of N, the shrinkage asked for, and the one that was used."""
    run, wanted = result._run, eigenproblems(result.settings)
    of_graph = {problem: run.read("spectrum", q, "ritz_values") for q, problem in enumerate(wanted)}
    return [
        (of_graph[problem.graph].min(), problem.shrinkage, run.info("spectrum", q)["shrinkage"])
        for q, problem in enumerate(wanted)
    ]


def test_degrees_are_shrunk_less_where_eigenvalues_crowd(plane, monkeypatch):
    monkeypatch.setattr(crowding, "CROWDED", 0.5)
    found = solved(bigsmic.fit(plane, 6, **OPTIONS))
    assert [asked for _, asked, _ in found] == [0, 0, 0.75, 0.75]
    for least, asked, used in found:
        assert used == pytest.approx(asked * (1 - least) / 0.5)
        assert not asked or 0 < used < asked


def test_degrees_are_shrunk_as_asked_where_none_crowd(plane, monkeypatch):
    monkeypatch.setattr(crowding, "CROWDED", 1e-9)
    assert [used for *_, used in solved(bigsmic.fit(plane, 6, **OPTIONS))] == [0, 0, 0.75, 0.75]


def rewrite(result, q, **changes):
    """Write a solve again with other facts; those that are None are left out."""
    run = result._run
    arrays = {name: run.read("spectrum", q, name) for name in ("ritz_values", "residual_norms")}
    info = {key: value for key, value in (run.info("spectrum", q) | changes).items() if value is not None}
    run.write("spectrum", q, arrays, info=info)


def test_the_factor_is_that_of_the_vectors_that_a_fit_begins_with(plane, monkeypatch):
    """Which remain the first ones of more, as a fit without a number takes if it finds too many clusters for them."""
    monkeypatch.setattr(crowding, "CROWDED", 0.5)
    result = bigsmic.fit(plane, 6, **OPTIONS)
    graph, values = eigenproblems(result.settings)[0], result._run.read("spectrum", 0, "ritz_values")
    rewrite(result, 0, first={"n_wanted": 10, "first": {"n_wanted": 5}})
    assert crowding.factor(result._context, graph) == pytest.approx(np.sqrt((1 - values[:5].min()) / 0.5))


def test_the_factor_is_1_without_the_graphs_eigenvalues(plane):
    result = bigsmic.fit(plane, 6, t=5, shrinkage=0.75, n_centers=60, seed=0)
    (problem,) = eigenproblems(result.settings)
    assert crowding.factor(result._context, problem) == 1


def test_predictions_shrink_degrees_as_the_fit_did(plane, monkeypatch):
    """The eigenvectors at copies of fitted rows are those of the fit, but for their own neighbourhood."""
    monkeypatch.setattr(crowding, "CROWDED", 0.5)
    options = {"t": (5, 10), "assignment": "rotation", "shrinkage": (0, 0.75), "n_centers": 60, "seed": 0}
    result = bigsmic.fit(plane, 6, **options)
    assert np.mean(result.predict(plane) == np.asarray(result.labels)) > 0.98


@pytest.mark.parametrize(("crowded", "are_neighbors"), [(1.0, False), (0.1, True)])
def test_groups_are_neighbors_by_a_smaller_share_where_eigenvalues_crowd(crowded, are_neighbors):
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 50)
    P = rng.normal(size=(100, 2)) + 10.0 * labels[:, None]
    parts = [P[labels == y] for y in (0, 1)]
    moments = GroupMoments(
        np.full(2, 50.0), np.stack([part.sum(axis=0) for part in parts]), np.stack([part.T @ part for part in parts])
    )
    weight = 0.5 * groups.NEIGHBOR_WEIGHT
    found = Groups(
        moments,
        np.array([[1 - weight, weight], [weight, 1 - weight]]),
        (P, rng.random(100), labels),
        neighbor_weight=crowded * groups.NEIGHBOR_WEIGHT,
    )
    assert found.are_neighbors(np.array([0]), np.array([1])).tolist() == [are_neighbors]
