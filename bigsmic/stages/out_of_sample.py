"""Predictions for new rows: eigenvectors extended through their neighbours among the fitted rows."""

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.graph import affinity, candidates, cells, neighbor_lists, neighbors
from bigsmic.numerics.graph.affinity import WEIGHT_FLOOR
from bigsmic.numerics.graph.neighbor_lists import tth_squares
from bigsmic.numerics.labeling import calibration, rotation
from bigsmic.numerics.labeling import consensus as consensus_numerics
from bigsmic.numerics.labeling import gaussians as gaussians_numerics
from bigsmic.numerics.labeling import neighbor_votes as neighbor_votes_numerics
from bigsmic.numerics.labeling import noise as noise_numerics
from bigsmic.numerics.row_blocks import tiles
from bigsmic.runtime.context import Context
from bigsmic.stages import (
    choice,
    consensus,
    eigenvectors,
    gaussians,
    hubs,
    kernel_matrix,
    labelings,
    neighbor_votes,
    noise,
    output,
    projection,
    route,
    shown_number,
    trimming,
    valley_trees,
)
from bigsmic.stages.labeling_specs import Eigenproblem, eigenproblems, specs_of, widest
from bigsmic.stages.labelings import Reader
from bigsmic.types import Floats, Integers

Reads = dict[str, tuple[str, ...] | None]
"""Stages that a model reads, with their arrays; None for all."""
LEAST_EIGENVALUE = 0.01
"""Least eigenvalue, as a share of the largest. The extension divides the residual of a solve to 1e-4 by it."""


NEIGHBORS: Reads = {"cells": None, "route": ("counts",), "rows": ("X", "cell"), "graph": ("sigma",), hubs.HUBS: ()}


class Chosen(NamedTuple):
    """Neighbours of new rows, chosen among candidates as those of fitted rows are.

    Parameters
    ----------
    indices : ndarray of int, shape (b, k)
        Positions of fitted rows; -1 where there is none.
    squares : ndarray of float32, shape (b, k)
        Squared distances.
    separated : ndarray of float64, shape (b, k)
        Their separations, ascending, or their squared distances, float32, if graphs of the fit have the nearest ones.
        A fitted row lists the new one as well if its reach is no less.
    nearest : ndarray of float32, shape (b, w)
        Squared distances to all candidates, ascending.
    """

    indices: np.ndarray
    squares: np.ndarray
    separated: np.ndarray
    nearest: np.ndarray


