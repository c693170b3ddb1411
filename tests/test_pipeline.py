"""The whole way from rows to labels: right, the same however it is cut, and clear about what it cannot use."""

import time

import dask.array
import numpy as np
import pytest
import reference
import zarr
from sklearn.datasets import load_digits, make_blobs, make_moons
from sklearn.metrics import adjusted_rand_score
from small_fits import FAST, cut_small, keep_on_disk

import bigsmic
from bigsmic.errors import AbsentResultError, ConvergenceWarning, InputError, NonFiniteError, PlanError, StorageError
from bigsmic.numerics.hashing import draw_rows
from bigsmic.numerics.mutual_information.gaussian_basis import fold_of
from bigsmic.runtime.block_sizes import BlockSizes
from bigsmic.runtime.context import Context
from bigsmic.stages import eigenvectors
from bigsmic.stages.labelings import read_labels


def fit(X, c, **options):
    return bigsmic.fit(X, c, **FAST | options)


def posterior_of(result):
    return np.asarray(result.posterior)


def assert_identical(result, other):
    np.testing.assert_array_equal(result.labels, other.labels)
    np.testing.assert_array_equal(posterior_of(result), posterior_of(other))


# -- right: against the dense reference


@pytest.fixture
def tight(monkeypatch):
    """Eigenvectors of the normalised kernel as exact as float32 allows."""
    monkeypatch.setitem(eigenvectors.TOLERANCE, "normalized", 2e-6)


NORMALIZATION = {"local_scaling": None, "normalized": "symmetric"}


def dense_eigenvectors(X, kernel, t, c, bandwidth=2.0):
    X = reference.standardised(X)
    if kernel == "normalized":
        return reference.top_eigenvectors(reference.normalised(reference.kernel(X, t, bandwidth, floor=1e-10)), c)
    return reference.top_eigenvectors(reference.kernel(X, t, bandwidth), c)


@pytest.mark.usefixtures("many_blocks", "tight")
@pytest.mark.parametrize(("kernel", "t"), [("local_scaling", 10), ("local_scaling", 5), ("normalized", 5)])
def test_paper_reading_is_the_dense_one(blobs, kernel, t):
    values, V = dense_eigenvectors(blobs[0], kernel, t, 5)
    assert (-np.diff(values)).min() > 5e-4  # or single eigenvectors mean nothing
    wanted = reference.paper_posterior(V[:, :4])
    result = fit(blobs[0], 4, t=t, normalization=NORMALIZATION[kernel], assignment="paper", repair=False)
    np.testing.assert_allclose(posterior_of(result), wanted, atol=1e-4)
    np.testing.assert_array_equal(result.labels, wanted.argmax(axis=1))
    np.testing.assert_allclose(result.diagnostics["eigen"][0]["ritz_values"], values[:4], rtol=1e-5)


@pytest.mark.usefixtures("many_blocks", "tight")
@pytest.mark.parametrize(("kernel", "t", "bandwidth"), [("local_scaling", 7, 1.0), ("normalized", 7, 2.0)])
def test_rotated_reading_is_the_dense_one_but_for_the_order_of_clusters(blobs, kernel, t, bandwidth):
    wanted = reference.rotated_posterior(dense_eigenvectors(blobs[0], kernel, t, 4, bandwidth)[1])
    result = fit(
        blobs[0], 4, t=t, normalization=NORMALIZATION[kernel], assignment="rotation", bandwidth=bandwidth, repair=False
    )
    found = posterior_of(result)
    order = [np.abs(wanted - found[:, [y]]).max(axis=0).argmin() for y in range(4)]
    np.testing.assert_allclose(found, wanted[:, order], atol=1e-4)
    np.testing.assert_array_equal(result.labels, wanted[:, order].argmax(axis=1))


