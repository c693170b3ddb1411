"""One thread for BLAS, while callers on several threads need it."""

import threading

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from bigsmic.numerics.one_thread import one_thread


def of_blas():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture
def several():
    """BLAS with two threads before anything holds it."""
    with threadpool_limits(2, user_api="blas"):
        if of_blas() != {2}:
            pytest.skip("this BLAS has one thread")
        yield


class Holder(threading.Thread):
    """Holds on a thread of its own until it is told to end."""

    def __init__(self):
        super().__init__()
        self.begun, self.ending, self.seen = threading.Event(), threading.Event(), set()

    def run(self):
        with one_thread():
            self.seen = of_blas()
            self.begun.set()
            self.ending.wait(60)

    def begin(self):
        self.start()
        assert self.begun.wait(60)

    def end(self):
        self.ending.set()
        self.join(60)


@pytest.mark.usefixtures("several")
def test_each_thread_is_heeded_whichever_was_the_first():
    """Threadpoolctl 3.8 silently ignores all threads but the first that sets a limit of OpenBLAS."""
    with one_thread():
        assert of_blas() == {1}
    holder = Holder()
    holder.begin()
    assert holder.seen == {1}
    holder.end()
    assert of_blas() == {2}


@pytest.mark.usefixtures("several")
def test_the_last_of_overlapping_holders_restores_what_was_before_the_first():
    holder = Holder()
    with one_thread():
        holder.begin()
    assert of_blas() == {1}
    holder.end()
    assert of_blas() == {2}
    holder, other = Holder(), Holder()
    holder.begin()
    other.begin()
    holder.end()
    assert of_blas() == {1}
    other.end()
    assert of_blas() == {2}


def test_openmp_of_a_thread_is_restored_when_another_holder_ends_later():
    pytest.importorskip("sklearn.cluster")  # which loads it

    def of_openmp():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp"]

    holder = Holder()
    with threadpool_limits(2, user_api="openmp"):
        before = of_openmp()
        with one_thread():
            assert set(of_openmp()) <= {1}
            holder.begin()
        holder.end()
        assert of_openmp() == before
