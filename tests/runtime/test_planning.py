"""What a fit will take, said before it runs: enough, and no more than the limit where one is given."""

import json
import os
import re
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import zarr
from locations import environment
from sklearn.datasets import make_blobs

import bigsmic
from bigsmic.engines import memory
from bigsmic.errors import InputError, PlanError
from bigsmic.methods import mwca
from bigsmic.methods.smic import planning as smic_planning
from bigsmic.numerics.labeling import consensus
from bigsmic.runtime import planning
from bigsmic.runtime.block_sizes import BlockSizes
from bigsmic.settings.smic import resolve

MIB = 1 << 20


def plan_of(n, d, c, limit=1 << 40, n_threads=4, **options):
    settings, _ = resolve(c, **options).fitted_to(n)
    return smic_planning.plan(planning.Size(n, d), settings, limit, n_threads)


@pytest.mark.parametrize(("n", "d"), [(1, 1), (255, 3), (257, 10**6), (10**6, 152), (10**9, 1000)])
def test_blocks_of_input_follow_from_the_shape(n, d):
    bounds = BlockSizes().source_bounds(n, d)
    assert bounds[0] == 0
    assert bounds[-1] == n
    assert (np.diff(bounds) > 0).all()
    assert len(bounds) <= 1026
    assert len(set(np.diff(bounds)[:-1])) <= 1


@pytest.mark.parametrize("options", [{}, {"assignment": "auto"}, {"preset": "paper"}, {"noise": True}])
@pytest.mark.parametrize("grows", ["n", "d", "c"])
def test_more_of_anything_takes_no_less(grows, options):
    shape = {"n": 50_000, "d": 50, "c": 10}
    plans = [plan_of(**shape | {grows: shape[grows] * factor}, n_threads=1, **options) for factor in (1, 2, 3, 8)]
    for name in plans[0].stages if grows != "c" else ("eigen", "output"):  # more clusters: fewer labelings
        for figure in ("flops", "disk_bytes"):
            found = [getattr(plan.stages[name], figure) for plan in plans]
            assert sorted(found) == found, (name, figure)
    # blocks of input are equal in bytes: the narrower rows are, the more of them are routed at once
    peaks = [plan.stages["select"].peak_bytes if grows == "d" else plan.peak_bytes for plan in plans]
    assert sorted(peaks) == peaks
    disk = [plan.disk_bytes for plan in plans]
    assert sorted(disk) == disk


def test_noise_is_planned():
    plain, noisy = plan_of(50_000, 50, 10).stages["output"], plan_of(50_000, 50, 10, noise=True).stages["output"]
    assert noisy.disk_bytes == plain.disk_bytes + 8 * 50_000  # scores in both orders
    assert noisy.fixed_bytes > plain.fixed_bytes


def test_a_consensus_of_many_clusters_takes_what_is_planned():
    """The matrices of every two labels: shared rows of all labelings and of one set, and those of the merges."""
    labels = np.arange(400)[:, None].repeat(12, axis=1)
    tracemalloc.start()
    try:
        sums = consensus.label_gram(labels, [400] * 12)
        shared = sums.copy()
        tracemalloc.reset_peak()
        consensus.consensus_tree(shared, [400] * 12)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    stage = plan_of(4_000, 8, 400, n_threads=1).stages["select"]
    assert 0.98 * peak < stage.fixed_bytes + stage.task_bytes < 1.5 * peak


def test_k_means_of_wide_rows_takes_what_is_planned():
    sample = np.random.default_rng(0).standard_normal((3000, 1000), dtype=np.float32)
    settings = SimpleNamespace(n_clusters=3, seed=0)
    mwca._centers(sample[:, :3], settings)  # imports what it needs
    tracemalloc.start()
    try:
        mwca._centers(sample, settings)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    planned = bigsmic.plan(sample, 3, method="mwca", n_threads=1).stages["bandwidth"].fixed_bytes
    assert sample.nbytes + peak < 20.5 * sample.size
    assert 20 * sample.size <= planned


def n_on_disk(plan):
    return [plan.basis_in_memory, plan.kernel_in_memory, plan.vectors_in_memory].count(False)


def test_the_least_memory_grows_by_less_than_sixty_bytes_a_row():
    least = [least_limit(n, 64, 33) for n in (10**8, 2 * 10**8)]
    assert least[1] - least[0] < 60 * 10**8
    assert "half of the other vectors on disk" in repr(plan_of(10**8, 64, 33, least[0], 1))