@pytest.mark.usefixtures("many_blocks", "tight")
def test_shrunk_degrees_give_the_dense_eigenvectors(blobs):
    X = reference.standardised(blobs[0])
    values, V = reference.top_eigenvectors(reference.shrunk(reference.kernel(X, 5, floor=1e-10), 0.75), 4)
    wanted = reference.rotated_posterior(V)
    result = fit(blobs[0], 4, t=5, normalization="symmetric", assignment="rotation", shrinkage=0.75, repair=False)
    found = posterior_of(result)
    order = [np.abs(wanted - found[:, [y]]).max(axis=0).argmin() for y in range(4)]
    np.testing.assert_allclose(found, wanted[:, order], atol=1e-4)
    np.testing.assert_allclose(result.diagnostics["eigen"][0]["ritz_values"], values, rtol=1e-5)


@pytest.mark.usefixtures("many_blocks", "tight")
def test_a_prior_is_the_dense_one(blobs):
    prior = np.array([0.4, 0.1, 0.3, 0.2])
    V = dense_eigenvectors(blobs[0], "local_scaling", 10, 4)[1]
    result = fit(blobs[0], 4, t=10, normalization=None, prior=prior, repair=False)
    np.testing.assert_allclose(posterior_of(result), reference.paper_posterior(V, prior), atol=1e-4)


@pytest.mark.usefixtures("many_blocks")
def test_the_scores_and_the_choice_are_those_of_the_direct_formulas(blobs):
    """The labelings are the pipeline's: reread from the run, put in input order, and scored with dense sums."""
    result = fit(blobs[0], 4, assignment="auto", n_centers=60)
    run, result_context = result._run, Context(None, result._run, result.settings)
    blocks = result_context.blocks
    rows = np.concatenate([run.read("rows", p, "rows") for p in blocks])
    X, gammas, deltas = (
        reference.standardised(blobs[0]),
        run.read("scores", 0, "gammas"),
        run.read("scores", 0, "deltas"),
    )
    centers = draw_rows(700, 60, 0, "lsmi-center")
    folds = fold_of(np.arange(700), type("Design", (), {"seed": 0, "n_folds": 5}))
    wanted = []
    for b in range(len(result.scores)):
        labels = np.empty(700, np.int32)
        labels[rows] = np.concatenate([read_labels(result_context, p, b) for p in blocks])
        wanted.append(reference.lsmi(X, labels, centers, folds, gammas, deltas))
    np.testing.assert_allclose(result.scores.lsmi, [score for score, _, _ in wanted], atol=1e-4)
    np.testing.assert_allclose(result.scores.gamma, [gamma for _, gamma, _ in wanted])
    np.testing.assert_allclose(result.scores.delta, [delta for _, _, delta in wanted])
    assert result.scores.chosen.argmax() == np.argmax([score for score, _, _ in wanted])


@pytest.mark.usefixtures("many_blocks")
@pytest.mark.parametrize("selection", ["consensus", "medoid"])
def test_separated_blobs_are_recovered(selection):
    X, y = make_blobs(600, 4, centers=5, cluster_std=0.7, random_state=1)
    result = fit(X, 5, selection=selection)
    assert adjusted_rand_score(y, result.labels) == 1
    assert posterior_of(result).max(axis=1).mean() > 0.95


@pytest.mark.parametrize("c", [12, None])
def test_eigenvectors_within_separated_blobs_are_not_solved_to_the_tolerance(c):
    X, y = make_blobs(1500, 32, centers=12, random_state=0)
    result = bigsmic.fit(X, c, n_threads=1)
    assert adjusted_rand_score(y, result.labels) == 1
    spectra = result.diagnostics["eigen"]
    assert [spectrum["n_parts"] for spectrum in spectra] == [12] * 4
    assert sum(spectrum["n_matvecs"] for spectrum in spectra) < 1800
    assert len(spectra[0]["ritz_values"]) == 60
    assert_identical(bigsmic.fit(X, c, n_threads=2, memory_limit="600MiB"), result)


