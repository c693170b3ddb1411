"""Labels of rows added after a fit, which are stored in its run."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from bigsmic.engines.base import Engine, TaskOptions
from bigsmic.engines.memory import share_arena
from bigsmic.errors import InputError, RunMismatchError
from bigsmic.numerics.hashing import spot_checks
from bigsmic.prediction import Predictor, rows_at_once, running
from bigsmic.runtime.context import Context
from bigsmic.runtime.progress import ticks
from bigsmic.spelling import refuse_unknown
from bigsmic.stages import columns, rowwise_output, selected, update_log
from bigsmic.stages.update_log import Entry
from bigsmic.store import Run, Source, checksum, open_source
from bigsmic.types import Client, Progress, StorageOptions
from bigsmic.updates import drift
from bigsmic.validation import check_choice, check_integer

SPARSE = 4
"""Rows of the archive per fitted row above which single rows of a block are compared, not the whole block."""


def update(  # noqa: PLR0913
    context: Context,
    data: Any,
    *,
    component: str | None = None,
    storage_options: StorageOptions = None,
    missing_chunks: Literal["error", "fill"] = "error",
    stop: int | None = None,
    verify: Literal["some", "all"] = "some",
    n_threads: int | None = None,
    client: Client = None,
    scheduler: str | None = None,
    engine: Engine | None = None,
    progress: Progress = None,
) -> list[Entry]:
    """Label the rows of an archive after those that a run has seen.

    Parameters
    ----------
    context : Context
        Context of a finished fit.
    data, component, storage_options, missing_chunks, stop, verify, n_threads, client, scheduler, engine, progress
        As in :meth:`bigsmic.Result.update`.

    Returns
    -------
    entries : list of Entry
        Entries that this call has finished: one of a killed call, if any, and that of new rows. What is lost of earlier
        ones is made again without being among them.

    Raises
    ------
    InputError, RunMismatchError, RunLockedError
    """
    check_choice("verify", verify, ("some", "all"))
    if stop is not None:
        check_integer("stop", stop, 0)
    if context.settings.precomputed:
        raise InputError("update: the fit was of a graph, to which rows cannot be added; use predict")
    if type(context.run) is not Run:
        raise InputError(
            f"update: {context.run.location} is not a run directory that can be written to; save the result, and "
            "update the saved one"
        )
    share_arena()
    source = open_source(data, component, storage_options, missing_chunks)
    columns.refuse_others(context.run, source.column_names, "update")
    run = context.run.for_writing()
    try:
        context.run.refuse_lost()  # which a run that is open for writing does not notice
        writing = Context(None, run, context.settings)
        known = update_log.entries_within(run, source.shape[0])
        update_log.forget_lost(run, known)
        Archive(writing, source, known).refuse_changed(check_all=verify == "all")
        last = source.complete_rows if stop is None else min(stop, source.shape[0])
        left = [entry for entry in known if update_log.lacking(run, entry) or not run.done(drift.STAGE, entry.number)]
        killed = [entry for entry in known[-1:] if not run.done(drift.STAGE, entry.number)]
        new = update_log.next_entry(run, known, last, rows_at_once(context.d))
        found = [new] if new.last > new.first else []
        where = (engine, client, scheduler, n_threads)
        with running(source, where, progress, None) as (opened, report):
            opened.reach(None, run, None)
            for entry in left + found:
                if not run.done(update_log.LOG, entry.number):
                    entry.write(run)
                _fill(writing, source, entry, opened, report)
                drift.judge(writing, source, entry)
    finally:
        run.close()
    return killed + found


def _fill(context: Context, source: Source, entry: Entry, engine: Engine, report: Any) -> None:
    """Label the blocks of one entry that the run lacks."""
    blocks = list(entry.blocks)
    todo = update_log.lacking(context.run, entry)
    tick = ticks(report, "update", len(blocks), len(blocks) - len(todo))
    engine.for_each(Labeler(context, source, entry), todo, TaskOptions("update", tick=tick))


@dataclass(frozen=True)
class Labeler:
    """Labels blocks of new rows, and writes them to the run.

    Parameters
    ----------
    context : Context
        Whose run may be written to.
    source : Source
        The archive.
    entry : Entry
        Entry of the blocks.
    """

    context: Context
    source: Source
    entry: Entry

    @cached_property
    def predictor(self) -> Predictor:
        """The model; a process reads it once."""
        return Predictor(self.context, self.source, self.entry.height)

    def __getstate__(self) -> dict[str, Any]:
        """State that another process needs."""
        return {"context": self.context, "source": self.source, "entry": self.entry}

    def __call__(self, block: int) -> None:
        """Label one block."""
        lo, hi = self.entry.rows(block)
        X = self.source.read(lo, hi)
        posterior, labels, novelty = self.predictor.assess(lo, X)
        arrays = {"labels": labels, "posterior": posterior, "novelty": novelty}
        info = {"first": lo, "last": hi, "crc32": checksum(X)}
        self.context.run.write(update_log.STAGE, block, arrays, info=info)


class Archive:
    """The archive of a run, with checks of whether it has changed.

    Parameters
    ----------
    context : Context
    source : Source
        All rows.
    known : list of Entry
    """

    def __init__(self, context: Context, source: Source, known: list[Entry]):
        self.context, self.source, self.known = context, source, known
        self.run = context.run

    def refuse_changed(self, check_all: bool) -> None:
        """Raise RunMismatchError if the archive is another one, has become shorter, or has changed rows."""
        self.refuse_other()
        self._check_fitted(check_all)
        self._check_updates(check_all)

    def refuse_other(self) -> None:
        """Raise RunMismatchError if the archive has other columns, another dtype or fewer rows; no rows are read."""
        stored, found = self.run.identity["input"], self.source.describe()
        differing = [name for name in ("columns", "dtype", "decoded") if stored.get(name) != found.get(name)]
        if differing:
            said = ", ".join(f"{name} {found.get(name)!r}, the run has {stored.get(name)!r}" for name in differing)
            raise RunMismatchError(
                f"update: {self.source.name} has {said}; give the archive of the fit, or fit this one with another out="
            )
        have, had = self.source.shape[0], update_log.seen(self.run, self.known)
        if have < had:
            raise self._another(f"{self.source.name} has {have:,} rows, and had {had:,}")

    def _check_fitted(self, check_all: bool) -> None:
        fitted, bounds = selected.of_run(self.run, self.source), self.context.source_bounds.tolist()
        for s in _chosen(len(bounds) - 1, len(self.known), check_all):
            lo, hi = bounds[s], bounds[s + 1]
            is_sparse = fitted.number(hi - 1) - fitted.number(lo) > SPARSE * (hi - lo)
            if is_sparse and not check_all:
                self._check_sampled(fitted, s)
            else:
                self._check_block(fitted, s)

    def _check_block(self, fitted: Source, s: int) -> None:
        lo, hi = self.context.source_bounds[s : s + 2].tolist()
        if checksum(fitted.read(lo, hi)) != self.run.info("scan", s)["crc32"]:
            raise self._another(f"fitted rows {lo}:{hi} of {self.source.name} have changed")

    def _check_sampled(self, fitted: Source, s: int) -> None:
        """Compare single rows, different ones in each call, with those kept by the scan."""
        rows, kept = self.context.scan(s, "sample_rows", "sample")
        if not len(rows):  # no row of this block was drawn
            self._check_block(fitted, s)
        for i in spot_checks(len(rows), len(self.known), "checked"):
            row = int(rows[i])
            if checksum(fitted.read(row, row + 1)) != checksum(kept[i : i + 1]):
                raise self._another(f"row {fitted.number(row)} of {self.source.name} has changed")

    def _check_updates(self, check_all: bool) -> None:
        total = self.known[-1].blocks.stop if self.known else 0
        blocks = _chosen(total, len(self.known), check_all)
        missing = set(self.run.missing(update_log.STAGE, blocks))
        for block in blocks:
            info = {} if block in missing else self.run.info(update_log.STAGE, block)
            if info and checksum(self.source.read(info["first"], info["last"])) != info["crc32"]:
                raise self._another(f"rows {info['first']}:{info['last']} of {self.source.name} have changed")

    def _another(self, why: str) -> RunMismatchError:
        return RunMismatchError(
            f"update: {why} since {self.run.location} has seen it; restore the archive, or fit it with another out="
        )


def _chosen(count: int, turn: int, check_all: bool) -> list[int]:
    """Blocks to check: some, different ones in each call, or all."""
    return list(range(count)) if check_all else spot_checks(count, turn, "checked")


@dataclass(frozen=True)
class Update:
    """Result of one call of :meth:`bigsmic.Result.update`.

    Attributes
    ----------
    rows : int
        Number of new rows.
    first, last : int
        Range of these rows in the archive: ``first:last``.
    cluster_sizes : list of int
        Number of new rows in every cluster.
    in_none : int
        Number of new rows that are in no cluster or invalid.
    novel : int
        Number of new rows with a novelty above 1.
    drift : dict, optional
        Comparison of the new rows with the fit; None without new rows. See :attr:`bigsmic.Result.drift`.
    """

    rows: int
    first: int
    last: int
    cluster_sizes: list[int]
    in_none: int
    novel: int
    drift: dict[str, Any] | None = None

    @classmethod
    def of(cls, context: Context, data: Any, options: Mapping[str, Any]) -> Self:
        """Label the new rows of an archive."""
        refuse_unknown("update", options, _OPTIONS)
        entries = update(context, data, **options)
        run, n_clusters = context.run, rowwise_output.read_array(context, "posterior").shape[1]
        counts, novel = np.zeros(n_clusters + 1, np.int64), 0
        for labels in update_log.read_blocks(run, entries, "labels"):
            counts += np.bincount(labels + 1, minlength=n_clusters + 1)
        for novelty in update_log.read_blocks(run, entries, "novelty"):
            novel += int((novelty > 1).sum())
        last = update_log.seen(run, update_log.entries(run))
        first = entries[0].first if entries else last
        judged = run.info(drift.STAGE, entries[-1].number) if entries else None
        return cls(last - first, first, last, counts[1:].tolist(), int(counts[0]), novel, judged)

    @property
    def recommends_refit(self) -> bool:
        """Whether the new rows differ from the fit by more than stretches of the fit do from each other."""
        return self.drift is not None and self.drift["verdict"] == drift.RECOMMENDED

    def __repr__(self) -> str:
        if not self.rows:
            return f"Update: no new rows; {self.last:,} are known"
        which = f"rows, {self.first:,} to {self.last - 1:,}" if self.rows > 1 else f"row, {self.first:,}"
        return (
            f"Update: {self.rows:,} new {which}\n"
            f"  sizes      {', '.join(f'{size:,}' for size in self.cluster_sizes)}"
            + (f"\n  in none    {self.in_none:,}" if self.in_none else "")
            + f"\n  novel      {self.novel:,}, {self.novel / self.rows:.1%}"
            + (f"\n  drift      {self.drift['verdict']}: {self.drift['reason']}" if self.drift else "")
        )


_OPTIONS = {name for name, p in inspect.signature(update).parameters.items() if p.kind is p.KEYWORD_ONLY}


@dataclass(frozen=True)
class Updates:
    """Results of all updates, in the order of the archive.

    Attributes
    ----------
    first : int
        Row of the archive of the first entry.
    labels : ndarray of int32, shape (m,)
    posterior : ndarray of float32, shape (m, c)
    novelty : ndarray of float32, shape (m,)
    """

    first: int
    labels: NDArray[np.int32]
    posterior: NDArray[np.float32]
    novelty: NDArray[np.float32]

    @classmethod
    def of(cls, context: Context, first: int) -> Self:
        """Read the finished updates of a run."""
        n_clusters = rowwise_output.read_array(context, "posterior").shape[1]
        empty = {"labels": np.empty(0, np.int32), "novelty": np.empty(0, np.float32)}
        empty["posterior"] = np.empty((0, n_clusters), np.float32)
        run = context.run
        known = update_log.finished(run)  # once, as another process may finish an update between two arrays
        return cls(
            first,
            **{
                name: np.concatenate([array, *update_log.read_blocks(run, known, name)])
                for name, array in empty.items()
            },
        )

    def __len__(self) -> int:
        return len(self.labels)
