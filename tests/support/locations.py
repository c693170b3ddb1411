"""Where the repository is, and the environment of processes that import what the tests share."""

import os
from pathlib import Path

import bigsmic

SUPPORT = Path(__file__).parent
ROOT = SUPPORT.parents[1]


def environment(*folders):
    """Variables of a process that imports this package, what the tests share, and modules in other folders."""
    paths = [*folders, SUPPORT, Path(bigsmic.__file__).parents[1]]
    return os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))}
