"""The data sets that benchmarks run on: rows, true labels, number of clusters.

Real sets are read from the folder that the environment variable BIGSMIC_DATA names; simulated ones are drawn by
:mod:`bigsmic.datasets`. :func:`as_zarr` keeps a set as a Zarr archive, so that what is measured never holds the rows.
"""

import functools
import os
import re
import shutil
import tempfile
import zlib
from pathlib import Path

import numpy as np
from _many_columns import cells, documents, embeddings

from bigsmic import datasets

CHUNK_BYTES = 8 << 20

SIMULATORS = {
    "tetrodes80k": datasets.TetrodeSimulator(n_rows=80_000, n_units=33),
    "tetrodes319k": datasets.TetrodeSimulator(n_rows=319_209, n_units=33),
    "tetrodes3m": datasets.TetrodeSimulator(n_rows=3_000_000, n_units=33),
    "mixture50k": datasets.MixtureSimulator(n_rows=50_000, d=64, c=20),
    "mixture500k": datasets.MixtureSimulator(n_rows=500_000, d=64, c=20),
    "mixture5m": datasets.MixtureSimulator(n_rows=5_000_000, d=64, c=20),
}


def usps():
    z = _file("usps")
    return z["X"] / 1000, z["y"]


def satellite():
    z = _file("mlbench_satellite")
    return _standardised(z["X"]), z["y"]


def olivetti():
    z = _file("olivetti_faces")
    return z["X"], z["y"]


def mnist(n_rows=70_000, first=0):
    z = _file("mnist")
    return z["X"][first : first + n_rows], z["y"][first : first + n_rows]


def chest(n_rows=20_000, seed=0):
    z = _file("chest_features5")
    rows = np.sort(np.random.default_rng(seed).choice(len(z["y"]), n_rows, replace=False))
    return _standardised(z["X"][rows]), z["y"][rows]


def news():
    from scipy import sparse
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.preprocessing import normalize

    z = _file("newsgroups20")
    counts = sparse.csr_matrix((z["data"].astype(np.float64), z["indices"], z["indptr"]), shape=z["shape"])
    weights = TfidfTransformer(sublinear_tf=True).fit_transform(counts)
    return normalize(TruncatedSVD(100, random_state=0).fit_transform(weights)), z["y"]


def letter():
    z = _file("mlbench_letterrecognition")
    return _standardised(z["X"]), z["y"]


def mearec(n_rows=548_132, first=0):
    z = _file("tetrode_mearec")
    return z["X"][first : first + n_rows], z["y"][first : first + n_rows]


def mearec_drawn(n_rows, seed):
    """Rows from the whole recording: as many spikes of a unit, over all of its drift."""
    z = _file("tetrode_mearec")
    rows = np.sort(np.random.default_rng(seed).choice(len(z["y"]), n_rows, replace=False))
    return z["X"][rows], z["y"][rows]


def images(n_rows, seed):
    """Some rows of MNIST, drawn at random."""
    z = _file("mnist")
    rows = np.random.default_rng(seed).permutation(len(z["y"]))[:n_rows]
    return z["X"][rows], z["y"][rows]


def moons(n_rows, noise, seed):
    """Two half circles, either end of one within the other."""
    from sklearn.datasets import make_moons

    return make_moons(n_rows, noise=noise, random_state=seed)


def rings(n_rows, inner, noise, seed):
    """Two circles about one centre."""
    from sklearn.datasets import make_circles

    return make_circles(n_rows, factor=inner, noise=noise, random_state=seed)


LOADERS = {
    "usps": usps,
    "satellite": satellite,
    "olivetti": olivetti,
    "mnist20k": functools.partial(mnist, 20_000),
    "chest20k": chest,
    "news": news,
    "letter": letter,
    "tetrode30k": functools.partial(mearec, 30_000),
    "tetrode60k": functools.partial(mearec, 60_000),
    "mnist70k": mnist,
    "mearec": mearec,
}

