"""Rows that cannot be told apart: equal rows are in one cluster, none is made up, and it is said."""

import pickle
import tracemalloc

import numpy as np
import pytest
import zarr
from sklearn.cluster import AgglomerativeClustering
from sklearn.metrics import adjusted_rand_score

import bigsmic
from bigsmic.errors import ConvergenceWarning, InputError
from bigsmic.numerics.distinct import Distinct, joined, nearest

METHODS = {
    "smic": {},
    "smic as published": {"preset": "paper"},
    "3smic": {},
    "mic": {},
    "mwca": {},
    "mwca on the graph": {"kernel": "graph"},
    "mspc": {},
    "rim": {},
    "kernel_rim": {},
}
ESTIMATORS = ("SMIC", "RIM", "KernelRIM", "MIC", "MWCA", "MSPC")


def three(copies=100):
    """Three distinct rows, many times, in mixed order, and which each is."""
    which = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], copies))
    return np.array([[0, 1, 0.5, 2], [1, 0, 0.5, 2], [4, 4, 4, 4]], np.float32)[which], which


def assert_one_cluster_each(labels, which, k):
    pairs = set(zip(labels.tolist(), which.tolist(), strict=True))
    assert len(pairs) == k
    assert sorted(label for label, _ in pairs) == list(range(k))


@pytest.mark.parametrize("name", METHODS)
def test_each_of_three_distinct_rows_is_a_cluster(name, many_blocks, tmp_path):
    X, which = three()
    options = {"method": name.split()[0], "n_threads": 1, **METHODS[name]}
    with pytest.warns(ConvergenceWarning, match=r"got 5 clusters, but no more than 3 rows differ"):
        result = bigsmic.fit(X, 5, out=tmp_path / "run", **options)
    assert result.n_clusters == 3
    assert_one_cluster_each(result.labels, which, 3)
    assert result.posterior.shape == (300, 3)
    assert np.array_equal(np.asarray(result.posterior).argmax(axis=1), result.labels)
    assert np.array_equal(result.predict(X), result.labels)
    assert "3 clusters" in repr(result)
    with pytest.warns(ConvergenceWarning, match="no more than 3 rows differ"):
        again = bigsmic.fit(X, 5, out=tmp_path / "run", **options)
    assert np.array_equal(again.labels, result.labels)
    assert np.array_equal(pickle.loads(pickle.dumps(again)).predict(X[:9]), result.labels[:9])


@pytest.mark.parametrize("name", METHODS)
def test_rows_that_are_all_equal_are_one_cluster(name):
    with pytest.warns(ConvergenceWarning, match=r"got 5 clusters, but no more than 1 rows differ"):
        result = bigsmic.fit(np.ones((300, 4)), 5, method=name.split()[0], n_threads=1, **METHODS[name])
    assert result.n_clusters == 1
    assert not result.labels.any()
    assert not result.predict(np.ones((3, 4))).any()


@pytest.mark.parametrize("name", sorted(set(METHODS) - {"mspc", "rim", "kernel_rim"}))
def test_as_many_clusters_as_distinct_rows(name):
    X, which = three()
    result = bigsmic.fit(X, 3, method=name.split()[0], n_threads=1, **METHODS[name])
    assert_one_cluster_each(result.labels, which, 3)


def test_without_links_none_is_violated_by_equal_rows():
    with pytest.warns(ConvergenceWarning, match="no more than 3 rows differ"):
        result = bigsmic.fit(three(20)[0], 5, method="3smic", n_threads=1)
    assert (result.n_links, result.n_violated) == (0, 0)
    assert {name: len(rows) for name, rows in result.violated.items()} == dict.fromkeys(result.violated, 0)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_say_so_too(name):
    X, which = three(20)
    with pytest.warns(ConvergenceWarning, match="no more than 3 rows differ"):
        model = getattr(bigsmic, name)(n_clusters=4, random_state=0).fit(X)
    assert_one_cluster_each(model.labels_, which, 3)
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.predict_proba(X[:5]).shape == (5, 3)


