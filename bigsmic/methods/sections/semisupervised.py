"""Report sections about a fit by 3SMIC: the links that the labels violate."""

from typing import Any

from bigsmic.report import Finding, Paragraph, Part, Section, Table
from bigsmic.report.words import percent
from bigsmic.tables import count

MOST_LINKS = 50
"""Number of violated links of each kind that are shown."""
KINDS = {"must_links": "Must-links", "cannot_links": "Cannot-links"}


def pages(result: Any) -> list[Section | Finding]:
    """A finding about the links, and their section."""
    if not result.n_links:
        return []
    if result.settings.undecided:
        return [Section("links", "Links", [Paragraph(f"{count(result.n_links, 'linked pair')} were given.")])]
    return [_finding(result), Section("links", "Links", _parts(result))]


def _finding(result: Any) -> Finding:
    violated, links = result.n_violated, result.n_links
    if not violated:
        return Finding("note", f"The labels keep all of {count(links, 'linked pair')}.")
    return Finding(
        "warning",
        f"The labels do not keep {violated:,} of {count(links, 'linked pair')} ({percent(violated / links)}).",
        "See under Links which they are: they are violated for want of clusters or of link_weights, or they err.",
    )


def _parts(result: Any) -> list[Part]:
    violated = result.violated
    parts: list[Part] = []
    for name, title in KINDS.items():
        pairs = violated[name]
        rows = [(int(a), int(b), _label(result, a), _label(result, b)) for a, b in pairs[:MOST_LINKS]]
        if rows:
            caption = f"{title} that are not kept: {len(pairs):,}. Rows by number, and their clusters."
            parts.append(Table(("Row", "Other row", "Cluster", "Other cluster"), rows, caption))
    strays = violated["strays"]
    if len(strays):
        rows_of = [(int(row), _label(result, row)) for row in strays[:MOST_LINKS]]
        caption = f"Rows of known label that are not where most of their group is: {len(strays):,}."
        parts.append(Table(("Row", "Cluster"), rows_of, caption))
    return parts or [Paragraph(f"All of {count(result.n_links, 'linked pair')} are kept.")]


def _label(result: Any, row: int) -> int:
    return int(result.labels[row])