FRESH = ("mnist20k-b", "mnist20k-c", "chest20k-b", "chest20k-c", "tetrode30k-b", "tetrode30k-c", "tetrodes80k-b")
"""New draws of sets that settings were chosen on."""

LOADERS |= {
    "mnist20k-b": functools.partial(mnist, 20_000, 30_000),
    "mnist20k-c": functools.partial(mnist, 20_000, 50_000),
    "chest20k-b": functools.partial(chest, seed=1),
    "chest20k-c": functools.partial(chest, seed=2),
    "tetrode30k-b": functools.partial(mearec, 30_000, 300_000),
    "tetrode30k-c": functools.partial(mearec_drawn, 30_000, 1),
}
UNEVEN = tuple(f"uneven{seed}" for seed in (*range(20, 32), *range(200, 212)))
"""Blobs of very uneven size; what was chosen with an eye on them was chosen on the first twelve at most."""
LOADERS |= {name: functools.partial(datasets.uneven_blobs, seed=int(name[6:])) for name in UNEVEN}
SIMULATORS["tetrodes80k-b"] = datasets.TetrodeSimulator(n_rows=80_000, n_units=33, seed=1)

HALVES = {"development": "d", "confirmation": "c"}
"""What draws are for, and the letter for it in their names: `spikes-c3` is the fourth that confirms."""

N_DRAWS = 10
SPIKES = {
    "d": "5x20000 7x2000 9x80000 12x5000 17x40000 23x10000 32x160000 43x20000 59x320000 80x60000",
    "c": "5x2000 6x40000 10x5000 13x160000 18x10000 25x20000 34x80000 45x40000 60x60000 80x320000",
}
"""Units and rows of the draws of spikes."""
HASHES = {
    "d": "4x1500 8x10000 5x3000 10x10000 6x5000 4x8000 7x6000 3x2000 9x9000 5x4000",
    "c": "5x1500 7x10000 4x3000 9x10000 6x6000 4x9000 8x8000 3x2500 10x9000 6x4000",
}
"""The same of recordings that are mostly hash; from half of the rows in the first to .95 in the last."""


def _sizes(listed):
    return [tuple(map(int, size.split("x"))) for size in listed.split()]


for _half, _first in (("d", 1000), ("c", 2000)):
    for _i, (_units, _rows) in enumerate(_sizes(SPIKES[_half])):
        _size = {"n_rows": _rows, "n_units": _units, "seed": _first + _i}
        SIMULATORS[f"spikes-{_half}{_i}"] = datasets.TetrodeSimulator(**_size)
        SIMULATORS[f"lifelike-{_half}{_i}"] = datasets.TetrodeSimulator(**_size, **datasets.LIFELIKE)
    for _i, (_units, _rows) in enumerate(_sizes(HASHES[_half])):
        _options = datasets.HASH | {"hash_share": 0.5 + 0.05 * _i}
        SIMULATORS[f"hash-{_half}{_i}"] = datasets.TetrodeSimulator(
            n_rows=_rows, n_units=_units, seed=_first + _i, **_options
        )
    for _i in range(N_DRAWS):
        for _name, _share in (("uneven", 0.0), ("noisy5", 0.05), ("noisy20", 0.2)):
            LOADERS[f"{_name}-{_half}{_i}"] = functools.partial(datasets.uneven_blobs, noise=_share, seed=_first + _i)
        for _draw in (documents, embeddings, cells):
            LOADERS[f"{_draw.__name__}-{_half}{_i}"] = functools.partial(_draw, _first + _i)
        LOADERS[f"images-{_half}{_i}"] = functools.partial(images, 1500 + 500 * _i, _first + _i)
        LOADERS[f"moons-{_half}{_i}"] = functools.partial(moons, 1000 * (_i + 1), 0.04 + 0.008 * _i, _first + _i)
        LOADERS[f"rings-{_half}{_i}"] = functools.partial(
            rings, 1000 * (_i + 1), 0.3 + 0.03 * _i, 0.04 + 0.004 * _i, _first + _i
        )
