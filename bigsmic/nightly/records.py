"""The table of all nights."""

from typing import TYPE_CHECKING

from bigsmic.errors import InputError
from bigsmic.nightly.journal import FILE
from bigsmic.store import Table
from bigsmic.types import StrPath

if TYPE_CHECKING:
    import pandas as pd

NAME = "history.zarr"
REASONS = ("", "first", "job", "drift", "growth", "every")
"""Reasons for a refit by number: none; no fit yet; another job; rules of the job file."""
COLUMNS = {
    "night": "i8",
    "begun": "f8",
    "ended": "f8",
    "rows": "i8",
    "new_rows": "i8",
    "novel_rows": "i8",
    "drift": "i1",
    "drift_p": "f8",
    "refit": "i1",
    "run": "i8",
    "clusters": "i8",
    "continued": "i8",
    "new_clusters": "i8",
    "vanished": "i8",
}


def table(folder: str) -> Table:
    """The table in a job's folder."""
    return Table(f"{folder}/{NAME}", COLUMNS, {"refit": list(REASONS), "times": "seconds since 1970-01-01"})


def history(folder: StrPath) -> "pd.DataFrame":
    """All nights of a job: a pandas DataFrame with one row for each, indexed by the night.

    Parameters
    ----------
    folder : str or Path
        Folder of the job.

    Returns
    -------
    nights : pandas.DataFrame
        Columns ``begun`` and ``ended``, times in UTC; ``rows`` of the archive; ``new_rows`` and ``novel_rows`` among
        them, -1 if no run could label them; ``drift``, 1 or 0, and ``drift_p``, the least p-value of its tests, -1 and
        nan if it was not tested; ``refit``, its reason (``first``, ``job``, ``drift``, ``growth`` or ``every``), empty
        for none; ``run``, the night whose run ``latest`` pointed at afterwards, 0 for none; ``clusters`` of that run;
        and after a refit ``continued``, ``new_clusters`` and ``vanished``, the numbers of such clusters, -1 if there
        was no earlier run to compare with.

    Raises
    ------
    InputError
        It is not the folder of a job.
    """
    import os

    import pandas as pd

    if not any(os.path.lexists(os.path.join(folder, name)) for name in (NAME, FILE)):
        what = "is not that of a job" if os.path.isdir(folder) else "does not exist"
        raise InputError(f"history: the folder {os.fspath(folder)} {what}; give what job.toml names as folder")
    found = pd.DataFrame(table(os.fspath(folder)).read())
    for name in ("begun", "ended"):
        found[name] = pd.to_datetime(found[name], unit="s", utc=True)
    found["refit"] = [REASONS[number] for number in found["refit"]]
    return found[found["night"] > 0].set_index("night")  # rows of earlier nights are empty, if their table is gone
