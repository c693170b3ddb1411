"""Correspondence with the clusters of an earlier run, whose numbers this one uses."""

from bigsmic.report.document import Paragraph, Section, Table
from bigsmic.report.subject import Subject
from bigsmic.tables import count


def section(subject: Subject) -> Section | None:
    """The clusters that continue earlier ones, for a fit with ``like=``."""
    match = None if subject.result.settings.undecided else subject.result.matched
    if match is None:
        return None
    rows = [(cluster, before, round(match.overlap[cluster], 3)) for cluster, before in match.continued.items()]
    caption = (
        f"Overlap: harmonic mean of the shares of their rows that both clusters have in common, of "
        f"{count(match.rows, 'row')} that were compared by {match.by}."
    )
    table = Table(("Cluster", "Was", "Overlap"), rows, caption)
    return Section("continuity", "Since the earlier run", [Paragraph(match.sentence), table])