def test_moons_are_recovered():
    X, y = make_moons(400, noise=0.05, random_state=0)
    assert adjusted_rand_score(y, bigsmic.fit(X, 2, n_threads=1).labels) == 1


def test_digits_at_the_defaults():
    X, y = load_digits(return_X_y=True)
    result = bigsmic.fit(X, 10)
    assert adjusted_rand_score(y, result.labels) > 0.75
    assert result.diagnostics["neighbors"]["recall"] == 1


# -- the same, bit for bit, however it is cut and wherever it runs


@pytest.fixture(scope="module")
def plain(blobs):
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        return fit(blobs[0], 4)


ARCHIVES = {
    "v3": {"chunks": (100, 5)},
    "v2": {"chunks": (333, 2), "zarr_format": 2},
    "one row": {"chunks": (1, 5), "zarr_format": 2},
    "one chunk": {"chunks": (700, 5)},
    "sharded": {"chunks": (25, 5), "shards": (150, 5)},
    "uncompressed": {"chunks": (256, 3), "compressors": None},
}


@pytest.mark.usefixtures("many_blocks")
@pytest.mark.parametrize("kind", ARCHIVES)
def test_chunks_do_not_matter(tmp_path, blobs, plain, kind):
    array = zarr.create_array(str(tmp_path / "a.zarr"), shape=(700, 5), dtype="f4", **ARCHIVES[kind])
    array[...] = blobs[0]
    assert_identical(fit(str(tmp_path / "a.zarr"), 4), plain)


@pytest.mark.usefixtures("many_blocks")
@pytest.mark.parametrize("kind", ["fortran", "memmap", "dask", "float64", "big-endian", "strided"])
def test_the_kind_of_array_does_not_matter(tmp_path, blobs, plain, kind):
    X = blobs[0]
    np.save(tmp_path / "x.npy", X)
    data = {
        "fortran": lambda: np.asfortranarray(X),
        "memmap": lambda: np.load(tmp_path / "x.npy", mmap_mode="r"),
        "dask": lambda: dask.array.from_array(X, chunks=(123, 2)),
        "float64": lambda: X.astype(np.float64),
        "big-endian": lambda: X.astype(">f4"),
        "strided": lambda: np.repeat(X, 2, axis=0)[::2],
    }[kind]()
    assert_identical(fit(data, 4), plain)


@pytest.mark.usefixtures("many_blocks")
@pytest.mark.parametrize("options", [{}, {"assignment": "auto"}])
def test_threads_do_not_matter(blobs, options):
    one, two, three = (fit(blobs[0], 4, n_threads=n, **options) for n in (1, 2, 3))
    assert_identical(two, one)
    assert_identical(three, one)


@pytest.mark.usefixtures("many_blocks")
def test_a_run_directory_does_not_matter(tmp_path, blobs, plain):
    assert_identical(fit(blobs[0], 4, out=tmp_path / "run"), plain)


@pytest.mark.usefixtures("many_blocks")
def test_a_file_url_is_its_path(tmp_path, blobs, plain):
    zarr.create_array(str(tmp_path / "a b.zarr"), data=blobs[0])
    run = tmp_path / "not there yet" / "run"
    assert_identical(fit((tmp_path / "a b.zarr").as_uri(), 4, out=run.as_uri()), plain)
    assert_identical(bigsmic.Result.open(run), plain)


def least_limit(X, c, **options):
    """Smallest memory limit, in MiB, that a fit accepts."""
    with pytest.raises(PlanError, match=r"set memory_limit to at least (\d+)MiB") as caught:
        bigsmic.plan(X, c, memory_limit=1, **options)
    return int(str(caught.value).split("at least ")[1].split("MiB")[0])


