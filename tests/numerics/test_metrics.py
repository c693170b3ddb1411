from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

from bigsmic.numerics.labeling import metrics

labelings = st.integers(0, 2**31).map(lambda seed: np.random.default_rng(seed).integers(0, [[4], [6]], (2, 60)))


@settings(deadline=None, max_examples=50)
@given(labelings)
def test_indices_agree_with_scikit_learn(labels):
    table = metrics.contingency(*labels, 4, 6)
    assert metrics.adjusted_rand_index(table) == pytest.approx(adjusted_rand_score(*labels), abs=1e-12)


@settings(deadline=None, max_examples=20)
@given(labelings, st.lists(st.integers(0, 60), max_size=5))
def test_contingency_of_blocks_adds_up(labels, cuts):
    edges = [0, *sorted(cuts), 60]
    blocks = [metrics.contingency(*labels[:, lo:hi], 4, 6) for lo, hi in pairwise(edges)]
    np.testing.assert_array_equal(sum(blocks), metrics.contingency(*labels, 4, 6))


def test_adjusted_rand_index_does_not_overflow():
    table = np.diag(np.full(3, 10**9))
    assert metrics.adjusted_rand_index(table) == 1.0
    assert metrics.adjusted_rand_index(np.full((3, 3), 10**9)) == pytest.approx(0.0, abs=1e-8)


def test_trivial_labelings_are_equal():
    assert metrics.adjusted_rand_index(np.array([[7]])) == 1.0
    assert metrics.adjusted_rand_index(np.eye(7, dtype=int)) == 1.0


def test_adjusted_rand_index_does_not_see_the_numbering():
    rng = np.random.default_rng(0)
    table = rng.integers(0, 50, (5, 7))
    shuffled = table[rng.permutation(5)][:, rng.permutation(7)]
    assert metrics.adjusted_rand_index(shuffled) == metrics.adjusted_rand_index(table)
    assert metrics.adjusted_rand_index(table.T) == metrics.adjusted_rand_index(table)
