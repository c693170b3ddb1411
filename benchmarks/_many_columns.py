"""Draws of rows with many columns, of about the same variance: documents, embeddings, cells.

Clusters differ in few directions, which the leading principal components need not be.
"""

import numpy as np


def documents(seed):
    """Square roots of word frequencies: topics prefer some of 300 words, beside words that all have."""
    draw = np.random.default_rng([seed, 1])
    n_topics, n_rows, n_words = draw.integers(4, 15), draw.integers(1500, 5000), 300
    labels = _labels(draw, n_topics, n_rows)
    common = draw.dirichlet(np.full(n_words, 0.3))
    words = 0.65 * common + 0.35 * draw.dirichlet(np.full(n_words, 0.05), n_topics)
    lengths = draw.poisson(draw.uniform(60, 150), n_rows) + 5
    counts = np.stack([draw.multinomial(n, words[y]) for n, y in zip(lengths, labels, strict=True)])
    return np.sqrt(counts / lengths[:, None]).astype(np.float32), labels


def embeddings(seed):
    """Unit vectors around random directions, each cluster wider along eight directions of its own."""
    draw = np.random.default_rng([seed, 2])
    c, n_rows, d = draw.integers(6, 40), draw.integers(2000, 8000), draw.choice([64, 128, 384])
    labels = _labels(draw, c, n_rows)
    centers = draw.normal(size=(c, d))
    centers /= np.linalg.norm(centers, axis=1, keepdims=True)
    wide = draw.normal(size=(c, 8, d)) / np.sqrt(d)
    X = centers[labels] + draw.uniform(0.6, 1.4) * draw.normal(size=(n_rows, d)) / np.sqrt(d)
    X += 0.6 * np.einsum("ij,ijd->id", draw.normal(size=(n_rows, 8)), wide[labels])
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32), labels


def cells(seed):
    """Log counts of 1,000 genes in cells: types differ in some genes, by factors, and some types from another type."""
    draw = np.random.default_rng([seed, 3])
    n_types, n_rows, n_genes = draw.integers(5, 16), draw.integers(2000, 8000), 1000
    labels = _labels(draw, n_types, n_rows)
    factors = np.ones((n_types, n_genes))
    for y in range(n_types):
        genes = draw.choice(n_genes, draw.integers(30, 90), replace=False)
        factors[y, genes] = draw.lognormal(0.6, 0.6, len(genes)) ** draw.choice([1, -1], len(genes))
        if y and draw.random() < 0.6:
            factors[y] *= factors[draw.integers(0, y)]
    shares = draw.lognormal(0, 1.2, n_genes) * factors
    shares /= shares.sum(axis=1, keepdims=True)
    expected = shares[labels] * draw.lognormal(np.log(2000), 0.4, n_rows)[:, None]
    counts = draw.poisson(expected * draw.gamma(5, 1 / 5, expected.shape))
    return np.log1p(1e4 * counts / counts.sum(axis=1, keepdims=True)).astype(np.float32), labels


def _labels(draw, c, n_rows):
    """Labels of rows in random order; the smallest clusters have a fourth to a third of the mean size."""
    shares = np.maximum(draw.dirichlet(np.full(c, 2.0)), 0.3 / c)
    return draw.permutation(np.repeat(np.arange(c), draw.multinomial(n_rows, shares / shares.sum())))