for _units in (12, 15, 16, 20, 30, 40, 60):
    SIMULATORS[f"spikes{_units}"] = datasets.TetrodeSimulator(n_rows=50_000, n_units=_units, seed=5)

NAMES = (*LOADERS, *SIMULATORS)


def load(name):
    """The set in memory.

    Returns
    -------
    X : ndarray of float32, shape (n, d)
    y : ndarray of int32, shape (n,), classes from 0; -1 of rows that are in none
    c : int
        Number of classes.
    """
    simulator = _simulator(name)
    X, y = LOADERS[name]() if simulator is None else simulator.block(0, simulator.n_rows)
    classes, y = np.unique(y, return_inverse=True)
    outside = int(classes[0] == -1)
    return np.ascontiguousarray(X, dtype=np.float32), y.astype(np.int32) - outside, len(classes) - outside


def as_zarr(name):
    """Path of the Zarr array with the rows of a set, written at the first call; labels are in ``labels_of``.

    Simulated sets are written a chunk at a time. Chunks are whole rows, about 8 MiB, uncompressed.
    """
    return _archive(name) / "X"


def labels_of(name):
    """True labels of a set kept by :func:`as_zarr`, int32, shape (n,)."""
    import zarr

    return zarr.open_array(_archive(name) / "labels", mode="r")[:]


def n_clusters(name):
    """Number of classes of a set kept by :func:`as_zarr`."""
    return int(labels_of(name).max()) + 1


def _archive(name):
    path = _cache() / f"{name}-{_fingerprint():08x}.zarr"
    if not path.exists():
        part = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=_cache()))
        try:
            _write_archive(name, part)
            part.rename(path)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return path


def _write_archive(name, path):
    import zarr

    (n, d), block = _blocks(name)
    chunk = min(n, max(1, CHUNK_BYTES // (4 * d)))
    X = zarr.create_array(path / "X", shape=(n, d), chunks=(chunk, d), dtype="f4", compressors=None)
    labels = np.empty(n, np.int32)
    for lo in range(0, n, chunk):
        hi = min(n, lo + chunk)
        X[lo:hi], labels[lo:hi] = block(lo, hi)
    zarr.create_array(path / "labels", data=labels, compressors=None)


def _blocks(name):
    """Shape of X, and the function that gives the rows and labels of a range."""
    if (simulator := _simulator(name)) is not None:
        return simulator.shape, simulator.block
    X, y, _ = load(name)
    return X.shape, lambda lo, hi: (X[lo:hi], y[lo:hi])


def _simulator(name):
    """The simulator of a set, of mixtures of any shape too; None for a real set, and an end for what is no set."""
    if name in LOADERS or name in SIMULATORS:
        return SIMULATORS.get(name)
    shape = re.fullmatch(r"mixture(\d+)x(\d+)", name)
    if shape is None:
        raise SystemExit(f"{name}: no such set; benchmarks/_data.py names those that there are")
    return datasets.MixtureSimulator(n_rows=int(shape[1]), d=int(shape[2]), c=20)


def _cache():
    path = Path(os.environ.get("BIGSMIC_BENCH_CACHE") or Path(tempfile.gettempdir()) / "bigsmic-bench")
    path.mkdir(parents=True, exist_ok=True)
    return path


@functools.cache
def _fingerprint():
    """Of the code that makes the sets: what older code has written is not read."""
    sources = (Path(__file__), *sorted(Path(datasets.__file__).parent.glob("*.py")))
    return zlib.crc32(b"".join(source.read_bytes() for source in sources))


def _file(name):
    folder = os.environ.get("BIGSMIC_DATA")
    if folder is None:
        raise SystemExit(f"{name}.npz is read from the folder that BIGSMIC_DATA names; set it")
    path = Path(folder) / f"{name}.npz"
    if not path.exists():
        raise SystemExit(f"{path} is not there; benchmarks read it from the folder that BIGSMIC_DATA names")
    return np.load(path)


def _standardised(X):
    X = X.astype(np.float64)
    return (X - X.mean(axis=0)) / X.std(axis=0)
