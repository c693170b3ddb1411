"""What tests of the pipeline share: data that a fit takes half a second for, cut into many blocks all the same."""

import gc
import os
import subprocess
from multiprocessing.process import BaseProcess
from pathlib import Path

import distributed
import hypothesis
import numpy as np
import pytest
from sklearn.datasets import make_blobs
from small_fits import cut_small
from threadpoolctl import threadpool_limits

import bigsmic.pipeline
from bigsmic.stages.checkpoints import INTERVAL

hypothesis.settings.register_profile(  # how long an example takes is the machine's load
    "any load", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any load")


NUMERICS = Path(__file__).parent / "numerics"


def pytest_xdist_auto_num_workers():
    """One more than there are processors: tests of clusters and object stores also wait."""
    return len(os.sched_getaffinity(0)) + 1


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Keep what is loaded before the first test out of garbage collections, a tenth of the processor's time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items):
    """Mark what tests pure functions as unit tests, unless it takes minutes, and have them run last.

    Their files are short, so that no worker is left with a long one when the others have ended.
    """
    for item in items:
        if NUMERICS in item.path.parents and "slow" not in item.keywords:
            item.add_marker(pytest.mark.unit)
    items.sort(key=lambda item: NUMERICS in item.path.parents)


@pytest.fixture(autouse=True)
def nothing_started(request, monkeypatch):
    """Have unit tests fail that fit, or start a process or a cluster."""
    if "unit" not in request.keywords:
        return
    for owner, name in (
        (bigsmic.pipeline, "_stages"),
        (subprocess.Popen, "__init__"),
        (BaseProcess, "start"),
        (os, "fork"),
        (distributed.Client, "__init__"),
    ):
        monkeypatch.setattr(owner, name, _refused(f"{owner.__name__}.{name}"))


def _refused(name):
    def refuse(*args, **options):
        pytest.fail(f"{name} in a unit test; take the mark from it, or what needs this")

    return refuse


@pytest.fixture(scope="session", autouse=True)
def every_checkpoint():
    """Have solves that take no minute write their states all the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(INTERVAL, "0")
        yield


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Have BLAS and OpenMP on one thread, in what tests start too: tests share the processors already."""
    with pytest.MonkeyPatch.context() as patch, threadpool_limits(1):
        for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
            patch.setenv(name, "1")
        yield


@pytest.fixture
def many_blocks(monkeypatch):
    """Cut what is small into many blocks."""
    cut_small(monkeypatch)


@pytest.fixture(scope="session")
def blobs():
    """Seven hundred rows around four centres, which touch: X, y."""
    X, y = make_blobs(700, 5, centers=4, cluster_std=[1.5, 2, 2.5, 1.8], random_state=4, center_box=(-5, 5))
    return X.astype(np.float32), y
