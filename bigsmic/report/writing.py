"""Writing of the report of a Result to a file."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from bigsmic.engines import engine_for_rows
from bigsmic.engines.base import Engine
from bigsmic.errors import InputError, RunError
from bigsmic.report.details import Details
from bigsmic.report.document import Document, Section
from bigsmic.report.pages import (
    clusters,
    columns,
    continuity,
    costs,
    labelings,
    maps,
    number,
    relations,
    run,
    timeline,
    trust,
)
from bigsmic.report.rendering import MARK, first_line, needed, render
from bigsmic.report.subject import Subject
from bigsmic.spelling import refuse_unknown
from bigsmic.store import WrittenFile
from bigsmic.tables import count
from bigsmic.types import StorageOptions, StrPath
from bigsmic.version import __version__

READING = ("component", "missing_chunks")
"""Options for reading the archive."""
RUNNING = ("engine", "client", "scheduler", "n_threads")
"""Options of where tasks run."""
SUFFIXES = ("", ".html", ".htm")
"""Ends of the names of reports."""
Maker = Callable[[Subject], Section | None]
BEFORE: tuple[Maker, ...] = (run.section, trust.section, maps.section, clusters.section, columns.section)
AFTER: tuple[Maker, ...] = (continuity.section, relations.section, number.section, labelings.section, timeline.section)


def write(
    result: Any,
    path: StrPath,
    archive: Any = None,
    *,
    storage_options: StorageOptions = None,
    overwrite: bool = False,
    **options: Any,
) -> None:
    """Write the report of a result; see :meth:`bigsmic.Result.report`."""
    refuse_unknown("report", {*options}, {*READING, *RUNNING, *Details.names()})
    needed()
    place = WrittenFile(path, storage_options)
    admit(place, result._context.run.id, overwrite)
    context, reading, where = result._context, _taken(READING, options), _taken(RUNNING, options)
    details = Details.of((context.n, context.d), options, storage_options)
    subject = Subject.of(result, archive, {"storage_options": storage_options, **reading}, details)
    if not result.settings.undecided:  # otherwise there are no labels
        with _engine(subject, where) as engine:
            subject.look(engine)
    place.write(render(document(subject), datetime.now(UTC)).encode())


def _taken(names: Iterable[str], options: dict[str, Any]) -> dict[str, Any]:
    """Pop the options of these names."""
    return {name: options.pop(name) for name in names if name in options}


@contextmanager
def _engine(subject: Subject, where: dict[str, Any]) -> Iterator[Engine]:
    """The engine that reads blocks of the run and of the archive; this process if only it has the rows."""
    travels = subject.archive is None or subject.archive.travels
    with engine_for_rows(travels, **where) as opened:
        opened.reach(None, subject.run, None)
        yield opened


def document(subject: Subject) -> Document:
    """Sections of a report, as data."""
    first, last = ([make(subject) for make in makers] for makers in (BEFORE, AFTER))
    found = [*first, *last, *subject.own_sections, costs.section(subject)]
    facts = subject.result.diagnostics
    title = f"{_clusters(subject)} of {count(facts['rows'], 'row')}, by {subject.result.settings.method}"
    return Document(title, [section for section in found if section is not None], subject.run.id, __version__)


def _clusters(subject: Subject) -> str:
    return "Undecided clusters" if subject.result.settings.undecided else count(subject.n_clusters, "cluster")


def admit(place: WrittenFile, run: str, overwrite: bool) -> None:
    """Refuse to overwrite files that are not reports, and reports of other runs unless that was requested.

    Raises
    ------
    RunError
    InputError
        The name is that of another kind of file.
    """
    head = place.head()
    if head is not None and MARK.encode() not in head:
        raise RunError(f"out: {place.location} exists and is not a report of bigsmic; give another location")
    if place.suffix.lower() not in SUFFIXES:
        remedy = ", and print the page to PDF from a browser" if place.suffix.lower() == ".pdf" else ""
        raise InputError(f"out: got {place.location}, but a report is HTML; give a name that ends in .html{remedy}")
    if head is not None and not head.startswith(first_line(run).encode()) and not overwrite:
        raise RunError(
            f"out: {place.location} is the report of another run; give another location, or allow overwriting by "
            "overwrite="
        )
