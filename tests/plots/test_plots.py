"""Plots draw what the Result says: their artists are read back."""

import sys

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgba_array
from matplotlib.figure import Figure
from scipy.cluster.hierarchy import leaves_list
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score
from small_fits import BRIEF, cut_small

import bigsmic
from bigsmic import plots
from bigsmic.errors import AbsentResultError, InputError, RunMismatchError
from bigsmic.methods.smic.evidence import Valleys
from bigsmic.numerics.labeling.valleys import THRESHOLD
from bigsmic.plots.palette import NONE
from bigsmic.plots.times import shares_over
from bigsmic.runtime.block_sizes import BlockSizes

LINKS = {"must_links": [[0, 1]], "t": 5, "n_centers": 40, "n_threads": 1}


@pytest.fixture(scope="module", autouse=True)
def no_window():
    before = mpl.get_backend()
    mpl.use("Agg")
    yield
    plt.close("all")
    mpl.use(before)


@pytest.fixture(scope="module")
def rows(blobs):
    """Rows by name; of "waves", columns vary together as samples do."""
    wave = np.cumsum(np.random.default_rng(0).normal(size=(5, 30)), axis=1)
    many = make_blobs(2000, 6, centers=200, cluster_std=0.1, center_box=(-10, 10), random_state=0)[0]
    noise = np.concatenate([blobs[0], np.random.default_rng(1).uniform(-40, 40, (80, 5))])
    return {"noise": noise, "blobs": blobs[0], "waves": (blobs[0] @ wave).astype(np.float32), "many": many}


@pytest.fixture(scope="module")
def fits(rows):
    """A fit by name, made when it is first asked for."""
    wanted = {
        "smic": (rows["blobs"], {"c": 4} | BRIEF),
        "noise": (rows["noise"], {"c": 4, "noise": True, "valleys": False} | BRIEF),
        "waves": (rows["waves"], {"c": 4, "valleys": False} | BRIEF),
        "open": (rows["blobs"], {"c": None, "valleys": False} | BRIEF),
        "no valleys": (np.random.default_rng(0).normal(size=(300, 3)), {"c": None} | BRIEF),
        "links": (rows["blobs"], {"c": range(2, 5), "method": "3smic", "valleys": False} | LINKS),
        "single": (rows["blobs"], {"c": 1} | BRIEF),
        "many": (rows["many"], {"c": 200} | BRIEF | {"widths": (1.2,), "t": 5, "block_sizes": BlockSizes()}),
        "rim": (rows["blobs"], {"c": 4, "method": "rim", "n_threads": 1}),
    }
    made = {}

    def fit(name):
        if name not in made:
            data, options = wanted[name]
            with pytest.MonkeyPatch.context() as patch:
                cut_small(patch)
                made[name] = bigsmic.fit(data, **options)
        return made[name]

    return fit


@pytest.fixture
def ax():
    return Figure().add_subplot()


def image(ax):
    (found,) = ax.images
    return found.get_array()


def named(axis):
    return [int(label.get_text()) for label in axis.get_ticklabels()]


DRAWN = ("map", "sizes", "agreement", "relations", "tree", "curve", "labelings", "timeline")


@pytest.mark.parametrize("name", DRAWN)
def test_plots_draw_into_the_axes_that_they_are_given_and_touch_no_others(fits, ax, name):
    plt.close("all")
    assert getattr(plots, name)(fits("smic"), ax=ax) is ax
    assert ax.has_data()
    ax.figure.savefig("/dev/null", format="svg")
    assert plt.get_fignums() == []


def test_without_axes_a_figure_is_made(fits):
    plt.close("all")
    ax = plots.sizes(fits("smic"))
    assert plt.get_fignums() == [ax.figure.number]
    plt.close("all")


@pytest.mark.parametrize("name", ["single", "many"])
@pytest.mark.parametrize("plot", ["map", "sizes", "agreement", "relations", "tree", "timeline", "profiles"])
def test_one_cluster_and_two_hundred_are_drawn(fits, rows, ax, name, plot):
    data = [rows["blobs" if name == "single" else "many"]] if plot == "profiles" else []
    few = {"n_rows": 400} if plot == "map" else {}
    getattr(plots, plot)(fits(name), *data, ax=ax, **few)
    assert ax.has_data()
    ax.figure.savefig("/dev/null", format="svg")


