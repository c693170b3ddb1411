"""On Dask workers whose own disk is full: what they spill, and what actors keep there."""

import threading
import time
from contextlib import ExitStack

import dask
import numpy as np
import pytest
from clusters import assert_same, cluster_of, fill, fit, ledgers, redone, small_disk
from distributed import Status, get_worker
from small_fits import cut_small, keep_on_disk

from bigsmic.engines import dask as dask_cluster
from bigsmic.engines import paused_workers
from bigsmic.errors import ClusterError, StorageError

pytestmark = [
    pytest.mark.end_to_end,
    pytest.mark.usefixtures("many_blocks"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def alone(blobs):
    """Labels and posterior of threads."""
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        result = fit(blobs[0])
        return result.labels, np.asarray(result.posterior)


@pytest.fixture
def worker_disk(tmp_path):
    """A file system of a megabyte; skips where mounting is not permitted."""
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(small_disk(tmp_path / "disk", "1m"))
        except OSError as error:
            pytest.skip(str(error))
        yield folder


def test_a_basis_that_finds_no_room_is_one_error_and_the_run_goes_on(blobs, alone, worker_disk, tmp_path, monkeypatch):
    keep_on_disk(monkeypatch)
    with cluster_of(2, local_directory=worker_disk) as client:
        filler = fill(worker_disk)
        with pytest.raises(StorageError, match=r"eigen: writing the basis to .*: no space left .* same command again"):
            fit(blobs[0], client=client, out=tmp_path / "run")
        before = ledgers(tmp_path / "run")
        filler.unlink()
        assert_same(fit(blobs[0], client=client, out=tmp_path / "run"), alone)
    assert not redone(before, ledgers(tmp_path / "run"))


def test_what_cannot_be_spilled_stays_in_memory(blobs, alone, worker_disk, tmp_path):
    everything, kept = {"distributed.worker.memory.target": 1e-9}, []

    def look(stage, done, total):
        kept.extend(client.run(_kept).values())

    with dask.config.set(everything), cluster_of(2, memory_limit="4GiB", local_directory=worker_disk) as client:
        fill(worker_disk)
        assert_same(fit(blobs[0], client=client, out=tmp_path / "run", progress=look), alone)
    in_memory, on_disk = np.sum(kept, axis=0)
    assert in_memory > 0
    assert on_disk == 0


def test_workers_that_are_all_out_of_memory_are_one_error_and_the_run_goes_on(blobs, alone, tmp_path, monkeypatch):
    monkeypatch.setattr(dask_cluster, "WATCH_SECONDS", 0.5)
    monkeypatch.setattr(paused_workers, "PAUSED_SECONDS", 1)

    def pause(stage, done, total):
        if stage == "lists" and not done:
            client.run(_set_status, "paused")

    with dask.config.set({"distributed.worker.memory.pause": False}), cluster_of(2) as client:
        with pytest.raises(
            ClusterError, match=r"all 2 workers of tcp://.* have been paused.*free space in their local_directory"
        ):
            fit(blobs[0], client=client, out=tmp_path / "run", progress=pause)
        before = ledgers(tmp_path / "run")
        client.run(_set_status, "running")
        assert_same(fit(blobs[0], client=client, out=tmp_path / "run"), alone)
    assert not redone(before, ledgers(tmp_path / "run"))


def test_what_a_paused_worker_has_not_begun_is_done_by_others(monkeypatch):
    """Dask would leave it there until the worker has less memory, which may be never."""
    monkeypatch.setattr(dask_cluster, "WATCH_SECONDS", 0.5)
    with dask.config.set({"distributed.worker.memory.pause": False}), cluster_of(2) as client:
        end = threading.Timer(60, client.run, [_set_status, "running"])  # or a failure would be a hang
        end.start()
        with dask_cluster.ClusterEngine(client) as engine:
            assert engine.reduce(_pause_at_zero, range(8)) == 28
            engine.for_each(_pause_at_zero, range(1, 9))
        end.cancel()
        assert sorted(client.run(_status).values()) == ["paused", "running"]


def _pause_at_zero(block):
    """The block; its worker is paused when it begins the first one."""
    worker = get_worker()
    if block == 0:
        worker.loop.add_callback(setattr, worker, "status", Status.paused)
        time.sleep(1)
    return np.float64(block)


def _status(dask_worker=None):
    return dask_worker.status.name


def _kept(dask_worker=None):
    """Results that a worker has in memory, and on disk."""
    return len(dask_worker.data.memory), len(dask_worker.data.disk)


async def _set_status(name, dask_worker=None):
    dask_worker.status = Status[name]