@pytest.mark.parametrize("options", [{"selection": "lsmi"}, {"assignment": "auto"}])
def test_a_smaller_limit_is_kept_by_fewer_tasks_and_by_disk(options):
    roomy = plan_of(3_000_000, 100, 20, **options)
    assert {stage.max_concurrency for stage in roomy.stages.values()} == {4}
    assert roomy.basis_in_memory
    widths = dict.fromkeys(roomy.stages, 4)
    n_gammas, on_disk = roomy.n_gammas, 0
    least = least_limit(3_000_000, 100, 20, **options)
    for limit in (*range(roomy.peak_bytes, least, -100 * MIB), least):
        plan = plan_of(3_000_000, 100, 20, limit, **options)
        assert plan.peak_bytes <= limit
        found = {name: plan.max_concurrency(name) for name in widths}
        stayed = [name for name in widths if name not in ("eigen", "select", "assign")]
        assert all(found[name] <= widths[name] for name in stayed)
        assert plan.n_gammas <= n_gammas
        assert on_disk <= n_on_disk(plan)
        widths, n_gammas, on_disk = found, plan.n_gammas, n_on_disk(plan)
    assert min(widths.values()) == 1
    assert on_disk == 3
    assert n_gammas == 1


def least_limit(n, d, c, **options):
    """Smallest limit, as the error of a smaller one names it."""
    with pytest.raises(PlanError, match=r"plan: stage \w+ needs \d+MiB .* the memory limit is 100MiB; set") as caught:
        plan_of(n, d, c, 100 * MIB, **options)
    return int(str(caught.value).split("at least ")[1].split("MiB")[0]) * MIB


@pytest.mark.parametrize(
    ("method", "shape", "options", "advised", "remedy"),
    [
        ("mwca", (2_000_000, 2), {}, {"n_starts": 1}, "n_starts below 5, or ask for fewer clusters"),
        ("mspc", (200_000, 3000), {"reg": "auto"}, {"reg": 1.0}, "give one number for reg, or fewer columns"),
        ("mspc", (4_000, 20_000), {}, None, "fewer rows"),
        ("rim", (200_000, 50), {"n_init_categories": 5000}, {"n_init_categories": 50}, "n_init_categories below 5000"),
        ("kernel_rim", (200_000, 50), {"n_components": 4000}, {"n_components": 256}, "n_components below 4000"),
        ("mic", (60_000, 4), {}, {"mlmi_rows": 2000}, "use a smaller mlmi_rows"),
        ("kernel_rim", (60_000, 4), {"kernel": "local_scaling"}, None, "use method='mic' with a smaller mlmi_rows"),
        ("smic", (2_000_000, 50), {"t": 50}, {"t": 5}, "candidates or neighbours"),
        ("smic", (200_000, 100_000), {}, None, ""),  # rows of the blocks of input are as wide as they are
    ],
)
def test_a_refusal_names_the_option_that_takes_the_memory(method, shape, options, advised, remedy):
    def needed(options):
        rows = np.broadcast_to(np.float32(0), shape)
        with pytest.raises(PlanError, match=r"set memory_limit to at least") as caught:
            bigsmic.plan(rows, 10, method=method, memory_limit="10MiB", **options)
        found = re.fullmatch(r".* set memory_limit to at least (\d+)MiB(?:, or (.*))?", str(caught.value))
        return int(found[1]), found[2] or ""

    least, said = needed(options)
    assert remedy in said
    assert bool(remedy) == bool(said)
    if advised is not None:
        assert needed(options | advised)[0] < least


@pytest.mark.parametrize(("method", "options"), [("mwca", {"kernel": "graph"}), ("mic", {})])
def test_stages_that_a_method_does_not_have_are_not_refused(method, options):
    rows = np.broadcast_to(np.float32(0), (3000, 3))
    peak = bigsmic.plan(rows, 2, method=method, n_threads=1, **options).peak_bytes
    assert bigsmic.plan(rows, 2, method=method, n_threads=1, memory_limit=peak, **options).peak_bytes == peak


