"""Clusters that persist as sparse rows are taken away: against all choices of clusters, and on plain hierarchies."""

import numpy as np
import pytest

from bigsmic.numerics.labeling.density_tree import ABSENT, clusters


def every_choice(components, limits, rows, level, born, least):
    """Sets of rows and total persistences of all choices of disjoint clusters within a component, itself included."""
    stays, below, persistence = rows, level, 0.0
    while True:
        of = components[below - 1, stays] if below else np.full(len(stays), ABSENT)
        parts = [stays[of == k] for k in np.unique(of[of != ABSENT]) if (of == k).sum() >= least]
        left = parts[0] if len(parts) == 1 else stays[:0]
        persistence += (len(stays) - len(left)) * (1 / limits[below] - born)
        if len(parts) != 1:
            break
        stays, below = left, below - 1
    choices = [([rows], persistence)]
    if parts:
        of_parts = [every_choice(components, limits, part, below - 1, 1 / limits[below], least) for part in parts]
        combined = [([], 0.0)]
        for of_part in of_parts:
            combined = [(a + b, x + y) for a, x in combined for b, y in of_part]
        choices += combined
    return choices


def nested(rng, s, levels):
    """Random components that only fall apart as the limit falls, and lose rows."""
    components = np.zeros((levels, s), int)
    for level in range(levels - 2, -1, -1):
        above = components[level + 1]
        lost = (above == ABSENT) | (rng.random(s) < 0.1)
        components[level] = np.where(lost, ABSENT, 2 * above + (rng.random(s) < rng.choice([0, 0, 0.4])))
    return components


@pytest.mark.parametrize("seed", range(20))
def test_no_other_clusters_persist_longer(seed):
    rng = np.random.default_rng(seed)
    components, limits = nested(rng, 60, 6), np.sort(rng.uniform(0.2, 2, 6))
    choices = every_choice(components, limits, np.arange(60), 5, 0.0, 5)
    best, _ = max(choices, key=lambda choice: choice[1])
    found = clusters(components, limits, 5)
    if len(best) < 2:
        assert found == []
    else:
        assert sorted(tuple(c.rows) for c in found) == sorted(tuple(rows) for rows in best)
        for cluster in found:
            assert len(np.unique(components[cluster.level, cluster.rows])) == 1


def test_two_that_part_early_are_clusters_and_two_that_part_late_are_one():
    whole, apart = np.zeros(40, int), np.repeat([0, 1], 20)
    early = clusters(np.stack([apart, apart, whole]), np.array([0.1, 0.5, 1.0]), 10)
    assert [c.level for c in early] == [1, 1]
    np.testing.assert_array_equal(early[0].rows, np.arange(20))
    assert clusters(np.stack([apart, whole, whole]), np.array([0.5, 0.6, 1.0]), 10) == []


@pytest.mark.parametrize(("last", "n_found"), [(0.21, 2), (0.3, 0)])
def test_rows_persist_until_they_are_left_out(last, n_found):
    """Two of 20, from a limit of 0.5 on, have 40 (1 / last - 2); the 60 of which they are a part 20 / 1 + 40 / 0.5."""
    whole, fewer, apart = np.zeros(60, int), np.repeat([0, ABSENT], [40, 20]), np.repeat([0, 1, ABSENT], 20)
    found = clusters(np.stack([apart, fewer, whole]), np.array([last, 0.5, 1.0]), 10)
    assert len(found) == n_found


def test_crumbs_are_no_clusters_and_parts_of_the_whole_graph_need_not_persist():
    crumbs = np.repeat([0, 1, 2], [20, 17, 3])
    found = clusters(np.stack([crumbs, crumbs]), np.array([0.9, 1.0]), 10)
    assert [len(c.rows) for c in found] == [20, 17]


def test_equal_rows_have_no_distances():
    apart = np.repeat([0, 1], 20)
    assert len(clusters(np.stack([apart, apart]), np.array([0.0, 0.0]), 10)) == 2