@pytest.mark.filterwarnings("ignore:run. .* is on a file system in memory")
@pytest.mark.filterwarnings("ignore:c .n_clusters.. got 12, but the data show")
def test_the_memory_limit_does_not_matter(tmp_path):
    X = make_blobs(12_000, 3, centers=12, cluster_std=2, random_state=0)[0].astype(np.float32)
    sizes = BlockSizes(source_bytes=1 << 15, group_rows=1500, tile_bytes=1)
    options = {"t": 5, "widths": (1.5, 2), "shrinkage": 0, "n_centers": 60, "n_threads": 2, "block_sizes": sizes}
    least = least_limit(X, 12, **options)
    tight, roomy = (bigsmic.plan(X, 12, memory_limit=limit, **options) for limit in (f"{least}MiB", "4GiB"))
    assert (tight.basis_in_memory, tight.n_gammas) == (False, 1)
    assert (roomy.basis_in_memory, roomy.kernel_in_memory, roomy.n_gammas) == (True, True, 7)
    assert {tight.max_concurrency("scan"), tight.max_concurrency("select")} == {1}
    assert {roomy.max_concurrency(stage) for stage in roomy.stages} == {2}
    files = []

    def look(stage, done, total):
        files.extend((tmp_path / "run" / ".scratch").glob("*/*.f"))

    small = bigsmic.fit(X, 12, memory_limit=f"{least}MiB", out=tmp_path / "run", progress=look, **options)
    large = bigsmic.fit(X, 12, memory_limit="4GiB", **options)
    assert files
    assert not any(path.exists() for path in files)
    assert_identical(small, large)


@pytest.mark.usefixtures("many_blocks")
@pytest.mark.parametrize("options", [{"assignment": "auto"}, {"selection": "lsmi"}, {"preset": "paper", "t": (3, 5)}])
def test_nor_does_what_lies_on_disk(blobs, options, monkeypatch, tmp_path):
    plain, files = fit(blobs[0], 4, **options), []
    keep_on_disk(monkeypatch)

    def look(stage, done, total):
        files.extend((tmp_path / "run" / ".scratch").glob("*/*.f"))

    found = fit(blobs[0], 4, n_threads=2, out=tmp_path / "run", progress=look, **options)
    assert_identical(found, plain)
    assert {path.parent.name.split(".")[0] for path in files} == {"basis", "spare"}
    assert not any(path.exists() for path in files)


@pytest.mark.usefixtures("many_blocks")
def test_nor_do_scores_depend_on_it(blobs, monkeypatch):
    plain = fit(blobs[0], 4, assignment="auto")
    keep_on_disk(monkeypatch)
    found = fit(blobs[0], 4, assignment="auto")
    for name in ("lsmi", "gamma", "delta", "cv", "median_ari", "chosen"):
        np.testing.assert_array_equal(found.scores[name], plain.scores[name])


def test_the_seed_matters_and_is_enough(blobs):
    one, same, other = (fit(blobs[0], 4, seed=seed) for seed in (1, 1, 2))
    assert_identical(one, same)
    assert (posterior_of(one) != posterior_of(other)).any()


# -- input that cannot be used


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_pointed_at(blobs, bad):
    X = blobs[0].copy()
    X[321, 3] = X[600, 1] = bad
    message = r"input: array contains NaN or infinity: first at row 321, column 3; 2 entries, 0\.00057 of all; drop or"
    with pytest.raises(NonFiniteError, match=message):
        fit(X, 4)


@pytest.mark.usefixtures("many_blocks")
def test_what_is_not_finite_in_an_archive_is_pointed_at(tmp_path, blobs):
    X = blobs[0].copy()
    X[555, 4] = np.nan
    zarr.create_array(str(tmp_path / "a.zarr"), data=X, chunks=(40, 5))
    with pytest.raises(
        NonFiniteError, match=r"a\.zarr contains NaN or infinity: first at row 555, column 4; 1 entries"
    ):
        fit(tmp_path / "a.zarr", 4, out=tmp_path / "run")
    mended = zarr.open_array(str(tmp_path / "a.zarr"))
    mended[555, 4] = blobs[0][555, 4]
    assert np.array_equal(fit(tmp_path / "a.zarr", 4, out=tmp_path / "run").labels, fit(blobs[0], 4).labels)


