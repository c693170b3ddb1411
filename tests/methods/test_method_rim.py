"""method="rim": any chunking, any interruption, both solvers, what is refused, and what a Result tells."""

import json
import threading
from dataclasses import replace

import dask.array
import numpy as np
import pytest
import zarr
from sklearn.datasets import load_digits, load_iris, load_wine, make_blobs
from sklearn.metrics import adjusted_rand_score
from small_fits import SMALL, cut_small
from typer.testing import CliRunner

import bigsmic
from bigsmic.cli import main
from bigsmic.errors import BigsmicWarning, CollapseError, ConvergenceWarning, InputError, OptionError, PlanError
from bigsmic.methods.rim import method
from bigsmic.methods.rim import planning as rim_planning
from bigsmic.numerics.objectives.rim.adam import batch_gradient
from bigsmic.runtime import planning
from bigsmic.runtime.block_sizes import BlockSizes
from bigsmic.runtime.context import BlockCache
from bigsmic.stages.rim import ascent as ascent_stage
from bigsmic.stages.rim import lbfgs, minibatches
from bigsmic.stages.rim.lbfgs import _evaluate
from bigsmic.stages.rim.minibatches import LOOK_ROWS, _Seen
from bigsmic.stages.rim.search import Search

FAST = {"method": "rim", "n_threads": 1}
LOADERS = {"iris": load_iris, "wine": load_wine, "digits": load_digits}


def fit(X, c=None, **options):
    return bigsmic.fit(X, c, **FAST, **options)


@pytest.fixture(scope="module")
def toy():
    """Three clusters in the plane, as in the paper's figure."""
    return make_blobs(450, 2, centers=[[-4, 0], [4, 0], [0, 5]], cluster_std=1.0, random_state=0)


# -- what it finds


def test_of_fifty_categories_three_stay_alive(toy):
    X, y = toy
    result = fit(X, n_init_categories=50, reg="4/N")
    assert result.n_clusters == 3
    assert adjusted_rand_score(y, result.labels) > 0.97
    assert result.posterior.shape == (450, 3)
    assert result.diagnostics["n_init_categories"] == 50


def test_a_climb_gives_up_what_has_died(toy, monkeypatch):
    options = {"n_init_categories": 50, "reg": 0.02, "solver": "minibatch", "batch_size": 150}
    monkeypatch.setattr(minibatches, "LOOK_ROWS", 1 << 30)
    wanted = fit(toy[0], **options)
    monkeypatch.setattr(minibatches, "LOOK_ROWS", 4 * len(toy[0]))
    found = fit(toy[0], **options)
    assert len(found._run.read("point", 0, "b")) < len(wanted._run.read("point", 0, "b")) == 50
    np.testing.assert_array_equal(found.labels, wanted.labels)
    assert found.diagnostics["objective"] == pytest.approx(wanted.diagnostics["objective"], abs=1e-3)


def test_what_labels_name_is_never_given_up():
    seen = _Seen(2)
    mass = np.array([0.0, 5.0, 0.0, 1e-3, 3.0])
    assert seen.living(mass, LOOK_ROWS - 1) is None
    np.testing.assert_array_equal(seen.living(mass, 1), [True, True, False, False, True])
    assert seen.living(np.ones(5), LOOK_ROWS) is None


@pytest.mark.parametrize("c", [1, 2, 3, 7])
def test_a_number_of_clusters_is_met(toy, c):
    result = fit(toy[0], c)
    assert result.n_clusters == c
    np.testing.assert_array_equal(np.unique(result.labels), np.arange(c))
    np.testing.assert_allclose(np.asarray(result.posterior).sum(axis=1), 1, atol=1e-5)


def test_no_strength_has_the_number_then_the_smallest_are_closed(toy):
    result = fit(toy[0], 3, reg=1e-4, n_init_categories=12)
    assert result.diagnostics["path"][0]["alive"] > 3
    assert result.diagnostics["reg"] == 1e-4
    assert result.n_clusters == len(np.unique(result.labels)) == 3