class Neighborhood:
    """Neighbours of new rows among the fitted ones, and the kernel with them.

    Parameters
    ----------
    context : Context
        Has the settings of the neighbour graph.

    Attributes
    ----------
    chooses : bool
        Whether neighbours are chosen among more candidates.
    n_found : int
        Number of the nearest fitted rows that are searched for each new row.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self.chooses = hubs.are_chosen(context)
        self.n_found = context.settings.n_candidates if self.chooses else context.settings.n_neighbors
        self.reads = NEIGHBORS | ({"graph": ("scale", "sigma", "reach")} if self.chooses else {})

    def __call__(self, X: Floats) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """Posteriors and labels of scaled rows, float32 (b, c) and int32 (b,)."""
        return self.read(*self.search(X), X)

    def read(
        self, indices: Integers, squares: Floats, X: Floats | None = None, remainders: Floats | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """Posteriors and labels of rows with known neighbours among the fitted rows; X are the scaled rows, if any.

        `remainders` are norms of what components leave of the rows, if X are components.
        """
        raise NotImplementedError

    def search(self, X: Floats, count: int | None = None) -> tuple[Integers, Floats]:
        """Positions and squared distances of the nearest training rows, `count` of them or as many as in a fit."""
        context = self.context
        best = neighbor_lists.empty_lists(len(X), count or self.n_found)
        probes = cells.probe(X, route.read_cells(context))
        for p in context.blocks:
            read = context.run.reader("rows", p)
            lo, hi = context.layout.bounds[p : p + 2]
            residents = neighbors.Residents(read("X"), np.arange(lo, hi), read("cell"))
            best = neighbors.update_knn(best, X, probes, residents, context.settings.n_neighbors)
        return best

    def _touched(self, indices: Integers) -> tuple[Integers, Integers]:
        """The distinct fitted rows among neighbours, ascending, and the index of each neighbour in them.

        Where no row has a neighbour, as none is at a distance that float32 can hold, one fitted row stands for all.
        """
        known = np.unique(indices[indices >= 0]) if (indices >= 0).any() else np.zeros(1, np.int64)
        return known, np.searchsorted(known, np.maximum(indices, 0)).clip(max=len(known) - 1)

    def choose(self, indices: Integers, squares: Floats) -> Chosen:
        """Choose the neighbours among candidates, which are by distance."""
        if not self.chooses:
            return Chosen(indices, squares, squares, squares)
        known, local = self._touched(indices)
        theirs = self._gather(lambda p: self.context.run.read("graph", p, "scale"), known)[local]
        separated = candidates.separations(squares, candidates.local_scales(squares)[:, None], theirs)
        return Chosen(
            *candidates.least_separated(indices, squares, separated, self.context.settings.n_neighbors), squares
        )

    def _weights(self, eigenproblem: Eigenproblem, chosen: Chosen, known: Integers, local: Integers) -> Floats:
        """Kernel with the t first neighbours, and with others that would have x among their own."""
        t, (indices, squares, separated, nearest) = eigenproblem.t, chosen
        i = self.context.settings.t.index(t)
        sigma = self._gather(lambda p: self.context.run.read("graph", p, "sigma", i)[0], known)[local]
        own = np.sqrt(nearest[:, min(t, nearest.shape[1]) - 1])[:, None]
        if self.chooses:
            reach = self._gather(lambda p: self.context.run.read("graph", p, "reach", i)[0], known)[local]
            is_listed = separated <= reach
        else:
            is_listed = np.sqrt(squares) <= sigma
        near = ((np.arange(indices.shape[1]) < t) | is_listed) & (indices >= 0)
        found = kernel_matrix.weight_of(self.context)(
            squares[near], np.broadcast_to(own, squares.shape)[near], sigma[near]
        )
        weights = np.zeros(squares.shape, np.float32)
        weights[near] = np.maximum(found, np.float32(WEIGHT_FLOOR)) if eigenproblem.kernel == "normalized" else found
        return weights * trimming.factors(self.context, known)[local] if trimming.are_trimmed(self.context) else weights

    def row_numbers(self, positions: Integers) -> NDArray[np.int64]:
        """Numbers of the fitted rows at some positions, ascending."""
        return self._gather(lambda p: self.context.run.read("rows", p, "rows"), positions)

    def mean_sigma(self, indices: Integers, squares: Floats) -> NDArray[np.float64]:
        """Mean over the first t neighbours of the distance to their own t-th nearest, largest t: shape (b,)."""
        t, indices = self.context.settings.t, self.choose(indices, squares).indices
        known, local = self._touched(indices)
        of_t = t.index(max(t))
        sigma = self._gather(lambda p: self.context.run.read("graph", p, "sigma", of_t)[0], known)
        near = (np.arange(indices.shape[1]) < max(t)) & (indices >= 0)
        total: NDArray[np.float64] = np.where(near, sigma[local], 0).sum(axis=1, dtype=np.float64)
        return total / np.maximum(near.sum(axis=1), 1)

    def _product(
        self, found: tuple[Integers, Floats], eigenproblem: Eigenproblem, read_columns: Callable[..., Any]
    ) -> Floats:
        """``K(x, X) C`` for rows with known candidates and squared distances; float32, shape (b, m).

        `read_columns` reads C at the rows of a block.
        """
        chosen = self.choose(*found)
        known, local = self._touched(chosen.indices)
        weights, C = self._weights(eigenproblem, chosen, known, local), self._gather(read_columns, known)
        return rotation.extend(weights, local, C, np.ones(C.shape[1]))

    def _gather(self, read_block: Callable[..., Any], positions: Integers) -> NDArray[Any]:
        """Entries of a per-row array at some positions, ascending."""
        bounds = self.context.layout.bounds
        cuts = np.searchsorted(positions, bounds)
        parts = [
            read_block(p)[positions[cuts[p] : cuts[p + 1]] - bounds[p]]
            for p in self.context.blocks
            if cuts[p + 1] > cuts[p]
        ]
        return np.concatenate(parts)


_CHOICE: Reads = {
    "consensus": None,
    choice.STAGE: None,
    "scores": ("lsmi",),
    "spectrum": ("ritz_values",),
    "final": ("labels",),
    "sharpness": None,
}
"""Arrays from which a Model knows the labelings of the result."""


class Model(Neighborhood):
    """Model of a finished fit that predicts posteriors and labels; blocks of fitted rows are read when needed.

    Parameters
    ----------
    context : Context
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.n_clusters = context.settings.n_clusters
        self.classes = choice.members(context)
        is_one = choice.chosen(context) is not None
        self.tied = [] if is_one else consensus.tied_classes(context, choice.chosen_set(context))
        self.readers = {b: Reader(context, specs_of(context)[b]) for b in self.classes}
        self.eigenproblems = list(dict.fromkeys(specs_of(context)[b].eigenproblem for b in self.classes))
        self.power = output.sharpness(context)
        self.shapes = gaussians.read(context)
        self.neighbors_vote = neighbor_votes.are_counted(context)
        self.spacing = noise.read_spacing(context) if context.settings.finds_noise else None
        self.reads = self.reads | _CHOICE | {labelings.frame_name(r.spec): None for r in self.readers.values()}
        if specs_of(context).by_valleys:  # which labelings are returned depends on them, too
            self.reads |= {valley_trees.VALLEYS: None, shown_number.NUMBER: None}
        normalised = [eigenproblem for eigenproblem in self.eigenproblems if eigenproblem.kernel == "normalized"]
        self.reads |= {kernel_matrix.degree_name(eigenproblem): ("degree",) for eigenproblem in normalised}
        self.reads |= {self._basis_name(eigenproblem): None for eigenproblem in self.eigenproblems}
        self.reads |= {noise.SPACING: None} if context.settings.finds_noise else {}
        self.reads |= trimming.stages(context)
        self.reads |= {gaussians.GAUSSIANS: None} if self.shapes else {}

    def _basis_name(self, eigenproblem: Eigenproblem) -> str:
        """Name of the stage of the columns that are extended to new rows."""
        return eigenvectors.basis_name(eigenproblem)

    def read(
        self, indices: Integers, squares: Floats, X: Floats | None = None, remainders: Floats | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """Posteriors and labels, -1 for noise, of rows with known neighbours among the fitted rows."""
        posterior, labels = self._assign(indices, squares, X)
        if self.spacing is not None:
            labels[noise_numerics.is_noise(self._noise(labels, indices, squares, remainders))] = -1
        return posterior, labels

    def noise(self, X: Floats, remainders: Floats | None = None) -> NDArray[np.float32]:
        """Noise scores of scaled rows, float32 (b,); `remainders` as in :meth:`read`."""
        return self.read_noise(*self.search(X), X, remainders)

    def read_noise(
        self, indices: Integers, squares: Floats, X: Floats | None = None, remainders: Floats | None = None
    ) -> NDArray[np.float32]:
        """Noise scores of rows with known neighbours among the fitted rows."""
        return self._noise(self._assign(indices, squares, X)[1], indices, squares, remainders)

    def _noise(
        self, labels: Integers, indices: Integers, squares: Floats, remainders: Floats | None
    ) -> NDArray[np.float32]:
        """Noise scores of rows with known clusters, neighbours and squared distances to these."""
        t, equal = self.context.settings.t, self._are_fitted(indices, squares)
        distance = np.sqrt(tth_squares(squares, max(t)))
        read = self.context.run.read
        distance[equal] = self._of_nearest(lambda p: read("graph", p, "sigma", t.index(max(t)))[0], indices[equal])
        distance = projection.over_all_columns(self.context, distance, remainders)
        found: NDArray[np.float32] = noise_numerics.scores(noise_numerics.log_distance(distance), labels, self.spacing)
        return found

    def _assign(
        self, indices: Integers, squares: Floats, X: Floats | None
    ) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """Posteriors of rows, and their clusters, even if they are noise."""
        chosen = self.choose(indices, squares)
        bases = {eigenproblem: self._extend(eigenproblem, chosen) for eigenproblem in self.eigenproblems}
        c = self.context.settings.n_clusters
        total, votes = np.zeros((len(indices), c)), np.zeros((len(indices), c), np.int32)
        rows, has_mass = np.arange(len(indices)), np.zeros(len(indices), bool)
        for (b, reader), part in product(self.readers.items(), tiles(len(rows), labelings.TILE_ROWS)):
            found = reader(bases[reader.spec.eigenproblem][part, : reader.spec.n_eigenvectors])
            total[part] += consensus_numerics.group_columns(found.posterior, self.classes[b], c)
            to = self.classes[b][found.labels]
            votes[rows[part][to >= 0], to[to >= 0]] += 1
            has_mass[part] |= found.has_mass
        del bases
        posterior = (total / len(self.readers)).astype(np.float32)
        del total
        labels = consensus_numerics.consensus_labels(votes, posterior, self.tied)
        labels = self._adopt(labels, has_mass, indices)
        if self.shapes is not None and X is not None:
            P = self.shapes.components(X)
            labels, posterior = self.shapes.relabelled(P, votes / len(self.readers), labels, posterior)
        if self.neighbors_vote:
            before, labels = labels, self._after_vote(labels, chosen)
            posterior = gaussians_numerics.halved(posterior, labels, labels != before)
        equal, before = self._are_fitted(indices, squares), labels.copy()
        labels[equal] = self._labels_of_nearest(indices[equal])
        posterior = gaussians_numerics.halved(posterior, labels, labels != before)
        return calibration.sharpened(posterior, self.power), labels

    def _after_vote(self, labels: Integers, chosen: Chosen) -> NDArray[np.int32]:
        """Labels of rows after a vote of their neighbours among the fitted rows, but for outliers."""
        known, local = self._touched(chosen.indices)
        votes = self._gather(lambda p: self.context.run.read("final", p, "labels"), known)[local]
        weights = self._weights(widest(self.context), chosen, known, local)
        of_row = np.repeat(np.arange(len(labels)), chosen.indices.shape[1])
        found = neighbor_votes_numerics.after_vote(labels, of_row, votes.ravel(), weights.ravel(), self.n_clusters)
        log_sigma = noise_numerics.log_distance(np.sqrt(tth_squares(chosen.nearest, max(self.context.settings.t))))
        return np.where(neighbor_votes.are_inside(self.context, log_sigma, labels), found, labels)

    def _extend(self, eigenproblem: Eigenproblem, chosen: Chosen) -> Floats:
        """``v(x) = K(x, X) V Lambda^-1`` on the neighbours of each new row."""
        known, local = self._touched(chosen.indices)
        weights = self._weights(eigenproblem, chosen, known, local)
        degrees = self._degrees(eigenproblem, weights, known) if eigenproblem.kernel == "normalized" else (None, None)
        V, values = self._basis(eigenproblem, known)
        usable = values > LEAST_EIGENVALUE * np.abs(values).max()
        if usable.all():
            return rotation.extend(weights, local, V, values, *degrees)
        extension = np.zeros((len(weights), len(values)), np.float32)
        extension[:, usable] = rotation.extend(weights, local, V[:, usable], values[usable], *degrees)
        return extension

    def _degrees(self, eigenproblem: Eigenproblem, weights: NDArray[Any], known: Integers) -> tuple[Floats, Floats]:
        """Degrees for normalisation, of some training rows and of the new ones."""
        fitted = self._gather(lambda p: kernel_matrix.read_degree(self.context, eigenproblem, p), known)
        mean = self._solved(eigenproblem, self.context.run.info)["mean_degree"]
        s = kernel_matrix.shrinkage(self.context, eigenproblem)
        own = weights.sum(axis=1, dtype=np.float64)
        return affinity.shrunk(fitted, mean, s), affinity.shrunk(own, mean, s)

    def _solved(self, eigenproblem: Eigenproblem, read: Callable[..., Any], *name: str) -> Any:
        """Stored arrays of the solve of an eigenproblem."""
        return read("spectrum", eigenproblems(self.context.settings).index(eigenproblem), *name)

    def _basis(self, eigenproblem: Eigenproblem, known: Integers) -> tuple[Floats, Floats]:
        """Eigenvectors at some training rows, and eigenvalues."""
        values = self._solved(eigenproblem, self.context.run.read, "ritz_values")
        return self._gather(lambda p: self.context.run.read(self._basis_name(eigenproblem), p, "V"), known), values

    def _adopt(self, labels: NDArray[np.int32], has_mass: NDArray[np.bool_], indices: Integers) -> NDArray[np.int32]:
        """Labels in which a row without a positive column takes the label of its nearest training row."""
        orphans = ~has_mass & (indices[:, 0] >= 0)
        labels[orphans] = self._labels_of_nearest(indices[orphans])
        return labels

    def _are_fitted(self, indices: Integers, squares: Floats) -> NDArray[np.bool_]:
        """Whether rows are equal to a fitted one, whose cluster and spacing are theirs; none is known by affinities."""
        is_near = (indices[:, 0] >= 0) & (squares[:, 0] == 0)
        return is_near if self.context.settings.kernel != "precomputed" else np.zeros_like(is_near)

    def _labels_of_nearest(self, indices: Integers) -> NDArray[Any]:
        """Clusters of the nearest fitted rows, shape (b,)."""
        return self._of_nearest(lambda p: self.context.run.read("final", p, "labels"), indices)

    def _of_nearest(self, read_block: Callable[..., Any], indices: Integers) -> NDArray[Any]:
        """Entries of a per-row array at the nearest fitted rows, shape (b,)."""
        nearest, inverse = np.unique(indices[:, 0], return_inverse=True)
        return self._gather(read_block, nearest)[inverse] if len(nearest) else np.zeros(0, np.int32)
