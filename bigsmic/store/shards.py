"""Shards of Zarr v3: which chunks inside a shard exist.

A shard begins or ends with an index: offset and length of every chunk inside. Both are ``2**64 - 1`` for an absent
chunk, which Zarr would silently read as fill values.

References
----------
.. [1] Zarr v3, codec "sharding_indexed", https://zarr-specs.readthedocs.io/en/latest/v3/codecs/sharding-indexed/
"""

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.errors import InputError, StorageError

_ABSENT = np.uint64(2**64 - 1)
_SHARDING = "sharding_indexed"
_INDEX_CODECS = (["bytes"], ["bytes", "crc32c"])


def is_sharded(array: Any) -> bool:
    """Whether an array of Zarr has shards, plain or not."""
    codecs = getattr(array.metadata, "codecs", ())  # of Zarr v3
    return any(codec.to_dict()["name"] == _SHARDING for codec in codecs)


class Shards:
    """The shards of an array, each of which is checked once.

    Parameters
    ----------
    array : zarr.Array
        Two-dimensional and sharded.
    name : str
        Name of the array in messages.

    Raises
    ------
    InputError
        The index of the shards cannot be read by itself.
    """

    def __init__(self, array: Any, name: str) -> None:
        self._array, self._name = array, name
        self._whole: set[tuple[int, ...]] = set()
        facts = [codec.to_dict() for codec in array.metadata.codecs]
        index = facts[0].get("configuration", {}).get("index_codecs", ())
        if len(facts) > 1 or [codec["name"] for codec in index] not in _INDEX_CODECS or _is_nested(facts[0]):
            raise InputError(
                f"input: absent chunks within the shards of {name} cannot be detected, as a further codec encodes the "
                "shards; pass missing_chunks='fill', or write the archive with sharding as the only codec"
            )
        self._number = np.dtype("u8").newbyteorder(index[0].get("configuration", {}).get("endian", "little"))
        self._at_start = facts[0]["configuration"]["index_location"] == "start"
        self._index_bytes = 16 * int(np.prod(self._inside)) + 4 * (len(index) - 1)

    @property
    def _inside(self) -> tuple[int, int]:
        """Numbers of chunks along both axes of a shard."""
        return tuple(s // c for s, c in zip(self._array.shards, self._array.chunks, strict=True))

    def refuse_holes(self, lo: int, hi: int) -> None:
        """Raise StorageError if a shard exists but lacks a chunk with entries of rows ``lo:hi``."""
        height, width = self._array.shards
        columns = range(-(-self._array.shape[1] // width))
        for shard in itertools.product(range(lo // height, -(-hi // height)), columns):
            if shard not in self._whole:
                self._look_at(shard)
                self._whole.add(shard)

    def _look_at(self, shard: tuple[int, int]) -> None:
        for at in np.argwhere(self._read_absent(shard)):
            first = np.multiply(shard, self._array.shards) + at * self._array.chunks
            if (first < self._array.shape).all():  # chunks beyond the array's edge are never written
                (top, left), (bottom, right) = first, np.minimum(first + self._array.chunks, self._array.shape)
                raise StorageError(
                    f"input: the chunk of rows {top}:{bottom} and columns {left}:{right} of {self._name} is missing "
                    f"from the shard {self._array.metadata.encode_chunk_key(shard)}, and would read as fill values; "
                    "restore it, or, if the writer leaves out chunks that hold only the fill value, pass "
                    "missing_chunks='fill'"
                )

    def _read_absent(self, shard: tuple[int, int]) -> NDArray[np.bool_]:
        """Whether each chunk of a shard is absent, shape `_inside`."""
        from zarr.abc.store import RangeByteRequest, SuffixByteRequest
        from zarr.core.buffer import default_buffer_prototype
        from zarr.core.sync import sync

        size = self._index_bytes
        wanted = RangeByteRequest(0, size) if self._at_start else SuffixByteRequest(size)
        path = self._array.store_path / self._array.metadata.encode_chunk_key(shard)
        found = sync(path.get(default_buffer_prototype(), wanted))
        if found is None:  # the whole shard is absent, which reading it reports
            return np.zeros(self._inside, bool)
        index = np.frombuffer(found.to_bytes()[: 16 * int(np.prod(self._inside))], self._number)
        return (index.reshape(*self._inside, 2) == _ABSENT).all(axis=-1)


def _is_nested(codec: dict[str, Any]) -> bool:
    return any(inner["name"] == _SHARDING for inner in codec["configuration"]["codecs"])
