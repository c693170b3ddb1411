"""Novelty where clusters have numbers of an earlier run."""

import numpy as np
import pytest
from small_fits import BRIEF

import bigsmic


@pytest.mark.parametrize("options", [BRIEF, {"method": "rim", "n_threads": 1}])
def test_rows_far_from_everything_are_in_no_cluster_that_vanished(options):
    rng = np.random.default_rng(0)
    centers = np.array([[0, 0, 0], [9, 0, 0], [0, 9, 9]])
    y = rng.integers(0, 3, 900)
    X = (centers[y] + rng.normal(size=(900, 3))).astype("f4")
    before = bigsmic.fit(X, 3, **options)
    after = bigsmic.fit(X[y > 0], 2, like=before, **options)
    posterior = after.predict_proba(np.full((1, 3), 1e4, "f4"))[0]
    kept = np.unique(after.labels)
    assert (after.novelty(X[y > 0]) > 1).mean() < 0.05
    np.testing.assert_allclose(posterior[kept], 0.5, atol=0.01)
    np.testing.assert_allclose(posterior.sum(), 1, rtol=1e-6)
