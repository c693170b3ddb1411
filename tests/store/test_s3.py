"""Archive and run directory on an S3-compatible store: a real server on loopback, and one that is in trouble."""

import os
import pickle
import subprocess
import sys
import threading
import time
import traceback
from contextlib import contextmanager
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest
import s3
import zarr
from locations import environment
from small_fits import FAST

import bigsmic
from bigsmic import store
from bigsmic.errors import CorruptBlockError, InputError, RunError, RunLockedError, StorageError
from bigsmic.store import lease, retrying

if not all(map(find_spec, ("moto", "s3fs"))):  # not imported, as every process of the tests reads this file
    pytest.skip("needs moto[server] and s3fs: pip install '.[test]'", allow_module_level=True)


@pytest.fixture(scope="module")
def server():
    with s3.moto_server() as port:
        yield port


@pytest.fixture
def proxy(server):
    with s3.Proxy(server) as found:
        yield found


@pytest.fixture
def url(request):
    """A prefix of its own for each test."""
    return f"s3://{s3.BUCKET}/{request.node.name.replace('[', '-').replace(']', '')}"


@pytest.fixture
def run(url, proxy):
    opened = store.Run(f"{url}/run.zarr", s3.options(proxy.port))
    opened.bind({"input": {"rows": 3}})
    proxy.requests.clear()
    yield opened
    proxy.trouble = None
    opened.close()


@pytest.fixture
def hasty(monkeypatch):
    """Short pauses between attempts."""
    for name, seconds in {"FIRST_PAUSE": 0.05, "UNKNOWN": 0}.items():
        monkeypatch.setattr(retrying, name, seconds)
    monkeypatch.setattr(lease, "HASTE", 1)


@pytest.fixture
def impatient(hasty, monkeypatch):
    """A third of a second for what does not pass."""
    monkeypatch.setattr(retrying, "PATIENCE", 0.3)


SMALL = FAST | {"t": (3,), "widths": (1.5, 2)}


def first_time(trouble):
    """Trouble at the first request for each thing."""
    seen = set()
    return lambda number, method, path: None if (method, path) in seen else seen.add((method, path)) or trouble


def rows(n=100, d=5):
    return np.random.default_rng(0).normal(size=(n, d)).astype(np.float32)


def archive(url, X, port, chunk_rows=100):
    options = s3.options(port)
    store.create_arrays(f"{url}/archive.zarr", {"X": (X.shape, X.dtype)}, chunk_rows, options)["X"][...] = X
    return f"{url}/archive.zarr"


# -- a run directory


def test_blocks_come_back_as_written(run, server):
    run.write("stage", 3, {"rows": rows(), "scalar": np.array(2.5), "none": np.zeros((0, 4))}, info={"facts": 1})
    there = store.Run(run.address, s3.options(server), writable=False)
    np.testing.assert_array_equal(there.read("stage", 3, "rows"), rows())
    assert there.read("stage", 3, "scalar") == 2.5
    assert there.read("stage", 3, "none").shape == (0, 4)
    assert there.info("stage", 3) == {"facts": 1}
    assert there.missing("stage", range(5)) == [0, 1, 2, 4]
    assert there.blocks() == [("stage", 3)]
    with pytest.raises(StorageError, match="read-only"):
        there.write("stage", 3, {"rows": rows()})


def test_a_part_is_a_range_of_bytes(run, proxy):
    run.write("stage", 0, {"rows": rows()}, parts={"rows": [0, 10, 10, 100]})
    proxy.requests.clear()
    for part, (lo, hi) in enumerate([(0, 10), (10, 10), (10, 100)]):
        np.testing.assert_array_equal(run.read("stage", 0, "rows", part), rows()[lo:hi])
    assert [r.range for r in proxy.requests] == [None, "bytes=0-199", "bytes=200-1999"]


def test_the_ledger_is_written_last_and_deleted_first(run, proxy):
    run.write("stage", 0, {"a": rows(), "b": rows()})
    assert [r.path.rpartition("run.zarr/")[2] for r in proxy.requests][-1] == "stage/0000000/zarr.json"
    proxy.requests.clear()
    run.drop("stage", [0])
    assert proxy.requests[0].method == "POST"
    assert b"stage/0000000/zarr.json" in proxy.requests[0].body
    assert run.blocks() == []
    assert not run.done("stage", 0)


