"""Labels by which fits of other rows are compared: those that `predict` gives."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from small_fits import BRIEF

import bigsmic
from bigsmic.continuity import counting
from bigsmic.continuity.match import Counts, Match
from bigsmic.numerics.selection import Selection


def rows_of(n_columns, seed):
    """Rows of four clusters, with columns of noise besides the five that tell these apart."""
    X, _ = make_blobs(600, 5, centers=4, random_state=3)
    rng = np.random.default_rng(seed)
    return np.c_[X, rng.normal(size=(600, n_columns - 5)) * 0.3]


def test_rows_that_only_their_remainders_set_apart_are_compared_as_noise():
    earlier = bigsmic.fit(rows_of(80, 1), 4, noise=True, n_components=6, scale=None, **BRIEF)
    X = rows_of(80, 2)
    X[:60, 70:] += 6  # to which the components are blind
    assert (earlier.predict(X)[:60] == -1).all()
    np.testing.assert_array_equal(counting._predicted(earlier._context, X), earlier.predict(X))


@pytest.mark.parametrize("method", ["rim", "mspc"])
def test_rows_beyond_float32_are_compared_by_their_side_of_the_classifier(method):
    X, _ = make_blobs(300, 5, centers=4, random_state=3)
    fitted = bigsmic.fit(X, 4, method=method, n_threads=1)
    labels = counting._predicted(fitted._context, X * 1e45)
    np.testing.assert_array_equal(labels, fitted.predict(X * 1e45))
    assert len(np.unique(labels)) > 1


def test_rows_have_one_offset_in_selections_that_are_equal_as_far_as_both_go():
    mask = np.random.default_rng(0).random(160) < 0.5
    other = mask.copy()
    other[90] ^= True
    earlier, later, masked = (
        Selection(8, 8 + n, np.packbits(of[:n])) for n, of in ((100, mask), (160, mask), (160, other))
    )
    assert counting._shift(earlier, later) == 0
    assert counting._shift(earlier, masked) is None
    assert counting._shift(Selection(16, 116, np.packbits(mask[:100])), later) is None
    assert counting._shift(Selection(8, 108), later) is None
    assert counting._shift(Selection(8, 108), Selection(8, 168, np.packbits(np.arange(160) < 100))) == 0
    assert counting._shift(Selection(8, 108), Selection(0, 160)) == 8


def fit_of(start, stop, packed=None, precomputed=False):
    """What tells which rows a fit has."""
    return SimpleNamespace(
        run=Selection(start, stop, packed), n=stop - start, settings=SimpleNamespace(precomputed=precomputed)
    )


@pytest.mark.parametrize(
    ("later", "earlier", "offset"),
    [
        (fit_of(0, 300), fit_of(0, 100), 0),
        (fit_of(50, 300), fit_of(0, 100), -50),
        (fit_of(51, 300), fit_of(0, 100), None),  # less than half of the rows
        (fit_of(0, 50), fit_of(0, 100), 0),
        (fit_of(0, 49), fit_of(0, 100), None),
        (fit_of(0, 160, np.full(20, 7, np.uint8)), fit_of(0, 100), None),
        (fit_of(0, 100, None, True), fit_of(0, 100, None, True), 0),
        (fit_of(0, 99, None, True), fit_of(0, 100, None, True), None),
        (fit_of(0, 100), fit_of(0, 100, None, True), None),
        (fit_of(0, 100, None, True), fit_of(0, 100), None),
    ],
)
def test_common_rows_are_counted_if_they_are_half_of_the_earlier_ones(monkeypatch, later, earlier, offset):
    monkeypatch.setattr(counting.selected, "read", lambda run: run)
    monkeypatch.setattr(counting, "_is_equal", lambda *_: True)
    assert counting._offset(later, earlier) == offset
    if not later.settings.precomputed:
        monkeypatch.setattr(counting, "_is_equal", lambda *_: False)
        assert counting._offset(later, earlier) is None


def test_a_match_is_of_the_rows_of_both_fits_by_the_numbers_that_clusters_get():
    """Of 2 and 0, which cluster 0 of the later fit continues with the other's number, and one that was split."""
    stayed = np.array([[0, 0, 9, 0], [0, 8, 0, 7], [10, 0, 0, 0]])
    came = np.array([[0, 0, 5, 0], [0, 6, 0, 6], [4, 1, 0, 0]])
    assert Counts(stayed, stayed, "row number").rows == 34
    counts = Counts(stayed, came, "prediction")
    assert counts.rows == 34 + 22
    found = counts.match(np.arange(3), np.arange(4))
    assert found.continued == {0: 2, 1: 1, 2: 0}
    assert (found.new, found.vanished, found.splits) == ([3], [], {1: [1, 3]})
    numbered = found.renumbered([2, 1, 0, 3])
    assert list(numbered.continued.items()) == [(0, 0), (1, 1), (2, 2)]
    assert numbered.overlap == {0: found.overlap[2], 1: found.overlap[1], 2: found.overlap[0]}
    assert (numbered.new, numbered.splits, numbered.rows) == ([3], {1: [1, 3]}, 56)
    assert Match.of_document(json.loads(json.dumps(numbered.document()))) == numbered


def test_a_match_is_a_sentence_of_what_there_is_of_it():
    found = Match({0: 0, 2: 5}, {}, [3, 4], [1], {7: [3, 4]}, {2: [5, 1]}, 9, "prediction")
    assert str(found) == (
        "2 of 3 clusters continue (2 was 5); new: 3, 4; vanished: 1; 7 was split into 3, 4; 5, 1 were merged into 2."
    )
    assert Match({0: 0}, {}, [], [], {}, {}, 9, "row number").sentence == "1 of 1 clusters continue."
