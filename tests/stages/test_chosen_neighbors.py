"""Graphs of neighbours that are chosen among candidates, and how new rows are compared with them."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score as ari

import bigsmic
from bigsmic.numerics.graph import candidates
from bigsmic.runtime.block_sizes import BlockSizes
from bigsmic.stages import hubs, novelty, out_of_sample

OPTIONS = {"n_threads": 1, "scale": None, "valleys": False, "neighbors": "exact", "t": (3, 10)}


def with_hubs(n_rows=900):
    """Four clusters of four widths in thirty columns."""
    draw = np.random.default_rng(0)
    y = draw.integers(0, 4, n_rows)
    spread = np.array([0.5, 1.0, 1.5, 2.0])[y, None]
    return (draw.normal(size=(4, 30))[y] + spread * draw.normal(size=(n_rows, 30))).astype(np.float32)


def without_hubs(n_rows=900):
    """Four clusters of four widths in three columns."""
    return np.ascontiguousarray(4 * with_hubs(n_rows)[:, :3])


@pytest.fixture(scope="module")
def fitted():
    X = with_hubs(1000)[:900]
    return X, bigsmic.fit(X, 4, **OPTIONS)


def in_order(context, stage, name, *part):
    return np.concatenate([np.atleast_2d(context.run.read(stage, p, name, *part))[0] for p in context.blocks])


def reference(X, w=40, k=20):
    """Neighbours of every row by the definition: indices (n, k); squares and separations of all pairs; scales (n,)."""
    squares = ((X[:, None].astype(np.float64) - X) ** 2).sum(axis=2)
    np.fill_diagonal(squares, np.inf)
    nearest = np.argsort(squares, axis=1, kind="stable")[:, :w]
    scales = np.sqrt(np.sort(squares, axis=1)[:, 9])
    separated = squares / np.minimum(scales[:, None], scales)
    order = np.argsort(np.take_along_axis(separated, nearest, axis=1), axis=1, kind="stable")[:, :k]
    return np.take_along_axis(nearest, order, axis=1), squares, separated, scales


def rank_bounds(squares, separated, w=40, k=20):
    """Least and largest rank of every pair: float32 may order two neighbours whose separations it cannot tell apart."""
    nearest = np.argsort(squares, axis=1, kind="stable")[:, :w]
    of_nearest = np.take_along_axis(separated, nearest, axis=1)
    bounds = []
    for factor in (1 - 1e-5, 1 + 1e-5):
        rank = (of_nearest[:, None] <= factor * of_nearest[:, :, None]).sum(axis=2) + (factor < 1)
        ranks = np.full(squares.shape, 99)
        np.put_along_axis(ranks, nearest, np.where(rank <= k, rank, 99), axis=1)
        bounds.append(np.minimum(ranks, ranks.T))
    return bounds


def test_the_graph_is_that_of_the_definition(fitted):
    X, result = fitted
    context = result._context
    rows = in_order(context, "rows", "rows")
    chosen, squares, separated, scales = reference(X)
    least, most = rank_bounds(squares, separated)
    found = np.full_like(least, 99)
    for p in context.blocks:
        read = context.run.reader("graph", p)
        lo, hi = context.layout.bounds[p : p + 2]
        of_entries = np.repeat(rows[lo:hi], np.diff(read("indptr")))
        columns = rows[np.concatenate([np.arange(lo, hi), read("halo")])[read("indices")]]
        found[of_entries, columns] = read("ranks")
        np.testing.assert_allclose(read("sq_distances"), squares[of_entries, columns], rtol=1e-5)
    assert (least == most).mean() > 0.999
    assert ((least <= found) & (found <= most)).all()
    np.testing.assert_allclose(in_order(context, "graph", "scale"), scales[rows], rtol=1e-5)
    for i, t in enumerate(context.settings.t):
        sigma, reach = (in_order(context, "graph", name, i) for name in ("sigma", "reach"))
        np.testing.assert_allclose(sigma, np.sqrt(np.sort(squares, axis=1)[rows, t - 1]), rtol=1e-5)
        np.testing.assert_allclose(reach, separated[rows, chosen[rows, t - 1]], rtol=1e-5)


def test_blocks_choose_as_one_does(fitted):
    X, result = fitted
    several = bigsmic.fit(X, 4, block_sizes=BlockSizes(group_rows=400), **OPTIONS)
    assert len(several._context.blocks) > 1
    sums = []
    for found in (result, several):
        context = found._context
        rows, total = in_order(context, "rows", "rows"), np.zeros((len(X), 3))
        for p in context.blocks:
            read = context.run.reader("graph", p)
            lo, hi = context.layout.bounds[p : p + 2]
            own = np.repeat(rows[lo:hi], np.diff(read("indptr")))
            columns = rows[np.concatenate([np.arange(lo, hi), read("halo")])[read("indices")]]
            np.add.at(total, own, np.stack([columns, read("ranks"), np.ones(len(own))], axis=1))
        sums.append(total)
    np.testing.assert_array_equal(*sums)


def test_hubs_are_known_by_density_and_by_rows_in_no_list(fitted):
    X, result = fitted
    _, squares, _, scales = reference(X)
    ten = np.argsort(squares, axis=1, kind="stable")[:, :10]
    expected = {
        "denser": pytest.approx(np.mean(scales[:, None] > 1.5 * scales[ten])),
        "unlisted": pytest.approx(1 - len(np.unique(ten)) / len(X)),
    }
    facts = result._run.info("hubs", 0)
    assert facts == expected | {"rows": len(X), "chosen": True}
    assert candidates.are_many(facts["denser"], facts["unlisted"])
    facts = bigsmic.fit(without_hubs(), 4, **OPTIONS)._run.info("hubs", 0)
    assert facts["unlisted"] < candidates.MANY_UNLISTED
    assert not facts["chosen"]


@pytest.mark.parametrize(("denser", "unlisted", "many"), [(0.2, 0.1, True), (0.05, 0.1, False), (0.2, 0.01, False)])
def test_both_shares_must_be_large(denser, unlisted, many):
    assert candidates.are_many(denser, unlisted) == many


def test_copies_are_not_looked_for_in_lists():
    X = np.repeat(without_hubs(300), 3, axis=0)
    assert bigsmic.fit(X, 4, **OPTIONS)._run.info("hubs", 0)["unlisted"] == 0
    mixed = np.concatenate([X, without_hubs(700)[400:]])
    assert bigsmic.fit(mixed, 4, **OPTIONS)._run.info("hubs", 0)["unlisted"] < candidates.MANY_UNLISTED


def test_the_drawn_rows_are_the_same_in_any_blocks(monkeypatch):
    monkeypatch.setattr(hubs, "HUB_ROWS", 200)
    X = with_hubs()
    sizes = ({}, {"block_sizes": BlockSizes(group_rows=400)})
    one, several = (bigsmic.fit(X, 4, **OPTIONS, **options)._run.info("hubs", 0) for options in sizes)
    assert one == several  # to the bit, and from the same rows
    assert one["rows"] == 200


def test_without_hubs_or_more_candidates_the_nearest_are_the_neighbours():
    X, Y = with_hubs(), without_hubs()
    for rows, options in ((X, {"n_candidates": 1}), (X, {"n_candidates": 20}), (X, {"preset": "paper"}), (Y, {})):
        context = bigsmic.fit(rows, 4, **{"n_threads": 1, "scale": None} | options)._context
        assert not hubs.are_chosen(context)
        squares = np.sort(((rows[:, None].astype(np.float64) - rows) ** 2).sum(axis=2), axis=1)
        ranks = in_order(context, "graph", "ranks")
        found = np.bincount(ranks)[1:21]
        assert found.sum() == len(ranks)
        nearest = np.sqrt(in_order(context, "graph", "sq_distances")[ranks == 1].max())
        assert nearest <= np.sqrt(squares[:, 1].max()) * 1.00001


def test_there_are_two_candidates_for_a_neighbour_unless_they_are_given():
    X = with_hubs(300)
    options = {"n_threads": 1, "valleys": False}
    asked = [bigsmic.fit(X, 4, **options, **given)._context.settings for given in ({}, {"n_neighbors": 30})]
    assert [settings.n_candidates for settings in asked] == [40, 60]
    assert bigsmic.fit(X[:35], 4, **options)._context.settings.n_candidates == 34
    assert bigsmic.SMIC(4, n_candidates=33, valleys=False, n_jobs=1).fit(X).result_._context.settings.n_candidates == 33


def test_new_rows_are_compared_as_fitted_ones_are(fitted):
    X, result = fitted
    context = result._context
    new = with_hubs(1000)[900:]
    model = out_of_sample.Model(context)
    rows, scales = in_order(context, "rows", "rows"), reference(X)[-1]
    indices, squares = model.search(context.scaler.apply(new))
    assert indices.shape == (len(new), 40)
    chosen = model.choose(indices, squares)
    exact = ((new[:, None].astype(np.float64) - X) ** 2).sum(axis=2)
    nearest = np.argsort(exact, axis=1, kind="stable")[:, :40]
    own = np.sqrt(np.sort(exact, axis=1)[:, 9])
    separated = np.take_along_axis(exact / np.minimum(own[:, None], scales), nearest, axis=1)
    order = np.argsort(separated, axis=1, kind="stable")[:, :20]
    np.testing.assert_array_equal(rows[chosen.indices], np.take_along_axis(nearest, order, axis=1))
    np.testing.assert_allclose(chosen.separated, np.take_along_axis(separated, order, axis=1), rtol=1e-4)


def test_usual_distances_of_fitted_rows_are_those_of_new_rows(fitted):
    """Also of a row to which one that is no candidate of it, as it is farther than these, is separated little."""
    X, result = fitted
    context = result._context
    parts = [novelty._distances(context, p, np.arange(len(X))) for p in context.blocks]
    rows, own, of_neighbors = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    model = out_of_sample.Model(context)
    indices, squares = (found[:, 1:] for found in model.search(context.scaler.apply(X[rows]), 41))  # without itself
    np.testing.assert_allclose(own, np.sqrt(squares[:, 9]), rtol=1e-4)
    np.testing.assert_allclose(of_neighbors, model.mean_sigma(indices, squares), rtol=1e-4)


def test_wide_clusters_beside_narrow_ones_in_many_columns_are_found():
    options, scores = {"n_threads": 1, "valleys": False, "scale": None}, []
    for seed in range(6):
        draw = np.random.default_rng(seed)
        y = np.repeat(np.arange(6), 150)
        spread = np.linspace(0.5, 1.8, 6)[y, None]
        X = (0.6 * draw.normal(size=(6, 40))[y] + spread * draw.normal(size=(900, 40))).astype(np.float32)
        scores.append([ari(y, bigsmic.fit(X, 6, n_candidates=number, **options).labels) for number in (20, None)])
    nearest, chosen = np.mean(scores, axis=0)
    assert chosen > nearest + 0.1


def test_a_fit_that_was_stopped_in_the_second_search_goes_on(fitted, tmp_path):
    X, _ = fitted
    for stage in ("hubs", "more_neighbors", "candidates", "chosen"):

        def stop(step, done, total, stage=stage):
            if step == stage and done == total:
                raise KeyboardInterrupt

        out = tmp_path / stage
        options = OPTIONS | {"block_sizes": BlockSizes(group_rows=400)}
        with pytest.raises(KeyboardInterrupt):
            bigsmic.fit(X, 4, out=out, progress=stop, **options)
        found = bigsmic.fit(X, 4, out=out, **options)
        wanted = bigsmic.fit(X, 4, **options)
        np.testing.assert_array_equal(found.posterior, wanted.posterior)
        assert not any(found._run.done(name, 0) for name in ("lists", "more_neighbors", "candidates", "chosen"))


def test_predictions_of_a_fit_whose_facts_about_hubs_are_lost_are_refused(tmp_path):
    bigsmic.fit(with_hubs(), 4, out=tmp_path / "run", **OPTIONS)
    result = bigsmic.Result.open(tmp_path / "run")
    result._run.drop("hubs", [0])
    with pytest.raises(bigsmic.errors.BigsmicError, match="hubs"):
        bigsmic.Result.open(tmp_path / "run").predict(with_hubs()[:5])
