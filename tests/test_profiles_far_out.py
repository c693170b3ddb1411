"""Means and spreads of columns by cluster where a row is far out, as with a number for a missing value."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs

import bigsmic


@pytest.mark.parametrize("method", ["rim", "mspc"])
def test_a_row_far_out_does_not_change_the_spreads_of_the_clusters_of_others(method):
    X, _ = make_blobs(400, 5, centers=4, random_state=3)
    X = np.r_[X, [[1e12, 0, 0, 0, 0]]]
    result = bigsmic.fit(X, 4, method=method, n_threads=1)
    found, labels = result.profiles(X), result.labels
    others = [y for y in range(4) if y != labels[-1]]
    assert len(others) == 3
    for y in others:
        np.testing.assert_allclose(found.mean[y], X[labels == y].mean(axis=0), rtol=1e-9)
        np.testing.assert_allclose(found.spread[y], X[labels == y].std(axis=0), rtol=1e-9)