def test_what_it_takes_in_requests(run, proxy):
    run.write("stage", 0, {"a": rows(), "b": rows()})
    assert proxy.counts == {"PUT": 2 * 2 + 2}  # metadata and chunk of each, the stage, the ledger
    proxy.requests.clear()
    for _ in range(3):
        run.read("stage", 0, "a")
    assert proxy.counts == {"GET": 3 + 1}
    proxy.requests.clear()
    assert run.missing("stage", range(20)) == list(range(1, 20))
    assert proxy.counts == {"GET": 20}


@pytest.mark.parametrize("damage", ["truncate", "flip", "delete"])
def test_damage_is_found_by_checksum(run, damage):
    run.write("stage", 1, {"rows": rows()}, parts={"rows": [0, 50, 100]})
    data = bytearray(rows().tobytes())
    data[-1] ^= 1
    key = "stage/0000001/rows/c.0.0"
    run._bytes.delete(key) if damage == "delete" else run._bytes.set(key, data if damage == "flip" else data[:-4])
    with pytest.raises(CorruptBlockError, match="rows of block 1"):
        run.read("stage", 1, "rows")
    run.check("stage", 1)
    assert not run.done("stage", 1)


def test_it_travels(run):
    there = pickle.loads(pickle.dumps(run))
    there.write("stage", 0, {"rows": rows()})
    np.testing.assert_array_equal(run.read("stage", 0, "rows"), rows())
    run.drop("stage", [0])
    assert not there.done("stage", 0)


def test_what_is_not_there_is_said(url, proxy):
    with pytest.raises(InputError, match="could not be opened as Zarr"):
        store.open_source(f"{url}/nothing.zarr", storage_options=s3.options(proxy.port))
    with pytest.raises(RunError, match="cannot be opened as a run"):
        store.Run(f"{url}/nothing.zarr", s3.options(proxy.port), writable=False)
    with pytest.raises(RunError, match=r"cannot be created or opened \(The specified bucket does not exist\)"):
        store.Run("s3://no-such-bucket/run.zarr", s3.options(proxy.port))


# -- the lease


def test_the_second_writer_is_refused(run, server):
    with pytest.raises(RunLockedError, match=f"is being written by process {os.getpid()} on "):
        store.Run(run.address, s3.options(server))


