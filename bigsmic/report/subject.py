"""What a report is about: a Result, where it can be reached the archive, and what their columns are called."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

from numpy.typing import NDArray

from bigsmic import registry
from bigsmic.errors import InputError, RunMismatchError
from bigsmic.report.details import Details
from bigsmic.report.document import Finding, Section
from bigsmic.report.tally import Tally
from bigsmic.report.words import shortened
from bigsmic.runtime.context import Context
from bigsmic.stages import selected
from bigsmic.store import Source, checksum, column_names, open_source
from bigsmic.views.columns import ColumnTable, column_table


@dataclass
class Subject:
    """A finished run as a report sees it.

    Parameters
    ----------
    result : Result
    archive : Source, optional
        The rows of the run.
    details : Details
        Names, channels and times that the run does not know.
    """

    result: Any
    archive: Source | None = None
    details: Details = field(default_factory=Details)

    @classmethod
    def of(cls, result: Any, archive: Any, reading: dict[str, Any], details: Details) -> Self:
        """A run and its archive, which is opened and compared with what the run is of.

        Raises
        ------
        InputError
            Nothing readable there.
        RunMismatchError
            The archive is of another shape or dtype than the rows of the run.
        """
        if archive is None:
            return cls(result, None, details)
        source = _opened(result, archive, reading)
        if not details.column_names:
            where = {name: reading[name] for name in ("component", "storage_options") if name in reading}
            details = replace(details, column_names=column_names(archive, **where))
        return cls(result, source, details)

    @property
    def run(self) -> Any:
        """The run directory."""
        return self.result._context.run

    @property
    def input(self) -> dict[str, Any]:
        """What the run is a run of: rows, columns, dtype."""
        found: dict[str, Any] = self.run.identity["input"]
        return found

    @cached_property
    def context(self) -> Context:
        """Context of the run, with the archive for source."""
        found: Context = self.result._context
        return Context(self.archive, found.run, found.settings)

    @property
    def archive_text(self) -> str:
        """What is said of the archive."""
        if self.archive is not None:
            return self.archive.name
        if self.result.settings.precomputed:
            return "a graph, which has no columns to show"
        return "not given: there are no pages about columns; add them with --archive, or archive= in Python"

    def column_name(self, column: int) -> str:
        """Name of a column: its number, where it was given none."""
        names = self.details.column_names
        return shortened(names[column]) if names else str(column)

    def blocks(self) -> Iterator[tuple[int, NDArray[Any]]]:
        """Blocks of the archive: number of the first row, and rows as stored; each is one that the run has scanned.

        Raises
        ------
        RunMismatchError
            Rows that are not those of the run.
        """
        context = self.context
        for s in context.source_blocks:
            lo, hi = (int(bound) for bound in context.source_bounds[s : s + 2])
            assert self.archive is not None
            X = self.archive.read(lo, hi)
            if checksum(X) != self.run.info("scan", s)["crc32"]:
                raise _another(f"rows {lo}:{hi} of {self.archive.name} are not those of {self.run.location}")
            yield lo, X

    @cached_property
    def columns(self) -> ColumnTable | None:
        """What is known of the columns in every cluster; None without an archive or without labels."""
        if self.archive is None or self.result.settings.undecided:
            return None
        return column_table(self.context, len(self.result.sizes), self.blocks())

    @cached_property
    def clusters(self) -> Any:
        """The table of clusters, without numbers that an earlier run had and this one has not."""
        return self.result.clusters.loc[self.result.numbers]

    @cached_property
    def valleys(self) -> Any:
        """What the fit says of the number of clusters; None where it looked for nothing."""
        return getattr(self.result, "valleys", None)

    @property
    def compares_labelings(self) -> bool:
        """Whether several labelings make up the result, so that agreement says something."""
        return sum(row["chosen"] for row in self.result.diagnostics.get("candidates", [])) > 1

    @cached_property
    def tally(self) -> Tally:
        """Counts over all rows."""
        return Tally.of(self.result._context)

    def cut_command(self, c: object = None) -> str:
        """What to type for labels of `c` clusters, by default of as many as an open fit hints at."""
        if c is None:
            c = self.valleys.best if self.valleys is not None and self.valleys.best > 1 else "C"
        return f"bigsmic cut {shlex.quote(self.result.location)} -c {c} --out OTHER_RUN"

    @cached_property
    def own(self) -> Sequence[Section | Finding]:
        """What the method of the fit adds of its own."""
        method = registry.of(self.result.settings)
        return list(method.pages(self.result)) if hasattr(method, "pages") else []

    @property
    def own_findings(self) -> list[Finding]:
        """What the method says to be known before the result is used."""
        return [part for part in self.own if isinstance(part, Finding)]

    @property
    def own_sections(self) -> list[Section]:
        """Sections of the method."""
        return [part for part in self.own if isinstance(part, Section)]


def _opened(result: Any, archive: Any, reading: dict[str, Any]) -> Source:
    """The rows of an archive that a run is of."""
    if result.settings.precomputed:
        raise InputError("report: the run is of a graph, which has no columns to show; leave archive= out")
    run = result._context.run
    source, known = selected.of_run(run, open_source(archive, **reading)), run.identity["input"]
    found = source.describe()
    differing = [name for name in ("rows", "columns", "dtype", "decoded") if found.get(name) != known.get(name)]
    if differing:
        said = ", ".join(f"{found.get(name)} {name} where the run has {known.get(name)}" for name in differing)
        raise _another(f"{source.name} has {said}")
    return source


def _another(why: str) -> RunMismatchError:
    return RunMismatchError(f"report: {why}; give the archive that the run was made of, as it was then, or none")
