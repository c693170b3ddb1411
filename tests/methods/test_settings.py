"""What is asked: filled in, checked at the door, cut to n, told apart."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from bigsmic import registry
from bigsmic.errors import BigsmicWarning, InputError
from bigsmic.settings.sequences import number_of_clusters
from bigsmic.settings.smic import Settings, resolve
from bigsmic.validation import parse_bytes, warn_of_cuts

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("chosen", "wanted"),
    [
        ({}, {"assignment": "merge", "selection": "consensus", "t": (5, 10), "kernels": ("normalized",)}),
        ({"assignment": "auto"}, {"selection": "lsmi", "t": (3, 5, 7, 10), "kernels": ("local_scaling", "normalized")}),
        ({"rotation": "auto"}, {"assignment": "auto", "assignments": ("paper", "rotation")}),
        ({"rotation": True}, {"assignment": "rotation", "selection": "lsmi"}),
        ({"rotation": False}, {"assignment": "paper", "assignments": ("paper",)}),
        ({"prior": [0.2, 0.8]}, {"assignment": "paper", "prior": (0.2, 0.8)}),
        ({"prior": [0.5, 0.5]}, {"assignment": "merge", "prior": None}),
        ({"prior": [0.2, 0.8], "rotation": "auto"}, {"assignment": "paper"}),
        ({"normalization": None}, {"kernels": ("local_scaling",)}),
        ({"kernel": np.add}, {"kernels": ("normalized",)}),
        ({"kernel": np.add, "assignment": "rotation"}, {"kernels": ("callable",)}),
        ({"kernel": np.add, "assignment": "rotation", "normalization": "symmetric"}, {"kernels": ("normalized",)}),
        ({"kernel": "precomputed", "normalization": None}, {"kernels": ("precomputed",)}),
        ({"rotation": True, "t": 4}, {"t": (4,), "assignment": "rotation"}),
        ({"t": (30, 3, 3)}, {"t": (30, 3), "n_neighbors": 30}),
        ({"t": np.int64(4)}, {"t": (4,), "n_neighbors": 20}),
    ],
)
def test_what_was_left_out_follows_from_what_was_given(chosen, wanted):
    settings = resolve(2, **chosen)
    assert {name: getattr(settings, name) for name in wanted} == wanted


def test_the_preset_is_as_published_and_gives_way():
    paper = resolve(3, preset="paper")
    assert (paper.kernels, paper.assignments) == (("local_scaling",), ("paper",))
    assert (paper.t, paper.n_centers, paper.repair, paper.selection) == (tuple(range(1, 11)), 200, False, "lsmi")
    assert resolve(3, preset="paper", t=(2,), repair=True).t == (2,)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("n_clusters", "3", r"c \(n_clusters\): got '3'; use an integer"),
        ("seed", 0.5, "seed: got 0.5; use an integer"),
        ("seed", None, "seed: got None; use an integer"),
        ("n_centers", 0, "n_centers: got 0; use at least 1"),
        ("n_neighbors", 0, "n_neighbors: got 0; use at least 1"),
        ("lsmi_rows", 1, "lsmi_rows: got 1; use at least 2"),
        ("max_matvecs", 0, "max_matvecs: got 0; use at least 1"),
        ("preset", "fast", "preset: got 'fast'; use one of"),
        ("scale", "minmax", "scale: got 'minmax'; use one of"),
        ("neighbors", "faiss", "neighbors: got 'faiss'; use one of"),
        ("repair", 1, "repair: got 1; use one of"),
        ("t", (5, 1001), "t: got 1001; use at most 1000"),
        ("t", (5, 2.0), "t: got 2.0; use an integer"),
        ("t", "5", "t: got '5'; use an integer, or several"),
        ("bandwidth", float("nan"), "bandwidth: got nan; use a positive number"),
        ("bandwidth", 1e300, r"bandwidth: got 1e\+300; use at most 3\.4e\+38, the largest float32"),
        ("bandwidth", "2", "bandwidth: got '2'; use a positive number"),
        ("widths", None, r"widths: got None; use factors of at least 1"),
        ("widths", (2, float("inf")), r"widths: got \(2, inf\); use factors of at least 1"),
        ("shrinkage", 1j, "shrinkage: got 1j; use numbers from 0 to 1"),
        ("shrinkage", (0, 1.5), r"shrinkage: got \(0, 1.5\); use numbers from 0 to 1"),
        ("shrinkage", (), r"shrinkage: got \(\); use numbers from 0 to 1"),
    ],
)
def test_what_cannot_be_used_is_refused(field, value, message):
    with pytest.raises(InputError, match=message):
        Settings(**{"n_clusters": 3} | {field: value})


@pytest.mark.parametrize(("n", "t", "k"), [(2, (1,), 1), (8, (5, 7), 7), (11, (5, 10), 10), (1000, (5, 10), 20)])
def test_settings_are_cut_to_n(n, t, k):
    settings, cuts = Settings(2).fitted_to(n)
    assert (settings.t, settings.n_neighbors, settings.n_centers) == (t, k, min(n, 800))
    assert ("t" in cuts) == (n < 11)
    assert ("n_centers" in cuts) == (n < 800)
    assert settings.fitted_to(n)[1] == {}


def test_cuts_of_what_was_given_are_warned_of():
    cuts = Settings(2).fitted_to(5)[1]
    warn_of_cuts(cuts, {"scale"})
    with pytest.warns(BigsmicWarning, match=r"t: \(5, 10\) cut to \(4,\): 5 rows have 4 neighbours"):
        warn_of_cuts(cuts, {"t"})


def test_identity_is_json_and_tells_settings_apart():
    def weight(squares, sigma_i, sigma_j):
        return squares

    stored = json.loads(json.dumps(Settings(3, t=np.array([3, 5])).identity()))
    assert stored["n_clusters"] == 3
    assert (stored["kernel"], stored["normalization"]) == ("local_scaling", "auto")
    assert Settings(3, kernel=weight).identity()["kernel"].startswith("callable test_settings.")
    identities = [
        replace(Settings(3), **change).identity() for change in ({}, {"seed": 1}, {"scale": None}, {"t": (3,)})
    ]
    assert all(a != b for i, a in enumerate(identities) for b in identities[:i])


@pytest.mark.parametrize(
    ("c", "wanted"),
    [
        *((4, (4, 0)), (None, (30, 1)), (range(2, 9), (8, 2)), ([3, 5], (5, 3))),
        *(((2, np.int64(3)), (3, 2)), ([2, 3, 4], (4, 2)), (np.arange(1, 4), (3, 1))),
    ],
)
def test_the_number_of_clusters_may_be_left_open(c, wanted):
    assert number_of_clusters(c) == wanted


@pytest.mark.parametrize("c", [[], ["a"], [None], object(), (4.0, 5), (True, 5), ("2", 5)])
def test_what_is_no_number_of_clusters_is_refused(c):
    with pytest.raises(InputError, match=r"c \(n_clusters\): got .*; use an integer, a range of integers, or None"):
        number_of_clusters(c)


@pytest.mark.parametrize("c", [[2, 3, 8], range(2, 9, 2), (5, 3), [3, 2, 1], (1, 1), [4], (0, 5), (-2, 5), [2, 2, 3]])
def test_what_is_no_range_is_refused(c):
    message = rf"c \(n_clusters\): got {re.escape(repr(c))}; a range is \(least, most\), such as \(2, 8\), or all"
    for name in ("smic", "3smic"):
        with pytest.raises(InputError, match=message):
            registry.settings(name, c, {})


@pytest.mark.parametrize(
    ("size", "wanted"),
    [
        (None, None),
        (2048, 2048),
        (np.int64(1), 1),
        (1, 1),
        (1.5e9, 1_500_000_000),
        ("1GiB", 1 << 30),
        ("1.5 GiB", 3 << 29),
        ("800MB", 800_000_000),
        ("800m", 800_000_000),
        ("64 kib", 65536),
        ("1e9", 1_000_000_000),
        ("2TiB", 2 << 40),
        ("512b", 512),
    ],
)
def test_sizes(size, wanted):
    assert parse_bytes(size) == wanted


@pytest.mark.parametrize(
    "size",
    [
        *("", "GiB", "1 GoB", "-1GiB", "0", -5, 0, "nan", "1,5GiB", "inf", float("nan"), float("inf"), 10**400),
        *(0.5, "0.5", "0.9b", ".0001k", True, False, np.True_),
    ],
)
def test_what_is_no_size_is_refused(size):
    with pytest.raises(InputError, match=r"memory_limit: got .*; use a number of bytes, or a size such as '1GiB' or"):
        parse_bytes(size)