ROWS = np.arange(40.0).reshape(20, 2)


@pytest.mark.parametrize(
    ("X", "c", "options", "message"),
    [
        (np.zeros(5), 2, {}, r"expected a 2-dimensional array .* got shape \(5,\)"),
        (np.zeros((2, 3, 4)), 2, {}, r"got shape \(2, 3, 4\)"),
        ([[1, 2], [3]], 2, {}, "got a list that is no array of numbers .* rows of equal length"),
        (None, 2, {}, r"got a single value or object; give an array"),
        (np.zeros((0, 3)), 2, {}, r"0 sample"),
        (np.zeros((3, 0)), 2, {}, r"0 feature\(s\) \(shape=\(3, 0\)\)"),
        (np.zeros((1, 3)), 1, {}, "n_samples=1; clustering needs at least 2 rows"),
        (np.array([["a", "b"]] * 3, object), 2, {}, "dtype object is not real or integer"),
        (np.ma.masked_less(ROWS, 3), 2, {}, "the array has masked entries"),
        (ROWS.astype(complex), 2, {}, "dtype complex128 is not real"),
        (ROWS.astype(np.longdouble), 2, {}, "convert the array to float64"),
        (ROWS, 0, {}, r"c \(n_clusters\): got 0; use at least 1"),
        (ROWS, -3, {}, "got -3; use at least 1"),
        (ROWS, 21, {}, r"c \(n_clusters\): got 21 clusters for 20 rows; use at most 20"),
        (ROWS, (21, 40), {}, r"c \(n_clusters\): got at least 21 clusters for 20 rows; use at most 20"),
        (
            ROWS,
            range(21, 40),
            {"method": "3smic"},
            r"c \(n_clusters\): got at least 21 clusters for 20 rows; use at most 20",
        ),
        (ROWS, 2.5, {}, r"c \(n_clusters\): got 2\.5; use an integer"),
        (ROWS, True, {}, "got True; use an integer"),
        (ROWS, "auto", {}, r"c \(n_clusters\): got 'auto'; use an integer, a range such as \(2, 30\), or None"),
        *(
            (
                ROWS,
                c,
                {"method": method},
                r"c \(n_clusters\): got .*; use an integer.* that find the number, .*'smic' and '3smic'",
            )
            for method in ("rim", "kernel_rim", "mic", "mspc", "mwca")
            for c in ("auto", range(2, 5), None)
            if c is not None or "rim" not in method
        ),
        (ROWS, 2, {"prior": [1.0]}, "got 1 values for c = 2"),
        (ROWS, 2, {"prior": "half"}, "prior: got a str that is no array of numbers"),
        (ROWS, 2, {"prior": [0.7, 0.7]}, r"sum 1\.4; give positive values that sum to 1"),
        (ROWS, 2, {"prior": [1.0, 0.0]}, "give positive values"),
        (ROWS, 2, {"prior": [np.nan, 1.0]}, "give positive values"),
        (ROWS, 2, {"prior": [0.3, 0.7], "rotation": True}, "rotation: got True with a non-uniform prior"),
        (ROWS, 2, {"prior": [0.3, 0.7], "assignment": "merge"}, "needs assignment='paper', got 'merge'"),
        (ROWS, 2, {"rotation": True, "assignment": "paper"}, "give one of the two"),
        (ROWS, 2, {"t": 0}, "t: got 0; use at least 1"),
        (ROWS, 2, {"t": ()}, "t: got no value"),
        (ROWS, 2, {"t": None}, "t: got None; use an integer, or several"),
        (ROWS, 2, {"t": 2.5}, r"t: got 2\.5; use an integer, or several"),
        (ROWS, 2, {"kernel": "gaussian"}, "kernel: got 'gaussian'; use a function or one of .*'local_scaling'"),
        (ROWS, 2, {"kernel": "normalized"}, "leave kernel out and give normalization='symmetric'"),
        (ROWS, 2, {"kernel": "auto"}, "leave kernel out and give normalization='auto'"),
        (ROWS, 2, {"normalization": "rows"}, "normalization: got 'rows'; use one of"),
        (ROWS, 2, {"kernel": "callable"}, "give the function itself"),
        (ROWS, 2, {"assignment": "argmax"}, "assignment: got 'argmax'; use one of"),
        (ROWS, 2, {"selection": "best"}, "selection: got 'best'; use one of"),
        (ROWS, 2, {"scale": "unit"}, "scale: got 'unit'; use one of"),
        (ROWS, 2, {"bandwidth": 0}, "bandwidth: got 0; use a positive number"),
        (ROWS, 2, {"memory_limit": "a lot"}, "memory_limit: got 'a lot'; use a number of bytes, or a size such as"),
        (ROWS, 2, {"missing_chunks": "skip"}, "missing_chunks: got 'skip'"),
        (ROWS * 1e30, 2, {"scale": None}, r"rows reach 1\.9e\+31 from their mean; .* use scale='standard'"),
        (ROWS * 1e300, 2, {}, "overflows float64; change the unit"),
        ("/nowhere/a.zarr", 2, {}, "does not exist; give the path or URL"),
        ("", 2, {}, "input: got '', which is no location; give a path or URL"),
        (ROWS, 2, {"storage_options": 3}, "storage_options: got a value of type int; give a dict"),
        (ROWS, 2, {"client": 3}, "client: got 3; give a distributed.Client, False for threads of this process"),
        (ROWS, 2, {"client": "tcp://nowhere:1"}, "client: got 'tcp://nowhere:1'; give a distributed.Client, False"),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_written(tmp_path, X, c, options, message):
    out = tmp_path / "run"
    with pytest.raises(InputError, match=message):
        bigsmic.fit(X, c, out=out, **options)
    scanned = "reach" in message or "overflows" in message
    assert out.exists() == scanned


def test_a_limit_that_cannot_be_met_is_refused_before_anything_is_written(tmp_path, blobs):
    with pytest.raises(PlanError, match=r"plan: stage select needs \d+MiB with one task .* the memory limit is 100MiB"):
        bigsmic.fit(blobs[0], 4, out=tmp_path / "run", memory_limit="100MiB")
    assert not (tmp_path / "run").exists()


def test_missing_and_torn_chunks_are_errors(tmp_path, blobs):
    zarr.create_array(str(tmp_path / "a.zarr"), data=blobs[0], chunks=(100, 5))
    chunk = tmp_path / "a.zarr" / "c" / "4" / "0"
    whole = chunk.read_bytes()
    chunk.write_bytes(whole[:50])
    with pytest.raises(StorageError, match=r"a chunk of the archive is torn or unreadable: restore it"):
        fit(tmp_path / "a.zarr", 4, out=tmp_path / "run")
    chunk.unlink()
    with pytest.raises(StorageError, match=r"chunk c/4/0 \(rows 400:500\) of .* is missing"):
        fit(tmp_path / "a.zarr", 4, out=tmp_path / "run")
    chunk.write_bytes(whole)
    assert_identical(fit(tmp_path / "a.zarr", 4, out=tmp_path / "run"), fit(blobs[0], 4))


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (lambda d2, si, sj: np.exp(-d2) - 0.5, r"kernel: the callable returned -0\.\d+; weights must be finite and at"),
        (lambda d2, si, sj: d2 * np.nan, "returned nan; weights must be finite"),
        (lambda d2, si, sj: np.exp(-d2)[:-1], r"the callable returned float32 of shape \(\d+,\); return one weight"),
        (lambda d2, si, sj: 1.0, r"returned float64 of shape \(\)"),
        (
            lambda d2: np.exp(-d2),
            r"cannot be called with 3 arguments; give a function of \(squared_distances, sigma_i, sig",
        ),
        (lambda d2, si, sj: np.exp(-d2 / si), r"not symmetric in .* make it a function of d2 and s_i s_j"),
    ],
)
@pytest.mark.parametrize("assignment", ["merge", "rotation"])
def test_callables_that_are_no_kernel_are_refused(blobs, kernel, message, assignment):
    with pytest.raises(InputError, match=message):
        fit(blobs[0], 4, kernel=kernel, assignment=assignment)


