"""Fits on clusters of worker processes that are started for them, as functions that the harness runs."""

import hashlib
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from _data import SIMULATORS

import bigsmic
from bigsmic import datasets
from bigsmic.runtime.block_sizes import BlockSizes

SIMULATORS["mixture3m32"] = datasets.MixtureSimulator(n_rows=3_000_000, d=32, c=20)
SIZES = (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)


@contextmanager
def client_of(n_workers, n_threads, scheduler=None, memory_limit=None):
    """Client of a cluster at an address, or of one that is started here; None without workers."""
    from distributed import Client, LocalCluster

    if scheduler is not None:
        with Client(scheduler) as client:
            yield client
    elif n_workers == 0:
        yield None
    else:
        shape = {"n_workers": n_workers, "threads_per_worker": n_threads, "memory_limit": memory_limit or "auto"}
        with LocalCluster(**shape, dashboard_address=":0") as cluster, Client(cluster) as client:
            yield client


def fit(archive, c, n_workers=0, n_threads=1, memory_limit=None, scheduler=None, warm=True, group_rows=None, **options):
    """Fit an archive in process (``n_workers=0``) or on a cluster; a fingerprint of labels and posterior, and costs.

    A small fit comes first, so that the workers have compiled what they run.
    """
    with client_of(n_workers, n_threads, scheduler, memory_limit) as client, _folder() as folder:
        where = {"client": client} if client is not None else {"n_threads": n_threads}
        where |= {"block_sizes": BlockSizes(group_rows=group_rows)}
        if warm:
            small = np.random.default_rng(0).standard_normal((4000, 8)).astype(np.float32)
            bigsmic.fit(small, 3, **where, out=folder / "warm", **options)
        result = bigsmic.fit(archive, c, memory_limit=memory_limit, out=folder / "run", **where, **options)
        posterior = hashlib.sha256()
        for lo in range(0, len(result.labels), 65536):
            posterior.update(np.ascontiguousarray(result.posterior[lo : lo + 65536]).data)
        return {
            "labels": hashlib.sha256(result.labels.tobytes()).hexdigest()[:16],
            "posterior": posterior.hexdigest()[:16],
            "stages": result.diagnostics["stages"],
            "matvecs": [eigenproblem["n_matvecs"] for eigenproblem in result.diagnostics["eigen"]],
            "shape": [result.diagnostics["rows"], result.diagnostics["columns"]],
            "plain": result.diagnostics.get("plain", False),
            "solves": [_solve(eigenproblem) for eigenproblem in result.diagnostics["eigen"]],
        }


def _solve(eigenproblem):
    """Neighbours, vectors, products and steps of an eigensolver, with those of a solve for fewer vectors before."""
    parts = [eigenproblem, *([eigenproblem["first"]] if "first" in eigenproblem else [])]
    products = sum(part["n_matvecs"] for part in parts)
    steps = sum(part["n_matvecs"] / part["filter"]["degree"] for part in parts)
    return [eigenproblem["t"], eigenproblem["n_wanted"], products, steps]


@contextmanager
def _folder():
    with tempfile.TemporaryDirectory(prefix="bigsmic-cluster-") as folder:
        yield Path(folder)
