"""Temporary folders named after their process, so that those of killed processes can be deleted.

``bigsmic-<machine>-<process>-<start>-<random>`` in the directory for temporary files. The name alone tells the owner,
also of a folder that is half deleted.
"""

import logging
import os
import re
import stat
import tempfile
import time
import weakref
from typing import Any

from bigsmic.store import processes
from bigsmic.store.objects import remove_tree

log = logging.getLogger("bigsmic")

_NAME = re.compile(r"bigsmic-(?:[a-z]+-)?([0-9a-f]{12}-[0-9]+-[0-9]+)-[A-Za-z0-9_]+\Z")
_BREAK = 100
"""Time until the next listing of the directory for temporary files, which may be large, in durations of the last."""
_next_look: dict[str, float] = {}


def temporary_folder(kind: str = "") -> str:
    """Make a temporary folder, and delete those of processes that are gone.

    Parameters
    ----------
    kind : str
        A word for its name; lower-case letters.

    Returns
    -------
    path : str
        The caller deletes it.
    """
    _collect_now_and_then(tempfile.gettempdir())
    return tempfile.mkdtemp(prefix=f"bigsmic-{kind}{kind and '-'}{processes.name()}-")


def temporary_run() -> str:
    """Return the path of a new temporary run directory; the caller deletes it."""
    return temporary_folder()


def delete_with(owner: Any, path: Any) -> None:
    """Delete a folder once nothing in this process refers to `owner`; a forked child does not delete it."""
    weakref.finalize(owner, _delete_own, path, os.getpid())


def _delete_own(path: str, pid: int) -> None:
    if os.getpid() == pid:
        remove_tree(path)


def _collect_now_and_then(folder: str) -> None:
    begun = time.monotonic()
    if begun >= _next_look.get(folder, 0.0):
        collect(folder)
        now = time.monotonic()
        _next_look[folder] = now + _BREAK * (now - begun)


def collect(folder: str) -> None:
    """Delete the temporary folders of processes of this user on this machine that have ended.

    Those of another host, container, or start of the kernel are left, as it cannot be known here whether their
    processes live.

    Parameters
    ----------
    folder : str
        The directory for temporary files.
    """
    try:
        with os.scandir(folder) as entries:
            found = [entry.path for entry in entries if _is_left(entry)]
    except OSError:
        return
    for path in found:
        log.info("run: deleting %s, as the process that made it has ended", path)
        remove_tree(path)


def _is_left(entry: Any) -> bool:
    match = _NAME.match(entry.name)
    return match is not None and processes.is_gone(match[1]) and _is_own(entry)


def _is_own(entry: Any) -> bool:
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:  # another process deletes it too
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
