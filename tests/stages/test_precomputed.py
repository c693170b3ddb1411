"""Graphs in the place of features: the same clusters as from the features that they were made of."""

import numpy as np
import pytest
import reference
from scipy.sparse import block_diag, coo_array, csr_array, csr_matrix
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import kneighbors_graph
from small_fits import FAST

import bigsmic
from bigsmic.errors import InputError, NonFiniteError, RunMismatchError

pytestmark = pytest.mark.usefixtures("many_blocks")
WIDTHS = {"widths": (1.5, 2), "n_threads": 1}
AFFINITY, DISTANCE = {"kernel": "precomputed"} | WIDTHS, {"metric": "precomputed"} | WIDTHS


@pytest.fixture(scope="module")
def affinity(blobs):
    return csr_array(reference.kernel(reference.standardised(blobs[0]), 5))


@pytest.fixture(scope="module")
def distances(blobs):
    return csr_array(kneighbors_graph(reference.standardised(blobs[0]), 20, mode="distance"))


def test_an_affinity_is_the_kernel(blobs, affinity):
    options = {"assignment": "rotation", "repair": False}
    wanted = bigsmic.fit(blobs[0], 4, **FAST | options | {"normalization": None, "t": 5})
    found = bigsmic.fit(affinity, 4, **AFFINITY | options)
    posterior, P = np.asarray(found.posterior), np.asarray(wanted.posterior)
    order = [np.abs(P - posterior[:, [y]]).max(axis=0).argmin() for y in range(4)]
    np.testing.assert_allclose(posterior, P[:, order], atol=1e-4)
    np.testing.assert_array_equal(found.labels, P[:, order].argmax(axis=1))
    values = [result.diagnostics["eigen"][0]["ritz_values"] for result in (found, wanted)]
    np.testing.assert_allclose(np.multiply(values[0], affinity.max()), values[1], rtol=1e-5)


@pytest.mark.parametrize("options", [{}, {"assignment": "auto"}, {"selection": "medoid"}])
def test_clusters_are_found_without_features(blobs, affinity, distances, options):
    wanted = bigsmic.fit(blobs[0], 4, **FAST | options).labels
    for graph, how in ((affinity, AFFINITY), (distances, DISTANCE)):
        result = bigsmic.fit(graph, 4, **how | options)
        assert adjusted_rand_score(wanted, result.labels) > 0.92
        assert "lsmi" not in result.scores
        assert "Result of 700 rows" in repr(result)
        np.testing.assert_allclose(np.asarray(result.posterior).sum(axis=1), 1, atol=1e-5)
        assert np.mean(result.predict(graph[:200]) == result.labels[:200]) > 0.95


def test_the_format_of_a_sparse_matrix_does_not_matter(distances):
    wanted = bigsmic.fit(distances, 4, **DISTANCE)
    for made in (csr_matrix, coo_array):
        found = bigsmic.fit(made(distances), 4, **DISTANCE)
        np.testing.assert_array_equal(np.asarray(found.posterior), np.asarray(wanted.posterior))


@pytest.mark.parametrize("is_read_only", [False, True])
def test_a_matrix_stays_as_it_is(distances, is_read_only):
    n, width = distances.shape[0], 20
    halves = distances.data.reshape(n, width)[:, ::-1] / 2
    columns = distances.indices.reshape(n, width)[:, ::-1]
    parts = [np.concatenate([part, part], axis=1).ravel() for part in (halves, columns)]
    doubled = csr_matrix((*parts, 2 * distances.indptr), shape=distances.shape)
    for buffer in (doubled.data, doubled.indices, doubled.indptr):
        buffer.flags.writeable = not is_read_only
    before = [buffer.copy() for buffer in (doubled.data, doubled.indices, doubled.indptr)]
    found = bigsmic.fit(doubled, 4, **DISTANCE)
    np.testing.assert_array_equal(found.labels, bigsmic.fit(distances, 4, **DISTANCE).labels)
    for buffer, kept in zip((doubled.data, doubled.indices, doubled.indptr), before, strict=True):
        np.testing.assert_array_equal(buffer, kept)


def test_components_without_a_way_out_stay():
    parts = [np.random.default_rng(i).normal(size=(60, 2)) for i in range(3)]
    apart = block_diag([kneighbors_graph(X, 20, mode="distance") for X in parts])
    result = bigsmic.fit(apart, 3, **DISTANCE)
    assert adjusted_rand_score(np.repeat(range(3), 60), result.labels) == 1
    assert {found["after"] for found in result.diagnostics["components"].values()} == {3}


