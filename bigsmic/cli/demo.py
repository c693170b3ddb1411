"""The data of ``bigsmic demo``: an archive of simulated spikes, and a comparison of clusters with the true units."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bigsmic.datasets import CHUNK_ROWS, BlockSimulator
from bigsmic.errors import InputError
from bigsmic.numerics.labeling.metrics import adjusted_rand_index, contingency
from bigsmic.store import absolute, create_arrays, is_local, open_array, shown
from bigsmic.types import Integers, StrPath

BLOCK_ROWS = 8 * CHUNK_ROWS


def write_archive(
    folder: StrPath, simulator: BlockSimulator, progress: Callable[[str, int, int], Any] | None = None
) -> str:
    """Write rows ``X`` and their true units ``labels`` to ``archive.zarr``, block by block, unless that is done.

    Parameters
    ----------
    folder : str or Path
        Created if absent. Its file ``demo.json`` records the parameters of the archive.
    simulator : BlockSimulator
    progress : callable, optional
        ``progress(stage, done, total)``.

    Returns
    -------
    location : str
        Path of the archive.

    Raises
    ------
    InputError
        The folder belongs to another demo, or to none, or is a URL.
    """
    folder = folder if is_local(str(folder)) else absolute(folder)
    if not is_local(str(folder)):
        raise InputError(f"demo: {shown(folder)} is a URL, and demos are kept in local folders; give a path as --out")
    location, note = Path(folder) / "archive.zarr", Path(folder) / "demo.json"
    written = _written(location, note, repr(simulator))
    if not written:
        _make_folder(folder)
        note.write_text(json.dumps({"made_of": repr(simulator), "complete": False}))
        _write(location, simulator, progress)
        note.write_text(json.dumps({"made_of": repr(simulator), "complete": True}))
    return str(location)


def _written(location: Path, note: Path, made_of: str) -> bool:
    """Whether the archive is there, made of this and complete; InputError if another one is."""
    if not note.exists():
        if location.exists():
            raise InputError(f"demo: {location} is not a demo's archive; give another --out")
        return False
    there = _note(note)
    if there["made_of"] != made_of:
        raise InputError(
            f"demo: {location} was made with {there['made_of']}, and {made_of} was asked for; give another --out"
        )
    return there["complete"] and location.exists()


def _note(path: Path) -> dict[str, Any]:
    try:
        note = json.loads(path.read_text())
        return {name: note[name] for name in ("made_of", "complete")}
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"demo: {path} is not a demo's file, and is not overwritten; give another --out") from None


def _make_folder(folder: StrPath) -> None:
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"demo: {folder} cannot be a folder ({error.strerror}); give another --out") from None


def _write(location: Path, simulator: BlockSimulator, progress: Callable[[str, int, int], Any] | None) -> None:
    n, d = simulator.shape
    arrays = create_arrays(location, {"X": ((n, d), np.float32), "labels": ((n,), np.int32)}, CHUNK_ROWS)
    starts = range(0, n, BLOCK_ROWS)
    for done, lo in enumerate(starts):
        if progress is not None:
            progress("simulate", done, len(starts))
        hi = min(lo + BLOCK_ROWS, n)
        arrays["X"][lo:hi], arrays["labels"][lo:hi] = simulator.block(lo, hi)


def compare(location: str, result: Any) -> dict[str, Any]:
    """Compare the clusters of a fit with the true units of the spikes.

    Parameters
    ----------
    location : str
        The archive.
    result : Result

    Returns
    -------
    comparison : dict
        ``ari``, the adjusted Rand index; ``clusters``, the largest first: ``cluster``, ``spikes``, the ``unit`` to
        which most of them belong, and their share of the cluster (``purity``) and of the unit (``completeness``);
        ``missed_units``, the units that no cluster is matched to.
    """
    units, c = np.asarray(open_array(location, "labels")[:]), result.n_clusters
    labels = np.where(result.labels < 0, c, result.labels)  # rows in no cluster are counted in the last column
    counts = contingency(units, labels, int(units.max()) + 1, c + 1)
    order = np.argsort(-counts[:, :c].sum(axis=0), kind="stable")
    clusters = [_cluster(counts, int(k)) for k in order if counts[:, k].any()]
    present = np.flatnonzero(counts.any(axis=1)).tolist()
    missed = sorted(set(present) - {cluster["unit"] for cluster in clusters})
    return {"ari": adjusted_rand_index(counts), "clusters": clusters, "missed_units": missed}


def _cluster(counts: Integers, k: int) -> dict[str, Any]:
    unit = int(counts[:, k].argmax())
    size, common = int(counts[:, k].sum()), int(counts[unit, k])
    shares = {"purity": common / size, "completeness": common / int(counts[unit].sum())}
    return {"cluster": k, "spikes": size, "unit": unit} | shares
