"""Calls that are killed between what they have written and what they would write next."""

import asyncio
import concurrent.futures
from contextlib import contextmanager

import pytest
import zarr

from bigsmic.features import archive as extending


@contextmanager
def killed_at_third_commit():
    """Have what extends windows be killed where it would note its third piece."""
    commit, calls = extending._Call._commit, []

    def killed(self, *found):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        commit(self, *found)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extending._Call, "_commit", killed)
        with pytest.raises(KeyboardInterrupt):
            yield


@contextmanager
def interrupted_while_zarr_writes(number):
    """Interrupt who waits for a write of Zarr, the first one after so many others; the write itself goes on."""
    put, begun, interrupted = zarr.storage.LocalStore.set, [], []

    async def slow(store, key, *arguments, **options):
        begun.append(key)
        if len(begun) > number:
            await asyncio.sleep(0.3)
        await put(store, key, *arguments, **options)

    def wait(*arguments, **options):
        while len(begun) <= number and not interrupted:
            done = concurrent.futures.wait(*arguments, **options | {"timeout": 0.01})
            if done.done:
                return done
        if not interrupted:
            interrupted.append(1)
            raise KeyboardInterrupt
        return concurrent.futures.wait(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zarr.storage.LocalStore, "set", slow)
        patch.setattr("zarr.core.sync.wait", wait)
        with pytest.raises(KeyboardInterrupt):
            yield
