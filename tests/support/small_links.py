"""Links between few rows, and their matrices written out."""

import itertools

import numpy as np

from bigsmic.numerics.constraints.links import make_links


def drawn_links(seed, n, c, m, *, labelled=0, close=False):
    """Links that the labels of a draw keep, and these labels."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, c, n)
    pairs = rng.integers(0, n, (m, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    same = truth[pairs[:, 0]] == truth[pairs[:, 1]]
    labels = np.full(n, -1)
    known = rng.permutation(n)[:labelled]
    labels[known] = truth[known]
    return make_links(n, c, must=pairs[same], cannot=pairs[~same], labels=labels, close=close), truth


def written_out(links):
    """M and C as dense matrices, all pairs that groups stand for included."""
    M, C = np.eye(links.n_rows), np.zeros((links.n_rows, links.n_rows))
    rows = links.rows
    for matrix, pairs in ((M, links.must), (C, links.cannot)):
        for i, j in pairs:
            matrix[rows[i], rows[j]] = matrix[rows[j], rows[i]] = 1
    apart = {frozenset(pair) for pair in links.apart.tolist()}
    for i, j in itertools.permutations(range(len(rows)), 2):
        g, h = links.group[i], links.group[j]
        if g >= 0 and g == h:
            M[rows[i], rows[j]] = 1
        if frozenset((int(g), int(h))) in apart:
            C[rows[i], rows[j]] = 1
    return M, C