@pytest.mark.parametrize("n_threads", [1, 2])
def test_memory_that_is_left_holds_the_matrix_and_then_some_of_the_basis(n_threads):
    shape, least = (10**6, 64, 20), least_limit(10**6, 64, 20)
    plans = [plan_of(*shape, limit, n_threads) for limit in range(least, 3 * least, 25 * MIB)]
    on_disk = [plan for plan in plans if not plan.basis_in_memory]
    assert sorted(plan.kernel_in_memory for plan in plans) == [plan.kernel_in_memory for plan in plans]
    assert 0 < len(on_disk) < len(plans)
    assert {plan.basis_bytes for plan in plans if plan.basis_in_memory} == {0}
    some = [plan for plan in on_disk if plan.basis_bytes]
    assert {plan.stages["eigen"].max_concurrency for plan in some} == {n_threads}
    assert all(plan.stages["eigen"].peak_bytes == int(0.97 * plan.memory_limit) for plan in some)  # no more is left
    assert some[-1].basis_bytes > 300 * MIB
    assert "basis on disk but for" in repr(some[-1])


def test_the_limit_that_is_named_is_enough():
    least = least_limit(3_000_000, 100, 20)
    assert plan_of(3_000_000, 100, 20, least).peak_bytes <= least


def test_a_million_rows_of_64_columns_fit_half_a_gibibyte():
    assert plan_of(10**6, 64, 20, 512 * MIB, n_threads=2).peak_bytes <= 512 * MIB


def test_threads_and_limit_change_no_bounds():
    plans = [plan_of(10**6, 30, 5, limit, threads) for limit, threads in ((1 << 40, 1), (1 << 40, 8), (3 << 30, 8))]
    assert len({plan.sample_rows for plan in plans}) == 1
    assert len({tuple(stage.tasks for stage in plan.stages.values()) for plan in plans}) == 1


def test_a_plan_for_more_rows_is_that_of_so_many_rows():
    rows = np.random.default_rng(0).normal(size=(300, 5)).astype(np.float32)
    many = np.concatenate([rows] * 20)
    assert bigsmic.plan(rows, 4, n_rows=6000).stages == bigsmic.plan(many, 4).stages
    assert bigsmic.plan(rows, 4).size.n == 300


def test_workers_that_are_not_there_are_planned_for():
    rows = np.zeros((50, 4), np.float32) + np.arange(50)[:, None]
    alone, shared = (bigsmic.plan(rows, 4, n_rows=10**7, n_workers=w, memory_limit="64GiB") for w in (1, 16))
    assert alone.traffic_bytes == 0
    assert shared.traffic_bytes > 0
    assert shared.stages["eigen"].fixed_bytes < alone.stages["eigen"].fixed_bytes / 8


def test_more_workers_need_more_rows_of_each_other():
    assert planning.lent_rows(10**6, 1) == 0
    per_row = [planning.lent_rows(n, 16) / n for n in (10**4, 5 * 10**4, 10**6, 10**9)]
    assert per_row[0] == per_row[1] > per_row[2] > per_row[3] > 1
    assert per_row[1] >= 2.86  # of 50,000 rows of a mixture in 16 columns, t = 10
    assert [planning.lent_rows(5 * 10**4, w) / 5e4 for w in (2, 4, 64)] == pytest.approx([0.75, 1.5, 4.5])


def test_rows_of_others_are_in_the_memory_of_a_worker(monkeypatch):
    """The eigensolver holds eight of their columns, in float32, as often as those of its own rows."""

    def fixed_bytes():
        planned = smic_planning.plan(planning.Size(10**8, 16, n_workers=64), resolve(20), 1 << 45)
        return planned.stages["eigen"].fixed_bytes

    many = fixed_bytes()
    monkeypatch.setattr(planning, "LENT", 0.0)
    lent = 0.75 * 6 * (5e4 / 1e8) ** 0.1 * 10**8
    assert many - fixed_bytes() == pytest.approx(3 * 32 * (lent - 0.5 * 10**8) / 64, rel=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_rows": 0}, "n_rows: got 0"),
        ({"n_rows": 1.5}, r"n_rows: got 1\.5"),
        ({"n_workers": 0}, "n_workers: got 0"),
        ({"n_workers": 2, "scheduler": "tcp://nowhere:1"}, "n_workers: got 2 and scheduler="),
        ({"workers_per_machine": 2}, "workers_per_machine: got 2 without n_workers; give both, or a cluster"),
        ({"n_workers": 2, "workers_per_machine": 0}, "workers_per_machine: got 0; use at least 1"),
        ({"n_workers": 2, "workers_per_machine": 3}, "workers_per_machine: got 3; use at most n_workers, 2"),
    ],
)
def test_plans_of_no_rows_or_workers_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        bigsmic.plan(np.zeros((10, 2), np.float32), 2, **options)


