"""The memory limit is kept: high-water marks of processes that open an archive which another one wrote."""

import json
import os
import re
import resource
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import zarr
from scipy.sparse import csr_array, save_npz

import bigsmic
from bigsmic.engines import memory
from bigsmic.errors import PlanError
from bigsmic.runtime import planning
from bigsmic.store import SparseSource

MIB = 1 << 20
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="high-water marks are Linux's to tell")

CHILD = """
import json, sys, warnings
import bigsmic
from bigsmic.numerics.eigen import lanczos
from bigsmic.engines.memory import peak_memory

warnings.simplefilter("ignore")
lanczos.LanczosParams.matvec_limit = property(lambda self: 60)  # time, not memory
call = json.loads(sys.argv[1])
if "rows" in call:
    bigsmic.Result.open(call["out"]).predict(call["rows"], out=call["out"] + ".new", n_threads=2)
    print(json.dumps({"predict": peak_memory()}))
else:
    data = call["data"]
    if data.endswith(".npz"):
        from scipy.sparse import load_npz

        data = load_npz(data)
    result = bigsmic.fit(data, call["c"], out=call["out"], **call["options"])
    print(json.dumps({"whole": peak_memory()}))
"""


def archive(folder, shape, c=20):
    """Separated Gaussian blobs on disk, written here, in blocks; their path."""
    rng, (n, d) = np.random.default_rng(0), shape
    centers = rng.uniform(-10, 10, (c, d)).astype(np.float32)
    array = zarr.create_array(str(folder / "a.zarr"), shape=shape, chunks=(8192, d), dtype="float32")
    for lo in range(0, n, 1 << 15):
        m = min(n - lo, 1 << 15)
        array[lo : lo + m] = centers[rng.integers(0, c, m)] + 2 * rng.standard_normal((m, d), dtype=np.float32)
    return str(folder / "a.zarr")


def peak(cache, **call):
    """High-water mark of a process that makes one call."""
    places = {"PYTHONPATH": str(Path(bigsmic.__file__).parents[1]), "NUMBA_CACHE_DIR": str(cache)}
    line = [sys.executable, "-c", CHILD, json.dumps(call)]
    done = subprocess.run(line, capture_output=True, env=os.environ | places)
    assert done.returncode == 0, done.stderr.decode()
    (found,) = json.loads(done.stdout).values()
    return found


def least_limit(data, c, options):
    """Smallest limit that the plan accepts, in MiB."""
    limit = 1
    while True:
        try:
            bigsmic.plan(data, c, memory_limit=f"{limit}MiB", **options)
            return limit
        except PlanError as error:
            limit = int(re.search(r"at least (\d+)MiB", str(error))[1])


def assert_kept(folder, shape, c, options):
    """Fit at the smallest limit, with nothing compiled before, and at twice that."""
    data = archive(folder, shape, c)
    assert_keeps(folder, data, data, c, options)
    return data


def assert_keeps(folder, data, rows, c, options):
    """The same for an input, which the other process opens by a path."""
    options |= {"n_threads": 2}
    least = least_limit(rows, c, options)
    for factor in (1, 2):
        limit = factor * least
        given = options | {"memory_limit": f"{limit}MiB"}
        planned = bigsmic.plan(rows, c, **given).peak_bytes
        found = peak(folder / "cache", data=data, c=c, options=given, out=str(folder / f"run{factor}"))
        assert found <= planned <= limit * MIB, (found // MIB, planned // MIB, limit)


def test_a_quick_fit_keeps_its_smallest_limit(tmp_path):
    assert_kept(tmp_path, (60_000, 64), 2, {"method": "mspc", "max_iter": 3})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "c", "options"),
    [
        ((200_000, 64), 20, {"normalization": "symmetric", "t": (5,), "n_centers": 200}),
        ((60_000, 64), 8, {}),
        ((300_000, 64), 20, {"method": "rim", "n_epochs": 2}),
        ((200_000, 64), 20, {"method": "kernel_rim", "n_components": 200, "n_epochs": 1}),
        ((60_000, 64), 8, {"method": "mic"}),
        ((12_000, 64), 3, {"method": "mwca", "n_starts": 1}),
        ((60_000, 64), 8, {"method": "mwca", "kernel": "graph", "n_starts": 1}),
        ((3_000, 8_000), 5, {"method": "mwca", "n_starts": 1, "max_iter": 2}),
        ((300_000, 64), 2, {"method": "mspc"}),
        ((400, 30_000), 2, {"method": "mspc"}),
    ],
)
def test_fits_keep_the_smallest_limit_and_twice_that(tmp_path, shape, c, options):
    assert_kept(tmp_path, shape, c, options)


def graph(n, of_row, c, symmetric):
    """Random neighbours within c groups of consecutive rows: csr_array of float32."""
    rng, members = np.random.default_rng(0), n // c
    row = np.repeat(np.arange(n), of_row)
    column = row // members * members + rng.integers(0, members, n * of_row)
    made = csr_array((rng.uniform(0.5, 1.5, n * of_row).astype(np.float32), (row, column)), shape=(n, n))
    return made.maximum(made.T).tocsr() if symmetric else made


