"""Regularized information maximization: labels of rows by a unsupervised classifier.

A classifier that gives row i the logits ``z_i`` has ``p(k|x_i) = softmax_k(z_i)``. Its parameters maximise [1]_

    F = tau (-KL(p^ || D) - mean_i H(p(.|x_i))) + sum over labelled rows of log p(y_i|x_i) - R

where ``p^`` is the mean posterior and D a prior over categories; without one, ``-KL`` is the entropy ``H(p^)``, and
the first bracket is the mutual information of rows and labels. Sure labels, categories in use, and R against boundaries
that bend: categories that do not earn their keep die out, and the ones alive are the clusters.

Everything up to :func:`logit_gradient` knows logits only, whatever gives them. From there on they are linear,

    z_i = W' x_i + b,     R = reg |W|^2,     dF/dW = sum_i x_i (dF/dz_i)' - 2 reg W,     dF/db = sum_i dF/dz_i

The mean posterior stands in the gradient of every row, so an exact gradient takes two sweeps: :func:`information`
added up over blocks, then :func:`linear_gradient`. A minibatch has a mean posterior of its own.

References
----------
.. [1] Gomes, Krause, Perona, "Discriminative clustering by regularized information maximization", NIPS 2010.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from bigsmic.errors import CollapseError
from bigsmic.numerics.hashing import generator
from bigsmic.numerics.moments import class_sums

TILE_ROWS = 2048  # rows whose posteriors stay in the cache; float32 sums of so few are exact enough
START_STEPS = 3  # of the supervised classifier: boundaries that are still soft, so that categories can die
LLOYD_STEPS = 10
_TINY = 1e-300
_BETAS = (0.9, 0.999)  # of Adam
_STEEPEST = 20.0  # exponent of a power law


# -- from logits


class Weighting(NamedTuple):
    """What rows count for beside one each; None where every row counts 1, and none has a label.

    Parameters
    ----------
    weights : ndarray of float, shape (b,), or None
        At least 0.
    labels : ndarray of int, shape (b,), or None
        Known categories; -1 where there is none.
    """

    weights: np.ndarray | None = None
    labels: np.ndarray | None = None

    def __getitem__(self, rows):
        """The same for some of the rows; `rows` is a slice or an array of row numbers."""
        return Weighting(*(None if array is None else array[rows] for array in (self.weights, self.labels)))

    def unlabelled(self, b, dtype):
        """Weights (b,) of rows in the information: their own without a label, 0 with one."""
        weights = np.ones(b, dtype) if self.weights is None else self.weights.astype(dtype)
        return weights if self.labels is None else np.where(self.labels < 0, weights, 0).astype(dtype)

    def labelled(self, b, dtype):
        """Numbers of the labelled rows, their labels and their weights."""
        if self.labels is None:
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, dtype)
        rows = np.flatnonzero(self.labels >= 0)
        weights = np.ones(len(rows), dtype) if self.weights is None else self.weights[rows].astype(dtype)
        return rows, self.labels[rows], weights


EVERY_ROW = Weighting()


class Information(NamedTuple):
    """Sums over rows from which the objective follows; those of blocks add.

    Parameters
    ----------
    weight : ndarray of float64, shape ()
        Of the unlabelled rows.
    mass : ndarray of float64, shape (k,)
        ``sum_i p_i`` over the unlabelled rows, weighted.
    negentropy : ndarray of float64, shape ()
        ``sum_i sum_k p_ik log p_ik`` over them, weighted.
    counts : ndarray of int64, shape (k,)
        Rows, labelled or not, of which the category is the most probable.
    log_likelihood : ndarray of float64, shape ()
        ``sum_i log p(y_i|x_i)`` over the labelled rows, weighted.
    """

    weight: np.ndarray
    mass: np.ndarray
    negentropy: np.ndarray
    counts: np.ndarray
    log_likelihood: np.ndarray

    def __add__(self, other):
        return Information(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def marginal(self):
        """Mean posterior ``p^``, float64, shape (k,); uniform where every row is labelled."""
        k = len(self.mass)
        return self.mass / self.weight if self.weight > 0 else np.full(k, 1 / k)

    @property
    def alive(self):
        """Categories that are the most probable one of some row: bool, shape (k,)."""
        return self.counts > 0


def log_softmax(logits):
    """Logarithms of the posteriors, and the posteriors; the logits are overwritten.

    Parameters
    ----------
    logits : ndarray of float, shape (b, k)

    Returns
    -------
    log_posterior, posterior : ndarray of the same dtype, shape (b, k)
    """
    logits -= logits.max(axis=1, keepdims=True)
    posterior = np.exp(logits)
    total = posterior.sum(axis=1, keepdims=True)
    posterior /= total
    logits -= np.log(total)
    return logits, posterior


def information(log_posterior, posterior, weighting=EVERY_ROW):
    """Sums of some rows.

    Parameters
    ----------
    log_posterior, posterior : ndarray of float, shape (b, k)
        From :func:`log_softmax`. A few thousand rows at most: they are added in their dtype.
    weighting : Weighting

    Returns
    -------
    sums : Information
    """
    b, k = posterior.shape
    weights = weighting.unlabelled(b, posterior.dtype)
    rows, labels, label_weights = weighting.labelled(b, posterior.dtype)
    counts = np.bincount(posterior.argmax(axis=1), minlength=k)
    likelihood = np.dot(label_weights, log_posterior[rows, labels])
    entropies = np.einsum("ij,ij->i", posterior, log_posterior)
    found = (weights.sum(dtype=np.float64), weights @ posterior, weights @ entropies, counts, likelihood)
    return Information(*(np.asarray(f, np.int64 if f is counts else np.float64) for f in found))


def log_reference(marginal, prior=None):
    """Logarithm of the prior D at every category; 0 without one, as ``-KL`` is then the entropy.

    Parameters
    ----------
    marginal : ndarray of float64, shape (k,)
    prior : None, ndarray of float64, shape (k,), or "power"
        "power": ``D_k`` falls as a power of the rank of category k, with the exponent of least ``KL(p^ || D)``. As D is
        the best of its kind, ``dF/dD = 0``, and gradients hold as if it were given.

    Returns
    -------
    log_prior : ndarray of float64, shape (k,)
    """
    if prior is None:
        return np.zeros(len(marginal))
    if isinstance(prior, str):
        return _power_law(marginal)[0]
    return np.log(prior)


def power_exponent(marginal):
    """Exponent a of the power law ``rank^-a`` of least ``KL(p^ || D)``."""
    return _power_law(marginal)[1]


def _power_law(marginal):
    """Logarithms of the power law nearest to the marginal, and its exponent: the zero of a rising function."""
    k = len(marginal)
    rank = np.empty(k)
    rank[np.argsort(-marginal, kind="stable")] = np.arange(1, k + 1)
    logs = np.log(rank)
    wanted, low, high = float(marginal @ logs) / max(float(marginal.sum()), _TINY), 0.0, _STEEPEST
    for _ in range(50):
        middle = (low + high) / 2
        law = np.exp(-middle * logs)
        low, high = (middle, high) if law @ logs > wanted * law.sum() else (low, middle)
    return -low * logs - np.log(np.exp(-low * logs).sum()), low


def objective(sums, prior=None, tau=1.0):
    """F without its penalty.

    Parameters
    ----------
    sums : Information
        Of all rows.
    prior
        As in :func:`log_reference`.
    tau : float
        Weight of the information against the labels.

    Returns
    -------
    F : float
    """
    p = sums.marginal
    if sums.weight == 0:
        return float(sums.log_likelihood)
    divergence = p @ (np.log(np.maximum(p, _TINY)) - log_reference(p, prior))
    return float(tau * (sums.negentropy / sums.weight - divergence) + sums.log_likelihood)


class Reference(NamedTuple):
    """What the gradient at one row needs to know of all rows.

    Parameters
    ----------
    log_ratio : ndarray of float, shape (k,)
        ``log(p^_k / D_k)``.
    information : float
        Factor of a row's information: tau over the weight of the unlabelled rows.
    likelihood : float
        Factor of a labelled row's log-likelihood.
    """

    log_ratio: np.ndarray
    information: float
    likelihood: float = 1.0

    @classmethod
    def of(cls, sums, prior=None, tau=1.0, likelihood=1.0):
        """From the sums over all rows, or over a batch."""
        p = sums.marginal
        log_ratio = np.log(np.maximum(p, _TINY)) - log_reference(p, prior)
        return cls(log_ratio, tau / float(sums.weight) if sums.weight > 0 else 0.0, likelihood)


def logit_gradient(log_posterior, posterior, reference, weighting=EVERY_ROW):
    """dF/dz of some rows; the logarithms of their posteriors are overwritten.

    With ``a_k = log(p_k D_k / p^_k)``: ``dF/dz_k = tau w_i / W p_k (a_k - sum_j p_j a_j)`` at an unlabelled row, and
    ``w_i (1[k = y_i] - p_k)`` at a labelled one.

    Parameters
    ----------
    log_posterior, posterior : ndarray of float, shape (b, k)
    reference : Reference
    weighting : Weighting

    Returns
    -------
    gradient : ndarray of the same dtype, shape (b, k)
    """
    b, dtype = len(posterior), posterior.dtype
    gradient = log_posterior
    gradient -= reference.log_ratio.astype(dtype)
    gradient -= np.einsum("ij,ij->i", posterior, gradient)[:, None]
    gradient *= posterior
    if weighting.weights is None and weighting.labels is None:
        gradient *= dtype.type(reference.information)
        return gradient
    gradient *= (weighting.unlabelled(b, dtype) * dtype.type(reference.information))[:, None]
    rows, labels, label_weights = weighting.labelled(b, dtype)
    if len(rows):
        supervised = -posterior[rows]
        supervised[np.arange(len(rows)), labels] += 1
        gradient[rows] = supervised * (label_weights * dtype.type(reference.likelihood))[:, None]
    return gradient


# -- linear logits


class Linear(NamedTuple):
    """A linear classifier: ``z = W' x + b``.

    Parameters
    ----------
    W : ndarray of float, shape (d, k)
    b : ndarray of float, shape (k,)
    """

    W: np.ndarray
    b: np.ndarray

    @classmethod
    def zeros(cls, d, k, dtype=np.float32):
        """All categories equally probable everywhere."""
        return cls(np.zeros((d, k), dtype), np.zeros(k, dtype))

    @classmethod
    def of_vector(cls, vector, d, dtype=np.float32):
        """From W and b in one vector, of length (d + 1) k."""
        theta = np.asarray(vector).reshape(d + 1, -1).astype(dtype)
        return cls(theta[:-1], theta[-1])

    @property
    def vector(self):
        """W and b in one vector of float64."""
        return np.concatenate([self.W, self.b[None]]).astype(np.float64).ravel()

    @property
    def n_categories(self):
        """Number of categories, k."""
        return len(self.b)

    def columns(self, kept):
        """The same with some of the categories only."""
        return Linear(np.ascontiguousarray(self.W[:, kept]), np.ascontiguousarray(self.b[kept]))

    def logits(self, X):
        """``X W + b``, shape (b, k)."""
        found = X @ self.W
        found += self.b
        return found


def penalty(model, reg):
    """``R = reg |W|^2``; biases are free."""
    return float(reg * np.square(model.W, dtype=np.float64).sum())


def linear_information(X, model, weighting=EVERY_ROW, log_posterior=None):
    """Sums of a block of rows.

    Parameters
    ----------
    X : ndarray of float, shape (b, d)
    model : Linear
        Of the same dtype.
    weighting : Weighting
    log_posterior : ndarray of the same dtype, shape (b, k), optional
        Where to leave the logarithms of the posteriors.

    Returns
    -------
    sums : Information
    """
    total = None
    for rows in _tiles(len(X)):
        logs, posterior = log_softmax(model.logits(X[rows]))
        if log_posterior is not None:
            log_posterior[rows] = logs
        part = information(logs, posterior, weighting[rows])
        total = part if total is None else total + part
    return total


def linear_gradient(X, model, reference, weighting=EVERY_ROW, log_posterior=None):
    """Sum over a block of rows of ``(x_i, 1) (dF/dz_i)'``: products in the dtype of the rows, sums in float64.

    Parameters
    ----------
    X : ndarray of float, shape (b, d)
    model : Linear
        Of the same dtype.
    reference : Reference
    weighting : Weighting
    log_posterior : ndarray of the same dtype, shape (b, k), optional
        What :func:`linear_information` has left of the same classifier; the sum is the same bits with it as without.

    Returns
    -------
    gradient : ndarray of float64, shape (d + 1, k)
        Without the penalty's part.
    """
    total = np.zeros((X.shape[1] + 1, model.n_categories))
    for rows in _tiles(len(X)):
        logs = log_softmax(model.logits(X[rows]))[0] if log_posterior is None else log_posterior[rows].copy()
        gradient = logit_gradient(logs, np.exp(logs), reference, weighting[rows])
        total[:-1] += X[rows].T @ gradient
        total[-1] += gradient.sum(axis=0)
    return total


def penalised(gradient, model, reg):
    """dF/d(W, b) as one vector, from the sum over all blocks of :func:`linear_gradient`."""
    gradient = gradient.copy()
    gradient[:-1] -= 2 * reg * model.W
    return gradient.ravel()


def _tiles(b):
    return [slice(lo, min(lo + TILE_ROWS, b)) for lo in range(0, b, TILE_ROWS)]


# -- minibatches


class Aim(NamedTuple):
    """What is maximised.

    Parameters
    ----------
    reg : float
        Of ``reg |W|^2``.
    prior : None, ndarray or "power"
        See :func:`log_reference`.
    tau : float
    """

    reg: float
    prior: np.ndarray | str | None = None
    tau: float = 1.0


class Adam(NamedTuple):
    """A classifier on its way up, with the moments of its gradients [2]_.

    Parameters
    ----------
    model : Linear
    first, second : Linear
        Running means of the gradient and of its square.
    steps : int
        Done so far.

    References
    ----------
    .. [2] Kingma, Ba, "Adam: a method for stochastic optimization", ICLR 2015.
    """

    model: Linear
    first: Linear
    second: Linear
    steps: int = 0

    @classmethod
    def start(cls, model):
        """No step done."""
        nothing = Linear(np.zeros_like(model.W), np.zeros_like(model.b))
        return cls(model, nothing, nothing)

    def columns(self, kept):
        """The same with some of the categories only."""
        return Adam(self.model.columns(kept), self.first.columns(kept), self.second.columns(kept), self.steps)

    def step(self, gradient, rate, spread=1.0):
        """A step up of about ``rate / (sqrt(d) spread)`` in every weight, and of ``rate / sqrt(d)`` in every bias.

        With the spread of the columns, the logits of a row move by about `rate`, whatever the unit of the columns and
        their number.
        """
        steps = self.steps + 1
        unbias = [1 / (1 - beta**steps) for beta in _BETAS]
        found = []
        bias_rate = rate / np.sqrt(len(self.model.W))
        rates = (bias_rate / spread, bias_rate)
        for parameter, mean, square, slope, own in zip(*self[:3], gradient, rates, strict=True):
            dtype = parameter.dtype.type
            mean = mean + dtype(1 - _BETAS[0]) * (slope - mean)
            square = square + dtype(1 - _BETAS[1]) * (slope * slope - square)
            move = mean * dtype(own * unbias[0]) / (np.sqrt(square * dtype(unbias[1])) + dtype(1e-12))
            found.append((parameter + move, mean, square))
        model, first, second = (Linear(*pair) for pair in zip(*found, strict=True))
        return Adam(model, first, second, steps)


def spread(X):
    """Root mean square of the entries, never 0: the unit of centred rows."""
    return max(float(np.sqrt(np.einsum("ij,ij->", X, X, dtype=np.float64) / X.size)), 1e-12)


def batch_gradient(X, model, aim, weighting=EVERY_ROW, share=1.0):
    """Objective and gradient of one batch, with the batch's own mean posterior.

    Parameters
    ----------
    X : ndarray of float, shape (b, d)
        Thousands of rows: the fewer, the further the mean posterior is from that of all rows.
    model : Linear
    aim : Aim
    weighting : Weighting
    share : float
        Share of all rows that the batch is, by which the labelled ones in it stand for all of them.

    Returns
    -------
    F : float
    gradient : Linear
    mass : ndarray of float64, shape (k,)
        Summed posteriors.

    Notes
    -----
    A running mean in the place of the batch's own was worse: it is a stale one.
    """
    b, dtype = len(X), X.dtype
    posteriors = np.empty((2, b, model.n_categories), dtype)
    for rows in _tiles(b):  # what one tile needs stays in the cache
        posteriors[:, rows] = log_softmax(model.logits(X[rows]))
    log_posterior, posterior = posteriors
    sums = _batch_sums(log_posterior, posterior, weighting)
    sums = sums._replace(log_likelihood=sums.log_likelihood / share)
    reference = Reference.of(sums, aim.prior, aim.tau, 1 / share)
    slope = logit_gradient(log_posterior, posterior, reference, weighting)
    W = X.T @ slope
    W -= dtype.type(2 * aim.reg) * model.W
    return objective(sums, aim.prior, aim.tau) - penalty(model, aim.reg), Linear(W, slope.sum(axis=0)), sums.mass


def _batch_sums(log_posterior, posterior, weighting):
    weights = weighting.unlabelled(len(posterior), posterior.dtype)
    rows, labels, label_weights = weighting.labelled(len(posterior), posterior.dtype)
    likelihood = np.dot(label_weights, log_posterior[rows, labels])
    negentropy = np.dot(weights, np.einsum("ij,ij->i", posterior, log_posterior))
    found = (weights.sum(dtype=np.float64), weights @ posterior, negentropy, np.zeros(0), likelihood)
    return Information(*(np.asarray(f, np.float64) for f in found))


def cosine(done):
    """Factor of the learning rate when a share `done` of all steps is done: from 1 to 0."""
    return 0.5 * (1 + np.cos(np.pi * min(done, 1.0)))


# -- the start


def first_centers(X, k, seed, known=None):
    """k-means centres of a sample, categories to begin with; those that win no row are left out.

    Parameters
    ----------
    X : ndarray of float32, shape (m, d)
    k : int
        Centres, the known ones included.
    seed : int
    known : ndarray of float32, shape (l, d), optional
        Centres that are given and stay first and where they are, such as means of labelled classes.

    Returns
    -------
    centers : ndarray of float32, shape (at most k, d)
    labels : ndarray of int64, shape (m,)
    """
    n_known = 0 if known is None else len(known)
    centers = _spread(X, k, generator(seed, "first_centers"), known)
    for _ in range(LLOYD_STEPS):
        labels = _nearest(X, centers)
        sums = class_sums(X, labels, len(centers))
        means = sums[:, :-1] / np.maximum(sums[:, -1:], 1)
        means[:n_known] = centers[:n_known]
        kept = sums[:, -1] > 0
        kept[:n_known] = True
        centers = means[kept].astype(np.float32)
    labels = _nearest(X, centers)
    kept = np.bincount(labels, minlength=len(centers)) > 0
    kept[:n_known] = True
    return centers[kept], (np.cumsum(kept) - 1)[labels]


def _spread(X, k, rng, known):
    """Known centres, and rows drawn with a probability that grows with the squared distance from those before."""
    centers = [X[rng.integers(len(X))]] if known is None or not len(known) else list(known)
    distance = np.min([_squares(X, center) for center in centers], axis=0)
    while len(centers) < k and distance.sum() > 0:
        total = np.cumsum(distance, dtype=np.float64)
        row = X[min(np.searchsorted(total, rng.random() * total[-1], side="right"), len(X) - 1)]
        centers.append(row)
        np.minimum(distance, _squares(X, row), out=distance)
    return np.array(centers, np.float32)


def _squares(X, row):
    """Squared distances from one row, exactly 0 where they coincide."""
    apart = X - row
    return np.einsum("ij,ij->i", apart, apart)


def _nearest(X, centers):
    norms = np.einsum("ij,ij->i", centers, centers)
    return np.concatenate([(norms - 2 * (X[rows] @ centers.T)).argmin(axis=1) for rows in _tiles(len(X))])


def supervised_start(X, labels, k, reg):
    """A few steps of the supervised classifier towards given labels, from all categories equal.

    Parameters
    ----------
    X : ndarray of float32, shape (m, d)
    labels : ndarray of int, shape (m,)
    k : int
    reg : float

    Returns
    -------
    model : Linear
    """
    weighting = Weighting(np.full(len(X), 1 / len(X), np.float32), labels)
    nothing = Reference(np.zeros(k), 0.0)

    def loss(vector):
        model = Linear.of_vector(vector, X.shape[1])
        sums = linear_information(X, model, weighting)
        slope = linear_gradient(X, model, nothing, weighting)
        return penalty(model, reg) - float(sums.log_likelihood), -penalised(slope, model, reg)

    with threadpool_limits(limits=1):
        start = Linear.zeros(X.shape[1], k).vector
        found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": START_STEPS})
    return Linear.of_vector(found.x, X.shape[1])


# -- how strong, how many


class Point(NamedTuple):
    """A solution at one strength of the penalty.

    Parameters
    ----------
    number : int
        In the order in which they were found; -1 is the start.
    reg : float
    alive : int
    """

    number: int
    reg: float
    alive: int


UP, DOWN = 4.0, 8.0  # from one strength to the next, before there are two that enclose what is wanted
WALK = 12  # such steps at most
CLOSE = 1.1  # ratio of two strengths between which none is looked for
_MARGIN = 0.15  # of the way between two strengths, in logarithms, that a guess keeps from either


def find_strength(solve, n_clusters, reg):
    """The strength at which a number of categories stays alive, along a path on which each begins where one was.

    Parameters
    ----------
    solve : callable
        ``solve(reg, parent)`` returns the Point that is reached from a Point, or from the start if that is None.
    n_clusters : int
    reg : float
        To begin with.

    Returns
    -------
    point : Point or None
        With `n_clusters` alive; else the one with the fewest above; None if not even the start has so many.

    Notes
    -----
    Numbers alive fall about as a power of the strength, which is how the next strength is guessed. As every ascent
    begins with more categories than are wanted, and they do not come back, the path goes up only.
    """
    low, high = solve(reg, None), None
    for _ in range(WALK):
        if low.alive >= n_clusters:
            break
        low, high = solve(low.reg / DOWN, None), low
    if low.alive < n_clusters:
        return None
    best = low
    for _ in range(WALK):
        if best.alive == n_clusters or (high is not None and high.reg < CLOSE * low.reg):
            break
        found = solve(UP * low.reg if high is None else _between(low, high, n_clusters), low)
        if found.alive < n_clusters:
            high = found
        else:
            low, best = found, min(best, found, key=lambda point: point.alive)
    return best


def _between(low, high, n_clusters):
    """Strength at which a power law through two points has the number, not too near to either."""
    fallen = np.log(low.alive / high.alive) if high.alive else np.inf
    share = np.log(low.alive / n_clusters) / fallen
    return float(low.reg * (high.reg / low.reg) ** np.clip(share, _MARGIN, 1 - _MARGIN))


def refuse_collapse(n_alive, reg):
    """Raise CollapseError where a single category has taken every row."""
    if n_alive < 2:
        raise CollapseError(
            f"rim: at reg={reg:.3g} a single category has taken every row; use a smaller reg, such as {reg / 10:.1g}, "
            "or give n_clusters, for which one is found"
        )


def refuse_divergence(value, before, rate):
    """Raise CollapseError where steps have led nowhere, or down."""
    if not np.isfinite(value):
        raise CollapseError(
            f"rim: the objective became {value} at learning_rate={rate:g}; use a smaller one, such as {rate / 10:g}, "
            "and look for extreme rows"
        )
    if value < before - 0.05 * max(abs(before), 1.0):
        raise CollapseError(
            f"rim: the objective fell from {before:.4g} to {value:.4g} at learning_rate={rate:g}; use a smaller one, "
            f"such as {rate / 10:g}"
        )