def test_workers_are_planned_for_where_threads_were_asked_for():
    rows = np.zeros((10, 2), np.float32)
    assert bigsmic.plan(rows, 2, client=False, n_workers=3) == bigsmic.plan(rows, 2, n_workers=3)
    with pytest.raises(InputError, match="n_workers: got 3 and client="):
        bigsmic.plan(rows, 2, client=SimpleNamespace(submit=print), n_workers=3)


def test_parts_of_a_fit_share_its_plan():
    """What runs in every part adds up; else the largest counts, and is in memory only if it is for all."""

    def part(fixed, task, work, **choices):
        figures = {"flops": work, "disk_bytes": work, "passes": work, "traffic_bytes": work}
        stages = {name: planning.StagePlan(name, 9, fixed, task, **figures) for name in ("eigen", "select")}
        return planning.Plan(planning.Size(1000, 2), 1 << 40, stages, 100, **choices)

    first = part(30 * MIB, 5 * MIB, 2, n_gammas=4, basis_in_memory=False, basis_bytes=8)
    other = part(20 * MIB, 9 * MIB, 3, n_gammas=2, kernel_in_memory=False, vectors_in_memory=False, basis_bytes=5)
    found = planning.joined([first, other], ("select",), 3)
    for name, work in (("eigen", 3), ("select", 5)):
        stage = found.stages[name]
        assert (stage.fixed_bytes, stage.task_bytes, stage.max_concurrency) == (30 * MIB, 9 * MIB, 3)
        assert (stage.flops, stage.disk_bytes, stage.passes, stage.traffic_bytes) == (work,) * 4
    assert (found.n_gammas, found.basis_bytes) == (2, 5)
    assert (found.basis_in_memory, found.kernel_in_memory, found.vectors_in_memory) == (False, False, False)
    assert planning.joined([first, first], (), 3).kernel_in_memory
    least = planning.INTERPRETER_BYTES + 39 * MIB
    with pytest.raises(PlanError, match=f"stage eigen needs {least // MIB}MiB"):
        planning.joined([replace(first, memory_limit=least - 1), other], (), 3)
    at_least = planning.joined([replace(first, memory_limit=least), other], (), 3)
    assert (at_least.max_concurrency("eigen"), at_least.peak_bytes) == (1, least)
    two = planning.joined([replace(first, memory_limit=least + 9 * MIB), other], (), 3)
    assert (two.max_concurrency("eigen"), two.peak_bytes) == (2, least + 9 * MIB)


def test_a_worker_holds_more_than_an_even_share_of_the_rows_and_one_alone_all():
    held = [planning.Size(10**6 + 1, 2, n_workers=w).held_rows for w in (1, 2, 4, 1000)]
    assert held[0] == 10**6 + 1
    for rows, workers in zip(held[1:], (2, 4, 1000), strict=True):
        assert 10**6 / workers < rows < 2 * 10**6 / workers


@pytest.mark.parametrize("itemsize", [4, 8])
def test_the_scan_has_a_block_of_input_twice_and_keeps_its_sample(itemsize):
    size = planning.Size(10**6, 20, itemsize=itemsize, band_bytes=7 * MIB)
    stage, block = planning.scan_stage(size, 5000), np.zeros((np.diff(size.source_bounds).max(), 20), f"f{itemsize}")
    assert stage.tasks == len(size.source_bounds) - 1
    assert 2 * block.nbytes <= stage.task_bytes < 2 * block.nbytes + 8 * MIB
    assert (stage.fixed_bytes, stage.disk_bytes) == (7 * MIB, 5000 * 20 * itemsize)


def test_totals_of_a_plan_are_of_all_its_stages():
    plan = smic_planning.plan(planning.Size(10**7, 16, n_workers=8), resolve(20), 1 << 40, 4)
    stages = plan.stages.values()
    assert plan.disk_bytes == sum(stage.disk_bytes for stage in stages) > max(stage.disk_bytes for stage in stages)
    assert plan.traffic_bytes == sum(stage.traffic_bytes for stage in stages) > 0
    assert replace(plan, held_bytes=MIB).peak_bytes == plan.peak_bytes + MIB


def test_freed_memory_that_is_kept_is_what_the_limit_leaves():
    """At least what costs nothing to keep, and not all of a large machine."""
    plan = plan_of(20_000, 10, 5)
    kept = [replace(plan, memory_limit=plan.peak_bytes + left * MIB).kept_bytes for left in (0, 12, 100, 10**6)]
    assert kept[0] == kept[1] == memory.FREED_BYTES
    assert kept[2:] == [100 * MIB, memory.MOST_FREED_BYTES]


