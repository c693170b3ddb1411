"""Measures a function in a process of its own: CPU seconds, wall seconds, peak memory, and what it returns.

::

    m = measure("peers_table:run", {"peer": "k-means", "data": "usps"}, threads=1)
    m.result["ari"], m.cpu_s, m.peak_mb

The function is named as ``module:function``, takes the keywords given and returns a dict that JSON can hold. Its
process is fresh, so what it reports includes imports and just-in-time compilation; ``call_cpu_s`` leaves out the
interpreter's start and the import of the module, not what the function imports.
"""

import importlib
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
THREAD_VARIABLES = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
PACKAGES = (
    "bigsmic",
    "numpy",
    "scipy",
    "numba",
    "scikit-learn",
    "pynndescent",
    "umap-learn",
    "hdbscan",
    "leidenalg",
    "igraph",
    "isosplit6",
    "zarr",
    "dask",
    "distributed",
)


@dataclass(frozen=True)
class Measurement:
    """What one run took.

    Parameters
    ----------
    cpu_s, wall_s : float
        User and system seconds of the process and of the children it waited for; seconds on the clock.
    call_cpu_s, call_wall_s : float
        The same from the call of the function to its return.
    peak_mb, children_peak_mb : float
        Largest resident set of the process, and of the largest of its children; 0 without children.
    result : dict
        What the function returned; empty if it failed.
    error : str or None
        Last lines of its standard error if it failed, or that it ran out of time.
    """

    cpu_s: float | None = None
    wall_s: float | None = None
    call_cpu_s: float | None = None
    call_wall_s: float | None = None
    peak_mb: float | None = None
    children_peak_mb: float | None = None
    result: dict | None = None
    error: str | None = None


class Stopwatch:
    """CPU and wall seconds of a ``with`` block, for what is to be timed after a warm-up in the same process."""

    def __enter__(self):
        self._cpu, self._wall = _cpu_seconds(), time.perf_counter()
        return self

    def __exit__(self, *exc):
        self.cpu_s = _cpu_seconds() - self._cpu
        self.wall_s = time.perf_counter() - self._wall


def measure(function, arguments=None, *, threads=1, timeout=None):
    """Run ``module:function`` with keywords in a fresh interpreter with `threads` threads everywhere.

    Modules are found as scripts in this folder find them. A failure is a measurement with an `error`.
    """
    with tempfile.TemporaryDirectory() as scratch:
        answer = Path(scratch) / "answer.json"
        command = [sys.executable, str(HERE / "_harness.py"), function, json.dumps(arguments or {}), str(answer)]
        started = time.perf_counter()
        try:
            done = subprocess.run(
                command, env=_environment(threads), stderr=subprocess.PIPE, text=True, timeout=timeout, check=False
            )
        except subprocess.TimeoutExpired:
            return Measurement(result={}, error=f"not done after {timeout} s")
        wall = time.perf_counter() - started
        if done.returncode:
            return Measurement(wall_s=wall, result={}, error=done.stderr[-2000:] or f"exit code {done.returncode}")
        return Measurement(wall_s=wall, **json.loads(answer.read_text()))


def table(rows, columns, title=""):
    """Print rows side by side.

    Parameters
    ----------
    rows : dict of str to dict
        Cells by row name and column; missing ones are shown as "-".
    columns : sequence of str
        Order of the columns.
    """
    lines = [[title, *columns], *([name, *(_cell(cells.get(c)) for c in columns)] for name, cells in rows.items())]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for i, (name, *cells) in enumerate(lines):
        print("  ".join([name.ljust(widths[0]), *(c.rjust(w) for c, w in zip(cells, widths[1:], strict=True))]))
        if i == 0:
            print("-" * (sum(widths) + 2 * len(columns)))


def save(name, measurements, **settings):
    """Write measurements and where they were made to ``results/<name>.json``; returns the path.

    Parameters
    ----------
    measurements : dict of str to Measurement or dict
    **settings
        Anything else worth keeping, as JSON.
    """
    content = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": versions(),
        "settings": settings,
        "measurements": {key: m if isinstance(m, dict) else asdict(m) for key, m in measurements.items()},
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    part = path.with_suffix(".tmp")
    part.write_text(json.dumps(content, indent=1, default=_plain) + "\n")
    part.replace(path)
    return path


def known(name):
    """Measurements that ``results/<name>.json`` has; none if it is not there."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text())["measurements"] if path.exists() else {}


def machine():
    """Processor, cores, memory, system."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def versions():
    """Versions of the packages that matter, of those that are installed."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _environment(threads):
    paths = [str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        **dict.fromkeys(THREAD_VARIABLES, str(threads)),
        "PYTHONPATH": os.pathsep.join(p for p in paths if p),
    }


def _child(function, arguments, answer):
    """What runs in the fresh process."""
    module, name = function.split(":")
    call = getattr(importlib.import_module(module), name)
    with Stopwatch() as watch:
        result = call(**json.loads(arguments))
    figures = {
        "call_cpu_s": watch.cpu_s,
        "call_wall_s": watch.wall_s,
        "cpu_s": _cpu_seconds(),
        "peak_mb": _peak_mb(),
        "children_peak_mb": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
        "result": result or {},
    }
    Path(answer).write_text(json.dumps(figures, default=_plain))


def _cpu_seconds():
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _peak_mb():
    """Largest resident set; Linux keeps the parent's in ``ru_maxrss`` across exec, not in VmHWM."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def _processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _plain(value):
    """Numpy scalars and arrays as JSON."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _cell(value):
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    _child(*sys.argv[1:])