def test_a_fit_of_equal_rows_has_no_trees():
    X, _ = three(20)
    result = bigsmic.fit(X, 3, n_threads=1)
    for ask in (lambda: result.cut(2), lambda: result.tree, lambda: result.stability):
        with pytest.raises(InputError, match="no more than 3 rows of the fit differ"):
            ask()


@pytest.mark.parametrize("name", ["smic", "smic as published", "mic", "mwca on the graph"])
def test_few_distinct_rows_are_joined_and_equal_ones_not_parted(name, many_blocks, tmp_path):
    """Faults and a flag: neighbours of a row are its copies."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.poisson(0.05, 1200), rng.random(1200) < 0.02]).astype(float)
    rows = np.unique(X, axis=0)
    options = {"method": name.split()[0], "scale": None, **METHODS[name]}
    result = bigsmic.fit(X, 3, out=tmp_path / "run", n_threads=1, **options)
    assert len(rows) == 5
    assert_one_cluster_each(result.labels, AgglomerativeClustering(3).fit_predict(X), 3)
    assert np.array_equal(result.predict(X), result.labels)
    for there in (bigsmic.Result.open(tmp_path / "run"), pickle.loads(pickle.dumps(result))):
        assert np.array_equal(there.predict(rows), result.predict(rows))
    assert np.array_equal(bigsmic.fit(X, 3, n_threads=2, **options).labels, result.labels)


def test_distinct_rows_are_told_in_the_memory_of_a_few_copies():
    """Of wide rows, each one that was found kept all that differed from it: 21 times 256 rows."""
    X = np.random.default_rng(0).normal(size=(256, 2000)).astype(np.float32)
    tracemalloc.start()
    try:
        found = Distinct(X, 21)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(found) == 21
    assert peak < 6 * X.nbytes


def test_few_distinct_rows_are_joined_by_the_criterion_of_ward():
    rng = np.random.default_rng(3)
    rows, counts = rng.normal(size=(20, 3)).astype(np.float32), rng.integers(1, 40, 20)
    copies = np.repeat(np.arange(20), counts)
    for c in (1, 2, 5, 12, 20):
        found = joined(rows, counts, c)
        assert_one_cluster_each(found[copies], AgglomerativeClustering(c).fit_predict(rows[copies].astype(float)), c)


def test_a_fit_of_few_distinct_rows_cannot_be_cut():
    X, _ = three(20)
    result = bigsmic.fit(X, 2, n_threads=1)
    with pytest.raises(InputError, match="no more than 3 rows of the fit differ"):
        result.cut(3)


def test_an_open_number_is_cut_up_to_the_distinct_rows():
    X, which = three(20)
    result = bigsmic.fit(X, range(2, 5), n_threads=1)
    assert_one_cluster_each(result.cut(3).labels, which, 3)
    with pytest.raises(InputError, match="no more than 3 rows of the fit differ"):
        result.cut(4)


def test_links_and_labels_that_equal_rows_cannot_keep_are_refused():
    X, _ = three(20)
    with pytest.raises(InputError, match=r"got 5 clusters with links, but no more than 3 rows differ; ask for 3 at"):
        bigsmic.fit(X, 5, method="3smic", must_links=[[0, 1]], n_threads=1)
    with pytest.raises(InputError, match="got 5 clusters with labels, but no more than 3 rows differ"):
        bigsmic.fit(X, 5, method="rim", labels=np.where(np.arange(60) < 2, [0, 1] * 30, -1), n_threads=1)


def test_a_rare_row_that_the_sample_has_not_counts(tmp_path, monkeypatch, many_blocks):
    monkeypatch.setattr("bigsmic.methods.smic.planning.sample_rows", lambda n, d, cell_rows: 30)
    X = np.zeros((600, 3), np.float32)
    X[::2], X[401] = 1, 5
    zarr.create_array(tmp_path / "a.zarr", data=X, chunks=(100, 3))
    with pytest.warns(ConvergenceWarning, match="got 4 clusters, but no more than 3 rows differ"):
        result = bigsmic.fit(tmp_path / "a.zarr", 4, n_threads=1)
    assert_one_cluster_each(result.labels, X[:, 0], 3)


@pytest.mark.parametrize("scale", ["standard", None])
def test_rows_whose_squares_underflow_are_refused(scale):
    X = np.random.default_rng(0).normal(size=(300, 4)) * 1e-200
    for method in ("smic", "rim"):
        with pytest.raises(InputError, match=r"squares leave the range of float64; change the unit"):
            bigsmic.fit(X, 3, method=method, scale=scale, n_threads=1)


@pytest.mark.parametrize("cuts", [(), (1, 3), (50, 51, 200)])
def test_distinct_rows_of_blocks_are_those_of_all(cuts):
    X = np.random.default_rng(0).integers(0, 3, (700, 3)).astype(np.float32)
    X[X == 0] *= np.where(np.arange((X == 0).sum()) % 2, -1, 1)
    parts = [Distinct(part, 100) for part in np.split(X, cuts)]
    total = parts[0]
    for part in parts[1:]:
        total += part
    assert np.array_equal(total.rows, np.unique(X, axis=0))
    assert len(Distinct(X, 5)) == 5


def test_the_nearest_row_and_the_equal_one():
    rows = np.array([[0, 0], [0, 1e-30], [5, 5]], np.float32)
    X = np.concatenate([rows[::-1], [[4, 4]]]).astype(np.float32)
    assert nearest(X, rows).tolist() == [2, 1, 0, 2]


def test_rows_of_integers_with_many_copies_are_told_apart():
    """Neighbours that are all copies would make each point a part of the graph."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [450, 250])
    X = 1.0 + rng.binomial(9, np.where(y == 0, 0.04, 0.45)[:, None], (700, 6))
    assert len(np.unique(X, axis=0)) < 400
    for c in (2, None):
        assert adjusted_rand_score(y, bigsmic.fit(X, c).labels) == 1


