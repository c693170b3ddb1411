"""The number of clusters unknown: bigsmic and its peers on labelled sets and draws, c found, ARI, CPU; and noise.

    python benchmarks/unknown.py [--half development] [--sets ...] [--peers ...] [--seeds 5] [--max-rows 50000]
                                 [--threads 1] [--save unknown] [--show]

All see the same rows and none the number of clusters. A set is a real or simulated one, or a family of draws
(`spikes lifelike uneven noisy5 noisy20 moons rings hash documents embeddings cells images`), ten in each half: what is
chosen is chosen on development and confirmed once. Peers that only tell noise run on draws that have it, and on uneven
ones that do not. Every cell is saved when it is done, and is not run again, failures with `--again`; several processes
may fill one table.

Where bigsmic says that there are no valleys, its figures are those of the cut that its curve likes best, and the cell
is marked with a star. ARI is over rows that have a class, after rows in no cluster were given to the nearest one; the
tables of noise are without that.
"""

import argparse
import fcntl
import tempfile
from contextlib import contextmanager
from pathlib import Path

import _peers
import numpy as np
from _data import HALVES, N_DRAWS, SIMULATORS, UNEVEN, as_zarr, labels_of, load
from _harness import known, measure, save, table
from _unknown_peers import PEERS
from _unknown_scores import accuracy, figures

OURS = {
    "bigsmic": {},
    "bigsmic_noise": {"noise": True},
    "bigsmic_trim": {"trim": True},
    "bigsmic_unscaled": {"scale": None},
}
FAMILIES = (
    *("spikes", "lifelike", "uneven", "noisy5", "noisy20", "moons", "rings", "hash"),
    *("documents", "embeddings", "cells", "images"),
)
NOISY = ("noisy5", "noisy20", "hash")
REAL = {
    "development": ("usps", "satellite", "mnist20k", "tetrode30k", "letter", "olivetti"),
    "confirmation": ("news", "chest20k", "tetrode30k-b", "mnist70k"),
}
SIMULATED = {
    "development": ("spikes12", "spikes15", "spikes30", "spikes60", *UNEVEN[:12], "tetrodes80k"),
    "confirmation": ("spikes16", "spikes20", "spikes40", *UNEVEN[12:], "tetrodes80k-b"),
}
NOISE_PEERS = ("hdbscan_default", "hdbscan_30", "hdbscan_200")
DEFAULT = ("bigsmic", "bigsmic_noise", *PEERS)
WELL_SORTED = 0.8


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=list(HALVES), default="development")
    parser.add_argument("--sets", nargs="+", help="sets, single draws and families; all of the half if not given")
    parser.add_argument("--peers", nargs="+", default=list(DEFAULT), choices=[*OURS, *PEERS])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--max-rows", type=int, help="leave larger sets out")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--limit", type=float, default=600, help="CPU seconds after which a peer is given up")
    parser.add_argument("--again", action="store_true", help="run again what failed")
    parser.add_argument("--save", default="unknown")
    parser.add_argument("--show", action="store_true", help="print the tables of what was saved, and run nothing")
    args = parser.parse_args()
    if not args.show:
        fill(args)
    show({key: cell for key, cell in known(args.save).items() if key.split("/")[1] in set(named(args))})


def named(args):
    """The sets that were asked for, families as their draws."""
    letter = HALVES[args.half]
    for name in args.sets or (*REAL[args.half], *SIMULATED[args.half], *FAMILIES):
        yield from (f"{name}-{letter}{i}" for i in range(N_DRAWS)) if name in FAMILIES else (name,)


def fill(args):
    warmed = set()
    for seed in range(args.seeds):
        for name in named(args):
            missing = [peer for peer in runs_on(name, args.peers) if is_missing(f"{peer}/{name}/{seed}", args)]
            if not missing or is_left_out(name, args.max_rows):
                continue
            new = [peer for peer in missing if peer in PEERS and peer not in warmed]
            _peers.warm_up(new, args.threads, PEERS)
            warmed.update(new)
            for peer, cell in cells(missing, name, seed, args):
                keep(args, f"{peer}/{name}/{seed}", cell)


def is_missing(key, args):
    cell = known(args.save).get(key)
    return cell is None or bool(args.again and cell["error"])


def runs_on(name, peers):
    """Peers that only tell noise are left to sets of which that is asked; bigsmic's false alarms are, everywhere."""
    return [peer for peer in peers if peer not in NOISE_PEERS or family(name) in (*NOISY, "uneven")]


def is_left_out(name, max_rows):
    """Whether the set is too large, or cannot be had; says why."""
    if max_rows and name in SIMULATORS and SIMULATORS[name].n_rows > max_rows:
        return True
    try:
        as_zarr(name)
    except (SystemExit, FileNotFoundError) as reason:
        print(f"{name} left out: {reason}", flush=True)
        return True
    return bool(max_rows) and len(labels_of(name)) > max_rows