# -- map


def test_points_of_the_map_have_the_colors_of_their_clusters(fits, ax):
    result = fits("noise")
    plots.map(result, n_rows=150, names=False, ax=ax)
    (points,) = ax.collections
    found = result.map(150)
    np.testing.assert_allclose(points.get_offsets(), found.points)
    labels = result.labels[found.rows]
    expected = to_rgba_array([NONE if k < 0 else plots.palette(4)[k] for k in labels])
    np.testing.assert_allclose(points.get_facecolors(), expected)
    assert (labels < 0).any()


@pytest.mark.parametrize("hole", [np.nan, np.inf])
def test_rows_whose_number_is_not_finite_are_grey_below_the_others(fits, ax, hole):
    """A column with gaps colours the rows that have a value, and the others do not vanish from the map."""
    result = fits("smic")
    rows = result.map(150).rows
    values = np.where(np.arange(700) % 3 == 0, hole, np.arange(700))
    plots.map(result, values, n_rows=150, ax=ax)
    ax.figure.savefig("/dev/null", format="svg")
    (points,) = ax.collections
    assert len(points.get_offsets()) == len(points.get_facecolors()) == 150
    are_grey = (points.get_facecolors() == to_rgba_array([NONE])).all(axis=1)
    assert are_grey.sum() == (rows % 3 == 0).sum()
    assert are_grey[: are_grey.sum()].all()
    assert points.get_clim() == (rows[rows % 3 > 0].min(), rows[rows % 3 > 0].max())


def test_clusters_are_named_at_one_of_their_points(fits, ax):
    result = fits("smic")
    plots.map(result, n_rows=150, ax=ax)
    found = result.map(150)
    labels = result.labels[found.rows]
    for text in ax.texts:
        own = found.points[labels == int(text.get_text())]
        assert (np.abs(own - text.get_position()).sum(axis=1) < 1e-5).any()
    assert sorted(int(text.get_text()) for text in ax.texts) == sorted(set(labels))


@pytest.mark.parametrize("name", ["map", "sizes", "agreement", "relations", "tree", "profiles"])
def test_names_of_clusters_are_written_beside_their_numbers(rows, ax, name):
    result = bigsmic.fit(rows["blobs"], 4, **BRIEF).set_names({1: "cost $2", 3: "a name that is quite a bit too long"})
    getattr(plots, name)(result, *[rows["blobs"]] * (name == "profiles"), ax=ax)
    axis = ax.yaxis if name in ("profiles", "relations") else ax.xaxis
    texts = ax.texts if name == "map" else axis.get_ticklabels()
    assert sorted(text.get_text() for text in texts) == ["0", "1 cost $2", "2", "3 a name that is qui.."]
    assert not any(text.get_parse_math() for text in texts)
    ax.figure.savefig("/dev/null", format="svg")


@pytest.mark.parametrize("color", ["agreement", "posterior", "array"])
def test_points_of_the_map_have_a_scale_and_the_least_sure_are_on_top(fits, ax, color):
    result = fits("smic")
    own = np.asarray(result.posterior)[np.arange(700), result.labels]
    values = {"agreement": result.agreement, "posterior": own, "array": np.arange(700) / 7}[color]
    plots.map(result, values if color == "array" else color, n_rows=150, ax=ax)
    (points,) = ax.collections
    rows, places = result.map(150)
    order = np.argsort(-values[rows], kind="stable")
    np.testing.assert_allclose(points.get_array(), values[rows][order])
    np.testing.assert_allclose(points.get_offsets(), places[order])


def test_a_fit_without_labels_has_a_grey_map(fits, ax):
    plots.map(fits("open"), n_rows=150, ax=ax)
    np.testing.assert_allclose(ax.collections[0].get_facecolors(), to_rgba_array([NONE]))


@pytest.mark.parametrize(
    ("color", "why"),
    [
        ("size", "use 'cluster', 'agreement', 'posterior'"),
        (np.arange(9), r"shape \(9,\); give a number for each of the 700 rows$"),
        (np.full(700, "T cell"), r"give a number for each of the 700 rows, such as pandas\.factorize\(color\)\[0\]$"),
    ],
)
def test_colors_that_there_are_not_are_refused(fits, ax, color, why):
    with pytest.raises(InputError, match=why):
        plots.map(fits("smic"), color, ax=ax)


