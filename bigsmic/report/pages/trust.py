"""Findings about how far to trust the result, each with its numbers and a remedy."""

from collections.abc import Iterator

import numpy as np

from bigsmic.report.document import Command, Finding, Part, Section
from bigsmic.report.subject import Subject
from bigsmic.report.tally import FEW_AGREE, UNSURE
from bigsmic.report.words import listed, percent
from bigsmic.runtime.diagnostics import MOST_CONSTANT
from bigsmic.tables import count

LEAST_RECALL = 0.9
"""Recall of neighbours below which the graph does not represent the rows."""
MOST_UNLISTED = 0.1
"""Share of rows in no other row's list of neighbours above which there is a finding about hubs."""
MOST_SKEWED = 5.0
"""Skewness of the in-degrees above which there is a finding about hubs."""
LEAST_STABILITY = 0.6
"""Mean Jaccard index below which a cluster counts as dissolved, not recovered (Hennig 2007)."""
MOST_DISPUTED = 0.05
"""Share of rows on which labelings disagree above which they are more than the borders of clusters."""
LEAST_ROWS = 10
"""Number of rows below which a cluster may be spurious."""
MOST_PAIRS = 5
"""Number of pairs of clusters that are listed."""


TITLE = "What to trust, and what not"


def section(subject: Subject) -> Section:
    """The findings."""
    if subject.result.settings.undecided:
        of_input = [finding for make in (*OF_THE_GRAPH, _input) for finding in make(subject)]
        return Section("trust", TITLE, [*_undecided(subject), *of_input])
    of_rows = list(_rows(subject))
    found = [*of_rows, *(finding for make in FINDINGS for finding in make(subject)), *subject.own_findings]
    if not any(finding.level == "warning" for finding in found):
        found = [Finding("good", _all_well(subject)), *found[len(of_rows) :]]  # it has the numbers of rows
    ordered = sorted(found, key=lambda finding: LEVELS[finding.level])
    return Section("trust", TITLE, ordered)


LEVELS = {"good": 0, "warning": 1, "note": 2}


def _all_well(subject: Subject) -> str:
    """Summary if there are no findings."""
    tally, c = subject.tally, subject.n_clusters
    if c == 1:
        return "One cluster was asked for and has all rows: there is nothing to doubt, and nothing to learn."
    sure = percent(1 - tally.unsure / tally.rows)
    said = [f"{sure} of the rows have a posterior of {UNSURE} or more for their label"]
    if subject.compares_labelings:
        said.append(f"{FEW_AGREE:.0%} of the labelings or more agree on {percent(1 - tally.disputed / tally.rows)}")
    if tally.outside:
        said.append(f"{count(tally.outside, 'row')} ({percent(tally.outside / tally.rows)}) are in no cluster")
    return f"Nothing that was looked at speaks against this result: {listed(said)}."


def _undecided(subject: Subject) -> Iterator[Part]:
    why = subject.valleys.sentence if subject.valleys is not None else "The fit was given no number of clusters."
    if not subject.result._can_be_cut:
        yield Finding("warning", f"There are no labels. {why}", "Fit again with a number of clusters.")
        return
    yield Finding("warning", f"There are no labels. {why}", "See how many clusters below; no other fit is needed:")
    yield Command(subject.cut_command())


def _rows(subject: Subject) -> Iterator[Finding]:
    """Rows on which labelings disagree, or with a small posterior."""
    tally = subject.tally
    if subject.compares_labelings and tally.disputed:
        share = tally.disputed / tally.rows
        yield Finding(
            "warning" if share > MOST_DISPUTED else "note",
            f"On {count(tally.disputed, 'row')} ({percent(share)}) fewer than {FEW_AGREE:.0%} of the labelings agree.",
            "Use agreement to leave these rows out, or see in the table of clusters which clusters they are in.",
        )
    if tally.unsure:
        share = tally.unsure / tally.rows
        yield Finding(
            "warning" if share > MOST_DISPUTED else "note",
            f"{count(tally.unsure, 'row')} ({percent(share)}) have a posterior below {UNSURE} for their label.",
            "Use posterior to leave them out, or to weigh rows by it.",
        )
    if tally.outside:
        yield Finding(
            "note",
            f"{count(tally.outside, 'row')} ({percent(tally.outside / tally.rows)}) are in no cluster: label -1.",
            "Result.noise says how far out each of them is.",
        )


def _touching(subject: Subject) -> Iterator[Finding]:
    """Clusters without a valley between them."""
    if subject.valleys is None:
        return
    pairs, threshold = subject.valleys.pairs, subject.valleys.threshold
    weak = pairs[pairs["z"] < threshold]
    if len(weak):
        named = [f"{row.cluster} and {row.neighbor} (z = {row.z:.1f})" for row in weak.head(MOST_PAIRS).itertuples()]
        named += [count(len(weak) - MOST_PAIRS, "more pair")] if len(weak) > MOST_PAIRS else []
        yield Finding(
            "warning",
            f"No valley of {threshold:.2g} standard errors parts clusters {listed(named)}.",
            "Each pair may be one cluster: look at the profiles of both before you tell them apart.",
        )


