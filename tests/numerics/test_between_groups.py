"""Axes in which groups differ: sums over blocks, and eigenvectors of the covariance of the means."""

import numpy as np
import pytest

from bigsmic.numerics.labeling import between_groups
from bigsmic.numerics.labeling.between_groups import between_axes, group_sums

pytestmark = pytest.mark.unit


def drawn(n=500, r=12, n_groups=5, seed=0):
    draw = np.random.default_rng(seed)
    labelings = [draw.integers(0, n_groups, n), draw.integers(1, n_groups, n)]
    return draw.normal(size=(n, r)).astype(np.float32), labelings


def test_sums_are_those_of_every_group_and_add_over_blocks(monkeypatch):
    P, labelings = drawn()
    monkeypatch.setattr(between_groups, "TILE_ROWS", 64)
    found = group_sums(P, labelings, 6)
    parts = group_sums(P[:201], [one[:201] for one in labelings], 6)
    parts += group_sums(P[201:], [one[201:] for one in labelings], 6)
    for k, labels in enumerate(labelings):
        for y in range(6):
            assert found.counts[k, y] == np.count_nonzero(labels == y)
            np.testing.assert_allclose(found.sums[k, y], P[labels == y].sum(axis=0, dtype=np.float64), atol=1e-9)
    np.testing.assert_allclose(found.outer, P.T.astype(np.float64) @ P, rtol=1e-5, atol=1e-4)
    for name, one, other in zip(found._fields, found, parts, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-10, err_msg=name)


def test_axes_are_the_leading_eigenvectors_between_groups():
    P, labelings = drawn(r=6)
    P[:, 4] += 9 * labelings[0]  # little beside the next
    P[:, 0] *= 40
    mean, n = P.mean(axis=0, dtype=np.float64), len(P)
    B = np.zeros((6, 6))
    for labels in labelings:
        for y in np.unique(labels):
            difference = P[labels == y].mean(axis=0, dtype=np.float64) - mean
            B += np.count_nonzero(labels == y) / n / 2 * np.outer(difference, difference)
    values, vectors = np.linalg.eigh(B + 0.01 * np.cov(P.T.astype(np.float64), bias=True))
    axes = between_axes(group_sums(P, labelings, 5), 3)
    assert axes.shape == (6, 3)
    np.testing.assert_allclose(np.abs((axes * vectors[:, ::-1][:, :3]).sum(axis=0)), 1, atol=1e-4)
    assert values[-1] > values[-2]


def test_a_direction_of_little_variance_in_which_groups_differ_comes_first():
    draw = np.random.default_rng(1)
    P = (draw.normal(size=(4000, 20)) * 10).astype(np.float32)
    labels = np.repeat([0, 1], 2000)
    P[:, 19] = labels * 6 + draw.normal(size=4000)
    axes = between_axes(group_sums(P, [labels], 2), 1)
    assert abs(axes[19, 0]) > 0.9


def test_axes_in_which_no_group_differs_are_those_of_the_rows():
    P, _ = drawn(2000)
    P *= 2.0 ** -np.arange(12)
    axes = between_axes(group_sums(P.astype(np.float32), [np.zeros(2000, np.int64)], 1), 3)
    np.testing.assert_allclose(np.abs(axes[:3].diagonal()), 1, atol=0.05)