def test_a_method_without_agreement_says_so_before_anything_is_laid_out(fits, ax):
    with pytest.raises(AbsentResultError, match="agreement: a fit by method 'rim' has no such attribute"):
        plots.map(fits("rim"), "agreement", ax=ax)


# -- clusters


def test_bars_are_the_sizes(fits, ax):
    result = fits("smic")
    plots.sizes(result, ax=ax)
    assert [bar.get_height() for bar in ax.patches] == result.sizes.tolist()
    np.testing.assert_allclose([bar.get_facecolor() for bar in ax.patches], to_rgba_array(plots.palette(4)))


def test_bars_are_the_agreement_and_marks_the_rest(fits, ax):
    result = fits("smic")
    plots.agreement(result, ax=ax)
    np.testing.assert_allclose([bar.get_height() for bar in ax.patches], result.clusters.agreement)
    drawn = {line.get_label(): line.get_ydata() for line in ax.get_lines()}
    assert set(drawn) == {"posterior", "stability"}
    for name, values in drawn.items():
        np.testing.assert_allclose(values, result.clusters[name])


def test_relations_stand_in_the_order_of_the_tree(fits, ax):
    result = fits("smic")
    plots.relations(result, ax=ax)
    order = leaves_list(result.cluster_tree)
    assert named(ax.xaxis) == order.tolist()
    found = np.ma.filled(image(ax), np.nan)
    assert np.isnan(np.diag(found)).all()
    off = ~np.eye(4, dtype=bool)
    np.testing.assert_allclose(found[off], np.maximum(result.density_ratios, 1e-4)[np.ix_(order, order)][off])


def test_tree_has_a_branch_for_every_merge(fits, ax):
    result = fits("smic")
    plots.tree(result, ax=ax)
    Z = result.cluster_tree
    assert named(ax.xaxis) == leaves_list(Z).tolist()
    np.testing.assert_allclose([line.get_ydata()[1] for line in ax.get_lines()], Z[:, 2])
    left, right = sorted(Z[0, :2].astype(int))  # the first merge is of two leaves, which stand side by side
    places = [named(ax.xaxis).index(k) for k in (left, right)]
    assert set(ax.get_lines()[0].get_xdata()) == set(places)


def test_clusters_without_posterior_are_left_out_of_trees_and_relations(fits, ax):
    result = fits("many")
    empty = np.flatnonzero(np.diag(result.density_ratios) == 0)
    plots.tree(result, ax=ax)
    assert len(ax.get_lines()) == 199 - len(empty)


def test_many_clusters_are_named_every_so_many(fits, ax):
    plots.sizes(fits("many"), ax=ax)
    assert len(ax.get_xticks()) <= 40
    assert len(ax.patches) == 200


@pytest.mark.filterwarnings(r"ignore:Glyph \d+ .* missing from (current )?font:UserWarning")
@pytest.mark.parametrize(("height", "least"), [(2.4, 0.1), (4.8, 0.4)])
def test_names_in_wide_letters_leave_room_for_the_picture(rows, height, least):
    """Japanese letters are as wide as high: twenty of them are higher than a report's figure of sizes."""
    result = bigsmic.fit(rows["blobs"], 4, **BRIEF).set_names({1: "日" * 21})
    ax = Figure(figsize=(6.4, height), layout="constrained").add_subplot()
    plots.sizes(result, ax=ax)
    ax.figure.savefig("/dev/null", format="svg")
    assert ax.get_position().height > least
    assert ax.get_xticklabels()[1].get_text() == "1 " + "日" * 9 + ".."


# -- numbers


def test_curve_has_the_valleys_up_to_a_height_and_the_number_of_the_result(fits, ax):
    result = fits("smic")
    plots.curve(result, ax=ax)
    table = result.valleys.curve
    weakest, limit, *_ = ax.get_lines()
    np.testing.assert_array_equal(weakest.get_xdata(), table.n_clusters)
    np.testing.assert_allclose(weakest.get_ydata(), np.minimum(table.weakest_z, 3 * THRESHOLD))
    assert set(limit.get_ydata()) == {result.valleys.threshold}
    assert set(ax.get_lines()[-1].get_xdata()) == {4}
    (second,) = set(ax.figure.axes) - {ax}
    for line in second.get_lines():
        np.testing.assert_allclose(line.get_ydata(), table[line.get_label()])


