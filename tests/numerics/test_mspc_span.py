"""Splits in the span of the rows: those that the columns give, whatever the start."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bigsmic.numerics.objectives.mspc import span as mspc_span
from bigsmic.numerics.objectives.mspc.questions import Halfspace, Rows, solve
from bigsmic.numerics.objectives.mspc.separation import COLUMNS
from bigsmic.numerics.objectives.mspc.solvers import SOLVERS, SplitSettings, split


def problem(seed, n=60, d=80):
    """Rows, and a start that is far from any fixed point."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * rng.uniform(0.5, 2, d)
    X[: n // 2, : d // 3] += 1
    X[:, 4] = 2
    return Rows(X), rng.standard_normal(n)


def span_of(rows):
    variances = rows.X.var(axis=0)
    varies = COLUMNS.varies(variances, rows.X.mean(axis=0))
    factor = np.where(varies, 1 / np.where(varies, variances, 1), 0)
    products = rows.X * factor @ rows.X.T, rows.X @ rows.X.T
    return mspc_span.Span(*map(mspc_span.centred, products)), factor


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("reg", [1.0, 30.0, 1000.0])
@pytest.mark.parametrize("solver", SOLVERS)
def test_any_start_leads_to_the_split_of_the_columns(solver, reg, seed):
    rows, a = problem(seed)
    settings = SplitSettings(solver, reg)
    start = Halfspace(rows.X.T @ a, 0.3)
    (wanted,) = solve([split((), start, settings)], rows)
    span, factor = span_of(rows)
    found, dual = span.split((a, 0.3), settings)
    w = rows.X.T @ dual.a * (factor if dual.is_divided else 1)
    found = mspc_span.brought_back(found, w, rows.X.mean(axis=0))
    assert_array_equal(found.halfspace.contains(rows.X), wanted.halfspace.contains(rows.X))
    assert_allclose(found.halfspace.w, wanted.halfspace.w, atol=1e-8)
    assert_allclose([found.msp, found.slope, found.score], [wanted.msp, wanted.slope, wanted.score], rtol=1e-7)
    assert (found.n_iter, found.ended) == (wanted.n_iter, wanted.ended)
    if reg == 1000 and solver == "mpm":
        assert wanted.n_iter > 1


def test_the_coordinates_have_the_distances_of_the_divided_rows():
    rows, _ = problem(0)
    span, factor = span_of(rows)
    Y = rows.X * np.sqrt(factor)
    assert_allclose(span.Z @ span.Z.T, Y @ Y.T, atol=1e-10)
    assert span.Z.shape == (60, 59)


def test_rows_that_coincide_are_not_split():
    span = mspc_span.Span(np.zeros((4, 4)), np.zeros((4, 4)))
    assert span.split((np.zeros(4), 0.0), SplitSettings()) is None


def test_a_start_with_an_empty_side_is_no_split():
    rows, a = problem(0)
    span, _ = span_of(rows)
    assert span.split((a, 1e9), SplitSettings()) is None
