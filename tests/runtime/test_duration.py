"""How long a fit is expected to take: work is shared by those that do it, and more of it takes longer."""

from dataclasses import replace

import numpy as np
import pytest

import bigsmic
from bigsmic.methods.smic import planning as smic_planning
from bigsmic.methods.smic.work import works
from bigsmic.runtime import planning, probe
from bigsmic.runtime.block_sizes import BlockSizes
from bigsmic.runtime.duration import ALONE, ROUNDS, SENT, Answer, Rates, duration_of
from bigsmic.settings.smic import resolve
from bigsmic.tables import seconds_text

RATES = Rates.stored()
ROWS = np.zeros((50, 4), np.float32) + np.arange(50)[:, None]


def plan_of(n, d=16, c=20, limit=1 << 45, n_threads=4, **size):
    settings, _ = resolve(c).fitted_to(n)
    return smic_planning.plan(planning.Size(n, d, **size), settings, limit, n_threads), settings


def duration(n, rates=RATES, **shape):
    planned, settings = plan_of(n, **shape)
    return duration_of(planned, works(planned, settings, rates), rates)


def only(*kinds):
    """Rates by which nothing but work of these kinds takes time."""
    return replace(RATES, seconds={name: 1e-9 * (name.split(".")[-1] in kinds) for name in RATES.seconds})


def test_every_unit_of_work_has_a_rate():
    planned, settings = plan_of(10**6, n_workers=2)
    for work in works(planned, settings, RATES):
        units = {name if name.split(".")[1] not in (ROUNDS, SENT) else name.split(".")[1] for name in work}
        assert units == RATES.seconds.keys()
        assert {name.split(".")[0] for name in work} == planned.stages.keys()


def test_the_stored_rates_are_of_a_machine():
    assert RATES.machine
    assert min(RATES.seconds.values()) >= 0
    assert 0 < RATES.efficiency <= 1.1
    assert RATES.answers["clear"].products < RATES.answers["unclear"].products


@pytest.mark.parametrize("grows", ["n", "d"])  # with more clusters, there may be fewer labelings
def test_more_of_anything_takes_longer(grows):
    shape = {"n": 50_000, "d": 50, "c": 10}
    found = [duration(**shape | {grows: shape[grows] * factor}) for factor in (1, 2, 4, 8)]
    for figure in ("seconds", "cpu_seconds"):
        least, most = zip(*(getattr(one, figure) for one in found), strict=True)
        assert sorted(least) == list(least)
        assert sorted(most) == list(most)
        assert all(a < b for a, b in zip(least, most, strict=True))


def test_twice_the_workers_take_half_as_long_but_for_what_one_thread_does():
    shared = only(*({name.split(".")[-1] for name in RATES.seconds} - {*ALONE, ROUNDS, SENT, "gathered"}))
    few, many = (duration(10**8, shared, n_workers=w).seconds for w in (8, 16))
    assert np.divide(few, many) == pytest.approx(2)
    few, many = (duration(10**8, only(*ALONE), n_workers=w).seconds for w in (8, 16))
    assert few == many


def test_workers_of_one_machine_wait_for_memory_as_its_threads_do():
    shapes = {"n_threads": 1}, {"n_threads": 1, "workers_per_machine": 2}, {"n_threads": 2}
    found = [duration(10**8, only("entries"), n_workers=8, **shape) for shape in shapes]
    alone, in_pairs, threads = (one.cpu_seconds[0] / one.seconds[0] for one in found)
    assert alone == pytest.approx(8)
    assert in_pairs == pytest.approx(8 * RATES.efficiency)
    assert threads == pytest.approx(16 * RATES.efficiency)


def test_messages_are_only_between_workers():
    assert duration(10**7, only(ROUNDS, SENT)).seconds == (0, 0)
    rounds = [duration(10**7, only(ROUNDS), n_workers=w).seconds for w in (2, 4)]
    assert rounds[0] == rounds[1] > (0, 0)
    sent = [duration(10**7, only(SENT), n_workers=w).seconds for w in (2, 4, 16)]
    assert np.divide(sent[0], sent[1]) == pytest.approx(1)  # twice as many rows are needed by twice as many workers
    assert np.divide(sent[1], sent[2]) == pytest.approx(2)