@pytest.mark.parametrize(("name", "reg"), [("iris", 0.02), ("wine", 0.1), ("digits", 0.05)])
def test_both_solvers_reach_the_same_objective_from_the_best_of_six_starts(name, reg):
    X, _ = LOADERS[name](return_X_y=True)
    batches, gradients = (
        max(
            fit(X, solver=solver, reg=reg, n_init_categories=20, seed=seed).diagnostics["objective"]
            for seed in range(6)
        )
        for solver in ("minibatch", "lbfgs")
    )
    assert batches == pytest.approx(gradients, rel=0.01)


def test_polish_does_not_go_down(toy):
    plain = fit(toy[0], reg=0.01, solver="minibatch", n_epochs=15)
    polished = fit(toy[0], reg=0.01, solver="minibatch", n_epochs=15, polish=30)
    assert polished.diagnostics["objective"] >= plain.diagnostics["objective"] - 1e-6


def test_a_prior_is_followed(toy):
    X, y = toy
    uneven = np.concatenate([X[y == 0], X[y == 1][:30], X[y == 2][:60]])
    sizes = np.array([len(X[y == 0]), 30, 60]) / (len(X[y == 0]) + 90)
    prior = sizes[[1, 0, 2]]
    result = fit(uneven, 3, prior=prior, reg=1e-3)
    np.testing.assert_allclose(result.marginal, prior, atol=0.03)
    power = fit(uneven, 3, prior="power", reg=1e-3, n_init_categories=3)
    assert power.diagnostics["prior_exponent"] > 0.5
    assert result.settings.prior == pytest.approx(tuple(prior))


def test_the_path_of_a_single_cluster_is_empty(toy):
    path = fit(toy[0], 1).path
    assert list(path) == ["reg", "alive", "objective", "lsmi"]
    assert len(path) == 0


def test_the_strength_may_be_chosen_by_lsmi(toy):
    X, y = toy
    result = fit(X, reg="lsmi", n_init_categories=12)
    path = result.path
    assert path["reg"].is_monotonic_increasing
    assert path.loc[path["lsmi"].idxmax(), "reg"] == result.diagnostics["reg"]
    assert result.n_clusters >= 3
    assert adjusted_rand_score(y, result.labels) > 0.5


# -- where the rows lie, and what comes between


def same(first, second):
    np.testing.assert_array_equal(first.labels, second.labels)
    np.testing.assert_array_equal(np.asarray(first.posterior), np.asarray(second.posterior))
    assert first.diagnostics["path"] == second.diagnostics["path"]


@pytest.mark.parametrize("solver", ["minibatch", "lbfgs"])
def test_chunks_and_threads_change_nothing(blobs, tmp_path, monkeypatch, many_blocks, solver):
    X, _ = blobs
    sizes = replace(SMALL, pool_bytes=4 * 5 * 400)
    options = {
        "block_sizes": sizes,
        "reg": 0.02,
        "n_init_categories": 8,
        "solver": solver,
        "batch_size": 100,
        "n_epochs": 3,
        "max_iter": 10,
    }
    wanted = fit(X, **options)
    array = zarr.create_array(str(tmp_path / "a.zarr"), data=X, chunks=(97, 3))
    for data in (array, dask.array.from_array(X, chunks=(50, 5)), np.asfortranarray(X)):
        same(fit(data, **options), wanted)
    same(bigsmic.fit(str(tmp_path / "a.zarr"), method="rim", n_threads=2, **options), wanted)
    monkeypatch.setattr(rim_planning, "ROWS_BYTES", 0)
    monkeypatch.setattr(BlockCache.__init__, "__defaults__", (0,))
    same(fit(X, **options), wanted)


@pytest.mark.parametrize("kept", [(True, True), (True, False), (False, True), (False, False)])
def test_what_memory_holds_changes_nothing(blobs, monkeypatch, many_blocks, kept):
    X, y = blobs
    labels = np.where(np.arange(len(X)) % 7 == 0, y, -1)
    options = {"labels": labels, "solver": "lbfgs", "reg": 0.02, "n_init_categories": 8, "max_iter": 10}
    wanted = fit(X, **options)
    plan = method.plan

    def planned(*arguments, **named):
        return replace(plan(*arguments, **named), rows_in_memory=kept[0], posteriors_in_memory=kept[1])

    monkeypatch.setattr(method, "plan", planned)
    monkeypatch.setattr(BlockCache.__init__, "__defaults__", (0,))
    same(fit(X, **options), wanted)


