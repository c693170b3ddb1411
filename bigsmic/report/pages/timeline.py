"""Shares of the clusters over time."""

from functools import partial

from bigsmic import plots
from bigsmic.report.document import WIDTH, Figure, Section
from bigsmic.report.subject import Subject


def section(subject: Subject) -> Section | None:
    """Shares over time, if rows have times."""
    if subject.details.times is None or subject.result.settings.undecided:
        return None
    draw = partial(plots.timeline, subject.result, subject.details.times)
    caption = (
        "Share of every cluster in stretches of equal length, cluster 0 at the bottom. A cluster that comes or goes "
        "may be one that drifts."
    )
    return Section(
        "timeline", "Shares over time", [Figure(draw, "Shares of the clusters over time", caption, (WIDTH, 3.0))]
    )
