"""Figures as SVG within a page: text in the colour of the page, so that one figure is read on light and on dark.

What would be large as shapes, thousands of points, becomes an image within the SVG; labels stay text.
"""

import io
import re
import warnings
from typing import Any

from bigsmic.report.document import Figure

INK = "#010203"
"""Placeholder for the colour of text while a figure is drawn; a colour that no plot uses."""
MOST_BYTES = 250_000
"""Largest size of a figure as shapes; a larger one becomes an image."""
RESOLUTIONS = (160, 110, 75, 50)
"""Dots per inch of an image; the first that gives a small enough image is used."""
MOST_IMAGE_BYTES = 250_000

STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "bigsmic",
    "font.family": "sans-serif",
    "font.size": 11.0,
    "xtick.labelsize": 9.0,
    "ytick.labelsize": 9.0,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    **dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "axes.titlecolor", "xtick.color", "ytick.color"), INK
    ),
    "legend.frameon": False,
}
WITHOUT_DATE = {"Date": None, "Creator": None, "Format": None, "Type": None}


def inline_svg(figure: Figure, prefix: str) -> str:
    """Markup of a figure, for a page of HTML.

    Parameters
    ----------
    figure : Figure
    prefix : str
        Prefix of identifiers within the SVG, which must differ between figures of a page.

    Returns
    -------
    markup : str
    """
    from matplotlib.figure import Figure as Canvas
    from matplotlib.style import context

    with context(["default", STYLE]), warnings.catch_warnings():
        # Text stays text, for which the reader's browser has the letters that matplotlib's font lacks.
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from", UserWarning)
        canvas = Canvas(figsize=figure.size, layout="constrained")
        figure.draw(ax=canvas.add_subplot())
        found = _saved(canvas, 100)
        if len(found) > MOST_BYTES:
            found = _as_image(canvas)
    return _of_page(found, prefix, figure.alt)


def _as_image(canvas: Any) -> str:
    """The figure with what it draws as an image, and its text as text."""
    for axes in canvas.findobj(lambda artist: hasattr(artist, "transData")):
        for artist in (*axes.lines, *axes.collections, *axes.patches, *axes.images):
            artist.set_rasterized(True)
        axes.set_rasterization_zorder(None)
    for resolution in RESOLUTIONS:
        found = _saved(canvas, resolution)
        if len(found) <= MOST_IMAGE_BYTES:
            break
    return found


def _saved(canvas: Any, resolution: int) -> str:
    buffer = io.StringIO()
    canvas.savefig(buffer, format="svg", dpi=resolution, metadata=WITHOUT_DATE)
    return re.sub(r' (?:d|x|y)="[^"]*"', _shortened, buffer.getvalue())


def _shortened(coordinates: re.Match[str]) -> str:
    """Coordinates rounded to a hundredth of a point, which is not visible."""
    return re.sub(r"(\.\d\d)\d+", r"\1", coordinates[0])


def _of_page(svg: str, prefix: str, alt: str) -> str:
    """The SVG of a file as a part of a page: as wide as it is given room, with identities and colours of the page."""
    from markupsafe import escape

    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = re.sub(r"url\(#", f"url(#{prefix}-", svg)
    svg = re.sub(r'xlink:href="#', f'xlink:href="#{prefix}-', svg)
    svg = svg.replace(INK, "currentColor")
    opening, _, rest = svg.partition(">")
    (box,) = re.findall(r'viewBox="[^"]*"', opening)
    xmlns = 'xmlns:xlink="http://www.w3.org/1999/xlink" xmlns="http://www.w3.org/2000/svg"'
    return f'<svg {box} {xmlns} role="img" aria-label="{escape(alt)}">{rest}'
