"""Fits of rows a few of which are very far out, such as with a number that stands for a missing one."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

import bigsmic


@pytest.mark.parametrize("far", [1e8, -1e12])
@pytest.mark.parametrize("n_columns", [1, 5])
def test_a_row_far_out_does_not_hide_the_number_of_clusters(far, n_columns):
    X, y = make_blobs(1000, 5, centers=5, random_state=4)
    X = np.r_[X, np.zeros((1, 5))]
    X[-1, :n_columns] = far
    result = bigsmic.fit(X, t=5, n_centers=40, n_threads=1)
    assert result.n_clusters == 5
    assert adjusted_rand_score(y, result.labels[:-1]) > 0.98


def test_groups_are_compared_in_many_columns_without_what_rows_far_out_add():
    X, y = make_blobs(1000, 70, centers=5, cluster_std=3, random_state=4)
    X = np.r_[X, np.full((1, 70), 1e9)]
    result = bigsmic.fit(X, t=5, n_centers=40, n_threads=1, n_components=None)
    assert result.n_clusters == 5
    assert adjusted_rand_score(y, result.labels[:-1]) > 0.98
