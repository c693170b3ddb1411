"""On a Dask cluster of worker processes: the same bits, whatever the workers, and whatever happens to them."""

import os
import signal
import sys
from contextlib import contextmanager

import numpy as np
import pytest
from conftest import FAST, cut_small
from distributed import Client, LocalCluster, WorkerPlugin

import bigsmic
from bigsmic import cluster as dask_cluster
from bigsmic.errors import LostBlocksError

pytestmark = [
    pytest.mark.usefixtures("many_blocks"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

STAGES = ("scan", "pieces", "neighbors", "graph", "weights.normalized.t3", "basis.normalized.t5", "labeling.normalized.t3",
          "final", "output")  # fmt: skip


class SmallBlocks(WorkerPlugin):
    """Cuts what is small into many blocks, in every worker, also in those that join later."""

    name = "small-blocks"

    def setup(self, worker):
        cut_small(pytest.MonkeyPatch())


class Trap(WorkerPlugin):
    """Ends a worker when it begins to write a block of a stage.

    Parameters
    ----------
    stage : str
    how : {"kill", "segfault", "exit"}
    marks : Path
        Folder in which each death leaves a mark.
    times : int
        Deaths, after which the trap is open.
    block : int, optional
        The only block that it is set for.
    """

    name = "trap"

    def __init__(self, stage, how, marks, times=1, block=None):
        self.stage, self.how, self.marks, self.times, self.block = stage, how, str(marks), times, block

    def setup(self, worker):
        from bigsmic.store import Run

        if hasattr(Run, "untrapped_write"):
            Run.write = Run.untrapped_write
        write = Run.untrapped_write = Run.write

        def trapped(run, stage, block, *args, **options):
            if stage == self.stage and self.block in (None, block):
                self.spring(block)
            return write(run, stage, block, *args, **options)

        Run.write = trapped

    def teardown(self, worker):
        from bigsmic.store import Run

        Run.write = Run.untrapped_write

    def spring(self, block):
        for death in range(self.times):
            try:
                os.close(os.open(f"{self.marks}/{death}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            if self.how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            elif self.how == "segfault":
                os.kill(os.getpid(), signal.SIGSEGV)
            else:
                sys.exit(3)


@contextmanager
def cluster_of(n_workers, n_threads=1, **options):
    with (
        LocalCluster(
            n_workers=n_workers, threads_per_worker=n_threads, processes=True, dashboard_address=None, **options
        ) as made,
        Client(made) as client,
    ):
        client.register_plugin(SmallBlocks())
        yield client


@pytest.fixture(scope="module")
def client():
    with cluster_of(2) as client:
        yield client


def fit(X, **options):
    return bigsmic.fit(X, 4, **FAST | options)


@pytest.fixture(scope="module")
def alone(blobs):
    """Labels and posterior of threads."""
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        result = fit(blobs[0], assignment="merge")
        return result.labels, np.asarray(result.posterior)


def assert_same(result, alone):
    np.testing.assert_array_equal(result.labels, alone[0])
    np.testing.assert_array_equal(np.asarray(result.posterior), alone[1])


def test_labels_are_those_of_threads(client, blobs, alone, tmp_path):
    assert_same(fit(blobs[0], client=client, out=tmp_path / "run"), alone)


@pytest.mark.parametrize("how", ["kill"])
@pytest.mark.parametrize("stage", ["neighbors", "basis.normalized.t5"])
def test_a_worker_that_dies_costs_its_unfinished_blocks(client, blobs, alone, tmp_path, stage, how):
    with trap(client, stage, how, tmp_path):
        assert_same(fit(blobs[0], client=client, out=tmp_path / "run"), alone)


@contextmanager
def trap(client, stage, how, tmp_path, **options):
    marks = tmp_path / "marks"
    marks.mkdir()
    client.register_plugin(Trap(stage, how, marks, **options))
    try:
        yield marks
        assert list(marks.iterdir())
    finally:
        client.unregister_worker_plugin("trap")
        client.wait_for_workers(2, timeout=60)


def test_a_block_that_kills_its_workers_is_named(client, blobs, tmp_path):
    with (
        trap(client, "neighbors", "kill", tmp_path, times=9, block=2) as marks,
        pytest.raises(LostBlocksError, match="neighbors: block 2, positions"),
    ):
        fit(blobs[0], client=client, out=tmp_path / "run")
    assert len(list(marks.iterdir())) == dask_cluster.DEATHS