def test_the_next_rows_are_read_while_a_climb_computes(blobs, monkeypatch, many_blocks):
    cut_small(monkeypatch, pool_bytes=1)
    begun, ahead, scaled, gradient = [], threading.Event(), minibatches.scaled, batch_gradient

    def read(context, s):
        begun.append(s)
        if len(begun) > 1:
            ahead.set()
        return scaled(context, s)

    def computed(*arguments):
        assert ahead.wait(10), "rows of the second group were not asked for before those of the first were used"
        return gradient(*arguments)

    monkeypatch.setattr(minibatches, "scaled", read)
    monkeypatch.setattr(minibatches, "batch_gradient", computed)
    fit(blobs[0], reg=0.02, n_init_categories=8, solver="minibatch", batch_size=200, n_epochs=1)


def limit_of(mebibytes):
    """Memory limit that leaves a plan so much beside the interpreter."""
    return planning.INTERPRETER_BYTES + (mebibytes << 20)


def test_posteriors_are_kept_where_they_fit():
    size, exact, batches = planning.Size(10**6, 152), method.Settings(solver="lbfgs"), method.Settings()
    roomy, tight = (method.plan(size, exact, limit, 1, True) for limit in (limit_of(764), limit_of(240)))
    assert roomy.posteriors_in_memory
    assert not tight.posteriors_in_memory
    assert roomy.peak_bytes - tight.peak_bytes >= 4 * 10**6 * 100
    assert not method.plan(size, batches, 1 << 40, 1, True).posteriors_in_memory
    few = method.plan(planning.Size(4 * 10**5, 152), batches, limit_of(764), 1, True)
    assert few.rows_in_memory
    assert not method.plan(few.size, batches, few.peak_bytes - 1, 1, True).rows_in_memory


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("solver", ["minibatch", "lbfgs"])
def test_a_cluster_changes_nothing(blobs, tmp_path, solver):
    from distributed import Client, LocalCluster

    array = zarr.create_array(str(tmp_path / "a.zarr"), data=blobs[0], chunks=(100, 5))
    options = {"solver": solver, "batch_size": 200, "n_epochs": 3, "max_iter": 5, "n_init_categories": 8}
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as made, Client(made) as client:
        found = bigsmic.fit(array, 3, method="rim", client=client, out=tmp_path / "run", **options)
    same(found, fit(array, 3, **options))


class Killed(BaseException):
    pass


@pytest.mark.parametrize("solver", ["minibatch", "lbfgs"])
def test_a_fit_that_was_killed_goes_on(blobs, tmp_path, monkeypatch, many_blocks, solver):
    X, _ = blobs
    monkeypatch.setattr(ascent_stage, "ROUND_ROWS", 2 * len(X))
    options = {"solver": solver, "batch_size": 200, "n_epochs": 5, "max_iter": 8, "n_init_categories": 9}
    wanted, calls = fit(X, 3, **options), []

    def die(limit):
        def progress(stage, done, total):
            calls.append(stage)
            if len(calls) == limit:
                raise Killed

        return progress

    out = tmp_path / "run.zarr"
    for limit in (7, 40, 41, 90, 200):
        calls.clear()
        try:
            fit(X, 3, out=out, progress=die(limit), **options)
            break
        except Killed:
            continue
    same(fit(X, 3, out=out, **options), wanted)
    left = {path.name for path in out.iterdir() if path.is_dir()}
    assert left == {"scan", "start", "point", "model", "clusters", "novelty", "output", "labels", "posterior"}


def test_what_has_been_evaluated_is_not_evaluated_again(toy, tmp_path, monkeypatch):
    options = {"solver": "lbfgs", "reg": 0.01, "n_init_categories": 5}
    evaluate, made = _evaluate, []

    def counted(job, ascent, i, vector, group):
        made.append(i)
        return evaluate(job, ascent, i, vector, group)

    def progress(stage, done, total):
        if stage.startswith("ascent") and done == 4:
            raise Killed

    monkeypatch.setattr(lbfgs, "_evaluate", counted)
    wanted = fit(toy[0], **options)
    needed, options["out"] = list(made), tmp_path / "run.zarr"
    made.clear()
    with pytest.raises(Killed):
        fit(toy[0], progress=progress, **options)
    assert 4 <= len(made) < len(needed)
    same(fit(toy[0], **options), wanted)
    assert made == needed


