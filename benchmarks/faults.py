"""What faults cost: the labels that come out in the end, the blocks that are done again, and the seconds.

    python benchmarks/faults.py [--rows 20000] [--only kill scheduler]

A fit on a cluster of two workers of one thread is harmed in one way at a time. Seconds lost are those of the fit, and
of the one that goes on after it where it ends with an error, over the fit that nothing harms. Faults are those of the
tests, which assert their outcomes; disks that fill need root. Faults in results/faults.json are not repeated.
"""

import argparse
import hashlib
import json
import shutil
import sys
import tempfile
import time
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

import numpy as np
import pytest
from _harness import RESULTS, save, table
from clusters import (
    CLIENT,
    CLUSTER,
    STAGES,
    await_stage,
    cluster_of,
    fill,
    ledgers,
    redone,
    small_disk,
    start,
    trap,
)
from distributed import Client
from sklearn.datasets import make_blobs
from small_fits import keep_on_disk

import bigsmic
from bigsmic.errors import BigsmicError
from bigsmic.runtime.block_sizes import BlockSizes

SIZES = BlockSizes(source_bytes=1, group_rows=2500)
OPTIONS = {"c": 8, "t": (3,), "widths": (1.5, 2), "n_centers": 200}
DEATHS = ("kill", "segfault", "exit")
LEFT = ("neighbors", "eigen normalized.t3")
DAMAGED = ("scan", "rows", "graph", "basis.normalized.t3", "labeling.normalized.t3", "final", "output")
DAMAGES = ("truncate", "flip", "delete")
COLUMNS = ("outcome", "same_labels", "blocks_redone", "blocks_done", "seconds_lost")
RESULT = RESULTS / "faults.json"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--only", nargs="+", default=[""], help="beginnings of the names of faults")
    args = parser.parse_args()
    found = json.loads(RESULT.read_text())["measurements"] if RESULT.exists() else {}
    with Bench(args.rows) as bench:
        for name, fault in faults().items():
            if name not in found and name.startswith(tuple(args.only)):
                found[name] = bench.suffer(fault)
                print(name, found[name], flush=True)
                save("faults", found, rows=args.rows, blocks=bench.blocks, undisturbed_seconds=bench.undisturbed)
    table(found, COLUMNS, "fault, stage")


