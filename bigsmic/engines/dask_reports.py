"""Files of Dask's performance reports: what may be written over by another one."""

from pathlib import Path

from bigsmic.errors import InputError

REPORT_HEAD = 1 << 16  # first bytes of a report; the title is among them


def refuse_others(path: Path) -> None:
    """Refuse a path where something other than a report is; a report of an earlier call is written over."""
    if path.exists() and not (path.is_file() and b"Dask Performance Report" in _head(path)):
        raise InputError(f"performance_report: {path} is there, and no report of Dask's; give another path")


def _head(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(REPORT_HEAD)
