"""Parts of the graph, which added edges hardly tie together: they are found, however long and thin they are."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import make_circles, make_moons
from sklearn.metrics import adjusted_rand_score

import bigsmic
from bigsmic.stages import connectivity, gaussians


def circles(n):
    X, y = make_circles(n, factor=0.5, random_state=0)
    return X.astype(np.float32), y


def fit(X, c=None, **options):
    return bigsmic.fit(X, c, scale=None, n_threads=1, n_centers=40, **options)


def test_circles_without_noise_are_found_with_their_number_and_without():
    X, y = circles(10_000)
    for c in (2, None):
        result = fit(X, c)
        assert adjusted_rand_score(y, result.labels) == 1
        np.testing.assert_array_equal(result.predict(X[::7]), np.asarray(result.labels)[::7])


@pytest.mark.parametrize(("make", "c"), [(make_moons, None), (make_circles, 2), (make_circles, None)])
def test_a_few_outliers_do_not_hide_bent_clusters(make, c):
    """Ten rows of 3,000 anywhere around them, and four groups of three."""
    X, y = make(3000, noise=0.05, random_state=0, **({"factor": 0.5} if make is make_circles else {}))
    draw = np.random.default_rng(1)
    groups = np.repeat(draw.uniform(-4, 4, (4, 2)), 3, axis=0) + draw.normal(0, 0.05, (12, 2))
    result = fit(np.concatenate([X, draw.uniform(-4, 4, (10, 2)), groups]), c)
    assert adjusted_rand_score(y, np.asarray(result.labels)[:3000]) > 0.99


def least_weights(result):
    context = result._context
    t = context.settings.t[-1]
    return np.concatenate([connectivity.bridges(context, t, p)[3] for p in context.blocks])


def far_blobs():
    draw = np.random.default_rng(0)
    y = np.repeat([0, 1, 2, 3], 150)
    centres = np.array([[0, 0], [40, 0], [300, 0], [340, 0]])
    return (centres[y] + draw.normal(size=(600, 2))).astype(np.float32), y


@pytest.mark.filterwarnings("ignore:c .n_clusters.. got 2, but the data show 4 groups")
@pytest.mark.parametrize(
    ("c", "least"),
    [(4, connectivity.LEAST_BETWEEN), (None, connectivity.LEAST_BETWEEN), (2, connectivity.LEAST_WEIGHT)],
)
def test_edges_between_parts_weigh_as_much_as_others_only_if_parts_are_to_be_joined(c, least):
    X, y = far_blobs()
    result = fit(X, c)
    weights = least_weights(result)
    assert len(weights)
    np.testing.assert_array_equal(weights, np.full(len(weights), least, np.float32))
    assert adjusted_rand_score(y // 2 if c == 2 else y, result.labels) == 1


def test_shapes_have_no_say_where_clusters_are_bent_parts():
    """Of four labelings, one has groups across both moons: Gaussians would move rows of its share."""
    X, y = make_moons(10_000, noise=0.02, random_state=0)
    result = fit(X.astype(np.float32))
    assert result.valleys.parts == 2
    assert gaussians.read(result._context) is None
    assert adjusted_rand_score(y, result.labels) == 1


@pytest.mark.parametrize("c", [None, 4, (2, 6), (2, 3)])
def test_fewer_clusters_than_parts_join_those_that_are_near(c):
    X, y = far_blobs()
    result = fit(X, c)
    found = result if result.n_clusters == 3 else result.cut(3)
    assert len(set(found.labels[y < 2].tolist()) & set(found.labels[y > 1].tolist())) == 0
    assert found.n_clusters == 3


def test_parts_are_untied_if_they_are_in_the_graph_of_every_t():
    run = SimpleNamespace(infos=lambda stage, blocks: [{"parts": (3, 1, 2)[i]} for i in blocks])
    found = [connectivity.n_untied(SimpleNamespace(run=run, settings=SimpleNamespace(t=t))) for t in ((3,), (3, 5, 9))]
    assert found == [3, 1]