def test_curve_ends_where_valleys_were_last_looked_for():
    """Groups of few rows are merged before: nothing is known of valleys between so many."""
    z = np.array([np.inf, 9.0, 0.5, np.inf, np.inf])
    same = {name: np.full(5, 0.5) for name in ("stability", "modularity")}
    found = {"numbers": np.arange(2, 7), "weakest": z} | same
    valleys = Valleys(3, True, [3], 0.5, 0.3, None, 1.0, None, None, found, {})
    np.testing.assert_array_equal(valleys.curve.weakest_z, [np.inf, 9.0, 0.5, np.nan, np.nan])
    untouched = Valleys(3, True, [3], 0.5, 0.3, None, 1.0, None, None, found | {"weakest": np.full(5, np.inf)}, {})
    assert np.isinf(untouched.curve.weakest_z).all()


def test_curve_of_one_number_has_it_once_below(fits, ax, monkeypatch):
    result = fits("smic")
    only = result.valleys.curve.query("n_clusters == 4")
    monkeypatch.setitem(result.valleys.__dict__, "curve", only)
    plots.curve(result, ax=ax)
    ax.figure.canvas.draw()
    shown = [label.get_text() for label in ax.get_xticklabels()]
    assert len(only) == 1
    assert shown.count("4") == 1
    assert set(shown) <= {"2", "3", "4", "5", "6"}


def test_curve_is_drawn_where_there_are_no_valleys_and_no_labels(fits, ax):
    result = fits("no valleys")
    assert result.settings.undecided
    plots.curve(result, ax=ax)
    np.testing.assert_array_equal(ax.get_lines()[0].get_xdata(), result.valleys.curve.n_clusters)
    assert set(ax.get_lines()[-1].get_xdata()) == {result.valleys.best}


def test_curve_is_that_of_stability_where_valleys_were_not_looked_for(fits, ax):
    result = fits("open")
    plots.curve(result, ax=ax)
    np.testing.assert_allclose(ax.get_lines()[0].get_ydata(), result.stability)


def test_curve_of_links_is_the_score_of_every_number(fits, ax):
    result = fits("links")
    plots.curve(result, ax=ax)
    np.testing.assert_allclose(ax.get_lines()[0].get_ydata(), result.curve.lsmi_of_limit)


def test_a_method_that_compares_no_numbers_has_no_curve(fits, ax):
    with pytest.raises(AbsentResultError, match="curve: a fit by method 'rim' compares no numbers of clusters"):
        plots.curve(fits("rim"), ax=ax)


def test_labelings_of_the_result_come_first(fits, ax):
    result = fits("smic")
    plots.labelings(result, ax=ax)
    order = named(ax.xaxis)
    chosen = result.scores.chosen
    assert chosen[order].tolist() == sorted(chosen, reverse=True)
    labels = result.labelings()[order]
    ari = [[adjusted_rand_score(one, other) for one in labels] for other in labels]
    np.testing.assert_allclose(image(ax), ari, atol=1e-9)


# -- time


def test_shares_over_time_are_those_of_the_rows():
    labels = np.array([0, 0, 1, -1, 1, 0, 1, 1])
    edges, shares = shares_over(np.arange(8), labels, 2, 2)
    np.testing.assert_allclose(edges, [0, 3.5, 7])
    np.testing.assert_allclose(shares, [[0.5, 0.25], [0.25, 0.75], [0.25, 0]])
    times = np.array("2026-01-01", "M8[s]") + np.arange(8).astype("m8[s]")
    edges, of_times = shares_over(times, labels, 2, 2)
    np.testing.assert_array_equal(of_times, shares)
    assert edges[-1] == times[-1]
    assert np.isnan(shares_over(np.array([0, 0, 9]), np.zeros(3, int), 1, 3)[1][0, 1])


def test_dates_may_be_further_apart_than_their_unit_can_count():
    """Dates that mean "never" often are the first or last of nanoseconds."""
    times = np.repeat(np.array(["1700-01-01", "2200-01-01"], "M8[ns]"), 4)
    edges, shares = shares_over(times, np.repeat([0, 1], 4), 2, 5)
    assert (np.diff(edges).astype(np.int64) > 0).all()
    assert edges[0] <= times[0]
    assert (shares[0, 0], shares[1, -1]) == (1, 1)
    assert np.isnan(shares[:, 1:-1]).all()


