"""Sizes of the blocks that a fit cuts its rows into."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from bigsmic.errors import InputError
from bigsmic.numerics.graph.cells import PartitionSettings, group_rows
from bigsmic.types import Integers
from bigsmic.validation import check_integer

MAX_BLOCKS = 1024  # of input rows: bounds the number of pieces that routing makes
NAME = "block_sizes"  # of the entry in identities
LEAST_ROWS = 256  # of a block of input, and of a tile
TILE_ROWS = 4096  # of a tile at most


@dataclass(frozen=True)
class BlockSizes:
    """Sizes of the blocks that a fit cuts its rows into.

    The defaults suit machines with a gigabyte or more; tests cut small inputs into many blocks by others. Sums are
    taken block by block, and neighbours are searched group by group, so that sizes can change labels as a seed can. A
    run has in its identity those that are not the defaults, and tasks, cuts and predictions take them from there.

    Parameters
    ----------
    source_bytes : int
        float32 bytes of one block of input rows, which has at least 256 rows.
    graph_rows : int
        Rows of one block of a precomputed graph.
    cell_rows : int
        Rows at home in a cell on average; see :class:`~bigsmic.numerics.graph.cells.PartitionSettings`.
    group_rows : int, optional
        Rows of a group of cells at most, visitors included. By default
        :func:`~bigsmic.numerics.graph.cells.group_rows` of the shape of the input.
    tile_bytes : int
        float32 bytes of one block of rows of a dense kernel, which has 256 to 4,096 rows.
    pool_bytes : int
        float32 bytes of the rows that RIM draws minibatches from at a time.

    Raises
    ------
    InputError
        What is no integer, or is below 1.
    """

    source_bytes: int = 8 << 20
    graph_rows: int = 32_768
    cell_rows: int = 320
    group_rows: int | None = None
    tile_bytes: int = 8 << 20
    pool_bytes: int = 32 << 20

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value is not None or name != "group_rows":
                check_integer(f"block_sizes: {name}", value, 1)

    @classmethod
    def of_run(cls, identity: Mapping[str, Any]) -> Self:
        """Sizes that a run was begun with.

        Raises
        ------
        InputError, TypeError
            The identity does not say what sizes of this version are.
        """
        return cls(**identity.get(NAME, {}))

    def identity(self) -> dict[str, Any]:
        """Entries of a run's identity: none where all sizes are the defaults."""
        usual = asdict(type(self)())
        changed = {name: int(size) for name, size in asdict(self).items() if size != usual[name]}
        return {NAME: changed} if changed else {}

    def source_bounds(self, n: int, d: int) -> Integers:
        """Bounds of the blocks of input rows: they depend on the shape, not on the chunks of the archive."""
        return _bounds(n, max(self.source_bytes // (4 * d), LEAST_ROWS, -(-n // MAX_BLOCKS)))

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


UNNAMED_SIZES = {f"{NAME}.{name}": size for name, size in asdict(BlockSizes()).items()}
"""What an identity means that does not have an entry of these dotted names."""
DEFAULT = BlockSizes()
"""Sizes where a caller gives none. Tests that have every fit cut small replace it, and nothing else."""


def or_default(given: BlockSizes | None) -> BlockSizes:
    """Sizes that a caller gave, or the default.

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
