"""Runs of every method, on rows that a fit takes part of a second for, and what can befall a run directory."""

import json
import os
import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from small_fits import cut_small

import bigsmic
from bigsmic import store

FITS = {
    "smic": {"t": (3,), "widths": (1.5, 2), "n_centers": 20},
    "smic auto": {"t": (3,), "assignment": "auto", "n_centers": 20},
    "3smic": {"method": "3smic", "t": (3,), "must_links": [[0, 3], [140, 143]], "gamma": 1.0, "n_centers": 20},
    "kernel_rim": {"method": "kernel_rim", "n_components": 20, "n_init_categories": 5, "max_iter": 15},
    "mic": {"method": "mic", "t": (3, 5), "start_t": 4, "n_centers": 20},
    "mspc": {"method": "mspc"},
    "mwca": {"method": "mwca", "n_starts": 2},
    "mwca graph": {"method": "mwca", "kernel": "graph", "n_starts": 2, "t": 5},
    "rim": {"method": "rim", "n_init_categories": 5, "max_iter": 15},
    "rim batches": {"method": "rim", "solver": "minibatch", "n_init_categories": 5, "batch_size": 100, "n_epochs": 8},
}
"""Options of small fits: one of every method at least, and another where its stages are others."""


def rows(seed=0, n=420):
    """Rows in three clusters, in the order of the clusters."""
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(m, 1, (n // 3, 3)) for m in (0, 5, 10)]).astype(np.float32)


X, NEW = rows(), rows(7, 30)


class Finished(NamedTuple):
    """What a fit that nothing befell comes to."""

    out: Path
    labels: np.ndarray
    posterior: np.ndarray
    new_labels: np.ndarray
    new_posterior: np.ndarray
    n_events: int

    def is_like(self, result):
        """Whether a result is the same to the bit, and so is what it predicts."""
        new_posterior = result.predict_proba(NEW)
        pairs = [
            (result.labels, self.labels),
            (np.asarray(result.posterior), self.posterior),
            (new_posterior, self.new_posterior),
            (result.predict(NEW), self.new_labels),
        ]
        return all(np.array_equal(a, b) for a, b in pairs)


class Killed(BaseException):
    """What no handler of errors catches."""


class Events:
    """Counts what a fit does to its directory, and ends it at one of these events."""

    def __init__(self, patch, at=None):
        self.count, self.at = 0, at
        for name in ("_set", "_delete", "write_rows"):
            patch.setattr(store.Run, name, self._watched(getattr(store.Run, name)))

    def _watched(self, method):
        def call(*args):
            if self.count == self.at:
                raise Killed
            self.count += 1
            return method(*args)

        return call


def cut_smaller(patch):
    """Have several blocks of everything."""
    cut_small(patch, group_rows=250, cell_rows=140)


def fit(name, out, data=X):
    return bigsmic.fit(data, 3, out=out, n_threads=1, **FITS[name])


def finished(name, out, data=X):
    """Fit, and note what it comes to."""
    with pytest.MonkeyPatch.context() as patch:
        cut_smaller(patch)
        events = Events(patch)
        result = fit(name, out, data)
        arrays = (result.labels, np.asarray(result.posterior), result.predict(NEW), result.predict_proba(NEW))
    return Finished(Path(out), *arrays, events.count)


def half_finished(name, out, at):
    """Fit, and be killed at an event."""
    with pytest.MonkeyPatch.context() as patch:
        cut_smaller(patch)
        Events(patch, at)
        with pytest.raises(Killed):
            fit(name, out)


def blocks_of(out):
    """Folders of the blocks of every stage: dict of str to list of Path."""
    found: dict = {}
    for path in sorted(Path(out).glob("*/[0-9]*")):
        if path.is_dir() and not path.is_symlink() and not path.parent.is_symlink() and path.parent.name != "lease":
            found.setdefault(path.parent.name, []).append(path)
    return {stage: [path for path in paths if (path / "zarr.json").exists()] for stage, paths in found.items()}


def flip(path, at=None):
    """Change a bit of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2 if at is None else at] ^= 1
    path.write_bytes(data)


def flip_block(block):
    """Damage a block: an array of it, or its ledger entry where it has none."""
    chunks = [path for path in sorted(block.glob("*/c*")) if path.stat().st_size]
    flip(chunks[-1] if chunks else block / "zarr.json")


# -- what befalls a run


def mutate(rng, out, foreign):
    """Let something befall a run; return what.

    Parameters
    ----------
    rng : numpy.random.Generator
    out : Path
    foreign : list of Path
        Other runs that things may come from.
    """
    name = rng.choice(list(MUTATIONS))
    return f"{name} {MUTATIONS[name](rng, out, foreign)}"


def _pick(rng, things):
    things = list(things)
    return things[rng.integers(len(things))]


def _files(out):
    return sorted(path for path in out.rglob("*") if path.is_file() and path.parts[-2] != "lease")


def _file(rng, out):
    """A file, the kind of it drawn first: there are many more chunks than anything else."""
    files = _files(out)
    kinds = [
        [out / "zarr.json"],
        [path for path in files if path.name == "zarr.json" and len(path.relative_to(out).parts) == 3],
        [path for path in files if path.name.startswith("c.") or path.name == "c"],
        [path for path in files if path.relative_to(out).parts[0] in ("labels", "posterior", "agreement")],
        files,
    ]
    return _pick(rng, _pick(rng, [kind for kind in kinds if kind]))


def _place(rng, out):
    """A file, or a folder."""
    path = _file(rng, out)
    return path if rng.random() < 0.5 or path.parent == out else path.parent


def _flip(rng, out, foreign):
    path = _file(rng, out)
    if path.stat().st_size:
        data = bytearray(path.read_bytes())
        data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
        path.write_bytes(data)
    return path


def _truncate(rng, out, foreign):
    path = _file(rng, out)
    path.write_bytes(path.read_bytes()[: int(rng.integers(path.stat().st_size + 1))])
    return path


def _delete(rng, out, foreign):
    path = _place(rng, out)
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    return path


def _swap(a, b):
    spare = a.with_name("spare.swap")
    a.rename(spare)
    b.rename(a)
    spare.rename(b)


def _exchange(rng, out, foreign):
    """Exchange two blocks of a stage, their entries or arrays, two chunks at the top, or two places."""
    several = [paths for paths in blocks_of(out).values() if len(paths) > 1]
    if several and rng.random() < 0.7:
        a, b = (_pick(rng, several)[i] for i in (0, -1))
        if a.parent != b.parent:
            a, b = several[0][:2]
        if rng.random() < 0.4:
            a, b = a / "zarr.json", b / "zarr.json"
    else:
        a, b = _file(rng, out), _file(rng, out)
    if a != b:
        _swap(a, b)
    return f"{a} {b}"


def _foreign(rng, out, foreign):
    """Have a block, a stage, or anything else of another run in the place of one's own."""
    other = _pick(rng, foreign)
    places = [
        path.relative_to(other) for path in [other / "zarr.json", *other.glob("*"), *other.glob("*/*"), *_files(other)]
    ]
    shared = [place for place in places if (out / place).exists() and "lease" not in place.parts]
    place = _pick(rng, shared)
    target = out / place
    shutil.rmtree(target) if target.is_dir() else target.unlink()
    (shutil.copytree if (other / place).is_dir() else shutil.copy)(other / place, target)
    return f"{other} {place}"


ODD = [None, -1, 0, 1, 2, 10**18, 2**70, "x", "", [], {}, 1.5, True, float("nan"), "../../x", [10**15], {"x": 1}, "|O8"]


def _edit(rng, out, foreign):
    """Change, or take away, one value in some JSON, the seals left as they are or not."""
    jsons = [path for path in _files(out) if path.name == "zarr.json"]
    top = [path for path in jsons if len(path.relative_to(out).parts) <= 2]
    path = _pick(rng, top if rng.random() < 0.5 else jsons)
    tree = json.loads(path.read_bytes())
    spots = list(_spots(tree))
    holder, key = _pick(rng, spots)
    if rng.random() < 0.2:
        del holder[key]
        how = "taken away"
    else:
        holder[key] = how = _pick(rng, ODD)
    path.write_text(json.dumps(tree))
    return f"{path} {key} {how}"


def _spots(tree):
    for key in tree if isinstance(tree, dict) else range(len(tree)):
        yield tree, key
        if isinstance(tree[key], dict | list):
            yield from _spots(tree[key])


def _metadata(rng, out, foreign):
    path = _pick(rng, [path for path in _files(out) if path.name == "zarr.json"])
    path.unlink()
    return path


def _symlink(rng, out, foreign):
    """Have a symbolic link to the same thing elsewhere, to nothing, or to another run."""
    path = _place(rng, out)
    elsewhere = out.parent / f"{out.name}.elsewhere"
    target = _pick(rng, [elsewhere, out.parent / "nothing", _pick(rng, foreign)])
    if target == elsewhere:
        (shutil.copytree if path.is_dir() else shutil.copy)(path, elsewhere)
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    os.symlink(target, path)
    return f"{path} {target}"


MUTATIONS = {
    "flip": _flip,
    "truncate": _truncate,
    "delete": _delete,
    "exchange": _exchange,
    "foreign": _foreign,
    "edit": _edit,
    "metadata": _metadata,
    "symlink": _symlink,
}
