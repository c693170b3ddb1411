"""Memory of this process and limits on it, by the operating system's count."""

import contextlib
import ctypes
import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ADDRESSES_TO_COME = 192 << 20  # for libraries loaded and threads started during a fit
FREED_BYTES = 12 << 20
"""Freed memory that is kept: to return it and take it again costs a small fit a twentieth of its time."""
MOST_FREED_BYTES = 256 << 20
"""The same where the memory limit leaves room: the system clears every page that it hands out again."""
KEPT_BYTES = 32 << 20  # arrays up to this size reuse freed memory


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
    """Bytes of memory that a limit of addresses (``ulimit -v``) leaves to the process; None without such a limit.

    Addresses run out before memory does, as libraries and stacks of threads reserve half a gibibyte without pages.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    try:
        taken, resident = (int(pages) for pages in Path("/proc/self/statm").read_text().split()[:2])
    except OSError:
        return limit
    return max(1, limit - (taken - resident) * os.sysconf("SC_PAGE_SIZE") - ADDRESSES_TO_COME)


def _group_limits(membership: Path, root: Path) -> Iterator[int]:
    """Limits of the process's control groups and of their parents; version 2, then 1."""
    try:
        groups = {line.strip().split(":", 2)[2].lstrip("/") for line in membership.read_text().splitlines()}
    except (OSError, IndexError):
        return
    for group in groups:
        for base, name in ((root, "memory.max"), (root / "memory", "memory.limit_in_bytes")):
            for folder in [base / group, *(base / group).parents]:
                if folder == base.parent:
                    break
                with contextlib.suppress(OSError, ValueError):  # the file is missing, or says "max"
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


class _Allocated(ctypes.Structure):
    """What ``mallinfo2`` of glibc returns."""

    _fields_ = [(name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks")] + [
        (name, ctypes.c_size_t) for name in ("fsmblks", "uordblks", "fordblks", "keepcost")
    ]


def freed_bytes() -> int | None:
    """Bytes that were freed and that the allocator keeps, returned pages among them; None if it does not tell."""
    try:
        count = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError):  # glibc before 2.33, other C libraries
        return None
    count.restype = _Allocated
    return int(count().fordblks)


def release_memory(kept_bytes: int = FREED_BYTES) -> None:
    """Return freed memory to the system, if it is more than may be kept; glibc's allocator would keep all of it."""
    freed = freed_bytes()
    if freed is not None and freed < kept_bytes:
        return
    with contextlib.suppress(AttributeError, OSError):  # other C libraries lack this function
        ctypes.CDLL(None).malloc_trim(0)


def keep_memory() -> None:
    """Make glibc's allocator keep freed memory until `release_memory`, as is its default in a plain process.

    Dask's nannies start workers with a threshold (``MALLOC_TRIM_THRESHOLD_``) that returns every temporary array to the
    system at once; mapping the pages of the next array then takes most of its time.
    """
    trim_threshold, mmap_threshold = -1, -3
    with contextlib.suppress(AttributeError, OSError):
        libc = ctypes.CDLL(None)
        libc.mallopt(mmap_threshold, KEPT_BYTES)
        libc.mallopt(trim_threshold, 2 * KEPT_BYTES)


def share_arena() -> None:
    """Make glibc's allocator serve all threads from one arena, except threads that have one already.

    `release_memory` only returns the end of the main arena: with an arena per thread, each could keep up to 64 MiB that
    are unused and not part of the plan.
    """
    arena_max = -8
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(arena_max, 1)
