"""hubs: whether many rows are in no other row's list, and then neighbours chosen among more candidates."""

from functools import partial

import numpy as np

from bigsmic.numerics.graph import candidates, neighbor_lists
from bigsmic.numerics.hashing import draw_rows
from bigsmic.numerics.row_blocks import tiles
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.types import Floats, Integers

HUBS, LISTS, CANDIDATES, CHOSEN = "hubs", "lists", "candidates", "chosen"
"""Stages: the facts, lists of the nearest, lists of more candidates, and lists of those that are chosen among them."""
HUB_NEIGHBORS = 10  # of a row that count in in-degrees
HUB_ROWS = 20_000
"""Rows of which it is known whether they are in another row's list."""
STRIP_ROWS = 2048  # whose candidates are compared at a time


def are_chosen(context: Context) -> bool:
    """Whether neighbours are chosen among more candidates, as there are hubs."""
    return context.run.done(HUBS, 0) and bool(context.run.info(HUBS, 0)["chosen"])


def lists_name(context: Context) -> str:
    """Name of the stage of the lists from which the graph is made."""
    return CHOSEN if are_chosen(context) else LISTS


def look(job: Job, block: int) -> None:
    """Find out how dense the neighbours of some rows lie, how many of these are in no list, and so what is to be done.

    Lists are of the ten nearest. A row with copies is not looked for in lists, as these have one of the copies.
    """
    context = job.context
    drawn = draw_rows(context.n, HUB_ROWS, context.settings.seed, HUBS)
    asked = job.map_blocks(HUBS, context.blocks, partial(_lists_of, drawn=drawn))
    positions, neighbors, scales = (np.concatenate(arrays) for arrays in zip(*asked, strict=True))
    known, places = np.unique(neighbors[neighbors >= 0], return_inverse=True)
    found = job.map_blocks(HUBS, context.blocks, partial(_look_up, positions=positions[positions >= 0], listed=known))
    listed, of_known = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
    n_looked_for = np.count_nonzero(positions >= 0)
    own = np.repeat(scales, (neighbors >= 0).sum(axis=1))
    denser = float(np.mean(own > candidates.DENSER * of_known[places])) if len(own) else 0.0
    unlisted = 1 - len(np.unique(listed)) / n_looked_for if n_looked_for else 0.0
    chosen = context.settings.chooses_neighbors and candidates.are_many(denser, unlisted)
    info = {"denser": denser, "unlisted": float(unlisted), "rows": len(drawn), "chosen": bool(chosen)}
    context.run.write(HUBS, block, {}, info=info)


def _lists_of(context: Context, p: int, drawn: Integers) -> tuple[Integers, Integers, Floats]:
    """Positions of the drawn rows of one block, -1 of those with copies; their ten nearest; and their local scales."""
    read, lo = context.run.reader(LISTS, p), int(context.layout.bounds[p])
    own = np.flatnonzero(np.isin(context.run.read("rows", p, "rows"), drawn))
    squares = read("squares")[own]
    positions = np.where(squares[:, 0] > 0, own + lo, -1)
    return positions, read("indices")[own, :HUB_NEIGHBORS], candidates.local_scales(squares)


def _look_up(context: Context, p: int, positions: Integers, listed: Integers) -> tuple[Integers, Floats]:
    """Indices of those `positions`, ascending, that rows of one block list; local scales of those `listed` in it."""
    read = context.run.reader(LISTS, p)
    lo, hi = (int(b) for b in context.layout.bounds[p : p + 2])
    indices = read("indices")[:, :HUB_NEIGHBORS].ravel()
    here = (indices >= lo) & (indices < hi)
    is_listed = np.zeros(hi - lo, bool)
    is_listed[indices[here] - lo] = True
    first, last = np.searchsorted(positions, (lo, hi))
    inside = first + np.flatnonzero(is_listed[positions[first:last] - lo])
    found = np.concatenate([inside, np.flatnonzero(np.isin(positions, indices[~here]))])
    of_block = listed[np.searchsorted(listed, lo) : np.searchsorted(listed, hi)] - lo
    return found, candidates.local_scales(read("squares")[of_block])


def choose(context: Context, p: int) -> None:
    """Neighbours of the rows of one block, and how near to a row others are that list it as well.

    ``sigma`` has distances to the t-th nearest, and ``reach`` separations from the t-th neighbours.
    """
    read, lo, settings = context.run.reader(CANDIDATES, p), int(context.layout.bounds[p]), context.settings
    indices, squares, scales = read("indices"), read("squares"), read("scale")
    strips = []
    for strip in tiles(len(indices), STRIP_ROWS):
        theirs = _scales_of(context, indices[strip], lo, scales)
        separated = candidates.separations(squares[strip], scales[strip, None], theirs)
        strips.append(candidates.least_separated(indices[strip], squares[strip], separated, settings.n_neighbors))
    chosen, near, separated = (np.concatenate(arrays) for arrays in zip(*strips, strict=True))
    sigma = np.sqrt(np.stack([neighbor_lists.tth_squares(squares, t) for t in settings.t]))
    reach = np.stack([neighbor_lists.tth_squares(separated, t) for t in settings.t])
    arrays = {"indices": chosen, "squares": near, "scale": scales, "sigma": sigma, "reach": reach}
    context.run.write(CHOSEN, p, arrays)


def _scales_of(context: Context, indices: Integers, lo: int, scales: Floats) -> Floats:
    """Local scales of candidates, of which most are in the block itself; 1 where there is none."""
    found = np.ones(indices.shape, np.float32)
    inside = (indices >= lo) & (indices < lo + len(scales))
    found[inside] = scales[indices[inside] - lo]
    outside = ~inside & (indices >= 0)
    if outside.any():
        positions, of_entries = np.unique(indices[outside], return_inverse=True)
        found[outside] = context.at("scale", partial(_read_scales, context), positions)[of_entries]
    return found


def _read_scales(context: Context, p: int) -> Floats:
    found: Floats = context.run.read(CANDIDATES, p, "scale")
    return found
