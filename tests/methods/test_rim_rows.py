"""Predictions of RIM for a row, which have the same bits whatever rows come with it, in many columns too."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs

import bigsmic


@pytest.mark.parametrize("n_columns", [100, 256])
def test_posteriors_of_rows_in_many_columns_have_the_same_bits_in_any_company(n_columns):
    X, _ = make_blobs(3000, n_columns, centers=4, cluster_std=12, random_state=3)
    result = bigsmic.fit(X, 4, method="rim", n_threads=1)
    posterior = np.asarray(result.posterior)
    np.testing.assert_array_equal(result.predict_proba(X), posterior)
    np.testing.assert_array_equal(result.predict(X), result.labels)
    for m in (1, 64, 200, 1001):
        np.testing.assert_array_equal(result.predict_proba(X[9 : 9 + m]), posterior[9 : 9 + m])
