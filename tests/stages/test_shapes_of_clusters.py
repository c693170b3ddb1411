"""Shapes of clusters in fits: rows that they tell better than votes, and where they have no say."""

import copy
import pickle
import shutil

import numpy as np
import pytest
import zarr
from small_fits import FAST, cut_small

import bigsmic
from bigsmic.datasets import TetrodeSimulator
from bigsmic.numerics.labeling import consensus
from bigsmic.numerics.labeling import gaussians as numerics
from bigsmic.numerics.labeling.metrics import adjusted_rand_index, contingency
from bigsmic.stages import consensus as votes
from bigsmic.stages import gaussians
from bigsmic.stages.choice import chosen_set
from bigsmic.stages.consensus import ballots

OPTIONS = {"t": 7, "n_centers": 40, "n_threads": 1}


@pytest.fixture(scope="module")
def spikes():
    simulator = TetrodeSimulator(n_rows=3000, n_units=6, seed=3)
    X, truth = simulator.block(0, 3000)
    return X, truth, bigsmic.fit(X, 6, **OPTIONS)


def voted(result):
    """Labels by votes alone, and votes, in the order of the rows."""
    context = result._context
    rows = np.concatenate([context.run.read("rows", p, "rows") for p in context.blocks])
    shares = np.concatenate([shares_of_votes(context, p) for p in context.blocks])[np.argsort(rows)]
    return context, shares, shares.argmax(axis=1)


def shares_of_votes(context, p):
    labels, of, classes = ballots(context, p, chosen_set(context))
    return consensus.vote(labels, of, classes, context.settings.n_clusters) / len(of)


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


def test_votes_of_a_block_are_counted_once_for_the_evidence_and_for_the_shapes(spikes, monkeypatch):
    cut_small(monkeypatch)
    counted, count = [], votes.most_voted

    def most_voted(context, p, w, *some):
        counted.extend([] if some else [(w, p)])
        return count(context, p, w, *some)

    monkeypatch.setattr(votes, "most_voted", most_voted)
    result = bigsmic.fit(spikes[0][:1500], 6, **FAST)
    assert gaussians.read(result._context) is not None
    assert {p for _, p in counted} == set(result._context.blocks)
    assert len(counted) == len(set(counted))


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


@pytest.mark.parametrize(("n", "noise", "seed", "least"), [(1500, 0.06, 1, 0.98), (4000, 0.12, 3, 0.9)])
def test_moons_are_left_to_the_graph(n, noise, seed, least):
    """Of the noisy ones, only the ends, on which labelings disagree, tell that they are no Gaussians."""
    from sklearn.datasets import make_moons

    X, truth = make_moons(n, noise=noise, random_state=seed)
    result = bigsmic.fit(X.astype(np.float32), 2, n_threads=1)
    context, shares, labels = voted(result)
    shapes = gaussians.read(context)  # none where the moons are parts of the graph
    assert shapes is None or not shapes.may_move[0, 1]
    tied = shares[:, 0] == shares[:, 1]  # told by the posterior
    np.testing.assert_array_equal(np.asarray(result.labels)[~tied], labels[~tied])
    assert noise > 0.1 or np.array_equal(result.labels, labels)
    assert score(truth, np.asarray(result.labels)) > least


def test_a_single_labeling_has_no_votes_to_join(spikes):
    X, _, _ = spikes
    result = bigsmic.fit(X[:1000], 6, **OPTIONS, selection="medoid")
    assert not result._run.done(gaussians.GAUSSIANS, 0)


# -- what is made of a fit


def keeps_shapes(result, wanted, X):
    """Whether a result predicts the very posteriors that another one does, by the shapes of its clusters."""
    assert gaussians.read(result._context) is not None
    np.testing.assert_array_equal(result.predict_proba(X), wanted.predict_proba(X))
    np.testing.assert_array_equal(result.predict(X), wanted.predict(X))
    return True


def test_copies_pickles_and_saved_runs_keep_them(spikes, tmp_path):
    X, _, result = spikes
    assert keeps_shapes(copy.deepcopy(result), result, X)
    assert keeps_shapes(pickle.loads(pickle.dumps(result)), result, X)
    assert keeps_shapes(result.save(tmp_path / "run"), result, X)
    assert keeps_shapes(bigsmic.Result.open(tmp_path / "run"), result, X)


def test_a_cut_has_shapes_of_its_own(spikes, tmp_path):
    X, _, result = spikes
    five = result.cut(5)
    assert len(gaussians.read(five._context).gaussians.offsets) == 5
    assert np.mean(five.predict(X) == five.labels) > 0.995
    assert keeps_shapes(pickle.loads(pickle.dumps(five)), five, X)
    assert keeps_shapes(five.save(tmp_path / "run"), five, X)
    assert keeps_shapes(result, result, X)  # which has its own still


def test_clusters_with_numbers_of_an_earlier_run_have_them(spikes, tmp_path):
    X, truth, _ = spikes
    earlier = bigsmic.fit(X[truth != 2], 5, **OPTIONS, out=tmp_path / "earlier")
    later = bigsmic.fit(X, 6, **OPTIONS, like=earlier)
    plain = spikes[2]
    np.testing.assert_array_equal(np.unique(later.predict(X)), later.numbers)
    own = plain.predict(X)
    of_own = {int(k): int(later.predict(X[own == k][:1])[0]) for k in range(6)}
    np.testing.assert_array_equal(later.predict(X), [of_own[int(k)] for k in own])


def test_rows_far_out_are_noise_in_predictions_as_in_the_fit(spikes):
    X = spikes[0]
    result = bigsmic.fit(X, 6, **OPTIONS, noise=True)
    assert gaussians.read(result._context) is not None
    np.testing.assert_array_equal(result.predict(X) < 0, result.predict_noise(X) > 0.5)
    assert np.mean((result.predict(X) < 0) == (result.labels < 0)) > 0.98


def test_rows_that_come_later_are_labelled_as_they_are_predicted(spikes, tmp_path):
    X = spikes[0]
    rows = zarr.create_array(str(tmp_path / "rows.zarr"), data=X[:2500], chunks=(500, X.shape[1]))
    result = bigsmic.fit(rows, 6, **OPTIONS, out=tmp_path / "run")
    assert gaussians.read(result._context) is not None
    rows.append(X[2500:])
    result.update(rows)
    np.testing.assert_array_equal(
        bigsmic.Result.open(tmp_path / "run").archive_labels()[2500:], result.predict(X[2500:])
    )


@pytest.mark.parametrize("unit", [2.0**-40, 2.0**-20])
def test_rows_in_a_small_unit_have_the_labels_of_others(unit):
    rng = np.random.default_rng(3)
    centers = np.array([[0, 0, 0], [2.5, 0, 0], [0, 3, 0]])
    X = rng.standard_normal((300, 3)) + centers[rng.integers(0, 3, 300)]
    wanted, found = (bigsmic.fit(x * X, 3, scale=None) for x in (1, unit))
    np.testing.assert_array_equal(found.labels, wanted.labels)
    np.testing.assert_array_equal(found.predict(unit * X), wanted.labels)


def test_a_finished_run_that_has_lost_them_makes_them_again(spikes, tmp_path):
    X, _, result = spikes
    result.save(tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / gaussians.GAUSSIANS)
    assert keeps_shapes(bigsmic.fit(X, 6, **OPTIONS, out=tmp_path / "run"), result, X)
