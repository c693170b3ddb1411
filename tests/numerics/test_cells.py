from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bigsmic.errors import InputError
from bigsmic.numerics.graph import cells as cells_module
from bigsmic.numerics.graph.cells import Cells, PartitionSettings, build_cells, group_rows, probe, route

N, D = 6000, 7


def blobs(n=N, d=D, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(9, d))[rng.integers(9, size=n)] * 3 + rng.normal(size=(n, d))).astype(np.float32)


X = blobs()
CONFIG = PartitionSettings(N, cell_rows=40, overlap=5, candidates=150, group_rows=1500)
CELLS = build_cells(X, CONFIG)
ROUTED = route(X, np.arange(N), CELLS, 5)


def square_distances(A, B):
    return np.square(A[:, None].astype(np.float64) - B[None]).sum(axis=2)


def n_cells_of(routed):
    visits = routed[:, 1:] != routed[:, :1]
    return 1 + visits.sum(axis=1)


def test_cells_are_about_as_large_as_asked():
    sizes = np.bincount(ROUTED[:, 0], minlength=CELLS.n_cells)
    assert 0.7 * N / 40 < CELLS.n_cells < 1.5 * N / 40
    assert sizes.max() <= 2.5 * 40


def test_a_small_sample_makes_fewer_cells():
    cells = build_cells(X[:400], CONFIG)
    assert cells.n_cells <= 400 / 10 * 1.5


def test_home_is_the_nearest_site():
    nearest = square_distances(X, CELLS.sites).argmin(axis=1)
    assert (ROUTED[:, 0] == CELLS.first[nearest]).mean() > 0.99


def test_cells_are_the_nearest_ones_nearest_first_up_to_the_margin():
    squares = square_distances(X[:200], CELLS.sites)
    apart = np.sqrt(square_distances(CELLS.sites, CELLS.sites))
    for row, cells in zip(squares, ROUTED[:200], strict=True):
        near = np.argsort(row)[:5]
        gap = (row[near] - row[near[0]]) / np.maximum(2 * apart[near[0], near], 1e-9)
        wanted = [site for t, site in enumerate(near) if t < 2 or gap[t] <= CELLS.margin]
        got = [cells[0]] + [c for c in cells[1:] if c != cells[0]]
        assert got == wanted or np.abs(gap - CELLS.margin).min() < 1e-4


def test_the_beam_loses_little(monkeypatch):
    full = cells_module._nearest_sites(X, CELLS, 5)[0]
    monkeypatch.setattr(cells_module, "_BEAM", 4)
    beam = cells_module._nearest_sites(X, CELLS, 5)[0]
    assert len(CELLS.coarse) > 8
    assert (full[:, 0] == beam[:, 0]).mean() > 0.98


def test_rows_meet_as_many_candidates_as_asked_for():
    sizes = np.bincount(ROUTED[:, 0], minlength=CELLS.n_cells)
    met = sizes[ROUTED]
    met[:, 1:][ROUTED[:, 1:] == ROUTED[:, :1]] = 0
    assert met.sum(axis=1).mean() == pytest.approx(150, rel=0.1)


def test_more_candidates_more_visits():
    more = build_cells(X, replace(CONFIG, candidates=180))
    assert more.margin > CELLS.margin
    assert n_cells_of(route(X, np.arange(N), more, 5)).mean() > n_cells_of(ROUTED).mean()


def test_few_rows_visit_everything():
    cells = build_cells(X[:600], PartitionSettings(600, cell_rows=100))
    routed = route(X[:600], np.arange(600), cells, 16)
    assert (n_cells_of(routed) == len(cells.sites)).all()


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(1, 599), max_size=6))
def test_one_block_is_many_blocks(cuts):
    bounds = np.unique([0, *cuts, 600])
    parts = [route(X[a:b], np.arange(a, b), CELLS, 5) for a, b in pairwise(bounds)]
    assert (np.concatenate(parts) != ROUTED[:600]).any(axis=1).mean() < 0.01


def test_blocks_inside_a_call(monkeypatch):
    monkeypatch.setattr(cells_module, "_BLOCK_BYTES", 1)
    assert (route(X, np.arange(N), CELLS, 5) == ROUTED).mean() > 0.999


def test_same_settings_same_cells():
    again = build_cells(X, CONFIG).to_arrays()
    assert all(np.array_equal(array, again[name]) for name, array in CELLS.to_arrays().items())
    assert not np.array_equal(build_cells(X, replace(CONFIG, seed=1)).sites[:5], CELLS.sites[:5])