def test_threads_share_work_and_wait_for_memory():
    settings, _ = resolve(20).fitted_to(10**6)
    rates = replace(only("entries"), efficiency=0.8)
    one, four = (smic_planning.plan(planning.Size(10**6, 16), settings, 1 << 45, threads) for threads in (1, 4))
    alone, shared = (duration_of(plan, works(plan, settings, rates), rates) for plan in (one, four))
    assert np.divide(alone.seconds, shared.seconds) == pytest.approx(4 * 0.8)
    assert alone.cpu_seconds == shared.cpu_seconds


@pytest.mark.parametrize(("kind", "limit"), [("basis_bytes", 800), ("matrix_bytes", 550)])
def test_what_is_on_disk_is_read_for_every_block_of_vectors(kind, limit):
    roomy, tight = (duration(10**6, only(kind), d=64, limit=size).cpu_seconds for size in (1 << 45, limit << 20))
    assert roomy == (0, 0)
    assert min(tight) > 0


def test_vectors_that_leave_the_cache_cost_more():
    rates = replace(RATES, cache_bytes=1e6)
    assert rates.missed(1e5) == rates.missed(1e6) == 0
    assert rates.missed(2e6) == 0.5
    assert duration(10**6, replace(only("missed", "gathered"), cache_bytes=1e12)).cpu_seconds == (0, 0)
    whole, shard = (duration(10**8, only("gathered"), n_workers=w).cpu_seconds for w in (1, 64))
    assert np.less(shard, whole).all()


def test_blocks_whose_vectors_leave_the_cache_cost_more():
    rates, sizes = replace(only("missed"), cache_bytes=2e6), (20_000, 200_000)
    small, large = (duration(10**6, rates, block_sizes=BlockSizes(group_rows=rows)).cpu_seconds for rows in sizes)
    assert small[0] < large[0]
    assert small[1] < large[1]


def test_cells_that_the_sample_cannot_make_smaller_cost_more_comparisons():
    per_row = [duration(n, only("pairs"), d=64).cpu_seconds[0] / n for n in (10**6, 10**7, 10**9)]
    assert per_row[0] == pytest.approx(per_row[1])
    assert per_row[2] > 10 * per_row[1]


def test_products_are_no_more_than_the_solver_makes():
    endless = dict.fromkeys(("clear", "unclear"), Answer(1e9, 1.0, 0.0))
    rates = replace(only("entries"), answers=endless)
    bounded = {m: duration(10**6, rates, c=c).cpu_seconds[1] for m, c in ((80, 20), (160, 40))}
    assert bounded[160] / bounded[80] == pytest.approx((2000 + 300 * 100) / (2000 + 300 * 80), rel=0.3)


def test_seconds_are_those_of_the_stages():
    found = duration(10**6)
    least, most = np.sum(list(found.stages.values()), axis=0)
    assert (least, most) == pytest.approx(found.cpu_seconds)
    assert duration(10**6, replace(RATES, factor=3.0)).cpu_seconds == pytest.approx((3 * least, 3 * most))


def test_a_plan_tells_the_time():
    planned = bigsmic.plan(ROWS, 4, n_rows=10**9, n_workers=64, memory_limit="64GiB")
    assert 0 < planned.duration.seconds[0] < planned.duration.seconds[1] < planned.duration.cpu_seconds[1]
    page = " ".join(repr(planned).split())
    least, most = map(seconds_text, planned.duration.seconds)
    assert f"time {least} if clusters are clear, {most} if they are not" in page
    assert RATES.machine in page


def test_a_machine_half_as_fast_takes_twice_as_long(monkeypatch):
    monkeypatch.setattr(probe, "probe", lambda: 2 * RATES.probe_seconds)
    usual, slow = (bigsmic.plan(ROWS, 4, n_rows=10**6, calibrate=calibrate) for calibrate in (False, True))
    assert slow.duration.factor == 2
    assert slow.duration.cpu_seconds == pytest.approx(tuple(2 * seconds for seconds in usual.duration.cpu_seconds))
    assert "take 2.00 times as long" in " ".join(repr(slow).split())


def test_the_speed_of_this_machine_is_found():
    assert 0 < probe.probe() < 10
    assert probe.probe() == probe.probe()  # measured once


@pytest.mark.parametrize(("c", "options"), [(1, {}), (2, {"method": "rim"}), (2, {"method": "mwca"})])
def test_other_fits_have_no_measured_rates(c, options):
    planned = bigsmic.plan(ROWS, c, **options)
    assert planned.duration is None
    assert "time " not in repr(planned)