@pytest.mark.parametrize("unit", ["M8[D]", "M8[h]", "int64", "uint8"])
def test_times_in_whole_units_have_no_stretches_between_two(unit):
    """Thirty days, in a hundred stretches: a stretch is a day, and none is without rows."""
    times = np.repeat(np.arange(30), 2).astype(unit)
    edges, shares = shares_over(times, np.tile([0, 1], 30), 2, 100)
    assert (np.diff(edges).astype(int) == 1).all()
    np.testing.assert_array_equal(shares, np.repeat([[0.5], [0.5], [0]], 30, axis=1))


@pytest.mark.parametrize(
    "times",
    [
        np.full(700, 3),
        np.full(700, 0.5),
        np.full(700, np.datetime64("2026-01-01")),
        np.full(700, np.datetime64("2026-01-01", "ns")),
        np.full(700, 1e17),
        np.full(700, 1e9, np.float32),
        np.full(700, 2**63 - 1),
        np.full(700, 2**63, np.uint64),
    ],
)
def test_rows_of_one_time_have_one_stretch(fits, ax, times):
    plots.timeline(fits("smic"), times, ax=ax)
    ax.figure.savefig("/dev/null", format="svg")
    first, last = ax.get_xlim()
    assert first < last


@pytest.mark.parametrize(("largest", "dtype"), [(1e300, np.float64), (3e38, np.float32), (6e4, np.float16)])
def test_times_may_be_nearly_as_large_as_their_numbers(fits, ax, largest, dtype):
    plots.timeline(fits("smic"), np.linspace(-largest, largest, 700).astype(dtype), ax=ax)
    ax.figure.savefig("/dev/null", format="svg")
    np.testing.assert_allclose(ax.get_xlim(), [-largest, largest], rtol=1e-2)
    with pytest.raises(
        InputError, match=r"times: row 699 has 1e\+308; give numbers up to 1e\+300, or in a larger unit"
    ):
        plots.timeline(fits("smic"), np.append(np.zeros(699), 1e308), ax=ax)


@pytest.mark.parametrize(("n_bins", "message"), [(0, "use at least 1"), (10**9, "use at most 10,000, or draw a part")])
def test_a_timeline_of_no_bins_or_too_many_is_refused(fits, ax, n_bins, message):
    with pytest.raises(InputError, match=f"n_bins: got {n_bins}; {message}"):
        plots.timeline(fits("smic"), n_bins=n_bins, ax=ax)
    plots.timeline(fits("smic"), n_bins=10_000, ax=ax)


def test_areas_end_at_one_where_all_rows_are_in_clusters(fits, ax):
    result = fits("smic")
    plots.timeline(result, n_bins=7, ax=ax)
    assert len(ax.collections) == 4
    top = ax.collections[-1].get_paths()[0].vertices[:, 1]
    assert top.max() == pytest.approx(1)
    first = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert first.max() == pytest.approx(shares_over(np.arange(700), result.labels, 4, 7)[1][0].max())


def test_rows_in_no_cluster_have_an_area(fits, ax):
    plots.timeline(fits("noise"), ax=ax)
    assert len(ax.collections) == 5


@pytest.mark.parametrize(
    ("times", "why"),
    [
        (np.arange(3), r"shape \(3,\); give a number or a time for each of 700 rows"),
        (pd.date_range("2026-01-01", periods=700, tz="Europe/Berlin"), r"DatetimeIndex\(times\)\.tz_localize\(None\)$"),
        (np.full(700, "2026-01-01"), r"such as pandas\.DatetimeIndex\(times\)\.tz_localize\(None\)$"),
        (np.arange(700).astype("m8[ms]"), r"such as seconds: times / numpy\.timedelta64\(1, 's'\)$"),
        (np.where(np.arange(700) == 9, np.nan, 1.0), "row 9 has no time"),
        (np.where(np.arange(700) == 8, np.datetime64("nat", "D"), np.datetime64("2026-01-01")), "row 8 has no time"),
    ],
)
def test_times_that_are_none_are_refused(fits, ax, times, why):
    with pytest.raises(InputError, match=f"times: .*{why}"):
        plots.timeline(fits("smic"), times, ax=ax)


