"""A report says what is in the run, is valid HTML that loads nothing, and is written only where it may be."""

import pickle
import re
import shlex
import shutil
import subprocess
import sys
import tracemalloc
from collections import Counter
from itertools import product

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import zarr
from matplotlib.figure import Figure as Canvas
from pages import Page
from scipy.sparse import csr_array
from small_fits import BRIEF, cut_small
from small_rows import ring
from typer.testing import CliRunner

import bigsmic
from bigsmic.cli.main import app
from bigsmic.errors import BigsmicWarning, InputError, OptionError, RunError, RunMismatchError
from bigsmic.features import windows
from bigsmic.methods import mspc
from bigsmic.report import Figure, Section, figures, rendering
from bigsmic.runtime.context import Context
from bigsmic.store import CheckedArray, Run

ONE_OF_EACH = {
    "smic": (4, BRIEF),
    "noise": (4, BRIEF | {"noise": True}),
    "open": (None, BRIEF),
    "one": (1, {}),
    "rim": (4, {"method": "rim"}),
    "kernel_rim": (4, {"method": "kernel_rim", "n_components": 30}),
    "mic": (4, {"method": "mic", "t": (5,), "n_centers": 40}),
    "mspc": (4, {"method": "mspc"}),
    "mwca": (4, {"method": "mwca", "n_starts": 2}),
    "3smic": (
        4,
        {"t": (3, 5), "n_centers": 40, "method": "3smic", "must_links": [[0, 1], [2, 3]], "cannot_links": [[0, 4]]},
    ),
}
OWN_PAGES = {
    "smic": "eigenvalues", "noise": "eigenvalues", "open": "eigenvalues", "rim": "path", "kernel_rim": "features",
    "mic": "ascents", "mspc": "splits", "mwca": "memberships", "3smic": "links",
}  # fmt: skip


@pytest.fixture(scope="module")
def results(blobs, tmp_path_factory):
    """Results by name, each fitted when it is first asked for."""
    folder, found = tmp_path_factory.mktemp("runs"), {}

    def result(name):
        if name not in found:
            c, options = ONE_OF_EACH[name]
            found[name] = bigsmic.fit(blobs[0], c, out=folder / name, **options)
        return found[name]

    return result


@pytest.fixture(scope="module")
def plain_pages(results, tmp_path_factory):
    """Reports without a map and with nothing else asked for, each made when it is first read."""
    folder, found = tmp_path_factory.mktemp("pages"), {}

    def plain_page(name):
        if name not in found:
            results(name).report(folder / f"{name}.html", map_rows=0)
            found[name] = Page(folder / f"{name}.html")
        return found[name]

    return plain_page


@pytest.fixture
def page(results, plain_pages, tmp_path):
    def made(name, **options):
        if not options:
            return plain_pages(name)
        results(name).report(tmp_path / f"{name}.html", **{"map_rows": 0, **options})
        return Page(tmp_path / f"{name}.html")

    return made


def blank(figure, prefix):
    """Leave a figure out: most of the time of a report, where only its text is looked at."""
    return "<svg></svg>"


def unsaved(figure, prefix):
    """Draw a figure into axes, with all that it reads, but make no markup of them."""
    figure.draw(ax=Canvas(figsize=figure.size).add_subplot())
    return "<svg></svg>"


@pytest.fixture
def undrawn(monkeypatch):
    monkeypatch.setattr(rendering, "inline_svg", blank)


# -- what is there


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_every_method_has_a_valid_page_that_loads_nothing(page, name):
    found = page(name)
    assert found.errors == []
    assert found.repeated_ids == []
    assert found.loads == []
    assert found.sections[:2] == ["run", "trust"]
    assert found.sections[-1] == "costs"


@pytest.mark.parametrize("name", OWN_PAGES)
def test_every_method_adds_a_page_of_its_own(page, name):
    assert OWN_PAGES[name] in page(name).sections


def test_what_ran(results, page):
    result, text = results("smic"), page("smic").text("run")
    assert result.location in text
    assert "700 rows of 5 columns" in text
    assert "t = [3, 5]" in text
    assert "n_centers = 40" in text
    assert "n_neighbors" not in text  # as by default
    assert f"bigsmic {bigsmic.__version__}" in text
    assert f"numpy {np.__version__}" in text


