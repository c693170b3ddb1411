"""Ledger entries in JSON: written with a checksum, and used only if the checksum matches when they are read.

A seal is a checksum over an entry and over the run, stage and block that it belongs to, so that an entry of another
block or run is not accepted, even if it is whole. A stored run is input: names, types and sizes in entries that pass
the seal are validated here, and nowhere else.
"""

import itertools
import json
import math
import re
import threading
import zlib
from collections import OrderedDict
from functools import lru_cache
from typing import Any

import numpy as np

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.=-]*\Z")
"""Valid names of stages and arrays: none leads out of the run."""

RUN_ID = re.compile(r"[0-9a-f]{32}\Z")
_MOST_BYTES = 1 << 62  # of an array; NumPy can count as many
_SHORT = 4096  # bytes of entries whose verdict is remembered


def seal(*what: Any) -> int:
    """CRC-32 of JSON-like facts, independent of the stored order and spaces."""
    return zlib.crc32(json.dumps(what, sort_keys=True, separators=(",", ":")).encode())


def write_entry(whose: tuple[str, str, int], entry: dict[str, Any]) -> bytes:
    """Metadata of the group of a block, with its ledger entry.

    Parameters
    ----------
    whose : tuple of (str, str, int)
        Identity of the run, stage, and number of the block.
    entry : dict
        Descriptions of the ``arrays``, and the ``info``, small facts.

    Returns
    -------
    raw : bytes
    """
    attributes = {"ledger": entry, "crc32": seal(*whose, entry)}
    return json.dumps({"zarr_format": 3, "node_type": "group", "attributes": attributes}).encode()


def read_entry(whose: tuple[str, str, int], raw: bytes | None) -> dict[str, dict[str, Any]] | None:
    """The ledger entry in the metadata of the group of a block; None if it is torn, or belongs to another block or run.

    Parameters
    ----------
    whose : tuple of (str, str, int)
        As of `write_entry`.
    raw : bytes-like or None

    Returns
    -------
    entry : dict or None
    """
    if raw is None:
        return None
    raw = bytes(raw)
    if len(raw) > _SHORT:
        return _read(whose, raw)
    return json.loads(raw)["attributes"]["ledger"] if _is_good(whose, raw) else None


@lru_cache(maxsize=512)
def _is_good(whose: tuple[str, str, int], raw: bytes) -> bool:
    """Whether there is an entry; a fit of few rows reads each five times, and to check it takes most of that."""
    return _read(whose, raw) is not None


def _read(whose: tuple[str, str, int], raw: bytes) -> dict[str, dict[str, Any]] | None:
    try:
        attributes = json.loads(raw)["attributes"]
        entry = attributes["ledger"]
        good = attributes["crc32"] == seal(*whose, entry) and is_entry(entry)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
    return entry if good else None


def is_entry(entry: dict[str, Any]) -> bool:
    """Whether names, types and sizes of an entry are valid and fit together."""
    return (
        isinstance(entry["info"], dict)
        and isinstance(entry["arrays"], dict)
        and all(NAME.match(name) and _describes_array(meta) for name, meta in entry["arrays"].items())
    )


def _describes_array(meta: dict[str, Any]) -> bool:
    dtype, shape, bounds, crc32 = (meta[key] for key in ("dtype", "shape", "bounds", "crc32"))
    if not isinstance(dtype, str) or np.dtype(dtype).kind not in "biuf":
        return False
    if not all(_are_whole(numbers) for numbers in (shape, bounds, crc32)):
        return False
    if math.prod(max(1, size) for size in shape) * np.dtype(dtype).itemsize > _MOST_BYTES:
        return False
    if not shape:
        return len(crc32) == 1
    ascending = all(a <= b for a, b in itertools.pairwise(bounds))
    return len(bounds) == len(crc32) + 1 > 1 and ascending and bounds[-1] <= shape[0]


def _are_whole(numbers: list[int]) -> bool:
    """Whether something is a list of integers of at least 0; booleans do not count as integers."""
    return isinstance(numbers, list) and all(type(number) is int and number >= 0 for number in numbers)


class EntryCache:
    """Cache of the ledger entries that were read last, bounded by their number of parts in all."""

    _ROOM = 200_000  # parts

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, int], Any] = OrderedDict()
        self._parts = 0

    def get(self, stage: str, block: int) -> dict[str, dict[str, Any]] | None:
        """The entry of a block, if it is cached."""
        with self._lock:
            return self._kept.get((stage, block))

    def put(self, stage: str, block: int, entry: dict[str, Any]) -> dict[str, Any]:
        """Cache an entry, and return it; the oldest ones are dropped."""
        self.drop(stage, block)
        with self._lock:
            self._kept[stage, block] = entry
            self._parts += _n_parts(entry)
            while self._parts > self._ROOM:
                self._parts -= _n_parts(self._kept.popitem(last=False)[1])
        return entry

    def drop(self, stage: str, block: int) -> None:
        """Drop the entry of a block from the cache."""
        with self._lock:
            self._parts -= _n_parts(self._kept.pop((stage, block), {"arrays": {}}))


def _n_parts(entry: dict[str, Any]) -> int:
    return sum(len(meta["crc32"]) for meta in entry["arrays"].values())