def test_a_callable_is_the_kernel_that_it_computes(blobs):
    def self_tuning(squares, sigma_i, sigma_j):
        return np.exp(-squares / (sigma_i * sigma_j))

    for assignment in ("merge", "rotation"):
        named = {"normalization": None if assignment == "rotation" else "symmetric", "bandwidth": 1.0}
        found = fit(blobs[0], 4, kernel=self_tuning, assignment=assignment)
        wanted = fit(blobs[0], 4, assignment=assignment, **named)
        np.testing.assert_array_equal(found.labels, wanted.labels)


# -- input that is odd, and legal


def assert_sound(result, c):
    posterior = posterior_of(result)
    np.testing.assert_allclose(posterior.sum(axis=1), 1, atol=1e-5)
    assert posterior.min() >= 0
    assert result.labels.min() >= 0
    assert result.labels.max() < c
    scores = result.scores
    if "lsmi" in scores:
        scored = scores.lsmi.notna()
        assert scored.any()
        assert scored[scores.assignment != "valleys"].all() or result.settings.reports_lsmi
        scores = scores[scored]
    assert np.isfinite(scores.select_dtypes("number").to_numpy()).all()


READINGS = [{}, {"assignment": "auto"}, {"preset": "paper", "t": (1, 3, 5)}]


