"""Two-class sets of the MSPC benchmark: rows, and labels 0 and 1.

UCI sets are scaled to [-1, 1] by column, digits by their largest grey value, as published.
"""

from itertools import combinations

import numpy as np
from _data import _file

PUBLISHED = {  # error in %: k-means, MPM, GEP, EIG, the best reg by the true labels
    "ionosphere": (28.77, 28.77, 29.63, 29.63),
    "breast": (3.81, 2.93, 2.63, 2.78),
    "australian": (14.49, 14.49, 14.06, 16.67),
    "diabetes": (33.07, 32.55, 31.51, 31.77),
    "letter": (6.30, 5.59, 5.53, 8.75),
    "satellite": (4.25, 0.63, 3.80, 1.70),
    "spam": (20.04, 13.76, 17.19, 21.75),
    "mnist3vs8": (20.04, 17.85, 18.54, 23.19),
    "mnist1vs7": (4.23, 0.93, 1.10, 3.70),
    "mnist8vs9": (7.34, 4.25, 4.67, 18.50),
}
PUBLISHED_SECONDS = {  # LDA-KM, MPM, GEP, EIG
    "letter": (0.07, 0.02, 0.23, 0.45),
    "satellite": (0.10, 0.02, 0.27, 0.95),
    "spam": (0.52, 0.09, 0.10, 5.63),
    "mnist3vs8": (5.53, 2.82, 2.72, 9.25),
    "mnist1vs7": (3.01, 1.65, 1.54, 16.6),
    "mnist8vs9": (4.01, 2.40, 1.83, 9.88),
}
FILES = {
    "ionosphere": "mlbench_ionosphere",
    "breast": "mlbench_breastcancer",
    "australian": "keel_australian",
    "diabetes": "mlbench_pimaindiansdiabetes",
    "spam": "spambase",
}


def load(name):
    """Rows (n, d) in float64, centred and without constant columns, and labels 0 and 1."""
    X, y = _raw(name)
    keep = np.isfinite(X).all(axis=1)
    X, y = X[keep], y[keep]
    varies = np.ptp(X, axis=0) > 0
    X = X[:, varies]
    X = X / 255 if name.startswith("mnist") else (X - X.min(axis=0)) / np.ptp(X, axis=0) * 2 - 1
    return X - X.mean(axis=0), np.unique(y, return_inverse=True)[1]


def pairs(name):
    """Every pair of classes of a set: name, rows, labels."""
    X, y = _all(name)
    X = X / 1000 if name == "usps" else X
    for a, b in combinations(np.unique(y), 2):
        rows, labels = _pair(X, y, a, b)
        varies = np.ptp(rows, axis=0) > 0
        yield f"{a}vs{b}", rows[:, varies] - rows[:, varies].mean(axis=0), labels


def _raw(name):
    if name in FILES:
        return _all(FILES[name])
    if name == "letter":
        X, y = _all("mlbench_letterrecognition")
        return _pair(X, y, *np.unique(y)[:2])
    if name == "satellite":  # the published 2,236 rows are the classes of 1,533 and 703
        X, y = _all("mlbench_satellite")
        classes, counts = np.unique(y, return_counts=True)
        return _pair(X, y, *classes[np.isin(counts, (1533, 703))])
    return _pair(*_all("mnist"), int(name[5]), int(name[8]))


def _pair(X, y, a, b):
    rows = (y == a) | (y == b)
    return X[rows], (y[rows] == b).astype(int)


def _all(name):
    z = _file(name)
    return z["X"].astype(np.float64), z["y"]
