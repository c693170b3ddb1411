"""Work of a SMIC fit, in the units whose seconds are measured; see :mod:`bigsmic.runtime.duration`."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from bigsmic.methods.smic.planning import disputed_settings
from bigsmic.numerics.eigen.lanczos_state import LanczosParams
from bigsmic.numerics.labeling.local_moving import N_SWEEPS
from bigsmic.runtime.duration import Answer, Rates, Work
from bigsmic.runtime.planning import EDGES_PER_NEIGHBOR, GHOSTS, Plan, lent_rows
from bigsmic.stages.labeling_specs import LabelingSpecs, eigenproblems, valley_columns

BLOCK_WIDTH = LanczosParams(1).block_width
HALF_GROWN = 4 * BLOCK_WIDTH  # columns of a basis beyond the wanted ones, on average
BASIS_READS = 3  # for a block of vectors: two passes over the basis, and what further orthogonalisation takes
SPARE_MOVES = 4  # of vectors on disk: the product is read and written, and then exchanged for what was multiplied
ALWAYS_VISITED, SAMPLED_PER_CELL = 2, 10  # cells that every row visits; least rows of the sample in a cell
NUMBER_BYTES = 8  # of a neighbour: its number and its distance
WITH_HALO = 2  # rows of a block and of its halo, over those of the block

Missed = Callable[[float], float]
"""Share of random reads, of vectors of so many bytes in all, that the cache does not serve."""


class Solve(NamedTuple):
    """What the solver of one eigenproblem does.

    Parameters
    ----------
    t : int
        Neighbours of the graph.
    n_vectors : int
    products : float
        Of the matrix with one vector.
    steps : float
        Vectors that were orthogonalised.
    """

    t: int
    n_vectors: int
    products: float
    steps: float


def works(plan: Plan, settings: Any, rates: Rates) -> tuple[Work, Work]:
    """Work of a fit of rows with clear clusters, whose labels come from valleys alone, and with unclear ones."""
    n_columns = valley_columns(settings, plan.size.n)
    plain = settings.by_valleys(n_columns) if settings.begins_with_valleys and n_columns else settings
    every = next(iter(disputed_settings(settings, plan.size.n)), settings)
    clear, unclear = (
        work(plan, of_kind, _solves(of_kind, plan.size.n, rates.answers[kind]), rates.missed)
        for kind, of_kind in (("clear", plain), ("unclear", every))
    )
    return clear, unclear


def _solves(settings: Any, n: int, answer: Answer) -> list[Solve]:
    m = LabelingSpecs(settings, n).most_eigenvectors
    limit = LanczosParams(m, max_matvecs=settings.max_matvecs).matvec_limit
    products, steps = (min(m * each, limit) for each in answer.at(n))
    return [Solve(eigenproblem.t, m, products, steps) for eigenproblem in eigenproblems(settings)]


def work(plan: Plan, settings: Any, solves: Sequence[Solve], missed: Missed) -> dict[str, float]:
    """Units of work of the stages that a plan has, by ``stage.kind``.

    Parameters
    ----------
    plan : Plan
    settings : Settings
        Those by which labels are derived.
    solves : list of Solve
        One for each eigenproblem.
    missed : Missed
    """
    found = _of_neighbors(plan, settings, missed) | _of_eigen(plan, solves, missed) | _of_labels(plan, settings, solves)
    if plan.size.n_workers > 1:
        found |= _of_messages(plan, settings, solves)
    return {name: amount for name, amount in found.items() if name.split(".")[0] in plan.stages}


def _of_neighbors(plan: Plan, settings: Any, missed: Missed) -> dict[str, float]:
    """Units until the graph is there."""
    n, d, features = plan.size.n, plan.size.d, settings.n_features(plan.size.d)
    partition = plan.size.block_sizes.partition(n, d)
    n_cells = max(1.0, min(n / partition.cell_rows, plan.sample_rows / SAMPLED_PER_CELL))
    pairs = n * min(n, max(partition.candidates, ALWAYS_VISITED * n / n_cells))
    group_bytes = GHOSTS * _block_rows(plan) * (4 * features + NUMBER_BYTES * settings.n_neighbors)
    return {
        "scan.values": plan.size.values,
        "route.values": n * d,
        "route.centroids": n * math.sqrt(n_cells),
        "route.fixed": 1.0,
        "neighbors.pairs": pairs,
        "neighbors.values": pairs * features,
        "neighbors.rows": n,
        "neighbors.missed": pairs * missed(group_bytes),
        "graph.edges": n * settings.n_neighbors * (1 + len(settings.t)),
        "graph.fixed": 1.0,
    }


def _of_eigen(plan: Plan, solves: Sequence[Solve], missed: Missed) -> dict[str, float]:
    """Units of the eigensolver: entries times vectors, rows that blocks copy, dense algebra, and what is on disk."""
    n = plan.size.n
    entries = sum(_entries(n, solve.t) * solve.products for solve in solves)
    dense = sum(n * (solve.n_vectors + HALF_GROWN) * solve.steps for solve in solves)
    return {
        "eigen.entries": entries,
        "eigen.missed": entries * missed(4 * BLOCK_WIDTH * WITH_HALO * _block_rows(plan)),
        "eigen.gathered": n * sum(solve.products for solve in solves) * missed(4 * BLOCK_WIDTH * plan.size.held_rows),
        "eigen.dense": dense,
        "eigen.basis_bytes": 4 * dense * BASIS_READS / BLOCK_WIDTH * _share_on_disk(plan, solves)
        + (0.0 if plan.vectors_in_memory else 4 * SPARE_MOVES * n * sum(solve.products for solve in solves)),
        "eigen.matrix_bytes": 0.0 if plan.kernel_in_memory else 8 * entries / BLOCK_WIDTH,
        "eigen.built": sum(_entries(n, solve.t) for solve in solves),
        "eigen.fixed": 1.0,
    }


def _of_labels(plan: Plan, settings: Any, solves: Sequence[Solve]) -> dict[str, float]:
    """Units of the stages that derive labels from eigenvectors."""
    n, specs = plan.size.n, LabelingSpecs(settings, plan.size.n)
    squares = sum(spec.n_eigenvectors**2 for spec in specs)
    moved = sum(_entries(n, spec.eigenproblem.t) for spec in specs if spec.assignment in ("merge", "valleys"))
    return {
        "assign.turned": float(n * squares),
        "assign.moved": moved,
        "assign.serial": float(squares),
        "valleys.rows": float(n * len(solves)),
        "valleys.serial": float(sum(solve.n_vectors**2 for solve in solves)),
        "select.rows": float(n * len(specs)),
        "select.fixed": 1.0,
        "output.turned": float(n * sum(solve.n_vectors**2 for solve in solves)),
        "output.values": float(plan.size.values if plan.size.graph else n * settings.n_features(plan.size.d)),
        "output.fixed": 1.0,
    }


def _of_messages(plan: Plan, settings: Any, solves: Sequence[Solve]) -> dict[str, float]:
    """Rounds of messages between workers, and bytes that these send."""
    lent = lent_rows(plan.size.n, plan.size.n_workers)
    products, steps = (sum(column) / BLOCK_WIDTH for column in zip(*(solve[2:] for solve in solves), strict=True))
    n_specs = len(LabelingSpecs(settings, plan.size.n))
    return {
        "eigen.rounds": products + 2 * steps,
        "eigen.sent": 4 * BLOCK_WIDTH * products * lent,
        "assign.rounds": 2.0 * N_SWEEPS * len(solves),
        "assign.sent": N_SWEEPS * n_specs * lent,
    }


def _entries(n: int, t: int) -> float:
    return n * EDGES_PER_NEIGHBOR * t


def _block_rows(plan: Plan) -> float:
    return plan.size.n / plan.stages["eigen"].tasks


def _share_on_disk(plan: Plan, solves: Sequence[Solve]) -> float:
    """Share of the basis that is on disk."""
    if plan.basis_in_memory:
        return 0.0
    columns = LanczosParams.suited(max(solve.n_vectors for solve in solves)).size(plan.size.n)
    return max(0.0, 1.0 - plan.basis_bytes / (4 * columns * plan.size.held_rows))
