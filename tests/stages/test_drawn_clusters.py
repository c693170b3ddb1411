"""Shapes of clusters from drawn rows."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial import KDTree

from bigsmic.engines.threads import ThreadEngine
from bigsmic.numerics.labeling import blobs
from bigsmic.stages import drawn_clusters
from bigsmic.stages.drawn_clusters import DrawnClusters


def test_noise_around_a_blob_is_no_reason_to_call_it_clumped():
    draw = np.random.default_rng(0)
    P = np.concatenate([draw.normal(size=(1600, 3)), draw.uniform(-6, 6, (400, 3))]).astype(np.float32)
    sigma = KDTree(P).query(P, 11)[0][:, -1].astype(np.float32)
    found = DrawnClusters(P, np.zeros(len(P), np.int64), np.arange(len(P)), sigma)
    with ThreadEngine(1) as engine:
        job = SimpleNamespace(map_here=engine.map, context=SimpleNamespace(settings=SimpleNamespace(seed=0)))
        assert blobs.clumpiness(P) > blobs.CLUMPED
        assert drawn_clusters.clumpiness(job, found) < blobs.CLUMPED


def test_shapes_are_of_the_largest_clusters_whatever_their_numbers():
    assert drawn_clusters.shape_of(np.array([10, 25, 60, 5])) == {"largest": 0.6, "second": 0.25, "clumpiness": None}
    sigma = np.array([1, 3, 2, 1, 1], np.float32)
    rows = DrawnClusters(np.arange(5)[:, None].astype(np.float32), np.array([0, 1, 1, 2, 1]), np.arange(5), sigma)
    np.testing.assert_array_equal(rows.of_largest()[:, 0], [1, 2, 4])
    near = rows.within(2.0)
    np.testing.assert_array_equal(near.positions, [0, 2, 3, 4])
    np.testing.assert_array_equal(near.labels, [0, 1, 2, 1])


@pytest.mark.parametrize(("clumpiness", "dominates"), [(None, False), (0.0, False), (1e9, True)])
def test_a_cluster_dominates_if_it_is_clumped(clumpiness, dominates):
    assert drawn_clusters.dominates({"clumpiness": clumpiness}) == dominates
