"""Identity of processes across machines, and whether one is still running."""

import contextlib
import hashlib
import json
import os
import socket
from functools import cache
from pathlib import Path
from typing import Any


@cache
def machine() -> dict[str, str]:
    """Scope in which process numbers are unique, as a dict: host, start of its kernel, and process name space."""
    found = {"host": socket.gethostname()}
    with contextlib.suppress(OSError):
        found["boot"] = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        found["pids"] = os.readlink("/proc/self/ns/pid")
    return found


def started(pid: int) -> Any:
    """Start of a process in seconds; None if it has ended, even if its parent has not waited for it yet.

    On Linux it counts from the start of the kernel, so that setting the clock does not change it.
    """
    try:
        state, *fields = Path(f"/proc/{int(pid)}/stat").read_text().rpartition(")")[2].split()
        return None if state in "ZX" else int(fields[18]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, TypeError, IndexError):
        return None if Path("/proc/self/stat").exists() else _started_elsewhere(pid)


def _started_elsewhere(pid: Any) -> Any:
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except (psutil.Error, ValueError, TypeError):
        return None


def is_same(first: float, second: int) -> bool:
    """Whether two starts are of one process, with a tolerance for clocks that are corrected."""
    return first is not None and abs(first - second) < 5


def name() -> str:
    """Return a unique name of this process: digest of its machine, number and start."""
    return f"{_digest()}-{os.getpid()}-{int(started(os.getpid()) or 0)}"


def is_gone(name: str) -> bool:
    """Whether the process of a name ran on this machine and has ended; False where this machine cannot know."""
    digest, pid, start = name.split("-")
    return digest == _digest() and not is_same(started(int(pid)), int(start))


def _digest() -> str:
    return hashlib.sha256(json.dumps(machine(), sort_keys=True).encode()).hexdigest()[:12]
