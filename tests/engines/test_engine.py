"""Verbs over blocks: in order, no wider than allowed, sums along one tree, the first error ends it."""

import gc
import inspect
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from bigsmic.engines import open_engine
from bigsmic.engines.base import Engine, TaskOptions
from bigsmic.engines.dask import ClusterEngine
from bigsmic.engines.threads import Narrowed, ThreadEngine
from bigsmic.errors import InputError
from bigsmic.numerics.row_blocks import tree_sum


@pytest.fixture(params=[1, 2, 5])
def engine(request):
    with ThreadEngine(request.param) as opened:
        yield opened


def late(block):
    """The earlier the block, the later it is done."""
    time.sleep(0.01 / (block + 1))
    return block


class Words(str):
    """Adds up to what was added, in what order and with what brackets."""

    def __add__(self, other):
        return Words(f"({self}{other})")


def test_collect_keeps_the_order(engine):
    assert engine.map(late, range(7)) == list(range(7))
    assert engine.map(late, []) == []


def test_each_runs_every_block(engine):
    seen = []
    engine.for_each(lambda block: seen.append(late(block)), iter(range(7)))
    assert sorted(seen) == list(range(7))


def test_tree_sum_adds_neighbours():
    assert tree_sum([Words(c) for c in "abcdefg"]) == "(((ab)(cd))((ef)g))"
    assert tree_sum([3]) == 3


@given(st.integers(1, 40))
def test_sums_have_the_brackets_of_the_tree(n):
    words = [Words(f"{i},") for i in range(n)]
    for n_threads in (1, 3):
        with ThreadEngine(n_threads) as engine:
            assert engine.reduce(words.__getitem__, range(n)) == tree_sum(words)


def test_sums_are_the_same_whoever_is_first():
    rng = np.random.default_rng(0)
    terms = rng.normal(size=(33, 50)).astype(np.float32) * 10 ** rng.normal(size=(33, 1))
    found = []
    for n_threads in (1, 2, 7):
        with ThreadEngine(n_threads) as engine:
            found.append(engine.reduce(lambda i: (late(i % 5), terms[i])[1], range(33)))
    assert all((other == found[0]).all() for other in found)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_a_sum_holds_few_terms(n_threads):
    """Not more than the tree waits with: one per level, and those of tasks that are ahead, however slow the caller."""
    alive, most, lock = [0], [0], threading.RLock()

    class Term:
        def __init__(self):
            with lock:
                alive[0] += 1
                most[0] = max(most[0], alive[0])

        def __del__(self):
            with lock:
                alive[0] -= 1

        def __add__(self, other):
            return Term()

    with ThreadEngine(n_threads) as engine:
        engine.reduce(lambda i: Term(), range(1000), TaskOptions(tick=lambda: time.sleep(1e-4)))
    assert most[0] <= 13 * n_threads


@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("narrow", [False, True])
def test_no_more_tasks_at_once_than_allowed(width, narrow):
    running, most, lock = [0], [0], threading.Lock()

    def task(block):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.002)
        with lock:
            running[0] -= 1

    with ThreadEngine(3) as engine:
        if narrow:
            Narrowed(engine, width).for_each(task, range(20))
        else:
            engine.for_each(task, range(20), TaskOptions(max_concurrency=width))
    assert most[0] <= width


def test_threads_do_not_wait_for_a_slow_caller():
    started, many = [], threading.Event()

    def task(block):
        started.append(block)
        if len(started) == 10:
            many.set()

    with ThreadEngine(2) as engine:
        engine.for_each(task, range(50), TaskOptions(tick=lambda: many.wait(60)))
    assert many.is_set()


def test_no_task_begins_after_the_caller_has_left():
    started = []

    def leave():
        raise KeyboardInterrupt

    with ThreadEngine(2) as engine:
        with pytest.raises(KeyboardInterrupt):
            engine.for_each(lambda i: (late(1), started.append(i)), range(500), TaskOptions(tick=leave))
        n_started = len(started)
        assert engine.map(str, range(3)) == ["0", "1", "2"]
    assert len(started) == n_started < 500


def test_narrowed_does_what_it_narrows():
    with ThreadEngine(3) as engine:
        narrowed = Narrowed(engine, 2)
        assert narrowed.map(late, range(5)) == list(range(5))
        assert narrowed.reduce(float, range(5)) == 10