@pytest.mark.slow
@pytest.mark.parametrize(("n", "of_row"), [(300_000, 15), (10_000, 800)])
@pytest.mark.parametrize("option", ["metric", "kernel"])
def test_fits_of_graphs_keep_the_smallest_limit_and_twice_that(tmp_path, n, of_row, option):
    given = graph(n, of_row, 10, symmetric=option == "kernel")
    save_npz(tmp_path / "graph.npz", given, compressed=False)
    assert_keeps(tmp_path, str(tmp_path / "graph.npz"), given, 10, {option: "precomputed"})


@pytest.mark.parametrize("option", ["metric", "kernel"])
def test_a_graph_takes_the_memory_of_its_entries(option):
    given = graph(200_000, 5, 10, symmetric=option == "kernel")
    plan = bigsmic.plan(given, 10, n_threads=1, memory_limit="8GiB", **{option: "precomputed"})
    assert plan.peak_bytes < 640 * MIB  # and not that of 200,000 columns
    few = bigsmic.plan(given, 10, n_threads=1, memory_limit="8GiB", n_rows=100_000, **{option: "precomputed"})
    assert few.peak_bytes < plan.peak_bytes
    assert plan.duration.seconds[1] < 600


def test_a_matrix_is_compared_with_its_transpose_in_strips():
    given = graph(100_000, 20, 10, symmetric=True)
    size = given.data.nbytes + given.indices.nbytes
    tracemalloc.start()
    SparseSource(given, "affinity")
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert taken < 0.8 * size


def test_a_graph_is_cut_in_the_memory_of_its_entries(monkeypatch):
    found = bigsmic.fit(graph(20_000, 8, 4, symmetric=False), None, metric="precomputed", n_threads=2)
    monkeypatch.setattr(planning, "machine_memory", lambda: 600 * MIB)
    assert found.cut(4).n_clusters == 4


@pytest.mark.slow
def test_predictions_take_no_more_than_the_smallest_fit(tmp_path):
    options = {"t": (5,), "n_centers": 200}
    data = archive(tmp_path, (60_000, 64), 8)
    least = least_limit(data, 8, options | {"n_threads": 2})
    call = options | {"n_threads": 2, "memory_limit": f"{least}MiB"}
    run = str(tmp_path / "run")
    peak(tmp_path / "cache", data=data, c=8, options=call, out=run)
    assert peak(tmp_path / "cache", rows=data, out=run) <= least * MIB


# -- limits of addresses


def under(limit, *line):
    """Run the command with so many addresses."""
    run = [sys.executable, "-m", "bigsmic", *map(str, line)]
    places = {"PYTHONPATH": str(Path(bigsmic.__file__).parents[1])}
    bound = lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))  # noqa: E731
    return subprocess.run(run, capture_output=True, text=True, preexec_fn=bound, env=os.environ | places)


@pytest.mark.parametrize("limit", [250 * MIB, 500 * MIB, 800 * MIB])
def test_few_addresses_are_refused_at_the_door(tmp_path, limit):
    data = archive(tmp_path, (2000, 4000))  # wide, so that it is not the libraries' versions that tell whether it fits
    done = under(limit, "fit", data, "-c", 3, "--out", tmp_path / "run", "--threads", 2)
    assert done.returncode == 4, done.stderr
    assert "ulimit -v" in done.stderr


def test_what_a_limit_of_addresses_leaves_is_the_machine_s(monkeypatch):
    taken, actor = (int(pages) for pages in Path("/proc/self/statm").read_text().split()[:2])
    limit = (taken * os.sysconf("SC_PAGE_SIZE")) + (4 << 30)
    monkeypatch.setattr(memory.resource, "getrlimit", lambda _: (limit, limit))
    assert 3 << 30 < memory.address_room() < (5 << 30) + actor * os.sysconf("SC_PAGE_SIZE")
    monkeypatch.setattr(memory.resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    assert memory.address_room() is None


def test_freed_memory_of_threads_is_given_back():
    """Threads share an arena: the end of one of their own would be kept, however much of it is free."""
    code = """
import threading
import numpy as np
from bigsmic.engines.memory import keep_memory, release_memory, share_arena
actor = lambda: int(open("/proc/self/statm").read().split()[1]) * 4096
keep_memory(), share_arena()
before = actor()
held = []
def work():
    held.append(np.ones(1000))
    for _ in range(3):
        np.ones(24 << 17)
threads = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in threads], [t.join() for t in threads]
release_memory()
print(actor() - before)
"""
    places = {"PYTHONPATH": str(Path(bigsmic.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | places)
    assert int(done.stdout) < 16 * MIB, done.stderr


@pytest.mark.skipif(memory.freed_bytes() is None, reason="the allocator does not tell what it keeps")
def test_little_memory_is_kept_and_much_is_given_back():
    code = """
import numpy as np
from bigsmic.engines.memory import freed_bytes, keep_memory, release_memory
actor = lambda: int(open("/proc/self/statm").read().split()[1]) * 4096
def grown(size):
    before = actor()
    held = [np.ones(1 << 13) for _ in range(size >> 16)]  # too small for pages of their own
    top = np.ones(1 << 12)
    del held
    release_memory()
    return actor() - before
keep_memory(), release_memory()
start = freed_bytes()
print(start, grown(7 << 20), grown(96 << 20))
"""
    places = {"PYTHONPATH": str(Path(bigsmic.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | places)
    freed, little, much = (int(number) for number in done.stdout.split())
    assert freed < 8 * MIB
    assert little > 2 * MIB
    assert much < 16 * MIB