@pytest.mark.parametrize(
    ("scale", "said"),
    [
        ("standard", "divided by their standard deviation"),
        ("mixed", "divided by their standard deviation, 1 in which one value prevails by the distance of the others"),
        ("variance", "divided by their variance"),
        ("range", "divided by half of their range"),
        (None, "taken as they are"),
    ],
)
def test_a_given_scale_is_said_as_what_it_does(blobs, undrawn, tmp_path, scale, said):
    rows = np.column_stack([blobs[0], np.arange(len(blobs[0])) % 4 == 0])
    bigsmic.fit(rows, 2, method="mspc", scale=scale).report(tmp_path / "page.html", map_rows=0)
    assert f"Columns {said}" in Page(tmp_path / "page.html").text("run")


def test_clusters_are_those_of_the_result(results, page):
    result = results("smic")
    rows, examples = page("smic").tables("clusters")
    assert [int(row["Rows"].replace(",", "")) for row in rows] == np.bincount(result.labels).tolist()
    means = [result.agreement[result.labels == k].mean() for k in range(4)]
    assert [float(row["Agreement"]) for row in rows] == pytest.approx(means, abs=1e-3)
    for k, row in enumerate(examples):
        typical, doubtful = (
            [int(number) for number in re.findall(r"\d+", row[name])]
            for name in ("Most typical rows", "Least certain rows")
        )
        assert (result.labels[typical + doubtful] == k).all()
        certainty = (result.agreement + np.asarray(result.posterior)[np.arange(700), result.labels]) / 2
        own = np.sort(certainty[result.labels == k])
        assert np.sort(certainty[doubtful]) == pytest.approx(own[:3])
        assert np.sort(certainty[typical]) == pytest.approx(own[-3:])


def test_labelings_and_costs_are_those_of_the_diagnostics(results, page):
    found, diagnostics = page("smic"), results("smic").diagnostics
    (labelings,) = found.tables("labelings")
    assert len(labelings) == len(diagnostics["candidates"])
    assert sum(row["Taken"] == "yes" for row in labelings) == sum(row["chosen"] for row in diagnostics["candidates"])
    for row in labelings:
        candidate = diagnostics["candidates"][int(row["Labeling"])]  # as the figure and Result.scores number them
        assert float(row["Median ARI"]) == pytest.approx(candidate["median_ari"], abs=1e-3)
        assert (row["Taken"] == "yes") == candidate["chosen"]
    (costs,) = found.tables("costs")
    assert [row["Stage"] for row in costs] == list(diagnostics["stages"])


def test_violated_links_are_those_of_the_result(results, page):
    result = results("3smic")
    shown = [row for table in page("3smic").tables("links") for row in table]
    assert len(shown) == result.n_violated
    known = {tuple(pair) for name in ("must_links", "cannot_links") for pair in result.violated[name].tolist()}
    assert {(int(row["Row"]), int(row["Other row"])) for row in shown} == known


def test_splits_of_mspc(results, page):
    (splits,) = page("mspc").tables("splits")
    assert [float(row["MSP"]) for row in splits] == pytest.approx(results("mspc").msp, abs=1e-3)


def test_path_of_rim(results, page):
    (points,) = page("rim").tables("path")
    assert len(points) == len(results("rim").diagnostics["path"])
    regs = [float(row["reg"]) for row in points]
    assert regs == sorted(regs)


# -- figures


def test_figures_of_every_section(page, archive):
    found = page("smic", archive=archive, times=np.arange(700) / 60)
    assert found.errors == []
    assert found.repeated_ids == []
    assert found.loads == []
    assert found.figures("clusters") == ["Rows of 4 clusters, as bars", "How sure 4 clusters are, as bars"]
    assert found.figures("columns") == ["Mean and spread of the columns in 4 clusters"]
    assert found.figures("relations") == ["Merge tree of 4 clusters", "Density ratios between 4 clusters, as an image"]
    assert found.figures("number") == ["Curve over the number of clusters"]
    assert len(found.figures("labelings")) == 1
    assert found.figures("timeline") == ["Shares of the clusters over time"]
    assert "map" not in found.sections


@pytest.mark.parametrize("name", ["smic", "rim", "mspc"])
def test_maps(page, name):
    color = "agreement" if name == "smic" else "posterior"
    found = page(name, map_rows=300)
    assert found.figures("map") == [
        "Map of 300 of 700 rows, drawn by hash, coloured by cluster",
        f"The same map, coloured by {color}",
    ]
    assert found.loads == []


