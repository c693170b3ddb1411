"""Options of the command line, and the conversion of their values.

Options of methods are generated from their settings in :mod:`bigsmic.cli.method_options`. This module imports nothing
heavy, so that ``--help`` is quick.
"""

import json
import os
import re
from collections.abc import Iterable
from typing import Any, Literal

import typer

from bigsmic import registry
from bigsmic.cli.flags import Flag
from bigsmic.cli.method_options import method_panels
from bigsmic.spelling import respelled
from bigsmic.validation import CLUSTERS


def _at_least_one(number: int) -> int:
    if number < 1:
        raise ValueError(f"got {number}; use at least 1, or leave it out for all processors")
    return number


def number_of_clusters(text: str) -> int:
    """The number of clusters of a fit; other words, and ranges, are refused with what does the same."""
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(
            f"got {text!r}; use a whole number, or leave it out, with which the number is found. A range is for "
            "Python: bigsmic.fit(archive, (5, 10))."
        ) from None


def parted(text: str) -> tuple[str, ...]:
    """Split names at commas: a tuple of str."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _slice(text: str) -> slice:
    """``first:last`` as a slice; either may be left out."""
    try:
        first, last = (int(bound) if bound.strip() else None for bound in text.split(":"))
    except ValueError:
        raise ValueError(f"got {text!r}; use first:last, such as 1000: or -5000: or 0:2000") from None
    return slice(first, last)


def _named_values(texts: Iterable[str]) -> dict[str, Any]:
    """``key=value`` with a value that may be JSON: file systems want booleans, numbers and dicts too."""
    named = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:  # the text is not shown, as it may be a secret
            raise ValueError("got one that is not of the form key=value")
        try:
            named[key] = json.loads(value)
        except json.JSONDecodeError:
            named[key] = value
    return named


STORAGE_OPTIONS = "BIGSMIC_STORAGE_OPTIONS"
"""Environment variable with a JSON object of storage options, as all users of a machine see its command lines."""


def storage_options(file: str | None, named: dict[str, Any]) -> dict[str, Any]:
    """Storage options from the environment, a file, and the command line; the later ones take precedence.

    Parameters
    ----------
    file : str or None
        Path of a JSON object.
    named : dict

    Returns
    -------
    options : dict

    Raises
    ------
    ValueError
        One of them is not a JSON object. The message does not show its content.
    """
    of_file = _json_object(_text_of(file), file) if file is not None else {}
    return _json_object(os.environ.get(STORAGE_OPTIONS) or "{}", STORAGE_OPTIONS) | of_file | named


def _text_of(file: str) -> str:
    try:
        with open(file, encoding="utf-8") as opened:
            return opened.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} cannot be read ({getattr(error, 'strerror', None) or 'no text'})") from None


def _json_object(text: str, where: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{where} is not JSON ({error.msg} in line {error.lineno})") from None
    if not isinstance(found, dict):
        raise ValueError(f'{where} is JSON, but not an object; write it as {{"key": "value"}}')
    return found


STORAGE = (
    Flag("storage_options", list[str], "key=value for the file system of a URL; may be repeated; other users see it "
                                       "in ps.",
         _named_values, "--storage-option"),
    Flag("storage_options_file", str, f"JSON file with storage options; or set {STORAGE_OPTIONS} to its contents."),
)  # fmt: skip
READING = (Flag("component", str, "Array within a Zarr group; or columns of a table, separated by commas."), *STORAGE)
WHOLE = (
    *READING,
    Flag("missing_chunks", Literal["error", "fill"], "An absent chunk is an error, or is read as fill values."),
)
ROWS = (*WHOLE, Flag("rows", str, "Rows first:last, such as 1000:, -5000: or 0:2000; all by default.", _slice))
RESOURCES = (
    Flag(
        "memory_limit", str, "Memory that the process may use, such as 1GiB; three quarters of the machine by default."
    ),
    Flag("n_threads", int, "Concurrent tasks; as many as processors by default.", _at_least_one, "--threads"),
    Flag("scheduler", str, "Address of a Dask scheduler, such as tcp://host:8786; by default threads of this process."),
    Flag("performance_report", str, "HTML file for Dask's performance report."),
)
BLOCKWISE = (Flag("n_threads", int, "Tasks at once; 1 by default.", _at_least_one, "--threads"), *RESOURCES[2:])
"""Of commands that go through the rows once, with the run that is there."""
UNREPORTED = tuple(flag for flag in BLOCKWISE if flag.name != "performance_report")
"""Of those of them that Dask writes no report of."""
METHOD = Flag(
    "method",
    str,
    f"One of {', '.join(registry.names())}, of which the first is the default.",
    complete=registry.names,
)
LIKE = Flag("like", str, "Finished run whose clusters keep their numbers and names.")
FIT = {"Rows": ROWS, **method_panels(METHOD, LIKE), "Resources": RESOURCES}
"""Options of a fit by panel of the help."""


def _whole(number: float) -> float:
    """A number such as 1e9 as an integer, if it is one; others are refused later."""
    return int(number) if number.is_integer() else number


IMAGINED = (
    Flag("n_rows", float, "Plan for as many rows like those, such as 1e9.", _whole),
    Flag("n_workers", int, "Plan for as many workers, each of these threads and this limit.", option="--workers"),
    Flag("workers_per_machine", int, "Workers that share a machine and its memory bandwidth; 1 unless given."),
    Flag("calibrate", bool, "Measure for a second how fast this machine is, for the time."),
)
"""Options of a plan."""


ARGUMENTS = (
    *(Flag(name, int, "", option="--clusters") for name in ("c", "n_clusters", CLUSTERS)),
    *(Flag(name, str, "") for name in ("out", "length", "step")),
    Flag("overwrite", bool, ""),
)
"""Options that commands declare themselves, in addition to those of panels."""


def as_typed(message: str, flags: Iterable[Flag], leads: bool = True) -> str:
    """Return a message with options spelled as on the command line, not as in Python.

    Parameters
    ----------
    message : str
    flags : sequence of Flag
        Options of the command.
    leads : bool
        Whether a name at the beginning of the message is that of an option.

    Returns
    -------
    message : str

    >>> as_typed("input: a group; name one with component=", FIT["Rows"])
    'input: a group; name one with --component'
    >>> as_typed("n_threads: got 0; try n_threads=1, or set memory_limit", FIT["Resources"])
    '--threads: got 0; try --threads 1, or set --memory-limit'
    >>> as_typed("rows: got 5; give a range such as rows=slice(1000, None)", ROWS)
    '--rows: got 5; give a range such as --rows 1000:'
    >>> as_typed("predict: not overwritten, unless overwrite=True allows it", ROWS)
    'predict: not overwritten, unless --overwrite allows it'
    """
    known = (*flags, *ARGUMENTS)
    message = respelled(message, {flag.name: flag.spelling for flag in known}, leads)
    for flag in known:
        if flag.kind is bool:  # a switch, typed without a value
            message = message.replace(f"{flag.spelling} True", flag.spelling)
    return _SLICE.sub(lambda found: ":".join(end.replace("None", "") for end in found.groups()), message)


_SLICE = re.compile(r"\bslice\((-?\d+|None), (-?\d+|None)\)")
