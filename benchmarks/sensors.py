"""Windows of recordings: what they cost beside tsflex, and what clusters of them are worth beside peers.

    python benchmarks/sensors.py speed [--samples 10000000]
    python benchmarks/sensors.py activities
    python benchmarks/sensors.py machine

``speed`` describes windows of 100 samples, every 50th, of three channels, on one thread, within 1 GiB; tsflex computes
the same summary features by NumPy, a function for each. ``activities`` has the chest-mounted accelerometer of 15 people
and seven activities: windows of 4 s, every 2 s (52 Hz), summary and spectral features, and clusters of every person and
of all, as many as activities, or as many as activities of equal size would have their entropy; k-means, a Gaussian
mixture, a Gaussian HMM (hmmlearn), Leiden and UMAP + HDBSCAN see the same features, scaled. ``machine`` has two
simulated days with five regimes, for five seeds: windows of 60 s. Windows in which the activity changes, or is none,
are not scored. ARI.
"""

import argparse
import tempfile
import warnings
from pathlib import Path

import numpy as np
from _data import _file as raw
from _harness import measure, save, table
from _ours import ari
from _peers import Rows, leiden, umap_hdbscan

import bigsmic
from bigsmic.features import windows

LENGTH, STEP, CHANNELS = 100, 50, 3
RATE, SECONDS = 52, 4


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "activities", "machine"])
    parser.add_argument("--samples", type=int, default=10_000_000)
    args = parser.parse_args()
    rows = speed(args.samples) if args.what == "speed" else {"activities": activities, "machine": machines}[args.what]()
    table(rows, list(next(iter(rows.values()))), args.what)
    print(save(f"sensors_{args.what}", rows, **vars(args)))


# -- speed


def speed(n_samples):
    with tempfile.TemporaryDirectory() as folder:
        archive = recording(Path(folder) / "a", n_samples)
        found = {}
        for features in ("summary", "spectral"):
            options = {"archive": archive, "features": features, "out": f"{folder}/{features}"}
            found[f"bigsmic, {features}"] = _speed(measure("sensors:ours", options, threads=1))
        few = recording(Path(folder) / "few", min(n_samples, 500_000))
        found["tsflex, summary"] = _speed(measure("sensors:tsflex", {"archive": few}, threads=1))
    return found


def recording(path, n_samples):
    """Three channels of a random walk with noise, float32, in a Zarr array."""
    import zarr

    rng, size = np.random.default_rng(0), 1_000_000
    array = zarr.create_array(str(path), shape=(n_samples, CHANNELS), chunks=(200_000, CHANNELS), dtype="f4")
    for lo in range(0, n_samples, size):
        hi = min(lo + size, n_samples)
        array[lo:hi] = rng.normal(size=(hi - lo, CHANNELS)).cumsum(axis=0) * 0.1 + rng.normal(size=(hi - lo, CHANNELS))
    return str(path)


def ours(archive, features, out):
    made = windows(archive, LENGTH, STEP, features=features, out=out, n_threads=1, memory_limit="1GiB")
    return {"windows": len(made), "columns": len(made.columns)}


def tsflex(archive):
    import pandas as pd
    import zarr
    from tsflex.features import FeatureCollection, FuncWrapper, MultipleFeatureDescriptors

    from bigsmic.numerics.windows.summary import QUANTILES

    functions = [np.mean, np.std, np.ptp, crossings, jerk]
    functions.append(FuncWrapper(quantiles, output_names=[f"q{q}" for q in QUANTILES]))
    frame = pd.DataFrame(zarr.open_array(archive)[:], columns=[f"ch{i}" for i in range(CHANNELS)])
    wanted = MultipleFeatureDescriptors(functions, list(frame.columns), windows=LENGTH, strides=STEP)
    found = FeatureCollection(wanted).calculate(frame, return_df=True, n_jobs=1)
    return {"windows": len(found), "columns": found.shape[1]}


def quantiles(x):
    from bigsmic.numerics.windows.summary import QUANTILES

    return tuple(np.quantile(x, QUANTILES))


def crossings(x):
    above = x > x.mean()
    return (above[1:] != above[:-1]).mean()


def jerk(x):
    return np.sqrt((np.diff(x) ** 2).mean())


def _speed(measured):
    found = measured.result
    return {
        "windows": found["windows"],
        "columns": found["columns"],
        "windows per CPU s": found["windows"] / measured.call_cpu_s,
        "CPU s": measured.call_cpu_s,
        "peak MB": measured.peak_mb,
    }


