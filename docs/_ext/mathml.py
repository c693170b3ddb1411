"""Formulas as MathML, which browsers render by themselves: no script, no font and no network."""

from docutils.nodes import SkipNode
from latex2mathml.converter import convert
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)


def inline(writer, node):
    """Write a formula within a line."""
    writer.body.append(translated(node, "inline"))
    raise SkipNode


def block(writer, node):
    """Write a formula on lines of its own."""
    writer.body.append(f'<div class="math">{translated(node, "block")}</div>')
    raise SkipNode


def translated(node, display):
    """MathML of a formula; a warning where a command of it is unknown."""
    formula = convert(node.astext(), display=display)
    if "\\" in formula:
        LOGGER.warning("formula with a command that latex2mathml does not know: %s", node.astext(), location=node)
    return formula


def setup(app):
    """Register the renderer."""
    app.add_html_math_renderer("mathml", inline_renderers=(inline, None), block_renderers=(block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
