"""Parts of the graph that may be the answer, as its eigenvalues tell."""

import numpy as np
import pytest

from bigsmic.stages import graph_parts

PATH = 1 - np.cos(np.pi * np.arange(40) / 400)
GRID = np.sort(np.add.outer(PATH, PATH).ravel())[:40]


def _parts(monkeypatch, values, gap, most, k=2):
    """Number of parts of a graph of k equal pieces, whose eigenvalues are a gap apart from those within a piece."""
    between = [0.0, *[values[1] / gap] * (k - 1)]
    spectrum = 1 - np.sort(np.concatenate([between, np.repeat(values[1:], k)]))
    monkeypatch.setattr(graph_parts, "_plain_spectra", lambda *_: [spectrum, spectrum])
    return graph_parts.clear_parts(None, most, along_curves=False)


@pytest.mark.parametrize("k", [2, 3])
def test_only_long_parts_are_clear_however_large_the_gap(monkeypatch, k):
    assert _parts(monkeypatch, PATH, 1.05 * 2.2, k + 1, k) == k
    assert _parts(monkeypatch, PATH, 0.95 * 2.2, k + 1, k) is None
    assert _parts(monkeypatch, GRID, 50.0, k + 1, k) is None


def test_as_many_parts_as_clusters_are_shown_may_be_the_answer(monkeypatch):
    assert _parts(monkeypatch, PATH, 3.0, most=2) == 2
    assert _parts(monkeypatch, PATH, 3.0, most=1) is None


def test_the_scale_of_eigenvalues_which_falls_with_the_number_of_rows_does_not_count(monkeypatch):
    assert [_parts(monkeypatch, PATH * scale, 3.0, most=3) for scale in (0.1, 1.0, 20.0)] == [2, 2, 2]
