"""Features of windows: what their formulas say of them, each window for itself."""

import itertools

import numpy as np
import pytest

from bigsmic.numerics.hashing import draw_rows
from bigsmic.numerics.selection import PAGE, Selection, reservoir, spans
from bigsmic.numerics.windows import spectral, summary
from bigsmic.numerics.windows.smoothness import smoothness
from bigsmic.numerics.windows.validity import any_in_windows, irregular, period_of


@pytest.fixture
def W():
    return np.random.default_rng(0).normal(size=(3, 20, 64)) * [[[1.0]], [[10.0]], [[0.1]]] + 3


def test_the_summary_is_its_formulas(W):
    found = dict(zip(summary.names("xyz"), summary.features(W).T, strict=True))
    for i, name in enumerate("xyz"):
        x = W[i]
        np.testing.assert_allclose(found[f"{name}.mean"], x.mean(axis=1))
        np.testing.assert_allclose(found[f"{name}.std"], x.std(axis=1))
        for q in summary.QUANTILES:
            np.testing.assert_allclose(found[f"{name}.q{round(100 * q):02d}"], np.quantile(x, q, axis=1))
        np.testing.assert_allclose(found[f"{name}.range"], np.ptp(x, axis=1))
        above = x > x.mean(axis=1, keepdims=True)
        np.testing.assert_allclose(found[f"{name}.crossings"], (above[:, 1:] != above[:, :-1]).mean(axis=1))
        np.testing.assert_allclose(found[f"{name}.jerk"], np.sqrt((np.diff(x, axis=1) ** 2).mean(axis=1)))
    expected = [np.corrcoef(W[0, k], W[2, k])[0, 1] for k in range(20)]
    np.testing.assert_allclose(found["x~z.correlation"], expected)


def test_constant_channels_have_no_correlation_and_no_spectrum(W):
    W[1] = 7.0
    found = dict(zip(summary.names("xyz"), summary.features(W).T, strict=True))
    assert (found["x~y.correlation"] == 0).all()
    assert (found["y.std"] == 0).all()
    of_spectrum = dict(zip(spectral.names("xyz", 64), spectral.features(W).T, strict=True))
    assert all((column == 0).all() for name, column in of_spectrum.items() if name.startswith("y."))
    assert np.isfinite(np.array(list(of_spectrum.values()))).all()


@pytest.mark.parametrize("length", [50, 1000])
def test_channels_that_stand_at_a_number_of_decimals_are_constant(length):
    """The mean of many equal numbers is another one in the last digits, of which all deviations would be alike."""
    values = np.arange(-200, 200).reshape(2, 200) / 10
    W = np.repeat(values[..., None], length, axis=2)
    found = dict(zip(summary.names("xy"), summary.features(W).T, strict=True))
    for name in ("x.std", "y.std", "x.crossings", "x.jerk", "x.range", "x~y.correlation"):
        assert (found[name] == 0).all()
    np.testing.assert_array_equal([found["x.mean"], found["y.mean"]], values)
    assert (spectral.features(W) == 0).all()


def test_many_channels_are_correlated_with_the_next_ones():
    assert len(summary.names([str(i) for i in range(8)])) == 80 + 28
    assert len(summary.names([str(i) for i in range(20)])) == 200 + 19


@pytest.mark.parametrize("length", [8, 63, 64, 100])
def test_the_spectrum_is_that_of_the_tapered_window(length):
    x = np.random.default_rng(1).normal(size=length)
    taper = np.hanning(length + 1)[:-1]
    P = np.abs(np.fft.fft((x - x.mean()) * taper)) ** 2 / (length * (taper**2).sum())
    frequency = np.abs(np.fft.fftfreq(length))
    edges = spectral.bands(length)
    expected = [
        np.sqrt(P[(frequency > lo) & (frequency <= hi) & (frequency > 0)].sum()) for lo, hi in itertools.pairwise(edges)
    ]
    found = spectral.features(x[None, None])[0]
    np.testing.assert_allclose(found[: len(edges) - 1], expected)
    used = frequency > 0
    np.testing.assert_allclose(found[-2], (P * frequency)[used].sum() / P[used].sum())