def test_other_labels_beside_the_rows_are_another_run(toy, tmp_path):
    X, y = toy
    labels = np.where(np.arange(450) % 9 == 0, y, -1)
    fit(X, 3, labels=labels, out=tmp_path / "run.zarr")
    with pytest.raises(bigsmic.RunError, match=r"side_inputs\.labels: stored"):
        fit(X, 3, labels=-np.ones(450, int), out=tmp_path / "run.zarr")


# -- new rows, and what a Result tells


def test_predictions_of_the_fitted_rows_are_their_labels(toy):
    result = fit(toy[0], 3)
    np.testing.assert_array_equal(result.predict(toy[0]), result.labels)
    np.testing.assert_array_equal(result.predict_proba(toy[0][5:6]), result.posterior[5:6])


def test_a_run_is_opened_again(toy, tmp_path):
    result = fit(toy[0], 3, out=tmp_path / "run.zarr")
    opened = bigsmic.Result.open(tmp_path / "run.zarr")
    assert type(opened) is type(result)
    assert opened.settings == result.settings
    np.testing.assert_array_equal(opened.coef, result.coef)
    assert "3 alive at reg" in repr(opened)


def test_means_and_spreads_are_those_of_the_rows(toy):
    X = toy[0] * [3, 0.1] + 50
    result = fit(X, 3)
    for k in range(3):
        rows = X[result.labels == k]
        np.testing.assert_allclose(result.means[k], rows.mean(axis=0), rtol=1e-5)
        np.testing.assert_allclose(result.spreads[k], rows.std(axis=0), rtol=1e-4)


@pytest.mark.parametrize("solver", ["lbfgs", "minibatch"])
@pytest.mark.parametrize("classes", [[2], [1, 2], [0, 2]])
@pytest.mark.parametrize("c", [3, None])
def test_a_number_that_known_labels_skip_is_that_of_another_cluster(solver, classes, c):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 150)
    X = rng.standard_normal((150, 2)) + np.array([[0, 0], [8, 8], [-8, 8]])[y]
    labels = np.full(150, -1)
    for k in classes:
        labels[np.flatnonzero(y == k)[:3]] = k
    result = fit(X, c, labels=labels, solver=solver)
    assert adjusted_rand_score(y, result.labels) > 0.95
    for k in classes:
        assert (result.labels[labels == k] == k).all()


def test_a_number_that_known_labels_skip_needs_a_cluster_for_it():
    X = np.repeat([[0.0, 0], [1, 1], [5, 0]], 20, axis=0)
    labels = np.full(60, -1)
    labels[:3] = 4
    labels[40:43] = 1
    result = fit(X, None, labels=labels, reg=0.01)
    assert set(result.labels[:20]) == {4}
    assert set(result.labels[40:]) == {1}
    assert result.n_clusters == 5


@pytest.mark.parametrize("n_labelled", [8, 30])  # of batches of 64: in every one, or with the other rows
@pytest.mark.parametrize("are_weighted", [False, True])
def test_a_few_labels_among_many_rows_are_not_taken_for_divergence(n_labelled, are_weighted):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 6000)
    X = rng.normal(size=(6000, 3)) + np.array([[0, 0, 0], [4, 0, 0], [0, 4, 0], [0, 0, 4]])[y]
    labels, rows = np.full(6000, -1), rng.choice(6000, n_labelled, replace=False)
    labels[rows] = y[rows]
    weights = {"sample_weight": np.ones(6000)} if are_weighted else {}
    result = fit(X, 4, labels=labels, batch_size=64, n_init_categories=8, tau=8.0, **weights)
    assert np.mean(result.labels == y) > 0.8


