"""Tables and lines of text for people, at most 80 columns wide."""

import math
import textwrap
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

    Page = Iterable["str | Table"]

WIDTH = 80
GAP = 2  # between columns
WIDEST = 60  # of a cell, such as a name of a cluster; wider ones are folded
UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
Record = Mapping[str, Any]


def tables(records: Sequence[Record]) -> "list[str | Table]":
    """Lines and tables of records, one row each, at most :data:`WIDTH` wide.

    Cells wider than :data:`WIDEST` are folded. If a table is too wide, its headers get one word per line; then columns
    that are equal in all rows become a line above the table; then the columns are split into several tables with
    numbered rows.

    Parameters
    ----------
    records : sequence of dict
        Some may lack entries.

    Returns
    -------
    page : list of str and rich.table.Table
    """
    columns = _columns(records)
    if _width(columns, tall=False) <= WIDTH:
        return [_table(columns, tall=False)]
    if _width(columns, tall=True) <= WIDTH:
        return [_table(columns, tall=True)]
    same = {name: cells[0] for name, cells in columns.items() if len(cells) > 1 and len(set(cells)) == 1 and name}
    columns = {name: cells for name, cells in columns.items() if name not in same}
    lines = [folded(f"all       {', '.join(f'{_spoken(name)} {cell}' for name, cell in same.items())}")] if same else []
    return [*lines, *_shared_out(columns)]


def folded(text: str) -> str:
    """Lines of a text, wrapped at :data:`WIDTH`; continuation lines are indented to the text after the first gap.

    Words are never broken, so that paths stay whole.

    >>> print(folded("  scale      " + "divided by the standard deviation " * 3))
      scale      divided by the standard deviation divided by the standard deviation
                 divided by the standard deviation
    """
    return "\n".join(_folded(line) for line in text.splitlines())


def _folded(line: str) -> str:
    if len(line) <= WIDTH:
        return line
    text = line.lstrip()
    rest = text.partition("  ")[2].lstrip() or text
    lead = line[: len(line) - len(rest)]
    return textwrap.fill(
        line[len(lead) :],
        WIDTH,
        initial_indent=lead,
        subsequent_indent=" " * len(lead),
        break_long_words=False,
        break_on_hyphens=False,
    )


def rendered(page: "Page") -> str:
    """A page of lines and tables as text."""
    from rich.console import Console

    console = Console(width=WIDTH, color_system=None, force_terminal=False, force_jupyter=False)
    with console.capture() as captured:
        for item in page:
            console.print(item, markup=False, highlight=False, soft_wrap=isinstance(item, str))
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def count(number: int, singular: str, plural: str = "") -> str:
    """A number with its noun, in the singular for 1.

    >>> count(1, "row"), count(1234, "row"), count(2, "valley"), count(0, "axis", "axes")
    ('1 row', '1,234 rows', '2 valleys', '0 axes')
    """
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def bytes_text(size: float) -> str:
    """Bytes in readable form, such as ``"1.5 GiB"``."""
    power = min(int(math.log2(max(size, 1)) // 10), len(UNITS) - 1)
    return f"{size / 1024**power:.{max(power - 2, 0)}f} {UNITS[power]}"


def seconds_text(seconds: float) -> str:
    """Seconds in readable form: as minutes or hours if there are many.

    >>> seconds_text(0.04), seconds_text(75.2), seconds_text(600), seconds_text(9000)
    ('0.04 s', '75 s', '10.0 min', '2.5 h')
    """
    if seconds < 10:
        return f"{seconds:.2g} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"


def drawn_width(text: str) -> int:
    """Width of a text in letters; Chinese, Japanese and Korean ones are twice as wide.

    >>> drawn_width("axis"), drawn_width("加速度")
    (4, 6)
    """
    return sum(map(_width_of, text))


def _width_of(letter: str) -> int:
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def shortened(name: str, most: int = 24) -> str:
    """A long name without its middle, as names mostly differ at their ends.

    >>> shortened("amplitude"), shortened("peak amplitude at the first wire", 12), shortened("平均加速度の値", 12)
    ('amplitude', 'peak a..wire', '平均加..の値')
    """
    if drawn_width(name) <= most:
        return name
    end = (most - 2) * 2 // 5
    return f"{first_letters(name, most - 2 - end)}..{first_letters(name[::-1], end)[::-1]}"


def first_letters(text: str, most: int) -> str:
    """The first letters of a text, as many as have this width, as :func:`drawn_width` counts it."""
    return text[: bisect_right([*accumulate(map(_width_of, text[: most + 1]))], most)]


# -- columns: cells by the name of the column


def _columns(records: Sequence[Record]) -> dict[str, list[str]]:
    names = dict.fromkeys(name for record in records for name in record)
    return {name: [_cell(record.get(name, "")) for record in records] for name in names}


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "✓" if value else ""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _spoken(name: str) -> str:
    return name.replace("_", " ")


def _width(columns: Mapping[str, list[str]], tall: bool) -> int:
    return sum(_column_width(*column, tall) + GAP for column in columns.items()) - GAP


def _column_width(name: str, cells: list[str], tall: bool) -> int:
    texts = [*(_spoken(name).split() if tall else [_spoken(name)]), *cells]
    return min(max(map(drawn_width, texts), default=0), WIDEST)


def _table(columns: Mapping[str, list[str]], tall: bool) -> "Table":
    from rich.table import Table

    shown = Table(box=None, pad_edge=False, header_style="bold")
    for name, cells in columns.items():
        number = next((cell for cell in cells if cell), "").lstrip("-")[:1].isdigit()
        header = _spoken(name).replace(" ", "\n") if tall else _spoken(name)
        shown.add_column(header, justify="right" if number else "left", overflow="fold", max_width=WIDEST)
    for row in zip(*columns.values(), strict=True):
        shown.add_row(*row)
    return shown


def _shared_out(columns: dict[str, list[str]]) -> "list[str | Table]":
    """Split columns into tables; several tables have numbered rows."""
    if _width(columns, tall=True) <= WIDTH:
        return [_table(columns, tall=True)]
    numbers = {"no": [str(i + 1) for i in range(len(next(iter(columns.values()))))]}
    page: list[str | Table] = []
    part = dict(numbers)
    for name, cells in columns.items():
        if len(part) > 1 and _width(part | {name: cells}, tall=True) > WIDTH:
            page += [_table(part, tall=True), ""]
            part = dict(numbers)
        part[name] = cells
    return [*page, _table(part, tall=True)]
