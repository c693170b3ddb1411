"""Shapes of clusters from drawn rows."""

from types import SimpleNamespace

import numpy as np
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
