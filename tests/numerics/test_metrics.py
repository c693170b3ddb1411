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


def test_calibrated_confidence_has_a_small_error():
    rng = np.random.default_rng(0)
    confidence = rng.uniform(size=50_000)
    sums = metrics.reliability_sums(confidence, rng.uniform(size=50_000) < confidence)
    stated, seen = metrics.reliability_curve(sums)
    assert np.abs(stated - seen).max() < 0.03
    assert metrics.expected_calibration_error(sums) < 0.01


def test_overconfidence_is_the_calibration_error():
    sums = metrics.reliability_sums(np.ones(10), np.arange(10) < 6)
    assert metrics.expected_calibration_error(sums) == pytest.approx(0.4)
    stated, seen = metrics.reliability_curve(sums)
    assert (stated[-1], seen[-1]) == (1.0, pytest.approx(0.6))
    assert np.isnan(stated[:-1]).all()


def test_reliability_sums_add_over_blocks():
    rng = np.random.default_rng(1)
    confidence, correct = rng.uniform(size=100), rng.uniform(size=100) < 0.5
    whole = metrics.reliability_sums(confidence, correct, 7)
    parts = [metrics.reliability_sums(confidence[part], correct[part], 7) for part in np.split(np.arange(100), [3, 50])]
    np.testing.assert_allclose(sum(parts), whole, rtol=1e-13)


def test_no_rows_is_no_error():
    sums = metrics.reliability_sums(np.empty(0), np.empty(0, dtype=bool))
    assert metrics.expected_calibration_error(sums) == 0.0