@pytest.mark.parametrize("c", [None, 10])
@pytest.mark.filterwarnings("ignore:c .n_clusters.. got 10, but the data show")
def test_no_cluster_is_empty_where_labelings_disagree(c):
    """Ten digits on a display whose segments fail: no cut of the consensus has as many clusters that win rows."""
    lit = "1110111001001010111011011011011101011010111101111101001011111111111011"
    patterns = np.array(list(lit), int).reshape(10, 7)
    rng = np.random.default_rng(5)
    fails = rng.random((500, 7)) < 0.1
    result = bigsmic.fit(patterns[rng.integers(0, 10, 500)] ^ fails, c)
    if not result.valleys.clear:  # as labelings do not agree, which numbers are clear depends on rounding
        result = result.cut(result.valleys.best)
    assert np.bincount(result.labels, minlength=result.n_clusters).min() > 0


@pytest.mark.filterwarnings("ignore:input. got 5 rows of 300 columns")
def test_equal_rows_of_any_numbers_are_one_cluster():
    X = np.tile(np.random.default_rng(0).normal(size=300), (5, 1))  # whose mean is rounded
    with pytest.warns(ConvergenceWarning, match="no more than 1 rows differ"):
        assert (bigsmic.fit(X, 3).labels == 0).all()


def test_new_copies_of_rows_with_many_are_noise_where_these_are():
    """Copies that fill several cells are several neighbours of a fitted row, and one of a new row."""
    draw, y = np.random.default_rng(0), np.arange(6_000) % 3
    X = np.round(draw.normal(size=(6_000, 1)) + 8 * y[:, None])
    result = bigsmic.fit(X, 3, noise=True, n_threads=1)
    assert (result.labels < 0).mean() < 0.01
    np.testing.assert_array_equal(result.predict(X), result.labels)