def noise(n, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


ODD = {
    "a constant column": noise(200) * [1, 0, 1] + [0, 7, 0],
    "all rows equal": np.ones((100, 3)),
    "two different rows": np.repeat([[0.0, 1.0], [1.0, 0.0]], 50, axis=0),
    "tiny clusters far away": np.concatenate([noise(300), noise(4) / 100 + 100, noise(4) / 100 - 100]),
    "outliers": np.concatenate([noise(200), noise(4) * 1e4]),
    "columns of 1e-30 and 1e30": noise(200) * [1e-30, 1, 1e30],
    "columns of 1e-200": noise(200) * [1e-200, 1, 1],
    "a line": np.arange(200.0)[:, None],
    "more columns than rows": noise(50, 200),
}


@pytest.mark.filterwarnings("ignore::bigsmic.errors.ConvergenceWarning")
@pytest.mark.parametrize("options", READINGS)
@pytest.mark.parametrize("name", ODD)
def test_odd_rows_get_labels(name, options):
    result = fit(ODD[name], 3, **options)
    assert_sound(result, 3)
    assert_sound_predictions(result, ODD[name])


def assert_sound_predictions(result, X):
    posterior = result.predict_proba(X[:20])
    assert np.isfinite(posterior).all()
    np.testing.assert_allclose(posterior.sum(axis=1), 1, atol=1e-5)


@pytest.mark.filterwarnings("ignore:c .n_clusters.. got 3, but the data show")  # booleans
@pytest.mark.parametrize("dtype", ["?", "i1", "u1", ">i2", "i8", "u8", "f2", ">f4", "f8"])
def test_any_real_dtype(dtype):
    X = (make_blobs(200, 4, centers=3, random_state=0)[0] * 3 + 60).clip(0, 127)
    X = np.greater(X, 60) if dtype == "?" else X.astype(dtype)
    assert_sound(fit(X, 3), 3)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 7, 12])
def test_as_many_clusters_as_there_are_rows(n):
    X = noise(n, 2, seed=n)
    for c in range(1, n + 1):
        result = bigsmic.fit(X, c, n_threads=1)
        assert_sound(result, c)
        assert len(result.predict(X)) == n


