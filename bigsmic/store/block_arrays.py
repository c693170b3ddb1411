"""Zarr arrays of one uncompressed chunk, in which the arrays of a block are stored.

Their metadata are written here. Any reader of Zarr can open such an array, and a part of it is a range of bytes.
"""

import functools
import itertools
import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bigsmic.errors import RunError
from bigsmic.store.ledger import NAME
from bigsmic.store.objects import checksum

CHECKED_BYTES = 16 << 20  # that a check reads at once
GROUP = b'{"zarr_format": 3, "node_type": "group", "attributes": {}}'


def safe(name: str) -> str:
    """The name of a stage or an array; RunError if it could lead out of the run."""
    if not NAME.match(name):
        raise RunError(f"run: {name!r} is not a valid name; use letters, digits, '_', '-', '=' and '.'")
    return name


def block_path(stage: str, block: int) -> str:
    """Path of the group of a block."""
    return f"{safe(stage)}/{int(block):07d}"


def ledger_key(stage: str, block: int) -> str:
    """Key of the metadata that contain the ledger entry of a block."""
    return f"{block_path(stage, block)}/zarr.json"


def chunk_key(ndim: int) -> str:
    """Key of the only chunk of an array, within the array."""
    return ".".join(["c"] + ["0"] * ndim)


def objects_of(path: str, array: NDArray[Any]) -> dict[str, Any]:
    """Keys and bytes of a Zarr array of one chunk."""
    found: dict[str, Any] = {f"{path}/zarr.json": _array_metadata(array)}
    if array.size:
        found[f"{path}/{chunk_key(array.ndim)}"] = array.reshape(-1).view(np.uint8).data
    return found


def description(array: NDArray[Any], bounds: list[int]) -> dict[str, Any]:
    """The ledger's description of an array."""
    pieces = [array[a:b] for a, b in itertools.pairwise(bounds)] if array.ndim else [array]
    return {
        "dtype": array.dtype.str,
        "shape": list(array.shape),
        "bounds": bounds,
        "crc32": [checksum(piece) for piece in pieces],
    }


def spans(meta: dict[str, Any]) -> Iterator[tuple[int, int]]:
    """Ranges of parts of some megabytes each, as a check holds in memory what it reads."""
    row = math.prod(meta["shape"][1:]) * np.dtype(meta["dtype"]).itemsize
    size, first = len(meta["crc32"]), 0
    for last in range(1, size + 1):
        if last == size or (meta["bounds"][last] - meta["bounds"][first]) * row >= CHECKED_BYTES:
            yield first, last
            first = last


def _array_metadata(array: NDArray[Any]) -> bytes:
    """Metadata of an uncompressed Zarr array of one chunk, as zarr itself writes it."""
    node = json.loads(_metadata_template(array.dtype.str, array.ndim))
    node["shape"] = list(array.shape)
    node["chunk_grid"]["configuration"]["chunk_shape"] = [max(1, size) for size in array.shape]
    return json.dumps(node).encode()


@functools.cache
def _metadata_template(dtype: DTypeLike, ndim: int) -> str:
    import zarr
    from zarr.core.buffer import default_buffer_prototype
    from zarr.core.sync import sync

    store = zarr.storage.MemoryStore()
    shape = (1,) * ndim
    keys = {"name": "default", "separator": "."}  # one file beside the metadata, without folders for chunk indices
    options: dict[str, Any] = {"compressors": None, "filters": None, "chunk_key_encoding": keys}
    zarr.create_array(store, shape=shape, chunks=shape, dtype=np.dtype(dtype), **options)
    buffer = sync(store.get("zarr.json", default_buffer_prototype()))
    assert buffer is not None
    return buffer.to_bytes().decode()