def _number(subject: Subject) -> Iterator[Finding]:
    """A number of clusters other than the data show."""
    valleys, c = subject.valleys, len(subject.result.numbers)
    if valleys is None:
        return
    if valleys.clear and valleys.n_clusters != c:
        shown = count(valleys.n_clusters, "group")
        yield Finding(
            "warning",
            f"The data show {shown} that valleys separate from each other, and there are {count(c, 'cluster')}.",
            f"{subject.cut_command(valleys.n_clusters)} gives that many, without another fit.",
        )
    if not valleys.clear and c > 1:
        yield Finding(
            "note",
            f"The number of clusters was given: {valleys.sentence}",
            "Clusters are then parts of what may be one group; their borders are where the method put them.",
        )


def _small(subject: Subject) -> Iterator[Finding]:
    """Clusters that are empty or tiny."""
    rows = subject.clusters["rows"]
    empty = rows.index[rows == 0].tolist()
    few = rows.index[(rows > 0) & (rows < LEAST_ROWS)].tolist()
    if empty:
        said = count(len(empty), "cluster has", "clusters have")
        yield Finding("warning", f"{said} no rows: {listed(empty)}.", "Ask for fewer clusters.")
    if few and subject.input["rows"] >= 10 * LEAST_ROWS:
        said = count(len(few), "cluster has", "clusters have")
        yield Finding(
            "warning",
            f"{said} fewer than {LEAST_ROWS} rows: {listed(few)}.",
            "Look at these rows one by one: they may be outliers.",
        )


def _unstable(subject: Subject) -> Iterator[Finding]:
    """Clusters that other labelings do not have."""
    table = subject.clusters
    if "stability" not in table or len(table) < 2:
        return
    weak = table["stability"][table["stability"] < LEAST_STABILITY].sort_values(kind="stable")
    if len(weak):
        named = listed(f"{cluster} ({stability:.2f})" for cluster, stability in weak.items())
        yield Finding(
            "warning",
            f"Few labelings know {count(len(weak), 'cluster')}: the best Jaccard index with a cluster of theirs is on "
            f"average below {LEAST_STABILITY}: {named}.",
            "Take these clusters for a proposal, and check them by other means.",
        )


def _neighbors(subject: Subject) -> Iterator[Finding]:
    """Missed neighbours, and hubs."""
    found = subject.result.diagnostics.get("neighbors", {})
    recall = found.get("recall", 1.0)
    if recall < LEAST_RECALL:
        yield Finding(
            "warning",
            f"The search found {percent(recall)} of the {found['at']} nearest neighbours of "
            f"{count(found['rows'], 'row')} that were checked.",
            "Set neighbors='exact', or raise n_neighbors.",
        )
    unlisted, skewness = found.get("in_degree_zero", 0.0), found.get("in_degree_skewness", 0.0)
    if unlisted > MOST_UNLISTED or skewness > MOST_SKEWED:
        yield Finding(
            "warning",
            f"There are hubs: {percent(unlisted)} of the rows are in nobody's list of neighbours, while few are in "
            f"very many (skewness {skewness:.1f}).",
            "In many noisy columns neighbours mean little: leave columns out, or use their principal components.",
        )


def _pieces(subject: Subject) -> Iterator[Finding]:
    """Disconnected graphs."""
    found = subject.result.diagnostics.get("components", {})
    torn = {t: facts for t, facts in found.items() if facts.get("before", 1) > 1}
    if torn:
        said = listed(f"{count(facts['before'], 'component')} with {t} neighbours" for t, facts in torn.items())
        mended = any(facts.get("edges") for facts in torn.values())
        then = "Edges were added that connect them." if mended else "They were left as they are."
        yield Finding(
            "note",
            f"The neighbour graph was in pieces: {said}. {then}",
            "Rows of different pieces are far apart. Tiny pieces are outliers.",
        )


def _eigenvectors(subject: Subject) -> Iterator[Finding]:
    """Eigenvectors that had not converged."""
    slow = [facts for facts in subject.result.diagnostics.get("eigen", []) if not facts["converged"]]
    if slow:
        said = listed(f"{facts['n_converged']} of {len(facts['ritz_values'])} with t = {facts['t']}" for facts in slow)
        yield Finding(
            "warning",
            f"Eigenvectors had not all converged when the solver stopped: {said}.",
            "Raise tol or max_matvecs if the fit has them; otherwise take the last eigenvectors for approximate.",
        )


def _input(subject: Subject) -> Iterator[Finding]:
    """Constant columns, and parameters that were reduced."""
    found = subject.result.diagnostics
    constant = found.get("constant_columns", [])
    if constant:
        named = listed(subject.column_name(column) for column in constant)
        least = "At least " if len(constant) == MOST_CONSTANT else ""
        yield Finding(
            "note",
            f"{least}{count(len(constant), 'column is', 'columns are')} constant, and told no rows apart: {named}.",
            "Leave them out, or check that they should be so.",
        )
    for name, why in found.get("cut_to_n", {}).items():
        yield Finding("note", f"{name} was cut to what the number of rows allows: {why}.")


def _labels(subject: Subject) -> Iterator[Finding]:
    off = subject.result.diagnostics.get("output", {}).get("label_off_argmax_share", 0.0)
    if np.isfinite(off) and off > 0.01:
        yield Finding(
            "note",
            f"{percent(off)} of the labels are not those of the largest posterior: labels follow the vote of the "
            "labelings and the row's neighbours.",
        )


OF_THE_GRAPH = (_neighbors, _pieces, _eigenvectors)
FINDINGS = (_touching, _number, _small, _unstable, *OF_THE_GRAPH, _input, _labels)
