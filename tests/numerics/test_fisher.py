"""Direction of Fisher's discriminant between two groups."""

import numpy as np
import pytest

from bigsmic.numerics.labeling.fisher import fisher_direction

pytestmark = pytest.mark.unit


def group(seed, n=40, columns=6):
    rows = np.random.default_rng(seed).normal(size=(n, columns)) @ np.diag([5.0, 3.0, 1.0, 1.0, 0.1, 0.0]) + seed
    mean = rows.mean(axis=0)
    return (rows - mean).T @ (rows - mean), mean


@pytest.mark.parametrize("r", [1, 2, 6])
def test_it_solves_the_pooled_system_of_the_leading_components(r):
    (scatter_y, mean_y), (scatter_z, mean_z) = y, z = group(1), group(2)
    S = (scatter_y + scatter_z)[:r, :r] / 80
    S += 0.05 * np.trace(S) / r * np.eye(r)
    wanted = np.linalg.solve(S, (mean_z - mean_y)[:r])
    w, at_y, at_z = fisher_direction(y, z, 80.0, r, 0.05)
    np.testing.assert_allclose(w, wanted / np.linalg.norm(wanted), rtol=1e-9)
    np.testing.assert_allclose([at_y, at_z], [mean_y[:r] @ w, mean_z[:r] @ w], rtol=1e-12)
    assert at_y < at_z


def test_groups_of_equal_means_have_no_direction():
    y = group(1)
    _, at_y, at_z = fisher_direction(y, y, 80.0, 6, 0.05)
    assert np.isnan(at_y)
    assert np.isnan(at_z)


def test_groups_without_variance_are_told_apart_by_their_means():
    w, at_y, at_z = fisher_direction(
        (np.zeros((2, 2)), np.zeros(2)), (np.zeros((2, 2)), np.array([3.0, 4.0])), 9.0, 2, 0.05
    )
    np.testing.assert_allclose(w, [0.6, 0.8])
    np.testing.assert_allclose([at_y, at_z], [0, 5])
