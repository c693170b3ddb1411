"""The other methods on a Dask cluster of two processes: the same bits as on threads of one."""

import warnings

import numpy as np
import pytest
from clusters import cluster_of

import bigsmic

pytestmark = [
    pytest.mark.end_to_end,
    pytest.mark.usefixtures("many_blocks"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

PAIRS = np.random.default_rng(0).permutation(700).reshape(-1, 2)
FITS = {
    "3smic": {"method": "3smic", "t": 5, "n_centers": 40, "gamma": 1, "normalization": "symmetric"},
    "3smic, open": {"method": "3smic", "t": 5, "n_centers": 40, "gamma": 0, "scale": None},
    "mic": {"method": "mic", "t": (5,), "n_centers": 40},
    "mwca, dense": {"method": "mwca", "n_starts": 2},
    "mwca, dense, spectral": {"method": "mwca", "solver": "spectral"},
    "mwca, graph": {"method": "mwca", "kernel": "graph", "n_starts": 2},
    "mwca, graph, spectral": {"method": "mwca", "kernel": "graph", "solver": "spectral"},
    "mspc, mpm": {"method": "mspc"},
    "mspc, gep": {"method": "mspc", "solver": "gep", "reg": "auto"},
    "mspc, eig": {"method": "mspc", "solver": "eig"},
}
SLOW = ("mwca, dense, spectral", "mwca, graph", "mspc, gep", "mspc, eig")


@pytest.fixture(scope="module")
def client():
    with cluster_of(2) as client:
        yield client


def fit(blobs, name, **options):
    X, y = blobs
    options |= FITS[name]
    if options["method"] == "3smic":
        same = y[PAIRS[:, 0]] == y[PAIRS[:, 1]]
        options |= {"must_links": PAIRS[same], "cannot_links": PAIRS[~same]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of labels that have not settled on so few rows
        c = None if "open" in name else 2 if "solver" in options else 3 if "mspc" in name else 4
        return bigsmic.fit(X, c, n_threads=1, **options)


@pytest.mark.parametrize("name", [pytest.param(f, marks=pytest.mark.slow if f in SLOW else []) for f in FITS])
def test_labels_posteriors_and_predictions_are_those_of_threads(client, blobs, name, tmp_path):
    here, there = fit(blobs, name), fit(blobs, name, client=client, out=tmp_path / "run")
    np.testing.assert_array_equal(there.labels, here.labels)
    np.testing.assert_array_equal(np.asarray(there.posterior), np.asarray(here.posterior))
    new = blobs[0][:64] + np.float32(0.1)
    np.testing.assert_array_equal(there.predict_proba(new, client=client), here.predict_proba(new))
    assert len(np.unique(here.labels)) > 1
