"""update_log, updates: rows added after a fit, labelled by successive calls of update.

``update_log`` has a block for every call that found new rows, written before any of them is labelled, so that the next
call finishes one that was killed, with the same result. ``updates`` has their labels, posteriors and novelty.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bigsmic.stages import selected
from bigsmic.store import Run

LOG, STAGE = "update_log", "updates"


@dataclass(frozen=True)
class Entry:
    """One call of update.

    Parameters
    ----------
    number : int
        Number of the call, from 0.
    first, last : int
        Rows of the archive, ``first:last``.
    block : int
        Block of `updates` with the first of these rows.
    height : int
        Rows of a block; the last one may have fewer.
    """

    number: int
    first: int
    last: int
    block: int
    height: int

    @classmethod
    def read(cls, run: Run, number: int) -> Self:
        """Entry of a run."""
        info = run.info(LOG, number)
        return cls(number, **{name: info[name] for name in ("first", "last", "block", "height")})

    def write(self, run: Run) -> None:
        """Write the entry to the run."""
        facts = asdict(self)
        del facts["number"]
        run.write(LOG, self.number, {}, info=facts)

    @property
    def blocks(self) -> range:
        """Blocks of `updates` with these rows."""
        return range(self.block, self.block - (self.first - self.last) // self.height)

    def rows(self, block: int) -> tuple[int, int]:
        """Rows of the archive in a block."""
        first = self.first + (block - self.block) * self.height
        return first, min(first + self.height, self.last)


def entries(run: Run) -> list[Entry]:
    """Calls of update of a run, in order."""
    return [Entry.read(run, number) for number in run.numbers(LOG)]


def next_entry(run: Run, known: list[Entry], stop: int, height: int) -> Entry:
    """Entry for the rows after those that the run has seen, up to `stop`."""
    block = known[-1].blocks.stop if known else 0
    return Entry(len(known), seen(run, known), stop, block, height)


def seen(run: Run, known: list[Entry]) -> int:
    """First row of the archive after those of the fit and of updates."""
    return known[-1].last if known else selected.read(run).stop


def read_blocks(run: Run, known: list[Entry], name: str) -> Iterator[NDArray[Any]]:
    """An array of `updates`, block by block."""
    for entry in known:
        for (array,) in run.gather(STAGE, entry.blocks, [name]):
            yield array


def read_all(run: Run, name: str, empty: NDArray[Any]) -> NDArray[Any]:
    """An array of all finished updates; `empty` has its dtype and columns."""
    known = [entry for entry in entries(run) if not run.missing(STAGE, entry.blocks)]
    return np.concatenate([empty, *read_blocks(run, known, name)])
