"""The objective and its gradient: every term against finite differences, blocks against the whole."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bigsmic.errors import CollapseError
from bigsmic.numerics.objectives.rim.adam import Adam, Aim, batch_gradient, spread
from bigsmic.numerics.objectives.rim.linear import Linear, linear_gradient, linear_information, penalised, penalty
from bigsmic.numerics.objectives.rim.logits import (
    EVERY_ROW,
    Reference,
    Weighting,
    log_reference,
    objective,
    power_exponent,
)
from bigsmic.numerics.objectives.rim.path import Point, find_strength, refuse_collapse, refuse_divergence
from bigsmic.numerics.objectives.rim.start import first_centers

RNG = np.random.default_rng(0)
N, D, K = 60, 4, 5
X = RNG.standard_normal((N, D))
MODEL = Linear(RNG.standard_normal((D, K)), RNG.standard_normal(K))
LABELS = np.where(RNG.random(N) < 0.3, RNG.integers(0, 3, N), -1)
WEIGHTS = RNG.random(N) + 0.2
PRIOR = np.array([0.4, 0.3, 0.15, 0.1, 0.05])

TERMS = {
    "information": (Aim(0.0), EVERY_ROW),
    "penalty": (Aim(0.3), EVERY_ROW),
    "prior": (Aim(0.01, PRIOR), EVERY_ROW),
    "power law": (Aim(0.01, "power"), EVERY_ROW),
    "weights": (Aim(0.01), Weighting(WEIGHTS)),
    "labels": (Aim(0.01, tau=0.7), Weighting(None, LABELS)),
    "all": (Aim(0.02, PRIOR, 0.7), Weighting(WEIGHTS, LABELS)),
    "only labels": (Aim(0.02), Weighting(None, np.abs(LABELS))),
}


def value(vector, aim, weighting):
    model = Linear.of_vector(vector, D, np.float64)
    sums = linear_information(X, model, weighting)
    return objective(sums, aim.prior, aim.tau) - penalty(model, aim.reg)


def exact(aim, weighting, model=MODEL):
    sums = linear_information(X, model, weighting)
    reference = Reference.of(sums, aim.prior, aim.tau)
    return penalised(linear_gradient(X, model, reference, weighting), model, aim.reg)


@pytest.mark.parametrize("term", TERMS)
def test_the_gradient_is_that_of_finite_differences(term):
    aim, weighting = TERMS[term]
    start, h = MODEL.vector, 1e-5
    steps = h * np.eye(len(start))
    wanted = [(value(start + e, aim, weighting) - value(start - e, aim, weighting)) / (2 * h) for e in steps]
    np.testing.assert_allclose(exact(aim, weighting), wanted, atol=1e-6)


@pytest.mark.parametrize("term", TERMS)
def test_a_batch_of_all_rows_is_the_whole(term):
    aim, weighting = TERMS[term]
    F, slope, _ = batch_gradient(X, MODEL, aim, weighting)
    assert abs(F - value(MODEL.vector, aim, weighting)) < 1e-12
    np.testing.assert_allclose(slope.vector, exact(aim, weighting), atol=1e-12)


def test_the_objective_is_the_formula():
    logits = X @ MODEL.W + MODEL.b
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    mean = p.mean(axis=0)
    information = -(mean * np.log(mean)).sum() + (p * np.log(p)).sum(axis=1).mean()
    assert value(MODEL.vector, Aim(0.0), EVERY_ROW) == pytest.approx(information)
    divergence = (mean * np.log(mean / PRIOR)).sum() - (p * np.log(p)).sum(axis=1).mean()
    assert value(MODEL.vector, Aim(0.1, PRIOR), EVERY_ROW) == pytest.approx(-divergence - 0.1 * np.sum(MODEL.W**2))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, N - 1), max_size=4), st.sampled_from(sorted(TERMS)))
def test_blocks_add_up(cuts, term):
    aim, weighting = TERMS[term]
    bounds = [0, *sorted(set(cuts)), N]
    blocks = [slice(lo, hi) for lo, hi in itertools.pairwise(bounds)]
    total, *others = (linear_information(X[b], MODEL, weighting[b]) for b in blocks)
    for part in others:
        total = total + part
    reference = Reference.of(total, aim.prior, aim.tau)
    gradient = sum(linear_gradient(X[b], MODEL, reference, weighting[b]) for b in blocks)
    np.testing.assert_allclose(penalised(gradient, MODEL, aim.reg), exact(aim, weighting), atol=1e-12)
    assert total.counts.sum() == N


@pytest.mark.parametrize("term", TERMS)
def test_kept_posteriors_give_the_same_bits(term):
    aim, weighting = TERMS[term]
    kept = np.empty((N, K))
    sums = linear_information(X, MODEL, weighting, kept)
    reference = Reference.of(sums, aim.prior, aim.tau)
    found = linear_gradient(X, MODEL, reference, weighting, kept)
    np.testing.assert_array_equal(found, linear_gradient(X, MODEL, reference, weighting))


@pytest.mark.parametrize("unit", [1e-3, 255.0])
def test_steps_are_the_same_in_every_unit(unit):
    ends = []
    for u in (1.0, unit):
        state = Adam.start(Linear(MODEL.W / u, MODEL.b))
        for _ in range(20):
            _, slope, _ = batch_gradient(u * X, state.model, Aim(0.1 * u**2))
            state = state.step(slope, 0.1, spread(u * X))
        ends.append(Linear(u * state.model.W, state.model.b).vector)
    np.testing.assert_allclose(*ends, atol=1e-6)


def test_a_power_law_is_found_again():
    law = np.arange(1, 21.0) ** -1.7
    law /= law.sum()
    shuffled = RNG.permutation(law)
    assert power_exponent(shuffled) == pytest.approx(1.7, abs=1e-9)
    np.testing.assert_allclose(np.exp(log_reference(shuffled, "power")), shuffled)
    assert power_exponent(np.full(7, 1 / 7)) == pytest.approx(0, abs=1e-9)


def test_far_rows_do_not_overflow():
    far = Linear(1e4 * MODEL.W, MODEL.b)
    sums = linear_information(X, far)
    assert np.isfinite(objective(sums))
    assert np.isfinite(exact(Aim(0.1), EVERY_ROW, far)).all()


def test_dead_categories_neither_break_nor_come_back():
    dead = Linear(MODEL.W, MODEL.b - np.array([0, 0, 0, 0, 1e6]))
    sums = linear_information(X, dead)
    assert (sums.marginal[4], sums.alive[4]) == (0, False)
    slope = exact(Aim(0.0), EVERY_ROW, dead).reshape(D + 1, K)
    assert np.isfinite(slope).all()
    np.testing.assert_allclose(slope[:, 4], 0)


def test_the_first_centers_are_those_of_k_means():
    centers = 10 * np.eye(3, 4)
    rows = (np.repeat(centers, 50, axis=0) + RNG.standard_normal((150, 4))).astype(np.float32)
    found, labels = first_centers(rows, 3, seed=1)
    assert len(found) == 3
    assert len(np.unique(labels[:50])) == len(np.unique(labels[50:100])) == 1
    known, labels = first_centers(rows, 3, seed=1, known=centers[[2, 0]].astype(np.float32))
    np.testing.assert_array_equal(known[:2], centers[[2, 0]])
    assert set(labels[100:]) == {0}


def test_coincident_rows_have_one_center():
    found, labels = first_centers(np.ones((20, 2), np.float32), 5, seed=0)
    assert found.shape == (1, 2)
    assert not labels.any()


class Path:
    """Categories alive as a falling function of reg; what was asked for is kept."""

    def __init__(self, alive):
        self.alive, self.asked = alive, []

    def __call__(self, reg, parent):
        self.asked.append((reg, parent))
        return Point(len(self.asked) - 1, reg, self.alive(reg))


def test_the_strength_is_bracketed():
    path = Path(lambda reg: max(1, 40 - int(10 * np.log2(1 + 100 * reg))))
    found = find_strength(path, 13, 1e-3)
    assert found.alive == 13
    assert len(path.asked) < 15
    for reg, parent in path.asked[1:]:
        assert parent.reg < reg
        assert parent.alive > 13


def test_a_strength_that_is_too_large_to_begin_with_is_walked_down():
    path = Path(lambda reg: 5 if reg < 1e-4 else 1)
    assert find_strength(path, 4, 1.0).alive == 5
    assert [parent for reg, parent in path.asked[:3]] == [None] * 3


def test_where_no_strength_has_the_number_the_fewest_above_are_returned():
    path = Path(lambda reg: 8 if reg < 0.1 else 6 if reg < 1 else 3)
    assert find_strength(path, 5, 1e-3).alive == 6
    assert find_strength(Path(lambda reg: 3), 4, 1e-3) is None


def test_collapse_and_divergence_are_said():
    with pytest.raises(
        CollapseError, match=r"single category contains every row, .*; use a smaller reg, such as 0\.02"
    ):
        refuse_collapse(1, 0.2)
    with pytest.raises(CollapseError, match=r"became nan at 3; use a smaller one, such as 0\.3"):
        refuse_divergence(np.nan, 1.0, 3.0)
    with pytest.raises(CollapseError, match=r"fell from 2 to 1 at 0\.5"):
        refuse_divergence(1.0, 2.0, 0.5)
    refuse_divergence(2.0, 2.0, 0.5)
