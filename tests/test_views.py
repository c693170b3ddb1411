"""What a Result says of its clusters and rows to those who look on: checked against labels, posterior and graph."""

import numpy as np
import pytest
from scipy.cluster.hierarchy import is_valid_linkage
from scipy.sparse import diags_array
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score, jaccard_score
from small_fits import BRIEF, cut_small

import bigsmic
from bigsmic.errors import AbsentResultError, InputError
from bigsmic.views import columns
from bigsmic.views.clusters import SAMPLE_ROWS


@pytest.fixture(scope="module")
def fits(blobs, tmp_path_factory):
    """A fit by name, made when it is first asked for."""
    made = {}
    options = {
        "smic": {"c": 4} | BRIEF,
        "noise": {"c": 4, "noise": True} | BRIEF,
        "open": {"c": None, "valleys": False} | BRIEF,
        "single": {"c": 1} | BRIEF,
        "3smic": {"c": 4, "method": "3smic", "must_links": [[0, 1]], "t": 5, "n_centers": 40, "n_threads": 1},
        "rim": {"c": 4, "method": "rim", "n_threads": 1},
    }

    def fit(name):
        if name not in made:
            with pytest.MonkeyPatch.context() as patch:
                cut_small(patch)
                made[name] = bigsmic.fit(blobs[0], out=tmp_path_factory.mktemp("run") / "run", **options[name])
        return made[name]

    return fit


@pytest.mark.parametrize("name", ["smic", "noise", "3smic", "rim"])
def test_table_of_clusters_has_the_means_of_their_rows(fits, name):
    result = fits(name)
    table, posterior = result.clusters, np.asarray(result.posterior)
    assert table.index.tolist() == [0, 1, 2, 3]
    for k in range(4):
        own = result.labels == k
        assert table.rows[k] == own.sum()
        assert table.share[k] == pytest.approx(own.sum() / (result.labels >= 0).sum())
        assert table.posterior[k] == pytest.approx(posterior[own, k].mean(), abs=1e-6)
        agreement = result.agreement[own].mean() if name != "rim" else 1
        assert table.agreement[k] == pytest.approx(agreement, abs=1e-6)
    np.testing.assert_array_equal(result.sizes, table.rows)


@pytest.mark.parametrize("name", ["smic", "rim"])
def test_relations_are_those_of_the_posterior(fits, name):
    result = fits(name)
    P = np.asarray(result.posterior, dtype=float)
    share = P.mean(axis=0)
    ratios = (P.T @ P / len(P)) / np.outer(share, share)
    np.testing.assert_allclose(result.density_ratios, ratios, rtol=1e-4)
    np.fill_diagonal(ratios, 0)
    assert result.clusters.nearest.tolist() == ratios.argmax(axis=1).tolist()
    np.testing.assert_allclose(result.clusters.density_ratio, ratios.max(axis=1), rtol=1e-4)
    Z = result.cluster_tree
    assert is_valid_linkage(Z)
    assert sorted(Z[0, :2]) == sorted(np.unravel_index(ratios.argmax(), ratios.shape))


def test_stability_is_the_mean_best_jaccard_over_the_labelings_of_the_consensus(fits):
    result = fits("smic")
    labelings = result.labelings()[result.scores.chosen.to_numpy()]
    for k in range(4):
        own = result.labels == k
        best = [max(jaccard_score(own, other == m) for m in np.unique(other)) for other in labelings]
        assert result.clusters.stability[k] == pytest.approx(np.mean(best))


def test_valleys_of_clusters_are_their_weakest(fits):
    result = fits("smic")
    table, pairs = result.clusters, result.valleys.pairs
    assert len(pairs)
    for k in range(4):
        own = pairs[(pairs.cluster == k) | (pairs.neighbor == k)]
        if len(own):
            weakest = own.loc[own.z.idxmin()]
            assert {k, table.valley_to[k]} == {weakest.cluster, weakest.neighbor}
            assert (table.valley_z[k], table.valley_depth[k]) == (weakest.z, weakest.depth)
        else:
            assert table.valley_to[k] == -1
            assert np.isinf(table.valley_z[k])


@pytest.mark.parametrize("name", ["smic", "noise", "rim"])
def test_examples_are_the_surest_and_the_least_sure_rows(fits, name):
    result = fits(name)
    known = result.labels >= 0
    own = np.asarray(result.posterior, dtype=float)[np.arange(700), np.maximum(result.labels, 0)]
    certainty = (own + (1 if name == "rim" else result.agreement)) / 2
    for found, sign in ((result.typical_rows(3), -1), (result.uncertain_rows(3), 1)):
        for k in range(4):
            rows = np.flatnonzero(known & (result.labels == k))
            expected = rows[np.lexsort((rows, sign * certainty[rows]))][:3]
            assert found.row[found.cluster == k].tolist() == expected.tolist()
            np.testing.assert_allclose(found.certainty[found.cluster == k], certainty[expected])


