"""Drift: no alarm among stretches that are alike, whatever they depend on; one for each kind of change."""

import numpy as np
import pytest
from scipy.stats import ttest_ind

from bigsmic.numerics import drift
from bigsmic.numerics.drift import Batches

SPREADS = np.ones((3, 4))


def stretch(rng, n=2000, hold=1, shares=(0.5, 0.3, 0.2), move=0.0, novel=0.02):
    """Facts of rows in regimes that last `hold` rows."""
    regimes = rng.choice(3, size=n // hold + 1, p=shares)
    labels = np.repeat(regimes, hold)[:n]
    drawn = rng.choice(n, 200, replace=False)
    X = rng.normal(size=(200, 4))
    X[:, 2] += move * (labels[drawn] == 1)
    sums = np.zeros((3, 4))
    np.add.at(sums, labels[drawn], X)
    counts = [np.bincount(y, minlength=3).astype(float)[None] for y in (labels, labels[drawn])]
    return Batches(*counts, sums[None], np.array([float(rng.binomial(200, novel))]))


def table(rng, count, **options):
    parts = [stretch(rng, **options) for _ in range(count)]
    return Batches(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def alarms(reference, tonight):
    found = {
        "shares": drift.shares(reference, tonight, 1.0),
        "novelty": drift.novelty(reference, tonight, 1.0),
        "shift": drift.shift(reference, tonight, SPREADS, 1.0),
    }
    return {name for name, test in found.items() if test["p"] < drift.LEVEL}, found


@pytest.mark.parametrize("hold", [1, 50, 200])
@pytest.mark.parametrize("n_batches", [8, 24])
def test_stretches_that_are_alike_are_no_drift(hold, n_batches):
    rng = np.random.default_rng(hold + n_batches)
    nights = [alarms(table(rng, n_batches, hold=hold), stretch(rng, hold=hold))[0] for _ in range(150)]
    assert sum(map(bool, nights)) <= 3  # of 1.5 that the level allows


@pytest.mark.parametrize(
    ("name", "change"),
    [("shares", {"shares": (0.02, 0.08, 0.9)}), ("novelty", {"novel": 0.3}), ("shift", {"move": 2.0})],
)
def test_each_kind_of_change_is_found(name, change):
    rng = np.random.default_rng(0)
    nights = [alarms(table(rng, 16, hold=20), stretch(rng, hold=20, **change)) for _ in range(20)]
    assert all(name in found for found, _ in nights)
    tests = nights[0][1][name]
    if name == "shift":
        assert (tests["cluster"], tests["column"]) == (1, 2)
        assert tests["by"] == pytest.approx(2, abs=0.5)
    if name == "shares":
        assert tests["now"] != pytest.approx(tests["before"], abs=0.1)


@pytest.mark.parametrize("hold", [1, 20])
def test_the_effective_sample_size_is_that_of_independent_rows(hold):
    rng = np.random.default_rng(1)
    found = [drift.shares(table(rng, 30, hold=hold), stretch(rng, hold=hold), 1.0)["n_eff"] for _ in range(10)]
    assert np.median(found) == pytest.approx(2000 / hold, rel=0.25)


def test_chi_square_is_the_one_of_the_effective_sample_size():
    rng = np.random.default_rng(2)
    reference, tonight = table(rng, 20), stretch(rng)
    found = drift.shares(reference, tonight, 1.0)
    p, q = (counts.sum(axis=0) / counts.sum() for counts in (reference.counts, tonight.counts))
    expected = found["n_eff"] * 4 * np.square(np.sqrt(q) - np.sqrt(p)).sum() / (1 + 1 / 20)
    assert found["chi_square"] == pytest.approx(expected)


def test_confidence_is_compared_with_earlier_nights_where_there_are_enough():
    rng = np.random.default_rng(3)
    before = 0.95 + 0.005 * rng.normal(size=20)
    assert drift.confidence(before[:3], 0.1)["p"] == 1
    assert drift.confidence(before, 0.95)["p"] > 0.01
    assert drift.confidence(before, 0.8)["p"] < drift.LEVEL
    assert drift.confidence(before, 0.99)["p"] == 1


def test_confidence_is_compared_by_the_prediction_interval_of_student():
    """One more night is a sample of one, which has no variance of its own."""
    before, now = 0.9 + 0.02 * np.random.default_rng(6).normal(size=9), 0.8
    logs = np.log(1 - np.append(before, now))
    expected = ttest_ind(logs[-1:], logs[:-1], alternative="greater")
    assert drift.confidence(before, now)["p"] == pytest.approx(expected.pvalue, rel=1e-4)


def test_a_cluster_that_the_stretches_hardly_have_tells_no_shift():
    rng = np.random.default_rng(7)
    reference, tonight = table(rng, 10, shares=(0.6, 0.4, 0)), stretch(rng, shares=(0.3, 0.3, 0.4))
    tonight.sums[0, 2] += 1000
    without = Batches(*(array.copy() for array in tonight))
    without.sampled[0, 2], without.sums[0, 2] = 0, 0
    expected = drift.shift(reference, without, SPREADS, 1.0)
    assert drift.shift(reference, tonight, SPREADS, 1.0) == expected
    assert expected["cluster"] < 2


def test_clusters_without_rows_and_one_cluster():
    rng = np.random.default_rng(4)
    reference, tonight = table(rng, 10, shares=(0.6, 0.4, 0)), stretch(rng, shares=(0.6, 0.4, 0))
    assert alarms(reference, tonight)[0] == set()
    assert "shares" in alarms(reference, stretch(rng, shares=(0.3, 0.3, 0.4)))[0]
    one = Batches(*(array[:, :1] for array in reference[:3]), reference.novel)
    assert drift.shares(one, Batches(*(array[:, :1] for array in tonight[:3]), tonight.novel), 1.0)["p"] == 1


def test_nights_together_show_what_none_of_them_does():
    rng = np.random.default_rng(5)
    reference = table(rng, 16, n=1500, hold=100)
    turned = [stretch(rng, n=1500, hold=100, shares=(0.15, 0.25, 0.6)) for _ in range(20)]
    quiet = [stretch(rng, n=1500, hold=100) for _ in range(60)]
    alone = [drift.shares(reference, night, 1.0)["p"] for night in turned]
    together = [recent(reference, turned, k) for k in range(8, 20)]
    assert sum(p < drift.LEVEL for p in alone) < 15
    assert all(test["p"] < drift.LEVEL and test["nights"] == 8 for test in together)
    assert sum(recent(reference, quiet, k)["p"] < drift.LEVEL for k in range(1, 60)) == 0


def recent(reference, nights, k):
    """The test of night k, beside all before it."""
    return drift.recent_shares(reference, nights[k], np.concatenate([night.counts for night in nights[:k]]), 1.0)


@pytest.mark.parametrize(("count", "is_drift"), [(1, False), (20, True), (200, True)])
def test_one_novel_row_is_no_drift_where_stretches_have_none(count, is_drift):
    rng = np.random.default_rng(0)
    reference, tonight = (table(rng, k, novel=0.0) for k in (8, 1))
    found = drift.novelty(reference, tonight._replace(novel=np.array([float(count)])), 1.0)
    assert (found["p"] < drift.LEVEL) == is_drift
