"""Contents of a job file."""

import os
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from bigsmic import registry
from bigsmic.errors import InputError
from bigsmic.nightly import toml_file
from bigsmic.nightly.toml_file import TOMLFile, integer, positive, switch, text, texts
from bigsmic.nightly.wording import KEYS
from bigsmic.store import absolute, as_location, digest
from bigsmic.types import StrPath
from bigsmic.validation import parse_bytes

OF_JOBS = ("archive", "folder", "component", "missing_chunks", "memory_limit", "threads", "keep", "report", "after")
TABLES = ("windows", "fit", "refit")
NIGHT = "{night}"
"""Placeholder for the number of the night in the path of a report."""


def _size(value: Any) -> str | int:
    try:
        parse_bytes(value)
    except InputError:
        raise ValueError("write a size, such as '6GiB'") from None
    size: str | int = value
    return size


def _clusters(value: Any) -> int | list[int]:
    if isinstance(value, list) and value:
        return [integer(1)(number) for number in value]
    found: int = integer(1)(value)
    return found


def _length(value: Any) -> int | str:
    if isinstance(value, str) and value.strip():
        return value
    try:
        found: int = integer(1)(value)
    except ValueError:
        raise ValueError("write a number of samples, or a duration such as '10s'") from None
    return found


def _command(value: Any) -> tuple[str, ...]:
    words = tuple(shlex.split(value)) if isinstance(value, str) else texts(value)
    if not words:
        raise ValueError("write a command")
    return words


def _absent(value: Any) -> str:
    if value not in ("error", "fill"):
        raise ValueError("write 'error' or 'fill'")
    return str(value)


def _place(value: Any) -> str:
    place = text(value)
    if place.replace(NIGHT, "").count("{"):
        raise ValueError(f"write a path, in which {NIGHT} stands for the number of the night")
    return place


@dataclass(frozen=True)
class Refits:
    """Rules for refits, and the rows that they take; without any of the first three there are no refits.

    Parameters
    ----------
    every : int, optional
        Refit after this number of nights.
    drift : bool
        Refit if the new rows differ from the fitted ones.
    growth : float, optional
        Refit if the archive has grown by this share since the last fit: .5 is by half.
    last : int, optional
        Number of rows at the end of the archive that a fit takes.
    reservoir : int, optional
        Number of rows, drawn by hash from all, that a fit takes. By default it takes all.
    """

    every: int | None = None
    drift: bool = False
    growth: float | None = None
    last: int | None = None
    reservoir: int | None = None


@dataclass(frozen=True)
class Job:
    """The contents of a job file; :meth:`read` reads one.

    Parameters
    ----------
    path : str
        Path of the file, for messages.
    archive : str
        Path or URL of the rows or, with `windows`, of the recordings.
    folder : str
        Local folder of runs, windows, history and journal.
    component : str, optional
        Array within the archive, as in :func:`bigsmic.fit`.
    missing_chunks : {"error", "fill"}
        Whether an absent chunk of the archive is an error, or is read as its fill value.
    memory_limit : int or str, optional
        As in :func:`bigsmic.fit`.
    threads : int, optional
        Number of concurrent tasks; by default as many as processors, and one for labels of new rows.
    keep : int
        Number of runs that are kept.
    report : str, optional
        Path or URL of the report, in which ``{night}`` is the number of the night in six digits; no report by default.
    after : tuple of str
        Words of the command that is run after a night; none by default.
    windows : dict, optional
        ``length``, ``step``, ``features``, ``rate``, ``times`` and ``channels`` of :func:`bigsmic.features.windows`.
    c : int, list of int, optional
        Number of clusters, or a range of it, as in :func:`bigsmic.fit`.
    method : str
        As in :func:`bigsmic.fit`.
    options : dict
        Options of the method, by name.
    refits : Refits
        When the rows are fitted again, and which.
    """

    path: str
    archive: str
    folder: str
    component: str | None = None
    missing_chunks: Literal["error", "fill"] = "error"
    memory_limit: int | str | None = None
    threads: int | None = None
    keep: int = 3
    report: str | None = None
    after: tuple[str, ...] = ()
    windows: Mapping[str, Any] | None = None
    c: int | list[int] | None = None
    method: str = registry.DEFAULT
    options: Mapping[str, Any] = field(default_factory=dict)
    refits: Refits = field(default_factory=Refits)

    @classmethod
    def read(cls, path: StrPath) -> Self:
        """Read a job file; paths in it are relative to its folder.

        Parameters
        ----------
        path : str or Path
            The file, in TOML.

        Returns
        -------
        job : Job

        Raises
        ------
        InputError
            The file cannot be read, or a key or a value cannot be used; the message has its line and a remedy.
        """
        file = TOMLFile.read(as_location(path, "job"), _elsewhere)
        top = file.values(None, _TOP | {name: lambda value: value for name in TABLES})
        missing = [name for name in ("archive", "folder") if name not in top]
        if missing:
            raise InputError(f"{file.path}: has no {missing[0]}; write {missing[0]} = '...' above the first table")
        windows = file.values("windows", _WINDOWS) if "windows" in top else None
        if windows is not None and "length" not in windows:
            raise file.refuse(("windows",), "has no length; write length = '10s', or a number of samples")
        if windows is not None:
            _check_windows(file, windows)
        fit = file.values("fit", _FIT, others=True)
        options = {name: value for name, value in file.tables.get("fit", {}).items() if name not in _FIT}
        base = os.path.dirname(os.path.abspath(file.path))
        with file.blaming("fit", ("method",)):
            files = registry.settings_of(fit.get("method", registry.DEFAULT)).side_inputs
        options |= {
            name: _beside(base, place) for name, place in options.items() if name in files and isinstance(place, str)
        }
        made = cls(
            path=file.path,
            **{name: top[name] for name in OF_JOBS if name in top}
            | {name: _beside(base, top[name]) for name in ("archive", "folder", "report") if name in top},
            windows=windows,
            c=fit.get("c"),
            method=fit.get("method", registry.DEFAULT),
            options=options,
            refits=_refits(file),
        )
        made._check_fit(file)
        return made

    def _check_fit(self, file: TOMLFile) -> None:
        keys = ("method", "c", *self.options)
        with file.blaming("fit", keys):
            known = {*_FIT, *registry.options(self.method)}
        unknown = [name for name in self.options if name not in known]
        for name in unknown:
            if hint := _elsewhere(name, {*known, *registry.options(registry.DEFAULT)}):
                raise file.refuse(("fit", name), f"unknown key; {hint}")
        with file.blaming("fit", unknown or keys):
            settings = registry.settings(self.method, self.c, self.options)
        taken = next((name for name in ("last", "reservoir") if getattr(self.refits, name)), "")
        for name in settings.side_inputs if taken else ():
            if name in self.options:
                why = f"got it beside refit.{taken}, with which its rows are others in every fit; leave one of them out"
                raise file.refuse(("fit", name), why)
        if settings.precomputed:
            raise file.refuse(("fit", "kernel"), "got a graph, which cannot have new rows; fit rows")

    @property
    def reading(self) -> dict[str, Any]:
        """Options that read the archive."""
        return {"component": self.component, "missing_chunks": self.missing_chunks}

    @property
    def rows_of(self) -> str:
        """Identity of the rows: their archive and windows."""
        return digest([absolute(self.archive), self.component, self.windows])

    @property
    def fit_of(self) -> str:
        """Identity of a fit: its method, options and rows."""
        rows = [self.refits.last, self.refits.reservoir]
        return digest([self.rows_of, self.c, self.method, dict(self.options), rows])