def test_samples_are_drawn_by_row_and_nest(fits):
    result = fits("smic")
    small, large = result.sample(50), result.sample(200)
    assert len(small) == 50
    assert set(small) < set(large)
    np.testing.assert_array_equal(small, bigsmic.Result.open(result.location).sample(50))
    np.testing.assert_array_equal(result.sample(SAMPLE_ROWS), np.arange(700))
    with pytest.raises(InputError, match="n_rows: got 0; use at least 1"):
        result.sample(0)


def test_embedding_solves_the_eigenproblem_of_the_graph(fits):
    result = fits("smic")
    E, W = np.asarray(result.embedding), result.graph().astype(float)
    assert result.embedding.kernel == "normalized"
    assert E.dtype == np.float32
    assert E.shape == result.embedding.shape == (700, result.embedding.shape[1])
    np.testing.assert_allclose(E.T @ E, np.eye(E.shape[1]), atol=1e-4)
    root = diags_array(1 / np.sqrt(W.sum(axis=1)))
    N = root @ W @ root
    values = np.einsum("ij,ij->j", E, N @ E)
    assert values[0] == pytest.approx(1, abs=1e-4)
    np.testing.assert_allclose(N @ E[:, :4], E[:, :4] * values[:4], atol=1e-3)


def test_embedding_is_indexed_as_an_array(fits):
    lazy = fits("smic").embedding
    E = np.asarray(lazy)
    for key in (3, -1, slice(10, 400, 7), [5, 5, 2], np.arange(700) % 9 == 0, (slice(0, 9), 1), (slice(0, 0), 0)):
        np.testing.assert_array_equal(lazy[key], E[key])
    with pytest.raises(IndexError, match="out of bounds"):
        lazy[700]
    with pytest.raises(ValueError, match="cannot be an array without a copy"):
        np.asarray(lazy, copy=False)


def test_graph_joins_rows_of_one_cluster_and_is_symmetric(fits):
    result = fits("smic")
    W = result.graph()
    assert W.shape == (700, 700)
    assert W.dtype == np.float32
    assert abs(W - W.T).max() == 0
    assert W.diagonal().max() == 0
    row, column = W.nonzero()
    assert np.average(result.labels[row] == result.labels[column], weights=W.data) > 0.9


def test_graph_of_some_rows_is_part_of_the_whole(fits):
    result = fits("smic")
    rows = np.random.default_rng(0).permutation(700)[:90]
    np.testing.assert_array_equal(result.graph(rows).toarray(), result.graph().toarray()[np.ix_(rows, rows)])


def test_graph_of_many_rows_is_refused_with_its_size(fits):
    with pytest.raises(InputError, match=r"graph: got 700 rows, more than max_rows=600; give max_rows=700 if .* GiB"):
        fits("smic").graph(max_rows=600)


@pytest.mark.parametrize("rows", [[], np.empty(0, int)])
def test_no_rows_have_an_empty_graph_and_no_labels(fits, rows):
    graph = fits("smic").graph(rows)
    assert (graph.shape, graph.nnz, graph.dtype) == ((0, 0), 0, np.float32)
    assert fits("smic").labelings(rows).shape == (len(fits("smic").scores), 0)


def test_a_number_of_rows_that_is_none_is_refused(fits):
    with pytest.raises(InputError, match="max_rows: got 'many'; use an integer"):
        fits("smic").graph(max_rows="many")


@pytest.mark.parametrize("rows", [[1, 1], [[1, 2]], [0.5]])
def test_rows_that_are_no_distinct_numbers_are_refused(fits, rows):
    with pytest.raises(InputError, match="give the numbers of rows, each of them once"):
        fits("smic").graph(rows)


@pytest.mark.parametrize("row", [700, -1])
def test_rows_that_are_not_there_are_refused(fits, row):
    with pytest.raises(InputError, match="use row numbers from 0 to 699"):
        fits("smic").labelings([row])