def test_a_line_and_noise_are_told_apart():
    t = np.arange(256) / 32
    line = np.sin(2 * np.pi * 4 * t)
    noise = np.random.default_rng(0).normal(size=256)
    names = spectral.names(["x"], 256, rate=32)
    of_line, of_noise = spectral.features(np.stack([line, noise])[None], rate=32)
    assert of_line[names.index("x.centroid")] == pytest.approx(4, rel=0.01)
    assert of_line[names.index("x.entropy")] < 0.3 < 0.8 < of_noise[names.index("x.entropy")]
    assert of_line[names.index("x.to_4Hz")] + of_line[names.index("x.to_8Hz")] > 0.69  # of a variance of a half
    assert names[-3:] == ["x.to_16Hz", "x.centroid", "x.entropy"]


def test_windows_with_flags_are_found():
    flags = np.zeros(50, bool)
    flags[[0, 23]] = True
    found = any_in_windows(flags, 10, 3)
    expected = [flags[i : i + 10].any() for i in range(0, 41, 3)]
    np.testing.assert_array_equal(found, expected)


def test_times_that_jump_stand_still_or_go_back():
    times = np.array([0, 10, 20, 29, 41, 60, 70, 70, 60, 70.0, np.nan, 90])
    assert period_of(times[:5]) == 10
    assert period_of(np.array([0, 10, np.nan, 30, 40.0])) == 10
    assert period_of(np.array([0, np.nan])) == 0
    found = np.flatnonzero(irregular(times, 10.0))
    np.testing.assert_array_equal(found, [5, 7, 8, 10, 11])


def test_recordings_are_told_from_tables():
    rng = np.random.default_rng(0)
    sorted_table = np.repeat(rng.normal(0, 5, (5, 3)), 800, axis=0) + rng.normal(size=(4000, 3))
    t = np.arange(4000) / 10
    movement = np.sin(np.pi * t)[:, None] + 0.3 * rng.normal(size=(4000, 3))
    assert not smoothness(rng.normal(size=(4000, 3))).is_recording
    assert not smoothness(sorted_table).is_recording
    assert smoothness(movement).is_recording
    assert smoothness(rng.normal(size=(4000, 3)).cumsum(axis=0)).is_recording
    assert not smoothness(np.ones((4000, 3))).is_recording


def test_a_reservoir_has_the_rows_that_are_drawn():
    for n, count in ((1001, 90), (40, 90)):
        selection = reservoir(n, count, 3)
        np.testing.assert_array_equal(selection.numbers(0, len(selection)), draw_rows(n, count, 3, "reservoir"))


@pytest.mark.parametrize("share", [0.0, 0.3, 0.999])
def test_the_rows_of_a_selection(share):
    n = 3 * PAGE + 17
    mask = np.random.default_rng(0).random(n) >= share
    mask[PAGE : 2 * PAGE] = False
    expected = 5 + np.flatnonzero(mask)
    selection = Selection(5, 5 + n, np.packbits(mask))
    assert len(selection) == len(expected)
    some = [len(expected) * share // 6 for share in (2, 3, 5)]  # the last of another page than the first
    for lo, hi in ((0, len(expected)), (0, 0), (1, 2), (some[0], some[1]), (some[2], len(expected) - 3)):
        np.testing.assert_array_equal(selection.numbers(lo, hi), expected[lo:hi])
    np.testing.assert_array_equal(Selection(5, 9).numbers(1, 3), [6, 7])


def test_spans_cover_the_rows_and_no_more_than_they_may():
    numbers = np.array([3, 4, 9, 500, 501, 502, 900])
    found = list(spans(numbers, 10))
    np.testing.assert_array_equal(np.concatenate([span.lo + span.taken for span in found]), numbers)
    assert [(span.lo, span.hi) for span in found] == [(3, 10), (500, 503), (900, 901)]
