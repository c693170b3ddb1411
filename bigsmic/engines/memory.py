"""What this process uses, as the operating system counts it."""

import contextlib
import ctypes
import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def peak_memory() -> int:
    """Largest resident set since the start, in bytes; mapped pages included."""
    try:
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def machine_memory() -> int:
    """Memory of the machine, or of the control group that confines the process, in bytes."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([whole, *_group_limits(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))])


def address_room() -> int | None:
    """Bytes of memory that a limit of addresses (``ulimit -v``) leaves the process; None where there is none.

    Addresses run out before memory does: libraries and stacks of threads take half a gibibyte that no page stands for.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    try:
        taken, resident = (int(pages) for pages in Path("/proc/self/statm").read_text().split()[:2])
    except OSError:
        return limit
    return max(1, limit - (taken - resident) * os.sysconf("SC_PAGE_SIZE") - ADDRESSES_TO_COME)


ADDRESSES_TO_COME = 192 << 20  # libraries that are loaded and threads that are begun during a fit


def _group_limits(membership: Path, root: Path) -> Iterator[int]:
    """Limits of the control groups that the process is in, and of those above them; version 2, then 1."""
    try:
        groups = {line.strip().split(":", 2)[2].lstrip("/") for line in membership.read_text().splitlines()}
    except (OSError, IndexError):
        return
    for group in groups:
        for base, name in ((root, "memory.max"), (root / "memory", "memory.limit_in_bytes")):
            for folder in [base / group, *(base / group).parents]:
                if folder == base.parent:
                    break
                with contextlib.suppress(OSError, ValueError):  # not there, or "max"
                    yield int((folder / name).read_text())


def lies_in_memory(path: Any) -> bool:
    """Whether a path is on a file system that is kept in memory."""
    try:
        with open("/proc/mounts") as mounts:
            points = [line.split()[1:3] for line in mounts]
    except OSError:
        return False
    path = os.path.realpath(path)
    above = [(len(point), kind) for point, kind in points if path == point or path.startswith(point.rstrip("/") + "/")]
    return max(above, default=(0, ""))[1] in ("tmpfs", "ramfs")


def release_memory() -> None:
    """Give freed memory back to the system, which glibc's allocator otherwise keeps for later: megabytes per thread."""
    with contextlib.suppress(AttributeError, OSError):  # another C library has no such function
        ctypes.CDLL(None).malloc_trim(0)


KEPT_BYTES = 32 << 20  # arrays up to this size come from memory that is kept between them


def keep_memory() -> None:
    """Have glibc's allocator keep freed memory until `release_memory`, as it does by itself in a plain process.

    Nannies of Dask start workers with a threshold (``MALLOC_TRIM_THRESHOLD_``) that gives every temporary array back to
    the system at once; the pages that the next one then needs are most of the time that it takes.
    """
    trim_threshold, mmap_threshold = -1, -3
    with contextlib.suppress(AttributeError, OSError):
        libc = ctypes.CDLL(None)
        libc.mallopt(mmap_threshold, KEPT_BYTES)
        libc.mallopt(trim_threshold, 2 * KEPT_BYTES)


def share_arena() -> None:
    """Have glibc's allocator serve all threads from one arena, those apart that have one already.

    `release_memory` gives back the end of the main arena only: with an arena per thread, each keeps up to 64 MiB there
    that nothing uses and no stage counts.
    """
    arena_max = -8
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(arena_max, 1)