def test_one_cluster_is_scanned_and_written():
    assert list(plan_of(1000, 3, 1).stages) == ["scan", "output"]


def test_without_a_limit_three_quarters_of_the_machine_may_be_used():
    settings, _ = resolve(3).fitted_to(1000)
    limit = smic_planning.plan(planning.Size(1000, 4), settings).memory_limit
    assert limit == int(0.75 * memory.machine_memory())
    assert limit <= 0.75 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_a_container_s_limit_counts(tmp_path):
    root, membership = tmp_path / "cgroup", tmp_path / "self"
    (root / "pod" / "box").mkdir(parents=True)
    (root / "pod" / "memory.max").write_text("3000\n")
    (root / "pod" / "box" / "memory.max").write_text("max\n")
    (root / "memory" / "docker").mkdir(parents=True)
    (root / "memory" / "docker" / "memory.limit_in_bytes").write_text("2000\n")
    membership.write_text("0::/pod/box\n")
    assert list(memory._group_limits(membership, root)) == [3000]
    membership.write_text("5:memory:/docker\n4:cpu:/\n")
    assert list(memory._group_limits(membership, root)) == [2000]
    assert list(memory._group_limits(tmp_path / "none", root)) == []


# -- what a fit really takes, in a process of its own

FIT = """
import json, sys
from contextlib import contextmanager
import bigsmic
from bigsmic.runtime.job import Job
from bigsmic.engines.memory import peak_memory

taken, timed = {}, Job.timed

@contextmanager
def measured(job, stage):
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # forget the peak so far
    with timed(job, stage):
        yield
    taken[stage] = max(taken.get(stage, 0), peak_memory())

Job.timed = measured
bigsmic.fit(sys.argv[1], int(sys.argv[2]), **json.loads(sys.argv[3]))
print(json.dumps(taken))
"""


def assert_within_the_plan(folder, shape, c, **options):
    n, d = shape
    X = make_blobs(n, d, centers=c, cluster_std=3, random_state=0)[0].astype(np.float32)
    zarr.create_array(str(folder / "a.zarr"), data=X, chunks=(5000, d))
    options |= {"n_threads": 2}
    planned = bigsmic.plan(folder / "a.zarr", c, **options)
    fit = [sys.executable, "-c", FIT, folder / "a.zarr", str(c), json.dumps(options)]
    done = subprocess.run(fit, capture_output=True, env=environment())
    assert done.returncode == 0, done.stderr.decode()
    taken = json.loads(done.stdout)
    over = {name: (size // MIB, planned.stages[name].peak_bytes // MIB) for name, size in taken.items()}
    assert {name: pair for name, pair in over.items() if pair[0] > pair[1]} == {}
    assert max(taken.values()) > 0.3 * planned.peak_bytes  # and not out of all proportion


@pytest.mark.skipif(sys.platform != "linux", reason="peaks per stage are Linux's to tell")
def test_a_small_fit_stays_within_its_plan(tmp_path):
    assert_within_the_plan(tmp_path, (20_000, 20), 8, n_centers=150, t=(5,))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peaks per stage are Linux's to tell")
@pytest.mark.parametrize(
    ("shape", "c", "options"),
    [
        ((60_000, 20), 10, {}),
        ((60_000, 20), 10, {"memory_limit": "480MiB", "n_centers": 200}),
        ((60_000, 20), 40, {"t": (5,), "n_centers": 200}),
        ((6_000, 300), 10, {"memory_limit": "560MiB"}),
        ((20_000, 100), 8, {"assignment": "auto", "t": (5, 10)}),
        ((300_000, 4), 5, {"t": (5,), "n_centers": 200}),
    ],
)
def test_fits_stay_within_their_plans(tmp_path, shape, c, options):
    assert_within_the_plan(tmp_path, shape, c, **options)


@pytest.mark.parametrize("n", [10**3, 10**6, 10**9])
def test_a_scheduler_gets_few_tasks_at_any_size(n):
    planned = smic_planning.plan(planning.Size(n, 16, n_workers=64), resolve(33), 1 << 40, 4)
    assert planned.scheduler_tasks == sum(
        stage.passes * (1 + min(stage.tasks, 256)) for stage in planned.stages.values()
    )
    assert planned.scheduler_tasks < 100_000
