"""From a Result to the file of its report."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from bigsmic.errors import OptionError, RunError
from bigsmic.report.document import Document, Section
from bigsmic.report.pages import clusters, costs, labelings, number, run, trust
from bigsmic.report.rendering import MARK, first_line, needed, render
from bigsmic.report.subject import Subject, checked_names
from bigsmic.store import WrittenFile
from bigsmic.types import StorageOptions, StrPath
from bigsmic.version import __version__

READING = ("component", "missing_chunks")
"""Options that say how the archive is read."""
BEFORE: tuple[Callable[[Subject], Section | None], ...] = (run.section, trust.section, clusters.section)
AFTER: tuple[Callable[[Subject], Section | None], ...] = (number.section, labelings.section)


def write(
    result: Any,
    path: StrPath,
    archive: Any = None,
    *,
    column_names: Sequence[str] | None = None,
    storage_options: StorageOptions = None,
    overwrite: bool = False,
    **reading: Any,
) -> None:
    """Write the report of a result; see :meth:`bigsmic.Result.report`."""
    _refuse_others(reading)
    needed()
    place = WrittenFile(path, storage_options)
    _admit(place, result._context.run.id, overwrite)
    names = None if column_names is None else checked_names(column_names)
    subject = Subject.of(result, archive, names, {"storage_options": storage_options, **reading})
    place.write(render(document(subject), datetime.now(UTC)).encode())


def document(subject: Subject) -> Document:
    """Sections of a report, as data."""
    first, last = ([make(subject) for make in makers] for makers in (BEFORE, AFTER))
    found = [*first, *last, *subject.own_sections, costs.section(subject)]
    facts = subject.result.diagnostics
    title = f"Clusters of {facts['rows']:,} rows by {subject.result.settings.method}"
    return Document(title, [section for section in found if section is not None], subject.run.id, __version__)


def _refuse_others(reading: dict[str, Any]) -> None:
    others = sorted({*reading} - {*READING})
    if others:
        raise OptionError(f"report: got {', '.join(others)}, which it does not have; it has {', '.join(READING)}")


def _admit(place: WrittenFile, run: str, overwrite: bool) -> None:
    """Refuse to write over what is no report, and over the report of another run unless it was asked for."""
    head = place.head()
    if head is None or head.startswith(first_line(run).encode()):
        return
    if MARK.encode() not in head:
        raise RunError(f"out: {place.location} is there and is no report of bigsmic; give another place")
    if not overwrite:
        raise RunError(
            f"out: {place.location} is the report of another run; give another place, or allow that by overwrite="
        )
