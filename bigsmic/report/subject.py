"""Subject of a report: a Result, its archive if it is given, and names of columns."""

import math
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

from bigsmic import registry
from bigsmic.engines.base import Engine
from bigsmic.errors import AbsentResultError
from bigsmic.plots.maps import VALUES
from bigsmic.report.details import Details
from bigsmic.report.document import Finding, Section
from bigsmic.report.tally import Tallied, Tally
from bigsmic.stages import columns
from bigsmic.store import Source
from bigsmic.tables import shortened
from bigsmic.types import Integers
from bigsmic.views.clusters import Certain, ClusterTotals
from bigsmic.views.columns import ColumnTable, ColumnTotals, archive_of
from bigsmic.views.passes import AllLabels, OnMap, Sight

EXAMPLES = 3
"""Number of rows of each cluster that are listed."""


@dataclass
class Subject:
    """A finished run with everything that a report needs.

    Parameters
    ----------
    result : Result
    archive : Source, optional
        The rows of the run.
    details : Details
        Names, channels and times that the run lacks.
    """

    result: Any
    archive: Source | None = None
    details: Details = field(default_factory=Details)
    columns: ColumnTable | None = field(default=None, init=False)

    @classmethod
    def of(cls, result: Any, archive: Any, reading: dict[str, Any], details: Details) -> Self:
        """A run and its archive, which is opened and compared with the run's input.

        Raises
        ------
        InputError
            The archive cannot be read.
        RunMismatchError
            The archive has another shape or dtype than the rows of the run.
        """
        if archive is None:
            return cls(result, None, details)
        source = archive_of(result._context, "report", archive, reading)
        if not details.column_names:
            details = replace(details, column_names=source.column_names or columns.read(result._context.run))
        return cls(result, source, details)

    @property
    def run(self) -> Any:
        """The run directory."""
        return self.result._context.run

    @property
    def input(self) -> dict[str, Any]:
        """Input of the run: rows, columns, dtype."""
        found: dict[str, Any] = self.run.identity["input"]
        return found

    @property
    def archive_text(self) -> str:
        """Description of the archive."""
        if self.archive is not None:
            return self.archive.name
        if self.result.settings.precomputed:
            return "a graph, which has no columns to show"
        return "not given: there are no pages about columns; add them with --archive, or archive= in Python"

    def column_name(self, column: int) -> str:
        """Name of a column; without one, its number, or the numbers of its channel and within it."""
        names, per_channel = self.details.column_names, self.details.columns_per_channel
        if names:
            return shortened(names[column])
        return f"{column // per_channel}:{column % per_channel}" if per_channel else str(column)

    def look(self, engine: Engine) -> None:
        """Collect all statistics of rows that pages need, in one pass over blocks of the run and of the archive.

        Raises
        ------
        RunMismatchError
            Rows of the archive differ from those of the run.
        """
        columns, *_ = self.result._look(*self._sights(), source=self.archive, engine=engine)
        if self.archive is not None:
            self.columns = ColumnTable.of(self.result._context, columns)

    def _sights(self) -> list[Sight]:
        options = self.details
        found: list[Sight] = [] if self.archive is None else [ColumnTotals()]
        found += [ClusterTotals(), Tallied(), *(Certain(EXAMPLES, sign) for sign in (-1, 1))]
        found += [AllLabels()] if options.times is not None else []
        if self.map_rows is not None:
            found += [OnMap(name, options.map_rows, self.map_rows) for name in ("labels", VALUES[self.map_color])]
        method = registry.of(self.result.settings)
        return found + (list(method.sights(self.result)) if hasattr(method, "sights") else [])

    @cached_property
    def map_rows(self) -> Integers | None:
        """Numbers of the rows on the map; None without a map."""
        with suppress(AbsentResultError):
            return self.result.map(self.details.map_rows).rows if self.details.map_rows else None
        return None

    @property
    def map_color(self) -> str:
        """Measure of certainty that colours the map."""
        return "agreement" if self.compares_labelings else "posterior"

    @property
    def n_clusters(self) -> int:
        """Clusters of the fit; those that vanished since the run of ``like=`` are none of it."""
        return len(self.result.numbers)

    @cached_property
    def clusters(self) -> Any:
        """The table of clusters, without numbers that only an earlier run had."""
        return self.result.clusters.loc[self.result.numbers]

    @cached_property
    def valleys(self) -> Any:
        """Evidence for the number of clusters; None if the fit has none."""
        return getattr(self.result, "valleys", None)

    @property
    def threshold(self) -> float:
        """Standard errors from which on a valley separates clusters; nan if the fit tested none."""
        return math.nan if self.valleys is None else float(self.valleys.threshold)

    @property
    def compares_labelings(self) -> bool:
        """Whether the result is a consensus, so that agreement is informative."""
        return sum(row["chosen"] for row in self.result.diagnostics.get("candidates", [])) > 1

    @cached_property
    def tally(self) -> Tally:
        """Counts over all rows."""
        found: Tally = self.result._look(Tallied())[0]
        return found

    def cut_command(self, c: object = None) -> str:
        """Command for labels of `c` clusters, by default of the number that an open fit hints at."""
        if c is None:
            c = self.valleys.best if self.valleys is not None and self.valleys.best > 1 else "C"
        return f"bigsmic cut {shlex.quote(self.result.location)} -c {c} --out OTHER_RUN"

    @cached_property
    def own(self) -> Sequence[Section | Finding]:
        """Sections and findings of the fit's method."""
        method = registry.of(self.result.settings)
        return list(method.pages(self.result)) if hasattr(method, "pages") else []

    @property
    def own_findings(self) -> list[Finding]:
        """Findings of the method."""
        return [part for part in self.own if isinstance(part, Finding)]

    @property
    def own_sections(self) -> list[Section]:
        """Sections of the method."""
        return [part for part in self.own if isinstance(part, Section)]
