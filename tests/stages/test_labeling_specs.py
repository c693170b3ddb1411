"""Which eigenvectors are read, and which labelings form a consensus together."""

import numpy as np
import pytest

from bigsmic.settings.smic import SHRINKAGES, Settings, resolve
from bigsmic.stages.labeling_specs import (
    LabelingSpecs,
    are_long,
    clearest_gap,
    eigengap,
    eigenproblems,
    eigenvector_sets,
    fine_columns,
    growth,
    growth_after,
    valley_columns,
)

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("c", "n", "widths", "found"),
    [
        (10, 1000, (1.5, 2, 2.5), [(15, 20, 25)]),
        (2, 1000, (1.5, 1.6, 2), [(3, 4)]),  # distinct
        (10, 50, (1.0, 1.5, 2), [(10, 15, 16)]),  # a third of the rows at most
        (10, 30, (1.5, 2), []),  # no room above c
        (10, 1000, ((1.5, 2, 2.5), (1, 1.25, 1.5), (3, 4, 6)), [(15, 20, 25), (10, 12, 15), (30, 40, 60)]),
        (33, 9999, ((1.5, 2, 2.5), (2, 3, 4), (3, 4, 6)), [(50, 66, 82), (66, 99)]),  # 100 columns at most
        (60, 9999, ((1.5, 2, 2.5), (2, 3, 4)), [(90, 120, 150)]),  # the first eigenvector set may have more
    ],
)
def test_windows(c, n, widths, found):
    assert eigenvector_sets(resolve(c, widths=widths), n)[: len(found)] == found
    assert len(eigenvector_sets(resolve(c, widths=widths), n)) >= len(found)


@pytest.mark.parametrize(
    ("c", "n", "found"),
    [
        (10, 9999, [(10, 15, 20), (20, 30, 40), (30, 40, 60)]),
        (26, 9999, [(26, 39, 52), (52, 78)]),
        (60, 9999, [(60, 90, 120)]),
        (10, 90, [(10, 15, 20), (20, 30)]),
    ],
)
def test_default_sets_are_as_many_as_fit(c, n, found):
    assert eigenvector_sets(resolve(c), n) == found


@pytest.mark.parametrize(
    ("c", "n", "options", "found"),
    [
        (2, 600, {}, (12, 16, 24)),
        (3, 900, {}, (18, 24, 36)),
        (4, 9999, {}, ()),  # too many columns
        (2, 599, {}, ()),  # too few rows for them
        (2, 9999, {"selection": "medoid"}, ()),
        (2, 9999, {"widths": (3, 4, 6)}, ()),
    ],
)
def test_few_clusters_have_fine_sets(c, n, options, found):
    settings = resolve(c, **options)
    assert fine_columns(settings, n) == found
    specs = LabelingSpecs(settings, n)
    assert {specs[b].n_eigenvectors for w in specs.fine_sets for b in specs.sets[w]} == set(found)
    assert specs.most_eigenvectors == max(found or (6 * c,))
    assert {specs[b].n_eigenvectors for b in specs.by_valleys} <= {6 * c}
    assert specs.sets[specs.fine_sets.start - 1] == specs.plain or not found


def test_columns_take_the_place_of_windows():
    from dataclasses import replace

    settings = replace(resolve(10), n_clusters=16, columns=(15, 20, 25))
    assert eigenvector_sets(settings, 1000) == [(20, 25)]


def test_every_problem_is_read_in_every_width_once():
    settings = resolve(10, widths=((1.5, 2), (2, 3)))
    specs = LabelingSpecs(settings, 1000)
    assert len({spec.name for spec in specs}) == len(specs) == 4 * len(eigenproblems(settings))
    assert sorted({spec.n_eigenvectors for spec in specs if spec.assignment == "merge"}) == [15, 20, 30]
    assert {spec.n_eigenvectors for spec in specs if spec.assignment == "valleys"} == {30}  # no more than others have
    assert len({spec.frame for spec in specs}) == 3 * len(eigenproblems(settings))


def test_an_open_number_is_read_by_valleys_alone():
    settings = Settings.of(None)
    assert {spec.n_eigenvectors for spec in LabelingSpecs(settings, 5000)} == {60}
    found = LabelingSpecs(settings.decided(7), 5000)
    assert [spec.assignment for spec in found] == ["valleys"] * len(eigenproblems(settings))
    assert [spec.frame.name for spec in found] == [spec.name for spec in LabelingSpecs(settings, 5000)[:4]]


@pytest.mark.parametrize(
    ("c", "n", "columns"),
    [
        (range(2, 50), 5000, 98),
        (None, 600, 24),
        (None, 29, 9),
        (None, 11, 0),
        (5, 5000, 30),
        (40, 400, 0),
        (11, 380, 15),
        (12, 380, 24),  # more than three quarters of 15, one for 25 rows
        (15, 380, 30),
        (20, 380, 38),  # one for ten rows
    ],
)
def test_columns_that_are_read_by_valleys(c, n, columns):
    assert valley_columns(Settings.of(c).fitted_to(n)[0], n) == columns


@pytest.mark.parametrize("chosen", [{"valleys": False}, {"selection": "medoid"}, {"assignment": "rotation"}])
def test_other_choices_read_no_valleys(chosen):
    assert not LabelingSpecs(resolve(10, **chosen), 5000).by_valleys
    assert not LabelingSpecs(Settings.of(None, **chosen), 5000).by_valleys


def test_without_room_columns_are_only_turned():
    assert {spec.assignment for spec in LabelingSpecs(resolve(10), 25)} == {"rotation"}


