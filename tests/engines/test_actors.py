"""Calls of actors on Dask workers: how they reach the workers, and what comes back."""

import time

import numpy as np
import pytest
from clusters import cluster_of
from distributed import Client, LocalCluster

from bigsmic.engines import dask_actors
from bigsmic.engines.base import DEFAULT
from bigsmic.engines.dask import ClusterEngine
from bigsmic.engines.dask_actors import LostWorkerError, WorkerGroup, reaches
from bigsmic.errors import ClusterError, InputError

BOUNDS = np.arange(0, 50, 10)
"""Bounds of four blocks of ten rows."""


class Rows:
    """Actor whose value of a row is its position."""

    def __init__(self, shard):
        self.shard, self.values = shard, np.arange(shard.lo, shard.hi, dtype=float)
        n_rows = int(shard.bounds[-1])
        self.halo = shard.halo(lambda p: np.setdiff1d(np.arange(n_rows), shard.positions(p)))

    def total(self):
        return self.shard.sum_over_blocks(lambda p: self.values[self.shard.rows(p)].sum())

    def double(self, times):
        """Double all values; return those of the others, which double theirs at the same time."""
        for _ in range(times):
            others = self.halo.foreign(self.values)
            self.values = self.values * 2
        return others

    def fail(self, error):
        raise error


@pytest.fixture(scope="module")
def engine():
    with cluster_of(2, as_default=False) as client, ClusterEngine(client) as engine:
        yield engine


@pytest.fixture(params=[True, False], ids=["directly", "through the scheduler"])
def reachable(request, monkeypatch):
    """Whether the client can connect to workers."""
    if not request.param:
        monkeypatch.setattr(dask_actors, "reaches", lambda engine, workers: False)
    return request.param


def test_values_come_back_in_the_order_of_the_workers(engine, reachable):
    def work(group):
        assert group.directly == reachable
        return group.call_sum(("total",)), group.call(("double", 5))

    total, (first, second) = engine.run_actors(Rows, BOUNDS, work)
    assert total == np.arange(40).sum()
    np.testing.assert_array_equal(first, np.arange(20, 40) * 16)
    np.testing.assert_array_equal(second, np.arange(20) * 16)


@pytest.mark.parametrize("error", [InputError("no such row"), ValueError("three")])
def test_an_error_of_an_actor_is_that_of_the_call(engine, reachable, error):
    with pytest.raises(type(error), match=str(error)):
        engine.run_actors(Rows, BOUNDS, lambda group: group.call(("fail", error)))


def test_workers_of_one_process_have_an_actor_each(reachable, monkeypatch):
    monkeypatch.setattr(dask_actors, "OPEN_SECONDS", 10)

    def work(group):
        return group.call_sum(("total",)), group.call(("double", 3))

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
        ClusterEngine(client) as engine,
    ):
        before, (cpu, _), after = time.process_time(), engine.usage(), time.process_time()
        assert before <= cpu <= after  # counted once
        total, (first, second) = engine.run_actors(Rows, BOUNDS, work)
    assert total == np.arange(40).sum()
    np.testing.assert_array_equal(first, np.arange(20, 40) * 4)
    np.testing.assert_array_equal(second, np.arange(20) * 4)


def test_workers_that_cannot_be_reached_are_known_in_time(engine):
    workers = list(engine.workers())
    assert reaches(engine, workers)
    assert not reaches(engine, [*workers, "tcp://127.0.0.1:1"])
    assert not reaches(engine, ["nothing://here:1"])


def test_a_worker_that_is_gone_is_lost(engine):
    group = WorkerGroup(engine, Rows, BOUNDS, DEFAULT)
    try:
        group.begin()
        group.workers[1] = "tcp://127.0.0.1:1"
        with pytest.raises(LostWorkerError, match="blocks 2 to 3, positions 20 to 39 was lost"):
            group.call(("total",))
    finally:
        group.close()


def test_a_client_that_is_closed_is_one_error(engine, reachable):
    client = Client(engine.client.scheduler.address, set_as_default=False)

    def close(group):
        client.close()
        return group.call(("total",))

    with ClusterEngine(client) as used, pytest.raises(ClusterError, match=r"was lost .* same call resumes") as error:
        used.run_actors(Rows, BOUNDS, close)
    assert type(error.value) is ClusterError


def test_a_worker_that_is_busy_with_other_tasks_is_waited_for(monkeypatch):
    monkeypatch.setattr(dask_actors, "OPEN_SECONDS", 0.2)
    monkeypatch.setattr(dask_actors, "LOOK_SECONDS", 0.1)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
        ClusterEngine(client) as engine,
    ):
        busy = client.submit(time.sleep, 5, workers=[min(engine.workers())], pure=False)
        assert engine.run_actors(Rows, BOUNDS, lambda group: group.call_sum(("total",))) == np.arange(40).sum()
        assert busy.done()


@pytest.mark.parametrize("question", ["usage", "await_workers", "workers"])
def test_what_is_asked_through_a_client_that_is_closed_is_one_error(engine, question):
    client = Client(engine.client.scheduler.address, set_as_default=False)
    with ClusterEngine(client) as used:
        client.close()
        with pytest.raises(ClusterError, match=r"was lost .* same call resumes"):
            getattr(used, question)()
