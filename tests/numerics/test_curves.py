"""Pieces of curves: long clusters along which rows are spread evenly."""

import numpy as np
import pytest

from bigsmic.numerics.labeling.curves import pieces


def are_pieces(X, labels):
    return pieces(X, labels).are_of_curves()


def _arcs(n_pieces, noise, d=2):
    """A ring in as many pieces, 600 rows each, in d dimensions."""
    draw, labels = np.random.default_rng(n_pieces), np.repeat(np.arange(n_pieces), 600)
    angle = 2 * np.pi * (labels + draw.random(len(labels))) / n_pieces
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=1) @ np.linalg.qr(draw.normal(size=(d, d)))[0][:2]
    return ring + draw.normal(0, noise, (len(labels), d)), labels


@pytest.mark.parametrize(("n_pieces", "noise", "d"), [(2, 0.05, 2), (3, 0.1, 2), (6, 0.05, 2), (4, 0.05, 20)])
def test_arcs_are_pieces_of_curves(n_pieces, noise, d):
    X, labels = _arcs(n_pieces, noise, d)
    assert are_pieces(X, labels)
    assert are_pieces(1e-9 * X, labels)


def test_a_straight_line_is_a_piece_of_a_curve():
    X = np.outer(np.random.default_rng(0).random(600), [3.0, 4.0, 0.0])
    assert are_pieces(X, np.zeros(600, int))


def test_arcs_with_a_few_outliers_are_pieces_of_curves():
    X, labels = _arcs(4, 0.05)
    draw = np.random.default_rng(0)
    X[draw.choice(len(X), 24, replace=False)] = draw.uniform(-8, 8, (24, 2))
    assert are_pieces(X, labels)


def test_blobs_are_no_pieces_of_curves_and_long_ones_are_not_either():
    draw, labels = np.random.default_rng(0), np.repeat([0, 1, 2], 700)
    X = draw.normal(size=(2100, 3))
    assert not are_pieces(X, labels)
    assert not are_pieces(X * [10, 1, 1], labels)


def test_two_clusters_in_one_are_not_long_in_many_dimensions():
    """Their kurtosis is as small as that of a curve, -1.6 here."""
    draw, labels = np.random.default_rng(1), np.repeat([0, 1], 800)
    X = draw.normal(size=(1600, 20))
    X[:, 0] += 4 * (np.arange(1600) % 2)
    assert not are_pieces(X, labels)
    assert are_pieces(X[:, :1], labels)


def test_rows_without_a_spread_and_few_rows_are_no_pieces_of_curves():
    X, labels = _arcs(2, 0.05)
    assert not are_pieces(np.full((50, 2), 0.1), np.zeros(50, int))
    assert not are_pieces(X[:19], labels[:19])
    assert not are_pieces(X[:0], labels[:0])


def test_some_clusters_may_be_pieces_of_a_curve_beside_others():
    X, labels = _arcs(4, 0.05)
    blobs = np.random.default_rng(0).normal(size=(4000, 2)) + np.array([8, 0])
    found = pieces(np.concatenate([X, blobs]), np.concatenate([labels, np.full(len(blobs), 4)]))
    assert found.n_of_curves() == 4
    assert not found.are_of_curves()
    assert found.are_of_curves(np.arange(5) < 4)
    assert not found.are_of_curves(np.zeros(5, bool))


def test_blobs_are_told_from_pieces_of_a_curve_by_their_mean():
    X, labels = _arcs(2, 0.05)
    blobs = np.random.default_rng(0).normal(size=(4000, 2))
    found = pieces(np.concatenate([X, blobs]), np.concatenate([labels, 2 + np.arange(4000) % 2]))
    assert found.are_blobs(np.arange(4) >= 2)
    assert not found.are_blobs(np.arange(4) < 2)
    assert not found.are_blobs(np.zeros(4, bool))
