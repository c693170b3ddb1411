"""Shapes of clusters in fits: rows that they tell better than votes, and where they have no say."""

import numpy as np
import pytest

import bigsmic
from bigsmic.datasets import TetrodeSimulator
from bigsmic.numerics.labeling import gaussians as numerics
from bigsmic.numerics.labeling.metrics import adjusted_rand_index, contingency
from bigsmic.stages import gaussians
from bigsmic.stages.gaussians import _votes


@pytest.fixture(scope="module")
def spikes():
    simulator = TetrodeSimulator(n_rows=3000, n_units=6, seed=3)
    X, truth = simulator.block(0, 3000)
    return X, truth, bigsmic.fit(X, 6, n_threads=1)


def voted(result):
    """Labels by votes alone, and votes, in the order of the rows."""
    context = result._context
    rows = np.concatenate([context.run.read("rows", p, "rows") for p in context.blocks])
    shares, labels = (
        np.concatenate(parts) for parts in zip(*(_votes(context, p) for p in context.blocks), strict=True)
    )
    order = np.argsort(rows)
    return context, shares[order], labels[order]


def score(truth, labels):
    return float(adjusted_rand_index(contingency(truth, labels, truth.max() + 1, labels.max() + 1)))


def test_labels_are_those_of_votes_and_shapes_together(spikes):
    X, _, result = spikes
    context, shares, labels = voted(result)
    found = gaussians.read(context)
    P = (context.scaler.apply(X) - found.mean) @ found.axes
    densities = numerics.log_densities(P, found.gaussians)
    best = (np.log(shares + np.exp(-10.0)) + densities).argmax(axis=1)
    expected = np.where(found.may_move[labels, best], best, labels)
    assert np.count_nonzero(expected != labels) > 10
    np.testing.assert_array_equal(np.asarray(result.labels), expected)


def test_they_are_nearer_to_the_truth_than_votes_alone(spikes):
    _, truth, result = spikes
    labels = voted(result)[2]
    assert score(truth, np.asarray(result.labels)) > score(truth, labels) + 0.005


def test_the_posterior_names_the_label_and_sums_to_one(spikes):
    _, _, result = spikes
    labels = voted(result)[2]
    posterior, changed = np.asarray(result.posterior), np.asarray(result.labels) != labels
    np.testing.assert_allclose(posterior.sum(axis=1), 1.0, atol=1e-5)
    np.testing.assert_array_equal(posterior[changed].argmax(axis=1), np.asarray(result.labels)[changed])


def test_fitted_rows_are_predicted_likewise(spikes):
    X, _, result = spikes
    predicted = result.predict(X)
    assert np.mean(np.asarray(predicted) == np.asarray(result.labels)) > 0.995


def test_moons_are_left_to_the_graph():
    from sklearn.datasets import make_moons

    X, truth = make_moons(1500, noise=0.06, random_state=1)
    result = bigsmic.fit(X.astype(np.float32), 2, n_threads=1)
    context, _, labels = voted(result)
    assert not gaussians.read(context).may_move[0, 1]
    np.testing.assert_array_equal(np.asarray(result.labels), labels)
    assert score(truth, np.asarray(result.labels)) > 0.98


def test_a_single_labeling_has_no_votes_to_join(spikes):
    X, _, _ = spikes
    result = bigsmic.fit(X[:1000], 6, n_threads=1, selection="medoid")
    assert not result._run.done(gaussians.GAUSSIANS, 0)