@pytest.mark.usefixtures("undrawn")
def test_columns_are_lines_where_they_are_ordered_and_bars_where_they_are_not(page, archive):
    assert "Bars are the columns that tell" in page("smic", archive=archive).text("columns")
    assert "Lines are means" in page("smic", archive=archive, columns_per_channel=5).text("columns")


def test_where_there_is_nothing_to_lay_out_it_is_said(page):
    assert page("one", map_rows=300).sections[2] == "map"


def test_two_hundred_clusters_take_at_most_three_megabytes(tmp_path):
    X = np.random.default_rng(0).normal(size=(200, 152)).cumsum(axis=1).astype(np.float32)
    X = np.repeat(X, 20, axis=0)  # which are their own clusters, found in no time
    result = bigsmic.fit(X, 200, out=tmp_path / "run")
    result.report(tmp_path / "report.html", archive=X, times=np.arange(4000), map_rows=0)
    page = Page(tmp_path / "report.html")
    assert page.errors == []
    assert len(page.tables("clusters")[0]) == 200
    assert len(page.figures("columns")) == 5
    assert len(page.html) < rendering.MOST_BYTES - 2 * figures.MOST_IMAGE_BYTES  # which the maps take at most


def test_what_a_method_adds_is_left_out_where_the_page_would_be_too_large(blobs, monkeypatch, tmp_path):
    figure = Figure(lambda ax: ax.plot(np.random.default_rng(0).normal(size=8000)), "a <b>line</b>")
    monkeypatch.setattr(mspc, "pages", lambda result: [Section("own", "Own", [figure] * 30)])
    bigsmic.fit(blobs[0], 3, method="mspc").report(tmp_path / "report.html", map_rows=0)
    page = Page(tmp_path / "report.html")
    assert page.errors == []
    assert len(page.html) < rendering.MOST_BYTES
    shown = len(page.figures("own"))
    assert 5 < shown < 30
    assert page.text("own").count("too large: a <b>line</b>.") == 30 - shown