def cells(peers, name, seed, args):
    """The figures of each peer on one set."""
    for peer in [peer for peer in peers if peer in OURS]:
        options = {"name": name, "n_threads": args.threads, "seed": seed} | OURS[peer]
        m = measure("_unknown_ours:fit", options, threads=1)
        yield peer, m.result | {"cpu_s": m.call_cpu_s, "peak_mb": m.peak_mb, "error": m.error and m.error[-300:]}
    others = [peer for peer in peers if peer in PEERS]
    if others:
        X, truth, _ = load(name)
        rows = _peers.Rows(X, None, seed)
        for peer, labels, cpu_s, error in _peers.run(rows, others, args.limit, PEERS):
            found = {} if error else figures(truth, labels, _points(rows, peer))
            yield peer, found | {"cpu_s": cpu_s, "error": error}


def _points(rows, peer):
    """Where the rows lie that the peer clustered."""
    return lambda: rows.embedding if PEERS[peer][2] == "embedding" else rows.principal(10)


def keep(args, key, cell):
    with _alone(args.save):
        save(args.save, known(args.save) | {key: cell}, threads=args.threads, limit=args.limit)
    print(
        key, {what: cell.get(what) for what in ("c_true", "c", "ari", "noise", "clear", "cpu_s", "error")}, flush=True
    )


@contextmanager
def _alone(name):
    """Hold a lock while a table is read and written again."""
    with (Path(tempfile.gettempdir()) / f"bigsmic-{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# -- tables


def family(name):
    """What draws have in common; a set that is no draw stands for itself."""
    stem = name.rsplit("-", 1)[0]
    if stem in FAMILIES:
        return stem
    return "uneven, earlier" if name.startswith("uneven") else name


def show(found):
    """Print the tables of what was found, a row for each set or family."""
    by = {}
    for key, cell in found.items():
        peer, name, seed = key.split("/")
        by.setdefault(family(name), {}).setdefault(peer, []).append(cell | {"name": name, "seed": seed})
    peers = list(dict.fromkeys(key.split("/")[0] for key in found))
    usual = [peer for peer in peers if peer not in (*NOISE_PEERS, "bigsmic_noise")]
    _show(by, usual, "ARI", _ari, footer=_means(by, usual))
    _show(by, usual, "c found: number, or share of draws with the exact one", _numbers)
    _show(by, usual, "CPU s, mean", lambda group: f"{np.mean([cell['cpu_s'] for cell in group]):.1f}")
    noisy = {name: row for name, row in by.items() if name in NOISY}
    _show(noisy, peers, "noise: precision, recall", _noise)
    _show({name: row for name, row in by.items() if name not in noisy}, peers, "false alarms", _false_alarms)
    _show({"hash": by.get("hash", {})}, peers, f"units found at accuracy {WELL_SORTED}; recall, precision", _units)


def _show(by, peers, title, cell, footer=None):
    rows = {}
    for name, row in by.items():
        done = {peer: [one for one in row[peer] if not one["error"]] for peer in peers if peer in row}
        rows[name] = {peer: cell(group) if group else "failed" for peer, group in done.items()}
    table(rows | (footer or {}), peers, title)
    print()


def _ari(group):
    star = "" if all(cell.get("clear", True) for cell in group) else "*"
    return f"{np.mean([cell['ari'] for cell in group]):.3f}{star}"


def _means(by, peers):
    """Mean ARI over sets and families, of the draws and seeds that every peer has done; what failed counts 0."""
    means = {peer: [] for peer in peers}
    for row in by.values():
        aris = {
            peer: {(cell["name"], cell["seed"]): cell.get("ari", 0) for cell in row.get(peer, ())} for peer in peers
        }
        common = set.intersection(*(set(found) for found in aris.values())) if aris else set()
        for peer in peers if common else ():
            means[peer].append(np.mean([aris[peer][key] for key in common]))
    n_rows = len(next(iter(means.values()), ()))
    return {f"mean of {n_rows}": {peer: f"{np.mean(found):.3f}" for peer, found in means.items()}} if n_rows else {}


def _numbers(group):
    if len({cell["name"] for cell in group}) == 1:
        return f"{np.median([cell['c'] for cell in group]):g} of {group[0]['c_true']}"
    return f"{np.mean([cell['c'] == cell['c_true'] for cell in group]):.2f}"


def _noise(group):
    precision = [cell["noise_precision"] for cell in group if cell["noise_precision"] is not None]
    recall = np.mean([cell["noise_recall"] for cell in group])
    return f"{np.mean(precision):.2f} {recall:.2f}" if precision else "-"


def _false_alarms(group):
    return f"{np.mean([cell['noise'] for cell in group]):.3f}"


def _units(group):
    units = [unit for cell in group for unit in cell["units"]]
    found = sum(accuracy(recall, precision) >= WELL_SORTED for _, recall, precision in units)
    _, recall, precision = np.mean(units, axis=0)
    return f"{found}/{len(units)}; {recall:.2f} {precision:.2f}"


if __name__ == "__main__":
    main()
