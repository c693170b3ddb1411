"""Colours of clusters: distinct, seen on both grounds, and the same however many there are."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from bigsmic.errors import InputError
from bigsmic.plots import palette
from bigsmic.plots.palette import MOST, _linear, _seen

pytestmark = pytest.mark.unit


def luminance(colors):
    return _linear(np.array([to_rgb(color) for color in colors])) @ [0.2126, 0.7152, 0.0722]


def test_two_hundred_colors_differ_and_more_begin_anew():
    assert len(set(palette(200))) == 200
    assert palette(MOST + 2)[MOST:] == palette(2)
    assert palette(0) == []


def test_a_cluster_has_the_same_color_however_many_there_are():
    assert palette(200)[:7] == palette(7)


def test_colors_are_seen_on_white_and_on_black():
    found = luminance(palette(200))
    assert (1.05 / (found + 0.05)).min() > 2
    assert ((found + 0.05) / 0.05).min() > 3


def test_the_first_colors_are_told_apart_by_all_eyes():
    seen = _seen(np.array([to_rgb(color) for color in palette(8)]))
    apart = np.linalg.norm(seen[:, :, None] - seen[:, None], axis=3) + np.eye(8)
    assert apart.min() > 0.07  # of the usual cycle of matplotlib: 0.014


def test_greys_look_the_same_to_all_eyes():
    greys = np.repeat(np.linspace(0, 1, 5)[:, None], 3, axis=1)
    normal, *others = _seen(greys)
    for other in others:
        np.testing.assert_allclose(other, normal, atol=1e-3)


def test_a_number_of_colors_is_an_integer():
    with pytest.raises(InputError, match="n_colors: got -1; use at least 0"):
        palette(-1)