def test_very_many_columns_are_drawn_in_part(tmp_path):
    X = np.random.default_rng(0).normal(size=(24, 40_000)).astype(np.float32)
    X[:12, 5000:5100] += 60
    with pytest.warns(BigsmicWarning, match="if these are 40000 rows of 24 columns"):
        result = bigsmic.fit(X, 2, out=tmp_path / "run", valleys=False, t=(3,), n_centers=10, widths=(1.5,))
    tracemalloc.start()
    result.report(tmp_path / "report.html", archive=X, map_rows=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    page = Page(tmp_path / "report.html")
    assert page.errors == []
    assert len(page.html) < 300_000
    _, rows = page.tables("clusters")
    assert all(5000 <= int(row["Told apart by"].split()[0]) < 5100 for row in rows)
    assert peak < 64 << 20  # of which half is that of figures


@pytest.mark.slow
def test_a_million_columns(tmp_path):
    """Of which few tell the clusters apart; the map says why there is none."""
    n, d, block = 24, 1_000_000, 8
    rows = zarr.create_array(str(tmp_path / "wide.zarr"), shape=(n, d), chunks=(block, d // 4), dtype="float32")
    for lo in range(0, n, block):
        X = np.random.default_rng(lo).normal(size=(block, d)).astype(np.float32)
        X[::2, 500_000:500_400] += 30
        rows[lo : lo + block] = X
    with pytest.warns(BigsmicWarning, match="if these are 1000000 rows of 24 columns"):
        result = bigsmic.fit(rows, 2, method="mspc", scale=None, out=tmp_path / "run")
    assert len(set(result.labels[::2])) == len(set(result.labels[1::2])) == 1
    tracemalloc.start()
    result.report(tmp_path / "report.html", archive=rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    page = Page(tmp_path / "report.html")
    assert page.errors == []
    assert "so large that the scan of the fit kept none to lay out" in page.text("map")
    _, told = page.tables("clusters")
    assert all(500_000 <= int(row["Told apart by"].split()[0]) < 500_400 for row in told)
    assert len(page.html) < 500_000
    assert peak < 10 * 4 * n * d  # a block, here all of it, is taken to float64, and squared


# -- what is not there


@pytest.mark.usefixtures("undrawn")
def test_a_run_without_labels_says_what_to_type(tmp_path):
    noise = np.random.default_rng(0).normal(size=(600, 3)).astype(np.float32)
    result = bigsmic.fit(noise, out=tmp_path / "run", **BRIEF)
    assert result.settings.undecided
    result.report(tmp_path / "open.html", map_rows=0)
    page = Page(tmp_path / "open.html")
    assert page.errors == []
    assert "clusters" not in page.sections
    assert "There are no labels" in page.findings("warning")[0]
    command = f"bigsmic cut {shlex.quote(result.location)} -c {result.valleys.best} --out OTHER_RUN"
    assert command in page.text("trust")
    assert command in page.text("number")
    (curve,) = page.tables("number")
    assert [int(row["Clusters"]) for row in curve] == result.valleys.curve["n_clusters"].tolist()


@pytest.mark.usefixtures("undrawn")
def test_a_graph_has_no_archive(tmp_path):
    points = ring()[0]
    squares = np.square(points[:, None] - points[None]).sum(axis=2)
    result = bigsmic.fit(csr_array(np.exp(-squares)), 2, kernel="precomputed", out=tmp_path / "run", t=(3, 5))
    result.report(tmp_path / "graph.html", map_rows=0)
    assert Page(tmp_path / "graph.html").errors == []
    with pytest.raises(InputError, match="the run is of a graph, which has no columns"):
        result.report(tmp_path / "graph.html", archive=points)


def test_an_unfinished_run_is_refused_with_what_to_do(results, tmp_path):
    run = Run(results("one").save(tmp_path / "run").location)
    run.update({"summary": None})
    run.close()
    done = CliRunner().invoke(app, ["report", str(tmp_path / "run"), "-o", str(tmp_path / "report.html")])
    assert done.exit_code == 5
    assert "is not finished; run the same fit again to resume it" in done.stderr
    assert not (tmp_path / "report.html").exists()


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("lost", ["posterior", "posterior/zarr.json", "posterior/c", "labels"])
def test_a_run_without_a_posterior_or_labels_is_refused_with_what_to_do(results, blobs, tmp_path, lost):
    """The earlier report stays as it was, and what is said to be done helps."""
    run, place = tmp_path / "run", tmp_path / "report.html"
    results("mspc").save(run).report(place, map_rows=0)
    before = place.read_bytes()
    shutil.rmtree(run / lost) if (run / lost).is_dir() else (run / lost).unlink()
    done = CliRunner().invoke(app, ["report", str(run), "-o", str(place), "--map-rows", "0"])
    assert done.exit_code == 5
    assert re.search(rf"{lost[:9]}.*; run fit on it again, which makes it anew\n$", done.stderr)
    assert place.read_bytes() == before
    c, options = ONE_OF_EACH["mspc"]
    bigsmic.fit(blobs[0], c, out=run, **options).report(place, map_rows=0)
    assert Page(place).errors == []


def test_a_pickle_is_no_whole_run(blobs, tmp_path):
    loaded = pickle.loads(pickle.dumps(bigsmic.fit(blobs[0], 4, method="mspc")))
    with pytest.raises(RunError, match=r"is missing from the pickled part of .*: .* result\.save\(path\)"):
        loaded.report(tmp_path / "report.html", map_rows=0)
    assert not (tmp_path / "report.html").exists()


def test_without_the_extra_the_remedy_is_said(results, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(InputError, match=r"jinja2 is not installed; pip install 'bigsmic\[report\]'"):
        results("one").report(tmp_path / "report.html")


# -- the archive


@pytest.mark.usefixtures("undrawn")
def test_columns_that_tell_clusters_apart(blobs, results, archive, page):
    names = ["a", "b", "c", "d", "e"]
    _, rows = page("smic", archive=archive, column_names=names).tables("clusters")
    X, labels = blobs[0].astype(np.float64), results("smic").labels
    for k, row in enumerate(rows):
        own, rest = X[labels == k], X[labels != k]
        effect = (own.mean(axis=0) - rest.mean(axis=0)) / np.sqrt((own.var(axis=0) + rest.var(axis=0)) / 2)
        first = np.abs(effect).argmax()
        assert row["Told apart by"].startswith(f"{names[first]} ({effect[first]:+.1f})")


@pytest.fixture(scope="module")
def of_blocks(archive, tmp_path_factory):
    """A run of many blocks, which is made of the archive."""
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        return bigsmic.fit(archive, 4, noise=True, out=tmp_path_factory.mktemp("blocks") / "run", **BRIEF)


@pytest.mark.usefixtures("undrawn")
def test_columns_of_channels_are_named_by_them(blobs, results, archive, page):
    """One of each channel, as samples beside each other say the same."""
    found = page("smic", archive=archive, columns_per_channel=2)
    assert "2:10 is column 10 of channel 2" in found.text("clusters")
    _, rows = found.tables("clusters")
    table = results("smic").profiles(archive)
    for k, row in enumerate(rows):
        told = re.findall(r"(\d):(\d) \(([-+][\d.]+)\)", row["Told apart by"])
        assert sorted(channel for channel, _, _ in told) == ["0", "1", "2"]
        for channel, column, effect in told:
            own = table.effects[k, 2 * int(channel) : 2 * int(channel) + 2]
            assert np.abs(own).argmax() == int(column)
            assert float(effect) == pytest.approx(own[int(column)], abs=0.051)


@pytest.mark.usefixtures("undrawn")
def test_a_column_that_is_constant_in_a_cluster_and_elsewhere_comes_first(tmp_path):
    X = np.repeat([[0, 0, 0], [20, 0, 1], [0, 20, 0]], 60, axis=0).astype(np.float32)
    X[:, :2] += np.random.default_rng(0).normal(0, 0.5, (180, 2))
    result = bigsmic.fit(X, 3, out=tmp_path / "run", **BRIEF)
    result.report(tmp_path / "report.html", archive=X, map_rows=0)
    _, rows = Page(tmp_path / "report.html").tables("clusters")
    assert rows[result.labels[60]]["Told apart by"].startswith("2 (+∞)")


def test_run_and_archive_are_read_once(of_blocks, results, archive, tmp_path, monkeypatch):
    """Whatever pages make of them."""
    reads: Counter = Counter()
    read, read_input = CheckedArray._read, Context.input_block

    def counted(array, first, last):
        reads.update((array._name, s) for s in range(first, last))
        return read(array, first, last)

    def counted_input(context, s):
        reads["archive", s] += 1
        return read_input(context, s)

    monkeypatch.setattr(CheckedArray, "_read", counted)
    monkeypatch.setattr(Context, "input_block", counted_input)
    monkeypatch.setattr(rendering, "inline_svg", unsaved)
    result = bigsmic.Result.open(of_blocks.location)
    result.report(tmp_path / "report.html", archive=archive, map_rows=100, times=np.arange(700))
    blocks = result._context.source_blocks
    assert len(blocks) > 2
    assert reads == dict.fromkeys(product(("archive", "labels", "posterior", "agreement"), blocks), 1)
    of_mwca = results("mwca").location
    reads.clear()
    bigsmic.Result.open(of_mwca).report(tmp_path / "mwca.html", map_rows=100)
    assert reads == {("labels", 0): 1, ("posterior", 0): 1}


@pytest.mark.usefixtures("undrawn")
def test_an_archive_is_compared_every_time(results, blobs, tmp_path):
    """Although what is known of the run is kept with the result."""
    result, place = bigsmic.Result.open(results("smic").location), tmp_path / "report.html"
    result.report(place, archive=blobs[0], map_rows=0)
    with pytest.raises(RunMismatchError, match="are not those with which"):
        result.report(place, archive=blobs[0] + 1, map_rows=0)


def test_another_archive_is_refused(results, archive, blobs, tmp_path):
    place = tmp_path / "report.html"
    with pytest.raises(RunMismatchError, match="699 rows where the run has 700; give the archive of the fit"):
        results("smic").report(place, archive=blobs[0][:-1])
    changed = blobs[0].copy()
    changed[650, 2] += 1
    with pytest.raises(RunMismatchError, match=r"input: rows \d+:700 are not those with which .* was started; restore"):
        results("smic").report(place, archive=changed)
    assert not place.exists()


def test_names_are_one_for_each_column(results, archive, tmp_path):
    place = tmp_path / "report.html"
    for names in ([["a"], ["b", "c"]], [["a"] * 5], "abcde"):
        with pytest.raises(InputError, match=r"column_names: got .*; give a list of names, one for each column"):
            results("smic").report(place, archive=archive, column_names=names)
    with pytest.raises(InputError, match="got 2 names for 5 columns; give one for each column"):
        results("smic").report(place, archive=archive, column_names=["a", "b"])
    with pytest.raises(InputError, match="column_names: got 'abcde'; give a list of names"):
        results("smic").report(place, archive=archive, column_names="abcde")
    with pytest.raises(OptionError, match="report: got unexpected option color="):
        results("smic").report(place, archive=archive, color="red")


# -- text is text


def test_names_with_html_are_escaped(blobs, tmp_path):
    X = blobs[0].copy()
    X[:, [2, 4]] = 1
    result = bigsmic.fit(X, 3, out=tmp_path / "<b>run & co & co", **BRIEF)
    evil = "<script>a()</script>"
    result.report(tmp_path / "report.html", archive=X, column_names=["a", "b", evil, "'\"", "&amp;"], map_rows=0)
    page = Page(tmp_path / "report.html")
    assert page.errors == []
    assert page.loads == []
    assert evil in page.text("trust")  # as text: the column is constant
    assert "<b>run & co" in page.text("run")
    assert "&amp;" in page.text("trust")


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("lazy", [False, True])
def test_frames_name_their_columns(blobs, results, tmp_path, lazy):
    frame = pd.DataFrame(blobs[0], columns=list("vwxyz"))
    frame = dd.from_pandas(frame, npartitions=3) if lazy else frame
    results("smic").report(tmp_path / "report.html", archive=frame, map_rows=0)
    _, rows = Page(tmp_path / "report.html").tables("clusters")
    assert all(row["Told apart by"][0] in "vwxyz" for row in rows)


@pytest.mark.usefixtures("undrawn")
def test_windows_name_their_features(tmp_path):
    X = np.random.default_rng(0).normal(size=(12_000, 2)) * np.where(np.arange(12_000) // 3000 % 2, 1, 3)[:, None]
    zarr.create_array(str(tmp_path / "recording.zarr"), data=X.astype(np.float32), chunks=(3000, 2))
    windows(tmp_path / "recording.zarr", 100, out=tmp_path / "windows.zarr", rate=100.0, channels=("left", "right"))
    result = bigsmic.fit(tmp_path / "windows.zarr", 2, out=tmp_path / "run", **BRIEF)
    result.report(tmp_path / "report.html", archive=tmp_path / "windows.zarr", map_rows=0)
    _, rows = Page(tmp_path / "report.html").tables("clusters")
    assert all(re.match(r"(left|right)\.\w+", row["Told apart by"]) for row in rows)


def test_names_of_the_archive_are_escaped(blobs, tmp_path):
    names = ["<script>a()</script>", "</style>", "b", "c", "d"]
    attributes = {"_ARRAY_DIMENSIONS": ["row", "column"]}
    group = zarr.open_group(str(tmp_path / "rows.zarr"), mode="w", zarr_format=2)
    group.create_array("X", data=blobs[0], chunks=(200, 5), attributes=attributes)
    group.create_array("column", data=np.array(names))
    result = bigsmic.fit(tmp_path / "rows.zarr", 3, component="X", out=tmp_path / "run", **BRIEF)
    result.report(tmp_path / "report.html", archive=tmp_path / "rows.zarr", component="X", map_rows=0)
    page = Page(tmp_path / "report.html")
    assert page.errors == []
    assert page.loads == []
    told = " ".join(row["Told apart by"] for row in page.tables("clusters")[1])
    assert "</style> (" in told


@pytest.mark.filterwarnings("ignore:c .n_clusters.. got 3, but the data show")  # as the clusters touch
def test_names_and_numbers_of_clusters(blobs, archive, tmp_path, monkeypatch):
    evil = "<script>alert(1)</script>"
    before = bigsmic.fit(blobs[0], 4, out=tmp_path / "before", **BRIEF).set_names({1: evil})
    later = bigsmic.fit(blobs[0][blobs[1] != 1], 3, like=before, out=tmp_path / "later", **BRIEF)
    later.report(tmp_path / "report.html", archive=blobs[0][blobs[1] != 1], map_rows=0)
    page = Page(tmp_path / "report.html")
    assert page.errors == []
    assert page.loads == []
    rows, _ = page.tables("clusters")
    assert [int(row["Cluster"]) for row in rows] == later.numbers.tolist()
    assert sum(int(row["Rows"]) for row in rows) == len(later.labels)
    assert later.matched.sentence in page.text("continuity")
    assert not any("no rows" in text for text in page.findings("warning"))
    monkeypatch.setattr(rendering, "inline_svg", blank)
    before.report(tmp_path / "before.html", map_rows=0)
    rows, _ = Page(tmp_path / "before.html").tables("clusters")
    assert [row["Name"] for row in rows] == ["", evil, "", ""]


@pytest.mark.parametrize("method", ["smic", "rim", "mwca"])
def test_clusters_that_vanished_are_not_counted(blobs, results, tmp_path, method):
    x = blobs[0][np.isin(blobs[1], (0, 2))]
    options = BRIEF if method == "smic" else ONE_OF_EACH[method][1]
    later = bigsmic.fit(x, 2, like=results("smic"), out=tmp_path / "run", **options)
    assert (len(later.numbers), later.n_clusters) == (2, 4)
    later.report(tmp_path / "report.html", x, map_rows=0)
    html = (tmp_path / "report.html").read_text()
    assert f"<title>2 clusters of {len(x)} rows" in html
    assert set(re.findall(r"(\d+) clusters (?!continue)", html)) == {"2"}
    assert "there are 4" not in html


def test_a_single_cluster_beside_vanished_ones_is_reported_as_one(blobs, results, tmp_path):
    x = blobs[0][blobs[1] == 1]
    bigsmic.fit(x, 1, like=results("smic"), out=tmp_path / "run").report(tmp_path / "report.html", map_rows=0)
    page = Page(tmp_path / "report.html")
    assert "One cluster was asked for and has all rows" in page.text("trust")
    assert "relations" not in page.sections


@pytest.mark.usefixtures("undrawn")
def test_rows_of_a_range_are_found_in_the_archive(blobs, archive, tmp_path):
    result = bigsmic.fit(archive, 3, rows=slice(100, 600), out=tmp_path / "run", **BRIEF)
    result.report(tmp_path / "report.html", archive=archive, map_rows=0)
    page = Page(tmp_path / "report.html")
    assert "500 rows of 5 columns" in page.text("run")
    assert "columns" in page.sections
    assert "Rows are numbered among those that were fitted" in page.text("clusters")


# -- where it may be written


def test_two_reports_differ_in_their_date_alone(results, tmp_path):
    for name in ("a", "b"):
        results("smic").report(tmp_path / name, map_rows=100)
    a, b = (Page(tmp_path / name) for name in ("a", "b"))
    assert a.undated == b.undated
    assert a.undated != a.html


@pytest.mark.usefixtures("undrawn")
def test_a_report_takes_the_place_of_one_of_the_same_run_alone(results, tmp_path):
    place = tmp_path / "report.html"
    results("one").report(place, map_rows=0)
    results("one").report(place, map_rows=0)
    before = place.read_bytes()
    with pytest.raises(
        RunError, match="is the report of another run; give another location, or allow overwriting by overwrite="
    ):
        results("mspc").report(place)
    assert place.read_bytes() == before
    results("mspc").report(place, overwrite=True, map_rows=0)
    assert place.read_bytes() != before


@pytest.mark.parametrize("text", ["", "notes", f"<p>{rendering.MARK[::-1]}"])
def test_what_is_no_report_is_never_written_over(results, tmp_path, text):
    place = tmp_path / "notes.html"
    place.write_text(text)
    with pytest.raises(RunError, match=r"exists and is not a report of bigsmic; give another location"):
        results("one").report(place, overwrite=True)
    assert place.read_text() == text


def test_a_report_is_not_written_into_a_run_or_to_a_folder(results, tmp_path):
    result = results("one")
    with pytest.raises(RunError, match="would lie within the run"):
        result.report(f"{result.location}/report.html")
    with pytest.raises(RunError, match="is a directory, but must be a file; give a name within it"):
        result.report(tmp_path)
    with pytest.raises(RunError, match="which is not a directory; create it first"):
        result.report(tmp_path / "absent" / "report.html")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "report.pdf",
            r"report\.pdf.*, but a report is HTML; .* ends in \.html, and print the page to PDF from a browser$",
        ),
        ("report.MD", r"report\.MD.*, but a report is HTML; give a name that ends in \.html$"),
    ],
)
def test_a_report_is_not_written_under_the_name_of_another_kind_of_file(results, tmp_path, name, message):
    with pytest.raises(InputError, match=message):
        results("one").report(tmp_path / name)
    with pytest.raises(InputError, match=message):
        results("one").report(f"memory://reports/{name}?html")
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("name", ["report", "report.HTM"])
def test_names_of_reports_may_lack_an_end(results, tmp_path, name):
    results("one").report(tmp_path / name, map_rows=0)
    assert Page(tmp_path / name).errors == []


@pytest.mark.usefixtures("undrawn")
def test_a_link_is_followed_to_what_it_stands_for(results, tmp_path):
    link, target = tmp_path / "latest.html", tmp_path / "report.html"
    link.symlink_to(target)
    results("one").report(link, map_rows=0)
    results("one").report(link, map_rows=0)
    assert link.is_symlink()
    assert Page(target).errors == []
    target.write_text("notes")
    with pytest.raises(RunError, match="is not a report of bigsmic"):
        results("one").report(link, overwrite=True)
    assert target.read_text() == "notes"


@pytest.mark.usefixtures("undrawn")
def test_run_and_report_behind_a_url(results, tmp_path):
    result = results("mspc").save("memory://reports/run.zarr")
    result.report("memory://reports/pages/report.html", map_rows=0)
    import fsspec

    (tmp_path / "report.html").write_bytes(fsspec.filesystem("memory").cat("/reports/pages/report.html"))
    page = Page(tmp_path / "report.html")
    assert page.errors == []
    assert "memory://reports/run.zarr" in page.text("run")


# -- the command


@pytest.mark.usefixtures("undrawn")
def test_command(results, archive, tmp_path):
    names, place = tmp_path / "names.txt", tmp_path / "report.html"
    names.write_text("a\nb\nc\nd\ne\n")
    options = ["--archive", archive, "--column-names", str(names), "--map-rows", "0", "-o", str(place)]
    done = CliRunner().invoke(app, ["report", results("smic").location, *options])
    assert (done.exit_code, done.stdout) == (0, f"the report of {results('smic').location} is in {place}\n")
    assert archive in Page(place).text("run")
    done = CliRunner().invoke(app, ["report", results("one").location, "-o", str(place)])
    assert done.exit_code == 5
    assert "or allow overwriting by --overwrite" in done.stderr


def test_a_file_of_names_that_is_not_there(results, tmp_path):
    options = ["--column-names", str(tmp_path / "absent.txt"), "-o", str(tmp_path / "report.html")]
    done = CliRunner().invoke(app, ["report", results("one").location, *options])
    assert done.exit_code == 3
    assert "absent.txt cannot be read" in done.stderr
    assert "give a text file with one name per line" in done.stderr


@pytest.mark.usefixtures("undrawn")
def test_times_are_read_from_a_file(results, tmp_path):
    np.save(tmp_path / "times.npy", np.arange(700) / 60)
    options = ["--times", str(tmp_path / "times.npy"), "--map-rows", "0", "-o", str(tmp_path / "report.html")]
    done = CliRunner().invoke(app, ["report", results("mspc").location, *options])
    assert done.exit_code == 0
    assert "timeline" in Page(tmp_path / "report.html").sections
    with pytest.raises(InputError, match=r"times: got .* of shape \(3,\); give a number or a time for each of 700"):
        results("mspc").report(tmp_path / "report.html", times=[1, 2, 3])


def test_times_are_refused_before_anything_is_computed(results, tmp_path, monkeypatch):
    monkeypatch.setattr("bigsmic.report.writing.BEFORE", None)  # the first sections of a report
    with pytest.raises(InputError, match=r"times: got <U10 .* such as pandas\.DatetimeIndex"):
        results("mspc").report(tmp_path / "report.html", times=np.full(700, "2026-01-01"))


def test_a_report_loads_no_pyplot(results, tmp_path):
    """Which would choose a backend and keep figures for the whole process."""
    code = (
        f"import sys, bigsmic; result = bigsmic.Result.open({results('smic').location!r}); "
        f"result.report({str(tmp_path / 'r.html')!r}, map_rows=0); print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
