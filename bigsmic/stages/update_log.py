"""update_log, updates: rows added after a fit, labelled by successive calls of update.

``update_log`` has a block for every call that found new rows, written before any of them is labelled, so that the next
call finishes one that was killed, with the same result. ``updates`` has their labels, posteriors and novelty.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bigsmic.errors import RunError
from bigsmic.stages import selected
from bigsmic.store import Run

LOG, STAGE = "update_log", "updates"
DRIFT_REFERENCE, DRIFT = "drift_reference", "drift"
AFTER_FIT = (LOG, STAGE, DRIFT_REFERENCE, DRIFT)
"""Stages that updates write: their rows have the clusters of the run, and none of a cut of it."""


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
        return range(self.block, self.block + -(-(self.last - self.first) // self.height))

    def rows(self, block: int) -> tuple[int, int]:
        """Rows of the archive in a block."""
        first = self.first + (block - self.block) * self.height
        return first, min(first + self.height, self.last)


def entries(run: Run) -> list[Entry]:
    """Calls of update of a run, in order; none after one whose entry is lost."""
    return [Entry.read(run, number) for place, number in enumerate(run.numbers(LOG)) if number == place]


def entries_within(run: Run, n_rows: int) -> list[Entry]:
    """The same for an archive of so many rows, without a killed call that would label more.

    Its archive has become shorter, as when rows that it refused were dropped, and none of its labels has been read.
    """
    known = entries(run)
    begun_beyond = known and known[-1].last > n_rows and not run.done(DRIFT, known[-1].number)
    return known[:-1] if begun_beyond else known


def lacking(run: Run, entry: Entry) -> list[int]:
    """Blocks of a call that the run lacks, or that have other rows, as of a call whose entry is lost."""
    missing = set(run.missing(STAGE, entry.blocks))
    there = [block for block in entry.blocks if block not in missing]
    infos = zip(there, run.infos(STAGE, there), strict=True)
    others = {block for block, info in infos if (info["first"], info["last"]) != entry.rows(block)}
    return sorted(missing | others)


def forget_lost(run: Run, known: list[Entry]) -> None:
    """Strike off the ledger what other calls than the known ones have left, so that their rows are new again."""
    for stage, end in ((LOG, len(known)), (DRIFT, len(known)), (STAGE, _end(known))):
        for number in run.numbers(stage):
            if number >= end:
                run.forget(stage, number)


def finished(run: Run) -> list[Entry]:
    """Calls whose rows are all labelled, in order: all but the last one, if that was killed or goes on.

    Raises
    ------
    RunError
        Labels of a call that had ended are lost.
    """
    judged = run.numbers(DRIFT)  # in the opposite order of writing, as another process may be updating the run
    blocks = run.numbers(STAGE)
    known = entries(run)
    if max(judged, default=-1) >= len(known) or max(blocks, default=-1) >= _end(known):
        _refuse_lost(run, seen(run, known))
    for entry in known:
        if lacking(run, entry):
            if entry.number in judged or entry is not known[-1]:
                _refuse_lost(run, entry.first)
            return known[:-1]
    return known


def _refuse_lost(run: Run, first: int) -> None:
    raise RunError(
        f"updates: labels of rows from {first} on, which an update had found, are missing from {run.location}; update "
        "the run again with its archive, which labels them anew"
    )


def _end(known: list[Entry]) -> int:
    """Number of blocks of all calls."""
    return known[-1].blocks.stop if known else 0


def next_entry(run: Run, known: list[Entry], stop: int, height: int) -> Entry:
    """Entry for the rows after those that the run has seen, up to `stop`."""
    return Entry(len(known), seen(run, known), stop, _end(known), height)


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
    return np.concatenate([empty, *read_blocks(run, finished(run), name)])
