"""Draws that depend on seed, stage and row alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigsmic.numerics import hashing
from bigsmic.numerics.hashing import generator, row_hash, row_uniform


def splitmix64(z):
    """Steele, Lea, Flood 2014, in Python's integers."""
    mask = (1 << 64) - 1
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


def test_the_mixer_is_splitmix64():
    from bigsmic.numerics.hashing import _splitmix

    values = [0, 1, 2**63, 0x9E3779B97F4A7C15, 2**64 - 1]
    with np.errstate(over="ignore"):
        assert [int(bits) for bits in _splitmix(np.array(values, np.uint64))] == [splitmix64(v) for v in values]


@given(st.integers(-(2**70), 2**70), st.text(max_size=9), st.lists(st.integers(0, 2**40), min_size=1, max_size=30))
def test_a_row_draws_the_same_in_any_company(seed, stage, rows):
    together = row_hash(seed, stage, rows)
    assert [int(row_hash(seed, stage, row)) for row in rows] == together.tolist()
    np.testing.assert_array_equal(row_hash(seed, stage, np.array(rows)[::-1]), together[::-1])


def test_draws_are_pinned():
    """Runs are resumed by later versions: these numbers stay."""
    assert row_hash(0, "sample", [0, 1, 2**33]).tolist() == [
        2142701276108755560,
        9217515786516731553,
        15855771810615260617,
    ]
    assert generator(3, "cells").integers(0, 1000, 3).tolist() == [236, 192, 763]


def test_uniform_draws_are_uniform_and_independent():
    rows = np.arange(200_000)
    draws = [row_uniform(seed, stage, rows) for seed, stage in ((0, "a"), (1, "a"), (0, "b"))]
    for draw in draws:
        assert draw.min() >= 0
        assert draw.max() < 1
        counts = np.bincount((draw * 100).astype(int), minlength=100)
        assert np.square(counts - 2000).sum() / 2000 < 150  # chi squared with 99 degrees of freedom
        assert abs(np.corrcoef(draw[1:], draw[:-1])[0, 1]) < 0.01
    assert np.abs(np.corrcoef(draws) - np.eye(3)).max() < 0.01


def test_a_seed_may_be_any_integer():
    assert generator(-1, "x").integers(10**9) == generator(2**64 - 1, "x").integers(10**9)
    assert int(row_hash(-1, "x", 0)) != int(row_hash(1, "x", 0))


@pytest.mark.parametrize("count", [0, 1, 2, 5, 8, 9, 1000])
def test_spots_have_both_ends_and_change_with_the_seed(count):
    found = [hashing.spot_checks(count, seed, "spots") for seed in range(20)]
    for spots in found:
        assert spots == sorted(set(spots))
        assert {0, count - 1} <= set(spots) <= set(range(count)) or not count
        assert min(count, 2) <= len(spots) <= hashing.SPOTS
    if count == 1000:
        assert len(set(map(tuple, found))) == len(found)
