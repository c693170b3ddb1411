"""The table of clusters."""

from functools import partial
from typing import Any

import numpy as np

from bigsmic import plots
from bigsmic.report.document import WIDTH, Figure, Part, Section, Table
from bigsmic.report.subject import EXAMPLES, Subject
from bigsmic.report.words import listed
from bigsmic.tables import count

COLUMNS = 3
"""Number of columns of each cluster that are listed."""
APART = "Told apart by"
FACTS = {
    "rows": ("Rows", "rows"),
    "posterior": ("Posterior", "posterior: mean posterior of the label over its rows"),
    "agreement": ("Agreement", "agreement: mean share of the labelings that agree"),
    "stability": (
        "Stability",
        "stability: mean over the labelings of the Jaccard index with the label most like it, 1 for the same rows",
    ),
    "nearest": ("Nearest", "nearest: the cluster whose posterior it shares most"),
    "density_ratio": ("Ratio", "ratio: how much more often than by chance both have posterior at one row; 0 for never"),
    "valley_to": ("Valley to", "valley to: the neighbour that is separated least"),
    "valley_z": (
        "Valley z",
        "valley z: depth of that valley in standard errors; {threshold:.2g} and more separate them",
    ),
}
"""Columns of `Result.clusters` that are shown: their heading and their description."""


def section(subject: Subject) -> Section | None:
    """The clusters, with columns that distinguish them and rows to inspect."""
    if subject.result.settings.undecided:
        return None
    return Section("clusters", "Clusters", [_facts(subject), *_figures(subject), _examples(subject)])


def _facts(subject: Subject) -> Table:
    """Figures of every cluster."""
    table = subject.clusters
    shown = [name for name in FACTS if name in table and _says_something(name, table[name], subject)]
    names = _names(subject)
    columns = ["Cluster", *names, *(FACTS[name][0] for name in shown)]
    rows = [
        (
            cluster,
            *(name_of[cluster] for name_of in names.values()),
            *(_cell(name, table.at[cluster, name]) for name in shown),
        )
        for cluster in table.index.tolist()
    ]
    said = "; ".join(FACTS[name][1].format(threshold=subject.threshold) for name in shown if name != "rows")
    return Table(columns, rows, f"{said[:1].upper()}{said[1:]}{'.' if said else ''}")


def _examples(subject: Subject) -> Table:
    """Columns and rows of every cluster to inspect."""
    texts = _told_apart(subject) | _rows(subject)
    rows = [(cluster, *(text_of[cluster] for text_of in texts.values())) for cluster in subject.clusters.index.tolist()]
    return Table(["Cluster", *texts], rows, f"{_how(subject) * (APART in texts)}{_numbering(subject)}")


def _how(subject: Subject) -> str:
    said = "Columns with how far the cluster's mean is from that of the rest, in standard deviations. "
    if not subject.details.columns_per_channel:
        return said
    named = "" if subject.details.column_names else " 2:10 is column 10 of channel 2, from 0."
    return f"{said}The strongest of each channel.{named} "


def _numbering(subject: Subject) -> str:
    if "selected" in subject.input:
        return "Rows are numbered among those that were fitted; Result.rows has their numbers in the archive."
    return "Rows are numbered from 0, in the order of the input."


def _figures(subject: Subject) -> list[Part]:
    """Figures of sizes, and of certainty if there are several clusters."""
    result, clusters = subject.result, count(subject.n_clusters, "cluster")
    if subject.n_clusters < 2:
        return []
    sizes = Figure(partial(plots.sizes, result), f"Rows of {clusters}, as bars", "Rows of every cluster.", (WIDTH, 2.4))
    said = "Bars: mean agreement of the labelings. Circles: mean posterior. Diamonds: stability."
    sure = Figure(partial(plots.agreement, result), f"How sure {clusters} are, as bars", said, (WIDTH, 2.6))
    return [sizes, sure] if subject.compares_labelings else [sizes]


def _says_something(name: str, values: Any, subject: Subject) -> bool:
    if name == "agreement":
        return subject.compares_labelings
    return bool((values >= 0).any()) if name in ("nearest", "valley_to") else bool(values.notna().any())


def _cell(name: str, value: Any) -> float | int | None:
    if name in ("rows", "nearest", "valley_to"):
        return int(value) if np.isfinite(value) and value >= 0 else None
    return round(float(value), 3) if np.isfinite(value) else (None if np.isnan(value) else float(value))


def _names(subject: Subject) -> dict[str, dict[int, str]]:
    """Names that clusters were given."""
    names = subject.result.names
    return {"Name": {cluster: names.get(cluster, "") for cluster in subject.clusters.index}} if names else {}


def _told_apart(subject: Subject) -> dict[str, dict[int, str]]:
    """Columns that distinguish each cluster from the rest, as texts by cluster."""
    table = subject.columns
    if table is None or subject.n_clusters < 2:
        return {}
    found = {
        cluster: listed(f"{subject.column_name(column)} ({_effect(effect)})" for column, effect in strongest)
        for cluster in subject.clusters.index
        for strongest in [table.strongest(cluster, COLUMNS, subject.details.columns_per_channel or 1)]
    }
    return {APART: found}


def _effect(effect: float) -> str:
    return f"{effect:+.1f}" if np.isfinite(effect) else f"{'+' if effect > 0 else '-'}∞"


def _rows(subject: Subject) -> dict[str, dict[int, str]]:
    """Rows of each cluster to inspect, as texts by heading and cluster."""
    tables = {"Most typical rows": subject.result.typical_rows, "Least certain rows": subject.result.uncertain_rows}
    found = {}
    for heading, examples in tables.items():
        rows = examples(EXAMPLES).groupby("cluster")["row"].apply(list).to_dict()
        found[heading] = {cluster: listed(rows.get(cluster, [])) for cluster in subject.clusters.index}
    return found