class Bench:
    """Rows, a cluster, and what a fit of the rows on it gives that nothing harms.

    Parameters
    ----------
    n_rows : int
    """

    def __init__(self, n_rows):
        X, _ = make_blobs(n_rows, 16, centers=12, cluster_std=2.5, random_state=0)
        self.X = X.astype(np.float32)

    def __enter__(self):
        self.home = Path(tempfile.mkdtemp(prefix="bigsmic-faults-"))
        np.save(self.home / "X.npy", self.X)
        self._open()
        self.begin(self.home / "whole")
        self.labels = self.fit()
        self.undisturbed, self.blocks = self.spent, len(ledgers(self.out))
        self.spent = 0.0
        self.fit()
        self.reopened, self.whole = self.spent, self.out
        return self

    def __exit__(self, *exc):
        self._cluster.__exit__(*exc)
        shutil.rmtree(self.home)

    def _open(self):
        """Start two workers, and have them compile what they run."""
        self._cluster = cluster_of(2)
        self.client = self._cluster.__enter__()
        self.begin(Path(tempfile.mkdtemp(dir=self.home)) / "warm")
        self.fit()

    def _reopen(self):
        """Wait for two workers, and start others where a fault has left fewer."""
        try:
            self.client.wait_for_workers(2, timeout=30)
        except TimeoutError:
            self._cluster.__exit__(None, None, None)
            self._open()

    def begin(self, out):
        """Begin to count seconds, of fits into a run."""
        self.out, self.spent, self.before = out, 0.0, {}

    def suffer(self, fault):
        """Measure one fault: a function of the bench and a folder that returns outcome and hash of the labels."""
        folder = self.home / "fault"
        folder.mkdir()
        self._reopen()
        self.begin(folder / "run")
        self.expected = self.undisturbed
        outcome, labels = fault(self, folder)
        again = redone(self.before, ledgers(self.out))
        shutil.rmtree(folder)
        found = {"outcome": outcome, "same_labels": labels == self.labels}
        counts = {"blocks_redone": len(again), "blocks_done": len(self.before)}
        return found | counts | {"seconds_lost": self.spent - self.expected}

    @contextmanager
    def counted(self):
        """Seconds that count."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.spent += time.perf_counter() - begun

    def fit(self, **options):
        """Fit, or go on, and return a hash of the labels."""
        with self.counted():
            found = bigsmic.fit(self.X, out=self.out, block_sizes=SIZES, **OPTIONS | {"client": self.client} | options)
        return hashlib.sha256(found.labels.tobytes()).hexdigest()[:16]

    def failing(self, **options):
        """Fit, and return the error that it must end with; what is done by then must not be done again."""
        with pytest.raises(BigsmicError) as caught:
            self.fit(**options)
        self.before = ledgers(self.out)
        return type(caught.value).__name__


def faults():
    """Every fault by its name."""
    found = {f"{how} {stage}": partial(death, stage=stage, how=how) for stage in STAGES for how in DEATHS}
    found |= {f"retired {stage}": partial(retirement, stage=stage) for stage in LEFT}
    found |= {"poison block": poison, "client killed": client_killed, "scheduler killed": scheduler_killed}
    found |= {"two fits": two_fits, "disk full, run": run_disk_full, "disk full, worker": worker_disk_full}
    return found | {f"{how} {stage}": partial(damage, stage=stage, how=how) for stage in DAMAGED for how in DAMAGES}


def death(bench, folder, stage, how):
    """A worker dies when it begins to write a block."""
    # nannies do not replace a worker that has left by sys.exit: it takes a cluster of its own
    own = cluster_of(2) if how == "exit" else nullcontext(bench.client)
    with own as client, trap(client, stage, how, folder) as marks:
        labels = bench.fit(client=client)
        (mark,) = marks.iterdir()
        bench.before = json.loads(mark.read_text())
    return "goes on", labels


def retirement(bench, folder, stage):
    """A worker is told to leave, as by a cluster that shrinks or at the end of its lifetime."""

    def leave(name, done, total):
        if name == stage and not bench.before and (done or "eigen" in name):
            bench.before = ledgers(bench.out)
            client.retire_workers([next(iter(client.has_what()))], close_workers=True)

    with cluster_of(2) as client:
        return "goes on", bench.fit(client=client, progress=leave)


def poison(bench, folder):
    """A block kills every worker that runs it; then it does not any more."""
    with trap(bench.client, "neighbors", "kill", folder, times=9, block=2):
        error = bench.failing()
    return f"{error}, then goes on", bench.fit()


def client_killed(bench, folder):
    """The process that called fit is killed."""
    X, scheduler = bench.home / "X.npy", bench.client.scheduler.address
    killed = start(CLIENT, X, bench.out, scheduler, json.dumps(OPTIONS), json.dumps(asdict(SIZES)))
    await_stage(bench.out, "scan", killed)
    with bench.counted():
        await_stage(bench.out, "weights.normalized.t3", killed)
    killed.kill()
    killed.communicate()
    bench.before = ledgers(bench.out)
    return "the next call goes on", bench.fit()


def scheduler_killed(bench, folder):
    """The scheduler is killed while the eigensolver runs."""
    lost = start(CLUSTER)

    def kill(stage, done, total):
        if stage.startswith("eigen"):
            lost.kill()

    with Client(lost.stderr.readline().strip(), set_as_default=False, timeout=10) as doomed:
        error = bench.failing(client=doomed, progress=kill)
    lost.communicate()
    return f"{error}, then goes on", bench.fit()


def two_fits(bench, folder):
    """Another fit is called on the same run directory."""
    refused = []

    def again(stage, done, total):
        if stage == "graph" and not refused:
            begun = time.perf_counter()
            with pytest.raises(BigsmicError) as caught:
                bigsmic.fit(bench.X, out=bench.out, **OPTIONS)
            refused.append(f"{type(caught.value).__name__} after {time.perf_counter() - begun:.1f} s")

    labels = bench.fit(progress=again)
    return f"second fit: {refused[0]}", labels


def run_disk_full(bench, folder):
    """The disk of the run directory is full, and then is not."""

    def full(stage, done, total):
        if stage == "neighbors" and done == 1:
            fill(bench.out.parent)

    with small_disk(folder / "disk", "256m"):
        bench.out = folder / "disk" / "run"
        error = bench.failing(progress=full)
        (bench.out.parent / "filler").unlink()
        labels = bench.fit()
        shutil.copytree(bench.out, folder / "run")  # with its times
    bench.out = folder / "run"
    return f"{error}, then goes on", labels


def worker_disk_full(bench, folder):
    """The disk of the workers is full when the eigensolver keeps its basis there, and then is not."""
    with small_disk(folder / "disk", "256m") as disk, pytest.MonkeyPatch.context() as patch:
        keep_on_disk(patch)
        with cluster_of(2, local_directory=disk) as client:
            filler = fill(disk)
            error = bench.failing(client=client)
            filler.unlink()
            return f"{error}, then goes on", bench.fit(client=client)


def damage(bench, folder, stage, how):
    """A chunk of a finished run is damaged, and the same fit called again."""
    shutil.copytree(bench.whole, bench.out)
    bench.before, bench.expected = ledgers(bench.out), bench.reopened
    path = max((bench.out / stage).glob("[0-9]*/*/c*"), key=lambda path: path.stat().st_size)
    if how == "delete":
        path.unlink()
    else:
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content if how == "flip" else content[: len(content) // 2])
    return "made again", bench.fit()


if __name__ == "__main__":
    main()
