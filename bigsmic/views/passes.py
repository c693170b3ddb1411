"""Passes over the rows of a finished fit: several views are computed in one pass, and cached with the Result."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.engines.base import Engine, TaskOptions
from bigsmic.runtime.context import Context
from bigsmic.stages.rowwise_output import read_array
from bigsmic.types import Integers


@dataclass(frozen=True)
class Block:
    """Rows of one block of input, in input order; each array is read when it is first asked for.

    Parameters
    ----------
    context : Context
        With the archive for source, where its rows are asked for.
    number : int
    """

    context: Context
    number: int

    @property
    def lo(self) -> int:
        """Number of the first row."""
        return int(self.context.source_bounds[self.number])

    @property
    def hi(self) -> int:
        """Number of the last row, plus one."""
        return int(self.context.source_bounds[self.number + 1])

    @cached_property
    def labels(self) -> NDArray[np.int32]:
        """Cluster of each row, -1 for none, shape (b,)."""
        return self._read("labels")

    @cached_property
    def posterior(self) -> NDArray[np.float32]:
        """Posterior of each cluster, shape (b, c)."""
        return self._read("posterior")

    @cached_property
    def agreement(self) -> NDArray[np.float32]:
        """Share of the labelings that agree, shape (b,); 1 where none were compared."""
        if "agreement" not in self.context.run.info("output", self.number):
            return np.ones(self.hi - self.lo, np.float32)
        return self._read("agreement")

    @cached_property
    def own(self) -> NDArray[np.float32]:
        """Posterior of the label of each row, shape (b,); 0 where it has none."""
        found, known = np.zeros(self.hi - self.lo, np.float32), np.flatnonzero(self.labels >= 0)
        found[known] = self.posterior[known, self.labels[known]]
        return found

    @cached_property
    def X(self) -> NDArray[Any]:
        """Rows as stored, shape (b, d), checked to be those of the run."""
        return self.context.input_block(self.number)

    def _read(self, name: str) -> NDArray[Any]:
        array = self.context.cached(("read", name), partial(read_array, self.context, name))
        found: NDArray[Any] = array[self.lo : self.hi]
        return found


class Sight:
    """A computation on every block. Equal sights have equal results, and the results of two blocks can be added.

    Attributes
    ----------
    of_archive : bool
        Whether rows of the archive are read, which is to be compared with the run whenever it is handed in.
    """

    of_archive: ClassVar[bool] = False

    def __call__(self, block: Block) -> Any:
        """Result of one block."""
        raise NotImplementedError


class Seen(tuple[Any, ...]):
    """Results of several sights."""

    __slots__ = ()

    def __add__(self, other: Any) -> "Seen":  # tuples would grow longer
        """Results for the rows of both."""
        return Seen(mine + theirs for mine, theirs in zip(self, other, strict=True))


def pass_over(context: Context, sights: Sequence[Sight], engine: Engine) -> Seen:
    """Results of several sights over all rows, in one pass; sums are the same on any number of workers.

    Parameters
    ----------
    context : Context
    sights : sequence of Sight
    engine : Engine
        Open.

    Raises
    ------
    CorruptBlockError
        What is read is not what the fit has written.
    RunMismatchError
        Rows of the archive are not those of the run.
    """
    found: Seen = engine.reduce(partial(_look, context, tuple(sights)), context.source_blocks, TaskOptions("pass"))
    return found


def _look(context: Context, sights: Sequence[Sight], number: int) -> Seen:
    block = Block(context, number)
    return Seen(sight(block) for sight in sights)


# -- values of single rows


class Values(NamedTuple):
    """Values of rows, in their order; the sum of two is both, one after the other.

    Parameters
    ----------
    array : ndarray, shape (m,)
    """

    array: NDArray[Any]

    def __add__(self, other: Any) -> "Values":  # tuples would grow longer
        """Those of both."""
        return Values(np.concatenate([self.array, other.array]))


@dataclass(frozen=True)
class AllLabels(Sight):
    """Labels of all rows."""

    def __call__(self, block: Block) -> Values:
        """Those of the rows of a block."""
        return Values(block.labels)


@dataclass(frozen=True)
class OnMap(Sight):
    """Values of the rows of a map.

    Parameters
    ----------
    name : {"labels", "agreement", "own"}
        Attribute of :class:`Block`.
    n_rows : int
        Of the map that was asked for.
    rows : ndarray of int64, shape (m,), ascending
        That are on it, which `n_rows` says already.
    """

    name: str
    n_rows: int
    rows: Integers = field(compare=False)

    def __call__(self, block: Block) -> Values:
        """Values of the rows of a block that are on the map."""
        first, last = np.searchsorted(self.rows, [block.lo, block.hi])
        return Values(getattr(block, self.name)[self.rows[first:last] - block.lo])