def test_of_two_at_once_one_gets_it(url, server):
    got, start = [], threading.Barrier(4)

    def attempt():
        start.wait()
        try:
            got.append(store.Run(f"{url}/run.zarr", s3.options(server)))
        except RunLockedError:
            got.append(None)

    threads = [threading.Thread(target=attempt) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert sum(found is not None for found in got) == 1


HOLD = """
import socket, sys, time
import s3
from bigsmic.store import Run, lease
if len(sys.argv) > 3:
    socket.sethostname(sys.argv[3])
    lease.SECONDS, lease.BEAT = 12, 0.3
run = Run(sys.argv[1], s3.options(int(sys.argv[2])))
print(1, flush=True)
time.sleep(60)
"""


@contextmanager
def holder(url, server, *host):
    """A process that holds a run, on another host if one is named: another name and other numbers of processes."""
    apart = ["unshare", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"] if host else []
    command = [*apart, sys.executable, "-c", HOLD, f"{url}/run.zarr", str(server), *host]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()) as other:
        try:
            assert other.stdout.readline() == b"1\n"
            yield other
        finally:
            other.kill()


def test_one_that_was_killed_on_this_host_is_not_waited_for(url, server):
    with holder(url, server) as other:
        with pytest.raises(RunLockedError, match=f"process {other.pid} on"):
            store.Run(f"{url}/run.zarr", s3.options(server))
        other.kill()
        other.wait()
        store.Run(f"{url}/run.zarr", s3.options(server)).close()  # it would be refused for as long as the lease lasts


def test_one_on_another_host_is_refused_while_it_lives_and_a_while_after(url, server, monkeypatch):
    if subprocess.run(["unshare", "--uts", "--pid", "--fork", "--mount-proc", "true"], capture_output=True).returncode:
        pytest.skip("unshare is not permitted here, so there is no other host")
    monkeypatch.setattr(lease, "BEAT", 0.3)

    def attempt(at=None):
        clock = time.time if at is None else lambda: at
        monkeypatch.setattr(lease, "time", SimpleNamespace(**vars(time) | {"time": clock}))
        store.Run(f"{url}/run.zarr", s3.options(server)).close()

    def lease_there():
        return zarr.open_group(f"{url}/run.zarr/{lease.GROUP}", mode="r", storage_options=s3.options(server)).attrs[
            "lease"
        ]

    with holder(url, server, "far") as other:
        first = lease_there()
        while lease_there()["until"] < first["until"] + 2 * lease.BEAT:  # renewed twice
            time.sleep(0.1)
        with pytest.raises(
            RunLockedError, match=r"by process \d+ on far; its lease ends in 1?\d s unless it is renewed"
        ):
            attempt()
        other.kill()
        other.wait()
        with pytest.raises(RunLockedError, match=r"on far; its lease ends in 1?\d s"):
            attempt()
        ends = lease_there()["until"]
        with pytest.raises(RunLockedError, match=r"on far; its lease ends in 1 s"):
            attempt(ends - 1)
        attempt(ends + 0.1)


# -- a store in trouble


@pytest.mark.parametrize("trouble", [503, 500, "reset", "stall"])
def test_trouble_that_passes_is_waited_for(run, proxy, hasty, caplog, monkeypatch, trouble):
    monkeypatch.setattr(retrying, "SILENCE", 0.3 if trouble == "stall" else 30)
    run = pickle.loads(pickle.dumps(run))  # its connections know how long to wait
    run._open("r+")
    proxy.requests.clear()
    proxy.trouble = first_time(trouble)
    run.write("stage", 0, {"rows": rows()})
    np.testing.assert_array_equal(run.read("stage", 0, "rows"), rows())
    assert run.blocks() == [("stage", 0)]
    run.drop("stage", [0])
    assert "trying again" in caplog.text or trouble == "reset"  # of which aiobotocore tries again by itself


@pytest.mark.parametrize("trouble", [503, "reset", "stall"])
def test_trouble_that_does_not_pass_is_one_clear_error(run, proxy, impatient, monkeypatch, trouble):
    monkeypatch.setattr(retrying, "SILENCE", 0.2 if trouble == "stall" else 30)
    proxy.trouble = lambda number, method, path: trouble
    with pytest.raises(StorageError, match=r"writing s3://bucket/.*\(\d attempts in .*run the same command again"):
        run.write("stage", 0, {"rows": rows()})
    with pytest.raises(StorageError, match=r"reading s3://bucket/.*\(\d attempts in .*run the same command again"):
        run.done("stage", 0)


def test_refusals_are_not_repeated(run, proxy):
    proxy.trouble = lambda number, method, path: 403
    with pytest.raises(StorageError, match=r"1 attempts.*PermissionError"):
        run.write_changed("stage", 0, {"rows": rows()})
    assert len(proxy.requests) == 1


@pytest.mark.parametrize("trouble", [503, "reset"])
def test_rows_are_waited_for(url, proxy, hasty, monkeypatch, trouble):
    X = rows()
    source = store.open_source(archive(url, X, proxy.port, 20), "X", s3.options(proxy.port))
    proxy.trouble = lambda number, method, path: trouble if number % 2 else None
    np.testing.assert_array_equal(source.read(0, 100), X)
    proxy.trouble = lambda number, method, path: trouble
    monkeypatch.setattr(retrying, "PATIENCE", 0.3)
    with pytest.raises(
        StorageError, match=r"input: rows 20:50 could not be read; store: reading s3://bucket/.*attempts"
    ):
        source.read(20, 50)


def test_an_array_that_the_user_has_opened_is_waited_for_too(url, proxy, hasty):
    address = archive(url, rows(), proxy.port)
    theirs = zarr.open_group(address, mode="r", storage_options=s3.options(proxy.port))["X"]
    source = store.open_source(theirs)
    proxy.trouble = lambda number, method, path: 503 if number % 2 else None
    np.testing.assert_array_equal(source.read(0, 100), rows())


def test_a_missing_chunk_is_an_error_and_costs_no_request_of_its_own(url, proxy):
    address = archive(url, rows(), proxy.port, 25)
    source = store.open_source(address, "X", s3.options(proxy.port))
    proxy.requests.clear()
    source.read(0, 100)
    assert proxy.counts == {"GET": 4}
    store.Run(address, s3.options(proxy.port), lock=False)._delete("X/c/2/0")
    with pytest.raises(StorageError, match=r"chunk c/2/0 \(rows 50:75\) of .*archive.zarr.*missing_chunks='fill'"):
        source.read(40, 60)


# -- a whole fit


@pytest.fixture
def local_labels(blobs):
    return bigsmic.fit(blobs[0], 4, **SMALL).labels


@pytest.mark.end_to_end
def test_a_whole_fit_its_resumption_and_predictions(url, proxy, blobs, local_labels):
    X, options = blobs[0], {"storage_options": s3.options(proxy.port)}
    address = archive(url, X, proxy.port)

    def fit(**more):
        return bigsmic.fit(address, 4, component="X", out=f"{url}/run.zarr", **options, **SMALL, **more)

    def cut_short(stage, done, total):
        if stage == "graph":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(progress=cut_short)
    proxy.requests.clear()
    np.testing.assert_array_equal(fit().labels, local_labels)
    written = {r.path.rpartition("run.zarr/")[2].split("/")[0] for r in proxy.requests if r.method == "PUT"}
    assert not written & {"scan", "cells", "route"}
    proxy.requests.clear()
    result = fit()
    assert {r.path.rpartition("run.zarr/")[2] for r in proxy.requests if r.method == "PUT"} <= {
        "zarr.json",
        "lease/zarr.json",
    }
    labels = result.predict(X[:50])
    result.predict(address, component="X", out=f"{url}/predictions.zarr", **options)
    predicted = store.open_array(f"{url}/predictions.zarr", "labels", **options)[:50]
    np.testing.assert_array_equal(predicted, labels)
    opened = bigsmic.Result.open(f"{url}/run.zarr", **options)
    np.testing.assert_array_equal(opened.labels, local_labels)


@pytest.mark.slow
def test_a_whole_fit_on_a_store_that_stumbles(url, proxy, blobs, many_blocks, local_labels, hasty):
    options, kinds = s3.options(proxy.port), [503, "reset", 500]
    address = archive(url, blobs[0], proxy.port)
    proxy.trouble = lambda number, method, path: None if number % 23 else kinds[number // 23 % 3]
    result = bigsmic.fit(address, 4, component="X", out=f"{url}/run.zarr", storage_options=options, **SMALL)
    np.testing.assert_array_equal(result.labels, local_labels)
    assert len(proxy.requests) > 100


@pytest.mark.end_to_end
def test_a_fit_on_a_store_that_is_gone_ends_in_time_and_goes_on_later(url, proxy, blobs, local_labels, impatient):
    options = s3.options(proxy.port)
    address = archive(url, blobs[0], proxy.port)

    def gone(stage, done, total):
        if stage == "graph":
            proxy.trouble = lambda number, method, path: 503

    def fit(**more):
        return bigsmic.fit(address, 4, component="X", out=f"{url}/run.zarr", storage_options=options, **SMALL, **more)

    with pytest.raises(StorageError, match=r"\(\d attempts in .*run the same command again: a fit with out= goes on"):
        fit(progress=gone)
    proxy.trouble = None
    np.testing.assert_array_equal(fit().labels, local_labels)


@pytest.mark.slow
def test_workers_share_nothing_but_the_store_and_their_logs_have_no_secrets(
    url, proxy, blobs, many_blocks, local_labels
):
    from clusters import cluster_of

    where = {"out": f"{url}/run.zarr", "storage_options": s3.options(proxy.port)}

    def refuse(stage, done, total):
        if stage == "graph":
            proxy.trouble = lambda number, method, path: 403 if method == "PUT" else None

    with cluster_of(2) as client:
        with pytest.raises(StorageError, match="PermissionError") as caught:
            bigsmic.fit(blobs[0], 4, client=client, progress=refuse, **where, **SMALL)
        proxy.trouble = None
        result = bigsmic.fit(blobs[0], 4, client=client, **where, **SMALL)
        logs = f"{client.get_scheduler_logs()} {client.get_worker_logs()}"
    np.testing.assert_array_equal(result.labels, local_labels)
    assert "Compute Failed" in logs
    assert s3.SECRET not in logs + "".join(traceback.format_exception(caught.value))
