"""Rows in the plane: which rows, what is near, the same each time, and what is refused."""

import sys

import numpy as np
import pytest
from scipy.sparse import csr_array
from small_fits import BRIEF, cut_small

import bigsmic
from bigsmic.errors import AbsentResultError, InputError
from bigsmic.methods.smic.views import central
from bigsmic.stages import coarse_graph
from bigsmic.views import layout

OPTIONS = {
    "smic": {"c": 4} | BRIEF,
    "open": {"c": None, "valleys": False} | BRIEF,
    "single": {"c": 1} | BRIEF,
    "rim": {"c": 4, "method": "rim", "n_threads": 1},
}


@pytest.fixture(scope="module")
def fits(blobs, tmp_path_factory):
    """A fit by name, made when it is first asked for."""
    made = {}

    def fit(name):
        if name not in made:
            with pytest.MonkeyPatch.context() as patch:
                cut_small(patch)
                made[name] = bigsmic.fit(blobs[0], out=tmp_path_factory.mktemp("run") / "run", **OPTIONS[name])
        return made[name]

    return fit


def purity(points, labels, k=5):
    """Share of the nearest points that have the label of a point."""
    squares = ((points[:, None] - points) ** 2).sum(axis=2)
    np.fill_diagonal(squares, np.inf)
    return np.mean(labels[np.argsort(squares, axis=1)[:, :k]] == labels[:, None])


@pytest.mark.parametrize("name", OPTIONS)
def test_what_belongs_together_is_near(fits, blobs, name):
    found = fits(name).map()
    np.testing.assert_array_equal(found.rows, np.arange(700))
    assert found.points.shape == (700, 2)
    assert found.points.dtype == np.float32
    assert purity(found.points, blobs[1]) > 0.85  # of the rows as they came: .9; of a random map: .25


def test_a_map_of_some_rows_is_one_of_a_sample_and_sees_the_rest_of_the_graph(fits, blobs):
    result = fits("smic")
    found = result.map(60)
    np.testing.assert_array_equal(found.rows, result.sample(60))
    assert purity(found.points, blobs[1][found.rows], k=3) > 0.7
    bare = result.graph(found.rows)
    whole = coarse_graph.coarse_affinities(result._context, _graph(result), found.rows)
    assert whole.nnz > 3 * bare.nnz  # most rows of the sample are no neighbours of one another


def _graph(result):
    return central(result._context).graph


def test_affinities_of_all_rows_are_those_of_the_graph(fits):
    result = fits("smic")
    found = coarse_graph.coarse_affinities(result._context, _graph(result), np.arange(700))
    np.testing.assert_allclose(found.toarray(), result.graph().toarray())


def test_entries_that_are_held_are_bounded(fits, monkeypatch):
    monkeypatch.setattr(coarse_graph, "MOST_ENTRIES", 3)
    result = fits("smic")
    found = coarse_graph.coarse_affinities(result._context, _graph(result), np.arange(700))
    assert np.diff(found.indptr).max() == 3


def test_a_map_is_the_same_at_every_call_and_in_every_process(fits):
    result = fits("smic")
    first = result.map(300)
    assert result.map(300) is first
    again = bigsmic.Result.open(result.location).map(300)
    np.testing.assert_array_equal(first.points, again.points)


def test_a_cut_lies_on_the_map_of_its_fit(fits):
    fit = fits("open")
    np.testing.assert_array_equal(fit.cut(2).map(200).rows, fit.map(200).rows)


@pytest.mark.parametrize(("n_rows", "why"), [(0, "use at least 1"), (20_001, "20,000 rows at most")])
def test_numbers_of_rows_out_of_range_are_refused(fits, n_rows, why):
    with pytest.raises(InputError, match=why):
        fits("smic").map(n_rows)


@pytest.mark.parametrize("n", [2, 3, 5, 20, 60])
def test_few_rows_are_mapped(n):
    X = np.random.default_rng(0).normal(size=(n, 3))
    found = bigsmic.fit(X, 1, n_threads=1).map()
    assert len(found.rows) == n
    assert np.isfinite(found.points).all()
    assert len(np.unique(found.points, axis=0)) == n


def test_rows_that_are_equal_are_mapped():
    X = np.repeat(np.eye(3), 20, axis=0)
    found = bigsmic.fit(X, 3, n_threads=1).map()
    assert len(found.rows) == 60
    assert np.isfinite(found.points).all()


def test_rows_that_are_tied_to_none_are_left_out():
    W = np.zeros((30, 30))
    W[:20, :20] = np.random.default_rng(0).uniform(0.5, 1, (20, 20))
    W = W + W.T
    np.fill_diagonal(W, 0)
    found = layout.laid_out(layout.Neighborhoods(np.arange(100, 130), csr_array(W), np.ones((30, 2))), 0)
    np.testing.assert_array_equal(found.rows, np.arange(100, 120))
    assert np.isfinite(found.points).all()


def test_a_graph_is_laid_out_where_the_fit_keeps_it(fits):
    W = fits("smic").graph().astype(float)
    W.indices, W.indptr = W.indices.astype(np.int32), W.indptr.astype(np.int32)
    options = {name: value for name, value in BRIEF.items() if name not in ("t", "n_centers")}
    assert len(bigsmic.fit(W, 4, kernel="precomputed", **options).map(100).rows) == 100
    with pytest.raises(AbsentResultError, match="map: the fit was made of a graph, of which it kept none"):
        bigsmic.fit(W, 1, kernel="precomputed", **options).map()


def test_a_missing_package_is_named(fits, monkeypatch):
    monkeypatch.setitem(sys.modules, "openTSNE", None)
    with pytest.raises(InputError, match=r"openTSNE is not installed; pip install 'bigsmic\[plots\]'"):
        fits("smic").map(250)
