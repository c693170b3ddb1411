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
    """Scope of process numbers: host, start of its kernel, and process name space; a dict."""
    found = {"host": socket.gethostname()}
    with contextlib.suppress(OSError):
        found["boot"] = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        found["pids"] = os.readlink("/proc/self/ns/pid")
    return found


def started(pid: int) -> Any:
    """When a process was started, in seconds; None if it is gone, or dead and not yet waited for.

    On Linux counted from the start of the kernel: that does not change where somebody sets the clock.
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
    """Whether two starts are of one process; clocks that count them may be set right now and then."""
    return first is not None and abs(first - second) < 5


def name() -> str:
    """Return a name of this process that no other one has: digest of its machine, number and start."""
    return f"{_digest()}-{os.getpid()}-{int(started(os.getpid()) or 0)}"


def is_gone(name: str) -> bool:
    """Whether the process of a name was one of this machine, and is no more; False of what nobody here can know."""
    digest, pid, start = name.split("-")
    return digest == _digest() and not is_same(started(int(pid)), int(start))


def _digest() -> str:
    return hashlib.sha256(json.dumps(machine(), sort_keys=True).encode()).hexdigest()[:12]
