"""Figures of a report are parts of the page: with identities of their own, the ink of the page, and a bounded size."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from bigsmic.report import Figure, figures

pytestmark = pytest.mark.unit

SVG = "{http://www.w3.org/2000/svg}"


def scatter(n):
    def draw(ax):
        x, y = np.random.default_rng(0).normal(size=(2, n))
        ax.scatter(x, y, c=y, s=2)
        ax.set(xlabel="<b> & co", title="0.123456789")

    return Figure(draw, 'a "scatter" <of> points', "caption", (4, 3))


def parsed(figure, prefix="f1"):
    return ET.fromstring(figures.inline_svg(figure, prefix))


def test_few_points_are_shapes_and_many_are_an_image_of_bounded_size():
    assert parsed(scatter(20)).find(f".//{SVG}image") is None
    many = figures.inline_svg(scatter(20_000), "f1")
    assert len(many) <= figures.MOST_IMAGE_BYTES
    assert ET.fromstring(many).find(f".//{SVG}image") is not None
    assert "".join(ET.fromstring(many).itertext()).count("<b> & co") == 1  # labels stay text


def test_text_and_axes_have_the_ink_of_the_page():
    found = figures.inline_svg(scatter(20), "f1")
    assert figures.INK not in found
    assert found.count("currentColor") > 10
    assert "0.123456789" in found


def test_letters_that_the_font_lacks_are_left_to_the_browser_without_a_warning():
    for n in (20, 20_000):
        figure = scatter(n)
        named = Figure(lambda ax, draw=figure.draw: (draw(ax), ax.set_title("暖機")), "points", "", (4, 3))
        assert "暖機" in "".join(parsed(named).itertext())


def test_the_name_of_a_figure_is_escaped():
    assert parsed(scatter(20)).get("aria-label") == 'a "scatter" <of> points'


def test_identities_of_two_figures_differ_and_references_are_met():
    a, b = (figures.inline_svg(scatter(20), prefix) for prefix in ("f1", "f2"))
    ids, others = (set(re.findall(r'\bid="([^"]*)"', svg)) for svg in (a, b))
    assert ids
    assert not ids & others
    asked = set(re.findall(r'(?:url\(#|xlink:href="#)([^")]*)', a))
    assert asked
    assert asked <= ids


def test_the_same_figure_is_the_same_bytes():
    assert figures.inline_svg(scatter(20), "f1") == figures.inline_svg(scatter(20), "f1")


def test_what_matplotlib_was_told_by_others_does_not_matter():
    import matplotlib

    plain = figures.inline_svg(scatter(20), "f1")
    with matplotlib.rc_context({"font.size": 30, "axes.grid": True, "text.color": "red"}):
        assert figures.inline_svg(scatter(20), "f1") == plain
        assert matplotlib.rcParams["font.size"] == 30
