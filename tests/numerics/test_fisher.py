"""Direction of Fisher's discriminant between two groups."""

import numpy as np
import pytest

from bigsmic.numerics.labeling.fisher import fisher_direction

pytestmark = pytest.mark.unit


def group(seed, n=40, columns=6):
    rows = np.random.default_rng(seed).normal(size=(n, columns)) @ np.diag([5.0, 3.0, 1.0, 1.0, 0.1, 0.0]) + seed
    mean = rows.mean(axis=0)
    return (rows - mean).T @ (rows - mean), mean


NO_PRIOR = np.zeros((6, 6)), 0.0


@pytest.mark.parametrize("columns", [1, 2, 6])
def test_it_solves_the_pooled_system(columns):
    prior = np.diag(np.linspace(0.5, 1.5, columns)), 30.0
    (scatter_y, mean_y), (scatter_z, mean_z) = y, z = leading(group(1), columns), leading(group(2), columns)
    S = (scatter_y + scatter_z) / 80
    variance = np.trace(S) / columns
    S = (80 * S + 30 * variance * prior[0]) / 110 + 0.05 * variance * np.eye(columns)
    wanted = np.linalg.solve(S, mean_z - mean_y)
    w, at_y, at_z = fisher_direction(y, z, 80.0, prior, 0.05)
    np.testing.assert_allclose(w, wanted / np.linalg.norm(wanted), rtol=1e-9)
    np.testing.assert_allclose([at_y, at_z], [mean_y @ w, mean_z @ w], rtol=1e-12)
    assert at_y < at_z


def leading(of_group, columns):
    scatter, mean = of_group
    return np.ascontiguousarray(scatter[:columns, :columns]), mean[:columns]


def test_a_heavy_prior_decides():
    y, z, within = group(1), group(2), np.diag([0.5, 1.5, 1.0, 1.0, 1.0, 1.0])
    w, _, _ = fisher_direction(y, z, 80.0, (within, 1e12), 0.0)
    wanted = np.linalg.solve(within, z[1] - y[1])
    np.testing.assert_allclose(w, wanted / np.linalg.norm(wanted), rtol=1e-6)


def test_groups_of_equal_means_have_no_direction():
    y = group(1)
    _, at_y, at_z = fisher_direction(y, y, 80.0, NO_PRIOR, 0.05)
    assert np.isnan(at_y)
    assert np.isnan(at_z)


def test_groups_without_variance_are_told_apart_by_their_means():
    nothing = np.zeros((2, 2))
    w, at_y, at_z = fisher_direction(
        (nothing, np.zeros(2)), (nothing, np.array([3.0, 4.0])), 9.0, (nothing, 60.0), 0.05
    )
    np.testing.assert_allclose(w, [0.6, 0.8])
    np.testing.assert_allclose([at_y, at_z], [0, 5])


@pytest.mark.parametrize("unit", [2.0**-40, 2.0**-20, 2.0**40])
def test_the_unit_of_the_rows_changes_nothing(unit):
    (scatter_y, mean_y), (scatter_z, mean_z) = group(1), group(2)
    prior = np.diag(np.linspace(0.5, 1.5, 6)), 30.0
    wanted, at_y, at_z = fisher_direction((scatter_y, mean_y), (scatter_z, mean_z), 80.0, prior, 0.05)
    y, z = ((unit**2 * scatter, unit * mean) for scatter, mean in ((scatter_y, mean_y), (scatter_z, mean_z)))
    found = fisher_direction(y, z, 80.0, prior, 0.05)
    np.testing.assert_allclose(found[0], wanted, rtol=1e-9)
    np.testing.assert_allclose(found[1:], [unit * at_y, unit * at_z], rtol=1e-9)
