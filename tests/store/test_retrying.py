"""How long requests to a store are repeated, by a clock that only sleeping moves."""

import asyncio
import socket
from types import SimpleNamespace

import pytest
from zarr.storage import MemoryStore

from bigsmic.errors import StorageError
from bigsmic.store import retrying
from bigsmic.store.retrying import PatientStore


class Unreachable(MemoryStore):
    """A store that answers, with nothing, until the name of its host is not known."""

    known = False

    async def get(self, key, prototype, byte_range=None):
        if not self.known:
            try:
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
            except OSError as error:
                raise ConnectionError("no connection") from error


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(seconds=0.0)

    async def sleep(seconds):
        now.seconds += seconds

    monkeypatch.setattr(retrying, "time", SimpleNamespace(monotonic=lambda: now.seconds))
    monkeypatch.setattr(retrying, "asyncio", SimpleNamespace(sleep=sleep, wait_for=asyncio.wait_for))
    return now


def ask(store):
    return asyncio.run(store.get("zarr.json", None))


def test_a_host_that_is_not_known_is_refused_soon(clock):
    with pytest.raises(StorageError, match=r"failed \(\d attempts in \d s\).*check the URL and the network, and run"):
        ask(PatientStore(Unreachable(), "https://nowhere/x.zarr"))
    assert clock.seconds <= retrying.RESOLVING


def test_a_host_that_has_answered_is_waited_for(clock):
    inner = Unreachable()
    store = PatientStore(inner, "https://somewhere/x.zarr")
    inner.known = True
    assert ask(store) is None
    inner.known = False
    with pytest.raises(StorageError, match="check the store, and run"):
        ask(store)
    assert clock.seconds > retrying.PATIENCE - retrying.LAST_PAUSE
