"""Rendering of a document as one self-contained HTML page, without scripts, network or other files."""

import math
from datetime import datetime
from importlib.resources import files
from importlib.util import find_spec
from typing import Any

from bigsmic.errors import InputError
from bigsmic.report.document import Cell, Document, Figure
from bigsmic.report.figures import inline_svg

MARK = "bigsmic report"
"""Mark in the first line of every report, with the identity of the run."""
MOST_BYTES = 3_000_000
ROOM = 500_000
"""Largest number of bytes of tables and text."""


def first_line(run: str) -> str:
    """First line of every report of a run."""
    return f"<!doctype html><!-- {MARK} of run {run} -->"


def render(document: Document, written: datetime) -> str:
    """HTML of a document.

    Parameters
    ----------
    document : Document
    written : datetime
        Time of writing, in which alone two reports of one run differ.

    Returns
    -------
    html : str

    Raises
    ------
    InputError
        The extra ``report`` is not installed.
    """
    template = _environment().get_template("report.html")
    style = files("bigsmic.report").joinpath("report.css").read_text("utf-8")
    date = written.isoformat(sep=" ", timespec="minutes")
    return template.render(document=document, style=style, first_line=first_line(document.run), date=date)


def _environment() -> Any:
    needed()
    from jinja2 import Environment, PackageLoader, StrictUndefined

    found = Environment(
        loader=PackageLoader("bigsmic.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {"cell": cell_text, "kind": lambda part: type(part).__name__, "svg": _Drawn().markup}
    return found


def needed(with_map: bool = False) -> None:
    """Raise InputError if the packages for reports, or also that for their maps, are not installed."""
    missing = None
    try:
        import jinja2  # noqa: F401
        import matplotlib  # noqa: F401
    except ImportError as error:
        missing = error.name
    if with_map and missing is None and find_spec("openTSNE") is None:  # which takes a second to load
        missing = "openTSNE"
    if missing is not None:
        raise InputError(f"report: {missing} is not installed; pip install 'bigsmic[report]' installs it")


class _Drawn:
    """Figures of a page, within a limit of its size."""

    def __init__(self) -> None:
        self.n_bytes = 0

    def markup(self, figure: Figure, prefix: str) -> Any:
        """Markup of a figure, or of a sentence in place of it; both are escaped."""
        from markupsafe import Markup

        found = inline_svg(figure, prefix)
        if self.n_bytes + len(found) > MOST_BYTES - ROOM:
            return Markup("<p>This figure is left out, with which the report would be too large: {}.</p>").format(
                figure.alt
            )
        self.n_bytes += len(found)
        return Markup(found)


def cell_text(value: Cell, decimals: int | None = None) -> str:
    """A value as text; numbers other than integers have `decimals`, or four significant digits.

    >>> cell_text(12345), cell_text(0.123456), cell_text(True), cell_text(float("inf"))
    ('12,345', '0.1235', 'yes', '∞')
    >>> cell_text(12.3, 2), cell_text(3, 2)
    ('12.30', '3')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "\N{EN DASH}"
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        text = f"{value:.4g}" if decimals is None else f"{value:,.{decimals}f}"
        return text if math.isfinite(value) else ("∞" if value > 0 else "-∞")
    return value