def test_cells_survive_storage():
    arrays = {name: np.array(array) for name, array in CELLS.to_arrays().items()}
    back = Cells.from_arrays(arrays)
    assert back.n_groups == CELLS.n_groups
    assert np.array_equal(route(X, np.arange(N), back, 5), ROUTED)


def test_groups_are_runs_of_cells_that_fit():
    assert (np.diff(CELLS.group) >= 0).all()
    assert set(CELLS.group) == set(range(CELLS.n_groups))
    members = [np.any(CELLS.group[ROUTED] == g, axis=1).sum() for g in range(CELLS.n_groups)]
    assert max(members) <= 1500
    assert CELLS.n_groups < 3 * N / 1500


def test_neighbouring_numbers_are_near():
    step = np.linalg.norm(np.diff(CELLS.sites, axis=0), axis=1).mean()
    shuffled = np.random.default_rng(0).permutation(CELLS.sites)
    assert step < 0.7 * np.linalg.norm(np.diff(shuffled, axis=0), axis=1).mean()


def test_coincident_rows_get_twins_chosen_by_row():
    Y = np.concatenate([X[:1000], np.repeat(X[:1], 2000, axis=0)])
    cells = build_cells(Y, replace(CONFIG, n_rows=len(Y)))
    routed = route(Y, np.arange(len(Y)), cells, 5)
    sizes = np.bincount(routed[1000:, 0])
    assert sizes[sizes > 0].max() < 4 * 40
    assert (sizes > 0).sum() >= 40
    part = route(Y[2000:2500], np.arange(2000, 2500), cells, 5)
    assert np.array_equal(part, routed[2000:2500])


def test_constant_rows_are_all_twins():
    Y = np.ones((1000, 3), np.float32)
    cells = build_cells(Y, PartitionSettings(1000, cell_rows=50))
    assert len(cells.sites) == 1
    assert np.bincount(route(Y, np.arange(1000), cells, 4)[:, 0], minlength=cells.n_cells).max() < 100


def test_two_values_and_one_odd_row():
    Y = np.zeros((901, 2), np.float32)
    Y[-1] = 7
    cells = build_cells(Y, PartitionSettings(901, cell_rows=30))
    assert sorted(cells.sites[:, 0]) == [0, 7]


@pytest.mark.parametrize("n", [1, 2, 5])
def test_tiny_data(n):
    cells = build_cells(X[:n], PartitionSettings(n))
    assert cells.n_cells == 1
    assert (route(X[:n], np.arange(n), cells, 3) == 0).all()


def test_no_rows_are_routed_nowhere():
    assert route(X[:0], np.arange(0), CELLS, 5).shape == (0, 5)


def test_probe_is_nearest_first():
    squares = square_distances(X[:300], CELLS.sites)
    exact = np.argsort(squares, axis=1)[:, :6]
    assert (probe(X[:300], CELLS, 6) == CELLS.first[exact]).mean() > 0.97


def test_group_rows_shrink_with_width():
    n = 10_000_000
    assert group_rows(n, 152) * 152 * 4 <= cells_module.ROW_BYTES
    assert group_rows(n, 2) == 200_000
    assert group_rows(n, 10**6) == 4096


@pytest.mark.parametrize("d", [2, 16, 64, 152, 784])
@pytest.mark.parametrize("n", [10**4, 10**6, 10**7])
def test_all_that_a_group_holds_is_bounded(n, d):
    held = group_rows(n, d) * (4 * d + cells_module.MEMBER_BYTES)
    assert held <= max(cells_module.GROUP_BYTES, 88 * n)


def test_there_are_groups_to_share_out_where_rows_are_few():
    assert [200_000 // group_rows(200_000, d) for d in (2, 16, 152)] == [4, 4, 4]  # and as many again of visitors
    assert group_rows(10_000, 2) > 10_000


def test_candidates_grow_with_the_root_of_the_rows_within_limits():
    assert PartitionSettings(100).candidates == 1000
    assert PartitionSettings(319_209).candidates == pytest.approx(3107, abs=1)
    assert PartitionSettings(10**8).candidates == 3 * 16 * 320 // 4
    assert PartitionSettings(10**8, candidates=7).candidates == 7


def test_refusals():
    with pytest.raises(InputError, match="sample of 0 rows"):
        build_cells(X[:0], CONFIG)
    with pytest.raises(InputError, match="cell_rows=0"):
        PartitionSettings(10, cell_rows=0)


def test_route_memory_is_predicted():
    import tracemalloc

    tracemalloc.start()
    route(X, np.arange(N), CELLS, 5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < cells_module.route_bytes(N, D, CELLS.n_cells, 5)