def test_the_first_error_ends_it(engine):
    started = []

    def task(block):
        started.append(block)
        if block == 3:
            raise ValueError("three")
        time.sleep(0.01)

    with pytest.raises(ValueError, match="three"):
        engine.for_each(task, range(500))
    n_started = len(started)
    assert n_started < 500
    time.sleep(0.02)
    assert len(started) == n_started


class Rows:
    """What tasks read."""


def failing(rows, block):
    time.sleep(0.001)
    raise ValueError(block)


def test_an_error_keeps_nothing_of_the_tasks(engine):
    """An error that refers to itself, or a second one that nobody takes, would keep it until a collection."""
    rows = Rows()
    kept, _ = weakref.ref(rows), gc.collect()
    gc.disable()
    try:
        with suppress(ValueError):
            engine.map(partial(failing, rows), range(20))
        del rows
        deadline = time.monotonic() + 10
        while kept() is not None and time.monotonic() < deadline:  # threads let go of their last task in a moment
            time.sleep(0.01)
        assert kept() is None
    finally:
        gc.enable()


def blas_threads(_=None):
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_blas_runs_on_one_thread_while_it_is_open():
    with threadpool_limits(2):
        before = blas_threads()
        with ThreadEngine(2) as engine:
            assert set(engine.map(blas_threads, [0])[0]) == {1}
        assert blas_threads() == before


def test_engines_may_overlap():
    with threadpool_limits(2):
        before, first, second = blas_threads(), ThreadEngine(1), ThreadEngine(1)
        first.__enter__()
        second.__enter__()
        first.__exit__()
        assert set(blas_threads()) == {1}
        second.__exit__()
        assert blas_threads() == before


def test_an_interruption_while_it_closes_leaves_blas_as_it_was(monkeypatch):
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    with threadpool_limits(2):
        before, engine = blas_threads(), ThreadEngine(2)
        with monkeypatch.context() as patched:
            patched.setattr(ThreadPoolExecutor, "shutdown", interrupted)
            with pytest.raises(KeyboardInterrupt), engine:
                pass
        assert blas_threads() == before


def test_an_error_leaves_blas_as_it_was():
    before = blas_threads()
    with pytest.raises(ZeroDivisionError, match="division"), ThreadEngine(2) as engine:
        engine.for_each(lambda _: 1 / 0, [0])
    assert blas_threads() == before


MEMORY = '''
import os
import numpy as np
from bigsmic.engines.threads import ThreadEngine
from bigsmic.engines.memory import keep_memory

small = []

def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def part(block):
    """An array that the actor holds, and before the next one a small one that outlives it."""
    array = np.ones(4 << 20, np.uint8)
    small.append(np.ones(2000, np.uint8))
    return array

def work(group):
    return resident_bytes()

keep_memory()
with ThreadEngine(2) as engine:
    before = resident_bytes()
    during = engine.run_actors(lambda share: share.engine.map(part, share.blocks), range(41), work)
    print(during - before, resident_bytes() - before)
'''


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc, and is of glibc's allocator")
def test_memory_of_residents_goes_back_to_the_system():
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    during, after = map(int, done.stdout.split())
    assert during > 150 << 20
    assert after < 20 << 20


# -- the protocol


def public_methods(kind):
    return {name: f for name, f in vars(kind).items() if inspect.isfunction(f) and not name.startswith("_")}


@pytest.mark.parametrize("kind", [ThreadEngine, ClusterEngine])
def test_engines_have_the_verbs_of_the_protocol(kind):
    for name, declared in public_methods(Engine).items():
        asked, offered = (inspect.signature(function).parameters for function in (declared, getattr(kind, name)))
        assert list(offered) == list(asked), name
        assert [p.default for p in offered.values()] == [p.default for p in asked.values()], name
    assert {"__enter__", "__exit__"} <= vars(kind).keys()


def test_the_protocol_has_what_stages_and_fits_ask_for():
    """What is public in both engines, whoever asks for it, stands in the protocol."""
    shared = public_methods(ThreadEngine).keys() & public_methods(ClusterEngine).keys()
    assert public_methods(Engine).keys() == shared


@pytest.mark.parametrize("n_threads", [0, -1, 1.5, True, "2"])
def test_a_number_of_threads_that_is_none_is_refused(n_threads):
    for opening in (ThreadEngine, lambda n: open_engine(n_threads=n)):
        with pytest.raises(InputError, match=f"n_threads: got {n_threads!r}; give an integer of at least 1, or None"):
            opening(n_threads)
