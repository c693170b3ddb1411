"""3SMIC from rows to labels: the dense formulas, the same however it is cut, links kept, told and refused."""

import numpy as np
import pytest
import reference
import zarr
from sklearn.metrics import adjusted_rand_score
from small_fits import FAST, keep_on_disk
from small_links import written_out
from typer.testing import CliRunner

import bigsmic
from bigsmic.cli import main
from bigsmic.errors import InputError, RunMismatchError
from bigsmic.methods import semisupervised
from bigsmic.numerics.constraints.links import make_links
from bigsmic.runtime.context import Context
from bigsmic.stages import eigenvectors, labelings, link_propagation, link_scores, links
from bigsmic.stages.labeling_specs import numbers_of, specs_of


def fit(X, c, **options):
    return bigsmic.fit(X, c, method="3smic", **{"t": 5, "n_centers": 40, "n_threads": 1} | options)


def posterior_of(result):
    return np.asarray(result.posterior)


def links_of(y, m, seed=0):
    """Must-links and cannot-links between pairs drawn at random."""
    pairs = np.random.default_rng(seed).integers(0, len(y), (m, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    return {"must_links": pairs[same], "cannot_links": pairs[~same]}


def labels_of(y, every):
    """Known labels of some rows."""
    return {"labels": np.where(np.arange(len(y)) % every, -1, y)}


def dense_operator(X, links, kernel, t, link_weights):
    """U, over what its middle is on rows without links, as the formulas read."""
    M, C = written_out(links)
    eye = np.eye(len(X))
    K = reference.kernel(reference.standardised(X), t, floor=1e-10 if kernel == "normalized" else 0.0)
    K = np.where(C == 1, 0, np.where(M == 1, 1, K)) * (1 - eye)
    linked = (reference.normalised(K) + eye) / 2 if kernel == "normalized" else K + eye
    gamma, eta = link_weights
    A, B = eye + gamma * M, eye - eta * C
    return linked @ (A @ A + B @ B) @ linked / ((1 + gamma) ** 2 + 1)


# -- right


@pytest.mark.parametrize("c", [3, None])
def test_candidates_are_compared_with_the_width_and_ridge_of_their_medoid(blobs, c):
    X, y = blobs[0][:300], blobs[1][:300]
    shared, own = (fit(X, c, selection=way, valleys=False, **links_of(y, 40)) for way in ("consensus", "links"))
    one, each = ({name: found._run.read("scores", 0, name) for name in ("gamma", "delta", "cv", "lsmi", "cv_table")}
                 for found in (shared, own))  # fmt: skip
    assert not np.isnan(each["cv_table"]).any()
    for same in numbers_of(shared._context):
        is_medoid = ~np.isnan(one["cv_table"][same]).any(axis=(1, 2))
        (medoid,) = same[is_medoid]
        assert set(zip(one["gamma"][same], one["delta"][same], strict=True)) == {
            (each["gamma"][medoid], each["delta"][medoid])
        }
        assert (np.count_nonzero(~np.isnan(one["cv_table"][same[~is_medoid]]), axis=(1, 2)) == 1).all()
    equal = (one["gamma"] == each["gamma"]) & (one["delta"] == each["delta"])
    assert equal.sum() > len(equal) / 2
    for name in ("lsmi", "cv"):
        np.testing.assert_allclose(one[name][equal], each[name][equal], rtol=1e-5)
    assert (one["cv"][~equal] >= each["cv"][~equal] - 1e-6).all()


NORMALIZATION = {"local_scaling": None, "normalized": "symmetric"}


@pytest.mark.usefixtures("many_blocks")
@pytest.mark.parametrize("kernel", ["local_scaling", "normalized"])
@pytest.mark.parametrize("given", ["pairs", "labels", "closed"])
def test_posteriors_are_those_of_the_dense_operator(blobs, kernel, given, monkeypatch):
    monkeypatch.setitem(eigenvectors.TOLERANCE, "normalized", 2e-6)
    X, y = blobs
    side_inputs = labels_of(y, 23) if given == "labels" else links_of(y, 150)
    options = {
        "t": 7,
        "gamma": 0.5,
        "normalization": NORMALIZATION[kernel],
        "assignment": "paper",
        "selection": "links",
        "repair": False,
    }
    result = fit(X, 4, **options, **side_inputs, close_links=given == "closed")
    must, cannot, labels = (side_inputs.get(name) for name in semisupervised.Settings.side_inputs)
    made = make_links(len(X), 4, must=must, cannot=cannot, labels=labels, close=given == "closed")
    values, V = reference.top_eigenvectors(dense_operator(X, made, kernel, 7, (0.5, 0.0)), 5)
    assert (-np.diff(values) / values[0]).min() > 2e-4  # or single eigenvectors mean nothing
    np.testing.assert_allclose(result.diagnostics["eigen"][0]["ritz_values"], values[:4], rtol=1e-5)
    wanted = reference.paper_posterior(V[:, :4])
    np.testing.assert_allclose(posterior_of(result), wanted, atol=5e-4)
    assert np.mean(result.labels == wanted.argmax(axis=1)) > 0.998


@pytest.mark.parametrize("kernel", ["local_scaling", "normalized"])
def test_without_links_it_is_smic(blobs, kernel):
    X, _ = blobs
    options = {"t": 7, "normalization": NORMALIZATION[kernel], "assignment": "rotation"}
    result, plain = fit(X, 4, **options), bigsmic.fit(X, 4, **FAST | options)
    assert result.n_links == result.n_violated == 0
    assert adjusted_rand_score(result.labels, plain.labels) > 0.97
    new = X[:200] + 0.01
    assert adjusted_rand_score(result.predict(new), plain.predict(new)) > 0.97


@pytest.mark.parametrize(("assignment", "n_candidates"), [("auto", 16), ("merge", 32)])
def test_the_choice_is_information_less_violations(blobs, assignment, n_candidates):
    X, y = blobs
    options = {"assignment": assignment, "normalization": "auto", "selection": "links", "link_weight": 1.5}
    result = fit(X, 4, t=(3, 5), **links_of(y, 300), **options)
    table = result.scores
    assert len(table) == n_candidates
    wanted = table.lsmi / table.lsmi.max() - 1.5 * table.n_violated / table.n_violated.max()
    np.testing.assert_allclose(table.criterion, wanted)
    assert table.chosen.sum() == 1
    assert table.chosen.idxmax() == table.criterion.idxmax()
    assert table.n_violated[table.chosen].item() == result.n_violated


def test_the_best_labelings_are_taken(blobs):
    X, y = blobs
    result = fit(X, 4, t=(3, 5, 7), assignment="rotation", **links_of(y, 60), **labels_of(y, 40))
    table = result.scores
    penalties = 10 * table.n_violated / table.n_violated.max() + table.n_held_out / table.n_held_out.max()
    np.testing.assert_allclose(table.criterion, table.lsmi / table.lsmi.max() - penalties)
    assert table.chosen.sum() == link_scores.N_TAKEN
    assert table.criterion[table.chosen].min() >= table.criterion[~table.chosen].max()
    assert result.n_violated <= table.n_violated[table.chosen].min()
    assert set(np.unique(np.round(5 * np.asarray(result.agreement)))) <= set(range(6))


@pytest.mark.usefixtures("many_blocks")
def test_what_neighbours_foretell_is_held_against_the_links(blobs):
    X, y = blobs
    result = fit(X, 4, t=(3, 5), gamma=1.0, assignment="rotation", normalization="symmetric", **links_of(y, 150))
    context = Context(None, result._run, result.settings)
    rows = np.concatenate([context.run.read("rows", p, "rows") for p in context.blocks])
    given = links.given(context)
    W = reference.kernel(reference.standardised(X), 5, floor=1e-10)
    W[:, given.rows] = 0
    for b in range(2):
        labels = np.empty(len(X), int)
        labels[rows] = np.concatenate([labelings.read_labels(context, p, b) for p in context.blocks])
        heard = (W @ np.eye(4)[labels])[given.rows]
        told, known = heard.argmax(axis=1), heard.any(axis=1)
        wrong = 0
        for pairs, want in ((given.must, True), (given.cannot, False)):
            pairs = pairs[known[pairs].all(axis=1)]
            wrong += int(np.sum((told[pairs[:, 0]] == told[pairs[:, 1]]) != want))
        assert wrong > 0
        assert result.scores.n_held_out[b] == wrong


def test_rows_settle_where_links_draw_them(blobs):
    X, y = blobs
    given = links_of(y, 400)
    one, settled = (fit(X, 4, t=(3, 5), **given, selection=selection) for selection in ("links", "consensus"))
    assert adjusted_rand_score(y, settled.labels) > adjusted_rand_score(y, one.labels)
    assert settled.n_violated <= one.n_violated


@pytest.mark.parametrize(("c", "assignment"), [(2, "rotation"), (4, "merge")])
def test_defaults_follow_the_number_of_clusters(blobs, c, assignment):
    X, y = blobs
    result = fit(X, c, **links_of(y % c, 40))
    assert result.settings.assignment == assignment
    assert {eigenproblem["link_eta"] for eigenproblem in result.scores.to_dict("records")} == (
        {0, 1, 10} if c == 2 else {0}
    )


def test_few_rows_have_another_t_unless_one_is_given(blobs, monkeypatch):
    X, options = blobs[0][:80], {"method": "3smic", "n_centers": 40, "gamma": 0.0, "n_threads": 1}
    assert bigsmic.fit(X, 4, **options).settings.t == (2, 3, 5, 10)
    assert bigsmic.fit(X[:8], 3, method="3smic", n_threads=1).settings.t == (2, 3, 5, 7)
    assert bigsmic.fit(X, 4, t=(3, 5), **options).settings.t == (3, 5)
    monkeypatch.setattr(semisupervised, "FEW_ROWS", 79)
    assert bigsmic.fit(X, 4, **options).settings.t == (3, 10)


def test_links_help(blobs):
    X, y = blobs
    without, many = (fit(X, 4, gamma=1.0, **links_of(y, m)) for m in (0, 4000))
    assert adjusted_rand_score(y, without.labels) < 0.97
    assert adjusted_rand_score(y, many.labels) > 0.99
    assert many.n_violated / many.n_links < 0.01


def test_violated_links_are_listed(blobs):
    X, y = blobs
    given = links_of(y, 300) | labels_of(y, 50)
    result = fit(X, 4, **given)
    wrong = result.labels[given["must_links"]]
    assert {frozenset(pair) for pair in result.violated["must_links"].tolist()} == {
        frozenset(pair) for pair in given["must_links"][wrong[:, 0] != wrong[:, 1]].tolist()
    }
    wrong = result.labels[given["cannot_links"]]
    assert {frozenset(pair) for pair in result.violated["cannot_links"].tolist()} == {
        frozenset(pair) for pair in given["cannot_links"][wrong[:, 0] == wrong[:, 1]].tolist()
    }
    assert f"links      {result.n_violated} of {result.n_links} not kept" in repr(result)
    assert set(result.violated["strays"]) <= set(np.flatnonzero(given["labels"] >= 0))


def test_predictions_of_rows_beside_the_fitted_ones_agree(blobs):
    X, y = blobs
    result = fit(X, 4, **links_of(y, 2000))
    new = X + np.float32(1e-3)
    assert np.mean(result.predict(new) == result.labels) > 0.9
    some = result.predict_proba(new)
    np.testing.assert_array_equal(result.predict_proba(new[3:9]), some[3:9])
    reopened = bigsmic.Result.open(result.location)
    assert type(reopened) is semisupervised.Result
    np.testing.assert_array_equal(reopened.predict(new), result.predict(new))


def test_extension_repeats_an_eigenvector_that_no_link_disturbs(blobs):
    """Far from links the extension to a row is the eigenvector there, up to its own share of the sum."""
    X, y = blobs
    result = fit(X, 4, t=10, normalization="symmetric", assignment="rotation", gamma=0.0, **links_of(y, 4))
    assert np.mean(result.predict(X + np.float32(1e-4)) == result.labels) > 0.93


# -- the same however it is cut


@pytest.mark.usefixtures("many_blocks")
def test_threads_places_on_disk_and_run_directories_do_not_matter(blobs, tmp_path, monkeypatch):
    X, y = blobs
    options = links_of(y, 300) | labels_of(y, 60) | {"gamma": 1.0}
    plain = fit(X, 4, **options)
    others = [fit(X, 4, out=tmp_path / "run", **options), fit(X, 4, **options | {"n_threads": 2})]
    keep_on_disk(monkeypatch)
    for other in (*others, fit(X, 4, **options)):
        np.testing.assert_array_equal(other.labels, plain.labels)
        np.testing.assert_array_equal(posterior_of(other), posterior_of(plain))
        assert other.n_violated == plain.n_violated


@pytest.mark.usefixtures("many_blocks")
@pytest.mark.parametrize("stage", [labelings, link_scores, link_propagation])
def test_what_was_killed_goes_on(blobs, tmp_path, monkeypatch, stage):
    X, y = blobs
    options = links_of(y, 300) | {"gamma": 1.0}
    plain = fit(X, 4, **options)
    with monkeypatch.context() as patch:
        patch.setattr(stage, "run", lambda job: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            fit(X, 4, out=tmp_path / "run", **options)
    resumed = fit(X, 4, out=tmp_path / "run", **options)
    np.testing.assert_array_equal(resumed.labels, plain.labels)


def test_other_links_are_another_run(blobs, tmp_path):
    X, y = blobs
    fit(X, 4, out=tmp_path / "run", **links_of(y, 30))
    with pytest.raises(RunMismatchError, match="made from other input"):
        fit(X, 4, out=tmp_path / "run", **links_of(y, 31))


def test_links_may_lie_in_files(blobs, tmp_path):
    X, y = blobs
    given = links_of(y, 300) | labels_of(y, 60)
    np.save(tmp_path / "must.npy", given["must_links"])
    lines = ["first,second", *(f"{i},{j}" for i, j in given["cannot_links"])]
    (tmp_path / "cannot.csv").write_text("\n".join(lines))
    zarr.create_array(str(tmp_path / "labels.zarr"), data=given["labels"])
    files = {"must_links": tmp_path / "must.npy", "cannot_links": str(tmp_path / "cannot.csv")}
    found = fit(X, 4, **files, labels=tmp_path / "labels.zarr")
    np.testing.assert_array_equal(found.labels, fit(X, 4, **given).labels)


def test_the_command_line_takes_links(blobs, tmp_path):
    X, y = blobs
    zarr.create_array(str(tmp_path / "X.zarr"), data=X)
    given = links_of(y, 200)
    for name, pairs in given.items():
        np.save(tmp_path / f"{name}.npy", pairs)
    arguments = ["fit", tmp_path / "X.zarr", "-c", 4, "--method", "3smic", "--out", tmp_path / "run", "--gamma", "0,1"]
    arguments += ["--must-links", tmp_path / "must_links.npy", "--cannot-links", tmp_path / "cannot_links.npy"]
    arguments += ["--t", "5", "--n-centers", "40", "--threads", "1", "--link-weight", "2"]
    answer = CliRunner().invoke(main.app, [str(argument) for argument in arguments])
    assert answer.exit_code == 0, answer.output
    found = bigsmic.Result.open(tmp_path / "run")
    np.testing.assert_array_equal(found.labels, fit(X, 4, link_weight=2.0, **given).labels)


# -- what is refused, before anything is written


@pytest.mark.parametrize(
    ("c", "options", "message"),
    [
        (3, {"must_links": [[0, 700]]}, r"must_links: pair \(0, 700\) out of range for 700 rows"),
        (3, {"must_links": [[4, 5]], "cannot_links": [[5, 4]]}, "rows 4 and 5 are joined by must-links"),
        (
            2,
            {"cannot_links": [[0, 1], [1, 2], [0, 2]]},
            "no labeling with 2 clusters satisfies all links among rows 0, 1, 2",
        ),
        (1, {"cannot_links": [[0, 1]]}, "no labeling with 1 clusters"),
        (2, {"labels": [0, 1, 2] + [-1] * 697}, "labels: got 3 different labels for 2 clusters"),
        (3, {"must_links": "nowhere.npy"}, "must_links: 'nowhere.npy' could not be read"),
        (3, {"eta": 1.0}, "eta: got .* for more than two clusters"),
        (3, {"gamma": None}, "gamma: got None; use numbers of at least 0"),
        (3, {"gamma": -1.0}, "gamma: got -1.0; use numbers of at least 0"),
        (3, {"gamma": 1e300}, r"gamma: got 1e\+300; use numbers of at least 0 and at most 1e\+100"),
        (2, {"eta": 1e10}, r"eta: got 10000000000\.0; use numbers of at least 0 and at most 1e\+06"),
        (3, {"link_weight": -1}, "link_weight: got -1; use a number of at least 0"),
        (3, {"kernel": "precomputed"}, "option kernel= .*'normalized' is normalization='symmetric'"),
        (3, {"prior": (0.2, 0.3, 0.5)}, "3smic: got unexpected option prior="),
        (3, {"valleys": "foo"}, r"valleys: got 'foo'; use one of \(True, False\)"),
        (range(2, 5), {"assignment": "merge", "valleys": False}, "assignment: got 'merge' with an open number"),
        (None, {"must_links": [[4, 5]], "cannot_links": [[5, 4]]}, "rows 4 and 5 are joined by must-links"),
        (range(2, 4), {"labels": [0, 1, 2, 3] + [-1] * 696}, "labels: got 4 different labels for 3 clusters"),
    ],
)
def test_what_cannot_be_used_is_refused(blobs, tmp_path, c, options, message):
    with pytest.raises(InputError, match=message):
        fit(blobs[0], c, out=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_one_cluster_keeps_must_links(blobs):
    result = fit(blobs[0], 1, must_links=[[0, 1]])
    assert not result.labels.any()
    assert result.n_violated == 0
    assert result.violated["must_links"].shape == (0, 2)


def test_rows_that_cannot_be_with_any_neighbour_get_labels():
    X = np.random.default_rng(0).standard_normal((40, 2)).astype("f4")
    links = {"cannot_links": np.stack([np.zeros(39, int), np.arange(1, 40)], axis=1)}
    result = fit(X, 2, **links)
    assert np.isfinite(posterior_of(result)).all()
    assert result.n_violated < 39


# -- the number of clusters left open


def test_a_curve_over_numbers_of_clusters(blobs):
    X, y = blobs
    options = links_of(y, 1000) | {"gamma": 1.0, "selection": "links"}
    result = fit(X, range(2, 7), **options)
    assert result.curve.index.tolist() == [2, 3, 4, 5, 6]
    assert (result.curve.lsmi_of_limit <= 1.05).all()
    assert result.curve.n_violated[4] < result.curve.n_violated[2]
    with pytest.raises(InputError, match="the fit was given no number of clusters"):
        _ = result.labels
    cut, plain = result.cut(4), fit(X, 4, assignment="rotation", **options)
    assert adjusted_rand_score(cut.labels, plain.labels) > 0.97
    assert cut.n_violated == result.curve.n_violated[4]
    assert cut.predict(X[:5]).shape == (5,)
    with pytest.raises(InputError, match="this fit allows 2 to 6: give one of these numbers, or fit again"):
        result.cut(7)
    with pytest.raises(InputError, match="cut: got 3 clusters, but this fit was given 4, and cannot be cut: fit again"):
        plain.cut(3)
    for number in (3.0, True, None):
        with pytest.raises(InputError, match=f"cut: got {number}; use an integer"):
            result.cut(number)
    with pytest.raises(InputError, match="curve: the fit was given one number"):
        _ = plain.curve


@pytest.mark.parametrize("c", [2, 3])
@pytest.mark.parametrize("selection", ["consensus", "links"])
def test_a_cut_at_the_number_that_was_given_has_the_labels_of_the_fit(c, selection):
    rng = np.random.default_rng(0)
    y = rng.integers(0, c, 120)
    X = rng.standard_normal((120, 3)) + [1.5, 0, 0] * y[:, None]
    pairs = rng.permutation(120).reshape(60, 2)
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    result = bigsmic.fit(X, c, method="3smic", must_links=pairs[same], cannot_links=pairs[~same], selection=selection)
    cut = result.cut(c)
    np.testing.assert_array_equal(cut.labels, result.labels)
    np.testing.assert_array_equal(cut.posterior, result.posterior)
    assert cut.n_violated == result.n_violated


def test_a_cut_settles_as_a_fit_does(blobs):
    X, y = blobs
    options = links_of(y, 1000) | {"assignment": "rotation", "t": (3, 5)}
    cut, plain = fit(X, range(2, 7), **options).cut(4), fit(X, 4, **options)
    assert adjusted_rand_score(cut.labels, plain.labels) > 0.97
    assert abs(cut.n_violated - plain.n_violated) <= 2
    assert cut.violated["must_links"].shape[1] == 2


def test_all_labelings_are_scored_by_number(blobs):
    X, y = blobs
    result = fit(X, range(2, 5), **links_of(y, 100), assignment="rotation", normalization="symmetric")
    context = Context(None, result._run, result.settings)
    assert [spec.n_eigenvectors for spec in specs_of(context)] == [2, 3, 4] * 2
