"""Mean and spread of the columns of every cluster."""

from functools import partial

import numpy as np

from bigsmic import plots
from bigsmic.plots.columns import are_ordered
from bigsmic.report.document import WIDTH, Figure, Part, Section
from bigsmic.report.subject import Subject
from bigsmic.report.words import listed
from bigsmic.tables import count, drawn_width, shortened
from bigsmic.views.columns import ColumnTable

AT_ONCE = 20
"""Clusters in a figure."""
MOST_FIGURES = 5
MOST_CHARACTERS_PER_INCH = 14


def section(subject: Subject) -> Section | None:
    """The columns, if there is an archive to read them from."""
    table = subject.columns
    if table is None:
        return None
    sizes = subject.result.sizes
    largest = np.sort(np.argsort(-sizes, kind="stable")[: AT_ONCE * MOST_FIGURES])
    shown = [int(cluster) for cluster in largest if sizes[cluster]]
    groups = [shown[at : at + AT_ONCE] for at in range(0, len(shown), AT_ONCE)]
    parts: list[Part] = [_figure(subject, table, group) for group in groups]
    return Section("columns", "Columns of every cluster", parts)


def _figure(subject: Subject, table: ColumnTable, clusters: list[int]) -> Figure:
    names = [shortened(name) for name in subject.details.column_names] or None
    draw = partial(
        plots.profiles,
        subject.result,
        table,
        clusters=clusters,
        columns_per_channel=subject.details.columns_per_channel,
        names=names,
    )
    said = f"Mean and spread of the columns in {count(len(clusters), 'cluster')}"
    caption = f"{said}: {listed(clusters, AT_ONCE)}. {_how(subject)}"
    room = max(map(drawn_width, names or [""])) / MOST_CHARACTERS_PER_INCH  # of the names below
    return Figure(draw, said, caption, (WIDTH, 1.2 + room + 0.5 * len(clusters)))


def _how(subject: Subject) -> str:
    """Description of the figure: lines if columns are ordered, else bars."""
    if subject.details.columns_per_channel or (not subject.details.column_names and are_ordered(subject.result)):
        return "Lines are means, bands one standard deviation to either side, in the units of the archive."
    return (
        "Bars are the columns that tell clusters apart best, in standard deviations from the mean of the clusters; "
        "lines are one standard deviation within the cluster."
    )
