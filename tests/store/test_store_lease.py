"""One writer at a time, on whatever host, and none that is waited for once it is dead."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import zarr

from bigsmic import store
from bigsmic.errors import RunLockedError, StorageError
from bigsmic.store import lease
from bigsmic.store.objects import LocalBytes


class Objects(dict):
    """Bytes by key, as an object store has them: shared by hosts, and without a kernel's lock."""

    def __init__(self):
        self.guard = threading.Lock()

    def set(self, key, data):
        self[key] = bytes(data)

    def create(self, key, data):
        with self.guard:
            return self.setdefault(key, bytes(data)) is data

    def delete(self, key):
        self.pop(key, None)

    def prune(self, prefix):
        pass

    def with_patience(self, seconds):
        return self


@pytest.fixture
def objects():
    return Objects()


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(lease, "BEAT", 0.1)
    monkeypatch.setattr(lease, "PROPAGATE", 0.1)


@pytest.fixture
def elsewhere(monkeypatch):
    """What is leased within is leased by a process of another host."""
    here = lease.machine()

    def move(host="far", **more):
        monkeypatch.setattr(lease, "machine", lambda: {"host": host, "boot": host, "pids": "pid:[1]"} | more)

    yield move
    monkeypatch.setattr(lease, "machine", lambda: here)


def wait_for(happened):
    deadline = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def node(objects, **changed):
    """Put the lease of a process that is gone, with some facts changed."""
    facts = {"id": "x", "pid": 4_000_000, "started": 1.0, "until": time.time() - 1} | lease.machine() | changed
    objects[lease.KEY] = json.dumps({"attributes": {"lease": facts}}).encode()


def test_the_second_is_refused_until_the_first_lets_go(objects):
    first = lease.Lease(objects, "run")
    with pytest.raises(RunLockedError, match=f"run is being written by process {os.getpid()} on .*; wait for it"):
        lease.Lease(objects, "run")
    first.release()
    assert not objects
    lease.Lease(objects, "run").release()


def test_it_is_renewed(objects):
    held = lease.Lease(objects, "run")
    before = objects[lease.KEY]
    wait_for(lambda: objects[lease.KEY] != before)
    held.release()


def test_a_process_of_this_host_that_is_gone_is_not_waited_for(objects):
    node(objects, until=time.time() + 1000)
    lease.Lease(objects, "run").release()
    assert not objects


def test_another_process_with_its_number_is_another_one(objects):
    node(objects, pid=os.getpid(), until=time.time() + 1000)
    lease.Lease(objects, "run").release()


def test_a_dead_process_that_nobody_has_waited_for_is_dead(objects):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    started = lease.started(child.pid)
    node(objects, pid=child.pid, started=started)
    with pytest.raises(RunLockedError, match=f"process {child.pid}"):
        lease.Lease(objects, "run")
    child.send_signal(signal.SIGKILL)
    while lease.started(child.pid) is not None:
        time.sleep(0.01)
    lease.Lease(objects, "run").release()
    child.wait()


def test_one_of_another_host_is_refused_with_the_seconds_that_remain(objects):
    node(objects, host="far", boot="far", until=time.time() + 42)
    with pytest.raises(RunLockedError, match=r"process 4000000 on far; its lease ends in 4[12] s unless it is renewed"):
        lease.Lease(objects, "run")


def test_no_lease_holds_longer_than_it_was_given(objects):
    """A clock that is ahead does not keep others away for as long as it is ahead."""
    node(objects, host="far", until=time.time() + 1e6)
    with pytest.raises(RunLockedError, match=f"ends in {lease.SECONDS:.0f} s"):
        lease.Lease(objects, "run")


def test_one_of_another_host_that_is_silent_is_taken_over(objects):
    node(objects, host="far", boot="far")
    held = lease.Lease(objects, "run")
    assert held._is_mine(held._read())
    held.release()


def test_one_of_another_host_whose_clock_is_behind_is_left_alone(objects, elsewhere, monkeypatch):
    elsewhere()
    monkeypatch.setattr(lease, "SECONDS", -5)
    monkeypatch.setattr(lease, "BEAT", 0.5)
    far = lease.Lease(objects, "run")
    elsewhere("near")
    with pytest.raises(RunLockedError, match=r"by process .* on far"):
        lease.Lease(objects, "run")
    far.release()


def test_a_torn_lease_is_nobodys(objects):
    objects[lease.KEY] = b'{"attrib'
    lease.Lease(objects, "run").release()


@pytest.mark.parametrize("stale", [False, True])
def test_of_many_at_once_one_gets_it(stale, monkeypatch):
    monkeypatch.setattr(lease, "PROPAGATE", 0.5)

    def attempt(objects):
        try:
            return lease.Lease(objects, "run")
        except RunLockedError:
            return None

    for _ in range(2):
        objects = Objects()
        if stale:
            node(objects)
        with ThreadPoolExecutor(8) as pool:
            got = [held for held in pool.map(attempt, [objects] * 8) if held]
        assert len(got) == 1
        got[0].release()