# -- columns


def means_of(X, labels):
    return np.array([X[labels == k].mean(axis=0, dtype=float) for k in range(4)])


def test_ordered_columns_are_lines_of_means(fits, rows, ax):
    result = fits("waves")
    plots.profiles(result, rows["waves"], ax=ax)
    mean = means_of(rows["waves"], result.labels)
    lines = np.array([line.get_ydata() for line in ax.get_lines()])
    height = np.ptp(mean[0]) / np.ptp(lines[0])
    for k in range(4):
        np.testing.assert_allclose((lines[k] - lines[k, 0]) * height, mean[k] - mean[k, 0], atol=1e-3)
    assert [line.get_label() for line in ax.get_lines()] == ["0", "1", "2", "3"]
    assert len(ax.collections) == 4  # bands of the spread


def test_lines_are_interrupted_between_channels(fits, rows, ax):
    plots.profiles(fits("waves"), rows["waves"], columns_per_channel=10, clusters=[2], ax=ax)
    (line,) = (line for line in ax.get_lines() if line.get_label() == "2")
    assert np.flatnonzero(np.isnan(line.get_ydata())).tolist() == [10, 21]


def test_other_columns_are_bars_with_names(fits, rows, ax):
    result = fits("smic")
    names = [f"<b>{name}</b>" for name in "abcde"]
    plots.profiles(result, rows["blobs"], names=names, clusters=[1, 3], ax=ax)
    assert [label.get_text() for label in ax.get_xticklabels()] == names
    mean = means_of(rows["blobs"], result.labels)
    heights = np.array([bar.get_height() for bar in ax.patches]).reshape(2, 5)
    assert np.sign(heights).tolist() == np.sign(mean - mean.mean(axis=0))[[1, 3]].tolist()


def test_lines_over_the_bars_span_the_spread_in_their_unit(fits, rows, ax):
    result = fits("smic")
    table = result.profiles(rows["blobs"])
    plots.profiles(result, table, names=list("abcde"), ax=ax)
    heights = np.array([bar.get_height() for bar in ax.patches]).reshape(4, 5)
    spans = np.array([np.ptp(line[:, 1]) for lines in ax.collections for line in lines.get_segments()]).reshape(4, 5)
    units = (table.mean - table.mean.mean(axis=0)) / heights
    np.testing.assert_allclose(spans * units, 2 * table.spread, rtol=1e-3)


def test_the_largest_of_many_clusters_are_drawn(fits, rows, ax, monkeypatch):
    monkeypatch.setattr("bigsmic.plots.columns.MOST_CLUSTERS", 1)
    X = np.concatenate([rows["blobs"], rows["blobs"][fits("smic").labels == 2] + 0.01])
    result = bigsmic.fit(X, 4, **BRIEF)
    assert result.sizes.min() < result.sizes.max()
    plots.profiles(result, X, ax=ax)
    (drawn,) = (int(label.get_text()) for label in ax.get_yticklabels())
    assert result.sizes[drawn] == result.sizes.max()


def test_long_names_of_columns_leave_room_for_the_bars(fits, rows):
    ax = Figure(layout="constrained").add_subplot()
    names = [f"mean acceleration along the axis of the shaft of machine {name}" for name in "abcde"]
    plots.profiles(fits("smic"), rows["blobs"], names=names, ax=ax)
    ax.figure.savefig("/dev/null", format="svg")
    assert ax.get_position().height > 0.3
    shown = [label.get_text() for label in ax.get_xticklabels()]
    assert all(
        name.startswith("mean accel") and name.endswith(f"achine {of}") for name, of in zip(shown, "abcde", strict=True)
    )


def test_a_table_that_is_there_is_drawn_without_another_pass(fits, rows, ax):
    result = fits("smic")
    table = result.profiles(rows["blobs"])
    np.testing.assert_allclose(table.mean, means_of(rows["blobs"], result.labels), rtol=1e-5)
    plots.profiles(result, table, ax=ax)
    assert len(ax.patches) == 20


