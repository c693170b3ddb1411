"""A map of rows, by cluster and by certainty."""

from functools import partial

from bigsmic import plots
from bigsmic.errors import AbsentResultError
from bigsmic.report.document import WIDTH, Figure, Paragraph, Part, Section
from bigsmic.report.subject import Subject
from bigsmic.tables import count

SIZE = (WIDTH, 5.2)


def section(subject: Subject) -> Section | None:
    """The map, or the reason why there is none."""
    if not subject.details.map_rows:
        return None
    try:
        shown = len(subject.result.map(subject.details.map_rows).rows)
    except AbsentResultError as absent:
        return Section("map", "Map", [Paragraph(f"There is no map. {absent}")])
    return Section("map", "Map", _parts(subject, shown))


def _parts(subject: Subject, shown: int) -> list[Part]:
    result, n = subject.result, subject.input["rows"]
    drawn = count(shown, "row") if shown == n else f"{shown:,} of {count(n, 'row')}, drawn by hash"
    caption = f"{drawn[0].upper()}{drawn[1:]}, laid out by t-SNE from the neighbour graph. What is near is alike; "
    caption += "distances between groups, and their sizes, mean little."
    draw = partial(plots.map, result, n_rows=subject.details.map_rows)
    if result.settings.undecided:
        return [Figure(draw, f"Map of {drawn}", caption, SIZE)]
    color = subject.map_color
    least = "Rows that are sure least lie on top."
    return [
        Figure(draw, f"Map of {drawn}, coloured by cluster", f"By cluster. {caption}", SIZE),
        Figure(partial(draw, color=color), f"The same map, coloured by {color}", f"By {color}. {least}", SIZE),
    ]
