"""State that a call leaves for the next one: the end of the last night, and the progress of an unfinished one."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, get_origin

from bigsmic.errors import BigsmicError, RunError
from bigsmic.store import WorkFolder

FILE = "journal.json"
FORMAT = 1


@dataclass(frozen=True)
class Ended:
    """State after the last finished night.

    Parameters
    ----------
    nights : int
        Number of finished nights.
    rows : int
        Number of rows that the archive had in the last one.
    rows_of, fit_of : str
        Those of the :class:`bigsmic.nightly.job.Job` in that night.
    run : int
        Night whose run `latest` names; 0 for none.
    run_rows_of : str
        The `rows_of` with which that run was fitted. It is another one if the last fit, of a new archive, had no
        labels, so that `latest` still names a run of the archive before.
    fitted_night, fitted_rows : int
        Night of the last fit, and number of rows that the archive had then.
    report, report_shows : str
        Place of the last report, and identity of what it shows.
    """

    nights: int = 0
    rows: int = 0
    rows_of: str = ""
    fit_of: str = ""
    run: int = 0
    run_rows_of: str = ""
    fitted_night: int = 0
    fitted_rows: int = 0
    report: str = ""
    report_shows: str = ""


@dataclass
class Begun:
    """An unfinished night, or a finished one of which a report or command has failed.

    Parameters
    ----------
    number : int
    begun : float
        Time at which it began, in seconds since 1970.
    rows : int
        Number of rows that the archive had then; rows that come later are left to the next night.
    rows_of, fit_of : str
        Those of the :class:`bigsmic.nightly.job.Job`.
    steps : dict of str to dict
        Steps that are done, and what they noted.
    failed : dict of str to str
        Steps that have failed without holding back the night, and why.
    """

    number: int
    begun: float
    rows: int
    rows_of: str
    fit_of: str
    steps: dict[str, dict[str, Any]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


class Journal:
    """The journal of a job's folder; every change is on disk before the next step.

    Parameters
    ----------
    folder : WorkFolder

    Raises
    ------
    RunError
        It is damaged, or of another version.
    """

    def __init__(self, folder: WorkFolder) -> None:
        self.folder = folder
        self.cause: Exception | None = None  # of a failure in this call, for its traceback
        stored = folder.read_json(FILE) or {"format": FORMAT, "ended": {}, "begun": None}
        try:
            if stored["format"] != FORMAT:
                raise ValueError(f"it is of format {stored['format']}, this version of bigsmic reads {FORMAT}")
            self.ended = _made(Ended, stored["ended"])
            self.begun = None if stored["begun"] is None else _made(Begun, stored["begun"])
        except (KeyError, TypeError, ValueError) as error:
            raise RunError(
                f"folder: {folder.at(FILE)} cannot be read ({error}); move it away, and the next call begins with a fit"
            ) from None

    def begin(self, night: Begun) -> None:
        """Record the start of a night."""
        self.begun = night
        self._write()

    def note(self, step: str, facts: Mapping[str, Any]) -> None:
        """Record a finished step of the night."""
        assert self.begun is not None
        self.begun.steps[step] = dict(facts)
        self.begun.failed.pop(step, None)
        self._write()

    def fail(self, step: str, error: Exception) -> None:
        """Record a step that has failed without holding back the night."""
        assert self.begun is not None
        unexpected = not isinstance(error, BigsmicError)
        self.begun.failed[step] = f"{type(error).__name__}: {error}" if unexpected else str(error)
        self.cause = error
        self._write()

    def end(self, ended: Ended) -> None:
        """Record the end of the night; it is kept as long as something of it has failed."""
        self.ended = ended
        if self.begun is not None and not self.begun.failed:
            self.begun = None
        self._write()

    def discard(self) -> None:
        """Record that the night is to be started again."""
        self.begun = None
        self._write()

    @property
    def is_unfinished(self) -> bool:
        """Whether a night has begun and not ended."""
        return self.begun is not None and self.begun.number > self.ended.nights

    @property
    def latest(self) -> tuple[int, str]:
        """Night whose run `latest` names, 0 for none, and the identity of its rows.

        An unfinished night may have pointed `latest` at a run of its own, and deleted the one before.
        """
        begun, ended = self.begun, self.ended
        if begun is None:
            return ended.run, ended.run_rows_of
        run = begun.steps.get("point", {}).get("run", ended.run)
        return run, begun.rows_of if run == begun.number else ended.run_rows_of

    def _write(self) -> None:
        begun = None if self.begun is None else asdict(self.begun)
        self.folder.write_json(FILE, {"format": FORMAT, "ended": asdict(self.ended), "begun": begun})


def _made(kind: type[Any], stored: Mapping[str, Any]) -> Any:
    """A dataclass of stored values; TypeError or ValueError if some are of other types, or lacking."""
    given = {known.name: stored[known.name] for known in fields(kind) if known.name in stored}
    types: dict[str, Any] = {known.name: get_origin(known.type) or known.type for known in fields(kind)}
    wrong = [name for name, value in given.items() if not isinstance(value, types[name])]
    if wrong:
        raise ValueError(f"{wrong[0]} is {given[wrong[0]]!r}")
    return kind(**given)