@pytest.mark.parametrize("normalization", ["auto", "symmetric"])
def test_rows_without_any_weight_leave_the_others_alone(affinity, normalization):
    lonely, options = [5, 300], AFFINITY | {"normalization": normalization}
    left = affinity.tolil()
    left[lonely], left[:, lonely] = 0, 0
    found = bigsmic.fit(csr_array(left), 4, **options).labels
    others = np.setdiff1d(np.arange(700), lonely)
    assert adjusted_rand_score(bigsmic.fit(affinity, 4, **options).labels[others], found[others]) > 0.95
    assert np.isin(found[lonely], found[others]).all()


def test_new_rows_without_neighbours_are_undecided(affinity, distances):
    none = csr_array((2, 700))
    for graph, how in ((affinity, AFFINITY), (distances, DISTANCE)):
        result = bigsmic.fit(graph, 4, **how)
        np.testing.assert_allclose(result.predict_proba(none), 0.25)
        assert result.predict(none[:0]).shape == (0,)
    assert np.isinf(result.novelty(none)).all()


def test_another_matrix_is_refused(affinity, tmp_path):
    bigsmic.fit(affinity, 4, out=tmp_path / "run", **AFFINITY)
    with pytest.raises(RunMismatchError, match=r"the matrix is not the one that .* was started with"):
        bigsmic.fit(affinity * 0.5, 4, out=tmp_path / "run", **AFFINITY)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.eye(5), r"must be a sparse square matrix, got .*ndarray"),
        (csr_array((3, 4)), r"must be a sparse square matrix, got .* of \(3, 4\)"),
        (csr_array((5, 5)), "at least one entry"),
        (csr_array(np.eye(5) * 1j), "a precomputed affinity has entries of dtype complex128; give real numbers"),
        (csr_array(-np.eye(5)), "no negative ones"),
        (csr_array(np.eye(5, k=1)), r"not symmetric; pass \(A \+ A\.T\) / 2"),
    ],
)
def test_what_is_no_affinity_is_refused(matrix, message):
    with pytest.raises(InputError, match=message):
        bigsmic.fit(matrix, 2, **AFFINITY)


def test_distances_whose_squares_overflow_are_refused(distances):
    far = distances * 2.0**100
    message = r"the largest distance is \d\.\d+e\+30, .* at most those of 1.84e\+19; divide all"
    with pytest.raises(InputError, match=message):
        bigsmic.fit(far, 4, **DISTANCE)
    near = bigsmic.fit(far * 2.0**-38, 4, **DISTANCE)  # by powers of two: the affinities have the same bits
    np.testing.assert_array_equal(near.posterior, bigsmic.fit(distances, 4, **DISTANCE).posterior)


def test_entries_that_are_not_finite_are_refused(affinity):
    bad = affinity.copy()
    bad.data[7] = np.nan
    with pytest.raises(NonFiniteError, match="the sparse affinity contains NaN or infinity"):
        bigsmic.fit(bad, 4, **AFFINITY)
    result = bigsmic.fit(affinity, 4, **AFFINITY)
    with pytest.raises(NonFiniteError, match="predict: the sparse matrix contains NaN"):
        result.predict(bad)
    with pytest.raises(InputError, match=r"predict: X has 699 features, but the fit was made with 700 rows"):
        result.predict(affinity[:, :699])


@pytest.mark.parametrize(("how", "what"), [(AFFINITY, "affinities"), (DISTANCE, "distances")])
def test_new_rows_of_a_graph_are_checked_like_fitted_ones(how, what):
    graph = kneighbors_graph(np.repeat(np.random.default_rng(0).normal(size=(40, 3)), 2, axis=0), 10, mode="distance")
    graph = csr_array(graph.maximum(graph.T))
    result = bigsmic.fit(graph, 2, **how)
    for rows, message in (
        ("foo", rf"expected a sparse matrix of {what} to the fitted rows, got str of shape \(\); give \(m, 80\)"),
        (np.zeros(80), r"got ndarray of shape \(80,\); give \(m, 80\)"),
        (-graph[:5], f"predict: X has negative {what}, down to .*; give {what} of at least 0"),
        (graph[:5] * 1j, "predict: X has entries of dtype complex128; give real numbers"),
        (np.full((1, 80), "a"), "predict: X has entries of dtype <U1; give real numbers"),
    ):
        with pytest.raises(InputError, match=message):
            result.predict(rows)
    found = result.predict(graph[:5])
    np.testing.assert_array_equal(result.predict(graph[:5].toarray().tolist()), found)


def test_features_are_what_lsmi_needs(affinity):
    with pytest.raises(InputError, match="selection: 'lsmi' needs features"):
        bigsmic.fit(affinity, 4, selection="lsmi", **AFFINITY)


def test_a_row_without_neighbours_is_refused(distances):
    lonely = distances.tolil()
    lonely[5] = 0
    with pytest.raises(InputError, match="row 5 of the distance graph has no neighbour"):
        bigsmic.fit(csr_array(lonely), 4, **DISTANCE)