def test_labelings_are_those_of_the_scores(fits):
    result = fits("smic")
    found = result.labelings()
    assert found.shape == (len(result.scores), 700)
    ari = np.array([[adjusted_rand_score(one, other) for one in found] for other in found])
    median = [np.median(np.delete(ari[b], b)) for b in range(len(found))]
    np.testing.assert_allclose(result.scores.median_ari, median, atol=1e-9)
    rows = [600, 3, 77]
    np.testing.assert_array_equal(result.labelings(rows), found[:, rows])


def test_costs_are_those_of_the_stages(fits):
    costs = fits("smic").costs
    assert costs.loc["eigen"].to_dict() == fits("smic").diagnostics["stages"]["eigen"]
    assert costs.index[0] == "scan"


def test_a_fit_of_one_cluster_has_a_table_and_no_graph(fits):
    result = fits("single")
    assert result.clusters.rows.tolist() == [700]
    assert result.clusters.nearest.tolist() == [-1]
    assert result.cluster_tree.shape == (0, 4)
    for ask in (lambda: result.embedding, result.graph, result.labelings):
        with pytest.raises(
            AbsentResultError, match="asked for one cluster, or for at least as many clusters as distinct rows"
        ):
            ask()


def test_a_fit_without_labels_has_a_graph_and_no_table(fits):
    result = fits("open")
    for ask in (lambda: result.clusters, lambda: result.sizes, lambda: result.cluster_tree, result.typical_rows):
        with pytest.raises(InputError, match=r"was given no number of clusters .* cut\(c\) gives"):
            ask()
    with pytest.raises(InputError, match="labelings: the fit was given no number of clusters"):
        result.labelings()
    assert result.embedding[:10].shape[0] == 10
    assert result.graph(np.arange(20)).shape == (20, 20)
    assert len(result.sample(30)) == 30


def test_a_cut_has_tables_of_its_own_and_the_embedding_of_the_fit(fits):
    two = fits("open").cut(2)
    assert two.clusters.rows.sum() == 700
    assert len(two.clusters) == 2
    assert two.embedding.shape[0] == 700
    assert two.labelings([0, 1]).shape == (len(two.scores), 2)


def test_methods_without_a_graph_say_so(fits):
    with pytest.raises(AbsentResultError, match="embedding: a fit by method 'rim' has no such attribute"):
        _ = fits("rim").embedding


def weight(squares, sigma_i, sigma_j):
    return np.exp(-squares / (sigma_i * sigma_j))


def test_graph_of_a_function_that_is_not_stored_is_refused(blobs, tmp_path):
    bigsmic.fit(blobs[0][:200], 3, kernel=weight, out=tmp_path / "run", **BRIEF)
    opened = bigsmic.Result.open(tmp_path / "run")
    with pytest.raises(InputError, match=r"pass kernel= to Result\.open"):
        opened.graph()
    assert bigsmic.Result.open(tmp_path / "run", kernel=weight).graph().nnz > 0


def test_graph_that_was_given_is_given_back(fits):
    W = fits("smic").graph().astype(float)
    W.indices, W.indptr = W.indices.astype(np.int32), W.indptr.astype(np.int32)
    result = bigsmic.fit(W, 4, kernel="precomputed", **{k: v for k, v in BRIEF.items() if k not in ("t", "n_centers")})
    found = result.graph().toarray()
    np.testing.assert_allclose(found, W.toarray() / W.max(), rtol=1e-4, atol=1e-7)
    assert result.embedding[:3].shape[0] == 3
    assert len(result.clusters) == 4


@pytest.mark.parametrize("scale", [None, "standard"])
def test_of_very_many_columns_those_of_largest_variance_are_profiled(scale, monkeypatch):
    monkeypatch.setattr(columns, "MOST_SUMS", 3 * 4)
    X, _ = make_blobs(300, 4, centers=3, random_state=0)
    X = np.c_[np.random.default_rng(0).normal(size=(300, 5)) / 100, X]
    table = bigsmic.fit(X, 3, method="mspc", scale=scale, n_threads=1).profiles(X)
    assert table.columns.tolist() == [5, 6, 7, 8]


def test_strongest_columns_are_those_of_largest_effects_of_either_sign():
    effects = np.array([[0.5, -3, 0, 2, -2.5, 1]])
    table = columns.ColumnTable(np.array([0, 1, 2, 3, 6, 7]), effects, effects, effects)
    assert table.strongest(0, 9) == [(1, -3.0), (6, -2.5), (3, 2.0), (7, 1.0), (0, 0.5)]
    assert table.strongest(0, 2) == [(1, -3.0), (6, -2.5)]
    assert table.strongest(0, 9, per_group=2) == [(1, -3.0), (6, -2.5), (3, 2.0)]