# -- activities


def activities():
    import zarr

    stored = raw("chest_accelerometer")
    X, y, subject = stored["X"], stored["y"], stored["subject"]
    found: dict = {"each person": [], "each person, fewer": []}
    with tempfile.TemporaryDirectory() as folder:
        people = zarr.create_group(f"{folder}/people")
        for person in np.unique(subject):
            people.create_array(f"{person:02d}", data=X[subject == person], chunks=(100_000, 3))
            made, truth = described(people[f"{person:02d}"], {0: y[subject == person]}, RATE, SECONDS, folder)
            found["each person"].append(scored(made, truth, 7))
            found["each person, fewer"].append(scored(made, truth, fewer(truth)))
        each = {i: y[subject == person] for i, person in enumerate(np.unique(subject))}
        made, truth = described(people, each, RATE, SECONDS, folder)
        found |= {"all persons": scored(made, truth, 7), "all persons, fewer": scored(made, truth, fewer(truth))}
    for name in ("each person", "each person, fewer"):
        found[name] = mean(found[name])
    return found | {"samples, all persons": samples(X, y)}


def machines():
    from bigsmic.datasets import REGIMES, MachineSimulator

    found = {}
    for seed in range(5):
        machine = MachineSimulator(n_rows=2 * 86_400, seed=seed, fault_day=0, fault_growth=0.05)
        X, y = machine.block(0, machine.n_rows)
        with tempfile.TemporaryDirectory() as folder:
            found[f"seed {seed}"] = scored(*described(X, {0: y + 1}, 1, 60, folder), len(REGIMES))
    return found | {"mean": mean(list(found.values()))}


def mean(rows):
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def described(archive, y, rate, seconds, folder):
    """Windows that overlap by half, and the activity of each; -1 where it is none, or changes."""
    length = seconds * rate
    made = windows(archive, length, length // 2, rate=rate, out=f"{tempfile.mkdtemp(dir=folder)}/w")
    parts = [y[source][at : at + length] for source, at in zip(made.source[:], made.start[:], strict=True)]
    return made, np.array([part[0] if part[0] > 0 and (part == part[0]).all() else -1 for part in parts])


def fewer(truth):
    """Clusters of one size that have the entropy of the activities."""
    shares = np.bincount(truth[truth >= 0]) / (truth >= 0).sum()
    shares = shares[shares > 0]
    return round(float(np.exp(-(shares * np.log(shares)).sum())))


def scored(made, truth, c):
    known, features = truth >= 0, made.X[:]
    Z = (features - features.mean(axis=0)) / np.maximum(features.std(axis=0), 1e-9)
    lengths = np.bincount(made.source[:])
    labels = {"bigsmic": bigsmic.fit(made, c).archive_labels()}
    labels |= {name: peer(Z, c, lengths) for name, peer in PEERS.items()}
    return {name: ari(truth[known], np.asarray(found)[known]) for name, found in labels.items()}


def samples(X, y):
    """The samples themselves as rows, every twentieth."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        labels = bigsmic.fit(X[::20].astype("f4"), 7).labels
    known = y[::20] > 0
    return {"bigsmic": ari(y[::20][known], labels[known])}


def _kmeans(Z, c, lengths):
    from sklearn.cluster import KMeans

    return KMeans(c, n_init=10, random_state=0).fit_predict(Z)


def _mixture(Z, c, lengths):
    from sklearn.mixture import GaussianMixture

    return GaussianMixture(c, random_state=0, reg_covar=1e-3).fit_predict(Z)


def _hmm(Z, c, lengths):
    from hmmlearn.hmm import GaussianHMM

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GaussianHMM(c, covariance_type="diag", n_iter=50, random_state=0).fit(Z, lengths)
    return model.predict(Z, lengths)


def _leiden(Z, c, lengths):
    return leiden(Rows(Z.astype(np.float32), c, 0))


def _umap_hdbscan(Z, c, lengths):
    return umap_hdbscan(Rows(Z.astype(np.float32), c, 0))


PEERS = {
    "k-means": _kmeans,
    "Gaussian mixture": _mixture,
    "Gaussian HMM": _hmm,
    "Leiden": _leiden,
    "UMAP + HDBSCAN": _umap_hdbscan,
}


if __name__ == "__main__":
    main()
