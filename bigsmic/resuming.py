"""Whether a run directory is one of the fit that is asked for, and what to do if it is not."""

import json
import os
import shlex
from collections.abc import Mapping
from typing import Any

from bigsmic import registry
from bigsmic.errors import RunError, RunMismatchError, StorageError
from bigsmic.runtime.block_sizes import with_defaults
from bigsmic.settings import MethodSettings
from bigsmic.store import FULL, READ_ONLY, Run, SelectedSource, Source
from bigsmic.types import StorageOptions, StrPath
from bigsmic.validation import CLUSTERS

OF_NUMBER = ("n_clusters", "undecided", "open_from", "open_to")
"""Settings that follow from c."""
ROWS = {"rows", "selected"}  # entries of the input that tell which rows of an archive are fitted


def open_run(location: StrPath, storage_options: StorageOptions) -> Run:
    """Open the run of a fit for writing, or for reading if nothing can be written there: it may be finished.

    Raises
    ------
    RunError
        The location has something else, or may only be read and has no finished run.
    StorageError
        There is no room for a run that is not finished, or another failure.
    """
    try:
        return Run(location, storage_options)
    except StorageError as error:
        if error.errno not in (*READ_ONLY, *FULL):
            raise
        why = error
    try:
        run = Run(location, storage_options, writable=False)
        if run.attribute("summary") is not None:
            return run
    except RunError:  # there is none yet
        if why.errno in READ_ONLY:
            raise
    if why.errno not in READ_ONLY:  # but full
        raise why
    raise RunError(
        f"run: {run.location} cannot be written, and the fit in it is not finished ({os.strerror(why.errno)}); "
        "allow this process to write there, or give another out="
    ) from why


def bind(run: Run, identity: dict[str, Any], settings: MethodSettings, source: Source) -> None:
    """Make the run one of what is asked for, or check that it is.

    Parameters
    ----------
    run : Run
    identity : dict
        Everything that can change a label.
    settings : MethodSettings
    source : Source
        The fitted rows.

    Raises
    ------
    RunMismatchError
        It is a run of something else; the message shows both, and the way that leads from one to the other. Or it is a
        saved cut.
    """
    if (cut := run.attribute("cut")) is not None:  # whose labels need not be those of a fit
        raise RunMismatchError(
            f"run: {run.location} is a saved cut at {cut['n_clusters']} clusters, which no fit resumes or overwrites; "
            "read it by Result.open, or give another out="
        )
    try:
        run.bind(identity, as_asked)
    except RunMismatchError as error:
        way = _way_to_cut(run, identity, settings) or _way_to_rows(run.identity["input"], identity["input"], source)
        raise RunMismatchError(f"{error}{way}") from None


def as_asked(identity: dict[str, Any]) -> dict[str, Any]:
    """An identity in the words of the caller: with c, and with the defaults of what it does not name."""
    settings = {"method": registry.DEFAULT} | identity.get("settings", {})
    if "n_clusters" in settings:
        c = _c(settings)
        settings = {CLUSTERS: c} | {name: value for name, value in settings.items() if name not in OF_NUMBER}
    return with_defaults(identity) | {"settings": settings}


def seed_of(out: StrPath) -> int | None:
    """Seed of the run in a directory; None if there is no run."""
    try:
        identity = Run(out, writable=False).identity
    except (RunError, StorageError):  # of which a fit says what is wrong
        return None
    seed: int | None = identity.get("settings", {}).get("seed")
    return seed


def _c(settings: Mapping[str, Any]) -> Any:
    if not settings.get("undecided"):
        return settings["n_clusters"]
    least, most = settings.get("open_from", 1), settings.get("open_to")
    return None if least == 1 and not most else [least, most or settings["n_clusters"]]


def _way_to_cut(run: Run, asked: dict[str, Any], settings: MethodSettings) -> str:
    """What to do if all that is asked of the run is a number of clusters, which it left open."""
    stored = run.identity
    is_open, names_one = stored["settings"].get("undecided"), not asked["settings"].get("undecided")
    if not (is_open and names_one and _but_for_number(asked) == _but_for_number(stored)):
        return ""
    if not hasattr(registry.of(settings).Result, "cut"):
        return ""
    c = asked["settings"].get("n_clusters")
    return (
        f"; the run that is there left the number of clusters open, and needs no other fit for {c} of them: "
        f"bigsmic cut {shlex.quote(str(run.location))} -c {c} --out OTHER_RUN, or Result.open(..).cut({c})"
    )


def _but_for_number(identity: dict[str, Any]) -> dict[str, Any]:
    """An identity as it is stored, without what its settings say of the number of clusters."""
    left_out = {*OF_NUMBER, "valleys"}
    settings = {name: value for name, value in identity["settings"].items() if name not in left_out}
    stored: dict[str, Any] = json.loads(json.dumps(identity | {"settings": settings}))
    return stored


def _way_to_rows(stored: dict[str, Any], asked: dict[str, Any], source: Source) -> str:
    """What to do if the run has other rows of what may be the same archive, such as those before it grew."""
    differing = {name for name in {*stored, *asked} if stored.get(name) != asked.get(name)}
    archive = source.source if isinstance(source, SelectedSource) else source
    selected = stored.get("selected", {"start": 0, "stop": stored["rows"]})
    first, last = selected["start"], selected["stop"]
    if not differing or not differing <= ROWS or not last <= archive.shape[0]:
        return ""
    return f"; if it is a run of this archive, which may have grown, its rows are rows=slice({first}, {last})"