_TOP: dict[str, toml_file.Check] = {
    **dict.fromkeys(("archive", "folder", "component"), text),
    "missing_chunks": _absent,
    "memory_limit": _size,
    "threads": integer(1),
    "keep": integer(1),
    "report": _place,
    "after": _command,
}
_WINDOWS: dict[str, toml_file.Check] = {
    **dict.fromkeys(("length", "step"), _length),
    **dict.fromkeys(("features", "channels"), texts),
    "rate": positive,
    "times": text,
}
_FIT: dict[str, toml_file.Check] = {"c": _clusters, "method": text}
_REFIT: dict[str, toml_file.Check] = {
    "every": integer(1),
    "drift": switch,
    "growth": positive,
    **dict.fromkeys(("last", "reservoir"), integer(2)),
}


def _elsewhere(name: str, known: Collection[str]) -> str:
    """What to write instead of a key that a table lacks, if it is one elsewhere in the file, or a name in Python."""
    key = KEYS.get(name, name).rpartition(".")[2]
    tables = {
        "above the first table": _TOP,
        "under [windows]": _WINDOWS,
        "under [refit]": _REFIT,
        "under [fit]": {*_FIT, *registry.options(registry.DEFAULT)},
    }
    place = next((place for place, keys in tables.items() if key in keys), "")
    return f"write {key} {place}" if place and name not in known else ""


def _refits(file: TOMLFile) -> Refits:
    found = Refits(**file.values("refit", _REFIT))
    if found.last and found.reservoir:
        raise file.refuse(("refit", "reservoir"), "got it beside refit.last; leave one of them out")
    return found


def _beside(base: str, location: str) -> str:
    """A path relative to the job file's folder; URLs are not changed."""
    return location if "://" in location else os.path.join(base, os.path.expanduser(location))


def _check_windows(file: TOMLFile, windows: Mapping[str, Any]) -> None:
    """Check what windows say by themselves; without a rate, durations in samples are known from the recordings."""
    from bigsmic.features import definition as defining

    rate, channels, samples = windows.get("rate"), windows.get("channels", ()), {}
    with file.blaming("windows", tuple(windows)):
        for name in ("length", "step"):
            value = windows.get(name, 1)
            if isinstance(value, str) and rate is None and "times" in windows:
                defining.seconds_in(name, value)
            else:
                samples[name] = defining.samples_in(name, value, rate)
        features = defining.as_features(windows.get("features", defining.DEFAULT))
        names = defining.channel_names(channels, len(channels))
        length = samples.get("length", max(defining.LEAST.values()))
        defining.Definition(length, samples.get("step", 1), features, names, rate)
