"""Posteriors raised to a power: the formula, what stays as it is, and the power that is found."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bigsmic.numerics.labeling import calibration

rng = np.random.default_rng(0)
POSTERIOR = rng.dirichlet(np.full(4, 0.7), 300).astype(np.float32)


def test_sharpened_is_the_formula():
    wanted = POSTERIOR.astype(np.float64) ** 2.5
    found = calibration.sharpened(POSTERIOR, 2.5)
    np.testing.assert_allclose(found, wanted / wanted.sum(axis=1, keepdims=True), rtol=1e-5, atol=1e-30)
    assert found.dtype == np.float32


def test_the_power_one_leaves_every_bit():
    np.testing.assert_array_equal(calibration.sharpened(POSTERIOR, 1.0), POSTERIOR)


@pytest.mark.parametrize("power", [1.3, 16.0])
def test_the_order_within_a_row_stays(power):
    np.testing.assert_array_equal(calibration.sharpened(POSTERIOR, power).argmax(axis=1), POSTERIOR.argmax(axis=1))


def test_certain_and_flat_rows_stay():
    rows = np.array([[1, 0, 0], [0, 0, 1], [1 / 3, 1 / 3, 1 / 3]], np.float32)
    np.testing.assert_allclose(calibration.sharpened(rows, 16.0), rows, rtol=1e-6)


@settings(deadline=None)
@given(st.lists(st.integers(0, 300), max_size=4))
def test_a_row_does_not_depend_on_the_others(cuts):
    parts = np.split(POSTERIOR, sorted(cuts))
    found = np.concatenate([calibration.sharpened(part, 3.1) for part in parts])
    np.testing.assert_array_equal(found, calibration.sharpened(POSTERIOR, 3.1))


@settings(deadline=None)
@given(st.lists(st.integers(0, 300), max_size=4))
def test_claims_add_up_over_blocks(cuts):
    agreement = POSTERIOR.max(axis=1)
    cuts = sorted(cuts)
    total = sum(map(calibration.claim_sums, np.split(POSTERIOR, cuts), np.split(agreement, cuts)))
    np.testing.assert_allclose(total, calibration.claim_sums(POSTERIOR, agreement), rtol=1e-12)


@pytest.mark.parametrize("power", [1.5, 4.0, 11.0])
def test_the_power_that_was_hidden_is_found(power):
    claimed = calibration.sharpened(POSTERIOR, power).max(axis=1)
    agreement = np.full(300, np.sqrt(claimed.mean(dtype=np.float64)))
    found = calibration.power_of(calibration.claim_sums(POSTERIOR, agreement))
    assert found == pytest.approx(power, rel=0.02)


@pytest.mark.parametrize(("agreed", "power"), [(0.3, 1.0), (1.0, 16.0)])
def test_the_power_stays_within_what_is_tried(agreed, power):
    agreement = np.full(300, agreed, np.float32)
    assert calibration.power_of(calibration.claim_sums(POSTERIOR, agreement)) == power
