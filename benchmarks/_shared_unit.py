"""Sets on which it is chosen when columns are divided: real ones as they came, simulated tables, waveforms and images.

:func:`load` draws a set by its name: rows, classes, and how many there are. Names of simulated sets end in the number
of the draw. Sets and draws are in two halves: the rule was chosen on the first and confirmed once on the second.
"""

import functools

import _data
import numpy as np
from sklearn.datasets import load_digits, make_classification
from sklearn.decomposition import PCA

from bigsmic.datasets import MixtureSimulator, TetrodeSimulator

MAX_ROWS = 5000  # of a set; more are drawn from

_FILES = {
    "satellite": "mlbench_satellite",
    "usps": "usps",
    "mnist": "mnist",
    "olivetti": "olivetti_faces",
    "letter": "mlbench_letterrecognition",
    "chest5": "chest_features5",
    "mearec": "tetrode_mearec",
    "sonar": "mlbench_sonar",
    "ionosphere": "mlbench_ionosphere",
    "pima": "mlbench_pimaindiansdiabetes",
    "breast": "mlbench_breastcancer",
    "spambase": "spambase",
    "australian": "keel_australian",
    "parkinsons": "parkinsons",
}

REAL = {
    "chosen": (
        "satellite",
        "usps",
        "mearec",
        "letter",
        "ionosphere",
        "pima",
        "australian",
        "news",
        "digits",
        "usps_components",
        "satellite_components",
        "mearec_components",
        "usps_shuffled",
        "satellite_shuffled",
        "mearec_shuffled",
    ),
    "held": (
        "mnist",
        "olivetti",
        "chest5",
        "sonar",
        "breast",
        "spambase",
        "parkinsons",
        "mnist_components",
        "olivetti_components",
        "mnist_shuffled",
        "olivetti_shuffled",
    ),
}
DRAWS = {"chosen": range(4), "held": range(100, 102)}


def names(half):
    """Sets of one half, "chosen" or "held"."""
    return (*REAL[half], *(f"{kind}-{draw}" for kind in SIMULATED for draw in DRAWS[half]))


def load(name):
    """Rows as they came, classes from 0, and the number of classes."""
    kind, _, draw = name.partition("-")
    X, y = SIMULATED[kind](int(draw)) if draw else _real(name)
    rows = np.isfinite(X).all(axis=1)
    X, y = X[rows], y[rows]
    if len(X) > MAX_ROWS:
        rows = np.sort(np.random.default_rng(0).choice(len(X), MAX_ROWS, replace=False))
        X, y = X[rows], y[rows]
    classes, y = np.unique(y, return_inverse=True)
    return X, y, len(classes)


def _real(name):
    if name == "news":
        return _data.news()
    if name.endswith("_components"):
        X, y, _ = load(name.removesuffix("_components"))
        return PCA(20, random_state=0).fit_transform(X.astype(np.float64)), y
    if name.endswith("_shuffled"):
        X, y, _ = load(name.replace("_shuffled", "_components"))
        return X[:, np.random.default_rng(0).permutation(X.shape[1])], y
    if name == "digits":
        return load_digits(return_X_y=True)
    z = _data._file(_FILES[name])
    return z["X"], z["y"]


def _latent(rng, q):
    """Gaussian clusters of uneven size: positions (n, q) and classes."""
    c, n = int(rng.integers(3, 9)), int(rng.integers(1000, 3000))
    y = rng.choice(c, n, p=rng.dirichlet(np.full(c, 3.0)))
    return 2.2 * rng.standard_normal((c, q))[y] + rng.standard_normal((n, q)), y


def mixed_table(seed):
    """Columns in units of their own, shuffled: blocks that share a factor, transformed, one-hot columns, noise."""
    rng = np.random.default_rng([1, seed])
    q = int(rng.integers(3, 7))
    Z, y = _latent(rng, q)
    columns = []
    for _ in range(int(rng.integers(2, 8))):  # blocks of columns that share a factor
        factor = Z @ rng.standard_normal(q)
        for _ in range(int(rng.integers(1, 5))):
            column = factor / factor.std() + rng.uniform(0.2, 0.8) * rng.standard_normal(len(Z))
            columns.append(_transformed(rng, column)[:, None] * 10 ** rng.uniform(-2, 3))
    for _ in range(int(rng.integers(0, 3))):  # categories
        k = int(rng.integers(3, 7))
        related = rng.random(len(Z)) < rng.uniform(0, 0.8)
        columns.append(np.eye(k)[np.where(related, y % k, rng.integers(0, k, len(Z)))])
    columns += [10 ** rng.uniform(-2, 3) * rng.standard_normal((len(Z), 1)) for _ in range(int(rng.integers(0, 4)))]
    X = np.hstack(columns)
    return X[:, rng.permutation(X.shape[1])], y


