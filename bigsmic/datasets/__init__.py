"""Simulated data with known labels: tetrode spikes, a machine, Gaussian mixtures, uneven blobs, four toys in the plane.

Spikes, the machine and mixtures are block generators. Rows are drawn in fixed chunks, each from a generator keyed by
(seed, chunk), so ``block(lo, hi)`` is the same however the archive is cut, and one larger than memory can be
written by any number of workers::

    spikes = TetrodeSimulator(n_rows=10_000_000, n_units=33, seed=1)
    for lo in range(0, spikes.n_rows, 65_536):
        X, labels = spikes.block(lo, min(lo + 65_536, spikes.n_rows))

Spikes with the defaults are easier to sort than real ones. Options that make them harder come in three sets::

    X, labels = tetrodes(50_000, 18, seed=1, **BIOPHYSICAL)  # as a simulation with biophysical cell models
    X, labels = tetrodes(50_000, 18, seed=1, **LIFELIKE)  # with bursts that shrink, and drift
    X, labels = tetrodes(6_000, 6, seed=1, **HASH)  # with four of five rows in no unit: label -1
"""

from bigsmic.datasets.blobs import uneven_blobs
from bigsmic.datasets.machines import REGIMES, MachineSimulator
from bigsmic.datasets.mixtures import MixtureSimulator, gaussian_mixture
from bigsmic.datasets.row_generators import CHUNK_ROWS, BlockSimulator
from bigsmic.datasets.spikes import BIOPHYSICAL, HASH, LIFELIKE, TetrodeSimulator, TetrodeUnits, tetrodes
from bigsmic.datasets.toys import TOYS, circle_and_gaussian, double_spirals, four_blobs, two_densities

__all__ = [
    "BIOPHYSICAL",
    "CHUNK_ROWS",
    "HASH",
    "LIFELIKE",
    "REGIMES",
    "TOYS",
    "BlockSimulator",
    "MachineSimulator",
    "MixtureSimulator",
    "TetrodeSimulator",
    "TetrodeUnits",
    "circle_and_gaussian",
    "double_spirals",
    "four_blobs",
    "gaussian_mixture",
    "tetrodes",
    "two_densities",
    "uneven_blobs",
]
