"""What a report warns of: each finding is there when the diagnostics say so, with its numbers, and not otherwise."""

import copy
from dataclasses import replace

import numpy as np
import pytest
from small_fits import BRIEF

import bigsmic
from bigsmic.methods import mspc
from bigsmic.report import Finding, Paragraph, Section, Table
from bigsmic.report.pages import clusters, number, trust
from bigsmic.report.subject import Subject
from bigsmic.report.tally import Tally


@pytest.fixture(scope="module")
def result(blobs, tmp_path_factory):
    return bigsmic.fit(blobs[0], 4, out=tmp_path_factory.mktemp("run") / "run", **BRIEF)


@pytest.fixture
def findings(result):
    """Findings about the result with other diagnostics, as texts by level."""

    def found(clusters=None, **changed):
        other = copy.copy(result)
        if clusters is not None:
            other.clusters = clusters
        other.diagnostics = result.diagnostics | changed
        parts = trust.section(Subject(other)).parts
        return {
            level: [f"{part.text} {part.remedy}" for part in parts if part.level == level]
            for level in ("good", "warning", "note")
        }

    return found


def test_rows_and_labelings_are_counted_as_they_are(result):
    subject = Subject(result)
    agreement, posterior = result.agreement, np.asarray(result.posterior)
    own = posterior[np.arange(len(posterior)), result.labels]
    assert subject.tally == (700, (agreement < 0.75).sum(), (own < 0.5).sum(), 0)
    assert subject.compares_labelings


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"neighbors": {"recall": 0.6, "at": 10, "rows": 200, "in_degree_zero": 0.0, "in_degree_skewness": 1.0}},
            "found 60.0% of the 10 nearest neighbours of 200 rows",
        ),
        (
            {"neighbors": {"recall": 1.0, "at": 10, "rows": 200, "in_degree_zero": 0.3, "in_degree_skewness": 9.0}},
            "There are hubs: 30.0% of the rows are in nobody's list of neighbours",
        ),
        (
            {"eigen": [{"converged": False, "n_converged": 7, "ritz_values": [1.0] * 9, "t": 3}]},
            "had not all converged when the solver stopped: 7 of 9 with t = 3",
        ),
    ],
)
def test_warnings_of_the_graph(findings, changed, said):
    assert any(said in text for text in findings(**changed)["warning"])
    assert not any(said in text for text in findings()["warning"])
    assert findings(**changed)["good"] == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"components": {"3": {"before": 5, "after": 1, "edges": 9}}}, "in pieces: 5 components with 3 neighbours"),
        ({"constant_columns": [1, 4]}, "2 columns are constant, and told no rows apart: 1 and 4"),
        (
            {"components": {"3": {"before": 2, "after": 2}}},
            "2 components with 3 neighbours. They were left as they are.",
        ),
        ({"cut_to_n": {"n_neighbors": "30 cut to 9"}}, "n_neighbors was cut"),
        ({"output": {"label_off_argmax_share": 0.02}}, "2.0% of the labels are not those of the largest posterior"),
    ],
)
def test_notes(findings, changed, said):
    assert any(said in text for text in findings(**changed)["note"])
    assert not any(said in text for text in findings(**{name: {} for name in changed})["note"])


def findings_of(make, result, **changed):
    """Level and text of every finding of one kind about the result with other properties."""
    subject = Subject(copy.copy(result))
    for name, value in changed.items():
        setattr(subject, name, value)
    return [(finding.level, f"{finding.text} {finding.remedy}") for finding in make(subject)]


def test_rows_that_are_not_sure_or_in_no_cluster_are_counted(result):
    assert findings_of(trust._rows, result, tally=Tally(1000)) == []
    disputed, unsure, outside = findings_of(trust._rows, result, tally=Tally(1000, 51, 50, 20))
    assert disputed[0] == "warning"
    assert "On 51 rows (5.1%) fewer than 75% of the labelings agree." in disputed[1]
    assert unsure[0] == "note"
    assert "50 rows (5.0%) have a posterior below 0.5" in unsure[1]
    assert outside[0] == "note"
    assert "20 rows (2.0%) are in no cluster: label -1." in outside[1]
    assert [level for level, _ in findings_of(trust._rows, result, tally=Tally(1000, 0, 51))] == ["warning"]
    subject = Subject(result)
    subject.tally = Tally(1000, 100, 10, 20)
    assert "99.0% of the rows have a posterior of 0.5 or more" in trust._all_well(subject)
    assert "75% of the labelings or more agree on 90.0% and 20 rows (2.0%) are in no cluster" in trust._all_well(
        subject
    )