def rare_table(seed):
    """Columns in units of their own, and some that are 0 in most rows: counts, amounts, levels of rare events."""
    rng = np.random.default_rng([77, seed])
    q = int(rng.integers(3, 7))
    Z, y = _latent(rng, q)
    n, columns = len(Z), []
    for _ in range(int(rng.integers(2, 7))):
        factor = Z @ rng.standard_normal(q)
        for _ in range(int(rng.integers(1, 4))):
            column = factor / factor.std() + rng.uniform(0.2, 0.8) * rng.standard_normal(n)
            columns.append(_transformed(rng, column) * 10 ** rng.uniform(-2, 3))
    for _ in range(int(rng.integers(2, 8))):
        rate, related = 10 ** rng.uniform(-2, -0.4), rng.random() < 0.5
        rates = rate * np.where(related, 10 ** rng.uniform(-1, 0.7, size=y.max() + 1)[y], 1.0)
        kind = rng.integers(3)
        if kind == 0:
            column = rng.poisson(rates)
        elif kind == 1:
            column = np.where(rng.random(n) < rates, np.exp(rng.normal(1, 0.7, n)), 0)
        else:
            column = np.minimum(rng.poisson(3 * rates), 3)
        columns.append(column * 10 ** rng.uniform(-2, 3))
    X = np.column_stack(columns)
    return X[:, rng.permutation(X.shape[1])], y


def _transformed(rng, column):
    return (lambda x: x, np.exp, lambda x: x**3, np.tanh, np.round)[rng.integers(5)](column)


def ordered_table(seed, decades=2):
    """Columns of one table in units of their own whose correlated blocks stand together, as in tables made by hand."""
    rng = np.random.default_rng([2, seed])
    Z, y = _latent(rng, 4)
    columns = []
    for _ in range(int(rng.integers(3, 9))):
        factor = Z @ rng.standard_normal(4)
        for _ in range(int(rng.integers(2, 6))):
            noise = rng.uniform(0.2, 0.8) * rng.standard_normal(len(Z))
            columns.append(_transformed(rng, factor / factor.std() + noise) * 10 ** rng.uniform(-decades, decades))
    return np.column_stack(columns), y


def alike_table(seed):
    """The same in units that differ by no more than a factor of 25."""
    return ordered_table(seed + 50, decades=0.7)


def two_sensors(seed):
    """Waveforms of two quantities one after the other, in units that differ by a factor of 30 to 1000."""
    X, y = waveforms(seed + 50)
    other, _ = waveforms(seed + 50, shape=1)
    unit = np.random.default_rng([3, seed]).choice([30.0, 200.0, 1000.0])
    return np.hstack([X, unit * other]), y


def waveforms(seed, shape=0):
    """Smooth curves in correlated noise: bumps at places, of widths and heights that depend on the class."""
    rng = np.random.default_rng([4, seed])
    c, n, d = int(rng.integers(4, 10)), 2000, int(rng.integers(24, 120))
    y = rng.choice(c, n, p=rng.dirichlet(np.full(c, 3.0)))
    rng = np.random.default_rng([5, seed, shape])
    place, width, height = rng.uniform(0.2, 0.8, c), rng.uniform(0.03, 0.1, c), rng.uniform(0.4, 2, c)
    at = np.linspace(0, 1, d)
    mean = height[:, None] * np.exp(-((at - place[:, None]) ** 2) / (2 * width[:, None] ** 2))
    gain = 1 + 0.15 * rng.standard_normal((n, 1))
    return gain * mean[y] + _smooth(rng.standard_normal((n, d)), 2) * rng.uniform(0.2, 0.5), y


def _smooth(X, sd):
    from scipy.ndimage import gaussian_filter1d

    X = gaussian_filter1d(X, sd, axis=1)
    return X / X.std()


def spikes(seed):
    """Simulated spikes of a tetrode, wires one after the other."""
    rng = np.random.default_rng([6, seed])
    simulator = TetrodeSimulator(n_rows=5000, n_units=int(rng.integers(5, 20)), seed=seed)
    return simulator.block(0, 5000)


def interleaved_spikes(seed):
    """The same with the wires of a sample beside each other, as 16-bit integers."""
    X, y = spikes(seed + 50)
    return np.round(X.reshape(len(X), 4, -1).transpose(0, 2, 1).reshape(len(X), -1) * 5).astype(np.int16), y


