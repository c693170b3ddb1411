"""Rows along curves, whose eigenvalues crowd below 1: the solve starts from those of aggregates of the rows."""

import numpy as np
import pytest
from sklearn.datasets import make_circles
from sklearn.metrics import adjusted_rand_score

import bigsmic
from bigsmic.stages import coarse_start


@pytest.fixture(scope="module")
def rings():
    X, y = make_circles(12_000, factor=0.5, noise=0.01, random_state=0)
    return X.astype(np.float32), y


def fit(X, **options):
    return bigsmic.fit(X, 2, scale=None, n_centers=40, **options)


def test_thin_rings_are_solved_and_found(rings):
    X, y = rings
    result = fit(X, n_threads=1)  # a warning that an eigensolve did not converge would be an error here
    assert adjusted_rand_score(y, result.labels) == 1
    plain = result.diagnostics["eigen"][:2]
    assert all(solve["converged"] for solve in plain)
    assert all(1 - solve["ritz_values"][-1] < 1e-3 for solve in plain)


def test_a_coarse_matrix_that_is_not_sparse_enough_is_made_of_fewer_aggregates(rings, monkeypatch):
    X, y = rings
    sizes, solved = [], coarse_start.coarse_eigenvectors

    def noted(weights, *others):
        sizes.append((weights.shape[0], weights.nnz))
        return solved(weights, *others)

    monkeypatch.setattr(coarse_start, "coarse_eigenvectors", noted)
    monkeypatch.setattr(coarse_start, "MOST_ENTRIES", 2000)
    monkeypatch.setattr(coarse_start, "MOST_AGGREGATES", (1500, 500))
    assert adjusted_rand_score(y, fit(X, n_threads=1).labels) == 1
    assert sizes
    assert all(m <= 1000 and entries <= 2000 for m, entries in sizes)


def test_labels_do_not_depend_on_threads_or_blocks_of_columns(rings, tmp_path):
    X, _ = rings
    one, other = (fit(X, n_threads=n, out=tmp_path / str(n)) for n in (1, 2))
    assert np.array_equal(one.labels, other.labels)
    assert np.array_equal(np.asarray(one.posterior), np.asarray(other.posterior))