def test_one_cluster(blobs):
    result = bigsmic.fit(blobs[0], 1)
    np.testing.assert_array_equal(result.labels, 0)
    np.testing.assert_array_equal(posterior_of(result), 1)
    np.testing.assert_array_equal(result.predict(blobs[0][:9]), 0)
    np.testing.assert_array_equal(result.predict_proba(blobs[0][:9]), np.ones((9, 1)))
    assert len(result.scores) == 0
    for look in (lambda: result.stability, lambda: result.tree, lambda: result.cut(2)):
        with pytest.raises(AbsentResultError, match="cut: the fit was given a single cluster, and has neither"):
            look()


@pytest.mark.usefixtures("many_blocks")
@pytest.mark.filterwarnings("ignore::bigsmic.errors.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:c .n_clusters.. got 3, but the data show")
@pytest.mark.parametrize("c", [3, 10])
def test_thousands_of_duplicates(c):
    points = np.random.default_rng(0).integers(0, 10, 2000)
    result = fit(noise(10)[points], c)
    assert_sound(result, c)
    if c == 10:
        assert adjusted_rand_score(points, result.labels) == 1


def islands(n_islands=300, n_each=8):
    rng = np.random.default_rng(0)
    return np.repeat(rng.normal(size=(n_islands, 2)) * 1e3, n_each, axis=0) + rng.normal(size=(n_islands * n_each, 2))


@pytest.mark.usefixtures("many_blocks")
@pytest.mark.filterwarnings("ignore::bigsmic.errors.ConvergenceWarning", "ignore:input. array looks like a recording")
def test_hundreds_of_components_are_connected():
    result = fit(islands(), 5)
    assert_sound(result, 5)
    for t, found in result.diagnostics["components"].items():
        assert found["before"] >= 300, t
        assert found["after"] == 1
        assert found["edges"] >= found["before"] - 1


@pytest.mark.usefixtures("many_blocks")
@pytest.mark.filterwarnings("ignore::bigsmic.errors.ConvergenceWarning", "ignore:input. array looks like a recording")
@pytest.mark.parametrize("assignment", ["merge", "auto"])
def test_hundreds_of_components_left_as_they_are(assignment):
    start = time.process_time()
    result = fit(islands(), 5, repair=False, assignment=assignment)
    assert time.process_time() - start < 30
    assert_sound(result, 5)
    assert all(found["after"] == found["before"] for found in result.diagnostics["components"].values())


def test_what_n_rows_do_not_allow_is_cut_and_said():
    X = noise(9)
    with pytest.warns(bigsmic.errors.BigsmicWarning, match=r"t: \(5, 10\) cut to \(5, 8\): 9 rows have 8 neighbours"):
        result = bigsmic.fit(X, 2, t=(5, 10))
    assert result.settings.t == (5, 8)
    assert set(result.diagnostics["cut_to_n"]) == {"t", "n_neighbors", "n_centers"}


def test_an_eigensolve_that_is_cut_short_warns_and_is_told(monkeypatch):
    monkeypatch.setattr("bigsmic.numerics.eigen.lanczos_state.LanczosParams.matvec_limit", 20)
    with pytest.warns(ConvergenceWarning, match="eigenpairs reached tol"):
        result = fit(islands(30, 20), 5, t=3, assignment="rotation", normalization=None)
    assert not result.diagnostics["eigen"][0]["converged"]
    assert_sound(result, 5)


def test_the_posterior_of_a_consensus_claims_what_labelings_agree_on(blobs):
    result = fit(blobs[0], 4)
    posterior, squared = posterior_of(result), np.square(result.agreement, dtype=np.float64)
    assert posterior.max(axis=1).mean() >= squared.mean() - 0.01
    assert fit(blobs[0], 4, selection="medoid")._run.done("sharpness", 0) is False