def test_shrinkages_share_weights_and_not_matrices():
    plain, shrunk = eigenproblems(resolve(10, t=5))
    assert (plain.shrinkage, shrunk.shrinkage) == SHRINKAGES
    assert plain.graph == shrunk.graph == plain
    assert plain.matrix != shrunk.matrix
    assert plain.name != shrunk.name


@pytest.mark.parametrize("chosen", [{"assignment": "rotation"}, {"preset": "paper"}, {"normalization": None}])
def test_degrees_are_shrunk_for_merged_labelings_of_the_normalised_kernel_only(chosen):
    assert {eigenproblem.shrinkage for eigenproblem in eigenproblems(resolve(10, **chosen))} == {0.0}


def test_windows_are_of_all_shrinkages_and_of_each_alone():
    specs = LabelingSpecs(resolve(10, t=5, widths=((1.5, 2), (2, 3))), 1000)
    of = [[(specs[b].eigenproblem.shrinkage, specs[b].n_eigenvectors) for b in w] for w in specs.sets]
    assert of[0] == [(0.0, 15), (0.0, 20), (0.75, 15), (0.75, 20)]
    assert of[3] == [(0.0, 20), (0.0, 30)]
    assert of[4] == [(0.75, 15), (0.75, 20)]
    assert of[6:] == [[(0.0, 30), (0.75, 30)], [(0.0, 30)], [(0.75, 30)]]
    assert specs.valley_sets == [6, 7, 8]


def test_c_eigenvectors_and_plain_degrees_are_the_last_window():
    specs = LabelingSpecs(resolve(10, valleys=False), 1000)
    of = [(specs[b].eigenproblem, specs[b].n_eigenvectors) for b in specs.sets[-1]]
    assert [(eigenproblem.t, eigenproblem.shrinkage, width) for eigenproblem, width in of] == [
        (5, 0.0, 10),
        (10, 0.0, 10),
    ]
    assert specs.sets[-1] == specs.plain
    wider = LabelingSpecs(resolve(10, widths=(1.5, 2)), 1000)  # as the caller wants
    assert wider.plain == []
    assert len(wider.sets) == 6  # both shrinkages, and each; cut by density, and by valleys


@pytest.mark.parametrize(
    ("values", "gap"),
    [
        ([1.0, 0.99, 0.98, 0.9, 0.8], 5.0),
        ([1.0, 0.99, 0.98], 1.0),  # nothing to compare with
        ([1.0, 1.0, 1.0, 0.9], 1e6),  # c components
        ([1.0, 1.0, 1.0, 1.0], 1.0),  # more of them
    ],
)
def test_eigengap_after_three(values, gap):
    assert eigengap(np.array(values), 3) == pytest.approx(gap, rel=1e-6)


@pytest.mark.parametrize(
    ("c", "gap"),
    [
        (6, 2.0),  # after the fourth of six, not after the second, though that is larger
        (4, 2.0),
        (3, 50.0),
        (8, 1.0),
    ],
)
def test_gaps_count_from_half_of_the_clusters_on(c, gap):
    steep = 1 - np.array([0, 1e-4, 5e-3, 5e-3, 4e-2, 4e-2, 4e-2, 4e-2])
    flat = 1 - np.array([0, 1e-4, 5e-3, 5e-3, 1e-2, 1e-2, 1e-2, 1e-2])
    assert clearest_gap([steep, flat], c) == pytest.approx(gap, rel=1e-6)


@pytest.mark.parametrize("r", [1, 2, 3])
def test_eigenvalues_grow_with_the_power_of_weyl(r):
    axis = 1 - np.cos(np.pi * np.arange(40) / 400)  # of the path of 400 vertices, and of grids of such paths
    values = np.sort(sum(np.meshgrid(*[axis] * r, indexing="ij")).ravel())[: [40, 400, 4000][r - 1]]
    np.testing.assert_allclose(growth(1 - values, [len(values) // 4, len(values) // 2, len(values)]), 2 / r, rtol=0.15)


def _of_parts(values, k):
    """Eigenvalues of k equal parts of a graph that weak edges join."""
    return 1 - np.sort(np.concatenate([np.maximum(values, 1e-6 * part) for part in range(k)]))


@pytest.mark.parametrize("k", [2, 3, 5])
def test_parts_along_curves_are_long(k):
    path = 1 - np.cos(np.pi * np.arange(40) / 400)
    ring = np.repeat(1 - np.cos(2 * np.pi * np.arange(20) / 400), 2)[1:]  # each but the first twice
    grid = np.sort(np.add.outer(path, path).ravel())[:40]
    assert are_long(_of_parts(path, k), k)
    assert are_long(_of_parts(ring, k), k)
    assert not are_long(_of_parts(grid, k), k)
    groups = np.concatenate([[0, 2e-3, 3e-3, 3.5e-3, 4e-3], 0.05 + grid[1:]])  # of five clusters each
    assert not are_long(_of_parts(groups, k), k)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_eigenvalues_after_parts_tell_planes_from_solids(k):
    axis = 1 - np.cos(np.pi * np.arange(40) / 400)
    plane = np.sort(np.add.outer(axis, axis).ravel())[:400]
    solid = np.sort(np.add.outer(plane, axis).ravel())[:400]
    assert growth_after(_of_parts(plane, k), k) >= 1
    assert growth_after(_of_parts(solid, k), k) < 1
    assert np.isnan(growth_after(_of_parts(solid, k)[: 3 * k - 1], k))


def test_parts_are_not_long_without_eigenvalues_that_tell():
    values = 1 - np.repeat([0.0, 0.01, 0.04], 2)
    assert are_long(values, 2)
    assert not are_long(values[:5], 2)