def test_a_holder_that_was_stopped_for_long_is_told(objects):
    held = lease.Lease(objects, "run")
    held.check()
    node(objects, host="far", pid=7)
    wait_for(lambda: held._lost)
    with pytest.raises(RunLockedError, match="run was taken over by process 7 on far"):
        held.check()
    held.release()
    assert objects


def test_a_store_that_fails_for_a_while_does_not_end_the_work(objects, caplog):
    held = lease.Lease(objects, "run")
    objects.set = lambda key, data: (_ for _ in ()).throw(StorageError("store: 503"))
    wait_for(lambda: "lease of run could not be renewed (store: 503)" in caplog.text)
    del objects.set
    before = objects[lease.KEY]
    wait_for(lambda: objects[lease.KEY] != before)
    held.check()
    held.release()
    assert not objects


def test_one_that_could_not_be_given_back_is_not_held(objects):
    held = lease.Lease(objects, "run")
    objects.delete = lambda key: (_ for _ in ()).throw(StorageError("store: 503"))
    held.release()
    del objects.delete
    assert objects
    lease.Lease(objects, "run").release()
    assert not objects


def test_a_forked_child_leaves_the_lease_alone(objects):
    held = lease.Lease(objects, "run")
    held._holder["pid"] += 1
    held.release()
    assert objects
    held._holder["pid"] -= 1
    held.release()


# -- in a run


def test_a_lease_leaves_nothing_behind(tmp_path):
    run = store.Run(tmp_path / "run.zarr")
    assert zarr.open_group(run.location, mode="r")["lease"].attrs["lease"]["pid"] == os.getpid()
    run.bind({"rows": 3})
    assert run.blocks() == []
    run.close()
    run.close()
    assert [path.name for path in (tmp_path / "run.zarr").iterdir()] == ["zarr.json"]


def test_a_run_that_nobody_holds_lets_go(tmp_path):
    store.Run(tmp_path / "run.zarr")
    store.Run(tmp_path / "run.zarr").close()


def test_a_second_interruption_while_a_run_is_closed_lets_go_of_it(tmp_path, monkeypatch):
    run = store.Run(tmp_path / "run.zarr")
    with monkeypatch.context() as patched:
        patched.setattr(LocalBytes, "delete", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run.close()
    store.Run(tmp_path / "run.zarr").close()


def test_an_interruption_while_the_renewal_begins_lets_go_of_the_run(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.Run(tmp_path / "run.zarr")
    store.Run(tmp_path / "run.zarr").close()


def test_a_child_that_was_forked_while_a_run_was_written_does_not_keep_it_locked(tmp_path):
    run = store.Run(tmp_path / "run.zarr")
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
        child.start()
    try:
        run.close()
        store.Run(tmp_path / "run.zarr").close()
    finally:
        child.kill()
        child.join()


def interrupted(*_):
    raise KeyboardInterrupt


def test_what_was_taken_over_is_not_written_to(tmp_path):
    run = store.Run(tmp_path / "run.zarr")
    run.bind({"rows": 3})
    run.create("labels", (3,), 3, np.int32)
    run._lease._lost = {"pid": 7, "host": "far"}
    for write in (
        lambda: run.write("stage", 0, {}),
        lambda: run.update({"summary": {}}),
        lambda: run.write_rows("labels", 0, np.zeros(3)),
    ):
        with pytest.raises(RunLockedError, match="taken over by process 7 on far"):
            write()
    run.close()


def test_shared_file_systems_without_locks_of_the_kernel(tmp_path, elsewhere, monkeypatch):
    monkeypatch.setattr(lease, "_lock", lambda folder, refuse: None)
    elsewhere()
    far = store.Run(tmp_path / "run.zarr")
    elsewhere("near")
    with pytest.raises(RunLockedError, match=r"on far; its lease ends in [56][0-9] s unless it is renewed"):
        store.Run(tmp_path / "run.zarr")
    far._lease._ended.set()  # its process is killed
    LocalBytes(far.location).set(lease.KEY, far._lease._node().replace(b'"until": 1', b'"until": 0'))
    near = store.Run(tmp_path / "run.zarr")
    near.close()


def test_a_dead_container_of_this_kernel_is_not_waited_for(tmp_path, monkeypatch):
    run = store.Run(tmp_path / "run.zarr")
    node_of_container = run._lease._node().replace(lease.machine()["host"].encode(), b"container")
    run._lease._unlock()  # as the kernel does when it is killed
    run._lease._ended.set()
    LocalBytes(run.location).set(lease.KEY, node_of_container)
    until = time.time() + lease.SECONDS / 2
    store.Run(tmp_path / "run.zarr").close()
    assert time.time() < until, "before its lease has ended"