@pytest.mark.parametrize("n_labelled", [16, 17])  # a quarter of a batch, and more
def test_a_few_labelled_rows_are_in_every_batch(toy, n_labelled, monkeypatch):
    X, y = toy
    labels, given = np.where(np.arange(450) < n_labelled, y, -1), []

    def counting(X, model, aim, weighting, share):
        given.append((np.count_nonzero(weighting.labels >= 0), len(X), share))
        return batch_gradient(X, model, aim, weighting, share)

    monkeypatch.setattr(minibatches, "batch_gradient", counting)
    fit(X, 3, labels=labels, batch_size=64, n_epochs=2)
    of_epochs = np.array(given).reshape(-1, 7, 3)
    if n_labelled == 16:
        assert (of_epochs[:, :, 0] == 16).all()
        assert (of_epochs[:, :, 1].sum(axis=1) == 450 + 6 * 16).all()
        assert (of_epochs[:, :, 2] == 1).all()
    else:
        np.testing.assert_allclose(of_epochs.sum(axis=1), [[17, 450, 1]] * len(of_epochs))


@pytest.mark.parametrize("solver", ["lbfgs", "minibatch"])
def test_a_path_ends_where_rows_have_one_posterior_though_labels_keep_their_categories(toy, solver):
    X, y = toy
    labels = np.where(np.arange(450) % 50 == 0, y, -1)
    result = fit(X, None, labels=labels, reg="lsmi", n_init_categories=6, solver=solver)
    assert adjusted_rand_score(y, result.labels) > 0.9
    assert len(result.path) < method.MAX_DYING


def test_spreads_of_clusters_that_are_narrow_for_their_distance():
    rng = np.random.default_rng(0)
    X = 1e-3 * rng.standard_normal((3000, 2)) + rng.choice([-1, 1], (3000, 1))
    result = fit(X, 2)
    for k in range(2):
        np.testing.assert_allclose(result.spreads[k], X[result.labels == k].std(axis=0), rtol=1e-3)


def test_the_least_certain_rows_are_between_clusters(toy):
    result = fit(toy[0], 3)
    posterior = np.asarray(result.posterior)
    entropy = -(posterior * np.log(np.maximum(posterior, 1e-30))).sum(axis=1)
    uncertain = result.uncertain
    np.testing.assert_allclose(uncertain["entropy"], np.sort(entropy)[::-1][:100], atol=1e-5)
    np.testing.assert_array_equal(uncertain["label"], result.labels[uncertain["row"]])
    assert (uncertain["other"] != uncertain["label"]).all()


def test_weights_have_the_shape_of_the_input():
    X = np.random.default_rng(0).standard_normal((80, 6)) + 4 * (np.arange(80) % 2)[:, None]
    result = fit(X, 2)
    assert result.weights((2, 3)).shape == (2, 2, 3)
    with pytest.raises(InputError, match=r"weights: got the shape \(4, 2\) for 6 columns"):
        result.weights((4, 2))
    with pytest.raises(InputError, match=r"weights: got the shape 6 for 6 columns"):
        result.weights(6)


@pytest.mark.parametrize("what", ["tree", "tree_sizes", "stability", "agreement", "scores"])
def test_what_only_smic_has_is_said(toy, what):
    result = fit(toy[0], 2)
    assert not hasattr(result, what)
    assert what not in dir(result)
    with pytest.raises(InputError, match=f"{what}: a fit by method 'rim' has no such attribute"):
        getattr(result, what)
    with pytest.raises(
        InputError,
        match="cut: a fit by method 'rim' has no trees to cut; fit again with that number",
    ):
        result.cut(2)


@pytest.mark.parametrize("unit", [2.0**1023, 2.0**-1040])
def test_the_unit_of_weights_does_not_matter(unit, toy):
    X, y = toy
    weights = np.where(y == 0, 1.0, 0.5)
    options = {"solver": "lbfgs", "n_init_categories": 5}
    plain, other = (fit(X, 3, sample_weight=given, **options) for given in (weights, weights * unit))
    np.testing.assert_array_equal(other.labels, plain.labels)
    assert other.diagnostics["objective"] == plain.diagnostics["objective"]


