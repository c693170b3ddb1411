"""Clusters of worker processes for tests and benchmarks of faults: how they begin, and how they are harmed."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import dask
import numpy as np
from distributed import Client, LocalCluster, WorkerPlugin
from distributed.utils import get_mp_context
from locations import environment
from small_fits import FAST

import bigsmic

STAGES = (
    "scan",
    "routed_rows",
    "rows",
    "neighbors",
    "lists",
    "graph",
    "weights.normalized.t3",
    "matrix.normalized.t3",
    "basis.normalized.t3",
    "labeling.groups.normalized.t3",
    "final",
    "output",
)
"""Stages in which a worker is lost: those of tasks, and of actors."""

AT_ONCE = ("basis.", "labeling.", "degree.")
"""Stages whose blocks actors write all at once when they are done, and write again if one of them dies of it;
degrees are written with weights, before them."""


def fit(X, **options):
    """A small fit into four clusters, whose options are those of the cluster tests unless given."""
    return bigsmic.fit(X, 4, **FAST | {"t": (3,), "widths": (1.5, 2)} | options)


def assert_same(result, alone):
    """Labels and posterior are, bit for bit, those of threads."""
    np.testing.assert_array_equal(result.labels, alone[0])
    np.testing.assert_array_equal(np.asarray(result.posterior), alone[1])


def ledgers(out):
    """When each block of a run was finished."""
    return {"/".join(path.parts[-3:-1]): path.stat().st_mtime_ns for path in out.glob("*/[0-9]*/zarr.json")}


def redone(before, after):
    """Blocks that were finished, and were finished again later; those that are gone by then do not count."""
    return [block for block, at in before.items() if after.get(block, at) != at]


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
                self.spring(Path(run.address))
            return write(run, stage, block, *args, **options)

        Run.write = trapped

    def teardown(self, worker):
        from bigsmic.store import Run

        Run.write = Run.untrapped_write

    def spring(self, out):
        for death in range(self.times):
            try:
                mark = os.open(f"{self.marks}/{death}", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
            except FileExistsError:
                continue
            os.write(mark, json.dumps(ledgers(out)).encode())
            os.close(mark)
            if self.how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            elif self.how == "segfault":
                os.kill(os.getpid(), signal.SIGSEGV)
            else:
                sys.exit(3)


WARM = ["distributed", "bigsmic.engines.dask", "bigsmic.pipeline", "bigsmic.methods.smic.method", "bigsmic.methods.rim"]
"""Modules that a process has loaded of which workers are forked: loading them takes longer than most fits."""


@contextmanager
def forked_workers():
    """Have workers begin as copies of a process that has everything loaded, and nothing else in it."""
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context().set_forkserver_preload(WARM)
        yield


@contextmanager
def cluster_of(n_workers, n_threads=1, as_default=True, **options):
    """Client of a cluster of processes on this machine."""
    with (
        forked_workers(),
        LocalCluster(
            n_workers=n_workers, threads_per_worker=n_threads, processes=True, dashboard_address=":0", **options
        ) as made,
        Client(made, set_as_default=as_default) as client,
    ):
        yield client


@contextmanager
def trap(client, stage, how, folder, **options):
    """Set a trap; the folder of the marks that deaths leave."""
    marks = folder / "marks"
    marks.mkdir()
    client.register_plugin(Trap(stage, how, marks, **options))
    try:
        yield marks
        assert list(marks.iterdir())
    finally:
        client.unregister_worker_plugin("trap")
        client.wait_for_workers(1, timeout=60)


CLIENT = """
import json, sys
import numpy as np
import bigsmic
from bigsmic.runtime.block_sizes import BlockSizes

if __name__ == "__main__":
    X, out, scheduler, options, sizes = sys.argv[1:]
    sizes = BlockSizes(**json.loads(sizes))
    bigsmic.fit(np.load(X), out=out, scheduler=scheduler, block_sizes=sizes, **json.loads(options))
"""
"""Program that fits on a cluster, until it is killed: rows, run, scheduler, options, sizes of blocks."""

CLUSTER = """
import sys, time
from distributed import LocalCluster

if __name__ == "__main__":
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster:
        print(cluster.scheduler_address, file=sys.stderr, flush=True)
        time.sleep(600)
"""
"""Program that is a scheduler with a worker, until it is killed."""


@contextmanager
def small_disk(folder, size):
    """A file system of its own, such as of ``"1m"``, in a folder; OSError where mounting is not permitted."""
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)], capture_output=True)
    if done.returncode:
        raise OSError(f"mount: {done.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder):
    """Use up what is left on a file system; return the file that does."""
    with suppress(OSError), open(folder / "filler", "wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    return folder / "filler"


def start(script, *arguments):
    """Start a Python program that finds these modules; its stderr is a pipe."""
    command = [sys.executable, "-W", "ignore", "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True)


def await_stage(out, stage, process):
    """Wait until a run has begun a stage."""
    deadline = time.monotonic() + 300  # on busy machines
    while not list(out.glob(f"{stage}/[0-9]*/zarr.json")):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)


class Gate(WorkerPlugin):
    """Holds up the worker that began a stage, after its first blocks, until another worker writes a block of it.

    Parameters
    ----------
    stage : str
    folder : Path
        Folder in which workers leave marks.
    n_passing : int
        Blocks that are not held up.
    """

    name = "gate"

    def __init__(self, stage, folder, n_passing):
        self.stage, self.folder, self.n_passing = stage, str(folder), n_passing

    def setup(self, worker):
        from bigsmic.store import Run

        write = Run.write

        def gated(run, stage, block, *args, **options):
            if stage == self.stage and not self.leaves_mark(range(self.n_passing)):
                self.pass_(worker.address)
            return write(run, stage, block, *args, **options)

        Run.write = gated

    def pass_(self, address):
        """Return when two workers have come here; an error if one waits in vain."""
        with suppress(FileExistsError):
            os.close(os.open(f"{self.folder}/{address.rpartition(':')[2]}", os.O_CREAT | os.O_EXCL))
        deadline = time.monotonic() + 300  # on busy machines
        while len(os.listdir(self.folder)) < self.n_passing + 2:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.stage}: no other worker has come to its blocks")
            time.sleep(0.05)

    def leaves_mark(self, names):
        """Whether one of the marks was not there before."""
        for name in names:
            with suppress(FileExistsError):
                os.close(os.open(f"{self.folder}/{name}", os.O_CREAT | os.O_EXCL))
                return True
        return False