def spectra(seed):
    """Sums of lines over a baseline: counts, whose spread goes with their mean."""
    rng = np.random.default_rng([7, seed])
    c, n, d = int(rng.integers(4, 9)), 2000, int(rng.integers(80, 300))
    y, at = rng.integers(0, c, n), np.arange(d)
    lines = rng.uniform(0, d, 12)
    shapes = np.exp(-((at - lines[:, None]) ** 2) / (2 * rng.uniform(1.5, 4, (12, 1)) ** 2))
    heights = rng.gamma(0.7, 25, (c, 12))[y] * rng.lognormal(0, 0.7, (n, 12))
    return rng.poisson(heights @ shapes + 10 * np.exp(-at / d)), y


def images(seed):
    """Pictures of blobs, 14 by 14 grey values of 8 bits in a black frame."""
    rng = np.random.default_rng([8, seed])
    c, n = int(rng.integers(4, 9)), 2000
    y = rng.integers(0, c, n)
    places, sizes = rng.uniform(3, 11, (c, 3, 2)), rng.uniform(0.8, 1.8, (c, 3))
    at = np.stack(np.meshgrid(np.arange(14), np.arange(14), indexing="ij"), axis=-1)
    moved = places[y] + rng.standard_normal((n, 3, 2))
    squares = ((at[None, None] - moved[:, :, None, None]) ** 2).sum(axis=-1)
    grey = np.exp(-squares / (2 * sizes[y][:, :, None, None] ** 2)).sum(axis=1)
    grey += 0.05 * rng.standard_normal(grey.shape) * (grey > 0.1)
    return np.clip(255 * grey, 0, 255).astype(np.uint8).reshape(n, -1), y


def components(seed):
    """Principal components of a mixture, in one unit but uncorrelated."""
    rng = np.random.default_rng([9, seed])
    X, y = MixtureSimulator(n_rows=3000, d=40, c=int(rng.integers(4, 10)), seed=seed).block(0, 3000)
    return PCA(20, random_state=0).fit_transform(X), y


def scores(seed):
    """Answers on a scale of 1 to 7, which follow a few factors, in the order of a questionnaire."""
    rng = np.random.default_rng([10, seed])
    Z, y = _latent(rng, 4)
    loadings = rng.standard_normal((4, int(rng.integers(8, 40)))) / 3
    noise = rng.uniform(0.4, 1.2) * rng.standard_normal((len(Z), loadings.shape[1]))
    return np.clip(np.round(4 + Z @ loadings + noise), 1, 7).astype(np.int8), y


def noisy_table(seed):
    """Clusters in a few columns, beside noise as wide as a cluster in three to 15 times as many, shuffled."""
    rng = np.random.default_rng([11, seed])
    q = int(rng.integers(3, 7))
    Z, y = _latent(rng, q)
    X = np.column_stack([Z, rng.standard_normal((len(Z), q * int(rng.integers(3, 16))))])
    return X[:, rng.permutation(X.shape[1])], y


def faint_table(seed):
    """Clusters in three to five columns, hardly wider than the noise in seven to 40 others, shuffled."""
    rng = np.random.default_rng([14, seed])
    c, q, n = int(rng.integers(2, 8)), int(rng.integers(3, 6)), int(rng.integers(500, 3000))
    y = rng.choice(c, n, p=rng.dirichlet(np.full(c, 5.0)))
    means = rng.standard_normal((c, q))
    means *= np.sqrt(rng.uniform(0.6, 2.5) / means.var(axis=0))
    X = np.column_stack([means[y], np.zeros((n, int(rng.integers(7, 41))))])
    X += rng.standard_normal(X.shape)
    return X[:, rng.permutation(X.shape[1])], y


def groups(seed):
    """Twelve Gaussian clusters in three distant groups, 20 columns."""
    rng = np.random.default_rng([12, seed])
    y = rng.integers(0, 12, 6000)
    means = 20 * rng.standard_normal((3, 20))[np.arange(12) // 4] + rng.standard_normal((12, 20))
    return means[y] + rng.standard_normal((6000, 20)), y


def classification(seed):
    """What scikit-learn calls a classification problem: clusters in some columns, mixtures of these, and noise."""
    rng = np.random.default_rng([13, seed])
    c, n_informative = int(rng.integers(3, 8)), int(rng.integers(4, 9))
    kinds = {"n_informative": n_informative, "n_redundant": int(rng.integers(0, 5)), "n_clusters_per_class": 1}
    n_columns = int(rng.integers(15, 50))
    return make_classification(3000, n_columns, n_classes=c, class_sep=2.0, random_state=seed, **kinds)


SIMULATED = {
    function.__name__: function
    for function in (
        mixed_table,
        rare_table,
        ordered_table,
        alike_table,
        two_sensors,
        waveforms,
        spikes,
        interleaved_spikes,
        spectra,
        images,
        components,
        scores,
        noisy_table,
        faint_table,
        groups,
        classification,
    )
}
load = functools.cache(load)