# -- what cannot be


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"c": 0}, r"c \(n_clusters\): got 0"),
        ({"c": 2.5}, r"c \(n_clusters\): got 2\.5"),
        ({"reg": -1}, "reg: got -1"),
        ({"reg": "four"}, "reg: got 'four'"),
        ({"reg": "lsmi", "c": 3}, "reg: got 'lsmi' together with n_clusters"),
        ({"solver": "sgd"}, "solver: got 'sgd'"),
        ({"scale": "range"}, "scale: got 'range'"),
        ({"prior": "even"}, "prior: got 'even'"),
        ({"prior": ("a", "b"), "c": 2}, "prior: got a tuple that is no array of numbers"),
        ({"prior": (0.5, 0.5)}, "prior: got 2 values for n_clusters=None"),
        ({"prior": (0.5, -0.5), "c": 2}, "use positive values"),
        ({"n_init_categories": 2, "c": 3}, "n_init_categories: got 2 for 3 clusters"),
        ({"prior": (0.5, 0.5), "n_init_categories": 3, "c": 2}, "n_init_categories: got 3 with a prior of 2 shares"),
        ({"learning_rate": float("nan")}, "learning_rate: got nan"),
        ({"tau": 0}, "tau: got 0"),
        ({"c": 500}, "got 500 clusters for 450 rows"),
    ],
)
def test_bad_settings_are_refused(toy, options, match):
    with pytest.raises(InputError, match=match):
        fit(toy[0], **options)


@pytest.mark.parametrize("name", ["sample_weight", "prior"])
def test_complex_numbers_are_refused_where_real_ones_are_needed(name, toy):
    given = np.full(450 if name == "sample_weight" else 3, 1 + 1j)
    with pytest.raises(InputError, match=f"{name}: got a .*complex128 is not real"):
        fit(toy[0], 3, **{name: given})


def test_options_of_smic_are_refused(toy):
    with pytest.raises(OptionError, match=r"rim: got unexpected option t= \(.*\); it takes batch_size=, "):
        fit(toy[0], 3, t=5)


def test_a_strength_that_leaves_one_category_is_refused(toy):
    with pytest.raises(CollapseError, match=r"single category contains every row, .*; use a smaller reg, such as 5"):
        fit(toy[0], reg=50.0)
    with pytest.raises(
        InputError, match=r"c \(n_clusters\): got 3, but fewer of 30 initial categories stay alive; use a reg below 50"
    ):
        fit(toy[0], 3, reg=50.0)
    with pytest.raises(InputError, match=r"fewer of 3 initial categories stay alive.*or leave out the shares of prior"):
        fit(toy[0], 3, reg=50.0, prior=(0.5, 0.25, 0.25))


def test_a_learning_rate_that_is_too_high_is_refused(toy):
    with pytest.raises(CollapseError, match=r"learning_rate: the objective .* at 1e\+06; use a smaller one"):
        fit(toy[0], reg=0.01, solver="minibatch", learning_rate=1e6)


def test_batches_of_sorted_rows_that_lack_clusters_do_not_pass_in_silence():
    rng = np.random.default_rng(10)
    y = np.sort(rng.integers(0, 10, 8000))
    X = (2 * rng.normal(size=(10, 8))[y] + rng.normal(size=(8000, 8))).astype(np.float32)
    in_parts = {"reg": 0.003, "n_init_categories": 10, "block_sizes": BlockSizes(source_bytes=1, pool_bytes=32_000)}
    with pytest.warns(BigsmicWarning, match="rim: rows seem to be sorted, as .* or solver='lbfgs'"):
        fit(X, **in_parts)
    fit(X, solver="lbfgs", **in_parts)
    fit(X[rng.permutation(8000)], **in_parts)


def test_there_are_no_more_clusters_than_rows_that_differ():
    X = np.repeat(np.eye(2), 20, axis=0)
    assert fit(X, 2).n_clusters == 2
    with pytest.warns(ConvergenceWarning, match="no more than 2 rows differ"):
        assert fit(X, 3).n_clusters == 2


def test_labels_of_more_categories_than_clusters_are_refused(toy):
    with pytest.raises(InputError, match="labels: got 3 categories for 2 clusters"):
        fit(toy[0], 2, labels=toy[1])


def test_where_every_row_is_labelled_it_is_a_supervised_classifier(toy):
    X, y = toy
    result = fit(X, 3, labels=y, reg=0.1)
    assert np.mean(result.labels == y) > 0.97
    np.testing.assert_allclose(result.marginal, 1 / 3)


