"""Pickles of finished fits: all that predictions need, or, for a run with a path of its own, the path.

A temporary run directory is deleted with its process. So the artifacts that predictions read are copied into a run in
memory, which is pickled with its bytes; other arrays are included as far as there is room. A run that the user named
with ``out=`` is opened again at its location, and must be the same run.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

from bigsmic.errors import RunError, StorageError
from bigsmic.numerics.moments import Moments
from bigsmic.prediction import model_of
from bigsmic.runtime.context import PROJECTION, Context
from bigsmic.stages import columns, novelty, update_log
from bigsmic.stages.numbering import LIKE
from bigsmic.stages.rowwise_output import read_array
from bigsmic.store import (
    AT_THE_END,
    CarriedRun,
    Overlay,
    Run,
    absolute,
    as_location,
    block_bytes,
    copy_array,
    copy_block,
    is_local,
    remove_unfinished,
)
from bigsmic.types import StorageOptions, StrPath

CARRIED_BYTES = 256 << 20
"""Largest number of bytes of arrays in a pickle."""
Wanted: TypeAlias = dict[str, Sequence[str] | None]
"""Names of arrays by stage; None for all of them."""


@dataclass(frozen=True)
class Place:
    """Location and identifier of a run.

    Parameters
    ----------
    address : str
        Absolute path, or URL.
    id : str
        Identifier of the run.
    """

    address: str
    id: str

    @classmethod
    def of(cls, run: Run) -> Self:
        """The location of a run that has one of its own."""
        return cls(run.address, run.id)

    def open(self) -> Run:
        """Open the run.

        Raises
        ------
        RunError
            The run no longer exists, or another one is at its location.
        """
        try:
            run = Run(self.address, writable=False)
        except RunError as error:
            raise RunError(f"unpickling: the run that the pickle names is not there, restore it: {error}") from error
        if run.id != self.id:
            raise RunError(
                f"unpickling: {run.location} is not the run that was pickled, but another one; restore the first, or "
                "open the present one by Result.open"
            )
        return run


def carried(context: Context, tells: Wanted) -> CarriedRun:
    """Copy the artifacts that predictions read to a run in memory.

    Parameters
    ----------
    context : Context
        Of the finished fit.
    tells : dict of str to sequence of str or None
        Further artifacts that a Result reads, in the form of `reads` of the methods' models; left out if there is no
        room.

    Returns
    -------
    run : CarriedRun
        With `posterior`, `agreement` and `noise` if there is room.

    Raises
    ------
    RunError
        The artifacts that predictions read are larger than a pickle may be.
    CorruptBlockError
    """
    run, wanted = context.run, needed(context)
    blocks = _finished(run)
    room = CARRIED_BYTES - 4 * context.n - _bytes(run, blocks, wanted)
    if room < 0:
        raise RunError(
            f"pickle: predictions read {(CARRIED_BYTES - room) / 2**20:,.0f} MiB of {run.location}, more than the "
            f"{CARRIED_BYTES >> 20} MiB that a pickle may contain; fit with out=, or pickle the result of "
            "result.save(path), which is pickled as its path"
        )
    for stage, names in (tells | {update_log.STAGE: None}).items():
        more = _bytes(run, blocks, {stage: names}) - _bytes(run, blocks, {stage: wanted.get(stage, ())})
        if more <= room:
            wanted, room = wanted | {stage: names}, room - more
    made = CarriedRun.of(run)
    for stage, block in blocks:
        if stage in wanted:
            copy_block(run, made, stage, block, wanted[stage])
    if not context.settings.undecided:
        _copy_arrays(context, made, room)
    return made


def _finished(run: Run) -> list[tuple[str, int]]:
    """Blocks of a finished run, without those that an update has begun and not ended."""
    return [found for found in run.blocks() if found[0] not in update_log.AFTER_FIT or run.done(*found)]


def needed(context: Context) -> Wanted:
    """Stages that predictions read, with the names of their arrays."""
    settings = context.settings
    wanted: Wanted = (
        {} if settings.precomputed else {"scan": Moments._fields, "scaling": ("spreads", "centers"), columns.STAGE: ()}
    )
    wanted |= {PROJECTION: ("axes",)}
    if settings.undecided:
        return wanted
    wanted |= {"output": (), "names": (), update_log.LOG: (), update_log.DRIFT: ()}
    return wanted | {novelty.STAGE: novelty.SHAPES} | model_of(context).reads


def _bytes(run: Run, blocks: Sequence[tuple[str, int]], wanted: Wanted) -> int:
    """Bytes of the wanted arrays of some blocks."""
    return sum(block_bytes(run, stage, block, wanted[stage]) for stage, block in blocks if stage in wanted)


def _copy_arrays(context: Context, made: CarriedRun, room: int) -> None:
    """Copy agreement, noise and posterior, as far as there is room."""
    for name in ("agreement", "noise", "posterior"):
        if name in context.run.info("output", 0):
            array = read_array(context, name)
            if array.nbytes <= room:
                copy_array(array, made, name)
                room -= array.nbytes


def save(context: Context, location: StrPath, storage_options: StorageOptions = None) -> str:
    """Copy a finished run, or a cut with its base run, into a new run directory.

    Parameters
    ----------
    context : Context
        Of the finished fit.
    location : str or Path
    storage_options : dict, optional

    Returns
    -------
    address : str

    Raises
    ------
    RunError, CorruptBlockError, StorageError
    """
    run, location = context.run, absolute(as_location(location, "path"))
    if isinstance(run, CarriedRun):
        raise RunError(
            f"save: {run.location} has only what predictions need, and is not a whole run; save the result of the fit"
        )
    refuse_taken(location)
    is_new = is_local(location) and not os.path.lexists(location)
    try:
        made = Run(location, storage_options)
    except (StorageError, KeyboardInterrupt):  # as on a full disk: of what was begun nothing is left
        if is_new:
            remove_unfinished(location)
        raise
    there = made.attribute("identity")
    if there is not None and not (_is_begun(made) and there == _identity(context)):
        made.close()  # behind a URL, of a process that was quicker, or a save of something else
        raise RunError(f"save: {made.location} is a run already, and nothing is overwritten; give another path or URL")
    try:
        made.sweep()
        _copy(context, made)
    except BaseException:
        made.close()
        if is_local(location):
            remove_unfinished(location)
        raise
    made.close()
    return location


def refuse_taken(location: StrPath) -> None:
    """Refuse a local path that exists, unless a save to it was killed, which the same save finishes.

    Raises
    ------
    RunError
    """
    place = absolute(as_location(location, "path"))
    if is_local(place) and os.path.lexists(place) and not _is_left(place):
        raise RunError(f"save: {place} exists already, and nothing is overwritten; give another path")


def _is_left(place: str) -> bool:
    try:
        return _is_begun(Run(place, writable=False))
    except (RunError, StorageError):  # whatever else is there
        return False


def _is_begun(run: Run) -> bool:
    """Whether a save to this run has not ended."""
    return run.attribute("saved") is not None and run.attribute("summary") is None


def _identity(context: Context) -> dict[str, Any]:
    """Identity of the run that a save makes."""
    run = context.run
    if not isinstance(run, Overlay):
        return run.identity
    cut = {"settings": context.settings.identity() | _kernel_of(run)}
    found: dict[str, Any] = json.loads(json.dumps(run.identity | cut))
    found.pop(LIKE, None)
    return found


def _copy(context: Context, made: Run) -> None:
    """Copy a whole run; the summary, which marks it as finished, last."""
    run, settings = context.run, context.settings
    base = run.base_id if isinstance(run, Overlay) else run.id
    whose = {"cut": {"run": base, "n_clusters": settings.n_clusters}} if isinstance(run, Overlay) else {}
    made.bind(_identity(context), beside=whose | {"saved": {"run": base}})
    for stage, block in _finished(run):
        copy_block(run, made, stage, block)
    if not settings.undecided:
        for name in run.info("output", 0):
            copy_array(read_array(context, name), made, name)
    made.update({name: run.attribute(name) for name in AT_THE_END})


def is_cut(location: StrPath, base: Run, n_clusters: int, storage_options: StorageOptions = None) -> bool:
    """Whether a location has the finished cut of this base run at this number of clusters, as of an earlier call."""
    try:
        run = Run(location, storage_options, writable=False)
        found = run.attribute("cut") if run.attribute("summary") is not None else None
    except (RunError, StorageError):  # whatever else is there
        return False
    return found is not None and found == {"run": base.id, "n_clusters": n_clusters}


def _kernel_of(run: Run) -> dict[str, Any]:
    """Name of the kernel in the run's identity, which a Result opened without the function lacks."""
    return {name: value for name, value in run.identity["settings"].items() if name == "kernel"}
