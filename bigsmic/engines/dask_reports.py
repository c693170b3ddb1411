"""Files of Dask's performance reports, which only another report may overwrite."""

from pathlib import Path

from bigsmic.errors import InputError

REPORT_HEAD = 1 << 16  # first bytes of a report; the title is among them


def refuse_others(path: Path) -> None:
    """Refuse a path of an existing file that is not a report; earlier reports are overwritten."""
    if path.exists() and not (path.is_file() and b"Dask Performance Report" in _head(path)):
        raise InputError(f"performance_report: {path} exists and is not a report of Dask; give another path")


def _head(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(REPORT_HEAD)
