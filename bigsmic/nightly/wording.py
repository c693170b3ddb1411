"""Messages in terms of the job file: options of fits and windows are named by its keys.

This module imports nothing heavy, because ``--help`` reads it.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from bigsmic.errors import BigsmicError
from bigsmic.spelling import respelled
from bigsmic.validation import CLUSTERS

KEYS = {
    "out": "folder",
    "component": "component",
    "missing_chunks": "missing_chunks",
    "memory_limit": "memory_limit",
    "n_threads": "threads",
    **{name: f"windows.{name}" for name in ("length", "step", "features", "rate", "times", "channels")},
    **dict.fromkeys(("c", "n_clusters", CLUSTERS), "fit.c"),
    "method": "fit.method",
}
"""Keys of the job file by the names that messages have for them. Options of methods are keys themselves."""


def by_keys(message: str, leads: bool = True, names: Mapping[str, str] = KEYS) -> str:
    """The message, with the keys of the job file.

    >>> by_keys("length: got '10s' without a rate; give rate= or times=, or a number of samples")
    "windows.length: got '10s' without a rate; give windows.rate or windows.times, or a number of samples"
    """
    return _NAMED.sub(r"\1", respelled(message, names, leads, equals=" = "))


_NAMED = re.compile(r"(?<![\w.'/-])([a-z]\w*)=(?![=\w'\"\[.-])")
"""Name of an option of a method, as messages have it without a value."""


@contextmanager
def told_by_keys(names: Mapping[str, str] = KEYS) -> Iterator[None]:
    """Errors of the ``with`` block have the keys of the job file in their messages."""
    try:
        yield
    except BigsmicError as error:
        error.args = (by_keys(str(error), names=names), *error.args[1:])
        raise
