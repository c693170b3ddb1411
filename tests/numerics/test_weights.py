"""Weight functions by name: what is promised of every one."""

import numpy as np
import pytest

from bigsmic.numerics.graph import weights

SQUARES = np.array([0, 0, 1e-30, 0.5, 3, 1e30, 3], np.float32)
SIGMA_I = np.array([0, 1, 1e-20, 2, 0, 1e-20, 2], np.float32)
SIGMA_J = np.array([0, 2, 1e-20, 0.1, 1, 1e10, 0], np.float32)


@pytest.mark.parametrize("name", weights.NAMED)
@pytest.mark.parametrize("bandwidth", [1.0, 2.0])
def test_weights_are_symmetric_finite_and_not_negative(name, bandwidth):
    weight = weights.NAMED[name](bandwidth)
    found = weight(SQUARES, SIGMA_I, SIGMA_J)
    assert found.dtype == np.float32
    assert np.isfinite(found).all()
    assert (found >= 0).all()
    np.testing.assert_allclose(found, weight(SQUARES, SIGMA_J, SIGMA_I), rtol=1e-6)
    np.testing.assert_array_equal(found[:3], weight(SQUARES[:3], SIGMA_I[:3], SIGMA_J[:3]))


@pytest.mark.parametrize(("options", "bandwidth", "ratio"), [({}, 2, 4), ({"largest_ratio": np.inf}, 2, np.inf)])
def test_local_scaling_takes_the_smaller_scale_for_a_quarter_of_the_larger_one_at_least(options, bandwidth, ratio):
    squares, one, other = np.random.default_rng(0).uniform(0.1, 20, (3, 200))
    smaller, larger = np.minimum(one, other), np.maximum(one, other)
    expected = np.exp(-squares / (bandwidth * np.maximum(smaller, larger / ratio) * larger))
    found = weights.LocalScaling(**options)(*(array.astype(np.float32) for array in (squares, one, other)))
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert (larger > 8 * smaller).any()


@pytest.mark.parametrize("name", weights.NAMED)
def test_the_largest_bandwidth_overflows_to_weights_of_one(name):
    found = weights.NAMED[name](weights.LARGEST)(SQUARES, SIGMA_I, SIGMA_J)
    assert np.isfinite(found).all()
    assert found[[0, 1, 3]].tolist() == [1, 1, 1]
    assert found[[4, 6]].tolist() == [0, 0]  # a row with a copy, and one without


def test_names_are_free_of_those_that_mean_something_else():
    assert not {"auto", "normalized", "callable", "precomputed"} & weights.NAMED.keys()
    assert weights.DEFAULT in weights.NAMED
