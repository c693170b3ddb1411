"""Contents of a report as plain data: sections of paragraphs, facts, findings, tables and figures.

Methods add sections of their own from the same parts; see :mod:`bigsmic.methods`. Nothing here is HTML: text is text,
and is escaped when it is rendered.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

MOST_ROWS = 300
"""Largest number of rows of a table that are shown."""

WIDTH = 6.4
"""Width of a figure as wide as the page, in inches."""

Level: TypeAlias = Literal["good", "note", "warning"]
Cell: TypeAlias = str | int | float | bool | None


@dataclass(frozen=True)
class Paragraph:
    """Sentences."""

    text: str


@dataclass(frozen=True)
class Command:
    """A command line."""

    text: str


@dataclass(frozen=True)
class Facts:
    """Names and values, two columns without a heading."""

    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Finding:
    """A finding that matters before a result is used, with its numbers and a remedy.

    Parameters
    ----------
    level : {"good", "note", "warning"}
    text : str
    remedy : str
    """

    level: Level
    text: str
    remedy: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of cells under names of columns.

    Parameters
    ----------
    columns : sequence of str
    rows : sequence of sequence of str, int, float, bool or None
    caption : str
        What the table shows, and what its columns mean.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""

    @property
    def shown(self) -> Sequence[Sequence[Cell]]:
        """The rows that are shown."""
        return self.rows[:MOST_ROWS]

    @property
    def left_out(self) -> int:
        """Number of rows that are not shown."""
        return max(0, len(self.rows) - MOST_ROWS)

    @cached_property
    def are_numeric(self) -> list[bool]:
        """Whether all entries of each column are numbers, apart from empty ones."""
        return [self._is_numeric(column) for column in range(len(self.columns))]

    def _is_numeric(self, column: int) -> bool:
        cells = self._cells(column)
        return bool(cells) and all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in cells)

    def _cells(self, column: int) -> list[Any]:
        return [row[column] for row in self.rows if row[column] is not None]

    @cached_property
    def decimals(self) -> list[int | None]:
        """Number of decimals for each column; None if no number suits all of its entries."""
        return [self._decimals(column) if numeric else None for column, numeric in enumerate(self.are_numeric)]

    def _decimals(self, column: int) -> int | None:
        sizes = [abs(cell) for cell in self._cells(column) if cell and math.isfinite(cell)]
        if not sizes or all(isinstance(cell, int) for cell in self._cells(column)):
            return None
        power = math.floor(math.log10(max(sizes)))
        if not -5 < power < 9:
            return None
        found = max(0, 3 - power) if power >= 0 else 2 - power
        return found if min(sizes) >= 10**-found else None


@dataclass(frozen=True)
class Figure:
    """A figure, drawn when the report is rendered.

    Parameters
    ----------
    draw : callable
        ``draw(ax=ax)`` draws into axes of matplotlib.
    alt : str
        Description for readers who cannot see it.
    caption : str
    size : tuple of float
        Width and height in inches, with text of 11 points; a page is as wide as :data:`WIDTH`.
    """

    draw: Callable[..., Any]
    alt: str
    caption: str = ""
    size: tuple[float, float] = (WIDTH, 3.4)


Part: TypeAlias = Paragraph | Command | Facts | Finding | Table | Figure


@dataclass(frozen=True)
class Section:
    """A part of the report with a heading.

    Parameters
    ----------
    name : str
        Name of its anchor: letters, digits and hyphens.
    title : str
    parts : sequence of Paragraph, Command, Facts, Finding, Table or Figure
    """

    name: str
    title: str
    parts: Sequence[Part]


@dataclass(frozen=True)
class Document:
    """A report.

    Parameters
    ----------
    title : str
    sections : sequence of Section
    run : str
        Identity of the run; a later report of the same run may overwrite this one.
    version : str
        Of bigsmic.
    """

    title: str
    sections: Sequence[Section]
    run: str
    version: str
