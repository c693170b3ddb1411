"""Simulated data with known labels: tetrode spikes, a machine, Gaussian mixtures, uneven blobs, four toys in the plane.

Spikes, the machine and mixtures are generated in blocks. Rows are drawn in fixed chunks, each from a random generator
keyed by (seed, chunk). So ``block(lo, hi)`` does not depend on the other blocks, and any number of workers can write an
archive larger than memory::

    spikes = TetrodeSimulator(n_rows=10_000_000, n_units=33, seed=1)
    for lo in range(0, spikes.n_rows, 65_536):
        X, labels = spikes.block(lo, min(lo + 65_536, spikes.n_rows))

Spikes with the defaults are easier to sort than real ones. Three sets of options make them harder::

    X, labels = tetrodes(50_000, 18, seed=1, **BIOPHYSICAL)  # like a simulation with biophysical cell models
    X, labels = tetrodes(50_000, 18, seed=1, **LIFELIKE)  # with bursts that shrink, and drift
    X, labels = tetrodes(6_000, 6, seed=1, **HASH)  # with four rows in five in no unit: label -1
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
