"""Fits of a handful of rows, some of which are copies."""

import numpy as np
import pytest

import bigsmic


@pytest.mark.parametrize("seed", range(4))
def test_few_rows_with_copies_overflow_nowhere(seed):
    X = np.random.default_rng(seed).integers(0, 3, size=(8, 2))
    labels = bigsmic.fit(X, 2, n_threads=1).labels  # warnings are errors
    assert set(labels.tolist()) == {0, 1}