def test_another_number_than_the_data_show_is_said(result):
    four = replace(result.valleys, clear=True, n_clusters=4)
    assert findings_of(trust._number, result, valleys=four) == []
    ((level, text),) = findings_of(trust._number, result, valleys=replace(four, n_clusters=3))
    assert level == "warning"
    assert "The data show 3 groups that valleys separate from each other, and there are 4 clusters." in text
    assert "-c 3 --out OTHER_RUN gives that many" in text
    ((level, text),) = findings_of(trust._number, result, valleys=replace(four, clear=False))
    assert level == "note"
    assert "The number of clusters was given" in text


def test_of_many_pairs_that_touch_the_weakest_are_named(result):
    z = np.array([3.0, 0.5, 9.0, 1.0, 2.5, 2.0, 1.5, 0.0])
    pairs = {"pairs": np.stack([np.arange(8), np.arange(8) + 10], axis=1), "depth": np.ones(8), "z": z}
    ((_, text),) = findings_of(trust._touching, result, valleys=replace(result.valleys, threshold=2.9, _pairs=pairs))
    assert "parts clusters 7 and 17 (z = 0.0), 1 and 11 (z = 0.5)" in text
    assert "5 and 15 (z = 2.0) and 1 more pair." in text
    assert findings_of(trust._touching, result, valleys=replace(result.valleys, threshold=0.0, _pairs=pairs)) == []


def test_clusters_that_touch_are_named_as_the_valleys_have_them(blobs):
    """Two halves of a blob: no valley separates them."""
    X = np.random.default_rng(0).normal(size=(800, 3)).astype(np.float32)
    result = bigsmic.fit(X, 2, **BRIEF)
    (pair,) = result.valleys.pairs.itertuples()
    texts = [part.text for part in trust.section(Subject(result)).parts if part.level == "warning"]
    said = f"No valley of 4 standard errors parts clusters {pair.cluster} and {pair.neighbor} (z = {pair.z:.1f})"
    assert any(text.startswith(said) for text in texts)


def test_where_all_is_well_it_says_so_in_one_line():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(at, 0.3, (300, 3)) for at in (0, 20, 40)]).astype(np.float32)
    result = bigsmic.fit(X, 3, **BRIEF)
    first, *others = trust.section(Subject(result)).parts
    assert first.level == "good"
    assert "100% of the rows have a posterior of 0.5 or more" in first.text
    assert {part.level for part in others} <= {"note"}


def test_clusters_that_are_small_or_that_few_labelings_know(result, findings):
    table = result.clusters.copy()
    table.loc[1, "rows"], table.loc[2, "rows"], table.loc[3, "stability"] = 0, 4, 0.3
    texts = findings(table)["warning"]
    assert any("1 cluster has no rows: 1." in text for text in texts)
    assert any("1 cluster has fewer than 10 rows: 2." in text for text in texts)
    assert any("Few labelings know 1 cluster" in text and "3 (0.30)" in text for text in texts)


def test_findings_and_sections_of_a_method_are_taken(blobs, monkeypatch, tmp_path):
    from pages import Page

    evil = "<script>alert(1)</script>"
    own = [Finding("warning", f"{evil} is doubtful"), Section("own", f"Own {evil}", [Paragraph(evil)])]
    monkeypatch.setattr(mspc, "pages", lambda result: own)
    bigsmic.fit(blobs[0], 3, method="mspc").report(tmp_path / "report.html", map_rows=0)
    page = Page(tmp_path / "report.html")
    assert page.errors == []
    assert page.loads == []
    assert any(f"{evil} is doubtful" in text for text in page.findings("warning"))
    assert page.findings("good") == []
    assert page.text("own") == f"Own {evil} {evil}"


def test_captions_say_how_deep_a_valley_has_to_be_in_this_fit(result):
    """Of few rows, fewer standard errors than four are enough if labelings agree."""
    other = copy.copy(result)
    other.valleys = replace(result.valleys, threshold=2.5)
    subject = Subject(other)
    sections = [number.section(subject), clusters.section(subject), *subject.own_sections]
    captions = [part.caption for section in sections for part in section.parts if isinstance(part, Table)]
    of_valleys = [caption for caption in captions if "standard errors" in caption]
    assert ["; 2.5 and more separate" in caption for caption in of_valleys] == [True] * 3
