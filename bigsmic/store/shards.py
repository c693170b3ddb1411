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

FILL = "pass missing_chunks='fill'"
"""What to do where absent chunks of rows are meant."""
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
        Sharded, of one or two axes.
    name : str
        Name of the array in messages.
    option : str
        Name of the option that gave the array, in messages.
    instead : str
        What to do where absent chunks are meant, in messages.

    Raises
    ------
    InputError
        The index of the shards cannot be read by itself.
    """

    def __init__(self, array: Any, name: str, option: str = "input", instead: str = FILL) -> None:
        self._array, self._name, self._option, self._instead = array, name, option, instead
        self._whole: set[tuple[int, ...]] = set()
        facts = [codec.to_dict() for codec in array.metadata.codecs]
        index = facts[0].get("configuration", {}).get("index_codecs", ())
        if len(facts) > 1 or [codec["name"] for codec in index] not in _INDEX_CODECS or _is_nested(facts[0]):
            raise InputError(
                f"{option}: absent chunks within the shards of {name} cannot be detected, as a further codec encodes "
                f"the shards; {instead}, or write the array with sharding as the only codec"
            )
        self._number = np.dtype("u8").newbyteorder(index[0].get("configuration", {}).get("endian", "little"))
        self._at_start = facts[0]["configuration"]["index_location"] == "start"
        self._index_bytes = 16 * int(np.prod(self._inside)) + 4 * (len(index) - 1)

    @property
    def _inside(self) -> tuple[int, ...]:
        """Numbers of chunks along the axes of a shard."""
        return tuple(s // c for s, c in zip(self._array.shards, self._array.chunks, strict=True))

    def refuse_holes(self, lo: int, hi: int) -> None:
        """Raise StorageError if a shard exists but lacks a chunk with entries of rows ``lo:hi``."""
        height, *widths = self._array.shards
        beside = [range(-(-n // width)) for n, width in zip(self._array.shape[1:], widths, strict=True)]
        for shard in itertools.product(range(lo // height, -(-hi // height)), *beside):
            if shard not in self._whole:
                self._look_at(shard)
                self._whole.add(shard)

    def _look_at(self, shard: tuple[int, ...]) -> None:
        for at in np.argwhere(self._read_absent(shard)):
            first = np.multiply(shard, self._array.shards) + at * self._array.chunks
            if (first < self._array.shape).all():  # chunks beyond the array's edge are never written
                last = np.minimum(first + self._array.chunks, self._array.shape)
                axes = zip(("rows", "columns"), first, last, strict=False)
                entries = " and ".join(f"{axis} {lo}:{hi}" for axis, lo, hi in axes)
                raise StorageError(
                    f"{self._option}: the chunk of {entries} of {self._name} is missing from the shard "
                    f"{self._array.metadata.encode_chunk_key(shard)}, and would read as fill values; restore it, or, "
                    f"if the writer leaves out chunks that hold only the fill value, {self._instead}"
                )

    def _read_absent(self, shard: tuple[int, ...]) -> NDArray[np.bool_]:
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
