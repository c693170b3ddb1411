"""Sizes of the blocks into which a fit cuts its rows."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np

from bigsmic.errors import InputError
from bigsmic.numerics.graph.cells import PartitionSettings, group_rows
from bigsmic.types import Integers
from bigsmic.validation import check_integer

MAX_BLOCKS = 1024  # of input rows, to bound the number of arrays that routing writes
NAME = "block_sizes"  # of the entry in identities
LEAST_ROWS = 256  # of a block of input, and of a tile
TILE_ROWS = 4096  # of a tile at most
UNNAMED: dict[str, Any] = {"source_rows": None}  # sizes of runs that do not name them, where these are not the defaults


@dataclass(frozen=True)
class BlockSizes:
    """Sizes of the blocks into which a fit cuts its rows.

    The defaults suit machines with a gigabyte or more; tests use other sizes to cut small inputs into many blocks. Sums
    are computed block by block, and neighbours are searched group by group, so that sizes can change labels like a
    seed. Sizes other than the defaults are part of a run's identity, from which tasks, cuts and predictions read them.

    Parameters
    ----------
    source_bytes : int
        float32 bytes of one block of input rows, which has at least 256 rows.
    source_rows : int, optional
        Largest number of rows of such a block, unless there would be more than 1,024 blocks: what routing needs for a
        row of few columns is many times the row. By default 65,536. None means no limit, as earlier runs had.
    graph_rows : int
        Rows of one block of a precomputed graph.
    cell_rows : int
        Rows at home in a cell on average; see :class:`~bigsmic.numerics.graph.cells.PartitionSettings`.
    group_rows : int, optional
        Largest number of rows of a group of cells, visitors included. By default
        :func:`~bigsmic.numerics.graph.cells.group_rows` of the shape of the input.
    tile_bytes : int
        float32 bytes of one block of rows of a dense kernel, which has 256 to 4,096 rows.
    pool_bytes : int
        float32 bytes of the rows from which RIM draws minibatches at a time.

    Raises
    ------
    InputError
        A size is not an integer, or below 1.
    """

    source_bytes: int = 8 << 20
    source_rows: int | None = 65_536
    graph_rows: int = 32_768
    cell_rows: int = 320
    group_rows: int | None = None
    tile_bytes: int = 8 << 20
    pool_bytes: int = 32 << 20

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value is not None or name not in ("source_rows", "group_rows"):
                check_integer(f"block_sizes: {name}", value, 1)

    @classmethod
    def of_run(cls, identity: Mapping[str, Any]) -> Self:
        """Sizes with which a run was started.

        Raises
        ------
        InputError, TypeError
            The identity has no sizes of this version.
        """
        return cls(**UNNAMED | identity.get(NAME, {}))

    def identity(self, n: int, d: int) -> dict[str, Any]:
        """Entries of a run's identity, without sizes that are the defaults, and the limit of rows only where it counts.

        Runs that were made before there was this limit lack it, too.
        """
        usual = asdict(type(self)()) | UNNAMED
        if np.array_equal(self.source_bounds(n, d), replace(self, **UNNAMED).source_bounds(n, d)):
            usual["source_rows"] = self.source_rows
        changed = {name: int(size) for name, size in asdict(self).items() if size != usual[name]}
        return {NAME: changed} if changed else {}

    def source_bounds(self, n: int, d: int) -> Integers:
        """Bounds of the blocks of input rows; they depend on the shape, not on the chunks of the archive."""
        rows = self.source_bytes // (4 * d)
        return _bounds(n, max(min(rows, self.source_rows or rows), LEAST_ROWS, -(-n // MAX_BLOCKS)))

    def graph_bounds(self, n: int) -> Integers:
        """Bounds of the blocks of rows of a precomputed graph."""
        return _bounds(n, max(self.graph_rows, -(-n // MAX_BLOCKS)))

    def tile_bounds(self, n: int, d: int) -> Integers:
        """Bounds of the blocks of rows of a dense kernel."""
        return _bounds(n, max(LEAST_ROWS, min(TILE_ROWS, self.tile_bytes // (4 * d))))

    def partition(self, n: int, d: int, seed: int = 0) -> PartitionSettings:
        """Settings of the partition of the rows into cells and groups."""
        members = group_rows(n, d) if self.group_rows is None else self.group_rows
        return PartitionSettings(n, seed, cell_rows=self.cell_rows, group_rows=members)


DEFAULT = BlockSizes()
"""Sizes if a caller gives none. Only tests that cut every fit into small blocks replace it."""


def with_defaults(identity: Mapping[str, Any]) -> dict[str, Any]:
    """An identity with the sizes that it does not name."""
    return {**identity, NAME: asdict(BlockSizes()) | UNNAMED | identity.get(NAME, {})}


def or_default(given: BlockSizes | None) -> BlockSizes:
    """The given sizes, or the default.

    Raises
    ------
    InputError
    """
    if given is None:
        return DEFAULT
    if not isinstance(given, BlockSizes):
        raise InputError(f"block_sizes: got {given!r}; give a bigsmic.runtime.block_sizes.BlockSizes")
    return given


def _bounds(n: int, rows: int) -> Integers:
    return np.append(np.arange(0, n, rows), n)
