"""RIM: how many categories live, how fast, beside gemclus, MiniBatchKMeans, L-BFGS; streams of labels, collapse.

::

    python benchmarks/rim.py toy collapse tetrodes speed table taught disk

Every part is written to ``results/rim_<part>.json`` as it ends. CPU seconds are of a process of its own each, with one
thread, imports included unless they are named ``call``.
"""

import argparse

import _data
from _harness import measure, save, table

REG = 0.01  # at which speeds are compared: some forty of a hundred categories live
# learning rate and batch size of gemclus; its default rate of .001 is slower
GRID = ((0.1, 2048), (0.03, 2048), (0.01, 2048), (0.003, 2048), (0.01, 512), (0.03, 8192))
SEEDS = (0, 1, 2)
SETS = ("usps", "satellite", "letter", "mnist70k", "mearec")
# strength and learning rate of gemclus, the best of which is shown; its rows have mean square 1
TABLE_GRID = ((0.02, 0.01), (0.1, 0.01), (0.02, 0.003), (0.1, 0.003), (0.005, 0.01))


def toy():
    """Fifty categories, three clusters, twenty draws."""
    found = {"fifty categories, reg 4/N": measure("_rim:collapse", {"name": "toy", "seeds": 20})}
    save("rim_toy", found)


def collapse():
    """Twenty seeds each."""
    names = ("iris", "wine")
    found = {name: measure("_rim:collapse", {"name": name, "seeds": 20}) for name in names}
    save("rim_collapse", found)


def tetrodes():
    """The paper's experiment on simulated spikes: a hundred categories along the strength, and a number asked for."""
    found = {}
    for name in ("tetrodes319k", "mearec"):
        _data.as_zarr(name)
        options = {"name": name, "n_init_categories": 100, "scale": "standard"}
        found[f"{name}: {_data.n_clusters(name)} clusters"] = measure(
            "_rim:fit", options | {"c": _data.n_clusters(name)}
        )
        for scale in ("variance", "standard"):
            found[f"{name}, {scale}: reg 4/N"] = measure("_rim:fit", options | {"reg": "4/N", "scale": scale})
            save("rim_tetrodes", found)
        found[f"{name}: path"] = measure("_rim:path", options)
        save("rim_tetrodes", found)


def speed(name="tetrodes319k", epochs=6):
    """Seconds to the same objective on the same rows: gemclus, L-BFGS, minibatches."""
    same = {"name": name, "n_categories": 100, "reg": REG}
    calls = {}
    for n_epochs, rate in ((1, 0.3), (2, 0.3), (4, 0.3), (1, 0.75), (2, 0.75)):
        for seed in SEEDS:
            options = {"solver": "minibatch", "n_epochs": n_epochs, "learning_rate": rate, "seed": seed}
            calls[f"ours, {n_epochs} epochs, rate {rate}, seed {seed}"] = ("_rim:ours_at", same | options)
    for rate, size in GRID:
        for seed in SEEDS if (rate, size) == (0.01, 2048) else SEEDS[:1]:
            arguments = same | {"learning_rate": rate, "batch_size": size, "max_iter": epochs, "seed": seed}
            calls[f"gemclus, rate {rate}, batch {size}, seed {seed}"] = ("_rim:gemclus", arguments)
    calls["ours, 12 iterations of L-BFGS"] = ("_rim:ours_at", same | {"solver": "lbfgs", "max_iter": 12})
    _data.as_zarr(name)
    found = {}
    for label, call in calls.items():
        found[label] = measure(*call, timeout=1500)
        save(f"rim_speed_{name}", found, reg=REG)


def comparison():
    """ARI at the true number of clusters."""
    found = {}
    for name in SETS:
        _data.as_zarr(name)
        c, large = _data.n_clusters(name), name in ("mnist70k", "mearec")
        for seed in SEEDS:
            found[f"{name}: rim, seed {seed}"] = measure("_rim:fit", {"name": name, "c": c, "seed": seed})
            found[f"{name}: k-means, seed {seed}"] = measure("_rim:k_means", {"name": name, "seed": seed})
        for reg, rate in TABLE_GRID:
            grid = {"n_categories": c, "reg": reg, "learning_rate": rate, "max_iter": 10 if large else 100}
            arguments = {"name": name, "batch_size": 2048 if large else 1024, "unit": True} | grid
            found[f"{name}: gemclus, reg {reg}, rate {rate}"] = measure("_rim:gemclus", arguments, timeout=1500)
        save("rim_table", found)
    for name in SETS:
        found[f"{name}: smic"] = measure("_rim:smic", {"name": name}, timeout=3000)
        save("rim_table", found)
    cells = {key: {"ari": m.result.get("ari"), "cpu": m.cpu_s, "peak MB": m.peak_mb} for key, m in found.items()}
    table(cells, ["ari", "cpu", "peak MB"])


def taught():
    """MNIST with a few labels of each class."""
    found = {}
    for per_class in (10, 100, 50):
        found[f"{per_class} per class"] = measure(
            "_rim:taught", {"per_class": per_class, "taus": [0.3], "regs": [0.003, 0.02]}
        )
        save("rim_taught", found)


def disk():
    """Input that is not in the page cache, with two threads; rows are not kept in memory."""
    found = {}
    for name in ("tetrodes319k", "mearec"):
        _data.as_zarr(name)
        for k in (20, 100):
            found[f"{name}, {k} categories"] = measure("_rim:reading", {"name": name, "n_init_categories": k})
    save("rim_disk", found)


if __name__ == "__main__":
    parts = {
        "toy": toy,
        "collapse": collapse,
        "tetrodes": tetrodes,
        "speed": speed,
        "table": comparison,
        "taught": taught,
        "disk": disk,
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(parts)}; all of them if none is given")
    asked = parser.parse_args().parts
    if unknown := [part for part in asked if part not in parts]:
        parser.error(f"no such part: {', '.join(unknown)}; there are {', '.join(parts)}")
    for part in asked or parts:
        print(part, flush=True)
        parts[part]()