def test_extreme_rows_neither_break_it_nor_pass_in_silence(toy):
    X = toy[0].copy()
    X[0] = 1e9
    result = fit(X, 2)
    assert np.isfinite(result.diagnostics["objective"])
    assert np.isfinite(np.asarray(result.posterior)).all()


def test_the_plan_does_not_grow_with_the_rows(toy):
    from bigsmic.methods.rim.method import Settings, plan

    plans = [plan(planning.Size(n, 152), Settings(33), None, 1, True) for n in (10**6, 10**7)]
    assert plans[1].peak_bytes < 1.1 * plans[0].peak_bytes
    assert plans[1].peak_bytes - planning.INTERPRETER_BYTES < 240 << 20
    with pytest.raises(PlanError, match="the memory limit is 10MiB"):
        fit(toy[0], 3, memory_limit="10MiB")
    assert list(bigsmic.plan(toy[0], 3, method="rim").stages) == ["scan", "start", "ascent", "output"]


def test_polish_that_would_lose_a_category_is_left_out(toy, monkeypatch):
    ascent = Search.ascend

    def losing(self, reg, model, fresh=False, polish=0):
        point = ascent(self, reg, model, fresh, polish)
        return point._replace(alive=point.alive - 1) if polish else point

    monkeypatch.setattr(Search, "ascend", losing)
    with pytest.warns(BigsmicWarning, match="polish: left out, as it would have lost a category"):
        assert fit(toy[0], 3, polish=5).n_clusters == 3


# -- the command


def test_the_command_takes_the_method_s_options(toy, tmp_path):
    archive = tmp_path / "X.zarr"
    zarr.create_array(str(archive), data=toy[0], chunks=(100, 2))
    labels = np.where(np.arange(450) % 9 == 0, toy[1], -1)
    np.save(tmp_path / "labels.npy", labels)
    words = ["fit", archive, "-c", 3, "--method", "rim", "--reg", "4/N", "--labels", tmp_path / "labels.npy"]
    words += ["--out", tmp_path / "run.zarr", "--threads", 1, "--json"]
    result = CliRunner().invoke(main.app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["settings"]["reg"] == "4/N"
    assert document["settings"]["method"] == "rim"
    found = bigsmic.Result.open(tmp_path / "run.zarr")
    assert np.mean(found.labels == toy[1]) > 0.97


def test_how_sure_a_label_is_the_posterior_says():
    result = bigsmic.fit(np.random.default_rng(0).standard_normal((60, 3)), 2, method="rim")
    with pytest.raises(
        InputError, match=r"agreement: a fit by method 'rim' has no such attribute; it has .*coef.*, posterior, "
    ):
        result.agreement  # noqa: B018


def test_novelty_of_a_fit_that_finds_its_number_of_clusters(blobs):
    result = bigsmic.fit(blobs[0], method="rim")
    assert (result.novelty(blobs[0][:50] + 1000) > 1).all()


@pytest.mark.parametrize("options", [{"method": "rim"}, {"method": "kernel_rim"}])
def test_a_row_is_predicted_alike_by_itself_and_among_others(options):
    X, _ = make_blobs(700, 100, centers=5, cluster_std=3, random_state=1)
    X = X.astype(np.float32)
    result = bigsmic.fit(X, 5, n_threads=1, **options)
    together = result.predict_proba(X)
    for rows in (1, 67):
        pieces = [result.predict_proba(X[lo : lo + rows]) for lo in range(0, 70 * rows, rows)]
        np.testing.assert_array_equal(np.concatenate(pieces), together[: 70 * rows])


def test_a_solution_without_information_is_not_taken_for_one_of_the_wanted_number():
    X, _ = make_blobs(300, 4, centers=3, random_state=1)  # the path meets a collapse with two alive
    result = bigsmic.fit(X, 2, method="rim", n_threads=1)
    assert result.diagnostics["objective"] > 0.01
    assert min(np.bincount(result.labels)) >= 100
    with pytest.raises(CollapseError, match="all rows have nearly the same posterior"):
        bigsmic.fit(X, None, method="rim", reg=0.3607822294543596, n_threads=1)