def test_a_table_of_another_number_of_clusters_is_refused(fits, rows, ax):
    table = fits("smic").profiles(rows["blobs"])
    for result in (fits("smic").cut(3), fits("single")):
        with pytest.raises(
            InputError, match=r"data: got a table of 4 clusters, but .* has \d; .* profiles\(data\) of this"
        ):
            plots.profiles(result, table, ax=ax)


def test_strongest_columns_of_many_are_bars():
    X = np.random.default_rng(0).normal(size=(400, 300))
    X[:200, 70:80] += 9
    ax = plots.profiles(bigsmic.fit(X, 2, **BRIEF), X, ax=Figure().add_subplot())
    shown = [label.get_text() for label in ax.get_xticklabels()]
    assert {str(column) for column in range(70, 80)} <= set(shown)
    assert len(shown) == 24


def test_other_rows_than_those_of_the_fit_are_refused(fits, rows, ax):
    result = fits("smic")
    with pytest.raises(RunMismatchError, match="profiles: array has 699 rows where the run has 700; give the archive"):
        plots.profiles(result, rows["blobs"][1:], ax=ax)
    with pytest.raises(RunMismatchError, match="are not those with which"):
        plots.profiles(result, rows["blobs"] + 1, ax=ax)


def test_of_an_archive_the_rows_that_were_fitted_are_read(rows):
    X = rows["blobs"]
    result = bigsmic.fit(X, 4, rows=slice(100, 600), **BRIEF)
    np.testing.assert_allclose(result.profiles(X).mean, means_of(X[100:600], result.labels), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"names": ["a"]}, "names: got 1 names for 5 columns"),
        ({"clusters": [4]}, "clusters: got .* give some of 0 to 3"),
        ({"clusters": []}, "clusters: got .* give some of 0 to 3"),
        ({"clusters": [[1], [2, 3]]}, "clusters: got .* give some of 0 to 3"),
        ({"names": 5}, "names: got 5; give a list of names, one for each of 5 columns"),
        ({"names": "abcde"}, "names: got 'abcde'; give a list of names, one for each of 5 columns"),
        ({"columns_per_channel": 0}, "columns_per_channel: got 0; use at least 1"),
    ],
)
def test_what_cannot_be_drawn_is_refused_before_rows_are_read(fits, ax, options, why):
    with pytest.raises(InputError, match=why):
        plots.profiles(fits("smic"), "nowhere.zarr", ax=ax, **options)


# -- what is not there


@pytest.mark.parametrize("name", ["sizes", "agreement", "relations", "tree", "labelings", "timeline"])
def test_a_fit_without_labels_is_refused_with_what_to_do(fits, ax, name):
    with pytest.raises(InputError, match=r"cut\(c\) gives"):
        getattr(plots, name)(fits("open"), ax=ax)


@pytest.mark.parametrize("kind", [pd.PeriodIndex, pd.Series, list])
def test_periods_count_from_their_start(fits, ax, kind):
    months = pd.period_range("1970-01", periods=700, freq="M")
    plots.timeline(fits("smic"), kind(months), ax=ax)
    assert ax.get_xlim() == tuple(mpl.dates.date2num(np.array(["1970-01-01", "2028-04-01"], "M8[ns]")))


def test_periods_of_several_lengths_and_none_are_refused(fits):
    months = list(pd.period_range("2026-01", periods=699, freq="M"))
    for other, why in ((pd.Period("2026-01-01", "D"), "got object of shape"), (pd.NaT, "row 699 has no time")):
        with pytest.raises(InputError, match=f"times: {why}"):
            plots.timeline(fits("smic"), [*months, other])


@pytest.mark.parametrize("name", [*DRAWN, "profiles"])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (3, "ax: got 3; give axes of matplotlib, such as "),
        (Figure(), "give axes of matplotlib, such as "),
        (Figure().subplots(1, 2), r"give one of them, such as axes\[0\], or"),
    ],
)
def test_what_is_no_axes_is_refused(fits, rows, name, wrong, message):
    with pytest.raises(InputError, match=message):
        getattr(plots, name)(fits("smic"), *[rows["blobs"]] * (name == "profiles"), ax=wrong)


def test_a_missing_matplotlib_is_named(fits, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(InputError, match=r"matplotlib.* is not installed; pip install 'bigsmic\[plots\]'"):
        plots.sizes(fits("smic"))
