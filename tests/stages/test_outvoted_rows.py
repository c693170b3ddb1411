"""Rows that their neighbours outvote, in fits, cuts and predictions."""

import numpy as np
import pytest

import bigsmic
from bigsmic.numerics.labeling import neighbor_votes as numerics
from bigsmic.stages import gaussians, neighbor_votes, out_of_sample, output

OPTIONS = {"n_threads": 1, "scale": None, "valleys": False}


def overlapping(n_rows):
    """Six Gaussian clusters that touch."""
    draw = np.random.default_rng(0)
    return (2.2 * draw.normal(size=(6, 5))[draw.integers(0, 6, n_rows)] + draw.normal(size=(n_rows, 5))).astype(
        np.float32
    )


def err(patch):
    """Let the shapes of clusters give every seventh row of a block a wrong label."""

    def wrong(self, P, votes, labels, posterior):
        labels = labels.copy()
        labels[::7] = (labels[::7] + 1) % votes.shape[1]
        return labels, posterior

    patch.setattr(gaussians.Shapes, "relabelled", wrong)


@pytest.fixture(scope="module")
def touching():
    """Rows, and a fit that keeps its draft, of which some labels are wrong."""
    X = overlapping(1500)
    with pytest.MonkeyPatch.context() as patch:
        err(patch)
        patch.setattr(neighbor_votes, "drop", lambda job: None)
        return X, bigsmic.fit(X, 6, **OPTIONS)


def in_cell_order(context, read):
    return np.concatenate([read(p) for p in context.blocks])


def read(context, stage, name, *part):
    return in_cell_order(context, lambda p: np.atleast_2d(context.run.read(stage, p, name, *part))[0])


def sigma_of(context):
    """Distances to the tenth neighbours, which are the farthest of this fit."""
    assert context.settings.t[-1] == 10
    return read(context, "graph", "sigma", len(context.settings.t) - 1).astype(float)


def expected_of(context, draft):
    """Labels after a vote of neighbours on the dense kernel of ten neighbours."""
    c, W = context.settings.n_clusters, np.zeros((context.n, context.n))
    sigma = sigma_of(context)
    for p in context.blocks:
        read = context.run.reader("graph", p)
        lo, hi = context.layout.bounds[p : p + 2]
        rows = np.repeat(np.arange(lo, hi), np.diff(read("indptr")))
        columns = np.concatenate([np.arange(lo, hi), read("halo")])[read("indices")]
        near = read("ranks") <= 10
        scale = sigma[rows] * sigma[columns]
        W[rows[near], columns[near]] = np.exp(-read("sq_distances")[near] / (2 * scale[near]))
    votes = W @ np.eye(c)[draft]
    has_majority = votes.max(axis=1) > 0.6 * votes.sum(axis=1)
    spacing = gaussians.read(context).spacing
    is_inside = np.log(sigma) <= (spacing.center + 3 * spacing.spread)[draft]
    return np.where(has_majority & is_inside, votes.argmax(axis=1), draft)


def test_labels_are_those_of_the_vote(touching):
    context = touching[1]._context
    draft = read(context, "draft", "labels")
    expected = expected_of(context, draft)
    assert np.count_nonzero(expected != draft) > 20
    np.testing.assert_array_equal(read(context, "final", "labels"), expected)


def test_a_row_that_moved_has_half_of_its_posterior_in_its_cluster(touching):
    context = touching[1]._context
    draft, labels = (read(context, stage, "labels") for stage in ("draft", "final"))
    before, after = (
        in_cell_order(context, lambda p, stage=stage: context.run.read(stage, p, "posterior"))
        for stage in ("draft", "final")
    )
    moved = draft != labels
    expected = np.where(moved[:, None], (before + np.eye(6)[labels]) / 2, before)
    np.testing.assert_allclose(after, expected, atol=1e-6)


def test_agreement_is_that_of_the_labels_after_the_vote(touching):
    context = touching[1]._context
    for p in context.blocks:
        votes, n_labelings = output._votes(context, p)
        labels, agreement = (context.run.read("final", p, name) for name in ("labels", "agreement"))
        np.testing.assert_allclose(agreement, votes[np.arange(len(labels)), labels] / n_labelings, rtol=1e-6)


def test_no_cluster_is_emptied_and_the_draft_is_deleted(monkeypatch):
    monkeypatch.setattr(numerics, "in_graph", lambda kernel, labels, c: np.zeros(kernel.hi - kernel.lo, np.int32))
    monkeypatch.setattr(neighbor_votes, "are_inside", lambda context, log_sigma, labels: np.ones(len(labels), bool))
    result = bigsmic.fit(overlapping(900), 6, **OPTIONS)
    assert set(np.asarray(result.labels)) == set(range(6))
    assert neighbor_votes.are_counted(result._context)
    assert not any(result._run.done(stage, 0) for stage in (neighbor_votes.DRAFT, neighbor_votes.OUTVOTED))


def test_new_rows_are_put_to_the_vote(monkeypatch):
    X = overlapping(2000)
    result = bigsmic.fit(X[::2], 6, **OPTIONS)
    context = result._context
    err(monkeypatch)
    new, model = context.scaler.apply(X[1::2]), out_of_sample.Model(context)
    indices, squares = model.search(new)
    _, labels = model.read(indices, squares, new)
    monkeypatch.setattr(numerics, "MAJORITY", 1.0)
    _, before = model.read(indices, squares, new)
    sigma = sigma_of(context)
    final = in_cell_order(context, lambda p: context.run.read("final", p, "labels"))
    own = np.sqrt(squares[:, 9].astype(float))
    near = (np.arange(squares.shape[1]) < 10) | (np.sqrt(squares) <= sigma[indices])
    weights = np.where(near, np.exp(-squares / (2 * own[:, None] * sigma[indices])), 0)
    votes = np.stack([(weights * (final[indices] == y)).sum(axis=1) for y in range(6)], axis=1)
    has_majority = votes.max(axis=1) > 0.6 * votes.sum(axis=1)
    spacing = gaussians.read(context).spacing
    is_inside = np.log(own) <= (spacing.center + 3 * spacing.spread)[before]
    expected = np.where(has_majority & is_inside, votes.argmax(axis=1), before)
    assert np.count_nonzero(expected != before) > 20
    np.testing.assert_array_equal(labels, expected)


def test_fitted_rows_are_predicted_as_they_are(touching):
    X, result = touching
    np.testing.assert_array_equal(result.predict(X[:300]), np.asarray(result.labels)[:300])


def test_rows_with_copies_are_not_parted_from_them(monkeypatch):
    err(monkeypatch)
    monkeypatch.setattr(neighbor_votes, "drop", lambda job: None)
    X = overlapping(600)
    context = bigsmic.fit(np.concatenate([X, X[:300]]), 6, **OPTIONS)._context
    draft, final = (read(context, stage, "labels") for stage in ("draft", "final"))
    rows = read(context, "rows", "rows")
    has_copy = (rows < 300) | (rows >= 600)
    assert np.count_nonzero(draft != final) > 10
    np.testing.assert_array_equal(final[has_copy], draft[has_copy])


def test_labels_by_valleys_alone_are_not_put_to_the_vote():
    draw = np.random.default_rng(0)
    X = (10 * np.eye(4)[draw.integers(0, 4, 800)] + draw.normal(size=(800, 4))).astype(np.float32)
    result = bigsmic.fit(X, 4, n_threads=1)
    assert not neighbor_votes.are_counted(result._context)
