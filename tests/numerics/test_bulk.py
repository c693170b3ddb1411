import numpy as np
import pytest

from bigsmic.numerics.eigen.bulk import BulkRule, Spectrum

PARTS = 1 - np.array([0, 1e-6, 2e-6, 3e-6])
CROWDED = np.linspace(0.68, 0.6, 8)


def spectrum(*values, norms=None):
    values = np.concatenate(values)
    return Spectrum(values, np.zeros(len(values)) if norms is None else np.asarray(norms))


def test_parts_end_at_the_gap_before_the_bulk():
    assert spectrum(PARTS, CROWDED).parts(BulkRule()) == 4


@pytest.mark.parametrize("scale", [1e-4, 1e-2, 1])
def test_only_quotients_of_distances_from_1_count(scale):
    values = 1 - scale * (1 - np.concatenate([1 - 0.001 * np.arange(4), CROWDED]))
    assert spectrum(values).parts(BulkRule()) == 4


@pytest.mark.parametrize(
    "after",
    [
        np.linspace(0.95, 0.6, 8),  # structure between the parts and the bulk
        np.concatenate([[0.9], CROWDED]),  # one further part, which is not as clear
        np.linspace(0.99999, 0.6, 8),  # no gap
    ],
)
def test_structure_after_the_gap_is_no_bulk(after):
    assert spectrum(PARTS, after).parts(BulkRule()) == 0


def test_parts_have_converged():
    norms = np.zeros(12)
    norms[3] = 1e-3
    assert spectrum(PARTS, CROWDED, norms=norms).parts(BulkRule()) == 0


@pytest.mark.parametrize(("norm", "parts"), [(0.1, 4), (0.3, 0)])
def test_a_ritz_value_may_be_as_far_below_its_eigenvalue_as_its_norm_says(norm, parts):
    norms = np.concatenate([np.zeros(4), np.full(8, norm)])
    assert spectrum(PARTS, CROWDED, norms=norms).parts(BulkRule()) == parts


@pytest.mark.parametrize(("norm", "solved"), [(0.03, True), (0.1, False)])
def test_the_bulk_is_solved_when_its_norms_are_small_in_units_of_the_gap(norm, solved):
    norms = np.concatenate([np.zeros(4), np.full(8, norm)])
    assert spectrum(PARTS, CROWDED, norms=norms).is_solved(4) == solved


def test_parts_that_another_matrix_has_shown_need_a_gap_but_no_one():
    values = np.concatenate([[1.3, 1.25, 1.2], CROWDED])
    assert spectrum(values).parts(BulkRule(3)) == 3
    assert spectrum(values).parts(BulkRule(len(values))) == 0
    assert spectrum([1.3, 1.2, 1.2], CROWDED).parts(BulkRule(2)) == 0


def test_a_spectrum_that_ends_with_the_parts_has_no_bulk():
    assert spectrum(PARTS).parts(BulkRule()) == 0
